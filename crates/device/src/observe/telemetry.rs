//! One row of numbers about devices, host and this program, taken once in a report interval.
//!
//! The rows are kept with the run, so that years later one can see whether the CPU was busy with
//! something else, another program used the drive, or it grew hot. Names and their order never
//! change during a run. What could not be measured is an empty cell, never zero.
//!
//! It belongs on the thread that writes reports: asking a drive for its temperature may wait for it.

use super::DeviceNumber;
use super::diskstats::{Counters, Rates, parse_line};
use super::hwmon::Thermometer;
use super::process::{CpuTime, ResidentMemory};
use super::procfile::ProcFile;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Columns of each device, after its name and a point. [`Rates`] says what the rates mean; MB are
/// 1,000,000 bytes; `in_flight` is the number at the moment of the sample, `average_queue` the mean.
const DEVICE_COLUMNS: [&str; 8] = [
    "reads_per_sec",
    "writes_per_sec",
    "read_mb_per_sec",
    "write_mb_per_sec",
    "in_flight",
    "average_queue",
    "util_pct",
    "temperature_celsius",
];

/// Columns that are there once.
///
/// `cpu_*_pct` are shares of all CPUs together (0 to 100): busy is neither idle nor waiting nor
/// stolen. `process.cpu_pct` counts one CPU as 100.
const HOST_COLUMNS: [&str; 7] = [
    "host.cpu_busy_pct",
    "host.cpu_iowait_pct",
    "host.cpu_steal_pct",
    "host.memory_available_bytes",
    "host.load_1min",
    "process.rss_bytes",
    "process.cpu_pct",
];

/// Why telemetry cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot take telemetry from {} - {source} - mount /proc", path.display())]
pub struct TelemetryError {
    /// The file that could not be opened.
    pub path: PathBuf,
    /// The kernel's answer.
    pub source: io::Error,
}

/// The values of one sample, in the order of [`Sampler::columns`].
///
/// Prints as the cells of a CSV line, without its end: at most three decimals, nothing in an empty cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(Vec<Option<f64>>);

impl Row {
    /// The values; `None` where nothing could be measured.
    pub fn values(&self) -> &[Option<f64>] {
        &self.0
    }

    /// The values as text, at most three decimals; empty where nothing could be measured.
    pub fn cells(&self) -> Vec<String> {
        let cell = |value: &f64| ((value * 1_000.0).round() / 1_000.0).to_string();
        self.0.iter().map(|value| value.as_ref().map_or_else(String::new, cell)).collect()
    }
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
    devices: Vec<Device>,
    diskstats: ProcFile,
    stat: ProcFile,
    meminfo: ProcFile,
    loadavg: ProcFile,
    resident: ResidentMemory,
    cpu: Option<CpuShares>,
    own_cpu: Option<CpuTime>,
    taken: Instant,
}

#[derive(Debug)]
struct Device {
    number: DeviceNumber,
    /// `None` while the device is not in the statistics.
    counters: Option<Counters>,
    thermometer: Option<Thermometer>,
}

impl Sampler {
    /// Takes the first sample of `devices`; none is fine: a simulated drive has no statistics.
    pub fn new(devices: &[DeviceNumber]) -> Result<Self, TelemetryError> {
        Self::with_root(Path::new("/"), devices)
    }

