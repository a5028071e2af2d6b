//! `flashproof report compare`: candidates side by side, from their directories alone.

use crate::args::CompareArgs;
use procedures::select::{compared, ratings};
use results::judge::Outcome;
use session::console;
use session::failure::Failure;
use session::output_file::write_page;
use session::runner::tool;
use std::process::ExitCode;

/// Reads the candidates, prints warnings, and prints the comparison.
pub fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let ratings = ratings(args.published.as_deref())?;
    let comparison = compared(&args.dirs, &args.given.given(args.warranty), &ratings)?;
    if !args.given.dwpd.is_empty() {
        console::note(&format!("drive writes per day are taken to be rated for {} years (--warranty)", args.warranty));
    }
    if let Some(file) = &args.form.html {
        write_page(file, &comparison.html(&tool()))?;
    }
    match () {
        () if args.form.json => {
            console::result(&(serde_json::to_string_pretty(&comparison).map_err(Failure::environment)? + "\n"))?;
        }
        () if args.form.markdown => console::result(&comparison.markdown())?,
        () => console::page(&comparison.to_string())?,
    }
    let damaged = comparison.candidates.iter().any(|candidate| candidate.damaged);
    Ok(ExitCode::from(if damaged { Outcome::Invalid.exit_code() } else { 0 }))
}
