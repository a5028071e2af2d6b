//! The rules for a configuration, from a file or a program.
//!
//! Each value against its row of the table, then values against each other. A small load is no
//! mistake: ACT's "load config too small" comes from an integer division that is not done here.

use super::config::ActConfig;
use super::dialect::Quoted;
use super::options::Test;
use super::problem::Problem;
use super::sizes::{HistogramSizes, SizeHistogram, SizeWithinBucket};
use super::table::options_of;

const READ_HISTOGRAM: &str = "storage-read-histogram";
const WRITE_HISTOGRAM: &str = "storage-write-histogram";
const LARGE_BLOCK: &str = "large-block-op-kbytes";

/// Everything that is wrong with `config`; empty when it can be run.
pub fn check(config: &ActConfig) -> Vec<Problem> {
    let single = options_of(config.test).filter_map(|spec| {
        let (_, setting) = config.setting(spec.name)?;
        if spec.is_translated() {
            return setting.text().map(|_| Problem::OldKey(Quoted::new(spec.name)));
        }
        Some(spec.problem(setting.check(spec).err()?))
    });
    let mut problems: Vec<_> = single.collect();
    // Rules about several values assume that each is in its range.
    if problems.is_empty() {
        problems = conflicts(config);
    }
    problems
}

/// Values that contradict each other, each being in its range.
pub(super) fn conflicts(config: &ActConfig) -> Vec<Problem> {
    let mut problems: Vec<_> = simulated_with_others(config).into_iter().collect();
    if config.read_reqs_per_sec == 0 && config.write_reqs_per_sec == 0 {
        problems.push(Problem::conflict(
            ["read-reqs-per-sec", "write-reqs-per-sec"],
            "read-reqs-per-sec and write-reqs-per-sec are both 0: there is no load - give at least one of them",
        ));
    }
    if config.test == Test::Storage {
        problems.extend(storage_conflicts(config));
    }
    problems
}

fn storage_conflicts(config: &ActConfig) -> Vec<Problem> {
    let large_block_bytes = config.large_block_op_kbytes.saturating_mul(1024);
    let ActConfig { record_bytes: min_bytes, record_bytes_range_max: max_bytes, commit_min_bytes, .. } = *config;
    let mut problems = Vec::new();
    if max_bytes != 0 && max_bytes <= min_bytes {
        problems.push(Problem::conflict(
            ["record-bytes-range-max", "record-bytes"],
            format!(
                "record-bytes-range-max: {max_bytes} bytes is not larger than record-bytes, which is {min_bytes} - \
                 give more than {min_bytes}, or 0 for records of one size"
            ),
        ));
    }
    let key = if max_bytes > min_bytes { "record-bytes-range-max" } else { "record-bytes" };
    let (record_bytes, stored_bytes) = (config.record_bytes_max(), config.stored_bytes_max());
    if stored_bytes > large_block_bytes {
        problems.push(Problem::conflict(
            [key, LARGE_BLOCK],
            format!(
                "{key}: a record of {record_bytes} bytes takes {stored_bytes} bytes as stored, but a large block has only \
                 {large_block_bytes} bytes and records do not straddle blocks - make {key} at most {large_block_bytes} or \
                 raise large-block-op-kbytes (at most 8192)"
            ),
        ));
    }
    problems.extend(if config.has_histograms() { beside_histograms(config) } else { without_histograms(config) });
    if config.disable_odsync && config.commit_to_device {
        problems.push(Problem::conflict(
            ["disable-odsync", "commit-to-device"],
            "disable-odsync: yes contradicts commit-to-device: yes, because a commit is a write that is durable when it \
             returns - set one of the two to no",
        ));
    }
    if commit_min_bytes > large_block_bytes {
        problems.push(Problem::conflict(
            ["commit-min-bytes", LARGE_BLOCK],
            format!(
                "commit-min-bytes: {commit_min_bytes} bytes is more than a large block of {large_block_bytes} bytes - give \
                 at most {large_block_bytes} or raise large-block-op-kbytes (at most 8192)"
            ),
        ));
    }
    problems
}

