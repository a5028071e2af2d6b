//! flashproof: whether a flash device holds a database's load, how much of it, and whose fault it is
//! when it does not.
//!
//! This crate joins the rooms: options in, one file a command, messages and exit codes out. What it
//! runs, measures and judges is in the other crates.

#![forbid(unsafe_code)]
// Nobody can call a binary, so all of it would be "unreachable".
#![allow(unreachable_pub)]

mod args;
mod commands;
mod devices;
mod engine;
mod failure;
mod progress;
mod recording;
mod say;
mod signals;

use args::{Invocation, parse};
use commands::{prep, test::Manner};
use failure::Failure;
use std::process::ExitCode;

/// What ACT's programs exit with when they cannot do their work.
const ACT_FAILURE: u8 = 255;

fn main() -> ExitCode {
    say::tame_panics();
    let told = |failure: Failure| {
        say::error(&failure.message);
        failure.exit_code()
    };
    match parse() {
        Invocation::Test(test, args) => commands::test::run(test, &args, Manner::Verdict).unwrap_or_else(told),
        Invocation::ActTest(test, args) => match commands::test::run(test, &args, Manner::ActLog).map_err(told) {
            Ok(code) => code,
            Err(_) => ExitCode::from(ACT_FAILURE),
        },
        Invocation::Prep(args) => commands::prep::run(&args, prep::Manner::Bars).unwrap_or_else(told),
        Invocation::ActPrep(args) => match commands::prep::run(&args, prep::Manner::Act).map_err(told) {
            Ok(ExitCode::SUCCESS) => ExitCode::SUCCESS,
            _ => ExitCode::from(ACT_FAILURE),
        },
        Invocation::Latency(args) => commands::latency::run(&args, commands::latency::Manner::House),
        Invocation::ActLatency(args) => commands::latency::run(&args, commands::latency::Manner::Act),
        Invocation::Report(args) => commands::report::run(&args).unwrap_or_else(told),
    }
}
