//! Change points: lasting shifts in the level of a metric.
//!
//! Flash falls off a cliff hours into a test, when its spare blocks are used up; the average of the run hides it. The
//! series is cut into the pieces of constant level that explain it best: the cut that minimises the squared distance to
//! the levels plus a price for each piece (optimal partitioning, as in PELT without its pruning). A running median
//! first takes out single rounds, so that a stall is not taken for a level. A shift smaller than a steady window allows
//! is no change.
//!
//! Source: Jackson et al. 2005, "An algorithm for optimal partitioning of data on an interval"; the
//! price is that of Killick, Fearnhead and Eckley 2012 for a change in mean, three times as dear because
//! neighbouring rounds are alike.

use super::rounds::{Group, Metric, Series};
use super::window::{ROUNDS_IN_WINDOW, metrics};
use crate::judge::Sla;
use crate::units;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Least length of a piece: a level shorter than a measurement window is an episode.
const PIECE_MIN: usize = ROUNDS_IN_WINDOW;
/// Width of the running median, rounds: deviations of two rounds or less are removed.
const MEDIAN_OF: usize = 5;
/// Minimum shift relative to the level before: the range of a steady window.
const MOVE_MIN: f64 = 0.20;
/// Minimum shift relative to the limit: the range of a steady window.
const MOVE_OF_LIMIT_MIN: f64 = 0.10;
/// Longest series that is cut directly; a longer one is averaged down first. Cutting takes quadratic time.
const ROUNDS_MAX: usize = 2_000;

/// A metric's level moved for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePoint {
    /// Whose.
    pub group: Group,
    /// Metric.
    #[serde(flatten)]
    pub metric: Metric,
    /// First round of the new level, from 1.
    pub round: usize,
    /// Seconds from the beginning of the run to that round.
    pub at_sec: u64,
    /// Median before, back to the change before that, in the metric's unit.
    pub before: f64,
    /// Median after, up to the next change.
    pub after: f64,
}

impl fmt::Display for ChangePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, metric, at_sec, before, after, .. } = self;
        let shown = |value: f64| match metric {
            Metric::ShareOver { .. } => units::percent(value),
            Metric::P99 => format!("{:.3} ms", value / 1e6),
            Metric::AchievedIops => format!("{value:.0} operations/s"),
        };
        write!(f, "{metric} of {group} went from {} to {} after {at_sec} s", shown(*before), shown(*after))
    }
}

/// All change points of all metrics, oldest first.
pub(super) fn change_points(series: &[Series], round_sec: u64, sla: &Sla) -> Vec<ChangePoint> {
    let mut points = Vec::new();
    for series in series {
        for (metric, limit) in metrics(sla) {
            // A round that could not be measured counts as the one before it: it is no change.
            let mut last = None;
            let values = series.values(metric, sla);
            let values: Vec<f64> = values
                .into_iter()
                .filter_map(|value| {
                    last = value.or(last);
                    last
                })
                .collect();
            let missing = series.rounds.len() - values.len();
            points.extend(moves(&values, limit).into_iter().map(|(at, before, after)| ChangePoint {
                group: series.group.clone(),
                metric,
                round: missing + at + 1,
                at_sec: (missing + at) as u64 * round_sec,
                before,
                after,
            }));
        }
    }
    points.sort_by_key(|point| point.round);
    points
}

/// Level shifts in `values`: the first index of the new level, the levels before and after.
fn moves(values: &[f64], limit: Option<f64>) -> Vec<(usize, f64, f64)> {
    let step = values.len().div_ceil(ROUNDS_MAX).max(1);
    let coarse: Vec<f64> = values.chunks(step).map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64).collect();
    let smooth = running_median(&coarse);
    let matters = |before: f64, after: f64| {
        let moved = (after - before).abs();
        moved > MOVE_MIN * before.abs().min(after.abs()) && limit.is_none_or(|limit| moved > MOVE_OF_LIMIT_MIN * limit)
    };
    let mut cuts = cut(&smooth, noise(&coarse));
    // A removed cut joins its pieces to a new level, so all cuts are checked again.
    loop {
        let level = |from: usize, to: usize| median(&coarse[from..to]);
        let bounds: Vec<usize> = [0].into_iter().chain(cuts.iter().copied()).chain([coarse.len()]).collect();
        let moved: Vec<_> = bounds.windows(3).map(|b| (b[1], level(b[0], b[1]), level(b[1], b[2]))).collect();
        match moved.iter().position(|(_, before, after)| !matters(*before, *after)) {
            Some(idle) => drop(cuts.remove(idle)),
            None => return moved.into_iter().map(|(at, before, after)| (at * step, before, after)).collect(),
        }
    }
}

