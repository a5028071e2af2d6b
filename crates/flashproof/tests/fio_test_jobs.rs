//! The test jobs in fio's repository, run under the name fio. `FLASHPROOF_FIO_TEST_JOBS` names the directory `t/jobs`
//! of a checkout of fio; what each job must show is in `t/run-fio-tests.py` of the same checkout.

use crate::support;

use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;
use support::{Bench, FLASHPROOF, Running};

/// Maximum duration of a job: some write several gigabytes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Jobs in running order, each with its exit code. A job that ends in `-post` uses the files of the job before it.
const JOBS: &[(&str, i32)] = &[
    ("t0001-52c58027", 0),
    ("t0003-0ae2c6e1-pre", 0),
    ("t0003-0ae2c6e1-post", 1),
    ("t0004-8a99fdf6", 0),
    ("t0005-f7078f7b", 0),
    ("t0007-37cf9e3c", 0),
    ("t0008-ae2fafc8", 0),
    ("t0015-4e7e7898", 0),
    ("t0016-d54ae22", 0),
    ("t0017", 0),
    ("t0018", 0),
    ("t0019", 0),
    ("t0020", 0),
    ("t0021", 0),
    ("t0022", 0),
    ("t0023", 0),
    ("t0024", 0),
    ("t0025", 0),
    ("t0026", 0),
    ("t0027", 0),
    ("t0028-c6cade16", 0),
    ("t0029", 0),
    ("t0030", 0),
    ("t0031-pre", 0),
    ("t0031", 0),
    ("t0032-43063a1c", 0),
    ("t0033", 0),
    ("t0034", 0),
    ("t0036-pre", 0),
    ("t0036-post", 0),
    ("t0037-pre", 0),
    ("t0037-post", 0),
    ("t0038-397f1338", 0),
];

/// Jobs that write 4 GiB and more: only in long runs.
const LARGE_JOBS: &[(&str, i32)] = &[
    ("t0002-13af05ae-pre", 0),
    ("t0002-13af05ae-post", 0),
    ("t0006-82af2a7c", 0),
    ("t0010-b7aae4ba", 0),
    ("t0013", 0),
];

const FILES: &str = "t0002file foo xxx t0026file t0027file t0029file t0030file t0036file t0037file.1 t0037file.2 \
                     t0037file.3 t0037file.4";

fn offsets(bench: &Bench, log: &str) -> Vec<u64> {
    let text = bench.text(log);
    text.lines()
        .map(|line| line.split(", ").nth(4).unwrap().parse().unwrap())
        .collect()
}

fn wrong(bench: &Bench, name: &str, report: &Value) -> Option<String> {
    let kbytes = |job: usize, kind: &str| report["jobs"][job][kind]["io_kbytes"].as_u64().unwrap();
    let expect = |what: &str, is: bool| (!is).then(|| format!("{what}: {report:#}"));
    let blocks = |log: &str| {
        offsets(bench, log)
            .iter()
            .map(|offset| offset / 4_096)
            .collect::<Vec<_>>()
    };
    match &name[..5] {
        "t0005" => expect(
            "reads as much as it writes",
            kbytes(0, "read") == 102_400 && kbytes(0, "write") == 102_400,
        ),
        "t0006" => {
            let ratio = kbytes(0, "read") as f64 / kbytes(0, "write") as f64;
            expect(
                "reads twice as much as it writes",
                (1.99..=2.01).contains(&ratio),
            )
        }
        "t0007" => expect("ends at the end of the file", kbytes(0, "read") == 87_040),
        "t0008" => expect("reads each block once", kbytes(0, "read") == 32_768),
        "t0019" => expect(
            "in sequence",
            blocks("test_bw.log") == (0..256).collect::<Vec<_>>(),
        ),
        "t0020" | "t0021" | "t0022" => {
            let seen = blocks("test_bw.log");
            let distinct = seen.iter().collect::<HashSet<_>>().len();
            let follow = seen
                .windows(2)
                .filter(|pair| pair[1] == pair[0] + 1)
                .count();
            expect(
                "in random order",
                seen.len() == 256 && follow < 10 && (distinct == 256) == (&name[..5] != "t0022"),
            )
        }
        "t0023" | "t0024" => ["basic", "bs", "bsrange", "bssplit"]
            .iter()
            .find_map(|job| {
                let text = bench.text(&format!("{job}_bw.log"));
                let lines: Vec<_> = text
                    .lines()
                    .map(|line: &str| {
                        line.split(", ")
                            .skip(2)
                            .map(str::to_owned)
                            .collect::<Vec<_>>()
                    })
                    .collect();
                expect(
                    job,
                    !lines.is_empty()
                        && lines.chunks(2).all(|pair: &[Vec<String>]| {
                            pair[0][0] == "2" && pair[1][0] == "1" && pair[0][1..3] == pair[1][1..3]
                        }),
                )
            }),
        "t0025" => expect("reads back", kbytes(0, "read") == 128),
        "t0027" => expect(
            "has the pattern",
            bench.read("t0027file") == bench.read("t0027.pattern"),
        ),
        "t0029" => expect("reads twice", kbytes(1, "read") == 8),
        "t0033" => expect(
            "both values",
            bench
                .text("log_clat.2.log")
                .lines()
                .all(|line| line.split(", ").count() == 6),
        ),
        "t0034" => expect(
            "issue times",
            bench
                .text("log_clat.1.log")
                .lines()
                .all(|line| line.split(", ").count() == 7),
        ),
        _ => None,
    }
}

#[test]
fn fios_test_jobs_run_with_the_expected_results() {
    let Some(dir) = std::env::var_os("FLASHPROOF_FIO_TEST_JOBS").map(PathBuf::from) else {
        return support::skip("FLASHPROOF_FIO_TEST_JOBS names no directory with fio's test jobs")
            .unwrap_or(());
    };
    let (Some(mut bench), mut problems) = (Bench::on_disk(), Vec::new()) else {
        return;
    };
    let large = LARGE_JOBS.iter().filter(|_| support::long());
    for (name, code) in JOBS.iter().chain(large) {
        if !name.ends_with("-post") && *name != "t0031" {
            let Some(next) = Bench::on_disk() else { return };
            bench = next;
            symlink(FLASHPROOF, bench.path("fio")).unwrap();
            bench.write("t0027.pattern", b"fio's pattern...".repeat(1_024));
            let _ = fs::copy(dir.join("t0038.iolog"), bench.path("t0038.iolog"));
        }
        let mut command = bench.command(bench.path("fio"));
        command
            .arg(dir.join(format!("{name}.fio")))
            .args(["--output-format=json", "--output=report"]);
        let ended = Running::start({
            command.env("FLASHPROOF_ERASE", FILES);
            command
        })
        .end_within(PATIENCE);
        let what = match ended.code == Some(*code) {
            true if bench.exists("report") => wrong(&bench, name, &bench.json_file("report")),
            _ => Some(format!("exit code {:?}\n{}", ended.code, ended.stderr)),
        };
        problems.extend(what.map(|what| format!("{name}: {what}")));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
