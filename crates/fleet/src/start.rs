//! Starts a campaign, goes on with it, and cancels it.

use crate::journal::{Event, TaskLock};
use crate::plan::Plan;
use crate::status::{CampaignStatus, Now, StepStatus};
use crate::task::{CANCELLED, cannot};
use crate::{local, slurm};
use results::files::{self, Over};
use results::judge::Outcome;
use session::console;
use session::failure::Failure;
use std::fs;
use std::io::ErrorKind;

/// Result of a start.
#[derive(Debug)]
pub enum Started {
    /// Slurm has that many more tasks.
    Submitted(usize),
    /// The tasks ran on this machine.
    Ran,
}

/// Submits or runs every step without a result that nothing runs. With `failed`, also steps that could not run, failed
/// without a verdict, or are invalid.
pub fn run(plan: &Plan, failed: bool) -> Result<Started, Failure> {
    let lock = plan.lock()?;
    let mark = plan.dir.join(CANCELLED);
    match fs::remove_file(&mark) {
        Ok(()) => console::notice("going on with a cancelled campaign"),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            let advice = sys::remedy(&error, "remove it by hand");
            return Err(Failure::environment(format!("removing {} - {error} - {advice}", mark.display())));
        }
    }
    let mut status = CampaignStatus::read(plan)?;
    if failed {
        reset(plan, &status)?;
        status = CampaignStatus::read(plan)?;
    }
    let wanted = |index: usize| is_wanted(plan, &status, index);
    match &plan.campaign.slurm {
        Some(settings) => slurm::submit(plan, settings, &wanted).map(Started::Submitted),
        None => {
            let tasks = (0..plan.drives.len()).filter(|index| wanted(*index)).collect();
            drop(lock);
            local::run(plan, tasks).map(|()| Started::Ran)
        }
    }
}

/// True if a step of the task can go on: nothing runs it, and the steps before it succeeded or go on, too.
fn is_wanted(plan: &Plan, status: &CampaignStatus, index: usize) -> bool {
    let steps = &status.tasks[index].steps;
    if steps.iter().any(|step| matches!(step.now, Now::Queued | Now::Running)) {
        return false;
    }
    let mut open: Vec<&str> = Vec::new();
    for (step, now) in plan.campaign.steps.iter().zip(steps.iter().map(|step| step.now)) {
        let is_good = |name: &String| {
            let before = steps.iter().find(|other| other.step == *name);
            open.contains(&name.as_str()) || before.is_some_and(|step| step.now.is_good())
        };
        if matches!(now, Now::Waiting | Now::Lost | Now::Stopped | Now::Skipped) && step.after.iter().all(is_good) {
            open.push(&step.name);
        }
    }
    !open.is_empty()
}

/// Has the steps repeated that have no verdict on the drive.
fn reset(plan: &Plan, status: &CampaignStatus) -> Result<(), Failure> {
    // One drive alone would wait for the others.
    let is_invalid =
        |name: &str| status.together.iter().any(|(step, result)| step == name && result.outcome == Outcome::Invalid);
    let is_one_test =
        |name: &str| plan.campaign.steps.iter().any(|step| step.name == name && step.together_sec.is_some());
    let all = || status.tasks.iter().flat_map(|task| &task.steps);
    let of_all = |name: &str| {
        is_one_test(name) && (is_invalid(name) || all().any(|step| step.step == name && step.now.is_repeatable()))
    };
    let is_running = |step: &&StepStatus| matches!(step.now, Now::Running | Now::Queued) && of_all(&step.step);
    if let Some(step) = all().find(is_running) {
        return Err(Failure::usage(format!(
            "repeating the step {} on all drives - it runs on one of them - wait for it, or \"flashproof fleet cancel\"",
            step.step
        )));
    }
    for task in &status.tasks {
        let is_repeated = |step: &&StepStatus| step.now.is_repeatable() || of_all(&step.step);
        let repeated: Vec<_> = task.steps.iter().filter(is_repeated).collect();
        if repeated.is_empty() {
            continue;
        }
        let dir = plan.task_dir(task.index);
        let lock = TaskLock::take(&dir).map_err(Failure::environment)?;
        for step in repeated {
            let written = lock.append(&step.step, Event::Reset);
            written.map_err(|error| cannot("writing the journal of the task", &dir, &error))?;
        }
    }
    Ok(())
}

/// Ends all tasks: those in the queue are removed, running ones stop within seconds, with partial results.
pub fn cancel(plan: &Plan) -> Result<(), Failure> {
    let mark = plan.dir.join(CANCELLED);
    files::replace(&mark, b"", Over::Own).map_err(|error| {
        let advice = sys::remedy(&error, "see that this host can write the campaign's directory");
        Failure::environment(format!("writing {} - {error} - {advice}", mark.display()))
    })?;
    if plan.campaign.slurm.is_some() && !plan.id.is_empty() {
        slurm::cancel(plan)?;
    }
    console::notice("cancelled: running tasks end within seconds; \"flashproof fleet run\" goes on with them");
    Ok(())
}
