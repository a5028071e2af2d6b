//! The document for a terminal: what decides, without the pictures.

use crate::charts::counters::waf_lines;
use crate::document::{Document, Report, RunReport, SeriesReport};
use crate::latencies::{TRANSACTIONS, below_verdict};
use crate::table::Table;
use crate::words;
use results::judge::Outcome;
use results::series::Purpose;
use results::units;
use std::fmt::Write;

/// Most slices of a step of a series of which it is told where the time went.
const BLAME_TOLD_MAX: usize = 2;

impl Document {
    /// For a terminal: verdicts, shares and latencies.
    pub fn text(&self) -> String {
        text(self)
    }
}

/// All reports, the ones below others under a line with their directory.
fn text(document: &Document) -> String {
    let several = document.reports.len() > 1;
    let mut text = String::new();
    for report in &document.reports {
        if several {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(text, "{}== {}\n", if text.is_empty() { "" } else { "\n" }, report.dir());
        }
        match report {
            Report::Run(run) => text += &run_page(run),
            Report::Series(series) => text += &series_page(series),
        }
    }
    text
}

fn run_page(run: &RunReport) -> String {
    let damage: String = run.damage.iter().map(|damage| format!("DAMAGED: {damage}\n")).collect();
    let are_transactions = run.workloads.iter().any(|workload| workload.kind == TRANSACTIONS);
    let below = below_verdict(&run.verdict, &run.latencies, are_transactions);
    format!("{damage}{}{below}{}", run.verdict, waf_lines(&run.device_waf))
}

fn series_page(report: &SeriesReport) -> String {
    let mut text = format!("{}\n", report.title);
    match &report.series.conclusion {
        Some(conclusion) => {
            let _ = writeln!(text, "{}: {}", report.shown().text, conclusion.sentence);
            conclusion.remarks.iter().for_each(|remark| text += &format!("  {remark}\n"));
        }
        None => text += "no conclusion yet\n",
    }
    let rows = report.steps.iter().map(|step| {
        let outcome = words::step_outcome(&step.step, &report.series);
        let (load, length) = (units::multiple(step.step.multiple), units::span(step.step.duration_sec));
        [step.step.name.clone(), load, length, outcome, step.step.reason.clone()]
    });
    if report.drives.is_empty() {
        let steps = Table::new("").text(["step"]).numbers(["load", "at most"]).text(["outcome", ""]);
        let _ = write!(text, "\n{}", steps.widths([0, 8, 12, 12]).rows(rows));
    }
    text += &drives(report);
    for step in &report.steps {
        for damage in step.report.iter().flat_map(|run| &run.damage) {
            let _ = writeln!(text, "DAMAGED: {}: {damage}", step.step.name);
        }
    }
    text + &blame(report)
}

/// Results of a baseline for each drive, and for all drives side by side.
fn drives(report: &SeriesReport) -> String {
    let mut text = String::new();
    let titled = |table: &Table| format!("\n{}\n{table}", table.title);
    if let Some(beside) = &report.beside {
        text += &titled(&beside.table("drives beside each other"));
        beside.outliers.iter().for_each(|outlier| text += &format!("  {outlier}\n"));
    }
    for drive in &report.drives {
        if report.drives.len() > 1 {
            let _ = writeln!(text, "\n{}", drive.device);
        }
        let pairs = Table::new("").text(["", ""]).rows(drive.summary.iter().map(|fact| [&fact.name, &fact.value]));
        let _ = write!(text, "\n{pairs}");
        drive.doubts.iter().for_each(|doubt| text += &format!("  in doubt: {doubt}\n"));
        for section in &drive.sections {
            drive.notes(&section.id).iter().enumerate().for_each(|(number, note)| {
                text += &format!("{}{note}\n", if number == 0 { "\n" } else { "" });
            });
            drive.tables(&section.id).iter().for_each(|table| text += &titled(table));
        }
    }
    text
}

/// Blame of the steps that were judged by it: the worst slices of each.
fn blame(report: &SeriesReport) -> String {
    let mut text = String::new();
    // The passed loads of a search are many, and say little.
    let of_search = report.series.purpose == Purpose::Rate;
    let told = report.steps.iter().filter(|step| !of_search || step.step.outcome != Some(Outcome::Pass));
    for step in told {
        for blame in step.report.iter().flat_map(|run| run.verdict.blame.iter().take(BLAME_TOLD_MAX)) {
            let _ = writeln!(text, "  {}: {}", step.step.name, blame.sentence);
        }
    }
    if text.is_empty() { text } else { format!("\nwhere the time went, of the worst slices of each step\n{text}") }
}
