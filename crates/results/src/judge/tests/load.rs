//! Known answers about the load: carried out, held up, lost, late, silent, or slower than a minimum rate.

use super::*;
use crate::{assert_contains, assert_starts_with};

#[test]
fn a_stopped_closed_loop_cannot_fail_by_its_rate() {
    let mut run = Run::new(1, 3600, 7200).planned(|plan| plan.streams[0].offered_iops = 0.0);
    assert_eq!(
        run.second(10, 990).stopped(End::Unrecorded).outcome,
        Invalid
    );
    assert_eq!(run.verdict().outcome, Fail);
}

/// A second with 1,000 fast reads, and 500 unjudged large-block writes, of which `missed` did not complete in time.
fn missing(run: &mut Run, missed: u64, ours: u64) {
    run.add(|interval| {
        (0..1_000).for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
        let cell = interval.cells.len() / 2;
        (0..500).for_each(|_| interval.cells[cell].record(&Times::new(0, 0, 0, MS), 0, 131_072));
        interval.cells[cell].record_missed(missed, ours);
    });
}

#[test]
fn an_unjudged_stream_fails_the_run_if_its_load_was_not_carried_out() {
    let mut run = Run::new(1, 2, 4);
    for missed in [0, 2, 100, 200] {
        missing(&mut run, missed, 0);
    }
    let verdict = run.verdict();
    assert_eq!((verdict.outcome, code(&verdict)), (Fail, NotCarriedOut));
    assert_eq!(
        texts(&verdict)[0],
        "the load of large-block-writes on /dev/d0 was not carried out in slice 2, the worst from slice 1 on: 300 of \
         1,000 operations (30.0 %) had not completed 1 s after the end of the slice; at most 0.1 % may be missing; the \
         load was not carried out in 2 slices in all"
    );
    assert_eq!((verdict.undone.len(), verdict.undone[0].slices), (1, 2));
}

#[test]
fn a_load_that_this_program_delayed_is_invalid_and_one_operation_may_be_missing() {
    let ended = |missed, ours| {
        let mut run = Run::new(1, 2, 2);
        missing(&mut run, 0, 0);
        missing(&mut run, missed, ours);
        run.verdict()
    };
    assert_eq!(ended(1, 0).outcome, Pass);
    let verdict = ended(600, 599);
    assert_eq!((verdict.outcome, code(&verdict)), (Invalid, OwnLag));
    assert!(
        texts(&verdict)[0].contains("this program delayed the load, not the device"),
        "{verdict}"
    );
    assert_eq!(ended(600, 598).outcome, Fail, "the device alone left two");
    // In slice 1 this program delayed 600, in slice 2 the device 100: the smaller number is the device's.
    let mut run = Run::new(1, 1, 2);
    missing(&mut run, 600, 600);
    missing(&mut run, 100, 0);
    let verdict = run.verdict();
    assert_eq!(verdict.outcome, Fail);
    assert_eq!(verdict.undone[0].slice, 2);
    assert_eq!(verdict.undone[0].missed, 100);
}

#[test]
fn a_shortfall_is_shown_as_a_sentence_with_its_counts() {
    let shortfall = Shortfall {
        scheduled_ops: 1_200,
        overdue_ops: 1_100,
        is_own_delay: false,
    };
    assert_eq!(
        shortfall.to_string(),
        "1,100 of 1,200 operations were due over 1 s ago and had not completed"
    );
}

#[test]
fn a_slice_cut_short_does_not_fail_by_missing_operations_that_could_have_caught_up() {
    let mut run = Run::new(1, 2, 4);
    missing(&mut run, 400, 0);
    let verdict = run.stopped(End::interrupted("SIGINT"));
    assert_eq!((verdict.outcome, verdict.undone.len()), (Invalid, 0));
    // A run that ended regularly without a complete slice is judged by its incomplete slice.
    assert_eq!(run.stopped(End::Completed).outcome, Fail);
    // A remainder counts with the slice before it.
    let mut run = Run::new(1, 2, 3);
    missing(&mut run, 0, 0);
    missing(&mut run, 0, 0);
    missing(&mut run, 2, 0);
    let verdict = run.verdict();
    assert_eq!(verdict.outcome, Fail);
    assert_eq!(&verdict.undone[0].scheduled, &1_500);
}

