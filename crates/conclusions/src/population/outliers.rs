//! Finds outliers among few or many values, by the generalized extreme Studentized deviate test.
//!
//! The value farthest from the mean is removed, then the farthest of the remaining values, and so on. The last step
//! with a distance that is too large for normal values decides: all values removed up to this step are outliers. So
//! several slow drives do not hide each other. The probability of a step is that of the deleted Studentized residual,
//! times the number of remaining values (Bonferroni). This probability is exact for normal values, even if there are
//! few.
//!
//! Median and median absolute deviation would need more drives for the same threshold: their estimate of the spread has
//! 37 % of the efficiency, and no exact tail for three or ten drives.
//!
//! Scores of healthy drives are somewhat skewed if the strength of garbage collection differs by factors. So a distance
//! is first reduced by the second term of Cornish and Fisher's expansion, with the skewness of the remaining values, if
//! this skewness is positive. In one of 100 simulated healthy populations there was a false alarm; without this
//! correction, in one of 25. The skewness is estimated from the middle 90 %: with the tails, each of five slow drives
//! would widen the threshold for the others.
//!
//! Source: Rosner 1983, "Percentage points for a generalized ESD many-outlier procedure".
//!
//! Scores are computed from the latencies of windows, relative to the peers' latencies at the same time and load. This
//! takes two passes over the windows of a model's drives. The first pass finds the center of each cell (ten minutes of
//! time, a tenth of load): the median of the drives' medians. The second pass computes the scores of each drive. The
//! memory is three numbers for each drive and cell; windows are not stored.

use super::statistics::{student_quantile, student_tail};
use super::{LatencyMetric, LatencyWindow, ScoreExtent};
use crate::percentile::BEYOND_COMPARED;
use results::buckets::DURATION_MAX_NS;

/// Outliers are found only among at least this many values: of two values, it is unknown which one is unusual.
pub(super) const VALUES_MIN: usize = 3;

/// Minimum standard deviation of scores, which are logarithms. Identical simulated drives would have a deviation of 0.
const DEVIATION_MIN: f64 = 0.001;

const SKEWNESS_FROM: usize = 10;

/// Ratio of the skewness of slightly skewed normal values to the skewness of their middle 90 % (400,000 values, numpy).
const MIDDLE_SKEWNESS: f64 = 2.165;

#[derive(Debug)]
pub(super) struct Outlier {
    pub(super) index: usize,
    /// Distance from the mean of the values that are not outliers.
    pub(super) excess: f64,
    /// Probability that, without outliers, at least one of the values is this far above the rest.
    pub(super) p: f64,
    /// Number of values that are not outliers.
    pub(super) peers: usize,
}

struct Moments {
    count: f64,
    mean: f64,
    deviation: f64,
    /// Skewness; 0 if negative, or for few values.
    skewness: f64,
}

impl Moments {
    /// `values` are ascending.
    fn from_values(values: &[(f64, usize)]) -> Self {
        let count = values.len() as f64;
        let (mean, variance) = mean_and_variance(values);
        let deviation = variance.sqrt().max(DEVIATION_MIN);
        let mut skewness = 0.0;
        if values.len() >= SKEWNESS_FROM {
            let trimmed = values.len().div_ceil(20);
            let middle = &values[trimmed..values.len() - trimmed];
            let (mean, variance) = mean_and_variance(middle);
            let cubes: f64 = middle.iter().map(|(value, _)| (value - mean).powi(3)).sum();
            let deviation = variance.sqrt().max(DEVIATION_MIN);
            skewness = MIDDLE_SKEWNESS * cubes / middle.len() as f64 / deviation.powi(3);
        }
        Self {
            count,
            mean,
            deviation,
            skewness: skewness.max(0.0),
        }
    }

