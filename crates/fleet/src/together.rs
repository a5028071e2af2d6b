//! Judges a step that all drives began at the same instant as one test.

use crate::campaign::CampaignStep;
use crate::journal::{Journal, StepEvent};
use crate::plan::CampaignPlan;
use crate::task_status::{StepState, TaskStatus};
use conclusions::together::{HostRun, MultiHostResult, judge};

/// Results of the steps that all drives began together and that no longer run.
pub(crate) fn results(
    plan: &CampaignPlan,
    tasks: &[TaskStatus],
    journals: &[Journal],
) -> Vec<(String, MultiHostResult)> {
    let mut results = Vec::new();
    for (step_index, step) in plan.campaign.steps.iter().enumerate() {
        let mut states = tasks.iter().map(|task| task.steps[step_index].now);
        if step.together_sec.is_none() || states.any(StepState::is_open) {
            continue;
        }
        let parts: Vec<HostRun> = tasks
            .iter()
            .zip(journals)
            .map(|(task, journal)| part(plan, step, task, journal))
            .collect();
        let agreed_unix_ms = journals
            .iter()
            .rev()
            .find_map(|journal| journal.last_begun(&step.name)?.agreed_unix_ms)
            .unwrap_or(0);
        let result = judge(&parts, agreed_unix_ms)
            .unwrap_or_else(|error| MultiHostResult::undecided(error.to_string()));
        results.push((step.name.clone(), result));
    }
    results
}

fn part(plan: &CampaignPlan, step: &CampaignStep, task: &TaskStatus, journal: &Journal) -> HostRun {
    let step_start = journal.last_begun(&step.name);
    let host = step_start
        .map(|begun| &begun.host)
        .or(task.host.as_ref())
        .map_or("", String::as_str);
    HostRun {
        // Distinguishes several drives of one host.
        host: format!("{host} ({})", task.drive),
        dir: plan.results_dir(task.index, &step.name),
        clock_ahead_ms: step_start
            .and_then(|begun| begun.clock_ahead_ms)
            .unwrap_or(0),
        missing: match journal.state(&step.name) {
            StepEvent::Ended(_) => None,
            StepEvent::Stopped { why }
            | StepEvent::Refused { why }
            | StepEvent::Skipped { why } => Some(why.clone()),
            StepEvent::Reset | StepEvent::Begun(_) => Some("its process is gone".to_owned()),
        },
    }
}