#[test]
fn the_stream_that_held_the_slots_is_named_before_those_that_waited_for_them() {
    let mut run = Run::new(2, 1, 1);
    run.add(|interval| {
        for cell in 0..2 {
            (0..100)
                .for_each(|_| interval.cells[cell].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
            interval.cells[cell].record_unissued(100, 0);
        }
        // Reads of d0 waited for the slots that reads of d1 held.
        interval.cells[0].counts.slots_used_by = 2;
    });
    let verdict = run.verdict();
    assert!(
        texts(&verdict)[0].starts_with("the load of reads on /dev/d1 was not carried out"),
        "{verdict}"
    );
    assert!(
        texts(&verdict)[1].ends_with("; these operations waited for slots that reads@/dev/d1 held"),
        "{verdict}"
    );
}

#[test]
fn one_lost_operation_fails_the_run_and_counts_as_slower_than_every_limit() {
    for cell in 0..2 {
        let verdict = judged(|interval| {
            (0..9_999)
                .for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
            interval.cells[cell].record_lost(SEC / 2);
        });
        assert_eq!((verdict.outcome, code(&verdict)), (Fail, Lost));
        let name = ["reads", "large-block-writes"][cell];
        assert_eq!(
            texts(&verdict)[0],
            format!("/dev/d0 completed nothing after 500 ms: 1 {name} never completed")
        );
        assert_eq!(verdict.groups[0].slices[0].judged_over[2], [1, 0][cell]);
    }
}

#[test]
fn operations_of_an_unjudged_stream_may_be_late_by_max_lag_sec() {
    let late = |count| {
        let mut run = Run::new(1, 1, 1).planned(|plan| {
            plan.streams[1].late_ns = Some(10 * SEC);
        });
        run.layout.streams[1].late_ns = Some(10 * SEC);
        run.add(|interval| {
            interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536);
            for n in 0..1_000 {
                let service_ns = if n < count { 11 * SEC } else { MS };
                interval.cells[1].record(&Times::new(0, 0, 0, service_ns), 0, 131_072);
            }
        });
        run.verdict()
    };
    assert_eq!(late(0).outcome, Pass);
    let verdict = late(2);
    assert_eq!((verdict.outcome, code(&verdict)), (Fail, Late), "{verdict}");
    assert!(
        texts(&verdict)[0]
            .ends_with("the latest after 11 s (max-lag-sec; at most 0.1 % may be late)"),
        "{verdict}"
    );
}

#[test]
fn a_silence_across_two_slices_counts_as_a_whole_only_with_overlapping_windows() {
    let silent = |step_sec| {
        let mut run = Run::new(1, 4, 8).planned(|plan: &mut JudgePlan| {
            (plan.streams[0].offered_iops, plan.window_step_sec) = (0.0, step_sec)
        });
        for second in 0..8 {
            run.add(|interval| {
                (0..1_000)
                    .for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
                interval.cells[0].counts.silent_ns =
                    if [3, 4].contains(&second) { 3 * MS } else { 0 };
            });
        }
        run.verdict()
    };
    assert_eq!(silent(4).outcome, Pass, "3 ms in each slice of 4 s");
    let verdict = silent(2);
    assert_eq!((verdict.outcome, code(&verdict)), (Fail, Silence));
    let said = "/dev/d0 completed no reads for over 64 ms at a time, in all for 6 ms of 4 s in the 4 s from 0:00:02 (0.150 %)";
    assert!(texts(&verdict)[0].starts_with(said), "{verdict}");
}

