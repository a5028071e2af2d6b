//! Verdicts with a known answer.

mod load;

use super::*;
use crate::cell::{EarlierOps, Interval, Layout};
use crate::counts::Backlog;
use crate::times::Times;
use crate::{assert_contains, assert_starts_with};
use Outcome::*;
use ReasonCode::*;

const MS: u64 = 1_000_000;
const SEC: u64 = 1_000_000_000;

fn layout(devices: usize) -> Layout {
    let streams = [("reads", true), ("large-block-writes", false)];
    crate::testing::layout(
        &streams,
        1000.0,
        (0..devices).map(|device| format!("/dev/d{device}")),
    )
}

/// A run of 1 s intervals in slices of `slice_sec`.
struct Run {
    layout: Layout,
    judge: Judge,
    next: u64,
}

impl Run {
    fn new(devices: usize, slice_sec: u64, duration_sec: u64) -> Self {
        let layout = layout(devices);
        let judge = Judge::new(JudgePlan::new(
            &layout,
            Sla::default(),
            1,
            slice_sec,
            duration_sec,
        ));
        Self {
            layout,
            judge,
            next: 0,
        }
    }

    fn interval(&mut self) -> Interval {
        let mut interval = Interval::new(&self.layout);
        interval.index = self.next;
        interval.end_ns = (self.next + 1) * SEC;
        self.next += 1;
        interval
    }

    fn add(&mut self, fill: impl FnOnce(&mut Interval)) -> &mut Self {
        let mut interval = self.interval();
        fill(&mut interval);
        self.judge.add(&interval);
        self
    }

    /// Changes the plan of the judge, before the first interval.
    fn planned(mut self, change: impl FnOnce(&mut JudgePlan)) -> Self {
        let mut plan = self.judge.plan().clone();
        change(&mut plan);
        self.judge = Judge::new(plan);
        self
    }

    /// Appends one second in which each device gets `fast` reads of 0.1 ms, and device 0 also `slow` reads of 2 ms.
    fn second(&mut self, fast: u64, slow: u64) -> &mut Self {
        let mut interval = self.interval();
        for device in 0..self.layout.devices.len() {
            let cell = self.layout.cell(0, device);
            (0..fast)
                .for_each(|_| interval.cells[cell].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
        }
        (0..slow).for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, 2 * MS), 0, 1536));
        self.judge.add(&interval);
        self
    }

    fn verdict(&self) -> Verdict {
        self.judge.verdict(&End::Completed)
    }

    fn stopped(&self, end: End) -> Verdict {
        self.judge.verdict(&end)
    }
}

fn judged(fill: impl FnOnce(&mut Interval)) -> Verdict {
    Run::new(1, 1, 1).add(fill).verdict()
}

fn texts(verdict: &Verdict) -> Vec<&str> {
    verdict
        .reasons
        .iter()
        .map(|reason| reason.text.as_str())
        .collect()
}

fn code(verdict: &Verdict) -> ReasonCode {
    verdict.reasons[0].code
}

#[test]
fn a_share_below_the_limit_passes_and_a_share_equal_to_the_limit_fails() {
    let mut run = Run::new(1, 1, 1);
    let verdict = run.second(9_501, 499).verdict();
    assert_eq!(verdict.outcome, Pass);
    assert_eq!(verdict.class, VerdictClass::Screening);
    assert!(!verdict.partial);
    assert_eq!(
        texts(&verdict),
        [
            "4.99 % of reads on /dev/d0 took over 1 ms in slice 1 (499 of 10,000; it must be below 5 %)"
        ]
    );
    let verdict = Run::new(1, 1, 1).second(9_500, 500).verdict();
    assert_eq!(verdict.outcome, Fail);
    assert_eq!(verdict.decided_by.unwrap().over, 500);
}

#[test]
fn a_window_between_slices_is_judged_if_it_has_nine_tenths_of_the_operations_of_a_slice() {
    let judged = |outer, inner| {
        let mut run = Run::new(1, 2, 4).planned(|plan| plan.window_step_sec = 1);
        run.second(outer, 0)
            .second(inner, 400)
            .second(inner, 400)
            .second(outer, 0)
            .verdict()
    };
    let verdict = judged(5_000, 4_100);
    assert_eq!(
        texts(&verdict)[0],
        "8.89 % of reads on /dev/d0 took over 1 ms in the 2 s from 0:00:01 (800 of 9,000; it must be below 5 %)"
    );
    let decided = verdict.decided_by.unwrap();
    assert_eq!(decided.slice, 1);
    assert_eq!(decided.from_sec, Some(1));
    assert_eq!(decided.first_slice, Some(1));
    // The window has 9,000 operations; a mean slice has 10,000, then 10,001.
    assert_eq!(judged(5_500, 4_100).outcome, Fail);
    assert_eq!(
        judged(5_501, 4_100).outcome,
        Pass,
        "less than nine tenths of a slice"
    );
}

