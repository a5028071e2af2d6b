//! `flashproof report compare` as a user runs it.

use crate::support;
use crate::support::words;

use std::fs;
use support::{Bench, Running};

fn run(bench: &Bench, out: &str, more: &str) {
    let config =
        format!("device-names: sim:\ntest-duration-sec: 60\nread-reqs-per-sec: 2000\n{more}");
    bench
        .start_as(&format!("{out}.conf"), out, &config, &["--quiet"])
        .end()
        .expect(0);
}

#[test]
fn runs_are_compared_side_by_side_with_names_prices_and_endurance_given_as_options() {
    let bench = Bench::new();
    run(&bench, "a", "write-reqs-per-sec: 1000\n");
    run(
        &bench,
        "b",
        "write-reqs-per-sec: 1000\nrecord-bytes: 3000\n",
    );
    let ended = bench
        .line("report compare a new=b --dwpd a=3 --tbw new=5600 --price new=549")
        .expect(0);
    ended.shows(&["  a ", "  new", "PASS (screening)", "written a day"]);
    assert!(
        ended
            .stdout
            .starts_with("IN DOUBT: a and new held the same load, 1x (p99 "),
        "{}",
        ended.stdout
    );
    assert!(
        !ended.stdout.contains("among published"),
        "rows without a value are left out: {}",
        ended.stdout
    );
    assert_eq!(
        ended.warnings(),
        ["different tests: record-bytes: 1536 (a); 3000 (new)"]
    );
    ended.says(&["rated for 5 years (--warranty)"]);
    // 1,000 client writes of 1,536 bytes, 85 in a block, doubled by defragmentation: 3.08 MB per second.
    let json = bench
        .line("report compare a b --json --price b=549")
        .expect(0)
        .json();
    let a = &json["candidates"][0];
    let per_day = a["wear"][0]["host_bytes_per_day"].as_f64().unwrap();
    let expected = 1000.0 / 85.0 * 2.0 * 131_072.0 * 86_400.0;
    assert!(
        (per_day / expected - 1.0).abs() < 0.02,
        "{per_day} {expected}"
    );
    assert_eq!(json["candidates"][1]["price_per_1x"], 549.0);
    let markdown = bench
        .flashproof(&words("report compare a b --markdown --html page.html"))
        .expect(0);
    let page = bench.text("page.html");
    let bars = page.find("Load held").unwrap();
    let table = page.find("<table").unwrap();
    assert!(
        bars < table && page.contains("class=\"banner\""),
        "bars come first"
    );
    let refused = bench.flashproof(&["report", "compare", "a", "b", "--html", "a/page.html"]);
    refused.expect_error(2, &["that directory holds a recorded run"]);
    assert!(
        markdown.stdout.contains("> **Warning:** different tests: "),
        "{}",
        markdown.stdout
    );
}

#[test]
fn invalid_comparisons_are_refused_with_advice() {
    let bench = Bench::new();
    run(&bench, "a", "");
    let error = |arguments: &[&str], code, parts: &[&str]| {
        bench
            .flashproof(&[&["report", "compare"], arguments].concat())
            .expect_error(code, parts);
    };
    error(&["a", "./a"], 2, &["both are ./a; give each result once"]);
    error(
        &["a", "--price", "b=3"],
        2,
        &["no candidate or device has that name; the names are a, sim:"],
    );
    error(
        &["nowhere"],
        3,
        &["reading nowhere - No such file or directory"],
    );
    fs::create_dir(bench.path("empty")).unwrap();
    let none =
        "empty/manifest.json - there is no run: the directory is empty; give the directory of";
    error(&["a", "empty"], 3, &[none]);
    error(
        &["."],
        3,
        &[
            "but there are runs below it: a",
            "give one of them; \"flashproof report .\" lists them",
        ],
    );
    error(
        &["a/act.log"],
        3,
        &["it is a file, and a run is a directory; give the directory that holds this file: a"],
    );
    let no_list = "reading the list of ratings a.conf line 1 - there is no column class";
    error(&["a", "--published", "a.conf"], 2, &[no_list]);
    assert_eq!(
        bench
            .flashproof(&["report", "compare", "a", "--dwpd", "a=0"])
            .code,
        Some(2)
    );
}

#[test]
fn a_damaged_run_is_compared_up_to_the_damage() {
    let bench = Bench::new();
    run(&bench, "a", "");
    run(&bench, "b", "");
    let telemetry = bench.text("b/telemetry.csv");
    bench.write("b/telemetry.csv", telemetry.replace("\n30,31,", "\n30,x,"));
    let ended = bench.flashproof(&["report", "compare", "a", "b"]).expect(4);
    ended.shows(&["INVALID (screening), DAMAGED"]);
    ended.says(&["b: telemetry.csv is cut: ", "it is whole up to 30 s"]);
    let report = Running::start(bench.prepare(&["report", "b"]))
        .end()
        .expect(4);
    assert!(
        report.stdout.starts_with("DAMAGED: telemetry.csv is cut: "),
        "{}",
        report.stdout
    );
}
