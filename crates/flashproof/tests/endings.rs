//! Runs that do not reach their end: killed, interrupted, interrupted twice.

use crate::support;

use results::act_log::ActLogReader;
use results::judge::{End, Outcome};
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::{Bench, LAX, OUT, Running};

/// A real-time load that only reads a file. Without writes, the load begins at once.
fn reads(bench: &Bench, seconds: u32) -> String {
    File::create(bench.path("file"))
        .unwrap()
        .set_len(16 << 20)
        .unwrap();
    format!("device-names: file\ntest-duration-sec: {seconds}\nread-reqs-per-sec: 100\n")
}

fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64
}

#[test]
fn a_run_killed_at_any_moment_is_readable_and_lacks_at_most_two_intervals() {
    let bench = Bench::new();
    let config = reads(&bench, 600);
    // A random moment in each of six successive periods of 700 ms. A failure prints the moments.
    let random = unix_ms();
    let moments_ms: Vec<u64> = (0..6)
        .map(|n| 300 + 700 * n + (random / 7_u64.pow(n as u32)) % 700)
        .collect();
    let name = |index: usize| format!("run{index}");
    let start = |index| bench.start_as(&format!("{index}.conf"), &name(index), &config, &LAX);
    let mut running: Vec<Running> = (0..moments_ms.len()).map(start).collect();
    for (index, running) in running.iter_mut().enumerate() {
        let telemetry = format!("{}/lag.hlog", name(index));
        running.wait_until("it begins", || bench.exists(&telemetry));
    }
    let begun = Instant::now();
    for (index, (running, moment_ms)) in running.into_iter().zip(moments_ms).enumerate() {
        std::thread::sleep(Duration::from_millis(moment_ms).saturating_sub(begun.elapsed()));
        running.signal("KILL");
        let killed_unix_ms = unix_ms();
        assert_eq!(running.end().signal, Some(9));
        let context = format!("killed at {moment_ms} ms");

        let report = bench.flashproof(&["report", &name(index)]).expect(4);
        let incomplete = "this run is incomplete: it has no verdict.json";
        assert!(
            report.warnings()[0].starts_with(incomplete),
            "{}",
            report.stderr
        );
        assert!(
            report.stdout.contains("ended without a recorded reason"),
            "{context}: {}",
            report.stdout
        );
        let run = results::run_dir::read(&bench.path(name(index))).unwrap();
        assert_eq!(run.verdict.end, End::Unrecorded);
        assert!(run.verdict.partial);
        // Two intervals may be missing: the interval in progress, and the interval being written.
        let ran_ms = killed_unix_ms - run.manifest.started_unix_ms;
        assert!(
            run.intervals + 2 >= ran_ms / 1000,
            "{context}: {} intervals in {ran_ms} ms",
            run.intervals
        );
        assert!(
            run.intervals <= ran_ms / 1000,
            "{context}: {} intervals in {ran_ms} ms",
            run.intervals
        );
        assert_eq!(
            last_second_of_act_log(&bench, &name(index)).abs_diff(run.intervals) / 2,
            0,
            "{context}"
        );
    }
}

/// Time of the last complete chunk, seconds; 0 without one.
fn last_second_of_act_log(bench: &Bench, run: &str) -> u64 {
    let bytes = bench.read(&format!("{run}/act.log"));
    ActLogReader::new(&bytes[..])
        .unwrap()
        .map(|chunk| chunk.unwrap().after_sec)
        .last()
        .unwrap_or(0)
}

fn intervals(bench: &Bench) -> usize {
    let telemetry = std::fs::read_to_string(bench.path("run/telemetry.csv")).unwrap_or_default();
    telemetry.lines().count().saturating_sub(1)
}

/// Starts a run of ten minutes, and waits for its first interval.
fn started(bench: &Bench) -> Running {
    let mut running = bench.start(&reads(bench, 600), &LAX);
    running.wait_until("its first interval", || intervals(bench) > 0);
    running
}

#[test]
fn a_signal_ends_a_run_cleanly_with_a_partial_verdict() {
    for signal in ["INT", "TERM"] {
        let bench = Bench::new();
        let running = started(&bench);
        let ended = running.end_by(signal).expect(4);
        assert!(ended.errors().is_empty(), "{}", ended.stderr);
        ended.shows(&[format!("stopped by SIG{signal} after ")]);
        ended.shows(&["so far the run would pass"]);
        let run = bench.run();
        assert_eq!(run.verdict.end, End::interrupted(format!("SIG{signal}")));
        assert_eq!(
            (run.verdict.outcome, run.verdict.partial, run.is_complete()),
            (Outcome::Invalid, true, true)
        );
        assert_eq!(run.agrees(), Some(true));
        assert!(run.remarks.is_empty(), "{:?}", run.remarks);
        let (_, errors, unissued) = support::totals(&run, "reads");
        assert_eq!(
            (errors, unissued),
            (0, 0),
            "all operations scheduled until then were done"
        );
        bench.flashproof(&["report", OUT]).expect(4);
    }
}

