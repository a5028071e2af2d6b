//! The command line: commands, their options and their help.

pub mod help;

use crate::commands::baseline::BaselineOptions;
use crate::commands::certify::options::CertifyOptions;
use crate::commands::check::options::CheckArgs;
use crate::commands::doctor::options::DoctorArgs;
use crate::commands::engine::RecordEngine;
use crate::commands::fio::options::FioArgs;
use crate::commands::fleet::options::Fleet;
use crate::commands::latency::options::LatencyCommand;
use crate::commands::latency::server::options::LogLatencyArgs;
use crate::commands::prep::options::PrepArgs;
use crate::commands::rate::options::RateArgs;
use crate::commands::report::options::ReportArgs;
use crate::commands::size::Sizing;
use crate::commands::storage::options::{StorageArgs, TestArgs};
use crate::commands::trace::options::TraceArgs;
use crate::commands::waf::options::Waf;
use crate::imitated::exit;
use act::options::Test;
use clap::{ArgAction, ArgMatches, FromArgMatches, Parser, Subcommand};
use help::{CompletionsArgs, HelpArgs};
use session::{CompatMode, console};
use std::ffi::{OsStr, OsString};
use std::path::Path;

pub struct Invocation {
    pub command: Command,
    /// Program whose output and exit codes the command imitates.
    pub compat_mode: CompatMode,
    /// True to print only results, warnings and errors.
    pub quiet: bool,
}

/// The command line interface: name, description, options and examples of each command, in one place.
#[derive(Parser)]
#[command(
    name = "flashproof",
    version,
    about = "Shows whether a flash device holds a database's load, and the cause if it does not",
    after_help = "Exit codes: 0 pass or done, 1 fail, 2 usage, 3 environment (device, permission,\nkernel), 4 invalid \
                  run, 70 a bug in flashproof",
    arg_required_else_help = true,
    disable_help_subcommand = true,
    disable_version_flag = true
)]
struct Cli {
    /// Print version
    #[arg(short = 'V', short_alias = 'v', long, action = ArgAction::Version)]
    version: Option<bool>,
    #[command(subcommand)]
    command: Command,
}

/// A command with its options. `help::GROUPS` assigns the heading in the help.
#[derive(Subcommand)]
pub enum Command {
    /// Run ACT's storage test, or the loads of tenants on one drive
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("commands/storage/examples.txt")))]
    Storage(Box<StorageArgs>),
    /// Run ACT's index test: 4 KiB reads and page updates
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("commands/storage/index-examples.txt")))]
    Index(TestArgs),
    /// Run fio's command lines and job files, with a verdict
    #[command(disable_help_flag = true)]
    Fio(FioArgs),
    /// Certify devices for a load, in stages of a day; ERASES them
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("commands/certify/examples.txt")))]
    Certify(Box<CertifyOptions>),
    /// Find the highest load that devices hold; ERASES them
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("commands/rate/examples.txt")))]
    Rate(Box<RateArgs>),
    /// Measure drives under fio's jobs, depth by depth; ERASES them
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("commands/baseline/examples.txt")))]
    Baseline(Box<BaselineOptions>),
    /// Check if a disk is good enough for a database
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("commands/check/examples.txt")))]
    Check(Box<CheckArgs>),
    /// List devices, and show which are safe to test; find problems
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("commands/doctor/examples.txt")))]
    Doctor(DoctorArgs),
    /// Precondition devices: zeros, then random data; ERASES them
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("commands/prep/examples.txt")))]
    Prep(PrepArgs),
    /// Judge runs from their directories, watch them, compare them
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("commands/report/examples.txt")))]
    Report(Box<ReportArgs>),
    /// Show the share of operations over each threshold, from logs
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("commands/latency/examples.txt")))]
    Latency(Box<LatencyCommand>),
    /// Derive the load of a cluster's drives; select drives for the load
    #[command(subcommand)]
    Size(Sizing),
    /// Show what reaches a device, from the kernel's block tracepoints
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("commands/trace/examples.txt")))]
    Trace(TraceArgs),
    /// Show write amplification, on one drive and with placement handles
    #[command(subcommand)]
    Waf(Waf),
    /// Run a record server, its client, and a benchmark of both
    #[command(subcommand)]
    Engine(RecordEngine),
    /// Test many drives: on many hosts with Slurm, or on this machine
    #[command(subcommand)]
    Fleet(Fleet),
    /// Print the help of a command, or the keys of a configuration file
    Help(HelpArgs),
    /// Print a completion script for a shell
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("cli/completions-examples.txt")))]
    Completions(CompletionsArgs),
    /// A call under the name `act_storage` or `act_index`.
    #[command(skip)]
    Act(Test, TestArgs),
    /// A call under the name `asloglatency`.
    #[command(skip)]
    Asloglatency(LogLatencyArgs),
}

