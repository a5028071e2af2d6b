//! The run loop on simulated drives: known answers in virtual time.

use engine::sim::{Done, DriveModel, QueueModel, SimEngine};
use engine::{BlockEngine, IoEngine, Wait};
use load::plan::{Arrival, BufferClass, Plan};
use load::rate::Rate;
use load::run::{Cause, Control, Message, Pacing, Recorder, Settings, Shard, Whose};
use load::schedule::{Even, Poisson, Schedule};
use load::stream::{Extent, Request, Stream, Uniform, Updates};
use results::buckets::ActScale;
use results::cell::{ActHistograms, Interval, Layout, StreamInfo};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use sys::buffer::Buf;
use sys::op::{Completion, Op, OpKind, Outcome};
use sys::random::Random;

const SEC: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn settings(duration_s: u64) -> Settings {
    let duration_ns = duration_s * SEC;
    Settings { duration_ns, errors_max: u64::MAX, hang_ns: 10 * SEC, ..Settings::until_done(Pacing::Spin) }
}

fn layout(streams: usize, devices: usize) -> Layout {
    let stream = |n| StreamInfo {
        name: format!("stream-{n}"),
        judged: true,
        act: Some(ActHistograms { scale: ActScale::Milliseconds, per_device: true }),
        ..StreamInfo::default()
    };
    Layout {
        streams: (0..streams).map(stream).collect(),
        devices: (0..devices).map(|n| format!("sim-{n}")).collect(),
        thresholds_ns: [MS, 8 * MS, 64 * MS].into(),
    }
}

fn reads(target: u16, seed: u64) -> Uniform {
    let extent = Extent::records(target, target.into(), 1 << 30, 512, 1536, 1536).unwrap();
    Uniform { extent, kind: OpKind::Read, buffers: 0, random: Random::for_part(seed, target.into()) }
}

fn even(rate: u64, device: u64, devices: u64) -> Arrival {
    Arrival::Scheduled(Schedule::Even(Even::new(Rate::per_sec(rate), device, devices, 40_503).unwrap()))
}

/// One lane per device, all under one limit.
fn plan<S: Stream + 'static>(lanes: Vec<(S, Arrival)>, slots: u32, configured: bool) -> Plan {
    let mut plan = Plan::default();
    let limit = plan.add_limit(slots, configured);
    plan.add_buffers(BufferClass::plain(4096, slots));
    lanes.into_iter().for_each(|(stream, arrival)| plan.add_lane(stream, arrival, limit, "reads".into()));
    plan
}

struct Ran {
    intervals: Vec<Interval>,
    failures: usize,
    cause: Option<Cause>,
}

impl Ran {
    fn total(&self) -> Interval {
        let mut total = self.intervals[0].clone();
        for interval in &self.intervals[1..] {
            total.cells.iter_mut().zip(&interval.cells).for_each(|(mine, theirs)| mine.merge(theirs));
        }
        total
    }
}

fn engine(drives: &[&str]) -> SimEngine {
    SimEngine::new(
        drives.iter().enumerate().map(|(n, spec)| QueueModel::new(&spec.parse().unwrap(), n as u64)).collect(),
    )
}

fn run(drives: &[&str], plan: Plan, settings: Settings, layout: &Layout) -> Ran {
    run_in(engine(drives), plan, settings, layout)
}

/// Reads at an even rate on one drive, under a limit of `slots` that was configured or not.
fn even_reads(drive: &str, rate: u64, (slots, configured): (u32, bool), settings: Settings) -> Ran {
    run(&[drive], plan(vec![(reads(0, 1), even(rate, 0, 1))], slots, configured), settings, &layout(1, 1))
}

fn closed(depth: u32) -> Arrival {
    Arrival::Closed { depth, think_ns: 0 }
}

fn run_in<W: BlockEngine>(engine: W, plan: Plan, settings: Settings, layout: &Layout) -> Ran {
    let control = Arc::new(Control::default());
    let (recorder, feed) = Recorder::new(layout, SEC, SEC, settings.duration_ns, false);
    Shard::new(engine, plan, settings, recorder, control.clone()).unwrap().run(0);
    let (mut intervals, mut failures) = (Vec::new(), 0);
    for message in feed.messages.iter() {
        match message {
            Message::Interval(interval) => intervals.push(*interval),
            Message::Failure(_) => failures += 1,
        }
    }
    Ran { intervals, failures, cause: control.cause() }
}

