//! Ends of a run: by errors, by its streams, by a signal, and the operations counted after the end.

use super::*;
use engine::sim::{DriveModel, SimCompletion};
use load::run::DelayOwner;
use results::testing::modified;
use sys::op::Op;

#[test]
fn too_many_errors_end_the_run_and_unissued_operations_are_counted() {
    let settings = modified(settings(100), |it| it.errors_max = 10);
    let ran = even_reads("sim:bad=0-1GiB", 1000, (64, false), settings);
    assert_eq!(ran.cause, Some(EndCause::Errors { count: 11 }));
    assert_eq!(ran.intervals.len(), 1);
    assert!(ran.total().cells[0].counts.errors >= 11);
}

#[test]
fn a_device_that_is_gone_ends_the_run() {
    let ran = even_reads("sim:gone-at-s=2", 1000, (64, false), settings(100));
    assert_eq!(
        ran.cause,
        Some(EndCause::Gone {
            device: 0,
            error: "No such device (os error 19)".into()
        })
    );
    assert_eq!(ran.intervals.len(), 3);
}

#[test]
fn operations_of_a_device_that_never_answers_are_counted_as_lost_or_unissued() {
    let hung = "sim:read-us=10+stall-ms=1000000+stall-at-s=1";
    let ran = even_reads(hung, 100, (10, false), settings(3));
    let counts = ran.total().cells[0].counts;
    assert_eq!(counts.ops, 100);
    assert_eq!(counts.lost, 10);
    assert_eq!(counts.unissued, 190, "10 in flight and 190 waiting");
    assert_eq!(counts.missed, 200);
    assert!(
        (990_000_000..SEC).contains(&counts.last_completion_ns),
        "{}",
        counts.last_completion_ns
    );
    assert_eq!(counts.judged_over[2], 200);
}

/// Reads, each followed by a write, on a drive that fails every operation or never answers.
fn updates_on(drive: &str, settings: Settings, rate: u64) -> Ran {
    let stream = ReadThenWrite(reads(0, 1));
    run(
        &[drive],
        plan(vec![(stream, even(rate, 0, 1))], 4, false),
        settings,
        &layout(2, 1),
    )
}

#[test]
fn followers_of_a_lost_operation_are_counted_as_lost() {
    // 10 a second for 5 s; writes are counted in the second cell.
    let ran = updates_on(
        "sim:stall-ms=100000+stall-at-s=2",
        modified(settings(5), |it| it.hang_ns = SEC),
        10,
    );
    let total = ran.total();
    for cell in &total.cells {
        assert_eq!(cell.counts.counted_ops(), 50);
        assert!(
            cell.counts.unissued + cell.counts.lost >= 29,
            "{} and {}",
            cell.counts.unissued,
            cell.counts.lost
        );
    }
}

#[test]
fn a_run_that_failed_issues_no_followers_but_counts_them() {
    let ran = updates_on(
        "sim:error-rate=1",
        modified(settings(5), |it| it.errors_max = 2),
        10,
    );
    assert!(matches!(ran.cause, Some(EndCause::Errors { count: 3 })));
    let total = ran.total();
    assert_eq!(
        total
            .cells
            .iter()
            .map(|cell| cell.counts.errors)
            .sum::<u64>(),
        3,
        "the third was a read"
    );
    let begun = total.cells[0].counts.errors + total.cells[0].counts.unissued;
    assert_eq!(
        begun,
        total.cells[1].counts.errors + total.cells[1].counts.unissued,
        "each has its follower"
    );
}

#[derive(Clone, Debug)]
struct FirstOf(Uniform, u32);

impl Stream for FirstOf {
    fn next(&mut self) -> Option<IoRequest> {
        self.1 = self.1.checked_sub(1)?;
        self.0.next()
    }
}

#[test]
fn a_run_is_over_when_its_streams_have_ended_and_all_operations_completed() {
    let drive = ["sim:read-us=100+jitter-pct=0+read-mbps=0"];
    let closed = |slots| {
        let lanes = vec![(FirstOf(reads(0, 1), 1001), closed(4))];
        run(
            &drive,
            plan(lanes, slots, true),
            settings(3600),
            &layout(1, 1),
        )
    };
    for (slots, end_us) in [(4, 25_100), (2, 50_100)] {
        let ran = closed(slots);
        let cell = &ran.total().cells[0];
        assert_eq!(cell.counts.ops, 1001);
        assert_eq!(cell.counts.unissued, 0);
        assert_eq!(cell.counts.overtime, 0);
        assert_eq!(
            ran.intervals.last().unwrap().end_ns,
            end_us * 1_000,
            "{slots} at a time"
        );
    }
    let scheduled = vec![(FirstOf(reads(0, 1), 150), even(100, 0, 1))];
    let ran = run(
        &drive,
        plan(scheduled, 4, true),
        settings(3600),
        &layout(1, 1),
    );
    assert_eq!(ran.total().cells[0].counts.ops, 150);
    assert_eq!(ran.intervals.len(), 2, "in 1.5 s");
}

#[test]
fn a_lane_that_ended_leaves_its_slots_to_the_others() {
    let lanes = vec![
        (FirstOf(reads(0, 1), 10), closed(4)),
        (FirstOf(reads(0, 2), 1000), closed(4)),
    ];
    let ran = run(
        &["sim:"],
        plan(lanes, 2, true),
        settings(3600),
        &layout(1, 1),
    );
    assert_eq!(ran.total().cells[0].counts.ops, 1010);
    assert_eq!(ran.total().cells[0].counts.unissued, 0);
}

#[derive(Clone, Debug)]
struct StuckAfter(FirstOf);

