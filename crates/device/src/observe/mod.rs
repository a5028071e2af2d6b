//! Observes devices and the host during a run, without issuing reads or writes.
//!
//! * [`trace`]: the kernel's block tracepoints, one event for each request issued and completed
//! * [`diskstats`]: /proc/diskstats, and the values of `iostat -x`
//! * [`interrupts`]: CPUs that take the interrupts of a device
//! * [`nvme`]: an NVMe drive's health logs
//! * [`telemetry`]: one row of numbers per report interval, for the run directory
//! * [`host`]: facts about the machine
//! * [`process`]: resources used by this program
//!
//! Functions that read /proc or /sys take the root of the file system as a parameter, so that tests can use a fake
//! tree.
//!
//! This module also reads the temperature of a drive, from the kernel's hardware monitor (hwmon). A monitor belongs to
//! a drive if the block device is below the monitor's device in /sys: the NVMe controller or its PCI device (kernels
//! differ), or the SCSI device of `drivetemp`. A drive with several paths is not below its controllers, so the
//! controllers are found through the links of the drive's subsystem. For an NVMe drive each reading is a SMART command,
//! which the kernel sends at most once a second.

pub mod diskstats;
pub mod host;
pub mod interrupts;
pub mod nvme;
pub mod process;
pub mod telemetry;
pub mod trace;

use crate::discover::{DeviceNumber, SysDir, controllers};
use results::telemetry::ColumnOf;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// hwmon drivers that measure the drive itself. Monitors of an adapter or a bridge measure that device instead.
const DRIVERS: [&str; 2] = ["nvme", "drivetemp"];

/// The drive's temperature file below `root`, for repeated reads; `None` if the kernel has none.
fn thermometer(root: &Path, number: DeviceNumber) -> Option<ProcFile> {
    ProcFile::open(drive_monitor(root, number)?.path(), "temp1_input").ok()
}

/// Degrees Celsius now; `None` if the drive does not answer.
fn celsius(thermometer: &mut ProcFile) -> Option<f64> {
    // Millidegrees. Source: `hwmon/sysfs-interface.rst` of the kernel.
    Some(thermometer.read().ok()?.trim().parse::<i64>().ok()? as f64 / 1_000.0)
}

/// `None` if the kernel has no monitor. The first sensor is for the whole drive (NVMe: the composite temperature).
pub(crate) fn drive_monitor(root: &Path, number: DeviceNumber) -> Option<SysDir> {
    let block = SysDir::of_block(root, number)?;
    let device_dirs = [controllers(&block), vec![block]].concat();
    SysDir::new(root.join("sys/class"))
        .below("hwmon")
        .find(|monitor: &SysDir| {
            let is_known_driver = monitor
                .text("name")
                .is_some_and(|name| DRIVERS.contains(&name.as_str()));
            let device = fs::canonicalize(monitor.child("device").path());
            is_known_driver
                && device.is_ok_and(|device| {
                    device_dirs
                        .iter()
                        .any(|dir| dir.path().starts_with(&device))
                })
        })
}

/// A column with its value in one sample; `None`: not measured.
type TelemetryValue = (ColumnOf, Option<f64>);

/// A file of /proc that is read repeatedly: opened once, and read into the same memory.
#[derive(Debug)]
struct ProcFile {
    file: File,
    text: String,
}

impl ProcFile {
    fn open(root: &Path, name: &str) -> Result<Self, TelemetryError> {
        let path = root.join(name);
        let file = File::open(&path).map_err(|source| TelemetryError { path, source })?;
        Ok(Self {
            file,
            text: String::new(),
        })
    }

