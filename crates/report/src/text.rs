//! The document for a terminal: verdicts, shares and latencies, without charts.

use crate::charts::ChartResolution;
use crate::charts::counters::{DeviceWaf, changes, device_waf, waf_lines};
use crate::charts::timeline::Timeline;
use crate::document::{Document, Report, RunReport, SeriesReport};
use crate::latencies::{StreamLatencies, TRANSACTIONS, below_verdict, latencies};
use crate::table::Table;
use crate::words;
use conclusions::series::SeriesPurpose;
use results::format;
use results::judge::{Outcome, Verdict};
use results::run_dir::{self, RunDirError};
use serde::Serialize;
use std::path::Path;

const BLAME_SLICES_MAX: usize = 2;

impl Document {
    /// The document for a terminal. Several reports stand one below the other, each under a line with its directory.
    pub fn text(&self) -> String {
        let page = |report: &Report| match report {
            Report::Run(run) => run_page(run),
            Report::Series(series) => series_page(series),
        };
        match &self.reports[..] {
            [one] => page(one),
            several => {
                let pages = several
                    .iter()
                    .map(|report| format!("== {}\n\n{}", report.dir(), page(report)));
                pages.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

fn run_page(run: &RunReport) -> String {
    let damage: String = run
        .damage
        .iter()
        .map(|damage| format!("DAMAGED: {damage}\n"))
        .collect();
    let are_transactions = run
        .workloads
        .iter()
        .any(|workload| workload.kind == TRANSACTIONS);
    damage
        + &page(
            &run.verdict,
            &run.latencies,
            are_transactions,
            &run.device_waf,
        )
        + &note_line(run.note.as_deref())
}

/// A line with the user's note; empty without one.
pub(crate) fn note_line(note: Option<&str>) -> String {
    note.map_or_else(String::new, |note| format!("note: {note}\n"))
}

fn page(
    verdict: &Verdict,
    latencies: &[StreamLatencies],
    are_transactions: bool,
    waf: &[DeviceWaf],
) -> String {
    let below = below_verdict(verdict, latencies, are_transactions);
    format!("{verdict}{below}{}", waf_lines(waf))
}

fn series_page(report: &SeriesReport) -> String {
    let note = note_line(report.series.note.as_deref());
    let mut text = format!("{}\n{note}", report.title);
    match &report.series.conclusion {
        Some(conclusion) => {
            let label = report.outcome_label().text;
            text += &format!("{label}: {}\n", conclusion.headline());
            conclusion
                .sentences_below()
                .for_each(|sentence| text += &format!("  {sentence}\n"));
        }
        None => text += "no conclusion yet\n",
    }
    let rows = report.steps.iter().map(|step| {
        let is_over = report.series.conclusion.is_some();
        let outcome = words::step_outcome(step.step.state, step.step.outcome, is_over, "running");
        let load = format::multiple(step.step.multiple);
        let length = format::span(step.step.duration_sec);
        [
            step.step.name.clone(),
            load,
            length,
            outcome,
            step.step.reason.clone(),
        ]
    });
    if report.drives.is_empty() {
        let steps = Table::new("")
            .text(["step"])
            .numbers(["load", "at most"])
            .text(["outcome", ""]);
        text += &format!("\n{}", steps.widths([0, 8, 12, 12]).rows(rows));
    }
    text += &drives(report);
    for step in &report.steps {
        let damage = step.report.iter().flat_map(|run| &run.damage);
        text.extend(damage.map(|damage| format!("DAMAGED: {}: {damage}\n", step.step.name)));
    }
    text + &blame(report)
}

fn drives(report: &SeriesReport) -> String {
    let mut text = String::new();
    let titled = |table: &Table| format!("\n{}\n{table}", table.title);
    if let Some(beside) = &report.beside {
        text += &titled(&beside.table("drives side by side"));
        beside
            .outliers
            .iter()
            .for_each(|outlier| text += &format!("  {outlier}\n"));
    }
    for drive in &report.drives {
        if report.drives.len() > 1 {
            text += &format!("\n{}\n", drive.device);
        }
        let pairs = Table::new("")
            .text(["", ""])
            .rows(drive.summary.iter().map(|fact| [&fact.name, &fact.value]));
        text += &format!("\n{pairs}");
        drive
            .doubts
            .iter()
            .for_each(|doubt| text += &format!("  in doubt: {doubt}\n"));
        for section in &drive.sections {
            let notes: String = drive
                .notes(&section.id)
                .iter()
                .map(|note| format!("{note}\n"))
                .collect();
            if !notes.is_empty() {
                text += &format!("\n{notes}");
            }
            drive
                .tables(&section.id)
                .iter()
                .for_each(|table| text += &titled(table));
        }
    }
    text
}

/// The blame of each step, which explains its worst slices; empty if no step has a blame.
fn blame(report: &SeriesReport) -> String {
    let mut text = String::new();
    // A search has many loads that passed: their blame is left out.
    let of_search = report.series.purpose == SeriesPurpose::Rate;
    let shown_steps = report
        .steps
        .iter()
        .filter(|step| !of_search || step.step.outcome != Some(Outcome::Pass));
    for step in shown_steps {
        let blame = step
            .report
            .iter()
            .flat_map(|run| run.verdict.blame.iter().take(BLAME_SLICES_MAX));
        text.extend(blame.map(|blame| format!("  {}: {}\n", step.step.name, blame.sentence)));
    }
    if text.is_empty() {
        text
    } else {
        format!("\nwhere the time went in the worst slices of each step\n{text}")
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct RunSummary {
    pub tool: String,
    /// True if the run ended and wrote its verdict.
    pub complete: bool,
    pub remarks: Vec<String>,
    /// The verdict, computed again from the recorded counts.
    pub verdict: Verdict,
    pub latencies: Vec<StreamLatencies>,
    pub device_waf: Vec<DeviceWaf>,
    /// True if the operations are transactions on records.
    #[serde(skip)]
    are_transactions: bool,
}

impl RunSummary {
    /// Reads the run in `dir` and judges it again. If an interval log is damaged, the quantiles are missing and a
    /// remark says so.
    pub fn read(dir: &Path) -> Result<Self, RunDirError> {
        let run = run_dir::read(dir)?;
        let mut remarks = run.remarks.clone();
        let latencies = latencies(dir, &run.manifest.layout()).unwrap_or_else(|error| {
            remarks.push(format!("no quantiles of latencies: {error}"));
            Vec::new()
        });
        let complete = run.is_complete();
        let timeline = Timeline::read(dir, &run.manifest, ChartResolution::of_runs(1))?;
        let device_waf = device_waf(&changes(&timeline));
        let are_transactions = run.manifest.kind() == TRANSACTIONS;
        let tool = run.manifest.tool;
        Ok(Self {
            tool,
            complete,
            remarks,
            verdict: run.verdict,
            latencies,
            device_waf,
            are_transactions,
        })
    }
}

impl std::fmt::Display for RunSummary {
    /// The result for a terminal, without the remarks.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&page(
            &self.verdict,
            &self.latencies,
            self.are_transactions,
            &self.device_waf,
        ))
    }
}
