//! Writes and reads lines of intervals.csv and telemetry.csv, and names their columns.
//!
//! Plain CSV without quotes. intervals.csv names streams, but numbers devices by their position in the manifest,
//! because names of devices can contain any characters. Readers find the columns by the names in the first line, and
//! skip columns of later versions. A line ends after its last value that is not 0, because most intervals have no slow
//! operation, and a day has many intervals. In telemetry.csv, the caller's columns follow the fixed columns.
//!
//! trace.csv has samples of the time of requests in the kernel and in the devices: a line for each sample, device, kind
//! and size with completed requests. [`TraceWriter`] writes trace.csv, not the [`RunWriter`](super::RunWriter), so that
//! a failed sample does not harm the run. A directory without this file is complete, too. The file never affects a
//! verdict.

use super::checksums::{FileCheck, RecordedSums};
use super::file::{AppendFile, WholeLines};
use super::{Manifest, RunDirError, TRACE};
use crate::cell::{EarlierOps, Layout};
use crate::counts::{Backlog, CellCounts};
use crate::judge::{IntervalCounts, Sla};
use crate::telemetry::{TimeDistribution, TraceKind, TraceLine, TraceSize};
use std::fmt::Write;
use std::path::Path;
use std::str::{FromStr, Split};

/// First columns of intervals.csv, which every line has.
const FIRST: [&str; 5] = ["after_sec", "stream", "device", "ops", "bytes"];

/// Position of the stream's name in `FIRST`.
const STREAM: usize = 1;

/// Number of columns before the values of a cell.
const BEFORE_VALUES: usize = 3;

const SINGLE: [&str; 6] = [
    "in_flight",
    "waiting",
    "late",
    "errors",
    "overtime",
    "unissued",
];

/// Columns that exist for each threshold; the threshold is appended to these names.
const BY_THRESHOLD: [&str; 9] = [
    "judged_over_",
    "judged_least_over_",
    "response_over_",
    "service_over_",
    "wait_ns_over_",
    "lag_ns_over_",
    "service_ns_over_",
    "unseen_ns_over_",
    "held_ns_over_",
];

/// Columns after the threshold columns. Format 1 lacks them, and format 2 lacks the last. Most lines end before these
/// columns.
const LAST: [&str; 10] = [
    "last_back_ns",
    "slice",
    "lost",
    "missed",
    "missed_least",
    "late_ops",
    "late_max_ns",
    "silent_ns",
    "held_by",
    "wrong_data",
];

/// Format of the run directory that introduced a column; `position`: in writing order, among `names_written` columns.
fn first_format(position: usize, names_written: usize) -> u32 {
    match names_written - position {
        1 => 3,
        from_end if from_end <= LAST.len() => 2,
        _ => 1,
    }
}

/// Position of the step (column `slice`) in `LAST`. A line with a step (numbered from 1) counts the operations that
/// were due in that earlier step; the cell's line without a step includes them. In format 2, a step is a slice.
const STEP: usize = 1;

/// The columns of intervals.csv in writing order. Larger thresholds come later: their counts are mostly 0, and a line
/// ends after its last value that is not 0.
fn names(sla: &Sla) -> Vec<String> {
    let by_threshold = sla.limits().iter().flat_map(|limit| {
        let threshold = limit.threshold_text();
        BY_THRESHOLD.map(|prefix| format!("{prefix}{threshold}"))
    });
    let before = FIRST.into_iter().chain(SINGLE).map(str::to_owned);
    before
        .chain(by_threshold)
        .chain(LAST.map(str::to_owned))
        .collect()
}

pub(super) fn header(sla: &Sla) -> String {
    names(sla).join(",")
}

