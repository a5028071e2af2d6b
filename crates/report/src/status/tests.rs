//! Status of runs and series at several moments.

use super::*;
use conclusions::series::{Rule, Series, SeriesPurpose, SeriesStepState, Step};
use results::cell::Interval;
use results::judge::{End, Outcome, Sla};
use results::run_dir::{Manifest, RunWriter};
use results::testing::layout;
use results::times::Times;
use std::fs;
use std::time::Duration;

const SEC: u64 = 1_000_000_000;

fn manifest() -> Manifest {
    let layout = layout(&[("reads", true)], 12.0, ["/dev/nvme1n1"]);
    let process = Some(Process {
        pid: 77,
        start_ticks: 1,
        boot_id: "b".into(),
        pid_namespace: None,
    });
    Manifest {
        duration_sec: 40,
        slice_sec: 10,
        process,
        ..Manifest::new(&layout, Sla::default())
    }
}

/// Ten reads per second; in the first slice one read in ten takes 2 ms. Temperature 50 C.
fn write(dir: &Path, intervals: u64) -> RunWriter {
    write_of(&manifest(), dir, intervals)
}

fn write_of(manifest: &Manifest, dir: &Path, intervals: u64) -> RunWriter {
    let mut writer =
        RunWriter::create(dir, manifest, &["nvme1n1.temperature_celsius".to_owned()]).unwrap();
    for index in 0..intervals {
        let mut interval = Interval::new(&manifest.layout());
        (interval.index, interval.end_ns) = (index, (index + 1) * SEC);
        for read in 0..10 {
            let service_ns = if index < 10 && read == 0 {
                2_000_000
            } else {
                100_000
            };
            interval.cells[0].record(&Times::new(0, 0, 0, service_ns), 0, 512);
        }
        writer
            .write_interval(&interval, &["50".to_owned()])
            .unwrap();
    }
    writer
}

fn status(dir: &Path, later: u64, seen: ProcessState) -> RunStatus {
    match DirStatus::read(dir, SystemTime::now() + Duration::from_secs(later), &|_| {
        seen
    })
    .unwrap()
    {
        DirStatus::Run(run) => *run,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_status_of_a_running_run_has_its_recorded_numbers() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let _writer = write(&dir, 25);
    let run = status(&dir, 0, ProcessState::Running);
    assert_eq!(
        (run.phase, run.exit_code(), run.elapsed_sec, run.left_sec()),
        (RunPhase::Running, 0, 25.0, Some(15.0))
    );
    let stream = &run.result.streams[0];
    assert_eq!(
        (
            stream.offered_iops,
            stream.achieved_iops,
            run.last_interval_iops[0]
        ),
        (12.0, 10.0, 10.0)
    );
    let current = run.current.clone().unwrap();
    let worst = run.worst.clone().unwrap();
    assert_eq!((current.slice, current.shares[0]), (3, 0.0));
    assert_eq!((worst.slice, worst.share, worst.is_over()), (1, 0.1, true));
    assert_eq!(
        run.p99_ns[0].1 / 1024,
        97,
        "the newest window has no slow one: {:?}",
        run.p99_ns
    );
    assert_eq!(
        run.temperatures,
        [Temperature {
            device: "nvme1n1".into(),
            celsius: 50.0
        }]
    );
    let text = run.to_string();
    for part in [
        "running (process 77): last interval 0 s ago",
        "00:00:25 of 00:00:40  00:00:15 left, ends ",
        "50 C",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(
        text.contains("0 % over 1ms, 0 % over 8ms, 0 % over 64ms (slice 3, reads on"),
        "{text}"
    );
    assert!(
        text.contains(
            "OVER A LIMIT: 10.0 % of reads on /dev/nvme1n1 took over 1 ms in slice 1 (10 of 100"
        ),
        "{text}"
    );
}

#[test]
fn a_share_that_only_own_delays_bring_over_its_limit_is_not_over_a_limit() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let text_of = |own_ns: u64| {
        let _ = fs::remove_dir_all(&dir);
        let mut writer = RunWriter::create(&dir, &manifest(), &[]).unwrap();
        let mut interval = Interval::new(&manifest().layout());
        for index in 0..25 {
            (interval.index, interval.end_ns) = (index, (index + 1) * SEC);
            (interval.cpu_ns, interval.run_delay_ns) = (SEC / 10, own_ns);
            (0..100).for_each(|_| {
                interval.cells[0].record(&Times::new(0, 0, 0, 2_000_000), own_ns, 512)
            });
            writer.write_interval(&interval, &[]).unwrap();
            interval.clear();
        }
        status(&dir, 0, ProcessState::Running).to_string()
    };
    let text = text_of(SEC / 10);
    assert!(
        text.contains("so far             INVALID: waited for a CPU 50.0 % of the time"),
        "{text}"
    );
    assert!(
        text.contains("with this program's own delays, 100 % of reads"),
        "{text}"
    );
    assert!(!text.contains("OVER A LIMIT"), "{text}");
    let text = text_of(0);
    assert!(text.contains("OVER A LIMIT: 100 % of reads"), "{text}");
    assert!(
        !text.contains("INVALID") && !text.contains("waited for a CPU"),
        "{text}"
    );
}

#[test]
fn the_rate_of_operations_gives_the_time_left_of_a_run_that_ends_by_count() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let manifest = Manifest {
        duration_sec: 30 * 86_400,
        operations: Some(1_000),
        ..manifest()
    };
    let _writer = write_of(&manifest, &dir, 25);
    let run = status(&dir, 0, ProcessState::Running);
    assert_eq!(
        (run.phase, run.operations_done, run.left_sec()),
        (RunPhase::Running, 250, Some(75.0))
    );
    let text = run.to_string();
    assert!(
        text.contains("00:00:25, 250 of 1,000 operations  00:01:15 left, ends "),
        "{text}"
    );
}

