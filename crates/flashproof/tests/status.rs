//! `flashproof report status` of a run that is running, stopped, killed or ended.

use crate::support;
use crate::support::words;

use serde_json::Value;
use std::fs::File;
use support::{Bench, OUT, Running};

/// Starts a run of `seconds` in real time that only reads a file, and waits for its first interval.
fn started(bench: &Bench, seconds: u32) -> Running {
    File::create(bench.path("file"))
        .unwrap()
        .set_len(16 << 20)
        .unwrap();
    let config =
        format!("device-names: file\ntest-duration-sec: {seconds}\nread-reqs-per-sec: 100\n");
    let mut running = bench.start(&config, &["--sla", "99%>10s"]);
    running.wait_for_interval(bench, OUT);
    running
}

fn status(bench: &Bench, code: i32) -> Value {
    bench
        .flashproof(&["report", "status", OUT, "--json"])
        .expect(code)
        .json()
}

#[test]
fn running_stopped_and_killed_runs_are_distinguished() {
    let bench = Bench::new();
    let mut running = started(&bench, 600);
    let going_on = status(&bench, 0);
    assert_eq!(
        (&going_on["kind"], &going_on["phase"]),
        (&Value::from("run"), &Value::from("running"))
    );
    assert_eq!(going_on["pid"], running.pid());
    assert_eq!(going_on["streams"][0]["offered_iops"], 100.0);
    assert!(
        going_on["ends_unix_ms"].as_u64().unwrap() > 600_000,
        "{going_on}"
    );
    let says = format!("running (process {}): last interval ", running.pid());
    bench
        .flashproof(&["report", "status", OUT])
        .expect_stdout(0, &[&says]);
    running.signal("STOP");
    // The signal takes effect after a moment.
    running.wait_until("it is held", || {
        let ended = bench.flashproof(&["report", "status", OUT]);
        ended.stdout.contains("STOPPED") && ended.code == Some(4)
    });
    running.signal("CONT");
    running.wait_until("it goes on", || {
        bench
            .flashproof(&["report", "status", OUT])
            .stdout
            .contains(": last interval ")
    });
    assert_eq!(running.end_by("KILL").signal, Some(9));
    // Directly after the kill, the state is certain, without waiting to see if the files still grow.
    let killed = status(&bench, 4);
    assert_eq!(
        (&killed["phase"], &killed["ends_unix_ms"]),
        (&Value::from("killed"), &Value::Null),
        "{killed}"
    );
    let ended = bench
        .flashproof(&["report", "status", OUT, "--watch"])
        .expect(4);
    assert!(
        ended.stdout.contains("KILLED") && !ended.stdout.contains(" left, ends "),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_killed_series_is_not_running_immediately_after_the_kill() {
    let bench = Bench::new();
    File::create(bench.path("file"))
        .unwrap()
        .set_len(16 << 20)
        .unwrap();
    bench.write(
        "a.conf",
        "device-names: file\nfile-size-mbytes: 16\ntest-duration-sec: 60\nread-reqs-per-sec: 100\n",
    );
    let options = words("certify --config a.conf --load 1 --no-prep --duration 600s");
    let mut running = Running::start(
        bench.prepare(&[&options[..], &["--sla", "99%>10s", "--out", "series"]].concat()),
    );
    running.wait_for_interval(&bench, "series/stage-1");
    assert!(
        bench
            .flashproof(&["report", "status", "series"])
            .expect(0)
            .stdout
            .contains(" left in the planned steps")
    );
    assert_eq!(running.end_by("KILL").signal, Some(9));
    let ended = bench
        .flashproof(&["report", "status", "series"])
        .expect_stdout(4, &["NOT RUNNING"]);
    assert!(
        [" left, ends ", " left in the planned"]
            .iter()
            .all(|left| !ended.stdout.contains(left)),
        "{ended:?}"
    );
}

#[test]
fn several_directories_are_shown_and_the_worst_decides_the_exit_code() {
    let bench = Bench::new();
    for (name, drive, code) in [("good", "sim:", 0), ("bad", "sim:read-us=9000", 1)] {
        let config =
            format!("device-names: {drive}\ntest-duration-sec: 60\nread-reqs-per-sec: 100\n");
        bench
            .start_as(&format!("{name}.conf"), name, &config, &[])
            .end()
            .expect(code);
    }
    bench.flashproof(&["report", "status", "good"]).expect(0);
    let both = bench
        .flashproof(&["report", "status", "good", "bad"])
        .expect(1);
    assert!(
        both.stdout
            .starts_with("2 directories: 1 failed (bad); 1 passed or not judged\n\ngood  sim:\n")
            && both.stdout.contains("\n\nbad  sim:read-us=9000\n"),
        "{both:?}"
    );
    let json = bench
        .flashproof(&["report", "status", "bad", "good", "--json"])
        .expect(1);
    let read: Vec<Value> = serde_json::Deserializer::from_str(&json.stdout)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(
        read.iter()
            .map(|status| &status["outcome"])
            .collect::<Vec<_>>(),
        ["fail", "pass"]
    );
    let ended = bench
        .flashproof(&["report", "status", "good", "nowhere", "bad", "--watch"])
        .expect(3);
    assert!(
        ended.stdout.contains("good") && ended.stdout.contains("bad") && ended.errors().len() == 1,
        "{ended:?}"
    );
}

#[test]
fn a_watched_run_is_shown_until_its_verdict() {
    let bench = Bench::new();
    let running = started(&bench, 8);
    let watched = bench
        .flashproof(&["report", "status", OUT, "--watch"])
        .expect(0);
    running.end().expect(0);
    assert!(
        watched.stdout.contains("running (process ") && watched.stdout.contains("PASS: "),
        "{}",
        watched.stdout
    );
    assert!(
        !watched.stdout.contains('\x1b') && !watched.stdout.contains('\r'),
        "{:?}",
        watched.stdout
    );
    assert_eq!(status(&bench, 0)["phase"], "ended");
}

#[test]
fn a_directory_without_a_run_is_refused() {
    let bench = Bench::new();
    bench
        .line("report status nowhere")
        .expect_error(3, &["reading nowhere - No such file", "check the path"]);
    bench
        .line("report status .")
        .expect_error(3, &["the directory is empty; give the directory of a run"]);
}
