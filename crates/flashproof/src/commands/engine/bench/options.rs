//! Options of `flashproof engine bench`.

use crate::record::{EraseArgs, RecordArgs};
use clap::Args;
use load::records::Mix;
use results::format::seconds;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

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
    #[command(flatten)]
    pub consent: EraseArgs,
    /// Also write the table as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Replace an existing file of --json
    #[arg(long, requires = "json")]
    pub force: bool,
    /// Seed of all random choices [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub record: RecordArgs,
}

fn size(text: &str) -> Result<u64, String> {
    engine::sim::size_bytes(text)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "give a size such as 512MiB or 10GB".to_owned())
}

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
