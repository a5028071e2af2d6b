//! Progress of a run, a series or a check, from its files alone: while it runs, and afterwards.
//!
//! A directory can be read at any moment: an incomplete end belongs to the interval that is being written. The files do
//! not show if a process still runs; the caller (the binary) checks that.

mod check;
mod run;
mod text;

pub use check::{CheckStatus, ChecksStatus};
pub use run::{CurrentShares, RunPhase, RunStatus, Temperature};

use conclusions::baseline::jobs_left;
use conclusions::rejudge::{disappeared_error, rejudge_in};
use conclusions::series::{Series, SeriesPurpose, SeriesStepState};
use results::judge::Outcome;
use results::run_dir::{self, DirKind, Process, ProcessState, RunDirError};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum DirStatus {
    Run(Box<RunStatus>),
    Series(Box<SeriesStatus>),
    Checks(Box<ChecksStatus>),
}

/// State of a process, by its record.
pub type StateOf<'a> = &'a dyn Fn(&Process) -> ProcessState;

impl DirStatus {
    /// Reads the status of the run, series or checks in `dir` at `now`. `state_of` returns the state of a process.
    pub fn read(dir: &Path, now: SystemTime, state_of: StateOf<'_>) -> Result<Self, RunDirError> {
        match run_dir::dir_kind(dir) {
            Ok(DirKind::Run) => {
                RunStatus::read(dir, now, state_of).map(|run| Self::Run(Box::new(run)))
            }
            Ok(DirKind::Series) => {
                SeriesStatus::read(dir, now, state_of).map(|series| Self::Series(Box::new(series)))
            }
            Err(error) if dir.is_dir() => ChecksStatus::read(dir, now, state_of)?
                .map(|checks| Self::Checks(Box::new(checks)))
                .ok_or(error),
            Err(error) => Err(error),
        }
    }

    /// True if no more data will come.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Run(run) => run.phase.is_over(),
            Self::Series(series) => series.is_over(),
            Self::Checks(checks) => checks.is_over(),
        }
    }

    /// Exit code of the verdict; 0 while the run, series or checks continue.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Run(run) => run.exit_code(),
            Self::Series(series) => series.exit_code(),
            Self::Checks(checks) => checks.exit_code(),
        }
    }
}

