//! Counters with exact edges: ACT's power-of-two buckets and counts over thresholds.
//!
//! A histogram with a relative error cannot tell exactly how many operations took longer than 1 ms, because no bucket
//! ends there. The verdict and ACT's tables need the exact number, so these counters are kept in addition to the
//! histograms.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest duration that a histogram resolves: one hour, because no run continues after such a stall. Longer durations
/// count as one hour (threshold counts stay exact).
pub const DURATION_MAX_NS: u64 = 3_600_000_000_000;

/// Unit of ACT's buckets (`microsecond-histograms`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActScale {
    /// Bucket 0 is below 1 ms, bucket n from 2^(n-1) to 2^n ms.
    Milliseconds,
    /// Bucket 0 is below 1 us, bucket n from 2^(n-1) to 2^n us.
    Microseconds,
}

impl ActScale {
    pub fn unit_ns(self) -> u64 {
        match self {
            Self::Milliseconds => 1_000_000,
            Self::Microseconds => 1_000,
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Microseconds => "us",
        }
    }
}

/// Number of buckets: a bucket for zero, and a bucket for each bit of a 64-bit number of units.
pub const ACT_BUCKETS: usize = 65;

/// ACT's histogram: bucket = position of the highest set bit in the number of whole units, or 0 for no units. Source:
/// ACT 6.6, `src/common/histogram.c`, `histogram_insert_data_point`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActBuckets {
    scale: ActScale,
    counts: [u64; ACT_BUCKETS],
}

impl ActBuckets {
    pub fn new(scale: ActScale) -> Self {
        Self {
            scale,
            counts: [0; ACT_BUCKETS],
        }
    }

    #[inline]
    pub fn record(&mut self, duration_ns: u64) {
        // Constant divisors, because the compiler turns such a division into a faster multiplication.
        let units = match self.scale {
            ActScale::Milliseconds => duration_ns / 1_000_000,
            ActScale::Microseconds => duration_ns / 1_000,
        };
        self.counts[(u64::BITS - units.leading_zeros()) as usize] += 1;
    }

    /// Adds `count` to bucket `bucket` (0 to 64). For readers of logs.
    pub fn add(&mut self, bucket: usize, count: u64) {
        self.counts[bucket] += count;
    }

    pub fn counts(&self) -> &[u64; ACT_BUCKETS] {
        &self.counts
    }

    pub fn scale(&self) -> ActScale {
        self.scale
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds the counts of `other`, which must be of the same scale.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.scale, other.scale);
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    pub fn clear(&mut self) {
        self.counts = [0; ACT_BUCKETS];
    }
}

/// Largest number of thresholds that a run can be judged by.
pub const THRESHOLDS_MAX: usize = 8;

/// Counts the duration in `over_counts` for each of the ascending `thresholds_ns` that it reaches. "Over 1 ms" means
/// `duration >= 1 ms`, as in ACT, whose bucket 0 ends at 0.999999 ms.
#[inline]
pub fn count_over(
    thresholds_ns: &[u64],
    duration_ns: u64,
    over_counts: &mut [u64; THRESHOLDS_MAX],
) {
    for (threshold_ns, over) in thresholds_ns.iter().zip(over_counts) {
        if duration_ns < *threshold_ns {
            break;
        }
        *over += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn act_buckets_have_the_edges_of_the_table_in_acts_source() {
        let mut buckets = ActBuckets::new(ActScale::Milliseconds);
        for (duration_ns, bucket) in [
            (0, 0),
            (999_999, 0),
            (1_000_000, 1),
            (1_999_999, 1),
            (2_000_000, 2),
            (4_000_000, 3),
            (15_999_999, 4),
            (16_000_000, 5),
        ] {
            buckets.clear();
            buckets.record(duration_ns);
            assert_eq!(buckets.counts()[bucket], 1, "{duration_ns} ns");
        }
        buckets.record(u64::MAX);
    }

    #[test]
    fn exactly_one_millisecond_is_over_one_millisecond() {
        let mut over = [0; THRESHOLDS_MAX];
        for (duration_ns, expected) in [(999_999, [0, 0]), (1_000_000, [1, 0]), (8_000_000, [2, 1])]
        {
            count_over(&[1_000_000, 8_000_000], duration_ns, &mut over);
            assert_eq!(over[..2], expected);
        }
        assert_eq!(over[2..], [0; THRESHOLDS_MAX - 2]);
    }
}
