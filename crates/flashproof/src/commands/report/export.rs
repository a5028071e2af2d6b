//! `flashproof report --parquet`: runs, series and campaigns as tables, for SQL.

use crate::commands::fleet::recorded;
use export::{TaskRow, VIEWS, dir_names, export};
use fleet::plan::{CampaignPlan, is_campaign};
use fleet::status::CampaignStatus;
use results::format::{bytes, count};
use session::console;
use session::failure::Failure;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(dirs: &[PathBuf], out: &Path, force: bool) -> Result<ExitCode, Failure> {
    let mut campaigns = Vec::new();
    let named = dirs.iter().zip(dir_names(dirs));
    for (dir, name) in named.filter(|(dir, _)| is_campaign(dir)) {
        let plan = recorded(dir)?;
        let status = CampaignStatus::read(&plan);
        campaigns.push((step_states(&status, &plan, &name), status, plan));
    }
    let tasks: Vec<_> = campaigns
        .iter()
        .flat_map(|(words, status, plan)| rows(status, plan, words))
        .collect();
    let exported = export(dirs, &tasks, out, force).map_err(Failure::environment)?;
    for path in &exported.repeated {
        console::warning(&format!(
            "{path} is left out: it is a copy of a run or series that is already exported"
        ));
    }
    exported
        .unreadable
        .iter()
        .for_each(|why| console::warning(why));
    console::result(&format!(
        "exported {} and {} series to {}: {}, {}; to query: cd {} && duckdb -init {VIEWS}\n",
        count(exported.runs, "run"),
        exported.series,
        out.display(),
        count(exported.rows, "row"),
        bytes(exported.bytes as f64),
        console::shell_quoted(&out.to_string_lossy()),
    ))?;
    Ok(ExitCode::from(if exported.unreadable.is_empty() {
        0
    } else {
        3
    }))
}

/// For each step of each drive: path of its results, beginning with the directory's `name`, and its state.
fn step_states(status: &CampaignStatus, plan: &CampaignPlan, name: &str) -> Vec<(String, String)> {
    let words = status.steps().map(|(task, step)| {
        let results = plan.results_dir(task.index, &step.step);
        let below = results.strip_prefix(&plan.dir).unwrap_or(&results);
        (
            format!("{name}/{}", below.display()),
            step.now.text().to_lowercase(),
        )
    });
    words.collect()
}

fn rows<'a>(
    status: &'a CampaignStatus,
    plan: &'a CampaignPlan,
    words: &'a [(String, String)],
) -> impl Iterator<Item = TaskRow<'a>> {
    status
        .steps()
        .zip(words)
        .map(|((task, step), (path, state))| {
            let drive = &plan.drives[task.index].drive;
            let serial = if drive.is_simulated() {
                &drive.path
            } else {
                drive.serial.as_ref().unwrap_or(&drive.id)
            };
            TaskRow {
                campaign: &status.name,
                task: task.index as u64,
                step: &step.step,
                path,
                hostname: step.host.as_deref(),
                drive: &drive.id,
                model: drive.model.as_deref(),
                serial: Some(serial),
                firmware: drive.firmware.as_deref(),
                slot: drive.slot.as_deref(),
                state,
                note: &step.note,
                attempts: step.attempts as u64,
            }
        })
}
