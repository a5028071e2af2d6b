//! A run whose share of slow reads doubles after 200 s, live and from its directory.

use super::*;
use crate::cell::Interval;
use crate::judge::Sla;
use crate::run_dir::{Manifest, RunWriter};
use crate::testing::layout;
use crate::times::Times;
use crate::{assert_contains, assert_starts_with};
use std::path::Path;

fn manifest(devices: usize) -> Manifest {
    let layout = layout(
        &[("writes", false), ("reads", true)],
        100.0,
        (0..devices).map(|device| format!("d{device}")),
    );
    Manifest {
        duration_sec: 600,
        slice_sec: 600,
        round_sec: 20,
        ..Manifest::new(&layout, Sla::default())
    }
}

/// An interval of one second with 100 reads per device, of which `slow` take 2 ms.
fn interval(manifest: &Manifest, index: u64, slow: u64) -> Interval {
    let layout = manifest.layout();
    let mut interval = Interval::new(&layout);
    (interval.index, interval.end_ns) = (index, (index + 1) * 1_000_000_000);
    for device in 0..layout.devices.len() {
        for op in 0..100 {
            let service_ns = if op < slow { 2_000_000 } else { 100_000 };
            interval.cells[layout.cell(1, device)].record(&Times::new(0, 0, 0, service_ns), 0, 512);
        }
    }
    interval
}

/// Slow reads in each hundred: 2 in the first 200 s, then 4.
fn slow(index: u64) -> u64 {
    if index < 200 { 2 } else { 4 }
}

fn recorded(dir: &Path, manifest: &Manifest, seconds: u64) -> Rounds {
    let mut live = Rounds::new(manifest);
    let mut writer = RunWriter::create(dir, manifest, &[]).unwrap();
    for index in 0..seconds {
        let interval = interval(manifest, index, slow(index));
        live.add(&interval);
        writer.write_interval(&interval, &[]).unwrap();
    }
    writer
        .finish(&manifest.judge().verdict(&crate::judge::End::Completed))
        .unwrap();
    live
}

#[test]
fn rounds_of_a_live_run_equal_the_rounds_read_from_its_directory() {
    for devices in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let manifest = manifest(devices);
        let live = recorded(dir.path(), &manifest, 410);
        let read = Rounds::read(dir.path(), &manifest).unwrap();
        assert_eq!(
            (live.count(), live.series.len()),
            (20, if devices == 1 { 1 } else { 3 }),
            "half a round is none"
        );
        for (live, read) in live.series.iter().zip(&read.series) {
            assert_eq!(live.group, read.group);
            for (live, read) in live.rounds.iter().zip(&read.rounds) {
                let without = |round: &Round| Round {
                    p99_ns: None,
                    ..*round
                };
                assert_eq!(without(live), without(read));
                let live = live.p99_ns.unwrap();
                let read = read.p99_ns.unwrap();
                assert!(
                    live.abs_diff(read) <= 2 * 1024,
                    "the log keeps 1 us apart: {live} {read}"
                );
            }
        }
        assert_eq!(
            Steadiness::from_rounds(&live).reached_round,
            Steadiness::from_rounds(&read).reached_round
        );
    }
}

#[test]
fn a_steady_state_and_a_lasting_shift_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(1);
    let steadiness = Steadiness::from_rounds(&recorded(dir.path(), &manifest, 600));
    assert_eq!(steadiness.rounds, 30);
    assert_eq!(steadiness.reached_round, Some(5));
    assert!(steadiness.steady_at_end);
    let shares: Vec<_> = steadiness
        .change_points
        .iter()
        .filter(|point| {
            point.metric
                == RoundMetric::ShareOver {
                    threshold_ns: 1_000_000,
                }
        })
        .collect();
    assert_eq!(shares.len(), 1, "{:?}", steadiness.change_points);
    assert_eq!(shares[0].round, 11);
    assert_eq!(shares[0].at_sec, 200);
    assert_eq!(shares[0].before, 0.02);
    assert_eq!(shares[0].after, 0.04);
    assert_eq!(
        shares[0].to_string(),
        "the share over 1 ms of reads on d0 went from 2.00 % to 4.00 % after 200 s"
    );
    // Windows that end in rounds 11 to 14 have rounds of both levels, so their range is too large.
    assert_eq!(
        steadiness.sentence(),
        "steady from round 15 of 30 on (5.0 min; rounds of 20 s); first steady at round 5, but it did not stay steady"
    );
}

