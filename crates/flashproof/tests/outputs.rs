//! Output of a run: the run directory, ACT's log, and equal output for equal seeds.

use crate::support;

use results::act_log::{ActLogReader, Chunk};
use results::judge::Outcome;
use serde_json::Value;
use std::fs;
use support::{Bench, OUT, Running, totals};

/// All streams on two drives: 1,000 reads/s, 480 commits/s, defragmentation, and a tomb raider.
const FULL: &str = "device-names: sim:capacity=1GiB sim:capacity=1GiB+name=b\ntest-duration-sec: 12\n\
                    read-reqs-per-sec: 1000\nwrite-reqs-per-sec: 480\ncommit-to-device: yes\ntomb-raider: yes\n\
                    tomb-raider-sleep-usec: 2000\nmicrosecond-histograms: yes\n";

/// Names in the header of an act.log, and all its chunks.
fn act_log(text: &[u8]) -> (Vec<String>, Vec<Chunk>) {
    let mut reader = ActLogReader::new(text).unwrap();
    let chunks = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(reader.truncation(), None);
    (reader.header().histogram_names.clone(), chunks)
}

#[test]
fn a_run_directory_has_exactly_the_expected_files() {
    let bench = Bench::new();
    let ended = bench.storage(FULL, &[]).expect(0);
    let mut names: Vec<_> = fs::read_dir(bench.path(OUT))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = "act.log checksums.csv intervals.csv lag.hlog manifest.json service.hlog telemetry.csv verdict.json \
                    wait.hlog";
    assert_eq!(names, expected.split(' ').collect::<Vec<_>>());
    assert!(
        ended.stdout.ends_with("run directory: run\n")
            && ended.stderr.contains("run directory: run\n")
    );
    let manifest = bench.json("manifest.json");
    assert_eq!(manifest["workloads"][0]["config"]["as_written"], FULL);
    assert_eq!(
        manifest["devices"],
        serde_json::json!(["sim:capacity=1GiB", "sim:capacity=1GiB+name=b"])
    );
    assert_eq!(manifest["engine_facts"]["engine"], "simulated");
    assert!(
        manifest["seed"].is_u64() && manifest["host_facts"]["kernel_release"].is_string(),
        "{manifest}"
    );
    assert!(
        manifest["command"]
            .as_array()
            .unwrap()
            .contains(&Value::from("--out"))
    );
    assert!(!bench.exists("state"), "simulated drives need no guard");
}

#[test]
fn the_act_log_counts_every_operation() {
    let bench = Bench::new();
    bench.storage(FULL, &[]).expect(0);
    let run = bench.run();
    let (names, chunks) = act_log(&bench.read("run/act.log"));
    assert_eq!(
        chunks
            .iter()
            .map(|chunk| chunk.after_sec)
            .collect::<Vec<_>>(),
        (1..=12).collect::<Vec<_>>()
    );
    let last = &chunks[11];
    let total = |name: &str| {
        let at = names
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| panic!("{name} in {names:?}"));
        last.histograms[at].total()
    };
    assert_eq!(totals(&run, "reads"), (12_000, 0, 0));
    assert_eq!(total("reads"), 12_000);
    assert_eq!(
        total("sim:capacity=1GiB-reads") + total("sim:capacity=1GiB+name=b-reads"),
        12_000
    );
    for stream in ["large-block-reads", "large-block-writes"] {
        assert_eq!(total(stream), totals(&run, stream).0, "{stream}");
        assert!(total(stream) > 0, "{stream}");
    }
    let commits = run
        .verdict
        .streams
        .iter()
        .find(|stream| stream.name.contains("commit") || stream.name == "writes");
    assert!(
        commits.is_some_and(|commits| commits.ops >= 12 * 480),
        "{:?}",
        run.verdict.streams
    );
}

