//! `flashproof baseline`: finds a drive's properties, resumes after any interruption, writes only where it may.

use crate::support;

use conclusions::baseline::{JobPurpose, Point, knee, points, points_of};
use conclusions::series::{Series, SeriesStepState};
use results::judge::Outcome;
use std::time::Duration;
use support::{Bench, LoopDevice, Running, words};

/// Two channels: 1,000 reads/s or 2,000 writes/s.
const SLOW: &str =
    "sim:channels=2+read-us=2000+write-us=1000+jitter-pct=0+read-mbps=0+write-mbps=0";

/// Timeout for baselines of several drives, each with hours of simulated time.
const LONG: Duration = Duration::from_secs(900);

fn series(bench: &Bench) -> Series {
    Series::read(&bench.path("b"))
        .unwrap()
        .expect("there is a series")
}

fn near(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 0.03,
        "{found}, not {expected}"
    );
}

#[test]
fn a_baseline_finds_the_properties_of_a_simulated_drive() {
    let bench = Bench::new();
    let line = format!("baseline {SLOW} --duration 2m --out b --html page.html");
    let ended = bench.line(&line).expect(0);
    assert_eq!(bench.read("page.html"), bench.read("b/report.html"));
    let series = series(&bench);
    assert_eq!(
        ended.stderr.lines().count(),
        2 + series.steps.len(),
        "a line for the plan, for each job and for the page: {}",
        ended.stderr
    );
    assert_eq!(
        series.conclusion.as_ref().unwrap().outcome,
        Outcome::Measured
    );
    let points = points(&series);
    let of = |part, reads: bool| -> Vec<&Point> {
        points
            .iter()
            .filter(|point| point.part == part && point.reads.is_some() == reads)
            .collect()
    };
    for (reads, highest, each_us) in [(true, 1_000.0, 2_000.0), (false, 2_000.0, 1_000.0)] {
        let sweep = of(JobPurpose::Depth, reads);
        assert_eq!(knee(&sweep).unwrap().depth, 2);
        for point in sweep {
            let done = if reads { &point.reads } else { &point.writes }
                .as_ref()
                .unwrap();
            near(done.iops, highest * f64::from(point.depth.min(2)) / 2.0);
            // The median is compared: the first operations of a short job meet a shorter queue, which lowers the mean.
            near(
                done.service.at(50.0).unwrap(),
                each_us * f64::from(point.depth).max(2.0) / 2.0,
            );
        }
    }
    let profile = points
        .iter()
        .find(|point| point.part == JobPurpose::Profile && point.read_pct == 50.0)
        .unwrap();
    near(
        profile.reads.as_ref().unwrap().iops + profile.writes.as_ref().unwrap().iops,
        2.0 / 0.0015,
    );
    let half = of(JobPurpose::Rate, true)[1].reads.as_ref().unwrap();
    near(half.offered_iops.unwrap(), 500.0);
    near(half.iops, 500.0);
    near(half.answer.at(50.0).unwrap(), 2_000.0);
    // The drive cannot do 80 % of both highest rates at once. Operations not done are reported; the job does not fail.
    let cell = points
        .iter()
        .rfind(|point| point.part == JobPurpose::Grid)
        .unwrap();
    let reads = cell.reads.as_ref().unwrap();
    let writes = cell.writes.as_ref().unwrap();
    assert!(
        reads.undone + writes.undone > 0 && reads.answer.max_us > 50_000.0,
        "{cell:?}"
    );
    // If more than 1 % of the reads were never done, the 99th percentile is above the latencies of all completed reads.
    assert!(
        reads.answer.at(99.0).is_none_or(|us| us > 500_000.0),
        "{cell:?}"
    );
    ended.shows(&[" of 1,600  ", "  > "]);
    assert!(
        ended.stdout.contains("knee at depth 2") && bench.exists("b/report.html"),
        "{}",
        ended.stdout
    );
    let saturation: Vec<_> = of(JobPurpose::Saturation, false)
        .iter()
        .map(|point| point.steady)
        .collect();
    assert_eq!(saturation, [None, None, None, None, Some(true)]);
    let again = bench.line(&line).expect(0);
    assert_eq!(again.stdout, ended.stdout);
    let other = bench.line(&line.replace("2m", "3m")).expect(2);
    other.says(&["time under load was \"2 min\", but is \"3 min\" now"]);
}