    /// Probability that any of `value_count` values is at least `distance` beyond the mean.
    fn p(&self, distance: f64, value_count: f64) -> f64 {
        let standard = distance / self.width();
        // Solves standard = t + (t^2 - 1) skewness / 6.
        let third = self.skewness / 3.0;
        let t = match third {
            0.0 => standard,
            third => {
                ((1.0 + 2.0 * third * (standard + third / 2.0))
                    .max(0.0)
                    .sqrt()
                    - 1.0)
                    / third
            }
        };
        (value_count * student_tail(t, self.count - 1.0)).min(1.0)
    }

    /// The distance that a value exceeds with probability `p`.
    fn distance(&self, p: f64) -> f64 {
        let t = student_quantile(p, self.count - 1.0);
        (t + (t * t - 1.0) * self.skewness / 6.0) * self.width()
    }

    /// Standard deviation of the distance of an additional value from the mean.
    fn width(&self) -> f64 {
        self.deviation * (1.0 + 1.0 / self.count).sqrt()
    }

    /// Sum of the squared distances from the mean. A single value has no deviation.
    fn squares(&self) -> f64 {
        if self.count > 1.0 {
            self.deviation.powi(2) * (self.count - 1.0)
        } else {
            0.0
        }
    }
}

fn mean_and_variance(values: &[(f64, usize)]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().map(|(value, _)| value).sum::<f64>() / count;
    let squares: f64 = values.iter().map(|(value, _)| (value - mean).powi(2)).sum();
    (mean, squares / (count - 1.0))
}

fn sorted(values: &[f64]) -> Vec<(f64, usize)> {
    let mut sorted: Vec<(f64, usize)> = values.iter().copied().zip(0..).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    sorted
}

/// The outliers above the other values. `alpha` is the probability that normal values have any outlier. Up to a quarter
/// of the values can be outliers; among fewer than eight values, one.
pub(super) fn above(values: &[f64], alpha: f64) -> Vec<Outlier> {
    let sorted = sorted(values);
    let clean = without_outliers(&sorted, alpha);
    if clean.len() == sorted.len() {
        return Vec::new();
    }
    let spread = Moments::from_values(clean);
    let highest = clean[clean.len() - 1].0;
    let high = sorted.iter().filter(|(value, _)| *value > highest);
    let outlier = |(value, at): &(f64, usize)| Outlier {
        index: *at,
        excess: value - spread.mean,
        p: spread.p(value - spread.mean, sorted.len() as f64),
        peers: clean.len(),
    };
    high.map(outlier).collect()
}

/// The ascending values without the outliers at both ends.
fn without_outliers(sorted: &[(f64, usize)], alpha: f64) -> &[(f64, usize)] {
    let mut rest = sorted;
    let mut clean = rest;
    for _ in 0..(sorted.len() / 4).max(1) {
        if rest.len() < VALUES_MIN {
            break;
        }
        let mean = Moments::from_values(rest).mean;
        let lowest = rest[0].0;
        let highest = rest[rest.len() - 1].0;
        let count = rest.len() as f64;
        // Low outliers are removed, too, at the same threshold, so that they do not widen the spread.
        let p = if highest - mean >= mean - lowest {
            rest = &rest[..rest.len() - 1];
            let spread = Moments::from_values(rest);
            spread.p(highest - spread.mean, count)
        } else {
            rest = &rest[1..];
            let spread = Moments::from_values(rest);
            spread.p(spread.mean - lowest, count)
        };
        if p <= alpha {
            clean = rest;
        }
    }
    clean
}

/// The distance from the mean of `values` at which an additional value would be an outlier.
pub(super) fn threshold(values: &[f64], alpha: f64) -> f64 {
    let spread = Moments::from_values(&sorted(values));
    spread.distance(alpha / (spread.count + 1.0))
}

/// Student's test with a common deviation: the probability that the mean of `own` is so far above that of `others` by
/// chance. 1 if there are fewer than three values, or if a side is empty.
pub(super) fn difference_p(own: &[f64], others: &[f64]) -> f64 {
    let spread = |values: &[f64]| Moments::from_values(&sorted(values));
    let freedom = (own.len() + others.len()) as f64 - 2.0;
    if own.is_empty() || others.is_empty() || freedom < 1.0 {
        return 1.0;
    }
    let own_spread = spread(own);
    let other_spread = spread(others);
    let deviation = ((own_spread.squares() + other_spread.squares()) / freedom)
        .sqrt()
        .max(DEVIATION_MIN);
    let t = (own_spread.mean - other_spread.mean)
        / (deviation * (1.0 / own_spread.count + 1.0 / other_spread.count).sqrt());
    student_tail(t, freedom)
}

