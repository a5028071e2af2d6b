//! Histogram loads: record sizes as a live database counted them, instead of one size or a range.
//!
//! ```text
//! storage-read-histogram   --parse-->  SizeHistogram --+ rule, offset -->  HistogramSizes --> SizeTable
//! storage-write-histogram                                                  mean, largest      drawn from
//! ```
//!
//! A histogram gives the share of sizes in each bucket, not their positions in it, so the position is a rule that the
//! user can see and change ([`SizeWithinBucket`]). Source of the keys: Aerospike, "Advanced Flash Device Sizing", which
//! announced them for ACT 4; no released ACT reads them. Their effect on rates is in [`rates`](super::rates).
//!
//! A size histogram has the format in which the log tool of a live database prints it: the share of sizes over each
//! power of two.
//!
//! ```text
//! value  i     0       1       2           10      11      12
//!            100.00, 100.00, 100.00, ... 100.00,  84.00,   0.00
//! is the %   > 1     > 2     > 4         > 1 KiB > 2 KiB > 4 KiB     16 % in (1, 2] KiB, 84 % in (2, 4]
//! ```
//!
//! Shares are kept as whole millionths, so nothing is rounded between the file and the rates.
//!
//! | rule | a size in the bucket (L, U] is | mean of the bucket |
//! |---|---|---|
//! | lower | L | L |
//! | upper | U | U |
//! | uniform | anywhere; all sizes are equally likely | (L + U) / 2 |
//! | log-uniform | anywhere; all logarithms of sizes are equally likely | (U - L) / ln 2 |
//!
//! The offset then scales the sizes. The mean is exact and does not depend on a device. Drawn sizes are rounded up to
//! the device's step, as all records are. They are not first rounded to 16 bytes: the database counted sizes on its
//! device, where records are already rounded.

use load::choice::choice;
use load::sizes::SizeTable;
use results::format::quoted_start;
use std::collections::BTreeMap;

/// Maximum number of values of a histogram, for 1 byte to 64 MiB. Source: the paper, whose tool goes up to 2^26 bytes.
pub const BUCKETS_MAX: usize = 27;

pub const WHOLE_PPM: u32 = 1_000_000;

/// Decimals of a percentage: 0.0001 % is a millionth.
const DECIMALS_MAX: usize = 4;

/// Shares of sizes over powers of two: 1 to [`BUCKETS_MAX`] values, never rising, the last 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SizeHistogram {
    /// Share of sizes over 2^i bytes, in millionths; 0 from i = `values` on.
    over_ppm: [u32; BUCKETS_MAX],
    values: usize,
}

