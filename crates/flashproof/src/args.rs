//! The command line: commands, their options and their help.

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use load::act::options::Test;
use load::act::reference::help_text;
use measure::judge::Sla;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What was asked for.
pub enum Invocation {
    /// `flashproof storage`
    Storage(StorageArgs),
    /// `act_storage`, the program of ACT.
    ActStorage(StorageArgs),
    /// `flashproof prep`
    Prep(PrepArgs),
    /// `act_prep`, the program of ACT.
    ActPrep(PrepArgs),
    /// `flashproof report`
    Report(ReportArgs),
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
    /// Write devices from end to end, so that a test meets a drive in use; ERASES them
    Prep(PrepArgs),
    /// Judge a run again, from its run directory alone
    Report(ReportArgs),
}

#[derive(Parser)]
#[command(
    name = "act_storage",
    version,
    about = "Run an ACT storage test as ACT's program does: the log on standard output, exit code 0 on completion"
)]
struct ActCli {
    #[command(flatten)]
    args: StorageArgs,
}

#[derive(Parser)]
#[command(
    name = "act_prep",
    version,
    about = "Prepare devices as ACT's program does: zeros and then salt over all of each; ERASES them"
)]
struct ActPrepCli {
    #[command(flatten)]
    args: PrepArgs,
}

/// Options of a preparation.
#[derive(Args, Debug)]
pub struct PrepArgs {
    /// Devices or files to prepare: ALL that is on them is erased
    #[arg(required = true, value_name = "DEVICE")]
    pub devices: Vec<String>,
    /// Allow the erasure of this device, by its name as given; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Passes of salt: random data that does not compress; SNIA's workload-independent preconditioning is 2
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub fills: u32,
    /// Leave out the pass of zeros before the salt
    #[arg(long)]
    pub skip_zero: bool,
    /// Write zeros only
    #[arg(long, conflicts_with_all = ["skip_zero", "fills"])]
    pub zero_only: bool,
    /// Discard (TRIM, deallocate) all of each device before anything is written
    #[arg(long)]
    pub discard_first: bool,
    /// Prepare the first P percent only and discard the rest; later runs use no more than that part
    #[arg(long, value_name = "P", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub use_pct: u32,
    /// The salt follows from this number [default: another one each time; it is recorded]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Begin anew where a preparation was interrupted, instead of going on
    #[arg(long)]
    pub restart: bool,
    /// Write nothing: read a sample of devices prepared before, and compare
    #[arg(
        long,
        conflicts_with_all = ["erase", "fills", "skip_zero", "zero_only", "discard_first", "use_pct", "seed", "restart"]
    )]
    pub verify: bool,
    /// Places of 4 KiB to read back from each device; a number beyond its size reads all, 0 nothing
    #[arg(long, value_name = "N", default_value_t = 16384)]
    pub samples: u64,
    /// How often progress is put on the medium and recorded, in seconds; 0: ten times a second
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub checkpoint: u64,
    /// Do not report progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of a storage test.
#[derive(Args, Debug)]
pub struct StorageArgs {
    /// Configuration file in ACT's dialect, one "name: value" a line
    pub config: PathBuf,
    /// Run directory: manifest, logs, histograms, verdict [default: flashproof-storage-TIME here]
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

const PREP_EXAMPLES: &str = "\
Examples:
  flashproof prep /dev/nvme1n1 /dev/nvme2n1       zeros, then salt; both at once
  flashproof prep /dev/nvme1n1                    the same again after an interruption: goes on from there
  flashproof prep /dev/nvme1n1 --discard-first --skip-zero --fills 2     SNIA's preconditioning
  flashproof prep /dev/nvme1n1 --use-pct 80       over-provision: use 80 %, discard the rest
  flashproof prep /dev/nvme1n1 --verify           read a sample of a prepared device
  flashproof prep sim:capacity=1GiB               no device at all

All of a device is erased; what is on it is asked about before, see docs/guard.md. The environment
variable FLASHPROOF_ERASE names devices as --erase does. Exit codes: 0 done, 1 a device failed or does
not hold what was written, 2 usage, 3 environment, 4 interrupted. More in docs/prep.md.";

const REPORT_EXAMPLES: &str = "\
Examples:
  flashproof report runs/demo
  flashproof report runs/demo --json | jq .verdict.outcome";

/// Reads the command line. Prints help or usage errors and exits where that is all there is to do.
pub fn parse() -> Invocation {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    if called.is_some_and(|name| name == crate::ACT_STORAGE) {
        let matches = with_options(ActCli::command()).try_get_matches_from(arguments);
        let cli =
            matches.and_then(|matches| ActCli::from_arg_matches(&matches)).unwrap_or_else(|error| exit_as_act(&error));
        return Invocation::ActStorage(cli.args);
    }
    if called.is_some_and(|name| name == crate::ACT_PREP) {
        let matches = ActPrepCli::command().after_help(PREP_EXAMPLES).try_get_matches_from(arguments);
        let cli = matches
            .and_then(|matches| ActPrepCli::from_arg_matches(&matches))
            .unwrap_or_else(|error| exit_as_act(&error));
        return Invocation::ActPrep(cli.args);
    }
    let command = Cli::command()
        .mut_subcommand("storage", with_options)
        .mut_subcommand("prep", |prep| prep.after_help(PREP_EXAMPLES))
        .mut_subcommand("report", |report| report.after_help(REPORT_EXAMPLES));
    let cli = Cli::from_arg_matches(&command.get_matches_from(arguments)).unwrap_or_else(|error| error.exit());
    match cli.command {
        Command::Storage(args) => Invocation::Storage(args),
        Command::Prep(args) => Invocation::Prep(args),
        Command::Report(args) => Invocation::Report(args),
    }
}

/// Shows help, or what is wrong with the command line, and exits as ACT does.
fn exit_as_act(error: &clap::Error) -> ! {
    // Who closed the terminal does not want to read it.
    let _ = error.print();
    std::process::exit(if error.use_stderr() { crate::ACT_FAILURE.into() } else { 0 })
}

/// Adds the examples, and to the long help the option table of the configuration.
fn with_options(command: clap::Command) -> clap::Command {
    let options = help_text(Test::Storage);
    command
        .after_help(STORAGE_EXAMPLES)
        .after_long_help(format!("{STORAGE_EXAMPLES}\n\nKeys of the configuration file:\n\n{options}"))
}
