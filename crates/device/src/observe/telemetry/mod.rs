//! One row of numbers about devices, host and this program, taken once in a report interval.
//!
//! The rows are kept with the run, so that years later one can see whether the CPU was busy with something else,
//! another program used the drive, or it grew hot. The groups of columns:
//!
//! * [`Disk`]: what `iostat -x` shows of a device, under iostat's names, and its temperature
//! * [`Health`]: the NVMe SMART logs, every ten seconds; [`Irq`]: CPUs that take the device's interrupts
//! * [`Host`]: CPUs, switches, interrupts, pressure, memory
//! * [`OwnProcess`]: resources that this program uses, and CPU time that it did not get
//!
//! Names and their order never change during a run; a column that a device cannot have is not there. A missing
//! measurement is an empty cell, never zero. docs/telemetry.md explains how to read them.
//!
//! Call this from the thread that writes reports: reading a drive's temperature can block.

pub use super::TelemetryError;
use super::diskstats::{Counters, Rates, parse_line};
use super::host::Host;
use super::interrupts::Irq;
use super::nvme::poll::{Drive, POLL_INTERVAL, Poller, Reading};
use super::nvme::{Controller, OcpSmart, Smart};
use super::process::OwnProcess;
use super::{DeviceNumber, ProcFile, Thermometer, open};
use results::telemetry::Column;
use std::fmt;
use std::path::Path;
use std::sync::mpsc::Receiver;
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
            let irq = device.irq.iter().flat_map(|_| super::interrupts::COLUMNS);
            columns.extend(disk_columns().chain(irq).map(|column| column.of(name)));
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

/// iostat's columns; [`Rates`] explains them. kB are 1,024 bytes, times in milliseconds.
type OfRates = fn(&Rates) -> Option<f64>;
const IOSTAT: [(Column, OfRates); 12] = [
    (Column::ReadsPerSec, |rates| Some(rates.reads_per_sec)),
    (Column::WritesPerSec, |rates| Some(rates.writes_per_sec)),
    (Column::ReadKibPerSec, |rates| Some(rates.read_kib_per_sec)),
    (Column::WriteKibPerSec, |rates| Some(rates.write_kib_per_sec)),
    (Column::ReadAwaitMs, |rates| rates.read_await_ms),
    (Column::WriteAwaitMs, |rates| rates.write_await_ms),
    (Column::FlushesPerSec, |rates| rates.flushes_per_sec),
    (Column::FlushAwaitMs, |rates| rates.flush_await_ms),
    (Column::AverageQueue, |rates| Some(rates.average_queue)),
    (Column::ReadRequestKib, |rates| rates.read_request_kib),
    (Column::WriteRequestKib, |rates| rates.write_request_kib),
    (Column::UtilPct, |rates| Some(rates.util_pct)),
];

/// iostat's columns, then the requests in flight at the sample, and the drive's temperature.
fn disk_columns() -> impl Iterator<Item = Column> {
    IOSTAT.into_iter().map(|(column, _)| column).chain([Column::InFlight, Column::Celsius])
}

#[derive(Debug)]
struct Disk {
    number: DeviceNumber,
    /// `None` while the statistics lack the device.
    counters: Option<Counters>,
    thermometer: Option<Thermometer>,
}

impl Disk {
    fn new(root: &Path, number: DeviceNumber) -> Self {
        Self { number, counters: None, thermometer: Thermometer::find(root, number) }
    }

    /// The values of [`columns`], from the text of /proc/diskstats.
    fn sample(&mut self, statistics: &str, interval: Duration) -> Vec<Option<f64>> {
        let mut lines = statistics.lines().filter_map(parse_line);
        let now = lines.find_map(|(number, _, counters)| (number == self.number).then_some(counters));
        let delta = now.zip(self.counters).and_then(|(now, before)| now.since(&before));
        self.counters = now;
        let rates = delta.and_then(|delta| Rates::over(&delta, interval));
        let of_rates = IOSTAT.iter().map(|(_, of)| rates.as_ref().and_then(of));
        let own = [now.map(|now| now.in_flight as f64), self.thermometer.as_mut().and_then(Thermometer::celsius)];
        of_rates.chain(own).collect()
    }
}

/// Columns of every NVMe drive. Data units are of 512,000 bytes. The throttle count is the number of times
/// that heat slowed the drive: both levels of SMART, and OCP's own count.
const SMART_COLUMNS: [Column; 8] = [
    Column::SmartPercentageUsed,
    Column::SmartCriticalWarning,
    Column::SmartUnitsWritten,
    Column::SmartUnitsRead,
    Column::SmartMediaErrors,
    Column::SmartCelsius,
    Column::SmartThrottleCount,
    Column::SmartThrottleSec,
];

/// Columns of a drive with OCP's log.
const OCP_COLUMNS: [Column; 1] = [Column::OcpMediaBytesWritten];

/// Columns of a drive with FDP on.
const FDP_COLUMNS: [Column; 3] = [Column::FdpHostBytes, Column::FdpMediaBytes, Column::FdpErasedBytes];

/// One drive.
#[derive(Debug)]
struct Health {
    poller: Poller,
}

impl Health {
    /// Health of the drive `number`; `None` if it is not NVMe or does not return its SMART log.
    fn find(root: &Path, number: DeviceNumber) -> Option<Self> {
        Controller::find(root, number).and_then(Self::of)
    }

