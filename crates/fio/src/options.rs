//! Support for fio's options, for the parser, the help and `docs/fio.md`.
//!
//! Every option of fio 3.41 is in one of the tables: supported options (`table.rs`), options without effect here, and
//! unsupported options with the load that would run without them.

use super::table::{KNOWN, KnownOption};
use load::choice::similar;
use results::format;
use std::fmt::Write;

#[derive(Debug, Clone, Copy)]
pub enum Support {
    Known(&'static KnownOption),
    /// Accepted without effect, with the reason.
    NoEffect(&'static str),
    /// Unsupported, with the load that would run without it.
    Unsupported(&'static str),
}

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
    "registerfiles fixedbufs sqthread_poll sqthread_poll_cpu nonvectored force_async userspace_reap libaio_vectored: \
     flashproof chooses the settings of the ring",
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
    "rwmixcycle: the same mix, in which the direction of each operation is drawn independently; fio removed this option too",
    "num_range atomic: ordinary operations, each on one range",
    "unified_rw_reporting: the same operations, with each direction reported separately",
    "cgroup cgroup_weight cgroup_nodelete uid gid ioprio: the load with the settings of this process (start \
     flashproof under nice or systemd-run to set them)",
    "hipri hipri_percentage uncached md_per_io_size nowait: ordinary operations, completed by interrupt",
    "end_syncfs unlink_each_loop lockfile opendir: the load on the files of filename, without locks, with \
     fsync instead of syncfs, and with the same files in each loop",
    "flow flow_id flow_sleep flow_watermark: each job at its own speed, without shares between jobs",
    "log_store_compressed log_alternate_epoch log_alternate_epoch_clock_id: the log \
     without this option; the hlog files of the run directory have all histograms",
    "block_error_percentiles gpu_dev_id ramp_size sprandom spr_num_regions spr_op spr_cs: the \
     load without this option, in which every job runs to its own end",
    "apptag apptag_mask cdb_len deac pi_act pi_chk read_mode readfua sg_write_mode verify_bytchk verify_mode \
     write_mode writefua: plain reads and writes, without FUA, protection information or other types of commands",
    "thp: the same load; the kernel chooses the size of mapped pages",
    "arguments bindname brick busy_poll chunk_size clientname clustername conf cont cpuchunks cpuload cpumode \
     cuda_io donorname exit_on_io_done grace_time hdfs_use_direct hdfsdirectory hostname http_host http_mode \
     http_object_mode http_pass http_s3_key http_s3_keyid http_s3_region http_s3_security_token \
     http_s3_sse_customer_algorithm http_s3_sse_customer_key http_s3_storage_class http_swift_auth_token http_user \
     http_verbose https initiator inplace interface libblkio_driver libblkio_force_enable_completion_eventfd \
     libblkio_num_entries libblkio_path libblkio_pre_connect_props libblkio_pre_start_props libblkio_queue_size \
     libblkio_vectored libblkio_wait_mode libblkio_write_zeroes_on_trim listen mss namenode net_type nfs_url \
     no_completion_thread nodelay object_class pingpong pool port program protocol rbd_encryption_format \
     rbd_encryption_passphrase rbdname rocm_io single-instance single_instance skip_bad stat_type std_redirect \
     stream_id svcl touch_objects ttl uri verb volume window_size xnvme_admin xnvme_async xnvme_be xnvme_dev_nsid \
     xnvme_dev_subnqn xnvme_iovec xnvme_mem xnvme_sync: the same load; the option belongs to another of fio's \
     engines",
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

/// Values of unsupported options that request what flashproof does anyway.
const AS_WITHOUT: [(&str, &str); 5] = [
    ("rw_sequencer", "sequential"),
    ("replay_time_scale", "100"),
    ("steadystate_check_interval", "1"),
    ("ss_interval", "1"),
    ("dedupe_working_set_percentage", "5"),
];

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
    "server client remote-config trigger-remote: there is no client/server mode; start flashproof on each host, or \
     use flashproof fleet for many hosts",
    "daemonize: start flashproof with nohup or systemd-run",
    "showcmd: --dry-run shows what would run",
    "profile: flashproof storage CONFIG runs ACT's load; --load=1 is read-reqs-per-sec: 2000 and write-reqs-per-sec: \
     1000 in the configuration CONFIG",
    "debug idle-prof inflate-log crctest cpuclock-test memcpytest enghelp aux-path: leave it out",
    "cross-check: run fio with the same jobs before or after flashproof",
    "merge-blktrace-only xnvme: flashproof storage --replay runs a trace",
];

/// Options of the program, not of a job, that take a value: fio's, then flashproof's.
const PROGRAM_WITH_VALUE: &str = "output output-format terse-version status-interval section eta eta-newline \
    eta-interval alloc-size max-jobs trigger trigger-file trigger-timeout out note erase sla slice max-errors hang";

/// Options of the program that take no value.
const PROGRAM_ALONE: &str = "minimal append-terse parse-only readonly warnings-fatal version help cmdhelp \
    force shared no-trace dry-run quiet";

/// True if a list of names, separated by spaces, has `name`.
pub fn has(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

fn entries(list: &'static [&'static str]) -> impl Iterator<Item = (&'static str, &'static str)> {
    list.iter().filter_map(|entry| entry.split_once(": "))
}

fn text_of(list: &'static [&'static str], name: &str) -> Option<&'static str> {
    entries(list)
        .find(|(names, _)| has(names, name))
        .map(|(_, text)| text)
}

