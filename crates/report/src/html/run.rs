//! The report of one run in the page, in the order in which it is read: verdict, charts, causes,
//! findings, what was run, method.

use super::chart;
use super::escape::text;
use super::facts::{facts, named_values};
use super::parts::{banners, heading, list, table};
use super::plot::Plots;
use crate::charts::telemetry::counter;
use crate::document::RunReport;
use crate::words;
use results::blame::Part;
use results::finding::{Finding, Level};
use results::judge::{Group, Outcome};
use results::units;

/// The run with a heading of `level`; names of places in the page begin with `place`.
pub(super) fn article(run: &RunReport, place: &str, level: usize, plots: &mut Plots) -> String {
    let below = level + 1;
    let mut parts = vec![
        heading(level, &format!("{place}top"), &run.title),
        banners(run.banners.iter().map(|banner| banner.text.as_str())),
        verdict(run),
        summary(run),
    ];
    if level == 1 {
        parts.push(contents(run, place));
    }
    parts.push(blame(run, place, below));
    for section in &run.sections {
        parts.push(chart::section(section, place, below, plots));
        match section.id.as_str() {
            "shares" => parts.push(shares(run)),
            "latency" => parts.push(latencies(run)),
            "rates" => parts.push(rates(run)),
            "devices" => parts.push(counters(run)),
            _ => {}
        }
    }
    parts.push(steady(run, place, below));
    parts.push(findings(&run.findings, place, below));
    parts.push(unmeasured(run, place, below));
    parts.push(what_was_run(run, place, below));
    parts.push(method(run, place, below));
    format!("<article>\n{}</article>\n", parts.concat())
}

fn verdict(run: &RunReport) -> String {
    let (class, sign) = match run.verdict.outcome {
        Outcome::Pass => ("pass", "✔"),
        Outcome::Fail => ("fail", "✘"),
        Outcome::Invalid => ("invalid", "?"),
    };
    let (first, others) = run.reasons();
    format!(
        "<div class=\"verdict {class}\">\n<p class=\"word\"><span aria-hidden=\"true\">{sign}</span> {} \
         <span class=\"class\">{}</span></p>\n<p class=\"decided\">{}.</p>\n{}</div>\n",
        words::outcome(run.verdict.outcome),
        text(&run.class_in_words),
        text(&first),
        list(&others)
    )
}

fn summary(run: &RunReport) -> String {
    let pair = |name: &str, value: &str| format!("<div><dt>{}</dt><dd>{}</dd></div>\n", text(name), text(value));
    let pairs: String = run.summary.iter().map(|fact| pair(&fact.name, &fact.value)).collect();
    format!("<dl class=\"facts\">\n{pairs}</dl>\n")
}

/// Links to the sections.
fn contents(run: &RunReport, place: &str) -> String {
    let own = [
        ("steady", "Steady state"),
        ("findings", "Findings"),
        ("unmeasured", "Not measured"),
        ("run", "What was run"),
        ("method", "Method"),
    ];
    let sections = run.sections.iter().map(|section| (section.id.as_str(), section.title.as_str()));
    let links = sections.chain(own).map(|(id, title)| format!("<a href=\"#{place}{id}\">{}</a>\n", text(title)));
    format!("<nav aria-label=\"Contents\">\n{}</nav>\n", links.collect::<String>())
}

fn blame(run: &RunReport, place: &str, level: usize) -> String {
    if run.verdict.blame.is_empty() {
        return String::new();
    }
    let one = |blame: &results::blame::Blame| {
        let share = |part: &Part| part.share.map_or_else(|| "evidence, no number".to_owned(), units::percent);
        let rows =
            blame.parts.iter().map(|part| vec![text(&kebab(&part.cause)), text(&share(part)), text(&part.evidence)]);
        let caption = format!(
            "Slice {} of {} on {}, over {}",
            blame.slice,
            blame.stream,
            words::device(blame.device.as_deref()),
            units::duration(blame.threshold_ns)
        );
        let rows: Vec<_> = rows.collect();
        format!(
            "<div class=\"blame\"><p>{}</p>{}</div>\n",
            text(&blame.sentence),
            table(&caption, &["cause", "part", "evidence"], &rows)
        )
    };
    format!(
        "<section id=\"{place}blame\">\n{}<p class=\"intro\">A judgement from what was recorded. It explains the outcome \
         and does not change it.</p>\n{}</section>\n",
        heading(level, "", "Where the time went"),
        run.verdict.blame.iter().map(one).collect::<String>()
    )
}

/// A cause, level or the like in words, as it is named in JSON.
fn kebab(value: &impl serde::Serialize) -> String {
    let name = serde_json::to_value(value).ok();
    name.and_then(|name| name.as_str().map(|name| name.replace('-', " "))).unwrap_or_default()
}

