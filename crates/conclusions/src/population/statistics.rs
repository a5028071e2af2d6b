//! Probability distributions for the tests of this module, all computed from the regularized incomplete beta function.
//!
//! Tails are computed directly, never as 1 minus a probability: thresholds for thousands of drives lie at 1e-7.
//!
//! [`compare`] compares two populations, for example the ratings with two firmwares, by ranks, without an assumption
//! about their distribution.
//!
//! [`tolerance_bound`] computes the rating that a share of a population holds, with a stated confidence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Degrees of freedom at which Student's distribution replaces the normal distribution: at 6 standard deviations the
/// tails differ by 0.04 %.
const NORMAL: f64 = 1e6;

/// P(T > `t`) of Student's distribution; 1 if `t` is not a number.
pub(super) fn student_tail(t: f64, freedom: f64) -> f64 {
    if t.is_nan() {
        return 1.0;
    }
    let beyond = 0.5 * beta(freedom / (freedom + t * t), freedom / 2.0, 0.5);
    if t >= 0.0 { beyond } else { 1.0 - beyond }
}

/// The value that a variable with Student's distribution exceeds with probability `p`, for `p` up to 1/2.
pub(super) fn student_quantile(p: f64, freedom: f64) -> f64 {
    let mut low = 0.0;
    let mut high = 1.0;
    while student_tail(high, freedom) > p && high < 1e150 {
        high *= 2.0;
    }
    // 60 bisections reach the resolution of a double.
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if student_tail(middle, freedom) > p {
            low = middle
        } else {
            high = middle
        }
    }
    high
}

pub(super) fn binomial_at_least(least: usize, count: usize, probability: f64) -> f64 {
    match least {
        0 => 1.0,
        least if least > count => 0.0,
        least => beta(probability, least as f64, (count - least + 1) as f64),
    }
}

/// The regularized incomplete beta function I_x(a, b): a continued fraction by Lentz's method. Source: NIST Digital
/// Library of Mathematical Functions, 8.17.22; the even and the odd step are taken together.
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x >= 1.0 { 1.0 } else { 0.0 };
    }
    // The continued fraction converges fast only on one side of the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..10_000 {
        let m = f64::from(step);
        let mut change = 1.0;
        for term in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() * fraction
        / a
}

