//! Telemetry: a row of numbers about devices, host and this program in each report interval.
//!
//! The run directory keeps the rows, so that years later a reader can see if the CPU was busy, another program used the
//! drive, or the drive was hot. Groups of columns:
//!
//! * [`DeviceSampler`]: the columns of `iostat -x`, under iostat's names; temperature; CPUs that take the interrupts
//!   ([`InterruptSampler`]); the NVMe SMART logs, every ten seconds ([`Poller`])
//! * [`HostSampler`]: CPUs, switches, interrupts, pressure, memory
//! * [`OwnProcess`]: resources that this program uses, and its waiting time for a CPU
//!
//! Columns and their order never change during a run. A device has only the columns that it supports. A missing
//! measurement is an empty cell, never zero. docs/telemetry.md explains the columns.
//!
//! Take the samples on the thread that writes reports, because reading a drive's temperature can block.

pub use super::TelemetryError;
use super::diskstats::{Counters, parse_line};
use super::host::HostSampler;
use super::interrupts::InterruptSampler;
use super::nvme::Controller;
use super::nvme::poll::{POLL_INTERVAL, Poller, Reading};
use super::process::OwnProcess;
use super::{ProcFile, TelemetryValue, celsius, per_sec, thermometer};
use crate::discover::DeviceNumber;
use results::telemetry::Column;
use std::path::Path;
use std::time::{Duration, Instant};

/// The values of one sample, in the order of [`Sampler::columns`].
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetryRow(Vec<Option<f64>>);

impl TelemetryRow {
    /// `None`: not measured.
    pub fn values(&self) -> &[Option<f64>] {
        &self.0
    }

    /// The values as text with at most three decimals; empty: not measured.
    pub fn cells(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|value| value.map_or_else(String::new, cell))
            .collect()
    }
}

/// A value as text. Whole numbers get no decimals, so that counters over a drive's life keep all digits.
fn cell(value: f64) -> String {
    if value.fract() == 0.0 {
        value.to_string()
    } else {
        ((value * 1_000.0).round() / 1_000.0).to_string()
    }
}

/// Rates are means over the time since the previous row.
#[derive(Debug)]
pub struct Sampler {
    columns: Vec<String>,
    diskstats: ProcFile,
    devices: Vec<DeviceSampler>,
    host: HostSampler,
    process: OwnProcess,
    sampled_at: Instant,
}

/// Maximum wait for the last health readings of a run; a healthy drive needs milliseconds.
const LAST_ANSWER_MAX: Duration = Duration::from_secs(2);

impl Sampler {
    /// `devices` may be empty: simulated drives have no statistics. The issuing threads must already exist.
    pub fn new(devices: &[DeviceNumber]) -> Result<Self, TelemetryError> {
        Self::with_root(Path::new("/"), devices)
    }

    fn with_root(root: &Path, devices: &[DeviceNumber]) -> Result<Self, TelemetryError> {
        let mut diskstats = ProcFile::open(root, "proc/diskstats")?;
        let failed = |source| TelemetryError {
            path: root.join("proc/diskstats"),
            source,
        };
        let statistics = diskstats.read().map_err(failed)?;
        let devices = devices
            .iter()
            .map(|number| DeviceSampler::find(root, *number, statistics))
            .collect();
        let host = HostSampler::open(root)?;
        let process = OwnProcess::open(root)?;
        let mut sampler = Self {
            columns: Vec::new(),
            diskstats,
            devices,
            host,
            process,
            sampled_at: Instant::now(),
        };
        let mut cells = sampler.sample_rates(Duration::ZERO);
        cells.extend(
            sampler
                .devices
                .iter()
                .flat_map(|device| device.health_cells(&Reading::default())),
        );
        sampler.columns = cells.iter().map(|(column, _)| column.to_string()).collect();
        Ok(sampler)
    }

    /// Names of the columns, in the order of every row.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// A row for the time since the previous row, or since [`Sampler::new`].
    pub fn sample(&mut self) -> TelemetryRow {
        let now = Instant::now();
        let interval = now - self.sampled_at;
        self.sampled_at = now;
        self.sample_over(interval)
    }

