//! Each file of a run is emptied, cut, changed, removed, or replaced by the file of another run: the damage is
//! detected, and the run does not pass.

use super::*;
use crate::device_numbers::device_numbers;
use crate::judge::Outcome;
use crate::telemetry::{TimeDistribution, TraceKind, TraceLine, TraceSize};
use std::fs;
use std::path::PathBuf;

/// Duration of a run with three windows of interval logs: two of 10 s and a shorter one.
const SECONDS: u64 = 25;

/// A run that passes, with samples of the block layer.
fn run(dir: &Path, seed: u64, seconds: u64) -> Manifest {
    let mut manifest = Manifest {
        sla: "100%>10s".parse().unwrap(),
        seed,
        ..manifest(1, seconds, 1)
    };
    // Some operations are never issued, which would fail a stream with a rate.
    manifest
        .streams
        .iter_mut()
        .for_each(|stream| stream.offered_iops = 0.0);
    let mut writer = begin(dir, &manifest);
    let mut judge = manifest.judge();
    let mut trace = TraceWriter::create(dir, &manifest.sla).unwrap();
    for index in 0..seconds {
        let end_ns = (index + 1) * SEC;
        let interval = Interval {
            index,
            end_ns,
            ..interval(&manifest, index + 100 * seed)
        };
        judge.add(&interval);
        writer.write_interval(&interval, &telemetry(index)).unwrap();
        let spread = TimeDistribution::default();
        trace
            .append(&[TraceLine {
                at_sec: index as f64,
                length_ms: 500,
                device: 0,
                kind: TraceKind::Read,
                size: TraceSize::Small,
                requests: 10 + seed,
                lost: 0,
                queue: spread,
                device_time: spread,
                queue_over: vec![0],
                device_over: vec![0],
                total_over: vec![0],
            }])
            .unwrap();
    }
    writer.write_error(&format!("seed {seed}")).unwrap();
    writer.finish(&judge.verdict(&End::Completed)).unwrap();
    manifest
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Damage {
    Emptied,
    Halved,
    CutByOne,
    Flipped,
    Missing,
    OfAnotherRun,
}

const DAMAGES: [Damage; 6] = [
    Damage::Emptied,
    Damage::Halved,
    Damage::CutByOne,
    Damage::Flipped,
    Damage::Missing,
    Damage::OfAnotherRun,
];

fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.collect();
    names.sort();
    names
}

/// Damages a file, calls `then`, and restores the file.
fn with(damage: Damage, path: &Path, other: &Path, then: impl FnOnce()) {
    let whole = fs::read(path).unwrap();
    let mut bytes = whole.clone();
    match damage {
        Damage::Emptied => bytes.clear(),
        Damage::Halved => bytes.truncate(whole.len() / 2),
        Damage::CutByOne => bytes.truncate(whole.len() - 1),
        // This byte is far enough from the end to lie before the last line.
        Damage::Flipped => bytes[whole.len() / 3] ^= 1,
        Damage::OfAnotherRun => bytes = fs::read(other).unwrap(),
        Damage::Missing => {}
    }
    match damage {
        Damage::Missing => fs::remove_file(path).unwrap(),
        _ => fs::write(path, bytes).unwrap(),
    }
    then();
    fs::write(path, whole).unwrap();
}

fn dirs(seconds: u64) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let other = parent.path().join("other");
    run(&dir, 1, seconds);
    run(&other, 2, seconds);
    (parent, dir, other)
}

/// Reads the run with each damage to each of its files. `then` gets file, damage, run and the name of the case.
fn each_damage(dir: &Path, other: &Path, then: impl Fn(&str, Damage, &Run, &str)) {
    for (name, damage) in files(dir)
        .iter()
        .flat_map(|name| DAMAGES.map(|damage| (name, damage)))
    {
        with(damage, &dir.join(name), &other.join(name), || {
            let case = format!("{name} {damage:?}");
            match read(dir) {
                Ok(run) => then(name, damage, &run, &case),
                // Without its manifest, nothing of a run is read.
                Err(error) => assert!(
                    name == MANIFEST && error.to_string().contains(MANIFEST),
                    "{case}: {error}"
                ),
            }
        });
    }
}

