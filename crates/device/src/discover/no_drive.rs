//! Devices under which there is no drive: files, memory, drivers for tests, and what a program serves.
//!
//! The one idea: only what is certainly none is named. Disks of a hypervisor or of a cloud are what some
//! people judge and buy, so they are no business of this; `doctor` tells of those.

use super::{DevNum, DeviceFacts, Roots, SysDir};

/// Kernel names by their beginning, which a number follows, and what such a device is.
///
/// Source: the drivers in `drivers/block` of the kernel.
const NAMES: [(&str, &str); 6] = [
    ("loop", "a loop device, which is a file"),
    ("zram", "a zram device, which is memory"),
    ("ram", "a RAM disk"),
    ("nullb", "a null block device, which stores nothing"),
    ("nbd", "a network block device, which a program serves"),
    ("ublkb", "a ublk device, which a program serves"),
];

/// What `scsi_debug` calls its disks, which are memory.
const SCSI_DEBUG: &str = "scsi_debug";

/// Devices that are made of others (dm, md, bcache) can be stacked; far fewer than this are.
const DEPTH_MAX: u32 = 8;

/// Why the device of `facts` is no drive: `/dev/loop3 is a loop device, which is a file`; of a device
/// that is made of such devices, too. `None` where nothing tells that.
pub fn no_drive(facts: &DeviceFacts, roots: &Roots) -> Option<String> {
    let (number, kernel_name) = match &facts.partition {
        Some(part) => (Some(part.disk_number), Some(&part.disk)),
        None => (facts.number, facts.kernel_name.as_ref()),
    };
    let kernel_name = kernel_name.map(String::as_str).unwrap_or_default();
    if facts.model.as_deref().is_some_and(|model| model.starts_with(SCSI_DEBUG)) {
        return Some(format!("{} is made by {SCSI_DEBUG}, which is memory", facts.path));
    }
    if let Some(what) = by_name(kernel_name) {
        return Some(format!("{} is {what}", facts.path));
    }
    let (below, what) = beneath(&SysDir::of_block(&roots.sys, number?)?, roots, DEPTH_MAX)?;
    Some(format!("{} lies on {below}, {what}", facts.path))
}

fn by_name(kernel_name: &str) -> Option<&'static str> {
    let is_called = |prefix: &str| {
        kernel_name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    NAMES.iter().find(|(prefix, _)| is_called(prefix)).map(|(_, what)| *what)
}

/// The first device beneath the one at `dir` that is no drive: its name and what it is.
fn beneath(dir: &SysDir, roots: &Roots, depth: u32) -> Option<(String, &'static str)> {
    let depth = depth.checked_sub(1)?;
    let slaves = dir.child("slaves");
    slaves.children().into_iter().find_map(|name| {
        let number: Option<DevNum> = slaves.child(&name).dev();
        match by_name(&name) {
            Some(what) => Some((name, what)),
            None => beneath(&SysDir::of_block(&roots.sys, number?)?, roots, depth),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::super::facts::unknown;
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn named(kernel_name: &str) -> DeviceFacts {
        DeviceFacts {
            kernel_name: Some(kernel_name.to_owned()),
            ..unknown(&format!("/dev/{kernel_name}"), Kind::WholeDisk)
        }
    }

    #[test]
    fn files_memory_and_programs_are_no_drives_and_disks_are() {
        let of = |kernel_name| no_drive(&named(kernel_name), &Roots::default());
        assert_eq!(of("loop3").as_deref(), Some("/dev/loop3 is a loop device, which is a file"));
        for name in ["zram5", "ram0", "nullb0", "nbd2", "ublkb1"] {
            assert!(of(name).is_some(), "{name}");
        }
        for name in ["nvme0n1", "sda", "vda", "xvdf", "md127", "dm-0", "ramble", "loopy", ""] {
            assert_eq!(of(name), None, "{name}");
        }
        let scsi = DeviceFacts { model: Some("scsi_debug".into()), ..named("sdb") };
        assert!(no_drive(&scsi, &Roots::default()).is_some());
    }

    #[test]
    fn what_is_made_of_loop_devices_is_no_drive() {
        let dir = tempfile::tempdir().unwrap();
        let sys = dir.path();
        for (disk, number, below) in [("dm-9", "252:9", "dm-8"), ("dm-8", "252:8", "loop7p1")] {
            let disk_dir = |name: &str| sys.join("devices/virtual/block").join(name);
            let disk = disk_dir(disk);
            fs::create_dir_all(disk.join("slaves")).unwrap();
            fs::create_dir_all(sys.join("dev/block")).unwrap();
            fs::write(disk.join("dev"), number).unwrap();
            symlink(&disk, sys.join("dev/block").join(number)).unwrap();
            symlink(disk_dir(below), disk.join("slaves").join(below)).unwrap();
        }
        let roots = Roots { sys: sys.to_owned(), ..Roots::default() };
        let stacked = DeviceFacts { number: DevNum::parse("252:9"), ..named("dm-9") };
        let why = no_drive(&stacked, &roots);
        assert_eq!(why.as_deref(), Some("/dev/dm-9 lies on loop7p1, a loop device, which is a file"));
    }
}