#[test]
fn the_worst_slice_decides_and_not_the_average() {
    let mut run = Run::new(1, 2, 6);
    run.second(5_000, 0)
        .second(5_000, 0)
        .second(5_000, 600)
        .second(5_000, 0)
        .second(5_000, 0)
        .second(5_000, 0);
    let verdict = run.verdict();
    let by = verdict.decided_by.unwrap();
    assert_eq!(
        (verdict.outcome, by.slice, by.over, by.scheduled),
        (Fail, 2, 600, 10_600)
    );
    assert_eq!(
        verdict.groups[0]
            .slices
            .iter()
            .map(|slice| slice.judged_over[0])
            .collect::<Vec<_>>(),
        [0, 600, 0]
    );
    let mut run = Run::new(1, 1, 3);
    let verdict = run
        .second(5_000, 0)
        .second(5_000, 600)
        .second(5_000, 900)
        .verdict();
    assert!(
        texts(&verdict)[0].contains("in slice 3, the worst from slice 2 on"),
        "{verdict}"
    );
}

#[test]
fn one_bad_device_fails_the_run_although_all_devices_together_pass() {
    let verdict = Run::new(8, 1, 1).second(5_000, 300).verdict();
    assert_eq!(verdict.outcome, Fail);
    assert_eq!(
        verdict.decided_by.unwrap().device.as_deref(),
        Some("/dev/d0")
    );
    assert_eq!(verdict.groups.len(), 9);
    assert_eq!(verdict.groups[0].device.as_ref(), None);
    assert_eq!(verdict.groups[0].slices[0].scheduled, 40_300);
}

#[test]
fn a_remainder_is_judged_with_the_slice_before_it_and_alone_from_3000_operations_up() {
    // A run of 3 s with slices of 2 s; 5 % of the operations may be slow.
    let judged = |fast, slow| {
        let mut run = Run::new(1, 2, 3);
        run.second(5_000, 0)
            .second(5_000, 0)
            .second(fast, slow)
            .verdict()
    };
    let verdict = judged(5_000, 500);
    assert_eq!(verdict.outcome, Fail, "9.1 % of it alone");
    let complete: Vec<_> = verdict.groups[0]
        .slices
        .iter()
        .map(|slice| slice.complete)
        .collect();
    assert_eq!(complete, [true, false]);
    let outcome = judged(2_500, 499).outcome;
    assert_eq!(
        outcome, Pass,
        "2,999 operations count with the slice before them only: 3.8 %"
    );
    let verdict = judged(2_000, 684);
    assert_eq!(
        texts(&verdict)[0],
        "5.39 % of reads on /dev/d0 took over 1 ms in slice 1 and the remainder after it (684 of 12,684; it must be below 5 %)"
    );
    assert_eq!(code(&verdict), OverLimit);
}

#[test]
fn without_a_complete_slice_the_incomplete_slice_is_judged_and_a_note_says_this() {
    // 1,000 slow operations of 10,100: 1,100 ran in the first second, and 9,000 more were due in the slice of 10 s.
    let verdict = Run::new(1, 10, 7200)
        .second(100, 1_000)
        .stopped(End::interrupted("SIGINT"));
    assert_eq!((verdict.outcome, verdict.partial), (Fail, true));
    assert_eq!(
        texts(&verdict),
        [
            "at least 9.90 % of reads on /dev/d0 took over 1 ms in slice 1 (1,000 of 10,100 due in the whole \
             slice; it must be below 5 %)",
            "stopped by SIGINT after 1 of 7,200 s; the run had already failed",
            "no slice of 10 s is complete, so the incomplete slice was judged; the deciding share counts all operations due in \
             the whole slice; shares in tables, in charts and in \"where the time went\" count only the operations that ran \
             before the stop",
        ]
    );
}

#[test]
fn a_slice_cut_short_fails_only_if_the_whole_slice_could_not_have_passed() {
    let stopped = |slice_sec| {
        let mut run = Run::new(1, slice_sec, 7200);
        run.second(1_000, 900).stopped(End::Unrecorded)
    };
    let verdict = stopped(3600);
    assert_eq!(verdict.outcome, Invalid);
    assert_eq!(verdict.groups[0].slices[0].whole, Some(3_600_900));
    let open = "slow so far, but the rest of the slice could have made up for them";
    assert!(texts(&verdict)[0].ends_with(open), "{:?}", verdict.reasons);
    // 900 slow operations are more than 5 % of the 16,900 due in 16 s, but less than 5 % of the 18,900 due in 18 s.
    assert_eq!((stopped(16).outcome, stopped(18).outcome), (Fail, Invalid));
    // A slice longer than the run has only the 16,900 operations due in the 16 s of the run.
    let mut run = Run::new(1, 3600, 16);
    assert_eq!(
        run.second(1_000, 900).stopped(End::Unrecorded).outcome,
        Fail
    );
    assert_eq!(
        run.verdict().outcome,
        Fail,
        "a completed run is judged by the operations that ran"
    );
}

