//! `flashproof latency`, also under the names of ACT's script: tables, damage, judgements. `data/act-latency` has logs
//! of ACT 6.6, arguments of ACT's script, and the script's output. The last line of the output is the exit status.

use crate::support;
use crate::support::words;

use flate2::write::GzEncoder;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use support::{Bench, Ended, FLASHPROOF, OUT, Running};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/act-latency");
const MS: &str = "storage-ms-interval2.log";
const US: &str = "storage-us-commit-2dev.log";

/// A bench with the logs, and the program under ACT's name.
fn bench() -> Bench {
    let bench = Bench::new();
    for name in [MS, US, "index-us.log"] {
        fs::copy(Path::new(DATA).join(name), bench.path(name)).unwrap();
    }
    symlink(FLASHPROOF, bench.path("act_latency.py")).unwrap();
    bench
}

fn as_act(bench: &Bench, arguments: &[&str]) -> Ended {
    bench.program(bench.path("act_latency.py"), arguments)
}

fn latency(bench: &Bench, arguments: &[&str]) -> Ended {
    bench.flashproof(&[&["latency"], arguments].concat())
}

fn table(stdout: &str) -> Vec<&str> {
    stdout
        .lines()
        .skip_while(|line| !line.starts_with("slice"))
        .skip(2)
        .collect()
}

#[test]
fn tables_equal_those_of_acts_script_byte_for_byte() {
    let bench = bench();
    let mut seen = 0;
    for entry in fs::read_dir(DATA).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "args") {
            continue;
        }
        let arguments = fs::read_to_string(&path).unwrap();
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let expected = fs::read_to_string(path.with_extension("out")).unwrap();
        let ended = as_act(&bench, &arguments);
        assert_eq!(
            format!("{}exit {}\n", ended.stdout, ended.code.unwrap()),
            expected,
            "{arguments:?}"
        );
        assert_eq!(
            ended.stdout,
            latency(&bench, &arguments).stdout,
            "{arguments:?}"
        );
        seen += 1;
    }
    assert_eq!(seen, 7);
}

#[test]
fn compressed_and_piped_logs_give_the_same_table_whatever_the_file_name() {
    let bench = bench();
    let log = bench.read(US);
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&log).unwrap();
    bench.write("a.log", gzip.finish().unwrap());
    let zstd =
        ruzstd::encoding::compress_to_vec(&log[..], ruzstd::encoding::CompressionLevel::Fastest);
    bench.write("b.gz", zstd);
    let expected = latency(&bench, &["-l", US, "-t", "5"]).expect(0).stdout;
    for name in ["a.log", "b.gz"] {
        let ended = latency(&bench, &["-l", name, "-t", "5"]).expect(0);
        assert_eq!(ended.stdout.replace(name, US), expected);
        assert_eq!(ended.stderr, "");
    }
    let mut command = bench.prepare(&["latency", "-l", "-", "-t", "5"]);
    command.stdin(fs::File::open(bench.path("a.log")).unwrap());
    let ended = Running::start(command).end().expect(0);
    assert_eq!(table(&ended.stdout), table(&expected));

    let half = bench.read("a.log");
    bench.write("half", &half[..half.len() / 2]);
    let ended = latency(&bench, &["-l", "half", "-t", "1"])
        .expect_stderr(0, &["half is compressed and truncated"]);
    assert!(table(&ended.stdout).len() > 5);
}

#[test]
fn an_unfinished_log_is_shown_up_to_its_last_complete_report_with_a_warning() {
    let bench = bench();
    let log = bench.text(US);
    let whole = latency(&bench, &["-l", US, "-t", "2"]).expect(0).stdout;
    // The log ends within the report that would end the fourth slice.
    let cut = log.find("after 8 sec:").unwrap() + 30;
    bench.write("cut.log", &log[..cut]);
    let ended = latency(&bench, &["-l", "cut.log", "-t", "2"]).expect(0);
    assert_eq!(table(&ended.stdout)[..3], table(&whole)[..3]);
    assert!(
        table(&ended.stdout)[3].starts_with("-----"),
        "{}",
        ended.stdout
    );
    let line = log[..cut].lines().count();
    assert_eq!(
        ended.warnings(),
        [format!(
            "cut.log ends at line {line} within a report, which is left out: the log is complete up to 7 s"
        )]
    );
}

