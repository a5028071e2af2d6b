//! `flashproof check`: simulated drives that just meet or just miss each limit, files in a directory, bad input.

use crate::support;
use crate::support::words;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use support::{Bench, Ended, LoopDevice, Nobody, OUT, Running, Undo, tool};

fn check(bench: &Bench, arguments: &[&str], code: i32) -> Value {
    bench
        .flashproof(&[&["check"], arguments, &["--json", "--out", OUT]].concat())
        .expect(code)
        .json()
}

/// Outcomes of the criteria of a check, each with its run, stream and metric.
fn criteria(json: &Value) -> Vec<(String, String)> {
    let all = json["checks"][0]["criteria"].as_array().unwrap();
    let name = |criterion: &Value| {
        ["run", "stream", "metric"]
            .map(|field| criterion[field].as_str().unwrap().to_owned())
            .join(" ")
    };
    all.iter()
        .map(|one| (name(one), one["outcome"].as_str().unwrap().to_owned()))
        .collect()
}

/// Limits of latencies and of commits, each with a drive that just meets it and a drive that just misses it.
const LIMITS: [(&str, &str, &str, &str); 11] = [
    // A commit is a write and a sync, and each takes the time of a write.
    (
        "etcd",
        "wal wal-commits p99",
        "sim:write-us=4900+jitter-pct=0",
        "sim:write-us=5100+jitter-pct=0",
    ),
    (
        "etcd",
        "wal wal-commits iops",
        "sim:write-us=9900+jitter-pct=0",
        "sim:write-us=10100+jitter-pct=0",
    ),
    (
        "etcd",
        "wal-and-backend wal-commits p99",
        "sim:write-us=3250+jitter-pct=0",
        "sim:write-us=3400+jitter-pct=0",
    ),
    (
        "etcd",
        "wal-and-backend backend-commits p99",
        "sim:write-us=350+jitter-pct=0",
        "sim:write-us=370+jitter-pct=0",
    ),
    (
        "openshift-etcd",
        "etcd-perf wal-commits p99",
        "sim:write-us=4900+jitter-pct=0",
        "sim:write-us=5100+jitter-pct=0",
    ),
    (
        "openshift-etcd",
        "etcd-perf wal-commits iops",
        "sim:write-us=9900+jitter-pct=0",
        "sim:write-us=10100+jitter-pct=0",
    ),
    (
        "tikv",
        "raft-log raft-log-commits p99",
        "sim:write-us=24400+jitter-pct=0",
        "sim:write-us=25600+jitter-pct=0",
    ),
    (
        "bnb",
        "read-latency data-reads p50",
        "sim:read-us=990+jitter-pct=0",
        "sim:read-us=1010+jitter-pct=0",
    ),
    (
        "aerospike",
        "act-1x records-reads p95",
        "sim:read-us=990+jitter-pct=0",
        "sim:read-us=1010+jitter-pct=0",
    ),
    // Operations that start more than 8 ms (or 64 ms) before the end of the freeze are slow.
    (
        "aerospike",
        "act-1x records-reads p99",
        "sim:stall-every-s=1+stall-ms=17",
        "sim:stall-every-s=1+stall-ms=20",
    ),
    (
        "aerospike",
        "act-1x records-reads p99.9",
        "sim:stall-every-s=10+stall-ms=72",
        "sim:stall-every-s=10+stall-ms=80",
    ),
];

/// A drive that meets all limits, but does fewer operations than the default drive, so that simulations take less time.
const SLOW: &str = "sim:read-iops=100000+write-iops=100000";

fn json_on(name: &str, drive: &str, time: &str) -> Value {
    Bench::new()
        .flashproof(&["check", name, drive, "--json", "--out", OUT, "--for", time])
        .json()
}

/// Deciding limits of rates of reads or writes. Each has a good and a bad drive, as in [`LIMITS`].
fn limits_of_rates() -> Vec<[String; 4]> {
    let all = json_on("all", SLOW, "4s");
    let checks = all["checks"].as_array().unwrap().iter();
    let criteria = checks.flat_map(|check| {
        check["criteria"]
            .as_array()
            .unwrap()
            .iter()
            .map(|of| (&check["name"], of))
    });
    let limits = criteria.filter_map(|(name, criterion)| {
        let run = criterion["run"].as_str().unwrap_or_default();
        let stream = criterion["stream"].as_str().unwrap_or_default();
        let metric = criterion["metric"].as_str().unwrap_or_default();
        let standing = criterion["standing"].as_str().unwrap_or_default();
        let does = stream
            .rsplit_once('-')?
            .1
            .strip_suffix('s')
            .filter(|does| ["read", "write"].contains(does))?;
        // Runs of the other direction are not judged here, so they need few operations.
        let other = if does == "read" { "write" } else { "read" };
        let (unit, limit) = match metric {
            "iops" => ("iops", criterion["limit"].as_f64()?),
            "bandwidth" => ("mbps", criterion["limit"].as_f64()? / 1e6),
            _ => return None,
        };
        let decides = ["required", "recommended"].contains(&standing)
            && criterion["is_of_higher_tier"] == false;
        let [good, bad] = [1.025, 0.975]
            .map(|factor| format!("sim:{does}-{unit}={:.0}+{other}-iops=60000", limit * factor));
        decides.then(|| {
            [
                name.as_str().unwrap().to_owned(),
                format!("{run} {stream} {metric}"),
                good,
                bad,
            ]
        })
    });
    limits.collect()
}

