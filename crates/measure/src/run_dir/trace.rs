//! trace.csv, line by line: what the kernel's tracepoints showed of the requests in short samples.
//!
//! One line for each sample, device, kind and size of requests in which any completed. Times are the
//! kernel's own, so they tell what the service time of an operation cannot: how long the kernel held
//! a request, and how long the device had it.

use super::lines::WholeLines;
use super::{Manifest, RunDirError, TRACE};
use crate::buckets::THRESHOLDS_MAX;
use crate::judge::Sla;
use std::fmt::{self, Write as _};
use std::path::Path;

/// Requests of this many bytes and more are large.
pub const LARGE_BYTES_MIN: u64 = 64 * 1024;

/// Columns before those of the thresholds.
const COLUMNS: &str = "at_sec,length_ms,device,kind,size,requests,lost,queue_p50_ns,queue_p99_ns,queue_max_ns,\
                       device_p50_ns,device_p99_ns,device_max_ns";

/// What stands before the name of each threshold.
const BY_THRESHOLD: [&str; 3] = ["queue_over_", "device_over_", "total_over_"];

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// How large a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestSize {
    /// Below [`LARGE_BYTES_MIN`].
    Small,
    /// [`LARGE_BYTES_MIN`] and more.
    Large,
}

impl RequestKind {
    /// Both, with their names in the table.
    const NAMES: [(&str, Self); 2] = [("read", Self::Read), ("write", Self::Write)];
}

impl RequestSize {
    /// Both, with their names in the table.
    const NAMES: [(&str, Self); 2] = [("small", Self::Small), ("large", Self::Large)];

    /// The size of a request of `bytes`.
    pub fn of_bytes(bytes: u64) -> Self {
        if bytes < LARGE_BYTES_MIN { Self::Small } else { Self::Large }
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name))
    }
}

impl fmt::Display for RequestSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(_, size)| size == self).map_or("", |(name, _)| name))
    }
}

/// Three numbers for many durations, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spread {
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// One line of trace.csv.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceLine {
    /// Beginning of the sample, seconds since the run began.
    pub at_sec: f64,
    /// Its length, milliseconds.
    pub length_ms: f64,
    /// Number of the device, from 0, in the manifest's order.
    pub device: usize,
    /// What the requests do.
    pub kind: RequestKind,
    /// How large they are.
    pub size: RequestSize,
    /// Requests that completed in the sample, and whose beginning was seen.
    pub requests: u64,
    /// Events that were lost, so that requests are missing here.
    pub lost: u64,
    /// From block_bio_queue to block_rq_issue.
    pub queue: Spread,
    /// From block_rq_issue to block_rq_complete.
    pub device_time: Spread,
    /// By threshold, then zeros: requests that the kernel held for so long.
    pub queue_over: [u64; THRESHOLDS_MAX],
    /// Likewise: that the device had for so long.
    pub device_over: [u64; THRESHOLDS_MAX],
    /// Likewise: that took so long in all.
    pub total_over: [u64; THRESHOLDS_MAX],
}

/// First line of trace.csv.
fn header(sla: &Sla) -> String {
    let mut line = COLUMNS.to_owned();
    for limit in sla.limits() {
        for prefix in BY_THRESHOLD {
            // Writing to a string cannot fail.
            let _ = write!(line, ",{prefix}{}", limit.threshold_text());
        }
    }
    line
}

/// The lines of a run's trace.csv, one by one.
#[derive(Debug)]
pub struct TraceLines {
    lines: WholeLines,
    /// For each column that is looked at, its position; by the order of [`header`].
    positions: Vec<usize>,
    devices: usize,
    thresholds: usize,
}

impl TraceLines {
    /// Opens the table of the run in `dir`; a run without one has no lines.
    ///
    /// Errors: the system refuses, or the first line does not name the columns.
    pub fn open(dir: &Path, manifest: &Manifest) -> Result<Self, RunDirError> {
        let mut lines = WholeLines::open(dir.join(TRACE))?;
        let expected = header(&manifest.sla);
        let positions = match lines.next()? {
            None => Some(Vec::new()),
            Some(found) => {
                let found: Vec<_> = found.split(',').collect();
                expected.split(',').map(|name| found.iter().position(|column| *column == name)).collect()
            }
        };
        let Some(positions) = positions else { return Err(lines.error(format!("the columns {expected}"))) };
        Ok(Self { lines, positions, devices: manifest.devices.len(), thresholds: manifest.sla.limits().len() })
    }

    /// The next line. A torn last one is dropped.
    #[expect(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<TraceLine>, RunDirError> {
        let Some(line) = self.lines.next()? else { return Ok(None) };
        let fields: Vec<_> = line.split(',').collect();
        let read = self.positions.iter().map(|position| fields.get(*position).copied()).collect::<Option<Vec<_>>>();
        match read.and_then(|fields| parse(&fields, self.devices, self.thresholds)) {
            Some(line) => Ok(Some(line)),
            None => Err(self.lines.error("a sample's time, device, kind, size, counts and nanoseconds")),
        }
    }
}

/// Reads the fields of a line, in the order of [`header`].
fn parse(fields: &[&str], devices: usize, thresholds: usize) -> Option<TraceLine> {
    let mut fields = fields.iter().copied();
    let seconds = |field: Option<&str>| field?.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    let (at_sec, length_ms) = (seconds(fields.next())?, seconds(fields.next())?);
    let device = fields.next()?.parse().ok().filter(|device| *device < devices)?;
    let (kind, size) = (fields.next()?, fields.next()?);
    let (_, kind) = *RequestKind::NAMES.iter().find(|(name, _)| *name == kind)?;
    let (_, size) = *RequestSize::NAMES.iter().find(|(name, _)| *name == size)?;
    let mut next = || fields.next()?.parse::<u64>().ok();
    let (requests, lost) = (next()?, next()?);
    let mut spread = || Some(Spread { p50_ns: next()?, p99_ns: next()?, max_ns: next()? });
    let (queue, device_time) = (spread()?, spread()?);
    let mut over = [[0; THRESHOLDS_MAX]; BY_THRESHOLD.len()];
    for index in 0..thresholds {
        for counts in &mut over {
            *counts.get_mut(index)? = next().filter(|count| *count <= requests)?;
        }
    }
    let [queue_over, device_over, total_over] = over;
    Some(TraceLine {
        at_sec,
        length_ms,
        device,
        kind,
        size,
        requests,
        lost,
        queue,
        device_time,
        queue_over,
        device_over,
        total_over,
    })
}
