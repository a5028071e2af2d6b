//! The interval logs of a run: totals, quantiles over time, and a heat map, in one pass.
//!
//! Windows of one point are added up as histograms before a quantile is taken. So a point's p99 and maximum are those
//! of all its operations.

use super::{ChartResolution, Heat, Points};
use crate::latencies::Quantiles;
use results::cell::{self, Latencies, Layout};
use results::run_dir::{HistogramWindow, HlogKind, RunDirError, each_window};
use std::path::Path;

/// Number of rows of a heat map per factor of ten in duration.
const ROWS_PER_DECADE: f64 = 10.0;
/// Points and columns beyond this multiple of their maximum number come from a damaged line and are clamped.
const BEYOND: usize = 4;
/// Maximum number of rows: up to the longest duration that histograms resolve, 3.6e12 ns.
const ROWS: usize = 128;

/// Quantiles at one point, milliseconds.
pub(crate) type PointQuantiles = [f64; 5];
pub(crate) const QUANTILE_NAMES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];
/// Position of the 99th percentile in [`PointQuantiles`].
pub(crate) const P99: usize = 2;
pub(crate) const P99_9: usize = 3;
/// Position of the maximum in [`PointQuantiles`].
pub(crate) const MAX: usize = 4;

/// The durations of one stream, or of one stream on one device.
#[derive(Debug, Clone)]
pub(crate) struct StreamDurations {
    /// Quantiles at each point; `None` if no operation succeeded.
    pub(crate) moments: Vec<Option<PointQuantiles>>,
    pub(crate) total: Latencies,
    since_point: Latencies,
    /// Counts by column, then by row.
    columns: Vec<Vec<u64>>,
}

pub(crate) struct Windows {
    /// An entry for each stream, over all devices.
    pub(crate) streams: Vec<StreamDurations>,
    /// An entry for each cell; empty with a single device.
    pub(crate) cells: Vec<StreamDurations>,
    pub(crate) point_sec: f64,
    pub(crate) column_sec: f64,
    detail: ChartResolution,
    /// Why the log could not be read to its end.
    pub(crate) damage: Option<String>,
}

impl StreamDurations {
    fn new() -> Self {
        Self {
            moments: Vec::new(),
            total: cell::latencies(),
            since_point: cell::latencies(),
            columns: Vec::new(),
        }
    }

    /// Adds a window to the point `point`, which never decreases from call to call.
    fn add(&mut self, histogram: &Latencies, point: usize) {
        self.close(point);
        // `add` fails if a log of another program contains a duration above `DURATION_MAX_NS`: the window is left out.
        let _ = self.since_point.add(histogram);
        let _ = self.total.add(histogram);
    }

    /// Ends the points before `point`.
    fn close(&mut self, point: usize) {
        if !self.since_point.is_empty() && point > self.moments.len() {
            let Quantiles {
                p50_ns,
                p90_ns,
                p99_ns,
                p999_ns,
                max_ns,
                ..
            } = Quantiles::from(&self.since_point);
            self.moments.push(Some(
                [p50_ns, p90_ns, p99_ns, p999_ns, max_ns].map(|ns| ns as f64 / 1e6),
            ));
            self.since_point.reset();
        }
        self.moments.resize(point.max(self.moments.len()), None);
    }

    fn add_heat(&mut self, histogram: &Latencies, column: usize) {
        if self.columns.len() <= column {
            self.columns.resize(column + 1, vec![0; ROWS]);
        }
        let rows = &mut self.columns[column];
        for value in histogram.iter_recorded() {
            let middle_ns = histogram.median_equivalent(value.value_iterated_to());
            let row = (middle_ns.max(1) as f64).log10() * ROWS_PER_DECADE;
            if let Some(count) = rows.get_mut((row.floor() as usize).min(ROWS - 1)) {
                *count += u64::from(value.count_at_value());
            }
        }
    }

    /// The heat map: columns in seconds, rows in milliseconds; `None` without a value.
    pub(crate) fn heat(&self, column_sec: f64) -> Option<Heat> {
        let mut used_rows = (0..ROWS).filter(|row| {
            self.columns
                .iter()
                .any(|column| column.get(*row).is_some_and(|count| *count > 0))
        });
        let low = used_rows.next()?;
        let high = used_rows.next_back().unwrap_or(low);
        let totals: Vec<u64> = self
            .columns
            .iter()
            .map(|column| column.iter().sum())
            .collect();
        let mut shares = Vec::new();
        for row in low..=high {
            let columns = self.columns.iter().zip(&totals);
            let row_shares = columns.map(|(column, total)| {
                let count = *column.get(row)?;
                (count > 0).then(|| count as f64 / (*total).max(1) as f64)
            });
            shares.push(row_shares.collect());
        }
        Some(Heat {
            x_edges: (0..=self.columns.len())
                .map(|column| column as f64 * column_sec)
                .collect(),
            y_edges: (low..=high + 1)
                .map(|row| 10_f64.powf(row as f64 / ROWS_PER_DECADE) / 1e6)
                .collect(),
            shares,
        })
    }
}

