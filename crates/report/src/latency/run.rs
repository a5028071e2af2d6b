//! Data that a run directory has in addition to its log: percentiles, rates, errors, and exact counts to judge by.

use super::sla::Judgement;
use crate::latencies::{QUANTILES, StreamLatencies, in_milliseconds, latencies};
use crate::table::Table;
use results::files::dir_of;
use results::judge::{
    IntervalCounts, Outcome, Reason, ReasonCode, Sla, StreamTotals, whole_slice_sec,
};
use results::run_dir::{self, Intervals, Manifest, Run, RunDirError};
use serde::Serialize;
use std::fmt;
use std::path::Path;

#[derive(Debug, Clone, Serialize)]
pub struct RunLatencies {
    /// Quantiles of service, wait and lag, over the whole run and all devices.
    pub latencies: Vec<StreamLatencies>,
    pub streams: Vec<StreamTotals>,
    /// Damage of the directory, each one sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
    #[serde(skip)]
    pub remarks: Vec<String>,
}

impl RunLatencies {
    /// Reads the run in `dir`. If an interval log is damaged, the quantiles are missing and a remark says so.
    pub fn read(dir: &Path) -> Result<Self, RunDirError> {
        let Run {
            manifest,
            verdict,
            mut remarks,
            damage,
            ..
        } = run_dir::read(dir)?;
        let missing_text = |why: &str| format!("no percentiles of {}: {why}", dir.display());
        let latencies = latencies(dir, &manifest.layout()).unwrap_or_else(|error| {
            remarks.push(missing_text(&error.to_string()));
            Vec::new()
        });
        if latencies.is_empty()
            && remarks
                .iter()
                .all(|remark| !remark.starts_with("no percentiles"))
        {
            remarks.push(missing_text("no window of its interval logs is complete"));
        }
        Ok(Self {
            latencies,
            streams: verdict.streams,
            damage,
            remarks,
        })
    }
}

impl fmt::Display for RunLatencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.damage
            .iter()
            .try_for_each(|damage| writeln!(f, "DAMAGED: {damage}"))?;
        let names = self.streams.iter().map(|stream| stream.name.len());
        let width = names.max().unwrap_or(0).max("milliseconds".len());
        if !self.latencies.is_empty() {
            write!(f, "{}", in_milliseconds(&self.latencies, width, &QUANTILES))?;
        }
        let rows = self.streams.iter().map(|stream| {
            let is_open = stream.offered_iops > 0.0;
            let offered = if is_open {
                format!("{:.2}", stream.offered_iops)
            } else {
                "closed".to_owned()
            };
            let counts = [stream.errors, stream.not_done()].map(|count| count.to_string());
            [
                stream.name.clone(),
                offered,
                format!("{:.2}", stream.achieved_iops),
            ]
            .into_iter()
            .chain(counts)
        });
        let streams = Table::new("").text(["stream"]).numbers([
            "offered/s",
            "achieved/s",
            "errors",
            "not done",
        ]);
        write!(f, "\n{}", streams.widths([width, 12, 12, 8, 9]).rows(rows))
    }
}

/// Slice length of the run to which `log` belongs, or the length of the run if that is shorter. `None` if `log` is
/// neither a readable run directory nor one of several logs of a run.
pub fn slice_sec(log: &Path) -> Option<u64> {
    let dir = if log.is_dir() { log } else { dir_of(log) };
    let Run {
        manifest, verdict, ..
    } = run_dir::read(dir).ok()?;
    if log != dir {
        let mut names = (0..manifest.workloads.len()).map(|at| manifest.act_log_name(at));
        let is_one_of_several = names.len() > 1
            && names.any(|name| log.file_name().is_some_and(|log| log == name.as_str()));
        // A single act.log keeps the default of ACT's script, an hour, so that the script and this program show the
        // same slices.
        if !is_one_of_several {
            return None;
        }
    }
    let interval_sec = manifest.report_interval_sec.max(1);
    let ran_sec = verdict.ran_sec as u64 / interval_sec * interval_sec;
    Some(manifest.slice_sec.min(ran_sec).max(interval_sec))
}

/// Judges the run by its own counts, in slices of about `slice_sec`; `None` if the run lacks thresholds of `sla`.
pub fn judge(
    name: &str,
    dir: &Path,
    sla: &Sla,
    slice_sec: u64,
) -> Result<Option<Judgement>, RunDirError> {
    let Run {
        manifest,
        written,
        remarks,
        damage,
        verdict: own_verdict,
        ..
    } = run_dir::read(dir)?;
    let run_thresholds = manifest.sla.thresholds_ns();
    let columns = sla
        .thresholds_ns()
        .iter()
        .map(|requested| run_thresholds.iter().position(|ns| ns == requested))
        .collect();
    let Some(columns): Option<Vec<usize>> = columns else {
        return Ok(None);
    };
    let slice_sec = whole_slice_sec(
        slice_sec,
        manifest.duration_sec,
        manifest.report_interval_sec,
    );
    let mut records = Intervals::open(dir, &manifest)?;
    let recorded_step_sec = manifest.step_sec();
    // With slices of another length, windows that overlap two slices are not judged.
    let window_step_sec = if slice_sec == manifest.slice_sec {
        recorded_step_sec
    } else {
        slice_sec
    };
    let mut judge = Manifest {
        sla: sla.clone(),
        slice_sec,
        window_step_sec,
        ..manifest
    }
    .judge();
    while let Some(record) = records.next()? {
        let mut counts = with_columns(&record.counts, &columns);
        for carried in &mut counts.carried {
            carried.step = carried.step.saturating_mul(recorded_step_sec) / window_step_sec;
        }
        judge.add_counts(&counts);
    }
    let verdict = judge.verdict(&own_verdict.end);
    // A pass from edited or damaged tables is not trusted: it becomes invalid.
    let differs = written.is_some_and(|written| !written.agrees_with(&own_verdict));
    let distrusted = (differs || !damage.is_empty()) && verdict.outcome == Outcome::Pass;
    let outcome = if distrusted {
        Outcome::Invalid
    } else {
        verdict.outcome
    };
    let damage = remarks
        .into_iter()
        .next()
        .filter(|_| distrusted)
        .map(|text| Reason::new(ReasonCode::Damaged, text));
    let Reason { code, text: reason } = damage
        .or(verdict.reasons.into_iter().next())
        .unwrap_or_else(|| Reason::new(ReasonCode::Unknown, ""));
    let log = name.to_owned();
    let sla = sla.clone();
    let decided_by = verdict.decided_by;
    Ok(Some(Judgement {
        log,
        outcome,
        sla,
        by: "wait + service",
        decided_by,
        reason,
        code,
    }))
}

fn with_columns(counts: &IntervalCounts, columns: &[usize]) -> IntervalCounts {
    let mut counts = counts.clone();
    for cell in counts
        .cells
        .iter_mut()
        .chain(counts.carried.iter_mut().map(|carried| &mut carried.counts))
    {
        for over in [
            &mut cell.judged_over,
            &mut cell.judged_over_lower_bound,
            &mut cell.response_over,
        ] {
            let all = *over;
            over.fill(0);
            columns
                .iter()
                .zip(over.iter_mut())
                .for_each(|(column, over)| *over = all[*column]);
        }
    }
    counts
}