/// The logarithm of the gamma function of a positive number, by Stirling's series for arguments from 10 on.
fn ln_gamma(x: f64) -> f64 {
    // ln G(x) = ln G(x + 1) - ln x.
    let mut x = x;
    let mut log_sum = 0.0;
    while x < 10.0 {
        log_sum += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series =
        (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1_260.0 - inverse / 1_680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - log_sum
}

/// Up to this number of values in both populations, p-values are exact. The normal approximation for more is accurate
/// within a few percent.
const EXACT_MAX: usize = 50;

/// Comparison of two populations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Comparison")]
pub struct PopulationComparison {
    /// Mann-Whitney's U: number of pairs in which the second population has the larger value; equal values count half.
    pub u: f64,
    /// Probability that a drive of the second population has a larger value than a drive of the first; equal values
    /// count half. 0.5: no difference.
    pub superiority: f64,
    /// One-sided p-value: probability of this U or a larger U if the populations do not differ.
    pub p_greater: f64,
    /// Two-sided p-value.
    pub p_value: f64,
    /// True if the p-values are exact (ties included); otherwise a normal approximation with correction for ties.
    pub exact: bool,
    /// Hodges-Lehmann estimate of the shift: the median of all differences, second minus first.
    pub shift: f64,
    /// Confidence interval of the shift with at least the wanted confidence; `None` if there are too few values.
    pub shift_interval: Option<[f64; 2]>,
}

/// Compares `second` with `first`. `confidence` (such as 0.95) is the confidence of the interval of the shift. Values
/// that are not finite are ignored. `None` if a population has no finite values.
///
/// Sources: Mann and Whitney 1947; Hodges and Lehmann 1963; Hollander, Wolfe and Chicken, Nonparametric Statistical
/// Methods (2014), 4.1 to 4.3.
pub fn compare(first: &[f64], second: &[f64], confidence: f64) -> Option<PopulationComparison> {
    let first = finite(first);
    let second = finite(second);
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let (u, exact, [p_greater, p_less]) = rank_test(&first, &second);
    let mut differences: Vec<f64> = second
        .iter()
        .flat_map(|b| first.iter().map(move |a| b - a))
        .collect();
    differences.sort_by(f64::total_cmp);
    let low = differences[(differences.len() - 1) / 2];
    let high = differences[differences.len() / 2];
    let cut = cut(first.len(), second.len(), (1.0 - confidence) / 2.0);
    let interval = cut.and_then(|cut| {
        Some([
            *differences.get(cut)?,
            differences[differences.len() - 1 - cut],
        ])
    });
    Some(PopulationComparison {
        u,
        superiority: u / (first.len() * second.len()) as f64,
        p_greater,
        p_value: (2.0 * p_greater.min(p_less)).min(1.0),
        exact,
        shift: low / 2.0 + high / 2.0,
        shift_interval: interval.filter(|[low, high]| low <= high),
    })
}

fn finite(values: &[f64]) -> Vec<f64> {
    values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .collect()
}

/// Mann-Whitney's test for larger values in `second` than in `first`. Both populations must have at least one value,
/// and only finite values. Returns U, true if the p-values are exact, and the one-sided p-values for larger and for
/// smaller values in `second`.
fn rank_test(first: &[f64], second: &[f64]) -> (f64, bool, [f64; 2]) {
    let (ranks, ties) = double_ranks(first, second);
    let sum: usize = ranks[first.len()..].iter().sum();
    // `sum` is twice the rank sum. The difference from its minimum is twice U, a whole number even with ties.
    let u = (sum - second.len() * (second.len() + 1)) as f64 / 2.0;
    let exact = ranks.len() <= EXACT_MAX;
    let p = if exact {
        let sums = rank_sums(&ranks, second.len());
        let total: f64 = sums.iter().sum();
        [
            sums[sum..].iter().sum::<f64>() / total,
            sums[..=sum].iter().sum::<f64>() / total,
        ]
    } else {
        let deviation = deviation(first.len(), second.len(), ties);
        let pairs = (first.len() * second.len()) as f64;
        // Continuity correction: half a step of U.
        let tail = |distance: f64| student_tail((distance - 0.5) / deviation, NORMAL);
        if deviation > 0.0 {
            [tail(u - pairs / 2.0), tail(pairs / 2.0 - u)]
        } else {
            [1.0; 2]
        }
    };
    (u, exact, p)
}

/// Twice the rank of each value of `first`, then of `second`; equal values have their mean rank. Also returns the tie
/// correction: the sum of t^3 - t over all groups of t equal values.
fn double_ranks(first: &[f64], second: &[f64]) -> (Vec<usize>, f64) {
    let values: Vec<f64> = first.iter().chain(second).copied().collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut ties = 0.0;
    let mut position = 0;
    for tied in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let count = tied.len();
        tied.iter()
            .for_each(|at| ranks[*at] = 2 * position + count + 1);
        ties += (count as f64).powi(3) - count as f64;
        position += count;
    }
    (ranks, ties)
}

/// Ways to choose `count` ranks, by the sum of the ranks. Numbers up to C(50, 25) = 1e14 are exact in a double.
fn rank_sums(ranks: &[usize], count: usize) -> Vec<f64> {
    let width = ranks.iter().sum::<usize>() + 1;
    let mut ways = vec![vec![0.0; width]; count + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for chosen in (1..=count).rev() {
            let (fewer, more) = ways.split_at_mut(chosen);
            for (more, fewer) in more[0][*rank..].iter_mut().zip(&fewer[chosen - 1]) {
                *more += fewer;
            }
        }
    }
    ways.swap_remove(count)
}

/// Standard deviation of U if the populations do not differ.
fn deviation(first: usize, second: usize, ties: f64) -> f64 {
    let first = first as f64;
    let second = second as f64;
    let count = first + second;
    (first * second / 12.0 * (count + 1.0 - ties / (count * (count - 1.0)))).sqrt()
}

/// Number of differences beyond each end of the shift's interval: the largest k with P(U < k) at most `beyond`, if any.
fn cut(first: usize, second: usize, beyond: f64) -> Option<usize> {
    if first + second > EXACT_MAX {
        let z = student_quantile(beyond, NORMAL);
        let cut = (first * second) as f64 / 2.0 - z * deviation(first, second, 0.0);
        return (cut >= 1.0).then_some(cut as usize - 1);
    }
    let ranks: Vec<usize> = (1..=first + second).collect();
    let sums = rank_sums(&ranks, second);
    let total: f64 = sums.iter().sum();
    let mut cumulative = 0.0;
    let fits = sums[second * (second + 1) / 2..].iter().take_while(|ways| {
        cumulative += *ways / total;
        // A confidence of 0.9 is not exact in binary.
        cumulative <= beyond + 1e-9
    });
    fits.count().checked_sub(1)
}

/// "95 % of these drives hold at least 48x": a one-sided tolerance bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToleranceBound {
    /// Share of the drives, such as 0.95.
    pub share: f64,
    /// At least `share` of all such drives have at least this value.
    pub bound: f64,
    /// Confidence of this bound, 0 to 1. With too few drives, the bound is the smallest value, and its confidence is
    /// below the wanted confidence.
    pub confidence: f64,
    /// Number of drives measured.
    pub drives: usize,
    /// Minimum number of drives at which the smallest value has the wanted confidence: 59 for a share of 95 % and a
    /// confidence of 95 %.
    pub drives_needed: usize,
}

