//! Steps that are held, fail, move, or are cut short, interval by interval.

use super::*;
use StepOutcome::{Failed, Held, OurLimit};
use results::judge::Sla;
use results::testing::layout;
use results::times::Times;

const RATE: u64 = 1000;

fn manifest() -> Manifest {
    let layout = layout(&[("reads", true)], RATE as f64, ["d"]);
    Manifest {
        duration_sec: 1000,
        slice_sec: 50,
        round_sec: 1,
        ..Manifest::new(&layout, Sla::default())
    }
}

const TRY: StepPurpose = StepPurpose::Try {
    wait_sec: 0.0,
    exact: false,
};
const EXACT: StepPurpose = StepPurpose::Try {
    wait_sec: 0.0,
    exact: true,
};

/// Runs and judges a step of up to 50 rounds of one second. Each round has 1,000 reads, of which `done` complete and
/// `slow(round)` take 2 ms.
fn step(target: StepPurpose, done: u64, slow: impl Fn(u64) -> u64) -> (JudgedStep, Option<String>) {
    let manifest = manifest();
    let mut watcher = Watcher::new(&manifest, target, 50);
    let mut judge = manifest.judge();
    let mut enough = None;
    for index in 0..50 {
        let mut interval = Interval::new(&manifest.layout());
        (interval.index, interval.end_ns) = (index, (index + 1) * 1_000_000_000);
        for op in 0..done {
            let service_ns = if op < slow(index) { 2_000_000 } else { 100_000 };
            interval.cells[0].record(&Times::new(0, 0, 0, service_ns), 0, 512);
        }
        interval.cells[0].counts.backlog.waiting = (RATE - done) * (index + 1);
        judge.add(&interval);
        enough = watcher.add(&interval);
        if enough.is_some() {
            break;
        }
    }
    let end = match &enough {
        Some(why) => End::Enough { why: why.clone() },
        None => End::Completed,
    };
    (watcher.judge(&judge.verdict(&end)), enough)
}

#[test]
fn a_settled_step_within_the_limits_ends_after_six_rounds_and_is_held() {
    let (judged, enough) = step(TRY, RATE, |_| 30);
    assert_eq!(enough.as_deref(), Some("settled after 6 rounds"));
    assert_eq!(
        (judged.seen, judged.rounds, judged.rounds_judged),
        (Held, 6, 6),
        "{}",
        judged.why
    );
    assert_eq!(
        judged.why,
        "within the limits: 3.00 % of reads on d over 1ms (limit 5 %)"
    );
    assert_eq!(
        (judged.shares[0].share[0], judged.shares[0].margin[0]),
        (0.03, 0.0)
    );
}

#[test]
fn on_a_simulated_drive_a_step_near_its_limit_runs_for_the_whole_slice() {
    let (judged, enough) = step(EXACT, RATE, |_| 30);
    assert_eq!(
        (judged.seen, judged.rounds, judged.whole, enough),
        (Held, 50, true, None)
    );
    let (judged, _) = step(EXACT, RATE, |_| 20);
    assert_eq!((judged.seen, judged.rounds, judged.whole), (Held, 6, false));
}

#[test]
fn shares_that_change_are_judged_once_they_are_settled() {
    // The share of slow reads falls from 4.9 % to 3 %.
    let (judged, _) = step(TRY, RATE, |round| 49_u64.saturating_sub(4 * round).max(30));
    assert_eq!(judged.seen, Held, "{}", judged.why);
    assert_eq!(judged.rounds, 8, "halves of 3.7 % and 3.0 %");
    let (judged, _) = step(TRY, RATE, |round| if round < 5 { 200 } else { 10 });
    assert_eq!(
        (judged.seen, judged.rounds),
        (Held, 11),
        "until nothing of the beginning is in the window"
    );
}

#[test]
fn a_step_is_judged_over_at_least_four_slow_spells_of_this_or_earlier_steps() {
    // Every 10 s, all reads that are due within 0.2 s are slow: 2 % of all reads.
    let stalls = |round| if round % 10 == 5 { 200 } else { 0 };
    let (judged, _) = step(TRY, RATE, stalls);
    assert_eq!(
        (judged.seen, judged.rounds, judged.rounds_judged),
        (Held, 40, 40),
        "{}",
        judged.why
    );
    assert_eq!(
        (judged.spells[0].count, judged.longest_wait_sec()),
        (4, 10.0)
    );
    let (judged, _) = step(
        StepPurpose::Try {
            wait_sec: 5.0,
            exact: false,
        },
        RATE,
        |_| 10,
    );
    assert_eq!((judged.seen, judged.rounds_judged), (Held, 20));
    // Stalls twice as often: 4 % of all reads, and more than the limit in one round of five.
    let (judged, _) = step(TRY, RATE, |round| if round % 5 == 2 { 200 } else { 0 });
    assert_eq!(
        (judged.seen, judged.rounds_judged),
        (Held, 20),
        "{}",
        judged.why
    );
}