#[test]
fn a_damaged_log_is_reported_with_file_line_expectation_and_usable_part() {
    let bench = bench();
    let log = bench.text(MS);
    let line = |text: &str, part: &str| 1 + text[..text.find(part).unwrap()].matches('\n').count();
    for (from, to, expected, usable) in [
        (
            "(04: 0000000041)",
            "(04: 00000004x1)",
            "histogram \"reads\", bucket 04: a count, found \"00000004x1\"",
            4,
        ),
        (
            "after 12 sec:",
            "after 5 sec:",
            "a time after 10 sec, found \"after 5 sec:\"",
            10,
        ),
        (
            "after 12 sec:",
            "after noon",
            "\"after N sec:\", found \"after noon\"",
            10,
        ),
    ] {
        let damaged = log.replacen(from, to, 1);
        bench.write("bad.log", &damaged);
        for (act, code) in [(true, 255), (false, 3)] {
            let arguments = ["-l", "bad.log", "-t", "2"];
            let ended = if act {
                as_act(&bench, &arguments)
            } else {
                latency(&bench, &arguments)
            }
            .expect(code);
            let begins = format!(
                "cannot read all of bad.log, line {}: expected {expected}; ",
                line(&damaged, to)
            );
            let [error] = ended.errors()[..] else {
                panic!("{}", ended.stderr)
            };
            assert!(error.starts_with(&begins), "{error}\n{begins}");
            assert!(
                error.contains(&format!("the {usable} s before this line are complete")),
                "{error}"
            );
            let rows = table(&ended.stdout)
                .iter()
                .take_while(|row| !row.starts_with("-----"))
                .count();
            assert_eq!(rows, usable / 2);
        }
    }
}

#[test]
fn a_compressed_log_with_a_wrong_checksum_is_damaged_and_no_pass() {
    let bench = bench();
    let level = ruzstd::encoding::CompressionLevel::Uncompressed;
    let mut zstd = ruzstd::encoding::compress_to_vec(&bench.read(MS)[..], level);
    // A digit becomes another digit, which only the checksum can detect.
    let digit = zstd
        .windows(14)
        .position(|bytes| bytes == b"record-bytes: ")
        .unwrap()
        + 14;
    zstd[digit] ^= 1;
    bench.write("bad.zst", zstd);
    let ended = latency(&bench, &["-l", "bad.zst", "-t", "10", "--sla", "90%>1ms"]).expect(3);
    let [error] = ended.errors()[..] else {
        panic!("{}", ended.stderr)
    };
    assert!(
        error.contains("the zstd data is damaged: its bytes have the checksum "),
        "{error}"
    );
    assert!(
        ended
            .stdout
            .lines()
            .last()
            .unwrap()
            .starts_with("INVALID bad.zst "),
        "{}",
        ended.stdout
    );
}

#[test]
fn concatenated_logs_and_times_that_go_backwards_are_reported_as_damage() {
    let bench = bench();
    let log = bench.text(US);
    bench.write("twice.log", [&log[..], &log].concat());
    let ended = latency(&bench, &["-l", "twice.log", "-t", "10"]).expect(3);
    assert!(
        ended.errors()[0].contains("the 24 s before this line are complete"),
        "{}",
        ended.stderr
    );
    bench.write("back.log", log.replace("after 17 sec:", "after 7 sec:"));
    let ended = latency(&bench, &["-l", "back.log", "-t", "10"]).expect(3);
    assert!(
        ended.errors()[0].contains("expected a time after 16 sec, found \"after 7 sec:\""),
        "{}",
        ended.stderr
    );
}

