//! Starts a campaign, goes on with it, and cancels it.

use crate::campaign::Step;
use crate::journal::{Event, TaskLock};
use crate::plan::Plan;
use crate::status::{CampaignStatus, Now, StepStatus};
use crate::task::CANCELLED;
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
    let wanted = |step: &StepStatus| matches!(step.now, Now::Waiting | Now::Lost | Now::Stopped | Now::Skipped);
    match &plan.campaign.slurm {
        Some(settings) => {
            let of = |step: &Step, index: usize| status.tasks[index].steps.iter().find(|other| other.step == step.name);
            // A skipped step is submitted only behind one that is repeated.
            let is_repeated =
                |index: usize| status.tasks[index].steps.iter().any(|step| step.now != Now::Skipped && wanted(step));
            let wants = |step: &Step, index: usize| {
                of(step, index).is_some_and(|step| wanted(step) && (step.now != Now::Skipped || is_repeated(index)))
            };
            slurm::submit(plan, settings, &wants).map(Started::Submitted)
        }
        None => {
            let has_work = |step: &StepStatus| step.now != Now::Skipped && wanted(step);
            let tasks =
                status.tasks.iter().filter(|task| task.steps.iter().any(has_work)).map(|task| task.index).collect();
            drop(lock);
            local::run(plan, tasks).map(|_| Started::Ran)
        }
    }
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
    for task in &status.tasks {
        let is_repeated = |step: &&StepStatus| step.now.is_repeatable() || of_all(&step.step);
        let repeated: Vec<_> = task.steps.iter().filter(is_repeated).collect();
        if repeated.is_empty() {
            continue;
        }
        let dir = plan.task_dir(task.index);
        let lock = TaskLock::take(&dir).map_err(Failure::environment)?;
        for step in repeated {
            lock.append(&step.step, Event::Reset).map_err(|error| {
                let advice = sys::remedy(&error, "see that this host can write the campaign's directory");
                Failure::environment(format!("writing the journal in {} - {error} - {advice}", dir.display()))
            })?;
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
