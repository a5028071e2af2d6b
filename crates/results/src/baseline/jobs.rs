//! Jobs of a baseline in its series: their points, their outcomes, how many are left, and which are in doubt by their
//! own numbers or by their sweep.

use super::{Mix, Part, Point};
use crate::certify::Judged;
use crate::judge::{End, Outcome, Verdict};
use crate::series::{Series, State, Step};
use crate::steady::ROUNDS_IN_WINDOW;
use crate::units::{count, number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A depth that does less than this part of a smaller one's rate was disturbed.
const FALLEN: f64 = 0.8;

/// The term of a series with the minimum number of jobs per drive: parts with rounds count five rounds.
pub const JOBS: &str = "jobs for each drive, at least";

/// Jobs in doubt among those of a baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InDoubt {
    /// How many are.
    pub jobs: u64,
    /// Of how many that were measured.
    pub measured: u64,
    /// Each of them by its name and why, oldest first.
    pub doubts: Vec<String>,
    /// The numbers of their steps, from 0.
    pub steps: Vec<usize>,
}

impl InDoubt {
    /// The doubt about the step of this number, if there is one.
    pub fn of(&self, step: usize) -> Option<&str> {
        let at = self.steps.iter().position(|number| *number == step)?;
        self.doubts.get(at).map(String::as_str)
    }
}

/// `3 of 58 jobs in doubt`.
impl std::fmt::Display for InDoubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} in doubt", number(self.jobs as f64), count(self.measured, "job"))
    }
}

/// The jobs in doubt of `series`; `None`: there is none.
pub fn in_doubt(series: &Series) -> Option<InDoubt> {
    let mut all: Vec<_> = (0..series.devices.len()).flat_map(|device| measured(series, device)).collect();
    all.sort_by_key(|(step, _)| *step);
    let doubt = |(step, point): &(usize, Point)| {
        Some((*step, format!("{}: {}", series.steps[*step].name, point.doubt.as_ref()?)))
    };
    let (steps, doubts): (Vec<_>, Vec<_>) = all.iter().filter_map(doubt).unzip();
    (!doubts.is_empty()).then_some(InDoubt { jobs: doubts.len() as u64, measured: all.len() as u64, doubts, steps })
}

/// The points of a series, oldest first; steps that are not done have none.
pub fn points(series: &Series) -> Vec<Point> {
    series.steps.iter().filter_map(point_of).collect()
}

/// The points of one device, by its number, with doubts that follow from its other jobs.
pub fn points_of(series: &Series, device: usize) -> Vec<Point> {
    measured(series, device).into_iter().map(|(_, point)| point).collect()
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

/// The points of a device, each with the number of its step; with a doubt about depths that did less than a smaller one.
fn measured(series: &Series, device: usize) -> Vec<(usize, Point)> {
    let steps = series.steps.iter().enumerate().filter(|(_, step)| step.devices.contains(&device));
    let mut measured: Vec<_> = steps.filter_map(|(number, step)| Some((number, point_of(step)?))).collect();
    let told: Vec<_> = measured.iter().map(|(_, point)| fallen(point, &measured)).collect();
    for ((_, point), told) in measured.iter_mut().zip(told) {
        point.doubt = point.doubt.take().or(told);
    }
    measured
}

/// Describes a queue depth that did clearly less than a smaller one of its sweep.
fn fallen(point: &Point, among: &[(usize, Point)]) -> Option<String> {
    let sweep = among.iter().map(|(_, other)| other).filter(|_| point.part == Part::Depth);
    let smaller = sweep.filter(|other| other.part == Part::Depth && other.depth < point.depth);
    let of_mix = smaller.filter(|other| Mix::of(other) == Mix::of(point));
    let best = of_mix.map(Point::iops).reduce(f64::max)?;
    (point.iops() < FALLEN * best).then(|| {
        format!(
            "there were {} a second, and {} at a smaller depth: something was in the way",
            number(point.iops()),
            number(best)
        )
    })
}

/// Name of the job of device number `device` of the series. Names of its streams begin with it.
pub fn job_name(device: usize) -> String {
    format!("drive-{}", device + 1)
}

/// Judges the job `name` of device number `device` of the series, from the `verdict` on a run of several jobs. Only
/// failed operations of the job fail it; the reached rate is the result of a baseline. A run that ended early is no
/// measurement, whichever drive ended it.
pub fn judge_job(verdict: &Verdict, device: usize, name: &str) -> Judged {
    let prefix = format!("{}-", job_name(device));
    let own = verdict.streams.iter().filter(|stream| stream.name.starts_with(&prefix));
    let errors: u64 = own.map(|stream| stream.errors).sum();
    let (outcome, reason) = match &verdict.end {
        end if errors > 0 => (Outcome::Fail, format!("{} ({end})", count(errors, "I/O error"))),
        end @ End::DeviceGone { device } if device == name => (Outcome::Fail, end.to_string()),
        End::Completed | End::Enough { .. } => (Outcome::Pass, "ran to its end without an I/O error".to_owned()),
        end @ (End::DeviceGone { .. } | End::TooManyErrors { .. }) => {
            (Outcome::Invalid, format!("its run ended with that of another drive: {end}"))
        }
        end => (Outcome::Invalid, format!("{end} after {:.0} of {} s", verdict.ran_sec, verdict.duration_sec)),
    };
    Judged { outcome, reason, notes: Vec::new() }
}

/// True if a job of this device has failed: no further jobs run on it.
pub fn has_failed(series: &Series, device: usize) -> bool {
    let mut own = series.steps.iter().filter(|step| step.devices.contains(&device));
    own.any(|step| step.state == State::Done && step.outcome == Some(Outcome::Fail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::points_of;
    use crate::testing::baseline_series;
    use serde_json::json;

    #[test]
    fn jobs_in_doubt_are_counted_and_named() {
        let mut series = baseline_series(&[("a", 1.0), ("b", 1.0)], "run");
        assert_eq!(in_doubt(&series), None);
        let all = series.steps.len() as u64;
        series.steps[7].details["doubt"] = json!("late");
        series.steps[2].details["doubt"] = json!("busy");
        let told = in_doubt(&series).unwrap();
        assert_eq!(
            (told.jobs, told.measured, &told.doubts[..]),
            (2, all, &["job 3: busy".to_owned(), "job 8: late".into()][..])
        );
        assert_eq!((told.of(7), told.of(3)), (Some("job 8: late"), None));
        assert_eq!(told.to_string(), format!("2 of {all} jobs in doubt"));
    }

    #[test]
    fn a_depth_that_does_less_than_a_smaller_one_is_in_doubt() {
        let mut series = baseline_series(&[("a", 1.0)], "run");
        let is_sweep = |point: &Point| point.part == Part::Depth;
        let step = series.steps.iter().rposition(|step| point_of(step).is_some_and(|point| is_sweep(&point))).unwrap();
        series.steps[step].details["writes"]["iops"] = json!(21_000.0);
        assert_eq!(in_doubt(&series), None, "a fifth less is not told");
        series.steps[step].details["writes"]["iops"] = json!(1_000.0);
        let told = in_doubt(&series).unwrap();
        assert!(told.jobs == 1 && told.doubts[0].contains("1,000 a second, and 25,000 at a smaller depth"), "{told:?}");
        assert!(points_of(&series, 0).iter().rfind(|point| is_sweep(point)).unwrap().doubt.is_some());
    }
}