    fn of(drive: impl Drive) -> Option<Self> {
        Poller::start(drive, POLL_INTERVAL).map(|poller| Self { poller })
    }

    fn columns(&self) -> impl Iterator<Item = Column> + use<> {
        let ocp = self.poller.has_ocp.then_some(OCP_COLUMNS);
        let fdp = self.poller.has_fdp.then_some(FDP_COLUMNS);
        SMART_COLUMNS.into_iter().chain(ocp.into_iter().flatten()).chain(fdp.into_iter().flatten())
    }

    /// Triggers the last query; the receiver gets a value when [`Health::sample`] has its answer.
    fn ask_last(&mut self) -> Receiver<()> {
        self.poller.ask_last()
    }

    /// Adds the values of [`Health::columns`].
    fn sample(&mut self, values: &mut Vec<Option<f64>>) {
        let Reading { smart, ocp, fdp } = self.poller.take();
        values.extend(smart_values(smart.as_ref(), ocp.as_ref(), self.poller.has_ocp));
        if self.poller.has_ocp {
            values.push(ocp.as_ref().map(|ocp| ocp.physical_media_units_written_bytes as f64));
        }
        if self.poller.has_fdp {
            let counters = fdp.map(|fdp| [fdp.host, fdp.media, fdp.erased].map(|bytes| bytes as f64));
            values.extend(counters.map_or([None; FDP_COLUMNS.len()], |counters| counters.map(Some)));
        }
    }
}

fn smart_values(smart: Option<&Smart>, ocp: Option<&OcpSmart>, has_ocp: bool) -> [Option<f64>; SMART_COLUMNS.len()] {
    let Some(smart) = smart else { return [None; SMART_COLUMNS.len()] };
    let sum = |both: [u32; 2]| both.map(f64::from).iter().sum::<f64>();
    // A sum that lacks one part now and then would rise where nothing was throttled.
    let of_ocp = if has_ocp { ocp.map(|ocp| f64::from(ocp.throttle_count)) } else { Some(0.0) };
    let throttled = of_ocp.map(|of_ocp| sum(smart.thermal_transitions) + of_ocp);
    [
        Some(f64::from(smart.percentage_used)),
        Some(f64::from(smart.critical_warning)),
        Some(smart.data_units_written as f64),
        Some(smart.data_units_read as f64),
        Some(smart.media_errors as f64),
        smart.temperature_celsius.map(f64::from),
        throttled,
        Some(sum(smart.thermal_seconds)),
    ]
}

#[cfg(test)]
mod iostat_tests;
#[cfg(test)]
mod tests;

#[cfg(test)]
mod health_tests {
    use super::super::nvme::poll::tests::FakeDrive;
    use super::*;
    use results::telemetry::Source;

    fn row(health: &mut Health) -> Vec<Option<f64>> {
        let mut values = Vec::new();
        health.sample(&mut values);
        assert_eq!(values.len(), health.columns().count());
        values
    }

    #[test]
    fn the_first_row_has_the_health_at_the_beginning_and_the_next_is_empty() {
        let mut health = Health::of(FakeDrive { with_ocp: true, ..FakeDrive::default() }).unwrap();
        // The counters of the recorded pages: 216 + 220 transitions and OCP's 96; 224 + 228 seconds.
        let physical_bytes = 18_446_744_073_709_551_616.0 + 1_234_567_890_123.0;
        let read_units = 18_446_744_073_709_551_616.0 + 5.0;
        let expected = [13.0, 2.0, 987_654_321.0, read_units, 2.0, 68.0, 532.0, 452.0, physical_bytes];
        assert_eq!(row(&mut health), expected.map(Some));
        assert_eq!(row(&mut health), [None; 9]);
    }

    #[test]
    fn a_throttle_count_that_lacks_ocps_part_once_is_not_measured_then() {
        use super::super::nvme::poll::Drive as _;
        let drive = FakeDrive { with_ocp: true, ..FakeDrive::default() };
        let (smart, ocp) = (drive.smart().unwrap(), drive.ocp_smart().unwrap());
        assert_eq!(smart_values(Some(&smart), ocp.as_ref(), true)[6], Some(532.0));
        assert_eq!(smart_values(Some(&smart), None, true)[6], None);
        assert_eq!(smart_values(Some(&smart), None, false)[6], Some(436.0));
    }

    #[test]
    fn a_drive_with_fdp_on_counts_bytes_of_hosts_and_media() {
        let mut health = Health::of(FakeDrive { with_fdp: true, ..FakeDrive::default() }).unwrap();
        let names: Vec<_> = health.columns().skip(SMART_COLUMNS.len()).map(Column::name).collect();
        assert_eq!(names, ["fdp.hbmw_bytes", "fdp.mbmw_bytes", "fdp.mbe_bytes"]);
        assert_eq!(row(&mut health)[SMART_COLUMNS.len()..], [4096.0, 5120.0, 16_777_216.0].map(Some));
        assert_eq!(row(&mut health), [None; SMART_COLUMNS.len() + 3]);
    }

    #[test]
    fn a_drive_without_ocps_log_has_no_column_for_it() {
        let mut health = Health::of(FakeDrive::default()).unwrap();
        assert!(health.columns().all(|column| column.source() == Source::Smart));
        // Without OCP's count.
        assert_eq!(row(&mut health)[6], Some(436.0));
    }
}
