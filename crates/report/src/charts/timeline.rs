//! intervals.csv and telemetry.csv, reduced to a few points for each column.
//!
//! A point has the mean, minimum and maximum of its intervals. The length of a run is not known beforehand, so bins
//! double their width whenever there are too many. A column therefore has between half of the maximum number of points
//! and the maximum, and each point covers 2^n intervals.

use super::{ChartResolution, Line, Points, Style};
use results::counts::CellCounts;
use results::run_dir::{IntervalRecord, Intervals, Manifest, RunDirError};
use results::telemetry::{Column, ColumnOf};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

pub(crate) struct ColumnLine {
    pub(crate) name: String,
    /// `None` for a column unknown to this version.
    pub(crate) column_of: Option<ColumnOf>,
    pub(crate) bins: TimeBins,
    pub(crate) first_and_last: Option<(f64, f64)>,
    pub(crate) first_fall: Option<Fall>,
}

/// A fall of a value from one interval to the next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Fall {
    /// Value before.
    pub before: f64,
    /// Value after.
    pub after: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct StreamLine {
    /// Operations per second that succeeded within the run.
    pub(crate) achieved: TimeBins,
    /// Operations per second that failed or never completed.
    pub(crate) lost: TimeBins,
}

pub(crate) struct Timeline {
    interval_sec: u64,
    /// An entry for each stream of the manifest.
    pub(crate) streams: Vec<StreamLine>,
    /// The longest gap between two polls, milliseconds.
    pub(crate) gap_ms: TimeBins,
    /// CPU of the issuing threads, percent of one CPU.
    pub(crate) cpu_pct: TimeBins,
    pub(crate) in_flight: TimeBins,
    pub(crate) columns: Vec<ColumnLine>,
}

impl Timeline {
    /// Reads the undamaged part of the tables in `dir`. Errors: the tables cannot be opened.
    pub(crate) fn read(
        dir: &Path,
        manifest: &Manifest,
        detail: ChartResolution,
    ) -> Result<Self, RunDirError> {
        let mut records = Intervals::open(dir, manifest)?;
        let bins = TimeBins::new(detail.points_max);
        let stream = StreamLine {
            achieved: bins.clone(),
            lost: bins.clone(),
        };
        let column = |name: &String| ColumnLine {
            name: name.clone(),
            column_of: ColumnOf::parse(name),
            bins: bins.clone(),
            first_and_last: None,
            first_fall: None,
        };
        let mut this = Self {
            interval_sec: manifest.report_interval_sec.max(1),
            streams: vec![stream; manifest.streams.len()],
            gap_ms: bins.clone(),
            cpu_pct: bins.clone(),
            in_flight: bins.clone(),
            columns: records.columns().iter().map(column).collect(),
        };
        let devices = manifest.devices.len().max(1);
        let mut before_ns = 0;
        // A damaged line ends the usable part; the reader of the verdict reports its position.
        while let Ok(Some(record)) = records.next() {
            let length_sec = record.counts.end_ns.saturating_sub(before_ns) as f64 / 1e9;
            before_ns = record.counts.end_ns;
            this.add(record, devices, length_sec);
        }
        Ok(this)
    }

    fn add(&mut self, record: &IntervalRecord, devices: usize, length_sec: f64) {
        let rate = |count: u64| (length_sec > 0.0).then(|| count as f64 / length_sec);
        for (stream, cells) in self
            .streams
            .iter_mut()
            .zip(record.counts.cells.chunks(devices))
        {
            let sum =
                |of: fn(&CellCounts) -> u64| cells.iter().map(of).fold(0, u64::saturating_add);
            stream
                .achieved
                .push(rate(sum(|cell| cell.ops.saturating_sub(cell.overtime))));
            stream
                .lost
                .push(rate(sum(|cell| cell.errors.saturating_add(cell.unissued))));
        }
        self.gap_ms
            .push(Some(record.counts.gap_max_ns as f64 / 1e6));
        self.cpu_pct
            .push(rate(record.counts.cpu_ns).map(|ns_per_sec| ns_per_sec / 1e7));
        self.in_flight
            .push(Some(record.counts.in_flight_max as f64));
        for (column, text) in self.columns.iter_mut().zip(&record.telemetry) {
            let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
            column.bins.push(value);
            if let Some(value) = value {
                let (first, before) = column.first_and_last.unwrap_or((value, value));
                column.first_fall = column.first_fall.or_else(|| {
                    (value < before).then_some(Fall {
                        before,
                        after: value,
                    })
                });
                column.first_and_last = Some((first, value));
            }
        }
    }

    pub(crate) fn point_sec(&self) -> u64 {
        self.gap_ms.width as u64 * self.interval_sec
    }

    /// Positions of the points: each at the end of its period.
    pub(crate) fn points(&self) -> Points {
        let step = self.point_sec() as f64;
        Points::Even { first: step, step }
    }