/// The values of a cell's line in writing order, for `thresholds` thresholds.
fn values<'a>(
    cell: &'a mut CellCounts,
    step: &'a mut u64,
    thresholds: usize,
) -> impl Iterator<Item = &'a mut u64> {
    let CellCounts {
        ops,
        bytes,
        errors,
        overtime,
        unissued,
        lost,
        missed,
        missed_lower_bound,
        late,
        late_max_ns,
        ..
    } = cell;
    let CellCounts {
        judged_over,
        judged_over_lower_bound,
        response_over,
        service_over,
        slow,
        ..
    } = cell;
    let CellCounts {
        silent_ns,
        last_completion_ns,
        slots_used_by,
        wrong_data,
        backlog:
            Backlog {
                in_flight,
                waiting,
                late: backlog_late,
            },
        ..
    } = cell;
    let [wait_ns, lag_ns, service_ns, unseen_ns, unseen_before_ns] = slow.all_mut();
    let mut by_threshold = [
        judged_over,
        judged_over_lower_bound,
        response_over,
        service_over,
        wait_ns,
        lag_ns,
        service_ns,
        unseen_ns,
        unseen_before_ns,
    ]
    .map(|values| values.iter_mut());
    let leading = [
        ops,
        bytes,
        in_flight,
        waiting,
        backlog_late,
        errors,
        overtime,
        unissued,
    ]
    .into_iter();
    leading
        .chain((0..thresholds).flat_map(move |_| {
            by_threshold
                .each_mut()
                .map(Iterator::next)
                .into_iter()
                .flatten()
        }))
        .chain([
            last_completion_ns,
            step,
            lost,
            missed,
            missed_lower_bound,
            late,
            late_max_ns,
            silent_ns,
            slots_used_by,
            wrong_data,
        ])
}

/// Maps the columns of a file to positions in writing order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ColumnMap {
    /// For each column of the file: position in writing order; `None` for a column of a later version.
    positions: Vec<Option<usize>>,
    /// Number of columns in writing order.
    names_written: usize,
    /// Values of the current line, in writing order.
    read: Vec<Option<u64>>,
}

impl ColumnMap {
    /// The columns in the line `header` of a table of `format`. `None` if a column is missing or duplicated.
    pub(super) fn read(header: &str, sla: &Sla, format: u32) -> Option<Self> {
        let names = names(sla);
        let names_written = names.len();
        let position = |name: &str| names.iter().position(|known| known == name);
        let positions: Vec<_> = header.split(',').map(position).collect();
        let is_complete = (0..names_written).all(|expected| {
            let count = positions
                .iter()
                .filter(|position| **position == Some(expected))
                .count();
            count == usize::from(format >= first_format(expected, names_written))
        });
        is_complete.then_some(Self {
            positions,
            names_written,
            read: Vec::new(),
        })
    }

    /// Reads a line into its cell. `Err` describes the expected text.
    pub(super) fn read_cell(
        &mut self,
        line: &str,
        counts: &mut IntervalCounts,
        layout: &Layout,
    ) -> Result<(), String> {
        let (
            Self {
                positions,
                read,
                names_written,
            },
            mut stream,
            mut end,
        ) = (self, None, BEFORE_VALUES);
        read.clear();
        read.resize(*names_written, Some(0));
        let mut fields = fields(line);
        for position in positions {
            let field = fields.next();
            match *position {
                None => {}
                Some(STREAM) => {
                    stream = field.and_then(|name| {
                        layout.streams.iter().position(|stream| stream.name == name)
                    });
                }
                // Values missing at the end of a line are 0.
                Some(position) if position >= FIRST.len() && field.is_none() => {}
                Some(position) => {
                    read[position] = number(field);
                    end = end.max(position + 1);
                }
            }
        }
        if read[0] != Some(counts.after_sec) {
            return Err(format!(
                "counts of the interval that ends at {} s",
                counts.after_sec
            ));
        }
        let stream = stream.ok_or("the name of a stream of the manifest")?;
        let device = read[2].and_then(|device| usize::try_from(device).ok());
        let device = device
            .filter(|device| *device < layout.devices.len())
            .ok_or("the number of a device, counted from 0")?;
        let cell_index = layout.cell(stream, device);
        let step = read[*names_written - LAST.len() + STEP]
            .ok_or("the number of a step, counted from 1, or an empty value")?;
        let step = step.checked_sub(1);
        let is_carried =
            |carried: &EarlierOps| (carried.cell, Some(carried.step)) == (cell_index, step);
        let is_known = match step {
            None => counts.cells[cell_index].is_any(),
            Some(_) => counts.carried.iter().any(is_carried),
        };
        if is_known {
            return Err("each stream and device only once".to_owned());
        }
        let thresholds = layout.thresholds_ns.len();
        let cell = match step {
            None => {
                counts.cells[cell_index] = CellCounts::default();
                &mut counts.cells[cell_index]
            }
            Some(step) => {
                counts.carried.push(EarlierOps {
                    cell: cell_index,
                    step,
                    counts: CellCounts::default(),
                });
                &mut counts.carried.last_mut().expect("one was appended").counts
            }
        };
        for (into, value) in values(cell, &mut 0, thresholds).zip(&read[BEFORE_VALUES..end]) {
            *into = value.ok_or("a whole number in each column")?;
        }
        let scheduled_ops = cell.counted_ops();
        for over in [
            &cell.judged_over,
            &cell.judged_over_lower_bound,
            &cell.response_over,
            &cell.service_over,
        ] {
            let is_falling = over[..thresholds].is_sorted_by(|fewer, more| fewer >= more);
            if over[0] > scheduled_ops || !is_falling {
                return Err(
                    "at most as many operations over a threshold as in total, and never more over a larger threshold \
                              than over a smaller one"
                        .to_owned(),
                );
            }
        }
        if fields.next().is_some() {
            return Err("at most as many columns as the first line has".to_owned());
        }
        Ok(())
    }
}

