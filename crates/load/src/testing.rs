//! For tests: builds plans, runs a plan on a drive model in virtual time and counts the operations,
//! reads cases from text files.

use crate::plan::{Arrival, Lane, Plan};
use crate::run::{Control, Pacing, RunConfig, Settings, Sink, SinkError, run};
use crate::workload::{BuildContext, CannotRun, DeviceShape, RunPlan, Workload};
use engine::sim::{DriveModel, SimCompletion, SimEngine};
use results::cell::{Interval, Layout};
use results::run_dir::WorkloadRecord;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use sys::op::Op;

const NS_PER_SEC: u64 = 1_000_000_000;

/// Seed 1, and at most `shards_max` issuing threads on a machine of two CPUs.
pub fn choices(shards_max: u32) -> BuildContext {
    BuildContext {
        seed: 1,
        shards_max,
        cpus: 2,
        in_flight_max: None,
    }
}

pub fn plan_on(devices: &[DeviceShape]) -> RunPlan {
    RunPlan::new(
        devices.iter().map(|device| device.name.clone()).collect(),
        [1_000_000].into(),
    )
}

pub fn planned(
    workload: &impl Workload,
    devices: &[DeviceShape],
    shards_max: u32,
) -> Result<(RunPlan, WorkloadRecord), CannotRun> {
    let mut plan = plan_on(devices);
    let record = workload.build(devices, &choices(shards_max), &mut plan)?;
    Ok((plan, record))
}

/// Lanes of all shards, each with the plan of its shard.
pub fn lanes(run: &RunPlan) -> impl Iterator<Item = (&Plan, &Lane)> {
    run.shards
        .iter()
        .flat_map(|plan| plan.lanes.iter().map(move |lane| (plan, lane)))
}

/// The scheduled arrivals of a lane that is not a closed loop, nanoseconds.
pub fn instants(lane: &Lane) -> impl Iterator<Item = u64> + use<> {
    let Arrival::Scheduled(mut schedule) = lane.arrival.clone() else {
        panic!("{} is closed", lane.name)
    };
    std::iter::from_fn(move || schedule.next_ns())
}

pub fn distinct<T: Ord>(values: impl IntoIterator<Item = T>) -> usize {
    values.into_iter().collect::<BTreeSet<_>>().len()
}

#[derive(Default)]
struct Counted(Vec<u64>);

impl Sink for Counted {
    fn interval(&mut self, interval: &Interval) -> Result<(), SinkError> {
        self.0.resize(interval.cells.len(), 0);
        self.0
            .iter_mut()
            .zip(&interval.cells)
            .for_each(|(count, cell)| *count += cell.counts.ops);
        Ok(())
    }
}

/// Runs `plan`, each shard on a new drive from `drive`. Returns the plan's layout and the operations by cell.
pub fn count<D>(
    plan: RunPlan,
    duration_sec: u64,
    drive: impl Fn() -> D + Sync,
) -> (Layout, Vec<u64>)
where
    D: DriveModel,
{
    let duration_ns = duration_sec * NS_PER_SEC;
    let settings = Settings {
        duration_ns,
        hang_ns: NS_PER_SEC,
        ..Settings::until_done(Pacing::Spin)
    };
    let interval_ns = NS_PER_SEC;
    let slice_ns = u64::MAX;
    let control = Arc::new(Control::default());
    let what = RunConfig {
        layout: plan.layout,
        settings,
        interval_ns,
        slice_ns,
        step_ns: slice_ns,
        control,
    };
    let mut counted = Counted::default();
    run(
        &what,
        plan.shards,
        |_, _: &Plan| Ok(SimEngine::new(vec![drive()])),
        &mut counted,
    )
    .unwrap();
    (what.layout, counted.0)
}

/// A drive that answers after a fixed time, and calls `see` with its requests.
struct WatchedDrive<F> {
    see: F,
    after_ns: u64,
    done: Vec<(u64, u32)>,
}

impl<F: FnMut(u64, &Op)> DriveModel for WatchedDrive<F> {
    fn submit(&mut self, op: &Op, now_ns: u64) {
        (self.see)(now_ns, op);
        self.done.push((now_ns, op.token));
    }

    fn next_event_ns(&self) -> u64 {
        self.done
            .first()
            .map_or(u64::MAX, |(at_ns, _)| *at_ns + self.after_ns)
    }

    fn advance(&mut self) -> Option<SimCompletion> {
        let (submitted_ns, token) = self.done.remove(0);
        Some(SimCompletion {
            token,
            submitted_ns,
            errno: 0,
        })
    }

    fn counters(&self) -> Vec<(results::telemetry::Column, u64)> {
        Vec::new()
    }
}

/// As [`count`], on a drive that answers after `after_ns`; also returns the results of `see` for its requests.
pub fn seen_by_a_drive<T: Send>(
    plan: RunPlan,
    duration_sec: u64,
    after_ns: u64,
    see: impl Fn(u64, &Op) -> T + Sync,
) -> (Layout, Vec<u64>, Vec<T>) {
    let seen = Mutex::new(Vec::new());
    let see = &see;
    let push = |now_ns: u64, op: &Op| seen.lock().unwrap().push(see(now_ns, op));
    let (layout, counted) = count(plan, duration_sec, || WatchedDrive {
        see: push,
        after_ns,
        done: Vec::new(),
    });
    (layout, counted, seen.into_inner().unwrap())
}

/// The cases of a text file: the input, and below it, indented, the expected text. A blank line separates cases.
pub fn cases(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.trim_end().split("\n\n").map(|case| {
        case.rsplit_once("\n    ")
            .expect("a case has an expected text")
    })
}
