//! The options of `flashproof engine`.

use super::{RecordArgs, seconds};
use clap::{ArgAction, Args, ValueEnum};
use load::records::Mix;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use store::client::Replica;
use store::object::ValueType;

/// Login and TLS.
#[derive(Args, Debug)]
pub struct AccessArgs {
    /// User, if the cluster requires a login; the password is prompted for, or read from --password-file or the
    /// environment variable FLASHPROOF_PASSWORD
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// File with the password in its first line
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Authority for the password: the cluster itself, or LDAP (sends clear text; only with --tls)
    #[arg(hide_short_help = true, long, value_enum, default_value_t = Auth::Internal, requires = "user")]
    pub auth: Auth,
    /// Use TLS
    #[arg(long, requires = "tls_cafile")]
    pub tls: bool,
    /// CA certificates for the nodes' certificates (PEM), such as /etc/ssl/certs/ca-certificates.crt
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub tls_cafile: Option<PathBuf>,
    /// Name in the nodes' certificates [default: the TLS name that other nodes report for a node, else the node's host]
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub tls_name: Option<String>,
    /// Certificate of this client (PEM), if the nodes require one
    #[arg(hide_short_help = true, long, value_name = "FILE", requires_all = ["tls", "tls_keyfile"])]
    pub tls_certfile: Option<PathBuf>,
    /// Private key of the client certificate (PEM)
    #[arg(
        hide_short_help = true,
        long,
        value_name = "FILE",
        requires = "tls_certfile"
    )]
    pub tls_keyfile: Option<PathBuf>,
}

/// Authority that checks a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// The cluster
    Internal,
    /// LDAP, queried by the cluster
    External,
}

/// Options of the server.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Configuration: the subset of aerospike.conf in docs/serve.md
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,
    /// Allow the erasure of this device, if it holds data other than records of the namespace: path, serial number or
    /// world-wide name of the device
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub erase: Vec<String>,
    /// Open damaged devices, although records may be missing or out of date
    #[arg(long)]
    pub accept_losses: bool,
    /// Show the effect of the configuration and its errors, and exit
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of a benchmark of a database.
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
    /// Options of every run.
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

/// Options of the transactions benchmark.
#[derive(Args, Debug)]
pub struct TransactionsArgs {
    /// Block device, file or simulated drive ("sim:", "sim:ftl+op=12%"). Replicated rows of the table need two devices
    /// or two files [default: files in the run directory]
    #[arg(value_name = "DEVICE", num_args = 0..=2)]
    pub devices: Vec<String>,
    /// Run a server between the transactions and the drive, in this process, with clients on the loopback interface
    #[arg(long)]
    pub loopback: bool,
    /// Size of a file, or of the used part of a simulated drive, which needs the same amount of memory
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = size)]
    pub size: u64,
    /// Rows of the table: record sizes in bytes, with k for 1,024; 1k-replicated: a copy on each server (--loopback)
    /// [default: 1k,2k,4k; with --loopback also 1k-replicated, except with one device]
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    pub rows: Option<Vec<RowKind>>,
    /// Number of records [default: as many as fill 40 % of the device, at most 100 million]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub keys: Option<u32>,
    /// Measured load: RU,95 reads in 95 of 100 transactions and writes in the others
    #[arg(short, long, value_name = "RU,PCT", default_value = "RU,95")]
    pub workload: Mix,
    /// Transactions in flight
    #[arg(short = 'z', long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub connections: u32,
    /// Transactions per second [default: closed loop]
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub rate: Option<u64>,
    /// Cores of the store, or of each server, each with its own thread [default: all; one on a simulated drive]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Acknowledge a write only when it is durable on the device
    #[arg(hide_short_help = true, long)]
    pub commit_to_device: bool,
    /// Number of recently written blocks of each device that stay cached in memory (post-write-queue)
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 0)]
    pub post_write_queue: u32,
    /// Measured time of each row
    #[arg(long, value_name = "TIME", default_value_t = 3, value_parser = seconds)]
    pub duration: u32,
    /// Warm-up time before the measurement
    #[arg(long, value_name = "TIME", default_value_t = 1, value_parser = seconds)]
    pub warm_up: u32,
    /// Verify all data read
    #[arg(long)]
    pub verify: bool,
    /// Allow the erasure of the device, by its serial number, wwid, by-id link or path
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Also write the table as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Replace an existing file of --json
    #[arg(long, requires = "json")]
    pub force: bool,
    /// Seed of all random choices [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Options of every run.
    #[command(flatten)]
    pub record: RecordArgs,
}

fn size(text: &str) -> Result<u64, String> {
    engine::sim::size_bytes(text)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "give a size such as 512MiB or 10GB".to_owned())
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowKind {
    /// Bytes of a record.
    pub bytes: u32,
    /// True if each record is on two servers.
    pub replicated: bool,
}

const REPLICATED: &str = "-replicated";

impl fmt::Display for RowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bytes.is_multiple_of(1_024) {
            write!(f, "{}k", self.bytes / 1_024)?
        } else {
            write!(f, "{}", self.bytes)?
        }
        f.write_str(if self.replicated { REPLICATED } else { "" })
    }
}

impl FromStr for RowKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u32>().ok();
        let (size, replicated) = text
            .strip_suffix(REPLICATED)
            .map_or((text, false), |size| (size, true));
        let bytes = match size.strip_suffix(['k', 'K']) {
            Some(kib) => number(kib).and_then(|kib| kib.checked_mul(1_024)),
            None => number(size),
        };
        bytes
            .filter(|bytes| (16..=1 << 20).contains(bytes))
            .map(|bytes| Self { bytes, replicated })
            .ok_or_else(|| {
                "give record sizes from 16 to 1024k, such as 1k,2k,4k,1k-replicated".to_owned()
            })
    }
}
