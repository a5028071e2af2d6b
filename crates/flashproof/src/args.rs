//! The command line: commands, their options and their help.

mod align;
mod baseline;
mod certify;
mod client;
mod cluster;
mod compare;
mod config;
mod doctor;
mod fio;
mod help;
mod latency;
mod loglatency;
mod predict;
mod prep;
mod rate;
mod replay;
mod report;
mod select;
mod series;
mod serve;
mod size;
mod status;
mod tenants;
mod trace;
mod transactions;
mod waf;

pub use align::AlignArgs;
pub use baseline::BaselineArgs;
pub use certify::CertifyArgs;
pub use client::{ClientArgs, RecordArgs};
pub use cluster::{AccessArgs, Auth, ClusterArgs, ClusterCommand, CollectArgs, RestoreArgs};
pub use compare::CompareArgs;
pub use config::{ConfigArgs, seconds};
pub use doctor::{DevicesArgs, DoctorArgs};
pub use fio::{FioArgs, help as fio_help, job_options as fio_job_options};
pub use latency::{ACT_USAGE, Format, LatencyArgs};
pub use loglatency::{LogLatencyArgs, from as log_from};
pub use predict::{PredictArgs, PredictedLoadArgs};
pub use prep::PrepArgs;
pub use rate::RateArgs;
pub use replay::StorageArgs;
pub use report::ReportArgs;
pub use select::SelectArgs;
pub use series::SeriesArgs;
pub use serve::ServeArgs;
pub use size::{Instant, SizeArgs};
pub use status::StatusArgs;
pub use tenants::TenantsArgs;
pub use trace::TraceArgs;
pub use transactions::{RowKind, TransactionsArgs};
pub use waf::WafArgs;

use crate::commands::Manner;
use crate::console;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use load::workload::act::options::Test;
use load::workload::act::reference::help_text;
use results::judge::Sla;
use results::units;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

impl Task {
    /// Whether nothing is to be said but results, warnings and errors.
    pub fn is_quiet(&self) -> bool {
        match self {
            Self::Test(_, args) => args.quiet,
            Self::Replay(args) => args.test.quiet,
            Self::Tenants(args) => args.test.quiet,
            Self::Client(args) => args.record.quiet,
            Self::Transactions(args) => args.record.quiet,
            Self::Prep(args) => args.quiet,
            Self::Certify(args) => args.series.quiet,
            Self::Rate(args) => args.series.quiet,
            Self::Baseline(args) => args.series.quiet,
            Self::Predict(args) => args.quiet,
            Self::Align(args) => args.quiet,
            _ => false,
        }
    }
}

/// What was asked for, and as whose program.
pub struct Invocation {
    /// What to do.
    pub task: Task,
    /// As whose program.
    pub manner: Manner,
}

/// A command with its options.
pub enum Task {
    /// `flashproof storage`, `flashproof index`, `act_storage`, `act_index`
    Test(Test, TestArgs),
    /// `flashproof storage --replay`
    Replay(Box<StorageArgs>),
    /// `flashproof tenants`
    Tenants(Box<TenantsArgs>),
    /// `flashproof client`
    Client(Box<ClientArgs>),
    /// `flashproof transactions`
    Transactions(Box<TransactionsArgs>),
    /// `flashproof prep`, `act_prep`
    Prep(PrepArgs),
    /// `flashproof latency`, `act_latency.py`
    Latency(LatencyArgs),
    /// `flashproof loglatency`, `asloglatency`
    LogLatency(LogLatencyArgs),
    /// `flashproof report`
    Report(ReportArgs),
    /// `flashproof compare`
    Compare(CompareArgs),
    /// `flashproof status`
    Status(StatusArgs),
    /// `flashproof config`
    Config(Box<ConfigArgs>),
    /// `flashproof certify`
    Certify(Box<CertifyArgs>),
    /// `flashproof rate`
    Rate(Box<RateArgs>),
    /// `flashproof baseline`
    Baseline(Box<BaselineArgs>),
    /// `flashproof predict`
    Predict(PredictArgs),
    /// `flashproof size`
    Size(Box<SizeArgs>),
    /// `flashproof align`
    Align(Box<AlignArgs>),
    /// `flashproof select`
    Select(Box<SelectArgs>),
    /// `flashproof fio`, `fio`
    Fio(FioArgs),
    /// `flashproof doctor`
    Doctor(DoctorArgs),
    /// `flashproof devices`
    Devices(DevicesArgs),
    /// `flashproof cluster`
    Cluster(ClusterArgs),
    /// `flashproof trace`
    Trace(TraceArgs),
    /// `flashproof waf`
    Waf(Box<WafArgs>),
    /// `flashproof serve`
    Serve(ServeArgs),
}

