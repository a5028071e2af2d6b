//! Reads logs of the database, versions 3.9 to 8.1: the counters of the load on devices. Logs of
//! version 3.8 and older have only the counters of blocks, without sizes of records.
//!
//! ```text
//! files --order--> files of each node, by time --lines, prefix, text--> messages --collect--> ServerLog of each node
//! ```
//!
//! Counters are kept as printed, cumulative since the server started, with the time of their line; a decrease means a
//! restart. Printed rates are used only if there is a single line, because the server divides by a fixed 20 s instead
//! of the measured time. Damaged and odd lines are counted: each kind of oddity becomes one remark, with its count and
//! its first position.

pub(crate) mod clock_steps;
pub(crate) mod collect;
pub mod kinds;
pub(crate) mod order;
pub(crate) mod prefix;
pub(crate) mod text;

pub use collect::starts::{flag, read_configuration};
pub use kinds::Events;
pub use order::read;
pub use text::{Stamp, Stamps, size_bytes};

use crate::source::SourceError;
use jiff::Timestamp;
use results::format::{Grouped, count, quoted};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// Buckets of a histogram: value 0, then each power of two. Source: the server's `hist.h`, `N_BUCKETS`.
pub const BUCKETS: usize = 65;

/// Log of one server, in order of time.
#[derive(Debug, Clone, Default)]
pub struct ServerLog {
    pub files: Vec<String>,
    /// The node's id, upper case, from the ticker or the logged configuration; `None`: not logged.
    pub node_id: Option<String>,
    pub starts: Vec<Start>,
    /// Instants of the first and the last line.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Counter resets: restarts, or cleared histograms. A difference of counters must not span one.
    pub restarts: Vec<Timestamp>,
    /// Clock steps, ascending: the clock was set, or lines are missing. A difference of counters must not span one.
    pub clock_steps: Vec<Timestamp>,
    /// Dumps of histograms by name: `{test}-device-read-size`.
    pub histograms: BTreeMap<String, Vec<Dump>>,
    /// drv_ssd lines by namespace and device. Old versions do not print the namespace: it is empty.
    pub drives: BTreeMap<(String, String), Vec<DriveLine>>,
    /// True if made from averages over its span (see [`pasted`](crate::pasted)), within which there are no counters.
    pub is_averages: bool,
    /// Lines about devices and namespaces that no number of a profile contains.
    pub events: Events,
    /// Oddities, with numbers: torn lines, units that changed.
    pub remarks: Vec<String>,
    /// The remark about the largest number of lines or histograms that were left out.
    pub most_left_out: Option<String>,
}

impl ServerLog {
    /// True if a counter was logged twice: a rate needs two values.
    fn has_counters(&self) -> bool {
        self.histograms.values().any(|dumps| dumps.len() > 1)
            || self.drives.values().any(|lines| lines.len() > 1)
    }

    /// For an error about missing counters: what was left out, in parentheses; empty if nothing was left out.
    pub(crate) fn left_out(&self) -> String {
        self.most_left_out
            .as_ref()
            .map_or_else(String::new, |remark| format!(" ({remark})"))
    }
}

/// Lines that a server logs at its start, or its configuration file. The first of these lines may be missing from the
/// files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub timestamp: Timestamp,
    /// Source of the configuration.
    pub origin: String,
    /// Version: `8.0.0.15`.
    pub build: Option<String>,
    pub write_block_bytes: BTreeMap<String, u64>,
    /// Configuration of each namespace, including nested keys: the values of each key, in order.
    pub configuration: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

impl Start {
    pub(crate) fn new(timestamp: Timestamp, build: Option<String>) -> Self {
        Self {
            timestamp,
            origin: "the log of the server's start".to_owned(),
            build,
            write_block_bytes: BTreeMap::new(),
            configuration: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HistogramUnit {
    /// Milliseconds; also the default if a version prints no unit.
    Millis,
    Micros,
    Bytes,
    /// A plain number, such as records of a batch.
    Count,
}

results::display!(HistogramUnit {
    Millis => "msec",
    Micros => "usec",
    Bytes => "bytes",
    Count => "count",
});

/// A histogram as it was dumped: counts since the server started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    pub timestamp: Timestamp,
    pub unit: HistogramUnit,
    pub total: u64,
    /// Counts by bucket, up to the last count that is not 0. Bucket 0 has the value 0, bucket b has `2^(b-1)..2^b`.
    pub buckets: Vec<u64>,
}

impl Dump {
    fn counts(&self) -> collect::DumpCounts<'_> {
        (self.unit, self.total, &self.buckets)
    }
}

/// A drv_ssd line, with the line of details after it: counts of write blocks since the server started.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveLine {
    pub timestamp: Timestamp,
    /// Bytes of live records.
    pub used_bytes: u64,
    pub free_wblocks: u64,
    /// Write blocks queued for the shadow device, if there is one.
    pub shadow_write_q: Option<u64>,
    /// Write blocks queued for the device. `None`: not logged, as in versions 3.8 and older, or by an engine that keeps
    /// records in memory without a device.
    pub write_q: Option<u64>,
    /// Large blocks read by the tomb raider in its present round.
    pub tomb_raider_reads: u64,
    /// Bytes of a write block, if the line shows them: servers 3.8 and older print free blocks and free bytes.
    pub block_bytes: Option<u64>,
    /// True for the engine that keeps records in memory (drv-mem): the device is only written to.
    pub is_memory: bool,
    /// Write blocks written, by clients and by defragmentation.
    pub writes: u64,
    pub defrag_q: u64,
    /// Write blocks queued for defragmentation; not all of them are read.
    pub defrag_reads: u64,
    /// Write blocks written by defragmentation; `None` if a version does not print it.
    pub defrag_writes: Option<u64>,
    /// Counters of the detail line; `None`: the log level of drv_ssd is not detail.
    pub detail: Option<DriveDetail>,
    pub printed: PrintedRates,
}