/// Length of a cell, seconds: short compared with drift over a day.
const CELL_SEC: f64 = 600.0;

/// Ratio of the loads at the edges of a cell.
const CELL_LOAD: f64 = 1.1;

/// Minimum number of drives in a cell: with two drives, the center lies between them, which hides half of the slowness.
const DRIVES_MIN: usize = 3;

/// Number of consecutive parts of a run; the slowest part gives a score.
const PARTS: usize = 8;

pub(super) const SCORES: usize = LatencyMetric::ALL.len() * ScoreExtent::ALL.len();

type MetricValues = [f64; LatencyMetric::ALL.len()];

/// A cell: number of its period of ten minutes, and number of its load range (a factor of 1.1 from edge to edge).
type TimeLoadCell = (u32, i16);

/// A cell with values. Single precision is enough: an error of 1e-6 in a logarithm is 1e-6 of the latency.
type CellValues = (TimeLoadCell, [f32; LatencyMetric::ALL.len()]);

/// The cell of a window, and the logarithms of its latencies; `None` if a number cannot be a measurement.
fn logarithms(window: &LatencyWindow) -> Option<(TimeLoadCell, MetricValues)> {
    let latencies = LatencyMetric::ALL.map(|metric| metric.value_in(window));
    let measured = |value: &f64| *value >= 1.0 && *value <= DURATION_MAX_NS as f64;
    let placed = window.start_s >= 0.0 && window.load > 0.0 && window.load.is_finite();
    let cell = (
        (window.start_s / CELL_SEC) as u32,
        (window.load.ln() / CELL_LOAD.ln()).round() as i16,
    );
    (placed && latencies.iter().all(measured)).then(|| (cell, latencies.map(f64::ln)))
}

/// The lower median of `values`, which must not be empty and are reordered.
fn median<T: Copy + PartialOrd>(
    values: &mut [T],
    order: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> T {
    let middle = (values.len() - 1) / 2;
    *values.select_nth_unstable_by(middle, order).1
}

/// The median of each metric over the values of one cell. `scratch` is overwritten.
fn cell_medians(values: &[CellValues], scratch: &mut Vec<f32>) -> CellValues {
    let medians = std::array::from_fn(|metric| {
        scratch.clear();
        scratch.extend(values.iter().map(|(_, values)| values[metric]));
        median(scratch, f32::total_cmp)
    });
    (values[0].0, medians)
}

/// Centers of the cells of a model, sorted by cell.
pub(super) struct Centers(Vec<(TimeLoadCell, MetricValues)>);

impl Centers {
    /// Only cells with enough drives have a center.
    pub(super) fn from_drives<'a>(drives: impl Iterator<Item = &'a [LatencyWindow]>) -> Self {
        let mut scratch = Vec::new();
        let mut medians: Vec<CellValues> = Vec::new();
        let mut windows: Vec<CellValues> = Vec::new();
        for drive in drives {
            windows.clear();
            let single = |(cell, values): (TimeLoadCell, MetricValues)| {
                (cell, values.map(|value| value as f32))
            };
            windows.extend(drive.iter().filter_map(logarithms).map(single));
            windows.sort_by_key(|(cell, _)| *cell);
            let cells = windows.chunk_by(|a, b| a.0 == b.0);
            medians.extend(cells.map(|cell| cell_medians(cell, &mut scratch)));
        }
        medians.sort_by_key(|(cell, _)| *cell);
        let cells = medians
            .chunk_by(|a, b| a.0 == b.0)
            .filter(|drives| drives.len() >= DRIVES_MIN);
        let centers = cells
            .map(|cell| cell_medians(cell, &mut scratch))
            .map(|(cell, values)| (cell, values.map(f64::from)));
        Self(centers.collect())
    }

    /// The windows of a drive that have peers, relative to the centers of their cells.
    pub(super) fn residuals(&self, windows: &[LatencyWindow]) -> Residuals {
        let mut residuals = Residuals::default();
        let mut cell_index = 0;
        for window in windows {
            let Some((cell, values)) = logarithms(window) else {
                residuals.invalid += 1;
                continue;
            };
            // The next window is usually in the same cell.
            if self
                .0
                .get(cell_index)
                .is_none_or(|(known, _)| *known != cell)
            {
                match self.0.binary_search_by_key(&cell, |(cell, _)| *cell) {
                    Ok(at) => cell_index = at,
                    Err(_) => {
                        residuals.without_peers += 1;
                        continue;
                    }
                }
            }
            let center = self.0[cell_index].1;
            residuals.windows.push((
                window.start_s,
                std::array::from_fn(|metric| values[metric] - center[metric]),
            ));
        }
        residuals
    }
}

