//! intervals.csv, line by line: names of the columns, counts to text, text to counts.
//!
//! Plain CSV without quotes. Streams stand by name; devices by their position in the manifest,
//! because their names are the user's and may hold anything. Columns are found by their names in the
//! first line; what a later version adds is passed over. A line ends after its last value that is not 0: most intervals have no slow
//! operation, and a day has many intervals.

use super::tables::number;
use crate::buckets::THRESHOLDS_MAX;
use crate::cell::Layout;
use crate::judge::{CellCounts, IntervalCounts, Sla};
use std::fmt::Write;

/// Columns that are there once, in the order in which they are written.
const SINGLE: [(&str, Column); 11] = [
    ("after_sec", Column::AfterSec),
    ("stream", Column::Stream),
    ("device", Column::Device),
    ("ops", Column::Ops),
    ("bytes", Column::Bytes),
    ("in_flight", Column::InFlight),
    ("waiting", Column::Waiting),
    ("late", Column::Late),
    ("errors", Column::Errors),
    ("overtime", Column::Overtime),
    ("unissued", Column::Unissued),
];

/// Columns that are there for each threshold, whose name follows; in the order in which they are written.
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

/// Those of [`BY_THRESHOLD`] that count operations.
const COUNTS: usize = 4;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    AfterSec,
    Stream,
    Device,
    Ops,
    Bytes,
    InFlight,
    Waiting,
    Late,
    Errors,
    Overtime,
    Unissued,
    /// Index in [`BY_THRESHOLD`], index of the threshold.
    Over(usize, usize),
    /// Of a later version.
    Foreign,
}

/// The columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    columns: Vec<Column>,
}

/// First line of intervals.csv.
pub(super) fn header(sla: &Sla) -> String {
    let mut line = SINGLE.map(|(name, _)| name).join(",");
    // By threshold, so that the columns of large ones, which are 0 in most lines, come last.
    for limit in sla.limits() {
        for prefix in BY_THRESHOLD {
            // Writing to a string cannot fail, here and below.
            let _ = write!(line, ",{prefix}{}", limit.threshold_text());
        }
    }
    line
}

impl Columns {
    /// The columns as they are written.
    pub(super) fn written(sla: &Sla) -> Self {
        let single = SINGLE.iter().map(|(_, column)| *column);
        let by_threshold = |index| (0..BY_THRESHOLD.len()).map(move |which| Column::Over(which, index));
        Self { columns: single.chain((0..sla.limits().len()).flat_map(by_threshold)).collect() }
    }

    /// The columns that `header` names. `None` if one is missing or there twice.
    pub(super) fn read(header: &str, sla: &Sla) -> Option<Self> {
        let texts: Vec<_> = sla.limits().iter().map(|limit| limit.threshold_text()).collect();
        let by_threshold = |name: &str| {
            let at = BY_THRESHOLD.iter().position(|prefix| {
                name.strip_prefix(prefix).is_some_and(|threshold| texts.iter().any(|text| text == threshold))
            })?;
            let threshold = name.strip_prefix(BY_THRESHOLD[at])?;
            Some(Column::Over(at, texts.iter().position(|text| text == threshold)?))
        };
        let column = |name: &str| {
            let single = SINGLE.iter().find(|(known, _)| *known == name).map(|(_, column)| *column);
            single.or_else(|| by_threshold(name)).unwrap_or(Column::Foreign)
        };
        let columns: Vec<_> = header.split(',').map(column).collect();
        let once = |wanted: &Column| columns.iter().filter(|column| *column == wanted).count() == 1;
        Self::written(sla).columns.iter().all(once).then_some(Self { columns })
    }

    /// Reads one line into the cell it is about. `Err` says what should stand there.
    pub(super) fn read_cell(&self, line: &str, counts: &mut IntervalCounts, layout: &Layout) -> Result<(), String> {
        let mut cell = CellCounts::default();
        let (mut after_sec, mut stream, mut device) = (None, None, None);
        let mut fields = line.split(',');
        let mut whole = true;
        for column in &self.columns {
            let field = fields.next();
            let value = match column {
                Column::Stream => {
                    stream = field.and_then(|name| layout.streams.iter().position(|stream| stream.name == name));
                    continue;
                }
                Column::Foreign => continue,
                Column::AfterSec | Column::Device | Column::Ops | Column::Bytes => number(field),
                // What a line leaves out at its end is 0.
                _ => field.map_or(Some(0), |field| number(Some(field))),
            };
            match column {
                Column::AfterSec => after_sec = value,
                Column::Device => device = value,
                _ => whole &= value.is_some(),
            }
            if let (Some(into), Some(value)) = (field_of(&mut cell, *column), value) {
                *into = value;
            }
        }
        if after_sec != Some(counts.after_sec) {
            return Err(format!("counts of the interval after {} s", counts.after_sec));
        }
        let stream = stream.ok_or("the name of a stream of the manifest")?;
        let device = device.and_then(|device| usize::try_from(device).ok());
        let device = device.filter(|device| *device < layout.devices.len()).ok_or("the number of a device from 0")?;
        let into = &mut counts.cells[layout.cell(stream, device)];
        if into.is_any() {
            return Err("each stream and device once".to_owned());
        }
        if !whole {
            return Err("a whole number in each column".to_owned());
        }
        let (thresholds, wanted) = (layout.thresholds_ns.len(), cell.wanted());
        let may_be = |over: &[u64; THRESHOLDS_MAX]| {
            over[0] <= wanted && over[..thresholds].is_sorted_by(|fewer, more| fewer >= more)
        };
        if !counted(&cell).into_iter().all(may_be) {
            return Err("at most as many operations over a threshold as there are, and over a larger one".to_owned());
        }
        if fields.next().is_some() {
            return Err("no more columns than the first line names".to_owned());
        }
        *into = cell;
        Ok(())
    }
}

