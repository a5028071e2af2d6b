//! The run loop on simulated drives: known answers in virtual time.

mod answers;
mod bursts;
mod ends;
mod lateness;

use engine::sim::{QueueModel, SimEngine};
use engine::{BlockEngine, IoEngine, Wait};
use load::plan::{Arrival, BufferClass, Plan};
use load::rate::Rate;
use load::run::{EndCause, Message, Pacing, RunConfig, Settings, Shard};
use load::schedule::{Even, Schedule};
use load::stream::{Extent, IoRequest, SizeDistribution, Stream, Uniform};
use results::cell::{Interval, Layout};
use std::io;
use std::sync::Arc;
use sys::buffer::Buf;
use sys::op::{Completion, Op, OpKind, Outcome};
use sys::random::Random;

const SEC: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn settings(duration_s: u64) -> Settings {
    let duration_ns = duration_s * SEC;
    Settings {
        duration_ns,
        errors_max: u64::MAX,
        hang_ns: 10 * SEC,
        ..Settings::until_done(Pacing::Spin)
    }
}

fn layout(streams: usize, devices: usize) -> Layout {
    let streams = &[("stream-0", true), ("stream-1", true)][..streams];
    results::testing::layout(streams, 0.0, (0..devices).map(|n| format!("sim-{n}")))
}

fn reads(target: u16, seed: u64) -> Uniform {
    let request = IoRequest::new(OpKind::Read, target, target.into(), 0);
    let extent = Extent::new(request, 1 << 30, 512, SizeDistribution::Same(1536)).unwrap();
    Uniform {
        extent,
        random: Random::for_part(seed, target.into()),
    }
}

fn even(rate: u64, device: u64, devices: u64) -> Arrival {
    Arrival::Scheduled(Schedule::Even(
        Even::new(Rate::per_sec(rate), device, devices, 40_503).unwrap(),
    ))
}

/// A plan with a lane per device, all under the same limit.
fn plan<S: Stream + 'static>(lanes: Vec<(S, Arrival)>, slots: u32, configured: bool) -> Plan {
    let mut plan = Plan::default();
    let limit = plan.add_limit(slots, configured);
    plan.add_buffers(BufferClass::plain(4096, slots));
    lanes
        .into_iter()
        .for_each(|(stream, arrival)| plan.add_lane(stream, arrival, limit, "reads".into()));
    plan
}

struct Ran {
    intervals: Vec<Interval>,
    failures: usize,
    cause: Option<EndCause>,
}

impl Ran {
    fn total(&self) -> Interval {
        let mut total = self.intervals[0].clone();
        for interval in &self.intervals[1..] {
            total
                .cells
                .iter_mut()
                .zip(&interval.cells)
                .for_each(|(mine, theirs)| mine.merge(theirs));
        }
        total
    }
}

fn engine(drives: &[&str]) -> SimEngine {
    SimEngine::new(
        drives
            .iter()
            .enumerate()
            .map(|(n, spec)| QueueModel::new(&spec.parse().unwrap(), n as u64))
            .collect(),
    )
}

fn run(drives: &[&str], plan: Plan, settings: Settings, layout: &Layout) -> Ran {
    run_in(engine(drives), plan, settings, layout)
}

fn even_reads(drive: &str, rate: u64, (slots, configured): (u32, bool), settings: Settings) -> Ran {
    run(
        &[drive],
        plan(vec![(reads(0, 1), even(rate, 0, 1))], slots, configured),
        settings,
        &layout(1, 1),
    )
}

fn closed(depth: u32) -> Arrival {
    Arrival::Closed { depth, think_ns: 0 }
}

/// A run whose intervals and slices last one second.
fn what(settings: Settings, layout: &Layout) -> RunConfig {
    RunConfig {
        layout: layout.clone(),
        settings,
        interval_ns: SEC,
        slice_ns: SEC,
        step_ns: SEC,
        control: Arc::default(),
    }
}

fn run_in<W: BlockEngine>(engine: W, plan: Plan, settings: Settings, layout: &Layout) -> Ran {
    let what = what(settings, layout);
    let (shard, feed) = Shard::new(engine, plan, &what, false).unwrap();
    shard.run(0);
    let mut intervals = Vec::new();
    let mut failures = 0;
    for message in feed.messages.iter() {
        match message {
            Message::Interval(interval) => intervals.push(*interval),
            Message::Failure(_) => failures += 1,
        }
    }
    Ran {
        intervals,
        failures,
        cause: what.control.cause(),
    }
}

const FREEZE: &str = "sim:read-us=100+jitter-pct=0+read-mbps=0+stall-ms=1000+stall-at-s=5.0003";

#[derive(Clone, Debug)]
struct ReadThenWrite(Uniform);

impl Stream for ReadThenWrite {
    fn next(&mut self) -> Option<IoRequest> {
        self.0.next()
    }
    fn on_completion(&mut self, request: &IoRequest, _outcome: Outcome) -> Option<IoRequest> {
        (request.kind == OpKind::Read).then_some(IoRequest {
            kind: OpKind::Write,
            cell: 1,
            ..*request
        })
    }
}

/// An engine that calls `submitted` with the time of each operation. `reap` replaces the wait for completions: it
/// decides how long to wait, and which completions are seen.
struct Watched<S, R> {
    engine: SimEngine,
    submitted: S,
    reap: R,
}

impl<S, R> IoEngine for Watched<S, R>
where
    S: FnMut(u64, &Op),
    R: FnMut(&mut SimEngine, Wait, &mut Vec<Completion>),
{
    type Op = Op;
    type Completion = Completion;

    fn is_virtual(&self) -> bool {
        true
    }

    fn now(&mut self) -> u64 {
        self.engine.now()
    }

    fn submit(&mut self, op: Op) {
        (self.submitted)(self.engine.now(), &op);
        self.engine.submit(op);
    }

    fn reap(&mut self, wait: Wait, out: &mut Vec<Completion>) -> io::Result<()> {
        (self.reap)(&mut self.engine, wait, out);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.engine.buffer(len)
    }
}