/// Parses the command line. Help and usage errors are printed, and the program exits.
pub fn parse() -> Invocation {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let called = arguments
        .first()
        .map(Path::new)
        .and_then(Path::file_name)
        .and_then(OsStr::to_str)
        .map(str::to_owned);
    match called.as_deref() {
        Some("fio") => Invocation {
            command: Command::Fio(crate::commands::fio::options::fio_words(arguments)),
            compat_mode: CompatMode::Fio,
            quiet: false,
        },
        Some(name @ ("act_storage" | "act_index")) => {
            let test = if name == "act_index" {
                Test::Index
            } else {
                Test::Storage
            };
            let args = crate::commands::storage::options::parse_test_as_act(test, arguments);
            act_invocation(args.record.quiet, Command::Act(test, args))
        }
        Some("act_prep") => {
            let args = crate::commands::prep::options::parse_prep_as_act(arguments);
            act_invocation(args.quiet, Command::Prep(args))
        }
        Some("act_latency.py" | "act_latency") => {
            let args = crate::commands::latency::options::parse_latency_as_act(arguments);
            act_invocation(
                false,
                Command::Latency(Box::new(LatencyCommand {
                    other: None,
                    files: Vec::new(),
                    args,
                })),
            )
        }
        Some("act_config_helper.py" | "act_config_helper") => {
            // ACT's helper asks for each value, and supports only the storage test.
            let words = [
                "flashproof",
                "size",
                "config",
                "--ask",
                "--model",
                "storage",
            ]
            .map(OsString::from);
            parse_own(
                words
                    .into_iter()
                    .chain(arguments.into_iter().skip(1))
                    .collect(),
            )
        }
        Some("asloglatency") => act_invocation(
            false,
            Command::Asloglatency(
                crate::commands::latency::server::options::parse_as_asloglatency(arguments),
            ),
        ),
        _ => parse_own(arguments),
    }
}

fn act_invocation(quiet: bool, command: Command) -> Invocation {
    Invocation {
        command,
        compat_mode: CompatMode::Act,
        quiet,
    }
}

/// Parses the command line of a call under the name `flashproof`.
fn parse_own(arguments: Vec<OsString>) -> Invocation {
    let command = help::full_command();
    if let Some(error) = help::suggestion(&command, &arguments) {
        console::error(&error);
        console::flush();
        std::process::exit(2);
    }
    let matches = command
        .try_get_matches_from(arguments.clone())
        .unwrap_or_else(|error| refuse(error, &arguments));
    let quiet = is_quiet(&matches);
    let mut command = Cli::from_arg_matches(&matches)
        .unwrap_or_else(|error| refuse(error, &arguments))
        .command;
    if let Command::Latency(latency) = &mut command {
        latency.args.typed = crate::commands::latency::options::typed(&arguments, 2);
        latency.args.logs.append(&mut latency.files);
    }
    Invocation {
        command,
        compat_mode: CompatMode::Native,
        quiet,
    }
}

/// Checks the arguments after the program's name. Errors: the first line of clap's error.
pub fn check_words(words: &[String]) -> Result<(), String> {
    let name = std::iter::once("flashproof").chain(words.iter().map(String::as_str));
    help::full_command()
        .try_get_matches_from(name)
        .map(drop)
        .map_err(|error| reason(&error))
}

fn reason(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.lines().next().unwrap_or_default();
    first.trim_start_matches("error: ").to_owned()
}

/// Prints help or a usage error, and exits. With `--plugin`, the error has the output and exit code of a plugin.
fn refuse(error: clap::Error, arguments: &[OsString]) -> ! {
    if error.use_stderr() && arguments.iter().any(|word| word == "--plugin") {
        crate::commands::doctor::plugin::refuse(&reason(&error));
    }
    exit(error, 2)
}

/// True if the innermost subcommand was given `--quiet`.
fn is_quiet(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, inner)) => is_quiet(inner),
        None => matches
            .try_get_one("quiet")
            .is_ok_and(|given| given == Some(&true)),
    }
}
