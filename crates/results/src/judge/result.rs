//! The part of a verdict that every output shows: text, JSON, HTML, Markdown, status, comparison, series, fio's output.
//!
//! The one idea: an output only lays these fields out and decides nothing, so that no two outputs can disagree.

use super::text::deciding_sentence;
use super::{Code, Outcome, Reason, Sla, StreamTotals, Verdict, WorkloadVerdict};
use crate::records_read::RecordsRead;
use crate::units::Grouped;
use schemars::JsonSchema;
use serde::Serialize;

/// The part of a verdict that every form shows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunResult {
    /// Pass, fail, invalid or measured.
    pub outcome: Outcome,
    /// The exit code of a command that judges.
    pub exit_code: u8,
    /// The first of `reasons`.
    pub reason: String,
    /// Why this outcome, most important first.
    pub reasons: Vec<Reason>,
    /// The first slice that counts against the run, from 1; null where none does.
    pub first_bad_slice: Option<u64>,
    /// The worst of them.
    pub worst_slice: Option<u64>,
    /// Operations each stream wanted and did.
    pub streams: Vec<StreamTotals>,
    /// Records read from a database, where they were verified or read in batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records_read: Option<RecordsRead>,
    /// Of several workloads, each alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadVerdict>,
    /// Limits of the outcome: things it does not cover, each a phrase.
    pub not_judged: Vec<String>,
}

impl Verdict {
    /// The fields that every output shows.
    pub fn result(&self) -> RunResult {
        let mut reasons = self.reasons.clone();
        reasons.extend(self.failures.iter().map(|text| Reason::new(Code::IoError, text)));
        let worst = self.decided_by.as_ref().filter(|_| !self.has_no_limits());
        let untold = worst.map(deciding_sentence).filter(|text| reasons.iter().all(|reason| reason.text != *text));
        reasons.extend(untold.map(|text| Reason::new(Code::Note, format!("worst share seen: {text}"))));
        let undone = self.undone.first().map(|undone| (undone.first_slice, undone.slice));
        let over = worst.filter(|worst| worst.is_over()).map(|worst| (worst.first_slice, worst.slice));
        let bad = undone.or(over);
        RunResult {
            outcome: self.outcome,
            exit_code: self.outcome.exit_code(),
            reason: reasons.first().map_or_else(|| "nothing was there to judge".to_owned(), ToString::to_string),
            reasons,
            first_bad_slice: bad.map(|(first, worst)| first.unwrap_or(worst).min(worst)),
            worst_slice: bad.map(|(_, worst)| worst),
            streams: self.streams.clone(),
            records_read: self.records_read,
            workloads: self.workloads.clone(),
            not_judged: self.not_judged(),
        }
    }

    /// True if no limits of latency were given.
    pub fn has_no_limits(&self) -> bool {
        self.sla == Sla::UNLIMITED
    }

    fn not_judged(&self) -> Vec<String> {
        let unlimited: Vec<_> = self.streams.iter().filter(|stream| !stream.judged).map(|it| &*it.name).collect();
        let latencies = match () {
            () if self.has_no_limits() => Some("latencies: no limits were given".to_owned()),
            () if unlimited.is_empty() => None,
            () => Some(format!("latencies of {}: no limits are for them", unlimited.join(", "))),
        };
        let left_sec = self.duration_sec.saturating_sub(self.ran_sec as u64);
        let left = (self.partial && left_sec > 0).then(|| {
            format!("the last {} s of {}: the run was stopped", Grouped(left_sec), Grouped(self.duration_sec))
        });
        latencies.into_iter().chain(left).collect()
    }
}

impl RunResult {
    /// Sentences after the first reason: records read, and the other reasons.
    pub fn others(&self) -> impl Iterator<Item = String> + '_ {
        let reasons = self.reasons.iter().skip(1).map(ToString::to_string);
        let workloads = self.workloads.iter().map(|workload| {
            let why = workload.reasons.first().map_or("", |reason| reason.text.as_str());
            format!("{}: {}: {why}", workload.name, workload.outcome)
        });
        let not_judged = self.not_judged.iter().map(|what| format!("not judged: {what}"));
        let records_read = self.records_read.map(|read| read.to_string());
        records_read.into_iter().chain(reasons).chain(workloads).chain(not_judged)
    }
}