#[test]
fn logs_with_a_wrong_header_are_refused_in_acts_words_and_in_flashproofs() {
    let bench = bench();
    let log = bench.text(MS);
    let configuration = log.find("ACT-STORAGE").unwrap()..log.find("DERIVED").unwrap();
    let without = |range: std::ops::Range<usize>| [&log[..range.start], &log[range.end..]].concat();
    for (text, words, expected) in [
        (
            without(configuration),
            "x is ACT version 6.6\n\ncan't find report interval\n",
            "expected ACT-STORAGE CONFIGURATION",
        ),
        (
            log.replace("version 6.6", "version 7.0"),
            "x is ACT version 7.0\n\nx ACT version not compatible\n",
            "ACT version \"7.0\"",
        ),
        (
            "no log at all\n".to_owned(),
            "x ACT version not found\n",
            "found the end of the file",
        ),
        (
            String::new(),
            "x ACT version not found\n",
            "found the end of the file",
        ),
        (
            log.replace("report-interval-sec: 2", "report-interval-sec: 0"),
            "x is ACT version 6.6\n\nreporting interval must be more than 0\n",
            "report-interval-sec \"0\"",
        ),
        (
            log.replace("report-interval-sec: 2", "report-interval-sec: two"),
            "x is ACT version 6.6\n\ncan't find report interval\n",
            "report-interval-sec \"two\"",
        ),
    ] {
        bench.write("x", text);
        let ended = as_act(&bench, &["-l", "x"]).expect(255);
        assert_eq!(ended.stdout, format!("act_latency.py -l x\n{words}"));
        assert!(ended.errors()[0].contains(expected), "{}", ended.stderr);
        latency(&bench, &["-l", "x", "--format", "csv"]).expect_error(3, &["reading x", expected]);
    }
}

#[test]
fn invalid_options_that_crash_acts_script_are_refused() {
    let bench = bench();
    for (option, value, says) in [
        (
            "-s",
            "17",
            "start_bucket must be non-negative and less than 17\n",
        ),
        (
            "-s",
            "-1",
            "start_bucket must be non-negative and less than 17\n",
        ),
        ("-t", "0", "slice must be more than 0\n"),
        ("-n", "0", "num_buckets must be more than 0\n"),
        ("-e", "-5", "every_nth must be more than 0\n"),
        ("-t", "1h", ""),
    ] {
        let ended = as_act(&bench, &["-l", MS, option, value]).expect(255);
        assert_eq!(
            ended.stdout,
            format!("act_latency.py -l {MS} {option} {value}\n{says}")
        );
        assert_eq!(ended.errors().len(), 1, "{}", ended.stderr);
        latency(&bench, &["-l", MS, option, value]).expect(2);
    }
    let ended = as_act(&bench, &["-t", "5"]).expect(255);
    assert!(
        ended
            .stdout
            .starts_with("act_latency.py -t 5\nUsage:\n -l "),
        "{}",
        ended.stdout
    );
    let ended = as_act(&bench, &["-z"]).expect(255);
    assert!(
        ended
            .stdout
            .starts_with("act_latency.py -z\noption -z not recognized\nUsage:\n"),
        "{}",
        ended.stdout
    );
    let help = latency(&bench, &["--help"]).expect(0);
    assert!(
        help.stdout.contains("-h, --histogram") && !help.stdout.contains("-h, --help"),
        "{}",
        help.stdout
    );
}

#[test]
fn an_ambiguous_histogram_prefix_is_refused_and_a_unique_one_is_accepted() {
    let bench = bench();
    latency(&bench, &["-l", US, "-t", "5", "-h", "large-block", "--format", "csv"])
        .expect_error(2, &["\"large-block\" is the beginning of 2 histograms: large-block-reads, large-block-writes"]);
    let short = latency(&bench, &["-l", US, "-t", "5", "-h", "large-block-w"]).expect(0);
    let told = "\"large-block-writes\", the only histogram with this prefix, is shown";
    assert!(short.warnings()[0].contains(told), "{}", short.stderr);
    let long = latency(&bench, &["-l", US, "-t", "5", "-h", "large-block-writes"]).expect(0);
    assert_eq!(table(&short.stdout), table(&long.stdout));
}

