//! Runs that an earlier version judged wrongly, found by random draws.

use super::draw::{Draw, Drive, LaneArrivals, LaneDraw, StreamDraw};
use super::{compare, run};
use results::assert_contains;
use results::judge::Verdict;

const MS: u64 = 1_000_000;

/// A closed loop of `depth` operations under a limit of one slot, with a pause of 5 ms before each operation. The drive
/// takes 0.1 ms for all operations but `others`.
fn closed(
    depth: u32,
    sla: &'static str,
    slice_sec: u64,
    duration_sec: u64,
    others: &[(usize, Option<u64>)],
) -> Verdict {
    let lane = LaneDraw {
        stream: 0,
        devices: vec![0],
        limit: 0,
        arrivals: LaneArrivals::Closed {
            depth,
            think_ns: 5 * MS,
        },
        until_ns: u64::MAX,
    };
    let others = others
        .iter()
        .map(|(index, service_ns)| ((0, *index), *service_ns))
        .collect();
    let draw = Draw {
        drives: vec![Drive::Listed {
            base_ns: MS / 10,
            others,
        }],
        streams: vec![StreamDraw {
            judged: true,
            per_sec: 0,
            late_ns: None,
            own: None,
        }],
        lanes: vec![lane],
        limits: vec![1],
        sla,
        interval_sec: 1,
        slice_sec,
        duration_sec,
        hang_sec: 2,
        signal_ns: None,
        away_ns: Vec::new(),
    };
    let judged = run(&draw, 1);
    assert_eq!(
        compare::differences(&draw, &judged.verdict, &judged.found),
        [""; 0]
    );
    judged.verdict
}

#[test]
fn a_silence_across_the_end_of_a_slice_is_divided_between_both_slices() {
    // Operation 312 begins at 1.596 s: 404 ms of its 500 lie in the second slice, 96 in the third.
    let verdict = closed(1, "50%>500ms", 1, 3, &[(312, Some(500 * MS + 1))]);
    assert_eq!(verdict.outcome.exit_code(), 0, "{:?}", verdict.reasons);
}

#[test]
fn a_silence_across_the_end_of_the_run_counts_only_up_to_the_end() {
    // Operation 587 begins 1.3 ms before the end, which is over 0.1 % of the slice.
    let verdict = closed(1, "0.1%>64ms", 1, 3, &[(587, Some(1_800 * MS))]);
    assert!(
        verdict
            .reasons
            .iter()
            .any(|reason| reason.text.contains(" completed no ")),
        "{:?}",
        verdict.reasons
    );
}

#[test]
fn silence_in_an_incomplete_last_slice_is_judged_even_if_no_operation_was_due_in_that_slice() {
    // Operation 977 begins 12 ms before the end of the only slice and takes until after the end of the run.
    let verdict = closed(1, "10%>100ms", 5, 6, &[(977, Some(2_000 * MS))]);
    assert_contains!(verdict.reasons[0].text, "for 1.01 s of 6 s in slice 1");
}

#[test]
fn a_lost_operation_of_a_closed_loop_belongs_to_the_slice_in_which_it_was_issued() {
    // Operation 390 holds the only slot from 999.5 ms on for 50 ms, and operation 391 holds it for ever.
    let verdict = closed(2, "50%>500ms", 1, 3, &[(390, Some(50 * MS)), (391, None)]);
    let over: Vec<_> = verdict.groups[0]
        .slices
        .iter()
        .map(|slice| slice.judged_over[0])
        .collect();
    assert_eq!(over, [0, 1, 0]);
}

#[test]
fn operations_due_while_this_program_had_no_cpu_are_charged_to_no_drive() {
    let arrivals = LaneArrivals::Even {
        per_sec: 100,
        first: 0,
        stride: 1,
        phase: 0,
    };
    let draw = Draw {
        drives: vec![Drive::Listed {
            base_ns: MS / 10,
            others: Default::default(),
        }],
        streams: vec![StreamDraw {
            judged: true,
            per_sec: 100,
            late_ns: None,
            own: None,
        }],
        lanes: vec![LaneDraw {
            stream: 0,
            devices: vec![0],
            limit: 0,
            arrivals,
            until_ns: 5_000 * MS,
        }],
        limits: vec![64],
        sla: "100%>3600s",
        interval_sec: 1,
        slice_sec: 8,
        duration_sec: 9,
        hang_sec: 2,
        signal_ns: None,
        // The program gets a CPU again half a second after the last instant at which waiting operations may be issued.
        away_ns: vec![(4_800 * MS, 6_500 * MS)],
    };
    let verdict = run(&draw, 1).verdict;
    assert!(
        verdict.undone.len() == 1 && verdict.undone[0].ours,
        "{:?}",
        verdict.undone
    );
    assert_eq!(verdict.outcome.exit_code(), 4, "{:?}", verdict.reasons);
}
