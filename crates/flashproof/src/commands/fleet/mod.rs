//! `flashproof fleet`: campaigns.

pub mod options;

use crate::cli::check_words;
use crate::commands::fleet::options::{Fleet, InitArgs, InventoryArgs, RunArgs};
use crate::output::{FormArgs, csv, done, show, watch};
use fleet::inventory::Inventory;
use fleet::plan::CampaignPlan;
use fleet::status::CampaignStatus;
use fleet::{campaign, slurm, start, task};
use session::console;
use session::failure::Failure;
use session::user_file::write_file;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(fleet: &Fleet) -> Result<ExitCode, Failure> {
    match fleet {
        Fleet::Inventory(args) => inventory(args)?,
        Fleet::Init(args) => init_file(args)?,
        Fleet::Plan(args) => console::result(&plan(&args.dir)?.text())?,
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

/// `flashproof report` of a campaign. `anonymous`: drives and hosts have pseudonyms. `as_csv`: text is the table of
/// drives.
pub fn report(
    dir: &Path,
    form: &FormArgs,
    anonymous: bool,
    as_csv: bool,
) -> Result<ExitCode, Failure> {
    let plan = recorded(dir)?;
    let (campaign, status) = fleet::results::read(&plan, anonymous)?;
    let base = link_base(form.html.as_deref(), &plan.dir);
    let text = if as_csv {
        csv(&campaign.table())?
    } else {
        campaign.text()
    };
    show(
        form,
        &campaign,
        || campaign.html(&base),
        || campaign.markdown(),
        || text,
    )?;
    Ok(ExitCode::from(status.exit_code()))
}

/// Path of `dir` relative to the directory of `page`, for links: a folder with both can be moved.
fn link_base(page: Option<&Path>, dir: &Path) -> String {
    let parent = page
        .and_then(Path::parent)
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).unwrap_or_default();
    let pairs = parent.components().zip(dir.components());
    let common = pairs.take_while(|(a, b)| a == b).count();
    let mut base = PathBuf::from(".");
    base.extend(parent.components().skip(common).map(|_| ".."));
    base.extend(dir.components().skip(common));
    format!("{}/", base.display())
}

/// The plan of the next start, by an absolute path: tasks have other working directories.
fn plan(dir: &Path) -> Result<CampaignPlan, Failure> {
    CampaignPlan::read(&absolute(dir)?, &|words| check_words(words))
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
    let plan = plan(&args.campaign.dir)?.start()?;
    match start::run(&plan, args.failed)? {
        None => {
            let status = CampaignStatus::read(&plan);
            console::result(&status.text())?;
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
pub fn status(dir: &Path, is_repeated: bool, json: bool) -> Result<ExitCode, Failure> {
    let plan = recorded(dir)?;
    let mut code = 0;
    watch(is_repeated, json, || {
        let status = CampaignStatus::read(&plan);
        code = status.exit_code();
        let text = if json {
            serde_json::to_string(&status).map_err(Failure::environment)? + "\n"
        } else {
            status.text()
        };
        Ok((text, status.is_over()))
    })?;
    Ok(ExitCode::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_from_the_page_to_the_campaign_by_a_relative_path() {
        let dir = fs::canonicalize(env!("CARGO_MANIFEST_DIR")).unwrap();
        let lab = dir.join("results/lab");
        for (page, base) in [
            (dir.join("lab.html"), "./results/lab/"),
            (dir.join("src/lab.html"), "./../results/lab/"),
            (dir.join("../lab.html"), "./flashproof/results/lab/"),
        ] {
            assert_eq!(link_base(Some(&page), &lab), base);
        }
    }
}