proptest::proptest! {
    #[test]
    fn a_stopped_run_does_not_fail_if_fast_operations_in_its_rest_would_make_it_pass(
        seconds in proptest::collection::vec((0_u64..1_000, 0_u64..400), 1..12), slice_sec in 1_u64..8
    ) {
        // 1,000 operations are due in each second.
        let duration_sec = 12;
        let mut run = Run::new(1, slice_sec, duration_sec);
        for (_, slow) in &seconds {
            run.second(1_000 - slow, *slow);
        }
        let stopped = run.stopped(End::interrupted("SIGINT")).outcome;
        while run.next < duration_sec {
            run.second(1_000, 0);
        }
        let best = run.verdict().outcome;
        proptest::prop_assert!(stopped != Pass || seconds.len() as u64 == duration_sec);
        if best == Pass {
            proptest::prop_assert_ne!(stopped, Fail);
        }
    }
}

/// A run of two seconds with several streams, of which the first has `limits` of its own.
fn with_own_limits(limits: StreamLimits, reads: u64, slow: u64) -> Verdict {
    let mut run = Run::new(1, 1, 2).planned(|plan| plan.streams[0].limits = Some(limits));
    run.second(reads, slow).second(reads, slow).verdict()
}

#[test]
fn a_stream_is_judged_by_limits_of_its_own_and_not_by_those_of_the_run() {
    let sla = |text: &str| StreamLimits {
        sla: Some(text.parse().unwrap()),
        ..StreamLimits::default()
    };
    let verdict = with_own_limits(sla("20%>1ms"), 4_500, 500);
    assert_eq!(verdict.outcome, Pass);
    assert_eq!(code(&verdict), Held, "10 % are more than the run's 5 %");
    let found = verdict.worst.len();
    assert_eq!(found, 1, "the run's other thresholds limit nothing here");
    let verdict = with_own_limits(sla("2%>1ms"), 4_850, 150);
    assert_eq!(
        texts(&verdict)[0],
        "3.00 % of reads on /dev/d0 took over 1 ms in slice 1 (150 of 5,000; it must be below 2 %)"
    );
}

#[test]
fn an_interval_that_stopped_early_completes_no_slice() {
    let mut run = Run::new(1, 1, 10);
    run.add(|interval| {
        interval.end_ns = SEC / 2;
        interval.cells[0].record(&Times::new(0, 0, 0, 1), 0, 1536);
    });
    assert!(!run.verdict().groups[0].slices[0].complete);
}

#[test]
fn an_interrupted_run_that_would_pass_is_invalid() {
    let mut run = Run::new(1, 1, 60);
    let verdict = run.second(5_000, 0).stopped(End::interrupted("SIGTERM"));
    assert_eq!(verdict.outcome, Invalid);
    assert_eq!(verdict.outcome.exit_code(), 4);
    assert!(verdict.partial);
    assert_eq!(
        texts(&verdict),
        ["stopped by SIGTERM after 1 of 60 s; so far the run would pass"]
    );
    assert_eq!(run.stopped(End::Unrecorded).outcome, Invalid);
    assert_eq!(
        run.stopped(End::RecordingFailed {
            why: "disk full".into()
        })
        .outcome,
        Invalid
    );
}

#[test]
fn operations_never_issued_are_over_every_threshold() {
    let verdict = judged(|interval| {
        (0..9_000).for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, 1), 0, 1536));
        interval.cells[0].record_unissued(9, 0);
    });
    let slice = &verdict.groups[0].slices[0];
    assert_eq!(slice.scheduled, 9_009);
    assert_eq!(&slice.judged_over[..], &[9, 9, 9][..]);
    assert_eq!(
        verdict.outcome, Pass,
        "9 of 9,009 are below 0.1 %: {:?}",
        verdict.reasons
    );
    assert_eq!(verdict.streams[0].unissued, 9);
}

#[test]
fn any_io_error_fails_even_of_a_stream_that_is_not_judged() {
    let mut run = Run::new(1, 1, 1);
    run.second(5_000, 0);
    run.add(|interval| {
        interval.cells[1].record_errors(1, 0);
    });
    let verdict = run.verdict();
    assert_eq!((verdict.outcome, verdict.outcome.exit_code()), (Fail, 1));
    assert_eq!(
        verdict.reasons[0].text,
        "1 I/O error (1 large-block-writes): any error fails the run"
    );
}

