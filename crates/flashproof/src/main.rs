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
mod console;
mod cross_check;
mod devices;
mod engine;
mod failure;
mod formatting;
mod in_process;
mod input;
mod leave;
mod output_file;
mod placement;
mod progress;
mod recording;
mod runner;
mod screen;
mod series;
mod signals;
mod stderr;
mod tracing;

use args::{Invocation, Task, parse};
use commands::Manner;
use failure::ACT_FAILURE;
use std::process::ExitCode;

fn main() -> ExitCode {
    leave::tame_panics();
    signals::outlive_file_size_limit();
    let Invocation { task, manner } = parse();
    if task.is_quiet() {
        console::be_quiet();
    }
    let ended = match task {
        Task::Test(test, args) => commands::test::run(test, &args, manner),
        Task::Replay(args) => commands::replay::run(&args),
        Task::Tenants(args) => commands::tenants::run(&args),
        Task::Client(args) => commands::client::run(&args),
        Task::Transactions(args) => commands::transactions::run(&args),
        Task::Prep(args) => commands::prep::run(&args, manner),
        Task::Latency(args) => commands::latency::run(&args),
        Task::LogLatency(args) => commands::loglatency::run(&args, manner),
        Task::Config(args) => commands::config::run(&args),
        Task::Certify(args) => commands::certify::run(&args),
        Task::Rate(args) => commands::rate::run(&args),
        Task::Baseline(args) => commands::baseline::run(&args),
        Task::Predict(args) => commands::predict::run(&args),
        Task::Size(args) => commands::size::run(&args),
        Task::Status(args) => commands::status::run(&args),
        Task::Compare(args) => commands::compare::run(&args),
        Task::Align(args) => commands::align::run(&args),
        Task::Select(args) => commands::select::run(&args),
        Task::Fio(args) => commands::fio::run(&args, manner),
        Task::Doctor(args) => commands::doctor::run(&args),
        Task::Devices(args) => commands::devices::run(&args),
        Task::Cluster(args) => commands::cluster::run(&args),
        Task::Trace(args) => commands::trace::run(&args),
        Task::Waf(args) => commands::waf::run(&args),
        Task::Serve(args) => commands::serve::run(&args),
        Task::Report(args) => commands::report::run(&args),
    };
    let code = ended.unwrap_or_else(|failure| {
        console::error(&failure.message);
        failure.exit_code()
    });
    console::flush();
    match manner {
        Manner::Act if code != ExitCode::SUCCESS => ExitCode::from(ACT_FAILURE),
        Manner::Fio if code != ExitCode::SUCCESS => ExitCode::FAILURE,
        _ => code,
    }
}
