//! The options of `flashproof engine bench`.

use super::{RecordArgs, seconds};
use clap::Args;
use load::workload::records::Mix;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Options of the table of transactions.
#[derive(Args, Debug)]
pub struct TransactionsArgs {
    /// Block device or file, or a simulated drive: "sim:", "sim:ftl+op=12%"; two of them for rows with replication [default:
    /// files in the run directory]
    #[arg(value_name = "DEVICE", num_args = 0..=2)]
    pub devices: Vec<String>,
    /// Put a server between the transactions and the drive, in this process, with its clients on the loopback interface
    #[arg(long)]
    pub loopback: bool,
    /// Size of a file; of a simulated drive how much of it is used, which takes as much memory
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = size)]
    pub size: u64,
    /// Rows of the table: bytes of a record with k for 1,024; 1k-replicated has each record on two servers (--loopback)
    /// [default: 1k,2k,4k, and 1k-replicated with --loopback where there are files or two devices]
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    pub rows: Option<Vec<RowKind>>,
    /// How many records [default: as many as fill 40 % of the device, at most 100 million]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub keys: Option<u32>,
    /// What is measured: RU,95 reads in 95 of 100 transactions and writes in the others
    #[arg(short, long, value_name = "RU,PCT", default_value = "RU,95")]
    pub workload: Mix,
    /// Transactions at once
    #[arg(short = 'z', long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub connections: u32,
    /// Transactions a second [default: as many as it does]
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub rate: Option<u64>,
    /// Cores of the store, or of each server, each with a thread of its own [default: all; one on a simulated drive]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Have a write answered only when it is on the device
    #[arg(hide_short_help = true, long)]
    pub commit_to_device: bool,
    /// Write blocks in memory of each device that are read from there (post-write-queue)
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 0)]
    pub post_write_queue: u32,
    /// How long each row is measured
    #[arg(long, value_name = "TIME", default_value_t = 3, value_parser = seconds)]
    pub duration: u32,
    /// How long it runs before
    #[arg(long, value_name = "TIME", default_value_t = 1, value_parser = seconds)]
    pub warm_up: u32,
    /// Look at all that is read
    #[arg(long)]
    pub verify: bool,
    /// Allow the erasure of the device, by its serial number, wwid, by-id link or path
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Write the table as JSON, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Replace the file of --json if it is there
    #[arg(long, requires = "json")]
    pub force: bool,
    /// Seed of all random choices [default: another each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// As of any run.
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
    /// Whether each record is on two servers.
    pub replicated: bool,
}

const REPLICATED: &str = "-replicated";

impl fmt::Display for RowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes.is_multiple_of(1_024) {
            true => write!(f, "{}k", self.bytes / 1_024)?,
            false => write!(f, "{}", self.bytes)?,
        }
        f.write_str(if self.replicated { REPLICATED } else { "" })
    }
}

impl FromStr for RowKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u32>().ok();
        let (size, replicated) = text.strip_suffix(REPLICATED).map_or((text, false), |size| (size, true));
        let bytes = match size.strip_suffix(['k', 'K']) {
            Some(kib) => number(kib).and_then(|kib| kib.checked_mul(1_024)),
            None => number(size),
        };
        bytes
            .filter(|bytes| (16..=1 << 20).contains(bytes))
            .map(|bytes| Self { bytes, replicated })
            .ok_or_else(|| "give bytes from 16 to 1024k: 1k,2k,4k,1k-replicated".to_owned())
    }
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof engine bench                                     on a file, in seconds
  flashproof engine bench sim:                                on a simulated drive: no device at all
  flashproof engine bench /dev/nvme1n1 --duration 10m --warm-up 5m       ERASES it
  flashproof engine bench /dev/nvme1n1 --erase S64ANX0T402 -z 256        in a script: allow the erasure, by serial number
  flashproof engine bench --rows 1k -w RU,50 -g 20000         one row, at a rate
  flashproof engine bench --loopback                          over sockets, and with replication between two servers
  flashproof engine bench --loopback /dev/nvme1n1 /dev/nvme2n1           a drive for each of the two; ERASES both

Each row inserts its records, warms up and measures, in a store in this process: no network, no other process. With
--loopback there is a server between, of one node or of two. For servers on machines of their own see \"flashproof engine serve\"
and \"flashproof engine client\"; docs/transactions.md has all of it.";
