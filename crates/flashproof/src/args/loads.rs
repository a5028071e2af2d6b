//! The options of a storage and an index test, of tenants, of a replay and of `flashproof fio`.

use super::help::laid_out;
use super::values::seconds;
use super::{OtherLoad, exit_as_act, parse_as, program};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use load::factor::Factor;
use load::workload::act::options::Test;
use load::workload::act::reference::help_text;
use load::workload::fio::options;
use results::judge::Sla;
use session::devices::Consents;
use session::runner::{HANG_SEC, Named, Patience, RunRequest};
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of a storage or index test.
#[derive(Args, Debug)]
pub struct TestArgs {
    /// Configuration file in ACT's dialect, one "name: value" per line. Several files run at the same time, on the same
    /// devices or on others, with a verdict for each and one for all
    #[arg(value_name = "CONFIG", required = true)]
    pub configs: Vec<PathBuf>,
    #[command(flatten)]
    pub record: RecordArgs,
    /// Allow the erasure of this device, by its serial number, wwid, by-id link or path; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Share the devices with other runs that also give this option
    #[arg(long, hide_short_help = true)]
    pub shared: bool,
    /// Device instead of device-names of the file, or "sim:": each gets the load of one of those; may be repeated
    #[arg(long, value_name = "DEVICE", value_parser = NonEmptyStringValueParser::new())]
    pub device: Vec<String>,
    /// Length of the test, instead of test-duration-sec of the file: 24h, 10m, or a number of seconds
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub duration: Option<u32>,
    /// Pace and distribute operations as ACT 6 does, to compare with its results (arrival: act)
    #[arg(long)]
    pub as_act: bool,
    /// Do not sample the block tracepoints (0.5 s in every 30, as root) that separate kernel and device latency
    #[arg(long, hide_short_help = true)]
    pub no_trace: bool,
    /// Show the resolved configuration and its rates, without access to any device
    #[arg(long)]
    pub dry_run: bool,
}

impl TestArgs {
    /// Builds the run of `workloads` from the options.
    pub fn request<W>(&self, workloads: Vec<Named<W>>) -> RunRequest<'_, W> {
        RunRequest {
            consents: Consents { erase: &self.erase, others: &[], shared: self.shared },
            trace: !self.no_trace,
            ..self.record.request(workloads)
        }
    }
}

/// Recording and judging of a run.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// Run directory [default: flashproof-results/COMMAND-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Limits of the verdict: shares of operations that may be slower than a threshold
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default(), allow_hyphen_values = true, value_parser = Sla::wanted)]
    pub sla: Sla,
    /// Length of a slice of the verdict: 1h, 30m, or a number of seconds; the worst slice decides
    #[arg(long, value_name = "TIME", default_value_t = 3600, allow_hyphen_values = true, value_parser = seconds)]
    pub slice: u32,
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// Print only the verdict, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

impl RecordArgs {
    /// Builds the run of `workloads` from the options.
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

/// Limits beyond which a run ends as failed.
#[derive(Args, Debug, Clone, Copy)]
pub struct PatienceArgs {
    /// Stop after more failed operations than this; any failed operation fails the run
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 1000, allow_hyphen_values = true, value_parser = count)]
    pub max_errors: u64,
    /// I/O timeout after the end: give up a device with operations in flight that completes none for this time: 60, 5m
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value_t = HANG_SEC, allow_hyphen_values = true, value_parser = seconds)]
    pub hang: u32,
}

impl From<PatienceArgs> for Patience {
    fn from(PatienceArgs { max_errors, hang }: PatienceArgs) -> Self {
        Self { max_errors, hang_sec: hang }
    }
}

/// Parses a number from 0 on.
fn count(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("give a whole number from 0 to {}", u64::MAX))
}

pub(super) const STORAGE_EXAMPLES: &str = "\
Examples:
  flashproof storage act_storage.conf                     a device that holds nothing, or only our own data
  flashproof storage act_storage.conf --erase S64ANX0T402     in a script: allow the erasure, by serial number
  flashproof storage act_storage.conf --device /dev/nvme2n1   the file's load on another device
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

/// Parses the command line of ACT's program for `test`, or exits with ACT's exit code. The long help has the keys of the
/// configuration, where ACT's users look for them.
pub(super) fn parse_test_as_act(test: Test, arguments: Vec<OsString>) -> TestArgs {
    let (name, examples) = match test {
        Test::Storage => ("act_storage", laid_out(STORAGE_EXAMPLES)),
        Test::Index => ("act_index", laid_out(INDEX_EXAMPLES)),
    };
    let about = "Run an ACT test as ACT's program does: the log on standard output, exit code 0 on completion";
    let long = format!("{examples}\n\nKeys of the configuration file:\n\n{}", help_text(test));
    let act = program::<TestArgs>(name, about).after_help(examples).after_long_help(long);
    parse_as(act, arguments).unwrap_or_else(exit_as_act)
}

/// Options of a storage test, with ACT's load, a trace or another load.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct StorageArgs {
    /// Another load
    #[command(subcommand)]
    pub other: Option<OtherLoad>,
    /// Options of every test.
    #[command(flatten)]
    pub test: TestArgs,
    /// Options of a replay.
    #[command(flatten)]
    pub replay: ReplayArgs,
}

/// Options of a replay.
#[derive(Args, Debug)]
#[command(next_help_heading = "Replay of a trace")]
pub struct ReplayArgs {
    /// Replay a trace instead of a CONFIG: its operations at their times. One --device for each device of the trace, in
    /// the order of their numbers. Writes and discards of the trace ERASE. Reads every format that flashproof trace
    /// --from reads
    #[arg(long, value_name = "TRACE", requires = "device")]
    pub replay: Option<String>,
    /// Speed as a multiple of the recorded one
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "1", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub speed: Factor,
    /// Number of times to replay the trace
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub repeat: u32,
    /// Wrap offsets beyond the end of a smaller device to its start, instead of refusing them
    #[arg(long, hide_short_help = true, requires = "replay")]
    pub fit: bool,
}