/// `None` if fio has no such option.
pub fn find(name: &str) -> Option<Support> {
    let known = KNOWN
        .iter()
        .find(|option| option.name == name || option.aliases.contains(&name));
    known
        .map(Support::Known)
        .or_else(|| text_of(NO_DIFFERENCE, name).map(Support::NoEffect))
        .or_else(|| text_of(MISSING, name).map(Support::Unsupported))
}

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

/// Completes the name of a job's option if only one begins with `name`, as getopt_long(3) does; otherwise returns `name`.
/// Options of the program, such as `erase`, are never completed.
pub(super) fn unabbreviated(name: &str) -> &str {
    let is_full = find(name).is_some()
        || program_option_takes_value(name).is_some()
        || program_option_remedy(name).is_some();
    let mut longer = names().filter(|known| known.starts_with(name));
    match (longer.next(), longer.next()) {
        (Some(only), None) if !is_full => only,
        _ => name,
    }
}

/// `None` for an option of a job.
pub(super) fn program_option_takes_value(name: &str) -> Option<bool> {
    let takes_value = has(PROGRAM_WITH_VALUE, name);
    (takes_value || has(PROGRAM_ALONE, name)).then_some(takes_value)
}

pub(super) fn program_option_remedy(name: &str) -> Option<&'static str> {
    text_of(PROGRAM_MISSING, name)
}

/// `None` if no supported option is close.
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

/// Columns of the names in the help: those of the longest name.
const NAME_COLUMNS: usize = 26;

/// The supported options with their meaning, for `--cmdhelp`.
pub fn help() -> String {
    KNOWN.iter().map(help_of_known).collect()
}

/// Help for one option, for `--cmdhelp=NAME`. Errors: an option that flashproof does not have. They begin as in fio,
/// because scripts ask fio whether it has an option.
pub fn help_of(name: &str) -> Result<String, String> {
    match find(name) {
        Some(Support::Known(option)) => Ok(help_of_known(option)),
        Some(Support::NoEffect(why)) => Ok(help_entry(name, &format!("no effect: {why}"))),
        Some(Support::Unsupported(without)) => Err(format!(
            "No such command: {name} - flashproof does not support this option of fio; without the option, flashproof \
             would run: {without}"
        )),
        None => Err(match nearest(name) {
            Some(similar) => format!("No such command: {name} - did you mean {similar}?"),
            None => format!("No such command: {name} - --cmdhelp lists all options"),
        }),
    }
}

fn help_of_known(option: &KnownOption) -> String {
    let meaning = option.meaning.replace('`', "");
    let aliases: String = option
        .aliases
        .iter()
        .map(|alias| format!(", alias {alias}"))
        .collect();
    help_entry(
        option.name,
        &format!("{meaning} [default {}{aliases}]", option.default),
    )
}

/// A name at the left margin, as in fio's list, and its text in the column beside it.
fn help_entry(name: &str, text: &str) -> String {
    let indent = " ".repeat(NAME_COLUMNS + 2);
    let wrapped = format::wrapped(text, &indent, 118);
    format!("{name:NAME_COLUMNS$}: {}", wrapped.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn help_has_the_names_at_the_left_margin_or_the_requested_option_alone() {
        assert!(help().starts_with("name                      : name of the job"));
        let longest = KNOWN.iter().map(|option| option.name.len()).max();
        assert_eq!(longest, Some(NAME_COLUMNS));
        assert_eq!(
            help_of("ratecycle").unwrap(),
            "rate_cycle                : milliseconds over which rate_min is checked [default 1000, alias ratecycle]\n"
        );
        let ignored = help_of("thread").unwrap();
        assert!(ignored.starts_with("thread                    : no effect: the option changes"));
        for (name, says) in [
            ("nosuch", "No such command: nosuch"),
            ("iodept", "No such command: iodept - did you mean iodepth?"),
            (
                "hipri",
                "No such command: hipri - flashproof does not support",
            ),
        ] {
            let refused = help_of(name).unwrap_err();
            assert!(refused.starts_with(says), "{refused}");
        }
    }

    #[test]
    fn every_option_name_is_in_one_table() {
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