#[test]
fn failed_operations_do_not_count_as_slow() {
    let with_errors = |slow: u64, errors: u64, wrong_data: u64| {
        judged(|interval| {
            (0..9_000)
                .for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
            (0..slow).for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, 2 * MS), 0, 1536));
            interval.cells[0].record_errors(errors, wrong_data);
        })
    };
    let codes = |verdict: &Verdict| {
        verdict
            .reasons
            .iter()
            .map(|reason| reason.code)
            .collect::<Vec<_>>()
    };
    let verdict = with_errors(0, 1_000, 0);
    assert_eq!(verdict.outcome, Fail, "{verdict}");
    assert_eq!(codes(&verdict), vec![IoError], "{verdict}");
    assert_eq!(verdict.decided_by.as_ref().unwrap().over, 0);
    assert_eq!(
        verdict.groups[0].slices[0].judged_over, [1_000; 3],
        "the counts keep them"
    );
    let verdict = with_errors(600, 400, 400);
    assert_eq!(codes(&verdict), [WrongData, OverLimit], "{verdict}");
    assert_eq!(
        texts(&verdict),
        [
            "400 operations with wrong data (400 reads): wrong data fails the run",
            "6.00 % of reads on /dev/d0 took over 1 ms in slice 1 (600 of 10,000; it must be below 5 %)"
        ]
    );
    let verdict = judged(|interval| interval.cells[0].record_errors(10, 0));
    assert_eq!(&verdict.decided_by, &None);
    assert_eq!(verdict.reasons[0].code, IoError, "nothing has a latency");
    let mut verdict = with_errors(0, 2, 1);
    verdict.describe_failures(
        vec!["read of 512 bytes failed".into()],
        vec!["expected 1, found 2".into()],
    );
    assert_eq!(codes(&verdict), [WrongData, IoError]);
    assert!(
        texts(&verdict)[0].ends_with("; the first: expected 1, found 2"),
        "{verdict}"
    );
    assert!(
        texts(&verdict)[1].ends_with("; the first: read of 512 bytes failed"),
        "{verdict}"
    );
    assert!(verdict.is_broken());
}

#[test]
fn errors_after_a_sleep_of_the_machine_are_not_the_drive_s() {
    let mut run = Run::new(1, 10, 10);
    run.second(5_000, 0).add(|interval| {
        interval.cells[0].record_errors(1_000, 0);
        interval.cells[0].record_lost(SEC);
    });
    let asleep = |errors_before| {
        run.stopped(End::Suspended {
            asleep_ms: 90_000,
            errors_before,
        })
    };
    let verdict = asleep(0);
    assert_eq!(verdict.outcome, Invalid);
    assert_eq!(code(&verdict), Suspended);
    assert!(verdict.partial);
    assert!(
        texts(&verdict)[0].starts_with("stopped because the machine slept for 90 s: "),
        "{verdict}"
    );
    let verdict = asleep(1);
    assert_eq!(verdict.outcome, Fail, "{verdict}");
    assert_eq!(code(&verdict), IoError, "{verdict}");
}

#[test]
fn transactions_that_fail_are_no_io_errors() {
    for (tested, stalls) in [
        (TestedObject::Store, "the device"),
        (TestedObject::Server, "the server"),
    ] {
        let closed = crate::testing::layout(&[("reads", true)], 0.0, ["a".to_owned()]);
        let plan = JudgePlan {
            tested,
            ..JudgePlan::new(&closed, Sla::default(), 1, 1, 1)
        };
        let mut judge = Judge::new(plan);
        let mut interval = Interval::new(&closed);
        interval.end_ns = SEC;
        interval.cells[0].record_errors(1, 0);
        judge.add(&interval);
        let verdict = judge.verdict(&End::Completed);
        assert_eq!(
            verdict.reasons[0].text,
            "1 failed transaction (1 reads): any error fails the run"
        );
        let mut with_code = verdict.clone();
        with_code.describe_failures(vec!["read of 1 failed: result code 8: full".into()], vec![]);
        let of_server = "look for the cause of this error in the server's log: result code 8: full";
        let action = match tested {
            TestedObject::Server => of_server,
            _ => LOOK_AT_DRIVE,
        };
        assert_eq!(with_code.headline().action.as_deref(), Some(action));
        let note = format!("reads are a closed loop: no operation is issued while {stalls} stalls");
        assert!(
            verdict
                .reasons
                .iter()
                .any(|reason| reason.text.starts_with(&note)),
            "{:?}",
            verdict.reasons
        );
    }
}

#[test]
fn own_lag_makes_a_verdict_invalid_only_if_the_lag_would_decide() {
    let lagging = |count: u64| {
        judged(|interval| {
            for n in 0..10_000 {
                let issued_ns = if n < count { 3 * MS } else { 0 };
                interval.cells[0].record(&Times::new(0, 0, issued_ns, issued_ns + 1), 0, 1536);
            }
        })
    };
    assert_eq!(lagging(400).outcome, Pass);
    let verdict = lagging(600);
    assert_eq!(verdict.outcome, Invalid);
    assert_contains!(
        verdict.reasons[0].text,
        "with this lag, 6.00 % of reads on /dev/d0 took over 1 ms"
    );
    assert_eq!(verdict.groups[0].slices[0].judged_over[0], 0);
}

#[test]
fn the_headline_of_a_stopped_run_names_the_stop_even_if_the_host_was_too_busy() {
    let mut run = Run::new(1, 1, 1);
    run.add(|interval| {
        for _ in 0..1_000 {
            let times = Times::new(0, 0, 3 * MS, 3 * MS + 1);
            interval.cells[0].record(&times, 0, 1536);
        }
    });
    assert_eq!(code(&run.verdict()), ReasonCode::OwnLag);
    let signal = "SIGINT".to_owned();
    let stopped = run.stopped(End::Interrupted { signal });
    assert_eq!(code(&stopped), ReasonCode::OwnLag);
    let said = stopped.headline();
    assert!(
        said.sentence.starts_with("stopped by SIGINT after "),
        "{said}"
    );
    assert_eq!(said.action.as_deref(), Some("run again, to the end"));
}

