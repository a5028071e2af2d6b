//! Parses the output of sysstat's iostat, text or JSON: rates of each device, report by report.
//!
//! Columns are found by their names, so that old versions (`avgrq-sz`), new ones, `-m`, `--human` and `--pretty` read
//! alike, in any language: `r/s` and `w/s` are not translated. A run of iostat begins with a banner; its first report
//! covers the time since boot, unless `-y` was given. The output does not show which, so it is inferred from the
//! numbers (see `since_boot`).

mod json;
mod rates;
mod reports;
mod since_boot;
mod table;
#[cfg(test)]
mod tests;
mod time;

pub use rates::{DeviceRates, Iostat, Report, writes_with_data};

use crate::lines::Lines;
use crate::source::{ReadError, Source};
use jiff::civil::Date;
use reports::Collector;
use std::io::{self, Read};
use std::path::Path;
use thiserror::Error;

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