#[test]
fn a_repeated_histogram_is_shown_twice_and_a_missing_one_as_dashes() {
    let bench = bench();
    let ended = latency(
        &bench,
        &[
            "-l", MS, "-t", "10", "-n", "1", "-h", "reads", "-h", "reads", "-h", "none",
        ],
    )
    .expect(0);
    let rows = table(&ended.stdout);
    let cells: Vec<&str> = rows[0].split_whitespace().collect();
    assert!(
        cells[1] == cells[2] && cells[1] != "0.00" && cells[3] == "-",
        "{}",
        rows[0]
    );
    let told = "has no histogram \"none\": it has reads, /dev/loop0-reads";
    assert!(ended.warnings()[0].contains(told), "{}", ended.stderr);
}

#[test]
fn several_logs_are_shown_side_by_side_in_slices_of_equal_length() {
    let bench = bench();
    let ended = latency(&bench, &["-l", US, "-l", MS, "-t", "5", "-n", "2"]).expect(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(
        lines[1..3],
        [
            format!("[1] {US} is ACT version 6.6"),
            format!("[2] {MS} is ACT version 6.6")
        ]
    );
    // Slices of 5 s become 6 s, a multiple of both intervals (1 and 2 s). The logs have four and three slices.
    assert_eq!(lines[4], "analyzing time slices of 6 seconds");
    assert_eq!(lines[5], "        [1] reads       [2] reads    ");
    assert_eq!(lines[6], "        %>(us)          %>(ms)       ");
    let rows = table(&ended.stdout);
    let alone = |log| {
        latency(&bench, &["-l", log, "-t", "6", "-n", "2"])
            .expect(0)
            .stdout
    };
    let us = alone(US);
    let ms = alone(MS);
    assert_eq!(rows[0], format!("{}{}", table(&us)[0], &table(&ms)[0][5..]));
    assert_eq!(rows[3], format!("{}        -      -", table(&us)[3]));
    assert_eq!(rows[5], format!("{}{}", table(&us)[5], &table(&ms)[4][5..]));
}

#[test]
fn csv_and_json_have_unrounded_numbers() {
    let bench = bench();
    let options = ["-l", MS, "-t", "10", "-n", "2", "-e", "3"];
    let csv = latency(&bench, &[&options[..], &["--format", "csv"]].concat())
        .expect(0)
        .stdout;
    assert_eq!(
        csv.lines().next().unwrap(),
        "log,histogram,slice,begin_sec,end_sec,ops,iops,threshold,unit,ops_over,share_over,damage"
    );
    let first = "storage-ms-interval2.log,reads,1,0,10,40000,4000,1,ms,5911,0.147775,";
    assert_eq!(
        (csv.lines().nth(1).unwrap(), csv.lines().count()),
        (first, 5)
    );
    let json = latency(
        &bench,
        &[&options[..], &["--format", "json", "--sla", "90%>1ms"]].concat(),
    )
    .expect(0)
    .json();
    let log = &json["logs"][0];
    let slice = &log["histograms"][0]["slices"][0];
    assert_eq!(
        (&slice["ops_over"][0], &slice["share_over"][0]),
        (&Value::from(5911), &Value::from(0.147775))
    );
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&json), ["format_version", "judgements", "logs"]);
    let of_a_log = "act_version complete_sec damage histograms log remarks report_interval_sec run slice_sec test \
                    thresholds truncated unit written_by";
    assert_eq!(keys(log), of_a_log.split(' ').collect::<Vec<_>>());
    assert_eq!(
        keys(&log["histograms"][0]),
        ["average", "found", "histogram", "maximum", "slices"]
    );
    assert_eq!(
        keys(slice),
        [
            "begin_sec",
            "end_sec",
            "iops",
            "ops",
            "ops_over",
            "share_over",
            "slice"
        ]
    );
    assert_eq!(
        keys(&json["judgements"][0]),
        [
            "by",
            "code",
            "decided_by",
            "log",
            "outcome",
            "reason",
            "sla"
        ]
    );
    // docs/latency.md must explain each of these keys.
    let docs = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/latency.md"
    ))
    .unwrap();
    for value in [
        &json,
        log,
        &log["histograms"][0],
        slice,
        &json["judgements"][0],
    ] {
        for key in keys(value) {
            assert!(
                docs.contains(&format!("`{key}`")),
                "docs/latency.md does not explain {key}"
            );
        }
    }
}

