//! Percentiles that a number of operations can resolve.
//!
//! The 99.9th percentile of 500 operations is the longest operation, which describes a single event and not the drive.
//! So a percentile is shown only if operations lie beyond it, and compared only if enough do to exclude chance.

/// A percentile is shown only if at least this many operations lie beyond it.
pub const BEYOND_RESOLVED: f64 = 1.0;

/// At least this many operations must lie beyond a percentile that is compared: with fewer, a difference can be chance.
pub const BEYOND_COMPARED: f64 = 10.0;

/// Number of operations, out of `count`, beyond the percentile: above it, or below it for percentiles under 50.
pub fn beyond(count: u64, percent: f64) -> f64 {
    count as f64 * percent.min(100.0 - percent) / 100.0
}

pub fn is_resolved(count: u64, percent: f64) -> bool {
    at_least(count, percent, BEYOND_RESOLVED)
}

pub(crate) fn is_compared(count: u64, percent: f64) -> bool {
    at_least(count, percent, BEYOND_COMPARED)
}

fn at_least(count: u64, percent: f64, beyond_min: f64) -> bool {
    // In binary floating point, 99.9 % of 1,000 is not exactly 999.
    beyond(count, percent) >= beyond_min - 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_resolved_if_at_least_one_operation_is_beyond_it() {
        let least =
            |percent, is: fn(u64, f64) -> bool| (0..200_000).find(|count| is(*count, percent));
        assert_eq!(
            [50.0, 99.0, 99.9, 99.99].map(|percent| least(percent, is_resolved)),
            [2, 100, 1_000, 10_000].map(Some)
        );
        assert_eq!(
            [99.0, 99.9].map(|percent| least(percent, is_compared)),
            [1_000, 10_000].map(Some)
        );
        assert_eq!(least(1.0, is_resolved), Some(100), "at the beginning, too");
        assert_eq!(
            least(100.0, is_resolved),
            None,
            "the longest is no percentile"
        );
    }
}