#[test]
fn just_after_a_shift_a_run_is_not_steady_and_the_sentence_names_the_metric() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(1);
    let steadiness = Steadiness::from_rounds(&recorded(dir.path(), &manifest, 260));
    assert_eq!(steadiness.rounds, 13);
    assert_eq!(steadiness.reached_round, Some(5));
    assert!(!steadiness.steady_at_end);
    let sentence = steadiness.sentence();
    assert_contains!(sentence, "but not at the end", "share over 1 ms");
}

#[test]
fn four_rounds_are_too_few_for_a_steady_state() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(1);
    let steadiness = Steadiness::from_rounds(&recorded(dir.path(), &manifest, 99));
    assert_eq!(steadiness.reached_round, None);
    assert!(!steadiness.steady_at_end);
    assert_starts_with!(
        steadiness.sentence(),
        "cannot tell if the run is steady: 4 whole rounds of 20 s"
    );
}

#[test]
fn without_service_hlog_the_rounds_of_a_run_have_shares_but_no_p99() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(1);
    recorded(dir.path(), &manifest, 200);
    std::fs::remove_file(dir.path().join("service.hlog")).unwrap();
    let read = Rounds::read(dir.path(), &manifest).unwrap();
    assert!(
        read.series[0]
            .rounds
            .iter()
            .all(|round| round.p99_ns.is_none() && round.scheduled_ops == 2000)
    );
    let steadiness = Steadiness::from_rounds(&read);
    assert_eq!(steadiness.reached_round, Some(5));
    assert_eq!(steadiness.windows.len(), 4, "three shares and the rate");
}

#[test]
fn a_slow_spell_is_consecutive_slow_intervals_and_distances_are_from_start_to_start() {
    let mut spells = Spells::default();
    for second in 1..=60_u64 {
        spells.add(
            second * 1_000_000_000,
            matches!(second, 5 | 6 | 25 | 26 | 27 | 35),
        );
    }
    assert_eq!(spells.count, 3);
    assert_eq!(spells.first_sec, 5.0);
    assert_eq!(spells.apart_sec, 20.0);
    assert!(!spells.is_lone());
}

fn window(metric: RoundMetric, values: [f64; 5], limit: Option<f64>) -> MetricWindow {
    MetricWindow::new(
        &Group {
            stream: "reads".into(),
            device: None,
        },
        metric,
        &values,
        limit,
    )
}

#[test]
fn range_and_slope_are_compared_with_the_average() {
    let steady = window(
        RoundMetric::AchievedIops,
        [95.0, 97.5, 100.0, 102.5, 105.0],
        None,
    );
    assert_eq!(steady.average, 100.0);
    assert_eq!(steady.range, 10.0);
    assert_eq!(steady.settled, Some(SteadyRule::Snia));
    assert!(
        (steady.slope_excursion - 10.0).abs() < 1e-9,
        "a straight line moves by its range"
    );
    let steeper = window(
        RoundMetric::AchievedIops,
        [94.0, 97.0, 100.0, 103.0, 106.0],
        None,
    );
    assert!(
        !steeper.is_steady(),
        "a range of 12 % would do, a line that moves by 12 % does not"
    );
    let wide = window(
        RoundMetric::AchievedIops,
        [100.0, 111.0, 100.0, 89.0, 100.0],
        None,
    );
    assert!(!wide.is_steady(), "a range of 22 %");
    let zigzag = window(
        RoundMetric::AchievedIops,
        [91.0, 109.0, 100.0, 109.0, 91.0],
        None,
    );
    assert!(zigzag.is_steady(), "18 % to and fro, without a direction");
}

