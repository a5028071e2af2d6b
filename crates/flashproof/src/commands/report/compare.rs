//! `flashproof report compare`: compares candidates.

use crate::candidates::{compared, ratings};
use crate::commands::report::options::CompareArgs;
use crate::output::csv;
use results::judge::Outcome;
use session::console;
use session::failure::Failure;
use session::runner::tool;
use session::user_file::write_page;
use std::process::ExitCode;

pub fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let ratings = ratings(args.published.as_deref())?;
    let comparison = compared(&args.dirs, &args.given.given(args.warranty), &ratings)?;
    if !args.given.dwpd.is_empty() {
        console::note(&format!(
            "drive writes per day are assumed to be rated for {} years (--warranty)",
            args.warranty
        ));
    }
    if let Some(file) = &args.form.html {
        write_page(file, &comparison.html(&tool()))?;
    }
    if args.form.json {
        console::result(&crate::output::json(&comparison)?)?
    } else if args.csv {
        console::result(&csv(&comparison.table())?)?
    } else if args.form.markdown {
        console::result(&comparison.markdown())?
    } else {
        console::page(&comparison.to_string())?
    }
    let damaged = comparison
        .candidates
        .iter()
        .any(|candidate| candidate.damaged);
    Ok(ExitCode::from(if damaged {
        Outcome::Invalid.exit_code()
    } else {
        0
    }))
}