#[derive(Parser)]
#[command(
    name = "flashproof",
    version,
    about = "Shows whether a flash device holds a database's load, and whose fault it is when it does not",
    after_help = "Exit codes: 0 pass or done, 1 fail, 2 usage, 3 environment (device, permission, kernel), 4 invalid run",
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an ACT storage test: record reads, large-block reads and writes, and a verdict
    Storage(StorageArgs),
    /// Run an ACT index test: 4 KiB reads, page updates by cache threads, and a verdict
    Index(TestArgs),
    /// Run log-structured record stores that share a drive, with a verdict for each; ERASES what they write on
    Tenants(Box<TenantsArgs>),
    /// Show how many transactions a record engine does on a drive and what limits them; ERASES the drive
    Transactions(Box<TransactionsArgs>),
    /// Read and write records of a database, Aerospike's or our own, with a verdict; WRITES to its namespace
    Client(Box<ClientArgs>),
    /// Show which share of operations took longer than what, from the logs of ACT or of runs
    Latency(LatencyArgs),
    /// Show a histogram of a server's log by slices of time, as asloglatency does
    Loglatency(LogLatencyArgs),
    /// Write devices from end to end, so that a test meets a drive in use; ERASES them
    Prep(PrepArgs),
    /// Judge runs again, from their directories alone: as text, HTML with charts, Markdown, JSON
    Report(ReportArgs),
    /// Show how a run or a series stands, from another terminal, while it runs or afterwards
    Status(StatusArgs),
    /// Lay runs or series side by side: what each held, at what wear and price, and among published ratings
    Compare(CompareArgs),
    /// Write the configuration of a test: asked for, by options, or from another one of any ACT
    Config(Box<ConfigArgs>),
    /// Certify devices for a load, in stages of a day, and go on after any interruption; ERASES them
    Certify(Box<CertifyArgs>),
    /// Find the highest load that devices hold, step by step from below; ERASES them
    Rate(Box<RateArgs>),
    /// Measure what drives do under fio's jobs: depths, profiles, latency against throughput; ERASES them
    Baseline(Box<BaselineArgs>),
    /// Predict the rating of a drive from its baseline, in seconds, with an interval
    Predict(PredictArgs),
    /// Derive the load of a live cluster's drives from its logs, and write a test's configuration of it
    Size(Box<SizeArgs>),
    /// Adjust a configuration with histograms until what reaches a device is what a cluster's drive had; ERASES it
    Align(Box<AlignArgs>),
    /// Tell how many drives of each candidate a cluster's load needs, now and scaled, and what limits them
    Select(Box<SelectArgs>),
    /// Run fio's jobs, from its command lines and job files, with a verdict
    #[command(disable_help_flag = true)]
    Fio(FioArgs),
    /// Show what about this host and its devices will spoil a result, and what to do about it
    Doctor(DoctorArgs),
    /// Show the block devices of this machine, what is on them, and whether they are safe to test
    Devices(DevicesArgs),
    /// Collect from a live cluster what a sizing needs
    Cluster(ClusterArgs),
    /// Show what reaches a device: sizes, rates, queue and device times, from whom; from the block tracepoints
    Trace(TraceArgs),
    /// Show the write amplification and latencies of tenants with a drive each, on one drive, and with placement handles
    Waf(Box<WafArgs>),
    /// Serve records to clients of Aerospike: a record engine on a drive; ERASES what else is on it
    Serve(ServeArgs),
}