/// Appends the lines of an interval: a line for each cell with due or outstanding operations, then the lines of
/// operations that were due in earlier steps. Returns the number of lines.
pub(super) fn push_cells(text: &mut String, counts: &IntervalCounts, layout: &Layout) -> u64 {
    let devices = layout.devices.len();
    let current_cells = counts
        .cells
        .iter()
        .enumerate()
        .filter(|(_, cell)| cell.is_any())
        .map(|(index, cell)| (index, 0, *cell));
    let carried = counts
        .carried
        .iter()
        .map(|carried| (carried.cell, carried.step + 1, carried.counts));
    let mut lines = 0;
    for (index, mut step, mut cell) in current_cells.chain(carried) {
        let stream = &layout.streams[index / devices].name;
        let device = index % devices;
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "{},{stream},{device}", counts.after_sec);
        let values: Vec<_> = values(&mut cell, &mut step, layout.thresholds_ns.len()).collect();
        let last = values.iter().rposition(|value| **value != 0).unwrap_or(0);
        for value in &values[..=last.max(FIRST.len() - BEFORE_VALUES - 1)] {
            let _ = write!(text, ",{value}");
        }
        text.push('\n');
        lines += 1;
    }
    lines
}

/// Columns of telemetry.csv before the caller's columns.
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

pub(super) fn telemetry_header(columns: &[String]) -> String {
    let mut line = TELEMETRY_COLUMNS.join(",");
    columns
        .iter()
        .for_each(|column| push_field(&mut line, column));
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

/// Appends `,value`. Replaces characters of CSV syntax by blanks.
fn push_field(line: &mut String, value: &str) {
    line.push(',');
    line.extend(value.chars().map(|c| {
        if c == ',' || c == '"' || c.is_control() {
            ' '
        } else {
            c
        }
    }));
}

/// A line of telemetry.csv, which closes an interval.
#[derive(Debug, Default)]
pub(super) struct TelemetryLine {
    /// Counts of the whole interval that are not split by stream and device.
    pub(super) counts: IntervalCounts,
    /// Number of lines of the interval in intervals.csv.
    pub(super) lines: u64,
}

impl TelemetryLine {
    /// `telemetry` gets the values of the caller's columns; `columns` is their number. `Err`: the expected text.
    pub(super) fn read(
        line: &str,
        columns: usize,
        telemetry: &mut Vec<String>,
    ) -> Result<Self, String> {
        let mut telemetry_line = Self::default();
        let mut fields = fields(line);
        for into in fixed(&mut telemetry_line.counts, &mut telemetry_line.lines) {
            *into =
                number(fields.next()).ok_or("a whole number in each of the first 10 columns")?;
        }
        let wrong = || format!("{} columns", TELEMETRY_COLUMNS.len() + columns);
        telemetry.resize_with(columns, String::new);
        for into in telemetry {
            into.clear();
            *into += fields.next().ok_or_else(wrong)?;
        }
        match fields.next() {
            None => Ok(telemetry_line),
            Some(_) => Err(wrong()),
        }
    }
}

/// The values of the fixed columns of telemetry.csv, in their order.
fn fixed<'a>(
    counts: &'a mut IntervalCounts,
    lines: &'a mut u64,
) -> [&'a mut u64; TELEMETRY_COLUMNS.len()] {
    let IntervalCounts {
        index,
        after_sec,
        end_ns,
        gaps,
        gaps_over,
        gap_max_ns,
        ..
    } = counts;
    let IntervalCounts {
        cpu_ns,
        run_delay_ns,
        in_flight_max,
        ..
    } = counts;
    [
        index,
        after_sec,
        end_ns,
        lines,
        gaps,
        gaps_over,
        gap_max_ns,
        cpu_ns,
        run_delay_ns,
        in_flight_max,
    ]
}

