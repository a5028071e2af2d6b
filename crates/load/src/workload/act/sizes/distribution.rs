//! Sizes of a histogram load: a histogram, a rule and an offset.
//!
//! | rule | a size in the bucket (L, U] is | mean of the bucket |
//! |---|---|---|
//! | lower | L | L |
//! | upper | U | U |
//! | uniform | anywhere, equally likely | (L + U) / 2 |
//! | log-uniform | anywhere, its logarithm equally likely | (U - L) / ln 2 |
//!
//! The offset then scales sizes. The mean is exact and knows no device; drawn sizes are rounded up to the device's
//! step, as all records are. Sizes are not rounded to 16 bytes before: the database counted sizes on its device, where
//! records are already rounded.

use super::histogram::{BUCKETS_MAX, Bucket, SizeHistogram, WHOLE_PPM};
use crate::choice::choice;
use crate::sizes::SizeTable;
use std::collections::BTreeMap;

/// Position of a size in its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Within {
    Lower,
    Upper,
    /// Anywhere, each size as likely as another.
    Uniform,
    /// Anywhere, smaller sizes more likely: each doubling, or part of one, has the same share.
    LogUniform,
}

choice! {
    /// Position of a size in its bucket of a histogram.
    SizeWithinBucket {
        /// Reads at the lower edge, writes at the upper: the rule behind the sizing paper's own results.
        #[default]
        Paper = "paper",
        Lower = "lower",
        Upper = "upper",
        /// Anywhere, each size as likely as another.
        Uniform = "uniform",
        /// Anywhere, each doubling as likely as another.
        LogUniform = "log-uniform",
    }
}

impl SizeWithinBucket {
    /// The rule for the sizes of reads.
    pub fn of_reads(self) -> Within {
        self.or(Within::Lower)
    }

    /// The rule for the sizes of writes.
    pub fn of_writes(self) -> Within {
        self.or(Within::Upper)
    }

    fn or(self, papers: Within) -> Within {
        match self {
            Self::Paper => papers,
            Self::Lower => Within::Lower,
            Self::Upper => Within::Upper,
            Self::Uniform => Within::Uniform,
            Self::LogUniform => Within::LogUniform,
        }
    }
}

/// 1 / ln 2, in billionths.
const LOG2_E_BILLIONTHS: u128 = 1_442_695_041;

/// The sizes of a stream of a histogram load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HistogramSizes {
    /// Shares per bucket.
    pub histogram: SizeHistogram,
    /// Position of sizes in their bucket.
    pub within: Within,
    /// Multiplier, percent, at least 1; 100 changes nothing.
    pub offset_pct: u32,
}

impl HistogramSizes {
    /// Mean size as an exact fraction of bytes, before rounding to a device.
    pub fn mean_bytes(&self) -> (u128, u128) {
        let (scale, mean): (u128, fn(Bucket) -> u128) = match self.within {
            Within::Lower => (1, |bucket| bucket.lower_bytes.into()),
            Within::Upper => (1, |bucket| bucket.upper_bytes.into()),
            Within::Uniform => (2, |bucket| u128::from(bucket.lower_bytes) + u128::from(bucket.upper_bytes)),
            Within::LogUniform => (1_000_000_000, |bucket| match bucket.upper_bytes - bucket.lower_bytes {
                0 => u128::from(bucket.upper_bytes) * 1_000_000_000,
                width => u128::from(width) * LOG2_E_BILLIONTHS,
            }),
        };
        let sum: u128 = self.histogram.buckets().map(|bucket| u128::from(bucket.share_ppm) * mean(bucket)).sum();
        (sum * u128::from(self.offset_pct), scale * u128::from(WHOLE_PPM) * 100)
    }

    /// Nearest double to the mean, in bytes, for printing only.
    pub fn mean_bytes_f64(&self) -> f64 {
        let (bytes, of) = self.mean_bytes();
        bytes as f64 / of as f64
    }

    /// Smallest size, in whole bytes, at least 1.
    pub fn bytes_min(&self) -> u32 {
        let smallest = self.histogram.buckets().next().unwrap_or(self.histogram.largest());
        let edge = if self.within == Within::Upper { smallest.upper_bytes } else { smallest.lower_bytes };
        self.scaled_bytes(edge)
    }

    /// Largest size, in whole bytes, at least 1.
    pub fn bytes_max(&self) -> u32 {
        let largest = self.histogram.largest();
        let edge = if self.within == Within::Lower { largest.lower_bytes } else { largest.upper_bytes };
        self.scaled_bytes(edge)
    }

    fn scaled_bytes(&self, bytes: u32) -> u32 {
        let scaled = (u64::from(bytes) * u64::from(self.offset_pct)).div_ceil(100);
        u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
    }

    /// A table that draws sizes, each rounded up to whole `step_bytes`, at least one.
    ///
    /// The shares are exact. Only `log-uniform` needs logarithms, rounded once when the table is made.
    pub fn table(&self, step_bytes: u32) -> SizeTable {
        let mut weights = BTreeMap::new();
        for bucket in self.histogram.buckets() {
            for (steps, weight) in self.steps_of(bucket, step_bytes.max(1)) {
                let bytes = u32::try_from(steps.max(1) * u64::from(step_bytes)).unwrap_or(u32::MAX);
                *weights.entry(bytes).or_default() += weight * u64::from(bucket.share_ppm);
            }
        }
        SizeTable::new(weights)
    }

