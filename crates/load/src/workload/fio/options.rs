//! fio's options: one table for the parser, the help and `docs/fio.md`.
//!
//! Every option that fio 3.41 has stands here: those that are done as fio does them, those that make no difference here,
//! and those that we do not have, with what would be run without them.

use results::units;
use std::fmt::Write;

/// What kind of value an option has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 0 or 1; alone it is 1.
    Bool,
    /// Any other.
    Value,
    /// None is needed; what it has is its business.
    Flag,
}

/// An option that is done.
#[derive(Debug)]
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// Its other names.
    pub aliases: &'static [&'static str],
    /// Kind of value.
    pub kind: Kind,
    /// What holds without it.
    pub default: &'static str,
    /// What it means, for people.
    pub meaning: &'static str,
}

/// Where an option stands.
#[derive(Debug, Clone, Copy)]
pub enum Standing {
    /// It is done.
    Known(&'static Known),
    /// It is read, and makes no difference: why.
    NoDifference(&'static str, &'static str),
    /// We do not have it: what would be run without it.
    Missing(&'static str, &'static str),
}

macro_rules! known {
    ($($name:literal $([$($alias:literal),+])? $kind:ident = $default:literal: $meaning:literal,)+) => {
        &[$(Known { name: $name, aliases: &[$($($alias),+)?], kind: Kind::$kind, default: $default, meaning: $meaning },)+]
    };
}

/// The options that are done, in the order of fio's manual.
pub static KNOWN: &[Known] = known! {
    "name" Value = "section": "what the job is called; on the command line it begins a job",
    "description" Value = "none": "a text of the user's",
    "filename" Value = "JOB.NUMBER.FILE": "devices, files or simulated drives (`sim:...`), with `:` between (`\\:` within a name); their operations take turns",
    "directory" Value = "here": "where files without a `/` at their beginning are",
    "nrfiles" ["nr_files"] Value = "1": "files of each job, where no filename is given",
    "rw" ["readwrite"] Value = "read": "`read`, `write`, `trim`, `randread`, `randwrite`, `randtrim`, `rw`, `randrw`",
    "ioengine" Value = "io_uring": "`io_uring`, `libaio`, `posixaio`: io_uring; `sync`, `psync`, `vsync`, `pvsync`, `pvsync2`: io_uring with one in flight",
    "iodepth" Value = "1": "operations that a job has in flight at most; reaching it is the configured limit's doing in a verdict",
    "size" Value = "whole device or file": "bytes of each device or file that are used, or percent of it; what a job moves if neither time_based nor io_size is given",
    "io_size" ["io_limit"] Value = "size": "bytes that a job moves before it ends",
    "filesize" Value = "size": "size of files that are made",
    "offset" ["fileoffset"] Value = "0": "first byte that is used, or percent",
    "offset_increment" Value = "0": "added to offset for each further clone of numjobs",
    "number_ios" Value = "none": "operations after which a job ends",
    "bs" ["blocksize"] Value = "4k": "bytes of an operation, of reads, writes, trims: `8k`, `8k,32k`, `8k,,64k`",
    "ba" ["blockalign"] Value = "smallest bs": "offsets of random operations are multiples of it",
    "bsrange" ["blocksize_range"] Value = "none": "any multiple of the lower in a range, equally likely: `4k-16k,8k-32k`",
    "bssplit" Value = "none": "sizes with percentages: `4k/10:64k/50:32k/`; blank ones share the rest",
    "randrepeat" ["allrandrepeat"] Bool = "1": "the same places each time; 0: others each time",
    "randseed" Value = "none": "seed of all random choices (not those that fio makes of the same seed)",
    "norandommap" Bool = "0": "random offsets may come again before each block had its turn",
    "random_generator" Value = "tausworthe64": "`tausworthe`, `tausworthe64`, `lfsr`: our generator in any case, and with a map each block once",
    "random_distribution" Value = "random": "`random`, `zipf:THETA`, `pareto:H`, `zoned:ACCESS/SIZE:...`, `zoned_abs:ACCESS/SIZE:...`; all but the first go without a map",
    "file_service_type" Value = "roundrobin": "`roundrobin`: files take turns; `random`",
    "fsync" Value = "0": "a flush after so many writes (fdatasync, counted as sync)",
    "fdatasync" Value = "0": "a flush after so many writes",
    "direct" Bool = "0": "1: past the page cache; 0: through it, which is then what is measured",
    "buffered" Bool = "1": "the opposite of direct",
    "numjobs" Value = "1": "clones of a job that run at once; up to a thread for each CPU issues",
    "runtime" ["timeout"] Value = "none": "seconds after which it ends at the latest; of jobs that run at once the same, and whole seconds",
    "time_based" Bool = "0": "begins again when size is done, until runtime",
    "ramp_time" Value = "0": "seconds before what counts; of jobs that run at once the same",
    "loops" Value = "1": "so often what size or io_size says",
    "rwmixread" Value = "50": "percent of reads; each direction with a rate has that rate instead, as in fio",
    "rwmixwrite" Value = "50": "percent of writes",
    "thinktime" Value = "0": "microseconds from the end of each operation to the next; one is in flight",
    "rate" Value = "none": "bytes a second, of reads, writes, trims: an open loop, see below",
    "rate_iops" Value = "none": "operations a second, of reads, writes, trims: an open loop, see below",
    "rate_process" Value = "linear": "`linear`: evenly spaced; `poisson`: exponential gaps",
    "sync" Value = "none": "`dsync`, `sync`, `1`: each write is on the medium when it completes (O_DSYNC)",
    "stonewall" ["wait_for_previous"] Flag = "0": "waits until the jobs before have ended: a run of its own",
    "new_group" Bool = "0": "begins a group of reporting",
    "group_reporting" Bool = "0": "jobs of a group are reported as one",
    "write_bw_log" Value = "none": "writes PREFIX_bw.JOB.log, KiB/s; needs log_avg_msec",
    "write_lat_log" Value = "none": "writes PREFIX_clat.JOB.log and PREFIX_lat.JOB.log, ns; needs log_avg_msec",
    "write_iops_log" Value = "none": "writes PREFIX_iops.JOB.log; needs log_avg_msec",
    "log_avg_msec" Value = "0": "time over which a line of these logs is the mean: whole seconds (1000, 2000...)",
    "per_job_logs" Bool = "1": "0: no number of the job in the names of logs",
    "zero_buffers" Bool = "0": "writes zeros",
    "refill_buffers" Bool = "0": "new data for each write: we always do",
    "buffer_compress_percentage" Value = "0": "part of each 512 bytes that is zeros",
    "clat_percentiles" Bool = "1": "percentiles of completion latencies",
    "lat_percentiles" Bool = "0": "percentiles of total latencies",
    "percentile_list" Value = "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99": "which; up to 20",
    "kb_base" Value = "1024": "what `k` is: 1024 or 1000",
};

/// Options that are read and make no difference here.
static NO_DIFFERENCE: &[(&[&str], &str)] = &[
    (
        &["thread", "comm", "gtod_reduce", "gtod_cpu", "clocksource", "disk_util", "stats", "unit_base"],
        "how fio itself runs or counts",
    ),
    (
        &[
            "iodepth_batch",
            "iodepth_batch_submit",
            "iodepth_batch_complete",
            "iodepth_batch_complete_min",
            "iodepth_batch_complete_max",
            "iodepth_low",
        ],
        "batches are made as they come due and never wait to be full",
    ),
    (
        &[
            "fallocate",
            "create_serialize",
            "create_fsync",
            "create_on_open",
            "fadvise_hint",
            "unlink",
            "openfiles",
            "allow_mounted_write",
            "allow_file_create",
            "overwrite",
            "invalidate",
        ],
        "the guard opens, makes and protects; caches are dropped; files stay",
    ),
    (&["mem", "iomem", "iomem_align", "mem_align", "hugepage-size", "lockmem"], "buffers are the ring's own"),
    (
        &["scramble_buffers", "softrandommap", "buffer_compress_chunk"],
        "data is new for every write, and there is memory for a map or it is refused",
    ),
    (
        &["registerfiles", "fixedbufs", "sqthread_poll", "nonvectored", "force_async", "userspace_reap"],
        "the ring is set up as it is best here",
    ),
    (
        &[
            "continue_on_error",
            "log_entries",
            "bwavgtime",
            "iopsavgtime",
            "log_max_value",
            "significant_figures",
            "job_start_clock_id",
        ],
        "errors fail the run after many, and means are of a second",
    ),
    (
        &["disable_lat", "disable_clat", "disable_slat", "disable_bw_measurement", "disable_bw", "slat_percentiles"],
        "measuring is not switched off; there is no slat of its own",
    ),
];

/// Options that we do not have, and what would be run without them.
static MISSING: &[(&[&str], &str)] = &[
    (
        &[
            "verify",
            "do_verify",
            "verify_policy",
            "verifysort",
            "verifysort_nr",
            "verify_interval",
            "verify_offset",
            "verify_pattern",
            "verify_pattern_interval",
            "verify_fatal",
            "verify_dump",
            "verify_async",
            "verify_backlog",
            "verify_backlog_batch",
            "verify_async_cpus",
            "experimental_verify",
            "verify_state_load",
            "verify_state_save",
            "verify_write_sequence",
            "verify_header_seed",
            "verify_only",
        ],
        "the same operations, and nothing that was written is compared",
    ),
    (
        &["trim_percentage", "trim_verify_zero", "trim_backlog", "trim_backlog_batch"],
        "the writes without trims among them",
    ),
    (
        &[
            "write_iolog",
            "read_iolog",
            "read_iolog_chunked",
            "replay_no_stall",
            "replay_redirect",
            "replay_scale",
            "replay_align",
            "replay_time_scale",
            "replay_skip",
            "merge_blktrace_file",
            "merge_blktrace_scalars",
            "merge_blktrace_iters",
        ],
        "operations that are made up, not those of the log (flashproof storage --replay runs a trace)",
    ),
    (&["exec_prerun", "exec_postrun"], "the load without the commands around it"),
    (&["ioscheduler"], "the load under the present scheduler (/sys/block/DEVICE/queue/scheduler)"),
    (
        &[
            "zonemode",
            "zonesize",
            "zonecapacity",
            "zonerange",
            "zoneskip",
            "read_beyond_wp",
            "max_open_zones",
            "job_max_open_zones",
            "ignore_zone_limits",
            "zone_reset_threshold",
            "zone_reset_frequency",
            "recover_zbd_write_error",
            "write_zone_remainder",
        ],
        "operations all over the range, regardless of zones",
    ),
    (
        &[
            "fdp",
            "fdp_pli_select",
            "fdp_pli",
            "dataplacement",
            "data_placement",
            "plid_select",
            "plids",
            "dp_scheme",
            "write_hint",
        ],
        "writes without a placement handle (flashproof tenants has them)",
    ),
    (
        &[
            "thinktime_spin",
            "thinkcycles",
            "thinktime_blocks",
            "thinktime_blocks_type",
            "thinktime_iotime",
            "rate_ignore_thinktime",
        ],
        "a pause after each operation, asleep",
    ),
    (
        &["rate_min", "ratemin", "rate_iops_min", "rate_cycle", "ratecycle"],
        "the rates; that they were not reached is in the verdict and its exit code",
    ),
    (
        &["max_latency", "latency_target", "latency_window", "latency_percentile", "latency_run"],
        "the whole depth throughout; --sla gives limits of latency and a verdict on them",
    ),
    (&["startdelay"], "all jobs begin at once"),
    (&["wait_for"], "all jobs begin at once (stonewall waits for those before)"),
    (
        &[
            "rw_sequencer",
            "percentage_random",
            "percentage_sequential",
            "random_sequence_stride",
            "bs_unaligned",
            "blocksize_unaligned",
            "bs_is_seq_rand",
            "offset_align",
            "rwmixcycle",
        ],
        "the order that rw says, with aligned blocks",
    ),
    (
        &["io_submit_mode", "serialize_overlap", "num_range", "atomic", "unified_rw_reporting"],
        "operations one by one, each on its own",
    ),
    (
        &[
            "cpumask",
            "cpus_allowed",
            "cpus_allowed_policy",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "nice",
            "prio",
            "prioclass",
            "priohint",
            "cgroup",
            "cgroup_weight",
            "cgroup_nodelete",
            "uid",
            "gid",
            "ioprio",
        ],
        "the load on any CPU at this process's priority (taskset, nice, ionice, systemd-run set them)",
    ),
    (
        &[
            "hipri",
            "cmdprio_percentage",
            "cmdprio",
            "cmdprio_class",
            "cmdprio_hint",
            "cmdprio_bssplit",
            "uncached",
            "md_per_io_size",
            "cmd_type",
            "sqthread_poll_cpu",
            "nowait",
        ],
        "ordinary operations that are waited for by interrupt",
    ),
    (
        &[
            "end_fsync",
            "fsync_on_close",
            "sync_file_range",
            "write_barrier",
            "end_syncfs",
            "pre_read",
            "file_append",
            "fill_device",
            "fill_fs",
            "create_only",
            "unlink_each_loop",
            "filetype",
            "opendir",
            "lockfile",
            "filename_format",
            "unique_filename",
        ],
        "the operations of rw alone, on files of the size given",
    ),
    (
        &["buffer_pattern", "dedupe_percentage", "dedupe_global", "dedupe_mode", "dedupe_working_set_percentage"],
        "random data that is never the same twice",
    ),
    (&["flow", "flow_id", "flow_watermark", "flow_sleep"], "all jobs independent of each other"),
    (
        &[
            "steadystate",
            "ss",
            "steadystate_duration",
            "ss_dur",
            "steadystate_ramp_time",
            "ss_ramp",
            "steadystate_check_interval",
            "ss_interval",
        ],
        "the whole runtime; the report tells whether it was steady",
    ),
    (
        &[
            "write_hist_log",
            "log_hist_msec",
            "log_hist_coarseness",
            "log_window_value",
            "log_offset",
            "log_prio",
            "log_issue_time",
            "log_compression",
            "log_compression_cpus",
            "log_store_compressed",
            "log_alternate_epoch",
            "log_alternate_epoch_clock_id",
            "log_unix_epoch",
        ],
        "no such log, or its usual form; hlog files of the run directory hold every histogram",
    ),
    (
        &[
            "exitall",
            "exit_what",
            "exitall_on_error",
            "ignore_error",
            "error_dump",
            "block_error_percentiles",
            "profile",
            "gpu_dev_id",
            "ramp_size",
            "sprandom",
            "spr_num_regions",
            "spr_op",
            "spr_cs",
        ],
        "each job to its own end",
    ),
];

/// What the program is told beside its jobs, and whether that takes a value: fio's, then ours.
pub static PROGRAM: &[(&str, bool)] = &[
    ("output", true),
    ("output-format", true),
    ("status-interval", true),
    ("section", true),
    ("parse-only", false),
    ("readonly", false),
    ("eta", true),
    ("eta-newline", true),
    ("eta-interval", true),
    ("alloc-size", true),
    ("max-jobs", true),
    ("warnings-fatal", false),
    ("version", false),
    ("help", false),
    ("cmdhelp", false),
    ("out", true),
    ("erase", true),
    ("shared", false),
    ("sla", true),
    ("slice", true),
    ("max-errors", true),
    ("no-trace", false),
    ("dry-run", false),
    ("quiet", false),
];

/// Where the option `name` stands; `None`: fio has none of that name.
pub fn find(name: &str) -> Option<Standing> {
    let known = KNOWN.iter().find(|option| option.name == name || option.aliases.contains(&name));
    let in_list = |list: &'static [(&'static [&'static str], &'static str)]| {
        list.iter().find_map(|(names, why)| names.iter().find(|known| **known == name).map(|name| (*name, *why)))
    };
    known
        .map(Standing::Known)
        .or_else(|| in_list(NO_DIFFERENCE).map(|(name, why)| Standing::NoDifference(name, why)))
        .or_else(|| in_list(MISSING).map(|(name, why)| Standing::Missing(name, why)))
}

/// The tables of `docs/fio.md`.
pub fn markdown() -> String {
    let mut text = String::from("| option | without it | meaning |\n|---|---|---|\n");
    for Known { name, aliases, default, meaning, .. } in KNOWN {
        let names: Vec<_> = std::iter::once(name).chain(*aliases).map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "| {} | {default} | {meaning} |", names.join(", "));
    }
    for (title, list) in [
        ("Read, and without effect here", NO_DIFFERENCE),
        ("Not here: named, with what would be run without them, and nothing runs", MISSING),
    ] {
        let _ = writeln!(
            text,
            "\n{title}:\n\n| options | {} |\n|---|---|",
            if title.starts_with('R') { "why" } else { "what would be run" }
        );
        for (names, why) in list {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(text, "| {} | {why} |", names.join(", "));
        }
    }
    text
}

/// A line for each option that is done, for `--cmdhelp`.
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
        let others = NO_DIFFERENCE.iter().chain(MISSING).flat_map(|(names, _)| *names);
        for name in known.chain(others) {
            assert!(seen.insert(*name), "{name} stands twice");
            assert!(
                !PROGRAM.iter().any(|(of_program, _)| of_program == name),
                "{name} is an option of the program too"
            );
        }
    }
}
