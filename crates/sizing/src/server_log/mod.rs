//! Logs of the database, of version 3.3 to 8.1: what they say of the load on devices.
//!
//! ```text
//! files --Source--> first line, node --order--> one ServerLog a node <--collect-- text <-- stamp <-- lines
//! ```
//!
//! Counters are kept as they were printed, cumulative since the server started, with the instant of their
//! line; what goes back to a smaller number is a restart. Rates that a line prints are for those who have one
//! line only: the server divides by a fixed 20 s. Whatever is strange is counted and said in a remark; nothing is
//! dropped in silence.

pub(crate) mod cadence;
mod collect;
pub(crate) mod order;
mod remarks;
mod stamp;
#[cfg(test)]
mod tests;
pub(crate) mod text;

pub use order::read;
pub use stamp::{Stamp, Stamps};
pub use text::size_bytes;

use crate::source::ReadError;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// Buckets of a histogram: value 0, then each power of two. Source: the server's `hist.h`, `N_BUCKETS`.
pub const BUCKETS: usize = 65;

/// Log of one server, in order of time.
#[derive(Debug, Clone, Default)]
pub struct ServerLog {
    /// The files that it was read from, in the order of time.
    pub files: Vec<String>,
    /// The node's id as the ticker prints it, upper case; `None`: no ticker line.
    pub node_id: Option<String>,
    /// Starts of the server, in the order of time.
    pub starts: Vec<Start>,
    /// Instants of the first and the last line.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Counter resets: the server was restarted, or its histograms were cleared. No difference may be taken over one of
    /// them.
    pub restarts: Vec<Timestamp>,
    /// Steps of the clock: the clock was set, or lines are missing. Ascending; no difference may be taken over one of
    /// them, either.
    pub clock_steps: Vec<Timestamp>,
    /// Dumps of histograms by name: `{test}-device-read-size`.
    pub histograms: BTreeMap<String, Vec<Dump>>,
    /// drv_ssd lines by namespace (empty in old versions, which do not print it) and device.
    pub drives: BTreeMap<(String, String), Vec<DriveLine>>,
    /// True if the log was made from averages over its span (see [`pasted`](crate::pasted)), within which nothing is
    /// known.
    pub is_averages: bool,
    /// Oddities: torn lines, units that changed, each a sentence with numbers.
    pub remarks: Vec<String>,
}

/// Lines that a server logs at its start. If the first of them are in no file, the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Time.
    pub at: Timestamp,
    /// Version: `8.0.0.15`.
    pub build: Option<String>,
    /// Bytes of a write block by device.
    pub write_block_bytes: BTreeMap<String, u64>,
    /// Configuration of each namespace, nested keys too: each key's values in their order.
    pub configuration: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

impl Start {
    pub(crate) fn of(at: Timestamp, build: Option<String>) -> Self {
        Self { at, build, write_block_bytes: BTreeMap::new(), configuration: BTreeMap::new() }
    }
}

/// Unit of a histogram's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Milliseconds; also where a version prints none.
    Millis,
    Micros,
    Bytes,
    /// Of whatever: records of a batch.
    Count,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Millis => "msec",
            Self::Micros => "usec",
            Self::Bytes => "bytes",
            Self::Count => "count",
        })
    }
}

/// A histogram as it was dumped: counts since the server started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    /// Time.
    pub at: Timestamp,
    /// Unit of its values.
    pub unit: Unit,
    /// Total count.
    pub total: u64,
    /// Counts by bucket: 0 is the value 0, b is `2^(b-1)..2^b`; up to the last that is not 0.
    pub buckets: Vec<u64>,
}

/// A drv_ssd line, with the line of details after it: counts of write blocks since the server started.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveLine {
    /// Time.
    pub at: Timestamp,
    /// Bytes in records that count.
    pub used_bytes: u64,
    /// Write blocks that are free.
    pub free_wblocks: u64,
    /// Write blocks that wait to be written to the shadow device, where there is one.
    pub shadow_write_q: Option<u64>,
    /// Write blocks written, by clients and by defragmentation.
    pub writes: u64,
    /// Write blocks that wait to be defragmented.
    pub defrag_q: u64,
    /// Write blocks queued for defragmentation; not all of them are read.
    pub defrag_reads: u64,
    /// Write blocks written by defragmentation; `None` where a version does not print it.
    pub defrag_writes: Option<u64>,
    /// Of the line of details; `None`: drv_ssd is not at detail.
    pub detail: Option<DriveDetail>,
    pub printed: PrintedRates,
}

/// Rates of the last 20 s, a second, as a drv_ssd line and its line of details print them (the paper's without decimals).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PrintedRates {
    /// Of `writes`.
    pub writes: f64,
    /// Of `defrag_reads`.
    pub defrag_reads: f64,
    /// Of `defrag_writes`.
    pub defrag_writes: Option<f64>,
    /// Of `defrag_io_skips`.
    pub defrag_io_skips: Option<f64>,
    /// Of `direct_frees`.
    pub direct_frees: Option<f64>,
}

/// Additional counters of a drv_ssd line of level DETAIL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriveDetail {
    /// Queued write blocks that were empty when their turn came: never read.
    pub defrag_io_skips: u64,
    /// Write blocks that were emptied while still cached: never queued.
    pub direct_frees: u64,
    /// Flushes of blocks that were not full; from 7.1.
    pub partial_writes: Option<u64>,
    /// Such flushes by defragmentation; from 7.1.
    pub defrag_partial_writes: Option<u64>,
}

/// Why a log cannot be read.
#[derive(Debug, Error)]
pub enum LogError {
    /// The system refuses, or compressed data is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Not a log of the database.
    #[error(
        "reading {name} - it is no log of the database: expected lines like \"Nov 20 2026 23:12:17 GMT: INFO (info): \
         (hist.c:319) histogram dump: ...\", found {found} - give the server's own log, or the output of \
         \"journalctl -u aerospike -a -o cat\""
    )]
    NotServerLog { name: String, found: String },
    /// Lines of several nodes are mixed in it: counters of one would be taken for another's.
    #[error(
        "reading {name} - line {line} is of node {other}, and lines before it are of node {node} - give each node's log in a \
         file of its own"
    )]
    SeveralNodes {
        name: String,
        /// The first line of the other node.
        line: u64,
        /// First node.
        node: String,
        /// Other node.
        other: String,
    },
}

/// Keeps the id of the node that logged a line.
///
/// Errors: lines before it are of another node.
pub(crate) fn same_node(known: &mut Option<String>, other: String, name: &str, line: u64) -> Result<(), LogError> {
    match known {
        Some(node) if *node != other => {
            Err(LogError::SeveralNodes { name: name.to_owned(), line, node: node.clone(), other })
        }
        _ => {
            *known = Some(other);
            Ok(())
        }
    }
}
