//! fio's options: one table for the parser, the help and `docs/fio.md`.
//!
//! The table has every option of fio 3.41: supported options, options without effect here, and unsupported options with
//! the load that would run without them.

use load::choice::similar;
use results::units;
use std::fmt::Write;

/// Type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// 0 or 1; the option alone means 1.
    Bool,
    /// Any other value.
    Value,
}

/// A supported option.
#[derive(Debug)]
pub struct KnownOption {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub kind: ValueKind,
    /// Default value.
    pub default: &'static str,
    /// Meaning, as the help and the documentation show it.
    pub meaning: &'static str,
}

/// Support for an option.
#[derive(Debug, Clone, Copy)]
pub enum Support {
    /// Supported.
    Known(&'static KnownOption),
    /// Accepted without effect, with the reason.
    NoEffect(&'static str),
    /// Unsupported, with the load that would run without it.
    Unsupported(&'static str),
}

macro_rules! known {
    ($($name:literal $([$($alias:literal),+])? $kind:ident = $default:literal: $meaning:literal,)+) => {
        &[$(KnownOption { name: $name, aliases: &[$($($alias),+)?], kind: ValueKind::$kind, default: $default, meaning: $meaning },)+]
    };
}

/// The supported options, in the order of fio's manual.
pub static KNOWN: &[KnownOption] = known! {
    "name" Value = "section": "name of the job; on the command line, --name begins a new job",
    "description" Value = "none": "free text",
    "filename" Value = "JOB.NUMBER.FILE": "devices, files or simulated drives (`sim:...`), separated by `:` (`\\:` within a name); further `filename` options of the job and of [global] add names; operations use the devices or files in turn",
    "directory" Value = "here": "directory of files whose name does not begin with `/`",
    "nrfiles" ["nr_files"] Value = "1": "number of files of each job without filename",
    "filename_format" Value = "$jobname.$jobnum.$filenum": "names of the files of each job without filename",
    "rw" ["readwrite"] Value = "read": "`read`, `write`, `trim`, `randread`, `randwrite`, `randtrim`, `rw`, `randrw`; `trimwrite`, `randtrimwrite`: each trim is followed by a write at the same offset, at the rate of the trims. `write:4k` skips 4 KiB after each write, `read:-8k` with `bs=4k` reads backwards, `randread:8` picks a random offset for every 8th operation and is sequential in between",
    "percentage_random" Value = "100": "percent of a random job's operations that are at random offsets; the others are sequential",
    "ioengine" Value = "io_uring": "`io_uring`, `libaio`, `posixaio`: all three run on io_uring; `sync`, `psync`, `vsync`, `pvsync`, `pvsync2`: system calls, one at a time, with a thread for each clone; `mmap`: page faults on the mapped file or device, with a thread for each clone, see above; `io_uring_cmd`: NVMe commands that bypass the block layer, on the namespace of `/dev/ng0n1` or `/dev/nvme0n1`, always with direct=1; `null`: a simulated drive that answers after 1 us, so the result measures no device",
    "cmd_type" Value = "nvme": "type of the commands of ioengine=io_uring_cmd: only `nvme`",
    "iodepth" Value = "1": "maximum number of operations of a job in flight; waits at this limit are attributed to the configuration, not to the drive",
    "iodepth_low" Value = "iodepth": "when iodepth is reached, the job issues again only after its operations in flight have drained to this number",
    "iodepth_batch_complete_min" ["iodepth_batch_complete"] Value = "1": "when iodepth is reached, the job issues again only after this many completions",
    "size" Value = "whole device or file": "how much of each device or file is used, in bytes or percent; without time_based and io_size also the number of bytes that a job transfers",
    "io_size" ["io_limit"] Value = "size": "bytes that a job transfers before it ends",
    "filesize" Value = "size": "size of new files, or a range such as `2m-6m`, of which one size is drawn for the job's files",
    "offset" ["fileoffset"] Value = "0": "start of the used range, in bytes or percent",
    "offset_increment" Value = "0": "added to offset for each further clone of numjobs",
    "fallocate" Value = "native": "`native`, `posix` and `keep` allocate the blocks of a new file before the run; with `none` and `truncate` the writes allocate them",
    "overwrite" Bool = "0": "1: missing files are written once before the run",
    "invalidate" Bool = "1": "1: drops the page cache of a file or device at the start; 0: keeps the cached pages of a file",
    "pre_read" Bool = "0": "1: reads the job's part of each file into the page cache before the job begins; implies invalidate=0; cannot be combined with direct=1",
    "file_append" Bool = "0": "1: writes begin at the current end of each file, and offset is ignored; size is the number of bytes added to each file. No effect on devices",
    "create_only" Bool = "0": "1: creates the files, writes them once if they are to be read, and does nothing else",
    "fill_device" ["fill_fs"] Bool = "0": "1: writes the whole device and ignores size; not for files",
    "number_ios" Value = "none": "number of operations after which a job ends; multiplied by `loops`",
    "bs" ["blocksize"] Value = "4k": "bytes per operation, or separate values for reads, writes, trims: `8k`, `8k,32k`, `8k,,64k`",
    "ba" ["blockalign"] Value = "smallest bs": "random offsets are multiples of this",
    "bsrange" ["blocksize_range"] Value = "none": "random sizes from a range, or from separate ranges for reads, writes, trims: `4k-16k,8k-32k`, also `4k:16k`. All multiples of the lower end of the range are equally likely",
    "bssplit" Value = "none": "sizes with percentages: `4k/10:64k/50:32k/`; sizes without a percentage share the remainder",
    "randrepeat" ["allrandrepeat"] Bool = "1": "1: the same random offsets in each run; 0: different offsets",
    "randseed" Value = "none": "seed of all random choices (fio's choices for the same seed differ)",
    "norandommap" Bool = "0": "1: random offsets can repeat before each block was used once",
    "random_generator" Value = "tausworthe64": "`tausworthe`, `tausworthe64`, `lfsr` are accepted; flashproof has its own generator. With `lfsr` each block is used once even with norandommap",
    "random_distribution" Value = "random": "`random`, `zipf:THETA`, `pareto:H`, `normal:PERCENT`, `zoned:ACCESS/SIZE:...`, `zoned_abs:ACCESS/SIZE:...`, with zones for reads, writes, trims after a comma; all but `random` imply norandommap",
    "file_service_type" Value = "roundrobin": "`roundrobin`: files in turn; `random`: a random file for each operation; `sequential`: one file after the other. `roundrobin:8`, `random:8`: 8 operations before the next file",
    "fsync" Value = "0": "fsync(2) after this many writes, reported as sync",
    "fdatasync" Value = "0": "fdatasync(2) after this many writes, reported as sync; if fsync is due too, only fsync \
     is called",
    "sync_file_range" Value = "none": "sync_file_range(2) after this many writes, on the range of these writes, reported as sync: `wait_before,write:8` with any of the flags `wait_before`, `write`, `wait_after`; not on simulated drives",
    "end_fsync" Bool = "0": "1: fsync(2) of each file after the last operation of a job has completed",
    "fsync_on_close" Bool = "0": "same as end_fsync",
    "direct" Bool = "0": "1: bypasses the page cache; 0: uses the page cache, which is then part of what is measured",
    "buffered" Bool = "1": "opposite of direct",
    "numjobs" Value = "1": "clones of a job that run at the same time, on at most one thread per CPU; threads are pinned if there is one thread per CPU and no job has a rate. With a synchronous ioengine each clone has its own thread",
    "cpus_allowed" Value = "all": "CPUs of the issuing threads: `0,2-5`. Jobs with the same set share up to one thread \
     per CPU of the set, and share no thread with other jobs; no effect on simulated drives",
    "cpumask" Value = "all": "same as cpus_allowed, as a bit mask: 5 means CPUs 0 and 2",
    "cpus_allowed_policy" Value = "shared": "`shared`: a clone can use any CPU of the set; `split`: one CPU per clone, round-robin",
    "runtime" ["timeout"] Value = "none": "maximum duration in seconds, also `1.5` or `500ms`",
    "startdelay" Value = "0": "seconds before a job begins; its runtime counts from then",
    "time_based" Bool = "0": "1: repeats size until runtime is over; no effect without runtime",
    "ramp_time" Value = "0": "warm-up that is not counted, in seconds, also `250ms`; must be equal for jobs that run at the same time",
    "loops" Value = "1": "repeats size or io_size this many times",
    "rwmixread" Value = "50": "percent of reads; as in fio, without effect on reads or writes that have a rate",
    "rwmixwrite" Value = "50": "percent of writes",
    "thinktime" Value = "0": "pause in microseconds, after all operations in flight have completed; with a rate, when the last operation before the pause is due",
    "thinktime_blocks" Value = "1": "number of operations between two pauses; also the maximum number of operations in flight",
    "thinktime_blocks_type" Value = "complete": "`complete`, `issue`: with both values, issued operations are counted",
    "thinktime_iotime" Value = "0": "seconds between two pauses; if thinktime_blocks is given too, the limit that is \
     reached first applies",
    "thinktime_spin" Value = "0": "microseconds of the pause in which fio spins; flashproof sleeps instead, for at \
     least this long",
    "latency_target" Value = "none": "microseconds: finds the greatest depth, up to iodepth, at which latencies stay below this value, measures at that depth, and ends. Not for clones that are reported together",
    "latency_window" Value = "0": "duration of the test of each depth, in microseconds",
    "latency_percentile" Value = "100": "percent of the operations that must stay below latency_target",
    "max_latency" Value = "none": "microseconds, for reads, writes, trims: after a slower operation the job ends and fails",
    "rate" Value = "none": "bytes per second, for reads, writes, trims: an open loop, see above; 0: no rate",
    "rate_iops" Value = "none": "operations per second, for reads, writes, trims: an open loop, see above; 0: no rate. With several block sizes fio converts this rate to bytes by the smallest size, and issues fewer operations; flashproof issues this many",
    "rate_min" ["ratemin"] Value = "none": "minimum bytes per second, for reads, writes, trims: if the rate of a `rate_cycle` is lower, the job ends and fails; the job's first 2 s are ignored",
    "rate_iops_min" Value = "none": "same as rate_min, in operations per second",
    "rate_cycle" ["ratecycle"] Value = "1000": "milliseconds over which rate_min is checked",
    "rate_process" Value = "linear": "`linear`: evenly spaced; `poisson`: exponential gaps. With several block sizes, flashproof divides `rate` by the mean size, as without poisson; fio divides it by the smallest size, and moves more bytes per second than `rate`",
    "rate_ignore_thinktime" Bool = "0": "0: after a pause of thinktime the operations that became due are issued at once, to keep the rate; 1: each pause delays all later operations",
    "zonemode" Value = "none": "`strided`: operations stay in a window, which advances after zonesize bytes; default if zonesize is given",
    "zonesize" Value = "none": "bytes of operations in each window, or percent of the device or file",
    "zonerange" Value = "zonesize": "length of the window of zonemode=strided",
    "zoneskip" Value = "0": "bytes between the end of a window and the beginning of the next window; after the last window the first window follows",
    "steadystate" ["ss"] Value = "none": "`iops:10%`, `bw:LIMIT`, `lat:LIMIT`: the job ends when all intervals are within this limit of their mean; `iops_slope:1%` and so on: the job ends when the trend of the intervals is flatter than this limit. Clones that are reported together are measured together",
    "steadystate_duration" ["ss_dur"] Value = "none": "time for which the job must be steady, in seconds",
    "steadystate_ramp_time" ["ss_ramp"] Value = "0": "warm-up before steadystate_duration, in seconds",
    "prioclass" Value = "none": "I/O priority of all operations: 1 real-time, 2 best-effort, 3 idle (ioprio_set(2)); no effect on simulated drives",
    "prio" Value = "0": "level within the class, from 0 (highest) to 7",
    "priohint" Value = "0": "hint for the device: 0 to 1023",
    "cmdprio_percentage" Value = "0": "percent of the operations that get the priority of cmdprio_class, cmdprio and cmdprio_hint; separate values for reads, writes",
    "cmdprio_class" Value = "1": "I/O priority class of the operations of cmdprio_percentage",
    "cmdprio" Value = "0": "I/O priority level of the operations of cmdprio_percentage",
    "cmdprio_hint" Value = "0": "I/O priority hint of the operations of cmdprio_percentage",
    "cmdprio_bssplit" Value = "none": "cmdprio_percentage by operation size, for reads, writes: `64k/25:1m/75`, or with class, level and hint `64k/25/1/0:64k/75/3/2/1`",
    "numa_cpu_nodes" Value = "all": "NUMA nodes of the issuing threads: `0,1`; same as cpus_allowed with the CPUs of these nodes",
    "numa_mem_policy" Value = "default": "`default`, `local`; on a machine with one NUMA node, where all policies are equal, also `bind:0`, `prefer:0`, `interleave:0`",
    "wait_for" Value = "none": "name of the jobs that must end before this job begins; this job is then in a later run. Refused if the named jobs run at the same time as jobs with another name",
    "sync" Value = "none": "each write is on the medium when it completes: `dsync` as with O_DSYNC; `sync`, `1` as with O_SYNC, with all metadata of the file",
    "stonewall" ["wait_for_previous"] Bool = "0": "waits until all earlier jobs have ended; the job is then in a later run",
    "new_group" Bool = "0": "begins a new reporting group",
    "group_reporting" Bool = "0": "reports the jobs of a group as one",
    "exitall" Bool = "0": "the jobs of a group end as soon as one of them has ended",
    "exitall_on_error" Bool = "0": "1: the jobs of exit_what end as soon as an operation of this job fails, or this job misses its goal",
    "exit_what" Value = "group": "the jobs that exitall ends: `group`: jobs of the same group; `stonewall`: all jobs that run at the same time; `all`: these jobs and all later jobs",
    "write_bw_log" Value = "none": "writes PREFIX_bw.JOB.log, in KiB/s",
    "write_lat_log" Value = "none": "writes PREFIX_clat.JOB.log and PREFIX_lat.JOB.log, in ns; PREFIX_slat.JOB.log is empty",
    "write_iops_log" Value = "none": "writes PREFIX_iops.JOB.log",
    "write_hist_log" Value = "none": "writes PREFIX_clat_hist.JOB.log: counts of latencies in fio's 1,856 bins",
    "log_hist_msec" Value = "0": "interval of write_hist_log in milliseconds; write_hist_log needs it",
    "log_hist_coarseness" Value = "0": "N from 0 to 6: merges 2^N bins into one",
    "write_iolog" Value = "none": "writes each operation to this file, in version 3 of fio's log format, for read_iolog",
    "read_iolog" Value = "none": "replays the operations of this log of fio (log format 2 or 3) instead of rw, bs, size and filename. If the log has times, operations start at these times (open loop). For traces of blktrace: flashproof storage --replay",
    "replay_no_stall" Bool = "0": "1: ignores the log's times and replays as fast as iodepth allows",
    "replay_redirect" Value = "none": "device or file for all operations of the log",
    "replay_align" Value = "1": "offsets are rounded down to multiples of this power of two",
    "replay_scale" Value = "1": "offsets are divided by this",
    "log_unix_epoch" Bool = "0": "1: times in logs are milliseconds since 1970",
    "log_window_value" ["log_max_value"] Value = "avg": "value in a line of a latency log: `avg` (or `0`): mean of the period; `max` (or `1`): maximum; `both`: mean, then maximum",
    "log_issue_time" Bool = "0": "1: adds the time of issue of each operation to the latency logs, in nanoseconds since the measurement began; 0 in lines that average, and in other logs",
    "log_avg_msec" Value = "0": "milliseconds that each line of the bandwidth, latency and IOPS logs averages; 0: one line per operation",
    "log_offset" Bool = "0": "1: adds the offset of each operation to the bandwidth, latency and IOPS logs",
    "log_prio" Bool = "0": "1: the bandwidth, latency and IOPS logs have the I/O priority of each operation, such as 0x2001; 0: these logs have 1 for the real-time class, and 0 otherwise",
    "per_job_logs" Bool = "1": "0: the names of logs have no job number",
    "zero_buffers" Bool = "0": "writes zeros",
    "refill_buffers" Bool = "0": "new data for each write; flashproof always does this",
    "buffer_pattern" Value = "none": "pattern to write: `\"strings\"`, numbers and `0xhex`, concatenated",
    "buffer_compress_percentage" Value = "0": "percent of each chunk that is zeros or buffer_pattern",
    "buffer_compress_chunk" Value = "smallest bs": "size of the chunks of buffer_compress_percentage, in bytes",
    "dedupe_percentage" Value = "0": "percent of writes whose data repeats the data of other writes",
    "dedupe_mode" Value = "repeat": "`repeat`: data of the previous write; `working_set`: data of a random write from the working set, which has 5 % of size",
    "verify" Value = "none": "reads written blocks back at the end and compares them; a job that only reads compares the data that it reads. Methods: `crc32c`, `crc32c-intel`, `crc32`, `md5`, `sha256`, `sha512`, `xxhash`; `meta`: checks the header alone; `pattern`: compares with verify_pattern, blocks have no header; `pattern_hdr`: as `pattern`, with headers; `null`: no check",
    "verify_pattern" Value = "none": "data of verified writes, in the form of buffer_pattern; `%o` stands for the offset of the write",
    "verify_interval" Value = "bs": "size of a verify block (default and maximum: the greatest common divisor of all write sizes); each verify block has its own header",
    "do_verify" Bool = "1": "0: writes are not read back",
    "verify_only" Bool = "0": "1: only verifies: reads and compares what an earlier run of the same job wrote",
    "verify_fatal" Bool = "0": "1: the job ends at the first wrong block",
    "verify_dump" Bool = "0": "1: writes a wrong block, and the right one if it can be computed, to FILE.OFFSET.received and FILE.OFFSET.expected",
    "verify_backlog" Value = "0": "reads back after every N writes instead of only at the end",
    "verify_backlog_batch" Value = "verify_backlog": "number of writes that each read-back of verify_backlog covers",
    "verify_state_save" Bool = "if ended early": "1: saves the progress of the writes in local-JOB-NUMBER-verify.state",
    "verify_state_load" Bool = "0": "1: reads back only the blocks that local-JOB-NUMBER-verify.state lists as written",
    "clat_percentiles" Bool = "1": "percentiles of completion latencies",
    "lat_percentiles" Bool = "0": "percentiles of total latencies",
    "percentile_list" Value = "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99": "percentiles to report, up to 20",
    "kb_base" Value = "1024": "value of `k`: 1024 or 1000",
};

/// Options that are accepted without effect, with the reason: `NAME NAME: REASON`.
static NO_DIFFERENCE: &[&str] = &[
    "thread threads comm gtod_reduce gtod_cpu clocksource disk_util stats unit_base: the option changes only how fio \
     itself runs or counts",
    "iodepth_batch iodepth_batch_submit iodepth_batch_complete_max: operations that are due together are submitted \
     together, and completions are taken as they arrive",
    "nice: the threads have the priority of this process - start flashproof under nice(1) to change it",
    "create_serialize create_fsync create_on_open fadvise_hint unlink openfiles allow_mounted_write allow_file_create \
     filetype: the guard opens, creates and protects files; all files stay open while their job runs, and are kept \
     afterwards",
    "write_barrier unique_filename: none of fio's file engines has barriers, and only fio's client mode needs unique \
     names",
    "mem iomem iomem_align mem_align hugepage-size lockmem: flashproof allocates its own buffers",
    "scramble_buffers softrandommap: data is new for every write; a job is refused if its random \
     map does not fit into memory",
    "registerfiles fixedbufs sqthread_poll sqthread_poll_cpu nonvectored force_async userspace_reap: flashproof \
     chooses the settings of the ring",
    "continue_on_error ignore_error error_dump: a job continues after errors, up to --max-errors; each error is \
     counted, and fails the run",
    "log_entries bwavgtime iopsavgtime significant_figures job_start_clock_id log_compression log_compression_cpus \
     read_iolog_chunked: logs are written immediately, a log to replay is read as a whole, and averages cover 1 s",
    "verifysort verifysort_nr verify_async verify_async_cpus verify_write_sequence verify_header_seed \
     experimental_verify: the issuing thread compares each block, in the order of offsets, \
     with the last data written to it",
    "io_submit_mode serialize_overlap: operations are issued when they are due, whether or not earlier operations have \
     completed",
    "disable_lat disable_clat disable_slat disable_bw_measurement disable_bw slat_percentiles: measuring cannot \
     be switched off; submission latency is not reported separately",
];

/// Unsupported options with the load that would run without them, in the form of [`NO_DIFFERENCE`].
static MISSING: &[&str] = &[
    "verify_pattern_interval verify_policy: the same job; %o is the offset of the whole operation, and all completed \
     writes are compared",
    "verify_offset: the same job; each block begins with its header",
    "trim_percentage trim_verify_zero trim_backlog trim_backlog_batch: the same writes, without trims",
    "replay_skip replay_time_scale: all operations of the log, at their recorded times",
    "latency_run: the search for a depth, then the measurement at that depth",
    "steadystate_check_interval ss_interval: intervals of 1 s",
    "dedupe_global dedupe_working_set_percentage: for each job a separate working set of 5 % of its size",
    "merge_blktrace_file merge_blktrace_scalars merge_blktrace_iters: generated operations instead of those of \
     the trace (flashproof storage --replay runs a trace)",
    "exec_prerun exec_postrun: the load without these commands; run them yourself before and after",
    "ioscheduler: the load with the current scheduler (/sys/block/DEVICE/queue/scheduler)",
    "zonecapacity read_beyond_wp max_open_zones job_max_open_zones zone_reset_threshold zone_reset_frequency \
     ignore_zone_limits recover_zbd_write_error write_zone_remainder: operations at any offset (the option is for \
     zonemode=zbd, and flashproof does not support the zones of zoned devices)",
    "fdp fdp_pli_select fdp_pli dataplacement data_placement plid_select plids dp_scheme write_hint: writes without a \
     placement handle (flashproof storage tenants has placement handles)",
    "thinkcycles: the load with pauses during which the job sleeps",
    "rw_sequencer percentage_sequential random_sequence_stride bs_unaligned blocksize_unaligned bs_is_seq_rand \
     offset_align: operations in the order of rw, with aligned blocks",
    "rwmixcycle: the same mix, in which the direction of each operation is drawn by itself; fio removed this option too",
    "num_range atomic: single operations",
    "unified_rw_reporting: the same operations, with each direction reported separately",
    "cgroup cgroup_weight cgroup_nodelete uid gid ioprio: the load with the settings of this process (start \
     flashproof under nice or systemd-run to set them)",
    "hipri uncached md_per_io_size nowait: ordinary operations, completed by interrupt",
    "end_syncfs unlink_each_loop lockfile opendir: the load on the files of filename, without locks, with \
     fsync instead of syncfs, and with the same files in each loop",
    "flow flow_id flow_sleep flow_watermark: each job at its own speed, without shares between jobs",
    "log_store_compressed log_alternate_epoch log_alternate_epoch_clock_id: the log \
     without this option; the hlog files of the run directory have all histograms",
    "block_error_percentiles gpu_dev_id ramp_size sprandom spr_num_regions spr_op spr_cs: the \
     load without this option, in which every job runs to its own end",
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
     xnvme_admin xnvme_async xnvme_be xnvme_dev_nsid xnvme_dev_subnqn xnvme_iovec xnvme_mem xnvme_sync: the same \
     load; the option belongs to another of fio's engines",
];

/// Options for which 0 has an effect.
const ZERO_COUNTS: [&str; 6] = [
    "percentage_sequential",
    "uid",
    "gid",
    "plids",
    "fdp_pli",
    "dedupe_working_set_percentage",
];

/// Values with which an unsupported option says what flashproof does anyway.
const AS_WITHOUT: [(&str, &str); 5] = [
    ("rw_sequencer", "sequential"),
    ("replay_time_scale", "100"),
    ("steadystate_check_interval", "1"),
    ("ss_interval", "1"),
    ("dedupe_working_set_percentage", "5"),
];

/// True if an unsupported option has no effect with `value`.
pub(super) fn has_no_effect(name: &str, value: Option<&str>) -> bool {
    let Some(value) = value.map(str::trim) else {
        return false;
    };
    let is_nothing =
        value == "none" || (!ZERO_COUNTS.contains(&name) && value.parse::<f64>() == Ok(0.0));
    is_nothing || AS_WITHOUT.contains(&(name, value))
}

/// Unsupported options of fio's program, and the remedy, in the form of [`NO_DIFFERENCE`].
static PROGRAM_MISSING: &[&str] = &[
    "bandwidth-log latency-log: logs are options of jobs - give write_bw_log=PREFIX, write_lat_log=PREFIX",
    "server client remote-config daemonize trigger-remote: flashproof runs on this machine, in the foreground",
    "showcmd: --dry-run shows what would run",
    "profile: flashproof storage CONFIG runs ACT's load; --load=1 is read-reqs-per-sec: 2000 and write-reqs-per-sec: \
     1000 in the configuration CONFIG",
    "debug idle-prof inflate-log crctest cpuclock-test memcpytest enghelp aux-path: leave it out",
    "cross-check: run fio with the same jobs before or after flashproof",
    "merge-blktrace-only xnvme: flashproof storage --replay runs a trace",
];

/// Options of the program, not of a job, that take a value: fio's, then flashproof's.
const PROGRAM_WITH_VALUE: &str = "output output-format terse-version status-interval section eta eta-newline \
    eta-interval alloc-size max-jobs trigger trigger-file trigger-timeout out erase sla slice max-errors hang";

/// Options of the program that take no value.
const PROGRAM_ALONE: &str = "minimal append-terse parse-only readonly warnings-fatal version help cmdhelp \
    force shared no-trace dry-run quiet";

/// True if a list of names, separated by spaces, has `name`.
pub fn has(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

/// The names and the text of each entry of a list.
fn entries(list: &'static [&'static str]) -> impl Iterator<Item = (&'static str, &'static str)> {
    list.iter().filter_map(|entry| entry.split_once(": "))
}

/// Text of the entry that lists `name`.
fn text_of(list: &'static [&'static str], name: &str) -> Option<&'static str> {
    entries(list)
        .find(|(names, _)| has(names, name))
        .map(|(_, text)| text)
}

/// Support for the option `name`; `None` if fio has no such option.
pub fn find(name: &str) -> Option<Support> {
    let known = KNOWN
        .iter()
        .find(|option| option.name == name || option.aliases.contains(&name));
    known
        .map(Support::Known)
        .or_else(|| text_of(NO_DIFFERENCE, name).map(Support::NoEffect))
        .or_else(|| text_of(MISSING, name).map(Support::Unsupported))
}

/// Names of all options of jobs.
fn names() -> impl Iterator<Item = &'static str> {
    let known = KNOWN
        .iter()
        .flat_map(|option| std::iter::once(&option.name).chain(option.aliases))
        .copied();
    let others = entries(NO_DIFFERENCE)
        .chain(entries(MISSING))
        .flat_map(|(names, _)| names.split(' '));
    known.chain(others)
}