/// Log context of the drive lines of a storage engine: records in memory, or on devices.
pub const fn drive_context(is_memory: bool) -> &'static str {
    if is_memory { "drv-mem" } else { "drv_ssd" }
}

pub fn are_in_memory(lines: &[DriveLine]) -> bool {
    lines.iter().any(|line| line.is_memory)
}

/// Rates per second over the last 20 s, as printed in a drv_ssd line and its detail line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PrintedRates {
    pub writes: f64,
    pub defrag_reads: f64,
    pub defrag_writes: Option<f64>,
    pub defrag_io_skips: Option<f64>,
    pub direct_frees: Option<f64>,
    pub tomb_raider_reads: f64,
}

/// Additional counters of a drv_ssd line of level DETAIL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriveDetail {
    /// Queued write blocks that were already empty when defragmentation came to them, and were never read.
    pub defrag_io_skips: u64,
    /// Write blocks that became empty while still cached, and were never queued.
    pub direct_frees: u64,
    /// Flushes of blocks that were not full; logged from server version 7.1 on.
    pub partial_writes: Option<u64>,
    /// Flushes by defragmentation of blocks that were not full; logged from server version 7.1 on.
    pub defrag_partial_writes: Option<u64>,
}

#[derive(Debug, Error)]
pub enum LogError {
    #[error(transparent)]
    Read(#[from] SourceError),
    #[error(
        "reading {name} - this is not a log of the database: expected lines like \"Nov 20 2026 23:12:17 GMT: INFO \
         (info): (hist.c:319) histogram dump: ...\", with or without a prefix, found {found} - give the server's own \
         log, or the output of \"journalctl -u aerospike -a\" or of \"docker logs\""
    )]
    NotServerLog { name: String, found: String },
    #[error(
        "reading {name} - the whole file is one line of JSON of {} bytes - write each message as a line: \
         jq -r '.. | strings' FILE > NEW", Grouped(*.bytes)
    )]
    OneJsonLine { name: String, bytes: u64 },
    /// Lines cut by a terminal or a pager: their counters are missing.
    #[error(
        "reading {name} - drive lines are cut or wrapped at column {column}: {} of this length, the greatest in the file, cannot \
         be read - give the uncut log, such as the server's own file", count(*.lines, "drive or histogram line")
    )]
    Cut {
        name: String,
        lines: u64,
        column: usize,
    },
    /// Lines of the server without its stamp, in a form of syslog without a full date.
    #[error(
        "reading {name} - the lines have no time stamp of the server (\"Nov 20 2026 23:12:17 GMT: \"), because the \
         server's syslog sink writes none, and syslog's own stamp lacks the year or the time zone - give the log of \
         the server's file or console sink, or the output of \"journalctl -o short-iso\""
    )]
    NoServerTime { name: String },
    #[error(
        "reading {name} - the lines are in descending order of time (the time goes back {earlier} times, and \
         forward {later} times), as some tools export them - reverse their order: tac FILE > NEW"
    )]
    Descending {
        name: String,
        earlier: u64,
        later: u64,
    },
    /// Lines of several nodes are mixed, so counters of different nodes would be confused.
    #[error(
        "reading {name} - line {line} is of node {other}, but earlier lines are of node {node} - give each node's log \
         in a \
         file of its own"
    )]
    SeveralNodes {
        name: String,
        line: u64,
        node: String,
        other: String,
    },
    /// Lines of one node have two different prefixes, so their order is unknown.
    #[error(
        "reading {files} - lines of node {node} have several prefixes ({prefixes}): it is not clear which of them is the \
         node's log - give the lines with one of the prefixes (grep), as a file of their own"
    )]
    SeveralPrefixes {
        files: String,
        node: String,
        prefixes: String,
    },
}

/// Stores the id of the node that logged a line. `name`, `line`: file and number of the line, for the error.
/// Errors: earlier lines are of another node.
pub(crate) fn same_node(
    node_id: &mut Option<String>,
    id: String,
    name: &str,
    line: u64,
) -> Result<(), LogError> {
    match node_id {
        Some(node) if *node != id => Err(LogError::SeveralNodes {
            name: name.to_owned(),
            line,
            node: node.clone(),
            other: id,
        }),
        _ => {
            *node_id = Some(id);
            Ok(())
        }
    }
}