impl Default for SizeHistogram {
    /// The histogram with the single value 0: all sizes are 1 byte.
    fn default() -> Self {
        Self {
            over_ppm: [0; BUCKETS_MAX],
            values: 1,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeBucket {
    /// Exclusive lower edge, in bytes. Exception: the first bucket has only the size of 1 byte, and both edges are 1.
    pub lower_bytes: u32,
    pub upper_bytes: u32,
    /// Share of all sizes, in millionths, never 0.
    pub share_ppm: u32,
}

impl SizeHistogram {
    /// Reads percentages separated by commas, blanks allowed.
    ///
    /// Errors: a value that is not a number, is outside 0 to 100, has over four decimals or is larger than the previous
    /// value; too many values; a last value that is not 0.
    pub fn parse(text: &str) -> Result<Self, String> {
        let count = text.split(',').count();
        if count > BUCKETS_MAX {
            return Err(format!("{count} values are too many"));
        }
        let mut over_ppm = [0; BUCKETS_MAX];
        let mut before_ppm = WHOLE_PPM;
        let mut before_text = "100";
        for (index, (text, slot)) in text
            .split(',')
            .map(str::trim)
            .zip(&mut over_ppm)
            .enumerate()
        {
            let position = index + 1;
            *slot = percent_ppm(position, text)?;
            if *slot > before_ppm {
                let found = quoted_start(text);
                let before = quoted_start(before_text);
                return Err(format!(
                    "value {position} is {found}, more than the {before} before it"
                ));
            }
            (before_ppm, before_text) = (*slot, text);
        }
        if before_ppm != 0 {
            let last = quoted_start(before_text);
            return Err(format!(
                "the last value is {last}, not 0, so the largest sizes have no bound"
            ));
        }
        Ok(Self {
            over_ppm,
            values: count,
        })
    }

    /// The buckets that hold any sizes, in ascending order. Their shares add up to [`WHOLE_PPM`].
    pub fn buckets(&self) -> impl Iterator<Item = SizeBucket> + '_ {
        let before = [WHOLE_PPM].into_iter().chain(self.over_ppm);
        before
            .zip(self.over_ppm)
            .enumerate()
            .filter(|(_, (before, over))| before > over)
            .map(|(i, (before, over))| {
                let upper_bytes = 1 << i;
                SizeBucket {
                    lower_bytes: (upper_bytes / 2).max(1),
                    upper_bytes,
                    share_ppm: before - over,
                }
            })
    }

    pub fn largest(&self) -> SizeBucket {
        let smallest = SizeBucket {
            lower_bytes: 1,
            upper_bytes: 1,
            share_ppm: WHOLE_PPM,
        };
        self.buckets().last().unwrap_or(smallest)
    }
}

impl std::fmt::Display for SizeHistogram {
    /// Text that [`parse`](SizeHistogram::parse) reads back, with two decimals where two are enough.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, ppm) in self.over_ppm.iter().take(self.values).enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let percent = ppm / 10_000;
            let rest = ppm % 10_000;
            match rest % 100 {
                0 => write!(f, "{comma}{percent}.{:02}", rest / 100)?,
                _ => write!(f, "{comma}{percent}.{rest:04}")?,
            }
        }
        Ok(())
    }
}

fn percent_ppm(position: usize, text: &str) -> Result<u32, String> {
    let error = |why: &str| format!("value {position} is {}, {why}", quoted_start(text));
    if text.is_empty() {
        return Err(format!("value {position} is empty"));
    }
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = whole.strip_prefix('-').unwrap_or(whole);
    if !is_digits(unsigned) || !is_digits(decimals) {
        return Err(error("not a number"));
    }
    let significant = decimals.trim_end_matches('0');
    if significant.len() > DECIMALS_MAX {
        return Err(error("with more than four decimals"));
    }
    let outside = || error("not within 0 to 100");
    // Both parts are digits: parsing fails only if the number is too large.
    let percent: u32 = whole.parse().map_err(|_| outside())?;
    let parts: u32 = format!("{significant:0<DECIMALS_MAX$}")
        .parse()
        .map_err(|_| outside())?;
    let ppm = percent
        .checked_mul(WHOLE_PPM / 100)
        .and_then(|ppm| ppm.checked_add(parts));
    ppm.filter(|ppm| *ppm <= WHOLE_PPM).ok_or_else(outside)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BucketPosition {
    Lower,
    Upper,
    /// Anywhere in the bucket, each size as likely as another.
    Uniform,
    /// Anywhere in the bucket, with a uniformly distributed logarithm: smaller sizes are more likely.
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
        /// Anywhere in the bucket, each size as likely as another.
        Uniform = "uniform",
        /// Anywhere in the bucket, with a uniformly distributed logarithm.
        LogUniform = "log-uniform",
    }
}

impl SizeWithinBucket {
    pub fn of_reads(self) -> BucketPosition {
        self.unless_paper(BucketPosition::Lower)
    }

    pub fn of_writes(self) -> BucketPosition {
        self.unless_paper(BucketPosition::Upper)
    }

    fn unless_paper(self, papers: BucketPosition) -> BucketPosition {
        match self {
            Self::Paper => papers,
            Self::Lower => BucketPosition::Lower,
            Self::Upper => BucketPosition::Upper,
            Self::Uniform => BucketPosition::Uniform,
            Self::LogUniform => BucketPosition::LogUniform,
        }
    }
}

/// 1 / ln 2, in billionths.
const LOG2_E_BILLIONTHS: u128 = 1_442_695_041;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HistogramSizes {
    pub histogram: SizeHistogram,
    pub within: BucketPosition,
    /// Multiplier, percent, at least 1; 100 changes nothing.
    pub offset_pct: u32,
}

