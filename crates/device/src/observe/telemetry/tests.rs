//! The sampler on fake roots with known counters, and on this host.

use super::*;
use crate::fake_tree::FakeTree;
use crate::observe::test_loop::LoopDevice;
use sys::process::page_bytes;

struct FakeHost(FakeTree);

impl FakeHost {
    fn new() -> Self {
        let host = Self(FakeTree::with_files(&[]));
        host.write("stat", "cpu  100 0 100 700 50 25 25 0 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 500 1 2\nctxt 7000\n");
        host.write(
            "pressure/io",
            "some avg10=0.00 total=1000\nfull avg10=0.00 total=100\n",
        );
        host.write(
            "meminfo",
            "MemTotal:       4000 kB\nMemFree:   10 kB\nMemAvailable:       2000 kB\n",
        );
        host.write("loadavg", "1.25 0.16 0.12 1/87 6630\n");
        host.write("self/statm", "900 100 50 1 0 80 0\n");
        host.write(
            "diskstats",
            "   8       0 sda 1000 0 8000 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
        );
        host
    }

    fn write(&self, name: &str, text: &str) {
        self.0.write(Path::new("proc").join(name), text);
    }

    fn sampler(&self, devices: &[DeviceNumber]) -> Sampler {
        Sampler::with_root(self.0.root(), devices).unwrap()
    }
}

fn value(sampler: &Sampler, row: &TelemetryRow, name: &str) -> Option<f64> {
    let at = sampler.columns().iter().position(|column| column == name);
    row.values()[at.unwrap_or_else(|| panic!("no column {name}"))]
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn rates_and_shares_are_computed_over_the_time_between_two_rows() {
    let host = FakeHost::new();
    let mut sampler = host.sampler(&[DeviceNumber::new(8, 0)]);
    host.write(
        "diskstats",
        "   8       0 sda 1400 0 11200 700 20 0 640 60 3 1000 800 0 0 0 0 6 9\n",
    );
    host.write(
        "stat",
        "cpu  140 0 100 740 60 25 25 10 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 900 1 2\nctxt 7100\n",
    );
    host.write(
        "pressure/io",
        "some avg10=0.00 total=501000\nfull avg10=0.00 total=200100\n",
    );
    let row = sampler.sample_over(2 * SECOND);
    let expected = [
        ("sda.r/s", 200.0),
        ("sda.rkB/s", 800.0),
        ("sda.w/s", 10.0),
        ("sda.wkB/s", 160.0),
        ("sda.r_await", 1.75),
        ("sda.w_await", 3.0),
        ("sda.f/s", 3.0),
        ("sda.f_await", 1.5),
        ("sda.rareq-sz", 4.0),
        ("sda.wareq-sz", 16.0),
        ("sda.aqu-sz", 0.4),
        ("sda.%util", 50.0),
        ("sda.in_flight", 3.0),
        ("host.cpu_busy_pct", 40.0),
        ("host.cpu_iowait_pct", 10.0),
        ("host.cpu_steal_pct", 10.0),
        ("host.interrupts/s", 200.0),
        ("host.context_switches/s", 50.0),
        ("host.psi_io_some_pct", 25.0),
        ("host.psi_io_full_pct", 10.0),
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
fn a_row_has_as_many_cells_as_the_header_and_unknown_values_are_empty() {
    let host = FakeHost::new();
    let mut sampler = host.sampler(&[DeviceNumber::new(8, 0), DeviceNumber::new(259, 3)]);
    let header = sampler.columns().join(",");
    assert!(
        header.starts_with("sda.r/s,sda.w/s,sda.rkB/s,sda.wkB/s,sda.r_await,sda.w_await,sda.f/s,"),
        "{header}"
    );
    assert!(
        header.ends_with(",process.cpu_pct,process.runqueue_wait_pct,process.io_worker_runs/s"),
        "{header}"
    );
    host.write(
        "diskstats",
        "   8       0 sda 1001 0 8024 7 0 0 0 0 0 1 1 0 0 0 0 0 0\n",
    );
    let row = sampler.sample_over(3 * SECOND).cells().join(",");
    assert_eq!(row.split(',').count(), header.split(',').count());
    // A single read in 3 s. Empty: means without writes or flushes, the temperature, device 259:3, shares of CPU time.
    assert!(
        row.starts_with("0.333,0,4,0,7,,0,,0,12,,0.033,0,,,,,,,,,,,,,,,,,,,0,0,2048000,1.25,0,0,,"),
        "{row}"
    );
}

#[test]
fn whole_numbers_keep_all_their_digits() {
    let row = TelemetryRow(vec![
        Some(505_679_012_352_001.0),
        Some(0.0004),
        Some(1.0 / 3.0),
        None,
    ]);
    assert_eq!(row.cells().join(","), "505679012352001,0,0.333,");
}

#[test]
fn a_device_missing_from_diskstats_has_empty_values_and_keeps_its_columns() {
    let host = FakeHost::new();
    let mut sampler = host.sampler(&[DeviceNumber::new(8, 0)]);
    let header = sampler.columns().join(",");
    let mut reads_per_sec = |statistics: &str| {
        host.write("diskstats", statistics);
        let row = sampler.sample_over(SECOND);
        assert_eq!(sampler.columns().join(","), header);
        value(&sampler, &row, "sda.r/s")
    };
    assert_eq!(reads_per_sec(""), None);
    let found = reads_per_sec("   8       0 sda 50 0 0 0 0 0 0 0 0 0 0\n");
    assert_eq!(found, None);
    let found = reads_per_sec("   8       0 sda 57 0 0 0 0 0 0 0 0 0 0\n");
    assert_eq!(found, Some(7.0));
}

#[test]
fn a_device_without_statistics_is_named_by_its_number() {
    let mut sampler = FakeHost::new().sampler(&[DeviceNumber::new(259, 3)]);
    let row = sampler.sample_over(SECOND);
    assert_eq!(value(&sampler, &row, "259:3.%util"), None);
    assert_eq!(value(&sampler, &row, "259:3.in_flight"), None);
}

#[test]
fn a_drive_with_a_hwmon_sensor_has_a_temperature() {
    let host = FakeHost::new();
    host.0.block("8:0", "sys/devices/nvme0/nvme0n1");
    host.0.write_all(
        "sys/devices/nvme0/hwmon0",
        &[("name", "nvme\n"), ("temp1_input", "41850\n")],
    );
    host.0
        .link("sys/devices/nvme0/hwmon0/device", "sys/devices/nvme0");
    host.0
        .link("sys/class/hwmon/hwmon0", "sys/devices/nvme0/hwmon0");
    let mut sampler = host.sampler(&[DeviceNumber::new(8, 0)]);
    let row = sampler.sample();
    let found = value(&sampler, &row, "sda.temperature_celsius");
    assert_eq!(found, Some(41.85));
}

#[test]
fn without_devices_the_host_is_still_sampled() {
    let mut sampler = FakeHost::new().sampler(&[]);
    let row = sampler.sample_over(SECOND);
    assert_eq!(row.values().len(), 14);
    assert_eq!(value(&sampler, &row, "host.load_1min"), Some(1.25));
}

#[test]
fn reads_of_a_real_device_appear_under_its_name() {
    let Some(device) = LoopDevice::make(1 << 20) else {
        return;
    };
    let mut sampler = Sampler::new(&[device.number()]).unwrap();
    device.read_direct((0..23).map(|index| (index * 8192, 4096)));
    let column = format!("{}.r/s", device.name());
    let mut reads = 0.0;
    // The kernel wakes the reader before it counts the request, so the last request may be counted late.
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
