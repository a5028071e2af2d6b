//! The table of supported options: each row has an option's name, default, parser, setter and meaning.
//!
//! A row parses the value and sets the field of the [`Job`]; command lines, job files, the help and `docs/fio.md` all
//! read the table.

use super::content::BytePattern;
use super::early_end::SteadyCriterion;
use super::engine_kind::EngineKind;
use super::exit::ExitWhat;
use super::job::{DEPTH_MAX, JOBS_MAX, Job};
use super::parse::{
    OptionValue, cpus, cpus_of_mask, cpus_of_nodes, distributions, file_order, file_sizes,
    filenames, kb_base, latency_percentile, log_path, memory_nodes, memory_policy_of_machine,
    parse_word, percentiles, positive, power_of_two, random_percents, read_write, size_range,
    size_split, unless_zero, write_back, zone_mode,
};
use super::pattern::Sizes;
use super::priority::{self, CLASS, HINT, LEVEL};
use super::rates::{RateTarget, set_targets};
use super::value::{MICROSECONDS, NumberUnit, SECONDS, Size, number};
use super::verify::method::Method;
use sys::op::WriteSync;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// 0 or 1; the option alone means 1.
    Bool,
    /// Any other value; the option alone means 1.
    Value,
    /// The beginning of the names of logs; the option alone means the name of the job.
    Prefix,
}

