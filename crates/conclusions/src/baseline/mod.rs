//! The measurements of a baseline (a [`Point`] for each fio job), and predictions from these points.
//!
//! A baseline is a [`Series`](crate::series::Series) whose steps are runs of fio jobs. The measurements of a job are in
//! the details of its step, so reports, comparisons and predictions need only `series.json`.
//!
//! Messages call an unreliable job "in doubt": its own numbers, or a higher rate at a smaller queue depth, show that
//! the host or another program disturbed the job.
//!
//! A [`Prediction`] is a rating computed from the points of a baseline, without a search.

mod metrics;
mod point;
mod pts;
mod watch;

pub use metrics::{
    DriveMetric, DriveOutlier, MetricKind, conclude, highest_rate, metrics, model, outliers,
};
pub use point::{
    AccessMix, DirectionResult, JobPurpose, LatencyStats, Percentile, Point, curves, highest, knee,
};
pub use pts::{PTS_ROUNDS_MAX, Pts, PtsTable, saturated_at};
pub use watch::{Estimate, PAUSES_MIN, Pause, RecurringStalls, Second, Watch};

use crate::certify::StageResult;
use crate::series::{Series, SeriesStepState, Step};
use results::format::{count, number};
use results::judge::{End, Outcome, Verdict};
use results::steady::ROUNDS_IN_WINDOW;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A job is unreliable if its rate is below this fraction of the rate at a smaller queue depth.
const FALLEN: f64 = 0.8;

/// Name of the series term with the minimum number of jobs per drive. For jobs that repeat in rounds, the minimum is
/// five rounds.
pub const JOBS: &str = "jobs for each drive, at least";

/// The jobs of a baseline that are in doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InDoubt {
    /// Number of jobs in doubt.
    pub jobs: u64,
    /// Number of measured jobs.
    pub measured: u64,
    /// Name and doubt of each job in doubt, oldest first.
    pub doubts: Vec<String>,
    /// Step numbers, from 0, of the jobs in doubt.
    pub steps: Vec<usize>,
}

impl InDoubt {
    pub fn reason(&self, step: usize) -> Option<&str> {
        let at = self.steps.iter().position(|number| *number == step)?;
        self.doubts.get(at).map(String::as_str)
    }
}

/// `3 of 58 jobs in doubt`.
impl std::fmt::Display for InDoubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} of {} in doubt",
            number(self.jobs as f64),
            count(self.measured, "job")
        )
    }
}

/// Returns the unreliable jobs; `None` if there are none.
pub fn in_doubt(series: &Series) -> Option<InDoubt> {
    let mut points: Vec<_> = (0..series.devices.len())
        .flat_map(|device| measured(series, device))
        .collect();
    points.sort_by_key(|(step, _)| *step);
    let (steps, doubts): (Vec<_>, Vec<_>) = points
        .iter()
        .filter_map(|(step, point): &(usize, Point)| {
            Some((
                *step,
                format!("{}: {}", series.steps[*step].name, point.doubt.as_ref()?),
            ))
        })
        .unzip();
    (!doubts.is_empty()).then_some(InDoubt {
        jobs: doubts.len() as u64,
        measured: points.len() as u64,
        doubts,
        steps,
    })
}

/// The points of the finished steps of a series, oldest first.
pub fn points(series: &Series) -> Vec<Point> {
    series.steps.iter().filter_map(point_of).collect()
}

/// The points of device number `device`. If another job of the device shows that a point is unreliable, `doubt` is set.
pub fn points_of(series: &Series, device: usize) -> Vec<Point> {
    measured(series, device)
        .into_iter()
        .map(|(_, point)| point)
        .collect()
}

/// The measurements of a baseline's step; `None` if the step is not done.
pub fn point_of(step: &Step) -> Option<Point> {
    step.details_as()
        .filter(|_| step.state == SeriesStepState::Done)
}

