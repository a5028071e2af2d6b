//! `flashproof report --parquet` of runs on simulated drives.

use crate::support::Bench;
#[cfg(feature = "export")]
use crate::support::{
    FLASHPROOF,
    lab::{LAB, Lab, SCREEN},
    project, skip,
};
#[cfg(feature = "export")]
use serde_json::{Value, json};
#[cfg(feature = "export")]
use std::{path::Path, process::Command};

#[cfg(feature = "export")]
const TWO_DRIVES: &str = "device-names: sim: sim:name=b\ntest-duration-sec: 60\nread-reqs-per-sec: 2000\n\
                          write-reqs-per-sec: 1000\n";

#[cfg(not(feature = "export"))]
#[test]
fn a_build_without_exports_names_the_missing_feature() {
    let bench = Bench::new();
    let ended = bench
        .flashproof(&["report", "run", "--parquet", "data"])
        .expect(2);
    ended.says(&["cannot export to data - this build of flashproof cannot write Parquet files - use a released"]);
    assert!(
        !bench
            .flashproof(&["report", "--help"])
            .expect(0)
            .stdout
            .contains("--parquet")
    );
}

#[cfg(feature = "export")]
#[test]
fn a_second_export_of_a_run_needs_force() {
    let bench = Bench::new();
    bench.storage(TWO_DRIVES, &[]).expect(0);
    let export = |more: &[&str]| {
        bench.flashproof(&[&["report", "run", "--parquet", "my data"], more].concat())
    };
    let ended = export(&[]).expect(0);
    assert!(
        ended
            .stdout
            .starts_with("exported 1 run and 0 series to my data: "),
        "{}",
        ended.stdout
    );
    assert!(
        ended
            .stdout
            .ends_with("to query: cd 'my data' && duckdb -init views.sql\n"),
        "{}",
        ended.stdout
    );
    let first = bench.read("my data/histograms.parquet");
    export(&[])
        .expect(3)
        .says(&[" of an earlier export; add --force to replace it"]);
    export(&["--force"]).expect(0);
    assert_eq!(bench.read("my data/histograms.parquet"), first);

    bench
        .flashproof(&["report", "nothing", "--parquet", "other"])
        .expect(3);
    assert!(!bench.exists("other"));
    for more in [&["--parquet", "data", "--json"][..], &["--force"]] {
        bench
            .flashproof(&[&["report", "run"], more].concat())
            .expect(2);
    }
    std::fs::remove_file(bench.path("run/lag.hlog")).unwrap();
    let ended = bench
        .flashproof(&["report", "run", "--parquet", "data"])
        .expect(3);
    assert!(
        ended.stderr.contains("lag.hlog - it is missing") && bench.exists("data/runs.parquet"),
        "{}",
        ended.stderr
    );
}

#[cfg(feature = "export")]
#[test]
fn a_campaign_is_exported_with_the_drives_that_were_not_tested() {
    let lab = Lab::new();
    lab.drives(None, &[("S1", "sim:channels=2"), ("S2", "sim:channels=3")]);
    lab.campaign("lab", SCREEN);
    lab.fleet(&["task", LAB, "0"]).expect(0);
    lab.drives(None, &[("S1", "sim:channels=2")]);
    lab.fleet(&["run", LAB]).expect(3);
    lab.bench
        .line("report lab --parquet data --anonymous")
        .expect_error(2, &["cannot be used with"]);
    lab.bench.line("report lab --parquet data").expect(0);
    let query = "SELECT task, drive, state, attempts, count(run_id) FROM tasks LEFT JOIN runs ON starts_with(runs.path, tasks.path) \
                 GROUP BY ALL ORDER BY ALL";
    let Some(rows) = answer(&lab.bench, query) else {
        return;
    };
    assert_eq!(
        rows,
        json!([[0, "S1", "pass", 1, 2], [1, "S2", "refused", 0, 0]])
    );
    let query = "SELECT DISTINCT tasks.serial, drives.serial FROM tasks JOIN runs ON starts_with(runs.path, tasks.path) \
                 JOIN drives USING (run_id)";
    let serials = answer(&lab.bench, query);
    assert_eq!(serials, Some(json!([["sim:channels=2", "sim:channels=2"]])));
}

/// Result of `query` by DuckDB on the exported tables. `None`, with a message, without DuckDB.
#[cfg(feature = "export")]
pub(crate) fn answer(bench: &Bench, query: &str) -> Option<Value> {
    let target = Path::new(FLASHPROOF).parent()?.parent()?;
    if !target.join("duckdb").exists() {
        return skip("no DuckDB for Python: run scripts/setup test");
    }
    bench.write("queries", json!([query]).to_string());
    let answer = Command::new("python3")
        .arg(project().join("crates/export/tests/data/query.py"))
        .arg(bench.path("data"))
        .env("PYTHONPATH", target.join("duckdb"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(std::fs::File::open(bench.path("queries")).unwrap())
        .output()
        .unwrap();
    assert!(
        answer.status.success(),
        "{}",
        String::from_utf8_lossy(&answer.stderr)
    );
    let mut answers: Value = serde_json::from_slice(&answer.stdout).unwrap();
    Some(answers[0].take())
}

#[cfg(feature = "export")]
#[test]
fn percentiles_by_sql_equal_those_of_the_report() {
    let bench = Bench::new();
    bench.storage(TWO_DRIVES, &[]).expect(0);
    bench
        .flashproof(&["report", "run", "--parquet", "data"])
        .expect(0);
    let report = bench.line("report run --json").expect(0).json();
    let mut expected = Vec::new();
    for stream in report["reports"][0]["latencies"].as_array().unwrap() {
        for kind in ["lag", "service", "wait"] {
            let Some(of) = stream[kind].as_object() else {
                panic!("no {kind} in {stream}")
            };
            let quantiles = [
                "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns", "count",
            ];
            expected.push((
                stream["stream"].as_str().unwrap(),
                kind,
                quantiles.map(|name| of[name].as_u64().unwrap()),
            ));
        }
    }
    expected.sort();
    let quantile = |q: &str| format!("percentile_ns(upper_ns, count, {q})");
    let quantiles = ["0.5", "0.9", "0.99", "0.999", "0.9999", "1"]
        .map(quantile)
        .join(", ");
    let query = format!(
        "SELECT stream, kind, {quantiles}, sum(count)::BIGINT FROM histograms GROUP BY ALL ORDER BY ALL"
    );
    let Some(answer) = answer(&bench, &query) else {
        return;
    };
    let rows: Vec<Vec<Value>> = serde_json::from_value(answer).unwrap();
    let told = rows.iter().map(|row| {
        let numbers: Vec<u64> = row[2..]
            .iter()
            .map(|number| number.as_u64().unwrap())
            .collect();
        (
            row[0].as_str().unwrap(),
            row[1].as_str().unwrap(),
            numbers.try_into().unwrap(),
        )
    });
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert!(expected.len() >= 6);
}
