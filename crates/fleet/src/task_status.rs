//! The status of a task: its journal, its results and the scheduler's queue together.

use crate::journal::{Journal, StepEnd, StepEvent, StepStart};
use crate::slurm::QueuedTask;
use crate::task::{LOG, last_line};
use device::observe::process::process_state;
use report::status::{DirStatus, RunPhase};
use results::format::{date_to_minute, span_about};
use results::judge::Outcome;
use results::run_dir::ProcessState;
use serde::Serialize;
use std::path::Path;
use std::time::SystemTime;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    /// Not in the queue yet, or waiting for another step.
    Waiting,
    Queued,
    Running,
    /// Not ended, and the scheduler's queue gives no answer.
    Unknown,
    /// Ended without a verdict, successfully.
    Done,
    Measured,
    Pass,
    Fail,
    Invalid,
    /// Ended without a verdict, unsuccessfully.
    Failed,
    /// Not run, because of an earlier step.
    Skipped,
    /// Asked to end; resumes at the next start.
    Stopped,
    /// The drive was missing, or the environment failed.
    Refused,
    /// The step began, but its process is gone.
    Lost,
}

impl StepState {
    /// True if the step has no result, for a reason other than the drive.
    pub fn is_fault(self) -> bool {
        matches!(self, Self::Refused | Self::Lost | Self::Stopped)
    }

    /// True if `fleet run --failed` repeats the step: there is no verdict on the drive.
    pub fn is_repeatable(self) -> bool {
        self.is_fault() || matches!(self, Self::Invalid | Self::Failed)
    }