#[test]
fn equal_seeds_give_equal_runs_and_different_seeds_different_runs() {
    let bench = Bench::new();
    for (out, seed) in [("a", 1), ("b", 1), ("c", 2)] {
        bench
            .start_as(
                out,
                &format!("run-{out}"),
                &format!("{FULL}seed: {seed}\n"),
                &["--quiet"],
            )
            .end()
            .expect(0);
    }
    let file = |out: &str, name: &str| {
        let text = bench.text(&format!("run-{out}/{name}"));
        // Only the start time may differ, and the checksums and lengths of files that contain it.
        let timed = [
            "#[StartTime: ",
            "#[BaseTime: ",
            "\"crc32\": ",
            "\"bytes\": ",
        ];
        let timeless = text.lines().filter(|line| {
            !timed
                .iter()
                .any(|timed| line.trim_start().starts_with(timed))
        });
        timeless.map(|line| format!("{line}\n")).collect::<String>()
    };
    for name in [
        "act.log",
        "intervals.csv",
        "service.hlog",
        "wait.hlog",
        "lag.hlog",
        "verdict.json",
    ] {
        assert!(
            file("a", name) == file("b", name),
            "{name} of the same seed"
        );
    }
    for name in ["act.log", "service.hlog"] {
        assert!(file("a", name) != file("c", name), "{name} of another seed");
    }
    assert!(
        file("a", "service.hlog").lines().count() > 10,
        "the log has histograms"
    );
}

#[test]
fn a_report_repeats_the_verdict_of_the_run() {
    let bench = Bench::new();
    let config = "device-names: sim:stall-ms=1000+stall-at-s=3\ntest-duration-sec: 10\nread-reqs-per-sec: 500\n";
    let ended = bench.storage(config, &["--slice", "5"]).expect(1);
    let report = bench.flashproof(&["report", OUT]).expect(1);
    assert!(report.stderr.is_empty(), "{}", report.stderr);
    let again = report.stdout.trim();
    assert_eq!(
        ended.stdout.trim(),
        format!("{again}\n\nrun directory: run")
    );
    let json = bench
        .flashproof(&["report", OUT, "--json"])
        .expect(1)
        .json();
    let run = &json["reports"][0];
    let mut written = bench.json("verdict.json");
    // The file contains its own checksum, and those of the other files.
    for key in ["crc32", "files"] {
        written.as_object_mut().unwrap().remove(key).unwrap();
    }
    assert_eq!(run["verdict"], written);
    assert_eq!(
        (&run["verdict"]["outcome"], &run["complete"]),
        (&Value::from("fail"), &Value::from(true))
    );
}

#[test]
fn an_edited_verdict_is_detected_and_ignored() {
    let bench = Bench::new();
    bench
        .storage(
            "device-names: sim:error-rate=0.1\ntest-duration-sec: 10\nread-reqs-per-sec: 50\n",
            &[],
        )
        .expect(1);
    let edited = bench
        .text("run/verdict.json")
        .replace("\"outcome\": \"fail\"", "\"outcome\": \"pass\"");
    bench.write("run/verdict.json", edited);
    let report = bench.flashproof(&["report", OUT]).expect(1);
    assert!(
        report.warnings()[0].contains("verdict.json is damaged (its bytes have the checksum"),
        "{}",
        report.stderr
    );
}

#[test]
fn called_as_act_storage_flashproof_prints_acts_log_and_exits_0_whatever_the_verdict() {
    let bench = Bench::new();
    bench.write(
        "slow.conf",
        "device-names: sim:read-us=9000\ntest-duration-sec: 5\nread-reqs-per-sec: 1000\n",
    );
    let act = bench.act_storage();
    let ended = bench.program(&act, &["slow.conf", "--out", OUT]).expect(0);
    assert_eq!(bench.run().verdict.outcome, Outcome::Fail);
    assert_eq!(ended.stdout, bench.text("run/act.log"));
    assert!(ended.stdout.lines().any(|line| line == "ACT version 6.6"));
    assert_eq!(act_log(ended.stdout.as_bytes()).1.len(), 5);
    assert!(
        ended.stderr.contains("FAIL: too slow: "),
        "{}",
        ended.stderr
    );
    // Like ACT's program, act_storage exits with 255 if a test cannot run.
    bench
        .program(&act, &["missing.conf"])
        .expect_error(255, &["cannot read the configuration missing.conf"]);
}

