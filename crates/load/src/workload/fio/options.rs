//! fio's options: one table for the parser, the help and `docs/fio.md`.
//!
//! The table has every option of fio 3.41: supported ones, ones without effect here, and unsupported ones with the load
//! that would run without them.

use crate::workload::act::table::similar;
use results::units;
use std::fmt::Write;

/// Type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 0 or 1; the option alone means 1.
    Bool,
    /// Any other value.
    Value,
}

/// A supported option.
#[derive(Debug)]
pub struct Known {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub kind: Kind,
    /// Default value.
    pub default: &'static str,
    /// Meaning, for people.
    pub meaning: &'static str,
}

/// Support for an option.
#[derive(Debug, Clone, Copy)]
pub enum Support {
    /// Supported.
    Known(&'static Known),
    /// Accepted without effect, with the reason.
    NoDifference(&'static str),
    /// Unsupported, with the load that would run without it.
    Missing(&'static str),
}

macro_rules! known {
    ($($name:literal $([$($alias:literal),+])? $kind:ident = $default:literal: $meaning:literal,)+) => {
        &[$(Known { name: $name, aliases: &[$($($alias),+)?], kind: Kind::$kind, default: $default, meaning: $meaning },)+]
    };
}

/// The supported options, in the order of fio's manual.
pub static KNOWN: &[Known] = known! {
    "name" Value = "section": "what the job is called; on the command line it begins a job",
    "description" Value = "none": "a text of the user's",
    "filename" Value = "JOB.NUMBER.FILE": "devices, files or simulated drives (`sim:...`), with `:` between (`\\:` within a name); their operations take turns",
    "directory" Value = "here": "where files without a `/` at their beginning are",
    "nrfiles" ["nr_files"] Value = "1": "files of each job, where no filename is given",
    "filename_format" Value = "$jobname.$jobnum.$filenum": "names of files of each job, where no filename is given",
    "rw" ["readwrite"] Value = "read": "`read`, `write`, `trim`, `randread`, `randwrite`, `randtrim`, `rw`, `randrw`; `trimwrite`, `randtrimwrite`: each trim is followed by a write of the same place, at the rate of the trims. `write:4k` leaves out 4 KiB after each, `read:-8k` with `bs=4k` reads backwards, of `randread:8` seven follow the one before",
    "percentage_random" Value = "100": "percent of operations at random places that are; the others follow the one before",
    "ioengine" Value = "io_uring": "`io_uring`, `libaio`, `posixaio`: io_uring; `sync`, `psync`, `vsync`, `pvsync`, `pvsync2`: system calls, one at a time, on a thread of each clone's own; `mmap`: page faults of such a thread on the mapped file or device, see below; `io_uring_cmd`: NVMe commands past the block layer, on the namespace of `/dev/ng0n1` or `/dev/nvme0n1`, always with direct=1; `null`: a simulated drive that answers after 1 us, so that nothing is measured",
    "cmd_type" Value = "nvme": "commands of ioengine=io_uring_cmd: `nvme`",
    "hipri" Bool = "0": "1: completions are polled for and raise no interrupts, with ioengine=io_uring and direct=1 on block devices with poll queues. A waiting job uses a whole CPU",
    "iodepth" Value = "1": "operations that a job has in flight at most; reaching it is the configured limit's doing in a verdict",
    "iodepth_low" Value = "iodepth": "when iodepth is reached, operations in flight down to which it drains before more are issued",
    "iodepth_batch_complete_min" ["iodepth_batch_complete"] Value = "1": "when iodepth is reached, completions that come back before more are issued",
    "size" Value = "whole device or file": "bytes of each device or file that are used, or percent of it; what a job moves if neither time_based nor io_size is given",
    "io_size" ["io_limit"] Value = "size": "bytes that a job moves before it ends",
    "filesize" Value = "size": "size of files that are made",
    "offset" ["fileoffset"] Value = "0": "first byte that is used, or percent",
    "offset_increment" Value = "0": "added to offset for each further clone of numjobs",
    "fallocate" Value = "native": "`native`, `posix` and `keep` allocate the blocks of a new file before the run, `none` and `truncate` leave that to the writes",
    "overwrite" Bool = "0": "1: missing files are written once before they are written to",
    "invalidate" Bool = "1": "the page cache of a file or device is dropped at the start; 0: what it has of a file stays",
    "pre_read" Bool = "0": "1: what the job uses is read into the page cache before it begins, as with invalidate=0; not with direct=1",
    "file_append" Bool = "0": "1: writes begin at the end that a file has, whatever offset says; size is added to each file. On devices without effect",
    "create_only" Bool = "0": "1: the files are made, and written once if they are to be read; the job does nothing with them",
    "fill_device" ["fill_fs"] Bool = "0": "writes all of a device, whatever size says; not for files",
    "number_ios" Value = "none": "operations after which a job ends, or with `loops` so often as many",
    "bs" ["blocksize"] Value = "4k": "bytes of an operation, of reads, writes, trims: `8k`, `8k,32k`, `8k,,64k`",
    "ba" ["blockalign"] Value = "smallest bs": "offsets of random operations are multiples of it",
    "bsrange" ["blocksize_range"] Value = "none": "any multiple of the lower in a range, equally likely: `4k-16k,8k-32k`",
    "bssplit" Value = "none": "sizes with percentages: `4k/10:64k/50:32k/`; blank ones share the rest",
    "randrepeat" ["allrandrepeat"] Bool = "1": "the same places each time; 0: others each time",
    "randseed" Value = "none": "seed of all random choices (not those that fio makes of the same seed)",
    "norandommap" Bool = "0": "random offsets may come again before each block had its turn",
    "random_generator" Value = "tausworthe64": "`tausworthe`, `tausworthe64`, `lfsr`: our generator in any case, and with a map each block once",
    "random_distribution" Value = "random": "`random`, `zipf:THETA`, `pareto:H`, `normal:PERCENT`, `zoned:ACCESS/SIZE:...`, `zoned_abs:ACCESS/SIZE:...`; all but the first go without a map",
    "file_service_type" Value = "roundrobin": "`roundrobin`: files take turns; `random`",
    "fsync" Value = "0": "fsync(2) after this many writes, counted as sync",
    "fdatasync" Value = "0": "fdatasync(2) after this many writes, counted as sync; where both are due, fsync",
    "sync_file_range" Value = "none": "sync_file_range(2) after this many writes, of the range that they wrote, counted as sync: `wait_before,write:8`, of `wait_before`, `write`, `wait_after`; not on simulated drives",
    "end_fsync" Bool = "0": "fsync(2) of each file when the last operation of a job is back",
    "fsync_on_close" Bool = "0": "the same",
    "direct" Bool = "0": "1: past the page cache; 0: through it, which is then what is measured",
    "buffered" Bool = "1": "the opposite of direct",
    "numjobs" Value = "1": "clones of a job that run at once; up to a thread for each CPU issues, and where there is one for each and no rates, it stays there. Each clone with a synchronous ioengine has a thread of its own",
    "cpus_allowed" Value = "all": "the CPUs that issue: `0,2-5`. Jobs of the same set have up to a thread for each of its CPUs, and none with others; nothing on simulated drives",
    "cpumask" Value = "all": "the same as bits of a number: 5 is 0 and 2",
    "cpus_allowed_policy" Value = "shared": "`shared`: all of the set are any clone's; `split`: one of them each, in turns",
    "runtime" ["timeout"] Value = "none": "seconds after which it ends at the latest, also `1.5` or `500ms`",
    "startdelay" Value = "0": "seconds before a job begins; its runtime counts from there",
    "time_based" Bool = "0": "begins again when size is done, until runtime",
    "ramp_time" Value = "0": "seconds before what counts, also `250ms`; of jobs that run at once the same",
    "loops" Value = "1": "so often what size or io_size says",
    "rwmixread" Value = "50": "percent of reads; each direction with a rate has that rate instead, as in fio",
    "rwmixwrite" Value = "50": "percent of writes",
    "thinktime" Value = "0": "microseconds of a pause, before which all that is in flight is waited for",
    "thinktime_blocks" Value = "1": "operations between two pauses; no more are in flight",
    "thinktime_blocks_type" Value = "complete": "`complete`, `issue`: those that were issued count in any case",
    "thinktime_iotime" Value = "0": "seconds between two pauses; with thinktime_blocks whichever comes first",
    "thinktime_spin" Value = "0": "microseconds of a pause that fio is busy; here it is asleep, and at least so long",
    "latency_target" Value = "none": "microseconds: looks for the greatest depth, up to iodepth, at which operations take no longer, then measures at it and ends. One job of a report each",
    "latency_window" Value = "0": "microseconds for which each depth is tried",
    "latency_percentile" Value = "100": "percent of them that have to take no longer",
    "latency_run" Bool = "0": "goes on when the depth is found, and follows what changes",
    "max_latency" Value = "none": "microseconds, of reads, writes, trims: the job ends, and fails, after an operation that took longer",
    "rate" Value = "none": "bytes a second, of reads, writes, trims: an open loop, see below",
    "rate_iops" Value = "none": "operations a second, of reads, writes, trims: an open loop, see below",
    "rate_min" ["ratemin"] Value = "none": "bytes a second, of reads, writes, trims: the job ends, and fails, after a cycle of less; its first 2 s are not looked at",
    "rate_iops_min" Value = "none": "the same in operations a second",
    "rate_cycle" ["ratecycle"] Value = "1000": "milliseconds of a cycle over which a least rate is judged",
    "rate_process" Value = "linear": "`linear`: evenly spaced; `poisson`: exponential gaps",
    "zonemode" Value = "none": "`strided`: operations stay in a window, which moves on after zonesize bytes; `zbd`: zones are written from start to end, see below",
    "zonesize" Value = "none": "bytes of operations in each window, or percent of the device or file; bytes of a zone. Then `size=8z` is 8 zones, also of io_size, offset, offset_increment",
    "zonecapacity" Value = "zonesize": "bytes that can be written in an emulated zone",
    "read_beyond_wp" Bool = "0": "1: reads go to all of a zone, not only to what is written",
    "max_open_zones" Value = "the device's": "zones that are written to at once, by all jobs on a device; 0: as many as the device allows",
    "job_max_open_zones" Value = "0": "the same for each clone",
    "zone_reset_threshold" Value = "0": "share of the job's range with data, 0 to 1, from which on zones are reset before they are full",
    "zone_reset_frequency" Value = "0": "zones that are then reset for each write, 0 to 1",
    "zonerange" Value = "zonesize": "length of the window",
    "zoneskip" Value = "0": "bytes between the end of a window and the beginning of the next; behind the last the first follows",
    "flow" Value = "0": "share of the operations of all jobs with the same flow_id: a job above its share waits for the others",
    "flow_id" Value = "0": "jobs that share their operations out",
    "flow_sleep" Value = "0": "microseconds that a job above its share waits before it looks again; at least 20",
    "steadystate" ["ss"] Value = "none": "`iops:10%`, `bw:LIMIT`, `lat:LIMIT`: the job ends when no interval lies farther from the mean; `iops_slope:1%` and so on: when their trend is flatter. Clones that are reported together count together",
    "steadystate_duration" ["ss_dur"] Value = "none": "seconds that have to be steady",
    "steadystate_ramp_time" ["ss_ramp"] Value = "0": "seconds before them that do not count",
    "steadystate_check_interval" ["ss_interval"] Value = "1": "seconds of an interval",
    "prioclass" Value = "none": "I/O priority of all operations: 1 real-time, 2 best-effort, 3 idle (ioprio_set(2)); nothing on simulated drives",
    "prio" Value = "0": "level within the class: 0, the highest, to 7",
    "priohint" Value = "0": "hint for the device: 0 to 1023",
    "cmdprio_percentage" Value = "0": "percent of the reads, writes that have the priority of cmdprio_class, cmdprio, cmdprio_hint",
    "cmdprio_class" Value = "1": "the class of these operations",
    "cmdprio" Value = "0": "their level",
    "cmdprio_hint" Value = "0": "their hint",
    "cmdprio_bssplit" Value = "none": "the same by size, of reads, writes: `64k/25:1m/75`, or with class, level and hint `64k/25/1/0:64k/75/3/2/1`",
    "numa_cpu_nodes" Value = "all": "memory nodes whose CPUs issue: `0,1`, as cpus_allowed with their CPUs",
    "numa_mem_policy" Value = "default": "`default`, `local`; on a machine with a single node, where all are the same, also `bind:0`, `prefer:0`, `interleave:0`",
    "wait_for" Value = "none": "name of the jobs that have to end before: a run of its own. All jobs that run before have this name",
    "sync" Value = "none": "each write is on the medium when it completes: `dsync` as with O_DSYNC; `sync`, `1` as with O_SYNC, with all metadata of the file",
    "stonewall" ["wait_for_previous"] Bool = "0": "waits until the jobs before have ended: a run of its own",
    "new_group" Bool = "0": "begins a group of reporting",
    "group_reporting" Bool = "0": "jobs of a group are reported as one",
    "exitall" Bool = "0": "the jobs of a group end when one has ended",
    "exit_what" Value = "group": "those of the `group`, up to the next `stonewall`, or `all`",
    "write_bw_log" Value = "none": "writes PREFIX_bw.JOB.log, KiB/s",
    "write_lat_log" Value = "none": "writes PREFIX_clat.JOB.log and PREFIX_lat.JOB.log, ns; PREFIX_slat.JOB.log is empty",
    "write_iops_log" Value = "none": "writes PREFIX_iops.JOB.log",
    "write_hist_log" Value = "none": "writes PREFIX_clat_hist.JOB.log: counts of latencies in fio's 1,856 bins",
    "log_hist_msec" Value = "0": "milliseconds of a line of write_hist_log, which needs it",
    "log_hist_coarseness" Value = "0": "0 to 6: two to this power bins are summed",
    "write_iolog" Value = "none": "writes each operation to this file, version 3, for read_iolog",
    "read_iolog" Value = "none": "replays the operations of this log, of fio's version 2 or 3, in place of rw, bs, size and filename. With times it is an open loop. Traces of blktrace: flashproof storage --replay",
    "replay_no_stall" Bool = "0": "1: without its times, as fast as iodepth allows",
    "replay_redirect" Value = "none": "device or file for all operations of the log",
    "replay_time_scale" Value = "100": "percent of the recorded speed",
    "replay_align" Value = "1": "offsets are rounded down to multiples of this power of two",
    "replay_scale" Value = "1": "offsets are divided by this",
    "replay_skip" Value = "none": "kinds that are left out: `read`, `write`, `trim`, `sync`",
    "log_unix_epoch" Bool = "0": "1: times of logs are milliseconds since 1970",
    "log_max_value" Bool = "0": "1: lines of latency logs have the greatest latency of their period, not the mean",
    "log_avg_msec" Value = "0": "time over which a line of these logs is the mean; 0: each operation is a line",
    "log_offset" Bool = "0": "1: where each operation was",
    "log_prio" Bool = "0": "1: I/O priority of each operation, 0x2001; 0: 1 for the real-time class",
    "per_job_logs" Bool = "1": "0: no number of the job in the names of logs",
    "zero_buffers" Bool = "0": "writes zeros",
    "refill_buffers" Bool = "0": "new data for each write: we always do",
    "buffer_pattern" Value = "none": "writes this: `\"strings\"`, numbers and `0xhex`, one after the other",
    "buffer_compress_percentage" Value = "0": "percent of each chunk that is zeros, or the buffer_pattern",
    "buffer_compress_chunk" Value = "smallest bs": "bytes of such a chunk",
    "dedupe_percentage" Value = "0": "percent of the writes whose data repeats that of others",
    "dedupe_mode" Value = "repeat": "`repeat`: that of the write before; `working_set`: that of any of a set",
    "dedupe_working_set_percentage" Value = "5": "size of this set, percent of size",
    "dedupe_global" Bool = "0": "1: jobs have one set",
    "verify" Value = "none": "writes are read back at the end and compared; reads of a job that only reads are compared: by `crc32c`, `crc32c-intel`, `crc32`, `crc64`, `crc16`, `crc7`, `md5`, `sha1`, `sha256`, `sha512`, `sha3-224`, `sha3-256`, `sha3-384`, `sha3-512`, `xxhash`; `meta`: by the header alone; `pattern`: by verify_pattern without a header, `pattern_hdr`: with one; `null`: not at all",
    "verify_pattern" Value = "none": "data of verified writes: as buffer_pattern, and `%o` is the offset of the write",
    "verify_interval" Value = "bs": "bytes of a block with a header of its own; at most and at first the largest divisor of all sizes of writes",
    "verify_offset" Value = "0": "where in a block its header is",
    "do_verify" Bool = "1": "0: writes are not read back",
    "verify_only" Bool = "0": "1: writes nothing, and reads and compares what the same job wrote before",
    "verify_fatal" Bool = "0": "1: the job ends at the first wrong block",
    "verify_dump" Bool = "0": "1: a wrong block, and the right one if it can be computed, are written to FILE.OFFSET.received and FILE.OFFSET.expected",
    "verify_backlog" Value = "0": "writes after which some are read back, and not all at the end",
    "verify_backlog_batch" Value = "verify_backlog": "how many writes are read back then",
    "verify_state_save" Bool = "if ended early": "1: the file local-JOB-NUMBER-verify.state says how far the writes came",
    "verify_state_load" Bool = "0": "1: reads only what that file says was written",
    "clat_percentiles" Bool = "1": "percentiles of completion latencies",
    "lat_percentiles" Bool = "0": "percentiles of total latencies",
    "percentile_list" Value = "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99": "which; up to 20",
    "kb_base" Value = "1024": "what `k` is: 1024 or 1000",
};

/// Options that are accepted without effect, with the reason: `NAME NAME: REASON`.
static NO_DIFFERENCE: &[&str] = &[
    "thread threads comm gtod_reduce gtod_cpu clocksource disk_util stats unit_base: how fio itself runs or counts",
    "iodepth_batch iodepth_batch_submit iodepth_batch_complete_max: operations that are due together are submitted \
     together, and completions taken as they are there",
    "create_serialize create_fsync create_on_open fadvise_hint unlink openfiles allow_mounted_write allow_file_create \
     filetype: the guard opens, makes and protects; all files of a job are open while it runs, and stay",
    "write_barrier unique_filename: no engine of fio's for files has barriers, and fio's clients alone need unique \
     names",
    "mem iomem iomem_align mem_align hugepage-size lockmem: buffers are the ring's own",
    "scramble_buffers softrandommap: data is new for every write, and there is memory for a map or it is refused",
    "registerfiles fixedbufs sqthread_poll sqthread_poll_cpu nonvectored force_async userspace_reap: the ring is set \
     up as it is best here",
    "continue_on_error ignore_error error_dump: a job goes on after errors, up to --max-errors; each of them counts, \
     and fails the run",
    "log_entries bwavgtime iopsavgtime significant_figures job_start_clock_id log_compression log_compression_cpus \
     read_iolog_chunked: logs are written as they come and read at once, and means are of a second",
    "verifysort verifysort_nr verify_async verify_async_cpus verify_write_sequence verify_header_seed \
     experimental_verify: what is read is compared by the thread that reads it, all that was written in the order of \
     its offsets, each block with its last write",
    "io_submit_mode serialize_overlap: operations with a rate are issued at their instants, whatever became of those \
     before",
    "disable_lat disable_clat disable_slat disable_bw_measurement disable_bw slat_percentiles: measuring is not \
     switched off; there is no slat of its own",
];

/// Unsupported options, with the load that would run without them, in the form of [`NO_DIFFERENCE`].
static MISSING: &[&str] = &[
    "verify_pattern_interval verify_policy: %o in a pattern is the offset of the whole operation, and all completed \
     writes are compared",
    "trim_percentage trim_verify_zero trim_backlog trim_backlog_batch: the writes without trims among them",
    "merge_blktrace_file merge_blktrace_scalars merge_blktrace_iters: operations that are made up, not those of the \
     log (flashproof storage --replay runs a trace)",
    "exec_prerun exec_postrun: the load without the commands around it: flashproof runs no foreign commands, so run \
     them before and after",
    "ioscheduler: the load under the present scheduler (/sys/block/DEVICE/queue/scheduler)",
    "ignore_zone_limits recover_zbd_write_error write_zone_remainder: zones within the device's limits, whole writes, \
     and the end of a job at a zone that fails",
    "fdp fdp_pli_select fdp_pli dataplacement data_placement plid_select plids dp_scheme write_hint: writes without a \
     placement handle (flashproof storage tenants has them)",
    "thinkcycles rate_ignore_thinktime: a pause asleep",
    "rw_sequencer percentage_sequential random_sequence_stride bs_unaligned blocksize_unaligned bs_is_seq_rand \
     offset_align rwmixcycle: the order that rw says, with aligned blocks",
    "num_range atomic unified_rw_reporting: operations one by one, each direction on its own",
    "nice cgroup cgroup_weight cgroup_nodelete uid gid ioprio: the load as this process runs (nice, systemd-run \
     before the command set them)",
    "uncached md_per_io_size nowait: ordinary operations that are waited for by interrupt",
    "end_syncfs unlink_each_loop lockfile opendir: fsync of each file in place of syncfs, and files that filename \
     names, which stay from loop to loop, without locks",
    "flow_watermark: jobs that keep to their shares at once",
    "log_window_value log_issue_time log_store_compressed log_alternate_epoch log_alternate_epoch_clock_id: no such \
     log, or its usual form; hlog files of the run directory hold every histogram",
    "exitall_on_error block_error_percentiles profile gpu_dev_id ramp_size sprandom spr_num_regions spr_op spr_cs: \
     each job to its own end",
    "apptag apptag_mask arguments bindname brick busy_poll cdb_len chunk_size clientname clustername conf cont \
     cpuchunks cpuload cpumode cuda_io deac donorname exit_on_io_done grace_time hdfs_use_direct hdfsdirectory \
     hipri_percentage hostname http_host http_mode http_object_mode http_pass http_s3_key http_s3_keyid \
     http_s3_region http_s3_security_token http_s3_sse_customer_algorithm http_s3_sse_customer_key \
     http_s3_storage_class http_swift_auth_token http_user http_verbose https initiator inplace interface \
     libaio_vectored libblkio_driver libblkio_force_enable_completion_eventfd libblkio_num_entries libblkio_path \
     libblkio_pre_connect_props libblkio_pre_start_props libblkio_queue_size libblkio_vectored libblkio_wait_mode \
     libblkio_write_zeroes_on_trim listen mss namenode net_type nfs_url no_completion_thread nodelay object_class \
     pi_act pi_chk pingpong pool port program protocol rbd_encryption_format rbd_encryption_passphrase rbdname \
     read_mode readfua rocm_io sg_write_mode single-instance single_instance skip_bad stat_type std_redirect \
     stream_id svcl thp touch_objects ttl uri verb verify_bytchk verify_mode volume window_size write_mode writefua \
     xnvme_admin xnvme_async xnvme_be xnvme_dev_nsid xnvme_dev_subnqn xnvme_iovec xnvme_mem xnvme_sync: the load \
     without it: another engine of fio's reads it",
];

/// Options for which 0 has an effect.
const ZERO_COUNTS: [&str; 5] = ["percentage_sequential", "uid", "gid", "plids", "fdp_pli"];

/// True if an unsupported option has no effect with `value`.
pub(super) fn is_off(name: &str, value: Option<&str>) -> bool {
    let Some(value) = value.map(str::trim) else { return false };
    let is_nothing = value == "none" || (!ZERO_COUNTS.contains(&name) && value.parse::<f64>() == Ok(0.0));
    is_nothing || (name, value) == ("rw_sequencer", "sequential")
}

/// Unsupported options of fio's program, and the remedy, in the form of [`NO_DIFFERENCE`].
static PROGRAM_MISSING: &[&str] = &[
    "bandwidth-log latency-log: logs are the jobs' - say write_bw_log=PREFIX, write_lat_log=PREFIX",
    "server client remote-config daemonize trigger-remote: it runs on this machine and in the foreground alone",
    "showcmd: --dry-run shows what would run",
    "debug idle-prof inflate-log crctest cpuclock-test memcpytest enghelp profile aux-path: leave it out",
    "merge-blktrace-only xnvme: flashproof storage --replay runs a trace",
];

/// Options of the program rather than of a job that take a value: fio's, then ours.
const PROGRAM_WITH_VALUE: &str = "output output-format terse-version status-interval section eta eta-newline \
    eta-interval alloc-size max-jobs trigger trigger-file trigger-timeout out erase sla slice max-errors hang";

/// Options of the program that take no value.
const PROGRAM_ALONE: &str = "minimal append-terse parse-only readonly warnings-fatal version help cmdhelp \
    force shared no-trace cross-check dry-run quiet";

/// True if a list of names, separated by spaces, has `name`.
pub(super) fn has(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

/// The names and the text of each entry of a list.
fn entries(list: &'static [&'static str]) -> impl Iterator<Item = (&'static str, &'static str)> {
    list.iter().filter_map(|entry| entry.split_once(": "))
}

/// Text of the entry that lists `name`.
fn text_of(list: &'static [&'static str], name: &str) -> Option<&'static str> {
    entries(list).find(|(names, _)| has(names, name)).map(|(_, text)| text)
}

/// Support for the option `name`; `None` if fio has no such option.
pub fn find(name: &str) -> Option<Support> {
    let known = KNOWN.iter().find(|option| option.name == name || option.aliases.contains(&name));
    known
        .map(Support::Known)
        .or_else(|| text_of(NO_DIFFERENCE, name).map(Support::NoDifference))
        .or_else(|| text_of(MISSING, name).map(Support::Missing))
}

/// For an option of the program: true if it takes a value.
pub(super) fn of_program(name: &str) -> Option<bool> {
    let takes_value = has(PROGRAM_WITH_VALUE, name);
    (takes_value || has(PROGRAM_ALONE, name)).then_some(takes_value)
}

/// The remedy for an option of fio's program that is unsupported.
pub(super) fn missing_of_program(name: &str) -> Option<&'static str> {
    text_of(PROGRAM_MISSING, name)
}