    /// Reads the file again. Allocates memory only if the file has become longer than in all earlier reads.
    fn read(&mut self) -> io::Result<&str> {
        self.text.clear();
        self.file.rewind()?;
        self.file.read_to_string(&mut self.text)?;
        Ok(&self.text)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read telemetry from {} - {source} - {}", path.display(), sys::remedy(source, "mount /proc"))]
pub struct TelemetryError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// `None` for a zero interval.
fn per_sec(count: u64, interval: Duration) -> Option<f64> {
    (!interval.is_zero()).then(|| count as f64 / interval.as_secs_f64())
}

/// `part_ns` as a share of `interval`, percent; `None` for a zero interval.
fn share_pct(part_ns: u64, interval: Duration) -> Option<f64> {
    (!interval.is_zero()).then(|| part_ns as f64 * 100.0 / interval.as_nanos() as f64)
}

#[cfg(test)]
mod test_loop;
#[cfg(test)]
mod hwmon_tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    const CONTROLLER: &str = "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0";

    struct FakeSys(FakeTree);

    impl FakeSys {
        fn new() -> Self {
            let sys = FakeTree::with_files(&[]);
            sys.dir("sys/class/hwmon");
            Self(sys)
        }

        fn monitor(&self, number: u32, driver: &str, device: &str, millidegrees: &str) {
            let monitor = format!("{device}/hwmon{number}");
            self.0.write(format!("{monitor}/name"), driver);
            self.0.write(format!("{monitor}/temp1_input"), millidegrees);
            self.0.link(format!("{monitor}/device"), device);
            self.0
                .link(format!("sys/class/hwmon/hwmon{number}"), monitor);
        }

        fn celsius(&self, number: DeviceNumber) -> Option<f64> {
            celsius(&mut thermometer(self.0.root(), number)?)
        }
    }

    #[test]
    fn each_drive_gets_the_temperature_of_its_own_hwmon_sensor() {
        let sys = FakeSys::new();
        sys.0.block("259:0", &format!("{CONTROLLER}/nvme0n1"));
        sys.0.block(
            "259:1",
            "sys/devices/pci0000:00/0000:02:00.0/nvme/nvme1/nvme1n1",
        );
        sys.monitor(0, "k10temp", "sys/devices/pci0000:00", "70000");
        sys.monitor(
            1,
            "nvme",
            "sys/devices/pci0000:00/0000:02:00.0/nvme/nvme1",
            "41850",
        );
        sys.monitor(2, "nvme", CONTROLLER, "-1500");
        assert_eq!(sys.celsius(DeviceNumber::new(259, 0)), Some(-1.5));
        assert_eq!(sys.celsius(DeviceNumber::new(259, 1)), Some(41.85));
        assert_eq!(sys.celsius(DeviceNumber::new(259, 2)), None);
    }

    #[test]
    fn a_hwmon_sensor_of_the_pci_device_is_found_as_on_older_kernels() {
        let sys = FakeSys::new();
        sys.0.block("259:0", &format!("{CONTROLLER}/nvme0n1"));
        sys.monitor(0, "nvme", "sys/devices/pci0000:00/0000:01:00.0", "35000");
        assert_eq!(sys.celsius(DeviceNumber::new(259, 0)), Some(35.0));
    }

    #[test]
    fn the_temperature_of_a_multipath_drive_is_found_through_its_nvme_subsystem() {
        let sys = FakeSys::new();
        let subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
        sys.0.block("259:0", &format!("{subsystem}/nvme0n1"));
        sys.0.link(format!("{subsystem}/nvme0n1/device"), subsystem);
        sys.monitor(0, "nvme", CONTROLLER, "35000");
        assert_eq!(sys.celsius(DeviceNumber::new(259, 0)), None);
        sys.0.link(format!("{subsystem}/nvme0"), CONTROLLER);
        assert_eq!(sys.celsius(DeviceNumber::new(259, 0)), Some(35.0));
    }

    #[test]
    fn the_temperature_of_an_adapter_is_not_that_of_its_drives() {
        let sys = FakeSys::new();
        let scsi = "sys/devices/pci0000:00/0000:03:00.0/host0/target0:0:0/0:0:0:0";
        sys.0.block("8:0", &format!("{scsi}/block/sda"));
        sys.monitor(0, "adapter", "sys/devices/pci0000:00/0000:03:00.0", "80000");
        assert_eq!(sys.celsius(DeviceNumber::new(8, 0)), None);
        sys.monitor(1, "drivetemp", scsi, "29000");
        assert_eq!(sys.celsius(DeviceNumber::new(8, 0)), Some(29.0));
    }

    #[test]
    fn a_drive_that_stops_answering_has_no_temperature() {
        let sys = FakeSys::new();
        sys.0.block("259:0", &format!("{CONTROLLER}/nvme0n1"));
        sys.monitor(0, "nvme", CONTROLLER, "35000");
        let mut thermometer = thermometer(sys.0.root(), DeviceNumber::new(259, 0)).unwrap();
        sys.0.write(format!("{CONTROLLER}/hwmon0/temp1_input"), "");
        assert_eq!(celsius(&mut thermometer), None);
    }
}

#[cfg(test)]
mod procfile_tests {
    use super::*;

    #[test]
    fn each_read_returns_the_current_content_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "first and longer").unwrap();
        let mut file = ProcFile::open(dir.path(), "file").unwrap();
        assert_eq!(file.read().unwrap(), "first and longer");
        std::fs::write(&path, "second").unwrap();
        assert_eq!(file.read().unwrap(), "second");
        let long = "x".repeat(48 << 10);
        std::fs::write(&path, &long).unwrap();
        assert_eq!(file.read().unwrap(), long);
    }

    #[test]
    fn a_real_file_of_proc_can_be_read_twice() {
        let mut file = ProcFile::open("/proc".as_ref(), "stat").unwrap();
        assert!(file.read().unwrap().starts_with("cpu "));
        assert!(file.read().unwrap().starts_with("cpu "));
    }
}
