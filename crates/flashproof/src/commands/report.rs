//! `flashproof report`: judges runs again, from their directories alone, and prints the report in one of four forms.

use super::check::write;
use crate::args::ReportArgs;
use report::check::Checks;
use report::document::Document;
use results::check::{CHECK, Check};
use results::run_dir;
use results::units;
use session::console;
use session::failure::Failure;
use session::output_file::write_page;
use std::path::PathBuf;
use std::process::ExitCode;

/// Reads and judges the directories, prints warnings, and writes the report in the requested form.
pub fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    if let Some(checks) = checks_in(&args.dirs)? {
        return write(&checks, &args.form, "");
    }
    let document = Document::read(&args.dirs).map_err(Failure::environment)?;
    for banner in document.banners() {
        console::warning(&banner);
    }
    if let Some(file) = &args.form.html {
        let page = document.html();
        write_page(file, &page)?;
        console::note(&format!("wrote {} ({})", file.display(), units::bytes(page.len() as f64)));
    }
    if args.form.json {
        console::result(&document.json().map_err(Failure::environment)?)?;
    } else if args.form.markdown {
        console::result(&document.markdown())?;
    } else {
        console::page(&document.text())?;
    }
    Ok(ExitCode::from(document.outcome().exit_code()))
}

/// The checks recorded in `dirs`; `None` if they are runs or series.
fn checks_in(dirs: &[PathBuf]) -> Result<Option<Checks>, Failure> {
    let mut checks = Vec::new();
    for dir in dirs {
        if !dir.join(CHECK).is_file() {
            return Ok(None);
        }
        let Some(mut check) = Check::read(dir).map_err(Failure::environment)? else { return Ok(None) };
        let runs = check.runs.iter().map(|run| run_dir::read(&dir.join(&run.name)));
        let runs = runs.collect::<Result<Vec<_>, _>>().map_err(Failure::environment)?;
        check.rejudge(runs.iter().map(|run| &run.verdict));
        checks.push(check);
    }
    Ok((!checks.is_empty()).then(|| Checks::new(checks, Vec::new())))
}
