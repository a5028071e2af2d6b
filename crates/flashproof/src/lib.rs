//! flashproof tests whether a flash device holds a database's load, and how much of it, and finds the cause if not.
//!
//! This crate is the command line: options, commands, messages and exit codes. The other crates run,
//! measure and judge.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]
// Users of this library need only [`run`].
#![allow(unreachable_pub)]

mod access;
mod candidates;
mod cli;
mod commands;
mod configuration;
#[cfg(test)]
#[path = "../../results/tests/common/docs_page.rs"]
mod docs_page;
mod examples;
mod fio_run;
mod imitated;
mod output;
mod preparation;
mod record;
mod series;

use cli::Invocation;
use report::table::wrap_texts;
use session::failure::ACT_FAILURE;
use session::{CompatMode, console, signals};
use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// Runs the command line of this process, by the name under which it was called. Returns the exit code.
pub fn run() -> ExitCode {
    signals::report_panics_as_bugs();
    signals::outlive_file_size_limit();
    let Invocation {
        command,
        compat_mode,
        quiet,
    } = cli::parse();
    if quiet {
        console::be_quiet();
    }
    if compat_mode == CompatMode::Native && io::stdout().is_terminal() {
        // Some tables are indented by two columns.
        wrap_texts(console::columns(io::stdout()).saturating_sub(2));
    }
    let result = commands::run(&command, compat_mode);
    let code = result.unwrap_or_else(|failure| {
        console::error(&failure.message);
        failure.exit_code()
    });
    console::flush();
    match compat_mode {
        CompatMode::Act if code != ExitCode::SUCCESS => ExitCode::from(ACT_FAILURE),
        CompatMode::Fio if code != ExitCode::SUCCESS => ExitCode::FAILURE,
        _ => code,
    }
}