#[test]
fn killed_hung_and_stopped_runs_have_different_phases() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let _writer = write(&dir, 25);
    for (later, seen, phase, code) in [
        (0, ProcessState::Running, RunPhase::Running, 0),
        (17, ProcessState::Running, RunPhase::Running, 0),
        (19, ProcessState::Running, RunPhase::Hung, 1),
        (0, ProcessState::Stopped, RunPhase::Stopped, 1),
        // A process in another container is not visible, but its files grow.
        (0, ProcessState::Elsewhere, RunPhase::Gone, 1),
        (5, ProcessState::Elsewhere, RunPhase::Killed, 1),
        // On the machine that assigned the process number, the process is certainly gone.
        (0, ProcessState::Gone, RunPhase::Killed, 1),
        (5, ProcessState::Unknown, RunPhase::Running, 0),
        (60, ProcessState::Unknown, RunPhase::Unknown, 1),
    ] {
        let run = status(&dir, later, seen);
        // The recorded intervals already exceed a limit.
        assert_eq!(
            (run.phase, run.exit_code()),
            (phase, code),
            "{later} s later, {seen:?}"
        );
    }
    let gone = status(&dir, 0, ProcessState::Elsewhere).to_string();
    assert!(
        gone.contains("GONE (process 77): the process is not visible"),
        "{gone}"
    );
    assert!(!gone.contains(" left"), "no expected end is shown: {gone}");
    let killed = status(&dir, 0, ProcessState::Gone);
    assert!(
        killed.to_string().contains("KILLED (process 77)") && killed.ends_unix_ms.is_none(),
        "{killed}"
    );
    assert!(!killed.to_string().contains(" left, ends "), "{killed}");
    assert!(
        status(&dir, 90, ProcessState::Running)
            .to_string()
            .contains("recorded nothing for 90 s")
    );
}