    /// The last row of a run. Queries the health of the drives again, so that the counters cover the whole run.
    pub fn sample_last(&mut self) -> TelemetryRow {
        let healths = self
            .devices
            .iter_mut()
            .filter_map(|device| device.health.as_mut());
        let answers: Vec<_> = healths.map(Poller::ask_last).collect();
        // All queries start before the first wait, so that several hung drives cost no more time than one.
        let deadline = Instant::now() + LAST_ANSWER_MAX;
        for answer in answers {
            let _ = answer.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        }
        self.sample()
    }

    /// As [`Sampler::sample`], for the given time since the previous row.
    fn sample_over(&mut self, interval: Duration) -> TelemetryRow {
        let mut cells = self.sample_rates(interval);
        for device in &mut self.devices {
            let reading = device.health.as_mut().map(Poller::take).unwrap_or_default();
            cells.extend(device.health_cells(&reading));
        }
        TelemetryRow(cells.into_iter().map(|(_, value)| value).collect())
    }

    /// All values except those of the health logs. [`Self::with_root`] also calls this method, to set the baseline of
    /// the rates; the first health reading stays for the first row.
    fn sample_rates(&mut self, interval: Duration) -> Vec<TelemetryValue> {
        // /proc/diskstats is read first, because the rates use the time between two readings of this file.
        let statistics = self.diskstats.read().unwrap_or_default();
        let mut cells: Vec<TelemetryValue> = self
            .devices
            .iter_mut()
            .flat_map(|device| device.sample(statistics, interval))
            .collect();
        cells.extend(
            self.host
                .sample(interval)
                .map(|(column, value)| (column.for_object(""), value)),
        );
        cells.extend(self.process.sample(interval));
        cells
    }
}

type OfInterval = fn(&Counters, Duration) -> Option<f64>;

/// iostat's columns, from the difference of two samples and the time between them. A kB is 1,024 bytes, and times are
/// in milliseconds. `aqu-sz` is the mean number of requests in flight. `%util` is the share of the time with requests in
/// flight: for a device that serves several requests in parallel, it does not show the spare capacity.
const IOSTAT: [(Column, OfInterval); 12] = [
    (Column::ReadsPerSec, |delta, interval| {
        delta.read.per_sec(interval)
    }),
    (Column::WritesPerSec, |delta, interval| {
        delta.write.per_sec(interval)
    }),
    (Column::ReadKibPerSec, |delta, interval| {
        delta.read.kib_per_sec(interval)
    }),
    (Column::WriteKibPerSec, |delta, interval| {
        delta.write.kib_per_sec(interval)
    }),
    (Column::ReadAwaitMs, |delta, _| delta.read.await_ms()),
    (Column::WriteAwaitMs, |delta, _| delta.write.await_ms()),
    (Column::FlushesPerSec, |delta, interval| {
        delta.flush?.per_sec(interval)
    }),
    (Column::FlushAwaitMs, |delta, _| delta.flush?.await_ms()),
    (Column::AverageQueue, |delta, interval| {
        Some(per_sec(delta.queue_ms, interval)? / 1000.0)
    }),
    (Column::ReadRequestKib, |delta, _| delta.read.request_kib()),
    (Column::WriteRequestKib, |delta, _| {
        delta.write.request_kib()
    }),
    (Column::UtilPct, |delta, interval| {
        Some(per_sec(delta.busy_ms, interval)? / 10.0)
    }),
];

#[derive(Debug)]
struct DeviceSampler {
    number: DeviceNumber,
    /// Kernel name, or the device number if /proc/diskstats lacks the device.
    name: String,
    /// `None` while /proc/diskstats lacks the device.
    counters: Option<Counters>,
    thermometer: Option<ProcFile>,
    irq: Option<InterruptSampler>,
    /// `None` if the device is not NVMe or does not return its SMART log.
    health: Option<Poller>,
}