#[test]
fn format_markdown_prints_a_table() {
    let markdown = latency(
        &bench(),
        &[
            "-l", MS, "-t", "10", "-n", "1", "-x", "--format", "markdown",
        ],
    )
    .expect(0)
    .stdout;
    let lines: Vec<&str> = markdown.lines().collect();
    assert_eq!(
        lines[0],
        "**reads**, storage-ms-interval2.log: % of operations over each threshold, in slices of 10 s"
    );
    assert_eq!(
        lines[2..5],
        [
            "| slice | 1 ms | ops/s |",
            "|---:|---:|---:|",
            "| 1 | 14.78 | 4000.0 |"
        ]
    );
}

#[test]
fn a_log_is_judged_by_the_exact_counts_of_its_worst_slice() {
    let bench = bench();
    let judged = |sla: &str, code| judgement(&bench, MS, "10", sla, code);
    // 5,911 of 40,000 are 14.7775 %.
    let fail = judged("14.7775%>1ms", 1);
    assert!(
        fail.starts_with(&format!(
            "FAIL {MS} (below 14.7775 % over 1 ms; judged by service time): 14.8 % of reads on "
        )),
        "{fail}"
    );
    assert!(
        fail.contains("took over 1 ms in slice 1 (5,911 of 40,000; it must be below 14.7775 %)"),
        "{fail}"
    );
    assert!(judged("14.7776%>1ms", 0).starts_with("PASS "));
    // A named histogram is judged alone. Without a name, the reads and commit writes of each device are judged, too.
    let ended = latency(
        &bench,
        &words("-l storage-us-commit-2dev.log -t 5 --sla 1%>512us -h large-block-reads"),
    )
    .expect(1);
    assert!(
        ended
            .stdout
            .lines()
            .last()
            .unwrap()
            .contains("of large-block-reads on all devices together")
    );
    let ended = latency(&bench, &["-l", US, "-t", "5", "--sla", "50%>512us"]).expect(1);
    assert!(
        ended
            .stdout
            .lines()
            .last()
            .unwrap()
            .contains("on /dev/loop0 took over 512 us"),
        "{}",
        ended.stdout
    );
}

fn judgement(bench: &Bench, log: &str, slice: &str, sla: &str, code: i32) -> String {
    let ended = latency(bench, &["-l", log, "-t", slice, "--sla", sla]).expect(code);
    ended.stdout.lines().last().unwrap().to_owned()
}

#[test]
fn only_one_of_the_recorded_act_logs_lacks_operations_of_its_load() {
    let bench = Bench::new();
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../results/tests/data");
    let mut seen = 0;
    for path in [DATA, results]
        .into_iter()
        .flat_map(|dir| fs::read_dir(dir).unwrap())
        .map(|entry| entry.unwrap().path())
    {
        let Some(log) = path.to_str().filter(|path| path.ends_with(".log")) else {
            continue;
        };
        let in_us = fs::read_to_string(&path)
            .unwrap()
            .contains("microsecond-histograms: yes");
        let sla = if in_us { "90%>1024us" } else { "90%>1ms" };
        let is_short = log.ends_with("storage-30x-not-done.log");
        let last = judgement(&bench, log, "1", sla, i32::from(is_short));
        assert_eq!(
            last.contains(
                "load of reads was not carried out: 18,959 of 60,000 operations after 1 s"
            ),
            is_short,
            "{last}"
        );
        seen += 1;
    }
    assert_eq!(seen, 12);
}

