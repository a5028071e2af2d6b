//! The telemetry columns that blame looks at, found by their names.
//!
//! Which of them a run has depends on its version, its host and its drives; each is taken or done
//! without.

/// What the host did in one interval; `None` where it was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct HostRow {
    pub(super) steal_pct: Option<f64>,
    pub(super) busy_pct: Option<f64>,
    pub(super) busiest_pct: Option<f64>,
    pub(super) runqueue_wait_pct: Option<f64>,
}

/// What a device did in one interval; `None` where it was not measured.
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

/// Where the columns are.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns {
    names: Vec<String>,
    /// By device, what its columns begin with; `None` for a device without any.
    prefixes: Vec<Option<String>>,
}

impl Columns {
    /// The columns `names` of a run on devices that the kernel calls `kernel_names`.
    pub(super) fn new(names: &[String], kernel_names: &[Option<String>]) -> Self {
        let prefix = |name: &Option<String>| name.as_ref().map(|name| format!("{name}."));
        Self { names: names.to_vec(), prefixes: kernel_names.iter().map(prefix).collect() }
    }

    /// The value of a column in `row`.
    fn value(&self, row: &[String], prefix: &str, column: &str) -> Option<f64> {
        let is_it = |name: &String| name.strip_prefix(prefix) == Some(column);
        let value = row.get(self.names.iter().position(is_it)?)?;
        value.parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// What `row` says of the host.
    pub(super) fn host(&self, row: &[String]) -> HostRow {
        let value = |column| self.value(row, "", column);
        HostRow {
            steal_pct: value("host.cpu_steal_pct"),
            busy_pct: value("host.cpu_busy_pct"),
            busiest_pct: value("host.cpu_busiest_pct"),
            runqueue_wait_pct: value("process.runqueue_wait_pct"),
        }
    }

    /// What `row` says of a device.
    pub(super) fn device(&self, row: &[String], device: usize) -> DeviceRow {
        let Some(Some(prefix)) = self.prefixes.get(device) else { return DeviceRow::default() };
        let value = |column| self.value(row, prefix, column);
        DeviceRow {
            reads_per_sec: value("r/s"),
            read_await_ms: value("r_await"),
            writes_per_sec: value("w/s"),
            write_await_ms: value("w_await"),
            queue_mean: value("aqu-sz"),
            in_flight: value("in_flight"),
            // The drive's own word before that of the kernel's monitor: it is what it throttles by.
            celsius: value("smart.temperature_celsius").or_else(|| value("temperature_celsius")),
            throttle_count: value("smart.throttle_count"),
            throttle_sec: value("smart.throttle_seconds"),
            irq_share_pct: value("irq.cpu_max_share_pct"),
            irqs_per_sec: value("irq/s"),
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

    /// The mean; `None` of nothing.
    pub(super) fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}
