//! The document as Markdown, for tickets and wikis: all but the pictures, of which the key numbers stay.

use crate::document::{Document, Report, RunReport, SeriesReport};
use crate::table::{Table, escaped};
use crate::tables;
use results::finding::Level;
use results::series::Purpose;
use results::units::{self, printable};

impl Document {
    /// For tickets and wikis: all but the pictures. All reports, one below the other.
    pub fn markdown(&self) -> String {
        let of = |report: &Report| match report {
            Report::Run(run) => run_text(run, 1),
            Report::Series(series) => series_text(series),
        };
        self.reports.iter().map(of).collect::<Vec<_>>().join("\n---\n\n")
    }
}

fn run_text(run: &RunReport, level: usize) -> String {
    let mut text = heading(level, &run.title);
    text += &run.banners.iter().map(|banner| format!("> **{}**\n\n", escaped(&banner.text))).collect::<String>();
    text += &format!("**{}** - {}\n\n", run.verdict.outcome, escaped(&run.class_in_words));
    text += &format!("{}.\n\n", escaped(&run.result.reason));
    text += &list(run.result.others());
    text += &table(&Table::new("").text(["", ""]).rows(run.summary.iter().map(|fact| [&fact.name, &fact.value])));
    text += &list(run.verdict.blame.iter().map(|blame| &blame.sentence));
    let below = level + 1;
    let shares = tables::shares(run).map(|shares| format!("**{}**\n\n{}", escaped(&shares.title), table(&shares)));
    text += &part(below, "Shares over the thresholds", shares.collect());
    text += &part(below, "Latencies of the whole run", table(&tables::latencies(run)));
    text += &part(below, "Rates", table(&tables::rates(run)));
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
            text += &format!("**{}** - {}\n\n", report.shown().text, escaped(&conclusion.sentence));
            text += &list(conclusion.remarks.iter());
        }
        None => text += "**UNFINISHED** - this series has no conclusion yet.\n\n",
    }
    if report.drives.is_empty() {
        text += &table(&tables::steps(report, |_, _| None));
    }
    text += &drives(report);
    for section in &report.sections {
        text += &heading(2, &section.title);
        text += &list(section.charts.iter().map(|chart| format!("{}: {}", chart.title, chart.key)));
    }
    if report.series.purpose == Purpose::Certify {
        let runs = report.steps.iter().filter_map(|step| step.report.as_ref());
        text += &runs.map(|run| run_text(run, 2)).collect::<String>();
    }
    text
}

/// Results of a baseline for each drive, and for all drives side by side.
fn drives(report: &SeriesReport) -> String {
    let mut text = String::new();
    if let Some(beside) = &report.beside {
        text += &heading(2, "Drives beside each other");
        text += &list(beside.outliers.iter());
        text += &table(&beside.table(""));
    }
    for drive in &report.drives {
        if report.drives.len() > 1 {
            text += &heading(2, &drive.device);
        }
        text += &table(&Table::new("").text(["", ""]).rows(drive.summary.iter().map(|fact| [&fact.name, &fact.value])));
        text += &list(drive.doubts.iter());
        for section in &drive.sections {
            text += &heading(3, &section.title);
            text += &list(section.charts.iter().map(|chart| format!("{}: {}", chart.title, chart.key)));
            text += &list(drive.notes(&section.id).iter());
            for of in drive.tables(&section.id) {
                text += &format!("**{}**\n\n{}", escaped(&of.title), table(&of));
            }
        }
    }
    text
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

/// A table, if it has rows.
fn table(table: &Table) -> String {
    if table.is_empty() { String::new() } else { table.markdown() + "\n" }
}

/// A block of text as it is, in a fence longer than any in it.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}\n\n", printable(text))
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