#[test]
fn operations_that_were_issued_late_make_a_failure_invalid_only_when_they_would_decide() {
    let late = |lag_ns: u64| {
        judged(|interval| {
            for n in 0..10_000_u64 {
                // 6 % of the reads take 2 ms: the burst that was issued late.
                let (issued_ns, service_ns) = if n < 600 {
                    (lag_ns, 2 * MS)
                } else {
                    (0, MS / 10)
                };
                interval.cells[0].record(
                    &Times::new(0, 0, issued_ns, issued_ns + service_ns),
                    0,
                    1536,
                );
            }
        })
    };
    assert_eq!(late(MS - 1).outcome, Fail, "late, but not by the threshold");
    let verdict = late(MS);
    assert_eq!(verdict.outcome, Invalid);
    assert_contains!(verdict.reasons[0].text, "issued over 1 ms late");
}

#[test]
fn completions_seen_late_make_a_failure_invalid_only_if_they_would_decide() {
    let unseen_in = |service_ns: u64, unseen_ns: u64, has_keys: bool| {
        let mut run = Run::new(1, 1, 1);
        run.judge.plan.has_keys = has_keys;
        run.add(|interval| {
            for n in 0..10_000 {
                let (service_ns, unseen_ns) = if n < 600 {
                    (service_ns, unseen_ns)
                } else {
                    (1, 1_000)
                };
                interval.cells[0].record(&Times::new(0, 0, 0, service_ns), unseen_ns, 1536);
                interval.gap.record(unseen_ns).unwrap();
            }
        });
        run.verdict()
    };
    let unseen = |service_ns, unseen_ns| unseen_in(service_ns, unseen_ns, true);
    assert_eq!(
        unseen(MS + 10_000, 40_000).outcome,
        Fail,
        "40 us are harmless"
    );
    assert_eq!(
        unseen(2 * MS, 60_000).outcome,
        Fail,
        "it took over 1 ms in any case"
    );
    let verdict = unseen(MS + 10_000, 60_000);
    assert_eq!(verdict.outcome, Invalid);
    assert_eq!(verdict.gaps.limit_ns, 50_000);
    assert_eq!(verdict.gaps.over, 600);
    assert_starts_with!(
        verdict.reasons[0].text,
        "this program may have caused the slow operations: 6.00 % of reads"
    );
    assert_contains!(
        verdict.reasons[0].text,
        "completions noticed over 50 us late"
    );
    let verdict = unseen(MS - 10_000, 60_000);
    assert_eq!(
        verdict.outcome, Pass,
        "gaps make a device look slower, never faster"
    );
    assert_starts_with!(
        verdict.reasons[1].text,
        "latencies are overstated: 6.00 % of 10,000 completions"
    );
    // A replay has no key `pacing`.
    for service_ns in [MS + 10_000, MS - 10_000] {
        let advised =
            [true, false].map(|has_keys| unseen_in(service_ns, 60_000, has_keys).to_string());
        let found = advised.map(|text| text.contains("pacing: spin"));
        assert_eq!(found, [true, false]);
    }
}

#[test]
fn the_owner_of_the_delay_decides_the_outcome_of_a_stop_for_lag() {
    let mut run = Run::new(1, 1, 60);
    run.second(5_000, 0);
    let lag = |whose| End::LagExceeded {
        lane: "reads@/dev/d0".into(),
        whose,
        lag_ms: 10_200,
        lag_max_ms: 10_000,
        in_flight: 128,
        in_flight_max: 128,
    };
    assert_eq!(run.stopped(lag(DelayOwner::Device)).outcome, Fail);
    assert_eq!(run.stopped(lag(DelayOwner::Limit)).outcome, Fail);
    // The counts decide who caused the delay, whatever the slots looked like at that moment.
    for (waiting, late, outcome) in [(900, 100, Fail), (100, 900, Invalid)] {
        let mut run = Run::new(1, 1, 60);
        run.add(|interval| {
            interval.cells[0].counts.backlog = Backlog {
                in_flight: 128,
                waiting,
                late,
            };
        });
        let verdict = run.stopped(lag(DelayOwner::Limit));
        assert_eq!(verdict.outcome, outcome);
        let is_ours = matches!(
            verdict.end,
            End::LagExceeded {
                whose: DelayOwner::Ours,
                ..
            }
        );
        assert_eq!(is_ours, outcome == Invalid, "and the verdict says so");
    }
    let verdict = run.stopped(lag(DelayOwner::Ours));
    assert_eq!(verdict.outcome, Invalid);
    assert_eq!(
        verdict.reasons[0].text,
        "stopped because reads@/dev/d0 was 10.2 s late (max-lag-sec 10), with 128 of at most 128 operations in \
         flight; the bottleneck was this program; this says nothing about the device"
    );
    assert_eq!(
        run.stopped(End::DeviceGone {
            device: "/dev/d0".into()
        })
        .outcome,
        Fail
    );
    assert_eq!(
        run.stopped(End::TooManyErrors {
            errors: 11,
            errors_max: 10
        })
        .outcome,
        Fail
    );
}