/// Appends the line of telemetry.csv that closes an interval. `lines`: number of the interval's lines in intervals.csv.
pub(super) fn push_closing(
    text: &mut String,
    counts: &mut IntervalCounts,
    mut lines: u64,
    telemetry: &[String],
) {
    let fixed = fixed(counts, &mut lines).map(|value| value.to_string());
    *text += &fixed.join(",");
    telemetry.iter().for_each(|value| push_field(text, value));
    text.push('\n');
}

/// The values of a line. Faster than `str::split`, because most values are short.
fn fields(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.bytes().position(|byte| byte == b',');
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// A decimal number without sign or blanks.
fn number(field: Option<&str>) -> Option<u64> {
    field
        .filter(|field| !field.is_empty())?
        .bytes()
        .try_fold(0, |number: u64, digit: u8| {
            let digit = char::from(digit).to_digit(10)?;
            number.checked_mul(10)?.checked_add(u64::from(digit))
        })
}

/// Columns of trace.csv before the threshold columns.
const COLUMNS: &str = "at_sec,length_ms,device,kind,size,requests,lost,queue_p50_ns,queue_p99_ns,queue_max_ns,\
                       device_p50_ns,device_p99_ns,device_max_ns";

#[derive(Debug)]
pub struct TraceWriter {
    file: AppendFile,
    text: String,
}

impl TraceWriter {
    /// Creates the file in the directory of a run. Errors: the file already exists, or a system call failed.
    pub fn create(dir: &Path, sla: &Sla) -> Result<Self, RunDirError> {
        let mut file = AppendFile::create(dir.join(TRACE))?;
        file.append(format!("{}\n", trace_header(sla)).as_bytes())?;
        Ok(Self {
            file,
            text: String::new(),
        })
    }

    /// Appends the lines of a sample, and waits until they are on the disk.
    pub fn append(&mut self, lines: &[TraceLine]) -> Result<(), RunDirError> {
        self.text.clear();
        lines.iter().for_each(|line| line.push(&mut self.text));
        self.file.append(self.text.as_bytes())?;
        self.file.sync()
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TraceSamples {
    /// Lines in the order in which the samples were taken.
    pub lines: Vec<TraceLine>,
    /// Remarks about a dropped end, one sentence each.
    pub remarks: Vec<String>,
}

/// The samples of the run in `dir`, none without trace.csv. A torn last line is dropped; an invalid line is an error.
pub fn read_trace(dir: &Path, manifest: &Manifest) -> Result<TraceSamples, RunDirError> {
    let FileCheck {
        good_bytes, damage, ..
    } = RecordedSums::read(dir).check(TRACE)?;
    if let Some(why) = damage {
        return Err(RunDirError::Damaged {
            path: dir.join(TRACE),
            why: format!("it {why}"),
        });
    }
    let mut input = WholeLines::open(dir.join(TRACE))?.limited(good_bytes);
    let mut samples = TraceSamples::default();
    let expected = trace_header(&manifest.sla);
    if input.next()?.is_some_and(|found| found != expected) {
        return Err(input.error(format!("the columns {expected}")));
    }
    let devices = manifest.devices.len();
    let thresholds = manifest.sla.thresholds_ns().len();
    while let Some(text) = input.next()? {
        match TraceLine::read(text, devices, thresholds) {
            Ok(line) => samples.lines.push(line),
            Err(expected) => return Err(input.error(expected)),
        }
    }
    if input.torn {
        samples
            .remarks
            .push(format!("the last line of {TRACE} is torn and was dropped"));
    }
    Ok(samples)
}

fn trace_header(sla: &Sla) -> String {
    let mut line = COLUMNS.to_owned();
    for what in ["queue", "device", "total"] {
        for limit in sla.limits() {
            // Writing to a string cannot fail, here and below.
            let _ = write!(line, ",{what}_over_{}", limit.threshold_text());
        }
    }
    line
}

impl TraceLine {
    fn push(&self, text: &mut String) {
        let kind = self.kind.name();
        let size = self.size.name();
        let _ = write!(
            text,
            "{:.3},{},{},{kind},{size},{}",
            self.at_sec, self.length_ms, self.device, self.requests
        );
        let _ = write!(text, ",{}", self.lost);
        for TimeDistribution {
            p50_ns,
            p99_ns,
            max_ns,
        } in [self.queue, self.device_time]
        {
            let _ = write!(text, ",{p50_ns},{p99_ns},{max_ns}");
        }
        for over in [&self.queue_over, &self.device_over, &self.total_over]
            .into_iter()
            .flatten()
        {
            let _ = write!(text, ",{over}");
        }
        text.push('\n');
    }

    /// Reads a line. `Err` describes the expected text.
    fn read(line: &str, devices: usize, thresholds: usize) -> Result<Self, String> {
        let mut fields = line.split(',');
        let at_sec =
            parsed::<f64>(fields.next()).filter(|at_sec| at_sec.is_finite() && *at_sec >= 0.0);
        let at_sec = at_sec.ok_or("seconds since the run began")?;
        let length_ms = parsed(fields.next()).ok_or("the length of the sample in milliseconds")?;
        let device = parsed(fields.next())
            .filter(|device| *device < devices)
            .ok_or("the number of a device, counted from 0")?;
        let name = fields.next();
        let kind = TraceKind::ALL
            .into_iter()
            .find(|kind| Some(kind.name()) == name)
            .ok_or("read or write")?;
        let name = fields.next();
        let size = TraceSize::ALL
            .into_iter()
            .find(|size| Some(size.name()) == name)
            .ok_or("small or large")?;
        let requests = next_count(&mut fields)?;
        let lost = next_count(&mut fields)?;
        let queue = next_spread(&mut fields)?;
        let device_time = next_spread(&mut fields)?;
        let queue_over = next_counts(&mut fields, thresholds)?;
        let device_over = next_counts(&mut fields, thresholds)?;
        let total_over = next_counts(&mut fields, thresholds)?;
        if fields.next().is_some() {
            return Err("at most as many columns as the first line has".to_owned());
        }
        if [&queue_over, &device_over, &total_over]
            .into_iter()
            .flatten()
            .any(|over| *over > requests)
        {
            return Err("at most as many requests over a threshold as in total".to_owned());
        }
        Ok(Self {
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
}

fn parsed<T: FromStr>(field: Option<&str>) -> Option<T> {
    field?.parse().ok()
}

fn next_count(fields: &mut Split<'_, char>) -> Result<u64, String> {
    parsed(fields.next()).ok_or_else(|| "a whole number in each column".to_owned())
}

fn next_counts(fields: &mut Split<'_, char>, count: usize) -> Result<Vec<u64>, String> {
    (0..count).map(|_| next_count(fields)).collect()
}

fn next_spread(fields: &mut Split<'_, char>) -> Result<TimeDistribution, String> {
    Ok(TimeDistribution {
        p50_ns: next_count(fields)?,
        p99_ns: next_count(fields)?,
        max_ns: next_count(fields)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_header_has_each_written_column_exactly_once() {
        let sla = Sla::default();
        let header = header(&sla);
        assert!(
            header.contains("unissued,judged_over_1ms,judged_least_over_1ms,response_over_1ms,"),
            "{header}"
        );
        let ColumnMap {
            positions,
            names_written,
            ..
        } = ColumnMap::read(&header, &sla, 3).unwrap();
        assert!(positions.into_iter().eq((0..names_written).map(Some)));
        let found = ColumnMap::read(&header.replace(",errors", ""), &sla, 3);
        assert_eq!(found, None);
        let found = ColumnMap::read(&header.replace(",errors", ",ops"), &sla, 3);
        assert_eq!(found, None);
        let found = ColumnMap::read(&header.replace("lag_ns_over_8ms", "lag_over_8ms"), &sla, 3);
        assert_eq!(found, None);
        let found = ColumnMap::read(&format!("{header},judged_over_8ms"), &sla, 3);
        assert_eq!(found, None);
        assert!(ColumnMap::read(&format!("{header},colour"), &sla, 3).is_some());
    }

    fn manifest() -> Manifest {
        let sla: Sla = "5%>1ms,1%>8ms".parse().unwrap();
        let devices = vec!["a".to_owned(), "b".to_owned()];
        let layout = Layout {
            streams: Vec::new(),
            devices,
            thresholds_ns: sla.thresholds_ns(),
        };
        Manifest::new(&layout, sla)
    }

    fn line(at_sec: f64, device: usize, kind: TraceKind) -> TraceLine {
        TraceLine {
            at_sec,
            length_ms: 500,
            device,
            kind,
            size: TraceSize::Large,
            requests: 100,
            lost: 3,
            queue: TimeDistribution {
                p50_ns: 1,
                p99_ns: 2,
                max_ns: 3,
            },
            device_time: TimeDistribution {
                p50_ns: 40,
                p99_ns: 50,
                max_ns: 60,
            },
            queue_over: vec![7, 0],
            device_over: vec![8, 1],
            total_over: vec![20, 2],
        }
    }

    #[test]
    fn written_trace_lines_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = manifest();
        let mut writer = TraceWriter::create(dir.path(), &manifest.sla).unwrap();
        let lines = [
            line(1.004, 0, TraceKind::Read),
            line(1.004, 1, TraceKind::Write),
            line(31.0, 1, TraceKind::Read),
        ];
        writer.append(&lines[..2]).unwrap();
        writer.append(&[]).unwrap();
        writer.append(&lines[2..]).unwrap();
        let text = fs::read_to_string(dir.path().join(TRACE)).unwrap();
        assert!(
            text.starts_with("at_sec,length_ms,device,kind,size,requests,lost,queue_p50_ns,"),
            "{text}"
        );
        assert!(
            text.contains(",device_max_ns,queue_over_1ms,queue_over_8ms,device_over_1ms,"),
            "{text}"
        );
        assert!(
            text.contains("\n1.004,500,0,read,large,100,3,1,2,3,40,50,60,7,0,8,1,20,2\n"),
            "{text}"
        );
        let samples = read_trace(dir.path(), &manifest).unwrap();
        assert_eq!(
            samples,
            TraceSamples {
                lines: lines.to_vec(),
                remarks: vec![]
            }
        );
    }

    #[test]
    fn a_run_without_trace_csv_has_no_trace_samples() {
        let dir = tempfile::tempdir().unwrap();
        let found = read_trace(dir.path(), &manifest()).unwrap();
        assert_eq!(found, TraceSamples::default());
        fs::write(dir.path().join(TRACE), "").unwrap();
        let found = read_trace(dir.path(), &manifest()).unwrap();
        assert_eq!(found, TraceSamples::default());
    }

    #[test]
    fn a_file_cut_anywhere_gives_its_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = manifest();
        let mut writer = TraceWriter::create(dir.path(), &manifest.sla).unwrap();
        writer
            .append(&[
                line(1.0, 0, TraceKind::Read),
                line(31.0, 1, TraceKind::Write),
            ])
            .unwrap();
        let path = dir.path().join(TRACE);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let ends = whole[..length]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
            let samples = read_trace(dir.path(), &manifest).unwrap();
            let found = samples.lines.len();
            assert_eq!(found, ends.saturating_sub(1), "{length} bytes");
            let torn = length > 0 && whole[length - 1] != b'\n';
            assert_eq!(samples.remarks.len(), usize::from(torn), "{length} bytes");
        }
    }

    #[test]
    fn a_damaged_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = manifest();
        let mut writer = TraceWriter::create(dir.path(), &manifest.sla).unwrap();
        writer.append(&[line(1.0, 0, TraceKind::Read)]).unwrap();
        let path = dir.path().join(TRACE);
        let good = fs::read_to_string(&path).unwrap();
        for (from, to, expected) in [
            ("1.000,", "x,", "seconds"),
            ("500,0,read", "500,2,read", "number of a device"),
            ("read", "trim", "read or write"),
            ("large", "huge", "small or large"),
            ("20,2\n", "20\n", "a whole number in each column"),
            (
                "20,2\n",
                "20,2,0\n",
                "at most as many columns as the first line has",
            ),
            ("20,2\n", "101,2\n", "at most as many requests"),
            ("at_sec", "at", "the columns at_sec"),
        ] {
            fs::write(&path, good.replacen(from, to, 1)).unwrap();
            let error = read_trace(dir.path(), &manifest).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(TRACE), "{error}");
        }
    }
}
