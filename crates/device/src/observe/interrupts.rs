//! Interrupts of a device: the interrupt lines of its controller, and the CPUs that take them.
//!
//! ```text
//! sys/dev/block/259:0 -> .../0000:01:00.0/nvme/nvme0/nvme0n1
//!                        .../0000:01:00.0/msi_irqs/{41,42,...}      interrupt lines
//! sys/kernel/irq/41/per_cpu_count                                   interrupts of a line on each CPU
//! ```
//!
//! If one CPU takes all interrupts, that CPU affects every latency. The lines belong to the controller, so all devices
//! of a controller (an HBA, an NVMe drive with several namespaces) share them. Virtual devices (loop, zram,
//! device-mapper) have no lines.

use super::per_sec;
use crate::discover::{DeviceNumber, SysDir, controllers};
use results::telemetry::Column;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Interrupt lines of the controller of the device `number`, ascending; empty if the kernel shows none.
///
/// `root` is `/` except in tests. A drive with several paths has the lines of all paths. Sources: `msi_irqs` and `irq`
/// in the kernel's `Documentation/ABI/testing/sysfs-bus-pci`.
pub fn lines_of(root: &Path, number: DeviceNumber) -> Vec<u32> {
    let Some(block) = SysDir::of_block(root, number) else {
        return Vec::new();
    };
    // Links in the path of the root are resolved, because the path of `block` has none.
    let devices_dir =
        fs::canonicalize(root.join("sys/devices")).unwrap_or_else(|_| root.join("sys/devices"));
    let mut lines = lines_above(&block, &devices_dir);
    if lines.is_empty() {
        lines = controllers(&block)
            .iter()
            .flat_map(|controller| lines_above(controller, &devices_dir))
            .collect();
    }
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Interrupt lines of `device_dir`, or else of its nearest ancestor with lines. The search ends at `devices_dir`.
fn lines_above(device_dir: &SysDir, devices_dir: &Path) -> Vec<u32> {
    let is_below = |dir: &SysDir| dir.path().starts_with(devices_dir) && dir.path() != devices_dir;
    device_dir
        .ancestors()
        .take_while(is_below)
        .map(lines_at)
        .find(|lines| !lines.is_empty())
        .unwrap_or_default()
}

/// Interrupt lines of one device in /sys: its MSI vectors, or its legacy line if it has no vectors.
fn lines_at(dir: SysDir) -> Vec<u32> {
    let msi_lines: Vec<u32> = dir
        .below("msi_irqs")
        .filter_map(|line| line.name().parse().ok())
        .collect();
    if !msi_lines.is_empty() {
        return msi_lines;
    }
    // The kernel shows 0 for a device without a line.
    dir.number("irq")
        .filter(|line| *line != 0)
        .into_iter()
        .collect()
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterruptsByCpu {
    /// Interrupts since boot, or in an interval: one entry for each possible CPU, in the order of CPU numbers.
    pub counts: Vec<u64>,
}

impl InterruptsByCpu {
    /// Reads the interrupts of `lines` on each CPU since boot; `None` if the kernel has no counts.
    ///
    /// Source: `/sys/kernel/irq/N/per_cpu_count` (Linux 4.9), one number for each possible CPU. /proc/interrupts is not
    /// read, because its output takes the kernel milliseconds on a large host.
    pub fn read(root: &Path, lines: &[u32]) -> Option<Self> {
        let file = |line: &u32| root.join(format!("sys/kernel/irq/{line}/per_cpu_count"));
        let mut sum: Option<Vec<u64>> = None;
        for counts in lines
            .iter()
            .filter_map(|line| parse_counts(&fs::read_to_string(file(line)).ok()?))
        {
            let sum = sum.get_or_insert_default();
            sum.resize(sum.len().max(counts.len()), 0);
            sum.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
        sum.map(|counts| Self { counts })
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Interrupts since `earlier`. A counter that fell was reset, and counts from zero.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let grown = |(now, before): (&u64, u64)| now.checked_sub(before).unwrap_or(*now);
        Self {
            counts: self.counts.iter().zip(before).map(grown).collect(),
        }
    }

    /// The CPU with the most interrupts (of equal CPUs, the lowest number), and its percentage of all interrupts;
    /// `None` without interrupts.
    pub fn busiest(&self) -> Option<(usize, f64)> {
        let (cpu, count) = self
            .counts
            .iter()
            .enumerate()
            .max_by_key(|(cpu, count)| (**count, usize::MAX - cpu))?;
        let total = self.total();
        (total > 0).then(|| (cpu, *count as f64 * 100.0 / total as f64))
    }
}

/// Parses counts separated by commas. [`InterruptsByCpu::since`] treats a wrap of the 32-bit counters as a reset.
fn parse_counts(text: &str) -> Option<Vec<u64>> {
    text.trim()
        .split(',')
        .map(|count| count.parse().ok())
        .collect()
}

#[derive(Debug)]
pub(super) struct InterruptSampler {
    root: PathBuf,
    lines: Vec<u32>,
    previous: Option<InterruptsByCpu>,
}

impl InterruptSampler {
    /// `None` if the device has no lines, or the kernel has no counts.
    pub(super) fn find(root: &Path, number: DeviceNumber) -> Option<Self> {
        let lines = lines_of(root, number);
        InterruptsByCpu::read(root, &lines).map(|_| Self {
            root: root.to_owned(),
            lines,
            previous: None,
        })
    }

    /// The CPU with the most interrupts, its percentage, and interrupts per second on all CPUs. If there were no
    /// interrupts, the CPU and its percentage are empty.
    pub(super) fn sample(&mut self, interval: Duration) -> [(Column, Option<f64>); 3] {
        let current = InterruptsByCpu::read(&self.root, &self.lines);
        let delta = current
            .as_ref()
            .zip(self.previous.as_ref())
            .map(|(now, before)| now.since(before));
        self.previous = current;
        let busiest = delta.as_ref().and_then(InterruptsByCpu::busiest);
        [
            (Column::IrqCpu, busiest.map(|(cpu, _)| cpu as f64)),
            (
                Column::IrqCpuSharePct,
                busiest.map(|(_, share_pct)| share_pct),
            ),
            (
                Column::IrqsPerSec,
                delta.and_then(|since| per_sec(since.total(), interval)),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    const PCI: &str = "sys/devices/pci0000:00/0000:01:00.0";

    #[test]
    fn a_partition_has_the_interrupt_lines_of_its_controller() {
        let root = FakeTree::with_files(&[]);
        root.block("259:1", &format!("{PCI}/nvme/nvme0/nvme0n1/nvme0n1p1"));
        for line in ["42", "9", "41"] {
            root.write(format!("{PCI}/msi_irqs/{line}"), "msix\n");
        }
        root.write(format!("{PCI}/irq"), "41\n");
        root.write("sys/devices/pci0000:00/irq", "7\n");
        let found = lines_of(root.root(), DeviceNumber::new(259, 1));
        assert_eq!(found, [9, 41, 42]);
    }

    #[test]
    fn a_controller_without_msi_has_one_interrupt_line_and_a_virtual_device_none() {
        let root = FakeTree::with_files(&[]);
        root.block(
            "8:0",
            &format!("{PCI}/ata1/host0/target0:0:0/0:0:0:0/block/sda"),
        );
        root.write(format!("{PCI}/irq"), "19\n");
        root.block("7:0", "sys/devices/virtual/block/loop0");
        assert_eq!(lines_of(root.root(), DeviceNumber::new(8, 0)), [19]);
        assert!(lines_of(root.root(), DeviceNumber::new(7, 0)).is_empty());
        assert!(
            lines_of(root.root(), DeviceNumber::new(7, 1)).is_empty(),
            "there is no such device"
        );
        root.write(format!("{PCI}/irq"), "0\n");
        assert!(
            lines_of(root.root(), DeviceNumber::new(8, 0)).is_empty(),
            "zero is the kernel's word for none"
        );
    }

    #[test]
    fn a_drive_with_several_paths_has_the_interrupt_lines_of_all_paths() {
        let root = FakeTree::with_files(&[]);
        let subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
        root.block("259:0", &format!("{subsystem}/nvme0n1"));
        root.link(format!("{subsystem}/nvme0n1/device"), subsystem);
        for (path, line) in [(0, "50"), (1, "60")] {
            let pci = format!("sys/devices/pci0000:00/0000:0{path}:00.0");
            root.write(format!("{pci}/msi_irqs/{line}"), "msix\n");
            root.link(
                format!("{subsystem}/nvme{path}"),
                root.dir(format!("{pci}/nvme/nvme{path}")),
            );
        }
        assert_eq!(lines_of(root.root(), DeviceNumber::new(259, 0)), [50, 60]);
    }

    #[test]
    fn counts_of_several_interrupt_lines_are_added_for_each_cpu() {
        let counts = |line| format!("sys/kernel/irq/{line}/per_cpu_count");
        let root = FakeTree::with_files(&[(&counts(41), "10,0,5\n"), (&counts(42), "1,2,3\n")]);
        let counts = InterruptsByCpu::read(root.root(), &[41, 42, 43]).unwrap();
        assert_eq!(counts.counts, [11, 2, 8]);
        assert_eq!(counts.total(), 21);
        assert_eq!(InterruptsByCpu::read(root.root(), &[43]), None);
        assert_eq!(InterruptsByCpu::read(root.root(), &[]), None);
    }

    #[test]
    fn the_busiest_cpu_is_computed_from_the_interrupts_between_two_samples() {
        let counts = |counts: &[u64]| InterruptsByCpu {
            counts: counts.to_vec(),
        };
        let since = counts(&[1_000, 90, 40]).since(&counts(&[1_000, 10, 20]));
        assert_eq!(since.counts, [0, 80, 20]);
        assert_eq!(since.busiest(), Some((1, 80.0)));
        assert_eq!(counts(&[5, 5]).busiest(), Some((0, 50.0)));
        assert_eq!(counts(&[0, 0]).busiest(), None);
        assert_eq!(
            counts(&[3]).since(&counts(&[10])).counts,
            [3],
            "counted anew"
        );
    }

    #[test]
    fn interrupts_of_this_host_can_be_read() {
        let Some(line) = fs::read_dir("/sys/kernel/irq").ok().and_then(|entries| {
            let mut lines = entries
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
            lines.next()
        }) else {
            println!("skipped: this kernel shows no interrupts in /sys/kernel/irq");
            return;
        };
        let counts = InterruptsByCpu::read("/".as_ref(), &[line]).unwrap();
        assert!(
            counts.counts.len()
                >= std::thread::available_parallelism().map_or(1, |cpus| cpus.get())
        );
    }
}
