//! Options of `flashproof size collect` and `flashproof size restore`.

use crate::access::AccessArgs;
use clap::{ArgGroup, Args};
use results::format::seconds;
use std::path::PathBuf;
use store::nodes::{DEFAULT_PORT, HostPort};

/// Connections to nodes.
#[derive(Args, Debug)]
pub struct NodeArgs {
    #[command(flatten)]
    pub access: AccessArgs,
    /// Timeout of a connection, and of a request with its reply
    #[arg(long, value_name = "TIME", default_value = "5s", allow_hyphen_values = true, value_parser = seconds)]
    pub timeout: u32,
    /// Time for which the restoration of settings is retried on a node that does not answer
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "2m", allow_hyphen_values = true, value_parser = seconds)]
    pub retry: u32,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("nodes").args(["host", "print_commands"]).multiple(true))]
pub struct CollectArgs {
    /// A node to start from: HOST or HOST:PORT; may be repeated, or several joined by commas
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', value_parser = host)]
    pub host: Vec<HostPort>,
    /// Only these namespaces; may be repeated, or several joined by commas [default: all]
    #[arg(long, value_name = "NS", value_delimiter = ',', requires = "nodes")]
    pub namespace: Vec<String>,
    /// Only the nodes given as --host, not their peers
    #[arg(long, requires = "host")]
    pub one_node: bool,
    /// Use the peers' alternate addresses
    #[arg(hide_short_help = true, long, requires = "host")]
    pub services_alternate: bool,
    /// While sampling, turn on the histograms of devices and the details of drive lines in the log; then restore the
    /// changed settings
    #[arg(long, requires = "nodes")]
    pub enable: bool,
    /// Sampling time: 10m, 1h, or a number of seconds
    #[arg(long = "duration", value_name = "TIME", default_value = "10m", allow_hyphen_values = true, value_parser = seconds)]
    pub window: u32,
    /// Interval between samples
    #[arg(long, value_name = "TIME", default_value = "10s", allow_hyphen_values = true, value_parser = seconds)]
    pub every: u32,
    /// Also copy these logs of nodes, plain or compressed, after the samples; "-" for standard input
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub log: Vec<PathBuf>,
    /// Also copy this output of iostat (text or JSON); for several nodes give NODE=FILE, where NODE is the node's id
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub iostat: Vec<PathBuf>,
    /// Folder to create [default: flashproof-results/cluster-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Only print the asadm and asinfo commands with which you can do the same by hand
    #[arg(long)]
    pub print_commands: bool,
    #[command(flatten)]
    pub nodes: NodeArgs,
}

#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// Folder of the collection
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub nodes: NodeArgs,
}

fn host(text: &str) -> Result<HostPort, String> {
    HostPort::parse(text, DEFAULT_PORT)
}
