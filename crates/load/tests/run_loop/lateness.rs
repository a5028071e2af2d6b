//! Cause of lateness: the device, the configured limit, or this program.

use super::*;
use load::run::DelayOwner;
use load::schedule::Poisson;
use results::testing::modified;
use std::ops::Range;

#[test]
fn a_device_too_slow_for_its_load_ends_the_run_by_lag_and_is_named() {
    // A channel with operations of 1 ms serves 1,000 per second; 2,000 per second are due.
    let slow = "sim:channels=1+read-us=1000+jitter-pct=0+read-mbps=0";
    for (configured, whose) in [(false, DelayOwner::Device), (true, DelayOwner::Limit)] {
        let settings = modified(settings(100), |it| it.max_lag_ns = SEC);
        let lanes = vec![(reads(0, 1), even(2000, 0, 1))];
        let ran = run(&[slow], plan(lanes, 8, configured), settings, &layout(1, 1));
        let Some(EndCause::Lag {
            whose: found,
            behind_ns,
            in_flight,
            slots,
            ..
        }) = ran.cause.clone()
        else {
            panic!("{:?}", ran.cause)
        };
        assert_eq!((found, in_flight, slots), (whose, 8, 8));
        assert!((SEC..SEC + 200 * MS).contains(&behind_ns), "{behind_ns}");
        // Nothing is left out: everything intended before the stop is counted as done or not issued.
        let cell = &ran.total().cells[0];
        let stopped_ns = ran.intervals.last().unwrap().end_ns;
        let intended = stopped_ns * 2 / MS;
        assert!(
            cell.counts.counted_ops().abs_diff(intended) <= 1,
            "{} of {intended}",
            cell.counts.counted_ops()
        );
        assert!(cell.counts.unissued > 1900, "{}", cell.counts.unissued);
    }
}

/// A stream that has no second operation while one is in flight.
#[derive(Clone, Debug)]
struct OneByOne(Uniform, bool);

impl Stream for OneByOne {
    fn next(&mut self) -> Option<IoRequest> {
        if std::mem::replace(&mut self.1, true) {
            None
        } else {
            self.0.next()
        }
    }
    fn stuck(&self) -> Option<String> {
        self.1.then(|| "an operation is in flight".to_owned())
    }
    fn on_completion(&mut self, _: &IoRequest, _: Outcome) -> Option<IoRequest> {
        self.1 = false;
        None
    }
    fn expect(&self, arrivals: u64, cells: &mut dyn FnMut(u32, u64)) {
        cells(0, arrivals);
    }
}

#[test]
fn waits_of_a_stream_for_its_earlier_operations_are_charged_to_the_device() {
    let drive = ["sim:read-us=20000+jitter-pct=0+read-mbps=0"];
    let lanes = vec![(OneByOne(reads(0, 1), false), even(100, 0, 1))];
    let ran = run(&drive, plan(lanes, 4, false), settings(10), &layout(1, 1));
    let total = ran.total();
    let cell = &total.cells[0];
    // Each second 100 operations are due and the drive completes 50, the last of them after the end of the run.
    assert_eq!(ran.cause, None);
    assert_eq!(cell.counts.ops + cell.counts.unissued, 1000);
    assert_eq!(cell.lag.max(), 0);
    assert!(
        cell.counts.ops >= 500 && cell.wait.max() > 4 * SEC,
        "{} done, {} ns",
        cell.counts.ops,
        cell.wait.max()
    );
}

/// A program that has no CPU during `pause`: a wait that begins within `pause` lasts at least until the end of `pause`.
fn paused(drive: &str, pause: Range<u64>) -> impl BlockEngine {
    let reap = move |engine: &mut SimEngine, wait, out: &mut _| {
        let is_paused = pause.contains(&engine.now());
        let pause = Wait {
            until_ns: pause.end,
            completions: u32::MAX,
        };
        engine
            .reap(if is_paused { pause } else { wait }, out)
            .unwrap();
    };
    Watched {
        engine: engine(&[drive]),
        submitted: |_, _: &Op| (),
        reap,
    }
}

