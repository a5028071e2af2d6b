//! Ratings that most drives of a population hold, with a stated confidence.

use super::distributions::binomial_at_least;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// "95 % of these drives hold at least 48x": a one-sided tolerance bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToleranceBound {
    /// Share of the drives, 0.95.
    pub share: f64,
    /// At least this share of all such drives has at least this value.
    pub bound: f64,
    /// Confidence of that statement, 0 to 1. Below the wanted one if there are too few drives: then the bound is the
    /// smallest value.
    pub confidence: f64,
    /// Number of drives measured.
    pub drives: usize,
    /// Number of drives from which on the smallest value has the wanted confidence: 59 for 95 % with 95 %.
    pub drives_needed: usize,
}

/// The largest order statistic of `values` that is a lower bound for `share` of the drives with the confidence `wanted`;
/// with too few drives the smallest value and its confidence. Values that are no finite numbers are left out. `None`
/// without values, or if `share` or `wanted` is not between 0 and 1.
///
/// The k-th smallest of n values is a lower bound if at least k of them lie in the lowest 1 - `share` of all drives:
/// binomial, whatever the distribution. The drives must be a random sample of those that the statement is about.
///
/// Source: Wilks 1941, "Determination of sample sizes for setting tolerance limits".
pub fn held_by(values: &[f64], share: f64, wanted: f64) -> Option<ToleranceBound> {
    let inside = |value: f64| value > 0.0 && value < 1.0;
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    if sorted.is_empty() || !inside(share) || !inside(wanted) {
        return None;
    }
    sorted.sort_by(f64::total_cmp);
    let confidence = |rank: usize| binomial_at_least(rank, sorted.len(), 1.0 - share);
    let rank = (1..=sorted.len()).take_while(|rank| confidence(*rank) >= wanted).last().unwrap_or(1);
    Some(ToleranceBound {
        share,
        bound: sorted[rank - 1],
        confidence: confidence(rank),
        drives: sorted.len(),
        drives_needed: ((1.0 - wanted).ln() / share.ln()).ceil() as usize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_of_59_drives_is_held_by_95_percent_with_95_percent() {
        let ratings = |count: u32| (0..count).map(|at| f64::from(40 + at * 17 % count)).collect::<Vec<_>>();
        let bound = held_by(&ratings(59), 0.95, 0.95).unwrap();
        assert_eq!((bound.bound, bound.drives, bound.drives_needed), (40.0, 59, 59));
        assert!((bound.confidence - 0.9515054747505768).abs() < 1e-12, "1 - 0.95^59");
        // One fewer has less; the second smallest takes 93 drives. Source: tables of Wilks's bounds; scipy 1.17.1, binom.
        assert!(held_by(&ratings(58), 0.95, 0.95).unwrap().confidence < 0.95);
        assert_eq!([92, 93].map(|count| held_by(&ratings(count), 0.95, 0.95).unwrap().bound), [40.0, 41.0]);
        assert_eq!(held_by(&ratings(1), 0.9, 0.99).unwrap().drives_needed, 44);
    }

    #[test]
    fn few_drives_say_what_confidence_they_have() {
        let bound = held_by(&[50.0, f64::NAN, 48.0, 52.0], 0.95, 0.95).unwrap();
        assert_eq!((bound.bound, bound.drives), (48.0, 3));
        assert!((bound.confidence - (1.0 - 0.95_f64.powi(3))).abs() < 1e-12);
        assert_eq!(
            [held_by(&[], 0.95, 0.95), held_by(&[1.0], 1.0, 0.95), held_by(&[1.0], 0.5, f64::NAN)],
            [None, None, None]
        );
    }
}
