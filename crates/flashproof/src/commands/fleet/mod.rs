//! `flashproof fleet`: campaigns.

pub mod options;

use crate::cli::check_words;
use crate::commands::fleet::options::{Fleet, InitArgs, InventoryArgs, RunArgs};
use crate::output::{FormArgs, csv, done, show, watch};
use fleet::inventory::Inventory;
use fleet::plan::{CampaignPlan, is_campaign};
use fleet::rehearsal::rehearse;
use fleet::status::CampaignStatus;
use fleet::{campaign, slurm, start, task};
use report::listing::ListedResult;
use session::console;
use session::failure::Failure;
use session::user_file::write_file;
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(fleet: &Fleet) -> Result<ExitCode, Failure> {
    match fleet {
        Fleet::Inventory(args) => inventory(args)?,
        Fleet::Init(args) => init_file(args)?,
        Fleet::Plan(args) => console::result(&plan_text(&args.dir)?)?,
        Fleet::Run(args) => return start_or_go_on(args),
        Fleet::Status(args) => return status(&args.campaign.dir, args.watch, args.json),
        Fleet::Cancel(args) => start::cancel(&recorded(&args.dir)?.for_tasks()?)?,
        Fleet::Task(args) => {
            let mut plan = recorded(&args.campaign.dir)?.for_tasks()?;
            if plan.id.is_empty() {
                plan = plan.start()?;
            }
            return task::run(&plan, args.index, args.step.as_deref());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `flashproof report` of a campaign. `peers`: campaigns whose drives are further peers. `anonymous`: drives and hosts
/// have pseudonyms. `as_csv`: the text form is the table of bad drives as CSV.
pub fn report(
    dir: &Path,
    peers: &[PathBuf],
    form: &FormArgs,
    anonymous: bool,
    as_csv: bool,
) -> Result<ExitCode, Failure> {
    let plan = recorded(dir)?;
    let peers: Result<Vec<_>, _> = peers.iter().map(|dir| recorded(dir)).collect();
    let status = CampaignStatus::read(&plan);
    let campaign = fleet::results::read(&plan, &status, &peers?, anonymous)?;
    let base = form
        .html
        .as_deref()
        .and_then(|page| link_base(page, &plan.dir));
    let text = if as_csv {
        csv(&campaign.table())?
    } else {
        campaign.text()
    };
    show(
        form,
        &campaign,
        || campaign.html(base.as_deref()),
        || campaign.markdown(),
        || text,
    )?;
    Ok(ExitCode::from(status.exit_code()))
}

/// Path of `dir` relative to a `page` below `dir`, for links. A page elsewhere has no links, because a reader may get
/// the page without `dir`.
fn link_base(page: &Path, dir: &Path) -> Option<String> {
    let parent = page
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()?;
    let below = parent.strip_prefix(dir).ok()?;
    Some(format!("./{}", "../".repeat(below.components().count())))
}

/// The campaign in `dir` for a list of results; `None` if `dir` has no campaign.
pub fn listed(dir: &Path) -> Option<ListedResult> {
    let listed = is_campaign(dir).then(|| {
        let plan = recorded(dir)?;
        compared(dir, &plan, &CampaignStatus::read(&plan))
    })?;
    Some(listed.unwrap_or_else(|failure| ListedResult::damaged(failure.message)))
}

fn compared(
    dir: &Path,
    plan: &CampaignPlan,
    status: &CampaignStatus,
) -> Result<ListedResult, Failure> {
    let campaign = fleet::results::read(plan, status, &[], false)?;
    Ok(ListedResult::of_campaign(dir, &campaign))
}

fn plan_text(dir: &Path) -> Result<String, Failure> {
    let erases = Cell::new(false);
    let plan = plan(dir, &erases, Err)?;
    let tasks: Vec<usize> = (0..plan.drives.len()).collect();
    let erased = plan.erased_text(&tasks).filter(|_| erases.get());
    Ok(erased.map_or_else(String::new, |line| line + "\n") + &plan.text())
}

/// The plan of the next start, by an absolute path, because tasks have other working directories. A step whose command
/// accepts `--dry-run` is rehearsed with this option; `refused` gets the reason if the rehearsal is refused. Sets
/// `erases` if the command of a step accepts `--erase`, and its rehearsal does not show that the command only reads.
fn plan(
    dir: &Path,
    erases: &Cell<bool>,
    refused: fn(String) -> Result<bool, String>,
) -> Result<CampaignPlan, Failure> {
    let dir = absolute(dir)?;
    CampaignPlan::read(&dir, &|words| {
        check_words(words)?;
        let takes = |option: &str| check_words(&[words, &[option.to_owned()]].concat()).is_ok();
        let only_reads = takes("--dry-run") && rehearse(&dir, words).or_else(refused)?;
        erases.set(erases.get() || takes("--erase=sim:") && !only_reads);
        Ok(())
    })
}

/// The plan of the last start.
pub(super) fn recorded(dir: &Path) -> Result<CampaignPlan, Failure> {
    CampaignPlan::recorded(&absolute(dir)?, &|words| check_words(words))
}

fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    fs::canonicalize(dir).map_err(|error| {
        let advice = "give the directory of a campaign; \"flashproof fleet inventory --out DIR\" creates one";
        Failure::usage(format!("cannot open the campaign {} - {error} - {advice}", dir.display()))
    })
}

fn inventory(args: &InventoryArgs) -> Result<(), Failure> {
    if args.slurm {
        let dir = args.out.clone().unwrap_or_default();
        results::files::create_dirs(&dir).map_err(|error| {
            Failure::environment(format!(
                "cannot create the directory {} - {error} - give another --out",
                dir.display()
            ))
        })?;
        let dir = absolute(&dir)?;
        let down_nodes = slurm::inventory(&dir, &args.slurm_option)?;
        if !down_nodes.is_empty() {
            console::warning(&format!(
                "no inventory of {}: these nodes are not up - \"sinfo -R\" shows the reasons",
                down_nodes.join(", ")
            ));
        }
        let inventories: Vec<Inventory> = Inventory::read_all(&dir)?
            .into_iter()
            .map(|(_, inventory)| inventory)
            .collect();
        return console::result(&Inventory::table(&inventories));
    }
    let inventory = match &args.simulated {
        Some(spec) => Inventory::simulated(spec, args.count)?,
        None => Inventory::of_this_host(),
    };
    if let Some(dir) = &args.out {
        let path = inventory.write(dir)?;
        console::note(&format!("inventory: {}", path.display()));
    }
    if args.json {
        console::result(&crate::output::json(&inventory)?)
    } else if args.quiet && args.out.is_some() {
        Ok(())
    } else {
        console::result(&Inventory::table(&[inventory]))
    }
}

fn init_file(args: &InitArgs) -> Result<(), Failure> {
    let dir = absolute(&args.campaign.dir)?;
    let text = campaign::template(&dir, &Inventory::read_all(&dir)?, args.slurm);
    let path = dir.join(campaign::CAMPAIGN);
    write_file("campaign", &path, Some(&text), args.force)?;
    console::result(&format!(
        "{} is written; edit it, then run\n  flashproof fleet plan {}\n",
        path.display(),
        console::shell_quoted(&dir.display().to_string())
    ))
}

fn start_or_go_on(args: &RunArgs) -> Result<ExitCode, Failure> {
    let dir = &args.campaign.dir;
    let erases = Cell::new(false);
    let plan = plan(dir, &erases, |_| Ok(false))?.start()?;
    match start::run(&plan, args.failed, erases.get())? {
        None => {
            let status = CampaignStatus::read(&plan);
            let campaign = fleet::results::read(&plan, &status, &[], false)?;
            console::result(&format!("{}\n{}", status.text(dir), campaign.answer()))?;
            Ok(ExitCode::from(status.exit_code()))
        }
        Some(0) => done("nothing to submit: every step has a result or is in the queue\n"),
        Some(tasks) => done(&format!(
            "submitted {tasks} tasks of campaign {}; flashproof fleet status shows them\n",
            plan.campaign.name
        )),
    }
}

/// Shows the state of the campaign in `dir`, once or until nothing runs.
fn status(dir: &Path, is_repeated: bool, json: bool) -> Result<ExitCode, Failure> {
    let mut code = 0;
    watch(is_repeated, json, || {
        let page = status_page(dir, json)?;
        code = page.exit_code;
        Ok((page.text, page.is_over))
    })?;
    Ok(ExitCode::from(code))
}

/// Status of a campaign, a run or a series.
pub struct StatusPage {
    /// For people, or as JSON.
    pub text: String,
    pub is_over: bool,
    pub exit_code: u8,
}

/// The state of the campaign in `dir`. Once every step has ended, the text includes the outcome of the comparison.
pub fn status_page(dir: &Path, json: bool) -> Result<StatusPage, Failure> {
    let plan = recorded(dir)?;
    let status = CampaignStatus::read(&plan);
    let mut text = status.text(dir);
    if json {
        text = serde_json::to_string(&status).map_err(Failure::environment)? + "\n";
    } else if status.is_complete() {
        let ListedResult {
            outcome, headline, ..
        } = compared(dir, &plan, &status)?;
        let outcome = outcome.to_uppercase();
        let dir = console::shell_quoted(&dir.display().to_string());
        text += &format!("\n{outcome}: {headline}\nDo: flashproof report {dir}\n");
    }
    Ok(StatusPage {
        text,
        is_over: status.is_over(),
        exit_code: status.exit_code(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_page_has_links_only_if_saved_below_the_directory_of_the_campaign() {
        let dir = fs::canonicalize(env!("CARGO_MANIFEST_DIR")).unwrap();
        for (page, base) in [
            ("lab.html", Some("./")),
            ("src/lab.html", Some("./../")),
            ("../lab.html", None),
        ] {
            assert_eq!(link_base(&dir.join(page), &dir).as_deref(), base);
        }
    }
}