#[test]
fn a_device_may_be_silent_under_a_closed_loop_for_the_share_of_the_largest_threshold() {
    let silent = |silent_ns| {
        let mut run = Run::new(1, 10, 10).planned(|plan| plan.streams[0].offered_iops = 0.0);
        for second in 0..10 {
            run.add(|interval| {
                interval.cells[0].counts.silent_ns = if second == 5 { silent_ns } else { 0 };
                (0..5_000)
                    .for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
            });
        }
        run.verdict()
    };
    assert_eq!(silent(9 * MS).outcome, Pass);
    let verdict = silent(10 * MS);
    assert_eq!(verdict.outcome, Fail, "{verdict}");
    assert_eq!(code(&verdict), Silence, "{verdict}");
    assert_eq!(
        texts(&verdict)[0],
        "/dev/d0 completed no reads for over 64 ms at a time, in all for 10 ms of 10 s in slice 1 (0.100 %); this fraction must \
         be below 0.1 %"
    );
}

#[test]
fn a_slow_device_under_a_closed_loop_fails_first_by_its_limit_and_then_by_silence() {
    let closed = |slow_ops| {
        let mut run = Run::new(1, 1, 1).planned(|plan| plan.streams[0].offered_iops = 0.0);
        run.add(|interval| {
            (0..5_000).for_each(|number| {
                let service_ns = if number < slow_ops { 65 * MS } else { MS / 10 };
                interval.cells[0].record(&Times::new(0, 0, 0, service_ns), 0, 1536);
            });
            interval.cells[0].counts.silent_ns = SEC / 2;
        });
        run.verdict()
    };
    let slow = closed(5_000);
    let codes: Vec<_> = slow.reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(
        (slow.outcome, &codes[..2]),
        (Fail, &[OverLimit, Silence][..])
    );
    assert_starts_with!(slow.headline().sentence, "too slow: 100 % of reads");
    // Four slow reads are below the limit of 0.1 %, so only the silence fails the run.
    let stalled = closed(4);
    assert_eq!((stalled.outcome, code(&stalled)), (Fail, Silence));
}

#[test]
fn a_silence_as_long_as_this_program_lacked_a_cpu_fails_no_device() {
    let silent = |run_delay_ns, cpu_ns| {
        let mut run = Run::new(1, 1, 1).planned(|plan| plan.streams[0].offered_iops = 0.0);
        run.add(|interval| {
            (0..5_000)
                .for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
            interval.cells[0].counts.silent_ns = SEC / 5;
            (interval.run_delay_ns, interval.cpu_ns) = (run_delay_ns, cpu_ns);
        });
        let verdict = run.verdict();
        (verdict.outcome, code(&verdict))
    };
    assert_eq!(silent(SEC / 5, SEC / 10), (Invalid, OwnLag));
    let found = silent(SEC / 10, SEC / 20);
    assert_eq!(found, (Fail, Silence), "half of the silence is unexplained");
    let found = silent(SEC / 5, SEC / 5);
    assert_eq!(found, (Fail, Silence), "the CPUs were not saturated");
}

#[test]
fn without_limits_a_load_that_was_carried_out_is_measured_and_an_unmet_load_fails() {
    let measured = |missed| {
        let layout = layout(1);
        let mut run = Run::new(1, 1, 1);
        run.judge = Judge::new(JudgePlan::new(
            &layout,
            Sla::UNLIMITED.parse().unwrap(),
            1,
            1,
            1,
        ));
        missing(&mut run, missed, 0);
        run.verdict()
    };
    let verdict = measured(0);
    assert_eq!(verdict.outcome, Measured);
    assert_eq!(code(&verdict), NoLimits);
    assert_eq!(verdict.outcome.exit_code(), 0);
    assert_eq!(code(&measured(2)), NotCarriedOut);
}

