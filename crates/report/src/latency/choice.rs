//! What to show of a log: the options of ACT's script, with its defaults and its bounds.

/// Buckets that ACT's script knows, of the 65 that a log can have: up to "longer than 65,536 units".
pub const BUCKETS: usize = 17;

/// What to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Length of a slice as it was asked for, seconds, at least 1.
    pub slice_sec: u64,
    /// Names of the histograms; empty for the log's reads.
    pub histograms: Vec<String>,
    /// The first bucket shown, below [`BUCKETS`].
    pub first_bucket: usize,
    /// How many buckets are shown at most, at least 1.
    pub buckets_max: usize,
    /// Distance between two buckets shown, at least 1.
    pub every_nth: usize,
    /// Whether rates are shown, too.
    pub extra: bool,
}

impl Default for Choice {
    fn default() -> Self {
        Self { slice_sec: 3600, histograms: Vec::new(), first_bucket: 0, buckets_max: 7, every_nth: 1, extra: false }
    }
}

impl Choice {
    /// The buckets shown, ascending. Bucket `b` stands for "longer than 2^b units".
    pub fn buckets(&self) -> Vec<usize> {
        (self.first_bucket..BUCKETS).step_by(self.every_nth.max(1)).take(self.buckets_max).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_begin_at_the_first_and_end_with_the_seventeenth() {
        let buckets = |first_bucket, buckets_max, every_nth| {
            Choice { first_bucket, buckets_max, every_nth, ..Choice::default() }.buckets()
        };
        assert_eq!(buckets(0, 7, 1), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(buckets(0, 3, 3), [0, 3, 6]);
        assert_eq!(buckets(15, usize::MAX, 1), [15, 16]);
        assert_eq!(buckets(16, 3, usize::MAX), [16]);
    }
}