/// The supported option most similar to `unknown`, if any is close.
pub fn nearest(unknown: &str) -> Option<&'static str> {
    similar(unknown, KNOWN.iter().flat_map(|option| option.aliases.iter().copied().chain([option.name])))
}

/// The tables of `docs/fio.md`.
pub fn markdown() -> String {
    let mut text = String::from("| option | without it | meaning |\n|---|---|---|\n");
    for Known { name, aliases, default, meaning, .. } in KNOWN {
        let names: Vec<_> = std::iter::once(name).chain(*aliases).map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "| {} | {default} | {meaning} |", names.join(", "));
    }
    for (title, column, list) in [
        ("Read, and without effect here", "why", NO_DIFFERENCE),
        ("Not here: named, with what would be run without them, and nothing runs", "what would be run", MISSING),
    ] {
        let _ = writeln!(text, "\n{title}:\n\n| options | {column} |\n|---|---|");
        for (names, why) in entries(list) {
            let _ = writeln!(text, "| `{}` | {why} |", names.replace(' ', "`, `"));
        }
    }
    text
}

/// A line for each supported option, for `--cmdhelp`.
pub fn help() -> String {
    let width = KNOWN.iter().map(|option| option.name.len()).max().unwrap_or(0);
    let line = |option: &Known| {
        let meaning = option.meaning.replace('`', "");
        units::wrapped(&format!("{:width$}  {meaning} [{}]", option.name, option.default), &" ".repeat(width + 2), 118)
    };
    KNOWN.iter().map(|option| line(option) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_stands_in_one_place() {
        let mut seen = HashSet::new();
        let known = KNOWN.iter().flat_map(|option| std::iter::once(&option.name).chain(option.aliases));
        let others = entries(NO_DIFFERENCE).chain(entries(MISSING)).flat_map(|(names, _)| names.split(' '));
        for name in known.copied().chain(others) {
            assert!(seen.insert(name), "{name} stands twice");
            assert!(of_program(name).is_none(), "{name} is an option of the program too");
        }
    }
}
