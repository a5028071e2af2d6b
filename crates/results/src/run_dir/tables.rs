//! telemetry.csv, line by line: names of the columns, values to text, text to values.
//!
//! Plain CSV without quotes. The caller's columns follow the fixed ones.

use std::fmt::Write;

/// Columns of telemetry.csv before those of the caller.
const TELEMETRY_COLUMNS: [&str; 10] = [
    "interval",
    "after_sec",
    "end_ns",
    "lines",
    "gaps",
    "gaps_over",
    "gap_max_ns",
    "cpu_ns",
    "run_delay_ns",
    "in_flight_max",
];

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

/// Appends `,value`, with blanks for characters of CSV syntax.
fn push_field(line: &mut String, value: &str) {
    line.push(',');
    line.extend(value.chars().map(|c| if c == ',' || c == '"' || c.is_control() { ' ' } else { c }));
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
    pub(super) run_delay_ns: u64,
    pub(super) in_flight_max: u64,
    /// The caller's columns.
    pub(super) rest: Vec<String>,
}

impl TelemetryLine {
    pub(super) fn push(&self, text: &mut String) {
        let Self { interval, after_sec, end_ns, lines, gaps, gaps_over, gap_max_ns, .. } = self;
        let Self { cpu_ns, run_delay_ns, in_flight_max, rest, .. } = self;
        let _ = write!(
            text,
            "{interval},{after_sec},{end_ns},{lines},{gaps},{gaps_over},{gap_max_ns},{cpu_ns},{run_delay_ns},\
             {in_flight_max}"
        );
        rest.iter().for_each(|value| push_field(text, value));
        text.push('\n');
    }

    /// Reads a line with `columns` columns of the caller. `Err` gives the expected text.
    pub(super) fn read(line: &str, columns: usize) -> Result<Self, String> {
        let mut fields = line.split(',');
        let mut next = || number(fields.next()).ok_or("a whole number in each of the first 10 columns".to_owned());
        let mut read = Self {
            interval: next()?,
            after_sec: next()?,
            end_ns: next()?,
            lines: next()?,
            gaps: next()?,
            gaps_over: next()?,
            gap_max_ns: next()?,
            cpu_ns: next()?,
            run_delay_ns: next()?,
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
pub(super) fn number(field: Option<&str>) -> Option<u64> {
    field.filter(|field| field.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}