#[test]
fn a_share_near_zero_is_steady_by_comparison_with_its_limit() {
    let share = RoundMetric::ShareOver {
        threshold_ns: 1_000_000,
    };
    let values = [0.0001, 0.0003, 0.0, 0.0002, 0.0001];
    assert_eq!(
        window(share, values, Some(0.05)).settled,
        Some(SteadyRule::NearLimit)
    );
    assert_eq!(window(share, values, Some(0.002)).settled, None);
    let idle = window(share, [0.0; 5], Some(0.05));
    assert_eq!(
        idle.settled,
        Some(SteadyRule::Snia),
        "a share of 0 does not change"
    );
}

#[test]
fn the_sentence_names_the_unsteady_metric_with_its_numbers() {
    let text = window(
        RoundMetric::P99,
        [100.0, 100.0, 100.0, 100.0, 200.0],
        Some(500.0),
    )
    .to_string();
    assert_eq!(
        text,
        "the p99 of service times of reads on all devices ranges over 83 % of its average in the last 5 rounds (at most \
         20 % is steady), and its best-fit line moves by 67 % (at most 10 %); relative to its limit, the range is 20 % (at \
         most 10 %)"
    );
}

/// `rounds` values around `level`, with deterministic noise of at most `spread`.
fn level(level: f64, spread: f64, rounds: usize, seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed;
    (0..rounds).map(move |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        level + ((state >> 33) as f64 / (1u64 << 30) as f64 - 1.0) * spread
    })
}

#[test]
fn a_shift_six_hours_into_a_run_is_found_at_its_round() {
    let values: Vec<f64> = level(0.01, 0.004, 360, 1)
        .chain(level(0.04, 0.008, 600, 2))
        .collect();
    let moved = level_shifts(&values, Some(0.05));
    assert_eq!(moved.len(), 1, "{moved:?}");
    assert!(moved[0].0.abs_diff(360) <= 1, "{moved:?}");
    assert!(
        (moved[0].1 - 0.01).abs() < 0.002 && (moved[0].2 - 0.04).abs() < 0.002,
        "{moved:?}"
    );
}

#[test]
fn noise_alone_and_a_stall_of_two_rounds_are_no_change() {
    for seed in 0..50 {
        let mut values: Vec<f64> = level(0.02, 0.01, 300, seed).collect();
        assert_eq!(level_shifts(&values, Some(0.05)), [], "seed {seed}");
        (values[100], values[101]) = (0.9, 0.9);
        assert_eq!(level_shifts(&values, Some(0.05)), [], "stall, seed {seed}");
    }
}

#[test]
fn a_shift_that_is_small_relative_to_the_limit_or_the_level_is_no_change_point() {
    let tiny: Vec<f64> = level(0.0001, 0.0, 50, 1)
        .chain(level(0.0003, 0.0, 50, 1))
        .collect();
    let found = level_shifts(&tiny, Some(0.05));
    assert_eq!(found, [], "three times, but 0.4 % of the limit");
    let slight: Vec<f64> = level(1000.0, 1.0, 50, 1)
        .chain(level(1150.0, 1.0, 50, 1))
        .collect();
    assert_eq!(level_shifts(&slight, None), [], "15 %");
    let twice: Vec<f64> = level(1000.0, 1.0, 50, 1)
        .chain(level(500.0, 1.0, 50, 1))
        .chain(level(1000.0, 1.0, 50, 3))
        .collect();
    assert_eq!(
        level_shifts(&twice, None)
            .iter()
            .map(|moved| moved.0)
            .collect::<Vec<_>>(),
        [50, 100]
    );
}

#[test]
fn few_or_no_rounds_have_no_change_points() {
    assert_eq!(level_shifts(&[], None), []);
    assert_eq!(level_shifts(&[1.0, 2.0, 3.0], None), []);
    assert_eq!(level_shifts(&[0.0; 9], None), []);
}
