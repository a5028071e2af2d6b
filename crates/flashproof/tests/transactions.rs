//! `flashproof transactions`: a record engine on a drive, row by row.

use crate::support;
use support::{Bench, OUT, totals};

#[test]
fn rows_on_a_simulated_drive_insert_warm_up_and_measure_and_find_what_was_inserted() {
    let bench = Bench::new();
    let run = ["transactions", "sim:capacity=1GiB", "--rows", "1k,4k", "-k", "3000", "--duration", "1", "--verify"];
    let ended =
        bench.flashproof(&[&run[..], &["--seed", "7", "--out", OUT, "--json", "table.json"]].concat()).expect(0);
    for said in ["published", "1,124,875", "4k", "limited by", "transactions/s per core"] {
        assert!(ended.stdout.contains(said), "{said}: {}", ended.stdout);
    }
    let table: serde_json::Value = serde_json::from_str(&bench.text("table.json")).unwrap();
    for row in table.as_array().unwrap() {
        assert_eq!(row["keys"], 3000);
        // One core at 2 us each, and 64 reads of about 100 us at once, are the bounds.
        let per_sec = row["transactions_per_sec"].as_f64().unwrap();
        assert!((50_000.0..=500_000.0).contains(&per_sec), "{row}");
        // What the records' reads bring comes from the drive: 95 of 100.
        let (read, bytes) = (row["read_mb_per_sec"].as_f64().unwrap() * 1e6, row["record_bytes"].as_f64().unwrap());
        assert!(read > 0.9 * per_sec * bytes, "{row}");
        assert!(row["average_queue"].as_f64().unwrap() > 1.0, "{row}");
    }
    for (phase, stream) in [("insert", "writes"), ("measure", "reads")] {
        let report = bench.flashproof(&["report", &format!("{OUT}/1k/{phase}"), "--json"]).expect(0);
        assert!(report.stdout.contains(stream), "{}", report.stdout);
    }
}

#[test]
fn a_rate_that_was_held_is_what_limits_whatever_else_is_busy() {
    let bench = Bench::new();
    let run = ["transactions", "sim:capacity=1GiB", "--rows", "1k", "-k", "300", "--duration", "1"];
    for (rate, limit) in [("1000", "limited by the rate that was asked for"), ("1000000", "limited by CPU")] {
        let out = format!("{OUT}-{rate}");
        let ended = bench.flashproof(&[&run[..], &["--out", &out, "-g", rate, "--sla", "99%>10s"]].concat());
        assert!(ended.stdout.contains(limit), "{rate}: {}\n{}", ended.stdout, ended.stderr);
    }
}

#[test]
fn a_drive_whose_bytes_memory_does_not_hold_is_refused_before_it_is_taken() {
    let bench = Bench::new();
    let run = ["transactions", "sim:capacity=64TiB", "--size", "32TiB", "-k", "1", "--out", OUT];
    bench.flashproof(&run).expect_error(3, &["cannot keep what is written", "give a smaller --size"]);
}

#[test]
fn a_file_is_opened_anew_for_each_run_and_holds_what_the_run_before_wrote() {
    let bench = Bench::new();
    let run = ["transactions", "--rows", "1k", "--size", "64MiB", "-k", "5000", "--threads", "1", "--duration", "1"];
    let more = ["-z", "8", "-g", "200", "--sla", "99%>10s", "--verify", "--out", OUT];
    let ended = bench.flashproof(&[&run[..], &more].concat()).expect(0);
    assert!(ended.stdout.contains("limited by"), "{}", ended.stdout);
    assert!(!bench.path(OUT).join("store").exists(), "the file was ours alone");
    let measured = results::run_dir::read(&bench.path(OUT).join("1k/measure")).unwrap();
    let (reads, errors, _) = totals(&measured, "reads");
    assert!(reads > 0 && errors == 0, "{reads} reads, {errors} failed");
}

#[test]
fn what_cannot_be_is_refused() {
    let bench = Bench::new();
    bench.flashproof(&["transactions", "-w", "I"]).expect_error(2, &["each row begins with one"]);
    bench.flashproof(&["transactions", "--rows", "2m"]).expect_error(2, &["1k,2k,4k"]);
    bench.flashproof(&["transactions", "--size", "1MiB", "--out", OUT]).expect_error(3, &["store"]);
}