#[test]
fn the_headline_of_a_failure_names_the_cause_that_the_blame_found() {
    let lag = |whose| End::LagExceeded {
        lane: "reads@/dev/d0".into(),
        whose,
        lag_ms: 10_200,
        lag_max_ms: 10_000,
        in_flight: 128,
        in_flight_max: 128,
    };
    let blame = |stream: &str, device: &str, cause, reached_without: &[Cause]| Blame {
        stream: stream.into(),
        device: Some(device.into()),
        slice: 1,
        from_sec: None,
        threshold_ns: MS,
        over: 1,
        scheduled: 1,
        parts: [cause, Cause::Device]
            .map(|cause| BlamePart {
                cause,
                share: Some(0.5),
                evidence: String::new(),
            })
            .into(),
        sentence: String::new(),
        reached_without: reached_without.to_vec(),
    };
    let run = Run::new(2, 1, 60);
    let mut undone = Run::new(2, 1, 1);
    undone.add(|interval| {
        interval.cells[0].counts.unissued = 5_000;
        interval.cells[0].counts.missed = 5_000;
        interval.cells[0].counts.missed_lower_bound = 5_000;
    });
    let of = |verdict: &Verdict, blame: &[Blame]| {
        let blame = blame.to_vec();
        let headline = Verdict {
            blame,
            ..verdict.clone()
        }
        .headline();
        (headline.sentence, headline.action.unwrap_or_default())
    };
    let of_reads = |cause, without: &[Cause]| [blame("reads", "/dev/d0", cause, without)];
    let kernel = of_reads(Cause::KernelQueue, &[]);
    let slots = of_reads(Cause::SlotWait, &[]);
    let late = run.stopped(lag(DelayOwner::Device));
    let undone = undone.verdict();
    assert_eq!([code(&late), code(&undone)], [FellBehind, NotCarriedOut]);
    for verdict in [&late, &undone] {
        for (blame, action) in [
            (&kernel[..], "look for what holds requests in the kernel"),
            (&slots, "raise the in-flight limit"),
            (
                &of_reads(Cause::SlotWait, &[Cause::SlotWait]),
                "test another drive: even without",
            ),
            (
                &of_reads(Cause::OurLag, &[Cause::OurLag]),
                "find the highest load",
            ),
            (&of_reads(Cause::Heat, &[]), "cool the drive"),
            (&[], "find the highest load"),
            // The kernel's queue is that of the device, the slots are those of the stream.
            (
                &[blame("writes", "/dev/d0", Cause::KernelQueue, &[])],
                "look for what holds requests",
            ),
            (
                &[blame("writes", "/dev/d0", Cause::SlotWait, &[])],
                "find the highest load",
            ),
            (
                &[blame("reads", "/dev/d1", Cause::KernelQueue, &[])],
                "find the highest load",
            ),
        ] {
            assert_starts_with!(of(verdict, blame).1, action);
        }
    }
    let behind = "reads@/dev/d0 fell 10.2 s behind the schedule; the bottleneck was the ";
    for (blame, bottleneck) in [
        (&kernel[..], "kernel before the device"),
        (&slots, "in-flight limit"),
        (&of_reads(Cause::Device, &[]), "device"),
        (&of_reads(Cause::Unknown, &[]), "device or the path to it"),
        (&[], "device or the path to it"),
    ] {
        assert_eq!(of(&late, blame).0, format!("{behind}{bottleneck}"));
    }
    // The limit that stopped the run is the bottleneck, unless the device would be too slow without it as well.
    let limited = run.stopped(lag(DelayOwner::Limit));
    for (blame, action) in [
        (&[][..], "raise the in-flight limit"),
        (&of_reads(Cause::Device, &[]), "raise the in-flight limit"),
        (
            &of_reads(Cause::Device, &[Cause::SlotWait]),
            "test another drive: even without",
        ),
    ] {
        let (sentence, found) = of(&limited, blame);
        assert_eq!(sentence, format!("{behind}configured in-flight limit"));
        assert_starts_with!(found, action);
    }
}

#[test]
fn the_next_step_after_a_stop_follows_from_the_error_that_stopped_the_run() {
    let why = || "it failed".to_owned();
    for (end, action) in [
        (
            End::RecordingFailed { why: why() },
            "free some space or give another --out, then run again",
        ),
        (
            End::EngineFailed { why: why() },
            "fix the cause of this error, then run again",
        ),
        (End::interrupted(why()), "run again, to the end"),
    ] {
        let headline = Run::new(1, 1, 9).second(5_000, 0).stopped(end).headline();
        assert_eq!(headline.action.as_deref(), Some(action));
    }
}