/// Minimum number of jobs still to run: a drive may need more than five rounds until it is steady. A failed drive has
/// no jobs left. `None` if the series does not record its number of jobs.
pub fn jobs_left(series: &Series) -> Option<u64> {
    let (_, jobs) = series.terms.iter().find(|(name, _)| name == JOBS)?;
    let healthy_devices: Vec<_> = (0..series.devices.len())
        .filter(|device| !has_failed(series, *device))
        .collect();
    let jobs_total = jobs
        .parse::<u64>()
        .ok()?
        .saturating_mul(healthy_devices.len() as u64);
    let counts = |point: &Point| (point.round as usize) < ROUNDS_IN_WINDOW;
    let points = healthy_devices
        .into_iter()
        .flat_map(|device| points_of(series, device));
    let done = points.filter(counts).count() as u64;
    let is_open = u64::from(series.conclusion.is_none());
    Some(jobs_total.saturating_sub(done).max(is_open) * is_open)
}

/// The points of device number `device`, with their step numbers. Sets `doubt` at each queue depth whose rate is
/// clearly below that of a smaller depth.
fn measured(series: &Series, device: usize) -> Vec<(usize, Point)> {
    let steps = series
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.devices.contains(&device));
    let mut measured: Vec<_> = steps
        .filter_map(|(number, step)| Some((number, point_of(step)?)))
        .collect();
    let doubts: Vec<_> = measured
        .iter()
        .map(|(_, point)| doubt_by_smaller_depth(point, &measured))
        .collect();
    for ((_, point), doubt) in measured.iter_mut().zip(doubts) {
        point.doubt = point.doubt.take().or(doubt);
    }
    measured
}

fn doubt_by_smaller_depth(point: &Point, points: &[(usize, Point)]) -> Option<String> {
    let sweep = points
        .iter()
        .map(|(_, other)| other)
        .filter(|_| point.part == JobPurpose::Depth);
    let smaller_depths =
        sweep.filter(|other| other.part == JobPurpose::Depth && other.depth < point.depth);
    let of_mix =
        smaller_depths.filter(|other| AccessMix::from_point(other) == AccessMix::from_point(point));
    let best_iops = of_mix.map(Point::iops).reduce(f64::max)?;
    (point.iops() < FALLEN * best_iops).then(|| {
        format!(
            "{} IOPS here, but {} at a smaller queue depth: something disturbed this job",
            number(point.iops()),
            number(best_iops)
        )
    })
}

/// Name of the fio job on device number `device`; the names of its streams begin with this name.
pub fn job_name(device: usize) -> String {
    format!("drive-{}", device + 1)
}

/// Judges the job called `name` on device number `device`, from the `verdict` on a run of several jobs. Only failed
/// operations fail a job; its rate is a result, not a criterion. A run that ended early measures nothing, whichever
/// drive ended it.
pub fn judge_job(verdict: &Verdict, device: usize, name: &str) -> StageResult {
    let prefix = format!("{}-", job_name(device));
    let drive_streams = verdict
        .streams
        .iter()
        .filter(|stream| stream.name.starts_with(&prefix));
    let errors: u64 = drive_streams.map(|stream| stream.errors).sum();
    let (outcome, reason) = match &verdict.end {
        end if errors > 0 && !end.excuses_errors() => (
            Outcome::Fail,
            format!("{} ({end})", count(errors, "I/O error")),
        ),
        end @ End::DeviceGone { device } if device == name => (Outcome::Fail, end.to_string()),
        End::Completed | End::Enough { .. } => (
            Outcome::Measured,
            "ran to its end without an I/O error".to_owned(),
        ),
        end @ (End::DeviceGone { .. } | End::TooManyErrors { .. }) => (
            Outcome::Invalid,
            format!("another drive ended the run: {end}"),
        ),
        end => (
            Outcome::Invalid,
            format!(
                "{end} after {:.0} of {} s",
                verdict.ran_sec, verdict.duration_sec
            ),
        ),
    };
    StageResult {
        outcome,
        reason,
        notes: Vec::new(),
        headline: None,
    }
}