    /// True if later steps may follow.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Pass | Self::Measured | Self::Done)
    }

    /// True if the step runs, or will run, as far as known.
    pub fn is_open(self) -> bool {
        matches!(
            self,
            Self::Waiting | Self::Queued | Self::Running | Self::Unknown
        )
    }

    fn from_end(step_end: &StepEnd) -> Self {
        match (step_end.outcome, step_end.exit) {
            (Some(Outcome::Pass), 0) => Self::Pass,
            (Some(Outcome::Measured), 0) => Self::Measured,
            (Some(Outcome::Fail), _) => Self::Fail,
            (Some(_), _) => Self::Invalid,
            (None, 0) => Self::Done,
            (None, _) => Self::Failed,
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Unknown => "unknown",
            Self::Done => "done",
            Self::Measured => "MEASURED",
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Invalid => "INVALID",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Stopped => "stopped",
            Self::Refused => "refused",
            Self::Lost => "lost",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskStepStatus {
    pub step: String,
    pub now: StepState,
    /// Outcome of the step's results, once the step has ended.
    pub outcome: Option<Outcome>,
    /// Host where the step runs or ran last.
    pub host: Option<String>,
    /// The scheduler's name of the task that runs the step, or ran it last: `123_4` in Slurm.
    pub job: Option<String>,
    /// Last event of the step, milliseconds since 1970; `None` if the step did not begin.
    #[serde(skip)]
    pub last_unix_ms: Option<u64>,
    /// Conclusion of the step, or a remark; one sentence, or empty.
    pub note: String,
    /// Seconds until the end of the step, if the step runs and its end is known.
    pub left_sec: Option<f64>,
    pub attempts: usize,
}

impl TaskStepStatus {
    pub(crate) fn line(&self, task: &TaskStatus) -> String {
        let host = self
            .host
            .as_deref()
            .or(task.host.as_deref())
            .map_or_else(String::new, |host| format!(" on {host}"));
        let job = self.job.as_ref();
        let job = job.map_or_else(String::new, |job| format!(" (job {job})"));
        let left = self
            .left_sec
            .map_or_else(String::new, |sec| format!(", {} left", span_about(sec)));
        let note = if self.note.is_empty() {
            String::new()
        } else {
            format!(": {}", self.note)
        };
        format!(
            "  {:04} {} {}{host}{job} {}{left}{note}\n",
            task.index,
            task.drive,
            self.step,
            self.now.text()
        )
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskStatus {
    pub index: usize,
    pub drive: String,
    pub host: Option<String>,
    pub steps: Vec<TaskStepStatus>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum QueueAnswer<'a> {
    /// The campaign has no scheduler, or no open step.
    NotAsked,
    NoAnswer,
    NotQueued,
    Queued(&'a QueuedTask),
}

pub(crate) fn step_status(
    results: &Path,
    journal: &Journal,
    step: &str,
    answer: QueueAnswer<'_>,
) -> TaskStepStatus {
    let step_start = journal.last_begun(step);
    let mut this = TaskStepStatus {
        step: step.to_owned(),
        now: StepState::Waiting,
        outcome: None,
        host: step_start.map(|begun| begun.host.clone()),
        job: step_start.and_then(|begun| begun.job.clone()),
        last_unix_ms: journal.last(step).map(|entry| entry.unix_ms),
        note: String::new(),
        left_sec: None,
        attempts: journal.attempts(step),
    };
    (this.now, this.note) = match journal.state(step) {
        StepEvent::Ended(ended) => {
            this.outcome = ended.outcome;
            (StepState::from_end(ended), ended.sentence.clone())
        }
        StepEvent::Skipped { why } => (StepState::Skipped, why.clone()),
        StepEvent::Begun(begun) => {
            let status = DirStatus::read(results, SystemTime::now(), &process_state).ok();
            let at = date_to_minute(journal.last(step).map_or(0, |entry| entry.unix_ms));
            let note = format!("begun {at} on {}", begun.host);
            if is_running(begun, status.as_ref(), answer) {
                this.left_sec = status.as_ref().and_then(left_sec);
                (StepState::Running, String::new())
            } else if matches!(answer, QueueAnswer::NoAnswer) {
                (StepState::Unknown, note)
            } else {
                (StepState::Lost, note + ", but its process is gone")
            }
        }
        StepEvent::Reset => (StepState::Waiting, String::new()),
        StepEvent::Stopped { why } => (StepState::Stopped, why.clone()),
        StepEvent::Refused { why } => (StepState::Refused, why.clone()),
    };
    if matches!(answer, QueueAnswer::NoAnswer)
        && matches!(this.now, StepState::Waiting | StepState::Stopped)
    {
        this.now = StepState::Unknown;
    }
    // The task is in the queue, perhaps again after a stop or a loss.
    if let QueueAnswer::Queued(task) = answer
        && match this.now {
            StepState::Waiting | StepState::Stopped | StepState::Lost => true,
            // A running task is past the refused step; a pending task will try the step again.
            StepState::Refused => task.state == "PENDING",
            _ => false,
        }
    {
        this.job = Some(task.job.clone());
        let earlier_note = if this.note.is_empty() {
            String::new()
        } else {
            format!("{}; ", this.note)
        };
        (this.now, this.note) = match task.state.as_str() {
            "RUNNING" => (StepState::Running, String::new()),
            _ => (
                StepState::Queued,
                format!("{earlier_note}{}", task.node_or_reason),
            ),
        };
    }
    this
}

/// Explains why a task that is not in the queue does not continue. `log`: output of the task's jobs.
pub(crate) fn explain_missing_job(steps: &mut [TaskStepStatus], log: &Path) {
    let Some(line) = last_line(log) else {
        return;
    };
    let mut has_fault = false;
    for step in steps {
        match step.now {
            StepState::Waiting if !has_fault => {
                step.now = StepState::Lost;
                step.note = format!("its job ended before the step began; {LOG} ends with: {line}");
            }
            StepState::Lost => step.note += &format!("; {LOG} ends with: {line}"),
            StepState::Stopped => step.note += "; its job ended and was not queued again",
            _ => {}
        }
        has_fault |= step.now.is_fault();
    }
}

/// True if a begun step's command runs: by its process on this host, by the scheduler, or by results that still grow.
fn is_running(step_start: &StepStart, status: Option<&DirStatus>, answer: QueueAnswer<'_>) -> bool {
    let state = step_start
        .process
        .as_ref()
        .map_or(ProcessState::Unknown, process_state);
    let has_job = step_start.job.is_some();
    match (state, answer) {
        (ProcessState::Running | ProcessState::Stopped, _) => true,
        // Without an answer, growth proves nothing: the results may be a fresh copy.
        (ProcessState::Gone, _) | (_, QueueAnswer::NoAnswer) => false,
        (_, QueueAnswer::Queued(task)) if has_job => task.state == "RUNNING",
        (_, QueueAnswer::NotQueued) if has_job => false,
        _ => match status {
            Some(DirStatus::Run(run)) => !matches!(run.phase, RunPhase::Killed | RunPhase::Unknown),
            Some(series) => !series.is_over(),
            None => false,
        },
    }
}

fn left_sec(status: &DirStatus) -> Option<f64> {
    match status {
        DirStatus::Run(run) => Some((run.duration_sec as f64 - run.elapsed_sec).max(0.0)),
        DirStatus::Series(series) => (series.jobs_left.is_none()).then_some(series.left_sec),
        DirStatus::Checks(checks) => Some(checks.left_sec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StepState::{Done, Fail, Failed, Invalid, Measured, Pass};

    const OUTCOMES: [Option<Outcome>; 5] = [
        None,
        Some(Outcome::Measured),
        Some(Outcome::Pass),
        Some(Outcome::Invalid),
        Some(Outcome::Fail),
    ];

    #[test]
    fn a_success_needs_exit_code_0_and_a_good_outcome() {
        let now = |exit| {
            OUTCOMES
                .map(|outcome| StepEnd {
                    exit,
                    outcome,
                    sentence: String::new(),
                })
                .map(|ended| {
                    let found = StepState::from_end(&ended).is_good();
                    assert_eq!(found, ended.is_good(), "{ended:?}");
                    StepState::from_end(&ended)
                })
        };
        assert_eq!(now(0), [Done, Measured, Pass, Invalid, Fail]);
        assert_eq!(now(1), [Failed, Invalid, Invalid, Invalid, Fail]);
    }

    #[test]
    fn a_step_runs_if_its_process_runs_or_without_a_process_if_slurm_says_running() {
        let here = device::observe::process::this_process();
        let gone = here.clone().map(|here| results::run_dir::Process {
            start_ticks: 1,
            ..here
        });
        let running = |process: &Option<results::run_dir::Process>, state: Option<&str>| {
            let begun = StepStart {
                host: String::new(),
                process: process.clone(),
                job: Some("1_0".to_owned()),
                path: String::new(),
                clock_ahead_ms: None,
                agreed_unix_ms: None,
                metrics: None,
            };
            let task = state.map(|state| QueuedTask {
                index: 0,
                job: "1_0".to_owned(),
                host: String::new(),
                state: state.to_owned(),
                node_or_reason: String::new(),
            });
            let answer = task.as_ref();
            let answer = answer.map_or(QueueAnswer::NotQueued, QueueAnswer::Queued);
            is_running(&begun, None, answer)
        };
        assert!(running(&here, None) && !running(&gone, Some("RUNNING")));
        assert!(
            running(&None, Some("RUNNING"))
                && !running(&None, Some("PENDING"))
                && !running(&None, None)
        );
    }
}