/// The counts of operations over thresholds, in the order of [`BY_THRESHOLD`].
fn counted(cell: &CellCounts) -> [&[u64; THRESHOLDS_MAX]; COUNTS] {
    [&cell.judged_over, &cell.judged_least_over, &cell.response_over, &cell.service_over]
}

/// Where the value of a column belongs; `None` for what is no value of a cell.
fn field_of(cell: &mut CellCounts, column: Column) -> Option<&mut u64> {
    Some(match column {
        Column::Ops => &mut cell.ops,
        Column::Bytes => &mut cell.bytes,
        Column::InFlight => &mut cell.backlog.in_flight,
        Column::Waiting => &mut cell.backlog.waiting,
        Column::Late => &mut cell.backlog.late,
        Column::Errors => &mut cell.errors,
        Column::Overtime => &mut cell.overtime,
        Column::Unissued => &mut cell.unissued,
        Column::Over(which, index) => {
            let array = match which {
                0 => &mut cell.judged_over,
                1 => &mut cell.judged_least_over,
                2 => &mut cell.response_over,
                3 => &mut cell.service_over,
                4 => &mut cell.slow.wait_ns,
                5 => &mut cell.slow.lag_ns,
                6 => &mut cell.slow.service_ns,
                7 => &mut cell.slow.unseen_ns,
                _ => &mut cell.slow.held_ns,
            };
            array.get_mut(index)?
        }
        Column::AfterSec | Column::Stream | Column::Device | Column::Foreign => return None,
    })
}

/// Appends the lines of one interval: one for each cell in which anything was wanted or outstanding. Gives
/// their number.
pub(super) fn push_cells(text: &mut String, counts: &IntervalCounts, layout: &Layout) -> u64 {
    let (devices, thresholds) = (layout.devices.len(), layout.thresholds_ns.len());
    let mut lines = 0;
    for (index, cell) in counts.cells.iter().enumerate().filter(|(_, cell)| cell.is_any()) {
        let (stream, device) = (&layout.streams[index / devices].name, index % devices);
        let CellCounts { ops, bytes, errors, overtime, unissued, backlog, .. } = cell;
        let single = [backlog.in_flight, backlog.waiting, backlog.late, *errors, *overtime, *unissued];
        let _ = write!(text, "{},{stream},{device},{ops},{bytes}", counts.after_sec);
        let by_threshold = (0..thresholds).flat_map(|threshold| {
            counted(cell).into_iter().chain(cell.slow.all()).map(move |values| values[threshold])
        });
        let mut zeros = 0;
        for value in single.into_iter().chain(by_threshold) {
            if value == 0 {
                zeros += 1;
                continue;
            }
            text.extend(std::iter::repeat_n(",0", zeros));
            zeros = 0;
            let _ = write!(text, ",{value}");
        }
        text.push('\n');
        lines += 1;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_what_is_written_and_nothing_may_be_missing_or_twice() {
        let sla = Sla::default();
        let header = header(&sla);
        assert!(header.contains("unissued,judged_over_1ms,judged_least_over_1ms,response_over_1ms,"), "{header}");
        assert_eq!(Columns::read(&header, &sla), Some(Columns::written(&sla)));
        assert_eq!(Columns::read(&header.replace(",errors", ""), &sla), None);
        assert_eq!(Columns::read(&header.replace(",errors", ",ops"), &sla), None);
        assert_eq!(Columns::read(&header.replace("lag_ns_over_8ms", "lag_over_8ms"), &sla), None);
        assert_eq!(Columns::read(&format!("{header},judged_over_8ms"), &sla), None);
        assert!(Columns::read(&format!("{header},colour"), &sla).is_some());
    }
}