/// True if a job on this device has failed; no further jobs run on such a device.
pub fn has_failed(series: &Series, device: usize) -> bool {
    let mut own = series
        .steps
        .iter()
        .filter(|step| step.devices.contains(&device));
    own.any(|step| step.state == SeriesStepState::Done && step.outcome == Some(Outcome::Fail))
}

/// A simulated drive fitted to the baseline of a real drive, and the rating of this simulated drive. In a series,
/// `conclusion.details.prediction` has a prediction for each drive.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// The drive that was measured.
    pub device: String,
    /// Why no rating is predicted. If present, there are no other numbers of the simulated drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<Declined>,
    /// Events that the baseline is too short to show (rare or late events), and the duration of a baseline that would
    /// show them.
    #[serde(default)]
    pub unknown: String,
    /// The simulated drive as a device argument: `sim:capacity=...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<String>,
    /// Parameters of the simulated drive, with their intervals.
    pub parameters: Vec<Parameter>,
    /// Number of points used for the fit.
    pub points: usize,
    /// Number of jobs in doubt, which were not used for the fit.
    #[serde(default)]
    pub in_doubt: u64,
    /// Median difference of the simulated rates and percentiles from the measured ones, percent.
    pub error_pct: f64,
    /// Differences between the simulated and the real drive, one sentence each, the worst first.
    pub misses: Vec<String>,
    /// The load of 1x: `ACT's`, or the name of a configuration.
    pub load: String,
    /// The limits for the rating.
    pub limits: String,
    /// Rating of the simulated drive, a multiple of 1x; `None`: declined, or the drive held no load that was tried.
    pub rating: Option<f64>,
    /// Rating of a simulated drive with all parameters at the slow ends of their intervals.
    pub rating_low: Option<f64>,
    /// Rating of a simulated drive with all parameters at the fast ends of their intervals.
    pub rating_high: Option<f64>,
    /// Further remarks, one sentence each.
    pub remarks: Vec<String>,
}

/// Why no rating is predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Declined {
    /// Code of the reason.
    pub cause: DeclinedBy,
    /// The observation with its numbers, and what to do.
    pub reason: String,
}

/// Reason why no rating is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Error)]
#[serde(rename_all = "kebab-case")]
pub enum DeclinedBy {
    /// The drive becomes slower or faster over time.
    #[error("drift")]
    Drift,
    /// Stalls decide the rating, but too little is known about them.
    #[error("stalls")]
    Stalls,
    /// The drive's garbage collection depends on the load.
    #[error("garbage collection")]
    GarbageCollection,
    /// The simulated drive differs too much from the real drive.
    #[error("the model")]
    Model,
}

