//! Steady state: detects whether the metrics of a run still change, and when they jumped.
//!
//! ```text
//! Interval ──Rounds──> series of each metric ──window──> steady or not, and since when
//!                                            ──change──> change points
//! ```
//!
//! A run is cut into rounds of equal length. In each round every judged stream has metrics, on all devices together and
//! on each device: the share over each threshold, the 99th percentile of service times, the achieved rate. A drive is
//! in its steady state if all metrics are stable over the last five rounds. A change point is a lasting shift in the
//! level of a metric.
//!
//! Steadiness never changes a verdict or a rating. A rating uses shares over windows with several slow spells
//! ([`Spells`]).
//!
//! Source: SNIA Solid State Storage Performance Test Specification 2.0.2, definition of steady state.
//!
//! A metric is steady over five rounds by SNIA's rule if its range is at most 20 % of the average, and the best
//! straight line through the five values moves by at most 10 % of the average. By this rule alone, a share near zero is
//! never steady (0.01 % and 0.03 % differ by a factor of three). So a range of at most 10 % of the limit is also
//! steady. For a share, the limit is that of the SLA; for the 99th percentile, the limit is the tightest threshold; a
//! rate has no limit.
//!
//! A typical change point is the slowdown of a flash drive hours into a test, when its spare blocks are used up; the
//! average of the run hides this slowdown. The series is segmented into pieces of constant level. The chosen
//! segmentation minimises the squared distance to the levels plus a penalty per piece (optimal partitioning, as in PELT
//! without its pruning). A running median first removes single rounds, so that a stall does not count as a level. A
//! shift that a steady window would allow is not a change.
//!
//! Source: Jackson et al. 2005, "An algorithm for optimal partitioning of data on an interval"; the penalty is that of
//! Killick, Fearnhead and Eckley 2012 for a change in mean, tripled because neighbouring rounds are correlated.

mod rounds;

pub use rounds::{Group, Round, RoundMetric, RoundSeries, Rounds, Spells};

use crate::format;
use crate::judge::{Limit, Sla};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Steady state of a run, by its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steadiness {
    /// Length of a round, seconds.
    pub round_sec: u64,
    /// Number of whole rounds.
    pub rounds: usize,
    /// The round, counted from 1, at whose end all metrics were first steady; `None`: never.
    pub reached_round: Option<usize>,
    /// The round, counted from 1, since which all metrics were steady until the end; `None`: not steady at the end.
    pub steady_since_round: Option<usize>,
    /// True if all metrics were steady over the last five rounds.
    pub steady_at_end: bool,
    /// Spread of each metric over the last five rounds; empty if there are fewer rounds.
    pub windows: Vec<MetricWindow>,
    /// Lasting shifts of metrics, oldest first.
    pub change_points: Vec<ChangePoint>,
}

/// True if all metrics were steady over the five rounds that end with round `end`, from 1; false with fewer rounds.
pub fn is_steady_at(rounds: &Rounds, end: usize) -> bool {
    end >= ROUNDS_IN_WINDOW
        && windows(&rounds.series, end, &rounds.sla).all(|window| window.is_steady())
}

impl Steadiness {
    pub fn from_rounds(rounds: &Rounds) -> Self {
        let sla = &rounds.sla;
        let count = rounds.count();
        let ends = || ROUNDS_IN_WINDOW..=count;
        let steady: Vec<usize> = ends().filter(|end| is_steady_at(rounds, *end)).collect();
        let reached_round = steady.first().copied();
        let steady_since_round = ends()
            .rev()
            .zip(steady.iter().rev())
            .take_while(|(end, steady)| end == *steady);
        let steady_since_round = steady_since_round.map(|(end, _)| end).last();
        Self {
            round_sec: rounds.round_sec,
            rounds: count,
            reached_round,
            steady_since_round,
            steady_at_end: steady_since_round.is_some(),
            windows: windows(&rounds.series, count, sla).collect(),
            change_points: change_points(&rounds.series, rounds.round_sec, sla),
        }
    }

