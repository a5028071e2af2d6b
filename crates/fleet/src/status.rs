//! The status of a campaign: journals, results and the scheduler's queue together.

use crate::journal::{Event, Journal, StepEnd, StepStart};
use crate::plan::Plan;
use crate::slurm::{self, QueuedTask};
use crate::task::{is_cancelled, read_journal};
use conclusions::together::MultiHostResult;
use device::observe::process::process_state;
use report::status::{DirStatus, RunPhase};
use report::table::Table;
use results::judge::Outcome;
use results::run_dir::ProcessState;
use results::units::{count, date_to_minute, span_about};
use serde::Serialize;
use session::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::SystemTime;

/// Maximum clock offset that is not reported, milliseconds.
const CLOCK_MS_MAX: u64 = 5_000;

/// Maximum number of running steps that are listed.
const RUNNING_SHOWN: usize = 20;

/// State of a step of one drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    /// Not in the queue yet, or waiting for another step.
    Waiting,
    /// In the scheduler's queue.
    Queued,
    Running,
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
    /// Begun, but its process is gone.
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

    /// True if the step runs, or will run.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Queued | Self::Running)
    }

    fn of(step_end: &StepEnd) -> Self {
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
            Self::Done => "done",
            Self::Measured => "MEASURED",
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Invalid => "INVALID",
            Self::Failed => "failed",
            Self::Skipped => "not run",
            Self::Stopped => "stopped",
            Self::Refused => "could not run",
            Self::Lost => "lost",
        }
    }
}

/// A step of one drive.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepStatus {
    pub step: String,
    pub now: StepState,
    /// Outcome of the step's results, once the step has ended.
    pub outcome: Option<Outcome>,
    /// Host where the step runs or ran last.
    pub host: Option<String>,
    /// Conclusion of the step, or a remark; one sentence, or empty.
    pub note: String,
    /// Seconds until the end of the step, if the step runs and its end is known.
    pub left_sec: Option<f64>,
    /// Number of starts of the step's command.
    pub attempts: usize,
}

impl StepStatus {
    fn line(&self, task: &TaskStatus) -> String {
        let host = self
            .host
            .as_deref()
            .or(task.host.as_deref())
            .map_or_else(String::new, |host| format!(" on {host}"));
        let left = self
            .left_sec
            .map_or_else(String::new, |sec| format!(", {} left", span_about(sec)));
        let note = if self.note.is_empty() {
            String::new()
        } else {
            format!(": {}", self.note)
        };
        format!(
            "  {:04} {} {}{host} {}{left}{note}\n",
            task.index,
            task.drive,
            self.step,
            self.now.text()
        )
    }
}

/// A drive and its steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskStatus {
    pub index: usize,
    pub drive: String,
    pub host: Option<String>,
    pub steps: Vec<StepStatus>,
}

/// A campaign at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct CampaignStatus {
    pub name: String,
    /// True once the drives are fixed.
    pub started: bool,
    pub cancelled: bool,
    pub tasks: Vec<TaskStatus>,
    /// Faults of a host or a file, one sentence each.
    pub faults: Vec<String>,
    /// Results of steps that all drives began together, by step, once the step has ended on all drives.
    pub together: Vec<(String, MultiHostResult)>,
}