#[test]
fn the_status_can_be_read_while_a_file_of_the_run_ends_at_any_byte() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    drop(write(&dir, 12));
    for name in ["telemetry.csv", "intervals.csv", "service.hlog"] {
        let path = dir.join(name);
        let bytes = fs::read(&path).unwrap();
        for cut in 0..bytes.len() {
            fs::write(&path, &bytes[..cut]).unwrap();
            let run = status(&dir, 0, ProcessState::Running);
            assert!(
                run.elapsed_sec <= 12.0 && run.phase == RunPhase::Running
                    || run.phase == RunPhase::Beginning,
                "{cut}"
            );
        }
        fs::remove_file(&path).unwrap();
        status(&dir, 0, ProcessState::Running);
        fs::write(&path, &bytes).unwrap();
    }
}

#[test]
fn a_run_that_ended_has_its_verdict_and_its_exit_code() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let writer = write(&dir, 40);
    assert_eq!(
        status(&dir, 0, ProcessState::Running).phase,
        RunPhase::Ending
    );
    let mut judge = manifest().judge();
    let mut intervals = results::run_dir::Intervals::open(&dir, &manifest()).unwrap();
    while let Some(record) = intervals.next().unwrap() {
        judge.add_counts(&record.counts);
    }
    writer.finish(&judge.verdict(&End::Completed)).unwrap();
    let run = status(&dir, 1000, ProcessState::Gone);
    assert_eq!(
        (run.phase, run.result.outcome, run.exit_code()),
        (RunPhase::Ended, Outcome::Fail, 1)
    );
    assert!(
        run.to_string()
            .contains("FAIL: too slow: 10.0 % of reads on /dev/nvme1n1 took over 1 ms in slice 1"),
        "{run}"
    );
}

/// Status of a series whose one stage is in `state` and has no run directory.
fn series_without_run(state: SeriesStepState, attempts: u32, seen: ProcessState) -> SeriesStatus {
    let dir = tempfile::tempdir().unwrap();
    let planned = Step::planned(
        "stage 1".into(),
        "stage-1".into(),
        60.0,
        vec![0],
        172_800,
        Rule::Completes,
    );
    let stage = Step {
        state,
        attempts,
        ..planned
    };
    let process = Some(Process {
        pid: 77,
        start_ticks: 1,
        boot_id: "b".into(),
        pid_namespace: None,
    });
    let series = Series {
        process,
        ..conclusions::testing::series(SeriesPurpose::Certify, &[], vec![stage])
    };
    series.write(dir.path()).unwrap();
    match DirStatus::read(dir.path(), SystemTime::now(), &|_| seen).unwrap() {
        DirStatus::Series(series) => *series,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_series_whose_process_is_gone_is_over_though_its_newest_step_has_no_run() {
    for (state, attempts) in [
        (SeriesStepState::Interrupted, 1),
        (SeriesStepState::Running, 1),
        (SeriesStepState::Planned, 0),
    ] {
        let series = series_without_run(state, attempts, ProcessState::Gone);
        assert_eq!(
            (series.is_over(), series.exit_code()),
            (true, 4),
            "{state:?}"
        );
        assert!(series.to_string().contains("NOT RUNNING"), "{series}");
        let series = series_without_run(state, attempts, ProcessState::Running);
        assert_eq!(
            (series.is_over(), series.exit_code()),
            (false, 0),
            "{state:?}"
        );
    }
    let preparing =
        series_without_run(SeriesStepState::Planned, 0, ProcessState::Running).to_string();
    assert!(
        preparing.contains("48:00:00 left") && preparing.contains("no run has begun"),
        "{preparing}"
    );
}

#[test]
fn the_status_of_a_baseline_has_the_number_of_jobs_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut series = conclusions::testing::baseline_series(&[("/dev/nvme0n1", 1.0)], "run");
    let jobs = series.steps.len() as u64;
    series
        .terms
        .push((conclusions::baseline::JOBS.to_owned(), jobs.to_string()));
    series.conclusion = None;
    series.steps.truncate(10);
    series.write(dir.path()).unwrap();
    let status = DirStatus::read(dir.path(), SystemTime::now(), &|_| ProcessState::Running)
        .unwrap()
        .to_string();
    // Of the six rounds of the saturation, only five are certain to run.
    assert!(
        status.contains(&format!(
            "baseline: 10 jobs done, at least {} to come",
            jobs - 9
        )),
        "{status}"
    );
}
