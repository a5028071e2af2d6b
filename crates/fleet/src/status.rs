//! The status of a campaign: journals, results and the scheduler's queue together.

use crate::journal::{Journal, StepEvent};
use crate::plan::CampaignPlan;
use crate::slurm;
use crate::task::{LOG, read_journal};
use crate::task_status::{
    QueueAnswer, StepState, TaskStatus, TaskStepStatus, explain_missing_job, step_status,
};
use conclusions::grouped;
use conclusions::together::MultiHostResult;
use report::table::Table;
use results::format::{count, first_names, shell_quoted, span_about};
use results::judge::Outcome;
use serde::Serialize;
use session::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// Maximum clock offset that is not reported, milliseconds.
const CLOCK_MS_MAX: u64 = 5_000;

const RUNNING_SHOWN: usize = 20;

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
    /// First and last event of any task, milliseconds since 1970.
    #[serde(skip)]
    pub began_and_last_unix_ms: Option<[u64; 2]>,
    /// Why the scheduler's queue is unknown.
    #[serde(skip)]
    queue_error: Option<String>,
}

impl CampaignStatus {
    /// Asks the scheduler only if a step is open. If the scheduler does not answer, the state of open steps is unknown.
    /// An unreadable journal is a fault of its task.
    pub fn read(plan: &CampaignPlan) -> Self {
        let mut journals = read_journals(plan);
        let is_open = |journal: &Journal| {
            use StepEvent::{Begun, Reset, Stopped};
            let is_open = |last: &StepEvent| matches!(last, Begun(_) | Reset | Stopped { .. });
            let mut steps = plan.campaign.steps.iter();
            steps.any(|step| is_open(journal.state(&step.name)))
        };
        let queue: Result<Option<BTreeMap<_, _>>, _> = match &plan.campaign.slurm {
            _ if plan.id.is_empty() || !journals.iter().any(is_open) => Ok(None),
            Some(_) => slurm::queue(plan)
                .map(|queue| Some(queue.into_iter().map(|task| (task.index, task)).collect()))
                .map_err(|failure| failure.message),
            None => plan.unknown_settings.clone().map_or(Ok(None), Err),
        };
        // Journals are read again, because a task writes its last events before it leaves the queue.
        if matches!(queue, Ok(Some(_))) {
            journals = read_journals(plan);
        }
        let mut tasks = Vec::new();
        let mut faults: Vec<String> = Vec::new();
        let mut clocks = BTreeMap::new();
        for ((index, planned), journal) in plan.drives.iter().enumerate().zip(&journals) {
            faults.extend(journal.damage.clone());
            let mut steps: Vec<TaskStepStatus> = Vec::new();
            for step in &plan.campaign.steps {
                // A queued task is at its first step that has not ended.
                let is_next = !steps
                    .iter()
                    .any(|before| matches!(before.now, StepState::Running | StepState::Queued));
                let answer = match &queue {
                    Err(_) => QueueAnswer::NoAnswer,
                    Ok(None) => QueueAnswer::NotAsked,
                    Ok(Some(queue)) => match queue.get(&index).filter(|_| is_next) {
                        None => QueueAnswer::NotQueued,
                        Some(task) => QueueAnswer::Queued(task),
                    },
                };
                let results = plan.results_dir(index, &step.name);
                steps.push(step_status(&results, journal, &step.name, answer));
                let ahead = journal
                    .last_begun(&step.name)
                    .and_then(|begun| Some((&begun.host, begun.clock_ahead_ms?)));
                if let Some((host, ahead)) = ahead {
                    clocks.insert(host.clone(), ahead);
                }
            }
            if let Ok(Some(queue)) = &queue
                && !queue.contains_key(&index)
                && !plan.is_cancelled()
            {
                explain_missing_job(&mut steps, &plan.task_dir(index).join(LOG));
            }
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
                "the clock of {host} is {} {side} the file server's, so the times in the results of {host} are wrong - \
                 set the clock (NTP)",
                span_about(sec)
            ));
        }
        let events = journals.iter().flat_map(|journal| &journal.entries);
        let times = || events.clone().map(|event| event.unix_ms);
        let began_and_last_unix_ms = times().min().zip(times().max()).map(Into::into);
        let unknown_settings = plan.unknown_settings.as_ref().map(|why| {
            format!("name, scheduler and tests of all drives together are unknown: {why}")
        });
        let no_answer = |why| format!("the state of open steps is unknown: {why}");
        faults.extend(unknown_settings.or(queue.as_ref().err().map(no_answer)));
        Self {
            began_and_last_unix_ms,
            name: plan.campaign.name.clone(),
            started: !plan.id.is_empty(),
            cancelled: plan.is_cancelled(),
            together: crate::together::results(plan, &tasks, &journals),
            tasks,
            faults,
            queue_error: queue.err(),
        }
    }

    /// Errors: the scheduler gave no answer, so a start could submit tasks twice.
    pub fn with_queue(self) -> Result<Self, Failure> {
        match self.queue_error {
            Some(why) => Err(Failure::environment(why)),
            None => Ok(self),
        }
    }

    pub fn steps(&self) -> impl Iterator<Item = (&TaskStatus, &TaskStepStatus)> {
        self.tasks
            .iter()
            .flat_map(|task| task.steps.iter().map(move |step| (task, step)))
    }

    /// True if every step has ended, as far as known.
    pub fn is_complete(&self) -> bool {
        self.started && !self.steps().any(|(_, step)| step.now.is_open())
    }

    /// True if nothing runs, and nothing waits in the queue, as far as known.
    pub fn is_over(&self) -> bool {
        !self
            .steps()
            .any(|(_, step)| step.now.is_open() && step.now != StepState::Waiting)
    }

    /// Exit code: 1 if a drive failed, else 4 if a result is invalid, else 3 if something could not be run, else 0.
    pub fn exit_code(&self) -> u8 {
        let any_in =
            |requested: &[StepState]| self.steps().any(|(_, step)| requested.contains(&step.now));
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

    /// Lines about the steps whose state `is_listed` accepts. Drives with the same step, state and reason share a line.
    fn lines(&self, is_listed: fn(StepState) -> bool) -> Vec<String> {
        let listed = self.steps().filter(|(_, step)| is_listed(step.now));
        let by_reason = listed.map(|(task, step)| {
            let alone = step.note.is_empty().then_some(task.index);
            ((&step.step, step.now, &step.note, alone), (task, step))
        });
        let groups = grouped(by_reason).into_iter();
        groups.map(|(_, group)| shared_line(&group)).collect()
    }

    /// Text for a terminal of 80 columns. `dir`: the campaign's directory, for commands to paste.
    pub fn text(&self, dir: &Path) -> String {
        let run = format!(
            "flashproof fleet run {}",
            shell_quoted(&dir.to_string_lossy())
        );
        let mut text = format!(
            "campaign {}: {}\n\n{}",
            self.name,
            count(self.tasks.len() as u64, "drive"),
            self.counts()
        );
        let running = self.lines(|now| now == StepState::Running);
        write_list(&mut text, "running", &running, RUNNING_SHOWN);
        let queued = self.lines(|now| now == StepState::Queued);
        write_list(&mut text, "queued", &queued, RUNNING_SHOWN);
        let unknown = self.lines(|now| now == StepState::Unknown);
        write_list(&mut text, "state unknown", &unknown, RUNNING_SHOWN);
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
            let _ = writeln!(text, "\ncancelled; \"{run}\" resumes the campaign");
        } else if !self.started {
            let _ = writeln!(text, "\nnothing is running: \"{run}\" starts the campaign");
        } else if self.is_over()
            && self
                .steps()
                .any(|(_, step)| step.now == StepState::Waiting || step.now.is_fault())
        {
            let _ = writeln!(
                text,
                "\nnothing is running: \"{run}\" resumes the campaign; --failed also repeats refused steps"
            );
        }
        text
    }

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