#[test]
fn after_kill_9_a_baseline_resumes_with_the_interrupted_job() {
    let bench = Bench::new();
    let line = "baseline sim:channels=4+read-us=200+write-us=200 --duration 2m --out b";
    let mut running = Running::start(bench.prepare(&words(line)));
    running.wait_to_hear("reads at depth 4:");
    assert_eq!(running.end_by("KILL").signal, Some(9));
    let before = series(&bench);
    let done = points(&before).len();
    assert!(before.conclusion.is_none() && done > 5, "{done}");
    let ended = bench.line(line).expect(0);
    let after = series(&bench);
    assert_eq!(
        after.steps[..done],
        before.steps[..done],
        "finished jobs are not repeated"
    );
    let of = |state| {
        after
            .steps
            .iter()
            .filter(|step| step.state == state)
            .count()
    };
    assert!(
        of(SeriesStepState::Interrupted) <= 1 && of(SeriesStepState::Running) == 0,
        "{}",
        ended.stderr
    );
    let mut names: Vec<_> = after
        .steps
        .iter()
        .filter(|step| step.state == SeriesStepState::Done)
        .map(|step| &step.name)
        .collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(
        (names.len(), after.conclusion.unwrap().outcome),
        (count, Outcome::Measured),
        "each job is done once"
    );
}

#[test]
fn drives_are_measured_in_parallel_and_a_deviating_drive_is_named() {
    let bench = Bench::new();
    let drives = ["a", "b", "c"].map(|name| match name {
        "c" => format!("{}+name=c", SLOW.replace("read-us=2000", "read-us=3000")),
        name => format!("{SLOW}+name={name}"),
    });
    let line = format!(
        "baseline {} --duration 2m --out b --quiet",
        drives.join(" ")
    );
    let ended = Running::start(bench.prepare(&words(&line)))
        .end_within(LONG)
        .expect(0);
    let differs: Vec<_> = ended
        .stdout
        .lines()
        .filter(|line| line.contains("differs from the other drives"))
        .collect();
    assert!(
        !differs.is_empty() && differs.iter().all(|line| line.contains("name=c")),
        "{}",
        ended.stdout
    );
    let series = series(&bench);
    let a = points_of(&series, 0);
    let c = points_of(&series, 2);
    assert_eq!(a.len(), c.len());
    let highest = |points: &[Point]| {
        points
            .iter()
            .filter(|point| point.part == JobPurpose::Depth)
            .map(Point::iops)
            .next()
    };
    near(highest(&a).unwrap(), 500.0);
    near(highest(&c).unwrap(), 1_000.0 / 3.0);
    let job = |device: usize| {
        series
            .steps
            .iter()
            .find(|step| step.devices == [device])
            .unwrap()
    };
    assert_eq!(job(0).dir, job(2).dir, "one run");
}

#[test]
fn snia_tests_report_steady_rounds_and_deviations_from_the_specification() {
    let bench = Bench::new();
    let line = format!("baseline {SLOW} --pts latency,throughput --pts-round 1 --out b --quiet");
    let ended = bench.line(&line).expect(0);
    ended.shows(&[
        "not a result certified by SNIA",
        "the jobs lasted 1 s, not 60 s",
        "neither purged nor preconditioned",
        "latency test, mean and longest response time, steady in round 5",
        "throughput test, MB/s, steady in round 5",
    ]);
    let row = ended
        .stdout
        .lines()
        .find(|line| line.starts_with("4 KiB "))
        .unwrap();
    let cells: Vec<_> = row
        .split("  ")
        .filter(|cell| !cell.trim().is_empty())
        .map(str::trim)
        .collect();
    // Histograms have a resolution of two digits.
    assert!(
        cells[1].starts_with("2") && cells[1].contains(" ms, 2") && cells[3].starts_with("1"),
        "{row}"
    );
}

