//! Why a log gives no table.

use super::table::version_line;
use results::act_log::{Part, ReadError};
use thiserror::Error;

/// A log that gives no table. Messages name the log.
#[derive(Debug, Error)]
pub enum LatencyError {
    /// The log does not read.
    #[error("reading {log}, {source}; give a whole log of act_storage, act_index or flashproof")]
    Read {
        /// The log as it was named.
        log: String,
        /// What is wrong with it, and where.
        source: ReadError,
    },
    /// The configuration does not say how long a report interval is.
    #[error(
        "reading {log} - its configuration has report-interval-sec {found}, and slices need a whole number of seconds \
         above 0; give a log with its whole header"
    )]
    Interval {
        /// The log as it was named.
        log: String,
        /// The version of the log.
        version: String,
        /// The value in quotes, or `missing`.
        found: String,
    },
    /// A name fits several histograms.
    #[error("reading {log} - {wanted:?} is the beginning of {} histograms: {}; name one of them", .fits.len(), .fits.join(", "))]
    Ambiguous {
        /// The log as it was named.
        log: String,
        /// The name that was asked for.
        wanted: String,
        /// The histograms that it fits.
        fits: Vec<String>,
    },
    /// Logs whose intervals have no multiple in common that could be counted.
    #[error(
        "slices of {slice_sec} s do not fit report intervals of {intervals}: their common multiple is too long; look at the logs one by one"
    )]
    Slices {
        /// The length asked for.
        slice_sec: u64,
        /// The intervals, as text.
        intervals: String,
    },
    /// A limit lies between two edges of the log's buckets.
    #[error(
        "judging {log} by {limit} - its buckets end at powers of two of {unit}, the nearest at {edges}, so it cannot be \
         said how many took over the threshold; choose one of those, or judge a run directory whose run had this limit in its --sla"
    )]
    Edge {
        /// The log as it was named.
        log: String,
        /// The limit.
        limit: String,
        /// Unit of the buckets.
        unit: &'static str,
        /// The edges on both sides.
        edges: String,
    },
    /// There is no histogram to judge.
    #[error("judging {log} - it has neither reads nor writes; name what to judge with -h: it has {}", .has.join(", "))]
    NothingToJudge {
        /// The log as it was named.
        log: String,
        /// The histograms of the log.
        has: Vec<String>,
    },
}

impl LatencyError {
    /// What ACT's script says on standard output of such a log before it gives up: for programs that
    /// wait for these words. Empty where it would not give up, or crash.
    pub fn in_acts_words(&self) -> String {
        match self {
            Self::Read { log, source: ReadError::Version { version, .. } } => {
                format!("{}{log} ACT version not compatible\n", version_line(log, version))
            }
            Self::Read { log, source: ReadError::Header { part: Part::Version, .. } } => {
                format!("{log} ACT version not found\n")
            }
            Self::Read { log, source: ReadError::Header { part, version, .. } } => {
                let lacks = match part {
                    Part::Version | Part::Configuration => "report interval",
                    Part::Derived => "derived configuration",
                    Part::Names => "histogram names",
                };
                format!("{}can't find {lacks}\n", version_line(log, version))
            }
            Self::Interval { log, version, found } => {
                let says = if found == "\"0\"" {
                    "reporting interval must be more than 0"
                } else {
                    "can't find report interval"
                };
                format!("{}{says}\n", version_line(log, version))
            }
            _ => String::new(),
        }
    }
}
