//! One row of numbers about devices, host and this program, taken every second or so.
//!
//! The rows become columns of a run directory, so that years later one can see whether the CPU was
//! busy with something else, or another program used the drive. Names and their order never change
//! during a run. What could not be measured is NaN, never zero. No allocation after the start.

use super::DeviceNumber;
use super::diskstats::{Counters, Rates, parse_line};
use super::process::{CpuTime, ResidentMemory};
use super::procfile::ProcFile;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Columns of each device, from /proc/diskstats; [`Rates`] says what they mean.
const DEVICE_COLUMNS: [&str; 6] =
    ["reads_per_sec", "writes_per_sec", "read_kib_per_sec", "write_kib_per_sec", "average_queue", "util_pct"];

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

/// Takes a row whenever asked; rates are means over the time since the row before.
#[derive(Debug)]
pub struct Sampler {
    devices: Vec<Device>,
    diskstats: ProcFile,
    stat: ProcFile,
    meminfo: ProcFile,
    loadavg: ProcFile,
    resident: ResidentMemory,
    cpu: Option<CpuShares>,
    own_cpu: Option<CpuTime>,
    taken: Instant,
    row: Vec<(String, f64)>,
}

#[derive(Debug)]
struct Device {
    number: DeviceNumber,
    /// `None` while the device is not in the statistics.
    counters: Option<Counters>,
    /// Seen in the present sample.
    now: Option<Counters>,
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
        let columns = columns.chain(HOST_COLUMNS.map(str::to_owned));
        let mut sampler = Self {
            devices: devices.iter().map(|&number| Device { number, counters: None, now: None }).collect(),
            diskstats,
            stat: open("proc/stat")?,
            meminfo: open("proc/meminfo")?,
            loadavg: open("proc/loadavg")?,
            resident: ResidentMemory::open(root).map_err(failed("proc/self/statm"))?,
            cpu: None,
            own_cpu: None,
            taken: Instant::now(),
            row: columns.map(|name| (name, f64::NAN)).collect(),
        };
        sampler.sample_over(Duration::ZERO);
        Ok(sampler)
    }

    /// Names of the columns, in the order of every row.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.row.iter().map(|(name, _)| name.as_str())
    }

    /// A row: each column's name and value, NaN where it could not be measured.
    pub fn sample(&mut self) -> &[(String, f64)] {
        let now = Instant::now();
        let interval = now - self.taken;
        self.taken = now;
        self.sample_over(interval)
    }

    /// As [`Sampler::sample`], with the time since the row before given.
    fn sample_over(&mut self, interval: Duration) -> &[(String, f64)] {
        self.sample_devices(interval);
        let host = self.sample_host(interval);
        let at = self.row.len() - host.len();
        for ((_, column), value) in self.row[at..].iter_mut().zip(host) {
            *column = value;
        }
        &self.row
    }

    fn sample_devices(&mut self, interval: Duration) {
        if let Ok(text) = self.diskstats.read() {
            for (number, _, counters) in text.lines().filter_map(parse_line) {
                for device in self.devices.iter_mut().filter(|device| device.number == number) {
                    device.now = Some(counters);
                }
            }
        }
        for (device, columns) in self.devices.iter_mut().zip(self.row.chunks_mut(DEVICE_COLUMNS.len())) {
            let now = device.now.take();
            let delta = now.zip(device.counters).and_then(|(now, before)| now.since(&before));
            device.counters = now;
            let rates = delta.and_then(|delta| Rates::over(&delta, interval));
            let values = rates.map_or([f64::NAN; DEVICE_COLUMNS.len()], |rates| {
                [
                    rates.reads_per_sec,
                    rates.writes_per_sec,
                    rates.read_kib_per_sec,
                    rates.write_kib_per_sec,
                    rates.average_queue,
                    rates.util_pct,
                ]
            });
            for ((_, column), value) in columns.iter_mut().zip(values) {
                *column = value;
            }
        }
    }

    /// The values of [`HOST_COLUMNS`].
    fn sample_host(&mut self, interval: Duration) -> [f64; HOST_COLUMNS.len()] {
        let cpu = self.stat.read().ok().and_then(CpuShares::parse);
        let shares = cpu.zip(self.cpu).and_then(|(now, before)| now.since(before));
        self.cpu = cpu;
        let [busy, iowait, steal] = shares.unwrap_or([f64::NAN; 3]);

        let own = CpuTime::now().ok();
        let own_ns = own.zip(self.own_cpu).map(|(now, before)| now.since(before).total_ns());
        self.own_cpu = own;
        let own_pct = own_ns.filter(|_| !interval.is_zero()).map(|ns| ns as f64 / interval.as_nanos() as f64 * 100.0);

        let available = self.meminfo.read().ok().and_then(memory_available_bytes);
        let load = self.loadavg.read().ok().and_then(|text| text.split(' ').next()?.parse().ok());
        let resident = self.resident.bytes().ok();
        [
            busy,
            iowait,
            steal,
            available.map_or(f64::NAN, |bytes| bytes as f64),
            load.unwrap_or(f64::NAN),
            resident.map_or(f64::NAN, |bytes| bytes as f64),
            own_pct.unwrap_or(f64::NAN),
        ]
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
    use crate::sys::usage::page_bytes;
    use std::fs;

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

    fn value(row: &[(String, f64)], name: &str) -> f64 {
        row.iter().find(|(column, _)| column == name).unwrap_or_else(|| panic!("no column {name}")).1
    }

    #[test]
    fn rates_and_shares_are_those_of_the_time_in_between() {
        let host = FakeHost::new();
        let mut sampler = host.sampler(&[(8, 0)]);
        host.write("diskstats", "   8       0 sda 1400 0 11200 0 20 0 640 0 0 1000 800\n");
        host.write("stat", "cpu  140 0 100 740 60 25 25 10 0 0\n");
        let row = sampler.sample_over(Duration::from_secs(2));
        assert_eq!(value(row, "sda.reads_per_sec"), 200.0);
        assert_eq!(value(row, "sda.read_kib_per_sec"), 800.0);
        assert_eq!(value(row, "sda.writes_per_sec"), 10.0);
        assert_eq!(value(row, "sda.write_kib_per_sec"), 160.0);
        assert_eq!(value(row, "sda.average_queue"), 0.4);
        assert_eq!(value(row, "sda.util_pct"), 50.0);
        assert_eq!(value(row, "host.cpu_busy_pct"), 40.0);
        assert_eq!(value(row, "host.cpu_iowait_pct"), 10.0);
        assert_eq!(value(row, "host.cpu_steal_pct"), 10.0);
        assert_eq!(value(row, "host.memory_available_bytes"), 2_048_000.0);
        assert_eq!(value(row, "host.load_1min"), 1.25);
        assert_eq!(value(row, "process.rss_bytes"), (100 * page_bytes()) as f64);
        assert!(value(row, "process.cpu_pct") >= 0.0);
    }

    #[test]
    fn a_device_that_disappears_is_unknown_and_keeps_its_columns() {
        let host = FakeHost::new();
        let mut sampler = host.sampler(&[(8, 0)]);
        let names: Vec<String> = sampler.names().map(str::to_owned).collect();
        host.write("diskstats", "");
        assert!(value(sampler.sample_over(Duration::from_secs(1)), "sda.reads_per_sec").is_nan());
        host.write("diskstats", "   8       0 sda 50 0 0 0 0 0 0 0 0 0 0\n");
        assert!(value(sampler.sample_over(Duration::from_secs(1)), "sda.reads_per_sec").is_nan());
        host.write("diskstats", "   8       0 sda 57 0 0 0 0 0 0 0 0 0 0\n");
        assert_eq!(value(sampler.sample_over(Duration::from_secs(1)), "sda.reads_per_sec"), 7.0);
        assert_eq!(sampler.names().collect::<Vec<_>>(), names);
    }

    #[test]
    fn a_device_without_statistics_is_named_by_its_number() {
        let mut sampler = FakeHost::new().sampler(&[(259, 3)]);
        assert!(value(sampler.sample_over(Duration::from_secs(1)), "259:3.util_pct").is_nan());
    }

    #[test]
    fn without_devices_the_host_is_still_sampled() {
        let mut sampler = FakeHost::new().sampler(&[]);
        let row = sampler.sample_over(Duration::from_secs(1));
        assert_eq!(row.len(), HOST_COLUMNS.len());
        assert_eq!(value(row, "host.load_1min"), 1.25);
    }

    #[test]
    fn rows_stay_in_the_same_memory() {
        let host = FakeHost::new();
        let mut sampler = host.sampler(&[(8, 0)]);
        let place = sampler.sample_over(Duration::from_secs(1)).as_ptr();
        for _ in 0..100 {
            assert_eq!(sampler.sample_over(Duration::from_secs(1)).as_ptr(), place);
        }
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
        assert!(value(row, "process.rss_bytes") > 0.0);
        assert!(value(row, "host.memory_available_bytes") > 0.0);
    }
}
