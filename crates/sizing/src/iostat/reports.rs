//! Groups rows of tables into reports, each with its time and its run of iostat.

use super::time::{self, WrittenDate};
use super::{DECIMALS, DeviceRates, FirstOf, Iostat, IostatReport, Unusable};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;
use results::format::{count, quoted_start};
use std::collections::HashMap;

/// Meaning of a column: the index of its value in the fields of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RateField {
    Reads,
    Writes,
    ReadKib,
    WrittenKib,
    Flushes,
    Discards,
}

pub(super) const FIELDS: usize = 6;

impl RateField {
    pub(super) fn counts_operations(self) -> bool {
        !matches!(self, Self::ReadKib | Self::WrittenKib)
    }
}

/// Numbers of a device; a table may have only some of them.
pub(super) struct RateRow<'a> {
    pub(super) device: &'a str,
    pub(super) fields: [Option<f64>; FIELDS],
    /// Fewest decimals of the rates of whole operations.
    pub(super) decimals: usize,
}

/// Maximum number of rows kept, some 100 bytes each: two weeks of ten devices every 10 s.
const ROWS_MAX: usize = 1_200_000;

/// Maximum number of devices of a report; others are left out.
const DEVICES_MAX: usize = 4096;

#[derive(Debug, Clone, Copy)]
struct ReportTime {
    date: Option<WrittenDate>,
    of_banner: bool,
    time: Time,
    offset: Option<Offset>,
}

#[derive(Debug, Default)]
pub(super) struct ReportCollector {
    name: String,
    /// Reports with their times; the last value: the run or text that begins with the report, if any.
    reports: Vec<(Vec<DeviceRates>, Option<ReportTime>, Option<FirstOf>)>,
    open_rows: Vec<(String, [Option<f64>; FIELDS])>,
    row_indexes: HashMap<String, usize>,
    /// True for each field that the open report has so far.
    has_field: [bool; FIELDS],
    devices_over: u64,
    moment: Option<ReportTime>,
    /// The date of the last banner.
    date: Option<WrittenDate>,
    /// The run or text that begins with the next report, if any.
    first: Option<FirstOf>,
    dates: Vec<WrittenDate>,
    rows: usize,
    reports_dropped: u64,
    /// Fewest decimals of a rate.
    decimals: usize,
    unread: u64,
    /// The first line that cannot be read where the time of a report is expected.
    unread_time: Option<String>,
    /// Number of tables that cannot be used, and the reason for the first of them.
    unusable_tables: u64,
    unusable: Option<Unusable>,
    incomplete: u64,
    remarks: Vec<String>,
}