#[derive(Parser)]
#[command(
    version,
    about = "Run an ACT test as ACT's program does: the log on standard output, exit code 0 on completion"
)]
struct ActCli {
    #[command(flatten)]
    args: TestArgs,
}

/// What the binary is when it is called by the name of one of ACT's programs, of asloglatency, or of fio.
#[derive(Clone, Copy)]
enum Alias {
    Test(Test),
    Prep,
    Latency,
    LogLatency,
    Fio,
}

/// Those names.
const ALIASES: [(&str, Alias); 7] = [
    ("fio", Alias::Fio),
    ("act_storage", Alias::Test(Test::Storage)),
    ("act_index", Alias::Test(Test::Index)),
    ("act_prep", Alias::Prep),
    ("act_latency.py", Alias::Latency),
    ("act_latency", Alias::Latency),
    ("asloglatency", Alias::LogLatency),
];

/// Options of a storage or index test.
#[derive(Args, Debug)]
pub struct TestArgs {
    /// Configuration file in ACT's dialect, one "name: value" a line. Several are run at once, on the same
    /// devices or on others, each with a verdict of its own beside the one of all
    #[arg(value_name = "CONFIG", required = true)]
    pub configs: Vec<PathBuf>,
    /// Run directory: manifest, logs, histograms, verdict [default: flashproof-TEST-TIME here]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Allow the erasure of this device, by its serial number, wwid, by-id link or path; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Let other runs that say so too use the devices at the same time
    #[arg(long)]
    pub shared: bool,
    /// What the verdict allows: shares of operations that may be slower than a threshold
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default(), allow_hyphen_values = true, value_parser = Sla::wanted)]
    pub sla: Sla,
    /// Length of a slice of the verdict: 1h, 30m, or a number of seconds; the worst slice decides
    #[arg(long, value_name = "TIME", default_value_t = 3600, allow_hyphen_values = true, value_parser = seconds)]
    pub slice: u32,
    #[command(flatten)]
    pub patience: Patience,
    /// Pace and spread operations as ACT 6 does, to compare with its results (arrival: act)
    #[arg(long)]
    pub as_act: bool,
    /// Do not sample the kernel's block tracepoints (0.5 s in every 30, as root), which tell the kernel's
    /// part of a latency from the device's
    #[arg(long)]
    pub no_trace: bool,
    /// Show the configuration as resolved and the rates that follow, and touch no device
    #[arg(long)]
    pub dry_run: bool,
    /// Say the verdict, warnings and errors only
    #[arg(long, short)]
    pub quiet: bool,
}

/// Limits of failure: a run that goes beyond one ends as failed.
#[derive(Args, Debug, Clone, Copy)]
pub struct Patience {
    /// Stop after more failed operations than this; any fails the run
    #[arg(long, value_name = "N", default_value_t = 1000, allow_hyphen_values = true, value_parser = count)]
    pub max_errors: u64,
    /// After the end, give up a device with operations in flight that returns nothing for so long: 60, 5m
    #[arg(long, value_name = "TIME", default_value_t = HANG_SEC, allow_hyphen_values = true, value_parser = seconds)]
    pub hang: u32,
}

/// Twice the kernel's usual timeout of an operation.
const HANG_SEC: u32 = (load::run::HANG_NS / 1_000_000_000) as u32;

impl Patience {
    /// With so many errors, and the usual time without an answer.
    pub const fn with_errors(max_errors: u64) -> Self {
        Self { max_errors, hang: HANG_SEC }
    }
}

/// A number of things, from none.
fn count(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("give a whole number from 0 to {}", u64::MAX))
}

const STORAGE_EXAMPLES: &str = "\
Examples:
  flashproof storage act_storage.conf                     a device that holds nothing, or only our own data
  flashproof storage act_storage.conf --erase S64ANX0T402     in a script: allow the erasure, by serial number
  flashproof storage demo.conf --out runs/demo            with \"device-names: sim:\" in it: no device at all
  flashproof storage act_storage.conf --dry-run           check the file, show the rates
  flashproof storage act_storage.conf --as-act            comparable with published ACT results
  flashproof storage act_storage.conf --sla \"5%>1ms,1%>8ms\"
  flashproof storage --replay ops.txt --device /dev/nvme1n1    what flashproof trace --ops recorded