/// Milliseconds since 1970; 0 before.
pub(crate) fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesStepStatus {
    pub name: String,
    pub multiple: f64,
    pub state: SeriesStepState,
    pub outcome: Option<Outcome>,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesStatus {
    pub dir: PathBuf,
    pub purpose: SeriesPurpose,
    /// Steps, oldest first.
    pub steps: Vec<SeriesStepStatus>,
    /// The run of the step that began last, if readable.
    pub run: Option<RunStatus>,
    /// Minimum number of baseline jobs still to be run.
    pub jobs_left: Option<u64>,
    /// Seconds until the end of all planned steps; a search adds steps as it proceeds.
    pub left_sec: f64,
    /// Expected end of all planned steps, milliseconds since 1970; `None`: simulated, a baseline, or over.
    pub ends_unix_ms: Option<u64>,
    pub outcome: Option<Outcome>,
    /// Conclusion, one sentence; empty before the end.
    pub conclusion: String,
    /// State of the series' process; `None` if the series names no process.
    pub seen: Option<ProcessState>,
    pub remarks: Vec<String>,
}

impl SeriesStatus {
    fn read(dir: &Path, now: SystemTime, state_of: StateOf<'_>) -> Result<Self, RunDirError> {
        let Some(mut series) = Series::read(dir)? else {
            return Err(results::run_dir::manifest(dir)
                .err()
                .unwrap_or_else(|| disappeared_error(dir)));
        };
        let mut remarks = rejudge_in(dir, &mut series);
        let begun_step = series
            .steps
            .iter()
            .rev()
            .find(|step| step.attempts > 0 && step.state != SeriesStepState::Planned);
        let run = begun_step.and_then(|step| {
            match RunStatus::read(&dir.join(&step.dir), now, state_of) {
                Ok(run) => Some(run),
                // A run has no directory until its devices are opened and examined.
                Err(_) if step.state == SeriesStepState::Running => {
                    remarks.push(format!(
                        "{} has begun, but has no run directory yet",
                        step.name
                    ));
                    None
                }
                Err(error) => {
                    remarks.push(format!("{} cannot be read: {error}", step.name));
                    None
                }
            }
        });
        let conclusion = series.conclusion.as_ref();
        let steps_ahead = series.steps.iter().filter(|step| {
            matches!(
                step.state,
                SeriesStepState::Planned | SeriesStepState::Interrupted
            )
        });
        let ahead_sec: u64 = steps_ahead.map(|step| step.duration_sec).sum();
        let now_sec = run
            .as_ref()
            .filter(|run| !run.phase.is_over())
            .and_then(RunStatus::left_sec)
            .unwrap_or(0.0);
        let left_sec = if conclusion.is_some() {
            0.0
        } else {
            ahead_sec as f64 + now_sec
        };
        let simulated = series.devices.iter().any(|device| device.simulated);
        let steps = series.steps.iter().map(|step| SeriesStepStatus {
            name: step.name.clone(),
            multiple: step.multiple,
            state: step.state,
            outcome: step.outcome,
            reason: step.reason.clone(),
        });
        let mut this = Self {
            dir: dir.to_owned(),
            purpose: series.purpose,
            steps: steps.collect(),
            jobs_left: jobs_left(&series),
            left_sec,
            ends_unix_ms: None,
            outcome: conclusion.map(|ended| ended.outcome),
            conclusion: conclusion
                .map(|ended| ended.sentence.clone())
                .unwrap_or_default(),
            seen: series.process.as_ref().map(state_of),
            run,
            remarks,
        };
        if begun_step.is_none() && !this.is_over() {
            this.remarks.push(
                "no run has begun: drives are being prepared, or a question waits for an answer"
                    .to_owned(),
            );
        }
        this.remarks.extend(
            conclusion
                .into_iter()
                .flat_map(|ended| ended.remarks.iter().cloned()),
        );
        // A baseline plans a job only when the previous one is done, so its end is unknown.
        if !simulated && !this.is_over() && this.purpose != SeriesPurpose::Baseline {
            this.ends_unix_ms = Some(unix_ms(now).saturating_add((left_sec * 1000.0) as u64));
        }
        Ok(this)
    }

    /// True if no more data will come: the series is finished, or its process is gone.
    fn is_over(&self) -> bool {
        if self.outcome.is_some() {
            return true;
        }
        match (self.seen, &self.run) {
            // Between two steps the previous run is over, but the process continues.
            (Some(ProcessState::Running | ProcessState::Stopped), _) => false,
            (Some(ProcessState::Gone), _) => true,
            // A process in another container is invisible; then the state of its run decides.
            (Some(ProcessState::Elsewhere), run) => {
                run.as_ref().is_none_or(|run| run.phase.is_over())
            }
            (Some(ProcessState::Unknown) | None, Some(run)) => {
                matches!(run.phase, RunPhase::Killed | RunPhase::Unknown)
            }
            (Some(ProcessState::Unknown) | None, None) => self
                .steps
                .iter()
                .all(|step| step.state != SeriesStepState::Running),
        }
    }

    fn exit_code(&self) -> u8 {
        match (self.outcome, &self.run) {
            (Some(outcome), _) => outcome.exit_code(),
            (None, _) if self.is_over() => Outcome::Invalid.exit_code(),
            (None, Some(run))
                if matches!(
                    run.phase,
                    RunPhase::Hung | RunPhase::Stopped | RunPhase::Gone
                ) =>
            {
                Outcome::Invalid.exit_code()
            }
            (None, _) => 0,
        }
    }
}

#[cfg(test)]
mod tests;