#[test]
fn a_step_ends_once_the_rest_cannot_make_up_for_its_slow_operations() {
    // 5 % of the step's 50,000 operations are 2,500; 60 plus three times 900 slow operations exceed this.
    let (judged, enough) = step(
        TRY,
        RATE,
        |round| if round < 3 { 10 + 10 * round } else { 900 },
    );
    assert_eq!((judged.seen, judged.rounds), (Failed, 6));
    assert_eq!(
        judged.why,
        "46.0 % of reads on d over 1ms in 6 s (limit 5 %), so the whole step cannot pass"
    );
    assert_eq!(enough.as_deref(), Some(judged.why.as_str()));
    let (judged, _) = step(StepPurpose::Whole, RATE, |_| 60);
    assert_eq!(
        (judged.seen, judged.rounds, judged.whole),
        (Failed, 42, false)
    );
}

#[test]
fn a_stall_that_the_rest_of_the_slice_can_make_up_for_does_not_fail_the_step() {
    let stall = |round| if (1..3).contains(&round) { 1_000 } else { 10 };
    let (judged, _) = step(TRY, RATE, stall);
    assert_eq!((judged.seen, judged.rounds), (Held, 11), "{}", judged.why);
    let (judged, _) = step(EXACT, RATE, stall);
    assert_eq!((judged.seen, judged.rounds), (Held, 11), "{}", judged.why);
}

#[test]
fn a_whole_slice_is_judged_with_all_of_its_rounds() {
    let (judged, _) = step(
        StepPurpose::Whole,
        RATE,
        |round| if round == 2 { 600 } else { 10 },
    );
    assert_eq!(
        (judged.seen, judged.rounds_judged, judged.whole),
        (Held, 50, true)
    );
    assert_eq!(
        judged.why,
        "within the limits: 2.18 % of reads on d over 1ms (limit 5 %)"
    );
}

#[test]
fn a_load_that_is_not_carried_out_is_not_held() {
    // After six rounds, 1,212 operations wait; 1,000 of them came due in the last second.
    let (judged, _) = step(TRY, RATE * 798 / 1000, |_| 0);
    assert_eq!(judged.seen, Failed);
    let why = "212 of 6,000 operations were due over 1 s ago and had not completed";
    assert!(judged.why.ends_with(why), "{}", judged.why);
    let (judged, _) = step(TRY, RATE * 834 / 1000, |_| 0);
    assert_eq!(judged.seen, Held, "none is overdue");
}

#[test]
fn a_recovery_lasts_until_the_earlier_shares_return() {
    let (earlier, _) = step(TRY, RATE, |_| 20);
    let (judged, enough) = step(StepPurpose::Return(earlier.shares.clone()), RATE, |round| {
        45_u64.saturating_sub(5 * round).max(20)
    });
    // 2.5 % is within a tenth of the limit.
    assert_eq!(
        enough.as_deref(),
        Some("the earlier shares of slow operations returned after 6 rounds")
    );
    assert_eq!(
        (judged.seen, judged.why.as_str()),
        (Held, "the earlier shares of slow operations returned")
    );
    assert!(!judged.has_moved);
    let (judged, _) = step(StepPurpose::Return(earlier.shares), RATE, |_| 35);
    assert_eq!(judged.seen, Held);
    assert!(judged.has_moved, "{}", judged.why);
}

#[test]
fn a_drive_that_is_slow_to_recover_is_waited_for() {
    let (earlier, _) = step(TRY, RATE, |_| 20);
    // The share is far over the limit for the first ten rounds.
    let (judged, enough) = step(StepPurpose::Return(earlier.shares), RATE, |round| {
        if round < 10 { 900 } else { 20 }
    });
    assert_eq!(
        enough.as_deref(),
        Some("the earlier shares of slow operations returned after 12 rounds")
    );
    assert_eq!(
        (judged.seen, judged.rounds_judged, judged.shares[0].share[0]),
        (Held, 2, 0.02),
        "{}",
        judged.why
    );
}