Reading needs no consent. Writing does: see docs/guard.md. The environment variable FLASHPROOF_ERASE
names devices as --erase does. A terminal that goes away does not end a run: \"flashproof status DIR\" tells
how it goes.";

const INDEX_EXAMPLES: &str = "\
Examples:
  flashproof index act_index.conf                         a device that holds nothing, or only our own data
  flashproof index act_index.conf --erase S64ANX0T402    in a script: allow the erasure, by serial number
  flashproof index demo.conf --out runs/index             with \"device-names: sim:\" in it: no device at all
  flashproof index act_index.conf --dry-run               check the file, show the rates
  flashproof index act_index.conf --as-act                ACT's threads, and its bundles of 100 page updates

Reading needs no consent. Writing does: see docs/guard.md. The environment variable FLASHPROOF_ERASE
names devices as --erase does. A terminal that goes away does not end a run: \"flashproof status DIR\" tells
how it goes.";

/// Reads the command line. Prints help or usage errors and exits where that is all there is to do.
pub fn parse() -> Invocation {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    match ALIASES.into_iter().find(|(name, _)| called.is_some_and(|called| called == *name)) {
        Some((_, Alias::Fio)) => Invocation { task: Task::Fio(fio::words(arguments)), manner: Manner::Fio },
        Some((name, alias)) => Invocation { task: act_task(name, alias, arguments), manner: Manner::Act },
        None => Invocation { task: own_task(arguments), manner: Manner::Own },
    }
}

fn act_task(name: &'static str, alias: Alias, arguments: Vec<OsString>) -> Task {
    match alias {
        Alias::Test(test) => Task::Test(test, parse_as_act(name, test, arguments)),
        Alias::Prep => Task::Prep(prep::parse_as_act(arguments)),
        Alias::Latency => Task::Latency(latency::parse_as_act(arguments)),
        Alias::LogLatency => Task::LogLatency(loglatency::parse_as_asloglatency(arguments)),
        Alias::Fio => Task::Fio(fio::words(arguments)),
    }
}