/// Characters of a line that a remark quotes.
const QUOTED_CHARS: usize = 80;

/// A kind of oddity, in the order of remarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Oddity {
    /// A line without a time stamp that continues no other line.
    Unstamped,
    IncompleteDump,
    /// A histogram whose buckets add up to a little less or more than its total.
    UnevenDump,
    /// A histogram with the buckets of another histogram of equal total.
    StrayDump,
    /// Buckets without the line that begins their histogram.
    LostBuckets,
    /// An unreadable line of a histogram or a drive.
    Unread,
    UnknownUnit,
    UnitChanged,
    /// Counts whose time is not later than the time of the previous counts.
    NotLater,
    /// A line that began in one file and ended in the next.
    Joined,
    /// A line of a histogram or a drive that occurs twice in a row.
    Repeated,
    /// A line of a drive or a namespace without a row in the table of kinds.
    UnknownKind,
}

impl Oddity {
    fn text(self, number: u64) -> String {
        let (noun, effect) = match self {
            Self::Unstamped => ("line", "without a time, left out"),
            Self::IncompleteDump => ("histogram", "without all of its buckets, left out"),
            Self::UnevenDump => (
                "histogram",
                "with a difference of at most 0.1 % between buckets and total, used as printed",
            ),
            Self::StrayDump => (
                "histogram",
                "with the buckets of another histogram, because lines between the two are missing, left out",
            ),
            Self::LostBuckets => (
                "line",
                "of buckets without the line that names their histogram, left out",
            ),
            Self::Unread => (
                "line",
                "of a histogram or a drive that cannot be read, left out",
            ),
            Self::UnknownUnit => ("histogram", "in an unknown unit, left out"),
            Self::UnitChanged => (
                "histogram",
                "in another unit than before, read in the new unit",
            ),
            Self::NotLater => (
                "histogram or drive line",
                "not later than the one before (the clock went back, or the log was \
                                given twice), left out",
            ),
            Self::Repeated => (
                "line",
                "of a histogram or a drive, equal to the one before, left out",
            ),
            Self::UnknownKind => (
                "line",
                "of a drive or a namespace, of a kind that this version of flashproof does not know, left out",
            ),
            Self::Joined => (
                "line",
                "in two parts, at the end of one file and the start of the next, joined",
            ),
        };
        format!("{} {effect}", count(number, noun))
    }

    fn remark(self, number: u64, first: &str) -> String {
        format!("{}; the first: {first}", self.text(number))
    }
}

#[derive(Debug, Clone, Copy)]
struct LinePosition<'a> {
    file: &'a str,
    line: u64,
}

impl fmt::Display for LinePosition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}", self.file, self.line)
    }
}

#[derive(Debug, Default)]
struct Oddities {
    kinds: BTreeMap<Oddity, (u64, String)>,
    /// Oddities that occur once, as sentences.
    sentences: Vec<String>,
    sentences_dropped: u64,
}

/// Maximum number of sentences kept.
const SAID_MAX: usize = 200;

impl Oddities {
    /// Counts an oddity of `kind`, and stores the position of the first oddity of this kind.
    fn count(&mut self, kind: Oddity, position: LinePosition<'_>, quote: &[u8]) {
        let (number, _) = self.kinds.entry(kind).or_insert_with(|| {
            let text: String = String::from_utf8_lossy(quote)
                .chars()
                .take(QUOTED_CHARS)
                .collect();
            (0, format!("{position}: {}", quoted(&text)))
        });
        *number += 1;
    }

    fn number(&self, kind: Oddity) -> u64 {
        self.kinds.get(&kind).map_or(0, |(number, _)| *number)
    }

    fn add_remark(&mut self, sentence: String) {
        if self.sentences.len() < SAID_MAX {
            self.sentences.push(sentence)
        } else {
            self.sentences_dropped += 1
        }
    }

    /// The remark about the kind of damage with the largest number.
    fn most_left_out(&self) -> Option<String> {
        let damage = [
            Oddity::Unstamped,
            Oddity::IncompleteDump,
            Oddity::LostBuckets,
            Oddity::Unread,
            Oddity::UnknownUnit,
        ];
        let kinds = self.kinds.iter().filter(|(kind, _)| damage.contains(kind));
        kinds
            .max_by_key(|(_, (number, _))| *number)
            .map(|(kind, (number, first))| kind.remark(*number, first))
    }

    fn remarks(self) -> Vec<String> {
        let mut remarks = self.sentences;
        if self.sentences_dropped > 0 {
            remarks.push(format!("and {} more such remarks", self.sentences_dropped));
        }
        remarks.extend(
            self.kinds
                .into_iter()
                .map(|(kind, (number, first)): (Oddity, _)| kind.remark(number, &first)),
        );
        remarks
    }
}

#[cfg(test)]
mod tests;
