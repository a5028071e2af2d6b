//! The options of `flashproof storage tenants`, beside those of a test.

use super::TestArgs;
use clap::Args;

/// Options of a run of tenants.
#[derive(Args, Debug)]
pub struct TenantsArgs {
    /// As any test.
    #[command(flatten)]
    pub test: TestArgs,
    /// The device of the tenants that name none, or a simulated drive: "sim:", "sim:ftl+op=12%"
    #[arg(long, value_name = "DEVICE")]
    pub on: Option<String>,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof storage tenants four.toml --dry-run                   check the file, show rates and write amplification of each
  flashproof storage tenants four.toml --on sim:                   no device at all
  flashproof storage tenants four.toml --on /dev/nvme1n1           each on its space of the drive; ERASES it
  flashproof storage tenants four.toml --on /dev/nvme1n1 --erase S64ANX0T402    in a script: allow the erasure, by serial number

Each tenant has a verdict of its own beside the one of all. Keys of the file: docs/tenants.md;
an example: examples/tenants/ycsb-a-four.toml.";

/// One file, and nothing of ACT.
pub(super) fn beside(tenants: clap::Command) -> clap::Command {
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
        .mut_arg("as_act", |as_act| as_act.hide(true).conflicts_with("configs"))
}
