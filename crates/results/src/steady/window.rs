//! Five rounds, and the test of a metric's steadiness in them.
//!
//! Steady by SNIA's rule: the range is at most 20 % of the average, and the best straight line through
//! the five moves by at most 10 % of it. That rule alone never lets a share near zero settle (0.01 % and
//! 0.03 % are worlds apart by it), so a range of at most 10 % of the limit is steady, too: for a share
//! the limit of the SLA, for the 99th percentile the tightest threshold. A rate has no limit.

use super::rounds::{Group, Metric, Series};
use crate::judge::Sla;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Rounds in a measurement window. Source: SNIA PTS 2.0.2.
pub const ROUNDS_IN_WINDOW: usize = 5;
/// Largest range of a steady window, of its average. Source: SNIA PTS 2.0.2.
const RANGE_MAX: f64 = 0.20;
/// Largest move of the best straight line over a steady window, of its average. Source: SNIA PTS 2.0.2.
const SLOPE_MAX: f64 = 0.10;
/// Maximum range of a steady window relative to the limit, whatever its average.
const RANGE_OF_LIMIT_MAX: f64 = 0.10;

/// Why a window is steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Settled {
    /// By SNIA's rule.
    Snia,
    /// Because its range is small against the limit.
    NearLimit,
}

/// Spread of the values of some rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub average: f64,
    /// Largest minus smallest.
    pub range: f64,
    /// By how much the best straight line moves from the first round to the last.
    pub slope_excursion: f64,
}

impl Spread {
    /// Spread of `values`, which must not be empty.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let average = values.iter().sum::<f64>() / count;
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(l, m), value| (l.min(*value), m.max(*value)));
        Self { average, range: most - least, slope_excursion: slope(values).abs() * (count - 1.0) }
    }

    /// True if steady by SNIA's rule: a range of at most 20 % of the average, a slope excursion of at most 10 %.
    pub fn is_steady(&self) -> bool {
        self.range <= RANGE_MAX * self.average && self.slope_excursion <= SLOPE_MAX * self.average
    }
}

/// One metric of one group over five rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Whose.
    pub group: Group,
    /// Metric.
    #[serde(flatten)]
    pub metric: Metric,
    /// Mean of the rounds, in the metric's unit.
    pub average: f64,
    /// Largest minus smallest.
    pub range: f64,
    /// By how much the best straight line moves from the first round to the last.
    pub slope_excursion: f64,
    /// Second bound of the range: a share, or nanoseconds; `None` for a rate.
    pub limit: Option<f64>,
    /// Why it is steady; `None` where it is not.
    pub settled: Option<Settled>,
}

impl Window {
    /// True if the metric has settled.
    pub fn is_steady(&self) -> bool {
        self.settled.is_some()
    }

    fn of(group: &Group, metric: Metric, values: &[f64], limit: Option<f64>) -> Self {
        let spread @ Spread { average, range, slope_excursion } = Spread::of(values);
        let settled = match limit {
            _ if spread.is_steady() => Some(Settled::Snia),
            Some(limit) if range <= RANGE_OF_LIMIT_MAX * limit => Some(Settled::NearLimit),
            _ => None,
        };
        Self { group: group.clone(), metric, average, range, slope_excursion, limit, settled }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, metric, average, range, slope_excursion, limit, .. } = self;
        let of_average = |value: f64| if *average > 0.0 { value / average * 100.0 } else { f64::INFINITY };
        write!(
            f,
            "{metric} of {group} ranges over {:.0} % of its average in the last {ROUNDS_IN_WINDOW} rounds (at most {:.0} %) \
             and moves by {:.0} % (at most {:.0} %)",
            of_average(*range),
            RANGE_MAX * 100.0,
            of_average(*slope_excursion),
            SLOPE_MAX * 100.0,
        )?;
        match limit {
            Some(limit) => write!(
                f,
                "; against its limit the range is {:.0} % (at most {:.0} %)",
                range / limit * 100.0,
                RANGE_OF_LIMIT_MAX * 100.0
            ),
            None => Ok(()),
        }
    }
}

