//! What a histogram load does not go together with.

use super::problem::SizesProblem;
use super::{HistogramSizes, SizeHistogram};
use crate::workload::act::sizes::SizeWithinBucket;
use crate::workload::act::storage::StorageConfig;

const READ_HISTOGRAM: &str = "storage-read-histogram";
const WRITE_HISTOGRAM: &str = "storage-write-histogram";

/// What contradicts each other in `config` as far as histograms are concerned, taking each value by
/// itself for good.
pub(crate) fn conflicts(config: &StorageConfig) -> Vec<SizesProblem> {
    if config.has_histograms() { beside_histograms(config) } else { without_histograms(config) }
}

fn without_histograms(config: &StorageConfig) -> Vec<SizesProblem> {
    let standard = StorageConfig::default();
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

fn beside_histograms(config: &StorageConfig) -> Vec<SizesProblem> {
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

/// The counts are those of the device, so what the database does to it by itself is in them.
fn already_inside(config: &StorageConfig) -> impl Iterator<Item = SizesProblem> {
    let standard = StorageConfig::default();
    [
        ("replication-factor", config.replication_factor, "the replicas", standard.replication_factor),
        ("update-pct", config.update_pct, "the reads of updates", standard.update_pct),
        ("defrag-lwm-pct", config.defrag_lwm_pct, "the writes of defragmentation", standard.defrag_lwm_pct),
    ]
    .into_iter()
    .filter(|(_, value, _, default)| value != default)
    .map(|(key, value, what, default)| SizesProblem::AlreadyInside { key, value, what, default })
}

/// Whatever is read or written by itself is a record, and a record lies in one large block.
fn too_large(config: &StorageConfig) -> Vec<SizesProblem> {
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