impl Windows {
    /// Reads the undamaged part of the log of `kind` in `dir`. `heat`: true to collect the counts of heat maps.
    pub(crate) fn read(
        dir: &Path,
        layout: &Layout,
        kind: HlogKind,
        ran_sec: f64,
        detail: ChartResolution,
        heat: bool,
    ) -> Self {
        let devices = layout.devices.len().max(1);
        let cells = if devices > 1 { layout.cells() } else { 0 };
        let mut this = Self {
            streams: vec![StreamDurations::new(); layout.streams.len()],
            cells: vec![StreamDurations::new(); cells],
            point_sec: 0.0,
            column_sec: 0.0,
            detail,
            damage: None,
        };
        let mut last = 0;
        let read = each_window(dir, layout, kind, |window| {
            if this.point_sec == 0.0 {
                let length_sec = window.length_sec.round().max(1.0);
                this.point_sec = whole_windows(length_sec, ran_sec, detail.points_max);
                this.column_sec = whole_windows(length_sec, ran_sec, detail.columns_max);
            }
            last = last.max(this.add(&window, devices, heat));
        });
        this.streams
            .iter_mut()
            .chain(&mut this.cells)
            .for_each(|durations| durations.close(last + 1));
        this.damage = read.err().map(|error| damage(kind, &error, &this));
        this
    }

    fn add(&mut self, window: &HistogramWindow, devices: usize, heat: bool) -> usize {
        let middle_sec = window.from_sec + window.length_sec / 2.0;
        let point = bin_index(middle_sec, self.point_sec, self.detail.points_max);
        let column = bin_index(middle_sec, self.column_sec, self.detail.columns_max);
        if let Some(stream) = self.streams.get_mut(window.cell / devices) {
            stream.add(&window.histogram, point);
            if heat {
                stream.add_heat(&window.histogram, column);
            }
        }
        if let Some(cell) = self.cells.get_mut(window.cell) {
            cell.add(&window.histogram, point);
        }
        point
    }

    pub(crate) fn totals(&self) -> impl Iterator<Item = &Latencies> {
        self.streams.iter().map(|durations| &durations.total)
    }

    pub(crate) fn points(&self) -> Points {
        Points::Even {
            first: self.point_sec,
            step: self.point_sec,
        }
    }
}

fn bin_index(at_sec: f64, length_sec: f64, bins_max: usize) -> usize {
    ((at_sec / length_sec) as usize).min(bins_max.saturating_mul(BEYOND))
}

/// Length of a point in whole windows, so that a run of `ran_sec` has at most `points_max` points.
fn whole_windows(window_sec: f64, ran_sec: f64, points_max: usize) -> f64 {
    (ran_sec / window_sec / points_max.max(1) as f64)
        .ceil()
        .max(1.0)
        * window_sec
}

fn damage(kind: HlogKind, error: &RunDirError, read: &Windows) -> String {
    let points = read
        .streams
        .iter()
        .map(|stream| stream.moments.len())
        .max()
        .unwrap_or(0);
    let until_sec = points as f64 * read.point_sec;
    if let RunDirError::Missing { .. } = error {
        return format!("no latencies from {}: {error}", kind.file_name());
    }
    format!(
        "{} could only be read up to about {until_sec:.0} s: {error}",
        kind.file_name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_covers_whole_windows_so_that_a_run_has_at_most_the_maximum_of_points() {
        assert_eq!(whole_windows(10.0, 86_400.0, 1_500), 60.0);
        assert_eq!(whole_windows(10.0, 86_400.0, 300), 290.0);
        assert_eq!(whole_windows(10.0, 60.0, 1_500), 10.0);
        assert_eq!(whole_windows(10.0, 0.0, 1_500), 10.0);
    }

    #[test]
    fn a_point_has_the_quantiles_of_all_its_windows_and_the_maximum_survives() {
        let mut durations = StreamDurations::new();
        let of = |ns: u64, count: u32| {
            let mut histogram = cell::latencies();
            histogram.record_n(ns, count).unwrap();
            histogram
        };
        durations.add(&of(1_000_000, 980), 0);
        durations.add(&of(9_000_000, 20), 0);
        durations.add(&of(1_000_000, 10), 2);
        durations.close(3);
        assert_eq!(durations.moments.len(), 3);
        assert_eq!(durations.moments[1], None, "nothing succeeded");
        let [p50, p90, p99, _, max] = durations.moments[0].unwrap();
        assert!(
            (p50 - 1.0).abs() < 0.02 && (p90 - 1.0).abs() < 0.02,
            "{p50} {p90}"
        );
        assert!(
            (p99 - 9.0).abs() < 0.1 && (max - 9.0).abs() < 0.1,
            "{p99} {max}"
        );
    }

    #[test]
    fn each_column_of_a_heat_map_adds_up_to_one() {
        let mut durations = StreamDurations::new();
        let mut histogram = cell::latencies();
        histogram.record_n(100_000, 3).unwrap();
        histogram.record_n(5_000_000, 1).unwrap();
        durations.add_heat(&histogram, 1);
        let heat = durations.heat(10.0).unwrap();
        assert_eq!(heat.x_edges, [0.0, 10.0, 20.0]);
        assert_eq!(heat.y_edges.len(), heat.shares.len() + 1);
        let column = |at: usize| {
            heat.shares
                .iter()
                .filter_map(|row| row[at])
                .collect::<Vec<_>>()
        };
        assert_eq!(column(0), Vec::<f64>::new());
        assert_eq!(column(1), [0.75, 0.25]);
        let row = heat
            .shares
            .iter()
            .position(|row| row[1] == Some(0.25))
            .unwrap();
        assert!(
            heat.y_edges[row] <= 5.0 && 5.0 < heat.y_edges[row + 1] + 0.06,
            "{:?}",
            heat.y_edges
        );
    }
}
