//! The telemetry columns used for blame.
//!
//! A run has some of them, depending on its version, its host and its drives; all are optional.

use crate::telemetry::{Column, ColumnOf};

/// Host telemetry of one interval; `None` where not measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct HostRow {
    pub(super) steal_pct: Option<f64>,
    pub(super) busy_pct: Option<f64>,
    pub(super) busiest_pct: Option<f64>,
    pub(super) runqueue_wait_pct: Option<f64>,
}

/// Telemetry of one device in one interval; `None` where not measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct DeviceRow {
    pub(super) reads_per_sec: Option<f64>,
    pub(super) read_await_ms: Option<f64>,
    pub(super) writes_per_sec: Option<f64>,
    pub(super) write_await_ms: Option<f64>,
    /// Mean number of requests that it held.
    pub(super) queue_mean: Option<f64>,
    /// Requests that it held at the end.
    pub(super) in_flight: Option<f64>,
    pub(super) celsius: Option<f64>,
    pub(super) throttle_count: Option<f64>,
    pub(super) throttle_sec: Option<f64>,
    pub(super) irq_share_pct: Option<f64>,
    pub(super) irqs_per_sec: Option<f64>,
}

/// Maps columns of telemetry.csv to their meaning.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns {
    /// One per column of the file; `None` for a column unknown to this version.
    columns: Vec<Option<ColumnOf>>,
    /// The kernel's names of the devices; `None` for a device without columns.
    kernel_names: Vec<Option<String>>,
}

impl Columns {
    /// The columns `names` of a run on devices that the kernel calls `kernel_names`.
    pub(super) fn new(names: &[String], kernel_names: &[Option<String>]) -> Self {
        let columns = names.iter().map(|name| ColumnOf::parse(name)).collect();
        Self { columns, kernel_names: kernel_names.to_vec() }
    }

    fn value(&self, row: &[String], of: &str, column: Column) -> Option<f64> {
        let is_it = |known: &Option<ColumnOf>| known.as_ref().is_some_and(|it| it.column == column && it.of == of);
        let value = row.get(self.columns.iter().position(is_it)?)?;
        value.parse().ok().filter(|value: &f64| value.is_finite())
    }

    pub(super) fn host(&self, row: &[String]) -> HostRow {
        let value = |column| self.value(row, "", column);
        HostRow {
            steal_pct: value(Column::CpuStealPct),
            busy_pct: value(Column::CpuBusyPct),
            busiest_pct: value(Column::CpuBusiestPct),
            runqueue_wait_pct: value(Column::RunqueueWaitPct),
        }
    }

    pub(super) fn device(&self, row: &[String], device: usize) -> DeviceRow {
        let Some(Some(name)) = self.kernel_names.get(device) else { return DeviceRow::default() };
        let value = |column| self.value(row, name, column);
        DeviceRow {
            reads_per_sec: value(Column::ReadsPerSec),
            read_await_ms: value(Column::ReadAwaitMs),
            writes_per_sec: value(Column::WritesPerSec),
            write_await_ms: value(Column::WriteAwaitMs),
            queue_mean: value(Column::AverageQueue),
            in_flight: value(Column::InFlight),
            // The drive's own value comes before the kernel's monitor, because the drive throttles by it.
            celsius: value(Column::SmartCelsius).or_else(|| value(Column::Celsius)),
            throttle_count: value(Column::SmartThrottleCount),
            throttle_sec: value(Column::SmartThrottleSec),
            irq_share_pct: value(Column::IrqCpuSharePct),
            irqs_per_sec: value(Column::IrqsPerSec),
        }
    }
}

/// A mean over weighted values.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    /// Adds a value, if there is one.
    pub(super) fn add(&mut self, value: Option<f64>, weight: u64) {
        if let Some(value) = value {
            self.sum += value * weight as f64;
            self.weight += weight as f64;
        }
    }

    /// Adds all that went into another.
    pub(super) fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.weight += other.weight;
    }

    /// The mean; `None` without values.
    pub(super) fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}