#[derive(Default)]
pub(super) struct Residuals {
    /// Start of each window, seconds, and for each metric the logarithm of the ratio to the center.
    pub(super) windows: Vec<(f64, MetricValues)>,
    /// Number of windows with numbers that cannot be measurements.
    pub(super) invalid: usize,
    /// Number of windows at a time and load without enough peers.
    pub(super) without_peers: usize,
}

pub(super) struct Scores {
    /// For each metric and [`ScoreExtent`]: the mean logarithm of the latency relative to the peers, over the windows of the
    /// extent; NaN if the extent has too few windows.
    pub(super) scores: [f64; SCORES],
    /// For each metric: fifth and 95th percentile of the residuals.
    pub(super) band: [[f64; 2]; LatencyMetric::ALL.len()],
    pub(super) windows: usize,
    pub(super) invalid: usize,
    pub(super) without_peers: usize,
}

impl Scores {
    /// Scores are means over the slowest windows, not percentiles: a percentile jumps if garbage collection takes
    /// exactly that share of the time.
    pub(super) fn from_residuals(residuals: &Residuals) -> Self {
        let count = residuals.windows.len();
        let mut member_scores = Self {
            scores: [f64::NAN; SCORES],
            band: [[0.0; 2]; LatencyMetric::ALL.len()],
            windows: count,
            invalid: residuals.invalid,
            without_peers: residuals.without_peers,
        };
        let mut values: Vec<f64> = Vec::with_capacity(count);
        for (metric, band) in member_scores.band.iter_mut().enumerate() {
            values.clear();
            values.extend(residuals.windows.iter().map(|(_, values)| values[metric]));
            let scores = &mut member_scores.scores[metric * ScoreExtent::ALL.len()..];
            // The slowest part is computed first, because the other extents reorder the values.
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            if count >= PARTS * BEYOND_COMPARED as usize {
                let slower = values
                    .chunks_exact(count / PARTS)
                    .map(mean)
                    .max_by(f64::total_cmp);
                scores[ScoreExtent::Part as usize] = slower.unwrap_or(f64::NAN);
            }
            for (extent, share) in [
                (ScoreExtent::Whole, 1.0),
                (ScoreExtent::Tenth, 0.1),
                (ScoreExtent::Fiftieth, 0.02),
            ] {
                let worst = count as f64 * share;
                if worst >= BEYOND_COMPARED {
                    let from = count - worst as usize;
                    values.select_nth_unstable_by(from, f64::total_cmp);
                    scores[extent as usize] = mean(&values[from..]);
                }
            }
            if count > 0 {
                let mut percentile =
                    |at: usize| *values.select_nth_unstable_by(at, f64::total_cmp).1;
                *band = [percentile(count / 20), percentile(count - 1 - count / 20)];
            }
        }
        member_scores
    }
}