/// Lets a trace replace the configuration.
pub(super) fn beside_replay(storage: clap::Command) -> clap::Command {
    storage
        .mut_arg("configs", |configs| {
            configs.required(false).required_unless_present("replay").conflicts_with("replay")
        })
        .mut_arg("as_act", |as_act| as_act.conflicts_with("replay"))
        .mut_arg("duration", |duration| duration.conflicts_with("replay"))
}

/// Options of a run of tenants.
#[derive(Args, Debug)]
pub struct TenantsArgs {
    /// Options of every test.
    #[command(flatten)]
    pub test: TestArgs,
}

pub(super) const TENANTS_EXAMPLES: &str = "\
Examples:
  flashproof storage tenants four.toml --dry-run                   check the file, show rates and write amplification of each
  flashproof storage tenants four.toml --device sim:                   no device at all
  flashproof storage tenants four.toml --device /dev/nvme1n1           each on its space of the drive; ERASES it
  flashproof storage tenants four.toml --device /dev/nvme1n1 --erase S64ANX0T402    in a script: allow the erasure, by serial number

Each tenant has a verdict of its own beside the one of all. Keys of the file: docs/tenants.md;
an example: examples/tenants/ycsb-a-four.toml.";

/// Restricts the options to one file, without ACT's options.
pub(super) fn beside_tenants(tenants: clap::Command) -> clap::Command {
    tenants
        .mut_arg("configs", |configs| {
            configs
                .value_name("FILE")
                .num_args(1)
                .action(clap::ArgAction::Set)
                .help("The tenants, as TOML: rates, keys, record and write-block sizes, fill of each")
        })
        .mut_arg("out", |out| {
            out.help("Run directory: manifest, histograms, verdict [default: flashproof-results/tenants-TIME]")
        })
        .mut_arg("device", |device| {
            device
                .action(clap::ArgAction::Set)
                .help("Device of the tenants without a device of their own, or a simulated drive: \"sim:\", \"sim:ftl+op=12%\"")
        })
        .mut_arg("as_act", |as_act| as_act.hide(true).conflicts_with("configs"))
}

/// Arguments of `flashproof fio`.
#[derive(Args, Debug)]
pub struct FioArgs {
    /// fio's options and job files
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub words: Vec<String>,
}

const HELP: &str = "\
Run fio's jobs, from its command lines and job files, with a verdict

Usage: flashproof fio [OPTIONS] [--name=JOB --OPTION=VALUE...] [JOBFILE...]

A rate makes an open loop: operations that a stall delays are counted as waiting. Unknown options are rejected
before anything runs; the message shows the job without them.

Examples:
  flashproof fio --name=bench --filename=/dev/nvme1n1 --direct=1 --rw=randread --bs=4k --runtime=60
  flashproof fio --name=paced --filename=/dev/nvme1n1 --direct=1 --rw=randwrite --bs=128k --rate_iops=1280 \\
      --iodepth=16 --time_based --runtime=24h --erase=S64ANX0T402
  flashproof fio --output-format=json --output=result.json JOBFILE
  flashproof fio --name=demo --filename=sim: --rw=randrw --rate_iops=20k,5k --iodepth=64 --direct=1 \\
      --time_based --runtime=1h                              an hour on a simulated drive, in seconds

Options of fio's program:
  --output=FILE              report in a file instead of standard output
  --output-format=FORMATS    normal, json, json+, terse; several with commas
  --status-interval=TIME     interval at which the report so far is printed
  --trigger-file=FILE        ends the run when FILE appears, and saves how far verified writes came
  --trigger-timeout=TIME     the same after this time
  --trigger=COMMAND          command that the shell runs then
  --section=NAME             only this section of a job file; may be repeated
  --parse-only               read the jobs, and touch no device
  --readonly                 refuse jobs that write or trim
  --cmdhelp                  supported options of fio, and their meaning

Options of flashproof:
  --out=DIR                  run directory, with one for each of several groups [default: flashproof-results/fio-TIME]
  --force                    replace an existing file of --output or of a log, even of other origin
  --erase=DEVICE             allow the erasure of this device, by serial number, wwid, by-id link or path
  --shared                   share the devices with other runs that also give this option
  --sla=[STREAM:]LIMITS      limits of the verdict, such as 5%>1ms,1%>8ms, or of one stream: log-flushes:1%>10ms; may be
                             repeated [default: no limits]
  --slice=TIME               length of a slice of the verdict [default: 1h]
  --max-errors=N             stop after more I/O errors than this [default: 1000]
  --no-trace                 do not sample the kernel's block tracepoints
  --cross-check              run the jobs with the installed fio, too: three rounds of both in turns, side by side
  --dry-run                  same as --parse-only, and show the runs
  --quiet                    no progress and no notes

Linked as fio (ln -s flashproof fio), it prints what fio prints, keeps no run directory without --out, and exits
with 0 or 1. Reading needs no consent; writing does: see docs/guard.md. All options: docs/fio.md.
Exit codes: 0 pass or done, 1 fail, 2 usage, 3 environment (device, permission, kernel), 4 invalid run
";

/// Arguments of a program called fio.
pub(super) fn fio_words(arguments: Vec<OsString>) -> FioArgs {
    let words = arguments.into_iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    FioArgs { words }
}

pub fn fio_help() -> &'static str {
    HELP
}

/// Options of jobs, for `--cmdhelp`.
pub fn fio_job_options() -> String {
    options::help()
}
