//! `flashproof prep`, and `act_prep`.

use crate::args::PrepArgs;
use procedures::prep::{Preparation, Style};
use session::failure::Failure;
use session::signals::{Switch, end_by_signal};
use session::{Manner, console};
use std::process::ExitCode;

/// Prepares or verifies the devices, or prints the plan.
pub fn run(args: &PrepArgs, manner: Manner) -> Result<ExitCode, Failure> {
    if args.dry_run {
        console::result(&args.preparation().plan()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let switch = Switch::install("recorded progress is kept; the same command resumes from there", manner)?;
    let style = if manner == Manner::Act && !args.quiet { Style::Plain } else { Style::of(args.quiet) };
    let code = Preparation { style, ..args.preparation() }.run(&switch)?;
    match (manner, switch.was_asked()) {
        (Manner::Act, Some(signal)) => end_by_signal(signal),
        _ => Ok(ExitCode::from(code)),
    }
}
