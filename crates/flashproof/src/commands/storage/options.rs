//! Options of the storage and the index test, of a replay and of tenants.

use crate::imitated::{exit_as_act, parse_as, program};
use crate::output::FormArgs;
use crate::record::{EraseArgs, RecordArgs};
use act::options::Test;
use act::reference::brief_help;
use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, ArgAction, Args, Subcommand};
use load::factor::Factor;
use results::format::seconds;
use session::devices::Consents;
use session::runner::{NamedWorkload, RunRequest};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct TestArgs {
    /// Configuration file in ACT's dialect, one "name: value" per line. Several files run at the same time, on the same
    /// devices or on different devices, with a verdict for each file and one for all files
    #[arg(value_name = "CONFIG", required = true)]
    pub configs: Vec<PathBuf>,
    #[command(flatten)]
    pub record: RecordArgs,
    #[command(flatten)]
    pub form: FormArgs,
    #[command(flatten)]
    pub consent: EraseArgs,
    /// Share the devices with other runs that are started with this option
    #[arg(long, hide_short_help = true)]
    pub shared: bool,
    /// Device, or "sim:", instead of the file's first device-name; repeat for the next device-names, in their order
    #[arg(long, value_name = "DEVICE", value_parser = NonEmptyStringValueParser::new())]
    pub device: Vec<String>,
    /// Length of the test, instead of test-duration-sec of the file: 24h, 10m, or a number of seconds
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub duration: Option<u32>,
    /// Pace and distribute operations as ACT 6 does, to compare with its results (arrival: act)
    #[arg(long)]
    pub as_act: bool,
    /// Do not sample the block tracepoints (0.5 s in every 30 s, as root) that separate kernel and device latency
    #[arg(long, hide_short_help = true)]
    pub no_trace: bool,
    /// Show the resolved configuration and its rates, without access to any device
    #[arg(long)]
    pub dry_run: bool,
}

impl TestArgs {
    pub fn request(&self, workloads: Vec<NamedWorkload>) -> RunRequest<'_> {
        RunRequest {
            consents: Consents {
                erase: &self.consent.erase,
                other_devices: &[],
                shared: self.shared,
            },
            trace: !self.no_trace,
            ..self.record.request(workloads)
        }
    }
}

/// Parses the command line of ACT's program for `test`, or exits with ACT's exit code. The help has ACT's keys of the
/// configuration, where ACT's users look for them.
pub fn parse_test_as_act(test: Test, arguments: Vec<OsString>) -> TestArgs {
    let own = test.name();
    let name = match test {
        Test::Storage => "act_storage",
        Test::Index => "act_index",
    };
    let about = "Run an ACT test as ACT's program does: the log on standard output, exit code 0 on completion";
    let after = format!(
        "ACT's program erases without asking. flashproof needs consent for a drive with other data:\n  \
         FLASHPROOF_ERASE=S64ANX0T402 {name} {name}.conf > act_out.txt 2>&1\n\n\
         ACT's keys of the configuration file:\n{}\n\
         All keys, with allowed values and advice: flashproof help keys {own}\n\
         All options, with examples: flashproof {own} --help",
        brief_help(test)
    );
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::HelpShort);
    let act = program::<TestArgs>(name, about)
        .disable_help_flag(true)
        .arg(help.help("Print help"))
        .after_help(after);
    parse_as(act, arguments).unwrap_or_else(exit_as_act)
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct StorageArgs {
    /// Another load
    #[command(subcommand)]
    pub other: Option<OtherLoad>,
    #[command(flatten)]
    pub test: TestArgs,
    #[command(flatten)]
    pub replay: ReplayArgs,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Replay of a trace")]
pub struct ReplayArgs {
    /// Replay a trace instead of a CONFIG: the recorded operations at their recorded times. Give one --device for each
    /// device of the trace, in the order of the device numbers. Writes and discards of the trace ERASE data. Accepts
    /// every format of flashproof trace --from
    #[arg(long, value_name = "TRACE", requires = "device")]
    pub replay: Option<String>,
    /// Speed, as a multiple of the recorded speed
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
pub fn allow_replay(storage: clap::Command) -> clap::Command {
    storage
        .mut_arg("configs", |configs| {
            configs
                .required(false)
                .required_unless_present("replay")
                .conflicts_with("replay")
        })
        .mut_arg("as_act", |as_act| as_act.conflicts_with("replay"))
        .mut_arg("duration", |duration| duration.conflicts_with("replay"))
}

/// Restricts the options to those of `tenants`: one file, one --device, no --as-act.
pub fn restrict_to_tenants(tenants: clap::Command) -> clap::Command {
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
        .mut_arg("duration", |duration| {
            duration.help("Length of the test, instead of duration-sec of the file: 24h, 10m, or a number of seconds")
        })
        .mut_arg("as_act", |as_act| as_act.hide(true).conflicts_with("configs"))
}

/// Loads that ACT's configuration cannot describe.
#[derive(Subcommand, Debug)]
pub enum OtherLoad {
    /// Run log-structured record stores that share a drive, with a verdict for each; ERASES their devices
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("tenants-examples.txt")))]
    Tenants(Box<TestArgs>),
}