impl HistogramSizes {
    /// Mean size as an exact fraction of bytes, before rounding to a device.
    pub fn mean_bytes(&self) -> (u128, u128) {
        let (scale, mean): (u128, fn(SizeBucket) -> u128) = match self.within {
            BucketPosition::Lower => (1, |bucket| bucket.lower_bytes.into()),
            BucketPosition::Upper => (1, |bucket| bucket.upper_bytes.into()),
            BucketPosition::Uniform => (2, |bucket| {
                u128::from(bucket.lower_bytes) + u128::from(bucket.upper_bytes)
            }),
            BucketPosition::LogUniform => (1_000_000_000, |bucket| {
                match bucket.upper_bytes - bucket.lower_bytes {
                    0 => u128::from(bucket.upper_bytes) * 1_000_000_000,
                    width => u128::from(width) * LOG2_E_BILLIONTHS,
                }
            }),
        };
        let sum: u128 = self
            .histogram
            .buckets()
            .map(|bucket| u128::from(bucket.share_ppm) * mean(bucket))
            .sum();
        (
            sum * u128::from(self.offset_pct),
            scale * u128::from(WHOLE_PPM) * 100,
        )
    }

    /// Smallest size in bytes, at least 1.
    pub fn bytes_min(&self) -> u32 {
        let smallest = self
            .histogram
            .buckets()
            .next()
            .unwrap_or(self.histogram.largest());
        let edge = if self.within == BucketPosition::Upper {
            smallest.upper_bytes
        } else {
            smallest.lower_bytes
        };
        self.scaled_bytes(edge)
    }

    /// Largest size in bytes, at least 1.
    pub fn bytes_max(&self) -> u32 {
        let largest = self.histogram.largest();
        let edge = if self.within == BucketPosition::Lower {
            largest.lower_bytes
        } else {
            largest.upper_bytes
        };
        self.scaled_bytes(edge)
    }

    fn scaled_bytes(&self, bytes: u32) -> u32 {
        let scaled = (u64::from(bytes) * u64::from(self.offset_pct)).div_ceil(100);
        u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
    }

    /// A table that draws sizes, each rounded up to a multiple of `step_bytes`, at least one step.
    ///
    /// The shares are exact, except with `log-uniform`: its logarithms are rounded once, when the table is made.
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

    /// Sizes in whole steps, each with its weight. The weights of each bucket add up to [`Self::weight_sum`].
    fn steps_of(&self, bucket: SizeBucket, step_bytes: u32) -> Vec<(u64, u64)> {
        // Edges are in hundredths of bytes, so that every scaled edge is a whole number.
        let offset = u64::from(self.offset_pct);
        let lower = u64::from(bucket.lower_bytes) * offset;
        let upper = u64::from(bucket.upper_bytes) * offset;
        let step = u64::from(step_bytes) * 100;
        match self.within {
            BucketPosition::Lower => vec![(lower.div_ceil(step), self.weight_sum())],
            BucketPosition::Upper => vec![(upper.div_ceil(step), self.weight_sum())],
            _ if lower == upper => vec![(upper.div_ceil(step), self.weight_sum())],
            _ => {
                let steps = lower / step + 1..=upper.div_ceil(step);
                let below =
                    |n: u64| self.weight_below((n * step).clamp(lower, upper), lower, upper);
                steps.map(|n| (n, below(n) - below(n - 1))).collect()
            }
        }
    }

    /// Weight of the sizes below `at` in the bucket from `lower` to `upper`.
    fn weight_below(&self, at: u64, lower: u64, upper: u64) -> u64 {
        if self.within == BucketPosition::LogUniform {
            self.log_share(at, lower)
        } else {
            // The division is exact: the weight sum and the bucket's width are powers of two times the offset.
            (at - lower) * (self.weight_sum() / (upper - lower))
        }
    }

    /// Sum of the weights of a bucket: a multiple of the width of each bucket.
    fn weight_sum(&self) -> u64 {
        u64::from(self.offset_pct) << BUCKETS_MAX
    }

