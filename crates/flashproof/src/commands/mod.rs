//! The commands.

pub mod check;
pub mod client;
pub mod cluster;
pub mod config;
#[cfg(feature = "export")]
mod export;
pub mod fio;
pub mod fleet;
pub mod latency;
pub mod loglatency;
pub mod predict;
pub mod prepare;
mod record;
pub mod report;
pub mod serve;
pub mod size;
pub mod storage;
pub mod trace;
pub mod transactions;
pub mod waf;

use crate::args::{
    Command, LatencyCommand, LogLatencyArgs, OtherLoad, OtherLog, OtherRating, OtherReport,
    RecordEngine, Sizing, Waf, completions, help_page, man_pages,
};
use load::workload::act::options::Test;
use procedures::{align, baseline, certify, rate};
use serde::Serialize;
use session::failure::Failure;
use session::{CompatMode, console};
use std::process::ExitCode;

/// Prints the result of a command that succeeded.
fn done(text: &str) -> Result<ExitCode, Failure> {
    console::result(text).map(|()| ExitCode::SUCCESS)
}

/// `value` as JSON, with a newline at the end.
fn json(value: &(impl Serialize + ?Sized)) -> Result<String, Failure> {
    ::report::json(value).map_err(Failure::environment)
}

/// Runs `command` with the behaviour of `compat_mode`.
pub fn run(command: &Command, compat_mode: CompatMode) -> Result<ExitCode, Failure> {
    match command {
        Command::Storage(storage) => match &storage.other {
            Some(OtherLoad::Tenants(args)) => storage::tenants(args),
            None if storage.replay.replay.is_some() => storage::replay(storage),
            None => storage::run(Test::Storage, &storage.test, compat_mode),
        },
        Command::Index(args) => storage::run(Test::Index, args, compat_mode),
        Command::Act(test, args) => storage::run(*test, args, compat_mode),
        Command::Fio(args) => fio::run(args, compat_mode),
        Command::Certify(args) => certify::run(args),
        Command::Rate(rate) => match &rate.other {
            Some(OtherRating::Predict(args)) => predict::run(args),
            None => rate::run(&rate.search),
        },
        Command::Baseline(args) => baseline::run(args),
        Command::Check(args) => check::run(args),
        Command::Doctor(args) if args.lists() => prepare::list(args),
        Command::Doctor(args) => prepare::examine(args),
        Command::Prep(args) => prepare::prep(args, compat_mode),
        Command::Report(report) => match &report.other {
            Some(OtherReport::Compare(args)) => report::compare(args),
            Some(OtherReport::Status(args)) => report::status(args),
            None => report::run(report),
        },
        Command::Latency(latency) => match latency.as_ref() {
            LatencyCommand {
                other: Some(OtherLog::Server(args)),
                ..
            } => loglatency::run(args, compat_mode),
            LatencyCommand { args, .. }
                if compat_mode == CompatMode::Native && loglatency::are_of_server(&args.logs) =>
            {
                loglatency::run(
                    &LogLatencyArgs::of(args).map_err(Failure::usage)?,
                    compat_mode,
                )
            }
            LatencyCommand { args, .. } => latency::run(args),
        },
        Command::Asloglatency(args) => loglatency::run(args, compat_mode),
        Command::Size(Sizing::Collect(args)) => cluster::collect(args),
        Command::Size(Sizing::Restore(args)) => cluster::restore(args),
        Command::Size(Sizing::Profile(args)) => size::run(args),
        Command::Size(Sizing::Align(args)) => align::run(args).map(|()| ExitCode::SUCCESS),
        Command::Size(Sizing::Select(args)) => size::select(args),
        Command::Size(Sizing::Config(args)) => config::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Waf(Waf::Model(args)) => waf::model(args),
        Command::Waf(Waf::Measure(args)) => waf::measure(args),
        Command::Waf(Waf::Prep(args)) => waf::prep(args),
        Command::Waf(Waf::Setup(args)) => waf::setup(args),
        Command::Engine(RecordEngine::Serve(args)) => serve::run(args),
        Command::Engine(RecordEngine::Client(args)) => client::run(args),
        Command::Engine(RecordEngine::Bench(args)) => transactions::run(args),
        Command::Fleet(args) => fleet::run(args),
        Command::Help(args) => match &args.man {
            Some(dir) => man_pages(dir).map(|()| ExitCode::SUCCESS),
            None => done(&help_page(&args.words)?),
        },
        Command::Completions(args) => done(&completions(args)?),
    }
}
