//! The options of `flashproof size collect` and `flashproof size restore`.

use super::AccessArgs;
use super::config::seconds;
use clap::Args;
use std::path::PathBuf;
use store::nodes::{DEFAULT_PORT, Host};

/// How nodes are spoken to.
#[derive(Args, Debug)]
pub struct NodeArgs {
    #[command(flatten)]
    pub access: AccessArgs,
    /// Longest time for a connection, and for a request with its reply
    #[arg(long, value_name = "TIME", default_value = "5s", allow_hyphen_values = true, value_parser = seconds)]
    pub timeout: u32,
    /// How long a node that does not answer is tried again when its settings are put back
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "2m", allow_hyphen_values = true, value_parser = seconds)]
    pub retry: u32,
}

/// Options of `flashproof size collect`.
#[derive(Args, Debug)]
pub struct CollectArgs {
    /// A node to start from: HOST or HOST:PORT; may be repeated, or several joined by commas
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', value_parser = host)]
    pub host: Vec<Host>,
    /// Only these namespaces; may be repeated, or several joined by commas [default: all]
    #[arg(long, value_name = "NS", value_delimiter = ',', requires = "host")]
    pub namespace: Vec<String>,
    /// Only the nodes given as --host, not their peers
    #[arg(long, requires = "host")]
    pub one_node: bool,
    /// Reach the peers by their alternate addresses
    #[arg(hide_short_help = true, long, requires = "host")]
    pub services_alternate: bool,
    /// Turn on, for as long as it samples, the histograms of devices and the detail of drv_ssd in the log; then
    /// put back what was changed
    #[arg(long, requires = "host")]
    pub enable: bool,
    /// How long to sample: 10m, 1h, or a number of seconds
    #[arg(long = "duration", value_name = "TIME", default_value = "10m", allow_hyphen_values = true, value_parser = seconds)]
    pub window: u32,
    /// Time from sample to sample
    #[arg(long, value_name = "TIME", default_value = "10s", allow_hyphen_values = true, value_parser = seconds)]
    pub every: u32,
    /// Logs of nodes to put beside, plain or compressed; "-" for standard input; copied after the samples
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub log: Vec<PathBuf>,
    /// Output of iostat (text or JSON) to put beside; of several nodes NODE=FILE, with the node's id
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub iostat: Vec<PathBuf>,
    /// Folder to make [default: flashproof-results/cluster-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the commands of asadm and asinfo that do the same by hand, and do nothing
    #[arg(long)]
    pub print_commands: bool,
    #[command(flatten)]
    pub nodes: NodeArgs,
}

/// Options of `flashproof size restore`.
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// The folder of that collection
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub nodes: NodeArgs,
}

fn host(text: &str) -> Result<Host, String> {
    Host::parse(text, DEFAULT_PORT)
}

pub(super) const COLLECT_EXAMPLES: &str = "\
Examples:
  flashproof size collect --host 192.0.2.1              what all nodes say, for 10 minutes; changes nothing
  flashproof size collect --host 192.0.2.1 --enable     turns histograms on, samples, puts all back
  flashproof size collect --host db1,db2:3100 --duration 1h --every 30s
  flashproof size collect --host db1:4333 --tls --tls-cafile ca.pem --user me
  flashproof size collect --log n1.log.gz --iostat n1.txt     without a connection
  flashproof size collect --print-commands --host db1     for those who type them in asadm themselves

It ends early by Ctrl-C, and puts back what it changed. Killed (kill -9), \"flashproof size restore DIR\" does.
Exit code 3: a node is missing, or something could not be put back. More in docs/cluster.md.";

pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  flashproof size restore flashproof-results/cluster-2026-11-22T04-15-00Z-4711
  flashproof size restore DIR --user me --tls --tls-cafile ca.pem

Only what the collection changed, and what still is as it made it, is put back. More in docs/cluster.md.";