/// A parameter of a simulated drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// Name, as in the specification of a simulated drive: `read-us`.
    pub name: String,
    /// Value that fits the points best.
    pub value: f64,
    /// Smallest value that fits nearly as well; `None`: no lower bound.
    pub low: Option<f64>,
    /// Largest value that fits nearly as well; `None`: no upper bound.
    pub high: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{baseline, baseline_series, point};
    use serde_json::json;

    #[test]
    fn the_knee_is_the_smallest_depth_that_reaches_nine_tenths_of_the_highest_rate() {
        let reads = |depth, iops| {
            point(
                JobPurpose::Depth,
                depth,
                Some((4_096.0, None, iops, 80.0)),
                None,
            )
        };
        let points = [
            reads(32, 90_000.0),
            reads(1, 9_000.0),
            reads(16, 85_499.0),
            reads(64, 100_000.0),
        ];
        // The knee needs 85,500 IOPS: nine tenths of 95,000, the median of the two highest rates.
        assert_eq!(knee(&points.iter().collect::<Vec<_>>()), Some(&points[0]));
        assert_eq!(knee(&[&reads(1, 0.0)]), None, "nothing was done");
        assert_eq!(knee(&[]), None);
    }

    #[test]
    fn the_highest_rate_is_the_median_of_the_rates_beyond_the_knee() {
        let of = |rates: &[f64]| {
            let depths = (0..).map(|power| 1 << power);
            let reads = depths.zip(rates).map(|(depth, iops)| {
                point(
                    JobPurpose::Depth,
                    depth,
                    Some((4_096.0, None, *iops, 80.0)),
                    None,
                )
            });
            let points: Vec<_> = reads.collect();
            let curve: Vec<_> = points.iter().collect();
            highest(&curve).map(|highest| (highest, knee(&curve).unwrap().depth))
        };
        assert_eq!(
            of(&[250.0, 500.0, 970.0, 1_050.0, 990.0, 1_010.0, 1_000.0]),
            Some((1_000.0, 4))
        );
        // The rate rises to the end, so the greatest depth is the only known estimate.
        assert_eq!(of(&[1.0, 2.0, 4.0, 8.0]), Some((8.0, 8)));
        // Lower rates at large depths do not lower the highest rate.
        assert_eq!(
            of(&[100.0, 200.0, 400.0, 400.0, 100.0, 100.0]),
            Some((400.0, 4))
        );
        assert_eq!(of(&[0.0]), None);
    }

    #[test]
    fn planned_jobs_that_are_not_done_count_as_left() {
        let mut series = baseline_series(&[("a", 1.0), ("b", 1.0)], "run");
        assert_eq!(jobs_left(&series), None, "no number is recorded");
        let all = baseline(1.0).len() as u64;
        series.terms.push((JOBS.to_owned(), all.to_string()));
        assert_eq!(jobs_left(&series), Some(0), "the series has ended");
        series.conclusion = None;
        // Six rounds of saturation are done; five were planned.
        assert_eq!(jobs_left(&series), Some(2));
        series.steps.truncate(series.steps.len() - 7);
        assert_eq!(jobs_left(&series), Some(9));
        series.steps[0].interrupt("killed");
        assert_eq!(jobs_left(&series), Some(10));
    }

    #[test]
    fn a_curve_is_sorted_by_depth_and_the_last_point_at_a_depth_counts() {
        let mut points = baseline(1.0);
        points.reverse();
        let again = point(JobPurpose::Depth, 8, Some((4_096.0, None, 1.0, 80.0)), None);
        points.push(again.clone());
        let curves = curves(&points, JobPurpose::Depth);
        let names: Vec<String> = curves.iter().map(|(mix, _)| mix.to_string()).collect();
        assert_eq!(
            names,
            ["random writes, 4 KiB", "random reads, 4 KiB"],
            "in the order of the runs"
        );
        let depths: Vec<u32> = curves[1].1.iter().map(|point| point.depth).collect();
        assert_eq!(depths, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(curves[1].1[3], &again);
    }

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
            (
                2,
                all,
                &["job 3: busy".to_owned(), "job 8: late".into()][..]
            )
        );
        assert_eq!(
            (told.reason(7), told.reason(3)),
            (Some("job 8: late"), None)
        );
        assert_eq!(told.to_string(), format!("2 of {all} jobs in doubt"));
    }

    #[test]
    fn a_depth_with_a_lower_rate_than_a_smaller_depth_is_in_doubt() {
        let mut series = baseline_series(&[("a", 1.0)], "run");
        let is_sweep = |point: &Point| point.part == JobPurpose::Depth;
        let step = series
            .steps
            .iter()
            .rposition(|step| point_of(step).is_some_and(|point| is_sweep(&point)))
            .unwrap();
        series.steps[step].details["writes"]["iops"] = json!(21_000.0);
        assert_eq!(in_doubt(&series), None, "16 % less is reliable");
        series.steps[step].details["writes"]["iops"] = json!(1_000.0);
        let told = in_doubt(&series).unwrap();
        assert!(
            told.jobs == 1
                && told.doubts[0].contains("1,000 IOPS here, but 25,000 at a smaller queue depth"),
            "{told:?}"
        );
        assert!(
            points_of(&series, 0)
                .iter()
                .rfind(|point| is_sweep(point))
                .unwrap()
                .doubt
                .is_some()
        );
    }
}
