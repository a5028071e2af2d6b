//! The command line: commands, their options and their help.

mod engine;
mod fleet;
mod help;
mod loads;
mod plan;
mod prepare;
mod reports;
mod series;
mod waf;

pub use engine::{AccessArgs, Auth, ClientArgs, RowKind, ServeArgs, TransactionsArgs};
pub use fleet::{CampaignArgs, Fleet, FleetStatusArgs, InitArgs, InventoryArgs, RunArgs};
pub use help::{CompletionsArgs, HelpArgs, completions, man_pages, page as help_page};
pub use loads::{FIO_HELP, FioArgs, RecordArgs, StorageArgs, TestArgs};
pub use plan::{CollectArgs, ConfigArgs, Instant, NodeArgs, RestoreArgs, SelectArgs, SizeArgs};
pub use prepare::{DoctorArgs, PrepArgs};
pub use reports::{
    ACT_USAGE, CompareArgs, FormArgs, Format, LatencyArgs, LogLatencyArgs, ReportArgs, StatusArgs,
    TraceArgs, from as log_from,
};
pub use results::units::seconds;
pub use series::{CheckArgs, PredictArgs, RateArgs};
pub use waf::{OnDriveArgs, WafMeasureArgs, WafModelArgs, WafPrepArgs, WafSetupArgs};

use crate::commands::baseline::BaselineOptions;
use crate::commands::certify::CertifyOptions;
use crate::commands::size::align::Alignment;
use crate::configuration::{percent, positive};
use act::options::Test;
use clap::{ArgAction, ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use report::comparison::CandidateDir;
use results::units;
use session::CompatMode;
use session::console;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A parsed command line, and the program to imitate.
pub struct Invocation {
    /// The command with its options.
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
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/storage.txt")))]
    Storage(Box<StorageArgs>),
    /// Run ACT's index test: 4 KiB reads and page updates
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/index.txt")))]
    Index(TestArgs),
    /// Run fio's command lines and job files, with a verdict
    #[command(disable_help_flag = true)]
    Fio(FioArgs),
    /// Certify devices for a load, in stages of a day; ERASES them
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/certify.txt")))]
    Certify(Box<CertifyOptions>),
    /// Find the highest load that devices hold; ERASES them
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/rate.txt")))]
    Rate(Box<RateArgs>),
    /// Measure drives under fio's jobs, depth by depth; ERASES them
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/baseline.txt")))]
    Baseline(Box<BaselineOptions>),
    /// Check if a disk is good enough for a database
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/check.txt")))]
    Check(Box<CheckArgs>),
    /// List devices, and show which are safe to test; find problems
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/doctor.txt")))]
    Doctor(DoctorArgs),
    /// Precondition devices: zeros, then random data; ERASES them
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/prep.txt")))]
    Prep(PrepArgs),
    /// Judge runs from their directories, watch them, compare them
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/report.txt")))]
    Report(Box<ReportArgs>),
    /// Show the share of operations over each threshold, from logs
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/latency.txt")))]
    Latency(Box<LatencyCommand>),
    /// Derive the load of a cluster's drives; select drives for the load
    #[command(subcommand)]
    Size(Sizing),
    /// Show what reaches a device, from the kernel's block tracepoints
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/trace.txt")))]
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
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/completions.txt")))]
    Completions(CompletionsArgs),
    /// A call under the name `act_storage` or `act_index`.
    #[command(skip)]
    Act(Test, TestArgs),
    /// A call under the name `asloglatency`.
    #[command(skip)]
    Asloglatency(LogLatencyArgs),
}

/// Loads that ACT's configuration cannot describe.
#[derive(Subcommand, Debug)]
pub enum OtherLoad {
    /// Run log-structured record stores that share a drive, with a verdict for each; ERASES their devices
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/tenants.txt")))]
    Tenants(Box<TestArgs>),
}

/// Ratings that need no run.
#[derive(Subcommand, Debug)]
pub enum OtherRating {
    /// Predict the rating of a drive and its interval from a baseline, in seconds
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/predict.txt")))]
    Predict(Box<PredictArgs>),
}

/// Other views of run directories.
#[derive(Subcommand, Debug)]
pub enum OtherReport {
    /// Compare runs or series: load held, wear, price, published ratings
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/compare.txt")))]
    Compare(Box<CompareArgs>),
    /// Show the progress of a run or series, from another terminal, while it runs or afterwards
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/status.txt")))]
    Status(StatusArgs),
}

/// `flashproof latency`: tables from ACT's logs, runs and servers' logs. The content of a log shows its kind.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_flag = true
)]
pub struct LatencyCommand {
    /// Other logs
    #[command(subcommand)]
    pub other: Option<OtherLog>,
    /// Log of act_storage, act_index, flashproof or a server, plain or compressed; or a run directory
    #[arg(value_name = "FILE")]
    pub files: Vec<String>,
    #[command(flatten)]
    pub args: LatencyArgs,
}

/// A server's logs, with all options of asloglatency.
#[derive(Subcommand)]
pub enum OtherLog {
    /// Show a histogram of a server's log by slices of time, as asloglatency does
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/latency-server.txt")), disable_help_flag = true)]
    Server(LogLatencyArgs),
}

/// The steps from a live cluster to the drives that it needs.
#[derive(Subcommand)]
pub enum Sizing {
    /// Collect the data for a profile from a live cluster into one folder: statistics of each node, logs, iostat
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/collect.txt")))]
    Collect(Box<CollectArgs>),
    /// Restore the nodes' settings after a collection was killed
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/restore.txt")))]
    Restore(Box<RestoreArgs>),
    /// Derive the load of a cluster's drives from the servers' logs, and write a test configuration with this load
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/profile.txt")))]
    Profile(Box<SizeArgs>),
    /// Adjust a configuration that has histograms until a device gets the I/O of a cluster's drive; ERASES the device
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/align.txt")))]
    Align(Box<Alignment>),
    /// Compute how many drives of each candidate a cluster needs, now and scaled, and which limit binds
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/select.txt")))]
    Select(Box<SelectArgs>),
    /// Write the configuration of a test: by questions, by options, or from a configuration of any ACT version
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/config.txt")))]
    Config(Box<ConfigArgs>),
}

