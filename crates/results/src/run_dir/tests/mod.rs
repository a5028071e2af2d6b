//! Tests that write runs, cut, damage or kill them, and read them back.

mod checksums;
mod damage;
mod kill;
mod round_trip;
mod size;

use super::*;
use crate::act_log::Test;
use crate::cell::{Interval, Layout};
use crate::counts::Backlog;
use crate::judge::{End, IntervalCounts, Judge, Sla, Verdict};
use crate::times::{OwnDelay, Times};
use crate::{assert_contains, assert_ends_with};
use std::path::Path;

const SEC: u64 = 1_000_000_000;

fn layout(devices: usize) -> Layout {
    let streams = [
        ("reads", true),
        ("writes", true),
        ("large-block-reads", false),
        ("large-block-writes", false),
    ];
    crate::testing::layout(
        &streams,
        1000.1,
        (0..devices).map(|device| format!("/dev/nvme{device}n1")),
    )
}

fn manifest(devices: usize, duration_sec: u64, interval_sec: u64) -> Manifest {
    Manifest {
        tool: "flashproof 0.1.0".to_owned(),
        command: vec![
            "flashproof".to_owned(),
            "storage".to_owned(),
            "a file.txt".to_owned(),
        ],
        started_unix_ms: 1_790_000_000_123,
        seed: u64::MAX,
        duration_sec,
        report_interval_sec: interval_sec,
        slice_sec: crate::judge::whole_slice_sec(3600, duration_sec, interval_sec),
        workloads: vec![WorkloadRecord {
            kind: "storage".to_owned(),
            config: RecordedConfig {
                as_written: "read-reqs-per-sec: 2000\n# é\n".to_owned(),
                resolved: vec![("report-interval-sec".to_owned(), interval_sec.to_string())],
                derived: vec![("large-block-reads-per-sec".to_owned(), "23.53".to_owned())],
                settings: vec![("arrival".to_owned(), "paced".to_owned())],
            },
            act_log: Some(ActLogHead {
                test: Test::Storage,
                device_lines: vec!["/dev/nvme0n1 size = 1 bytes".to_owned()],
            }),
            ..WorkloadRecord::default()
        }],
        device_facts: vec![serde_json::json!({"model": "X", "serial": "Y"}); devices],
        host_facts: serde_json::json!({"kernel": "6.12"}),
        engine_facts: serde_json::json!({"engine": "io_uring"}),
        ..Manifest::new(&layout(devices), Sla::default())
    }
}

#[derive(Clone)]
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// An interval of the run with a few operations of every kind in every cell.
fn interval(manifest: &Manifest, index: u64) -> Interval {
    let mut numbers = Numbers(index * 7919 + 17);
    let mut interval = Interval::new(&manifest.layout());
    interval.index = index;
    interval.end_ns = (index + 1) * manifest.report_interval_sec * SEC;
    interval.cpu_ns = numbers.below(SEC);
    interval.run_delay_ns = numbers.below(SEC);
    interval.in_flight_max = numbers.below(128);
    for cell in &mut interval.cells {
        for _ in 0..numbers.below(40) {
            let eligible_ns = numbers.below(1_000_000);
            let issued_ns = eligible_ns + numbers.below(50_000);
            let completed_ns = issued_ns + numbers.below(20_000_000);
            let unseen_ns = numbers.below(100_000);
            let own_delay = OwnDelay {
                unseen_ns: numbers.below(400_000),
                ..OwnDelay::default()
            };
            let times =
                Times::new(0, eligible_ns, issued_ns, completed_ns).with_own_delay(own_delay);
            cell.record(&times, unseen_ns, 1536);
            interval.gap.saturating_record(unseen_ns);
        }
        if numbers.below(20) == 0 {
            cell.record_unissued(numbers.below(3), 1);
        }
        cell.counts.backlog = Backlog {
            in_flight: numbers.below(3),
            waiting: numbers.below(3),
            late: numbers.below(2),
        };
    }
    interval
}

fn telemetry(index: u64) -> Vec<String> {
    vec![format!("{index}.5"), String::new()]
}

fn telemetry_columns() -> Vec<String> {
    vec!["temperature_c".to_owned(), "wear_pct".to_owned()]
}

fn begin(dir: &Path, manifest: &Manifest) -> RunWriter {
    RunWriter::create(dir, manifest, &telemetry_columns()).unwrap()
}

/// Writes a run of `intervals` intervals, and returns the verdict of a live judge.
fn write_run(dir: &Path, manifest: &Manifest, intervals: u64) -> Verdict {
    let mut writer = begin(dir, manifest);
    let mut judge = manifest.judge();
    let mut blamer = manifest.blamer(&judge, &telemetry_columns());
    let mut counts = IntervalCounts::default();
    for index in 0..intervals {
        counts.set(&interval(manifest, index), manifest.sla.tightest_ns());
        blamer.interval(&counts, &telemetry(index));
        write_one(&mut writer, &mut judge, manifest, index);
    }
    let complete = intervals * manifest.report_interval_sec >= manifest.duration_sec;
    let end = if complete {
        End::Completed
    } else {
        End::interrupted("SIGINT")
    };
    let verdict = Verdict {
        blame: blamer.blame(&judge),
        ..judge.verdict(&end)
    };
    writer.finish(&verdict).unwrap();
    verdict
}

