//! Every output that shows a verdict agrees with the verdict, for runs of every kind.

use crate::support;

use serde_json::{Value, json};
use std::process::Command;
use support::{Bench, Ended, Running};

const FIO: &str = "fio --direct=1 --rw=randread --bs=4k --time_based --output-format=json";

/// A configuration whose run lasts days of simulated time.
const ENDLESS: &str = "device-names: sim:\ntest-duration-sec: 1000000\nread-reqs-per-sec: 100\n";

fn fio(bench: &Bench, dir: &str, line: &str) -> Ended {
    bench.line(&format!("{FIO} --out={dir} {line}"))
}

fn storage(bench: &Bench, dir: &str, config: &str) -> Running {
    bench.start_as(&format!("{dir}.conf"), dir, config, &[])
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn shown(bench: &Bench, arguments: &[&str]) -> (i32, String) {
    let mut command: Command = bench.prepare(arguments);
    command.env("NO_COLOR", "1");
    let ended = Running::start(command).end();
    (ended.code.unwrap(), ended.stdout)
}

/// Outcome and code of the first reason.
fn decided(result: &Value) -> [&str; 2] {
    [&result["outcome"], &result["reasons"][0]["code"]].map(|value| value.as_str().unwrap())
}

fn sum(list: &Value, of: impl Fn(&Value) -> &Value) -> u64 {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| of(item).as_u64().unwrap_or(0))
        .sum()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// `text` as it appears on the page `html`: escaped, and with the page's short names of devices.
fn as_on_page(html: &str, text: &str) -> String {
    let mut names: Vec<_> = html
        .split("<div><dt>")
        .skip(1)
        .filter_map(|entry| {
            let (short, rest): (&str, &str) = str::split_once(entry, "</dt><dd><code>")?;
            Some((rest.split_once("</code>")?.0, short))
        })
        .collect();
    names.sort_by_key(|(long, _)| std::cmp::Reverse(long.len()));
    names.iter().fold(escaped(text), |text, (long, short)| {
        text.replace(long, short)
    })
}

/// Checks that all outputs for the run in `dir` agree; `own` is the output of the run itself.
fn agreed(bench: &Bench, dir: &str, own: Option<&Ended>) -> Value {
    let (code, text) = shown(bench, &["report", dir, "--json"]);
    let report = parsed(&text)["reports"][0].clone();
    let result = report["result"].clone();
    let outcome = result["outcome"].as_str().unwrap();
    let reason = result["reason"].as_str().unwrap();
    let word = outcome.to_uppercase();
    let sentence = format!("{word}: {reason}");
    let answer = result["headline"]["sentence"].as_str().unwrap();
    let action = result["headline"]["action"].as_str();
    let next_step = action.map(|action| format!("Do: {action}"));
    let same = |form: &str, told: &Value, fields: &[&str]| {
        for field in fields {
            assert_eq!(told[field], result[field], "{dir}: {field} of {form}");
        }
    };
    let has = |form: &str, told: &str, what: &str| {
        assert!(told.contains(what), "{dir}: {form}: no {what}\n{told}")
    };
    // A verdict begins with the answer and the next step. The full reason follows, unless the answer contains it.
    let head = |form: &str, told: &str| {
        let mut lines = told
            .lines()
            .skip_while(|line| *line != format!("{word}: {answer}"));
        assert!(lines.next().is_some(), "{dir}: {form}\n{told}");
        if let Some(next_step) = &next_step {
            assert_eq!(lines.next(), Some(next_step.as_str()), "{dir}: {form}");
        }
        has(form, told, reason);
    };

    assert_eq!(result["exit_code"], code, "{dir}: report --json");
    assert_eq!(result["reasons"][0]["text"], reason, "{dir}");
    same(
        "the report's verdict",
        &report["verdict"],
        &["outcome", "streams"],
    );
    if bench.exists(&format!("{dir}/verdict.json")) && outcome != "invalid" {
        same(
            "verdict.json",
            &parsed(&bench.text(&format!("{dir}/verdict.json"))),
            &["outcome", "streams"],
        );
    }
    let (text_code, text) = shown(bench, &["report", dir]);
    head("report", &text);
    let (markdown_code, markdown) = shown(bench, &["report", dir, "--markdown"]);
    let markdown = markdown.replace('\\', "");
    has("markdown", &markdown, &format!("**{word}** - "));
    has("markdown", &markdown, &format!("\n{answer}.\n"));
    has("markdown", &markdown, reason);
    let (html_code, _) = shown(bench, &["report", dir, "--html", &format!("{dir}.html")]);
    let html = bench.text(&format!("{dir}.html"));
    has(
        "html",
        &html,
        &format!("<p class=\"decided\">{}.</p>", as_on_page(&html, answer)),
    );
    has("html", &html, &as_on_page(&html, reason));
    has("html", &html, &format!("class=\"verdict {outcome}\""));
    let (status_code, status) = shown(bench, &["report", "status", dir]);
    has("status", &status, &format!("{word}: {answer}"));
    assert!(
        !status.contains("OVER A LIMIT"),
        "{dir}: the run has ended\n{status}"
    );
    let (status_json_code, status) = shown(bench, &["report", "status", dir, "--json"]);
    let fields = [
        "outcome",
        "exit_code",
        "headline",
        "reason",
        "reasons",
        "first_bad_slice",
        "worst_slice",
        "streams",
        "not_judged",
    ];
    same("status", &parsed(&status), &fields);
    assert_eq!(
        [
            text_code,
            markdown_code,
            html_code,
            status_code,
            status_json_code
        ],
        [code; 5],
        "{dir}"
    );

    let (_, compared) = shown(bench, &["report", "compare", dir]);
    let name = dir.rsplit('/').next().unwrap();
    has("compare", &compared, &format!("{name}: {sentence}"));
    let (_, compared) = shown(bench, &["report", "compare", dir, "--json"]);
    let candidate = parsed(&compared)["candidates"][0].clone();
    same("compare", &candidate, &["outcome", "reason", "not_judged"]);
    assert_eq!(candidate["result"], result, "{dir}: compare");
    let is_held = candidate["load"]["why_not"].is_null();
    assert_eq!(
        is_held,
        outcome == "pass",
        "{dir}: only a pass held its load: {}",
        candidate["load"]
    );

    if let Some(own) = own {
        assert_eq!(
            own.code,
            Some(code),
            "{dir}: its own exit code\n{}",
            own.stderr
        );
        let is_fio = own.stdout.starts_with('{');
        head(
            "its own words",
            if is_fio { &own.stderr } else { &own.stdout },
        );
        if is_fio {
            let page = parsed(&own.stdout);
            assert_eq!(page["verdicts"], json!([result]), "{dir}: fio's JSON");
            for (fios, ours) in [
                ("total_ios", "ops"),
                ("failed", "errors"),
                ("io_bytes", "bytes"),
            ] {
                let fios = sum(&page["jobs"], |job| &job["read"][fios]);
                assert_eq!(
                    fios,
                    sum(&result["streams"], |stream| &stream[ours]),
                    "{dir}: {ours}"
                );
            }
            let streams = result["streams"].as_array().unwrap();
            for (job, stream) in page["jobs"].as_array().unwrap().iter().zip(streams) {
                let iops = job["read"]["iops"].as_f64().unwrap();
                let achieved = stream["achieved_iops"].as_f64().unwrap();
                // fio also counts operations that completed after the end of the run, and the time that they took.
                let is_late =
                    stream["overtime"].as_u64().unwrap() + stream["lost"].as_u64().unwrap() > 0;
                assert!(
                    is_late || (iops / achieved - 1.0).abs() < 0.01,
                    "{dir}: {iops}/s of fio's, {achieved}/s"
                );
            }
            let not_done =
                ["unissued", "lost"].map(|field| sum(&result["streams"], |stream| &stream[field]));
            let never = sum(&page["jobs"], |job| &job["read"]["never_issued"]);
            assert_eq!(never, not_done.iter().sum::<u64>(), "{dir}");
        }
    }
    result
}

#[test]
fn every_output_format_agrees_on_jobs_that_ended() {
    let bench = Bench::new();
    let cases = [
        (
            "passed",
            "pass",
            "held",
            "--name=a --filename=sim: --rate_iops=500 --runtime=20 --slice=10 --sla=5%>1ms",
        ),
        (
            "over-a-limit",
            "fail",
            "over-limit",
            "--name=a --filename=sim:read-us=80+slow-after-s=15+slow-factor=40 --rate_iops=500 --iodepth=64 \
             --runtime=40 --slice=10 --sla=5%>1ms",
        ),
        (
            "not-carried-out",
            "fail",
            "not-carried-out",
            "--name=a --filename=sim:read-us=300000 --rate_iops=1000 --iodepth=2000 --runtime=3",
        ),
        (
            "lost",
            "fail",
            "lost",
            "--name=a --filename=sim:stall-at-s=2+stall-ms=1000000 --rate_iops=100 --iodepth=900 --runtime=5",
        ),
        (
            "closed",
            "pass",
            "held",
            "--name=a --filename=sim: --iodepth=4 --runtime=5 --sla=5%>64ms",
        ),
        (
            "measured",
            "measured",
            "no-limits",
            "--name=a --filename=sim: --rate_iops=100 --runtime=5",
        ),
        (
            "late",
            "pass",
            "held",
            "--filename=sim: --rate_iops=100 --sla=5%>64ms --name=a --runtime=6 --name=b --startdelay=2 --runtime=3",
        ),
    ];
    for (dir, outcome, code, line) in cases {
        let own = fio(&bench, dir, line);
        let result = agreed(&bench, dir, Some(&own));
        assert_eq!(decided(&result), [outcome, code], "{dir}");
        match dir {
            "over-a-limit" => {
                assert_eq!(
                    (&result["first_bad_slice"], &result["worst_slice"]),
                    (&2.into(), &3.into()),
                    "{result}"
                );
                let reason = result["reason"].as_str().unwrap();
                assert!(
                    reason.contains("in slice 3, the worst from slice 2 on"),
                    "{result}"
                );
                let (_, compared) = shown(&bench, &["report", "compare", dir]);
                assert!(
                    compared.contains("100 % of 5 % in slice 3, the worst from slice 2 on"),
                    "{compared}"
                );
            }
            "not-carried-out" => {
                let stream = &result["streams"][0];
                assert!(
                    stream["achieved_iops"].as_f64().unwrap() < 100.0,
                    "completed after the end: {stream}"
                );
            }
            _ => {}
        }
    }
}

#[test]
fn every_output_format_agrees_on_stopped_and_damaged_runs() {
    let bench = Bench::new();
    for (dir, signal) in [("killed", "KILL"), ("interrupted", "INT")] {
        let mut running = storage(&bench, dir, ENDLESS);
        let telemetry = format!("{dir}/telemetry.csv");
        running.wait_until("some intervals", || {
            bench.exists(&telemetry) && bench.text(&telemetry).lines().count() > 10
        });
        let own = running.end_by(signal);
        let result = agreed(&bench, dir, Some(&own).filter(|_| signal == "INT"));
        assert_eq!(decided(&result), ["invalid", "stopped"], "{dir}");
        assert!(
            result["not_judged"]
                .to_string()
                .contains("the run was stopped"),
            "{result}"
        );
    }
    // The drive is too slow for its load, so the run stops at max-lag-sec.
    let slow = "device-names: sim:channels=1+read-us=20000+jitter-pct=0+read-mbps=0\ntest-duration-sec: 3600\n\
                read-reqs-per-sec: 100\nmax-lag-sec: 10\n";
    let own = storage(&bench, "behind", slow).end();
    assert_eq!(
        agreed(&bench, "behind", Some(&own))["reasons"][0]["code"],
        "fell-behind"
    );
    // A truncated intervals.csv makes a passed run INVALID.
    let own = storage(
        &bench,
        "cut",
        "device-names: sim:\ntest-duration-sec: 60\nread-reqs-per-sec: 100\n",
    )
    .end();
    agreed(&bench, "cut", Some(&own.expect(0)));
    let table = bench.text("cut/intervals.csv");
    bench.write("cut/intervals.csv", &table[..table.len() / 2]);
    assert_eq!(
        decided(&agreed(&bench, "cut", None)),
        ["invalid", "damaged"]
    );
}

#[test]
fn every_output_format_agrees_on_simultaneous_loads() {
    let bench = Bench::new();
    for (name, drive) in [("a", "sim:name=a"), ("b", "sim:name=b+read-us=9000")] {
        let config =
            format!("device-names: {drive}\ntest-duration-sec: 60\nread-reqs-per-sec: 100\n");
        bench.write(&format!("{name}.conf"), config);
    }
    let own = bench.flashproof(&["storage", "a.conf", "b.conf", "--out", "several"]);
    let result = agreed(&bench, "several", Some(&own));
    let workloads: Vec<_> = result["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["outcome"])
        .collect();
    assert_eq!(
        (&result["outcome"], workloads),
        (&"fail".into(), vec![&json!("pass"), &json!("fail")])
    );
    let (_, status) = shown(&bench, &["report", "status", "several"]);
    assert!(
        status.contains("  b: FAIL: ") && own.stdout.contains("  b: FAIL: "),
        "{status}"
    );
}

/// A search ends its steps early, and a series has its own outcome.
#[test]
fn every_output_format_agrees_on_a_series_and_its_steps() {
    let bench = Bench::new();
    for (dir, outcome, line) in [
        (
            "found",
            "pass",
            "sim:channels=1+read-us=600 --from 0.4 --slice 2m",
        ),
        ("none", "fail", "sim:read-us=5000 --slice 2m"),
        (
            "unfinished",
            "invalid",
            "sim:channels=1+read-us=400 --from 0.1 --slice 2m --max-duration 6m",
        ),
    ] {
        let own = bench.line(&format!("rate --out {dir} {line}"));
        let code = own.code.unwrap();
        let (json_code, text) = shown(&bench, &["report", dir, "--json"]);
        let report = parsed(&text)["reports"][0].clone();
        let conclusion = &report["series"]["conclusion"];
        let sentence = conclusion["sentence"].as_str().unwrap();
        assert_eq!(conclusion["outcome"], outcome, "{sentence}");
        own.shows(&[sentence]);
        let answer = results::judge::brief(sentence);
        let told = format!("{}: {answer}\n", outcome.to_uppercase());
        for form in [&["report", dir][..], &["report", "status", dir]] {
            let (form_code, text) = shown(&bench, form);
            assert!(
                form_code == code && text.contains(&told),
                "{form:?} ended with {form_code}\n{text}"
            );
        }
        let (markdown_code, markdown) = shown(&bench, &["report", dir, "--markdown"]);
        let words = format!("**{}** - {answer}.\n", outcome.to_uppercase());
        assert!(markdown.replace('\\', "").contains(&words), "{markdown}");
        assert_eq!([json_code, markdown_code], [code; 2], "{dir}");
        let html = bench.text(&format!("{dir}/report.html"));
        assert!(
            html.contains(&format!(
                "<p class=\"decided\">{}",
                as_on_page(&html, &answer)
            )),
            "{dir}"
        );
        assert!(
            html.contains(&format!("class=\"verdict {outcome}\"")),
            "{dir}"
        );
        let (_, status) = shown(&bench, &["report", "status", dir, "--json"]);
        let status = parsed(&status);
        assert_eq!(
            (&status["outcome"], &status["conclusion"]),
            (&conclusion["outcome"], &conclusion["sentence"])
        );
        let (_, compared) = shown(&bench, &["report", "compare", dir, "--json"]);
        let candidate = &parsed(&compared)["candidates"][0];
        assert_eq!(
            (&candidate["outcome"], &candidate["reason"]),
            (&conclusion["outcome"], &conclusion["sentence"])
        );
        assert_eq!(
            candidate["load"]["highest"].as_bool().unwrap_or(false),
            outcome == "pass",
            "{candidate}"
        );

        let steps = report["series"]["steps"].as_array().unwrap();
        let runs = steps
            .iter()
            .filter_map(|step| step["dir"].as_str().filter(|dir| !dir.is_empty()));
        for run in runs {
            let result = agreed(&bench, &format!("{dir}/{run}"), None);
            assert_ne!(result["outcome"], "invalid", "{dir}/{run}: {result}");
        }
    }
}