/// The largest order statistic of `values` that is a lower bound for `share` of the drives with the confidence
/// `confidence_min`; with too few drives, the smallest value and its confidence. Values that are not finite are
/// ignored. `None` without values, or if `share` or `confidence_min` is not between 0 and 1.
///
/// The k-th smallest of n values is a lower bound if at least k values lie in the lowest 1 - `share` of all drives.
/// This number is binomial, for any distribution of the values. The drives must be a random sample of the population.
///
/// Source: Wilks 1941, "Determination of sample sizes for setting tolerance limits".
pub fn tolerance_bound(values: &[f64], share: f64, confidence_min: f64) -> Option<ToleranceBound> {
    let is_fraction = |value: f64| value > 0.0 && value < 1.0;
    let mut sorted: Vec<f64> = values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .collect();
    if sorted.is_empty() || !is_fraction(share) || !is_fraction(confidence_min) {
        return None;
    }
    sorted.sort_by(f64::total_cmp);
    let confidence = |rank: usize| binomial_at_least(rank, sorted.len(), 1.0 - share);
    let rank = (1..=sorted.len())
        .take_while(|rank| confidence(*rank) >= confidence_min)
        .last()
        .unwrap_or(1);
    Some(ToleranceBound {
        share,
        bound: sorted[rank - 1],
        confidence: confidence(rank),
        drives: sorted.len(),
        drives_needed: ((1.0 - confidence_min).ln() / share.ln()).ceil() as usize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(value: f64, expected: f64, within: f64) {
        assert!(
            (value / expected - 1.0).abs() < within,
            "{value:e} instead of {expected:e}"
        );
    }

    // Expected values: scipy 1.17.1, stats.t.sf, t.isf, norm.sf, binom.sf.

    #[test]
    fn tails_and_quantiles_are_those_of_scipy() {
        for (t, freedom, expected) in [
            (1.0, 1.0, 0.25000000000000006),
            (4.5, 3.0, 0.0102452061722267),
            (2.0, 10.0, 0.03669401738537018),
            (6.0, 197.0, 4.653666592451335e-09),
            (12.0, 5.0, 3.544746258580761e-05),
            (-1.5, 7.0, 0.911350756505015),
            (40.0, 198.0, 4.1953717271829827e-97),
        ] {
            close(student_tail(t, freedom), expected, 1e-9);
        }
        for (p, freedom, expected) in [
            (1e-3, 1.0, 318.30883898555044),
            (1e-6, 4.0, 41.577854150450975),
            (2.8e-6, 198.0, 4.667935777654246),
            (0.05, 30.0, 1.6972608865939574),
        ] {
            close(student_quantile(p, freedom), expected, 1e-9);
        }
        for (z, expected) in [
            (1.0, 0.15865525393145707),
            (3.0, 0.0013498980316300933),
            (6.0, 9.865876450376946e-10),
        ] {
            assert!(
                (student_tail(z, NORMAL) / expected - 1.0).abs() < 5e-4,
                "{z}"
            );
        }
        assert_eq!(
            (
                student_tail(f64::NAN, 5.0),
                student_tail(f64::INFINITY, 5.0)
            ),
            (1.0, 0.0)
        );
    }

    #[test]
    fn binomial_probabilities_are_those_of_scipy() {
        for (least, count, probability, expected) in [
            (1, 59, 0.05, 0.9515054747505768),
            (2, 93, 0.05, 0.9500242047573837),
            (3, 10, 0.5, 0.9453125),
            (10, 10, 0.9, 0.34867844010000004),
            (7, 2000, 0.001, 0.004509769004537928),
        ] {
            close(binomial_at_least(least, count, probability), expected, 1e-9);
        }
        assert_eq!(
            (binomial_at_least(0, 5, 0.1), binomial_at_least(6, 5, 0.1)),
            (1.0, 0.0)
        );
    }

    #[test]
    fn exact_p_values_and_shift_are_those_of_scipy() {
        // scipy 1.17.1: mannwhitneyu(second, first, method='exact'). The interval is computed by counting the null
        // distribution of U.
        let compared = compare(
            &[1.1, 2.2, 3.3, 4.4, 5.5],
            &[2.3, 4.5, 6.7, 8.9, 10.1, 11.2],
            0.95,
        )
        .unwrap();
        assert_eq!((compared.u, compared.exact), (26.0, true));
        close(compared.superiority, 26.0 / 30.0, 1e-12);
        close(compared.p_greater, 0.025974025974025976, 1e-12);
        close(compared.p_value, 0.05194805194805195, 1e-12);
        close(compared.shift, 4.5, 1e-12);
        let [low, high] = compared.shift_interval.unwrap();
        close(low, -1.0, 1e-12);
        close(high, 7.9, 1e-12);
    }

    #[test]
    fn p_values_are_exact_with_equal_values_too() {
        // The expected p-value was computed with numpy, from all 462 ways to assign the mean ranks to the populations.
        let compared = compare(
            &[48.0, 50.0, 50.0, 52.0, 54.0],
            &[50.0, 52.0, 55.0, 55.0, 57.0, 60.0],
            0.95,
        )
        .unwrap();
        assert_eq!(
            (compared.u, compared.shift, compared.shift_interval),
            (25.5, 4.5, Some([0.0, 9.0]))
        );
        close(compared.p_greater, 0.030303030303030304, 1e-12);
        let same = compare(&[7.0; 30], &[7.0; 40], 0.95).unwrap();
        assert_eq!(
            (same.p_value, same.superiority, same.shift),
            (1.0, 0.5, 0.0)
        );
    }

    #[test]
    fn many_values_are_approximated_as_scipy_does() {
        // scipy 1.17.1: mannwhitneyu(second, first, method='asymptotic').
        let first: Vec<f64> = (0..30)
            .map(|at| 40.0 + f64::from(at * 7 % 30) * 0.5)
            .collect();
        let second: Vec<f64> = (0..40)
            .map(|at| 43.0 + f64::from(at * 11 % 40) * 0.4)
            .collect();
        let compared = compare(&first, &second, 0.95).unwrap();
        assert_eq!((compared.u, compared.exact), (843.0, false));
        close(compared.p_greater, 0.002000413077215348, 1e-4);
        close(compared.p_value, 0.004000826154430696, 1e-4);
    }

    #[test]
    fn the_interval_of_the_shift_has_its_stated_confidence() {
        // 20 + 20 values: the critical U of the usual tables at 5 %, two-sided, is 127.
        assert_eq!(cut(20, 20, 0.025), Some(127));
        let exact = cut(25, 25, 0.025).unwrap();
        let z = 1.959964;
        assert!(
            (exact as f64 - (312.5 - z * deviation(25, 25, 0.0))).abs() < 2.0,
            "{exact}"
        );
        // With three values in each population, the confidence is at most 90 %, never 95 %.
        let few = compare(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.95).unwrap();
        assert_eq!(
            (few.shift, few.shift_interval, few.p_value),
            (3.0, None, 0.1)
        );
        assert_eq!(
            compare(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.9)
                .unwrap()
                .shift_interval,
            Some([1.0, 5.0])
        );
        assert_eq!(compare(&[f64::NAN], &[1.0], 0.95), None);
    }

    #[test]
    fn the_smallest_of_59_values_is_a_bound_for_95_percent_with_95_percent_confidence() {
        let ratings = |count: u32| {
            (0..count)
                .map(|at| f64::from(40 + at * 17 % count))
                .collect::<Vec<_>>()
        };
        let bound = tolerance_bound(&ratings(59), 0.95, 0.95).unwrap();
        assert_eq!(
            (bound.bound, bound.drives, bound.drives_needed),
            (40.0, 59, 59)
        );
        assert!(
            (bound.confidence - 0.9515054747505768).abs() < 1e-12,
            "1 - 0.95^59"
        );
        // 58 drives give less than 95 % confidence; for the second smallest value as the bound, 93 drives are needed.
        // Source: tables of Wilks's bounds; scipy 1.17.1, binom.
        assert!(
            tolerance_bound(&ratings(58), 0.95, 0.95)
                .unwrap()
                .confidence
                < 0.95
        );
        assert_eq!(
            [92, 93].map(|count| tolerance_bound(&ratings(count), 0.95, 0.95).unwrap().bound),
            [40.0, 41.0]
        );
        assert_eq!(
            tolerance_bound(&ratings(1), 0.9, 0.99)
                .unwrap()
                .drives_needed,
            44
        );
    }

    #[test]
    fn bounds_from_few_drives_state_their_lower_confidence() {
        let bound = tolerance_bound(&[50.0, f64::NAN, 48.0, 52.0], 0.95, 0.95).unwrap();
        assert_eq!((bound.bound, bound.drives), (48.0, 3));
        assert!((bound.confidence - (1.0 - 0.95_f64.powi(3))).abs() < 1e-12);
        for (values, share, confidence) in [
            (&[][..], 0.95, 0.95),
            (&[1.0], 1.0, 0.95),
            (&[1.0], 0.5, f64::NAN),
        ] {
            assert_eq!(
                tolerance_bound(values, share, confidence),
                None,
                "{values:?} {share} {confidence}"
            );
        }
    }
}