    /// Weights of the sizes in a bucket by whole steps. The sum is [`Self::one`] for each bucket.
    fn steps_of(&self, bucket: Bucket, step_bytes: u32) -> Vec<(u64, u64)> {
        // In hundredths of bytes, so that every scaled edge is a whole number.
        let offset = u64::from(self.offset_pct);
        let (lower, upper) = (u64::from(bucket.lower_bytes) * offset, u64::from(bucket.upper_bytes) * offset);
        let step = u64::from(step_bytes) * 100;
        match self.within {
            Within::Lower => vec![(lower.div_ceil(step), self.one())],
            Within::Upper => vec![(upper.div_ceil(step), self.one())],
            _ if lower == upper => vec![(upper.div_ceil(step), self.one())],
            within => {
                let steps = lower / step + 1..=upper.div_ceil(step);
                let up_to = |at: u64| match within {
                    Within::LogUniform => self.log_share(at, lower),
                    // Both widths are powers of two times the offset.
                    _ => (at - lower) * (self.one() / (upper - lower)),
                };
                let below = |step_number: u64| up_to((step_number * step).clamp(lower, upper));
                steps.map(|n| (n, below(n) - below(n - 1))).collect()
            }
        }
    }

    /// Sum of the weights of a bucket: a multiple of the width of each bucket.
    fn one(&self) -> u64 {
        u64::from(self.offset_pct) << BUCKETS_MAX
    }

    /// Share of the doubling from `lower` that lies below `at`, in units of [`Self::one`].
    fn log_share(&self, at: u64, lower: u64) -> u64 {
        // 0 at the lower edge and exactly one at the upper, where the quotient is exactly 2.
        ((at as f64 / lower as f64).log2() * self.one() as f64).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::random::Random;

    fn sizes(text: &str, within: Within, offset_pct: u32) -> HistogramSizes {
        HistogramSizes { histogram: SizeHistogram::parse(text).unwrap(), within, offset_pct }
    }

    /// A quarter in (512, 1024] and the rest in (2048, 4096].
    const TWO: &str = "100,100,100,100,100,100,100,100,100,100,75,75,0";

    #[test]
    fn means_are_those_of_the_rules() {
        let mean = |within, offset_pct| sizes(TWO, within, offset_pct).mean_bytes_f64();
        assert_eq!(mean(Within::Lower, 100), 0.25 * 512.0 + 0.75 * 2048.0);
        assert_eq!(mean(Within::Upper, 100), 0.25 * 1024.0 + 0.75 * 4096.0);
        assert_eq!(mean(Within::Uniform, 100), 0.25 * 768.0 + 0.75 * 3072.0);
        let log = (0.25 * 512.0 + 0.75 * 2048.0) / std::f64::consts::LN_2;
        assert!((mean(Within::LogUniform, 100) - log).abs() < 1e-6);
        let upper = sizes(TWO, Within::Upper, 90).mean_bytes();
        assert_eq!(upper.0 * 10, upper.1 * 29_952, "2995.2 exactly");
    }

    #[test]
    fn bounds_are_those_of_the_rules() {
        let bounds = |within, offset| {
            let sizes = sizes(TWO, within, offset);
            (sizes.bytes_min(), sizes.bytes_max())
        };
        assert_eq!(bounds(Within::Lower, 100), (512, 2048));
        assert_eq!(bounds(Within::Upper, 100), (1024, 4096));
        assert_eq!(bounds(Within::Uniform, 93), (477, 3810));
        assert_eq!(bounds(Within::LogUniform, 200), (1024, 8192));
    }

    #[test]
    fn tables_hold_what_the_rules_draw_rounded_up_to_the_step() {
        let drawn = |within, offset, step| sizes(TWO, within, offset).table(step).sizes().collect::<Vec<_>>();
        assert_eq!(drawn(Within::Lower, 100, 512), [512, 2048]);
        assert_eq!(drawn(Within::Upper, 100, 4096), [4096]);
        assert_eq!(drawn(Within::Upper, 90, 512), [1024, 4096], "921.6 and 3686.4 bytes");
        assert_eq!(drawn(Within::Uniform, 100, 512), [1024, 2560, 3072, 3584, 4096]);
        assert_eq!(drawn(Within::LogUniform, 50, 512), [512, 1536, 2048]);
        assert_eq!(sizes("0", Within::Lower, 1).table(512).sizes().collect::<Vec<_>>(), [512], "not nothing");
    }

    #[test]
    fn uniform_sizes_are_equally_likely_and_log_uniform_ones_fall() {
        let one_bucket = "100,100,100,100,100,100,100,100,100,100,0";
        let shares = |within| -> Vec<f64> {
            let table = sizes(one_bucket, within, 100).table(128);
            let mut random = Random::new(3);
            let mut counts = [0_u32; 4];
            (0..100_000).for_each(|_| counts[(table.draw(&mut random) / 128 - 5) as usize] += 1);
            counts.iter().map(|count| f64::from(*count) / 100_000.0).collect()
        };
        for share in shares(Within::Uniform) {
            assert!((share - 0.25).abs() < 0.01, "{share}");
        }
        for (n, share) in shares(Within::LogUniform).into_iter().enumerate() {
            let expected = ((5.0 + n as f64) / (4.0 + n as f64)).log2();
            assert!((share - expected).abs() < 0.01, "{n}: {share}, not {expected}");
        }
    }
}
