//! `flashproof report` of a directory of several results, and the notes of results in reports and statuses.

use crate::support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use support::{Bench, tool};

const NOTE: &str = "rack 7, after fw 2.1";

/// Runs 60 s on a simulated drive into `flashproof-results/NAME`, with the options `more`.
fn run(bench: &Bench, name: &str, drive: &str, more: &[&str]) -> Option<i32> {
    let config = format!("device-names: {drive}\ntest-duration-sec: 60\nread-reqs-per-sec: 100\n");
    let out = format!("flashproof-results/{name}");
    let ended = bench.start_as(&format!("{name}.conf"), &out, &config, more);
    ended.end().code
}

#[test]
fn a_directory_of_results_is_listed_newest_first_with_notes_damage_and_open_runs() {
    let bench = Bench::new();
    bench
        .line("report")
        .expect_error(2, &["there are none in flashproof-results here"]);
    assert_eq!(run(&bench, "first", "sim:", &["--note", NOTE]), Some(0));
    bench
        .line("check etcd sim: --for 8s --out flashproof-results/second")
        .expect(0);
    assert_eq!(run(&bench, "third", "sim:read-us=9000", &[]), Some(1));
    assert_eq!(run(&bench, "open", "sim:", &[]), Some(0));
    let results = bench.path("flashproof-results");
    fs::remove_file(results.join("open/verdict.json")).unwrap();
    for (dir, file, text) in [("other", "holiday.jpg", ""), ("bad", "manifest.json", "{}")] {
        fs::create_dir(results.join(dir)).unwrap();
        fs::write(results.join(dir).join(file), text).unwrap();
    }
    symlink("first", results.join("link")).unwrap();
    fs::create_dir(results.join("pipe")).unwrap();
    let pipe = results.join("pipe/manifest.json");
    tool("mkfifo", &[pipe.to_str().unwrap()]).unwrap();
    let listed = bench.line("report --json").expect(0).json();
    let listed = listed["results"].as_array().unwrap();
    let field = |result: &Value, name: &str| result[name].as_str().unwrap_or_default().to_owned();
    let mut shown: Vec<_> = listed
        .iter()
        .map(|result| ["dir", "test", "outcome", "note"].map(|name| field(result, name)))
        .collect();
    let damaged = shown.extract_if(.., |result| result[2] == "damaged");
    let mut damaged: Vec<String> = damaged.map(|result| result[0].clone()).collect();
    damaged.sort();
    assert_eq!(damaged, ["bad", "pipe"]);
    let expected = [
        ["open", "storage", "unfinished", ""],
        ["third", "storage", "fail", ""],
        ["second", "check etcd", "measured", ""],
        ["first", "storage", "pass", NOTE],
    ];
    assert_eq!(shown, expected);
    let text = bench.line("report flashproof-results").expect(0);
    text.shows(&[
        "6 results in flashproof-results",
        "FAIL",
        "too slow: ",
        NOTE,
    ]);
    let page = bench.line("report --html list.html").expect(0);
    assert_eq!(page.stdout, "", "only the page's name");
    assert!(bench.text("list.html").contains(NOTE));
}

#[test]
fn a_note_is_one_line_of_plain_text_and_is_shown_in_every_output() {
    let bench = Bench::new();
    for (note, word) in [
        ("a\x1b[31mb", "control"),
        ("", "1 to 200"),
        (&"x".repeat(201), "200"),
    ] {
        let ended = bench
            .flashproof(&["storage", "a.conf", "--note", note])
            .expect(2);
        assert!(ended.stderr.contains(word), "{ended:?}");
    }
    assert_eq!(run(&bench, "a", "sim:", &["--note", NOTE]), Some(0));
    assert_eq!(run(&bench, "b", "sim:", &[]), Some(0));
    let a = "flashproof-results/a";
    assert_eq!(bench.json_file(&format!("{a}/manifest.json"))["note"], NOTE);
    assert!(
        !bench
            .text("flashproof-results/b/manifest.json")
            .contains("\"note\"")
    );
    for form in ["", "--markdown", "--json"] {
        bench
            .line(&format!("report {a} {form}"))
            .expect(0)
            .shows(&[NOTE]);
    }
    bench.line(&format!("report {a} --html a.html")).expect(0);
    assert!(bench.text("a.html").contains(NOTE));
    bench
        .line(&format!("report compare {a} flashproof-results/b"))
        .expect(0)
        .shows(&[NOTE]);
    let words = [
        "certify",
        "--duration",
        "10s",
        "--out",
        "series",
        "--note",
        NOTE,
    ];
    bench.flashproof(&words).expect_judged();
    bench.line("report series").expect_judged().shows(&[NOTE]);
    assert_eq!(bench.json_file("series/series.json")["note"], NOTE);
    assert_eq!(
        bench.json_file("series/stage-1/manifest.json")["note"],
        NOTE
    );
}

#[test]
fn a_directory_of_several_checks_has_a_report_and_its_status_names_missing_checks() {
    let bench = Bench::new();
    let checks = ["check", "etcd,kafka", "sim:", "--for", "8s", "--out", "two"];
    bench
        .flashproof(&[&checks[..], &["--note", NOTE]].concat())
        .expect(0);
    let report = bench.line("report two --json").expect(0).json();
    let names: Vec<_> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| (&check["name"], &check["note"]))
        .collect();
    assert_eq!(
        names,
        [
            (&"etcd".into(), &NOTE.into()),
            (&"kafka".into(), &NOTE.into())
        ]
    );
    bench
        .line("report status two")
        .expect(0)
        .shows(&["2 of 2 checks done", "  etcd", "  kafka"]);
    bench
        .flashproof(&checks)
        .expect_error(2, &["it holds another check - give another --out"]);
    fs::remove_file(bench.path("two/kafka/check.json")).unwrap();
    bench.line("report two").expect(4).shows(&[
        "kafka has no result: the check still runs, was stopped, or could not run",
        "Do: get the missing answers: ",
        "flashproof check kafka sim:",
    ]);
    bench.line("report status two").expect(4).shows(&[
        "1 of 2 checks done",
        "NOT RUNNING",
        "no result",
    ]);
    bench
        .line("report .")
        .expect(0)
        .shows(&["UNFINISHED", "2 checks", "1 of 2 checks done"]);
}

#[test]
fn a_finished_test_prints_its_report_as_json_or_markdown_and_writes_an_html_page() {
    let bench = Bench::new();
    bench.write(
        "a.conf",
        "device-names: sim:\ntest-duration-sec: 60\nread-reqs-per-sec: 100\n",
    );
    let json = bench
        .line("storage a.conf --json --html a.html")
        .expect(0)
        .json();
    assert_eq!(json["reports"][0]["result"]["outcome"], "pass");
    assert!(bench.text("a.html").contains("Storage test of sim:"));
    let series = bench
        .line("rate sim: --slice 12 --up-to 2 --markdown --out rating")
        .expect(0);
    assert!(
        series.stdout.starts_with("# Rating of sim:\n"),
        "{}",
        series.stdout
    );
}