/// A program that polls for completions only once every `look_ns`.
fn unseen(drive: &str, look_ns: u64) -> impl BlockEngine {
    let reap = move |engine: &mut SimEngine, _, out: &mut Vec<Completion>| {
        let looked_ns = engine.now();
        let until_ns = (looked_ns / look_ns + 1) * look_ns;
        engine
            .reap(
                Wait {
                    until_ns,
                    completions: u32::MAX,
                },
                out,
            )
            .unwrap();
        for completion in out.iter_mut() {
            completion.completed_ns = until_ns;
            completion.unseen_ns = until_ns - looked_ns.max(completion.issued_ns);
        }
    };
    Watched {
        engine: engine(&[drive]),
        submitted: |_, _: &Op| (),
        reap,
    }
}

#[test]
fn lateness_from_a_lack_of_cpu_is_charged_to_this_program_and_not_to_the_device() {
    // 1,000 operations per second, held off for 1.5 s: 1,500 are issued late, all at once, and fill all 64 slots.
    let engine = paused("sim:jitter-pct=0", 3 * SEC..4 * SEC + SEC / 2);
    let plan = plan(vec![(reads(0, 1), even(1_000, 0, 1))], 64, false);
    let ran = run_in(engine, plan, settings(10), &layout(1, 1));
    let total = ran.total();
    let cell = &total.cells[0];
    assert_eq!(cell.counts.ops, 10_000);
    assert_eq!(cell.counts.errors, 0);
    assert_eq!(cell.counts.unissued, 0);
    assert!(cell.lag.max() > 1_400 * MS, "{}", cell.lag.max());
    assert!(
        cell.wait.max() < MS / 10,
        "a wait behind this program's backlog is not charged to the device: {}",
        cell.wait.max()
    );
    assert_eq!(
        cell.counts.judged_over_lower_bound[..3],
        [0, 0, 0],
        "nothing is charged to the device"
    );
    assert!(
        (1_300..1_600).contains(&cell.counts.response_over[2]),
        "{:?}",
        cell.counts.response_over
    );
    let backlogs: Vec<_> = ran
        .intervals
        .iter()
        .map(|interval| interval.cells[0].counts.backlog)
        .collect();
    assert!(
        (990..=1_000).contains(&backlogs[3].late) && backlogs[3].waiting == 0,
        "{:?}",
        backlogs[3]
    );
    assert!(
        backlogs[4..].iter().all(|backlog| backlog.late <= 1),
        "the backlog is worked off: {backlogs:?}"
    );
}

const ONE_MS: &str = "sim:channels=1+read-us=1000+jitter-pct=0+read-mbps=0";

#[test]
fn a_backlog_is_known_at_the_end_of_each_interval() {
    // 1,250 per second are due, and the drive completes 1,000, one at a time: the backlog grows by 250 per second.
    let ran = even_reads(ONE_MS, 1250, (1, false), settings(4));
    for (interval, second) in ran.intervals.iter().zip(1..) {
        let backlog = interval.cells[0].counts.backlog;
        assert_eq!(backlog.in_flight, 1, "after {second} s");
        assert_eq!(backlog.late, 0, "after {second} s");
        assert!(
            backlog.total().abs_diff(250 * second) <= 2,
            "after {second} s: {backlog:?}"
        );
    }
    let total = ran.total();
    let cell = &total.cells[0];
    let last = ran.intervals[3].cells[0].counts.backlog;
    assert_eq!(cell.counts.ops, 5_000);
    assert_eq!(cell.counts.overtime, last.total());
    assert_eq!(cell.counts.unissued, 0, "the backlog is done after the end");
}

#[test]
fn a_device_that_keeps_up_has_no_backlog_beyond_operations_in_flight() {
    let plan = plan(vec![(reads(0, 1), even(900, 0, 1))], 1, false);
    let ran = run(&[ONE_MS], plan, settings(4), &layout(1, 1));
    assert!(
        ran.intervals
            .iter()
            .all(|interval| interval.cells[0].counts.backlog.total() <= 1)
    );
}

