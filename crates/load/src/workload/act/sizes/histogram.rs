//! The size histogram of a live database, as its log tool prints it: shares over powers of two.
//!
//! ```text
//! value  i     0       1       2           10      11      12
//!            100.00, 100.00, 100.00, ... 100.00,  84.00,   0.00
//! is the %   > 1     > 2     > 4         > 1 KiB > 2 KiB > 4 KiB     16 % in (1, 2] KiB, 84 % in (2, 4]
//! ```
//!
//! Shares are kept as whole millionths, so nothing is rounded between the file and the rates. The position of a size in
//! its bucket is not part of a histogram.

use crate::workload::act::dialect::Quoted;

/// Maximum number of values of a histogram, for 1 byte to 64 MiB. Source: the paper, whose tool goes up to the 26th.
pub const BUCKETS_MAX: usize = 27;

pub const WHOLE_PPM: u32 = 1_000_000;

/// Decimals of a percentage: 0.0001 % is a millionth.
const DECIMALS_MAX: usize = 4;

/// Sizes by powers of two: never rises, ends in 0, has 1 to [`BUCKETS_MAX`] values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SizeHistogram {
    /// Share of sizes over 2^i bytes, in millionths; 0 from `values` on.
    over_ppm: [u32; BUCKETS_MAX],
    values: usize,
}

impl Default for SizeHistogram {
    /// All sizes are 1 byte: the histogram of a single 0.
    fn default() -> Self {
        Self { over_ppm: [0; BUCKETS_MAX], values: 1 }
    }
}

/// Sizes between two powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Sizes are larger than this, in bytes. Equal to `upper_bytes` in the first bucket, which holds 1
    /// byte only.
    pub lower_bytes: u32,
    /// The largest size, in bytes.
    pub upper_bytes: u32,
    /// Share of all sizes, in millionths, never 0.
    pub share_ppm: u32,
}

impl SizeHistogram {
    /// Reads percentages separated by commas, blanks allowed.
    ///
    /// Errors, a phrase: the first value that is not a number, is outside 0 to 100, has over four decimals or is larger than the
    /// one before it; too many values; a last value that is not 0.
    pub fn parse(text: &str) -> Result<Self, String> {
        let count = text.split(',').count();
        if count > BUCKETS_MAX {
            return Err(format!("{count} values are too many"));
        }
        let mut over_ppm = [0; BUCKETS_MAX];
        let (mut before_ppm, mut before_text) = (WHOLE_PPM, "100");
        for (index, (text, slot)) in text.split(',').map(str::trim).zip(&mut over_ppm).enumerate() {
            let position = index + 1;
            *slot = percent_ppm(position, text)?;
            if *slot > before_ppm {
                let (found, before) = (Quoted::new(text), Quoted::new(before_text));
                return Err(format!("value {position} is {found}, more than the {before} before it"));
            }
            (before_ppm, before_text) = (*slot, text);
        }
        if before_ppm != 0 {
            let last = Quoted::new(before_text);
            return Err(format!("the last value is {last}, not 0, so that the largest sizes have no bound"));
        }
        Ok(Self { over_ppm, values: count })
    }

    /// The buckets that hold any sizes, in ascending order. Their shares add up to [`WHOLE_PPM`].
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let before = [WHOLE_PPM].into_iter().chain(self.over_ppm);
        before.zip(self.over_ppm).enumerate().filter(|(_, (before, over))| before > over).map(|(i, (before, over))| {
            let upper_bytes = 1 << i;
            Bucket { lower_bytes: (upper_bytes / 2).max(1), upper_bytes, share_ppm: before - over }
        })
    }

    /// The bucket with the largest sizes.
    pub fn largest(&self) -> Bucket {
        let smallest = Bucket { lower_bytes: 1, upper_bytes: 1, share_ppm: WHOLE_PPM };
        self.buckets().last().unwrap_or(smallest)
    }
}

impl std::fmt::Display for SizeHistogram {
    /// Text that [`parse`](SizeHistogram::parse) reads back, with two decimals where two are enough.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, ppm) in self.over_ppm.iter().take(self.values).enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let (percent, rest) = (ppm / 10_000, ppm % 10_000);
            match rest % 100 {
                0 => write!(f, "{comma}{percent}.{:02}", rest / 100)?,
                _ => write!(f, "{comma}{percent}.{rest:04}")?,
            }
        }
        Ok(())
    }
}