/// The only option of jobs whose name begins with `name`, as getopt_long(3) completes the names of a command line;
/// otherwise `name`. Options of the program, such as `erase`, are never abbreviated.
pub(super) fn unabbreviated(name: &str) -> &str {
    let is_full = find(name).is_some() || program_option_takes_value(name).is_some();
    let mut longer = names().filter(|known| known.starts_with(name));
    match (longer.next(), longer.next()) {
        (Some(only), None) if !is_full => only,
        _ => name,
    }
}

/// For an option of the program: true if it takes a value.
pub(super) fn program_option_takes_value(name: &str) -> Option<bool> {
    let takes_value = has(PROGRAM_WITH_VALUE, name);
    (takes_value || has(PROGRAM_ALONE, name)).then_some(takes_value)
}

/// The remedy for an option of fio's program that is unsupported.
pub(super) fn program_option_remedy(name: &str) -> Option<&'static str> {
    text_of(PROGRAM_MISSING, name)
}

/// The supported option most similar to `unknown`, if any is close.
pub fn nearest(unknown: &str) -> Option<&'static str> {
    similar(
        unknown,
        KNOWN
            .iter()
            .flat_map(|option| option.aliases.iter().copied().chain([option.name])),
    )
}

/// The tables of `docs/fio.md`.
pub fn markdown() -> String {
    let mut text = String::from("| option | default | meaning |\n|---|---|---|\n");
    for KnownOption {
        name,
        aliases,
        default,
        meaning,
        ..
    } in KNOWN
    {
        let names: Vec<_> = std::iter::once(name)
            .chain(*aliases)
            .map(|name| format!("`{name}`"))
            .collect();
        let _ = writeln!(text, "| {} | {default} | {meaning} |", names.join(", "));
    }
    for (title, column, list) in [
        ("Accepted, without effect", "why", NO_DIFFERENCE),
        (
            "Not supported: flashproof runs nothing; the message names the option and the load without this option",
            "load without the option",
            MISSING,
        ),
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
    let width = KNOWN
        .iter()
        .map(|option| option.name.len())
        .max()
        .unwrap_or(0);
    let indent = " ".repeat(width + 2);
    let mut text = String::new();
    for option in KNOWN {
        let meaning = option.meaning.replace('`', "");
        let line = format!("{:width$}  {meaning} [{}]", option.name, option.default);
        text += &units::wrapped(&line, &indent, 118);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_stands_in_one_place() {
        let mut seen = HashSet::new();
        for name in names() {
            assert!(seen.insert(name), "{name} is in the table twice");
            assert!(
                program_option_takes_value(name).is_none(),
                "{name} is an option of the program too"
            );
        }
    }
}