#[test]
fn an_incomplete_slice_shows_shares_of_done_and_of_scheduled_operations() {
    let bench = Bench::new();
    let config = "device-names: sim:stall-ms=140+stall-every-s=1\ntest-duration-sec: 86400\nread-reqs-per-sec: 4000\n";
    let mut running = bench.start(config, &["--slice", "24h"]);
    // After a quarter of an hour, 0.1 % of the whole day's operations are slow. The rest of the day cannot change this.
    running.wait_until("half an hour", || intervals(&bench) >= 1_800);
    running.end_by("INT").shows(&[
        " due in the whole slice; ",
        "   incomplete: % of the operations that ran",
        "; the deciding share counts all operations due in the whole slice; shares in tables",
    ]);
    bench.flashproof(&["report", OUT, "--html", "page.html"]);
    for part in [
        "Share over each threshold, incomplete slice",
        "1 (incomplete)",
    ] {
        assert!(bench.text("page.html").contains(part), "no `{part}`");
    }
}

#[test]
fn a_hangup_does_not_end_a_run() {
    let bench = Bench::new();
    let mut running = started(&bench);
    running.signal("HUP");
    running.wait_to_hear("the terminal is gone; the work continues without it");
    let before = intervals(&bench);
    running.wait_until("two more intervals", || intervals(&bench) > before + 1);
    running.end_by("TERM").expect(4);
    assert_eq!(bench.run().verdict.end, End::interrupted("SIGTERM"));
}

#[test]
fn a_run_interrupted_after_its_failure_is_a_fail() {
    let bench = Bench::new();
    // A run of four months of simulated time: the signal arrives near its beginning.
    let config = "device-names: sim:error-rate=0.0001\ntest-duration-sec: 10000000\nread-reqs-per-sec: 1000\n\
                  report-interval-sec: 60\n";
    let mut running = bench.start(config, &["--max-errors", "1000000000000"]);
    running.wait_until("an error", || {
        bench.exists("run/act.log") && bench.text("run/act.log").contains("failed: ")
    });
    running.end_by("INT").expect(1);
    let run = bench.run();
    assert_eq!(
        (run.verdict.outcome, run.verdict.partial),
        (Outcome::Fail, true)
    );
    assert_eq!(run.verdict.end, End::interrupted("SIGINT"));
}

#[test]
fn a_second_signal_ends_a_run_at_once_without_a_verdict() {
    let bench = Bench::new();
    // The rate is far too high for one slot. At the first signal, ten more seconds are needed for the late operations.
    let config = reads(&bench, 600).replace(": 100\n", ": 4000000\n")
        + "service-threads: 1\nmax-lag-sec: 0\n";
    let mut running = bench.start(&config, &LAX);
    running.wait_until("its first interval", || intervals(&bench) > 0);
    running.signal("INT");
    running.wait_to_hear("SIGINT: ending the run; a second signal ends it at once");
    running.signal("TERM");
    let said = Instant::now();
    let ended = running.end();
    assert!(said.elapsed() < Duration::from_secs(5), "at once");
    ended.expect_errors(
        4,
        &["ended at once by a second signal - the run directory has no verdict"],
    );
    assert!(!bench.exists("run/verdict.json"));
    let report = bench.flashproof(&["report", OUT]).expect(4);
    assert!(
        report.warnings()[0].starts_with("this run is incomplete"),
        "{}",
        report.stderr
    );
}

#[test]
fn a_stopped_and_continued_run_blames_flashproofs_own_lag() {
    let bench = Bench::new();
    let config = reads(&bench, 3).replace(": 100\n", ": 1000\n");
    // The stop of 600 ms delays a fifth of the reads, far more than a busy disk does.
    let mut running = bench.start(&config, &["--sla", "10%>8ms"]);
    running.wait_until("its first interval", || intervals(&bench) > 0);
    running.signal("STOP");
    std::thread::sleep(Duration::from_millis(600));
    running.signal("CONT");
    let ended = running.end().expect(4);
    let run = bench.run();
    assert_eq!(
        (run.verdict.outcome, run.verdict.partial),
        (Outcome::Invalid, false)
    );
    // On a busy machine, flashproof may also see completions late, and the verdict may name this reason instead.
    let doubts = [
        "this program's own lag would decide",
        "this program may have caused the slow operations",
    ];
    assert!(
        doubts.iter().any(|doubt| ended.stdout.contains(doubt)),
        "{}",
        ended.stdout
    );
    assert_eq!(
        support::totals(&run, "reads"),
        (3000, 0, 0),
        "no operation is left out"
    );
}

#[test]
fn a_signal_ignored_at_the_start_does_not_end_a_run() {
    let bench = Bench::new();
    bench.write(support::CONFIG, reads(&bench, 600));
    // nohup ignores SIGHUP. A shell without job control ignores SIGINT for programs that it starts with `&`.
    let mut command = bench.command("sh");
    let line = format!(
        "trap '' HUP INT; exec {} storage test.conf --out run --quiet",
        support::FLASHPROOF
    );
    command.args(["-c", &line]);
    let mut running = Running::start(command);
    running.wait_until("its first interval", || intervals(&bench) > 0);
    running.signal("HUP");
    running.signal("INT");
    let before = intervals(&bench);
    running.wait_until("two more intervals", || intervals(&bench) > before + 1);
    running.end_by("TERM").expect(4);
    assert_eq!(bench.run().verdict.end, End::interrupted("SIGTERM"));
}

#[test]
fn tests_start_programs_with_default_signal_dispositions() {
    // Runs these tests again with signals ignored, as under `nohup` or in the background of a script.
    let tests = [
        "a_signal_ends_a_run_cleanly_with_a_partial_verdict",
        "a_hangup_does_not_end_a_run",
    ];
    let line = format!(
        "trap '' HUP INT QUIT TERM; exec \"$0\" --include-ignored --test-threads 2 {}",
        tests.join(" ")
    );
    let this = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", &line])
        .arg(this)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("2 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