#[test]
fn each_limit_passes_a_drive_just_within_and_fails_a_drive_just_beyond() {
    let rates = limits_of_rates();
    assert!(rates.len() > 30, "{rates:?}");
    let rates = rates
        .iter()
        .map(|limit| (limit.each_ref().map(String::as_str), "4s"));
    let limits = rates
        .chain(LIMITS.map(|(name, criterion, good, bad)| ([name, criterion, good, bad], "24s")));
    let wrong = limits.filter_map(|([name, criterion, good, bad], time)| {
        let outcomes = [good, bad].map(|drive| {
            let json = json_on(name, drive, time);
            let of = criteria(&json).into_iter().find(|(of, _)| of == criterion);
            of.unwrap_or_else(|| panic!("{name} has no {criterion}: {json}"))
                .1
        });
        // A slow drive completes too few operations for high percentiles: the outcome is then `measured`, not `pass`.
        let is_right =
            ["pass", "measured"].contains(&outcomes[0].as_str()) && outcomes[1] == "fail";
        (!is_right).then(|| format!("{name}: {criterion}: {outcomes:?}, {good}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_check_prints_its_answer_with_the_figure_the_limit_and_its_source() {
    let bench = Bench::new();
    let ended = bench
        .flashproof(&["check", "etcd", "sim:", "--out", OUT, "--html", "page.html"])
        .expect(0);
    let page = &ended.stdout;
    assert!(
        page.strip_prefix('\n')
            .unwrap_or(page)
            .starts_with("PASS: etcd: limits held for a heavily loaded cluster"),
        "{page}"
    );
    ended.shows(&[
        "p99 of wal-commits",
        "Path: sim:",
        "https://",
        "not tested: ",
        "] folklore: ",
    ]);
    let end = "other programs on the same disk";
    assert!(
        page.lines()
            .any(|line| line.starts_with("  not tested: ") && line.ends_with(end)),
        "in a pipe no sentence is broken: {page}"
    );
    assert!(
        bench
            .text("page.html")
            .contains("Is sim: good enough for etcd?")
    );
    assert!(
        bench.exists("run/check.json")
            && bench.exists("run/check.toml")
            && bench.exists("run/wal/verdict.json")
    );
    bench
        .flashproof(&["report", "run/wal"])
        .expect(0)
        .shows(&["  screening, limits: below 1 % over 10 ms, below 1 % over 500 ms\n"]);
    bench
        .flashproof(&["report", "run"])
        .expect(0)
        .shows(&["PASS: etcd: limits held"]);
    bench.flashproof(&["report", "run", "--csv"]).expect_stdout(
        0,
        &["check,answer,run,criterion,measured,limit,source\netcd,"],
    );
    fs::remove_file(bench.path("run/wal/verdict.json")).unwrap();
    let again = bench.flashproof(&["report", "run"]).expect(4);
    again.shows(&["check.json says PASS for run wal, but the directory of the run says INVALID"]);
}

#[test]
fn freezing_and_lost_drives_fail_although_their_percentiles_are_good() {
    let bench = Bench::new();
    bench.write(
        "mine.toml",
        own(|text| {
            text.replace("seconds = 2\njobs", "seconds = 30\njobs")
                .replace("-flushes", "-commits")
        }),
    );
    let json = check(
        &bench,
        &["./mine.toml", "sim:stall-every-s=10+stall-ms=900"],
        1,
    );
    let is_failed = criteria(&json)
        .iter()
        .any(|(what, outcome)| what.contains("p99") && outcome == "fail");
    assert!(
        is_failed,
        "the verdict of the run fails, but not the 99th percentile: {json}"
    );
    assert!(
        json["checks"][0]["sentence"]
            .as_str()
            .unwrap()
            .contains(" completed no "),
        "{json}"
    );
    let bench = Bench::new();
    let json = check(&bench, &["etcd", "sim:gone-at-s=20"], 1);
    assert_eq!(
        (&json["outcome"], &json["exit_code"]),
        (&"fail".into(), &1.into())
    );
}

#[test]
fn a_run_within_a_burst_is_too_short_to_pass_and_the_end_of_a_burst_is_found() {
    let bench = Bench::new();
    let json = check(&bench, &["vault", SLOW], 0);
    assert_eq!(json["outcome"], "measured");
    assert_eq!(
        json["checks"][0]["answer"],
        "within the limits, but tested too briefly"
    );
    let sentence = json["checks"][0]["sentence"].as_str().unwrap();
    assert!(
        sentence.contains(" for 60 s (too brief: 60 s of 40 min)"),
        "{sentence}"
    );
    // A stall near the end of a run is not mistaken for the end of a burst.
    for stall in ["16", "26.5"] {
        let drive = format!("{SLOW}+stall-at-s={stall}+stall-ms=3000");
        let json = check(&Bench::new(), &["longhorn", &drive], 0);
        assert_eq!(
            json["checks"][0]["answer"], "within the limits, but tested too briefly",
            "{stall}"
        );
    }
    // The load has no published limit and is only assumed, so a slow drive does not fail.
    let json = check(
        &Bench::new(),
        &["mysql", "sim:read-us=5000+write-us=8000+channels=4"],
        0,
    );
    assert_eq!(json["checks"][0]["answer"], "no published limit");
    let again = bench.flashproof(&words("check vault sim:read-iops=100000+write-iops=100000 --for 8s --out short --require-sustained"));
    again.expect(4).shows(&[
        "MEASURED: vault: limits held for ",
        " s (too brief: ",
        "Do: for a PASS, repeat the check with --for 40m",
    ]);

    let text = own(|text| text.replace("seconds = 2\njobs", "seconds = 180\njobs"))
        .replace("seconds = 2\n", "seconds = 2400\n")
        .replace(
            "metric = \"p99\"\nbelow = \"10ms\"",
            "metric = \"iops\"\nat_least = \"1000\"",
        );
    for (factor, code, outcome) in [("4", 0, "pass"), ("400", 1, "fail")] {
        let bench = Bench::new();
        bench.write("mine.toml", &text);
        let drive = format!("sim:write-us=100+slow-after-s=60+slow-factor={factor}");
        let json = check(&bench, &["./mine.toml", &drive], code);
        assert_eq!(
            json["outcome"], outcome,
            "the end of the burst shows the sustained state: {json}"
        );
        assert!(
            json["checks"][0]["remarks"][0]
                .as_str()
                .unwrap()
                .starts_with("a burst ended: "),
            "{json}"
        );
    }
}

/// The check `text` with a second criterion, for the stream log-writes.
fn and_criterion(text: &str, metric: &str, limit: &str) -> String {
    let more = format!(
        "[[run.criterion]]\nstream = \"log-writes\"\nmetric = \"{metric}\"\n{limit}\nsource = \"https://example.com\"\n\
         looked_up = \"2026-01-01\"\nstanding = \"published\"\nsays = \"mine\"\n"
    );
    text.to_owned() + &more
}

#[test]
fn the_strictest_of_several_limits_decides() {
    let bench = Bench::new();
    let open_loop = own(|text| {
        text.replace(
            "fdatasync=1",
            "rate_iops=10000\nioengine=libaio\niodepth=512",
        )
    })
    .replace("seconds = 2\njobs", "seconds = 80\njobs")
    .replace("log-flushes", "log-writes");
    bench.write(
        "mine.toml",
        and_criterion(&open_loop, "p99.9", "below = \"10ms\""),
    );
    // After 70 s the drive is slow. Only the verdict of the whole run covers this time.
    check(
        &bench,
        &["./mine.toml", "sim:stall-at-s=70+stall-ms=100"],
        1,
    );
}

#[test]
fn a_bandwidth_limit_is_judged_after_a_burst_but_a_percentile_is_not() {
    let bench = Bench::new();
    let text =
        own(|text| text.replace("bs=4k\nfdatasync=1", "bs=128k\nioengine=libaio\niodepth=8"))
            .replace("seconds = 2\njobs", "seconds = 180\njobs")
            .replace("seconds = 2\n", "seconds = 2400\n")
            .replace(
                "metric = \"p99\"\nbelow = \"10ms\"",
                "metric = \"bandwidth\"\nat_least = \"200m\"",
            )
            .replace("log-flushes", "log-writes");
    bench.write("mine.toml", &text);
    let json = check(
        &bench,
        &["./mine.toml", "sim:slow-after-s=60+slow-factor=1000"],
        1,
    );
    assert_eq!(criteria(&json)[0].1, "fail", "{json}");
    // The second criterion, a percentile, does not cover the time after the burst, so the outcome is `measured`.
    let bench = Bench::new();
    bench.write("mine.toml", and_criterion(&text, "p99", "below = \"1s\""));
    let json = check(
        &bench,
        &["./mine.toml", "sim:slow-after-s=60+slow-factor=2"],
        0,
    );
    assert_eq!(json["outcome"], "measured", "{json}");
}

#[test]
fn several_checks_print_fewer_than_24_lines_with_failed_checks_first() {
    let bench = Bench::new();
    let names = "etcd,vault,mysql,longhorn,polkadot,tikv";
    let slow = "sim:read-us=900+write-us=900+channels=1";
    let ended = bench.flashproof(&["check", names, slow, "--for", "8s", "--out", OUT]);
    let ended = ended.expect(1);
    let lines: Vec<_> = ended.stdout.trim_start().lines().collect();
    assert!(
        lines[0].starts_with("FAIL: 6 checks: ") && lines[0].contains(" failed, "),
        "{lines:#?}"
    );
    let groups: Vec<_> = lines[1..]
        .iter()
        .filter(|line| line.contains(": ") && !line.starts_with([' ', 'D']))
        .filter_map(|line| line.split([':', ',']).next())
        .collect();
    assert!(
        groups[0] == "FAIL" && groups.contains(&"MEASURED"),
        "{lines:#?}"
    );
    assert!(lines.len() < 24, "{lines:#?}");
}

#[test]
fn check_all_prints_one_table_and_writes_io_properties_yaml_of_scylladb() {
    let bench = Bench::new();
    let ended = bench
        .flashproof(&words(
            "check all sim:read-iops=100000+write-iops=100000 --for 8s --out run --markdown",
        ))
        .expect(0);
    for part in [
        "**MEASURED** - ",
        "**MEASURED, limits held for 8 s to 14 s only: ",
        "**MEASURED, no published limit: ",
        "Do: get the missing answers: flashproof check ",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    for name in ["etcd", "postgresql", "tikv", "zookeeper"] {
        assert!(
            ended.stdout.contains(&format!("| {name} | ")),
            "{name}: {}",
            ended.stdout
        );
    }
    let values = bench.text("run/scylladb/io_properties.yaml");
    assert!(
        values.contains(&format!("mountpoint: {SLOW}")) && !values.contains('{'),
        "{values}"
    );
    bench
        .flashproof(&["check"])
        .expect(0)
        .shows(&["Does a commit to the write-ahead log", "Consensus stores"]);
    let two = bench
        .flashproof(&["check", "etcd,kafka", "sim:", "--for", "4s", "--out", "two"])
        .expect(0);
    two.says(&[
        "2 checks: ",
        " of load in all",
        "etcd, run wal: 2 s; ",
        " left in all",
    ]);
    bench
        .flashproof(&["check", "etcd", "--show"])
        .expect(0)
        .shows(&["[[run.criterion]]", "source = "]);
}

/// A user's own check, modified by `change`.
fn own(change: impl Fn(String) -> String) -> String {
    let text = "database = \"mine\"\nquestion = \"Is it good?\"\n[sustained]\nseconds = 2\nwritten = \"0\"\nwhy = \"It is short.\"\n\
                [[run]]\nname = \"log\"\nseconds = 2\njobs = '''\n[log]\nrw=write\nbs=4k\nfdatasync=1\nfilename=log\nsize=16m\n'''\n\
                [[run.criterion]]\nstream = \"log-flushes\"\nmetric = \"p99\"\nbelow = \"10ms\"\nsource = \"https://example.com\"\n\
                looked_up = \"2026-01-01\"\nstanding = \"published\"\nsays = \"mine\"\n";
    change(text.to_owned())
}

#[test]
fn a_users_own_check_runs_and_its_mistakes_are_named() {
    let bench = Bench::new();
    bench.write(
        "mine.toml",
        own(|text| text.replace("\"2026-01-01\"", "2026-01-01")),
    );
    let json = check(&bench, &["./mine.toml", "sim:"], 0);
    assert_eq!(criteria(&json)[0].1, "pass", "{json}");
    assert_eq!(
        (&json["outcome"], &json["checks"][0]["name"]),
        (&"pass".into(), &"mine".into())
    );
    for (from, to, says) in [
        (
            "seconds = 2\njobs",
            "seconds = 0\njobs",
            "seconds = 0 is not between 1 and 604800",
        ),
        (
            "metric = \"p99\"",
            "metric = \"p100\"",
            "\"p100\" is not a metric",
        ),
        (
            "below = \"10ms\"",
            "at_least = \"10\"",
            "give \"below\" for a latency, or \"at_least\" for a rate",
        ),
        (
            "metric = \"p99\"",
            "metric = \"mean\"",
            "a mean hides slow operations",
        ),
        (
            "source = \"https://example.com\"\n",
            "",
            "a limit needs source, looked_up and standing",
        ),
        (
            "log-flushes",
            "log-syncs",
            "there is no stream \"log-syncs\" - the streams are log-writes, log-flushes, log-commits",
        ),
        (
            "filename=log",
            "filename=../log",
            "filename=../log is not one name of letters",
        ),
        ("filename=log\n", "", "it names no file"),
        ("size=16m\n", "", "it has no size in bytes"),
        (
            "bs=4k",
            "bs=4k\ndirectory=/tmp",
            "it sets directory, offset or a log",
        ),
        ("below = \"10ms\"", "below = \"10\"", "has no unit"),
        (
            "below = \"10ms\"",
            "below = \"0ms\"",
            "a limit of 0 has no effect",
        ),
        (
            "bs=4k",
            "blocks=4k",
            "neither fio nor flashproof has this option",
        ),
        (
            "bs=4k",
            "bs=4k\nexec_prerun=rm",
            "flashproof does not support this option",
        ),
        (
            "name = \"log\"",
            "name = \"../log\"",
            "a name has only letters",
        ),
        ("[[run]]", "unknown = 1\n[[run]]", "unknown field `unknown`"),
        (
            "bs=4k",
            "bs=4k\nfiles=new",
            "files=new: unknown variant `new`, expected one of `shared`, `fresh`, `rewritten`, `appended`, `existing`",
        ),
        (
            "rw=write",
            "rw=rw\nfiles=fresh",
            "it reads a file that holds no data before the run",
        ),
        (
            "bs=4k",
            "bs=4k\nlong_rate_iops=0",
            "long_rate_iops=0: it is not a number from 1 to 1000000",
        ),
        (
            "bs=4k",
            "bs=4k\nrate_iops=5\nlong_rate_iops=5",
            "long_rate_iops needs a job without rate and thinktime",
        ),
        (
            "fdatasync=1",
            "commit_writes=2",
            "commit_writes and commit_meta need a job that only writes, with fdatasync=1",
        ),
        (
            "metric = \"p99\"\nbelow = \"10ms\"",
            "metric = \"bandwidth\"\nat_least = \"1m\"",
            "commits and flushes move no bytes",
        ),
        (
            "[sustained]",
            "tiers = [\"a\"]\n[sustained]",
            "tier \"a\": no limit has this tier",
        ),
        (
            "bs=4k",
            "bs=4k\ncommit_meta=2",
            "commit_meta=2: it is not a number from 0 to 1",
        ),
        (
            "says = ",
            "tier = \"large\"\nsays = ",
            "tier \"large\" is not in tiers - add it there",
        ),
        (
            "written = \"0\"",
            "written = \"much\"",
            "sustained.written: ",
        ),
        (
            "metric = \"p99\"\nbelow = \"10ms\"",
            "metric = \"bandwidth\"\nat_least = \"500MB/s\"",
            "at_least = \"500MB/s\": units with B have two meanings",
        ),
        (
            "\"2026-01-01\"",
            "5",
            "line 23: looked_up is not a date - give a date such as \"2026-01-31\"",
        ),
    ] {
        bench.write("wrong.toml", own(|text| text.replacen(from, to, 1)));
        for options in [
            &["sim:", "--out", "wrong"][..],
            &["sim:", "--dry-run"],
            &[".", "--dry-run"],
            &["--show"],
        ] {
            bench
                .flashproof(&[&["check", "./wrong.toml"], options].concat())
                .expect_error(2, &[says]);
        }
        assert!(!bench.exists("wrong"), "nothing is left of {says}");
    }
    bench.write(
        "wrong.toml",
        own(|text| {
            text.replace("rw=write", "rw=rw")
                .replace("log-flushes", "log-syncs")
        }),
    );
    let refused = bench
        .flashproof(&["check", "./wrong.toml", "sim:", "--out", "wrong"])
        .expect(2);
    assert!(
        !refused.stderr.contains("for later reads"),
        "{}",
        refused.stderr
    );
    bench
        .line("check etdc sim:")
        .expect_error(2, &["there is no check \"etdc\" - did you mean etcd?"]);
    for (wrong, hint) in [
        ("postgres", "did you mean postgresql?"),
        ("kafak", "did you mean kafka?"),
        ("mssql", "did you mean sql-server?"),
        ("it", "lists the checks"),
    ] {
        bench
            .flashproof(&["check", wrong, "sim:"])
            .expect_error(2, &[hint]);
    }
    bench
        .flashproof(&["check", ",", "sim:"])
        .expect_error(2, &["there is no check \"\""]);
    bench
        .flashproof(&["check", "none.toml", "sim:"])
        .expect_error(2, &["cannot read the check \"none.toml\""]);
    bench
        .flashproof(&["check", "/dev/zero", "sim:"])
        .expect_error(2, &["cannot read the check \"/dev/zero\""]);
    for swapped in [["/dev/zero", "etcd"], ["sim:", "etcd,vault"], [".", "all"]] {
        let [path, name] = swapped;
        let right = format!("the check comes before the path - run flashproof check {name} {path}");
        bench
            .flashproof(&["check", path, name])
            .expect_error(2, &[&right]);
    }
    bench
        .flashproof(&["check", "etcd", "--dry-run"])
        .expect_error(2, &["no path is given"]);
    bench
        .flashproof(&["check", "etcd"])
        .expect_error(2, &["no path is given"]);
    fs::create_dir(bench.path("etcd")).unwrap();
    bench.flashproof(&["check", "etcd", "--show"]).expect(0);
    let small = bench.flashproof(&["check", "./mine.toml", "sim:capacity=8MiB"]);
    small.expect_error(
        3,
        &["the files of the check need 16.8 MB, but the device has only 8.39 MB"],
    );
    bench
        .flashproof(&["check", "etcd", "nowhere"])
        .expect_error(3, &["there is no such directory or device"]);
    bench
        .flashproof(&["check", "etcd", "./mine.toml"])
        .expect_error(3, &["it is a file; name its directory"]);
}

#[test]
fn the_first_tier_decides_and_warning_limits_are_shown() {
    let bench = Bench::new();
    let text =
        own(|text| text.replace("[sustained]", "tiers = [\"small\", \"large\"]\n[sustained]"));
    let text = and_criterion(&text, "iops", "at_least = \"1g\"\ntier = \"large\"");
    let text =
        and_criterion(&text, "p50", "below = \"1us\"").replace("p50\"", "p50\"\ntier = \"small\"");
    let at = text.rfind("published").unwrap();
    bench.write(
        "mine.toml",
        format!("{}warning{}", &text[..at], &text[at + "published".len()..]),
    );
    let ended = bench
        .flashproof(&["check", "./mine.toml", "sim:", "--out", OUT])
        .expect(0);
    ended.shows(&[
        "limits held for small, not for large: rate of log-writes in log was ",
        "not held, no effect on the answer",
    ]);
    ended.shows(&["(warning, not held)", "(large, not held)"]);
}

/// A mounted file system on a loop device of `mib` MiB.
fn mounted(bench: &Bench, mib: u64) -> Option<(LoopDevice, Undo, PathBuf)> {
    let device = LoopDevice::new(bench, mib << 20, &["--direct-io=on"])?;
    tool("mkfs.ext4", &["-q", &device.name])?;
    let at = bench.path("mounted");
    fs::create_dir(&at).unwrap();
    let at_text = at.to_str().unwrap();
    tool("mount", &[&device.name, at_text])?;
    // io_uring holds files for some time after the process has ended, so the unmount is lazy.
    let undo = Undo::with("umount", &["-l", at_text]);
    Some((device, undo, at))
}

#[test]
fn files_on_a_disk_are_created_without_root_and_removed_at_the_end_and_after_a_kill() {
    let Some(bench) = Bench::on_disk() else {
        return;
    };
    let Some((_device, _undo, at)) = mounted(&bench, 256) else {
        return;
    };
    let Some(nobody) = Nobody::new(&bench) else {
        return;
    };
    fs::create_dir(at.join("data")).unwrap();
    let data = at.join("data").to_str().unwrap().to_owned();
    tool("chown", &["65534", &data]);
    bench.write("mine.toml", own(|text| text));
    // A directory for the results, to which a user without rights can write.
    let records = at.join("records");
    fs::create_dir(&records).unwrap();
    fs::set_permissions(&records, fs::Permissions::from_mode(0o777)).unwrap();
    let out = |name: &str| records.join(name).to_str().unwrap().to_owned();
    let first = out("1");
    let second = out("2");
    let third = out("3");
    let fourth = out("4");
    let arguments = |out| ["check", "./mine.toml", &data, "--json", "--out", out];
    let ended: Ended = nobody.flashproof(&bench, &arguments(&first));
    assert!(
        matches!(ended.code, Some(0 | 1 | 4)),
        "{} {}",
        ended.stdout,
        ended.stderr
    );
    let json = ended.json();
    assert!(
        json["checks"][0]["criteria"][0]["figure"].as_f64().unwrap() > 0.0,
        "{json}"
    );
    assert!(
        json["checks"][0]["disk"]
            .as_str()
            .unwrap()
            .starts_with("loop"),
        "{json}"
    );
    assert_eq!(
        fs::read_dir(&data).unwrap().count(),
        0,
        "the files of the check are removed"
    );

    let words = nobody.command();
    let mut command = bench.command(words[0]);
    command.args(&words[1..]).args([
        "check",
        "./mine.toml",
        &data,
        "--for",
        "10m",
        "--out",
        &second,
    ]);
    let mut running = Running::start(command);
    let own_dir = at.join("data/flashproof-check");
    running.wait_until("its file is there", || own_dir.join("log").exists());
    running.end_by("KILL");
    assert!(
        own_dir.join("log").exists(),
        "a killed check leaves its file"
    );
    let ended = nobody.flashproof(&bench, &arguments(&third));
    assert!(
        matches!(ended.code, Some(0 | 1 | 4)),
        "{} {}",
        ended.stdout,
        ended.stderr
    );
    assert!(!own_dir.exists(), "the next check removes the file");

    bench.write(
        "large.toml",
        own(|text| text.replace("size=16m", "size=1g")),
    );
    let error = nobody.flashproof(&bench, &["check", "./large.toml", &data, "--out", &fourth]);
    error.expect_error(3, &["its files need 1.07 GB", "stay free"]);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
}

/// A check with one run for each initial state of a file, and a job whose commits have two syncs.
fn with_states() -> String {
    let head = "database = \"mine\"\nquestion = \"Is it good?\"\n[sustained]\nseconds = 2\nwritten = \"0\"\nwhy = \"It is short.\"\n";
    let runs = ["fresh", "rewritten", "appended"].map(|state| {
        format!(
            "[[run]]\nname = \"{state}\"\nseconds = 5\njobs = '''\n[log]\nrw=write\nbs=4k\nioengine=psync\nrate_iops=50\n\
             fdatasync=1\nfiles={state}\nfilename=log\nsize=8m\n[pages]\nrw=randwrite\nbs=4k\nioengine=psync\ndirect=1\n\
             rate_iops=10\nfdatasync=1\ncommit_writes=4\ncommit_meta=1\nfilename=pages\nsize=8m\n'''\n\
             [[run.criterion]]\nstream = \"pages-commits\"\nmetric = \"iops\"\nsays = \"mine\"\n"
        )
    });
    head.to_owned() + &runs.concat()
}

#[test]
fn each_run_begins_with_its_file_in_the_state_that_the_database_has() {
    let Some(bench) = Bench::on_disk() else {
        return;
    };
    let Some((_device, _undo, at)) = mounted(&bench, 256) else {
        return;
    };
    bench.write("mine.toml", with_states());
    let arguments = [
        "check",
        "./mine.toml",
        at.to_str().unwrap(),
        "--json",
        "--out",
        OUT,
    ];
    let mut running = Running::start(bench.prepare(&arguments));
    let file = |state: &str| at.join(format!("flashproof-check/{state}~log"));
    // At most 50 writes of 4 KiB a second: after the first writes, most of the file is as it was at first.
    let mut extents = |state: &str| {
        running.wait_for_interval(&bench, &format!("{OUT}/{state}"));
        let length = fs::metadata(file(state)).unwrap().len();
        tool("filefrag", &["-v", file(state).to_str().unwrap()]).map(|map| (length, map))
    };
    let Some((length, map)) = extents("fresh") else {
        return;
    };
    assert!(
        length == 8 << 20 && map.contains("unwritten"),
        "allocated and not written: {length} {map}"
    );
    let Some((length, map)) = extents("rewritten") else {
        return;
    };
    assert!(
        length == 8 << 20 && !map.contains("unwritten"),
        "written before: {length} {map}"
    );
    assert!(!file("fresh").exists(), "a file goes with its run");
    let Some((length, _)) = extents("appended") else {
        return;
    };
    assert!((4_096..8 << 20).contains(&length), "it grows: {length}");
    let ended = running.end();
    assert!(
        matches!(ended.code, Some(0 | 1 | 4)),
        "{} {}",
        ended.stdout,
        ended.stderr
    );
    let verdict: Value = serde_json::from_str(&bench.text("run/fresh/verdict.json")).unwrap();
    let count = |name: &str, field: &str| {
        let stream = verdict["streams"]
            .as_array()
            .unwrap()
            .iter()
            .find(|stream| stream["name"] == name)
            .unwrap();
        stream[field].as_u64().unwrap()
    };
    let ops = |name: &str| count(name, "ops");
    // A commit of pages is four writes, a sync, a write, a sync. The last commit may lack writes, but not syncs.
    let commits = ops("pages-commits");
    let whole = commits - count("pages-commits", "overtime");
    assert!((40..=50).contains(&commits), "{verdict}");
    assert!(
        (5 * whole..=5 * commits).contains(&ops("pages-writes")),
        "{verdict}"
    );
    assert_eq!(ops("pages-flushes"), 2 * commits, "{verdict}");
    assert_eq!(
        (ops("log-writes"), ops("log-flushes")),
        (ops("log-commits"), ops("log-commits"))
    );
}

#[test]
fn a_too_small_new_file_is_named_and_failed_commits_are_counted_once() {
    let Some(bench) = Bench::on_disk() else {
        return;
    };
    let Some((_device, _undo, at)) = mounted(&bench, 256) else {
        return;
    };
    bench.write(
        "mine.toml",
        own(|text| text.replace("size=16m", "size=4k\nfiles=fresh")),
    );
    let ended = bench.flashproof(&[
        "check",
        "./mine.toml",
        at.to_str().unwrap(),
        "--out",
        "small",
    ]);
    ended.shows(&[
        "wrote ",
        " to a file of 4.1 kB. After the first 4.1 kB the writes",
    ]);
    check(&bench, &["./mine.toml", "sim:error-rate=0.01"], 1);
    let verdict: Value = serde_json::from_str(&bench.text("run/log/verdict.json")).unwrap();
    let errors = |name: &str| {
        let stream = verdict["streams"]
            .as_array()
            .unwrap()
            .iter()
            .find(|stream| stream["name"] == name)
            .unwrap();
        stream["errors"].as_u64().unwrap()
    };
    let commits = errors("log-commits");
    let parts = errors("log-writes") + errors("log-flushes");
    assert!(commits > 0 && commits <= parts, "{verdict}");
    let reason = verdict["reasons"][0]["text"].as_str().unwrap();
    assert!(!reason.contains("log-commits"), "{reason}");
}

#[test]
fn tmpfs_is_refused_and_a_check_answered_by_the_page_cache_is_invalid() {
    let Some(bench) = Bench::on_disk() else {
        return;
    };
    bench.write("mine.toml", own(|text| text));
    if fs::metadata("/dev/shm").is_ok_and(|metadata| metadata.is_dir()) {
        bench
            .flashproof(&["check", "./mine.toml", "/dev/shm"])
            .expect_error(3, &["it is tmpfs, which is in memory"]);
    }
    let Some((_device, _undo, at)) = mounted(&bench, 256) else {
        return;
    };
    // Without a sync, the writes end in the page cache.
    bench.write(
        "cached.toml",
        own(|text| {
            text.replace("fdatasync=1\n", "")
                .replace("log-flushes", "log-writes")
        }),
    );
    let json = check(&bench, &["./cached.toml", at.to_str().unwrap()], 4);
    let sentence = json["checks"][0]["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("the page cache or another layer answered instead of the disk"),
        "{sentence}"
    );
}

/// True if the look was judged. On a busy host, the outcome may be "not judged" instead.
fn is_judged(ended: &Ended) -> bool {
    let is_busy = ended.code == Some(4)
        && ended
            .stdout
            .contains("INVALID: not judged: the host was too busy");
    assert!(
        is_busy || ended.code == Some(0),
        "{} {}",
        ended.stdout,
        ended.stderr
    );
    !is_busy
}

#[test]
fn check_with_only_a_path_prints_three_lines_and_the_next_command() {
    let bench = Bench::new();
    let ended = bench
        .flashproof(&["check", "sim:", "--out", OUT, "--html", "page.html"])
        .expect(0);
    let lines: Vec<_> = ended.stdout.trim().lines().collect();
    for (line, begin) in lines.iter().zip([
        "Doctor: the drive is simulated",
        "MEASURED: reads of 4 KiB: median ",
        "A program that waits for each read gets about ",
        "Next: flashproof certify sim: --dry-run",
        "",
    ]) {
        assert!(line.starts_with(begin), "{begin}: {lines:#?}");
    }
    ended.shows(&["; 1,000/s for 60 s; nothing failed"]);
    assert!(bench.text("page.html").contains("A look at sim:"));
    bench
        .flashproof(&["report", OUT])
        .expect(0)
        .shows(&[lines[1], lines[3]]);
    bench
        .flashproof(&["report", "status", OUT])
        .expect(0)
        .shows(&["reads of 4 KiB: median "]);
    bench
        .flashproof(&["certify", "sim:", "--dry-run"])
        .expect(0);
    let stall = words("check sim:stall-every-s=3+stall-ms=900 --for 9s --markdown");
    let stalled = bench.flashproof(&stall).expect(0);
    assert!(
        stalled.stdout.contains("99.9 % below 8"),
        "a stall counts for each read that it delays: {}",
        stalled.stdout
    );
    bench
        .flashproof(&["check", "sim:read-us=20000+channels=1", "--for", "9s"])
        .expect(0)
        .shows(&[
            "; only ",
            " of 1,000/s of data-reads",
            "The disk is too slow for this load",
        ]);
    for (drive, says) in [
        ("sim:error-rate=0.01", "I/O errors"),
        ("sim:gone-at-s=3", "gone"),
    ] {
        let json = check(&Bench::new(), &[drive, "--for", "9s"], 1);
        let sentence = json["checks"][0]["sentence"].as_str().unwrap();
        assert!(sentence.contains(says), "{json}");
        assert_eq!(
            json["checks"][0]["look"]["next"],
            format!("flashproof doctor {drive}")
        );
    }
    for option in ["--show", "--dry-run"] {
        bench
            .flashproof(&["check", "sim:", option])
            .expect(0)
            .shows(&["files=existing"]);
        bench
            .flashproof(&["check", "etcd", option, "--json"])
            .expect_error(2, &["cannot be used with", "--json"]);
    }
    bench
        .flashproof(&["check", "etcd", "vault", "sim:"])
        .expect_error(
            2,
            &["several checks are joined by commas - run flashproof check etcd,vault sim:"],
        );
    bench.flashproof(&["check"]).shows(&["takes a look"]);
}

#[test]
fn check_with_only_a_device_never_writes_and_measures_only_written_blocks() {
    let bench = Bench::new();
    // A device attached read-only refuses every write.
    let Some(device) = LoopDevice::new(&bench, 64 << 20, &["--read-only"]) else {
        return;
    };
    let look = ["check", &device.name, "--for", "3s"];
    let writes = device.counters().write.completed;
    let blank = bench.flashproof(&look).expect(4);
    blank.shows(&[
        "INVALID: not judged: never written (all ",
        " sampled blocks are zeros)",
        "Only the controller was measured",
        &format!("Next: flashproof certify {} --dry-run", device.name),
    ]);
    let mut image = b"precious".repeat(4 << 20);
    image.resize(64 << 20, 0);
    fs::write(&device.image, &image).unwrap();
    let ended = bench.flashproof(&look);
    if is_judged(&ended) {
        ended.shows(&[" of written blocks (", "; the others are zeros): median "]);
    }
    assert!(
        fs::read(&device.image).unwrap() == image && device.counters().write.completed == writes,
        "the look wrote to the device"
    );
    drop(device);

    let Some((device, _undo, at)) = mounted(&bench, 64) else {
        return;
    };
    fs::write(at.join("data"), b"precious".repeat(4 << 20)).unwrap();
    tool("sync", &[]);
    let ended = bench.flashproof(&["check", &device.name, "--for", "3s"]);
    if is_judged(&ended) {
        ended.shows(&[" for 3 s, a tenth of the usual rate, because the disk is in use"]);
        ended.shows(&[&format!("Next: flashproof check all {}", at.display())]);
    }
}

#[test]
fn check_with_only_a_directory_removes_its_files_also_after_a_signal() {
    let Some(bench) = Bench::on_disk() else {
        return;
    };
    let Some((_device, _undo, at)) = mounted(&bench, 1024) else {
        return;
    };
    let own_dir = at.join("flashproof-check");
    let path = at.to_str().unwrap();
    let ended = bench.flashproof(&["check", path, "--for", "3s"]);
    if is_judged(&ended) {
        ended.shows(&["reads of 4 KiB: median ", "; commits of 4 KiB: median "]);
        ended.shows(&[&format!("Next: flashproof check all {path}")]);
    }
    assert!(!own_dir.exists());
    let mut running = Running::start(bench.prepare(&["check", path, "--out", OUT]));
    running.wait_for_interval(&bench, &format!("{OUT}/look"));
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code, Some(4), "{} {}", ended.stdout, ended.stderr);
    assert!(!own_dir.exists());
}

#[test]
fn check_with_only_an_unusable_path_is_refused_and_leaves_no_files() {
    let bench = Bench::new();
    tool("mkfifo", &[bench.path("fifo").to_str().unwrap()]);
    bench.write("file", "precious");
    std::os::unix::fs::symlink("/dev/zero", bench.path("link")).unwrap();
    for (path, code, says) in [
        ("./fifo", 3, "it is a pipe, not a block device"),
        (
            "/dev/zero",
            3,
            "it is a character device, not a block device",
        ),
        ("./link", 3, "it is a character device, not a block device"),
        ("./file", 3, "it is a file; name its directory"),
        ("file", 3, "it is a file; name its directory"),
        ("./nowhere", 3, "there is no such directory or device"),
        ("/dev/shm", 3, "it is tmpfs, which is in memory"),
        (
            "etcdd",
            2,
            "there is no check \"etcdd\" - did you mean etcd?",
        ),
    ] {
        let ended = bench.flashproof(&["check", path, "--out", "left"]);
        ended.expect_error(code, &[says]);
        assert!(!bench.exists("left"), "{path}");
    }
    let erase = ["check", "sim:", "--erase", "S64ANX0T402"];
    bench
        .flashproof(&erase)
        .expect_error(2, &["nothing is erased"]);
    // With files=existing, a job reads existing data, which only a device has.
    bench.write(
        "mine.toml",
        own(|text| {
            text.replace("rw=write", "rw=read")
                .replace("fdatasync=1", "files=existing")
                .replace("flushes", "reads")
        }),
    );
    bench.flashproof(&["check", "./mine.toml", "sim:", "--out", "read"]);
    assert!(bench.exists("read/check.json"));
    bench
        .flashproof(&["check", "./mine.toml", "."])
        .expect_error(3, &["files=existing reads a device"]);
    bench.write(
        "mine.toml",
        own(|text| {
            text.replace("fdatasync=1", "files=existing")
                .replace("flushes", "writes")
        }),
    );
    bench
        .flashproof(&["check", "./mine.toml", "sim:"])
        .expect_error(2, &["files=existing is for jobs that only read"]);
}
