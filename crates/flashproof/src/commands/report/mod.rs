//! `flashproof report`: judges runs again, from their directories alone, and prints the report in one of four forms.
//! `compare` compares candidates, `status` shows the progress of runs and series.

pub mod compare;
#[cfg(feature = "export")]
mod export;
pub mod options;
pub mod status;

use crate::commands::check::write;
use crate::commands::report::options::ReportArgs;
use crate::output::show;
use conclusions::check::{CHECK, CheckResult};
use fleet::campaign::CAMPAIGN;
use report::check::Checks;
use report::document::Document;
use results::run_dir;
use session::console;
use session::failure::Failure;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    if let Some(out) = &args.parquet {
        return export(args, out);
    }
    if let [dir] = &args.dirs[..]
        && dir.join(CAMPAIGN).is_file()
    {
        return crate::commands::fleet::report(dir, &args.form, args.anonymous, args.csv);
    }
    if args.anonymous || args.csv {
        let option = if args.csv { "--csv" } else { "--anonymous" };
        return Err(Failure::usage(format!(
            "cannot use {option} - only the report of a campaign has this form - give the directory of a campaign"
        )));
    }
    if let Some(checks) = checks_in(&args.dirs)? {
        return write(&checks, &args.form, "");
    }
    let document = Document::read(&args.dirs).map_err(Failure::environment)?;
    for banner in document.banners() {
        console::warning(&banner);
    }
    show(
        &args.form,
        &document,
        || document.html(),
        || document.markdown(),
        || document.text(),
    )?;
    Ok(ExitCode::from(document.outcome().exit_code()))
}

#[cfg(feature = "export")]
fn export(args: &ReportArgs, out: &Path) -> Result<ExitCode, Failure> {
    export::run(&args.dirs, out, args.force)
}

#[cfg(not(feature = "export"))]
fn export(_: &ReportArgs, out: &Path) -> Result<ExitCode, Failure> {
    Err(Failure::usage(format!(
        "cannot export to {} - this build of flashproof cannot write Parquet files - use a released package, or build \
         with cargo build --release -p flashproof --features export",
        out.display()
    )))
}

/// The checks recorded in `dirs`; `None` if they are runs or series.
fn checks_in(dirs: &[PathBuf]) -> Result<Option<Checks>, Failure> {
    let mut checks = Vec::new();
    for dir in dirs {
        if !dir.join(CHECK).is_file() {
            return Ok(None);
        }
        let Some(mut check) = CheckResult::read(dir).map_err(Failure::environment)? else {
            return Ok(None);
        };
        let runs = check
            .runs
            .iter()
            .map(|run| run_dir::read(&dir.join(&run.name)));
        let runs = runs
            .collect::<Result<Vec<_>, _>>()
            .map_err(Failure::environment)?;
        check.rejudge(runs.iter().map(|run| &run.verdict));
        checks.push(check);
    }
    Ok((!checks.is_empty()).then(|| Checks::new(checks, Vec::new(), false)))
}
