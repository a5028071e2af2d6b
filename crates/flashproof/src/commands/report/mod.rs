//! `flashproof report`: judges runs again, from their directories alone, and prints the report in one of four forms.
//! `compare` compares candidates, `status` shows the progress of runs and series.

pub mod compare;
#[cfg(feature = "export")]
mod export;
pub mod options;
pub mod status;

use crate::commands::check::write;
use crate::commands::fleet::{listed, report};
use crate::commands::report::options::ReportArgs;
use crate::output::{FormArgs, csv, show};
use conclusions::check::CheckResult;
use device::observe::process::process_state;
use fleet::plan::is_campaign;
use report::check::{Checks, NotRun};
use report::document::Document;
use report::listing::Listing;
use report::status::{CheckStatus, ChecksStatus};
use results::run_dir;
use session::console;
use session::failure::Failure;
use session::run_directory::RESULTS_DIR;
use session::runner::tool;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

pub fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let results = [PathBuf::from(RESULTS_DIR)];
    let dirs = if args.dirs.is_empty() {
        &results
    } else {
        &args.dirs[..]
    };
    if let Some(out) = &args.parquet {
        return export(dirs, out, args.force);
    }
    if let [dir] = dirs
        && is_campaign(dir)
    {
        return report(dir, &args.peers, &args.form, args.anonymous, args.csv);
    }
    if args.anonymous || !args.peers.is_empty() {
        return Err(Failure::usage(
            "cannot use --anonymous or --peers - both apply only to the report of one campaign - give the directory of \
             a campaign",
        ));
    }
    match recorded_checks(dirs)? {
        Some(checks) if args.csv => {
            console::result(&csv(&checks.table())?)?;
            return Ok(ExitCode::from(checks.exit_code));
        }
        Some(checks) => return write(&checks, &args.form, ""),
        None => {}
    }
    if args.csv {
        return Err(Failure::usage(
            "cannot use --csv - only campaigns and checks have CSV output - give the directory of a campaign or a \
             check",
        ));
    }
    let campaigns: Option<Vec<_>> = dirs.iter().map(|dir| listed(dir)).collect();
    if let Some(campaigns) = campaigns {
        return show_listing(&Listing::new(Path::new("."), campaigns), &args.form);
    }
    if let [dir] = dirs
        && run_dir::dir_kind(dir).is_err()
        && let Ok(listing) = Listing::read(dir, &process_state, &listed)
        && !listing.results.is_empty()
    {
        return show_listing(&listing, &args.form);
    }
    if args.dirs.is_empty() {
        return Err(Failure::usage(format!(
            "cannot list results - there are none in {RESULTS_DIR} here - give the directory of a result, or one that \
             holds results"
        )));
    }
    let document = Document::read(dirs).map_err(Failure::environment)?;
    for banner in document.banners() {
        console::warning(&banner);
    }
    show(
        &args.form,
        &document,
        || document.html(),
        || document.markdown(),
        || args.form.unless_page(|| document.text()),
    )?;
    Ok(ExitCode::from(document.outcome().exit_code()))
}

/// Shows the results in a directory. Nothing is judged, so the exit code is 0.
fn show_listing(listing: &Listing, form: &FormArgs) -> Result<ExitCode, Failure> {
    show(
        form,
        listing,
        || listing.html(&tool()),
        || listing.markdown(),
        || form.unless_page(|| listing.text()),
    )?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "export")]
fn export(dirs: &[PathBuf], out: &Path, force: bool) -> Result<ExitCode, Failure> {
    export::run(dirs, out, force)
}

#[cfg(not(feature = "export"))]
fn export(_: &[PathBuf], out: &Path, _: bool) -> Result<ExitCode, Failure> {
    Err(Failure::usage(format!(
        "cannot export to {} - this build of flashproof cannot write Parquet files - use a released package, or build \
         with cargo build --release -p flashproof --features export",
        out.display()
    )))
}

/// The checks recorded in `dirs`, judged again; `None` if one of `dirs` has no check.
fn recorded_checks(dirs: &[PathBuf]) -> Result<Option<Checks>, Failure> {
    let mut checks = Vec::new();
    let mut not_run = Vec::new();
    for dir in dirs {
        if !dir.is_dir() {
            return Ok(None);
        }
        let status = ChecksStatus::read(dir, SystemTime::now(), &process_state);
        let Some(status) = status.map_err(Failure::environment)? else {
            return Ok(None);
        };
        for CheckStatus { name, dir, result } in status.checks {
            match result {
                Some(check) => checks.push(rejudged(check, &dir)?),
                None => not_run.push(NotRun {
                    name,
                    why: "the check still runs, was stopped, or could not run".to_owned(),
                }),
            }
        }
    }
    Ok(Some(Checks::new(checks, not_run, false)))
}

fn rejudged(mut check: CheckResult, dir: &Path) -> Result<CheckResult, Failure> {
    let runs = check
        .runs
        .iter()
        .map(|run| run_dir::read(&dir.join(&run.name)));
    let runs = runs
        .collect::<Result<Vec<_>, _>>()
        .map_err(Failure::environment)?;
    check.rejudge(runs.iter().map(|run| &run.verdict));
    Ok(check)
}
