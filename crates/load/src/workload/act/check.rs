//! The rules for a configuration, from a file or a program.
//!
//! Each value against its row of the table, then values against each other. A small load is no
//! mistake: ACT's "load config too small" comes from an integer division that is not done here.

use super::config::ActConfig;
use super::dialect::Quoted;
use super::options::Test;
use super::problem::Problem;
use super::sizes::problem::SizesProblem;
use super::sizes::{HistogramSizes, SizeHistogram, SizeWithinBucket};
use super::table::options_of;

const READ_HISTOGRAM: &str = "storage-read-histogram";
const WRITE_HISTOGRAM: &str = "storage-write-histogram";

/// Everything that is wrong with `config`; empty when it can be run.
pub fn check(config: &ActConfig) -> Vec<Problem> {
    let single = options_of(config.test).filter_map(|spec| {
        let (_, setting) = config.setting(spec.name)?;
        if spec.is_translated() {
            return setting.text().map(|_| Problem::OldKey { key: Quoted::new(spec.name) });
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
        problems.push(Problem::NoLoad);
    }
    if config.test == Test::Storage {
        problems.extend(storage_conflicts(config));
    }
    problems
}

fn storage_conflicts(config: &ActConfig) -> Vec<Problem> {
    let large_block_bytes = config.large_block_op_kbytes.saturating_mul(1024);
    let mut problems = Vec::new();
    if config.record_bytes_range_max != 0 && config.record_bytes_range_max <= config.record_bytes {
        problems.push(Problem::RangeNotAboveRecord {
            range_max_bytes: config.record_bytes_range_max,
            record_bytes: config.record_bytes,
        });
    }
    let key =
        if config.record_bytes_range_max > config.record_bytes { "record-bytes-range-max" } else { "record-bytes" };
    let record_bytes = config.record_bytes_max();
    let stored_bytes = config.stored_bytes_max();
    if stored_bytes > large_block_bytes {
        problems.push(Problem::RecordLargerThanLargeBlock { key, record_bytes, stored_bytes, large_block_bytes });
    }
    let of_sizes = if config.has_histograms() { beside_histograms(config) } else { without_histograms(config) };
    problems.extend(of_sizes.into_iter().map(Problem::Sizes));
    if config.disable_odsync && config.commit_to_device {
        problems.push(Problem::CommitWithoutOdsync);
    }
    if config.commit_min_bytes > large_block_bytes {
        problems.push(Problem::CommitMinLargerThanLargeBlock {
            commit_min_bytes: config.commit_min_bytes,
            large_block_bytes,
        });
    }
    problems
}

/// Simulated drives live on virtual time and have their own size.
fn simulated_with_others(config: &ActConfig) -> Option<Problem> {
    let (simulated, real): (Vec<_>, Vec<_>) = config.device_names.iter().partition(|name| name.drive().is_some());
    let simulated = Quoted::new(simulated.first()?.as_str());
    if let Some(real) = real.first() {
        return Some(Problem::SimulatedWithReal { simulated, real: Quoted::new(real.as_str()) });
    }
    config.file_size_mbytes.map(|mbytes| Problem::SimulatedFile { simulated, mbytes })
}

fn without_histograms(config: &ActConfig) -> Vec<SizesProblem> {
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
    let unused = changed.into_iter().filter(|(_, changed)| *changed);
    let mut problems: Vec<_> = unused.map(|(key, _)| SizesProblem::WithoutHistogram { key }).collect();
    if config.record_bytes == 0 {
        problems.push(SizesProblem::NoSize);
    }
    problems
}

fn beside_histograms(config: &ActConfig) -> Vec<SizesProblem> {
    let mut problems = Vec::new();
    let histogram = if config.storage_read_histogram.is_some() { READ_HISTOGRAM } else { WRITE_HISTOGRAM };
    for (key, bytes) in
        [("record-bytes", config.record_bytes), ("record-bytes-range-max", config.record_bytes_range_max)]
    {
        if bytes != 0 {
            problems.push(SizesProblem::SizedTwice { key, bytes, histogram });
        }
    }
    for (histogram, found, rate_key, rate) in [
        (READ_HISTOGRAM, config.storage_read_histogram, "read-reqs-per-sec", config.read_reqs_per_sec),
        (WRITE_HISTOGRAM, config.storage_write_histogram, "write-reqs-per-sec", config.write_reqs_per_sec),
    ] {
        if found.is_none() && rate != 0 {
            problems.push(SizesProblem::HistogramMissing { histogram, rate_key, rate });
        }
    }
    problems.extend(already_inside(config));
    if config.direct_frees > config.total_lbw_per_sec {
        let (direct_frees, total_lbw) = (config.direct_frees, config.total_lbw_per_sec);
        problems.push(SizesProblem::MoreFreesThanBlocks { direct_frees, total_lbw });
    }
    problems.extend(too_large(config));
    problems
}

/// The counts come from the device, so they include the database's own I/O.
fn already_inside(config: &ActConfig) -> impl Iterator<Item = SizesProblem> {
    let standard = ActConfig::default();
    [
        ("replication-factor", config.replication_factor, "the replicas", standard.replication_factor),
        ("update-pct", config.update_pct, "the reads of updates", standard.update_pct),
        ("defrag-lwm-pct", config.defrag_lwm_pct, "the writes of defragmentation", standard.defrag_lwm_pct),
    ]
    .into_iter()
    .filter(|(_, value, _, default)| value != default)
    .map(|(key, value, what, default)| SizesProblem::AlreadyInside { key, value, what, default })
}

/// A separate read or write is of one record, and a record is within one large block.
fn too_large(config: &ActConfig) -> Vec<SizesProblem> {
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
            problems.push(SizesProblem::BucketLargerThanLargeBlock { key, over_bytes, large_block_bytes });
        } else if let Some(sizes) = issued
            && sizes.bytes_max() > large_block_bytes
        {
            let (key, offset_pct, bytes) = (offset_key, sizes.offset_pct, sizes.bytes_max());
            problems.push(SizesProblem::LargestDoesNotFit { key, offset_pct, bytes, large_block_bytes });
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
        assert!(matches!(
            check(&one_more)[..],
            [Problem::RecordLargerThanLargeBlock { key: "record-bytes", stored_bytes: 131_088, .. }]
        ));
    }
}