/// The lower median of `values`, which must not be empty.
pub(super) fn lower_median(values: impl IntoIterator<Item = f64>) -> f64 {
    median(&mut values.into_iter().collect::<Vec<_>>(), f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vitamin E data of Rosner 1983, as in NIST's Engineering Statistics Handbook, 1.3.5.17.3: three outliers at 5 %,
    /// of which the first two are significant only together with the third.
    const ROSNER: [f64; 54] = [
        -0.25, 0.68, 0.94, 1.15, 1.20, 1.26, 1.26, 1.34, 1.38, 1.43, 1.49, 1.49, 1.55, 1.56, 1.58,
        1.65, 1.69, 1.70, 1.76, 1.77, 1.81, 1.91, 1.94, 1.96, 1.99, 2.06, 2.09, 2.10, 2.14, 2.15,
        2.23, 2.24, 2.26, 2.35, 2.37, 2.40, 2.47, 2.54, 2.62, 2.64, 2.90, 2.92, 2.92, 2.93, 3.21,
        3.26, 3.30, 3.59, 3.68, 4.30, 4.64, 5.34, 5.42, 6.01,
    ];

    #[test]
    fn outliers_that_hide_each_other_are_found_as_in_the_example_of_nist() {
        // The mirrored values have a negative skewness, which is not corrected. `alpha` is one-sided: half of NIST's
        // two-sided 5 %, then half of scipy's two-sided p-value 0.0430.
        let mirrored: Vec<(f64, usize)> =
            ROSNER.iter().rev().map(|value| -value).zip(0..).collect();
        assert_eq!(without_outliers(&mirrored, 0.025), &mirrored[3..]);
        assert_eq!(without_outliers(&mirrored, 0.0215), &mirrored[..]);
        assert!(
            above(&ROSNER, 0.025).is_empty(),
            "a skewed population has such values"
        );
    }

    #[test]
    fn a_value_just_above_the_threshold_is_an_outlier_and_one_just_below_is_not() {
        let values = [
            0.0, 0.011, -0.02, 0.03, 0.012, -0.013, 0.008, 0.022, -0.03, 0.01, 0.015, -0.006,
        ];
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let limit = threshold(&values, 1e-4);
        let found = |factor: f64| {
            let with: Vec<f64> = values
                .iter()
                .copied()
                .chain([mean + limit * factor])
                .collect();
            above(&with, 1e-4)
                .iter()
                .map(|outlier| outlier.index)
                .collect::<Vec<_>>()
        };
        assert_eq!((found(0.999), found(1.001)), (vec![], vec![12]));
        // A low outlier neither hides the high outlier nor is reported.
        let both: Vec<f64> = values
            .iter()
            .copied()
            .chain([mean + 1.5 * limit, mean - 3.0 * limit])
            .collect();
        assert_eq!(
            above(&both, 1e-4)
                .iter()
                .map(|outlier| outlier.index)
                .collect::<Vec<_>>(),
            [12]
        );
    }

    #[test]
    fn equal_values_have_no_outlier_and_do_not_divide_by_zero() {
        assert!(
            above(&[1.0; 20], 0.01).is_empty()
                && above(&[], 0.01).is_empty()
                && above(&[1.0, 9.0], 0.01).is_empty()
        );
        let found = above(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.26], 1e-4);
        assert_eq!(
            (found[0].index, found[0].peers, found[0].excess),
            (5, 5, 0.26)
        );
        // For two equal peers, a spread of 0.1 % is assumed instead of 0.
        assert!(above(&[0.0, 0.0, 0.26], 1e-4).is_empty());
    }

    #[test]
    fn the_difference_of_means_has_the_probability_of_scipy() {
        // scipy 1.17.1: ttest_ind(own, others, alternative='greater').
        let own = [0.42, 0.40, 0.39];
        let others = [0.01, -0.02, 0.03, 0.0, 0.02];
        assert!((difference_p(&own, &others) / 4.501545462039439e-08 - 1.0).abs() < 1e-9);
        assert_eq!(
            (difference_p(&[0.4], &[0.1]), difference_p(&[], &[0.1, 0.2])),
            (1.0, 1.0)
        );
        assert!(difference_p(&[0.4], &[0.1, 0.1, 0.1]) < 1e-4);
    }
}
