//! Sums up intervals, telemetry and trace samples, live or from a run directory; the sums explain slow windows. Memory
//! grows with the number of steps (a slice or half a slice), not with the number of intervals.
//!
//! A device holds a limited number of requests (`nr_requests`; 32 on SATA). While the device is full, the kernel delays
//! further operations before they become requests, just as under a cgroup's limit. These operations wait for the
//! device, so the device is charged with this time.
//!
//! The kernel's statistics give the number of requests in flight at the end of an interval, and the mean over the
//! interval. If either number is near the device's maximum N, the device was full. While the device is full, the summed
//! lifetimes of its requests grow by N seconds per second. So if the sum over the interval is T seconds, the device was
//! full for at most T / N seconds. Each operation in flight beyond N waited behind the full device for at most this
//! time. A device behind a bursty limit is full only for moments, and is charged only with these moments.

use super::samples::{SampleMatcher, SampledOps, StepSamples};
use crate::buckets::THRESHOLDS_MAX;
use crate::counts::{CellCounts, SlowTimes};
use crate::judge::{IntervalCounts, JudgePlan};
use crate::telemetry::{Column, ColumnOf, TraceKind, TraceLine};
use std::ops::Range;

/// Host and drive state while operations of one stream on one device were over one threshold: means over the
/// operations, not over the time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SlowConditions {
    /// Means of the first [`EVIDENCE`] columns of [`EXPLAINING_COLUMNS`].
    means: [Mean; EVIDENCE],
    /// Mean temperature over the operations whose service time alone was over the threshold.
    pub(super) celsius: Mean,
    /// Summed service times without unseen times, ns, of operations with a response time over the threshold, in
    /// intervals in which the device was full.
    pub(super) full_service_ns: u64,
}

impl SlowConditions {
    pub(super) fn merge(&mut self, other: &Self) {
        self.means
            .iter_mut()
            .zip(&other.means)
            .for_each(|(mine, theirs)| mine.merge(theirs));
        self.celsius.merge(&other.celsius);
        self.full_service_ns = self.full_service_ns.saturating_add(other.full_service_ns);
    }

    /// Mean of `column`, one of the first [`EVIDENCE`] columns of [`EXPLAINING_COLUMNS`]; `None` if below `min`.
    pub(super) fn at_least(&self, column: Column, min: f64) -> Option<f64> {
        self.means
            .get(column_index(column)?)?
            .value()
            .filter(|mean| *mean >= min)
    }
}

/// Kernel statistics of the requests of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Requests {
    pub(super) completed: f64,
    /// Sum of the requests' lifetimes, from creation by the kernel to completion, milliseconds.
    pub(super) time_ms: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DeviceTelemetry {
    pub(super) requests: [Requests; TraceKind::ALL.len()],
    /// Number of times that the device throttled itself.
    pub(super) throttled: f64,
    pub(super) throttled_sec: f64,
    pub(super) full: FullDeviceSums,
}

impl DeviceTelemetry {
    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.requests.iter_mut().zip(&other.requests) {
            mine.completed += theirs.completed;
            mine.time_ms += theirs.time_ms;
        }
        self.throttled += other.throttled;
        self.throttled_sec += other.throttled_sec;
        self.full.merge(&other.full);
    }
}

/// Data of a step: half a slice, or a slice.
#[derive(Debug, Clone, Default)]
struct StepFacts {
    /// An entry for each judged cell and threshold; empty while no operation was slow, as in most steps.
    cells: Vec<[SlowConditions; THRESHOLDS_MAX]>,
    /// An entry for each device; empty without telemetry.
    devices: Vec<DeviceTelemetry>,
    /// For each cell, judged or not: sum of the operations in flight at the ends of those intervals in which a judged
    /// stream on the cell's device had slow or waiting operations. Empty before the first such interval.
    in_flight: Vec<u64>,
}