#[test]
fn a_stream_below_its_minimum_rate_fails_and_a_stream_at_the_minimum_passes() {
    let least = |least_iops, least_bytes_per_sec| StreamLimits {
        sla: None,
        least_iops,
        least_bytes_per_sec,
    };
    let verdict = with_own_limits(least(Some(1_000.0), None), 1_000, 0);
    assert_eq!(verdict.outcome, Pass, "{:?}", texts(&verdict));
    let verdict = with_own_limits(least(Some(1_000.0), None), 999, 0);
    assert_eq!(verdict.outcome, Fail);
    assert_eq!(code(&verdict), BelowRate);
    assert_eq!(
        texts(&verdict)[0],
        "reads did 999 operations/s in slice 1 (the minimum is 1,000/s)"
    );
    let verdict = with_own_limits(least(None, Some(1_537_000.0)), 1_000, 0);
    assert_eq!(code(&verdict), BelowRate, "1,000 reads of 1,536 bytes");
}

#[test]
fn a_minimum_rate_missed_for_lack_of_cpu_fails_no_device() {
    let delayed = |run_delay_ns| {
        let limits = StreamLimits {
            least_iops: Some(1_000.0),
            ..StreamLimits::default()
        };
        let mut run = Run::new(1, 1, 1).planned(|plan| plan.streams[0].limits = Some(limits));
        run.add(|interval| {
            (0..900).for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
            interval.run_delay_ns = run_delay_ns;
        });
        let verdict = run.verdict();
        (verdict.outcome, code(&verdict))
    };
    assert_eq!(delayed(SEC / 5), (Invalid, OwnLag));
    assert_eq!(delayed(SEC / 20), (Fail, BelowRate));
}

#[test]
fn a_run_without_counts_of_late_operations_is_undecidable_if_too_many_were_outstanding() {
    let is_undecidable = |overtime: u64| {
        let mut run = Run::new(1, 1, 1);
        run.add(|interval| {
            (0..10_000)
                .for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
            interval.cells[0].counts.overtime = overtime;
        });
        run.judge.is_undecidable()
    };
    assert_eq!(
        [0, 10, 11].map(is_undecidable),
        [false, false, true],
        "0.1 % may be missing"
    );
}

#[test]
fn the_burst_at_the_start_of_a_closed_loop_is_not_part_of_its_rate() {
    // 16 operations in flight: 16 of the 1,000 were issued at once, and as many complete after the end.
    let judged_by = |least_iops: f64| {
        let limits = StreamLimits {
            least_iops: Some(least_iops),
            ..StreamLimits::default()
        };
        let mut run = Run::new(1, 1, 1).planned(|plan| {
            plan.streams[0].limits = Some(limits);
            plan.streams[0].offered_iops = 0.0;
        });
        run.add(|interval| {
            (0..1_000)
                .for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
            interval.cells[0].counts.overtime = 16;
        });
        run.verdict()
    };
    assert_eq!(judged_by(984.0).outcome, Pass);
    let verdict = judged_by(985.0);
    assert_eq!(
        texts(&verdict)[0],
        "reads did 984 operations/s in slice 1 (the minimum is 985/s)"
    );
}

#[test]
fn a_run_without_limits_reports_how_many_operations_were_late() {
    let late = |late_ops: u64| {
        let mut run = Run::new(1, 1, 1).planned(|plan| plan.sla = Sla::UNLIMITED.parse().unwrap());
        run.add(|interval| {
            let cell = &mut interval.cells[0];
            (0..10_000).for_each(|_| cell.record(&Times::new(0, 0, 0, MS / 10), 0, 1536));
            (cell.counts.late, cell.counts.late_max_ns) = (late_ops, 2 * SEC * late_ops.min(1));
        });
        texts(&run.verdict()).join("\n")
    };
    assert_contains!(late(3), "3 of them over 1 s late, the latest after 2 s");
    assert!(late(0).ends_with("all operations completed"), "{}", late(0));
}
