//! The disk of the run directory fills up in the middle of a run.

use crate::support;

use results::judge::End;
use std::fs::{File, OpenOptions};
use std::io::Write;
use support::{Bench, CONFIG, small_disk};

/// Number of files under test, large enough that every interval needs another page of the disk.
const FILES: usize = 64;

#[test]
fn a_full_disk_ends_the_run_and_earlier_intervals_are_readable() {
    let bench = Bench::new();
    let Some(_disk) = small_disk(&bench, "disk", 8192) else {
        return;
    };
    let names: Vec<String> = (0..FILES).map(|index| format!("file{index}")).collect();
    for name in &names {
        File::create(bench.path(name))
            .unwrap()
            .set_len(1 << 20)
            .unwrap();
    }
    bench.write(
        CONFIG,
        format!(
            "device-names: {}\ntest-duration-sec: 30\nread-reqs-per-sec: 640\n",
            names.join(" ")
        ),
    );
    let mut running = support::Running::start(
        bench.prepare(&["storage", CONFIG, "--out", "disk/run", "--sla", "99%>10s"]),
    );
    running.wait_until("its first intervals", || {
        bench.exists("disk/run/telemetry.csv")
            && bench.text("disk/run/telemetry.csv").lines().count() > 2
    });
    fill(&bench);
    let ended = running.end().expect(3);
    let errors = ended.errors();
    let [error] = errors[..] else {
        panic!("one line: {}", ended.stderr)
    };
    assert!(
        error.starts_with("appending ") && error.contains("disk/run/"),
        "{error}"
    );
    assert!(
        error.contains(" - No space left on device (os error 28), 0 bytes free; free some space"),
        "{error}"
    );
    assert!(!bench.exists("disk/run/verdict.json") && !bench.exists("disk/run/verdict.json.tmp"));
    assert!(
        ended.stdout.contains("stopped because recording failed"),
        "what was seen is told: {}",
        ended.stdout
    );

    let report = bench.flashproof(&["report", "disk/run"]).expect(4);
    assert!(
        report.warnings()[0].starts_with("this run is incomplete: it has no verdict.json"),
        "{}",
        report.stderr
    );
    let run = results::run_dir::read(&bench.path("disk/run")).unwrap();
    assert_eq!(run.verdict.end, End::Unrecorded);
    assert!(run.intervals >= 2, "{}", run.intervals);
}

fn fill(bench: &Bench) {
    let mut ballast = OpenOptions::new()
        .create(true)
        .append(true)
        .open(bench.path("disk/ballast"))
        .unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while ballast.write_all(&vec![1; size]).is_ok() {}
    }
}
