//! intervals.csv, line by line: names of the columns, counts to text, text to counts.
//!
//! Plain CSV without quotes. Streams stand by name; devices by their position in the manifest, because their names are
//! the user's and may hold anything. Columns are found by their names in the first line; columns of later versions are
//! skipped. A line ends after its last value that is not 0: most intervals have no slow operation, and a day has many
//! intervals.

use super::tables::number;
use crate::buckets::THRESHOLDS_MAX;
use crate::cell::{Carried, Layout};
use crate::counts::CellCounts;
use crate::judge::{IntervalCounts, Sla};
use std::fmt::Write;

/// Columns that occur once, in writing order.
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

/// Columns after those of the thresholds, which format 1 lacks: most lines end before them.
const LAST: [(&str, Column); 9] = [
    ("last_back_ns", Column::LastBackNs),
    ("slice", Column::Slice),
    ("lost", Column::Lost),
    ("missed", Column::Missed),
    ("missed_least", Column::MissedLeast),
    ("late_ops", Column::LateOps),
    ("late_max_ns", Column::LateMaxNs),
    ("silent_ns", Column::SilentNs),
    ("held_by", Column::HeldBy),
];

/// Columns that occur per threshold, with its name appended; in writing order.
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

/// Number of columns in [`BY_THRESHOLD`] that count operations.
const COUNTS: usize = 4;

/// Meaning of a column.
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
    /// The slice, from 1, of a line about operations wanted in an earlier slice. Their counts are also part of the
    /// cell's own line.
    Slice,
    Lost,
    Missed,
    MissedLeast,
    LateOps,
    LateMaxNs,
    SilentNs,
    LastBackNs,
    HeldBy,
    /// Index in [`BY_THRESHOLD`], index of the threshold.
    Over(usize, usize),
    /// Column of a later version.
    Foreign,
}

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
    LAST.iter().for_each(|(name, _)| line.extend([",", name]));
    line
}

impl Columns {
    /// The columns as they are written.
    pub(super) fn written(sla: &Sla) -> Self {
        let by_threshold = |index| (0..BY_THRESHOLD.len()).map(move |which| Column::Over(which, index));
        let over = (0..sla.limits().len()).flat_map(by_threshold);
        let single = |columns: &'static [(&str, Column)]| columns.iter().map(|(_, column)| *column);
        Self { columns: single(&SINGLE).chain(over).chain(single(&LAST)).collect() }
    }

    /// The columns that `header` names, for a table of `format`. `None` if one is missing or duplicated.
    pub(super) fn read(header: &str, sla: &Sla, format: u32) -> Option<Self> {
        let texts: Vec<_> = sla.limits().iter().map(|limit| limit.threshold_text()).collect();
        let by_threshold = |name: &str| {
            let at = BY_THRESHOLD.iter().position(|prefix| {
                name.strip_prefix(prefix).is_some_and(|threshold| texts.iter().any(|text| text == threshold))
            })?;
            let threshold = name.strip_prefix(BY_THRESHOLD[at])?;
            Some(Column::Over(at, texts.iter().position(|text| text == threshold)?))
        };
        let column = |name: &str| {
            let single = SINGLE.iter().chain(&LAST).find(|(known, _)| *known == name).map(|(_, column)| *column);
            single.or_else(|| by_threshold(name)).unwrap_or(Column::Foreign)
        };
        let columns: Vec<_> = header.split(',').map(column).collect();
        let is_later = |wanted: &Column| format == 1 && LAST.iter().any(|(_, column)| column == wanted);
        let once = |wanted: &Column| {
            columns.iter().filter(|column| *column == wanted).count() == usize::from(!is_later(wanted))
        };
        Self::written(sla).columns.iter().all(once).then_some(Self { columns })
    }