fn write_one(writer: &mut RunWriter, judge: &mut Judge, manifest: &Manifest, index: u64) {
    let interval = interval(manifest, index);
    judge.add(&interval);
    writer.write_interval(&interval, &telemetry(index)).unwrap();
    writer.sync().unwrap();
}

#[test]
fn every_message_names_operation_object_cause_and_remedy() {
    let dir = PathBuf::from("/runs/a");
    let room = RunDirError::NoRoom {
        dir: dir.clone(),
        needed_bytes: 93_400_000,
        free_bytes: 1_250_000,
    };
    assert_eq!(
        room.to_string(),
        "starting a run in /runs/a - the run needs about 93.4 MB, but only 1.25 MB are free; free some space or give an \
         --out with more room"
    );
    let denied = RunDirError::io("creating", &dir, ErrorKind::PermissionDenied.into());
    assert_eq!(
        denied.to_string(),
        "creating /runs/a - permission denied; give an --out that this user may write to"
    );
    let unreadable =
        RunDirError::io("reading", &dir, ErrorKind::PermissionDenied.into()).to_string();
    assert_ends_with!(unreadable, "or let this user read it (chmod)");
    let line = RunDirError::line(&dir.join("intervals.csv"), 7, "a number", &"x".repeat(100));
    let expected = format!(
        "reading /runs/a/intervals.csv line 7 - expected a number, found \"{}...\"; it was damaged or edited \
         after the run: use an untouched copy",
        "x".repeat(60)
    );
    assert_eq!(line.to_string(), expected);
}

fn message(dir: &Path) -> String {
    dir_kind(dir)
        .unwrap_err()
        .to_string()
        .replace(&format!("{}", dir_of(dir).display()), "")
}

#[test]
fn a_path_without_a_run_is_described_with_a_remedy() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("d");
    assert_eq!(
        message(&dir),
        "reading /d - No such file or directory (os error 2); a directory with manifest.json (a run) or series.json (a \
         series) was expected; check the path"
    );
    fs::create_dir(&dir).unwrap();
    assert_eq!(
        message(&dir),
        "reading /d/manifest.json - there is no run: the directory is empty; give the directory of a run (--out of \
         the run)"
    );
    fs::write(dir.join("holiday.jpg"), "").unwrap();
    assert!(
        message(&dir)
            .contains("there is no run: the directory holds other files; give the directory of a")
    );
    let log = include_bytes!("../../../tests/data/act-storage-interval2.log");
    fs::write(dir.join("log"), log).unwrap();
    let of_log = dir_kind(&dir.join("log")).unwrap_err().to_string();
    assert_contains!(
        of_log,
        "/log - it is an ACT log, and a run is a directory; "
    );
    assert_contains!(
        of_log,
        &format!("\"flashproof latency {}/log\"", dir.display())
    );
    fs::write(dir.join(PROFILE), "{}").unwrap();
    assert_contains!(
        message(&dir),
        "the directory holds a load profile (profile.json), not a run; compute drives for it by \"flashproof size \
         select --published all --profile /d/profile.json\""
    );
    for run in ["b", "a", "c", "not"] {
        fs::create_dir(dir.join(run)).unwrap();
    }
    for run in ["b", "a", "c"] {
        fs::write(dir.join(run).join(MANIFEST), "").unwrap();
    }
    assert_ends_with!(
        message(&dir),
        "but there are runs below it: a, b, c; give one of them; \"flashproof report /d\" lists them"
    );
    fs::create_dir_all(dir.join("ahead/deep")).unwrap();
    fs::create_dir(dir.join("z")).unwrap();
    fs::write(dir.join("z").join(SERIES), "").unwrap();
    assert!(message(&dir).contains("below it: a, b, c, ...; give one of them; "));
    for run in ["a", "b", "c", "z"] {
        fs::remove_dir_all(dir.join(run)).unwrap();
    }
    fs::write(dir.join("ahead/deep").join(MANIFEST), "").unwrap();
    assert_ends_with!(
        message(&dir),
        "below it: ahead/deep; give one of them; \"flashproof report /d/ahead\" lists them"
    );
    fs::write(dir.join(INTERVALS), "").unwrap();
    let missing = "the manifest is missing, although intervals.csv is there: without the manifest, nobody can";
    assert!(message(&dir).contains(missing));
    let text = dir_kind(&dir.join(INTERVALS)).unwrap_err().to_string();
    let is_file =
        "it is a file, and a run is a directory; give the directory that holds this file: /";
    assert!(text.contains(is_file), "{text}");
    fs::write(dir.join(SERIES), "").unwrap();
    assert_eq!(dir_kind(&dir).unwrap(), DirKind::Series);
    assert_contains!(no_run(&dir), "this directory holds a series (series.json)");
    assert_eq!(dir_kind(&dir.join("ahead/deep")).unwrap(), DirKind::Run);
}
