//! `flashproof prep`: writes whole devices before a test, or compares a sample with the written data.

pub mod options;

use crate::commands::prep::options::PrepArgs;
use crate::output::done;
use crate::preparation::{Preparation, ProgressStyle};
use session::CompatMode;
use session::failure::Failure;
use session::signals::{SignalHandler, end_by_signal};
use std::process::ExitCode;

pub fn run(args: &PrepArgs, compat_mode: CompatMode) -> Result<ExitCode, Failure> {
    if args.dry_run {
        return done(&args.preparation().plan()?);
    }
    let signal_handler = SignalHandler::install(
        "recorded progress is kept; the same command resumes from there",
        compat_mode,
    )?;
    let style = if compat_mode == CompatMode::Act && !args.quiet {
        ProgressStyle::Plain
    } else {
        ProgressStyle::from_quiet(args.quiet)
    };
    let code = Preparation {
        style,
        ..args.preparation()
    }
    .run(&signal_handler)?;
    match (compat_mode, signal_handler.signal_received()) {
        (CompatMode::Act, Some(signal)) => end_by_signal(signal),
        _ => Ok(code.unwrap_or(ExitCode::SUCCESS)),
    }
}
