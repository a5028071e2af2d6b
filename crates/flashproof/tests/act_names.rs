//! Under the names of ACT's programs, the binary replaces them in scripts: outputs, files, pacing, exit codes.

use crate::support;

use results::judge::End;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use support::{Bench, Ended, FLASHPROOF, Nobody, OUT, Running};

/// A real-time load with large-block writes: warnings and intervals depend on the kernel's clock.
fn writes(bench: &Bench, seconds: u32) -> String {
    File::create(bench.path("file")).unwrap();
    format!(
        "device-names: {}\nfile-size-mbytes: 16\ntest-duration-sec: {seconds}\nread-reqs-per-sec: 100\n\
         write-reqs-per-sec: 20\n",
        bench.path("file").display()
    )
}

/// Command `act_storage a.conf MORE` with standard output and standard error in the same file, as in many scripts.
fn into_one_file(bench: &Bench, more: &str) -> Command {
    let mut command = bench.command("sh");
    let program = bench.act_storage();
    command.args([
        "-c",
        &format!("exec {} a.conf {more} > log 2>&1", program.display()),
    ]);
    command
}

fn latency(bench: &Bench, log: &str) -> Ended {
    let ended = bench
        .flashproof(&["latency", "-l", log, "-t", "1"])
        .expect(0);
    Ended {
        stdout: ended.stdout.replace(log, "LOG"),
        ..ended
    }
}

#[test]
fn messages_mixed_into_act_storages_log_do_not_change_its_tables() {
    let bench = Bench::new();
    bench.write("a.conf", writes(&bench, 4));
    Running::start(into_one_file(&bench, &format!("--out {OUT}")))
        .end()
        .expect(0);
    let log = bench.text("log");
    assert!(
        log.contains("doctor: ") && log.contains("  screening, limits: "),
        "the file has both outputs: {log}"
    );
    assert!(
        !log.contains(" left\n"),
        "progress is only for terminals: {log}"
    );
    let tables = latency(&bench, "log");
    assert_eq!(
        tables.stdout,
        latency(&bench, &format!("{OUT}/act.log")).stdout
    );
    assert_eq!(
        tables
            .stdout
            .lines()
            .filter(|line| line.trim_start().starts_with(char::is_numeric))
            .count(),
        4
    );
    assert_eq!(tables.stderr, "", "the log has no warning or error");
}

