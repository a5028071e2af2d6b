//! For tests: runs a plan on a drive model in virtual time, and counts the records.

use crate::plan::Plan;
use crate::run::{Control, Pacing, Run, Settings, Sink, SinkError, run};
use crate::workload::RunPlan;
use engine::sim::{DriveModel, SimEngine};
use results::cell::{Interval, Layout};
use std::sync::Arc;

const NS_PER_SEC: u64 = 1_000_000_000;

/// Operations by cell.
#[derive(Default)]
struct Counted(Vec<u64>);

impl Sink for Counted {
    fn interval(&mut self, interval: &Interval) -> Result<(), SinkError> {
        self.0.resize(interval.cells.len(), 0);
        self.0.iter_mut().zip(&interval.cells).for_each(|(count, cell)| *count += cell.counts.ops);
        Ok(())
    }
}

/// Runs `plan` for its time, each shard on a drive of `drive`; returns its layout, and the operations done, by cell.
pub(super) fn count<D>(plan: RunPlan, duration_sec: u64, drive: impl Fn() -> D + Sync) -> (Layout, Vec<u64>)
where
    D: DriveModel,
{
    let duration_ns = duration_sec * NS_PER_SEC;
    let settings = Settings { duration_ns, hang_ns: NS_PER_SEC, ..Settings::until_done(Pacing::Spin) };
    let (interval_ns, slice_ns, control) = (NS_PER_SEC, u64::MAX, Arc::new(Control::default()));
    let what = Run { layout: plan.layout, settings, interval_ns, slice_ns, control };
    let mut counted = Counted::default();
    run(&what, plan.shards, |_, _: &Plan| Ok(SimEngine::new(vec![drive()])), &mut counted).unwrap();
    (what.layout, counted.0)
}