#[test]
fn the_backlog_of_poisson_arrivals_is_counted_exactly() {
    let poisson = Poisson::new(Rate::per_sec(1250), Random::new(7)).unwrap();
    let arrival = Arrival::Scheduled(Schedule::Poisson(poisson));
    let ran = run(
        &[ONE_MS],
        plan(vec![(reads(0, 1), arrival)], 1, false),
        settings(4),
        &layout(1, 1),
    );
    let done: Vec<_> = ran
        .intervals
        .iter()
        .map(|interval| interval.cells[0].counts.ops)
        .collect();
    let mut due = Poisson::new(Rate::per_sec(1250), Random::new(7))
        .map(Schedule::Poisson)
        .unwrap();
    let mut expected = 0;
    let mut ops = 0;
    for (second, done) in (1..).zip(&done[..3]) {
        expected += due.count_before(second * SEC);
        ops += done;
        assert_eq!(
            ran.intervals[second as usize - 1].cells[0]
                .counts
                .backlog
                .total(),
            expected - ops
        );
    }
}

#[test]
fn waits_for_slots_of_unseen_completions_are_charged_to_this_program() {
    // 2,000 operations per second, one at a time, on a drive that takes 100 us; the program polls once per millisecond.
    let drive = "sim:channels=1+read-us=100+jitter-pct=0+read-mbps=0";
    let engine = unseen(drive, MS);
    let ran = run_in(
        engine,
        plan(vec![(reads(0, 1), even(2_000, 0, 1))], 1, false),
        settings(4),
        &layout(1, 1),
    );
    let total = ran.total();
    let cell = &total.cells[0];
    assert!(
        cell.counts.judged_over[2] > 3_000,
        "the measured waits are long: {:?}",
        cell.counts.judged_over
    );
    assert_eq!(
        cell.counts.judged_over_lower_bound[..3],
        [0, 0, 0],
        "without our delays, none"
    );
    let last = ran.intervals[3].cells[0].counts.backlog;
    assert!(
        last.late > 3_900 && last.waiting < 20,
        "this program caused the backlog: {last:?}"
    );
}

#[test]
fn unseen_completions_do_not_excuse_a_slow_device() {
    // 2,000 operations per second, one at a time, on a drive that takes 1 ms; the program polls every 30 us.
    let engine = unseen(ONE_MS, 30_000);
    let ran = run_in(
        engine,
        plan(vec![(reads(0, 1), even(2_000, 0, 1))], 1, false),
        settings(4),
        &layout(1, 1),
    );
    let total = ran.total();
    let cell = &total.cells[0];
    assert!(
        cell.counts.judged_over_lower_bound[2] > 3_000,
        "{:?}",
        cell.counts.judged_over_lower_bound
    );
    let last = ran.intervals[3].cells[0].counts.backlog;
    assert!(
        last.waiting > 10 * last.late && last.waiting > 3_000,
        "the device caused the backlog: {last:?}"
    );
}

#[test]
fn a_device_that_holds_the_slots_is_blamed_and_not_their_number() {
    // Both drives share 20 slots that the user chose; the second drive freezes and takes all slots.
    let drives = [
        "sim:jitter-pct=0",
        "sim:jitter-pct=0+stall-ms=15000+stall-at-s=5",
    ];
    let lanes = vec![
        (reads(0, 1), even(1_000, 0, 2)),
        (reads(1, 1), even(1_000, 1, 2)),
    ];
    let plan = plan(lanes, 20, true);
    let settings = modified(settings(60), |it| it.max_lag_ns = 4 * SEC);
    let ran = run(&drives, plan, settings, &layout(1, 2));
    let Some(EndCause::Lag { lane, whose, .. }) = ran.cause else {
        panic!("{:?}", ran.cause)
    };
    assert_eq!(lane.as_str(), "stream-0@sim-1");
    assert_eq!(whose, DelayOwner::Device);
}

#[test]
fn too_few_slots_for_a_quick_device_are_charged_to_the_limit() {
    let drive = "sim:channels=64+read-us=1000+jitter-pct=0+read-mbps=0";
    let settings = modified(settings(60), |it| it.max_lag_ns = 2 * SEC);
    let ran = even_reads(drive, 10_000, (4, true), settings);
    assert!(
        matches!(
            ran.cause,
            Some(EndCause::Lag {
                whose: DelayOwner::Limit,
                ..
            })
        ),
        "{:?}",
        ran.cause
    );
}