/// Simulated drives live on virtual time and have their own size.
fn simulated_with_others(config: &ActConfig) -> Option<Problem> {
    let (simulated, real): (Vec<_>, Vec<_>) = config.device_names.iter().partition(|name| name.drive().is_some());
    let simulated = Quoted::new(simulated.first()?.as_str());
    if let Some(real) = real.first() {
        let real = Quoted::new(real.as_str());
        return Some(Problem::conflict(
            ["device-names"],
            format!(
                "device-names: {simulated} is simulated on virtual time and {real} is not, and one test has one clock - \
                 test them one after the other"
            ),
        ));
    }
    let mbytes = config.file_size_mbytes?;
    Some(Problem::conflict(
        ["file-size-mbytes", "device-names"],
        format!(
            "file-size-mbytes: {simulated} is a simulated drive, not a file - drop file-size-mbytes and give the drive's \
             size as capacity={mbytes}MiB"
        ),
    ))
}

fn without_histograms(config: &ActConfig) -> Vec<Problem> {
    let standard = ActConfig::default();
    let changed = [
        ("total-lbw-per-sec", config.total_lbw_per_sec != standard.total_lbw_per_sec),
        ("direct-frees", config.direct_frees != standard.direct_frees),
        ("lbr-req-offset", config.lbr_req_offset != standard.lbr_req_offset),
        ("lbw-req-offset", config.lbw_req_offset != standard.lbw_req_offset),
        ("read-size-offset", config.read_size_offset != standard.read_size_offset),
        ("write-size-offset", config.write_size_offset != standard.write_size_offset),
        ("size-within-bucket", config.size_within_bucket != SizeWithinBucket::default()),
    ];
    let unused = changed.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| {
        beside_sizes(
            key,
            format!(
                "{key}: it only works with storage-read-histogram and storage-write-histogram, and neither is given - \
                 drop it, or add them"
            ),
        )
    });
    let mut problems: Vec<_> = unused.collect();
    if config.record_bytes == 0 {
        problems.push(beside_sizes(
            "record-bytes",
            "record-bytes: 0 is too small without a histogram - give a whole number from 1 to 8388608 (bytes), or the \
             sizes as storage-read-histogram and storage-write-histogram",
        ));
    }
    problems
}

/// A key that contradicts the histograms, or the lack of them.
fn beside_sizes(key: &'static str, what: impl Into<String>) -> Problem {
    Problem::conflict([key, READ_HISTOGRAM, WRITE_HISTOGRAM], what)
}

fn beside_histograms(config: &ActConfig) -> Vec<Problem> {
    let mut problems = Vec::new();
    let histogram = if config.storage_read_histogram.is_some() { READ_HISTOGRAM } else { WRITE_HISTOGRAM };
    for (key, bytes, remedy) in [
        ("record-bytes", config.record_bytes, "set it to 0"),
        ("record-bytes-range-max", config.record_bytes_range_max, "drop it"),
    ] {
        if bytes != 0 {
            let what = format!(
                "{key}: {bytes} contradicts {histogram}, which gives the sizes already - {remedy}, or drop the histogram"
            );
            problems.push(beside_sizes(key, what));
        }
    }
    for (histogram, found, rate_key, rate) in [
        (READ_HISTOGRAM, config.storage_read_histogram, "read-reqs-per-sec", config.read_reqs_per_sec),
        (WRITE_HISTOGRAM, config.storage_write_histogram, "write-reqs-per-sec", config.write_reqs_per_sec),
    ] {
        if found.is_none() && rate != 0 {
            let what = format!(
                "{histogram}: missing, though {rate_key} is {rate} and the sizes come from histograms - add it, or set \
                 {rate_key} to 0"
            );
            problems.push(beside_sizes(rate_key, what));
        }
    }
    problems.extend(already_inside(config));
    let (frees, blocks) = (config.direct_frees, config.total_lbw_per_sec);
    if frees > blocks {
        problems.push(Problem::conflict(
            ["direct-frees", "total-lbw-per-sec"],
            format!(
                "direct-frees: {frees} blocks/s are more than total-lbw-per-sec, {blocks}, of which they are a part - take \
                 both from the same moment of the database's log"
            ),
        ));
    }
    problems.extend(too_large(config));
    problems
}

