//! The two tables, line by line: names of the columns, values to text, text to values.
//!
//! Plain CSV without quotes. Streams stand by name; devices by their position in the manifest,
//! because their names are the user's and may hold anything.

use crate::buckets::THRESHOLDS_MAX;
use crate::cell::Layout;
use crate::judge::{CellCounts, IntervalCounts, Sla};
use std::fmt::Write;

/// Columns of telemetry.csv before those of the caller.
const TELEMETRY_COLUMNS: [&str; 9] =
    ["interval", "after_sec", "end_ns", "lines", "gaps", "gaps_over", "gap_max_ns", "cpu_ns", "in_flight_max"];

/// First line of intervals.csv.
pub(super) fn intervals_header(sla: &Sla) -> String {
    let mut line = "after_sec,stream,device,ops,bytes,errors,overtime,unissued".to_owned();
    for what in ["judged", "judged_least", "response"] {
        for limit in sla.limits() {
            // Writing to a string cannot fail, here and below.
            let _ = write!(line, ",{what}_over_{}", limit.threshold_text());
        }
    }
    line
}

/// First line of telemetry.csv.
pub(super) fn telemetry_header(columns: &[String]) -> String {
    let mut line = TELEMETRY_COLUMNS.join(",");
    columns.iter().for_each(|column| push_field(&mut line, column));
    line
}

/// The caller's columns in the first line of telemetry.csv.
pub(super) fn telemetry_columns(header: &str) -> Option<Vec<String>> {
    let rest = header.strip_prefix(&TELEMETRY_COLUMNS.join(","))?;
    match rest.strip_prefix(',') {
        Some(names) => Some(names.split(',').map(str::to_owned).collect()),
        None => rest.is_empty().then(Vec::new),
    }
}

/// Appends `,value`, with blanks for what would be read as something else.
fn push_field(line: &mut String, value: &str) {
    line.push(',');
    line.extend(value.chars().map(|c| if c == ',' || c == '"' || c.is_control() { ' ' } else { c }));
}

/// Appends the lines of one interval: one for each cell in which anything was wanted. Gives their
/// number.
pub(super) fn push_cells(text: &mut String, counts: &IntervalCounts, layout: &Layout) -> u64 {
    let (devices, thresholds) = (layout.devices.len(), layout.thresholds_ns.len());
    let mut lines = 0;
    for (index, cell) in counts.cells.iter().enumerate().filter(|(_, cell)| cell.wanted() > 0) {
        let (stream, device) = (&layout.streams[index / devices].name, index % devices);
        let CellCounts { ops, bytes, errors, overtime, unissued, judged_over, judged_least_over, response_over } = cell;
        let _ = write!(text, "{},{stream},{device},{ops},{bytes},{errors},{overtime},{unissued}", counts.after_sec);
        for over in [judged_over, judged_least_over, response_over].into_iter().flat_map(|over| &over[..thresholds]) {
            let _ = write!(text, ",{over}");
        }
        text.push('\n');
        lines += 1;
    }
    lines
}

/// Reads one line of intervals.csv into the cell it is about. `Err` says what should stand there.
pub(super) fn read_cell(line: &str, counts: &mut IntervalCounts, layout: &Layout) -> Result<(), String> {
    let mut fields = line.split(',');
    if number(fields.next()) != Some(counts.after_sec) {
        return Err(format!("counts of the interval after {} s", counts.after_sec));
    }
    let stream = fields.next().and_then(|name| layout.streams.iter().position(|stream| stream.name == name));
    let stream = stream.ok_or("the name of a stream of the manifest")?;
    let device = number(fields.next()).and_then(|device| usize::try_from(device).ok());
    let device = device.filter(|device| *device < layout.devices.len()).ok_or("the number of a device from 0")?;
    let cell = &mut counts.cells[layout.cell(stream, device)];
    if cell.wanted() > 0 {
        return Err("each stream and device once".to_owned());
    }
    let mut next = || number(fields.next()).ok_or("a whole number in each column".to_owned());
    let mut read = CellCounts {
        ops: next()?,
        bytes: next()?,
        errors: next()?,
        overtime: next()?,
        unissued: next()?,
        judged_over: [0; THRESHOLDS_MAX],
        judged_least_over: [0; THRESHOLDS_MAX],
        response_over: [0; THRESHOLDS_MAX],
    };
    let (thresholds, wanted) = (layout.thresholds_ns.len(), read.wanted());
    for over in [&mut read.judged_over, &mut read.judged_least_over, &mut read.response_over] {
        for count in &mut over[..thresholds] {
            *count = next()?;
        }
        if over[0] > wanted || !over.is_sorted_by(|a, b| a >= b) {
            return Err("at most as many operations over a threshold as there are, and over a larger one".to_owned());
        }
    }
    if fields.next().is_some() {
        return Err("no more columns than the first line names".to_owned());
    }
    *cell = read;
    Ok(())
}

/// One line of telemetry.csv.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TelemetryLine {
    pub(super) interval: u64,
    pub(super) after_sec: u64,
    pub(super) end_ns: u64,
    /// Lines of intervals.csv that belong to the interval.
    pub(super) lines: u64,
    pub(super) gaps: u64,
    pub(super) gaps_over: u64,
    pub(super) gap_max_ns: u64,
    pub(super) cpu_ns: u64,
    pub(super) in_flight_max: u64,
    /// The caller's columns.
    pub(super) rest: Vec<String>,
}

impl TelemetryLine {
    pub(super) fn push(&self, text: &mut String) {
        let Self { interval, after_sec, end_ns, lines, gaps, gaps_over, gap_max_ns, cpu_ns, in_flight_max, rest } =
            self;
        let _ = write!(
            text,
            "{interval},{after_sec},{end_ns},{lines},{gaps},{gaps_over},{gap_max_ns},{cpu_ns},{in_flight_max}"
        );
        rest.iter().for_each(|value| push_field(text, value));
        text.push('\n');
    }

    /// Reads a line with `columns` columns of the caller. `Err` says what should stand there.
    pub(super) fn read(line: &str, columns: usize) -> Result<Self, String> {
        let mut fields = line.split(',');
        let mut next = || number(fields.next()).ok_or("a whole number in each of the first 9 columns".to_owned());
        let mut read = Self {
            interval: next()?,
            after_sec: next()?,
            end_ns: next()?,
            lines: next()?,
            gaps: next()?,
            gaps_over: next()?,
            gap_max_ns: next()?,
            cpu_ns: next()?,
            in_flight_max: next()?,
            rest: Vec::new(),
        };
        read.rest = fields.map(str::to_owned).collect();
        if read.rest.len() != columns {
            return Err(format!("{} columns", TELEMETRY_COLUMNS.len() + columns));
        }
        Ok(read)
    }
}

/// A decimal number of digits only.
fn number(field: Option<&str>) -> Option<u64> {
    field.filter(|field| field.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}