#[test]
fn slices_with_few_operations_are_named_and_a_run_without_operations_is_invalid() {
    let verdict = Run::new(1, 1, 2)
        .second(2_999, 0)
        .second(3_000, 0)
        .verdict();
    assert_eq!(
        verdict
            .insufficient
            .iter()
            .map(|few| (few.slice, few.scheduled))
            .collect::<Vec<_>>(),
        [(1, 2_999)]
    );
    let verdict = Run::new(1, 1, 1).second(0, 0).verdict();
    assert_eq!((verdict.outcome, verdict.decided_by), (Invalid, None));
    assert!(verdict.groups.is_empty());
}

#[test]
fn a_full_day_is_a_certification_load() {
    let mut run = Run::new(1, 3600, 86_400);
    run.second(1, 0);
    assert_eq!(
        run.verdict().class,
        VerdictClass::Screening,
        "a load that ended before its configured duration"
    );
    for hour in 1..=24 {
        // An interval up to the end of the hour.
        run.next = 3_600 * hour - 1;
        run.second(1, 0);
    }
    assert_eq!(run.verdict().class, VerdictClass::CertificationLoad);
}

#[test]
fn the_text_gives_the_verdict_first_then_the_number_then_the_table() {
    let mut run = Run::new(2, 1, 2);
    run.second(5_000, 10).second(50_000, 1);
    let text = run.verdict().to_string();
    let expected = "\
PASS: the load was held: 0.200 % of reads on /dev/d0 took over 1 ms in slice 1 (10 of 5,010; it must be below 5 %)
  screening, limits: below 5 % over 1 ms, below 1 % over 8 ms, below 0.1 % over 64 ms
  not judged: latencies of large-block-writes: no limits apply to these streams

        reads on all devices together
        % over, slices of 1 s
slice       1ms     8ms    64ms
-----   ------- ------- -------
    1      0.10    0.00    0.00
    2     <0.01    0.00    0.00
-----   ------- ------- -------
  avg      0.05    0.00    0.00
  max      0.10    0.00    0.00

        reads on /dev/d0
        % over, slices of 1 s
slice       1ms     8ms    64ms
-----   ------- ------- -------
    1      0.20    0.00    0.00
    2     <0.01    0.00    0.00
-----   ------- ------- -------
  avg      0.10    0.00    0.00
  max      0.20    0.00    0.00

1 more table of a single device is in verdict.json

stream                offered/s   achieved/s   errors     not done
reads                     1,000       55,006        0            0
large-block-writes        1,000         0.00        0            0
";
    assert_eq!(text, expected);
}

#[test]
fn a_verdict_survives_json() {
    let mut run = Run::new(2, 1, 2);
    run.second(4_000, 77).second(3_001, 0);
    let verdict = run.stopped(End::DeviceGone {
        device: "/dev/d1".into(),
    });
    let json = serde_json::to_string(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
    assert_starts_with!(
        json,
        r#"{"format_version":3,"outcome":"fail","class":"screening","partial":true"#
    );
}

#[test]
fn the_achieved_rate_counts_completions_within_the_run_and_a_note_names_a_lower_rate() {
    let verdict = judged(|interval| {
        for n in 0..1_000 {
            interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536);
            interval.cells[0].counts.overtime += u64::from(n < 270);
        }
    });
    assert_eq!(verdict.outcome, Pass, "all were back within a second");
    assert_eq!(verdict.streams[0].achieved_iops, 730.0);
    assert_eq!(verdict.streams[0].overtime, 270);
    let note = "reads achieved 730/s of the offered 1,000/s during the run, because 270 operations completed after its end";
    assert!(texts(&verdict).contains(&note), "{verdict}");
}

#[test]
fn the_share_nearest_to_its_own_limit_decides() {
    let decided_by = |over_1ms: u64, over_64ms: u64| {
        let verdict = judged(|interval| {
            for number in 0..10_000 {
                let ms = if number < over_64ms {
                    65
                } else {
                    2 * u64::from(number < over_1ms)
                };
                interval.cells[0].record(&Times::new(0, 0, 0, ms * MS), 0, 1536);
            }
        });
        let decided_by = verdict.decided_by.unwrap();
        (decided_by.over, decided_by.share_max)
    };
    assert_eq!(
        decided_by(410, 9),
        (9, 0.001),
        "90 % of this limit, and 82 % of the other"
    );
    assert_eq!(
        decided_by(480, 9),
        (480, 0.05),
        "96 % of this limit, and 90 % of the other"
    );
}

#[test]
fn metrics_get_the_shares_of_the_newest_slice_and_none_without_limits() {
    let mut run = Run::new(2, 1, 3);
    run.second(1_000, 500).second(990, 10);
    let shares: Vec<_> = run
        .judge
        .newest_shares()
        .map(|(stream, device, _, share)| (stream, device, share))
        .collect();
    let all = (0, None, 10.0 / 1_990.0);
    let first = (0, Some(0), 0.01);
    assert!(
        shares.contains(&all) && shares.contains(&first) && shares.contains(&(0, Some(1), 0.0)),
        "{shares:?}"
    );
    let found = run.add(|_| ()).judge.newest_shares().count();
    assert_eq!(found, 0, "nothing is due in the newest slice");
    let mut unlimited =
        Run::new(1, 1, 1).planned(|plan| plan.sla = Sla::UNLIMITED.parse().unwrap());
    assert_eq!(unlimited.second(1_000, 10).judge.newest_shares().count(), 0);
}