    pub fn sentence(&self) -> String {
        let minutes = |rounds: usize| rounds as f64 * self.round_sec as f64 / 60.0;
        let rounds = self.rounds;
        let round_sec = self.round_sec;
        let moving = self.windows.iter().find(|window| !window.is_steady());
        let since_round = self.steady_since_round.unwrap_or(rounds);
        match (self.reached_round, moving) {
            _ if rounds < ROUNDS_IN_WINDOW => format!(
                "cannot tell if the run is steady: {} of {round_sec} s, but {ROUNDS_IN_WINDOW} are needed; run longer",
                format::count(rounds as u64, "whole round")
            ),
            (Some(reached), None) => format!(
                "steady from round {since_round} of {rounds} on ({:.1} min; rounds of {round_sec} s){}",
                minutes(since_round),
                if reached < since_round {
                    format!("; first steady at round {reached}, but it did not stay steady")
                } else {
                    String::new()
                }
            ),
            (Some(reached), Some(moving)) => format!(
                "steady at round {reached} ({:.1} min), but not at the end, after {rounds} rounds of {round_sec} s: \
                 {moving}",
                minutes(reached)
            ),
            (None, Some(moving)) => {
                format!("not steady within {rounds} rounds of {round_sec} s: {moving}")
            }
            (None, None) => format!(
                "not steady: in {rounds} rounds of {round_sec} s, the metrics were never all steady at the same time"
            ),
        }
    }
}

/// Rounds in a measurement window. Source: SNIA PTS 2.0.2.
pub const ROUNDS_IN_WINDOW: usize = 5;
/// Maximum range of a steady window, as a fraction of its average. Source: SNIA PTS 2.0.2.
const RANGE_MAX: f64 = 0.20;
/// Maximum move of the best straight line over a steady window, as a fraction of the average. Source: SNIA PTS 2.0.2.
const SLOPE_MAX: f64 = 0.10;
/// Maximum range of a steady window as a fraction of the metric's limit, whatever the average is.
const RANGE_OF_LIMIT_MAX: f64 = 0.10;

/// Why a window is steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Settled")]
pub enum SteadyRule {
    /// The window is steady by SNIA's rule.
    Snia,
    /// The range of the window is small relative to the limit.
    NearLimit,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundSpread {
    pub average: f64,
    /// Largest minus smallest.
    pub range: f64,
    /// Distance that the best straight line moves from the first round to the last.
    pub slope_excursion: f64,
}

impl RoundSpread {
    /// Spread of `values`, which must not be empty.
    pub fn from_values(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let average = values.iter().sum::<f64>() / count;
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(l, m), value| {
            (l.min(*value), m.max(*value))
        });
        Self {
            average,
            range: most - least,
            slope_excursion: slope(values).abs() * (count - 1.0),
        }
    }

    /// True if steady by SNIA's rule: a range of at most 20 % of the average, a slope excursion of at most 10 %.
    pub fn is_steady(&self) -> bool {
        self.range <= RANGE_MAX * self.average && self.slope_excursion <= SLOPE_MAX * self.average
    }
}

/// A metric of a group over five rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Window")]
pub struct MetricWindow {
    /// Stream and device.
    pub group: Group,
    /// The metric.
    #[serde(flatten)]
    pub metric: RoundMetric,
    /// Mean over the rounds, in the metric's unit.
    pub average: f64,
    /// Largest minus smallest value.
    pub range: f64,
    /// Distance that the best straight line moves from the first round to the last.
    pub slope_excursion: f64,
    /// Limit with which the range is also compared: a share, or nanoseconds; `None` for a rate.
    pub limit: Option<f64>,
    /// Why the window is steady; `None`: not steady.
    pub settled: Option<SteadyRule>,
}

impl MetricWindow {
    pub fn is_steady(&self) -> bool {
        self.settled.is_some()
    }

    fn new(group: &Group, metric: RoundMetric, values: &[f64], limit: Option<f64>) -> Self {
        let spread @ RoundSpread {
            average,
            range,
            slope_excursion,
        } = RoundSpread::from_values(values);
        let settled = match limit {
            _ if spread.is_steady() => Some(SteadyRule::Snia),
            Some(limit) if range <= RANGE_OF_LIMIT_MAX * limit => Some(SteadyRule::NearLimit),
            _ => None,
        };
        Self {
            group: group.clone(),
            metric,
            average,
            range,
            slope_excursion,
            limit,
            settled,
        }
    }

    /// `value` as a percentage of the average; infinite if the average is 0.
    fn percent_of_average(&self, value: f64) -> f64 {
        if self.average > 0.0 {
            value / self.average * 100.0
        } else {
            f64::INFINITY
        }
    }
}