/// Accumulates the data of a run; can compute the blame for its windows at any time.
#[derive(Debug, Default)]
pub struct Blamer {
    judged: Vec<usize>,
    /// By stream: true for a stream of commits, whose operations are already counted in other streams.
    commits: Vec<bool>,
    devices: usize,
    intervals_per_step: u64,
    /// The columns of telemetry.csv; `None` for a column unknown to this version.
    columns: Vec<Option<ColumnOf>>,
    /// The kernel's names of the devices; `None` for a device without columns.
    kernel_names: Vec<Option<String>>,
    steps: Vec<StepFacts>,
    samples: SampleMatcher,
    pub(super) step_samples: Vec<StepSamples>,
    /// For each judged cell and threshold: the drive's mean temperature over the fast operations.
    pub(super) fast_celsius: Vec<[Mean; THRESHOLDS_MAX]>,
    /// For each judged cell: counts before the drive first throttled itself in the run.
    pub(super) calm: Vec<SampledOps>,
    /// For each device: last values of the throttling counters, and whether they have risen.
    throttle: Vec<Throttle>,
    fill: Vec<FullnessTracker>,
    before_ns: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Throttle {
    count: Option<f64>,
    sec: Option<f64>,
    risen: bool,
}

/// Increase of a counter since `before`; 0 if the counter was reset or is missing.
fn counter_rise(before: &mut Option<f64>, now: Option<f64>) -> f64 {
    let rise = now
        .zip(*before)
        .map_or(0.0, |(now, before)| (now - before).max(0.0));
    *before = now.or(*before);
    rise
}

impl Blamer {
    /// A blamer without data, for a run judged by `plan`. `columns` has the names of the telemetry values. For each
    /// device, `kernel_names` has the column prefix (`None`: no columns), and `requests_max` the maximum number of
    /// requests (`None`: unknown).
    pub fn new(
        plan: &JudgePlan,
        columns: &[String],
        kernel_names: &[Option<String>],
        requests_max: &[Option<u64>],
    ) -> Self {
        let devices = plan.devices.len();
        let streams = plan
            .streams
            .iter()
            .enumerate()
            .filter(|(_, info)| info.judged);
        let judged: Vec<_> = streams
            .flat_map(|(stream, _)| (0..devices).map(move |device| stream * devices + device))
            .collect();
        Self {
            devices,
            commits: plan.streams.iter().map(|info| info.commits).collect(),
            intervals_per_step: plan.intervals_per_step(),
            columns: columns.iter().map(|name| ColumnOf::parse(name)).collect(),
            kernel_names: kernel_names.to_vec(),
            fast_celsius: vec![[Mean::default(); THRESHOLDS_MAX]; judged.len()],
            calm: vec![SampledOps::default(); judged.len()],
            throttle: vec![Throttle::default(); devices],
            fill: (0..devices)
                .map(|device| FullnessTracker::new(requests_max.get(device).copied().flatten()))
                .collect(),
            judged,
            ..Self::default()
        }
    }

    /// Adds an interval with its telemetry values. Intervals must come in the order of their index.
    pub fn interval(&mut self, counts: &IntervalCounts, telemetry: &[String]) {
        let from_ns = std::mem::replace(&mut self.before_ns, counts.end_ns);
        let step = usize::try_from(counts.index / self.intervals_per_step).unwrap_or(usize::MAX);
        if self.steps.len() <= step {
            self.steps.resize(step + 1, StepFacts::default());
            self.step_samples.resize(step + 1, StepSamples::default());
        }
        let rows: Vec<_> = (0..self.devices)
            .map(|device| self.row(telemetry, device))
            .collect();
        let length_ns = counts.end_ns.saturating_sub(from_ns) as f64;
        let seconds = length_ns / 1e9;
        for (device, row) in rows.iter().enumerate() {
            self.device_row(step, device, row, seconds);
            let full = self.fill[device].interval(row, seconds, counts.in_flight_max);
            if let (Some(full), Some(facts)) = (full, self.steps[step].devices.get_mut(device)) {
                facts.full.merge(&full);
            }
        }
        self.cells(step, counts, &rows);
        self.holders(step, counts);
        let cells: Vec<_> = self
            .judged
            .iter()
            .map(|cell: &usize| {
                let CellCounts {
                    ops, service_over, ..
                } = counts.cells.get(*cell).copied().unwrap_or_default();
                SampledOps {
                    length_ms: length_ns / 1e6,
                    ops,
                    service_over,
                }
            })
            .collect();
        for ((calm, cell), counted) in self.calm.iter_mut().zip(&self.judged).zip(&cells) {
            if !self.throttle[cell % self.devices].risen {
                calm.merge(counted);
            }
        }
        self.samples.interval(
            (from_ns, counts.end_ns),
            cells,
            step,
            &mut self.step_samples,
        );
    }

