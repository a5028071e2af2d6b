//! The options of `flashproof engine client`: those of Aerospike's benchmarks, and ours.
//!
//! `-h` is the host there, so help is `--help` alone.

use super::{AccessArgs, RecordArgs, seconds};
use clap::{ArgAction, Args};
use load::workload::records::Mix;
use store::object::Value;

/// Options of a benchmark of a database.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct ClientArgs {
    /// Node of the cluster, with its port if that is another than -p; several with commas. It names the others
    #[arg(short = 'h', long, value_name = "HOST[:PORT]", default_value = "127.0.0.1", value_delimiter = ',')]
    pub host: Vec<String>,
    /// Port of the nodes
    #[arg(short, long, value_name = "PORT", default_value_t = 3000)]
    pub port: u16,
    /// Namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "test", value_parser = name::<31>)]
    pub namespace: String,
    /// Set of the records; "" for none
    #[arg(short, long, value_name = "SET", default_value = "testset", value_parser = name::<63>)]
    pub set: String,
    /// How many keys there are
    #[arg(short, long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub keys: u32,
    /// The first of them: keys are whole numbers
    #[arg(short = 'S', long, value_name = "N", default_value_t = 0)]
    pub start_key: u32,
    /// Bins of a record
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub bins: u16,
    /// What is in each: I (integer), S:N (string of N letters), B:N (N bytes)
    #[arg(short, long, value_name = "I|S:N|B:N", default_value = "B:1024")]
    pub object: Value,
    /// What is done: I writes each key once and ends; RU,95 reads in 95 of 100 transactions and writes in the others
    #[arg(short, long, value_name = "I|RU,PCT", default_value = "RU,95")]
    pub workload: Mix,
    /// Transactions at once, each on a connection of its own unless --pipeline says otherwise
    #[arg(short = 'z', long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub connections: u32,
    /// Transactions a second, at instants fixed beforehand: what waits behind a slow one counts as slow. Without it each
    /// begins when one before it ends, and so with 0
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=100_000_000))]
    pub rate: Option<u64>,
    /// How long a transaction may take, ms
    #[arg(short = 'T', long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    pub timeout: u32,
    /// Show the nodes that were found, and what each has
    #[arg(short = 'D', long)]
    pub debug: bool,
    /// How long to go on: 1h, 30m, or a number of seconds [default: 60; of -w I: until all keys are written]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<u32>,
    /// Transactions at once on each connection, where the server takes that
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub pipeline: u32,
    /// Issuing threads, each with keys of its own [default: one for 64 transactions at once, up to half of the CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Look at all that is read: a record with other bytes than were written, or older than a write that was acknowledged, fails
    #[arg(long)]
    pub verify: bool,
    /// Some keys are more popular than others: the n-th in proportion to n^-THETA
    #[arg(long, value_name = "THETA", num_args = 0..=1, default_missing_value = "0.99", value_parser = theta)]
    pub zipfian: Option<f64>,
    /// Write all bins of a record, so that the server need not read it before
    #[arg(long)]
    pub replace: bool,
    /// Seed of all random choices [default: another each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub access: AccessArgs,
    /// As of any run.
    #[command(flatten)]
    pub record: RecordArgs,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// A name of up to so many bytes that stands between separators in what servers say.
fn name<const BYTES: usize>(text: &str) -> Result<String, String> {
    match text.len() <= BYTES && !text.contains(|c: char| c.is_control() || matches!(c, ':' | ';' | ',')) {
        true => Ok(text.to_owned()),
        false => Err(format!("give up to {BYTES} bytes without ':', ';', ',' and control characters")),
    }
}

fn theta(text: &str) -> Result<f64, String> {
    let theta = text.parse().ok().filter(|theta| *theta > 0.0 && *theta <= 10.0);
    theta.ok_or_else(|| "give a number over 0, up to 10".to_owned())
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof engine client -h db1 -n test -k 1000000 -o B:1024 -w I -z 64           insert a million records of 1 KiB
  flashproof engine client -h db1 -n test -k 1000000 -o B:1024 -w RU,95 -z 64       read and write them, as fast as it goes
  flashproof engine client -h db1 -n test -k 1000000 -w RU,95 -z 256 -g 50000       50,000 a second, whatever comes back
  flashproof engine client -h db1 -k 1000000 -w RU,50 --zipfian --verify    with a look at all that is read
  flashproof engine client -h 127.0.0.1 -k 100000 -w RU,95 -z 256 --pipeline 32     several at once on each connection
  flashproof engine client -h db1:4333 --tls --tls-cafile ca.pem --user me     over TLS, with a login

Any Aerospike server will do, \"flashproof engine serve\" among them. Records are written to the namespace: take one whose
data are not needed. docs/transactions.md explains what is recorded.";