/// The shares in numbers.
fn shares(run: &RunReport) -> String {
    let limits = run.sla.limits();
    let thresholds = run.verdict.thresholds_ns.iter().map(|ns| format!("over {}", units::duration(*ns)));
    let headings: Vec<String> = ["slice".to_owned(), "operations".to_owned()].into_iter().chain(thresholds).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let of = |group: &Group| {
        let rows = group.slices.iter().map(|slice| {
            let shares = limits.iter().enumerate().map(|(column, limit)| {
                let share = slice.judged_share.as_ref().and_then(|shares| shares.get(column)).copied();
                let over = slice.judged_over.get(column).copied().unwrap_or(0);
                let share = share.map_or_else(|| "-".to_owned(), units::percent);
                match limit.is_exceeded(over, slice.wanted) {
                    true => format!("<span class=\"over\">✘ {share}</span>"),
                    false => share,
                }
            });
            let note = if slice.complete { "" } else { " (incomplete)" };
            let first = [format!("{}{note}", slice.slice), units::number(slice.wanted as f64)];
            first.into_iter().chain(shares).collect()
        });
        let caption = format!("{} on {}", group.stream, words::device(group.device.as_deref()));
        numbers(&caption, &headings, &rows.collect::<Vec<_>>())
    };
    let tables: String = run.verdict.groups.iter().map(of).collect();
    format!("<details><summary>All shares in numbers (✘: at its limit or over it)</summary>\n{tables}</details>\n")
}

fn numbers(caption: &str, headings: &[&str], rows: &[Vec<String>]) -> String {
    table(caption, headings, rows).replacen("<table>", "<table class=\"numbers\">", 1)
}

