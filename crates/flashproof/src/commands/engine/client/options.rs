//! Options of `flashproof engine client`.

use crate::access::AccessArgs;
use crate::record::RecordArgs;
use clap::{ArgAction, Args};
use load::records::Mix;
use results::format::seconds;
use store::client::Replica;
use store::object::ValueType;

#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct ClientArgs {
    /// Node of the cluster, with :PORT if its port is not that of -p; several nodes separated by commas. The client
    /// discovers the other nodes
    #[arg(
        short = 'h',
        long,
        value_name = "HOST[:PORT]",
        default_value = "127.0.0.1",
        value_delimiter = ','
    )]
    pub host: Vec<String>,
    /// Port of the nodes
    #[arg(short, long, value_name = "PORT", default_value_t = 3000)]
    pub port: u16,
    /// Use the nodes' alternate addresses
    #[arg(hide_short_help = true, long)]
    pub services_alternate: bool,
    /// Namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "test", value_parser = name::<31>)]
    pub namespace: String,
    /// Set of the records; "" for none
    #[arg(short, long, value_name = "SET", default_value = "testset", value_parser = name::<63>)]
    pub set: String,
    /// Number of keys
    #[arg(short, long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub keys: u32,
    /// First key: keys are integers
    #[arg(short = 'S', long, value_name = "N", default_value_t = 0)]
    pub start_key: u32,
    /// Number of bins of a record
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub bins: u16,
    /// Value of each bin: I (integer), S:N (string of N letters), B:N (N bytes)
    #[arg(short, long, value_name = "I|S:N|B:N", default_value = "B:1024")]
    pub object: ValueType,
    /// Operations: I writes each key once and ends; RU,95 reads in 95 of 100 transactions and writes in the others
    #[arg(short, long, value_name = "I|RU,PCT", default_value = "RU,95")]
    pub workload: Mix,
    /// Transactions in flight, each on its own connection unless --pipeline is given
    #[arg(short = 'z', long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub connections: u32,
    /// Transactions per second (open loop, latency includes queueing). Without this option, or with 0: closed loop
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=100_000_000))]
    pub rate: Option<u64>,
    /// Timeout of a transaction, ms
    #[arg(short = 'T', long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    pub timeout: u32,
    /// Show the nodes found and their properties
    #[arg(short = 'D', long)]
    pub debug: bool,
    /// Length of the run: 1h, 30m, or a number of seconds [default: 60; with -w I: until all keys are written]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<u32>,
    /// Transactions in flight on each connection, if the server supports pipelining
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub pipeline: u32,
    /// Records per read. Above 1, each read is a batch: one request to each node, and one latency for the whole batch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=5000))]
    pub batch_read_size: u32,
    /// Nodes to read from. master: only the master. sequence: the master; if it fails, the next copies. any: all
    /// copies in turn. prefer-rack: first the nodes in the rack --rack-id
    #[arg(
        hide_short_help = true,
        long,
        value_name = "master|sequence|any|prefer-rack",
        default_value = "master"
    )]
    pub replica: Replica,
    /// Rack of this client, for --replica prefer-rack
    #[arg(
        hide_short_help = true,
        long,
        value_name = "N",
        required_if_eq("replica", "prefer-rack")
    )]
    pub rack_id: Option<u32>,
    /// Issuing threads, each with its own keys [default: one per 64 transactions in flight, up to half of the CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Verify all data read: a read fails if the record is older than an acknowledged write (old), missing, foreign or
    /// torn; records of each kind are counted
    #[arg(long)]
    pub verify: bool,
    /// Zipfian keys: the probability of the n-th most popular key is proportional to n^-THETA
    #[arg(long, value_name = "THETA", num_args = 0..=1, default_missing_value = "0.99", value_parser = theta)]
    pub zipfian: Option<f64>,
    /// Write all bins of a record, so that the server need not read the record first
    #[arg(long)]
    pub replace: bool,
    /// Seed of all random choices [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub record: RecordArgs,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Parses a name of up to `BYTES` bytes, without the characters that separate names in servers' replies.
fn name<const BYTES: usize>(text: &str) -> Result<String, String> {
    if text.len() <= BYTES
        && !text.contains(|c: char| c.is_control() || matches!(c, ':' | ';' | ','))
    {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "give up to {BYTES} bytes, none of them ':', ';', ',' or a control character"
        ))
    }
}

fn theta(text: &str) -> Result<f64, String> {
    let theta = text
        .parse()
        .ok()
        .filter(|theta| *theta > 0.0 && *theta <= 10.0);
    theta.ok_or_else(|| "give a number above 0 and up to 10".to_owned())
}
