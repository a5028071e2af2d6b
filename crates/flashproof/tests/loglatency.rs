//! `flashproof latency server`, also called as asloglatency: tables to the byte, missing data, restarts.

use crate::support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use support::{Bench, Ended, FLASHPROOF};

const CAPTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../sizing/tests/data/ce-8.0.0.15"
);

/// A bench with the captured log, and the program under asloglatency's name.
fn bench() -> Bench {
    let bench = Bench::new();
    fs::copy(
        Path::new(CAPTURE).join("aerospike.log.zst"),
        bench.path("a.zst"),
    )
    .unwrap();
    symlink(FLASHPROOF, bench.path("asloglatency")).unwrap();
    bench
}

fn own(bench: &Bench, arguments: &[&str]) -> Ended {
    bench.flashproof(&[&["latency", "server"], arguments].concat())
}

fn as_asloglatency(bench: &Bench, arguments: &[&str]) -> Ended {
    bench.program(bench.path("asloglatency"), arguments)
}

#[test]
fn latency_server_and_a_link_named_asloglatency_print_the_output_of_asloglatency() {
    let bench = bench();
    for name in ["ns-read", "ns-device-read-size", "dev-lbr"] {
        let text = fs::read_to_string(Path::new(CAPTURE).join(format!("asloglatency/{name}.txt")))
            .unwrap();
        let (command, table) = text.split_once('\n').unwrap();
        let arguments: Vec<&str> = command.split_whitespace().skip(2).collect();
        let [options @ .., log] = &arguments[..] else {
            panic!("{command}")
        };
        let options = [options, &["a.zst"]].concat();
        let expected = table.replace(log, "a.zst");
        assert_eq!(own(&bench, &options).expect(0).stdout, expected);
        assert_eq!(as_asloglatency(&bench, &options).expect(0).stdout, expected);
    }
    // -N replaces the braces in the name, which some shells remove.
    let with_name = own(
        &bench,
        &["-l", "a.zst", "-f", "head", "-t", "60", "-h", "{test}-read"],
    )
    .expect(0)
    .stdout;
    let with_namespace = own(
        &bench,
        &[
            "-l", "a.zst", "-f", "head", "-t", "60", "-N", "test", "-h", "read",
        ],
    )
    .expect(0)
    .stdout;
    let rows = |text: &str| {
        text.lines()
            .skip_while(|line| !line.starts_with("slice-to"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (rows(&with_name), rows(&with_name).len()),
        (rows(&with_namespace), 15)
    );
}

#[test]
fn latency_distinguishes_server_logs_act_logs_and_runs_by_content() {
    let bench = bench();
    let same = own(
        &bench,
        &[
            "-l",
            "a.zst",
            "-h",
            "{test}-read",
            "-t",
            "60",
            "-n",
            "7",
            "-e",
            "1",
        ],
    )
    .expect(0);
    let told = |arguments: &[&str]| bench.flashproof(&[&["latency", "a.zst"], arguments].concat());
    assert_eq!(
        told(&["-h", "{test}-read", "-t", "60"]).expect(0).stdout,
        same.stdout
    );
    let reads = told(&[]).expect(0).stdout;
    assert!(
        reads.starts_with("Histogram Name : read\n"),
        "the reads of all namespaces: {reads}"
    );
    told(&["-x"]).expect_error(
        2,
        &[
            "-s, -x and --sla apply only to logs of ACT",
            "flashproof latency server --help",
        ],
    );
    bench
        .storage(
            "device-names: sim:\ntest-duration-sec: 4\nread-reqs-per-sec: 100\n",
            &[],
        )
        .expect(0);
    for log in ["run", "run/act.log"] {
        let rows = |words: &[&str]| {
            let page = bench
                .flashproof(&[&["latency", "-t", "2"], words].concat())
                .expect(0)
                .stdout;
            page.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(rows(&[log]), rows(&["-l", log]));
    }
    // ACT's script does not accept a server's log.
    symlink(FLASHPROOF, bench.path("act_latency.py")).unwrap();
    assert_ne!(
        bench
            .program(bench.path("act_latency.py"), &["-l", "a.zst"])
            .code,
        Some(0)
    );
}

#[test]
fn missing_histograms_and_times_are_reported_with_the_existing_ones() {
    let bench = bench();
    let log = ["-l", "a.zst", "-f", "head", "-h"];
    own(&bench, &[&log[..], &["test-read"]].concat()).expect_error(
        2,
        &[
            "there is no such histogram",
            "did you mean -h '{test}-read'?",
            "batch-index",
        ],
    );
    own(&bench, &[&log[..], &["nope"]].concat()).expect_error(
        2,
        &["\"nope\" of a.zst", "{test}-/dev/loop2-large-block-read"],
    );
    let ended = as_asloglatency(&bench, &[&log[..], &["nope"]].concat()).expect(255);
    assert!(
        ended
            .stdout
            .ends_with("can't find histogram nope from start time head\n"),
        "{}",
        ended.stdout
    );
    own(
        &bench,
        &["-l", "a.zst", "-h", "read", "-f", "Nov 20 2026 23:30:00"],
    )
    .expect_error(
        2,
        &[
            "the log has none from 2026-11-20T23:30:00 on",
            "to 2026-11-20T23:11:15",
        ],
    );
    own(
        &bench,
        &["-l", "a.zst", "-h", "read", "-f", "head", "-t", "1:00:00"],
    )
    .expect_error(2, &["no slice of 3600 s is complete", "give a shorter -t"]);
    own(&bench, &["-l", "a.zst"]).expect_error(2, &["no histogram is given"]);
    own(&bench, &["-l", "a.zst", "-h", "read", "-f", "noon"])
        .expect_error(2, &["can't parse absolute start time noon"]);
    bench.write("other.txt", "ACT version 6.6\nStorage device IO test\n");
    own(&bench, &["-l", "other.txt", "-h", "read"]).expect_error(
        2,
        &[
            "this is not a log of the database",
            "first \"ACT version 6.6\"",
        ],
    );
    own(&bench, &["-l", "none", "-h", "read"])
        .expect_error(2, &["reading none - ", "check the path"]);
    own(&bench, &["-l", ".", "-h", "read"])
        .expect_error(2, &["it is a directory", "name the file itself"]);
}

#[test]
fn a_server_restart_is_reported_and_no_slice_spans_the_restart_also_in_json_and_csv() {
    let bench = Bench::new();
    let mut log = String::new();
    for (at, count) in [100, 200, 300, 10, 20].into_iter().enumerate() {
        let stamp = format!("Nov 20 2026 00:00:{at}0 GMT: INFO (info): (hist.c:319)");
        log += &format!(
            "{stamp} histogram dump: {{a}}-read ({count} total) usec\n{stamp}  (03: {count:010})\n"
        );
    }
    bench.write(
        "log",
        log + "Nov 20 2026 00:01:00 GMT: INFO (info): (ticker.c:1) end\n",
    );
    let options = ["-l", "log", "-h", "{a}-read", "-f", "head", "-n", "1"];
    let ended = own(&bench, &options).expect_stderr(
        0,
        &["its counts begin at 0 again; no slice spans this time"],
    );
    assert_eq!(
        ended
            .stdout
            .lines()
            .filter(|line| line.starts_with("00:00:"))
            .count(),
        3
    );
    let json = own(&bench, &[&options[..], &["--format", "json"]].concat())
        .expect(0)
        .json();
    assert_eq!(
        (&json["slices"][0]["ops_per_sec"], &json["unit"]),
        (&Value::from(10.0), &Value::from("us"))
    );
    let csv = own(&bench, &[&options[..], &["--format", "csv"]].concat())
        .expect(0)
        .stdout;
    let last = "\"{a}-read\",2026-11-20T00:00:30,2026-11-20T00:00:40,10,1,1,us,100";
    assert_eq!(csv.lines().last(), Some(last), "{csv}");
}