impl fmt::Display for MetricWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            metric,
            range,
            limit,
            ..
        } = self;
        write!(
            f,
            "the {metric} of {group} ranges over {:.0} % of its average in the last {ROUNDS_IN_WINDOW} rounds (at most {:.0} % is \
             steady), and its best-fit line moves by {:.0} % (at most {:.0} %)",
            self.percent_of_average(*range),
            RANGE_MAX * 100.0,
            self.percent_of_average(self.slope_excursion),
            SLOPE_MAX * 100.0,
        )?;
        match limit {
            Some(limit) => write!(
                f,
                "; relative to its limit, the range is {:.0} % (at most {:.0} %)",
                range / limit * 100.0,
                RANGE_OF_LIMIT_MAX * 100.0
            ),
            None => Ok(()),
        }
    }
}

/// Slope per round of the best straight line (least squares).
fn slope(values: &[f64]) -> f64 {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let centred = values
        .iter()
        .enumerate()
        .map(|(x, y)| (x as f64 - middle, y));
    let (products, squares) = centred.fold((0.0, 0.0), |(xy, xx), (x, y)| (xy + x * y, xx + x * x));
    if squares > 0.0 {
        products / squares
    } else {
        0.0
    }
}

/// Each metric, with the limit with which its range is also compared.
fn metrics(sla: &Sla) -> impl Iterator<Item = (RoundMetric, Option<f64>)> {
    sla.limits()
        .iter()
        .map(|limit: &Limit| {
            (
                RoundMetric::ShareOver {
                    threshold_ns: limit.threshold_ns,
                },
                Some(limit.share_max()),
            )
        })
        .chain([
            (RoundMetric::P99, Some(sla.tightest_ns() as f64)),
            (RoundMetric::AchievedIops, None),
        ])
}

/// Every metric of every series over the five rounds before `end`; empty if there are fewer rounds. A metric that is
/// missing in one of these rounds (a percentile without its log) is left out.
fn windows(series: &[RoundSeries], end: usize, sla: &Sla) -> impl Iterator<Item = MetricWindow> {
    series
        .iter()
        .filter(move |_| end >= ROUNDS_IN_WINDOW)
        .flat_map(move |series| {
            metrics(sla).filter_map(move |(metric, limit)| {
                let values = series.rounds.get(end - ROUNDS_IN_WINDOW..end)?;
                let values: Option<Vec<f64>> = values
                    .iter()
                    .map(|round| metric.value_in(round, sla))
                    .collect();
                Some(MetricWindow::new(&series.group, metric, &values?, limit))
            })
        })
}

/// Minimum length of a piece, rounds: a shorter level is an episode, not a change.
const PIECE_MIN: usize = ROUNDS_IN_WINDOW;
/// Width of the running median, rounds: deviations of two rounds or less are removed.
const MEDIAN_OF: usize = 5;
/// Minimum shift relative to the smaller of the two levels. Equal to the maximum range of a steady window.
const MOVE_MIN: f64 = 0.20;
/// Minimum shift relative to the limit. Equal to the maximum range of a steady window.
const MOVE_OF_LIMIT_MIN: f64 = 0.10;
/// Maximum number of rounds for the segmentation, which takes quadratic time. Longer series are averaged down first.
const ROUNDS_MAX: usize = 2_000;

/// A lasting shift in the level of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePoint {
    /// Stream and device.
    pub group: Group,
    /// The metric.
    #[serde(flatten)]
    pub metric: RoundMetric,
    /// First round of the new level, counted from 1.
    pub round: usize,
    /// Seconds from the beginning of the run to that round.
    pub at_sec: u64,
    /// Median from the previous change to this change, in the metric's unit.
    pub before: f64,
    /// Median from this change to the next change, in the metric's unit.
    pub after: f64,
}

impl fmt::Display for ChangePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            metric,
            at_sec,
            before,
            after,
            ..
        } = self;
        let value_text = |value: f64| match metric {
            RoundMetric::ShareOver { .. } => format::percent(value),
            RoundMetric::P99 => format!("{:.3} ms", value / 1e6),
            RoundMetric::AchievedIops => format!("{value:.0} operations/s"),
        };
        write!(
            f,
            "the {metric} of {group} went from {} to {} after {at_sec} s",
            value_text(*before),
            value_text(*after)
        )
    }
}

