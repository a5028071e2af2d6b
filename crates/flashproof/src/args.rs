//! The command line: commands, their options and their help.

mod latency;

pub use latency::{Format, LatencyArgs};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use device::sim::size_bytes;
use load::act::options::Test;
use load::act::reference::help_text;
use load::act::scale::Factor;
use measure::judge::Sla;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What was asked for.
pub enum Invocation {
    /// `flashproof storage`, `flashproof index`
    Test(Test, TestArgs),
    /// `act_storage`, `act_index`: the programs of ACT.
    ActTest(Test, TestArgs),
    /// `flashproof latency`
    Latency(LatencyArgs),
    /// `act_latency.py`, the analysis script of ACT.
    ActLatency(LatencyArgs),
    /// `flashproof report`
    Report(ReportArgs),
    /// `flashproof config`
    Config(Box<ConfigArgs>),
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
    Storage(TestArgs),
    /// Run an ACT index test: 4 KiB reads, page updates by cache threads, and a verdict
    Index(TestArgs),
    /// Show which share of operations took longer than what, from the logs of ACT or of runs
    Latency(LatencyArgs),
    /// Judge a run again, from its run directory alone
    Report(ReportArgs),
    /// Write the configuration of a test: asked for, by options, or from another one of any ACT
    Config(Box<ConfigArgs>),
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

/// What the binary is when it is called by the name of one of ACT's programs.
#[derive(Clone, Copy)]
enum Alias {
    Test(Test),
    Latency,
}

/// Those names.
const ALIASES: [(&str, Alias); 4] = [
    ("act_storage", Alias::Test(Test::Storage)),
    ("act_index", Alias::Test(Test::Index)),
    ("act_latency.py", Alias::Latency),
    ("act_latency", Alias::Latency),
];

/// Options of a storage or index test.
#[derive(Args, Debug)]
pub struct TestArgs {
    /// Configuration file in ACT's dialect, one "name: value" a line
    pub config: PathBuf,
    /// Run directory: manifest, logs, histograms, verdict [default: flashproof-TEST-TIME here]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Allow the erasure of this device, by its name in the configuration; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Let other runs that say so too use the devices at the same time
    #[arg(long)]
    pub shared: bool,
    /// What the verdict allows: shares of operations that may be slower than a threshold
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default())]
    pub sla: Sla,
    /// Length of a slice of the verdict, in seconds; the worst slice decides
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..))]
    pub slice: u64,
    /// Stop after more I/O errors than this; any I/O error fails the run
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_errors: u64,
    /// Pace and spread operations as ACT 6 does, to compare with its results (arrival: act)
    #[arg(long)]
    pub as_act: bool,
    /// Show the configuration as resolved and the rates that follow, and touch no device
    #[arg(long)]
    pub dry_run: bool,
    /// Do not report progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of a report.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// A run directory
    pub dir: PathBuf,
    /// Print all of it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of the writer of configurations.
#[derive(Args, Debug, Default)]
pub struct ConfigArgs {
    /// A configuration to start from, of any ACT from 1 to 6 or of flashproof; "-" reads standard input
    #[arg(value_name = "CONFIG")]
    pub config: Option<PathBuf>,
    /// The same as CONFIG
    #[arg(long, value_name = "CONFIG", conflicts_with = "config")]
    pub from: Option<PathBuf>,
    /// The test to configure [default: storage, or what CONFIG is for]
    #[arg(long, value_name = "TEST", value_parser = test)]
    pub model: Option<Test>,
    /// A device, partition, file or simulated drive; may be repeated, or several joined by commas
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub device: Vec<String>,
    /// N times 2000 reads and 1000 writes a second for each drive; partitions of one drive count once
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub load: Option<Factor>,
    /// Reads a second, over all devices
    #[arg(long, value_name = "RATE", conflicts_with = "load", allow_hyphen_values = true)]
    pub reads: Option<String>,
    /// Writes a second, over all devices
    #[arg(long, value_name = "RATE", conflicts_with = "load", allow_hyphen_values = true)]
    pub writes: Option<String>,
    /// How long the test runs: 24h, 90m, or a number of seconds [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<u32>,
    /// Size of a record
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub record_bytes: Option<String>,
    /// Any other key of the configuration; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub set: Vec<(String, String)>,
    /// Multiply every rate; shares and sizes stay
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub scale: Option<Factor>,
    /// Read CONFIG as the ACT of this number would have [default: by its keys]
    #[arg(long, value_name = "1-6", value_parser = clap::value_parser!(u8).range(1..=6))]
    pub act: Option<u8>,
    /// CPUs of the machine on which CONFIG ran, where its defaults depended on them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub cpus: Option<u32>,
    /// Size of each drive that cannot be asked, for the drive writes a day
    #[arg(long, value_name = "SIZE", value_parser = capacity)]
    pub capacity: Option<u64>,
    /// Drive writes a day for which the drives are rated, to compare with
    #[arg(long, value_name = "N", value_parser = rated)]
    pub dwpd: Option<f64>,
    /// Ask for what is not given, even when standard input is no terminal
    #[arg(long, conflicts_with_all = ["config", "from"])]
    pub ask: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "out")]
    pub force: bool,
}

fn test(text: &str) -> Result<Test, String> {
    Test::named(text).ok_or_else(|| format!("no such test - give {}", Test::ALL.map(Test::name).join(" or ")))
}