#[derive(Debug)]
pub struct KnownOption {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub kind: ValueKind,
    /// Default value, as the help and the documentation show it.
    pub default: &'static str,
    /// Meaning, as the help and the documentation show it.
    pub meaning: &'static str,
    /// Parses a value and sets the field of a job.
    setter: fn(&mut Job, OptionValue<'_>) -> Result<(), String>,
}

impl KnownOption {
    /// Applies the option with the value `text`, or alone.
    pub(super) fn apply(&self, job: &mut Job, text: Option<&str>) -> Result<(), String> {
        let alone = if self.kind == ValueKind::Prefix {
            ""
        } else {
            "1"
        };
        let kb_base = job.kb_base;
        (self.setter)(
            job,
            OptionValue {
                text: text.unwrap_or(alone),
                kb_base,
            },
        )
    }
}

fn parse_and_set<T>(
    job: &mut Job,
    value: OptionValue<'_>,
    parse: impl Fn(OptionValue<'_>) -> Result<T, String>,
    set: impl Fn(&mut Job, T),
) -> Result<(), String> {
    set(job, parse(value)?);
    Ok(())
}

/// Declares each option: `"name" ["alias"] kind = "default", parser => setter; "meaning"`.
macro_rules! known {
    ($($name:literal $([$($alias:literal),+])? $kind:ident = $default:literal, $parse:expr => $set:expr; $meaning:literal)+) => {
        &[$(KnownOption {
            name: $name,
            aliases: &[$($($alias),+)?],
            kind: ValueKind::$kind,
            default: $default,
            meaning: $meaning,
            setter: |job, value| parse_and_set(job, value, $parse, $set),
        },)+]
    };
}

/// The supported options, in the order of fio's manual.
pub(super) static KNOWN: &[KnownOption] = known! {
    "name" Value = "section", text => |job, name| job.name = name;
        "name of the job in reports, logs and wait_for; the default device and files, and `$jobname`, have the name of the section. On the command line, --name begins a new job, and is also the name of its section"
    "description" Value = "none", text => |job, text| job.description = text;
        "free text"
    "filename" Value = "JOB.NUMBER.FILE", of_text(filenames) => |job, names| job.files.names.extend(names);
        "devices, files or simulated drives (`sim:...`), separated by `:` (`\\:` within a name); further `filename` options of the job and of [global] add names; operations use the devices or files in turn"
    "directory" Value = "here", of_text(filenames) => |job, paths| job.files.directories = paths;
        "directory of files whose name does not begin with `/`; with several directories, `a:b`, the clones of a job without filename use these in turn, and files of filename are in the first"
    "nrfiles" ["nr_files"] Value = "1", count(1, 1_024) => |job, files| job.files.count = files;
        "number of files of each job without filename"
    "filename_format" Value = "$jobname.$jobnum.$filenum", text => |job, format| job.files.name_format = format;
        "names of the files of each job without filename"
    "rw" ["readwrite"] Value = "read", read_write => Job::set_read_write;
        "`read`, `write`, `trim`, `randread`, `randwrite`, `randtrim`, `rw`, `randrw`; `trimwrite`, `randtrimwrite`: each trim is followed by a write at the same offset, at the rate of the trims. `write:4k` skips 4 KiB after each write, `read:-8k` with `bs=4k` reads backwards, `randread:8` picks a random offset for every 8th operation and is sequential in between"
    "percentage_random" Value = "100", random_percents => |job, percents| job.order.random_pct = percents;
        "percent of a random job's operations that are at random offsets; the others are sequential"
    "ioengine" Value = "io_uring", of_text(EngineKind::parse) => |job, (name, kind)| (job.ioengine, job.engine) = (Some(name), kind);
        "`io_uring`, `libaio`, `posixaio`: all three run on io_uring; `sync`, `psync`, `vsync`, `pvsync`, `pvsync2`: system calls, one at a time, with a thread for each clone; `mmap`: page faults on the mapped file or device, with a thread for each clone, see above; `io_uring_cmd`: NVMe commands that bypass the block layer, on the namespace of `/dev/ng0n1` or `/dev/nvme0n1`, always with direct=1; `null`: a simulated drive that answers after 1 us, so the result measures no device"
    "cmd_type" Value = "nvme", word(&[("nvme", ())]) => |_, ()| {};
        "type of the commands of ioengine=io_uring_cmd: only `nvme`"
    "iodepth" Value = "1", count(1, DEPTH_MAX) => |job, depth| job.depth = depth;
        "maximum number of operations of a job in flight; waits at this limit are attributed to the configuration, not to the drive"
    "iodepth_low" Value = "iodepth", count(0, DEPTH_MAX) => |job, low| job.refill.low = unless_zero(low).unwrap_or(u64::MAX);
        "when iodepth is reached, the job issues again only after its operations in flight have drained to this number"
    "iodepth_batch_complete_min" ["iodepth_batch_complete"] Value = "1", count(0, DEPTH_MAX) => |job, completions| job.refill.after = completions;
        "when iodepth is reached, the job issues again only after this many completions"
    "size" Value = "whole device or file", size => |job, size| job.size = size.unless_zero();
        "how much of each device or file is used, in bytes or percent; without time_based and io_size also the number of bytes that a job transfers"
    "io_size" ["io_limit"] Value = "size", size => |job, size| job.io_size = size.unless_zero();
        "bytes that a job transfers before it ends"
    "filesize" Value = "size", file_sizes => |job, sizes| job.files.sizes = Some(sizes);
        "size of new files, and limit of the range that a job uses in each file; of a range such as `2m-6m`, one size is drawn for the job's files"
    "offset" ["fileoffset"] Value = "0", size => |job, offset| job.offset = offset;
        "start of the used range, in bytes or percent"
    "offset_increment" Value = "0", size => |job, increment| job.offset_increment = increment;
        "added to offset for each further clone of numjobs"
    "fallocate" Value = "native", word(FALLOCATE) => |job, sparse| job.files.sparse = sparse;
        "`native`, `posix` and `keep` allocate the blocks of a new file before the run; with `none` and `truncate` the writes allocate them"
    "overwrite" Bool = "0", boolean => |job, overwrite| job.files.overwrite = overwrite;
        "1: missing files are written once before the run"
    "invalidate" Bool = "1", boolean => |job, invalidates| job.files.keeps_cache = !invalidates;
        "1: drops the page cache of a file or device at the start and, as in fio, before each further pass of a job that reads its part (not with ioengine=mmap); 0: keeps the cached pages of a file"
    "pre_read" Bool = "0", boolean => |job, pre_reads| job.files.pre_reads = pre_reads;
        "1: reads the job's part of each file into the page cache before the job begins; implies invalidate=0; cannot be combined with direct=1"
    "file_append" Bool = "0", boolean => |job, appends| job.files.appends = appends;
        "1: writes begin at the current end of each file, and offset is ignored; size is the number of bytes added to each file. No effect on devices"
    "create_only" Bool = "0", boolean => |job, only| job.files.creates_only = only;
        "1: creates the files, writes them once if they are to be read, and does nothing else"
    "fill_device" ["fill_fs"] Bool = "0", boolean => |job, fills| job.fills_device = fills;
        "1: writes the whole device, or the whole file of filesize, and ignores size; does not fill a file system"
    "number_ios" Value = "none", count(0, u64::MAX) => |job, ops| job.number_ios = unless_zero(ops);
        "number of operations after which a job ends; multiplied by `loops`"
    "bs" ["blocksize"] Value = "4k", each(Sizes::same(4096), |part| part.block_bytes().map(Sizes::same)) => |job, sizes| job.sizes = sizes;
        "bytes per operation, or separate values for reads, writes, trims: `8k`, `8k,32k`, `8k,,64k`"
    "ba" ["blockalign"] Value = "smallest bs", each(None, |part| positive(part.count(0, u64::MAX)?).map(Some)) => |job, align| job.order.align = align;
        "random offsets are multiples of this"
    "bsrange" ["blocksize_range"] Value = "none", each(Sizes::same(4096), size_range) => |job, sizes| job.sizes = sizes;
        "random sizes from a range, or from separate ranges for reads, writes, trims: `4k-16k,8k-32k`, also `4k:16k`. All multiples of the lower end of the range are equally likely"
    "bssplit" Value = "none", each(Sizes::same(4096), size_split) => |job, sizes| job.sizes = sizes;
        "sizes with percentages: `4k/10:64k/50:32k/`; sizes without a percentage share the remainder. If all have one, the largest gets the remainder"
    "randrepeat" ["allrandrepeat"] Bool = "1", boolean => |job, repeats| job.randrepeat = repeats;
        "1: the same random offsets in each run; 0: different offsets"
    "randseed" Value = "none", count(0, u64::MAX) => |job, seed| job.randseed = Some(seed);
        "seed of all random choices (fio's choices for the same seed differ)"
    "norandommap" Bool = "0", boolean => |job, has_none| job.order.norandommap = has_none;
        "1: random offsets can repeat before each block was used once"
    "random_generator" Value = "tausworthe64", word(&[("tausworthe", false), ("tausworthe64", false), ("lfsr", true)]) => |job, lfsr| job.order.lfsr = lfsr;
        "`tausworthe`, `tausworthe64`, `lfsr` are accepted; flashproof has its own generator. With `lfsr` each block is used once even with norandommap"
    "random_distribution" Value = "random", distributions => |job, distribution| job.order.distribution = distribution;
        "`random`, `zipf:THETA`, `pareto:H`, `normal:PERCENT`, `zoned:ACCESS/SIZE:...`, `zoned_abs:ACCESS/SIZE:...`, with zones for reads, writes, trims after a comma; all but `random` imply norandommap"
    "file_service_type" Value = "roundrobin", file_order => |job, (order, ops)| (job.files.order, job.files.ops) = (order, ops);
        "`roundrobin`: files in turn; `random`: a random file for each operation; `sequential`: one file after the other. `roundrobin:8`, `random:8`: 8 operations before the next file"
    "fsync" Value = "0", count(0, u64::MAX) => |job, writes| job.flush.every[0] = writes;
        "fsync(2) after this many writes, reported as sync"
    "fdatasync" Value = "0", count(0, u64::MAX) => |job, writes| job.flush.every[1] = writes;
        "fdatasync(2) after this many writes, reported as sync; if fsync is due too, only fsync is called"
    "sync_file_range" Value = "none", of_text(write_back) => |job, (flags, writes)| (job.flush.write_back, job.flush.every[2]) = (flags, writes);
        "sync_file_range(2) after this many writes, on the range of these writes, reported as sync: `wait_before,write:8` with any of the flags `wait_before`, `write`, `wait_after`; not on simulated drives"
    "end_fsync" Bool = "0", boolean => |job, at_end| job.flush.at_end = at_end;
        "1: fsync(2) of each file after the last operation of a job has completed"
    "fsync_on_close" Bool = "0", boolean => |job, at_end| job.flush.at_end = at_end;
        "same as end_fsync"
    "direct" Bool = "0", boolean => |job, direct| job.direct = direct;
        "1: bypasses the page cache; 0: uses the page cache, which is then part of what is measured"
    "buffered" Bool = "1", boolean => |job, buffered| job.direct = !buffered;
        "opposite of direct"
    "numjobs" Value = "1", count(1, JOBS_MAX) => |job, clones| job.numjobs = clones;
        "clones of a job that run at the same time, on at most one thread per CPU; threads are pinned if there is one thread per CPU and no job has a rate. With a synchronous ioengine each clone has its own thread"
    "cpus_allowed" Value = "all", of_text(cpus) => |job, cpus| job.cpus = cpus;
        "CPUs of the issuing threads: `0,2-5`. Jobs with the same set share up to one thread per CPU of the set, and share no thread with other jobs; no effect on simulated drives"
    "cpumask" Value = "all", |value| cpus_of_mask(number(value.text, NumberUnit::Plain)?) => |job, cpus| job.cpus = cpus;
        "same as cpus_allowed, as a bit mask: 5 means CPUs 0 and 2"
    "cpus_allowed_policy" Value = "shared", word(&[("shared", false), ("split", true)]) => |job, splits| job.splits_cpus = splits;
        "`shared`: a clone can use any CPU of the set; `split`: one CPU per clone, round-robin"
    "runtime" ["timeout"] Value = "none", seconds => |job, ns| job.runtime_ns = unless_zero(ns);
        "maximum duration in seconds, also `1.5` or `500ms`"
    "startdelay" Value = "0", seconds => |job, ns| job.start_delay_ns = ns;
        "seconds from the start of the first run until the job may begin, as in fio also after a stonewall; runtime counts from when the job begins"
    "time_based" Bool = "0", boolean => |job, repeats| job.time_based = repeats;
        "1: repeats size until runtime is over; no effect without runtime"
    "ramp_time" Value = "0", seconds => |job, ns| job.ramp_ns = ns;
        "warm-up that is not counted, in seconds, also `250ms`; must be equal for jobs that run at the same time"
    "loops" Value = "1", count(0, u64::MAX) => |job, loops| job.loops = loops.max(1);
        "repeats size or io_size this many times"
    "rwmixread" Value = "50", count(0, 100) => |job, percent| job.read_pct = percent;
        "percent of reads; as in fio, without effect on reads or writes that have a rate"
    "rwmixwrite" Value = "50", count(0, 100) => |job, percent| job.read_pct = 100 - percent;
        "percent of writes"
    "thinktime" Value = "0", time(MICROSECONDS) => |job, ns| job.think.pause_ns = ns;
        "pause in microseconds, after all operations in flight have completed; with a rate, when the last operation before the pause is due"
    "thinktime_blocks" Value = "1", count(0, u64::MAX) => |job, blocks| job.think.blocks = unless_zero(blocks);
        "number of operations between two pauses; also the maximum number of operations in flight"
    "thinktime_blocks_type" Value = "complete", word(&[("complete", ()), ("issue", ())]) => |_, ()| {};
        "`complete`, `issue`: with both values, issued operations are counted"
    "thinktime_iotime" Value = "0", time(SECONDS) => |job, ns| job.think.work_ns = ns;
        "seconds between two pauses; if thinktime_blocks is given too, the limit that is reached first applies"
    "thinktime_spin" Value = "0", time(MICROSECONDS) => |job, ns| job.think.spin_ns = ns;
        "microseconds of the pause in which fio spins; flashproof sleeps instead, for at least this long"
    "latency_target" Value = "none", time(MICROSECONDS) => |job, ns| job.latency_target.latency_ns = ns;
        "microseconds: finds the greatest depth, up to iodepth, at which latencies stay below this value, measures at that depth, and ends. Not for clones that are reported together"
    "latency_window" Value = "0", time(MICROSECONDS) => |job, ns| job.latency_target.window_ns = ns;
        "duration of the test of each depth, in microseconds"
    "latency_percentile" Value = "100", of_text(latency_percentile) => |job, percentile| job.latency_target.percentile = percentile;
        "percent of the operations that must stay below latency_target"
    "max_latency" Value = "none", each(0, time(MICROSECONDS)) => |job, all| job.latency_max_ns = all.map(|ns| unless_zero(ns).unwrap_or(u64::MAX));
        "microseconds, for reads, writes, trims: after a slower operation the job ends and fails"
    "rate" Value = "none", each(0, count(0, u64::MAX)) => |job, rates| set_targets(&mut job.rates.targets, rates, RateTarget::Bytes);
        "bytes per second, for reads, writes, trims: an open loop, see above; 0: no rate"
    "rate_iops" Value = "none", each(0, count(0, u64::MAX)) => |job, rates| set_targets(&mut job.rates.targets, rates, RateTarget::Iops);
        "operations per second, for reads, writes, trims: an open loop, see above; 0: no rate. With several block sizes fio converts this rate to bytes by the smallest size, and issues fewer operations; flashproof issues this many"
    "rate_min" ["ratemin"] Value = "none", each(0, count(0, u64::MAX)) => |job, rates| set_targets(&mut job.rates.min, rates, RateTarget::Bytes);
        "minimum bytes per second, for reads, writes, trims: if the rate of a `rate_cycle` is lower, the job ends and fails; the job's first 2 s are ignored"
    "rate_iops_min" Value = "none", each(0, count(0, u64::MAX)) => |job, rates| set_targets(&mut job.rates.min, rates, RateTarget::Iops);
        "same as rate_min, in operations per second"
    "rate_cycle" ["ratecycle"] Value = "1000", count(0, 3_600_000) => |job, ms| job.rates.cycle_ns = ms * 1_000_000;
        "milliseconds over which rate_min is checked"
    "rate_process" Value = "linear", word(&[("linear", false), ("poisson", true)]) => |job, poisson| job.rates.poisson = poisson;
        "`linear`: evenly spaced; `poisson`: exponential gaps. With several block sizes, flashproof divides `rate` by the mean size, as without poisson; fio divides it by the smallest size, and moves more bytes per second than `rate`"
    "rate_ignore_thinktime" Bool = "0", boolean => |job, ignores| job.rates.ignores_thinktime = ignores;
        "0: after a pause of thinktime the operations that became due are issued at once, to keep the rate; 1: each pause delays all later operations"
    "zonemode" Value = "none", of_text(zone_mode) => |job, is_strided| job.zones.mode_is_strided = Some(is_strided);
        "`strided`: operations stay in a window, which advances after zonesize bytes; default if zonesize is given"
    "zonesize" Value = "none", size => |job, size| job.zones.size = size.unless_zero();
        "bytes of operations in each window, or percent of the device or file"
    "zonerange" Value = "zonesize", size => |job, size| job.zones.range = size.unless_zero();
        "length of the window of zonemode=strided"
    "zoneskip" Value = "0", size => |job, size| job.zones.skip = size.unless_zero();
        "bytes between the end of a window and the beginning of the next window; after the last window the first window follows"
    "steadystate" ["ss"] Value = "none", of_text(SteadyCriterion::parse) => |job, criterion| job.steady.criterion = Some(criterion);
        "`iops:10%`, `bw:LIMIT`, `lat:LIMIT`: the job ends when all intervals are within this limit of their mean; `iops_slope:1%` and so on: the job ends when the trend of the intervals is flatter than this limit. Clones that are reported together are measured together"
    "steadystate_duration" ["ss_dur"] Value = "none", time(SECONDS) => |job, ns| job.steady.duration_ns = ns;
        "time for which the job must be steady, in seconds"
    "steadystate_ramp_time" ["ss_ramp"] Value = "0", time(SECONDS) => |job, ns| job.steady.ramp_ns = ns;
        "warm-up before steadystate_duration, in seconds"
    "prioclass" Value = "none", priority::part(CLASS) => |job, class| job.priority.job[CLASS] = class;
        "I/O priority of all operations: 1 real-time, 2 best-effort, 3 idle (ioprio_set(2)); no effect on simulated drives"
    "prio" Value = "0", priority::part(LEVEL) => |job, level| job.priority.job[LEVEL] = level;
        "level within the class, from 0 (highest) to 7"
    "priohint" Value = "0", priority::part(HINT) => |job, hint| job.priority.job[HINT] = hint;
        "hint for the device: 0 to 1023"
    "cmdprio_percentage" Value = "0", priority::percentages => |job, shares| job.priority.by_percentage = shares;
        "percent of the operations that get the priority of cmdprio_class, cmdprio and cmdprio_hint; separate values for reads, writes"
    "cmdprio_class" Value = "1", priority::part_of_commands(CLASS) => |job, classes| job.priority.set_commands(CLASS, classes);
        "I/O priority class of the operations of cmdprio_percentage"
    "cmdprio" Value = "0", priority::part_of_commands(LEVEL) => |job, levels| job.priority.set_commands(LEVEL, levels);
        "I/O priority level of the operations of cmdprio_percentage"
    "cmdprio_hint" Value = "0", priority::part_of_commands(HINT) => |job, hints| job.priority.set_commands(HINT, hints);
        "I/O priority hint of the operations of cmdprio_percentage"
    "cmdprio_bssplit" Value = "none", priority::size_shares => |job, shares| job.priority.by_size = shares;
        "cmdprio_percentage by operation size, for reads, writes: `64k/25:1m/75`, or with class, level and hint `64k/25/1/0:64k/75/3/2/1`"
    "numa_cpu_nodes" Value = "all", |value| cpus_of_nodes(value.text, memory_nodes) => |job, cpus| job.cpus = cpus;
        "NUMA nodes of the issuing threads: `0,1`; same as cpus_allowed with the CPUs of these nodes"
    "numa_mem_policy" Value = "default", of_text(memory_policy_of_machine) => |_, ()| {};
        "`default`, `local`; on a machine with one NUMA node, where all policies are equal, also `bind:0`, `prefer:0`, `interleave:0`"
    "wait_for" Value = "none", text => |job, name| job.waits_for = Some(name);
        "name of the jobs that must end before this job begins; this job is then in a later run. Refused if the named jobs run at the same time as jobs with another name"
    "sync" Value = "none", word(SYNC) => |job, sync| job.sync = sync;
        "each write is on the medium when it completes: `dsync` as with O_DSYNC; `sync`, `1` as with O_SYNC, with all metadata of the file"
    "stonewall" ["wait_for_previous"] Bool = "0", boolean => |job, waits| job.stonewall = waits;
        "waits until all earlier jobs have ended; the job is then in a later run"
    "new_group" Bool = "0", boolean => |job, begins| job.new_group = begins;
        "begins a new reporting group"
    "group_reporting" Bool = "0", boolean => |job, together| job.group_reporting = together;
        "reports the jobs of a group as one"
    "exitall" Bool = "0", boolean => |job, ends| job.exit.all = ends;
        "the jobs of a group end as soon as one of them has ended"
    "exitall_on_error" Bool = "0", boolean => |job, ends| job.exit.all_on_error = ends;
        "1: the jobs of exit_what end as soon as an operation of this job fails, or this job misses its goal"
    "exit_what" Value = "group", word(&[("group", ExitWhat::Group), ("stonewall", ExitWhat::Stonewall), ("all", ExitWhat::All)]) => |job, what| job.exit.what = what;
        "the jobs that exitall ends: `group`: jobs of the same group; `stonewall`: all jobs that run at the same time; `all`: these jobs and all later jobs"
    "write_bw_log" Prefix = "none", text => |job, prefix| job.log.prefixes[0] = Some(prefix);
        "writes PREFIX_bw.JOB.log, in KiB/s"
    "write_lat_log" Prefix = "none", text => |job, prefix| job.log.prefixes[1] = Some(prefix);
        "writes PREFIX_clat.JOB.log and PREFIX_lat.JOB.log, in ns; PREFIX_slat.JOB.log is empty"
    "write_iops_log" Prefix = "none", text => |job, prefix| job.log.prefixes[2] = Some(prefix);
        "writes PREFIX_iops.JOB.log"
    "write_hist_log" Prefix = "none", text => |job, prefix| job.log.hist_prefix = Some(prefix);
        "writes PREFIX_clat_hist.JOB.log: counts of latencies in fio's 1,856 bins"
    "log_hist_msec" Value = "0", count(0, 3_600_000) => |job, ms| job.log.hist_msec = ms;
        "interval of write_hist_log in milliseconds; write_hist_log needs it"
    "log_hist_coarseness" Value = "0", count(0, 6) => |job, bits| job.log.hist_coarseness = bits;
        "N from 0 to 6: merges 2^N bins into one"
    "write_iolog" Value = "none", text => |job, path| job.write_iolog = Some(path);
        "writes each operation to this file, in version 3 of fio's log format, for read_iolog"
    "read_iolog" Value = "none", of_text(log_path) => |job, path| job.replay.file = Some(path);
        "replays the operations of this log of fio (log format 2 or 3) instead of rw, bs, size and filename. If the log has times, operations start at these times (open loop). For traces of blktrace: flashproof storage --replay"
    "replay_no_stall" Bool = "0", boolean => |job, no_stall| job.replay.no_stall = no_stall;
        "1: ignores the log's times and replays as fast as iodepth allows"
    "replay_redirect" Value = "none", text => |job, name| job.replay.redirect = Some(name).filter(|name| !name.is_empty());
        "device or file for all operations of the log"
    "replay_align" Value = "1", power_of_two => |job, bytes| job.replay.align = bytes;
        "offsets are rounded down to multiples of this power of two"
    "replay_scale" Value = "1", count(0, u64::MAX) => |job, scale| job.replay.scale = scale.max(1);
        "offsets are divided by this"
    "log_unix_epoch" Bool = "0", boolean => |job, unix| job.log.unix_epoch = unix;
        "1: times in logs are milliseconds since 1970"
    "log_window_value" ["log_max_value"] Value = "avg", word(LOG_VALUES) => |job, values| job.log.values = values;
        "value in a line of a latency log: `avg` (or `0`): mean of the period; `max` (or `1`): maximum; `both`: mean, then maximum"
    "log_issue_time" Bool = "0", boolean => |job, has_time| job.log.issue_time = has_time;
        "1: adds the time of issue of each operation to the latency logs, in nanoseconds since the measurement began; 0 in lines that average, and in other logs"
    "log_avg_msec" Value = "0", count(0, 3_600_000) => |job, ms| job.log.avg_msec = ms;
        "milliseconds that each line of the bandwidth, latency and IOPS logs averages; 0: one line per operation"
    "log_offset" Bool = "0", boolean => |job, has_offset| job.log.offset = has_offset;
        "1: adds the offset of each operation to the bandwidth, latency and IOPS logs"
    "log_prio" Bool = "0", boolean => |job, has_priority| job.log.priority = has_priority;
        "1: the bandwidth, latency and IOPS logs have the I/O priority of each operation, such as 0x2001; 0: these logs have 1 for the real-time class, and 0 otherwise"
    "per_job_logs" Bool = "1", boolean => |job, per_job| job.log.per_job = per_job;
        "0: the names of logs have no job number"
    "zero_buffers" Bool = "0", boolean => |job, zeros| (job.content.zeros, job.content.pattern) = (zeros, None);
        "writes zeros"
    "refill_buffers" Bool = "0", boolean => |_, _| {};
        "new data for each write; flashproof always does this"
    "buffer_pattern" Value = "none", |value| BytePattern::parse(value.text, false) => |job, pattern| (job.content.zeros, job.content.pattern) = (false, Some(pattern));
        "pattern to write: `\"strings\"`, numbers and `0xhex`, concatenated"
    "buffer_compress_percentage" Value = "0", count(0, 100) => |job, percent| job.content.compress_pct = percent;
        "percent of each chunk that is zeros or buffer_pattern"
    "buffer_compress_chunk" Value = "smallest bs", count(0, 1 << 30) => |job, bytes| job.content.chunk_bytes = bytes;
        "size of the chunks of buffer_compress_percentage, in bytes"
    "dedupe_percentage" Value = "0", count(0, 100) => |job, percent| job.content.dedupe_pct = percent;
        "percent of writes whose data repeats the data of other writes"
    "dedupe_mode" Value = "repeat", word(&[("repeat", false), ("working_set", true)]) => |job, from_set| job.content.dedupe_from_set = from_set;
        "`repeat`: data of the previous write; `working_set`: data of a random write from the working set, which has 5 % of size"
    "verify" Value = "none", of_text(Method::parse) => |job, method| job.verify.method = method;
        "reads written blocks back at the end and compares them; a job that only reads compares the data that it reads. Methods: `crc32c`, `crc32c-intel`, `crc32`, `md5`, `sha256`, `sha512`, `xxhash`; `meta`: checks the header alone; `pattern`: compares with verify_pattern, blocks have no header; `pattern_hdr`: as `pattern`, with headers; `null`: no check"
    "verify_pattern" Value = "none", |value| BytePattern::parse(value.text, true) => |job, pattern| job.verify.set_pattern(pattern);
        "data of verified writes, in the form of buffer_pattern; `%o` stands for the offset of the write"
    "verify_interval" Value = "bs", count(0, 1 << 30) => |job, bytes| job.verify.interval = unless_zero(bytes);
        "size of a verify block (default and maximum: the greatest common divisor of all write sizes); each verify block has its own header"
    "do_verify" Bool = "1", boolean => |job, reads_back| job.verify.reads_back = reads_back;
        "0: writes are not read back"
    "verify_only" Bool = "0", boolean => |job, only| job.verify.only = only;
        "1: only verifies: reads and compares what an earlier run of the same job wrote"
    "verify_fatal" Bool = "0", boolean => |job, is_fatal| job.verify.is_fatal = is_fatal;
        "1: the job ends at the first wrong block"
    "verify_dump" Bool = "0", boolean => |job, dumps| job.verify.dumps = dumps;
        "1: writes each wrong block to FILE.OFFSET.received, and the right block, if it can be computed, to FILE.OFFSET.expected"
    "verify_backlog" Value = "0", count(0, 1 << 24) => |job, writes| job.verify.backlog = writes;
        "reads back after every N writes instead of only at the end"
    "verify_backlog_batch" Value = "verify_backlog", count(0, 1 << 24) => |job, writes| job.verify.batch = writes;
        "number of writes that each read-back of verify_backlog covers"
    "verify_state_save" Bool = "if ended early", boolean => |job, saves| job.verify.saves_state = Some(saves);
        "1: saves the progress of the writes in local-JOB-NUMBER-verify.state"
    "verify_state_load" Bool = "0", boolean => |job, loads| job.verify.loads_state = loads;
        "1: reads back only the blocks that local-JOB-NUMBER-verify.state lists as written"
    "clat_percentiles" Bool = "1", boolean => |job, has| job.percentiles_of[0] = has;
        "percentiles of completion latencies"
    "lat_percentiles" Bool = "0", boolean => |job, has| job.percentiles_of[1] = has;
        "percentiles of total latencies"
    "percentile_list" Value = "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99", of_text(percentiles) => |job, list| job.percentiles = list;
        "percentiles to report, up to 20"
    "kb_base" Value = "1024", of_text(kb_base) => |job, base| job.kb_base = base;
        "value of `k`: 1024 or 1000"
};

/// True if the writes allocate the blocks of new files.
const FALLOCATE: &[(&str, bool)] = &[
    ("native", false),
    ("posix", false),
    ("keep", false),
    ("1", false),
    ("truncate", true),
    ("none", true),
    ("0", true),
];

const SYNC: &[(&str, WriteSync)] = &[
    ("none", WriteSync::No),
    ("dsync", WriteSync::Data),
    ("sync", WriteSync::File),
    ("0", WriteSync::No),
    ("1", WriteSync::File),
];

/// For the mean and for the maximum: true if log lines have it.
const LOG_VALUES: &[(&str, [bool; 2])] = &[
    ("avg", [true, false]),
    ("max", [false, true]),
    ("both", [true, true]),
    ("0", [true, false]),
    ("1", [false, true]),
];

fn text(value: OptionValue<'_>) -> Result<String, String> {
    Ok(value.text.to_owned())
}

fn boolean(value: OptionValue<'_>) -> Result<bool, String> {
    value.boolean()
}

fn count(min: u64, max: u64) -> impl Fn(OptionValue<'_>) -> Result<u64, String> {
    move |value| value.count(min, max)
}

fn size(value: OptionValue<'_>) -> Result<Size, String> {
    value.size()
}

/// A time in seconds if it has no unit; at most `u32::MAX` seconds. The result is in nanoseconds.
fn seconds(value: OptionValue<'_>) -> Result<u64, String> {
    value.seconds_ns()
}

/// A time in nanoseconds. `unit`: the unit of a number without a suffix.
fn time(unit: NumberUnit) -> impl Fn(OptionValue<'_>) -> Result<u64, String> {
    move |value| number(value.text, unit)
}

fn word<T: Copy>(
    words: &'static [(&'static str, T)],
) -> impl Fn(OptionValue<'_>) -> Result<T, String> {
    move |value| parse_word(value.text, words)
}

/// A value without suffixes of sizes, so that `kb_base` does not matter.
fn of_text<T>(
    parse: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(OptionValue<'_>) -> Result<T, String> {
    move |value| parse(value.text)
}

/// A value for each direction; an empty value is `default`.
fn each<T: Clone>(
    default: T,
    parse: impl Fn(OptionValue<'_>) -> Result<T, String>,
) -> impl Fn(OptionValue<'_>) -> Result<[T; 3], String> {
    move |value| value.by_direction(default.clone(), &parse)
}
