//! Steady state: marks where levels moved, over the percentiles.

use super::{Chart, Mark};
use results::steady::{ChangePoint, Metric, Steadiness};
use results::units;

/// Most marks on one chart: more than these are a drive that never settles, and the table has them all.
const MARKS_MAX: usize = 12;

/// Puts the change points of `stream` on its chart: all together first, where there are several devices.
pub(crate) fn mark(chart: &mut Chart, steadiness: &Steadiness, stream: &str) {
    let of_stream = steadiness.change_points.iter().filter(|change| change.group.stream == stream);
    let mut seen: Vec<u64> = Vec::new();
    for change in of_stream {
        // Several metrics move at once; one mark says so.
        if seen.contains(&change.at_sec) || seen.len() >= MARKS_MAX {
            continue;
        }
        seen.push(change.at_sec);
        chart.marks.push(Mark { x: change.at_sec as f64, name: format!("change: {}", change.metric) });
    }
    if !chart.marks.is_empty() {
        chart.caption += " Dotted vertical lines are change points: see the steady state.";
    }
}

pub(crate) fn change_sentence(change: &ChangePoint) -> String {
    let at = units::span(change.at_sec);
    let (before, after) = (value(change.metric, change.before), value(change.metric, change.after));
    format!("After {at}: {} of {} went from {before} to {after}", change.metric, change.group)
}

/// A value of a metric with its unit.
pub(crate) fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::ShareOver { .. } => units::percent(value),
        Metric::P99 => units::milliseconds(value / 1e6),
        Metric::AchievedIops => format!("{}/s", units::number(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::Axis;
    use results::steady::Group;

    #[test]
    fn metrics_that_move_at_once_make_one_mark() {
        let change = |metric, at_sec| ChangePoint {
            group: Group { stream: "reads".into(), device: None },
            metric,
            round: 3,
            at_sec,
            before: 0.02,
            after: 0.04,
        };
        let share = Metric::ShareOver { threshold_ns: 1_000_000 };
        let change_points = vec![change(share, 120), change(Metric::P99, 120), change(share, 300)];
        let steadiness = Steadiness {
            round_sec: 60,
            rounds: 9,
            reached_round: None,
            steady_since_round: None,
            steady_at_end: false,
            windows: Vec::new(),
            change_points,
        };
        let mut chart = Chart::over_time("a", "b", Axis::log("c", "ms"));
        mark(&mut chart, &steadiness, "reads");
        assert_eq!(chart.marks.iter().map(|mark| mark.x).collect::<Vec<_>>(), [120.0, 300.0]);
        let sentence = change_sentence(&change(share, 120));
        assert_eq!(sentence, "After 2 min: share over 1 ms of reads on all devices went from 2.00 % to 4.00 %");
    }
}