impl DeviceSampler {
    /// `statistics`: text of /proc/diskstats.
    fn find(root: &Path, number: DeviceNumber, statistics: &str) -> Self {
        let mut lines = statistics.lines().filter_map(parse_line);
        let name = lines.find_map(|(line, name, _)| (line == number).then(|| name.to_owned()));
        let drive = Controller::find(root, number);
        Self {
            number,
            name: name.unwrap_or_else(|| number.to_string()),
            counters: None,
            thermometer: thermometer(root, number),
            irq: InterruptSampler::find(root, number),
            health: drive.and_then(|drive| {
                Poller::start(
                    move |ocp, fdp| Reading::from_drive(&drive, ocp, fdp),
                    POLL_INTERVAL,
                )
            }),
        }
    }

    /// Samples iostat's columns (from the text of /proc/diskstats), requests in flight, temperature and interrupts.
    fn sample(&mut self, statistics: &str, interval: Duration) -> Vec<TelemetryValue> {
        let mut lines = statistics.lines().filter_map(parse_line);
        let current =
            lines.find_map(|(number, _, counters)| (number == self.number).then_some(counters));
        let delta = current
            .zip(self.counters)
            .and_then(|(now, before)| now.since(&before));
        self.counters = current;
        let delta = delta.filter(|_| !interval.is_zero());
        let iostat = IOSTAT
            .iter()
            .map(|(column, of)| (*column, delta.and_then(|delta| of(&delta, interval))));
        let own_cells = [
            (Column::InFlight, current.map(|now| now.in_flight as f64)),
            (Column::Celsius, self.thermometer.as_mut().and_then(celsius)),
        ];
        let irq = self.irq.as_mut().map(|irq| irq.sample(interval));
        let cells = iostat.chain(own_cells).chain(irq.into_iter().flatten());
        cells
            .map(|(column, value)| (column.for_object(&self.name), value))
            .collect()
    }

    /// Health columns from `reading`. Data units have 512,000 bytes. The throttle count is the number of thermal
    /// throttling events: SMART's transitions to both levels, plus OCP's count.
    fn health_cells(&self, reading: &Reading) -> Vec<TelemetryValue> {
        let Some(Poller {
            has_ocp, has_fdp, ..
        }) = self.health
        else {
            return Vec::new();
        };
        let smart = reading.smart.as_ref();
        let ocp = reading.ocp.as_ref();
        let sum = |both: [u32; 2]| both.map(f64::from).iter().sum::<f64>();
        // If this reading lacks OCP's count, the cell stays empty: a sum without the count would seem to rise in the
        // next row.
        let by_ocp = if has_ocp {
            ocp.map(|ocp| ocp.throttle_count.into())
        } else {
            Some(0.0)
        };
        let throttled = smart
            .zip(by_ocp)
            .map(|(smart, by_ocp)| sum(smart.thermal_transitions) + by_ocp);
        let mut cells = vec![
            (
                Column::SmartPercentageUsed,
                smart.map(|smart| smart.percentage_used.into()),
            ),
            (
                Column::SmartCriticalWarning,
                smart.map(|smart| smart.critical_warning.into()),
            ),
            (
                Column::SmartUnitsWritten,
                smart.map(|smart| smart.data_units_written as f64),
            ),
            (
                Column::SmartUnitsRead,
                smart.map(|smart| smart.data_units_read as f64),
            ),
            (
                Column::SmartMediaErrors,
                smart.map(|smart| smart.media_errors as f64),
            ),
            (
                Column::SmartCelsius,
                smart
                    .and_then(|smart| smart.temperature_celsius)
                    .map(f64::from),
            ),
            (Column::SmartThrottleCount, throttled),
            (
                Column::SmartThrottleSec,
                smart.map(|smart| sum(smart.thermal_seconds)),
            ),
        ];
        if has_ocp {
            cells.push((
                Column::OcpMediaBytesWritten,
                ocp.map(|ocp| ocp.physical_media_units_written_bytes as f64),
            ));
        }
        if has_fdp {
            let fdp = reading.fdp;
            cells.push((Column::FdpHostBytes, fdp.map(|fdp| fdp.host as f64)));
            cells.push((Column::FdpMediaBytes, fdp.map(|fdp| fdp.media as f64)));
            cells.push((Column::FdpErasedBytes, fdp.map(|fdp| fdp.erased as f64)));
        }
        cells
            .into_iter()
            .map(|(column, value)| (column.for_object(&self.name), value))
            .collect()
    }
}