fn own_task(arguments: Vec<OsString>) -> Task {
    let command = Cli::command()
        .mut_subcommand("storage", |command| replay::beside(with_options(command, Test::Storage)))
        .mut_subcommand("index", |command| with_options(command, Test::Index))
        .mut_subcommand("tenants", tenants::beside)
        .mut_subcommand("client", |client| client.after_help(help::laid_out(client::EXAMPLES)))
        .mut_subcommand("transactions", |command| command.after_help(help::laid_out(transactions::EXAMPLES)))
        .mut_subcommand("latency", latency::with_examples)
        .mut_subcommand("loglatency", |command| command.after_help(help::laid_out(loglatency::EXAMPLES)))
        .mut_subcommand("prep", |prep| prep.after_help(help::laid_out(prep::EXAMPLES)))
        .mut_subcommand("report", |report| report.after_help(help::laid_out(report::EXAMPLES)))
        .mut_subcommand("status", |status| status.after_help(help::laid_out(status::EXAMPLES)))
        .mut_subcommand("compare", |compare| compare.after_help(help::laid_out(compare::EXAMPLES)))
        .mut_subcommand("config", config::with_examples)
        .mut_subcommand("certify", |certify| certify.after_help(help::laid_out(certify::EXAMPLES)))
        .mut_subcommand("rate", |rate| rate.after_help(help::laid_out(rate::EXAMPLES)))
        .mut_subcommand("baseline", |command| command.after_help(help::laid_out(baseline::EXAMPLES)))
        .mut_subcommand("predict", |command| command.after_help(help::laid_out(predict::EXAMPLES)))
        .mut_subcommand("size", |size| size.after_help(help::laid_out(size::EXAMPLES)))
        .mut_subcommand("align", |align| align.after_help(help::laid_out(align::EXAMPLES)))
        .mut_subcommand("select", |select| select.after_help(help::laid_out(select::EXAMPLES)))
        .mut_subcommand("doctor", |command| command.after_help(help::laid_out(doctor::DOCTOR_EXAMPLES)))
        .mut_subcommand("cluster", cluster::with_examples)
        .mut_subcommand("devices", |command| command.after_help(help::laid_out(doctor::DEVICES_EXAMPLES)))
        .mut_subcommand("trace", |command| command.after_help(help::laid_out(trace::EXAMPLES)))
        .mut_subcommand("waf", |command| command.after_help(help::laid_out(waf::EXAMPLES)))
        .mut_subcommand("serve", |command| command.after_help(help::laid_out(serve::EXAMPLES)));
    let matches = command.try_get_matches_from(arguments.clone());
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches)).unwrap_or_else(|error| exit(&error, 2));
    match cli.command {
        Command::Storage(args) if args.replay.replay.is_some() => Task::Replay(Box::new(args)),
        Command::Storage(args) => Task::Test(Test::Storage, args.test),
        Command::Index(args) => Task::Test(Test::Index, args),
        Command::Tenants(args) => Task::Tenants(args),
        Command::Client(args) => Task::Client(args),
        Command::Transactions(args) => Task::Transactions(args),
        Command::Latency(args) => Task::Latency(args.typed_as(&arguments, 2)),
        Command::Loglatency(args) => Task::LogLatency(args),
        Command::Prep(args) => Task::Prep(args),
        Command::Report(args) => Task::Report(args),
        Command::Status(args) => Task::Status(args),
        Command::Compare(args) => Task::Compare(args),
        Command::Config(args) => Task::Config(args),
        Command::Certify(args) => Task::Certify(args),
        Command::Rate(args) => Task::Rate(args),
        Command::Baseline(args) => Task::Baseline(args),
        Command::Predict(args) => Task::Predict(args),
        Command::Size(args) => Task::Size(args),
        Command::Align(args) => Task::Align(args),
        Command::Select(args) => Task::Select(args),
        Command::Fio(args) => Task::Fio(args),
        Command::Doctor(args) => Task::Doctor(args),
        Command::Devices(args) => Task::Devices(args),
        Command::Cluster(args) => Task::Cluster(args),
        Command::Trace(args) => Task::Trace(args),
        Command::Waf(args) => Task::Waf(args),
        Command::Serve(args) => Task::Serve(args),
    }
}

/// Reads the command line of ACT's program for `test`, or exits as it does.
fn parse_as_act(name: &'static str, test: Test, arguments: Vec<OsString>) -> TestArgs {
    let matches = with_options(ActCli::command().name(name), test).try_get_matches_from(arguments);
    matches.and_then(|matches| ActCli::from_arg_matches(&matches)).unwrap_or_else(|error| exit_as_act(&error)).args
}

/// Shows help, or what is wrong with the command line, and exits as ACT does.
fn exit_as_act(error: &clap::Error) -> ! {
    exit(error, crate::failure::ACT_FAILURE.into())
}

/// Shows help, or what is wrong with the command line, and exits; in the second case with `mistake`.
fn exit(error: &clap::Error, mistake: i32) -> ! {
    let text = error.render().to_string();
    match text.contains(units::is_unprintable) {
        // An argument that would move the cursor is shown without colours.
        true => {
            console::notice(text.trim_end());
            console::flush();
        }
        // Who closed the terminal does not want to read it.
        false => drop(error.print()),
    }
    std::process::exit(if error.use_stderr() { mistake } else { 0 })
}

/// Adds the examples, and to the long help the option table of the configuration.
fn with_options(command: clap::Command, test: Test) -> clap::Command {
    let options = help_text(test);
    let examples = match test {
        Test::Storage => STORAGE_EXAMPLES,
        Test::Index => INDEX_EXAMPLES,
    };
    let examples = help::laid_out(examples);
    let long = format!("{examples}\n\nKeys of the configuration file:\n\n{options}");
    command.after_help(examples).after_long_help(long)
}
