//! The measurements of a baseline on a drive, and predictions from them: a [`Point`] for each fio job that was run.
//!
//! A baseline is a [`Series`](crate::series::Series) whose steps are runs of fio's jobs. A job's measurements are in the details of its step,
//! so a report, a comparison and a prediction are made from `series.json` alone, on any machine, years later.

mod conclude;
mod curves;
mod jobs;
mod metrics;
mod point;
mod prediction;
mod pts;
mod watch;

pub use conclude::conclude;
pub use curves::{Mix, curves, highest, knee};
pub use jobs::{InDoubt, JOBS, has_failed, in_doubt, job_name, jobs_left, judge_job, point_of, points, points_of};
pub use metrics::{Metric, Outlier, What, highest_rate, metrics, model, outliers};
pub use point::{Done, Latency, Part, Percentile, Point};
pub use prediction::{Declined, DeclinedBy, Parameter, Prediction};
pub use pts::{PTS_ROUNDS_MAX, Pts, PtsTable, saturated_at};
pub use watch::{Estimate, PAUSES_MIN, Pause, Second, Stalls, Watch};

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