const FREEZE: &str = "sim:read-us=100+jitter-pct=0+read-mbps=0+stall-ms=1000+stall-at-s=5.0003";

#[test]
fn a_freeze_of_one_second_makes_a_thousand_slow_operations_of_a_thousand_a_second() {
    let ran = even_reads(FREEZE, 1000, (4096, false), settings(10));
    let total = ran.total();
    let cell = &total.cells[0];
    assert_eq!(cell.counts.ops, 10_000);
    let over_1ms = cell.counts.judged_over[0];
    // The backlog takes the 32 channels another 3 ms, in which a few more come late.
    assert!((998..=1004).contains(&over_1ms), "{over_1ms} operations over 1 ms");
    // The operations were frozen evenly over the second: 64 ms and less for the last 64 of them.
    assert!((935..=941).contains(&cell.counts.judged_over[2]), "{:?}", cell.counts.judged_over);
}

#[test]
fn a_closed_loop_would_have_reported_one_slow_operation() {
    let lanes = vec![(reads(0, 1), Arrival::Closed { depth: 1, think_ns: MS })];
    let ran = run(&[FREEZE], plan(lanes, 1, true), settings(10), &layout(1, 1));
    assert_eq!(ran.total().cells[0].counts.judged_over[0], 1, "the freeze hides its own victims");
}

#[test]
fn waiting_for_a_slot_is_the_devices_doing_and_is_judged() {
    // One slot: the freeze holds one operation in service, and the rest wait.
    let drive = "sim:read-us=10+jitter-pct=0+read-mbps=0+stall-ms=1000+stall-at-s=5.000005";
    let ran = even_reads(drive, 1000, (1, false), settings(10));
    let cell = &ran.total().cells[0];
    assert_eq!(cell.counts.ops, 10_000);
    assert!(cell.counts.judged_over[0] >= 998, "{:?}", cell.counts.judged_over);
    let waited = cell.wait.count_between(MS, u64::MAX);
    // The one slot needs 10 ms for the backlog.
    assert!((990..=1011).contains(&waited), "{waited} waited over 1 ms");
    assert_eq!(cell.lag.max(), 0, "nothing is ever late in virtual time");
}