#[test]
fn option_duration_overrides_the_duration_in_the_file() {
    let bench = Bench::new();
    bench.storage(FULL, &["--duration", "6s"]).expect(0);
    assert_eq!(totals(&bench.run(), "reads"), (6_000, 0, 0));
    bench
        .storage(FULL, &["--duration", "0"])
        .expect_error(2, &["a time span must be at least 1 s"]);
    let tenants = include_str!("../../../examples/tenants/ycsb-a-four.toml");
    bench.write("four.toml", tenants);
    bench
        .line("storage tenants four.toml --device sim:capacity=8GiB --duration 2 --out tenants")
        .expect_stdout(0, &["slices of 2 s"]);
}

#[test]
fn a_run_without_out_prints_its_directory_and_quiet_suppresses_progress() {
    let bench = Bench::new();
    bench.write(
        "a.conf",
        "device-names: sim:\ntest-duration-sec: 5\nread-reqs-per-sec: 10\n",
    );
    let ended = bench
        .flashproof(&["storage", "a.conf", "--quiet"])
        .expect(0);
    assert!(
        ended.stdout.starts_with("PASS: the load was held: ") && ended.stdout.lines().count() < 5,
        "{}",
        ended.stdout
    );
    let (_, name) = ended
        .stdout
        .trim_end()
        .rsplit_once("run directory: ")
        .unwrap();
    assert!(name.starts_with("flashproof-results/storage-20"), "{name}");
    assert!(bench.exists(&format!("{name}/verdict.json")));
    assert_eq!(ended.stderr, "");
    let series = bench
        .flashproof(&["certify", "-q", "--load", "0.1", "--duration", "60s"])
        .expect(0);
    assert!(
        series.stderr.is_empty() && series.stdout.contains("PASS"),
        "{}{}",
        series.stderr,
        series.stdout
    );
}

#[test]
fn a_failed_run_with_truncated_telemetry_is_reported_as_invalid_and_not_as_a_pass() {
    let bench = Bench::new();
    let config = "device-names: sim:stall-at-s=8+stall-ms=900\ntest-duration-sec: 10\nread-reqs-per-sec: 2000\n";
    bench.storage(config, &[]).expect(1);
    let lines: Vec<_> = bench
        .text("run/telemetry.csv")
        .lines()
        .take(7)
        .map(|line| format!("{line}\n"))
        .collect();
    bench.write("run/telemetry.csv", lines.concat());
    bench
        .flashproof(&["report", OUT])
        .expect_stdout(4, &["do not trust this verdict"]);
}

#[test]
fn simultaneous_runs_without_out_get_separate_directories() {
    let bench = Bench::new();
    bench.write(
        "test.conf",
        "device-names: sim:\ntest-duration-sec: 2\nread-reqs-per-sec: 100\n",
    );
    let running: Vec<_> = (0..6)
        .map(|_| Running::start(bench.prepare(&["storage", "test.conf"])))
        .collect();
    running
        .into_iter()
        .for_each(|running| drop(running.end().expect(0)));
    let runs = fs::read_dir(bench.path("flashproof-results"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(
        runs.filter(|name| name.to_str().unwrap().starts_with("storage-"))
            .count(),
        6
    );
}

#[test]
fn a_dry_run_shows_the_rates_and_touches_nothing() {
    let bench = Bench::new();
    let config = "device-names: /dev/there-is-none\ntest-duration-sec: 10\nread-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\n";
    bench
        .storage(config, &["--dry-run"])
        .expect_stdout(0, &["large-block-reads-per-sec: 23.53\n"]);
    assert!(!bench.exists(OUT));
}
