//! A run with a cliff, live and from its directory.

use super::*;
use crate::cell::Interval;
use crate::judge::Sla;
use crate::run_dir::{Manifest, Writer};
use crate::testing::layout;
use crate::times::Times;
use std::path::Path;

fn manifest(devices: usize) -> Manifest {
    let layout = layout(&[("writes", false), ("reads", true)], 100.0, (0..devices).map(|device| format!("d{device}")));
    Manifest { duration_sec: 600, slice_sec: 600, round_sec: 20, ..Manifest::new(&layout, Sla::default()) }
}

/// An interval of one second, with 100 reads a device, of which `slow` take 2 ms.
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

/// 200 s at 2 %, then at 4 %.
fn slow(index: u64) -> u64 {
    if index < 200 { 2 } else { 4 }
}

fn recorded(dir: &Path, manifest: &Manifest, seconds: u64) -> Rounds {
    let mut live = Rounds::new(manifest);
    let mut writer = Writer::create(dir, manifest, &[]).unwrap();
    for index in 0..seconds {
        let interval = interval(manifest, index, slow(index));
        live.add(&interval);
        writer.write_interval(&interval, &[]).unwrap();
    }
    writer.finish(&manifest.judge().verdict(&crate::judge::End::Completed)).unwrap();
    live
}

#[test]
fn a_run_and_its_directory_have_the_same_rounds() {
    for devices in [1, 2] {
        let (dir, manifest) = (tempfile::tempdir().unwrap(), manifest(devices));
        let live = recorded(dir.path(), &manifest, 410);
        let read = Rounds::read(dir.path(), &manifest).unwrap();
        assert_eq!((live.len(), live.series().len()), (20, if devices == 1 { 1 } else { 3 }), "half a round is none");
        for (live, read) in live.series().iter().zip(read.series()) {
            assert_eq!(live.group, read.group);
            for (live, read) in live.rounds.iter().zip(&read.rounds) {
                let without = |round: &Round| Round { p99_ns: None, ..*round };
                assert_eq!(without(live), without(read));
                let (live, read) = (live.p99_ns.unwrap(), read.p99_ns.unwrap());
                assert!(live.abs_diff(read) <= 2 * 1024, "the log keeps 1 us apart: {live} {read}");
            }
        }
        assert_eq!(Steadiness::of(&live).reached_round, Steadiness::of(&read).reached_round);
    }
}

#[test]
fn steadiness_and_the_cliff_are_found() {
    let (dir, manifest) = (tempfile::tempdir().unwrap(), manifest(1));
    let steadiness = Steadiness::of(&recorded(dir.path(), &manifest, 600));
    assert_eq!((steadiness.rounds, steadiness.reached_round, steadiness.steady_at_end), (30, Some(5), true));
    let shares: Vec<_> = steadiness
        .change_points
        .iter()
        .filter(|point| point.metric == Metric::ShareOver { threshold_ns: 1_000_000 })
        .collect();
    assert_eq!(shares.len(), 1, "{:?}", steadiness.change_points);
    assert_eq!((shares[0].round, shares[0].at_sec, shares[0].before, shares[0].after), (11, 200, 0.02, 0.04));
    assert_eq!(shares[0].to_string(), "share over 1 ms of reads on d0 went from 2.00 % to 4.00 % after 200 s");
    // Windows with rounds of both levels range over too much: rounds 11 to 14.
    assert_eq!(
        steadiness.sentence(),
        "steady from round 15 of 30 on (5.0 min; rounds of 20 s), and before that first at round 5"
    );
}

#[test]
fn just_after_the_cliff_a_run_is_not_steady_and_says_what_moves() {
    let (dir, manifest) = (tempfile::tempdir().unwrap(), manifest(1));
    let steadiness = Steadiness::of(&recorded(dir.path(), &manifest, 260));
    assert_eq!((steadiness.rounds, steadiness.reached_round, steadiness.steady_at_end), (13, Some(5), false));
    let sentence = steadiness.sentence();
    assert!(sentence.contains("but not at the end") && sentence.contains("share over 1 ms"), "{sentence}");
}

#[test]
fn four_rounds_are_too_few() {
    let (dir, manifest) = (tempfile::tempdir().unwrap(), manifest(1));
    let steadiness = Steadiness::of(&recorded(dir.path(), &manifest, 99));
    assert_eq!((steadiness.reached_round, steadiness.steady_at_end), (None, false));
    assert!(steadiness.sentence().starts_with("steadiness cannot be told: 4 whole rounds of 20 s"));
}

#[test]
fn without_its_interval_log_a_run_still_has_shares() {
    let (dir, manifest) = (tempfile::tempdir().unwrap(), manifest(1));
    recorded(dir.path(), &manifest, 200);
    std::fs::remove_file(dir.path().join("service.hlog")).unwrap();
    let read = Rounds::read(dir.path(), &manifest).unwrap();
    assert!(read.series()[0].rounds.iter().all(|round| round.p99_ns.is_none() && round.wanted == 2000));
    let steadiness = Steadiness::of(&read);
    assert_eq!((steadiness.reached_round, steadiness.windows.len()), (Some(5), 4), "three shares and the rate");
}

#[test]
fn a_spell_is_a_run_of_slow_intervals_and_its_distance_is_from_beginning_to_beginning() {
    let mut spells = Spells::default();
    for second in 1..=60_u64 {
        spells.add(second * 1_000_000_000, matches!(second, 5 | 6 | 25 | 26 | 27 | 35));
    }
    assert_eq!((spells.count, spells.first_sec, spells.apart_sec, spells.is_lone()), (3, 5.0, 20.0, false));
}
