//! Jobs of a baseline whose results are in doubt: from one job's own numbers, or from its sweep.

use super::{Mix, Part, Point, point_of};
use crate::series::Series;
use crate::units::{count, number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A depth that does less than this part of a smaller one's rate was disturbed.
const FALLEN: f64 = 0.8;

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

/// The points of a device, each with the number of its step; with a doubt about depths that did less than a smaller one.
pub(super) fn measured(series: &Series, device: usize) -> Vec<(usize, Point)> {
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