#[test]
fn counts_are_exact_for_seven_a_second_over_three_devices() {
    let lanes = (0..3).map(|d| (reads(d, 1), even(7, d.into(), 3))).collect();
    let ran = run(&["sim:", "sim:", "sim:"], plan(lanes, 64, false), settings(3600), &layout(1, 3));
    assert_eq!(ran.total().cells.iter().map(|cell| cell.counts.ops).collect::<Vec<_>>(), [8400; 3]);
    assert_eq!(ran.intervals.len(), 3600);
    assert!(ran.intervals.iter().enumerate().all(|(n, interval)| interval.index == n as u64));
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_last_bucket() {
    let drives = ["sim:seed=3+error-rate=0.001", "sim:seed=4"];
    let once = |seed| {
        let poisson = |d: u64| {
            let random = Random::for_part(seed, 100 + d);
            Arrival::Scheduled(Schedule::Poisson(Poisson::new(Rate::per_sec(5_000), random).unwrap()))
        };
        let lanes = (0..2).map(|d| (reads(d, seed), poisson(d.into()))).collect();
        let ran = run(&drives, plan(lanes, 64, false), settings(20), &layout(1, 2));
        assert!(ran.failures > 0);
        ran.total()
            .cells
            .iter()
            .map(|c| (c.counts.ops, c.counts.errors, c.service.clone(), c.wait.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(once(9), once(9));
    assert_ne!(once(9), once(10));
}

#[test]
fn failed_operations_are_over_every_threshold_and_do_not_end_the_run() {
    let ran = even_reads("sim:error-rate=0.01", 1000, (64, false), settings(100));
    let cell = &ran.total().cells[0];
    assert_eq!(cell.counts.wanted(), 100_000);
    assert!((900..1100).contains(&cell.counts.errors), "{} errors", cell.counts.errors);
    assert_eq!(cell.counts.judged_over[2], cell.counts.errors);
    assert_eq!(cell.service.len(), cell.counts.ops);
    assert_eq!(ran.cause, None);
}

#[test]
fn too_many_errors_end_the_run_and_what_was_not_issued_is_counted() {
    let settings = Settings { errors_max: 10, ..settings(100) };
    let ran = even_reads("sim:bad=0-1GiB", 1000, (64, false), settings);
    assert_eq!(ran.cause, Some(Cause::Errors { count: 11 }));
    assert_eq!(ran.intervals.len(), 1);
    assert!(ran.total().cells[0].counts.errors >= 11);
}

#[test]
fn a_device_that_is_gone_ends_the_run() {
    let ran = even_reads("sim:gone-at-s=2", 1000, (64, false), settings(100));
    assert_eq!(ran.cause, Some(Cause::Gone { device: 0, error: "No such device (os error 19)".into() }));
    assert_eq!(ran.intervals.len(), 3);
}

#[test]
fn a_device_too_slow_for_its_load_ends_the_run_by_lag_and_is_named() {
    // One channel of 1 ms serves 1,000 a second; 2,000 are wanted.
    let slow = "sim:channels=1+read-us=1000+jitter-pct=0+read-mbps=0";
    for (configured, whose) in [(false, Whose::Device), (true, Whose::Limit)] {
        let settings = Settings { max_lag_ns: SEC, ..settings(100) };
        let lanes = vec![(reads(0, 1), even(2000, 0, 1))];
        let ran = run(&[slow], plan(lanes, 8, configured), settings, &layout(1, 1));
        let Some(Cause::Lag { whose: found, behind_ns, in_flight, slots, .. }) = ran.cause.clone() else {
            panic!("{:?}", ran.cause)
        };
        assert_eq!((found, in_flight, slots), (whose, 8, 8));
        assert!((SEC..SEC + 200 * MS).contains(&behind_ns), "{behind_ns}");
        // Nothing is left out: everything intended before the stop is counted as done or not issued.
        let cell = &ran.total().cells[0];
        let stopped_ns = ran.intervals.last().unwrap().end_ns;
        let intended = stopped_ns * 2 / MS;
        assert!(cell.counts.wanted().abs_diff(intended) <= 1, "{} of {intended}", cell.counts.wanted());
        assert!(cell.counts.unissued > 1900, "{}", cell.counts.unissued);
    }
}

#[test]
fn a_device_that_never_answers_leaves_its_operations_counted() {
    let hung = "sim:read-us=10+stall-ms=1000000+stall-at-s=1";
    let ran = even_reads(hung, 100, (10, false), settings(3));
    let cell = &ran.total().cells[0];
    assert_eq!(
        (cell.counts.ops, cell.counts.lost, cell.counts.unissued),
        (100, 10, 190),
        "10 in flight and 190 waiting"
    );
    assert_eq!(cell.counts.missed, 200);
    assert!((990_000_000..SEC).contains(&cell.counts.last_back_ns), "{}", cell.counts.last_back_ns);
    assert_eq!(cell.counts.judged_over[2], 200);
}

#[derive(Clone, Debug)]
struct ReadThenWrite(Uniform);

impl Stream for ReadThenWrite {
    fn next(&mut self) -> Option<Request> {
        self.0.next()
    }
    fn on_completion(&mut self, request: &Request, _outcome: Outcome) -> Option<Request> {
        (request.kind == OpKind::Read).then_some(Request { kind: OpKind::Write, cell: 1, ..*request })
    }
}

#[test]
fn an_operation_can_be_followed_by_another_in_its_slot() {
    let lanes = vec![(ReadThenWrite(reads(0, 1)), even(1000, 0, 1))];
    let ran = run(&["sim:"], plan(lanes, 1, false), settings(10), &layout(2, 1));
    let total = ran.total();
    assert_eq!((total.cells[0].counts.ops, total.cells[1].counts.ops), (10_000, 10_000));
    assert_eq!(total.cells[1].wait.max(), 0, "the follower is wanted when its leader ends");
}

#[test]
fn an_update_is_written_the_moment_its_read_ends() {
    let extent = |cell| Extent::blocks(0, cell, 1 << 30, 4096).unwrap();
    let updates = Updates::new(vec![extent(0)], vec![(extent(1), 0)], 0, 1, Random::new(1));
    let lanes = vec![(updates, even(1000, 0, 1))];
    let total = run(&["sim:"], plan(lanes, 64, false), settings(10), &layout(2, 1)).total();
    assert_eq!((total.cells[0].counts.ops, total.cells[1].counts.ops), (10_000, 10_000));
    assert_eq!((total.cells[1].lag.max(), total.cells[1].wait.max()), (0, 0));
}

/// Reads, each followed by a write, on a drive that fails every operation or never answers.
fn updates_on(drive: &str, settings: Settings, rate: u64) -> Ran {
    let stream = ReadThenWrite(reads(0, 1));
    run(&[drive], plan(vec![(stream, even(rate, 0, 1))], 4, false), settings, &layout(2, 1))
}

#[test]
fn what_would_have_followed_a_lost_operation_is_counted_with_it() {
    // 10 a second for 5 s; writes are counted in the second cell.
    let ran = updates_on("sim:stall-ms=100000+stall-at-s=2", Settings { hang_ns: SEC, ..settings(5) }, 10);
    let total = ran.total();
    for cell in &total.cells {
        assert_eq!(cell.counts.wanted(), 50);
        assert!(cell.counts.unissued + cell.counts.lost >= 29, "{} and {}", cell.counts.unissued, cell.counts.lost);
    }
}

#[test]
fn a_run_that_failed_issues_no_followers_but_counts_them() {
    let ran = updates_on("sim:error-rate=1", Settings { errors_max: 2, ..settings(5) }, 10);
    assert!(matches!(ran.cause, Some(Cause::Errors { count: 3 })));
    let total = ran.total();
    assert_eq!(total.cells.iter().map(|cell| cell.counts.errors).sum::<u64>(), 3, "the third was a read");
    let begun = total.cells[0].counts.errors + total.cells[0].counts.unissued;
    assert_eq!(begun, total.cells[1].counts.errors + total.cells[1].counts.unissued, "each has its follower");
}

#[test]
fn a_closed_lane_keeps_its_depth_going() {
    // 4 deep, 100 us each, on 32 channels: 40,000 a second.
    let lanes = vec![(reads(0, 1), closed(4))];
    let ran = run(&["sim:read-us=100+jitter-pct=0+read-mbps=0"], plan(lanes, 4, true), settings(5), &layout(1, 1));
    assert!(ran.total().cells[0].counts.ops.abs_diff(200_000) <= 4);
    assert_eq!(ran.intervals[2].in_flight_max, 4);
}

/// Ends after so many operations.
#[derive(Clone, Debug)]
struct FirstOf(Uniform, u32);

impl Stream for FirstOf {
    fn next(&mut self) -> Option<Request> {
        self.1 = self.1.checked_sub(1)?;
        self.0.next()
    }
}

#[test]
fn a_run_is_over_when_its_streams_have_ended_and_all_came_back() {
    let drive = ["sim:read-us=100+jitter-pct=0+read-mbps=0"];
    let closed = |slots| {
        let lanes = vec![(FirstOf(reads(0, 1), 1001), closed(4))];
        run(&drive, plan(lanes, slots, true), settings(3600), &layout(1, 1))
    };
    for (slots, end_us) in [(4, 25_100), (2, 50_100)] {
        let ran = closed(slots);
        let cell = &ran.total().cells[0];
        assert_eq!((cell.counts.ops, cell.counts.unissued, cell.counts.overtime), (1001, 0, 0));
        assert_eq!(ran.intervals.last().unwrap().end_ns, end_us * 1_000, "{slots} at a time");
    }
    let scheduled = vec![(FirstOf(reads(0, 1), 150), even(100, 0, 1))];
    let ran = run(&drive, plan(scheduled, 4, true), settings(3600), &layout(1, 1));
    assert_eq!((ran.total().cells[0].counts.ops, ran.intervals.len()), (150, 2), "in 1.5 s");
}

#[test]
fn a_lane_that_ended_leaves_its_slots_to_the_others() {
    let lanes = vec![(FirstOf(reads(0, 1), 10), closed(4)), (FirstOf(reads(0, 2), 1000), closed(4))];
    let ran = run(&["sim:"], plan(lanes, 2, true), settings(3600), &layout(1, 1));
    assert_eq!((ran.total().cells[0].counts.ops, ran.total().cells[0].counts.unissued), (1010, 0));
}

/// Cannot go on after so many operations.
#[derive(Clone, Debug)]
struct StuckAfter(FirstOf);

impl Stream for StuckAfter {
    fn next(&mut self) -> Option<Request> {
        self.0.next()
    }
    fn stuck(&self) -> Option<String> {
        (self.0.1 == 0).then(|| "full".to_owned())
    }
    fn expect(&self, arrivals: u64, cells: &mut dyn FnMut(u32, u64)) {
        cells(0, arrivals);
    }
}

#[test]
fn a_stream_that_cannot_go_on_ends_the_run_and_what_was_due_counts_as_not_done() {
    let lanes = vec![(StuckAfter(FirstOf(reads(0, 1), 150)), even(100, 0, 1))];
    let ran = run(&["sim:"], plan(lanes, 4, true), settings(3600), &layout(1, 1));
    assert_eq!(ran.cause, Some(Cause::Stuck { why: "full".to_owned() }));
    let cell = &ran.total().cells[0];
    assert_eq!((cell.counts.ops, cell.counts.unissued), (150, 0), "it ends at the instant of the next");
    // Four are in flight when it gets there: it ends with the last of them.
    let lanes = vec![(StuckAfter(FirstOf(reads(0, 1), 5)), even(100, 0, 1))];
    let ran =
        run(&["sim:read-us=1000000+jitter-pct=0+read-mbps=0"], plan(lanes, 4, false), settings(3600), &layout(1, 1));
    let cell = &ran.total().cells[0];
    assert!(matches!(ran.cause, Some(Cause::Stuck { .. })));
    assert_eq!((cell.counts.ops, cell.counts.unissued), (5, 195));
}

/// Has no second operation while one is in flight.
#[derive(Clone, Debug)]
struct OneByOne(Uniform, bool);

impl Stream for OneByOne {
    fn next(&mut self) -> Option<Request> {
        if std::mem::replace(&mut self.1, true) { None } else { self.0.next() }
    }
    fn stuck(&self) -> Option<String> {
        self.1.then(|| "one is out".to_owned())
    }
    fn on_completion(&mut self, _: &Request, _: Outcome) -> Option<Request> {
        self.1 = false;
        None
    }
    fn expect(&self, arrivals: u64, cells: &mut dyn FnMut(u32, u64)) {
        cells(0, arrivals);
    }
}

#[test]
fn a_stream_that_waits_for_its_own_operations_waits_for_the_device_and_not_for_us() {
    let drive = ["sim:read-us=20000+jitter-pct=0+read-mbps=0"];
    let lanes = vec![(OneByOne(reads(0, 1), false), even(100, 0, 1))];
    let ran = run(&drive, plan(lanes, 4, false), settings(10), &layout(1, 1));
    let total = ran.total();
    let cell = &total.cells[0];
    // 50 a second of 100, the last ones after the end.
    assert_eq!((ran.cause, cell.counts.ops + cell.counts.unissued, cell.lag.max()), (None, 1000, 0));
    assert!(cell.counts.ops >= 500 && cell.wait.max() > 4 * SEC, "{} done, {} ns", cell.counts.ops, cell.wait.max());
}

/// An engine whose program looks at it otherwise: `reap` decides how long it waits, and what it sees.
struct Watched<F> {
    engine: SimEngine,
    reap: F,
}

impl<F: FnMut(&mut SimEngine, Wait, &mut Vec<Completion>)> IoEngine for Watched<F> {
    const VIRTUAL: bool = true;
    type Op = Op;
    type Completion = Completion;

    fn now(&mut self) -> u64 {
        self.engine.now()
    }

    fn submit(&mut self, op: Op) {
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

/// A program that is held off the CPU once: whatever it waits for, it wakes no earlier than the end of `held` when it
/// waits within it.
fn held_off(drive: &str, held: Range<u64>) -> impl BlockEngine {
    let reap = move |engine: &mut SimEngine, wait, out: &mut _| {
        let is_held = held.contains(&engine.now());
        let held = Wait { until_ns: held.end, completions: u32::MAX };
        engine.reap(if is_held { held } else { wait }, out).unwrap();
    };
    Watched { engine: engine(&[drive]), reap }
}

/// A program that looks at completions once every `look_ns` only.
fn unseen(drive: &str, look_ns: u64) -> impl BlockEngine {
    let reap = move |engine: &mut SimEngine, _, out: &mut Vec<Completion>| {
        let looked_ns = engine.now();
        let until_ns = (looked_ns / look_ns + 1) * look_ns;
        engine.reap(Wait { until_ns, completions: u32::MAX }, out).unwrap();
        for completion in out.iter_mut() {
            completion.completed_ns = until_ns;
            completion.unseen_ns = until_ns - looked_ns.max(completion.issued_ns);
        }
    };
    Watched { engine: engine(&[drive]), reap }
}

#[test]
fn a_program_held_off_the_cpu_blames_itself_and_not_the_device() {
    // 1,000 a second, held off for 1.5 s: 1,500 are issued late, in a heap that fills all 64 slots.
    let engine = held_off("sim:jitter-pct=0", 3 * SEC..4 * SEC + SEC / 2);
    let plan = plan(vec![(reads(0, 1), even(1_000, 0, 1))], 64, false);
    let ran = run_in(engine, plan, settings(10), &layout(1, 1));
    let total = ran.total();
    let cell = &total.cells[0];
    assert_eq!((cell.counts.ops, cell.counts.errors, cell.counts.unissued), (10_000, 0, 0));
    assert!(cell.lag.max() > 1_400 * MS, "{}", cell.lag.max());
    assert!(cell.wait.max() < MS / 10, "waiting behind our own heap is no wait for the device: {}", cell.wait.max());
    assert_eq!(cell.counts.judged_least_over[..3], [0, 0, 0], "nothing that the device answers for");
    assert!((1_300..1_600).contains(&cell.counts.response_over[2]), "{:?}", cell.counts.response_over);
    let backlogs: Vec<_> = ran.intervals.iter().map(|interval| interval.cells[0].counts.backlog).collect();
    assert!((990..=1_000).contains(&backlogs[3].late) && backlogs[3].waiting == 0, "{:?}", backlogs[3]);
    assert!(backlogs[4..].iter().all(|backlog| backlog.late <= 1), "it is worked off: {backlogs:?}");
}

const ONE_MS: &str = "sim:channels=1+read-us=1000+jitter-pct=0+read-mbps=0";

#[test]
fn a_backlog_is_known_at_the_end_of_each_interval() {
    // 1,250 a second on a drive that does 1,000, one at a time: 250 more are behind after each second.
    let ran = even_reads(ONE_MS, 1250, (1, false), settings(4));
    for (interval, second) in ran.intervals.iter().zip(1..) {
        let backlog = interval.cells[0].counts.backlog;
        assert_eq!((backlog.in_flight, backlog.late), (1, 0), "after {second} s");
        assert!(backlog.total().abs_diff(250 * second) <= 2, "after {second} s: {backlog:?}");
    }
    let total = ran.total();
    let cell = &total.cells[0];
    let last = ran.intervals[3].cells[0].counts.backlog;
    assert_eq!(
        (cell.counts.ops, cell.counts.overtime, cell.counts.unissued),
        (5_000, last.total(), 0),
        "it is done after the end"
    );
}

#[test]
fn a_load_that_is_held_has_no_backlog_but_what_is_in_flight() {
    let plan = plan(vec![(reads(0, 1), even(900, 0, 1))], 1, false);
    let ran = run(&[ONE_MS], plan, settings(4), &layout(1, 1));
    assert!(ran.intervals.iter().all(|interval| interval.cells[0].counts.backlog.total() <= 1));
}

#[test]
fn a_poisson_backlog_is_counted_as_exactly() {
    let poisson = Poisson::new(Rate::per_sec(1250), Random::new(7)).unwrap();
    let arrival = Arrival::Scheduled(Schedule::Poisson(poisson));
    let ran = run(&[ONE_MS], plan(vec![(reads(0, 1), arrival)], 1, false), settings(4), &layout(1, 1));
    let done: Vec<_> = ran.intervals.iter().map(|interval| interval.cells[0].counts.ops).collect();
    let mut due = Poisson::new(Rate::per_sec(1250), Random::new(7)).map(Schedule::Poisson).unwrap();
    let (mut wanted, mut ops) = (0, 0);
    for (second, done) in (1..).zip(&done[..3]) {
        wanted += due.count_before(second * SEC);
        ops += done;
        assert_eq!(ran.intervals[second as usize - 1].cells[0].counts.backlog.total(), wanted - ops);
    }
}

#[test]
fn completions_that_lie_unseen_hold_slots_and_that_wait_is_ours() {
    // 2,000 a second, one at a time, on a drive that takes 100 us: but we look once a millisecond.
    let drive = "sim:channels=1+read-us=100+jitter-pct=0+read-mbps=0";
    let engine = unseen(drive, MS);
    let ran = run_in(engine, plan(vec![(reads(0, 1), even(2_000, 0, 1))], 1, false), settings(4), &layout(1, 1));
    let total = ran.total();
    let cell = &total.cells[0];
    assert!(cell.counts.judged_over[2] > 3_000, "as measured they waited: {:?}", cell.counts.judged_over);
    assert_eq!(cell.counts.judged_least_over[..3], [0, 0, 0], "without us they had not");
    let last = ran.intervals[3].cells[0].counts.backlog;
    assert!(last.late > 3_900 && last.waiting < 20, "and the backlog is ours: {last:?}");
}

#[test]
fn a_slow_device_is_not_excused_by_what_lay_unseen() {
    // 2,000 a second, one at a time, on a drive that takes 1 ms; we look every 30 us.
    let engine = unseen(ONE_MS, 30_000);
    let ran = run_in(engine, plan(vec![(reads(0, 1), even(2_000, 0, 1))], 1, false), settings(4), &layout(1, 1));
    let total = ran.total();
    let cell = &total.cells[0];
    assert!(cell.counts.judged_least_over[2] > 3_000, "{:?}", cell.counts.judged_least_over);
    let last = ran.intervals[3].cells[0].counts.backlog;
    assert!(last.waiting > 10 * last.late && last.waiting > 3_000, "the device's: {last:?}");
}

#[test]
fn what_is_in_flight_at_an_early_end_may_take_longer_than_its_interval() {
    // A second each, one at a time: when the lag ends the run 512 of them are still to come.
    let drive = "sim:channels=1+read-us=1000000+jitter-pct=0+read-mbps=0";
    let settings = Settings { max_lag_ns: 2 * SEC, ..settings(3600) };
    let ran = even_reads(drive, 1000, (512, false), settings);
    assert!(matches!(ran.cause, Some(Cause::Lag { whose: Whose::Device, .. })), "{:?}", ran.cause);
    let cell = &ran.total().cells[0];
    assert_eq!(cell.counts.lost, 0, "a device that returns something is waited for");
    assert!(
        (512..=516).contains(&cell.counts.ops) && cell.counts.overtime >= 510,
        "{} and {}",
        cell.counts.ops,
        cell.counts.overtime
    );
}

#[test]
fn what_comes_back_after_the_end_is_no_achieved_rate() {
    // 20 a second on a drive that does 10: half of them are still to come at the end, and ten of these are issued in the
    // second after it.
    let drive = "sim:channels=1+read-us=100000+jitter-pct=0+read-mbps=0";
    let ran = even_reads(drive, 20, (1, false), settings(10));
    let cell = &ran.total().cells[0];
    assert_eq!(cell.counts.ops + cell.counts.unissued, 200);
    assert!(
        (9..=12).contains(&cell.counts.overtime) && (88..=91).contains(&cell.counts.unissued),
        "{} {}",
        cell.counts.overtime,
        cell.counts.unissued
    );
}

#[test]
fn a_device_that_holds_the_slots_is_blamed_and_not_their_number() {
    // Both drives share 20 slots that the user chose; the second freezes and takes them all.
    let drives = ["sim:jitter-pct=0", "sim:jitter-pct=0+stall-ms=15000+stall-at-s=5"];
    let lanes = vec![(reads(0, 1), even(1_000, 0, 2)), (reads(1, 1), even(1_000, 1, 2))];
    let plan = plan(lanes, 20, true);
    let settings = Settings { max_lag_ns: 4 * SEC, ..settings(60) };
    let ran = run(&drives, plan, settings, &layout(1, 2));
    let Some(Cause::Lag { lane, whose, .. }) = ran.cause else { panic!("{:?}", ran.cause) };
    assert_eq!((lane.as_str(), whose), ("stream-0@sim-1", Whose::Device));
}

#[test]
fn too_few_slots_for_a_quick_device_are_the_limits_doing() {
    let drive = "sim:channels=64+read-us=1000+jitter-pct=0+read-mbps=0";
    let settings = Settings { max_lag_ns: 2 * SEC, ..settings(60) };
    let ran = even_reads(drive, 10_000, (4, true), settings);
    assert!(matches!(ran.cause, Some(Cause::Lag { whose: Whose::Limit, .. })), "{:?}", ran.cause);
}

#[test]
fn nothing_is_issued_before_instant_zero() {
    let lanes = vec![(reads(0, 1), closed(4))];
    let (recorder, feed) = Recorder::new(&layout(1, 1), SEC, SEC, SEC, false);
    let drive = engine(&["sim:read-us=100+jitter-pct=0+read-mbps=0"]);
    let control = Arc::new(Control::default());
    Shard::new(drive, plan(lanes, 4, true), settings(1), recorder, control).unwrap().run(5 * MS);
    let Ok(Message::Interval(interval)) = feed.messages.recv() else { panic!("no interval") };
    // 4 every 100 us for a second, and none in the 5 ms before it.
    assert!((40_000..=40_004).contains(&interval.cells[0].counts.ops), "{}", interval.cells[0].counts.ops);
    assert!(interval.cells[0].service.min() >= 99_000, "{}", interval.cells[0].service.min());
}

#[test]
fn a_run_in_which_time_stands_still_can_be_stopped() {
    // Operations that take 1 ns: a virtual hour is some 10^13 of them.
    let lanes = vec![(reads(0, 1), closed(4))];
    let (recorder, _feed) = Recorder::new(&layout(1, 1), SEC, SEC, 3600 * SEC, false);
    let control = Arc::new(Control::default());
    let drive = engine(&["sim:read-us=0+jitter-pct=0+read-mbps=0"]);
    let shard = Shard::new(drive, plan(lanes, 4, true), settings(3600), recorder, control.clone()).unwrap();
    std::thread::scope(|scope| {
        let running = scope.spawn(move || shard.run(0));
        std::thread::sleep(std::time::Duration::from_millis(20));
        control.stop(Cause::Asked { signal: 2 });
        running.join().unwrap();
    });
}

#[test]
fn nothing_of_a_ramp_is_counted() {
    // The drive freezes from 5 to 6 s.
    let slow = |ramp_ns, seconds: u64| {
        let settings = Settings { ramp_ns, duration_ns: ramp_ns + seconds * SEC, ..settings(10) };
        let ran = even_reads(FREEZE, 1000, (4096, false), settings);
        let ends: Vec<_> = ran.intervals.iter().map(|interval| (interval.index, interval.end_ns)).collect();
        assert_eq!(ends, (0..seconds).map(|index| (index, (index + 1) * SEC)).collect::<Vec<_>>());
        let cell = &ran.total().cells[0];
        (cell.counts.ops, cell.counts.judged_over[0])
    };
    for ramp_ns in [3 * SEC, SEC / 4] {
        let (ops, over) = slow(ramp_ns, 7);
        assert!(ops == 7_000 && (998..=1004).contains(&over), "{ops} {over}");
    }
    assert_eq!(slow(7 * SEC, 3), (3_000, 0));
}

#[test]
fn after_its_end_a_run_issues_its_backlog_for_a_second_and_counts_the_rest() {
    // 500 a second at most, of 1,000 wanted for 4 s.
    let drive = "sim:channels=1+read-us=2000+jitter-pct=0+read-mbps=0";
    let ran = even_reads(drive, 1000, (4, true), settings(4));
    let cell = &ran.total().cells[0];
    assert!(
        cell.counts.ops.abs_diff(2_500) <= 8 && cell.counts.overtime.abs_diff(500) <= 8,
        "{} {}",
        cell.counts.ops,
        cell.counts.overtime
    );
    assert_eq!(cell.counts.ops + cell.counts.unissued, 4_000);
    // Operation j comes back at 2j ms: of the second slice's half are not back a second after it, and of the last two none.
    assert!(cell.counts.missed.abs_diff(2_500) <= 8, "{}", cell.counts.missed);
}

/// A drive that refuses whatever it is asked for, at once.
#[derive(Default)]
struct Refuses(Vec<Done>, u64);

impl DriveModel for Refuses {
    fn submit(&mut self, op: &Op, now_ns: u64) {
        self.0.push(Done { token: op.token, submitted_ns: now_ns, outcome: Outcome::Errno(95) });
        self.1 = now_ns;
    }

    fn next_event_ns(&self) -> u64 {
        if self.0.is_empty() { u64::MAX } else { self.1 }
    }

    fn advance(&mut self) -> Option<Done> {
        self.0.pop()
    }

    fn counters(&self) -> Vec<(results::telemetry::Column, u64)> {
        Vec::new()
    }
}

#[test]
fn a_run_whose_virtual_time_stands_still_ends_with_an_error() {
    let closed = || plan(vec![(reads(0, 1), closed(2))], 2, true);
    let refuses = SimEngine::new(vec![Refuses::default()]);
    let at_once = engine(&["sim:read-us=0+jitter-pct=0+read-mbps=0"]);
    for (ran, gone) in [
        (run_in(refuses, closed(), settings(4), &layout(1, 1)), "went on by 0 us in 1,000,000 turns"),
        (run_in(at_once, closed(), settings(3_600), &layout(1, 1)), "went on by 1,000 us in 1,000,000 turns"),
    ] {
        let Some(Cause::Failed { message }) = ran.cause else { panic!("{:?}", ran.cause) };
        assert!(message.contains(gone), "{message}");
    }
}
