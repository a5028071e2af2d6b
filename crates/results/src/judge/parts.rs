//! The workloads of a run, each judged alone: its own streams, in the same slices.
//!
//! A run of several workloads has one verdict, which is about the devices: it fails when any of them does.
//! Whose load it was that was not held is what the parts say.

use super::{IntervalCounts, Judge, Plan};
use std::ops::Range;

/// One workload of several.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) judge: Judge,
    /// Its cells among those of the run.
    cells: Range<usize>,
}

/// The parts of a run by `plan`; none where there is one workload.
pub(super) fn parts(plan: &Plan) -> Vec<Part> {
    if plan.workloads.len() < 2 {
        return Vec::new();
    }
    let part = |(number, name): (usize, &String)| {
        let is_own = |place: &usize| plan.streams[*place].workload == number;
        // Each workload adds its streams in one go.
        let first = (0..plan.streams.len()).find(is_own).unwrap_or(0);
        let count = (0..plan.streams.len()).filter(is_own).count();
        let streams = plan.streams[first..first + count].to_vec();
        let devices = plan.devices.len();
        let judge = Judge::new(Plan { streams, workloads: Vec::new(), ..plan.clone() });
        Part { name: name.clone(), judge, cells: first * devices..(first + count) * devices }
    };
    plan.workloads.iter().enumerate().map(part).collect()
}

impl Part {
    /// Judges its part of one more interval of the run.
    pub(super) fn add(&mut self, counts: &IntervalCounts) {
        let cells = counts.cells.get(self.cells.clone()).unwrap_or_default().to_vec();
        self.judge.add_counts(&IntervalCounts { cells, ..counts.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Interval, Layout, StreamInfo};
    use crate::judge::{End, Outcome, Sla};
    use crate::times::Times;

    #[test]
    fn the_workload_that_was_not_held_is_named_and_the_other_keeps_its_pass() {
        let reads = |workload, name: &str| StreamInfo {
            name: name.into(),
            judged: true,
            offered_iops: 5_000.0,
            workload,
            act: None,
        };
        let sla = Sla::default();
        let layout = Layout {
            streams: vec![reads(0, "a/reads"), reads(1, "b/reads")],
            devices: vec!["x".into(), "y".into()],
            thresholds_ns: sla.thresholds_ns(),
        };
        let plan = Plan { workloads: vec!["a".into(), "b".into()], ..Plan::new(&layout, sla, 1, 1, 1) };
        let mut judge = Judge::new(plan);
        let mut interval = Interval::new(&layout);
        interval.end_ns = 1_000_000_000;
        for op in 0..5_000 {
            // a on x only; b on both, one in ten of them slow on y.
            interval.cells[0].record(&Times::new(0, 0, 0, 90_000), 0, 512);
            interval.cells[2].record(&Times::new(0, 0, 0, 90_000), 0, 512);
            let service_ns = if op % 10 == 0 { 100_000_000 } else { 90_000 };
            interval.cells[3].record(&Times::new(0, 0, 0, service_ns), 0, 512);
        }
        interval.close();
        judge.add(&interval);
        let verdict = judge.verdict(&End::Completed);
        let told: Vec<_> = verdict.workloads.iter().map(|it| (it.name.as_str(), it.outcome)).collect();
        assert_eq!(told, [("a", Outcome::Pass), ("b", Outcome::Fail)]);
        assert_eq!(verdict.outcome, Outcome::Fail, "the devices did not hold all of it");
        assert!(verdict.workloads[1].reasons[0].contains("b/reads on y"), "{:?}", verdict.workloads);
        assert!(verdict.insufficient.is_empty(), "a was never on y: {:?}", verdict.insufficient);
        assert_eq!(verdict.groups.iter().filter(|group| group.stream == "a/reads").count(), 2, "all, and x");
    }
}
