//! The document as Markdown, for tickets and wikis. Of each chart only the key number is shown.

use crate::document::{Banner, Document, Pair, Report, RunReport, Section, SeriesReport};
use crate::head::Head;
use crate::table::{Table, escaped};
use crate::tables;
use conclusions::series::SeriesPurpose;
use results::finding::Severity;
use results::format::{self, printable};
use results::judge::Headline;

impl Document {
    pub fn markdown(&self) -> String {
        let of = |report: &Report| match report {
            Report::Run(run) => run_text(run, 1),
            Report::Series(series) => series_text(series),
        };
        self.reports
            .iter()
            .map(of)
            .collect::<Vec<_>>()
            .join("\n---\n\n")
    }
}

fn run_text(run: &RunReport, level: usize) -> String {
    let mut text = heading(level, &run.title) + &banners(&run.banners);
    let class = escaped(&run.class_in_words);
    text += &format!("**{}** - {class}\n\n", run.verdict.outcome);
    text += &headline(&run.result.headline);
    text += &list(run.result.details());
    text += &summary(&run.summary);
    text += &list(run.verdict.blame.iter().map(|blame| &blame.sentence));
    let sublevel = level + 1;
    let shares = tables::shares(run)
        .map(|shares| format!("**{}**\n\n{}", escaped(&shares.title), table(&shares)));
    text += &part(sublevel, "Shares over the thresholds", shares.collect());
    text += &part(
        sublevel,
        "Latencies of the whole run",
        table(&tables::latencies(run)),
    );
    text += &part(sublevel, "Rates", table(&tables::rates(run)));
    text.extend(
        run.sections
            .iter()
            .map(|section| key_numbers(sublevel, section)),
    );
    text += &part(
        sublevel,
        "Steady state",
        list(run.steadiness_in_words.iter()),
    );
    let findings = run
        .findings
        .iter()
        .filter(|finding| finding.level != Severity::Ok)
        .map(|finding| {
            let of = finding.device.as_deref().unwrap_or("host");
            format!(
                "{} ({of}): {}. {} {}",
                finding.level, finding.finding, finding.reason, finding.remedy
            )
        });
    text += &part(sublevel, "Findings before the run", list(findings));
    text += &part(
        sublevel,
        "What could not be measured",
        list(run.unmeasured.iter()),
    );
    text += &heading(sublevel, "What was run");
    text += &fenced(&run.command.join(" "));
    for workload in &run.workloads {
        text += &fenced(workload.config.as_written.trim_end());
    }
    let tool = escaped(&run.tool);
    let dir = run.dir.replace('`', "'");
    let date = format::date(run.started_unix_ms);
    text += &format!("Recorded by {tool} in `{dir}`, {date}.\n\n");
    text += &heading(sublevel, "Method and limits");
    text += &list(
        run.method
            .iter()
            .map(|part| format!("{}: {}", part.title, part.text)),
    );
    text
}

fn series_text(report: &SeriesReport) -> String {
    let note = report
        .series
        .note
        .iter()
        .map(|note| format!("note: {note}"));
    let mut text = heading(1, &report.title) + &list(note) + &banners(&report.banners);
    match &report.series.conclusion {
        Some(conclusion) => {
            text += &format!("**{}** - ", report.outcome_label().text);
            text += &headline(&conclusion.headline());
            text += &list(conclusion.details().into_iter());
            text += &list(conclusion.remarks.iter());
        }
        None => text += "**UNFINISHED** - this series has no conclusion yet.\n\n",
    }
    if report.drives.is_empty() {
        text += &table(&tables::steps(report, |_| None));
    }
    text += &drives(report);
    text.extend(
        report
            .sections
            .iter()
            .map(|section| key_numbers(2, section)),
    );
    if report.series.purpose == SeriesPurpose::Certify {
        let runs = report.steps.iter().filter_map(|step| step.report.as_ref());
        text += &runs.map(|run| run_text(run, 2)).collect::<String>();
    }
    text
}

fn drives(report: &SeriesReport) -> String {
    let mut text = String::new();
    if let Some(beside) = &report.beside {
        text += &heading(2, "Drives side by side");
        text += &list(beside.outliers.iter());
        text += &table(&beside.table(""));
    }
    for drive in &report.drives {
        if report.drives.len() > 1 {
            text += &heading(2, &drive.device);
        }
        text += &summary(&drive.summary);
        text += &list(drive.doubts.iter());
        for section in &drive.sections {
            text += &key_numbers(3, section);
            text += &list(drive.notes(&section.id).iter());
            for of in drive.tables(&section.id) {
                text += &format!("**{}**\n\n{}", escaped(&of.title), table(&of));
            }
        }
    }
    text
}

/// Title, answer, details and facts, without the details of the test.
pub(crate) fn head(head: &Head) -> String {
    let mut text = heading(1, &head.title);
    text += &format!("**{}** - ", escaped(&head.label.text));
    text += &headline(&head.headline);
    text += &list(head.details.iter());
    text += &summary(&head.facts);
    text.extend(head.command_text().map(|command| fenced(&command)));
    text
}

fn headline(headline: &Headline) -> String {
    let action = headline.action.as_deref();
    let action = action.map_or_else(String::new, |action| {
        format!("Do: {}.\n\n", escaped(action))
    });
    format!("{}.\n\n{action}", escaped(&headline.sentence))
}

fn banners(banners: &[Banner]) -> String {
    banners
        .iter()
        .map(|banner| format!("> **{}**\n\n", escaped(&banner.text)))
        .collect()
}

fn summary(facts: &[Pair]) -> String {
    table(
        &Table::new("")
            .text(["", ""])
            .rows(facts.iter().map(|fact| [&fact.name, &fact.value])),
    )
}

fn key_numbers(level: usize, section: &Section) -> String {
    let keys = section
        .charts
        .iter()
        .map(|chart| format!("{}: {}", chart.title, chart.key));
    heading(level, &section.title) + &list(keys)
}

/// A heading with its content, or a note that there is none.
fn part(level: usize, title: &str, content: String) -> String {
    let content = if content.is_empty() {
        "None recorded.\n\n".to_owned()
    } else {
        content
    };
    heading(level, title) + &content
}

fn heading(level: usize, title: &str) -> String {
    format!("{} {}\n\n", "#".repeat(level), escaped(title))
}

fn list<T: AsRef<str>>(sentences: impl Iterator<Item = T>) -> String {
    let items: String = sentences
        .map(|sentence| format!("- {}\n", escaped(sentence.as_ref())))
        .collect();
    if items.is_empty() {
        items
    } else {
        items + "\n"
    }
}

fn table(table: &Table) -> String {
    if table.is_empty() {
        String::new()
    } else {
        table.markdown() + "\n"
    }
}

/// A fenced block of text. The fence is longer than any run of backticks in the text.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}\n\n", printable(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_from_files_is_escaped() {
        assert_eq!(escaped("a|b*c\n<d>[e](f)"), "a\\|b\\*c \\<d\\>\\[e\\](f)");
        assert!(fenced("x\n````\ny").starts_with("`````\n"));
    }
}