/// A percentage as millionths.
fn percent_ppm(position: usize, text: &str) -> Result<u32, String> {
    let wrong = |why: &str| format!("value {position} is {}, {why}", Quoted::new(text));
    if text.is_empty() {
        return Err(format!("value {position} is empty"));
    }
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = whole.strip_prefix('-').unwrap_or(whole);
    if !digits(unsigned) || !digits(decimals) {
        return Err(wrong("no number"));
    }
    let kept = decimals.trim_end_matches('0');
    if kept.len() > DECIMALS_MAX {
        return Err(wrong("with more than four decimals"));
    }
    let outside = || wrong("not within 0 to 100");
    // Both are digits, so a parse error means too large a number.
    let percent: u32 = whole.parse().map_err(|_| outside())?;
    let parts: u32 = format!("{kept:0<DECIMALS_MAX$}").parse().map_err(|_| outside())?;
    let ppm = percent.checked_mul(WHOLE_PPM / 100).and_then(|ppm| ppm.checked_add(parts));
    ppm.filter(|ppm| *ppm <= WHOLE_PPM).ok_or_else(outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        SizeHistogram::parse(text).expect_err(text).to_string()
    }

    #[test]
    fn values_are_shares_over_powers_of_two() {
        let histogram = SizeHistogram::parse("100.00, 100, 84.5,84.50 ,0.00").unwrap();
        let buckets: Vec<_> = histogram.buckets().collect();
        let bucket = |lower_bytes, upper_bytes, share_ppm| Bucket { lower_bytes, upper_bytes, share_ppm };
        assert_eq!(buckets, [bucket(2, 4, 155_000), bucket(8, 16, 845_000)]);
        assert_eq!(histogram.largest(), buckets[1]);
    }

    #[test]
    fn the_first_bucket_is_one_byte() {
        let histogram = SizeHistogram::parse("99.9,0").unwrap();
        let buckets: Vec<_> = histogram.buckets().map(|b| (b.lower_bytes, b.upper_bytes, b.share_ppm)).collect();
        assert_eq!(buckets, [(1, 1, 1_000), (1, 2, 999_000)]);
        assert_eq!(SizeHistogram::parse("0"), Ok(SizeHistogram::default()));
        assert_eq!(SizeHistogram::default().largest().upper_bytes, 1);
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (text, written) in [
            ("100,50,0", "100.00,50.00,0.00"),
            ("100.0000, 33.3333,0.1,0.0001, 0,0", "100.00,33.3333,0.10,0.0001,0.00,0.00"),
            ("0.5000000,0", "0.50,0.00"),
        ] {
            let histogram = SizeHistogram::parse(text).unwrap();
            assert_eq!(histogram.to_string(), written);
            assert_eq!(SizeHistogram::parse(written), Ok(histogram));
        }
    }

    #[test]
    fn as_many_values_as_there_are_powers_of_two_and_no_more() {
        let of = |values: usize| format!("{}0", "100,".repeat(values - 1));
        assert_eq!(SizeHistogram::parse(&of(27)).unwrap().largest().upper_bytes, 1 << 26);
        assert_eq!(refused(&of(28)), "28 values are too many");
    }

    #[test]
    fn a_histogram_that_rises_or_has_no_end_is_refused() {
        assert_eq!(refused("100,80,90,0"), "value 3 is \"90\", more than the \"80\" before it");
        assert_eq!(refused("100,14.22"), "the last value is \"14.22\", not 0, so that the largest sizes have no bound");
    }

    #[test]
    fn values_that_are_no_percentages_are_refused_with_their_place() {
        assert_eq!(refused("100,,0"), "value 2 is empty");
        assert_eq!(refused("100,0,"), "value 3 is empty");
        for text in ["x", "1e1", "0x1", "1.", ".5", "1.2.3", "+5", "--5", "5 6", "nan", "٣"] {
            assert_eq!(refused(&format!("100,{text},0")), format!("value 2 is {}, no number", Quoted::new(text)));
        }
        for text in ["101", "100.0001", "-1", "-0.5", "4294967296", "99999999999999999999"] {
            assert_eq!(refused(&format!("{text},0")), format!("value 1 is \"{text}\", not within 0 to 100"));
        }
        assert_eq!(refused("50.00001,0"), "value 1 is \"50.00001\", with more than four decimals");
    }
}
