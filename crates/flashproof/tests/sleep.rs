//! logind's lock against sleep, held by a stand-in for `systemd-inhibit`.

use crate::support;
use crate::support::words;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use support::{Bench, FLASHPROOF, Running};

/// Script in place of `systemd-inhibit`: writes its arguments, descriptors, process group and pid to files, and holds
/// the lock until the end of its input.
const STAND_IN: &str = "#!/bin/sh\n\
    echo \"$*\" > arguments\n\
    for fd in /proc/$$/fd/*; do readlink $fd; done > descriptors\n\
    cut -d ' ' -f 5 /proc/$$/stat > group\n\
    echo $$ > pid\n\
    cat\n\
    echo > released\n";

/// A bench with the stand-in, and a run of `seconds` on `filename` there.
fn bench_and_run(filename: &str, seconds: u32) -> (Bench, Running) {
    let bench = Bench::new();
    bench.write_victim("data", 1);
    bench.write("systemd-inhibit", STAND_IN);
    fs::set_permissions(
        bench.path("systemd-inhibit"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let mut run = bench.command(FLASHPROOF);
    run.env(
        "PATH",
        format!("{}:/usr/bin:/bin", bench.path("").display()),
    );
    run.args(words(
        "fio --name=a --rw=randread --size=1m --rate_iops=10 --time_based --out=run",
    ));
    run.args([
        format!("--filename={filename}"),
        format!("--runtime={seconds}"),
    ]);
    (bench, Running::start(run))
}

fn word(bench: &Bench, file: &str) -> String {
    bench.text(file).trim().to_owned()
}

#[test]
fn a_run_holds_the_lock_against_sleep_until_the_run_ends() {
    let (bench, run) = bench_and_run("data", 1);
    run.end().expect(0);
    let arguments = word(&bench, "arguments");
    assert!(
        arguments.starts_with("--what=sleep --mode=block ") && !arguments.contains("shutdown"),
        "{arguments}"
    );
    let pid = word(&bench, "pid");
    assert_eq!(word(&bench, "group"), pid, "Ctrl-C does not reach it");
    let descriptors = bench.text("descriptors");
    assert!(
        descriptors.contains("pipe:") && !descriptors.contains("/data"),
        "{descriptors}"
    );
    assert!(!Path::new("/proc").join(pid).exists());
}

#[test]
fn a_killed_run_releases_the_lock_against_sleep() {
    let (bench, mut run) = bench_and_run("data", 600);
    run.wait_until("the lock is held", || {
        bench.exists("pid") && !word(&bench, "pid").is_empty()
    });
    assert!(!bench.exists("released"));
    run.signal("KILL");
    run.end();
    let mut waiting = Running::start(bench.shell("sleep 600"));
    waiting.wait_until("the lock is released", || bench.exists("released"));
}

#[test]
fn simulated_drives_need_no_lock_against_sleep() {
    let (bench, run) = bench_and_run("sim:", 1);
    run.end().expect(0);
    assert!(!bench.exists("arguments"));
}