impl CampaignStatus {
    /// Reads journals, results and the queue.
    ///
    /// Errors: the scheduler does not answer. An unreadable journal is a fault of its task.
    pub fn read(plan: &Plan) -> Result<Self, Failure> {
        let queue = match &plan.campaign.slurm {
            Some(_) if !plan.id.is_empty() => Some(slurm::queue(plan)?),
            _ => None,
        };
        let queued: BTreeMap<usize, &QueuedTask> = queue
            .iter()
            .flatten()
            .map(|task| (task.index, task))
            .collect();
        let mut tasks = Vec::new();
        let mut journals = Vec::new();
        let mut faults = Vec::new();
        let mut clocks = BTreeMap::new();
        for (index, planned) in plan.drives.iter().enumerate() {
            let journal = read_journal(&plan.task_dir(index)).unwrap_or_else(|failure| Journal {
                damage: Some(failure.message),
                ..Journal::default()
            });
            faults.extend(journal.damage.clone());
            let mut steps: Vec<StepStatus> = Vec::new();
            for step in &plan.campaign.steps {
                let task = queued.get(&index).copied();
                // A queued task is at its first step that has not ended.
                let is_next = !steps
                    .iter()
                    .any(|before| matches!(before.now, StepState::Running | StepState::Queued));
                let results = plan.results_dir(index, &step.name);
                steps.push(step_status(
                    &results,
                    &journal,
                    &step.name,
                    task.filter(|_| is_next),
                    queue.is_some(),
                ));
                let ahead = journal
                    .last_begun(&step.name)
                    .and_then(|begun| Some((&begun.host, begun.clock_ahead_ms?)));
                if let Some((host, ahead)) = ahead {
                    clocks.insert(host.clone(), ahead);
                }
            }
            journals.push(journal);
            tasks.push(TaskStatus {
                index,
                drive: planned.drive.id.clone(),
                host: planned.host.clone(),
                steps,
            });
        }
        for (host, ahead) in clocks
            .iter()
            .filter(|(_, ahead)| ahead.unsigned_abs() > CLOCK_MS_MAX)
        {
            let sec = ahead.unsigned_abs() as f64 / 1e3;
            let side = if *ahead > 0 { "ahead of" } else { "behind" };
            faults.push(format!(
                "the clock of {host} is {} {side} the file server's, so the times in its results are wrong",
                span_about(sec)
            ));
        }
        Ok(Self {
            name: plan.campaign.name.clone(),
            started: !plan.id.is_empty(),
            cancelled: is_cancelled(plan),
            together: crate::together::results(plan, &tasks, &journals),
            tasks,
            faults,
        })
    }

    /// The steps of all drives.
    pub fn steps(&self) -> impl Iterator<Item = (&TaskStatus, &StepStatus)> {
        self.tasks
            .iter()
            .flat_map(|task| task.steps.iter().map(move |step| (task, step)))
    }

    /// True if nothing runs, and nothing waits in the queue.
    pub fn is_over(&self) -> bool {
        !self
            .steps()
            .any(|(_, step)| matches!(step.now, StepState::Running | StepState::Queued))
    }

    /// Exit code: 1 if a drive failed, else 4 if a result is invalid, else 3 if something could not be run, else 0.
    pub fn exit_code(&self) -> u8 {
        let any_in =
            |wanted: &[StepState]| self.steps().any(|(_, step)| wanted.contains(&step.now));
        let outcomes: Vec<Outcome> = self
            .together
            .iter()
            .map(|(_, result)| result.outcome)
            .collect();
        if any_in(&[StepState::Fail]) || outcomes.contains(&Outcome::Fail) {
            1
        } else if any_in(&[StepState::Invalid]) || outcomes.contains(&Outcome::Invalid) {
            4
        } else if any_in(&[
            StepState::Refused,
            StepState::Lost,
            StepState::Failed,
            StepState::Stopped,
        ]) || (self.started && self.is_over() && any_in(&[StepState::Waiting]))
        {
            3
        } else {
            0
        }
    }

    /// A line for each step in these states.
    fn lines(&self, is_listed: fn(StepState) -> bool) -> Vec<String> {
        self.steps()
            .filter(|(_, step)| is_listed(step.now))
            .map(|(task, step)| step.line(task))
            .collect()
    }

