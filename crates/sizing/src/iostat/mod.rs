//! Parses the output of sysstat's iostat, text or JSON: rates of each device, report by report.
//!
//! Columns are found by their names, so that old versions (`avgrq-sz`), new ones, `-m`, `--human` and `--pretty` read
//! alike, in any language: `r/s` and `w/s` are not translated. A run of iostat begins with a banner; its first report
//! covers the time since boot, unless `-y` was given. The output does not show which, so it is inferred from the
//! numbers (see `since_boot`).

mod json;
mod reports;
mod since_boot;
mod table;
#[cfg(test)]
mod tests;
mod time;

use crate::lines::Lines;
use crate::source::{ReadError, Source};
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;
use reports::Collector;
use std::io::{self, Read};
use std::path::Path;
use thiserror::Error;

/// iostat's output of one machine.
#[derive(Debug, Clone, Default)]
pub struct Iostat {
    /// Reports in order. The first of a run of iostat is dropped if it is recognised as covering the time since boot.
    pub reports: Vec<Report>,
    /// Oddities, each a sentence.
    pub remarks: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Report {
    /// When it was printed, by the clock and zone of the machine; `None`: it has no time (iostat without -t).
    pub at: Option<DateTime>,
    /// The zone of that clock, where the time says it (S_TIME_FORMAT=ISO).
    pub offset: Option<Offset>,
    /// One line per device.
    pub devices: Vec<DeviceRates>,
}

/// Rates of one device, under iostat's names.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRates {
    /// Name without `/dev/`.
    pub device: String,
    /// Reads completed a second.
    pub r_s: f64,
    /// Writes completed a second, flushes that the kernel counts as writes included.
    pub w_s: f64,
    /// KiB read a second.
    pub rkb_s: f64,
    /// KiB written a second.
    pub wkb_s: f64,
    /// Flushes a second; `None` where a version does not print them.
    pub f_s: Option<f64>,
    /// Discards a second, likewise.
    pub d_s: Option<f64>,
}

/// Writes with data a second, out of `writes`, given the number of flushes.
///
/// A synchronous write and its flush are two writes and two flushes on a drive with a volatile cache and no FUA, two
/// and one with FUA. The size of writes decides between the cases, if all are large blocks of `block_kib`.
pub fn writes_with_data(writes: f64, flushes: f64, written_kib: f64, block_kib: Option<f64>) -> f64 {
    let off = |writes: f64| block_kib.map_or(0.0, |block_kib| (written_kib / writes / block_kib).ln().abs());
    let possible = [writes - flushes / 2.0, writes - flushes, writes].into_iter().filter(|writes| *writes >= 0.0);
    possible.min_by(|a, b| off(*a).total_cmp(&off(*b))).unwrap_or(writes)
}

/// The node and the file of `NODE=FILE`, for iostat does not say where it ran; a path may have a `=`, too.
pub fn of_node(path: &Path) -> (Option<String>, &Path) {
    let split = path.to_str().filter(|_| !path.exists()).and_then(|text| text.split_once('='));
    match split.filter(|(node, _)| !node.is_empty() && node.chars().all(|c| c.is_ascii_hexdigit())) {
        Some((node, file)) => (Some(node.to_ascii_uppercase()), Path::new(file)),
        None => (None, path),
    }
}

/// Bytes that tell JSON from text.
const FIRST_BYTES: u64 = 256;

/// Why an output of iostat cannot be read.
#[derive(Debug, Error)]
pub enum IostatError {
    /// The system refuses, or compressed data is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Not an output of `iostat -x`.
    #[error(
        "reading {name} - it has no table of iostat -x: expected a line like \"Device r/s rkB/s ... w/s wkB/s\", or \
         JSON, found {found} - record one with \"iostat -xty 10 > FILE\", or \"iostat -xty 10 -o JSON\""
    )]
    NotIostat { name: String, found: String },
}

/// Reads what one machine's iostat printed, in one run or in several.
///
/// `near`: a day that the reports are of, if one is known; it decides between 3 April and 4 March.
/// Errors: it cannot be read, or has no report with reads and writes.
pub fn read(source: Source, near: Option<Date>) -> Result<Iostat, IostatError> {
    let (name, mut input) = source.into_parts();
    let read_error = |source| ReadError { name: name.clone(), source };
    let mut first = Vec::new();
    input.by_ref().take(FIRST_BYTES).read_to_end(&mut first).map_err(read_error)?;
    let is_json = first.trim_ascii_start().starts_with(b"{");
    let bytes = io::Cursor::new(first).chain(&mut input);
    let mut collector = Collector::new(&name);
    let found = match is_json {
        true => json::read(bytes, &mut collector),
        false => table::read(&mut Lines::new(bytes), &mut collector),
    };
    let found = found.map_err(read_error)?;
    if input.is_cut() {
        collector.say("it is compressed and ends early: what there is of it is read".to_owned());
    }
    let (iostat, reports) = collector.finish(near);
    match reports {
        0 => Err(IostatError::NotIostat { name, found }),
        _ => Ok(iostat),
    }
}
