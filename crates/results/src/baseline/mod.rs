//! What a baseline measured of a drive, and what follows from it: a [`Point`] for each of fio's jobs that was run.
//!
//! A baseline is a [`Series`] whose steps are runs of fio's jobs. What a job showed stands in its step's details, so a
//! report, a comparison and a prediction are made from `series.json` alone, on any machine, years later.

mod conclude;
mod judge;
mod metrics;
mod mix;
mod point;
mod prediction;
mod pts;

pub use conclude::conclude;
pub use judge::judge_job;
pub use metrics::{Metric, Outlier, What, highest_rate, metrics, model, outliers};
pub use mix::{Mix, curves};
pub use point::{Done, Latency, Part, Point};
pub use prediction::{Parameter, Prediction};
pub use pts::{PTS_ROUNDS_MAX, Pts, PtsTable};

use crate::series::{Series, State, Step};
use crate::steady::ROUNDS_IN_WINDOW;

/// The term of a series that says how many jobs it has for each drive at least: those of parts with rounds in five rounds.
pub const JOBS: &str = "jobs for each drive, at least";

/// The points of a series, oldest first; of steps that are not done there are none.
pub fn points(series: &Series) -> Vec<Point> {
    series.steps.iter().filter_map(point_of).collect()
}

/// Those of one of its devices, by its number.
pub fn points_of(series: &Series, device: usize) -> Vec<Point> {
    series.steps.iter().filter(|step| step.devices.contains(&device)).filter_map(point_of).collect()
}

/// What a step showed; `None` of one that is not done.
pub fn point_of(step: &Step) -> Option<Point> {
    (step.state == State::Done).then(|| serde_json::from_value(step.details.clone()).ok()).flatten()
}

/// How many jobs are still to be run, at least: rounds go on until the drive is steady. `None` of a series that does not say.
pub fn jobs_left(series: &Series) -> Option<u64> {
    let (_, jobs) = series.terms.iter().find(|(name, _)| name == JOBS)?;
    let all = jobs.parse::<u64>().ok()?.saturating_mul(series.devices.len() as u64);
    let counts = |point: &Point| (point.round as usize) < ROUNDS_IN_WINDOW;
    let done = points(series).iter().filter(|point| counts(point)).count() as u64;
    let is_open = u64::from(series.conclusion.is_none());
    Some(all.saturating_sub(done).max(is_open) * is_open)
}

/// Part of the highest rate from which more in flight is said to bring little more.
const KNEE: f64 = 0.9;

/// The knee of a curve of depths: the least depth that does nine tenths of the most that any depth does. Beyond it
/// operations wait longer and few more are done.
pub fn knee<'a>(curve: &[&'a Point]) -> Option<&'a Point> {
    let highest = curve.iter().map(|point| point.iops()).reduce(f64::max).filter(|highest| *highest > 0.0)?;
    curve.iter().copied().filter(|point| point.iops() >= KNEE * highest).min_by_key(|point| point.depth)
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
        let points = [reads(32, 90_000.0), reads(1, 9_000.0), reads(16, 89_999.0), reads(64, 100_000.0)];
        assert_eq!(knee(&points.iter().collect::<Vec<_>>()), Some(&points[0]));
        assert_eq!(knee(&[&reads(1, 0.0)]), None, "nothing was done");
        assert_eq!(knee(&[]), None);
    }

    #[test]
    fn jobs_to_come_are_those_of_the_plan_that_are_not_done() {
        let mut series = baseline_series(&[("a", 1.0), ("b", 1.0)], "run");
        assert_eq!(jobs_left(&series), None, "it does not say");
        let all = baseline(1.0).len() as u64;
        series.terms.push((JOBS.to_owned(), all.to_string()));
        assert_eq!(jobs_left(&series), Some(0), "it is at its end");
        series.conclusion = None;
        // Six rounds of a saturation are done, of which five were sure to come.
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
