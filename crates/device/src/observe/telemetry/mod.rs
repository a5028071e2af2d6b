//! One row of numbers about devices, host and this program, taken once in a report interval.
//!
//! The rows are kept with the run, so that years later one can see whether the CPU was busy with something else,
//! another program used the drive, or it grew hot. One file per group of columns:
//!
//! * [`disk`]: what `iostat -x` shows of a device, under iostat's names, and its temperature
//! * [`health`]: the NVMe SMART logs; [`irq`]: CPUs that take the device's interrupts
//! * [`host`]: CPUs, switches, interrupts, pressure, memory
//! * [`process`]: resources that this program uses, and CPU time that it did not get
//!
//! Names and their order never change during a run; a column that a device cannot have is not there. A missing
//! measurement is an empty cell, never zero. docs/telemetry.md explains how to read them.
//!
//! Call this from the thread that writes reports: reading a drive's temperature can block.

mod disk;
mod health;
mod host;
mod irq;
mod process;

use super::DeviceNumber;
use super::diskstats::parse_line;
pub use super::procfile::TelemetryError;
use super::procfile::{ProcFile, open};
use disk::Disk;
use health::Health;
use host::Host;
use irq::Irq;
use process::OwnProcess;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The values of one sample, in the order of [`Sampler::columns`].
///
/// Prints as the cells of a CSV line, without its end: at most three decimals, nothing in an empty cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(Vec<Option<f64>>);

impl Row {
    /// The values; `None` where not measured.
    pub fn values(&self) -> &[Option<f64>] {
        &self.0
    }

    /// The values as text, at most three decimals; empty where nothing could be measured.
    pub fn cells(&self) -> Vec<String> {
        self.0.iter().map(|value| value.map_or_else(String::new, cell)).collect()
    }
}

/// A value as text. Whole numbers stay whole: a counter of a drive's life has no digits left for decimals.
fn cell(value: f64) -> String {
    if value.fract() == 0.0 { value.to_string() } else { ((value * 1_000.0).round() / 1_000.0).to_string() }
}

impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.cells().join(","))
    }
}

/// Takes a row whenever asked; rates are means over the time since the row before.
#[derive(Debug)]
pub struct Sampler {
    columns: Vec<String>,
    diskstats: ProcFile,
    devices: Vec<Device>,
    host: Host,
    process: OwnProcess,
    taken: Instant,
}

/// Maximum wait for the last readings of a run: a healthy drive needs milliseconds.
const LAST_ANSWER_MAX: Duration = Duration::from_secs(2);

/// The families of one device.
#[derive(Debug)]
struct Device {
    disk: Disk,
    health: Option<Health>,
    irq: Option<Irq>,
}

impl Sampler {
    /// Takes the first sample of `devices`, which may be empty: a simulated drive has no statistics. Threads to be
    /// sampled must exist already.
    pub fn new(devices: &[DeviceNumber]) -> Result<Self, TelemetryError> {
        Self::with_root(Path::new("/"), devices)
    }

    /// As [`Sampler::new`], below another root: for tests.
    pub fn with_root(root: &Path, devices: &[DeviceNumber]) -> Result<Self, TelemetryError> {
        let mut diskstats = open(root, "proc/diskstats")?;
        let failed = |source| TelemetryError { path: root.join("proc/diskstats"), source };
        let names = names(diskstats.read().map_err(failed)?, devices);
        let devices = devices.iter().map(|&number| Device::find(root, number)).collect();
        let (host, process) = (Host::open(root)?, OwnProcess::open(root)?);
        let mut sampler = Self { columns: Vec::new(), diskstats, devices, host, process, taken: Instant::now() };
        sampler.columns = sampler.named(&names);
        sampler.sample_rates(Duration::ZERO);
        Ok(sampler)
    }

    /// Names of all columns, in the order of the values of [`Sampler::sample_over`].
    fn named(&self, names: &[String]) -> Vec<String> {
        let mut columns = Vec::new();
        for (name, device) in names.iter().zip(&self.devices) {
            let irq = device.irq.iter().flat_map(|_| irq::COLUMNS);
            columns.extend(disk::columns().chain(irq).map(|column| column.of(name)));
        }
        columns.extend(self.host.columns().chain(self.process.columns()));
        for (name, device) in names.iter().zip(&self.devices) {
            let health = device.health.iter().flat_map(Health::columns);
            columns.extend(health.map(|column| column.of(name)));
        }
        columns.iter().map(ToString::to_string).collect()
    }

    /// Names of the columns, in the order of every row.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The head of a CSV file: the names of the columns, without the end of the line.
    pub fn header(&self) -> String {
        self.columns.join(",")
    }

    /// A row about the time since the one before (since [`Sampler::new`], the first time).
    pub fn sample(&mut self) -> Row {
        let now = Instant::now();
        let interval = now - self.taken;
        self.taken = now;
        self.sample_over(interval)
    }

    /// As [`Sampler::sample`], for the last row: queries the drives' health once more, so that their counters cover the
    /// whole run.
    pub fn sample_last(&mut self) -> Row {
        let healths = self.devices.iter_mut().filter_map(|device| device.health.as_mut());
        let answers: Vec<_> = healths.map(Health::ask_last).collect();
        // All have been asked, so that several that hang cost no more than one.
        let until = Instant::now() + LAST_ANSWER_MAX;
        for answer in answers {
            let _ = answer.recv_timeout(until.saturating_duration_since(Instant::now()));
        }
        self.sample()
    }

    /// As [`Sampler::sample`], with the time since the row before given.
    fn sample_over(&mut self, interval: Duration) -> Row {
        let mut values = self.sample_rates(interval);
        self.devices
            .iter_mut()
            .filter_map(|device| device.health.as_mut())
            .for_each(|health| health.sample(&mut values));
        Row(values)
    }

    /// All values but the drives' health, which is not a rate: its initial value belongs into the first row.
    fn sample_rates(&mut self, interval: Duration) -> Vec<Option<f64>> {
        let mut values = Vec::with_capacity(self.columns.len());
        // First of all, because the rates use the time between two readings of it.
        let statistics = self.diskstats.read().unwrap_or_default();
        for device in &mut self.devices {
            values.extend(device.disk.sample(statistics, interval));
            if let Some(irq) = &mut device.irq {
                values.extend(irq.sample(interval));
            }
        }
        self.host.sample(interval, &mut values);
        self.process.sample(interval, &mut values);
        values
    }
}

impl Device {
    fn find(root: &Path, number: DeviceNumber) -> Self {
        Self { disk: Disk::new(root, number), health: Health::find(root, number), irq: Irq::find(root, number) }
    }
}

/// The kernel's name of each device, or its number if the statistics do not have it.
fn names(diskstats: &str, devices: &[DeviceNumber]) -> Vec<String> {
    let name = |device: &DeviceNumber| {
        let mut lines = diskstats.lines().filter_map(parse_line);
        let found = lines.find_map(|(number, name, _)| (number == *device).then(|| name.to_owned()));
        found.unwrap_or_else(|| format!("{}:{}", device.0, device.1))
    };
    devices.iter().map(name).collect()
}

#[cfg(test)]
mod iostat_tests;
#[cfg(test)]
mod tests;
