//! The temperature of a drive, from the kernel's hardware monitor.
//!
//! A monitor belongs to a drive if the block device is below the monitor's device in /sys: below the NVMe controller or
//! its PCI device (kernels differ), below the SCSI device of `drivetemp`. A drive with several paths is below none of
//! them, so the controllers linked by its subsystem count.
//!
//! For an NVMe drive each reading is a SMART command, which the kernel sends at most once a second.

use super::DeviceNumber;
use super::block_dir;
use super::procfile::ProcFile;
use crate::discover::controllers;
use std::fs;
use std::path::{Path, PathBuf};

/// Drivers whose monitor is in the drive. Monitors above it (an adapter, a bridge) measure something else.
const DRIVERS: [&str; 2] = ["nvme", "drivetemp"];

/// The thermometer of one drive, read again and again.
#[derive(Debug)]
pub(super) struct Thermometer {
    input: ProcFile,
}

impl Thermometer {
    /// Finds the monitor below `root`; `None` if the kernel knows none for the drive.
    pub(super) fn find(root: &Path, number: DeviceNumber) -> Option<Self> {
        Some(Self { input: ProcFile::open(&drive_monitor(root, number)?, "temp1_input").ok()? })
    }

    /// Degrees Celsius now; `None` if the drive does not answer.
    pub(super) fn celsius(&mut self) -> Option<f64> {
        // The kernel's hwmon/sysfs-interface.rst: millidegrees.
        Some(self.input.read().ok()?.trim().parse::<i64>().ok()? as f64 / 1_000.0)
    }
}

/// Directory of the monitor in a drive, below `root`; `None` if it has none that the kernel knows. For all
/// drivers the first sensor is the drive as a whole (NVMe: the composite temperature).
pub(crate) fn drive_monitor(root: &Path, number: DeviceNumber) -> Option<PathBuf> {
    let block = block_dir(root, number)?;
    let places = [vec![block.clone()], controllers(&block)].concat();
    let mut monitors: Vec<PathBuf> =
        fs::read_dir(root.join("sys/class/hwmon")).ok()?.flatten().map(|entry| entry.path()).collect();
    monitors.sort_unstable();
    monitors.into_iter().find(|monitor| watches(monitor, &places))
}

/// True if `monitor` belongs to a drive in one of `places`.
fn watches(monitor: &Path, places: &[PathBuf]) -> bool {
    let known = fs::read_to_string(monitor.join("name")).is_ok_and(|name| DRIVERS.contains(&name.trim()));
    let device = fs::canonicalize(monitor.join("device"));
    known && device.is_ok_and(|device| places.iter().any(|place| place.starts_with(&device)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    const CONTROLLER: &str = "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0";

    struct FakeSys(FakeTree);

    impl FakeSys {
        fn new() -> Self {
            let sys = FakeTree::of(&[]);
            sys.dir("sys/class/hwmon");
            Self(sys)
        }

        fn monitor(&self, number: u32, driver: &str, device: &str, millidegrees: &str) {
            let monitor = format!("{device}/hwmon{number}");
            self.0.write(format!("{monitor}/name"), driver);
            self.0.write(format!("{monitor}/temp1_input"), millidegrees);
            self.0.link(format!("{monitor}/device"), device);
            self.0.link(format!("sys/class/hwmon/hwmon{number}"), monitor);
        }

        fn celsius(&self, number: DeviceNumber) -> Option<f64> {
            Thermometer::find(self.0.root(), number)?.celsius()
        }
    }

    #[test]
    fn each_drive_has_its_own_thermometer() {
        let sys = FakeSys::new();
        sys.0.block("259:0", &format!("{CONTROLLER}/nvme0n1"));
        sys.0.block("259:1", "sys/devices/pci0000:00/0000:02:00.0/nvme/nvme1/nvme1n1");
        sys.monitor(0, "k10temp", "sys/devices/pci0000:00", "70000");
        sys.monitor(1, "nvme", "sys/devices/pci0000:00/0000:02:00.0/nvme/nvme1", "41850");
        sys.monitor(2, "nvme", CONTROLLER, "-1500");
        assert_eq!(sys.celsius((259, 0)), Some(-1.5));
        assert_eq!(sys.celsius((259, 1)), Some(41.85));
        assert_eq!(sys.celsius((259, 2)), None);
    }

    #[test]
    fn older_kernels_hang_the_monitor_on_the_pci_device() {
        let sys = FakeSys::new();
        sys.0.block("259:0", &format!("{CONTROLLER}/nvme0n1"));
        sys.monitor(0, "nvme", "sys/devices/pci0000:00/0000:01:00.0", "35000");
        assert_eq!(sys.celsius((259, 0)), Some(35.0));
    }

    #[test]
    fn a_drive_with_several_paths_is_found_through_its_subsystem() {
        let sys = FakeSys::new();
        let subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
        sys.0.block("259:0", &format!("{subsystem}/nvme0n1"));
        sys.0.link(format!("{subsystem}/nvme0n1/device"), subsystem);
        sys.monitor(0, "nvme", CONTROLLER, "35000");
        assert_eq!(sys.celsius((259, 0)), None);
        sys.0.link(format!("{subsystem}/nvme0"), CONTROLLER);
        assert_eq!(sys.celsius((259, 0)), Some(35.0));
    }

    #[test]
    fn the_heat_of_an_adapter_is_not_that_of_its_drives() {
        let sys = FakeSys::new();
        let scsi = "sys/devices/pci0000:00/0000:03:00.0/host0/target0:0:0/0:0:0:0";
        sys.0.block("8:0", &format!("{scsi}/block/sda"));
        sys.monitor(0, "adapter", "sys/devices/pci0000:00/0000:03:00.0", "80000");
        assert_eq!(sys.celsius((8, 0)), None);
        sys.monitor(1, "drivetemp", scsi, "29000");
        assert_eq!(sys.celsius((8, 0)), Some(29.0));
    }

    #[test]
    fn a_drive_that_stops_answering_has_no_temperature() {
        let sys = FakeSys::new();
        sys.0.block("259:0", &format!("{CONTROLLER}/nvme0n1"));
        sys.monitor(0, "nvme", CONTROLLER, "35000");
        let mut thermometer = Thermometer::find(sys.0.root(), (259, 0)).unwrap();
        sys.0.write(format!("{CONTROLLER}/hwmon0/temp1_input"), "");
        assert_eq!(thermometer.celsius(), None);
    }
}
