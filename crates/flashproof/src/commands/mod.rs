//! The commands.

pub mod baseline;
pub mod certify;
pub mod check;
pub mod doctor;
pub mod engine;
pub mod fio;
pub mod fleet;
pub mod latency;
pub mod rate;
pub mod report;
pub mod size;
pub mod storage;
pub mod trace;
pub mod waf;

use crate::args::{
    Command, LatencyCommand, LogLatencyArgs, OtherLoad, OtherLog, OtherRating, OtherReport,
    RecordEngine, Sizing, Waf, completions, help_page, man_pages,
};
use act::options::Test;
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
            Some(OtherRating::Predict(args)) => rate::predict::run::run(args),
            None => rate::run(&rate.search),
        },
        Command::Baseline(args) => baseline::run(args),
        Command::Check(args) => check::run(args),
        Command::Doctor(args) if args.lists() => doctor::list(args),
        Command::Doctor(args) => doctor::examine(args),
        Command::Prep(args) => doctor::prep(args, compat_mode),
        Command::Report(report) => match &report.other {
            Some(OtherReport::Compare(args)) => report::compare(args),
            Some(OtherReport::Status(args)) => report::status(args),
            None => report::run(report),
        },
        Command::Latency(latency) => match latency.as_ref() {
            LatencyCommand {
                other: Some(OtherLog::Server(args)),
                ..
            } => latency::server::run(args, compat_mode),
            LatencyCommand { args, .. }
                if compat_mode == CompatMode::Native
                    && latency::server::are_of_server(&args.logs) =>
            {
                latency::server::run(
                    &LogLatencyArgs::of(args).map_err(Failure::usage)?,
                    compat_mode,
                )
            }
            LatencyCommand { args, .. } => latency::run(args),
        },
        Command::Asloglatency(args) => latency::server::run(args, compat_mode),
        Command::Size(Sizing::Collect(args)) => size::collect::collect(args),
        Command::Size(Sizing::Restore(args)) => size::collect::restore(args),
        Command::Size(Sizing::Profile(args)) => size::profile::run(args),
        Command::Size(Sizing::Align(args)) => size::align::run(args).map(|()| ExitCode::SUCCESS),
        Command::Size(Sizing::Select(args)) => size::profile::select(args),
        Command::Size(Sizing::Config(args)) => size::config::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Waf(Waf::Model(args)) => waf::model(args),
        Command::Waf(Waf::Measure(args)) => waf::measure(args),
        Command::Waf(Waf::Prep(args)) => waf::prep(args),
        Command::Waf(Waf::Setup(args)) => waf::setup(args),
        Command::Engine(RecordEngine::Serve(args)) => engine::serve::run(args),
        Command::Engine(RecordEngine::Client(args)) => engine::client::run(args),
        Command::Engine(RecordEngine::Bench(args)) => engine::bench::run(args),
        Command::Fleet(args) => fleet::run(args),
        Command::Help(args) => match &args.man {
            Some(dir) => man_pages(dir).map(|()| ExitCode::SUCCESS),
            None => done(&help_page(&args.words)?),
        },
        Command::Completions(args) => done(&completions(args)?),
    }
}