fn latencies(run: &RunReport) -> String {
    let mut rows = Vec::new();
    for stream in &run.latencies {
        for (what, quantiles) in [("service", &stream.service), ("wait", &stream.wait), ("lag", &stream.lag)] {
            let mut row = vec![text(&format!("{} {what}", stream.stream))];
            row.extend(quantiles.all_ns().map(units::duration));
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return "<p class=\"absent\">No percentiles: no window of the interval logs could be read.</p>\n".to_owned();
    }
    numbers("Whole run, all devices", &["", "p50", "p90", "p99", "p99.9", "p99.99", "max"], &rows)
}

fn rates(run: &RunReport) -> String {
    let rows = run.verdict.streams.iter().map(|stream| {
        let offered = if stream.offered_iops > 0.0 { units::number(stream.offered_iops) } else { "closed".to_owned() };
        let counts = [stream.ops, stream.errors, stream.overtime, stream.unissued];
        let mut row = vec![text(&stream.name), offered, units::number(stream.achieved_iops)];
        row.extend(counts.map(|count| units::Grouped(count).to_string()));
        row.push(units::bytes(stream.bytes as f64));
        row
    });
    let headings = ["stream", "offered/s", "achieved/s", "done", "failed", "done too late", "never done", "moved"];
    numbers("Whole run, all devices", &headings, &rows.collect::<Vec<_>>())
}

fn counters(run: &RunReport) -> String {
    if run.counters.is_empty() {
        return String::new();
    }
    let rows = run.counters.iter().map(|change| {
        let values = [change.first, change.last, change.last - change.first].map(counter);
        [text(&change.device), text(&change.name)].into_iter().chain(values).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    table("Counters that the drives keep of themselves", &["device", "counter", "first", "last", "change"], &rows)
}

/// Whether what was measured still changed.
fn steady(run: &RunReport, place: &str, level: usize) -> String {
    let title = heading(level, "", "Steady state");
    let intro = "<p class=\"intro\">Whether what was measured still moved over the last five rounds (SNIA PTS 2.0.2: range \
                 at most 20 % of the average, best line at most 10 %; or a range of at most 10 % of the limit). Not \
                 steady blocks a rating, never a verdict.</p>\n";
    let windows = run.steadiness.iter().flat_map(|steadiness| &steadiness.windows).map(|window| {
        let value = |value| text(&crate::charts::steady::value(window.metric, value));
        vec![
            text(&format!("{} of {}", window.metric, window.group)),
            if window.is_steady() { "✔ yes".to_owned() } else { "<span class=\"over\">✘ no</span>".to_owned() },
            value(window.average),
            value(window.range),
            value(window.slope_excursion),
            window.limit.map_or_else(|| "-".to_owned(), value),
        ]
    });
    let windows: Vec<Vec<String>> = windows.collect();
    let headings = ["what", "steady", "average", "range", "move of the best line", "limit"];
    let windows = match windows.is_empty() {
        true => String::new(),
        false => numbers("The last five rounds", &headings, &windows),
    };
    let sentences = list(&run.steadiness_in_words);
    format!("<section id=\"{place}steady\">\n{title}{intro}{sentences}{windows}</section>\n")
}

/// What was found before a run or a series, the worst first.
pub(super) fn findings(findings: &[Finding], place: &str, level: usize) -> String {
    let title = heading(level, "", "Findings before the run");
    if findings.is_empty() {
        return format!(
            "<section id=\"{place}findings\">\n{title}<p class=\"absent\">None were recorded.</p>\n\
             </section>\n"
        );
    }
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    let (good, others): (Vec<&Finding>, Vec<&Finding>) = sorted.into_iter().partition(|one| one.level == Level::Ok);
    let row = |finding: &&Finding| {
        let strong = matches!(finding.level, Level::Warning | Level::Problem);
        let level = text(&finding.level.to_string());
        vec![
            if strong { format!("<span class=\"over\">{level}</span>") } else { level },
            text(finding.device.as_deref().unwrap_or("host")),
            text(&finding.finding),
            text(&finding.reason),
            text(&finding.remedy),
        ]
    };
    let headings = ["level", "of", "finding", "why it matters", "what to do"];
    let rows = |findings: &[&Finding]| findings.iter().map(row).collect::<Vec<_>>();
    let others = match others.is_empty() {
        true => "<p>Nothing was found that could spoil the result.</p>\n".to_owned(),
        false => table("What may spoil the result, the worst first", &headings, &rows(&others)),
    };
    let good = match good.len() {
        0 => String::new(),
        count => format!(
            "<details><summary>{} as it should be</summary>{}</details>\n",
            match count {
                1 => "1 check was".to_owned(),
                count => format!("{count} checks were"),
            },
            table("As it should be", &headings, &rows(&good))
        ),
    };
    format!("<section id=\"{place}findings\">\n{title}{others}{good}</section>\n")
}

/// What could not be measured.
pub(super) fn unmeasured(run: &RunReport, place: &str, level: usize) -> String {
    let title = heading(level, "", "What could not be measured");
    let absent = run
        .sections
        .iter()
        .flat_map(|section| &section.charts)
        .filter_map(|chart| Some(format!("{}: {}", chart.title, chart.absent.as_ref()?)));
    let all: Vec<String> = run.unmeasured.iter().cloned().chain(absent).collect();
    let content = if all.is_empty() { "<p>Nothing is known to be missing.</p>\n".to_owned() } else { list(&all) };
    format!("<section id=\"{place}unmeasured\">\n{title}{content}</section>\n")
}

/// Command, configuration, devices and host.
pub(super) fn what_was_run(run: &RunReport, place: &str, level: usize) -> String {
    let pairs = |caption: &str, pairs: &[(String, String)]| match pairs.is_empty() {
        true => String::new(),
        false => named_values(caption, pairs.iter().cloned()),
    };
    let mut content = format!(
        "<p>Recorded by {} in <code>{}</code>, {}. Command:</p>\n<pre>{}</pre>\n",
        text(&run.tool),
        text(&run.dir),
        text(&units::date(run.started_unix_ms)),
        text(&run.command.join(" "))
    );
    for workload in &run.workloads {
        let (name, config) = (&workload.name, &workload.config);
        let of = if name.is_empty() { String::new() } else { format!(" of {}", text(name)) };
        content +=
            &format!("<p>Configuration{of} as written:</p>\n<pre>{}</pre>\n", text(config.as_written.trim_end()));
        content += &format!("<details><summary>All settings{of}, and the rates that follow</summary>\n");
        content += &pairs("Rates that follow", &config.derived);
        content += &pairs("ACT's settings, with defaults", &config.resolved);
        content += &pairs("Other settings", &config.settings);
        content += "</details>\n";
    }
    content += "<details><summary>Devices, host and engine</summary>\n";
    for (device, of_device) in run.devices.iter().zip(&run.device_facts) {
        content += &facts(&format!("Device {device}"), of_device);
    }
    content += &facts("Host", &run.host_facts);
    content += &facts("Engine", &run.engine_facts);
    content += "</details>\n";
    format!("<section id=\"{place}run\">\n{}{content}</section>\n", heading(level, "", "What was run, on what"))
}

/// How it was measured.
pub(super) fn method(run: &RunReport, place: &str, level: usize) -> String {
    let parts =
        run.method.iter().map(|part| format!("{}<p>{}</p>\n", heading(level + 1, "", &part.title), text(&part.text)));
    format!(
        "<section id=\"{place}method\">\n{}{}</section>\n",
        heading(level, "", "Method and limits"),
        parts.collect::<String>()
    )
}