#[test]
fn act_storage_writes_a_run_directory_only_with_out() {
    let bench = Bench::new();
    fs::create_dir(bench.path("scratch")).unwrap();
    bench.write(
        "a.conf",
        "device-names: sim:\ntest-duration-sec: 3\nread-reqs-per-sec: 100\n",
    );
    let names = || {
        let entries = fs::read_dir(bench.path("")).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let program = bench.act_storage();
    let before = names();
    let mut command = bench.command(&program);
    command.arg("a.conf").env("TMPDIR", bench.path("scratch"));
    let ended = Running::start(command).end().expect(0);
    assert_eq!(names(), before);
    assert_eq!(fs::read_dir(bench.path("scratch")).unwrap().count(), 0);
    assert!(
        ended.stdout.contains("\nafter 3 sec:\n") && ended.stderr.contains("PASS"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.ends_with("verdict (--out DIR keeps them)\n\n"),
        "{:?}",
        ended.stderr
    );
    let mut command = bench.command(&program);
    command.arg("a.conf").env("TMPDIR", bench.path("nowhere"));
    Running::start(command)
        .end()
        .expect_error(255, &["cannot make a temporary directory", "--out DIR"]);
}

#[test]
fn act_storage_runs_in_a_directory_that_cannot_be_written() {
    let bench = Bench::new();
    bench.write(
        "a.conf",
        "device-names: sim:\ntest-duration-sec: 3\nread-reqs-per-sec: 100\n",
    );
    // Run as a user who cannot write to this directory; the directory's owner could.
    let Some(nobody) = Nobody::named(&bench, "act_storage") else {
        return;
    };
    nobody
        .flashproof(&bench, &["a.conf"])
        .expect(0)
        .shows(&["\nafter 3 sec:\n"]);
}

#[test]
fn act_storage_paces_as_act_does_unless_the_file_says_otherwise() {
    let bench = Bench::new();
    let program = bench.act_storage();
    for (more, arrival) in [
        ("", "act"),
        ("arrival: poisson\n", "poisson"),
        ("arrival: paced\n", "paced"),
    ] {
        bench.write(
            "a.conf",
            format!("device-names: sim:\ntest-duration-sec: 2\nread-reqs-per-sec: 100\n{more}"),
        );
        let mut command = bench.command(&program);
        command.arg("a.conf");
        Running::start(command)
            .end()
            .expect(0)
            .shows(&[format!("\narrival: {arrival}\n")]);
        let own = bench
            .flashproof(&["storage", "a.conf", "--dry-run"])
            .expect(0);
        let own_arrival = if more.is_empty() { "paced" } else { arrival };
        own.shows(&[format!("\narrival: {own_arrival}\n")]);
    }
}

#[test]
fn option_as_act_is_refused_for_a_file_that_sets_another_arrival() {
    let bench = Bench::new();
    let config = "device-names: sim:\ntest-duration-sec: 5\nread-reqs-per-sec: 100\n";
    for arrival in ["poisson", "paced", "closed"] {
        bench.write("test.conf", format!("{config}arrival: {arrival}\n"));
        let why = format!(
            "{arrival} contradicts --as-act, which is arrival: act - leave out one of the two"
        );
        for command in [
            "storage test.conf",
            "certify --config test.conf",
            "rate --config test.conf",
        ] {
            let ended = bench.line(&format!("{command} --as-act --out run"));
            ended.expect_errors(2, &[format!("test.conf:4: arrival: {why}")]);
        }
    }
    bench
        .storage(
            &format!("{config}arrival: act\n"),
            &["--as-act", "--dry-run"],
        )
        .expect(0);
    bench
        .flashproof(&["rate", "--config", "test.conf", "--as-act", "--slice", "12"])
        .expect(0);
}

#[test]
fn a_signal_ends_act_storage_after_a_last_report_as_in_act() {
    for (signal, number) in [("TERM", 15), ("INT", 2)] {
        let bench = Bench::new();
        bench.write("a.conf", writes(&bench, 600));
        let mut running = Running::start(into_one_file(&bench, &format!("--out {OUT}")));
        running.wait_until("its first interval", || {
            bench.exists("log") && bench.text("log").contains("\nafter 1 sec")
        });
        let ended = running.end_by(signal);
        assert_eq!(
            (ended.signal, ended.code),
            (Some(number), None),
            "{}",
            bench.text("log")
        );
        assert_eq!(
            bench.run().verdict.end,
            End::interrupted(format!("SIG{signal}"))
        );
        assert_eq!(
            latency(&bench, "log").stdout,
            latency(&bench, &format!("{OUT}/act.log")).stdout
        );
    }
}

#[test]
fn act_prep_exits_with_128_plus_the_signal_number() {
    let bench = Bench::new();
    symlink(FLASHPROOF, bench.path("act_prep")).unwrap();
    let mut command = bench.command("sh");
    command.args([
        "-c",
        "./act_prep sim:capacity=4000GiB+write-us=900000 & echo $! > pid; wait $!; echo $?",
    ]);
    let mut running = Running::start(command);
    running.wait_until("it began", || {
        bench.exists("pid") && bench.text("pid").ends_with('\n')
    });
    let pid = bench.text("pid").trim().to_owned();
    // flashproof handles signals from the start, before any write.
    running.wait_until("it listens", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask >> 14 & 1 == 1)
    });
    let kill = Command::new("sh")
        .args(["-c", &format!("kill -TERM {pid}")])
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(kill.success());
    let ended = running.end().expect(0);
    assert_eq!(
        ended.stdout.lines().last(),
        Some("143"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
}