/// Commands about a drive's write amplification.
#[derive(Subcommand)]
pub enum Waf {
    /// Predict write amplification on a simulated drive, for tenants on dedicated and on shared drives
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/waf-model.txt")))]
    Model(Box<WafModelArgs>),
    /// Measure a drive's write amplification from its counters; ERASES the drive
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/waf-measure.txt")))]
    Measure(Box<WafMeasureArgs>),
    /// Compare preparations for random writes on a simulated drive
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/waf-prep.txt")))]
    Prep(WafPrepArgs),
    /// Print (but do not run) the nvme-cli commands that add placement handles (FDP) to a namespace, or remove them
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/waf-setup.txt")))]
    Setup(WafSetupArgs),
}

/// The record engine, its client and its benchmark.
#[derive(Subcommand)]
pub enum RecordEngine {
    /// Serve records on a drive to Aerospike clients; ERASES other data on the drive
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/serve.txt")))]
    Serve(ServeArgs),
    /// Read and write records of an Aerospike or flashproof server, with a verdict; WRITES to its namespace
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/client.txt")))]
    Client(Box<ClientArgs>),
    /// Measure transactions per second of a record engine, and find the bottleneck; ERASES the drive
    #[command(after_long_help = help::lay_out_examples(include_str!("args/examples/bench.txt")))]
    Bench(Box<TransactionsArgs>),
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
            command: Command::Fio(loads::fio_words(arguments)),
            compat_mode: CompatMode::Fio,
            quiet: false,
        },
        Some(name @ ("act_storage" | "act_index")) => {
            let test = if name == "act_index" {
                Test::Index
            } else {
                Test::Storage
            };
            let args = loads::parse_test_as_act(test, arguments);
            act_invocation(args.record.quiet, Command::Act(test, args))
        }
        Some("act_prep") => {
            let args = prepare::parse_prep_as_act(arguments);
            act_invocation(args.quiet, Command::Prep(args))
        }
        Some("act_latency.py" | "act_latency") => {
            let args = reports::parse_latency_as_act(arguments);
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
            Command::Asloglatency(reports::parse_as_asloglatency(arguments)),
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
        .unwrap_or_else(|error| exit(&error, 2));
    let quiet = is_quiet(&matches);
    let mut command = Cli::from_arg_matches(&matches)
        .unwrap_or_else(|error| exit(&error, 2))
        .command;
    if let Command::Latency(latency) = &mut command {
        latency.args.typed = reports::typed(&arguments, 2);
        latency.args.logs.append(&mut latency.files);
    }
    Invocation {
        command,
        compat_mode: CompatMode::Native,
        quiet,
    }
}

/// Parses the words of a command line after the program's name. Errors: the reason, one sentence.
pub fn check_words(words: &[String]) -> Result<(), String> {
    let name = std::iter::once("flashproof").chain(words.iter().map(String::as_str));
    help::full_command()
        .try_get_matches_from(name)
        .map(drop)
        .map_err(|error| {
            let text = error.render().to_string();
            text.lines()
                .next()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .to_owned()
        })
}

/// True if the innermost command has the flag `--quiet`, and it was given.
fn is_quiet(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, inner)) => is_quiet(inner),
        None => matches
            .try_get_one("quiet")
            .is_ok_and(|given| given == Some(&true)),
    }
}

/// The command line of another program, called `name`, with the options `A`.
fn program<A: Args>(name: &'static str, about: &'static str) -> clap::Command {
    A::augment_args(clap::Command::new(name))
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
}

/// Parses the arguments of another program.
fn parse_as<A: FromArgMatches>(
    program: clap::Command,
    arguments: Vec<OsString>,
) -> Result<A, clap::Error> {
    A::from_arg_matches(&program.try_get_matches_from(arguments)?)
}

/// Prints help or a usage error, and exits with ACT's exit code.
fn exit_as_act<A>(error: clap::Error) -> A {
    exit(&error, session::failure::ACT_FAILURE.into())
}

/// Prints help or a usage error, and exits: with code 0 after help, with code `mistake` after an error.
fn exit(error: &clap::Error, mistake: i32) -> ! {
    let text = error.render().to_string();
    if text.contains(units::is_unprintable) {
        // Printed without colours, because an argument contains characters that would move the cursor.

        console::notice(text.trim_end());
        console::flush();
    } else {
        // Write errors are ignored: the terminal may be closed.
        drop(error.print())
    }
    std::process::exit(if error.use_stderr() { mistake } else { 0 })
}

/// Parses `DIR` or `NAME=DIR`. An existing directory with `=` in its path is a `DIR`.
fn parse_named_dir(text: &str) -> Result<CandidateDir, String> {
    match text.split_once('=') {
        Some((name, dir)) if !name.is_empty() && !dir.is_empty() && !Path::new(text).exists() => {
            Ok(CandidateDir {
                name: Some(name.to_owned()),
                dir: dir.into(),
            })
        }
        _ => Ok(CandidateDir {
            name: None,
            dir: text.into(),
        }),
    }
}

/// Parses `NAME=N`. The name may contain `=`.
fn number(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.rsplit_once('=').ok_or("write NAME=NUMBER")?;
    if name.is_empty() {
        return Err("the name before \"=\" is missing".to_owned());
    }
    Ok((name.to_owned(), positive(value)?))
}