/// The first index of every piece but the first, of the cut that costs least.
fn cut(values: &[f64], noise: f64) -> Vec<usize> {
    let count = values.len();
    if count < 2 * PIECE_MIN {
        return Vec::new();
    }
    let sums = |of: fn(f64) -> f64| {
        let mut sum = 0.0;
        let running = values.iter().map(move |value| {
            sum += of(*value);
            sum
        });
        [0.0].into_iter().chain(running).collect::<Vec<f64>>()
    };
    let (sum, squares) = (sums(|value| value), sums(|value| value * value));
    // Squared distance of values[from..to] to their mean.
    let cost = |from: usize, to: usize| {
        let total = sum[to] - sum[from];
        (squares[to] - squares[from] - total * total / (to - from) as f64).max(0.0)
    };
    let price = 3.0 * 2.0 * noise * noise * (count as f64).ln();
    // best[n]: the least cost of the first n values, and where their last piece begins.
    let mut best = vec![(f64::INFINITY, 0); count + 1];
    best[0] = (-price, 0);
    for to in PIECE_MIN..=count {
        let starts = (0..=to - PIECE_MIN).map(|from| (best[from].0 + cost(from, to) + price, from));
        best[to] = starts.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0));
    }
    let mut cuts = Vec::new();
    let mut at = best[count].1;
    while at > 0 {
        cuts.push(at);
        at = best[at].1;
    }
    cuts.reverse();
    cuts
}

/// Standard deviation from round to round, not fooled by levels: from the median difference of
/// neighbours. Never quite zero, or a flat line with one step would be cut at will.
fn noise(values: &[f64]) -> f64 {
    let differences: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    // 0.6745 is the median of a standard normal's distance from 0; a difference has twice the variance.
    let deviation = median(&differences) / 0.6745 / std::f64::consts::SQRT_2;
    let scale = values.iter().map(|value| value.abs()).fold(0.0, f64::max);
    deviation.max(1e-6 * scale)
}

fn running_median(values: &[f64]) -> Vec<f64> {
    let around = |at: usize| at.saturating_sub(MEDIAN_OF / 2)..(at + MEDIAN_OF / 2 + 1).min(values.len());
    (0..values.len()).map(|at| median(&values[around(at)])).collect()
}

/// The median; 0 without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deterministic noise in [-1, 1] around `level`, times `spread`.
    fn level(level: f64, spread: f64, rounds: usize, seed: u64) -> impl Iterator<Item = f64> {
        let mut state = seed;
        (0..rounds).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            level + ((state >> 33) as f64 / (1u64 << 30) as f64 - 1.0) * spread
        })
    }

    #[test]
    fn a_cliff_six_hours_in_is_found_where_it_is() {
        let values: Vec<f64> = level(0.01, 0.004, 360, 1).chain(level(0.04, 0.008, 600, 2)).collect();
        let moved = moves(&values, Some(0.05));
        assert_eq!(moved.len(), 1, "{moved:?}");
        assert!(moved[0].0.abs_diff(360) <= 1, "{moved:?}");
        assert!((moved[0].1 - 0.01).abs() < 0.002 && (moved[0].2 - 0.04).abs() < 0.002, "{moved:?}");
    }

    #[test]
    fn noise_alone_and_a_stall_of_two_rounds_are_no_change() {
        for seed in 0..50 {
            let mut values: Vec<f64> = level(0.02, 0.01, 300, seed).collect();
            assert_eq!(moves(&values, Some(0.05)), [], "seed {seed}");
            (values[100], values[101]) = (0.9, 0.9);
            assert_eq!(moves(&values, Some(0.05)), [], "stall, seed {seed}");
        }
    }

    #[test]
    fn a_move_that_is_small_against_the_limit_or_the_level_does_not_matter() {
        let tiny: Vec<f64> = level(0.0001, 0.0, 50, 1).chain(level(0.0003, 0.0, 50, 1)).collect();
        assert_eq!(moves(&tiny, Some(0.05)), [], "three times, but 0.4 % of the limit");
        let slight: Vec<f64> = level(1000.0, 1.0, 50, 1).chain(level(1150.0, 1.0, 50, 1)).collect();
        assert_eq!(moves(&slight, None), [], "15 %");
        let twice: Vec<f64> =
            level(1000.0, 1.0, 50, 1).chain(level(500.0, 1.0, 50, 1)).chain(level(1000.0, 1.0, 50, 3)).collect();
        assert_eq!(moves(&twice, None).iter().map(|moved| moved.0).collect::<Vec<_>>(), [50, 100]);
    }

    #[test]
    fn few_or_no_rounds_have_no_change_points() {
        assert_eq!(moves(&[], None), []);
        assert_eq!(moves(&[1.0, 2.0, 3.0], None), []);
        assert_eq!(moves(&[0.0; 9], None), []);
    }
}