    /// As [`Sampler::new`], below another root: for tests.
    pub fn with_root(root: &Path, devices: &[DeviceNumber]) -> Result<Self, TelemetryError> {
        let failed = |name: &'static str| move |source| TelemetryError { path: root.join(name), source };
        let open = |name: &'static str| ProcFile::open(root, name).map_err(failed(name));
        let mut diskstats = open("proc/diskstats")?;
        let names = names(diskstats.read().map_err(failed("proc/diskstats"))?, devices);
        let columns = names.iter().flat_map(|name| DEVICE_COLUMNS.map(|column| format!("{name}.{column}")));
        let device = |&number| Device { number, counters: None, thermometer: Thermometer::find(root, number) };
        let mut sampler = Self {
            columns: columns.chain(HOST_COLUMNS.map(str::to_owned)).collect(),
            devices: devices.iter().map(device).collect(),
            diskstats,
            stat: open("proc/stat")?,
            meminfo: open("proc/meminfo")?,
            loadavg: open("proc/loadavg")?,
            resident: ResidentMemory::open(root).map_err(failed("proc/self/statm"))?,
            cpu: None,
            own_cpu: None,
            taken: Instant::now(),
        };
        sampler.sample_over(Duration::ZERO);
        Ok(sampler)
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

    /// As [`Sampler::sample`], with the time since the row before given.
    fn sample_over(&mut self, interval: Duration) -> Row {
        let mut values = Vec::with_capacity(self.columns.len());
        let statistics = self.diskstats.read().unwrap_or_default();
        for device in &mut self.devices {
            values.extend(device.sample(statistics, interval));
        }
        values.extend(self.sample_host(interval));
        Row(values)
    }

    /// The values of [`HOST_COLUMNS`].
    fn sample_host(&mut self, interval: Duration) -> [Option<f64>; HOST_COLUMNS.len()] {
        let cpu = self.stat.read().ok().and_then(CpuShares::parse);
        let shares = cpu.zip(self.cpu).and_then(|(now, before)| now.since(before));
        self.cpu = cpu;
        let [busy, iowait, steal] = shares.map_or([None; 3], |shares| shares.map(Some));

        let own = CpuTime::now().ok();
        let own_ns = own.zip(self.own_cpu).map(|(now, before)| now.since(before).total_ns());
        self.own_cpu = own;
        let own_pct = own_ns.filter(|_| !interval.is_zero()).map(|ns| ns as f64 / interval.as_nanos() as f64 * 100.0);

        let available = self.meminfo.read().ok().and_then(memory_available_bytes).map(|bytes| bytes as f64);
        let load = self.loadavg.read().ok().and_then(|text| text.split(' ').next()?.parse().ok());
        let resident = self.resident.bytes().ok().map(|bytes| bytes as f64);
        [busy, iowait, steal, available, load, resident, own_pct]
    }
}

impl Device {
    /// The values of [`DEVICE_COLUMNS`], from the text of /proc/diskstats.
    fn sample(&mut self, statistics: &str, interval: Duration) -> [Option<f64>; DEVICE_COLUMNS.len()] {
        let mut lines = statistics.lines().filter_map(parse_line);
        let now = lines.find_map(|(number, _, counters)| (number == self.number).then_some(counters));
        let delta = now.zip(self.counters).and_then(|(now, before)| now.since(&before));
        self.counters = now;
        let rates = delta.and_then(|delta| Rates::over(&delta, interval));
        let rate = |of: fn(&Rates) -> f64| rates.as_ref().map(of);
        [
            rate(|rates| rates.reads_per_sec),
            rate(|rates| rates.writes_per_sec),
            rate(|rates| rates.read_kib_per_sec * MB_PER_KIB),
            rate(|rates| rates.write_kib_per_sec * MB_PER_KIB),
            now.map(|now| now.in_flight as f64),
            rate(|rates| rates.average_queue),
            rate(|rates| rates.util_pct),
            self.thermometer.as_mut().and_then(Thermometer::celsius),
        ]
    }
}

const MB_PER_KIB: f64 = 1024.0 / 1e6;

/// The kernel's name of each device, or its number if the statistics do not have it.
fn names(diskstats: &str, devices: &[DeviceNumber]) -> Vec<String> {
    let name = |device: &DeviceNumber| {
        let mut lines = diskstats.lines().filter_map(parse_line);
        let found = lines.find_map(|(number, name, _)| (number == *device).then(|| name.to_owned()));
        found.unwrap_or_else(|| format!("{}:{}", device.0, device.1))
    };
    devices.iter().map(name).collect()
}

fn memory_available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Clock ticks of all CPUs together, since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuShares {
    busy: u64,
    idle: u64,
    iowait: u64,
    steal: u64,
}

impl CpuShares {
    /// The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. Guest time
    /// follows, but is in user already (proc_stat(5)).
    fn parse(stat: &str) -> Option<Self> {
        let mut words = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
        let mut next = || words.next()?.parse::<u64>().ok();
        let (user, nice, system, idle, iowait) = (next()?, next()?, next()?, next()?, next()?);
        let (irq, softirq, steal) = (next()?, next()?, next()?);
        Some(Self { busy: user + nice + system + irq + softirq, idle, iowait, steal })
    }