    pub(crate) fn line(&self, name: &str, y: Vec<Option<f64>>, style: usize) -> Line {
        let style = Style {
            stepped: true,
            ..Style::line(style)
        };
        Line::new(name, self.points(), y, style)
    }

    /// True if a point represents more than one interval.
    pub(crate) fn is_reduced(&self) -> bool {
        self.gap_ms.width > 1
    }

    /// True if any interval is complete.
    pub(crate) fn any(&self) -> bool {
        self.gap_ms.any()
    }

    /// The line of a column; `owner` is the kernel name of a device, or empty for host and process.
    pub(crate) fn column(&self, column: Column, owner: &str) -> Option<&ColumnLine> {
        let is_it = |known: &ColumnOf| known.column == column && known.owner == owner;
        self.columns
            .iter()
            .find(|line| line.column_of.as_ref().is_some_and(is_it))
    }
}

/// Meaning of a point of a reduced line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinStatistic {
    Mean,
    Max,
    Min,
}

impl BinStatistic {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Max => "highest",
            Self::Min => "lowest",
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct TimeBin {
    sum: f64,
    count: u64,
    max: f64,
    min: f64,
}

impl TimeBin {
    const EMPTY: Self = Self {
        sum: 0.0,
        count: 0,
        max: f64::NEG_INFINITY,
        min: f64::INFINITY,
    };

    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
        self.max = self.max.max(other.max);
        self.min = self.min.min(other.min);
    }

    fn merged(bins: &[Self]) -> Self {
        let mut all = Self::EMPTY;
        bins.iter().for_each(|bin| all.add(*bin));
        all
    }

    fn value(&self, stat: BinStatistic) -> Option<f64> {
        (self.count > 0).then(|| match stat {
            BinStatistic::Mean => self.sum / self.count as f64,
            BinStatistic::Max => self.max,
            BinStatistic::Min => self.min,
        })
    }
}

/// A value per interval, reduced to bins.
#[derive(Debug, Clone)]
pub(crate) struct TimeBins {
    bins: Vec<TimeBin>,
    points_max: usize,
    /// Intervals in a bin.
    width: usize,
    interval_count: usize,
}

impl TimeBins {
    /// Empty bins, at most `points_max` (at least 2).
    pub(crate) fn new(points_max: usize) -> Self {
        Self {
            bins: Vec::new(),
            points_max: points_max.max(2),
            width: 1,
            interval_count: 0,
        }
    }

    /// Adds the value of the next interval; `None` if the interval has no value.
    pub(crate) fn push(&mut self, value: Option<f64>) {
        if self.interval_count / self.width >= self.points_max {
            self.halve();
        }
        if self.interval_count.is_multiple_of(self.width) {
            self.bins.push(TimeBin::EMPTY);
        }
        self.interval_count += 1;
        if let (Some(bin), Some(value)) = (
            self.bins.last_mut(),
            value.filter(|value| value.is_finite()),
        ) {
            bin.add(TimeBin {
                sum: value,
                count: 1,
                max: value,
                min: value,
            });
        }
    }

    fn halve(&mut self) {
        self.bins = self.bins.chunks(2).map(TimeBin::merged).collect();
        self.width *= 2;
    }

    pub(crate) fn values(&self, stat: BinStatistic) -> Vec<Option<f64>> {
        self.bins.iter().map(|bin| bin.value(stat)).collect()
    }

    pub(crate) fn overall(&self, stat: BinStatistic) -> Option<f64> {
        TimeBin::merged(&self.bins).value(stat)
    }

    pub(crate) fn any(&self) -> bool {
        self.bins.iter().any(|bin| bin.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_intervals_is_reduced_to_few_points_that_keep_its_extremes() {
        let mut bins = TimeBins::new(1_500);
        for second in 0..86_400 {
            bins.push(Some(match second {
                50_000 => 900.0,
                60_000 => -1.0,
                _ => 2.0,
            }));
        }
        assert_eq!(bins.width, 64);
        assert_eq!(bins.values(BinStatistic::Mean).len(), 1_350);
        assert_eq!(bins.values(BinStatistic::Max)[50_000 / 64], Some(900.0));
        assert_eq!(
            (
                bins.overall(BinStatistic::Max),
                bins.overall(BinStatistic::Min)
            ),
            (Some(900.0), Some(-1.0))
        );
        assert_eq!(bins.values(BinStatistic::Mean)[0], Some(2.0));
    }

    #[test]
    fn a_value_that_was_not_measured_is_not_zero() {
        let mut bins = TimeBins::new(2);
        [None, Some(4.0), None, None, Some(1.0)]
            .into_iter()
            .for_each(|value| bins.push(value));
        assert_eq!(bins.width, 4);
        assert_eq!(bins.values(BinStatistic::Mean), [Some(4.0), Some(1.0)]);
        let mut empty = TimeBins::new(5);
        empty.push(None);
        assert!(!empty.any());
        assert_eq!(empty.values(BinStatistic::Max), [None]);
    }
}
