//! Rows of intervals, telemetry and histograms: millions for each run. Intervals are read one by one.

use crate::Result;
use crate::facts::serials;
use crate::file::PartFiles;
use crate::schema::{HistogramRow, IntervalRow, SlowRow, TelemetryRow};
use conclusions::direction;
use results::cell::latencies;
use results::judge::IntervalCounts;
use results::run_dir::{self, HlogKind, IntervalRecord, Manifest, Run, RunDirError, each_buckets};
use results::telemetry::{ColumnOf, ColumnSource};
use std::path::Path;

/// The keys of all cells of a run, in the order of the cells.
fn keys(manifest: &Manifest) -> Vec<Key<'_>> {
    let serials = serials(manifest);
    let streams = manifest.streams.iter();
    let keys = streams.flat_map(|stream| {
        (0..)
            .zip(&serials)
            .map(move |(device, serial)| (stream, device, *serial))
    });
    keys.map(|(stream, device, serial)| Key {
        stream: &stream.name,
        device,
        serial,
    })
    .collect()
}

/// Values common to all rows of a cell of a run.
#[derive(Clone, Copy)]
struct Key<'a> {
    stream: &'a str,
    device: u64,
    serial: Option<&'a str>,
}

/// Maximum number of rows of telemetry, and of intervals, collected in memory. Collected rows are written column by
/// column and cell by cell: neighbouring values are then alike and take little space.
const WAITING_MAX: usize = 1 << 16;

/// Columns of telemetry.csv with flashproof's own counters, in the order of the file.
const RUN_METRICS: [&str; 6] = [
    "gaps",
    "gaps_over",
    "gap_max_ns",
    "cpu_ns",
    "run_delay_ns",
    "in_flight_max",
];

fn run_values(counts: &IntervalCounts) -> [u64; 6] {
    let IntervalCounts {
        gaps,
        gaps_over,
        gap_max_ns,
        cpu_ns,
        run_delay_ns,
        in_flight_max,
        ..
    } = *counts;
    [
        gaps,
        gaps_over,
        gap_max_ns,
        cpu_ns,
        run_delay_ns,
        in_flight_max,
    ]
}

/// A column of telemetry: the fields common to its rows, and values that are not written yet.
struct TelemetryMetric {
    object: String,
    device: Option<usize>,
    metric: String,
    after_sec: Vec<u64>,
    values: Vec<f64>,
}

impl TelemetryMetric {
    fn new(object: impl Into<String>, device: Option<usize>, metric: &str) -> Self {
        Self {
            object: object.into(),
            device,
            metric: metric.to_owned(),
            after_sec: Vec::new(),
            values: Vec::new(),
        }
    }

    /// The column `name` of telemetry.csv. A column that this version does not know keeps its whole name.
    fn named(name: &str, manifest: &Manifest) -> Self {
        let Some(ColumnOf { column, owner }) = ColumnOf::parse(name) else {
            return Self::new("", None, name);
        };
        let device = if column.is_of_device() {
            device_index(manifest, &owner)
        } else {
            None
        };
        match column.source() {
            ColumnSource::Host => Self::new("host", None, column.name()),
            ColumnSource::Process => Self::new("process", None, column.name()),
            ColumnSource::Thread => Self::new(format!("thread.{owner}"), None, column.name()),
            _ => Self::new(owner, device, column.name()),
        }
    }
}

/// Index of the device with this name in the configuration or in the kernel.
fn device_index(manifest: &Manifest, name: &str) -> Option<usize> {
    let devices = &manifest.devices;
    let index = devices.iter().position(|device| device == name);
    let index = index.or_else(|| {
        manifest
            .device_facts
            .iter()
            .position(|facts| facts.get("kernel_name").and_then(|name| name.as_str()) == Some(name))
    });
    index.filter(|index| *index < devices.len())
}

impl PartFiles {
    /// Inner error: the run cannot be read, and nothing was added. Outer error: a file cannot be written, or reading
    /// failed after the first interval, so that the tables have only a part of the run.
    pub(crate) fn add_intervals(
        &mut self,
        dir: &Path,
        run_id: &str,
    ) -> Result<Result<Run, RunDirError>> {
        let manifest = match run_dir::manifest(dir) {
            Ok(manifest) => manifest,
            Err(error) => return Ok(Err(error)),
        };
        let cells = keys(&manifest);
        let serials = serials(&manifest);
        let mut metrics = Vec::new();
        let mut rows_by_cell = cells.iter().map(|_| Vec::new()).collect::<Vec<_>>();
        let thresholds_ns = manifest.sla.thresholds_ns();
        let mut rows = 0;
        let mut values = 0;
        let mut written = Ok(());
        let run = run_dir::read_each(dir, manifest.clone(), &mut |columns, record| {
            if written.is_err() {
                return;
            }
            if metrics.is_empty() {
                metrics.extend(RUN_METRICS.map(|name| TelemetryMetric::new("run", None, name)));
                metrics.extend(
                    columns
                        .iter()
                        .map(|name| TelemetryMetric::named(name, &manifest)),
                );
            }
            values += add_values(record, &mut metrics);
            written = self
                .add_cells(
                    run_id,
                    &thresholds_ns,
                    &record.counts,
                    &cells,
                    &mut rows_by_cell,
                )
                .map(|added| rows += added);
            if written.is_ok() && rows >= WAITING_MAX {
                written = self.write_intervals(&mut rows_by_cell);
                rows = 0;
            }
            if written.is_ok() && values >= WAITING_MAX {
                written = self.write_telemetry(run_id, &serials, &mut metrics);
                values = 0;
            }
        });
        written?;
        self.write_intervals(&mut rows_by_cell)?;
        self.write_telemetry(run_id, &serials, &mut metrics)?;
        match run {
            Err(error) if !metrics.is_empty() => Err(error.into()),
            run => Ok(run),
        }
    }

