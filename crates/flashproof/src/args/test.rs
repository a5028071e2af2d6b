//! The options of `flashproof storage` and `flashproof index`, and of ACT's programs.

use super::help::laid_out;
use super::seconds;
use clap::{Args, CommandFactory, FromArgMatches, Parser};
use load::workload::act::options::Test;
use load::workload::act::reference::help_text;
use results::judge::Sla;
use session::devices::Consents;
use session::runner::{HANG_SEC, Named, Patience, RunRequest};
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of a storage or index test.
#[derive(Args, Debug)]
pub struct TestArgs {
    /// Configuration file in ACT's dialect, one "name: value" a line. Several are run at once, on the same
    /// devices or on others, each with a verdict of its own beside the one of all
    #[arg(value_name = "CONFIG", required = true)]
    pub configs: Vec<PathBuf>,
    #[command(flatten)]
    pub record: RecordArgs,
    /// Allow the erasure of this device, by its serial number, wwid, by-id link or path; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Let other runs that say so too use the devices at the same time
    #[arg(long, hide_short_help = true)]
    pub shared: bool,
    /// Length of the test, instead of test-duration-sec of the file: 24h, 10m, or a number of seconds
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub duration: Option<u32>,
    /// Pace and spread operations as ACT 6 does, to compare with its results (arrival: act)
    #[arg(long)]
    pub as_act: bool,
    /// Do not sample the kernel's block tracepoints (0.5 s in every 30, as root), which tell the kernel's
    /// part of a latency from the device's
    #[arg(long, hide_short_help = true)]
    pub no_trace: bool,
    /// Show the configuration as resolved and the rates that follow, and touch no device
    #[arg(long)]
    pub dry_run: bool,
}

impl TestArgs {
    /// The run of `workloads` that the options ask for.
    pub fn request<W>(&self, workloads: Vec<Named<W>>) -> RunRequest<'_, W> {
        RunRequest {
            consents: Consents { erase: &self.erase, others: &[], shared: self.shared },
            trace: !self.no_trace,
            ..self.record.request(workloads)
        }
    }
}

/// How a run is recorded and judged.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// Run directory: manifest, logs, histograms, verdict [default: flashproof-results/TEST-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What the verdict allows: shares of operations that may be slower than a threshold
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default(), allow_hyphen_values = true, value_parser = Sla::wanted)]
    pub sla: Sla,
    /// Length of a slice of the verdict: 1h, 30m, or a number of seconds; the worst slice decides
    #[arg(long, value_name = "TIME", default_value_t = 3600, allow_hyphen_values = true, value_parser = seconds)]
    pub slice: u32,
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// Say the verdict, warnings and errors only
    #[arg(long, short)]
    pub quiet: bool,
}

impl RecordArgs {
    /// The run of `workloads` that the options ask for.
    pub fn request<W>(&self, workloads: Vec<Named<W>>) -> RunRequest<'_, W> {
        RunRequest {
            sla: self.sla.clone(),
            slice_sec: self.slice.into(),
            patience: self.patience.into(),
            quiet: self.quiet,
            ..RunRequest::new(workloads)
        }
    }
}

/// Limits of failure: a run that goes beyond one ends as failed.
#[derive(Args, Debug, Clone, Copy)]
pub struct PatienceArgs {
    /// Stop after more failed operations than this; any fails the run
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 1000, allow_hyphen_values = true, value_parser = count)]
    pub max_errors: u64,
    /// After the end, give up a device with operations in flight that returns nothing for so long: 60, 5m
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value_t = HANG_SEC, allow_hyphen_values = true, value_parser = seconds)]
    pub hang: u32,
}

impl From<PatienceArgs> for Patience {
    fn from(PatienceArgs { max_errors, hang }: PatienceArgs) -> Self {
        Self { max_errors, hang_sec: hang }
    }
}

/// A number of things, from none.
fn count(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("give a whole number from 0 to {}", u64::MAX))
}

pub(super) const STORAGE_EXAMPLES: &str = "\
Examples:
  flashproof storage act_storage.conf                     a device that holds nothing, or only our own data
  flashproof storage act_storage.conf --erase S64ANX0T402     in a script: allow the erasure, by serial number
  flashproof storage demo.conf --out runs/demo            with \"device-names: sim:\" in it: no device at all
  flashproof storage act_storage.conf --dry-run           check the file, show the rates
  flashproof storage act_storage.conf --as-act            comparable with published ACT results
  flashproof storage act_storage.conf --sla \"5%>1ms,1%>8ms\"
  flashproof storage --replay ops.txt --device /dev/nvme1n1    what flashproof trace --ops recorded

Reading needs no consent. Writing does: see docs/guard.md. The environment variable FLASHPROOF_ERASE
names devices as --erase does. A terminal that goes away does not end a run: \"flashproof report status DIR\" tells
how it goes.";

pub(super) const INDEX_EXAMPLES: &str = "\
Examples:
  flashproof index act_index.conf                         a device that holds nothing, or only our own data
  flashproof index act_index.conf --erase S64ANX0T402    in a script: allow the erasure, by serial number
  flashproof index demo.conf --out runs/index             with \"device-names: sim:\" in it: no device at all
  flashproof index act_index.conf --dry-run               check the file, show the rates
  flashproof index act_index.conf --as-act                ACT's threads, and its bundles of 100 page updates

Reading needs no consent. Writing does: see docs/guard.md. The environment variable FLASHPROOF_ERASE
names devices as --erase does. A terminal that goes away does not end a run: \"flashproof report status DIR\" tells
how it goes.";

#[derive(Parser)]
#[command(
    version,
    about = "Run an ACT test as ACT's program does: the log on standard output, exit code 0 on completion"
)]
struct ActCli {
    #[command(flatten)]
    args: TestArgs,
}

/// Reads the command line of ACT's program for `test`, or exits as it does.
pub(super) fn parse_as_act(test: Test, arguments: Vec<OsString>) -> TestArgs {
    let matches = with_keys(ActCli::command(), test).try_get_matches_from(arguments);
    matches
        .and_then(|matches| ActCli::from_arg_matches(&matches))
        .unwrap_or_else(|error| super::exit_as_act(&error))
        .args
}

/// With examples, and in the long help the keys of the configuration: ACT's users look for them there.
fn with_keys(command: clap::Command, test: Test) -> clap::Command {
    let examples = laid_out(match test {
        Test::Storage => STORAGE_EXAMPLES,
        Test::Index => INDEX_EXAMPLES,
    });
    let name = match test {
        Test::Storage => "act_storage",
        Test::Index => "act_index",
    };
    let long = format!("{examples}\n\nKeys of the configuration file:\n\n{}", help_text(test));
    command.name(name).after_help(examples).after_long_help(long)
}