    /// Share of the sizes from `lower` to twice `lower` that lies below `at`, in units of [`Self::weight_sum`].
    fn log_share(&self, at: u64, lower: u64) -> u64 {
        // The result is 0 at the lower edge, and exactly the weight sum at the upper edge, where the quotient is 2.
        ((at as f64 / lower as f64).log2() * self.weight_sum() as f64).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::random::Random;

    fn refused(text: &str) -> String {
        SizeHistogram::parse(text).expect_err(text).to_string()
    }

    #[test]
    fn values_are_percentages_of_records_larger_than_powers_of_two() {
        let histogram = SizeHistogram::parse("100.00, 100, 84.5,84.50 ,0.00").unwrap();
        let buckets: Vec<_> = histogram.buckets().collect();
        let bucket = |lower_bytes, upper_bytes, share_ppm| SizeBucket {
            lower_bytes,
            upper_bytes,
            share_ppm,
        };
        assert_eq!(buckets, [bucket(2, 4, 155_000), bucket(8, 16, 845_000)]);
        assert_eq!(histogram.largest(), buckets[1]);
    }

    #[test]
    fn the_first_bucket_is_one_byte() {
        let histogram = SizeHistogram::parse("99.9,0").unwrap();
        let buckets: Vec<_> = histogram
            .buckets()
            .map(|b| (b.lower_bytes, b.upper_bytes, b.share_ppm))
            .collect();
        assert_eq!(buckets, [(1, 1, 1_000), (1, 2, 999_000)]);
        assert_eq!(SizeHistogram::parse("0"), Ok(SizeHistogram::default()));
        assert_eq!(SizeHistogram::default().largest().upper_bytes, 1);
    }

    #[test]
    fn a_written_histogram_reads_back() {
        for (text, written) in [
            ("100,50,0", "100.00,50.00,0.00"),
            (
                "100.0000, 33.3333,0.1,0.0001, 0,0",
                "100.00,33.3333,0.10,0.0001,0.00,0.00",
            ),
            ("0.5000000,0", "0.50,0.00"),
        ] {
            let histogram = SizeHistogram::parse(text).unwrap();
            assert_eq!(histogram.to_string(), written);
            assert_eq!(SizeHistogram::parse(written), Ok(histogram));
        }
    }

    #[test]
    fn a_histogram_has_at_most_27_values() {
        let of = |values: usize| format!("{}0", "100,".repeat(values - 1));
        assert_eq!(
            SizeHistogram::parse(&of(27)).unwrap().largest().upper_bytes,
            1 << 26
        );
        assert_eq!(refused(&of(28)), "28 values are too many");
    }

    #[test]
    fn a_histogram_that_rises_or_has_no_end_is_refused() {
        let found = refused("100,80,90,0");
        assert_eq!(found, "value 3 is \"90\", more than the \"80\" before it");
        assert_eq!(
            refused("100,14.22"),
            "the last value is \"14.22\", not 0, so the largest sizes have no bound"
        );
    }

    #[test]
    fn values_that_are_no_percentages_are_refused_with_their_place() {
        assert_eq!(refused("100,,0"), "value 2 is empty");
        assert_eq!(refused("100,0,"), "value 3 is empty");
        for text in [
            "x", "1e1", "0x1", "1.", ".5", "1.2.3", "+5", "--5", "5 6", "nan", "٣",
        ] {
            assert_eq!(
                refused(&format!("100,{text},0")),
                format!("value 2 is {}, not a number", quoted_start(text))
            );
        }
        for text in [
            "101",
            "100.0001",
            "-1",
            "-0.5",
            "4294967296",
            "99999999999999999999",
        ] {
            let found = refused(&format!("{text},0"));
            assert_eq!(found, format!("value 1 is \"{text}\", not within 0 to 100"));
        }
        assert_eq!(
            refused("50.00001,0"),
            "value 1 is \"50.00001\", with more than four decimals"
        );
    }

    fn sizes(text: &str, within: BucketPosition, offset_pct: u32) -> HistogramSizes {
        HistogramSizes {
            histogram: SizeHistogram::parse(text).unwrap(),
            within,
            offset_pct,
        }
    }

    /// 25 % of the sizes are in (512, 1024], and 75 % in (2048, 4096].
    const TWO: &str = "100,100,100,100,100,100,100,100,100,100,75,75,0";

    fn f64_of((bytes, of): (u128, u128)) -> f64 {
        bytes as f64 / of as f64
    }

    #[test]
    fn the_mean_size_follows_from_bucket_position_and_offset() {
        let mean = |within, offset_pct| f64_of(sizes(TWO, within, offset_pct).mean_bytes());
        let found = mean(BucketPosition::Lower, 100);
        assert_eq!(found, 0.25 * 512.0 + 0.75 * 2048.0);
        let found = mean(BucketPosition::Upper, 100);
        assert_eq!(found, 0.25 * 1024.0 + 0.75 * 4096.0);
        let found = mean(BucketPosition::Uniform, 100);
        assert_eq!(found, 0.25 * 768.0 + 0.75 * 3072.0);
        let log = (0.25 * 512.0 + 0.75 * 2048.0) / std::f64::consts::LN_2;
        assert!((mean(BucketPosition::LogUniform, 100) - log).abs() < 1e-6);
        let upper = sizes(TWO, BucketPosition::Upper, 90).mean_bytes();
        assert_eq!(upper.0 * 10, upper.1 * 29_952, "2995.2 exactly");
    }

    #[test]
    fn smallest_and_largest_size_follow_from_bucket_position_and_offset() {
        let bounds = |within, offset| {
            let sizes = sizes(TWO, within, offset);
            (sizes.bytes_min(), sizes.bytes_max())
        };
        assert_eq!(bounds(BucketPosition::Lower, 100), (512, 2048));
        assert_eq!(bounds(BucketPosition::Upper, 100), (1024, 4096));
        assert_eq!(bounds(BucketPosition::Uniform, 93), (477, 3810));
        assert_eq!(bounds(BucketPosition::LogUniform, 200), (1024, 8192));
    }

    #[test]
    fn a_table_has_all_sizes_that_can_be_drawn_rounded_up_to_the_step() {
        let drawn = |within, offset, step| {
            sizes(TWO, within, offset)
                .table(step)
                .sizes()
                .collect::<Vec<_>>()
        };
        assert_eq!(drawn(BucketPosition::Lower, 100, 512), [512, 2048]);
        assert_eq!(drawn(BucketPosition::Upper, 100, 4096), [4096]);
        let found = drawn(BucketPosition::Upper, 90, 512);
        assert_eq!(found, [1024, 4096], "921.6 and 3686.4 bytes");
        let found = drawn(BucketPosition::Uniform, 100, 512);
        assert_eq!(found, [1024, 2560, 3072, 3584, 4096]);
        let found = drawn(BucketPosition::LogUniform, 50, 512);
        assert_eq!(found, [512, 1536, 2048]);
        assert_eq!(
            sizes("0", BucketPosition::Lower, 1)
                .table(512)
                .sizes()
                .collect::<Vec<_>>(),
            [512],
            "not nothing"
        );
    }

    #[test]
    fn uniform_sizes_are_equally_likely_and_small_log_uniform_sizes_are_more_likely() {
        let one_bucket = "100,100,100,100,100,100,100,100,100,100,0";
        let shares = |within| -> Vec<f64> {
            let table = sizes(one_bucket, within, 100).table(128);
            let mut random = Random::new(3);
            let mut counts = [0_u32; 4];
            (0..100_000).for_each(|_| counts[(table.draw(&mut random) / 128 - 5) as usize] += 1);
            counts
                .iter()
                .map(|count| f64::from(*count) / 100_000.0)
                .collect()
        };
        for share in shares(BucketPosition::Uniform) {
            assert!((share - 0.25).abs() < 0.01, "{share}");
        }
        for (n, share) in shares(BucketPosition::LogUniform).into_iter().enumerate() {
            let expected = ((5.0 + n as f64) / (4.0 + n as f64)).log2();
            assert!(
                (share - expected).abs() < 0.01,
                "{n}: {share}, not {expected}"
            );
        }
    }
}
