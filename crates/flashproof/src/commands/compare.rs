//! `flashproof report compare`: candidates side by side, from their directories alone.

use crate::args::CompareArgs;
use report::comparison::{Given, built_in, compare, read_published};
use results::judge::Outcome;
use session::console;
use session::failure::Failure;
use session::output_file::write_page;
use session::runner::tool;
use std::process::ExitCode;

/// Reads the candidates, prints warnings, and prints the comparison.
pub fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let ratings = match &args.published {
        Some(path) => read_published(path).map_err(Failure::usage)?,
        None => built_in().map_err(Failure::environment)?,
    };
    let given =
        Given { endurance: args.endurance.by_name(), prices: args.price.clone(), warranty_years: args.warranty };
    let failed = |error: report::comparison::CompareError| match error.is_usage() {
        true => Failure::usage(error),
        false => Failure::environment(error),
    };
    let comparison = compare(&args.dirs, &given, &ratings).map_err(failed)?;
    comparison.warnings.iter().for_each(|warning| console::warning(warning));
    comparison.remarks.iter().for_each(|remark| console::note(remark));
    if !args.endurance.dwpd.is_empty() {
        console::note(&format!("drive writes per day are taken to be rated for {} years (--warranty)", args.warranty));
    }
    if let Some(file) = &args.html {
        write_page(file, &comparison.html(&tool()))?;
    }
    match () {
        () if args.json => {
            console::result(&(serde_json::to_string_pretty(&comparison).map_err(Failure::environment)? + "\n"))?;
        }
        () if args.markdown => console::result(&comparison.markdown())?,
        () => console::page(&comparison.to_string())?,
    }
    let damaged = comparison.candidates.iter().any(|candidate| candidate.damaged);
    Ok(ExitCode::from(if damaged { Outcome::Invalid.exit_code() } else { 0 }))
}