#[test]
fn a_log_with_fewer_operations_than_its_header_requests_is_no_pass() {
    let bench = Bench::new();
    // The drive serves one operation at a time, in 897 us: 1,114 of 2,000 reads per second, each below a millisecond.
    let config = "device-names: sim:channels=1+read-us=897+jitter-pct=0+read-mbps=0\ntest-duration-sec: 60\n\
                  read-reqs-per-sec: 2000\nservice-threads: 1\nmax-lag-sec: 0\n";
    bench.storage(config, &["--sla", "5%>1ms"]).expect(1);
    let last = judgement(&bench, "run/act.log", "10", "5%>1ms", 1);
    assert!(
        last.contains("judged by service time): the load of reads was not carried out: "),
        "{last}"
    );
    assert!(
        last.contains(
            " of 120,000 operations after 60 s, at the header's rate of 2,000/s; in the log, 0 %"
        ),
        "{last}"
    );
    let json = words("-l run/act.log -t 10 --sla 5%>1ms --format json");
    assert_eq!(
        latency(&bench, &json).expect(1).json()["judgements"][0]["code"],
        "not-carried-out"
    );
    // A load without reads is shown and judged by its writes.
    let config = "device-names: sim:\ntest-duration-sec: 60\nwrite-reqs-per-sec: 1000\n";
    bench
        .start_as("writes.conf", "writes", config, &["--quiet"])
        .end()
        .expect(0);
    let last = judgement(&bench, "writes/act.log", "10", "90%>64ms", 0);
    assert!(last.contains("of large-block-writes"), "{last}");
    // A run that carried out its load passes.
    let config = "device-names: sim:\ntest-duration-sec: 300\nread-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\n";
    bench
        .start_as("sound.conf", "sound", config, &["--quiet"])
        .end()
        .expect(0);
    judgement(&bench, "sound/act.log", "60", "5%>1ms", 0);
}

#[test]
fn a_log_that_ends_early_is_judged_invalid() {
    let bench = bench();
    let log = bench.text(MS);
    bench.write("cut.log", &log[..log.find("after 12 sec:").unwrap()]);
    let last = judgement(&bench, "cut.log", "10", "90%>1ms", 4);
    let begin = "INVALID cut.log (below 90 % over 1 ms; judged by service time): the log is complete up to 10 s of 20 s: ";
    assert!(last.starts_with(begin), "{last}");
    let judged_as_json = [
        "-l", "cut.log", "-t", "10", "--sla", "90%>1ms", "--format", "json",
    ];
    assert_eq!(
        latency(&bench, &judged_as_json).expect(4).json()["judgements"][0]["code"],
        "stopped"
    );
    // Without limits, the whole slices are shown.
    latency(&bench, &["-l", "cut.log", "-t", "10"]).expect(0);
}

#[test]
fn a_run_of_several_configurations_lists_its_logs_and_each_uses_the_slices_of_the_run() {
    let bench = Bench::new();
    for name in ["A.conf", "B.conf"] {
        bench.write(
            name,
            "device-names: sim:\ntest-duration-sec: 12\nread-reqs-per-sec: 500\n",
        );
    }
    bench
        .flashproof(&["storage", "A.conf", "B.conf", "--out", OUT, "--slice", "6"])
        .expect(0);
    let several = "several configurations, each with its own log - give one of -l run/act-A.log, -l run/act-B.log, or \
                   all";
    latency(&bench, &["-l", OUT])
        .expect_stderr(2, &["cannot read run as one log - this run has ", several]);
    let json = latency(
        &bench,
        &words("-l run/act-A.log -l run/act-B.log --format json"),
    )
    .expect(0)
    .json();
    for log in json["logs"].as_array().unwrap() {
        assert_eq!(
            (&log["slice_sec"], &log["complete_sec"]),
            (&6.into(), &12.into()),
            "{json}"
        );
    }
}

