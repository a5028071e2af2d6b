//! Tables of one histogram of a log, as asloglatency prints them.
//!
//! ```text
//! lines --scan--> dumps of the histogram --slices--> shares over 1, 2, 4, ... and rates --text--> the table
//! ```
//!
//! The rules are those of asloglatency 11.2, so that the tables are equal byte by byte. A slice ends at the first
//! histogram that comes at least (slice length - 1 s) after the end of the previous slice. Times are by the log's own
//! clock, in whole seconds. The last histogram counts only if a line follows it. A histogram without a namespace is the
//! sum over all namespaces. asloglatency reads latency buckets up to number 16, and buckets of sizes and of record
//! counts up to number 25, so larger values are missing from its shares. Restarts and damage, which asloglatency does
//! not report, are in the remarks.

mod scan;
mod slices;

pub use scan::{ScanResult, is_server_log, scan};
pub use slices::{LatencySlice, LatencyTable, table};

use crate::server_log::HistogramUnit;
use jiff::civil::DateTime;
use std::fmt;

#[derive(Debug, Clone)]
pub struct HistogramQuery {
    /// Name of the histogram: `{test}-read`, or `read` for the sum of all namespaces.
    pub histogram: String,
    /// Namespace, if `histogram` does not contain it.
    pub namespace: Option<String>,
    pub slice_sec: i64,
    pub start: TableStart,
    pub duration_sec: Option<i64>,
    /// Number of thresholds.
    pub buckets: usize,
    /// Step between two thresholds shown.
    pub threshold_step: usize,
    /// True to reproduce asloglatency's errors: slices across restarts, and batch sizes shown as milliseconds.
    pub as_asloglatency: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableStart {
    /// The start of the log.
    Head,
    /// Five minutes before the end of the log.
    Tail,
    /// This many seconds before the end of the log.
    Before(i64),
    /// A time by the log's clock.
    At(DateTime),
}

/// Meaning of a histogram's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Scale {
    /// Latencies, in the unit that the log's line gives.
    Latency,
    Bytes,
    Records,
}

impl HistogramQuery {
    fn scale(&self) -> Scale {
        let is_of = |names: &[&str]| names.iter().any(|name| self.histogram.contains(name));
        if is_of(&["device-read-size", "device-write-size"]) {
            Scale::Bytes
        } else if is_of(&["query-rec-count"])
            || !self.as_asloglatency && is_of(&["batch-rec-count"])
        {
            Scale::Records
        } else {
            Scale::Latency
        }
    }

    fn buckets_read(&self) -> usize {
        if self.scale() == Scale::Latency {
            17
        } else {
            26
        }
    }

    /// The exponents of the thresholds shown: a threshold is a power of two.
    pub fn thresholds(&self) -> Vec<usize> {
        (0..self.buckets_read())
            .step_by(self.threshold_step.max(1))
            .take(self.buckets)
            .collect()
    }

    /// True if the name includes a namespace: `{test}-read`. As in asloglatency, a drive's histogram
    /// (`{test}-/dev/sdb-read`) counts as a name without a namespace; no other histogram has that name.
    fn names_a_namespace(&self) -> bool {
        let Some(rest) = self.histogram.strip_prefix('{') else {
            return false;
        };
        self.namespace.is_some()
            || rest
                .match_indices("}-")
                .any(|(at, found)| at > 0 && rest[at + found.len()..].starts_with(is_name_char))
    }

    /// True for a name that is the sum over all namespaces.
    fn is_summed(&self) -> bool {
        self.namespace.is_none() && !self.names_a_namespace()
    }

    /// Minimum length of a slice, seconds: ticks may come slightly early.
    fn slice_min_sec(&self) -> i64 {
        if self.slice_sec > 1 {
            self.slice_sec - 1
        } else {
            self.slice_sec
        }
    }