/// The counts come from the device, so they include the database's own I/O.
fn already_inside(config: &ActConfig) -> impl Iterator<Item = Problem> {
    let standard = ActConfig::default();
    [
        ("replication-factor", config.replication_factor, "the replicas", standard.replication_factor),
        ("update-pct", config.update_pct, "the reads of updates", standard.update_pct),
        ("defrag-lwm-pct", config.defrag_lwm_pct, "the writes of defragmentation", standard.defrag_lwm_pct),
    ]
    .into_iter()
    .filter(|(_, value, _, default)| value != default)
    .map(|(key, value, part, default)| {
        beside_sizes(
            key,
            format!(
                "{key}: {value} would count {part} twice, because the rates and sizes of a live database have them in \
                 already - drop it (the default is {default})"
            ),
        )
    })
}

/// A separate read or write is of one record, and a record is within one large block.
fn too_large(config: &ActConfig) -> Vec<Problem> {
    let large_block_bytes = config.large_block_op_kbytes.saturating_mul(1024);
    // Of writes that are packed into large blocks only the mean counts.
    let issued_writes = config.write_sizes().filter(|_| config.commit_to_device);
    let each: [(_, _, Option<SizeHistogram>, Option<HistogramSizes>); 2] = [
        (READ_HISTOGRAM, "read-size-offset", config.storage_read_histogram, config.read_sizes()),
        (WRITE_HISTOGRAM, "write-size-offset", config.storage_write_histogram, issued_writes),
    ];
    let mut problems = Vec::new();
    for (key, offset_key, histogram, issued) in each {
        let Some(histogram) = histogram else { continue };
        let over_bytes = histogram.largest().lower_bytes;
        if over_bytes >= large_block_bytes {
            problems.push(Problem::conflict(
                [key, LARGE_BLOCK],
                format!(
                    "{key}: it has sizes over {over_bytes} bytes, but a large block has only {large_block_bytes} bytes and \
                     records do not straddle blocks - raise large-block-op-kbytes to the database's write-block size (at \
                     most 8192)"
                ),
            ));
        } else if let Some(sizes) = issued.filter(|sizes| sizes.bytes_max() > large_block_bytes) {
            problems.push(Problem::conflict(
                [offset_key, key, "size-within-bucket", LARGE_BLOCK],
                format!(
                    "{offset_key}: at {} % the largest records have {} bytes, more than a large block of \
                     {large_block_bytes} bytes - lower it, choose another size-within-bucket, or raise \
                     large-block-op-kbytes (at most 8192)",
                    sizes.offset_pct,
                    sizes.bytes_max()
                ),
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ActConfig {
        ActConfig {
            device_names: vec!["/dev/a".parse().unwrap()],
            test_duration_sec: 1,
            read_reqs_per_sec: 1,
            ..ActConfig::default()
        }
    }

    #[test]
    fn one_read_a_second_is_a_load() {
        assert_eq!(check(&config()), []);
    }

    #[test]
    fn a_program_is_held_to_the_ranges_of_a_file() {
        let texts = |config: &ActConfig| check(config).iter().map(Problem::to_string).collect::<Vec<_>>();
        assert_eq!(
            texts(&ActConfig { update_pct: 101, large_block_op_kbytes: 0, ..config() }),
            [
                "large-block-op-kbytes: 0 is too small - give a power of two from 1 to 8192 (KiB)",
                "update-pct: 101 is too large - give a whole number from 0 to 100 (%)",
            ]
        );
        assert_eq!(
            texts(&ActConfig { device_names: vec!["/dev/a b".parse().unwrap()], ..config() }).len(),
            1,
            "a name that no file can hold"
        );
        let untranslated = texts(&ActConfig { num_queues: Some(8), ..config() });
        assert!(untranslated[0].starts_with("\"num-queues\" is a key of an older ACT"), "{untranslated:?}");
    }

    #[test]
    fn a_record_that_fills_its_block_exactly_fits() {
        let full = ActConfig { record_bytes: 8 << 20, large_block_op_kbytes: 8192, ..config() };
        assert_eq!(check(&full), []);
        let one_more = ActConfig { record_bytes: 128 * 1024 + 1, ..config() };
        let [problem] = &check(&one_more)[..] else { panic!("one problem") };
        let said = "record-bytes: a record of 131073 bytes takes 131088 bytes as stored, but";
        assert!(problem.to_string().starts_with(said), "{problem}");
    }
}