    /// Text for a terminal of 80 columns.
    pub fn text(&self) -> String {
        let mut text = format!(
            "campaign {}: {}\n\n{}",
            self.name,
            count(self.tasks.len() as u64, "drive"),
            self.counts()
        );
        let running = self.lines(|now| now == StepState::Running);
        write_list(&mut text, "running", &running, RUNNING_SHOWN);
        let failed = self.lines(|now| now == StepState::Fail);
        write_list(&mut text, "drives that failed", &failed, usize::MAX);
        let undecided = self.lines(|now| matches!(now, StepState::Invalid | StepState::Failed));
        write_list(&mut text, "no verdict on the drive", &undecided, usize::MAX);
        let faults = self.lines(StepState::is_fault);
        write_list(&mut text, "did not run to the end", &faults, usize::MAX);
        for (step, result) in &self.together {
            let _ = write!(text, "\n{step}, all drives together: {}", result.text());
        }
        for fault in &self.faults {
            let _ = writeln!(text, "\n{fault}");
        }
        if self.cancelled {
            text.push_str("\ncancelled; \"flashproof fleet run\" resumes it\n");
        } else if self.is_over()
            && self
                .steps()
                .any(|(_, step)| step.now == StepState::Waiting || step.now.is_fault())
        {
            text.push_str(
                "\nnothing is running: \"flashproof fleet run\" resumes the campaign; --failed also repeats steps that \
                 could not run\n",
            );
        }
        text
    }

    /// Numbers of drives by step and state.
    fn counts(&self) -> Table {
        let mut counts: BTreeMap<(&str, StepState), u64> = BTreeMap::new();
        self.steps()
            .for_each(|(_, step)| *counts.entry((&step.step, step.now)).or_default() += 1);
        let states: BTreeSet<StepState> = counts.keys().map(|(_, now)| *now).collect();
        let table = Table::new("")
            .text(["STEP"])
            .numbers(states.iter().map(|now| now.text().to_uppercase()));
        // All tasks have the same steps.
        let names = self
            .tasks
            .iter()
            .take(1)
            .flat_map(|task| &task.steps)
            .map(|step| step.step.as_str());
        table.rows(names.map(|name| {
            std::iter::once(name.to_owned())
                .chain(states.iter().map(|now: &StepState| {
                    counts
                        .get(&(name, *now))
                        .map_or_else(String::new, u64::to_string)
                }))
                .collect::<Vec<_>>()
        }))
    }
}

/// Appends a title and the first `shown` lines; nothing if there are no lines.
fn write_list(text: &mut String, title: &str, lines: &[String], shown: usize) {
    if !lines.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n{title}:\n{}",
            lines.iter().take(shown).cloned().collect::<String>()
        );
    }
    if lines.len() > shown {
        let _ = writeln!(
            text,
            "  and {} more (--json lists all)",
            lines.len() - shown
        );
    }
}