#[test]
fn invalid_baselines_are_refused_before_any_io() {
    let bench = Bench::new();
    bench.write_victim("file", 1);
    for (line, code, says) in [
        ("baseline", 2, "<DEVICE>"),
        ("baseline file", 2, "it is a file"),
        ("baseline /dev/no-such", 3, "/dev/no-such"),
        ("baseline /dev/null", 3, "/dev/null"),
        ("baseline sim: sim:", 2, "twice"),
        ("baseline sim: /dev/no-such", 2, "simulated and real drives"),
        ("baseline sim:chanels=4", 2, "chanels"),
        (
            "baseline sim: --duration 10s",
            2,
            "cannot measure a drive in 10 s",
        ),
        (
            "baseline sim: --duration 2m --quick",
            2,
            "cannot be used with",
        ),
        ("baseline sim: --bs 4097", 2, "multiple of 512"),
        ("baseline sim: --bs 1m", 2, "up to 131072"),
        (
            "baseline sim:min-io=4096 --duration 2m --bs 1536",
            2,
            "needs multiples of 4096 bytes",
        ),
        ("baseline sim: --max-depth 100", 2, "power of two"),
        ("baseline sim: --max-depth 65536", 2, "power of two"),
        (
            "baseline sim: --pts wsat",
            2,
            "iops, throughput, latency and saturation",
        ),
        (
            "baseline sim: --pts iops --read-only",
            2,
            "cannot be used with",
        ),
        ("baseline sim: --pts-round 5", 2, "--pts"),
    ] {
        let ended = bench
            .flashproof(&[words(line), vec!["--out", "b"]].concat())
            .expect(code);
        assert!(ended.stderr.contains(says), "{line}: {}", ended.stderr);
    }
    assert_eq!(bench.read("file"), b"precious".repeat(1 << 17));
}

#[test]
fn a_failed_drive_gets_no_further_jobs_and_a_healthy_drive_gets_all_of_its_jobs() {
    // At an error rate of 0.01 the run completes. At 0.5 the errors end it.
    for (rate, interrupted) in [("0.01", 0), ("0.5", 1)] {
        let bench = Bench::new();
        let line =
            format!("baseline {SLOW} {SLOW}+error-rate={rate} --duration 2m --out b --quiet");
        let ended = bench.line(&line).expect(1);
        let sentence = ended
            .stdout
            .lines()
            .find(|line| line.contains(" failed: "))
            .unwrap();
        assert!(
            sentence.contains(&format!("error-rate={rate}")) && sentence.contains("I/O error"),
            "{sentence}"
        );
        let series = series(&bench);
        let of = |device: usize| {
            series
                .steps
                .iter()
                .filter(move |step| step.devices == [device])
        };
        let broken: Vec<_> = of(1).map(|step| (step.state, step.outcome)).collect();
        assert_eq!(broken, [(SeriesStepState::Done, Some(Outcome::Fail))]);
        let lost: Vec<_> = of(0)
            .filter(|step| step.state == SeriesStepState::Interrupted)
            .collect();
        assert_eq!(lost.len(), interrupted, "{lost:?}");
        assert!(
            lost.iter()
                .all(|step| step.reason.starts_with("another drive ended the run")),
            "{lost:?}"
        );
        // The healthy drive has as many steps as a drive tested alone: five rounds of saturation, and 44 jobs.
        let kept: Vec<_> = of(0)
            .filter(|step| step.outcome == Some(Outcome::Measured))
            .collect();
        assert_eq!((kept.len(), of(0).count()), (49, 49 + interrupted));
        let report = bench.flashproof(&["report", "b"]).expect(1);
        assert!(
            !report.stderr.contains("but the run says"),
            "{}",
            report.stderr
        );
    }
}

