//! The two tables of a run, reduced to a few points for each column.

use super::bins::Bins;
use super::{Detail, Points};
use results::judge::CellCounts;
use results::run_dir::{IntervalRecord, Intervals, Manifest, RunDirError};
use results::telemetry::{Column, ColumnOf};
use std::path::Path;

/// A column of telemetry.
#[derive(Debug, Clone)]
pub(crate) struct ColumnLine {
    /// Its name in the table.
    pub(crate) name: String,
    /// What it is; `None` of one that this version does not know.
    pub(crate) known: Option<ColumnOf>,
    pub(crate) bins: Bins,
    /// The first value measured and the last.
    pub(crate) ends: Option<(f64, f64)>,
}

/// What one stream did.
#[derive(Debug, Clone)]
pub(crate) struct StreamLine {
    /// Operations a second that succeeded within the run.
    pub(crate) achieved: Bins,
    /// Operations a second that failed or never came back.
    pub(crate) lost: Bins,
}

/// A run over time, as its tables tell it.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    interval_sec: u64,
    /// By stream of the manifest.
    pub(crate) streams: Vec<StreamLine>,
    /// The longest gap between two looks, milliseconds.
    pub(crate) gap_ms: Bins,
    /// CPU of the issuing threads, percent of one CPU.
    pub(crate) cpu_pct: Bins,
    /// Most operations in flight.
    pub(crate) in_flight: Bins,
    pub(crate) columns: Vec<ColumnLine>,
}

impl Timeline {
    /// Reads what is whole of the tables in `dir`. Errors: the tables cannot be opened.
    pub(crate) fn read(dir: &Path, manifest: &Manifest, detail: Detail) -> Result<Self, RunDirError> {
        let mut records = Intervals::open(dir, manifest)?;
        let bins = Bins::new(detail.points_max);
        let stream = StreamLine { achieved: bins.clone(), lost: bins.clone() };
        let column = |name: &String| ColumnLine {
            name: name.clone(),
            known: ColumnOf::parse(name),
            bins: bins.clone(),
            ends: None,
        };
        let mut this = Self {
            interval_sec: manifest.report_interval_sec.max(1),
            streams: vec![stream; manifest.streams.len()],
            gap_ms: bins.clone(),
            cpu_pct: bins.clone(),
            in_flight: bins.clone(),
            columns: records.columns().iter().map(column).collect(),
        };
        let (devices, mut before_ns) = (manifest.devices.len().max(1), 0);
        // A damaged line ends what is whole; whoever reads the run for its verdict is told where.
        while let Ok(Some(record)) = records.next() {
            let length_sec = record.counts.end_ns.saturating_sub(before_ns) as f64 / 1e9;
            before_ns = record.counts.end_ns;
            this.add(record, devices, length_sec);
        }
        Ok(this)
    }

    fn add(&mut self, record: &IntervalRecord, devices: usize, length_sec: f64) {
        let rate = |count: u64| (length_sec > 0.0).then(|| count as f64 / length_sec);
        for (stream, cells) in self.streams.iter_mut().zip(record.counts.cells.chunks(devices)) {
            let sum = |of: fn(&CellCounts) -> u64| cells.iter().map(of).fold(0, u64::saturating_add);
            stream.achieved.push(rate(sum(|cell| cell.ops.saturating_sub(cell.overtime))));
            stream.lost.push(rate(sum(|cell| cell.errors.saturating_add(cell.unissued))));
        }
        self.gap_ms.push(Some(record.counts.gap_max_ns as f64 / 1e6));
        self.cpu_pct.push(rate(record.cpu_ns).map(|ns_per_sec| ns_per_sec / 1e7));
        self.in_flight.push(Some(record.in_flight_max as f64));
        for (column, text) in self.columns.iter_mut().zip(&record.telemetry) {
            let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
            column.bins.push(value);
            if let Some(value) = value {
                column.ends = Some((column.ends.map_or(value, |(first, _)| first), value));
            }
        }
    }

    /// Seconds that one point stands for.
    pub(crate) fn point_sec(&self) -> u64 {
        self.gap_ms.width() as u64 * self.interval_sec
    }

    /// Where the points lie: at the end of what they stand for.
    pub(crate) fn points(&self) -> Points {
        let step = self.point_sec() as f64;
        Points::Even { first: step, step }
    }

    /// Whether a point stands for more than one interval.
    pub(crate) fn is_reduced(&self) -> bool {
        self.gap_ms.width() > 1
    }

    /// Whether any interval is whole.
    pub(crate) fn any(&self) -> bool {
        self.gap_ms.any()
    }

    /// A column of a device, by its kernel name, or of host or process, with an empty one.
    pub(crate) fn column(&self, column: Column, of: &str) -> Option<&ColumnLine> {
        let is_it = |known: &ColumnOf| known.column == column && known.of == of;
        self.columns.iter().find(|line| line.known.as_ref().is_some_and(is_it))
    }
}