    /// Adds the cells of an interval. Returns the number of rows added.
    fn add_cells<'a>(
        &mut self,
        run_id: &'a str,
        thresholds_ns: &[u64],
        counts: &IntervalCounts,
        cells: &[Key<'a>],
        rows_by_cell: &mut [Vec<IntervalRow<'a>>],
    ) -> Result<usize> {
        let mut rows = 0;
        let after_sec = counts.after_sec;
        for (
            (
                cell,
                Key {
                    stream,
                    device,
                    serial,
                },
            ),
            waiting,
        ) in counts
            .cells
            .iter()
            .zip(cells.iter().copied())
            .zip(rows_by_cell)
        {
            if cell.counted_ops() == 0 && cell.backlog.total() == 0 {
                continue;
            }
            rows += 1;
            waiting.push(IntervalRow {
                run_id,
                stream,
                device,
                serial,
                after_sec,
                ops: cell.ops,
                bytes: cell.bytes,
                errors: cell.errors,
                overtime: cell.overtime,
                unissued: cell.unissued,
                lost: cell.lost,
                missed: cell.missed,
                in_flight: cell.backlog.in_flight,
                waiting: cell.backlog.waiting,
                late: cell.backlog.late,
                late_max_ns: cell.late_max_ns,
            });
            for (index, threshold_ns) in thresholds_ns.iter().copied().enumerate() {
                let row = SlowRow {
                    run_id,
                    stream,
                    device,
                    serial,
                    after_sec,
                    threshold_ns,
                    judged_over: cell.judged_over[index],
                    judged_least_over: cell.judged_over_lower_bound[index],
                    response_over: cell.response_over[index],
                    service_over: cell.service_over[index],
                    wait_ns: cell.slow.wait_ns[index],
                    lag_ns: cell.slow.lag_ns[index],
                    service_ns: cell.slow.service_ns[index],
                };
                // The response time is the longest duration: if no response is over a threshold, nothing is.
                if row.response_over == 0 {
                    break;
                }
                self.push(row)?;
            }
        }
        Ok(rows)
    }

    fn write_intervals(&mut self, rows_by_cell: &mut [Vec<IntervalRow<'_>>]) -> Result {
        rows_by_cell
            .iter_mut()
            .flat_map(|rows| rows.drain(..))
            .try_for_each(|row| self.push(row))
    }

    fn write_telemetry(
        &mut self,
        run_id: &str,
        serials: &[Option<&str>],
        metrics: &mut [TelemetryMetric],
    ) -> Result {
        for TelemetryMetric {
            object,
            device,
            metric,
            after_sec,
            values,
        } in metrics
        {
            let row = TelemetryRow {
                run_id,
                object,
                device: device.map(|device| device as u64),
                serial: device.and_then(|device| serials[device]),
                metric,
                after_sec,
                value: values,
            };
            self.push_rows(row, after_sec.len())?;
            after_sec.clear();
            values.clear();
        }
        Ok(())
    }

    /// Returns the first read error. In a damaged log the windows before the damage stay; other logs are still read.
    pub(crate) fn add_histograms(
        &mut self,
        run: &Run,
        run_id: &str,
    ) -> Result<Option<RunDirError>> {
        let cells = keys(&run.manifest);
        let layout = run.manifest.layout();
        // The buckets are those of reports, so that the bound of each row is a value that a report can show.
        let buckets = latencies();
        let mut upper_ns = Vec::new();
        let mut count = Vec::new();
        let mut damage = None;
        for kind in HlogKind::ALL {
            let mut written = Ok(());
            let read = each_buckets(&run.dir, &layout, kind, None, |window| {
                if written.is_err() {
                    return;
                }
                upper_ns.clear();
                count.clear();
                for bucket in window.buckets {
                    let bound_ns = buckets.highest_equivalent(bucket.least_ns);
                    // A finer histogram of another program may have several buckets within one of these buckets.
                    match count
                        .last_mut()
                        .filter(|_| upper_ns.last() == Some(&bound_ns))
                    {
                        Some(last) => *last += u64::from(bucket.count),
                        None => {
                            upper_ns.push(bound_ns);
                            count.push(bucket.count.into());
                        }
                    }
                }
                let Key {
                    stream,
                    device,
                    serial,
                } = cells[window.cell];
                let row = HistogramRow {
                    run_id,
                    stream,
                    direction: direction(stream),
                    device,
                    serial,
                    kind: kind.file_name().trim_end_matches(".hlog"),
                    from_sec: window.from_sec,
                    length_sec: window.length_sec,
                    upper_ns: &upper_ns,
                    count: &count,
                };
                written = self.push_rows(row, count.len());
            });
            written?;
            damage = damage.or(read.err());
        }
        Ok(damage)
    }
}

/// Adds the telemetry of an interval. Returns the number of values added.
fn add_values(record: &IntervalRecord, metrics: &mut [TelemetryMetric]) -> usize {
    let after_sec = record.counts.after_sec;
    let counter_values = run_values(&record.counts).map(|value| Some(value as f64));
    let telemetry_values = record.telemetry.iter().map(|value| value.parse().ok());
    let mut values = 0;
    for (metric, value) in metrics
        .iter_mut()
        .zip(counter_values.into_iter().chain(telemetry_values))
    {
        if let Some(value) = value.filter(|value: &f64| value.is_finite()) {
            values += 1;
            metric.after_sec.push(after_sec);
            metric.values.push(value);
        }
    }
    values
}