#[test]
fn every_damage_to_a_file_of_a_complete_run_is_detected_and_never_a_pass() {
    let (_parent, dir, other) = dirs(SECONDS);
    let whole = read(&dir).unwrap();
    assert_eq!(whole.verdict.outcome, Outcome::Pass);
    assert_eq!(whole.damage, [""; 0]);
    assert_eq!(whole.remarks, [""; 0]);
    let names = files(&dir);
    assert_eq!(names.len(), 10, "{names:?}");
    each_damage(&dir, &other, |name, damage, run, case| {
        assert_ne!(run.verdict.outcome, Outcome::Pass, "{case}");
        if name == VERDICT && damage == Damage::Missing {
            return assert!(
                run.remarks[0].contains("this run is incomplete"),
                "{case}: {:?}",
                run.remarks
            );
        }
        let [of_file] = &run.damage[..] else {
            panic!("{case}: {:?}", run.damage)
        };
        assert!(of_file.starts_with(name), "{case}: {of_file}");
        assert!(
            run.verdict.reasons[0].text.starts_with(name) || run.written.is_some(),
            "{case}"
        );
        if let Some(kind) = HlogKind::ALL
            .into_iter()
            .find(|kind| kind.file_name() == name)
        {
            let layout = run.manifest.layout();
            assert!(each_window(&dir, &layout, kind, |_| ()).is_err(), "{case}");
        }
    });
    assert_eq!(read(&dir).unwrap().verdict, whole.verdict);
}

#[test]
fn every_damage_to_a_killed_run_is_detected_except_at_the_end_of_a_file() {
    // Long enough that a file cut in half lacks more than its last window, which is all that a power cut may take.
    const SECONDS: u64 = 65;
    let (_parent, dir, other) = dirs(SECONDS);
    for dir in [&dir, &other] {
        fs::remove_file(dir.join(VERDICT)).unwrap();
        // Before the end of a run, no checksum covers trace.csv, and the verdict does not use it.
        fs::remove_file(dir.join(TRACE)).unwrap();
    }
    let whole = read(&dir).unwrap();
    assert_eq!(whole.intervals, SECONDS);
    assert_eq!(whole.damage, [""; 0]);
    assert_eq!(whole.remarks.len(), 1);
    each_damage(&dir, &other, |name, damage, run, case| {
        let seen = run.damage.iter().any(|text| text.starts_with(name));
        match damage {
            // The same state as after a kill or a power cut.
            Damage::CutByOne => {
                assert!(
                    run.damage.is_empty() && run.intervals + 1 >= SECONDS,
                    "{case}: {:?}",
                    run.damage
                )
            }
            // The checksums then belong to a different run than all other files.
            Damage::OfAnotherRun if name == CHECKSUMS => assert!(!run.damage.is_empty(), "{case}"),
            _ => assert!(seen, "{case}: {:?}", run.damage),
        }
    });
}

#[test]
fn data_before_the_damage_is_read() {
    let (_parent, dir, other) = dirs(SECONDS);
    let manifest = read(&dir).unwrap().manifest;
    for name in [INTERVALS, TELEMETRY] {
        with(Damage::Halved, &dir.join(name), &other.join(name), || {
            let run = read(&dir).unwrap();
            assert!((9..=15).contains(&run.intervals), "{}", run.intervals);
            let sentence = format!("it is whole up to {} s", run.intervals);
            assert!(run.damage[0].contains(&sentence), "{:?}", run.damage);
            assert!(device_numbers(&run, &[]).is_err());
        });
    }
    let kind = HlogKind::Service;
    with(Damage::Halved, &dir.join(kind.file_name()), &other, || {
        let mut until_sec = 0.0;
        let error = each_window(&dir, &manifest.layout(), kind, |window| {
            until_sec = window.from_sec + window.length_sec
        });
        let error = error.unwrap_err().to_string();
        assert_eq!(until_sec, 10.0);
        assert!(
            error.contains("service.hlog - it is cut: ")
                && error.contains("it is whole up to 19 s"),
            "{error}"
        );
    });
}

#[test]
fn a_run_is_read_while_it_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(1, 10_000, 1);
    let mut writer = begin(dir.path(), &manifest);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut intervals = 0;
            while intervals < 300 {
                let run = read(dir.path()).unwrap();
                assert_eq!(run.damage, [""; 0]);
                intervals = run.intervals;
            }
        });
        let mut index = 0;
        while !reader.is_finished() {
            writer
                .write_interval(&interval(&manifest, index), &telemetry(index))
                .unwrap();
            index += 1;
        }
    });
}
