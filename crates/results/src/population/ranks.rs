//! Comparison of two populations, for example the ratings under two firmwares, by ranks: no distribution is assumed.

use super::distributions::normal_tail;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest number of values of both populations together with an exact p-value. The normal approximation is within a few
/// percent from there on.
const EXACT_MAX: usize = 50;

/// Two populations compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Mann-Whitney's U: pairs in which the second population has the larger value; equal values count half.
    pub u: f64,
    /// Probability that a drive of the second population has a larger value than one of the first; equal values count
    /// half. 0.5: neither is larger.
    pub superiority: f64,
    /// Probability of such a U or a larger one if the populations do not differ.
    pub p_greater: f64,
    /// Two-sided p-value.
    pub p_value: f64,
    /// True if the p-values are exact (ties included); otherwise a normal approximation with correction for ties.
    pub exact: bool,
    /// Hodges-Lehmann estimate of the shift: the median of all differences, second minus first.
    pub shift: f64,
    /// Interval of the shift with at least the wanted confidence; `None` if so few values cannot give that confidence.
    pub shift_interval: Option<[f64; 2]>,
}

/// Compares `second` with `first`, with an interval of the shift of the confidence `confidence` (0.95). Values that are
/// no finite numbers are left out. `None` if nothing remains of one population.
///
/// Sources: Mann and Whitney 1947; Hodges and Lehmann 1963; Hollander, Wolfe and Chicken, Nonparametric Statistical
/// Methods (2014), 4.1 to 4.3.
pub fn compare(first: &[f64], second: &[f64], confidence: f64) -> Option<Comparison> {
    let finite = |values: &[f64]| values.iter().copied().filter(|value| value.is_finite()).collect::<Vec<_>>();
    let (first, second) = (finite(first), finite(second));
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let test = rank_test(&first, &second);
    let mut differences: Vec<f64> = second.iter().flat_map(|b| first.iter().map(move |a| b - a)).collect();
    differences.sort_by(f64::total_cmp);
    let (low, high) = (differences[(differences.len() - 1) / 2], differences[differences.len() / 2]);
    let cut = cut(first.len(), second.len(), (1.0 - confidence) / 2.0);
    let interval = cut.and_then(|cut| Some([*differences.get(cut)?, differences[differences.len() - 1 - cut]]));
    Some(Comparison {
        u: test.u,
        superiority: test.superiority,
        p_greater: test.p_greater,
        p_value: (2.0 * test.p_greater.min(test.p_less)).min(1.0),
        exact: test.exact,
        shift: low / 2.0 + high / 2.0,
        shift_interval: interval.filter(|[low, high]| low <= high),
    })
}

/// Mann-Whitney's test without the shift.
struct RankTest {
    u: f64,
    superiority: f64,
    p_greater: f64,
    p_less: f64,
    exact: bool,
}

/// Tests whether `second` has larger values than `first`: finite numbers, at least one in each.
fn rank_test(first: &[f64], second: &[f64]) -> RankTest {
    let (ranks, ties) = double_ranks(first, second);
    let sum: usize = ranks[first.len()..].iter().sum();
    // Twice the rank sum, less its minimum, is twice U: a whole number also with ties.
    let u = (sum - second.len() * (second.len() + 1)) as f64 / 2.0;
    let pairs = (first.len() * second.len()) as f64;
    let exact = ranks.len() <= EXACT_MAX;
    let (p_greater, p_less) = if exact {
        let sums = rank_sums(&ranks, second.len());
        let total: f64 = sums.iter().sum();
        (sums[sum..].iter().sum::<f64>() / total, sums[..=sum].iter().sum::<f64>() / total)
    } else {
        let deviation = deviation(first.len(), second.len(), ties);
        // Half a step of U is the correction for continuity.
        let tail = |distance: f64| if deviation > 0.0 { normal_tail((distance - 0.5) / deviation) } else { 1.0 };
        (tail(u - pairs / 2.0), tail(pairs / 2.0 - u))
    };
    RankTest { u, superiority: u / pairs, p_greater, p_less, exact }
}

