//! The measurements of a baseline on a drive, and predictions from them: a [`Point`] for each fio job that was run.
//!
//! A baseline is a [`Series`] whose steps are runs of fio's jobs. A job's measurements are in the details of its step,
//! so a report, a comparison and a prediction are made from `series.json` alone, on any machine, years later.

mod conclude;
mod doubts;
mod judge;
mod metrics;
mod mix;
mod point;
mod prediction;
mod pts;
mod watch;

pub use conclude::conclude;
pub use doubts::{InDoubt, in_doubt};
pub use judge::{has_failed, job_name, judge_job};
pub use metrics::{Metric, Outlier, What, highest_rate, metrics, model, outliers};
pub use mix::{Mix, curves};
pub use point::{Done, Latency, Part, Percentile, Point};
pub use prediction::{Declined, DeclinedBy, Parameter, Prediction};
pub use pts::{PTS_ROUNDS_MAX, Pts, PtsTable};
pub use watch::{Estimate, PAUSES_MIN, Pause, Second, Stalls, Watch};

use crate::series::{Series, State, Step};
use crate::steady::ROUNDS_IN_WINDOW;

/// The term of a series with the minimum number of jobs per drive: parts with rounds count five rounds.
pub const JOBS: &str = "jobs for each drive, at least";

/// The points of a series, oldest first; steps that are not done have none.
pub fn points(series: &Series) -> Vec<Point> {
    series.steps.iter().filter_map(point_of).collect()
}

/// The points of one device, by its number, with doubts that follow from its other jobs.
pub fn points_of(series: &Series, device: usize) -> Vec<Point> {
    doubts::measured(series, device).into_iter().map(|(_, point)| point).collect()
}

/// The point measured by a step; `None` if the step is not done.
pub fn point_of(step: &Step) -> Option<Point> {
    (step.state == State::Done).then(|| serde_json::from_value(step.details.clone()).ok()).flatten()
}

/// Lower bound of the jobs left: rounds go on until the drive is steady, and a drive that failed has none. `None` if
/// the series does not record its number of jobs.
pub fn jobs_left(series: &Series) -> Option<u64> {
    let (_, jobs) = series.terms.iter().find(|(name, _)| name == JOBS)?;
    let going: Vec<_> = (0..series.devices.len()).filter(|device| !has_failed(series, *device)).collect();
    let all = jobs.parse::<u64>().ok()?.saturating_mul(going.len() as u64);
    let counts = |point: &Point| (point.round as usize) < ROUNDS_IN_WINDOW;
    let points = going.into_iter().flat_map(|device| points_of(series, device));
    let done = points.filter(counts).count() as u64;
    let is_open = u64::from(series.conclusion.is_none());
    Some(all.saturating_sub(done).max(is_open) * is_open)
}

/// Part of the highest rate at which more depth brings little: the knee.
const KNEE: f64 = 0.9;

/// Highest sustained rate by a depth sweep: the median of the points with at least 90 % of the best rate, which are
/// those from the knee on. The best point alone is biased upwards: 95 % of it can be more than the drive sustains.
pub fn highest(curve: &[&Point]) -> Option<f64> {
    let best = curve.iter().map(|point| point.iops()).reduce(f64::max).filter(|best| *best > 0.0)?;
    Some(median(curve.iter().map(|point| point.iops()).filter(|iops| *iops >= KNEE * best).collect()))
}

/// The knee of a curve of depths: the least depth that does nine tenths of the highest rate. Beyond it operations wait longer and
/// few more are done.
pub fn knee<'a>(curve: &[&'a Point]) -> Option<&'a Point> {
    let highest = highest(curve)?;
    curve.iter().copied().filter(|point| point.iops() >= KNEE * highest).min_by_key(|point| point.depth)
}

/// Median of at least one value.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (middle, even) = (values.len() / 2, values.len().is_multiple_of(2));
    if even { f64::midpoint(values[middle - 1], values[middle]) } else { values[middle] }
}

/// The round of the saturation, from 1, at whose end its rate was first steady over five rounds, by SNIA's rule.
pub fn saturated_at(points: &[Point]) -> Option<usize> {
    let rounds = points.iter().filter(|point| point.part == Part::Saturation);
    pts::steady_at(&[rounds.map(Point::iops).collect()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{baseline, baseline_series, point};

    #[test]
    fn the_knee_is_the_least_depth_that_does_nine_tenths() {
        let reads = |depth, iops| point(Part::Depth, depth, Some((4_096.0, None, iops, 80.0)), None);
        let points = [reads(32, 90_000.0), reads(1, 9_000.0), reads(16, 85_499.0), reads(64, 100_000.0)];
        // Of 95,000, which is between the two that are near the best.
        assert_eq!(knee(&points.iter().collect::<Vec<_>>()), Some(&points[0]));
        assert_eq!(knee(&[&reads(1, 0.0)]), None, "nothing was done");
        assert_eq!(knee(&[]), None);
    }

    #[test]
    fn the_highest_rate_is_not_the_luckiest_of_those_beyond_the_knee() {
        let of = |rates: &[f64]| {
            let depths = (0..).map(|power| 1 << power);
            let reads = depths
                .zip(rates)
                .map(|(depth, iops)| point(Part::Depth, depth, Some((4_096.0, None, *iops, 80.0)), None));
            let points: Vec<_> = reads.collect();
            let curve: Vec<_> = points.iter().collect();
            highest(&curve).map(|highest| (highest, knee(&curve).unwrap().depth))
        };
        assert_eq!(of(&[250.0, 500.0, 970.0, 1_050.0, 990.0, 1_010.0, 1_000.0]), Some((1_000.0, 4)));
        // The rate rises to the end, so the greatest depth is the only known estimate.
        assert_eq!(of(&[1.0, 2.0, 4.0, 8.0]), Some((8.0, 8)));
        // Less at great depths is not what it can do.
        assert_eq!(of(&[100.0, 200.0, 400.0, 400.0, 100.0, 100.0]), Some((400.0, 4)));
        assert_eq!(of(&[0.0]), None);
    }

    #[test]
    fn jobs_to_come_are_those_of_the_plan_that_are_not_done() {
        let mut series = baseline_series(&[("a", 1.0), ("b", 1.0)], "run");
        assert_eq!(jobs_left(&series), None, "it does not say");
        let all = baseline(1.0).len() as u64;
        series.terms.push((JOBS.to_owned(), all.to_string()));
        assert_eq!(jobs_left(&series), Some(0), "it is at its end");
        series.conclusion = None;
        // Six rounds of a saturation are done; five of them were certain.
        assert_eq!(jobs_left(&series), Some(2));
        series.steps.truncate(series.steps.len() - 7);
        assert_eq!(jobs_left(&series), Some(9));
        series.steps[0].interrupt("killed");
        assert_eq!(jobs_left(&series), Some(10));
    }

    #[test]
    fn points_of_one_mix_are_a_curve_by_depth_and_the_last_counts() {
        let mut points = baseline(1.0);
        points.reverse();
        let again = point(Part::Depth, 8, Some((4_096.0, None, 1.0, 80.0)), None);
        points.push(again.clone());
        let curves = curves(&points, Part::Depth);
        let names: Vec<String> = curves.iter().map(|(mix, _)| mix.to_string()).collect();
        assert_eq!(names, ["random writes, 4 KiB", "random reads, 4 KiB"], "as they were run");
        let depths: Vec<u32> = curves[1].1.iter().map(|point| point.depth).collect();
        assert_eq!(depths, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(curves[1].1[3], &again);
    }
}