#[test]
fn a_run_directory_has_percentiles_rates_and_exact_counts() {
    let bench = Bench::new();
    let config =
        "device-names: sim: sim:read-us=3000\ntest-duration-sec: 20\nread-reqs-per-sec: 1000\n";
    bench
        .storage(config, &["--sla", "5%>1500us,1%>8ms"])
        .expect(1);
    let ended = latency(&bench, &["-l", OUT, "-t", "10"]).expect(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(
        lines[1],
        "run is a run of flashproof, in the format of ACT version 6.6"
    );
    let words = |begins: &str| {
        lines
            .iter()
            .find(|line| line.starts_with(begins))
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
    };
    let columns = [
        "milliseconds",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "mean",
        "std",
        "dev",
    ];
    assert_eq!(words("milliseconds"), columns);
    assert_eq!(
        words("stream"),
        ["stream", "offered/s", "achieved/s", "errors", "not", "done"]
    );
    assert_eq!(words("reads ")[..2], ["reads", "service"]);
    // Slices: 20 s for a run of 20 s, 12 s for a run killed after 12 s, ACT's hour for a log alone.
    let whole = latency(&bench, &["-l", OUT]).expect(0).stdout;
    assert_eq!(
        table(&whole)
            .iter()
            .filter(|line| line.trim_start().starts_with('1'))
            .count(),
        1,
        "{whole}"
    );
    let killed = bench.path("killed");
    let log = bench.path(OUT).join("act.log");
    fs::create_dir(&killed).unwrap();
    for name in ["manifest.json", "intervals.csv", "telemetry.csv", "act.log"] {
        let text = fs::read_to_string(bench.path(OUT).join(name)).unwrap();
        let behind = if name == "act.log" {
            "\nafter 13 sec"
        } else {
            "\n13,"
        };
        let end = text.find(behind).map(|at| at + 1);
        fs::write(killed.join(name), &text[..end.unwrap_or(text.len())]).unwrap();
    }
    let json = latency(&bench, &["-l", "killed", "--format", "json"]).json();
    assert_eq!(
        (
            &json["logs"][0]["slice_sec"],
            &json["logs"][0]["complete_sec"]
        ),
        (&12.into(), &12.into()),
        "{json}"
    );
    let alone = latency(&bench, &["-l", log.to_str().unwrap()]).expect(2);
    assert!(
        alone
            .stdout
            .ends_with("could not find 3600 seconds of data\n"),
        "{alone:?}"
    );
    // Half of the reads are on the slow device. The run counted the reads over 1.5 ms, where no bucket of the log ends.
    let ended = latency(&bench, &["-l", OUT, "-t", "10", "--sla", "5%>1500us"]).expect(1);
    let last = ended.stdout.lines().last().unwrap();
    assert!(
        last.contains(
            "by wait + service time): 100 % of reads on sim:read-us=3000 took over 1500 us"
        ),
        "{last}"
    );
    // The run did not count the reads over 2 ms, although a bucket of the log ends there.
    let ended = latency(&bench, &["-l", OUT, "-t", "10", "--sla", "5%>2ms"]).expect(1);
    assert!(
        ended
            .stdout
            .lines()
            .last()
            .unwrap()
            .contains("by service time): 100 % of reads on sim:read-us=3000")
    );
    latency(&bench, &["-l", OUT, "--sla", "5%>3us", "--format", "csv"])
        .expect_error(2, &["had this limit in --sla"]);
    let json = latency(&bench, &["-l", OUT, "-t", "10", "--format", "json"])
        .expect(0)
        .json();
    assert!(
        json["logs"][0]["run"]["latencies"][0]["service"]["p9999_ns"]
            .as_u64()
            .unwrap()
            > 2_900_000
    );
}
