//! A new batch of drives, judged with the drives of earlier campaigns as further peers.

use super::generator::{Plan, Population, draw};
use conclusions::population::{Examination, PopulationLevel, UndecidedReason, examine};

/// `batch` drives of a new campaign and `old` drives of an earlier one, for six hours. `spread`:
/// [`Plan::drive_spread`].
fn population(batch: usize, old: usize, spread: f64, seed: u64) -> Population {
    let plan = Plan {
        drives: batch + old,
        drives_of_host: 2,
        drive_spread: spread,
        host_spread: spread / 2.0,
        seconds: 21_600,
        window_s: 60,
        ..Plan::healthy()
    };
    let mut population = draw(&plan, seed);
    for (drive, labels) in population.labels.iter_mut().enumerate() {
        labels.campaign = if drive < batch { "new" } else { "old" }.into();
    }
    population
}

fn slow_down(population: &mut Population, drives: std::ops::Range<usize>, factor: f64) {
    for window in population.windows[drives].iter_mut().flatten() {
        window.mean_ns *= factor;
        window.p50_ns *= factor;
        window.p99_ns *= factor;
    }
}

fn judged(population: &Population, batch: usize) -> Examination {
    let windows: Vec<_> = population.windows.iter().map(Vec::as_slice).collect();
    examine(&population.labels, &windows, batch)
}

/// Number of slow drives that were found, of campaigns that were found to differ, and of false alarms.
#[derive(Debug, Default)]
struct Named {
    first: u64,
    campaign: u64,
    others: u64,
}

/// Findings in `count` batches of `batch` drives. The first `slow` drives are slower by `factor`, all drives by
/// `shift`.
fn named(batch: usize, spread: f64, slow: usize, factor: f64, shift: f64, count: u64) -> Named {
    let mut named = Named::default();
    for seed in 0..count {
        let mut population = population(batch, 22, spread, 3_000_000 + seed);
        slow_down(&mut population, 0..slow, factor);
        slow_down(&mut population, 0..batch, shift);
        let found = judged(&population, batch);
        let is_first = |of: &&conclusions::population::SlowGroup| {
            of.level == PopulationLevel::Drive && of.drives[0] < slow
        };
        let first = found.slow.iter().filter(is_first).count() as u64;
        named.first += first;
        found
            .slow
            .iter()
            .filter(|of| !is_first(of))
            .for_each(|of| println!("    false alarm, seed {seed}: {of}"));
        named.others += found.slow.len() as u64 - first;
        named.campaign += u64::from(
            found
                .undecided
                .iter()
                .any(|of| matches!(of.reason, UndecidedReason::OtherCampaign { .. })),
        );
    }
    named
}

#[test]
fn a_slow_drive_of_a_batch_is_named_and_a_slow_campaign_is_not_blamed_on_its_drives() {
    let one_slow = named(2, 0.01, 1, 1.5, 1.0, 20);
    assert!(one_slow.first >= 19 && one_slow.others == 0, "{one_slow:?}");
    for (batch, slow, shift) in [
        (1, 0, 1.5),
        (2, 0, 1.5),
        (2, 0, 0.7),
        (24, 0, 1.2),
        (2, 2, 1.0),
    ] {
        let of = named(batch, 0.01, slow, 1.3, shift, 8);
        assert_eq!(
            (of.first, of.campaign, of.others),
            (0, 8, 0),
            "{batch} {slow} {shift}"
        );
    }
    let in_slow_campaign = named(24, 0.01, 1, 1.5, 1.3, 5);
    assert_eq!((in_slow_campaign.first, in_slow_campaign.campaign), (5, 5));
}

#[test]
fn drives_of_other_campaigns_serve_as_peers_and_are_never_reported_as_slow() {
    let mut population = population(2, 22, 0.01, 1);
    slow_down(&mut population, 10..11, 3.0);
    population.windows[12].truncate(5);
    let found = judged(&population, 2);
    assert!(
        found.slow.is_empty() && found.undecided.is_empty(),
        "{found:?}"
    );
    assert_eq!((found.factors.len(), found.compared[0].drives), (2, 23));
    slow_down(&mut population, 1..2, 3.0);
    let found = judged(&population, 2);
    assert_eq!((found.slow.len(), &*found.slow[0].drives), (1, &[1][..]));
    let factor = found.slow[0].evidence.factor;
    assert!((factor - 3.0).abs() < 0.3, "{factor}");
    // In a batch of a single drive, a slow drive and a slow campaign look the same.
    slow_down(&mut population, 0..1, 2.0);
    let found = judged(&population, 1);
    assert_eq!(found.slow, []);
    let text = found.undecided[0].to_string();
    assert!(
        text.contains("campaign \"new\": its drives are ")
            && text.contains(" times as slow as 22 drives"),
        "{text}"
    );
}

#[test]
#[ignore = "minutes: scripts/soak runs it"]
fn found_drives_and_false_alarms_in_batches_of_two_are_printed() {
    let percent: u64 =
        std::env::var("FLASHPROOF_POPULATIONS").map_or(100, |text| text.parse().expect("percent"));
    for spread in [0.01, 0.03] {
        for shift in [1.0, 1.05, 1.08, 1.5] {
            let count = 2_000 * percent / 100;
            let of = named(2, spread, 0, 1.0, shift, count);
            println!("spread {spread}, campaign at {shift}x, {count} healthy batches of 2: {of:?}");
        }
        for shift in [1.0, 1.05, 1.5] {
            for factor in [1.15, 1.3, 2.0] {
                for slow in [1, 2] {
                    let of = named(2, spread, slow, factor, shift, 2 * percent);
                    println!(
                        "spread {spread}, campaign at {shift}x, {slow} of 2 at {factor}x: {of:?}"
                    );
                }
            }
        }
    }
}