    /// Adds a line of the trace. A line may arrive before or after its intervals.
    pub fn trace(&mut self, line: &TraceLine) {
        if line.device < self.devices {
            self.samples.line(line, &mut self.step_samples);
        }
    }

    fn row(&self, fields: &[String], device: usize) -> IntervalTelemetry {
        IntervalTelemetry(EXPLAINING_COLUMNS.map(|column| {
            match column {
                // The SMART value takes precedence over the kernel's monitor, because the drive throttles by it.
                Column::Celsius => self
                    .value(fields, device, Column::SmartCelsius)
                    .or_else(|| self.value(fields, device, Column::Celsius)),
                column => self.value(fields, device, column),
            }
        }))
    }

    /// The value of `column` of `device` in `fields`; `None` if the value is missing or not finite.
    fn value(&self, fields: &[String], device: usize, column: Column) -> Option<f64> {
        let owner = if column.is_of_device() {
            self.kernel_names.get(device)?.as_deref()?
        } else {
            ""
        };
        let index = self.columns.iter().position(|known| {
            known
                .as_ref()
                .is_some_and(|known| known.column == column && known.owner == owner)
        })?;
        let value = fields.get(index)?.parse().ok();
        value.filter(|value: &f64| value.is_finite())
    }

    fn device_row(&mut self, step: usize, device: usize, row: &IntervalTelemetry, seconds: f64) {
        let devices = &mut self.steps[step].devices;
        devices.resize(self.devices, DeviceTelemetry::default());
        let facts = &mut devices[device];
        let columns = [
            (Column::ReadsPerSec, Column::ReadAwaitMs),
            (Column::WritesPerSec, Column::WriteAwaitMs),
        ];
        for (requests, (per_sec, await_ms)) in facts.requests.iter_mut().zip(columns) {
            if let (Some(per_sec), Some(await_ms)) = (row.get(per_sec), row.get(await_ms)) {
                requests.completed += per_sec * seconds;
                requests.time_ms += per_sec * seconds * await_ms;
            }
        }
        let throttle = &mut self.throttle[device];
        let throttle_count = counter_rise(&mut throttle.count, row.get(Column::SmartThrottleCount));
        let throttle_sec = counter_rise(&mut throttle.sec, row.get(Column::SmartThrottleSec));
        throttle.risen |= throttle_count > 0.0 || throttle_sec > 0.0;
        facts.throttled += throttle_count;
        facts.throttled_sec += throttle_sec;
    }

