//! The commands.

pub mod baseline;
pub mod certify;
pub mod check;
pub mod doctor;
pub mod engine;
pub mod fio;
pub mod fleet;
pub mod latency;
pub mod prep;
pub mod rate;
pub mod report;
pub mod size;
pub mod storage;
pub mod trace;
pub mod waf;

use crate::cli::Command;
use crate::cli::help::{completions, man_pages, page as help_page};
use crate::commands::latency::options::{LatencyCommand, OtherLog};
use crate::commands::latency::server::options::LogLatencyArgs;
use crate::commands::rate::options::OtherRating;
use crate::commands::report::options::OtherReport;
use crate::commands::storage::options::OtherLoad;
use crate::output::done;
use act::options::Test;
use session::CompatMode;
use session::failure::Failure;
use std::process::ExitCode;

pub fn run(command: &Command, compat_mode: CompatMode) -> Result<ExitCode, Failure> {
    match command {
        Command::Storage(storage) => match &storage.other {
            Some(OtherLoad::Tenants(args)) => storage::tenants::run(args),
            None if storage.replay.replay.is_some() => storage::replay::run(storage),
            None => storage::run(Test::Storage, &storage.test, compat_mode),
        },
        Command::Index(args) => storage::run(Test::Index, args, compat_mode),
        Command::Act(test, args) => storage::run(*test, args, compat_mode),
        Command::Fio(args) => fio::run(args, compat_mode),
        Command::Certify(args) => certify::run(args),
        Command::Rate(rate) => match &rate.other {
            Some(OtherRating::Predict(args)) => rate::predict::run::predict(args),
            None => rate::run(&rate.search),
        },
        Command::Baseline(args) => baseline::run(args),
        Command::Check(args) => check::run(args),
        Command::Doctor(args) if args.plugin => doctor::plugin::run(args),
        Command::Doctor(args) if args.lists() => doctor::list(args),
        Command::Doctor(args) => doctor::examine(args),
        Command::Prep(args) => prep::run(args, compat_mode),
        Command::Report(report) => match &report.other {
            Some(OtherReport::Compare(args)) => report::compare::run(args),
            Some(OtherReport::Status(args)) => report::status::run(args),
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
                    &LogLatencyArgs::from_args(args).map_err(Failure::usage)?,
                    compat_mode,
                )
            }
            LatencyCommand { args, .. } => latency::run(args),
        },
        Command::Asloglatency(args) => latency::server::run(args, compat_mode),
        Command::Size(size) => size::run(size),
        Command::Trace(args) => trace::run(args),
        Command::Waf(waf) => waf::run(waf),
        Command::Engine(engine) => engine::run(engine),
        Command::Fleet(args) => fleet::run(args),
        Command::Help(args) => match &args.man {
            Some(dir) => man_pages(dir).map(|()| ExitCode::SUCCESS),
            None => done(&help_page(&args.words)?),
        },
        Command::Completions(args) => done(&completions(args)?),
    }
}