    /// Reads one line into its cell. `Err` gives the expected text.
    pub(super) fn read_cell(&self, line: &str, counts: &mut IntervalCounts, layout: &Layout) -> Result<(), String> {
        let mut cell = CellCounts::default();
        let (mut after_sec, mut stream, mut device, mut slice) = (None, None, None, Some(0));
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
                // Values missing at the end of a line are 0.
                _ => field.map_or(Some(0), |field| number(Some(field))),
            };
            match column {
                Column::AfterSec => after_sec = value,
                Column::Device => device = value,
                Column::Slice => slice = value,
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
        let at = layout.cell(stream, device);
        let slice = slice.ok_or("the number of a slice from 1, or none")?.checked_sub(1);
        let is_carried = |carried: &Carried| (carried.cell, Some(carried.slice)) == (at, slice);
        let is_known = match slice {
            None => counts.cells[at].is_any(),
            Some(_) => counts.carried.iter().any(is_carried),
        };
        if is_known {
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
        match slice {
            None => counts.cells[at] = cell,
            Some(slice) => counts.carried.push(Carried { cell: at, slice, counts: cell }),
        }
        Ok(())
    }
}

/// The counts of operations over thresholds, in the order of [`BY_THRESHOLD`].
fn counted(cell: &CellCounts) -> [&[u64; THRESHOLDS_MAX]; COUNTS] {
    [&cell.judged_over, &cell.judged_least_over, &cell.response_over, &cell.service_over]
}

/// Field of the cell that a column fills; `None` for a column that is no value of a cell.
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
        Column::Lost => &mut cell.lost,
        Column::Missed => &mut cell.missed,
        Column::MissedLeast => &mut cell.missed_least,
        Column::LateOps => &mut cell.late,
        Column::LateMaxNs => &mut cell.late_max_ns,
        Column::SilentNs => &mut cell.silent_ns,
        Column::LastBackNs => &mut cell.last_back_ns,
        Column::HeldBy => &mut cell.held_by,
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
        Column::AfterSec | Column::Stream | Column::Device | Column::Slice | Column::Foreign => return None,
    })
}

/// Appends the lines of one interval: one for each cell in which anything was wanted or outstanding, then those of
/// operations wanted in earlier slices. Returns their number.
pub(super) fn push_cells(text: &mut String, counts: &IntervalCounts, layout: &Layout) -> u64 {
    let devices = layout.devices.len();
    let own = counts.cells.iter().enumerate().filter(|(_, cell)| cell.is_any()).map(|(index, cell)| (index, 0, cell));
    let carried = counts.carried.iter().map(|carried| (carried.cell, carried.slice + 1, &carried.counts));
    let mut lines = 0;
    for (index, slice, cell) in own.chain(carried) {
        let (stream, device) = (&layout.streams[index / devices].name, index % devices);
        let CellCounts { ops, bytes, errors, overtime, unissued, backlog, .. } = cell;
        let single = [backlog.in_flight, backlog.waiting, backlog.late, *errors, *overtime, *unissued];
        let _ = write!(text, "{},{stream},{device},{ops},{bytes}", counts.after_sec);
        let by_threshold = (0..layout.thresholds_ns.len()).flat_map(|threshold| {
            counted(cell).into_iter().chain(cell.slow.all()).map(move |values| values[threshold])
        });
        let CellCounts { lost, missed, missed_least, late, late_max_ns, silent_ns, last_back_ns, held_by, .. } = *cell;
        let last = [last_back_ns, slice, lost, missed, missed_least, late, late_max_ns, silent_ns, held_by];
        let mut zeros = 0;
        for value in single.into_iter().chain(by_threshold).chain(last) {
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
        assert_eq!(Columns::read(&header, &sla, 2), Some(Columns::written(&sla)));
        assert_eq!(Columns::read(&header.replace(",errors", ""), &sla, 2), None);
        assert_eq!(Columns::read(&header.replace(",errors", ",ops"), &sla, 2), None);
        assert_eq!(Columns::read(&header.replace("lag_ns_over_8ms", "lag_over_8ms"), &sla, 2), None);
        assert_eq!(Columns::read(&format!("{header},judged_over_8ms"), &sla, 2), None);
        assert!(Columns::read(&format!("{header},colour"), &sla, 2).is_some());
    }
}
