//! Histogram loads on simulated drives: the run directory has the I/O that the sizing paper's example requests.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use support::{Bench, totals};

const SECONDS: u64 = 10;

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The example on a simulated drive, for a few seconds, without keys that begin with `without`, with lines `more`.
fn example(without: &[&str], more: &str) -> String {
    let text = fs::read_to_string(project("examples/sizing-paper-sim.conf")).unwrap();
    let kept = text
        .lines()
        .filter(|line| !without.iter().any(|key| line.starts_with(key)));
    let kept = kept.map(|line| {
        if line.starts_with("test-duration") {
            "test-duration-sec: 10"
        } else {
            line
        }
    });
    format!("{}\n{more}seed: 1\n", kept.collect::<Vec<_>>().join("\n"))
}

/// Expected average iostat numbers: r/s, w/s, rkB/s, wkB/s.
fn iostat(bench: &Bench) -> [f64; 4] {
    let verdict = bench.run().verdict;
    let of = |name: &str| {
        verdict
            .streams
            .iter()
            .find(|stream| stream.name == name)
            .unwrap()
    };
    let records = of("reads");
    let reads = of("large-block-reads");
    let writes = of("large-block-writes");
    let per_sec = |count: u64| count as f64 / SECONDS as f64;
    [
        per_sec(records.ops + reads.ops),
        per_sec(writes.ops),
        per_sec(records.bytes + reads.bytes) / 1024.0,
        per_sec(writes.bytes) / 1024.0,
    ]
}

#[test]
fn the_sizing_papers_example_causes_the_io_that_the_papers_formulas_predict() {
    const ADJUSTED: [&str; 4] = ["direct-frees", "total-lbw", "lbr-req", "lbw-req"];
    for (without, more, expected) in [
        (&ADJUSTED[..], "", [12_149.3, 1679.3, 388_240.0, 214_954.0]),
        (
            &ADJUSTED,
            "lbw-req-offset: 90\n",
            [12_149.3, 1511.4, 388_240.0, 193_458.0],
        ),
        (&[], "", [11_684.5, 1561.8, 328_737.0, 199_907.0]),
    ] {
        let bench = Bench::new();
        bench.storage(&example(without, more), &[]).expect(0);
        let found = iostat(&bench);
        for (n, (found, expected)) in found.into_iter().zip(expected).enumerate() {
            // Rates are exact. The bytes of reads come from some hundred thousand random sizes.
            let slack = if n == 2 { 0.01 } else { 0.0002 };
            assert!(
                (found / expected - 1.0).abs() < slack,
                "{more}: {n}: {found}, not {expected}"
            );
        }
        assert_eq!(totals(&bench.run(), "reads"), (10_470 * SECONDS, 0, 0));
    }
}

#[test]
fn the_configuration_printed_in_the_sizing_paper_runs_with_another_drive_and_duration() {
    let printed =
        fs::read_to_string(project("crates/act/tests/data/sizing-paper/final.conf")).unwrap();
    let here = printed
        .replace("/dev/nvme0n1", "sim:")
        .replace("test-duration-sec: 7200", "test-duration-sec: 10");
    for pacing in [&[][..], &["--as-act"]] {
        let bench = Bench::new();
        bench
            .storage(&here, pacing)
            .expect_stderr(0, &["4 x 35 became service-threads: 140"]);
        let log = bench.text("run/act.log");
        for line in [
            "record-bytes: 0",
            "record-stored-bytes: 1024 ... 131072",
            "large-block-writes-per-sec: 1561.77",
        ]
        .into_iter()
        .chain([
            "direct-frees: 300",
            "lbr-req-offset: 90",
            "size-within-bucket: paper",
        ]) {
            assert!(log.lines().any(|found| found == line), "{line}\n{log}");
        }
    }
}

#[test]
fn commits_have_the_mean_size_of_the_write_histogram() {
    let bench = Bench::new();
    bench
        .storage(
            &example(&["lbw-req", "lbr-req"], "commit-to-device: yes\n"),
            &[],
        )
        .expect(0);
    let run = bench.run();
    let of = |name: &str| {
        run.verdict
            .streams
            .iter()
            .find(|stream| stream.name == name)
            .unwrap()
    };
    let commits = of("writes");
    let blocks = of("large-block-writes");
    assert_eq!(commits.ops, 5957 * SECONDS);
    let mean = commits.bytes as f64 / commits.ops as f64;
    assert!((mean / 36_950.2 - 1.0).abs() < 0.015, "{mean}");
    assert_eq!(
        blocks.ops, 8397,
        "half of the large blocks, those of defragmentation"
    );
}