    fn cells(&mut self, step: usize, counts: &IntervalCounts, rows: &[IntervalTelemetry]) {
        for (position, cell) in self.judged.iter().enumerate() {
            let Some(cell_counts) = counts.cells.get(*cell) else {
                continue;
            };
            let device = cell % self.devices;
            let row = &rows[device];
            let celsius = rows[device].get(Column::Celsius);
            let cells = &mut self.steps[step].cells;
            if cell_counts.response_over[0] > 0 {
                cells.resize(
                    self.judged.len(),
                    [SlowConditions::default(); THRESHOLDS_MAX],
                );
            }
            for threshold in 0..THRESHOLDS_MAX {
                let slow = cell_counts.response_over[threshold];
                let service = cell_counts.service_over[threshold];
                if let Some(sums) = cells.get_mut(position).map(|sums| &mut sums[threshold]) {
                    sums.means
                        .iter_mut()
                        .zip(row.0)
                        .for_each(|(mean, value)| mean.add(value, slow));
                    sums.celsius.add(celsius, service);
                    if self.fill[device].is_full {
                        let SlowTimes {
                            service_ns,
                            unseen_ns,
                            ..
                        } = &cell_counts.slow;
                        let service_ns = service_ns[threshold].saturating_sub(unseen_ns[threshold]);
                        sums.full_service_ns = sums.full_service_ns.saturating_add(service_ns);
                    }
                }
                let fast = cell_counts.ops.saturating_sub(service);
                self.fast_celsius[position][threshold].add(celsius, fast);
            }
        }
    }

    /// Adds up the operations in flight of all streams, on devices where operations of judged streams are slow or wait.
    fn holders(&mut self, step: usize, counts: &IntervalCounts) {
        let slow = self.judged.iter().copied().filter(|cell: &usize| {
            counts
                .cells
                .get(*cell)
                .is_some_and(|counted| counted.response_over[0] > 0 || counted.backlog.waiting > 0)
        });
        let devices: Vec<_> = slow.map(|cell| cell % self.devices).collect();
        if devices.is_empty() {
            return;
        }
        let in_flight = &mut self.steps[step].in_flight;
        in_flight.resize(counts.cells.len(), 0);
        for (cell, sum) in in_flight.iter_mut().enumerate() {
            if devices.contains(&(cell % self.devices)) && !self.commits[cell / self.devices] {
                *sum = sum.saturating_add(counts.cells[cell].backlog.in_flight);
            }
        }
    }

    /// The stream that had more than half of the operations in flight on `devices`, and its fraction of these
    /// operations. Counts only intervals in which operations of judged streams were slow or waited there. `None`: no
    /// such stream.
    pub(super) fn holder(
        &self,
        steps: &Range<usize>,
        devices: Range<usize>,
    ) -> Option<(usize, f64)> {
        let cells = self.facts(steps).map(|facts| facts.in_flight.len()).max()?;
        let mut ops_of_streams = vec![0_u64; cells / self.devices.max(1)];
        for facts in self.facts(steps) {
            for (stream, ops) in ops_of_streams.iter_mut().enumerate() {
                *ops += devices
                    .clone()
                    .filter_map(|device| facts.in_flight.get(stream * self.devices + device))
                    .sum::<u64>();
            }
        }
        let all: u64 = ops_of_streams.iter().sum();
        let (stream, ops) = ops_of_streams
            .into_iter()
            .enumerate()
            .max_by_key(|(_, ops)| *ops)?;
        let part = ops as f64 / all.max(1) as f64;
        (part > 0.5).then_some((stream, part))
    }

    fn facts(&self, steps: &Range<usize>) -> impl Iterator<Item = &StepFacts> {
        self.steps.iter().take(steps.end).skip(steps.start)
    }

    /// Position of a stream's cell among the judged cells; `None` for a stream that is not judged.
    pub(super) fn position(&self, stream: usize, device: usize) -> Option<usize> {
        self.judged
            .iter()
            .position(|cell| *cell == stream * self.devices + device)
    }

    pub(super) fn meanwhile(
        &self,
        steps: &Range<usize>,
        position: usize,
        threshold: usize,
    ) -> SlowConditions {
        let of_cell = self
            .facts(steps)
            .filter_map(|facts| facts.cells.get(position));
        of_cell.fold(SlowConditions::default(), |mut sum, cell| {
            sum.merge(&cell[threshold]);
            sum
        })
    }

