//! Starts, resumes and cancels a campaign.

use crate::journal::{StepEvent, TaskLock};
use crate::plan::CampaignPlan;
use crate::status::CampaignStatus;
use crate::task::{LOG, cannot, last_line, read_journal};
use crate::task_status::{StepState, TaskStepStatus};
use crate::{ask_to_end, failed, host_name, own_command, slurm};
use results::files::{self, ReplaceTarget};
use results::format::count;
use results::judge::Outcome;
use session::console;
use session::failure::Failure;
use session::signals::EndSignals;
use std::io::ErrorKind;
use std::process::Child;
use std::time::Duration;

/// Submits or runs every step that waits, was stopped, was skipped or lost its process. With `again`, also repeats
/// steps that could not run, failed without a verdict, or are invalid. `erases`: a step can erase its drive. Returns how
/// many tasks were submitted to Slurm; `None`: the tasks ran on this machine.
pub fn run(plan: &CampaignPlan, again: bool, erases: bool) -> Result<Option<usize>, Failure> {
    let lock = plan.lock()?;
    let mark = plan.cancel_mark();
    match files::remove_file(&mark) {
        Ok(()) => console::notice("resuming a cancelled campaign"),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            return Err(failed(
                format!("cannot remove {}", mark.display()),
                &error,
                "remove it by hand",
            ));
        }
    }
    let mut status = CampaignStatus::read(plan).with_queue()?;
    if again {
        reset(plan, &status)?;
        status = CampaignStatus::read(plan).with_queue()?;
    }
    let has_work = |index: usize| is_requested(plan, &status, index);
    let tasks: Vec<usize> = (0..plan.drives.len())
        .filter(|index| has_work(*index))
        .collect();
    if erases && let Some(line) = plan.erased_text(&tasks) {
        console::notice(&line);
    }
    match &plan.campaign.slurm {
        Some(settings) => slurm::submit(plan, settings, &has_work).map(Some),
        None => {
            drop(lock);
            run_here(plan, tasks).map(|()| None)
        }
    }
}

/// True if a step of the task can run: nothing runs the task, and the steps before this step succeeded or can run, too.
fn is_requested(plan: &CampaignPlan, status: &CampaignStatus, index: usize) -> bool {
    let steps = &status.tasks[index].steps;
    if steps
        .iter()
        .any(|step| matches!(step.now, StepState::Queued | StepState::Running))
    {
        return false;
    }
    let mut runnable: Vec<&str> = Vec::new();
    for (step, state) in plan
        .campaign
        .steps
        .iter()
        .zip(steps.iter().map(|step| step.now))
    {
        let can_follow = step.after.iter().all(|name| {
            let before = steps.iter().find(|other| other.step == *name);
            runnable.contains(&name.as_str()) || before.is_some_and(|step| step.now.is_good())
        });
        let is_unfinished = matches!(
            state,
            StepState::Waiting | StepState::Lost | StepState::Stopped | StepState::Skipped
        );
        if is_unfinished && can_follow {
            runnable.push(&step.name);
        }
    }
    !runnable.is_empty()
}

/// Marks the steps that have no verdict on the drive: `run` then repeats them.
fn reset(plan: &CampaignPlan, status: &CampaignStatus) -> Result<(), Failure> {
    let repeated_on_all = steps_repeated_on_all(plan, status);
    let running = status.steps().find(|(_, step)| {
        matches!(step.now, StepState::Running | StepState::Queued)
            && repeated_on_all.contains(&step.step.as_str())
    });
    if let Some((_, step)) = running {
        return Err(Failure::usage(format!(
            "cannot repeat the step {} on all drives - it still runs on a drive - wait for it, or run \"flashproof \
             fleet cancel\"",
            step.step
        )));
    }
    for task in &status.tasks {
        let repeated: Vec<&TaskStepStatus> = task
            .steps
            .iter()
            .filter(|step| {
                step.now.is_repeatable() || repeated_on_all.contains(&step.step.as_str())
            })
            .collect();
        if repeated.is_empty() {
            continue;
        }
        let dir = plan.task_dir(task.index);
        let lock = TaskLock::take(&dir).map_err(Failure::environment)?;
        for step in repeated {
            let written = lock.append(&step.step, StepEvent::Reset);
            written
                .map_err(|error| cannot("cannot write the journal of the task", &dir, &error))?;
        }
    }
    Ok(())
}

/// The steps with `together` to repeat on all drives: a single drive would wait for the others.
fn steps_repeated_on_all<'a>(plan: &'a CampaignPlan, status: &CampaignStatus) -> Vec<&'a str> {
    let mut repeated = Vec::new();
    for step in &plan.campaign.steps {
        let is_invalid = status
            .together
            .iter()
            .any(|(name, result)| *name == step.name && result.outcome == Outcome::Invalid);
        let has_repeatable = status
            .steps()
            .any(|(_, on_drive)| on_drive.step == step.name && on_drive.now.is_repeatable());
        if step.together_sec.is_some() && (is_invalid || has_repeatable) {
            repeated.push(step.name.as_str());
        }
    }
    repeated
}