#[test]
#[ignore = "eight drives: make soak"]
fn the_95_percent_job_offers_95_percent_of_the_drives_true_highest_rate_within_2_percent() {
    let bench = Bench::new();
    // Jobs have only a few hundred operations: a rate of 200/s varies randomly by some 6/s, and the best of nine depths
    // is some 9/s too high. The mean over reads and writes of eight drives hardly varies.
    let drive = "sim:channels=1+read-us=5000+write-us=5000+jitter-pct=100+read-mbps=0+write-mbps=0";
    let drives: Vec<_> = ('a'..='h')
        .map(|name| format!("{drive}+name={name}"))
        .collect();
    let line = format!(
        "baseline {} --duration 2m --out b --quiet",
        drives.join(" ")
    );
    Running::start(bench.prepare(&words(&line)))
        .end_within(LONG)
        .expect(0);
    let points = points(&series(&bench));
    let rates = points.iter().filter(|point| point.part == JobPurpose::Rate);
    let fastest: Vec<_> = rates
        .filter(|point| point.offered_iops() > Some(170.0))
        .collect();
    assert_eq!(fastest.len(), 16, "of reads and of writes");
    let offered: f64 = fastest
        .iter()
        .filter_map(|point| point.offered_iops())
        .sum();
    let reached: f64 = fastest.iter().map(|point| point.iops()).sum();
    // The tolerance of 2 % is five standard deviations of this mean. The best of nine depths would be 4 % too high.
    assert!((offered / 16.0 / 190.0 - 1.0).abs() < 0.02, "{offered}");
    assert!(reached >= 0.98 * offered, "{reached} of {offered}");
}

#[test]
fn a_loop_device_is_guarded_and_its_mean_queue_depth_is_recorded() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 << 20, &[]) else {
        return;
    };
    device.put(8 << 20, &[7; 1 << 20]);
    let line = |more: &str| {
        format!(
            "baseline {} --duration 67s --out b --no-prep {more}",
            device.name
        )
    };
    bench.line(&line("")).expect(3).says(&["--erase"]);
    assert_eq!(device.content()[8 << 20], 7);
    // Reads need no consent, and change nothing on the device.
    let reads = format!(
        "baseline {} --read-only --max-depth 1 --duration 7s --out r --quiet",
        device.name
    );
    bench.line(&reads).expect(0);
    assert_eq!(device.content()[8 << 20], 7);
    let erase = format!("--erase {}", device.name);
    let mut running = Running::start(bench.prepare(&words(&line(&erase))));
    running.wait_to_hear("saturation, round 2:");
    let ended = running.end_by("TERM").expect(4);
    // A job lasts seconds, so the signal can arrive between two jobs.
    let told = ended.stdout.contains("INTERRUPTED: run the same command")
        || ended
            .stderr
            .contains("ended before a run began - repeat the command");
    assert!(told, "{}{}", ended.stdout, ended.stderr);
    let series = series(&bench);
    let points = points(&series);
    assert!(points.len() >= 2 && series.conclusion.is_none());
    let reads = Series::read(&bench.path("r")).unwrap().unwrap();
    for point in points.iter().chain(&conclusions::baseline::points(&reads)) {
        assert!(point.cpu_us.is_some_and(|us| us > 0.0), "{point:?}");
        assert!(
            point.seconds < 2.0 || point.mean_in_flight.is_some_and(|mean| mean > 0.0),
            "{point:?}"
        );
    }
}

#[test]
fn snias_write_saturation_begins_on_an_empty_drive_and_ends_when_the_drive_is_full() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 << 20, &[]) else {
        return;
    };
    device.put(0, &[7; 16 << 20]);
    let line = format!(
        "--pts saturation --pts-round 1 --erase {} --out b --no-trace",
        device.name
    );
    let ended = bench
        .line(&format!("baseline {} {line}", device.name))
        .expect(0);
    ended.says(&["discarding each whole device, as"]);
    let points = points(&series(&bench));
    let written: f64 = points
        .iter()
        .map(|point| point.writes.as_ref().unwrap().mbps * 1e6)
        .sum();
    let last = points.last().unwrap().writes.as_ref().unwrap().mbps * 1e6;
    let full = 4.0 * f64::from(16 << 20);
    assert!(
        written >= full && written - last < full,
        "{written} bytes in {} rounds",
        points.len()
    );
}