#[test]
fn a_stream_that_ended_early_has_the_rate_of_the_time_in_which_it_ran() {
    let rate = |errors: u64| {
        let mut run = Run::new(1, 10, 10);
        run.add(|interval| {
            (0..1_000)
                .for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
            interval.cells[0].counts.errors = errors;
            interval.cells[0].counts.last_completion_ns = SEC;
        });
        for _ in 1..10 {
            run.add(|_| ());
        }
        run.verdict().streams[0].achieved_iops
    };
    // The stream's last operation was due one period before the stream's end.
    assert!((rate(0) - 1_000.0 / 1.001).abs() < 1e-6, "{}", rate(0));
    assert_eq!(
        rate(1),
        100.0,
        "an operation that failed may have kept the stream waiting"
    );
}

#[test]
fn operations_that_were_due_in_an_earlier_slice_count_in_that_slice() {
    let fast_and_slow = |interval: &mut Interval| {
        (0..10_000).for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
        let before = interval.cells[0].counts;
        (0..600).for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, 2 * MS), 0, 1536));
        let mut slow = interval.cells[0].counts;
        slow.subtract(&before);
        slow
    };
    let slices = |slice: u64| {
        let mut run = Run::new(1, 1, 2);
        run.second(10_000, 0).add(|interval| {
            let counts = fast_and_slow(interval);
            interval.carried.push(EarlierOps {
                cell: 0,
                step: slice,
                counts,
            });
        });
        let slices = run.verdict().groups.remove(0).slices;
        slices
            .iter()
            .map(|slice| (slice.scheduled, slice.judged_over[0]))
            .collect::<Vec<_>>()
    };
    assert_eq!(slices(0), [(10_600, 600), (10_000, 0)]);
    assert_eq!(slices(1), [(10_000, 0), (10_600, 600)], "their own slice");
    assert_eq!(slices(7), slices(1), "a slice to come, in an edited file");
}

#[test]
fn of_a_stopped_run_only_the_slice_that_was_cut_short_is_extrapolated() {
    let mut run = Run::new(1, 2, 10);
    run.second(500, 0).second(500, 0).second(1_000, 0);
    let slices = run
        .stopped(End::interrupted("SIGINT"))
        .groups
        .remove(0)
        .slices;
    let counts: Vec<_> = slices
        .iter()
        .map(|slice| (slice.scheduled, slice.whole))
        .collect();
    assert_eq!(counts, [(1_000, Some(1_000)), (1_000, Some(2_000))]);
}

#[test]
fn slices_are_whole_intervals_and_at_most_a_tenth_longer_than_requested() {
    assert_eq!(stretched_slice(60, 600, 1), None);
    let found = stretched_slice(100, 104, 7);
    assert_eq!(found, None, "the run is shorter than a slice of 105 s");
    let text = stretched_slice(100, 105, 7).unwrap().unwrap();
    assert!(text.ends_with("so slices last 105 s"), "{text}");
    assert!(
        stretched_slice(70, 700, 11).unwrap().is_ok(),
        "77 s are 10 % longer"
    );
    let refused = stretched_slice(69, 700, 11).unwrap().unwrap_err();
    assert_contains!(refused, "so slices last 77 s, over 10 % longer");
}

#[test]
fn time_without_a_cpu_is_reported_from_5_percent_of_the_runnable_time_on() {
    let text = |run_delay_ns: u64| {
        let verdict = judged(|interval| {
            (interval.run_delay_ns, interval.cpu_ns) = (run_delay_ns, 3 * SEC);
            for number in 0..10_000 {
                let (issued_ns, service_ns) = if number < 600 {
                    (MS, 2 * MS)
                } else {
                    (0, MS / 10)
                };
                interval.cells[0].record(
                    &Times::new(0, 0, issued_ns, issued_ns + service_ns),
                    0,
                    1536,
                );
            }
        });
        texts(&verdict).join("\n")
    };
    let waited =
        "this program's threads waited for a CPU during 25.0 % of the time in which they could run";
    assert!(text(SEC).contains(waited), "{}", text(SEC));
    assert!(
        !text(SEC / 10).contains("waited for a CPU"),
        "{}",
        text(SEC / 10)
    );
}

#[test]
fn a_closed_loop_is_named_in_a_note_and_certifies_nothing() {
    let mut run = Run::new(1, 86_400, 86_400).planned(|plan| {
        plan.streams[0].offered_iops = 0.0;
        plan.report_interval_sec = 86_400;
    });
    run.add(|interval| {
        interval.end_ns = 86_400 * SEC;
        (0..4_000).for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
    });
    let verdict = run.verdict();
    assert_eq!(verdict.outcome, Pass);
    assert_eq!(verdict.class, VerdictClass::Screening);
    let is_named = texts(&verdict)
        .iter()
        .any(|text| text.starts_with("reads are a closed loop: "));
    assert!(is_named, "{:?}", verdict.reasons);
}
