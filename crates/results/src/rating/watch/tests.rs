//! Steps that are held, fail, move, or are cut short, interval by interval.

use super::*;
use crate::judge::Sla;
use crate::testing::layout;
use crate::times::Times;

const RATE: u64 = 1000;

fn manifest() -> Manifest {
    let layout = layout(&[("reads", true)], RATE as f64, ["d"]);
    Manifest { duration_sec: 1000, slice_sec: 50, round_sec: 1, ..Manifest::new(&layout, Sla::default()) }
}

/// Runs a step of one round a second in which `slow(round)` of 1,000 reads take 2 ms, and those beyond `done`
/// stay undone, until it is enough or 30 rounds are over; judges it.
fn step(target: Target, done: u64, slow: impl Fn(u64) -> u64) -> (Judged, Option<String>) {
    let manifest = manifest();
    let (mut watcher, mut judge, mut enough) = (Watcher::new(&manifest, target), manifest.judge(), None);
    for index in 0..30 {
        let mut interval = Interval::new(&manifest.layout());
        (interval.index, interval.end_ns) = (index, (index + 1) * 1_000_000_000);
        for op in 0..done {
            let service_ns = if op < slow(index) { 2_000_000 } else { 100_000 };
            interval.cells[0].record(&Times::new(0, 0, 0, service_ns), 0, 512);
        }
        interval.cells[0].backlog.waiting = (RATE - done) * (index + 1);
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
fn a_steady_step_within_the_limits_ends_after_five_rounds_and_is_held() {
    let (judged, enough) = step(Target::Steady, RATE, |_| 30);
    assert_eq!(enough.as_deref(), Some("steady after 5 rounds"));
    assert_eq!((judged.seen, judged.rounds, judged.rounds_judged), (Seen::Held, 5, 5), "{}", judged.why);
    assert_eq!(judged.why, "steady and within the limits: 3.00 % over 1ms of reads on d (limit 5 %)");
    assert_eq!((judged.shares[0].share[0], judged.shares[0].margin[0]), (0.03, 0.0));
}

#[test]
fn what_moves_is_waited_for_and_judged_where_it_is_steady() {
    // 4.5 % falling to 1 %, then steady.
    let (judged, _) = step(Target::Steady, RATE, |round| 45_u64.saturating_sub(7 * round).max(10));
    assert_eq!(judged.seen, Seen::Held, "{}", judged.why);
    assert_eq!(judged.rounds, 10, "from the sixth round on it is 1 %");
    assert_eq!(judged.shares[0].share[0], 0.01);
}

#[test]
fn two_rounds_at_the_limit_are_a_cliff_once_a_whole_slice_could_not_pass() {
    // 5 % of the 50,000 of a slice are 2,500: 60 and three times 900.
    let (judged, enough) = step(Target::Steady, RATE, |round| if round < 3 { 10 + 10 * round } else { 900 });
    assert_eq!((judged.seen, judged.rounds), (Seen::Failed, 6));
    assert_eq!(judged.why, "90.0 % over 1ms of reads on d in 2 rounds in a row (limit 5 %)");
    assert_eq!(enough.as_deref(), Some(judged.why.as_str()));
}

#[test]
fn a_stall_that_a_slice_allows_is_no_cliff_where_it_lies_in_two_rounds() {
    let stall = |round| if (1..3).contains(&round) { 1_000 } else { 10 };
    let (judged, enough) = step(Target::Steady, RATE, stall);
    assert_eq!((judged.seen, enough.as_deref()), (Seen::Held, Some("steady after 8 rounds")), "{}", judged.why);
}

#[test]
fn one_bad_round_is_no_cliff_but_counts_while_it_is_in_the_window() {
    let (judged, enough) = step(Target::Steady, RATE, |round| if round == 2 { 200 } else { 10 });
    assert_eq!(enough.as_deref(), Some("steady after 8 rounds"), "once it is out of the window");
    assert_eq!(judged.seen, Seen::Held);
    // Over a whole slice it is judged with the others: 1 % and (200 - 10) / 12 / 1000.
    let (judged, _) = step(Target::Whole(12), RATE, |round| if round == 2 { 600 } else { 10 });
    assert_eq!((judged.seen, judged.rounds_judged), (Seen::Failed, 12));
    assert_eq!(judged.why, "5.92 % over 1ms of reads on d over 12 rounds (limit 5 %)");
}

#[test]
fn what_never_settles_is_not_steady_and_says_what_moves() {
    let (judged, enough) = step(Target::Steady, RATE, |round| 10 + 20 * (round % 2));
    assert_eq!(enough.as_deref(), Some("not steady within 25 rounds"));
    assert_eq!(judged.seen, Seen::NotSteady);
    assert!(judged.why.contains("share over 1 ms of reads on d ranges over"), "{}", judged.why);
}

#[test]
fn a_load_that_is_not_done_is_not_held() {
    // After five rounds 1,010 wait, of which 1,000 came due in the last second.
    let (judged, _) = step(Target::Steady, RATE * 798 / 1000, |_| 0);
    assert_eq!(judged.seen, Seen::Failed);
    assert!(judged.why.ends_with("10 of 5,000 operations were due over 1 s ago and not back"), "{}", judged.why);
    let (judged, _) = step(Target::Steady, RATE * 799 / 1000, |_| 0);
    assert_eq!(judged.seen, Seen::Held, "five are a thousandth");
}

#[test]
fn a_recovery_lasts_until_the_earlier_shares_return() {
    let (earlier, _) = step(Target::Steady, RATE, |_| 20);
    let (judged, enough) =
        step(Target::Return(earlier.shares.clone()), RATE, |round| 45_u64.saturating_sub(5 * round).max(20));
    assert_eq!(
        enough.as_deref(),
        Some("the earlier shares returned after 6 rounds"),
        "2.5 % is within a tenth of the limit"
    );
    assert_eq!((judged.seen, judged.why.as_str()), (Seen::Held, "the earlier shares returned"));
    let (judged, _) = step(Target::Return(earlier.shares), RATE, |_| 35);
    assert_eq!(judged.seen, Seen::Held);
    assert!(judged.why.contains("at other shares than before"), "{}", judged.why);
}

#[test]
fn a_drive_that_is_slow_to_recover_is_waited_for() {
    let (earlier, _) = step(Target::Steady, RATE, |_| 20);
    // Far over the limit for ten rounds, which is why it has to recover.
    let (judged, enough) = step(Target::Return(earlier.shares), RATE, |round| if round < 10 { 900 } else { 20 });
    assert_eq!(enough.as_deref(), Some("the earlier shares returned after 12 rounds"));
    assert_eq!((judged.seen, judged.rounds_judged, judged.shares[0].share[0]), (Seen::Held, 2, 0.02), "{}", judged.why);
}

#[test]
fn a_confirmation_that_ends_in_motion_is_not_steady() {
    let (judged, _) = step(Target::Whole(24), RATE, |round| if round < 12 { 10 } else { 10 + 3 * (round - 11) });
    assert_eq!(judged.seen, Seen::NotSteady, "{}", judged.why);
    let (judged, _) = step(Target::Whole(24), RATE, |round| if round == 23 { 40 } else { 10 });
    assert_eq!(judged.seen, Seen::Held, "one odd round at the end: {}", judged.why);
}

/// A step in which this program issued `late` of 1,000 reads 2 ms late.
fn late(late: u64) -> Judged {
    let manifest = manifest();
    let (mut watcher, mut judge) = (Watcher::new(&manifest, Target::Steady), manifest.judge());
    for index in 0..5 {
        let mut interval = Interval::new(&manifest.layout());
        (interval.index, interval.end_ns) = (index, (index + 1) * 1_000_000_000);
        for op in 0..RATE {
            let lag_ns = if op < late { 2_000_000 } else { 0 };
            interval.cells[0].record(&Times::new(0, 0, lag_ns, lag_ns + 100_000), 0, 512);
        }
        judge.add(&interval);
        watcher.add(&interval);
    }
    watcher.judge(&judge.verdict(&End::Enough { why: "steady".into() }))
}

#[test]
fn what_our_own_lag_would_decide_is_no_rating() {
    assert_eq!(late(30).seen, Seen::Held, "3 % by our lag change nothing");
    let judged = late(70);
    assert_eq!(judged.seen, Seen::OurLimit);
    assert_eq!(judged.why, "with our own lag 7.00 % over 1ms of reads on d (limit 5 %): it would decide");
}

#[test]
fn a_step_that_is_broken_off_or_stopped_by_lag_is_told_apart() {
    let manifest = manifest();
    let watcher = Watcher::new(&manifest, Target::Steady);
    let seen = |end: &End| watcher.judge(&manifest.judge().verdict(end)).seen;
    assert_eq!(seen(&End::Interrupted { signal: "SIGINT".into() }), Seen::Interrupted);
    assert_eq!(seen(&End::DeviceGone { device: "d".into() }), Seen::Broken);
    let lag = |whose| End::LagExceeded {
        lane: "reads@d".into(),
        whose,
        lag_ms: 11_000,
        lag_max_ms: 10_000,
        in_flight: 5,
        in_flight_max: 5,
    };
    assert_eq!(seen(&lag(crate::judge::Whose::Device)), Seen::Failed);
    assert_eq!(seen(&lag(crate::judge::Whose::Ours)), Seen::OurLimit);
    assert_eq!(seen(&End::Completed), Seen::NotSteady, "not even one round");
}