    /// Percent busy, waiting and stolen since `before`; `None` if no tick passed.
    fn since(self, before: Self) -> Option<[f64; 3]> {
        // iowait, of all, can go back (proc_stat(5)).
        let [busy, idle, iowait, steal] = [
            self.busy.saturating_sub(before.busy),
            self.idle.saturating_sub(before.idle),
            self.iowait.saturating_sub(before.iowait),
            self.steal.saturating_sub(before.steal),
        ];
        let total = busy + idle + iowait + steal;
        (total > 0).then(|| [busy, iowait, steal].map(|ticks| ticks as f64 * 100.0 / total as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::test_loop::LoopDevice;
    use crate::sys::usage::page_bytes;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct FakeHost(tempfile::TempDir);

    impl FakeHost {
        fn new() -> Self {
            let host = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(host.0.path().join("proc/self")).unwrap();
            host.write("stat", "cpu  100 0 100 700 50 25 25 0 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
            host.write("meminfo", "MemTotal:       4000 kB\nMemFree:   10 kB\nMemAvailable:       2000 kB\n");
            host.write("loadavg", "1.25 0.16 0.12 1/87 6630\n");
            host.write("self/statm", "900 100 50 1 0 80 0\n");
            host.write("diskstats", "   8       0 sda 1000 0 8000 0 0 0 0 0 0 0 0\n");
            host
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.0.path().join("proc").join(name), text).unwrap();
        }

        fn sampler(&self, devices: &[DeviceNumber]) -> Sampler {
            Sampler::with_root(self.0.path(), devices).unwrap()
        }
    }

    fn value(sampler: &Sampler, row: &Row, name: &str) -> Option<f64> {
        let at = sampler.columns().iter().position(|column| column == name);
        row.values()[at.unwrap_or_else(|| panic!("no column {name}"))]
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn rates_and_shares_are_those_of_the_time_in_between() {
        let host = FakeHost::new();
        let mut sampler = host.sampler(&[(8, 0)]);
        host.write("diskstats", "   8       0 sda 1400 0 11200 0 20 0 640 0 3 1000 800\n");
        host.write("stat", "cpu  140 0 100 740 60 25 25 10 0 0\n");
        let row = sampler.sample_over(2 * SECOND);
        let expected = [
            ("sda.reads_per_sec", 200.0),
            ("sda.read_mb_per_sec", 0.8192),
            ("sda.writes_per_sec", 10.0),
            ("sda.write_mb_per_sec", 0.16384),
            ("sda.in_flight", 3.0),
            ("sda.average_queue", 0.4),
            ("sda.util_pct", 50.0),
            ("host.cpu_busy_pct", 40.0),
            ("host.cpu_iowait_pct", 10.0),
            ("host.cpu_steal_pct", 10.0),
            ("host.memory_available_bytes", 2_048_000.0),
            ("host.load_1min", 1.25),
            ("process.rss_bytes", (100 * page_bytes()) as f64),
        ];
        for (name, value_expected) in expected {
            let found = value(&sampler, &row, name).unwrap_or_else(|| panic!("{name} is empty"));
            assert!((found - value_expected).abs() < 1e-9, "{name}: {found}");
        }
        assert!(value(&sampler, &row, "process.cpu_pct").unwrap() >= 0.0);
    }

    #[test]
    fn header_and_rows_have_the_same_cells_and_the_unknown_is_empty() {
        let host = FakeHost::new();
        let mut sampler = host.sampler(&[(8, 0), (259, 3)]);
        let header = sampler.header();
        assert!(header.starts_with("sda.reads_per_sec,sda.writes_per_sec,sda.read_mb_per_sec,"), "{header}");
        assert!(header.ends_with(",process.rss_bytes,process.cpu_pct"), "{header}");
        host.write("diskstats", "   8       0 sda 1001 0 8024 0 0 0 0 0 0 1 1\n");
        let row = sampler.sample_over(3 * SECOND).to_string();
        assert_eq!(row.split(',').count(), header.split(',').count());
        // A third of a read a second; no thermometer; no statistics of 259:3; no tick of the CPUs.
        assert!(row.starts_with("0.333,0,0.004,0,0,0,0.033,,,,,,,,,,,,,2048000,1.25,"), "{row}");
    }

    #[test]
    fn a_device_that_disappears_is_unknown_and_keeps_its_columns() {
        let host = FakeHost::new();
        let mut sampler = host.sampler(&[(8, 0)]);
        let header = sampler.header();
        let mut reads_per_sec = |statistics: &str| {
            host.write("diskstats", statistics);
            let row = sampler.sample_over(SECOND);
            assert_eq!(sampler.header(), header);
            value(&sampler, &row, "sda.reads_per_sec")
        };
        assert_eq!(reads_per_sec(""), None);
        assert_eq!(reads_per_sec("   8       0 sda 50 0 0 0 0 0 0 0 0 0 0\n"), None);
        assert_eq!(reads_per_sec("   8       0 sda 57 0 0 0 0 0 0 0 0 0 0\n"), Some(7.0));
    }

    #[test]
    fn a_device_without_statistics_is_named_by_its_number() {
        let mut sampler = FakeHost::new().sampler(&[(259, 3)]);
        let row = sampler.sample_over(SECOND);
        assert_eq!(value(&sampler, &row, "259:3.util_pct"), None);
        assert_eq!(value(&sampler, &row, "259:3.in_flight"), None);
    }

    #[test]
    fn a_drive_with_a_monitor_tells_its_temperature() {
        let host = FakeHost::new();
        let root = host.0.path();
        let controller = root.join("sys/devices/nvme0");
        let monitor = controller.join("hwmon0");
        for dir in ["sys/dev/block", "sys/class/hwmon", "sys/devices/nvme0/nvme0n1", "sys/devices/nvme0/hwmon0"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        symlink(controller.join("nvme0n1"), root.join("sys/dev/block/8:0")).unwrap();
        symlink(&monitor, root.join("sys/class/hwmon/hwmon0")).unwrap();
        symlink(&controller, monitor.join("device")).unwrap();
        fs::write(monitor.join("name"), "nvme\n").unwrap();
        fs::write(monitor.join("temp1_input"), "41850\n").unwrap();
        let mut sampler = host.sampler(&[(8, 0)]);
        let row = sampler.sample();
        assert_eq!(value(&sampler, &row, "sda.temperature_celsius"), Some(41.85));
    }

    #[test]
    fn without_devices_the_host_is_still_sampled() {
        let mut sampler = FakeHost::new().sampler(&[]);
        let row = sampler.sample_over(SECOND);
        assert_eq!(row.values().len(), HOST_COLUMNS.len());
        assert_eq!(value(&sampler, &row, "host.load_1min"), Some(1.25));
    }

    #[test]
    fn reads_of_a_real_device_appear_under_its_name() {
        let Some(device) = LoopDevice::make(1 << 20) else { return };
        let mut sampler = Sampler::new(&[device.number()]).unwrap();
        device.read_direct((0..23).map(|index| (index * 8192, 4096)));
        let column = format!("{}.reads_per_sec", device.name());
        let mut reads = 0.0;
        // The kernel wakes the reader before it counts the request, so the last one may be a moment late.
        for _ in 0..1_000 {
            let row = sampler.sample_over(SECOND);
            reads += value(&sampler, &row, &column).unwrap();
            if reads >= 23.0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(reads, 23.0);
    }

    #[test]
    fn a_host_without_proc_is_an_error_that_names_the_file() {
        let empty = tempfile::tempdir().unwrap();
        let error = Sampler::with_root(empty.path(), &[]).unwrap_err();
        assert!(error.to_string().contains("proc/diskstats"), "{error}");
    }

    #[test]
    fn this_host_can_be_sampled() {
        let mut sampler = Sampler::new(&[]).unwrap();
        let row = sampler.sample();
        assert!(value(&sampler, &row, "process.rss_bytes").unwrap() > 0.0);
        assert!(value(&sampler, &row, "host.memory_available_bytes").unwrap() > 0.0);
    }
}
