//! Errors of a histogram, and of a load with histograms.

use crate::workload::act::dialect::Quoted;
use thiserror::Error;

/// Why the values of a histogram are invalid. The first value has the position 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HistogramProblem {
    /// More values than there are powers of two.
    #[error("{0} values are too many")]
    TooMany(usize),
    /// Nothing between two commas.
    #[error("value {position} is empty")]
    Empty { position: usize },
    /// Something that is no number.
    #[error("value {position} is {found}, no number")]
    NotANumber {
        position: usize,
        /// Value found.
        found: Quoted,
    },
    /// A number that is no percentage.
    #[error("value {position} is {found}, not within 0 to 100")]
    OutOfRange {
        position: usize,
        /// Value found.
        found: Quoted,
    },
    /// Too many decimals.
    #[error("value {position} is {found}, with more than four decimals")]
    TooFine {
        position: usize,
        /// Value found.
        found: Quoted,
    },
    /// More sizes over a power of two than over the one before.
    #[error("value {position} is {found}, more than the {before} before it")]
    Rises {
        position: usize,
        /// Value found.
        found: Quoted,
        /// Previous value.
        before: Quoted,
    },
    #[error("the last value is {last}, not 0, so that the largest sizes have no bound")]
    NoEnd {
        /// Last value.
        last: Quoted,
    },
}

/// Why a load with histograms, or with keys that belong to histograms, is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SizesProblem {
    /// The record size is 0.
    #[error(
        "record-bytes: 0 is too small without a histogram - give a whole number from 1 to 8388608 (bytes), or the sizes \
         as storage-read-histogram and storage-write-histogram"
    )]
    NoSize,
    /// Both a size and a histogram are given.
    #[error(
        "{key}: {bytes} contradicts {histogram}, which gives the sizes already - {}, or drop the histogram",
        if *.key == "record-bytes" { "set it to 0" } else { "drop it" }
    )]
    SizedTwice {
        /// `record-bytes` or `record-bytes-range-max`.
        key: &'static str,
        /// Size, bytes.
        bytes: u32,
        /// Key of the histogram.
        histogram: &'static str,
    },
    /// A rate without the sizes that belong to it.
    #[error(
        "{histogram}: missing, though {rate_key} is {rate} and the sizes come from histograms - add it, or set \
         {rate_key} to 0"
    )]
    HistogramMissing {
        /// The histogram that is missing.
        histogram: &'static str,
        rate_key: &'static str,
        rate: u32,
    },
    /// A part of the model that a live database's counts have in them.
    #[error(
        "{key}: {value} would count {what} twice, because the rates and sizes of a live database have them in already \
         - drop it (the default is {default})"
    )]
    AlreadyInside {
        key: &'static str,
        value: u32,
        /// Cost that the option models.
        what: &'static str,
        /// Neutral value.
        default: u32,
    },
    /// A key of histogram loads in another load.
    #[error(
        "{key}: it only works with storage-read-histogram and storage-write-histogram, and neither is given - drop it, \
         or add them"
    )]
    WithoutHistogram { key: &'static str },
    /// More blocks freed than written.
    #[error(
        "direct-frees: {direct_frees} blocks/s are more than total-lbw-per-sec, {total_lbw}, of which they are a part - \
         take both from the same moment of the database's log"
    )]
    MoreFreesThanBlocks {
        /// Blocks freed without defragmentation, a second.
        direct_frees: u32,
        /// All blocks written, a second.
        total_lbw: u32,
    },
    /// Records that cannot be packed into large blocks.
    #[error(
        "{key}: it has sizes over {over_bytes} bytes, but a large block has only {large_block_bytes} bytes and records \
         do not straddle blocks - raise large-block-op-kbytes to the database's write-block size (at most 8192)"
    )]
    BucketLargerThanLargeBlock {
        /// Key of the histogram.
        key: &'static str,
        /// Lower edge of its largest bucket, in bytes.
        over_bytes: u32,
        large_block_bytes: u32,
    },
    /// The rule or the offset makes records that do not fit large blocks.
    #[error(
        "{key}: at {offset_pct} % the largest records have {bytes} bytes, more than a large block of \
         {large_block_bytes} bytes - lower it, choose another size-within-bucket, or raise large-block-op-kbytes (at \
         most 8192)"
    )]
    LargestDoesNotFit {
        /// `read-size-offset` or `write-size-offset`.
        key: &'static str,
        /// Offset, percent.
        offset_pct: u32,
        /// The largest records, in bytes.
        bytes: u32,
        large_block_bytes: u32,
    },
}

impl SizesProblem {
    /// The keys whose values contradict each other; the message points at the first.
    pub(crate) fn conflicting_keys(&self) -> Vec<&'static str> {
        const READS: &str = "storage-read-histogram";
        const WRITES: &str = "storage-write-histogram";
        match *self {
            Self::NoSize => vec!["record-bytes", READS, WRITES],
            Self::SizedTwice { key, .. } | Self::AlreadyInside { key, .. } | Self::WithoutHistogram { key } => {
                vec![key, READS, WRITES]
            }
            Self::HistogramMissing { rate_key, .. } => vec![rate_key, READS, WRITES],
            Self::MoreFreesThanBlocks { .. } => vec!["direct-frees", "total-lbw-per-sec"],
            Self::BucketLargerThanLargeBlock { key, .. } => vec![key, "large-block-op-kbytes"],
            Self::LargestDoesNotFit { key, .. } => {
                let histogram = if key == "read-size-offset" { READS } else { WRITES };
                vec![key, histogram, "size-within-bucket", "large-block-op-kbytes"]
            }
        }
    }
}