fn read_journals(plan: &CampaignPlan) -> Vec<Journal> {
    let journals = (0..plan.drives.len()).map(|index| read_journal(&plan.task_dir(index)));
    let damaged = |failure: Failure| Journal {
        damage: Some(failure.message),
        ..Journal::default()
    };
    journals
        .map(|journal| journal.unwrap_or_else(damaged))
        .collect()
}

/// The line of steps with the same state and reason, on one or several drives.
fn shared_line(group: &[(&TaskStatus, &TaskStepStatus)]) -> String {
    let (task, step) = group[0];
    if group.len() == 1 {
        return step.line(task);
    }
    let indexes = group.iter().map(|(task, _)| task.index).enumerate();
    // Successive numbers have the same difference between number and position.
    let ranges = grouped(indexes.map(|(place, index)| (index - place, index)));
    let ranges = ranges.iter().map(|(_, range)| match range[..] {
        [index] => format!("{index:04}"),
        _ => format!("{:04}-{:04}", range[0], range[range.len() - 1]),
    });
    let drives = count(group.len() as u64, "drive");
    let tasks = first_names(ranges);
    let state = step.now.text();
    format!(
        "  {tasks}: {} on {drives} {state}: {}\n",
        step.step, step.note
    )
}

fn write_list(text: &mut String, title: &str, lines: &[String], shown: usize) {
    if !lines.is_empty() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use StepState::{
        Done, Fail, Failed, Invalid, Lost, Measured, Pass, Refused, Running, Stopped, Waiting,
    };

    #[test]
    fn drives_with_the_same_reason_share_a_line_with_their_numbers() {
        let step = TaskStepStatus {
            step: "a".to_owned(),
            now: Refused,
            outcome: None,
            host: None,
            job: None,
            last_unix_ms: None,
            note: "why".to_owned(),
            left_sec: None,
            attempts: 1,
        };
        let tasks = [0, 1, 2, 5, 7, 8].map(|index| TaskStatus {
            index,
            drive: format!("S{index}"),
            host: None,
            steps: Vec::new(),
        });
        let group: Vec<_> = tasks.iter().map(|task| (task, &step)).collect();
        let line = shared_line(&group);
        assert_eq!(
            line,
            "  0000-0002, 0005, 0007-0008: a on 6 drives refused: why\n"
        );
        assert_eq!(shared_line(&group[3..4]), "  0005 S5 a refused: why\n");
    }

    #[test]
    fn the_exit_code_names_the_worst_of_all_drives() {
        let status = |states: &[StepState], together: Option<Outcome>| {
            let step = |now: &StepState| TaskStepStatus {
                step: "a".to_owned(),
                now: *now,
                outcome: None,
                host: None,
                job: None,
                last_unix_ms: None,
                note: String::new(),
                left_sec: None,
                attempts: 1,
            };
            let steps = states.iter().map(step).collect();
            CampaignStatus {
                name: String::new(),
                began_and_last_unix_ms: None,
                queue_error: None,
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
        assert_eq!(status(&[Lost, Invalid], None), 4);
        assert_eq!(status(&[Lost, Invalid, Fail], None), 1);
        assert_eq!(status(&[Pass], Some(Outcome::Invalid)), 4);
        assert_eq!(status(&[Pass], Some(Outcome::Fail)), 1);
    }
}