#[test]
fn a_held_slice_with_a_worse_second_half_gets_a_warning() {
    let (judged, _) = step(
        StepPurpose::Whole,
        RATE,
        |round| if round < 25 { 10 } else { 60 },
    );
    assert_eq!(judged.seen, Held, "{}", judged.why);
    assert_eq!(
        judged.why,
        "within the limits: 3.50 % of reads on d over 1ms (limit 5 %); getting worse, a longer run may fail: 1.00 % of \
         reads on d over 1ms in the first half of 50 rounds, 6.00 % in the second half (limit 5 %)"
    );
    let (judged, _) = step(
        StepPurpose::Whole,
        RATE,
        |round| if round < 25 { 10 } else { 40 },
    );
    assert!(
        !judged.why.contains("getting worse"),
        "worse, and within the limit: {}",
        judged.why
    );
    // The fifth stall, in round 37, brings the step over its limit.
    let (judged, _) = step(StepPurpose::Whole, RATE, |round| {
        if round % 10 == 7 || round == 33 {
            600
        } else {
            0
        }
    });
    assert_eq!(judged.seen, Failed, "{}", judged.why);
    // 3.6 % in the first half, and 5.4 % in the second, which has one stall more by chance: no conclusion.
    let (judged, _) = step(StepPurpose::Whole, RATE, |round| {
        if round % 10 == 9 { 450 } else { 0 }
    });
    assert!(!judged.why.contains("getting worse"), "{}", judged.why);
}

#[test]
fn a_first_spell_that_began_in_the_last_rounds_is_recorded_as_unfinished() {
    let ends = |slow: fn(u64) -> u64| step(StepPurpose::Whole, RATE, slow).0.ends_in_new_spell;
    assert!(ends(|round| if round >= 44 { 60 } else { 0 }));
    assert!(
        !ends(|round| if round >= 43 { 60 } else { 0 }),
        "six rounds show it"
    );
    assert!(
        !ends(|round| if round == 45 { 60 } else { 0 }),
        "it has ended"
    );
    assert!(
        !ends(|round| if round == 5 || round >= 44 { 60 } else { 0 }),
        "the drive had such a spell before"
    );
}

/// A step in which this program issued `late` of every 1,000 reads with a delay of 2 ms.
fn late(late: u64) -> JudgedStep {
    let manifest = manifest();
    let mut watcher = Watcher::new(&manifest, TRY, 50);
    let mut judge = manifest.judge();
    for index in 0..6 {
        let mut interval = Interval::new(&manifest.layout());
        (interval.index, interval.end_ns) = (index, (index + 1) * 1_000_000_000);
        for op in 0..RATE {
            let lag_ns = if op < late { 2_000_000 } else { 0 };
            interval.cells[0].record(&Times::new(0, 0, lag_ns, lag_ns + 100_000), 0, 512);
        }
        judge.add(&interval);
        watcher.add(&interval);
    }
    watcher.judge(&judge.verdict(&End::Enough {
        why: "steady".into(),
    }))
}

#[test]
fn a_share_that_only_own_lag_brings_over_its_limit_does_not_count_against_the_drive() {
    assert_eq!(late(30).seen, Held, "3 % by our lag change nothing");
    let judged = late(70);
    assert_eq!(judged.seen, OurLimit);
    let why = "with this program's own lag, 7.00 % of reads on d are over 1ms (limit 5 %): the lag would decide, not the drive";
    assert_eq!(judged.why, why);
}

#[test]
fn steps_that_were_interrupted_lost_their_device_or_lagged_have_different_outcomes() {
    let manifest = manifest();
    let watcher = Watcher::new(&manifest, TRY, 50);
    let seen = |end: &End| watcher.judge(&manifest.judge().verdict(end)).seen;
    assert_eq!(seen(&End::interrupted("SIGINT")), StepOutcome::Interrupted);
    assert_eq!(
        seen(&End::DeviceGone { device: "d".into() }),
        StepOutcome::Broken
    );
    let lag = |whose| End::LagExceeded {
        lane: "reads@d".into(),
        whose,
        lag_ms: 11_000,
        lag_max_ms: 10_000,
        in_flight: 5,
        in_flight_max: 5,
    };
    assert_eq!(seen(&lag(results::judge::DelayOwner::Device)), Failed);
    assert_eq!(seen(&lag(results::judge::DelayOwner::Ours)), OurLimit);
    assert_eq!(
        seen(&End::Completed),
        StepOutcome::NotSteady,
        "not even one round"
    );
}