/// Twice the rank of each value of `first`, then `second`, equal values with their mean rank; and the sum of t^3 - t over
/// all groups of t equal values.
fn double_ranks(first: &[f64], second: &[f64]) -> (Vec<usize>, f64) {
    let values: Vec<f64> = first.iter().chain(second).copied().collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let (mut ranks, mut ties, mut from) = (vec![0; values.len()], 0.0, 0);
    for tied in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let count = tied.len();
        tied.iter().for_each(|at| ranks[*at] = 2 * from + count + 1);
        ties += (count as f64).powi(3) - count as f64;
        from += count;
    }
    (ranks, ties)
}

/// Number of ways to choose `count` of the ranks, by their sum. Numbers up to C(50, 25) = 1e14 are exact in a double.
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
    let (first, second) = (first as f64, second as f64);
    let count = first + second;
    (first * second / 12.0 * (count + 1.0 - ties / (count * (count - 1.0)))).sqrt()
}

/// Number of differences beyond each end of the interval of the shift: the largest k with P(U < k) at most `beyond`.
/// `None` if there is none.
fn cut(first: usize, second: usize, beyond: f64) -> Option<usize> {
    if first + second > EXACT_MAX {
        let z = super::distributions::student_quantile(beyond, 1e6);
        let cut = (first * second) as f64 / 2.0 - z * deviation(first, second, 0.0);
        return (cut >= 1.0).then_some(cut as usize - 1);
    }
    let ranks: Vec<usize> = (1..=first + second).collect();
    let sums = rank_sums(&ranks, second);
    let total: f64 = sums.iter().sum();
    let mut below = 0.0;
    let fits = sums[second * (second + 1) / 2..].iter().take_while(|ways| {
        below += *ways / total;
        // A confidence of 0.9 is not exact in binary.
        below <= beyond + 1e-9
    });
    fits.count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64, within: f64) {
        assert!((value / expected - 1.0).abs() < within, "{value} instead of {expected}");
    }

    #[test]
    fn exact_p_values_and_shift_are_those_of_scipy() {
        // scipy 1.17.1: mannwhitneyu(second, first, method='exact'); the interval by counting its null distribution.
        let compared = compare(&[1.1, 2.2, 3.3, 4.4, 5.5], &[2.3, 4.5, 6.7, 8.9, 10.1, 11.2], 0.95).unwrap();
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
    fn ties_are_exact_too() {
        // All 462 assignments of the mean ranks counted with numpy.
        let compared = compare(&[48.0, 50.0, 50.0, 52.0, 54.0], &[50.0, 52.0, 55.0, 55.0, 57.0, 60.0], 0.95).unwrap();
        assert_eq!((compared.u, compared.shift, compared.shift_interval), (25.5, 4.5, Some([0.0, 9.0])));
        close(compared.p_greater, 0.030303030303030304, 1e-12);
        let same = compare(&[7.0; 30], &[7.0; 40], 0.95).unwrap();
        assert_eq!((same.p_value, same.superiority, same.shift), (1.0, 0.5, 0.0));
    }

    #[test]
    fn many_values_are_approximated_as_scipy_does() {
        // scipy 1.17.1: mannwhitneyu(second, first, method='asymptotic').
        let first: Vec<f64> = (0..30).map(|at| 40.0 + f64::from(at * 7 % 30) * 0.5).collect();
        let second: Vec<f64> = (0..40).map(|at| 43.0 + f64::from(at * 11 % 40) * 0.4).collect();
        let compared = compare(&first, &second, 0.95).unwrap();
        assert_eq!((compared.u, compared.exact), (843.0, false));
        close(compared.p_greater, 0.002000413077215348, 1e-4);
        close(compared.p_value, 0.004000826154430696, 1e-4);
    }

    #[test]
    fn the_interval_of_the_shift_covers_as_often_as_it_says() {
        // 20 + 20 values: the critical U of the usual tables at 5 %, two-sided, is 127.
        assert_eq!(cut(20, 20, 0.025), Some(127));
        // The approximation for many values differs by little from the exact cut.
        let exact = cut(25, 25, 0.025).unwrap();
        let z = 1.959964;
        assert!((exact as f64 - (312.5 - z * deviation(25, 25, 0.0))).abs() < 2.0, "{exact}");
        // Three and three values never give 95 %: the most is 90 %.
        let few = compare(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.95).unwrap();
        assert_eq!((few.shift, few.shift_interval, few.p_value), (3.0, None, 0.1));
        assert_eq!(compare(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.9).unwrap().shift_interval, Some([1.0, 5.0]));
        assert_eq!(compare(&[f64::NAN], &[1.0], 0.95), None);
    }
}
