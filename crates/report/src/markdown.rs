//! The document as Markdown, for tickets and wikis: all but the pictures, of which the key numbers stay.

use crate::document::{Document, Report, RunReport, SeriesReport};
use crate::printable::{is_unprintable, printable};
use crate::words;
use results::finding::Level;
use results::units;

/// All reports, one below the other.
pub(crate) fn markdown(document: &Document) -> String {
    let of = |report: &Report| match report {
        Report::Run(run) => run_text(run, 1),
        Report::Series(series) => series_text(series),
    };
    document.reports.iter().map(of).collect::<Vec<_>>().join("\n---\n\n")
}

fn run_text(run: &RunReport, level: usize) -> String {
    let mut text = heading(level, &run.title);
    text += &run.banners.iter().map(|banner| format!("> **{}**\n\n", escaped(&banner.text))).collect::<String>();
    text += &format!("**{}** - {}\n\n", words::outcome(run.verdict.outcome), escaped(&run.class_in_words));
    let (first, others) = run.reasons();
    text += &format!("{}.\n\n", escaped(&first));
    text += &list(others.iter());
    text += &table(&["", ""], run.summary.iter().map(|fact| vec![escaped(&fact.name), escaped(&fact.value)]));
    text += &list(run.verdict.blame.iter().map(|blame| &blame.sentence));
    let below = level + 1;
    text += &shares(run, below);
    text += &latencies(run, below);
    text += &rates(run, below);
    for section in &run.sections {
        text += &heading(below, &section.title);
        text += &list(section.charts.iter().map(|chart| format!("{}: {}", chart.title, chart.key)));
    }
    text += &part(below, "Steady state", list(run.steadiness_in_words.iter()));
    let findings = run.findings.iter().filter(|finding| finding.level != Level::Ok).map(|finding| {
        let of = finding.device.as_deref().unwrap_or("host");
        format!("{} ({of}): {}. {} {}", finding.level, finding.finding, finding.reason, finding.remedy)
    });
    text += &part(below, "Findings before the run", list(findings));
    text += &part(below, "What could not be measured", list(run.unmeasured.iter()));
    text += &heading(below, "What was run");
    text += &fenced(&run.command.join(" "));
    for workload in &run.workloads {
        text += &fenced(workload.config.as_written.trim_end());
    }
    text += &format!(
        "Recorded by {} in `{}`, {}.\n\n",
        escaped(&run.tool),
        run.dir.replace('`', "'"),
        units::date(run.started_unix_ms)
    );
    text += &heading(below, "Method and limits");
    text += &list(run.method.iter().map(|part| format!("{}: {}", part.title, part.text)));
    text
}

fn series_text(report: &SeriesReport) -> String {
    let mut text = heading(1, &report.title);
    text += &report.banners.iter().map(|banner| format!("> **{}**\n\n", escaped(&banner.text))).collect::<String>();
    match &report.series.conclusion {
        Some(conclusion) => {
            let (outcome, sentence) = (words::outcome(conclusion.outcome), escaped(&conclusion.sentence));
            text += &format!("**{outcome}** - {sentence}\n\n");
            text += &list(conclusion.remarks.iter());
        }
        None => text += "**UNFINISHED** - this series has no conclusion yet.\n\n",
    }
    let rows = report.steps.iter().map(|step| {
        let load = units::multiple(step.step.multiple);
        let cells = [&step.step.name, &load, crate::html::step_outcome(step, &report.series), &step.step.reason];
        cells.map(escaped).to_vec()
    });
    text += &table(&["step", "load", "outcome", "why"], rows);
    for section in &report.sections {
        text += &heading(2, &section.title);
        text += &list(section.charts.iter().map(|chart| format!("{}: {}", chart.title, chart.key)));
    }
    if report.sections.is_empty() {
        let runs = report.steps.iter().filter_map(|step| step.report.as_ref());
        text += &runs.map(|run| run_text(run, 2)).collect::<String>();
    }
    text
}

fn shares(run: &RunReport, level: usize) -> String {
    let thresholds: Vec<String> = run.verdict.thresholds_ns.iter().map(|ns| units::duration(*ns)).collect();
    let mut headings = vec!["slice"];
    headings.extend(thresholds.iter().map(String::as_str));
    let tables = run.verdict.groups.iter().map(|group| {
        let rows = group.slices.iter().map(|slice| {
            let shares = slice.judged_share.iter().flatten().map(|share| units::percent(*share));
            let note = if slice.complete { "" } else { " (incomplete)" };
            let mut row: Vec<String> = [format!("{}{note}", slice.slice)].into_iter().chain(shares).collect();
            row.resize(headings.len(), "-".to_owned());
            row
        });
        let of = words::device(group.device.as_deref());
        format!("{} on {}, share over:\n\n{}", escaped(&group.stream), escaped(of), table(&headings, rows))
    });
    part(level, "Shares over the thresholds", tables.collect())
}

fn latencies(run: &RunReport, level: usize) -> String {
    let rows = run.latencies.iter().flat_map(|stream| {
        [("service", &stream.service), ("wait", &stream.wait), ("lag", &stream.lag)].map(|(what, quantiles)| {
            let mut row = vec![escaped(&format!("{} {what}", stream.stream))];
            row.extend(quantiles.all_ns().map(units::duration));
            row
        })
    });
    let headings = ["", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    part(level, "Latencies of the whole run", table(&headings, rows))
}

fn rates(run: &RunReport, level: usize) -> String {
    let rows = run.verdict.streams.iter().map(|stream| {
        let offered = if stream.offered_iops > 0.0 { units::number(stream.offered_iops) } else { "closed".to_owned() };
        let numbers = [stream.achieved_iops, stream.errors as f64, stream.unissued as f64].map(units::number);
        [escaped(&stream.name), offered].into_iter().chain(numbers).collect()
    });
    part(level, "Rates", table(&["stream", "offered/s", "achieved/s", "failed", "never done"], rows))
}

/// A heading with what is below it, or that there is nothing.
fn part(level: usize, title: &str, content: String) -> String {
    let content = if content.is_empty() { "None recorded.\n\n".to_owned() } else { content };
    heading(level, title) + &content
}

fn heading(level: usize, title: &str) -> String {
    format!("{} {}\n\n", "#".repeat(level), escaped(title))
}

fn list<T: AsRef<str>>(sentences: impl Iterator<Item = T>) -> String {
    let items: String = sentences.map(|sentence| format!("- {}\n", escaped(sentence.as_ref()))).collect();
    if items.is_empty() { items } else { items + "\n" }
}

/// A table of cells that are escaped already; nothing without rows.
fn table(headings: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: String = rows.map(|row| format!("| {} |\n", row.join(" | "))).collect();
    if rows.is_empty() {
        return rows;
    }
    let headings: Vec<String> = headings.iter().map(|heading| escaped(heading)).collect();
    format!("| {} |\n|{}\n{rows}\n", headings.join(" | "), "---|".repeat(headings.len()))
}

/// A block of text as it is, in a fence longer than any in it.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}\n\n", printable(text))
}

/// Text of which no character is taken for markup, on one line.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '#' => safe.extend(['\\', c]),
            c if is_unprintable(c) || c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_files_is_no_markup() {
        assert_eq!(escaped("a|b*c\n<d>[e](f)"), "a\\|b\\*c \\<d\\>\\[e\\](f)");
        assert!(fenced("x\n````\ny").starts_with("`````\n"));
    }
}