impl ReportCollector {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            first: Some(FirstOf::Text),
            decimals: DECIMALS,
            ..Self::default()
        }
    }

    pub(super) fn add_remark(&mut self, sentence: String) {
        self.remarks.push(format!("{}: {sentence}", self.name));
    }

    pub(super) fn banner(&mut self, date: Option<WrittenDate>) {
        self.close();
        self.moment = None;
        self.first = Some(FirstOf::Run);
        self.date = date;
        self.dates.extend(date);
    }

    pub(super) fn moment(&mut self, date: Option<WrittenDate>, time: Time, offset: Option<Offset>) {
        self.close();
        let of_banner = date.is_none();
        let date = date.or(self.date);
        if date != self.dates.last().copied() {
            self.dates.extend(date);
        }
        self.moment = Some(ReportTime {
            date,
            of_banner,
            time,
            offset,
        });
    }

    /// Begins a table. A table whose columns differ from those of the open report is part of that report.
    pub(super) fn table(&mut self, fields: impl IntoIterator<Item = RateField>) {
        if fields
            .into_iter()
            .any(|field| self.has_field[field as usize])
        {
            self.close();
        }
    }

    pub(super) fn row(&mut self, row: RateRow<'_>) {
        self.decimals = self.decimals.min(row.decimals);
        let mut index = self.row_indexes.get(row.device).copied();
        // The device is repeated: tables were pasted without the lines between them.
        if index.is_some_and(|at| {
            self.open_rows[at]
                .1
                .iter()
                .zip(row.fields)
                .any(|(a, b)| a.is_some() && b.is_some())
        }) {
            self.close();
            index = None;
        }
        match index {
            Some(at) => self.open_rows[at]
                .1
                .iter_mut()
                .zip(row.fields)
                .for_each(|(field, value)| *field = field.or(value)),
            None if self.open_rows.len() == DEVICES_MAX => return self.devices_over += 1,
            None => {
                self.row_indexes
                    .insert(row.device.to_owned(), self.open_rows.len());
                self.open_rows.push((row.device.to_owned(), row.fields));
            }
        }
        self.has_field
            .iter_mut()
            .zip(row.fields)
            .for_each(|(has, value)| *has |= value.is_some());
    }

    pub(super) fn unread(&mut self) {
        self.unread += 1;
    }

    pub(super) fn unread_time(&mut self, text: &str) {
        self.unread_time.get_or_insert_with(|| quoted_start(text));
    }

    pub(super) fn unusable(&mut self, why: Unusable) {
        self.close();
        self.unusable_tables += 1;
        self.unusable.get_or_insert(why);
    }

    pub(super) fn close(&mut self) {
        if self.open_rows.is_empty() {
            return;
        }
        let rows = std::mem::take(&mut self.open_rows);
        self.row_indexes.clear();
        self.has_field = Default::default();
        let row_count = rows.len();
        let devices: Vec<DeviceRates> = rows
            .into_iter()
            .filter_map(|(device, fields)| rates(device, fields))
            .collect();
        self.incomplete += (row_count - devices.len()) as u64;
        let first = self.first.take();
        let moment = self.moment.take();
        if devices.is_empty() {
            return;
        }
        if self.rows + devices.len() > ROWS_MAX {
            self.reports_dropped += 1;
            return;
        }
        self.rows += devices.len();
        self.reports.push((devices, moment, first));
    }

    /// The reports to use, and the reason why other reports or tables are not used.
    pub(super) fn finish(mut self, near_date: Option<Date>) -> (Iostat, Option<Unusable>) {
        self.close();
        let (order, is_sure) = time::order(&self.dates, near_date);
        let mut last: Option<DateTime> = None;
        let mut steps_back = 0_u64;
        let mut firsts = Vec::new();
        let mut reports = Vec::with_capacity(self.reports.len());
        for (index, (devices, moment, first)) in
            std::mem::take(&mut self.reports).into_iter().enumerate()
        {
            if let Some(first) = first {
                firsts.push((index, first));
                last = None;
            }
            let offset = moment.and_then(|moment| moment.offset);
            let timestamp = moment.and_then(
                |ReportTime {
                     date,
                     of_banner,
                     time,
                     ..
                 }| {
                    let date = date?.date(order)?;
                    // If only the banner has a date, midnights must be counted.
                    Some(if of_banner {
                        time::after(last, date, time)
                    } else {
                        date.to_datetime(time)
                    })
                },
            );
            steps_back += u64::from(timestamp.is_some_and(|at| last.is_some_and(|last| at < last)));
            last = timestamp.or(last);
            reports.push(IostatReport {
                timestamp,
                offset,
                devices,
            });
        }
        let unusable = self
            .unusable
            .or((!reports.is_empty()).then_some(Unusable::SinceBoot));
        let dropped = super::drop_firsts(&mut reports, &firsts, self.decimals);
        dropped
            .into_iter()
            .for_each(|sentence| self.add_remark(sentence));
        if !is_sure && let Some(date) = self.dates.first().and_then(|date| date.date(order)) {
            self.add_remark(format!(
                "the dates can be read in two ways (day or month first); the first date is read as {date}"
            ));
        }
        for (number, description) in [
            (self.unread, "line that cannot be read, left out"),
            (self.incomplete, "row that lacks reads or writes, left out"),
            (
                self.unusable_tables,
                "table without separate reads and writes (iostat -x is needed), left out",
            ),
            (
                self.devices_over,
                "row beyond the 4096 devices that a report can have, left out",
            ),
            (
                self.reports_dropped,
                "report beyond the memory limit, left out",
            ),
            (steps_back, "report earlier than the one before it"),
        ] {
            if number > 0 {
                let (noun, rest) = description.split_once(' ').unwrap_or((description, ""));
                self.add_remark(format!("{} {rest}", count(number, noun)));
            }
        }
        if reports.iter().any(|report| report.timestamp.is_none()) {
            let (why, remedy) = match &self.unread_time {
                None => ("reports have no time".to_owned(), "iostat -t"),
                Some(first) => (
                    format!("the times of reports cannot be read (such as {first})"),
                    "\"LC_ALL=C S_TIME_FORMAT=ISO iostat -t\"",
                ),
            };
            self.add_remark(format!(
                "{why}, so all of them are used; with {remedy}, only reports within the window are used"
            ));
        }
        (
            Iostat {
                reports,
                remarks: self.remarks,
            },
            unusable,
        )
    }
}

/// The rates of a device from the fields of its row; `None` without reads or writes.
fn rates(device: String, fields: [Option<f64>; FIELDS]) -> Option<DeviceRates> {
    let [
        reads,
        writes,
        read_kib,
        kib_written,
        flushes_per_sec,
        discards_per_sec,
    ] = fields;
    let io = [reads?, writes?, read_kib?, kib_written?].into();
    Some(DeviceRates {
        device,
        io,
        flushes_per_sec,
        discards_per_sec,
    })
}