/// Slope of the best straight line (least squares) through values one round apart.
fn slope(values: &[f64]) -> f64 {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let centred = values.iter().enumerate().map(|(x, y)| (x as f64 - middle, y));
    let (products, squares) = centred.fold((0.0, 0.0), |(xy, xx), (x, y)| (xy + x * y, xx + x * x));
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// Each metric that is looked at, with the limit that its range may also be compared with.
pub(super) fn metrics(sla: &Sla) -> impl Iterator<Item = (Metric, Option<f64>)> {
    let shares = sla
        .limits()
        .iter()
        .map(|limit| (Metric::ShareOver { threshold_ns: limit.threshold_ns }, Some(limit.share_max())));
    shares.chain([(Metric::P99, Some(sla.tightest_ns() as f64)), (Metric::AchievedIops, None)])
}

/// Every metric of every series over the five rounds before `end`; none if there are fewer. A metric
/// that could not be measured in all of them (a percentile without its log) is left out.
pub(super) fn windows(series: &[Series], end: usize, sla: &Sla) -> impl Iterator<Item = Window> {
    series.iter().filter(move |_| end >= ROUNDS_IN_WINDOW).flat_map(move |series| {
        metrics(sla).filter_map(move |(metric, limit)| {
            let values = series.rounds.get(end - ROUNDS_IN_WINDOW..end)?;
            let values: Option<Vec<f64>> = values.iter().map(|round| metric.of(round, sla)).collect();
            Some(Window::of(&series.group, metric, &values?, limit))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(metric: Metric, values: [f64; 5], limit: Option<f64>) -> Window {
        Window::of(&Group { stream: "reads".into(), device: None }, metric, &values, limit)
    }

    #[test]
    fn range_and_line_are_judged_by_the_average() {
        let steady = window(Metric::AchievedIops, [95.0, 97.5, 100.0, 102.5, 105.0], None);
        assert_eq!((steady.average, steady.range, steady.settled), (100.0, 10.0, Some(Settled::Snia)));
        assert!((steady.slope_excursion - 10.0).abs() < 1e-9, "a straight line moves by its range");
        let steeper = window(Metric::AchievedIops, [94.0, 97.0, 100.0, 103.0, 106.0], None);
        assert!(!steeper.is_steady(), "a range of 12 % would do, a line that moves by 12 % does not");
        let wide = window(Metric::AchievedIops, [100.0, 111.0, 100.0, 89.0, 100.0], None);
        assert!(!wide.is_steady(), "a range of 22 %");
        let zigzag = window(Metric::AchievedIops, [91.0, 109.0, 100.0, 109.0, 91.0], None);
        assert!(zigzag.is_steady(), "18 % to and fro, without a direction");
    }

    #[test]
    fn a_share_near_zero_settles_against_its_limit() {
        let share = Metric::ShareOver { threshold_ns: 1_000_000 };
        let values = [0.0001, 0.0003, 0.0, 0.0002, 0.0001];
        assert_eq!(window(share, values, Some(0.05)).settled, Some(Settled::NearLimit));
        assert_eq!(window(share, values, Some(0.002)).settled, None);
        let idle = window(share, [0.0; 5], Some(0.05));
        assert_eq!(idle.settled, Some(Settled::Snia), "nothing moves in nothing");
    }

    #[test]
    fn what_moves_is_said_with_its_numbers() {
        let text = window(Metric::P99, [100.0, 100.0, 100.0, 100.0, 200.0], Some(500.0)).to_string();
        assert_eq!(
            text,
            "p99 of service times of reads on all devices ranges over 83 % of its average in the last 5 rounds (at most \
             20 %) and moves by 67 % (at most 10 %); against its limit the range is 20 % (at most 10 %)"
        );
    }
}