#[cfg(test)]
mod iostat_tests;
#[cfg(test)]
mod tests;

#[cfg(test)]
mod health_tests {
    use super::super::nvme::poll::tests::FakeDrive;
    use super::*;
    use results::telemetry::ColumnSource;

    fn device(drive: FakeDrive) -> DeviceSampler {
        let mut device = DeviceSampler::find(Path::new("/nowhere"), DeviceNumber::new(259, 0), "");
        device.health = Poller::start(move |ocp, fdp| drive.reading(ocp, fdp), POLL_INTERVAL);
        device
    }

    fn row(device: &mut DeviceSampler) -> Vec<Option<f64>> {
        let reading = device.health.as_mut().unwrap().take();
        device
            .health_cells(&reading)
            .into_iter()
            .map(|(_, value)| value)
            .collect()
    }

    fn columns(device: &DeviceSampler) -> Vec<Column> {
        device
            .health_cells(&Reading::default())
            .into_iter()
            .map(|(column, _)| column.column)
            .collect()
    }

    #[test]
    fn the_first_row_has_the_health_at_the_start_and_the_next_row_has_no_health() {
        let mut health = device(FakeDrive {
            with_ocp: true,
            ..FakeDrive::default()
        });
        // From the recorded pages: 216 + 220 transitions and 96 events of OCP are 532; 224 + 228 seconds are 452.
        let physical_bytes = 18_446_744_073_709_551_616.0 + 1_234_567_890_123.0;
        let read_units = 18_446_744_073_709_551_616.0 + 5.0;
        let expected = [
            13.0,
            2.0,
            987_654_321.0,
            read_units,
            2.0,
            68.0,
            532.0,
            452.0,
            physical_bytes,
        ];
        assert_eq!(row(&mut health), expected.map(Some));
        assert_eq!(row(&mut health), [None; 9]);
    }

    #[test]
    fn the_throttle_count_is_empty_if_the_reading_lacks_ocps_count() {
        let drive = FakeDrive {
            with_ocp: true,
            ..FakeDrive::default()
        };
        let reading = drive.reading(true, true);
        let throttled =
            |device: &DeviceSampler, reading: &Reading| device.health_cells(reading)[6].1;
        let with_ocp = device(drive);
        assert_eq!(throttled(&with_ocp, &reading), Some(532.0));
        let without_log = Reading {
            ocp: None,
            ..reading
        };
        assert_eq!(throttled(&with_ocp, &without_log), None);
        assert_eq!(
            throttled(&device(FakeDrive::default()), &without_log),
            Some(436.0)
        );
    }

    #[test]
    fn a_drive_with_fdp_on_counts_bytes_of_hosts_and_media() {
        let mut health = device(FakeDrive {
            with_fdp: true,
            ..FakeDrive::default()
        });
        let names: Vec<_> = columns(&health)
            .into_iter()
            .skip(8)
            .map(Column::name)
            .collect();
        assert_eq!(names, ["fdp.hbmw_bytes", "fdp.mbmw_bytes", "fdp.mbe_bytes"]);
        assert_eq!(
            row(&mut health)[8..],
            [4096.0, 5120.0, 16_777_216.0].map(Some)
        );
        assert_eq!(row(&mut health), [None; 11]);
    }

    #[test]
    fn a_drive_without_ocps_log_has_no_column_for_it() {
        let mut health = device(FakeDrive::default());
        assert!(
            columns(&health)
                .into_iter()
                .all(|column| column.source() == ColumnSource::Smart)
        );
        // SMART's transitions alone: 216 + 220.
        assert_eq!(row(&mut health)[6], Some(436.0));
    }
}