    fn unit_name(&self, unit: HistogramUnit) -> &'static str {
        match (self.scale(), unit) {
            (Scale::Bytes, _) => "bytes",
            (Scale::Records, _) => "records",
            (Scale::Latency, HistogramUnit::Micros) => "us",
            (Scale::Latency, _) => "ms",
        }
    }

    /// The first lines of the output, for a log named `log`.
    pub fn title(&self, log: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("Histogram : {{{namespace}}}-{}\n", self.histogram),
            None => format!("Histogram Name : {}\nLog       : {log}\n", self.histogram),
        }
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Reads `3600` or `1:00:00`, seconds.
pub fn seconds(text: &str) -> Option<i64> {
    let parts = text
        .split(':')
        .map(|part| part.trim().parse::<u32>().ok().map(i64::from));
    let parts: Vec<i64> = parts.collect::<Option<_>>()?;
    (parts.len() <= 3).then(|| parts.iter().fold(0, |seconds, part| seconds * 60 + part))
}

const LABEL: &str = "slice-to (sec)";

impl LatencyTable {
    /// asloglatency's line with the requested start, before the table.
    pub fn asked_from_line(&self) -> String {
        self.asked_from.map_or_else(String::new, |from| {
            format!("From      : {}\n\n", from.strftime("%Y-%m-%d %H:%M:%S"))
        })
    }

    /// asloglatency's message for a table without a slice.
    pub fn no_slice(&self) -> String {
        let seconds = if self.slice_sec > 1 {
            self.slice_sec - 1
        } else {
            self.slice_sec
        };
        let days = seconds / 86_400;
        let rest_sec = seconds % 86_400;
        let days = match days {
            0 => String::new(),
            1 => "1 day, ".to_owned(),
            days => format!("{days} days, "),
        };
        format!(
            "could not find {days}{}:{:02}:{:02} of data",
            rest_sec / 3600,
            rest_sec / 60 % 60,
            rest_sec % 60
        )
    }
}

fn line(label: &str, seconds: &str, pct_over: &[f64], rate: f64) -> String {
    let pct_over: String = pct_over.iter().map(|pct| format!("{pct:7.2}")).collect();
    format!("{label:>8}{seconds:>6}{pct_over}{rate:11.1}\n")
}

impl fmt::Display for LatencyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |at: DateTime| at.strftime("%b %d %Y %H:%M:%S").to_string();
        let Some(from) = self.from else { return Ok(()) };
        let thresholds: String = self
            .thresholds
            .iter()
            .map(|threshold| format!("{threshold:>7}"))
            .collect();
        let width = LABEL.len();
        let columns = " ------".repeat(self.thresholds.len());
        let underline = format!("{}{columns} {}\n", "-".repeat(width), "-".repeat(10));
        writeln!(f, "{}\n{:width$} %> ({})", time(from), "", self.unit)?;
        write!(f, "{LABEL}{thresholds}{:>11}\n{underline}", "ops/sec")?;
        for LatencySlice {
            to,
            seconds,
            pct_over,
            ops_per_sec,
        } in &self.slices
        {
            let to = to.strftime("%H:%M:%S").to_string();
            f.write_str(&line(&to, &seconds.to_string(), pct_over, *ops_per_sec))?;
        }
        let (Some((average, rate)), Some((largest, largest_rate))) = (&self.average, &self.largest)
        else {
            return writeln!(f, "{}", self.no_slice());
        };
        write!(
            f,
            "{underline}{}{}",
            line("avg", "", average, *rate),
            line("max", "", largest, *largest_rate)
        )?;
        let Some((unit_before, unit_after, local_time)) = self.unit_change else {
            return Ok(());
        };
        let time_text = time(local_time);
        writeln!(
            f,
            "WARNING: asloglatency stopped early because latency units have changed from {unit_before} to {unit_after}.\n\
             Use 'asloglatency -h <histogram> -f '{time_text}'' to bypass this problem."
        )
    }
}

#[cfg(test)]
mod tests;