/// Status of a step with its results in the directory `results`.
fn step_status(
    results: &Path,
    journal: &Journal,
    step: &str,
    queued: Option<&QueuedTask>,
    has_queue: bool,
) -> StepStatus {
    let step_start = journal.last_begun(step);
    let mut this = StepStatus {
        step: step.to_owned(),
        now: StepState::Waiting,
        outcome: None,
        host: step_start.map(|begun| begun.host.clone()),
        note: String::new(),
        left_sec: None,
        attempts: journal.attempts(step),
    };
    (this.now, this.note) = match journal.state(step) {
        Event::Ended(ended) => {
            this.outcome = ended.outcome;
            (StepState::of(ended), ended.sentence.clone())
        }
        Event::Skipped { why } => (StepState::Skipped, why.clone()),
        Event::Begun(begun) => {
            let status = DirStatus::read(results, SystemTime::now(), &process_state).ok();
            if is_running(begun, status.as_ref(), queued, has_queue) {
                this.left_sec = status.as_ref().and_then(left_sec);
                (StepState::Running, String::new())
            } else {
                let at = date_to_minute(journal.last(step).map_or(0, |entry| entry.unix_ms));
                (
                    StepState::Lost,
                    format!("begun {at} on {}, but its process is gone", begun.host),
                )
            }
        }
        Event::Reset => (StepState::Waiting, String::new()),
        Event::Stopped { why } => (StepState::Stopped, why.clone()),
        Event::Refused { why } => (StepState::Refused, why.clone()),
    };
    // The task is in the queue, perhaps again after a stop or a loss.
    if let Some(task) = queued.filter(|_| {
        matches!(
            this.now,
            StepState::Waiting | StepState::Stopped | StepState::Lost | StepState::Refused
        )
    }) {
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

/// True if the command of a begun step still runs: its process is alive on this host, or the scheduler says so, or its
/// results still grow.
fn is_running(
    step_start: &StepStart,
    status: Option<&DirStatus>,
    queued: Option<&QueuedTask>,
    has_queue: bool,
) -> bool {
    let state = step_start
        .process
        .as_ref()
        .map_or(ProcessState::Unknown, process_state);
    match state {
        ProcessState::Running | ProcessState::Stopped => true,
        ProcessState::Gone => false,
        _ if has_queue && step_start.job.is_some() => {
            queued.is_some_and(|task| task.state == "RUNNING")
        }
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StepState::{
        Done, Fail, Failed, Invalid, Lost, Measured, Pass, Refused, Running, Stopped, Waiting,
    };

    const OUTCOMES: [Option<Outcome>; 5] = [
        None,
        Some(Outcome::Measured),
        Some(Outcome::Pass),
        Some(Outcome::Invalid),
        Some(Outcome::Fail),
    ];

    #[test]
    fn only_exit_code_0_with_a_good_outcome_is_a_success_for_status_and_task_alike() {
        let now = |exit| {
            OUTCOMES
                .map(|outcome| StepEnd {
                    exit,
                    outcome,
                    sentence: String::new(),
                })
                .map(|ended| {
                    assert_eq!(
                        StepState::of(&ended).is_good(),
                        ended.is_good(),
                        "{ended:?}"
                    );
                    StepState::of(&ended)
                })
        };
        assert_eq!(now(0), [Done, Measured, Pass, Invalid, Fail]);
        assert_eq!(now(1), [Failed, Invalid, Invalid, Invalid, Fail]);
    }

    #[test]
    fn the_exit_code_names_the_worst_of_all_drives() {
        let status = |states: &[StepState], together: Option<Outcome>| {
            let step = |now: &StepState| StepStatus {
                step: "a".to_owned(),
                now: *now,
                outcome: None,
                host: None,
                note: String::new(),
                left_sec: None,
                attempts: 1,
            };
            let steps = states.iter().map(step).collect();
            CampaignStatus {
                name: String::new(),
                started: true,
                cancelled: false,
                tasks: vec![TaskStatus {
                    index: 0,
                    drive: String::new(),
                    host: None,
                    steps,
                }],
                faults: Vec::new(),
                together: together
                    .map(|outcome| {
                        (
                            "a".to_owned(),
                            MultiHostResult {
                                outcome,
                                ..MultiHostResult::undecided(String::new())
                            },
                        )
                    })
                    .into_iter()
                    .collect(),
            }
            .exit_code()
        };
        assert_eq!(status(&[Pass, Measured, Done, Running, Waiting], None), 0);
        assert_eq!(status(&[Pass, Waiting], None), 3, "nothing runs");
        for fault in [Refused, Lost, Failed, Stopped] {
            assert_eq!(status(&[Pass, fault], None), 3);
        }
        assert_eq!(
            (
                status(&[Lost, Invalid], None),
                status(&[Lost, Invalid, Fail], None)
            ),
            (4, 1)
        );
        assert_eq!(
            (
                status(&[Pass], Some(Outcome::Invalid)),
                status(&[Pass], Some(Outcome::Fail))
            ),
            (4, 1)
        );
    }

    #[test]
    fn a_step_runs_as_its_process_here_or_the_scheduler_says() {
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
            };
            let task = state.map(|state| QueuedTask {
                index: 0,
                job: "1".to_owned(),
                host: String::new(),
                state: state.to_owned(),
                node_or_reason: String::new(),
            });
            is_running(&begun, None, task.as_ref(), true)
        };
        assert!(running(&here, None) && !running(&gone, Some("RUNNING")));
        assert!(
            running(&None, Some("RUNNING"))
                && !running(&None, Some("PENDING"))
                && !running(&None, None)
        );
    }
}