    pub(super) fn device(&self, steps: &Range<usize>, device: usize) -> DeviceTelemetry {
        let of_device = self
            .facts(steps)
            .filter_map(|facts| facts.devices.get(device));
        of_device.fold(DeviceTelemetry::default(), |mut sum, device| {
            sum.merge(device);
            sum
        })
    }
}

/// A device counts as full if its requests reach this fraction of their maximum number. Some slots are always between
/// two requests, so 100 % is never observed.
const FULL_MIN: f64 = 0.9;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FullDeviceSums {
    /// Sum of the lifetimes of the device's requests, seconds.
    pub(super) requests_sec: f64,
    /// Upper bound of the summed waits of operations behind the device's requests, seconds.
    pub(super) waited_sec_max: f64,
    /// Maximum number of requests that the device holds.
    pub(super) requests_max: u64,
}

impl FullDeviceSums {
    pub(super) fn merge(&mut self, other: &Self) {
        self.requests_sec += other.requests_sec;
        self.waited_sec_max += other.waited_sec_max;
        self.requests_max = self.requests_max.max(other.requests_max);
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct FullnessTracker {
    /// Maximum number of requests that the device holds; `None`: unknown, so the device never counts as full.
    requests_max: Option<u64>,
    /// True if the device was full on average over the last interval, or at its start or end.
    is_full: bool,
    ended_full: bool,
}

impl FullnessTracker {
    fn new(requests_max: Option<u64>) -> Self {
        Self {
            requests_max: requests_max.filter(|most| *most > 0),
            ..Self::default()
        }
    }
    /// Adds an interval of `seconds`; returns the sums if the device was full.
    fn interval(
        &mut self,
        row: &IntervalTelemetry,
        seconds: f64,
        in_flight_max: u64,
    ) -> Option<FullDeviceSums> {
        let requests_max = self.requests_max?;
        let queue_size = requests_max as f64;
        let is_full =
            |in_use: Option<f64>| in_use.is_some_and(|in_use| in_use >= queue_size * FULL_MIN);
        let began_full =
            std::mem::replace(&mut self.ended_full, is_full(row.get(Column::InFlight)));
        let queue_mean = row.get(Column::AverageQueue);
        self.is_full = began_full || self.ended_full || is_full(queue_mean);
        let requests_sec = queue_mean.filter(|_| self.is_full)? * seconds;
        let excess_in_flight = in_flight_max.saturating_sub(requests_max) as f64;
        Some(FullDeviceSums {
            requests_sec,
            waited_sec_max: requests_sec / queue_size * excess_in_flight,
            requests_max,
        })
    }
}

/// Number of leading columns of [`EXPLAINING_COLUMNS`] whose means over slow operations are evidence against the host.
const EVIDENCE: usize = 6;

const EXPLAINING_COLUMNS: [Column; 15] = [
    Column::CpuStealPct,
    Column::RunqueueWaitPct,
    Column::CpuBusyPct,
    Column::CpuBusiestPct,
    Column::IrqCpuSharePct,
    Column::IrqsPerSec,
    Column::ReadsPerSec,
    Column::ReadAwaitMs,
    Column::WritesPerSec,
    Column::WriteAwaitMs,
    Column::AverageQueue,
    Column::InFlight,
    Column::Celsius,
    Column::SmartThrottleCount,
    Column::SmartThrottleSec,
];

fn column_index(column: Column) -> Option<usize> {
    EXPLAINING_COLUMNS.iter().position(|used| *used == column)
}

/// Telemetry of a device and its host in an interval, by column of [`EXPLAINING_COLUMNS`]; `None` if not measured.
struct IntervalTelemetry([Option<f64>; EXPLAINING_COLUMNS.len()]);

impl IntervalTelemetry {
    fn get(&self, column: Column) -> Option<f64> {
        self.0[column_index(column)?]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    pub(super) fn add(&mut self, value: Option<f64>, weight: u64) {
        if let Some(value) = value {
            self.sum += value * weight as f64;
            self.weight += weight as f64;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.weight += other.weight;
    }

    pub(super) fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}