impl Stream for StuckAfter {
    fn next(&mut self) -> Option<IoRequest> {
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
fn a_stuck_stream_ends_the_run_and_its_due_operations_count_as_unissued() {
    let lanes = vec![(StuckAfter(FirstOf(reads(0, 1), 150)), even(100, 0, 1))];
    let ran = run(
        &["sim:"],
        plan(lanes, 4, true),
        settings(3600),
        &layout(1, 1),
    );
    assert_eq!(
        ran.cause,
        Some(EndCause::Stuck {
            reason: "full".to_owned()
        })
    );
    let cell = &ran.total().cells[0];
    assert_eq!(cell.counts.ops, 150);
    assert_eq!(cell.counts.unissued, 0, "the run ends when the next is due");
    // Four operations are in flight when the stream gets stuck: the run ends with the last of them.
    let lanes = vec![(StuckAfter(FirstOf(reads(0, 1), 5)), even(100, 0, 1))];
    let ran = run(
        &["sim:read-us=1000000+jitter-pct=0+read-mbps=0"],
        plan(lanes, 4, false),
        settings(3600),
        &layout(1, 1),
    );
    let cell = &ran.total().cells[0];
    assert!(matches!(ran.cause, Some(EndCause::Stuck { .. })));
    assert_eq!((cell.counts.ops, cell.counts.unissued), (5, 195));
}

#[test]
fn operations_in_flight_at_an_early_end_may_outlast_their_interval() {
    // Each operation takes 1 s, one at a time: when the lag ends the run, 512 operations are not yet complete.
    let drive = "sim:channels=1+read-us=1000000+jitter-pct=0+read-mbps=0";
    let settings = modified(settings(3600), |it| it.max_lag_ns = 2 * SEC);
    let ran = even_reads(drive, 1000, (512, false), settings);
    assert!(
        matches!(
            ran.cause,
            Some(EndCause::Lag {
                whose: DelayOwner::Device,
                ..
            })
        ),
        "{:?}",
        ran.cause
    );
    let counts = ran.total().cells[0].counts;
    assert_eq!(
        counts.lost, 0,
        "a device that returns something is waited for"
    );
    assert!(
        (512..=516).contains(&counts.ops) && counts.overtime >= 510,
        "{counts:?}"
    );
}

#[test]
fn completions_after_the_end_do_not_count_toward_the_achieved_rate() {
    // 20/s on a drive that does 10/s: half are incomplete at the end. Ten of them are issued in the second after it.
    let drive = "sim:channels=1+read-us=100000+jitter-pct=0+read-mbps=0";
    let ran = even_reads(drive, 20, (1, false), settings(10));
    let counts = ran.total().cells[0].counts;
    assert_eq!(counts.ops + counts.unissued, 200);
    assert!(
        (9..=12).contains(&counts.overtime) && (88..=91).contains(&counts.unissued),
        "{counts:?}"
    );
}

#[test]
fn a_run_whose_virtual_time_hardly_advances_can_be_stopped() {
    // Each operation takes 1 ns: in a virtual hour there would be some 10^13 operations.
    let lanes = vec![(reads(0, 1), closed(4))];
    let what = what(settings(3600), &layout(1, 1));
    let control = what.control.clone();
    let drive = engine(&["sim:read-us=0+jitter-pct=0+read-mbps=0"]);
    let (shard, _feed) = Shard::new(drive, plan(lanes, 4, true), &what, false).unwrap();
    std::thread::scope(|scope| {
        let running = scope.spawn(move || shard.run(0));
        std::thread::sleep(std::time::Duration::from_millis(20));
        control.stop(EndCause::Requested { signal: 2 });
        running.join().unwrap();
    });
}

#[test]
fn after_its_end_a_run_issues_its_backlog_for_a_second_and_counts_the_rest() {
    // 1,000 operations per second are due for 4 s; the drive does at most 500 per second.
    let drive = "sim:channels=1+read-us=2000+jitter-pct=0+read-mbps=0";
    let ran = even_reads(drive, 1000, (4, true), settings(4));
    let counts = ran.total().cells[0].counts;
    assert!(
        counts.ops.abs_diff(2_500) <= 8 && counts.overtime.abs_diff(500) <= 8,
        "{counts:?}"
    );
    assert_eq!(counts.ops + counts.unissued, 4_000);
    // Operation j completes at 2j ms. Its deadline is 1 s after its slice. All operations of the first slice meet their
    // deadlines, half of those of the second slice, and none of the last two.
    assert!(counts.missed.abs_diff(2_500) <= 8, "{}", counts.missed);
}

#[derive(Default)]
struct Refuses(Vec<SimCompletion>, u64);

impl DriveModel for Refuses {
    fn submit(&mut self, op: &Op, now_ns: u64) {
        self.0.push(SimCompletion {
            token: op.token,
            submitted_ns: now_ns,
            errno: 95,
        });
        self.1 = now_ns;
    }

    fn next_event_ns(&self) -> u64 {
        if self.0.is_empty() { u64::MAX } else { self.1 }
    }

    fn advance(&mut self) -> Option<SimCompletion> {
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
        (
            run_in(refuses, closed(), settings(4), &layout(1, 1)),
            "advanced by only 0 us in the last 1,048,576 turns",
        ),
        (
            run_in(at_once, closed(), settings(3_600), &layout(1, 1)),
            "only 1.05 ms in the last 1,048,576 turns",
        ),
    ] {
        let Some(EndCause::Failed { message }) = ran.cause else {
            panic!("{:?}", ran.cause)
        };
        assert!(message.contains(gone), "{message}");
    }
}