/// Ends all tasks: waiting tasks leave the queue, running tasks stop within seconds with partial results. Slurm's jobs
/// are cancelled even if the mark cannot be written.
pub fn cancel(plan: &CampaignPlan) -> Result<(), Failure> {
    let mark = plan.cancel_mark();
    let marked = files::replace(&mark, b"", ReplaceTarget::Own("cancelled"));
    if plan.campaign.slurm.is_some() && !plan.id.is_empty() {
        slurm::cancel(plan, marked.is_ok())?;
        console::notice("cancelled the jobs in Slurm's queue");
    }
    marked.map_err(|error| {
        let advice = "check that this host can write the campaign's directory";
        failed(format!("cannot write {}", mark.display()), &error, advice)
    })?;
    console::notice(
        "cancelled: running tasks end within seconds; \"flashproof fleet run\" resumes them",
    );
    Ok(())
}

const TICK: Duration = Duration::from_millis(100);

/// Runs the tasks until they end or a signal arrives. Errors: a drive is on another host; a start failed.
fn run_here(plan: &CampaignPlan, mut waiting: Vec<usize>) -> Result<(), Failure> {
    let this_host = host_name();
    let other_host = plan
        .drives
        .iter()
        .filter_map(|drive| drive.host.as_ref())
        .find(|host| **host != this_host);
    if let Some(host) = other_host {
        return Err(Failure::usage(format!(
            "cannot run the campaign in {} on this machine ({this_host}) - it has drives of {host} - add [slurm] to run it \
             on several hosts, or hosts = [\"{this_host}\"] under [drives]",
            plan.dir.display()
        )));
    }
    let at_once = plan
        .shares()
        .values()
        .map(|share| share.at_once)
        .max()
        .unwrap_or(1) as usize;
    let end_signals = EndSignals::listen(
        "the tasks were killed; run the campaign again to resume them".to_owned(),
    )?;
    waiting.reverse();
    let task_count = waiting.len();
    let mut running: Vec<(usize, Child)> = Vec::new();
    let mut done_count: usize = 0;
    let mut has_asked = false;
    while !waiting.is_empty() || !running.is_empty() {
        let is_over = end_signals.received().is_some() || plan.is_cancelled();
        while running.len() < at_once && !is_over {
            let Some(index) = waiting.pop() else { break };
            running.push((index, start(plan, index)?));
        }
        if is_over {
            waiting.clear();
        }
        for (index, mut child) in std::mem::take(&mut running) {
            let status = child.try_wait().map_err(|error| {
                Failure::environment(format!(
                    "cannot wait for a task - {error} - run the campaign again"
                ))
            })?;
            if status.is_none() {
                running.push((index, child));
                continue;
            }
            done_count += 1;
            console::note(&format!(
                "[{done_count}/{task_count}] {}",
                outcome_of(plan, index)?
            ));
        }
        if running.is_empty() {
            continue;
        }
        match end_signals.wait(TICK) {
            None => {}
            Some(_) if !has_asked => {
                has_asked = true;
                console::notice(&format!("ending {}", count(running.len() as u64, "task")));
                running.iter().for_each(|(_, child)| ask_to_end(child.id()));
            }
            // After the first signal, `wait` returns at once.
            Some(_) => std::thread::sleep(TICK),
        }
    }
    Ok(())
}

/// Starts a task in a separate process, which ends with this process.
fn start(plan: &CampaignPlan, index: usize) -> Result<Child, Failure> {
    let dir = plan.task_dir(index);
    let child = files::create_dirs(&dir)
        .and_then(|_| own_command(&dir.join(LOG)))
        .and_then(|mut command| {
            command
                .args(["fleet", "task"])
                .arg(&plan.dir)
                .arg(index.to_string())
                .spawn()
        });
    child.map_err(|error| {
        failed(
            format!("cannot start the task in {}", dir.display()),
            &error,
            "run the campaign again",
        )
    })
}

/// The last step with an event, and its result.
fn outcome_of(plan: &CampaignPlan, index: usize) -> Result<String, Failure> {
    let journal = read_journal(&plan.task_dir(index))?;
    let id = &plan.drives[index].drive.id;
    let Some(last) = journal.entries.last() else {
        let why = last_line(&plan.task_dir(index).join(LOG))
            .unwrap_or_else(|| "the task printed nothing".to_owned());
        return Ok(format!("{id}: nothing was run: {why}"));
    };
    let text = match &last.event {
        StepEvent::Ended(ended) => ended.sentence.clone(),
        StepEvent::Stopped { why } => format!("stopped: {why}"),
        StepEvent::Refused { why } => format!("refused: {why}"),
        StepEvent::Skipped { why } => format!("skipped: {why}"),
        StepEvent::Reset | StepEvent::Begun(_) => "killed".to_owned(),
    };
    Ok(format!("{id} {}: {text}", last.step))
}