/// A time span as whole seconds: `24h`, `1h 30m`, `5400`.
pub fn seconds(text: &str) -> Result<u32, String> {
    let expected = "give something like 24h, 90m or 3600 (seconds)";
    let seconds = match text.trim().parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let span = humantime::parse_duration(text.trim()).map_err(|error| format!("{error} - {expected}"))?;
            if span.subsec_nanos() > 0 {
                return Err(format!("a test takes whole seconds - {expected}"));
            }
            span.as_secs()
        }
    };
    match u32::try_from(seconds) {
        Ok(0) => Err(format!("a test of no length measures nothing - {expected}")),
        Ok(seconds) => Ok(seconds),
        Err(_) => {
            Err(format!("a test of {seconds} s is longer than {} s, the most that is counted - {expected}", u32::MAX))
        }
    }
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("no = in it - give KEY=VALUE, such as defrag-lwm-pct=60")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn capacity(text: &str) -> Result<u64, String> {
    size_bytes(text).filter(|bytes| *bytes > 0).ok_or_else(|| "give a size such as 3.84TB or 512GiB".to_owned())
}

fn rated(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "give a number above 0, such as 1 or 0.3".to_owned())
}

const STORAGE_EXAMPLES: &str = "\
Examples:
  flashproof storage act_storage.conf                     a device that holds nothing, or only our own data
  flashproof storage act_storage.conf --erase /dev/nvme1n1     in a script: allow the erasure, by name
  flashproof storage demo.conf --out runs/demo            with \"device-names: sim:\" in it: no device at all
  flashproof storage act_storage.conf --dry-run           check the file, show the rates
  flashproof storage act_storage.conf --as-act            comparable with published ACT results
  flashproof storage act_storage.conf --sla \"5%>1ms,1%>8ms\"

Reading needs no consent. Writing does: see docs/guard.md. The environment variable FLASHPROOF_ERASE
names devices as --erase does.";

const INDEX_EXAMPLES: &str = "\
Examples:
  flashproof index act_index.conf                         a device that holds nothing, or only our own data
  flashproof index act_index.conf --erase /dev/nvme1n1    in a script: allow the erasure, by name
  flashproof index demo.conf --out runs/index             with \"device-names: sim:\" in it: no device at all
  flashproof index act_index.conf --dry-run               check the file, show the rates
  flashproof index act_index.conf --as-act                ACT's threads, and its bundles of 100 page updates

Reading needs no consent. Writing does: see docs/guard.md. The environment variable FLASHPROOF_ERASE
names devices as --erase does.";

const REPORT_EXAMPLES: &str = "\
Examples:
  flashproof report runs/demo
  flashproof report runs/demo --json | jq .verdict.outcome";

const CONFIG_EXAMPLES: &str = "\
Examples:
  flashproof config                                         asks, as act_config_helper.py did
  flashproof config --device /dev/nvme0n1,/dev/nvme1n1 --load 30 --out test.conf
  flashproof config --device /dev/nvme0n1 --reads 50000 --writes 0 --duration 1h --set record-bytes-range-max=4096
  flashproof config actconfig_3x_1d.txt --out today.conf    a file of any ACT, in today's terms
  flashproof config --scale 1.5 test.conf --out heavier.conf
  flashproof config --device /dev/nvme0n1 --load 30 --capacity 3.84TB --dwpd 1 >/dev/null    only what it means

Nothing is opened for writing but FILE. Devices that are not here are counted by their names. What the load
means goes to standard error and into the file.";

/// Reads the command line. Prints help or usage errors and exits where that is all there is to do.
pub fn parse() -> Invocation {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    let alias = ALIASES.into_iter().find(|(name, _)| called.is_some_and(|called| called == *name));
    if let Some((_, Alias::Latency)) = alias {
        return Invocation::ActLatency(latency::parse_as_act(arguments));
    }
    if let Some((name, Alias::Test(test))) = alias {
        let matches = with_options(ActCli::command().name(name), test).try_get_matches_from(arguments);
        let cli =
            matches.and_then(|matches| ActCli::from_arg_matches(&matches)).unwrap_or_else(|error| exit_as_act(&error));
        return Invocation::ActTest(test, cli.args);
    }
    let command = Cli::command()
        .mut_subcommand("storage", |command| with_options(command, Test::Storage))
        .mut_subcommand("index", |command| with_options(command, Test::Index))
        .mut_subcommand("latency", latency::with_examples)
        .mut_subcommand("report", |report| report.after_help(REPORT_EXAMPLES))
        .mut_subcommand("config", |config| config.after_help(CONFIG_EXAMPLES));
    let cli = Cli::from_arg_matches(&command.get_matches_from(arguments.clone())).unwrap_or_else(|error| error.exit());
    match cli.command {
        Command::Storage(args) => Invocation::Test(Test::Storage, args),
        Command::Index(args) => Invocation::Test(Test::Index, args),
        Command::Latency(args) => Invocation::Latency(args.typed_as(&arguments, 2)),
        Command::Report(args) => Invocation::Report(args),
        Command::Config(args) => Invocation::Config(args),
    }
}

/// Shows help, or what is wrong with the command line, and exits as ACT does.
fn exit_as_act(error: &clap::Error) -> ! {
    // Who closed the terminal does not want to read it.
    let _ = error.print();
    std::process::exit(if error.use_stderr() { crate::ACT_FAILURE.into() } else { 0 })
}

/// Adds the examples, and to the long help the option table of the configuration.
fn with_options(command: clap::Command, test: Test) -> clap::Command {
    let options = help_text(test);
    let examples = match test {
        Test::Storage => STORAGE_EXAMPLES,
        Test::Index => INDEX_EXAMPLES,
    };
    command.after_help(examples).after_long_help(format!("{examples}\n\nKeys of the configuration file:\n\n{options}"))
}