/// All change points of all metrics, oldest first.
fn change_points(series: &[RoundSeries], round_sec: u64, sla: &Sla) -> Vec<ChangePoint> {
    let mut points = Vec::new();
    for series in series {
        for (metric, limit) in metrics(sla) {
            // A round without a value gets the value of the round before, so that it causes no change.
            let mut last = None;
            let values = series.values(metric, sla).into_iter().filter_map(|value| {
                last = value.or(last);
                last
            });
            let values: Vec<f64> = values.collect();
            let missing = series.rounds.len() - values.len();
            points.extend(
                level_shifts(&values, limit)
                    .into_iter()
                    .map(|(at, before, after)| ChangePoint {
                        group: series.group.clone(),
                        metric,
                        round: missing + at + 1,
                        at_sec: (missing + at) as u64 * round_sec,
                        before,
                        after,
                    }),
            );
        }
    }
    points.sort_by_key(|point| point.round);
    points
}

/// Level shifts in `values`: the first index of the new level, the levels before and after.
fn level_shifts(values: &[f64], limit: Option<f64>) -> Vec<(usize, f64, f64)> {
    let step = values.len().div_ceil(ROUNDS_MAX).max(1);
    let coarse: Vec<f64> = values
        .chunks(step)
        .map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64)
        .collect();
    let smooth = running_median(&coarse);
    let mut cuts = cut(&smooth, noise(&coarse));
    // Removing a cut joins two pieces to a new level, so all cuts are checked again.
    loop {
        let level = |from: usize, to: usize| median(&coarse[from..to]);
        let bounds: Vec<usize> = [0]
            .into_iter()
            .chain(cuts.iter().copied())
            .chain([coarse.len()])
            .collect();
        let shifts: Vec<_> = bounds
            .windows(3)
            .map(|b| (b[1], level(b[0], b[1]), level(b[1], b[2])))
            .collect();
        match shifts
            .iter()
            .position(|(_, before, after)| !is_significant(*before, *after, limit))
        {
            Some(idle) => drop(cuts.remove(idle)),
            None => {
                return shifts
                    .into_iter()
                    .map(|(at, before, after)| (at * step, before, after))
                    .collect();
            }
        }
    }
}

fn is_significant(before: f64, after: f64, limit: Option<f64>) -> bool {
    let moved = (after - before).abs();
    moved > MOVE_MIN * before.abs().min(after.abs())
        && limit.is_none_or(|limit| moved > MOVE_OF_LIMIT_MIN * limit)
}

/// The segmentation of least cost: the first index of every piece except the first piece.
fn cut(values: &[f64], noise: f64) -> Vec<usize> {
    let count = values.len();
    if count < 2 * PIECE_MIN {
        return Vec::new();
    }
    let sums = running_sums(values.iter().copied());
    let squares = running_sums(values.iter().map(|value| value * value));
    let piece_penalty = 3.0 * 2.0 * noise * noise * (count as f64).ln();
    // best[n]: the least cost of the first n values, and where their last piece begins.
    let mut best = vec![(f64::INFINITY, 0); count + 1];
    best[0] = (-piece_penalty, 0);
    for to in PIECE_MIN..=count {
        let starts = (0..=to - PIECE_MIN).map(|from| {
            let total = sums[to] - sums[from];
            // Squared distance of values[from..to] to their mean.
            let cost = (squares[to] - squares[from] - total * total / (to - from) as f64).max(0.0);
            (best[from].0 + cost + piece_penalty, from)
        });
        best[to] = starts
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap_or((f64::INFINITY, 0));
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

/// Sums of the first 0, 1, 2, ... values.
fn running_sums(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sums = vec![0.0];
    let mut sum = 0.0;
    for value in values {
        sum += value;
        sums.push(sum);
    }
    sums
}

/// Standard deviation of the noise between rounds. Computed from the median difference of neighbours, so that shifts in
/// level do not count. Never exactly zero, because a flat line with one step would then be cut anywhere.
fn noise(values: &[f64]) -> f64 {
    let differences: Vec<f64> = values
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).abs())
        .collect();
    // 0.6745 is the median absolute value of a standard normal variable; a difference has twice the variance.
    let deviation = median(&differences) / 0.6745 / std::f64::consts::SQRT_2;
    let scale = values.iter().map(|value| value.abs()).fold(0.0, f64::max);
    deviation.max(1e-6 * scale)
}

fn running_median(values: &[f64]) -> Vec<f64> {
    let around =
        |at: usize| at.saturating_sub(MEDIAN_OF / 2)..(at + MEDIAN_OF / 2 + 1).min(values.len());
    (0..values.len())
        .map(|at| median(&values[around(at)]))
        .collect()
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
mod tests;
