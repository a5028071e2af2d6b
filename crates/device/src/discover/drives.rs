//! Resolves device names to drives. All partitions of a drive, and all paths to a drive, resolve to that one drive.
//!
//! The facts come from the kernel. A device that this machine lacks is identified by its name, because a configuration
//! may be for another machine. Each namespace of an NVMe controller is a separate drive, and so is each volume on a
//! shared disk.
//!
//! Files, memory, test drivers and devices served by a program have no drive. A device is reported as having no drive
//! only if that is certain. Disks of a hypervisor or a cloud count as drives, because users test and buy them; `doctor`
//! reports them.

use super::sysfs::{STACK_DEPTH_MAX, is_numbered};
use super::{DeviceFacts, DeviceNumber, Disk, Kind, SysDir, discover, disks};
use std::path::Path;

/// A drive, and the given names that lead to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// Kernel name; if the kernel does not know the drive, the given name without its partition suffix.
    pub name: String,
    /// Given names of this drive, its partitions and its other paths, in the order given; never empty.
    pub members: Vec<String>,
    /// Size of the whole drive in bytes. `None` for a file, or if unknown.
    pub size_bytes: Option<u64>,
    /// Logical sector size in bytes; `None` if unknown.
    pub min_io_bytes: Option<u32>,
    /// Why the drive was identified by its name; `None` if the kernel knows the drive.
    pub discovery_error: Option<String>,
}

/// Two names with equal keys name the same drive.
#[derive(PartialEq)]
enum DriveKey {
    /// Number of the disk; for a drive with several paths, the lowest number of its paths.
    Number(DeviceNumber),
    Name(String),
}

/// The drives of `names`, in the order in which they are first named.
pub fn drives_of(names: &[String], root: &Path) -> Vec<Drive> {
    let mut drives: Vec<(DriveKey, Drive)> = Vec::new();
    for name in names {
        let (identity, drive) = drive_of(name, root);
        match drives.iter_mut().find(|(known, _)| *known == identity) {
            Some((_, known)) => known.members.push(name.clone()),
            None => drives.push((identity, drive)),
        }
    }
    drives.into_iter().map(|(_, drive)| drive).collect()
}

fn drive_of(name: &str, root: &Path) -> (DriveKey, Drive) {
    let discovery_error = match discover(name, root) {
        Ok(facts) => return asked(name, &facts, root),
        Err(error) => error.to_string(),
    };
    // Even if a partition is absent, its disk may be present.
    let whole_disk = disk_name_of_partition(name);
    let facts = if whole_disk == name {
        None
    } else {
        discover(whole_disk, root).ok()
    };
    let (identity, drive) = asked(whole_disk, &facts.unwrap_or_default(), root);
    (
        identity,
        Drive {
            members: vec![name.to_owned()],
            discovery_error: Some(discovery_error),
            ..drive
        },
    )
}

fn asked(name: &str, facts: &DeviceFacts, root: &Path) -> (DriveKey, Drive) {
    let mut drive = Drive {
        name: facts.disk_name().unwrap_or(name).to_owned(),
        members: vec![name.to_owned()],
        size_bytes: None,
        min_io_bytes: facts.logical_sector_bytes,
        discovery_error: None,
    };
    let Some(number) = facts.disk_number() else {
        return (DriveKey::Name(name.to_owned()), drive);
    };
    let dir = SysDir::of_block(root, number);
    let size_bytes = match facts.kind {
        Kind::Partition => dir.as_ref().and_then(|dir| dir.sectors("size")),
        _ => Some(facts.size_bytes),
    };
    drive.size_bytes = size_bytes.filter(|bytes| *bytes > 0);
    let disk = dir.and_then(Disk::at);
    let paths = disks(root)
        .into_iter()
        .filter(|other| disk.as_ref().is_some_and(|disk| disk.is_same_drive(other)));
    let lowest_number = paths
        .map(|path| path.number)
        .chain([number])
        .min()
        .unwrap_or(number);
    (DriveKey::Number(lowest_number), drive)
}

/// `name` without its partition suffix by the rules of the kernel or udev: `nvme0n1p2`, `mmcblk0p1`, `loop0p1`,
/// `sdb1`, `vda3`, `.../wwn-0x5-part1`.
pub fn disk_name_of_partition(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == name.len() {
        return name;
    }
    if let Some(whole) = stem.strip_suffix("-part") {
        return whole;
    }
    let last_is_digit = |text: &str| text.ends_with(|c: char| c.is_ascii_digit());
    if let Some(whole) = stem.strip_suffix('p').filter(|whole| last_is_digit(whole)) {
        return whole;
    }
    let node = stem.rsplit('/').next().unwrap_or(stem);
    let letters = ["sd", "vd", "xvd", "hd"]
        .iter()
        .find_map(|prefix| node.strip_prefix(prefix));
    match letters {
        Some(letters) if !letters.is_empty() && letters.bytes().all(|b| b.is_ascii_lowercase()) => {
            stem
        }
        _ => name,
    }
}

/// Prefix of the kernel name (a number follows), and kind of the device. Source: `drivers/block` of the kernel.
const NAMES: [(&str, &str); 6] = [
    ("loop", "a loop device, which is a file"),
    ("zram", "a zram device, which is memory"),
    ("ram", "a RAM disk"),
    ("nullb", "a null block device, which stores nothing"),
    ("nbd", "a network block device, which a program serves"),
    ("ublkb", "a ublk device, which a program serves"),
];

/// Model name of `scsi_debug` disks, which are memory.
const SCSI_DEBUG: &str = "scsi_debug";

/// Why the device of `facts` is not a drive: `/dev/loop3 is a loop device, which is a file`. A device built on such a
/// device is not a drive either. `None` if the device counts as a drive.
pub fn why_not_a_drive(facts: &DeviceFacts, root: &Path) -> Option<String> {
    if facts
        .model
        .as_deref()
        .is_some_and(|model| model.starts_with(SCSI_DEBUG))
    {
        return Some(format!(
            "{} is a {SCSI_DEBUG} disk, which is memory",
            facts.path
        ));
    }
    if let Some(what) = by_name(facts.disk_name().unwrap_or_default()) {
        return Some(format!("{} is {what}", facts.path));
    }
    let (below, what) = beneath(
        &SysDir::of_block(root, facts.disk_number()?)?,
        root,
        STACK_DEPTH_MAX,
    )?;
    Some(format!("{} lies on {below}, {what}", facts.path))
}

fn by_name(kernel_name: &str) -> Option<&'static str> {
    NAMES
        .iter()
        .find(|(prefix, _)| is_numbered(kernel_name, prefix))
        .map(|(_, what)| *what)
}

/// Name and kind of the first device below `dir` that is not a drive.
fn beneath(dir: &SysDir, root: &Path, depth: u32) -> Option<(String, &'static str)> {
    let depth = depth.checked_sub(1)?;
    dir.below("slaves")
        .find_map(|slave| match by_name(&slave.name()) {
            Some(what) => Some((slave.name(), what)),
            None => beneath(&SysDir::of_block(root, slave.dev()?)?, root, depth),
        })
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::super::facts::{disks_beneath, unknown_facts};
    use super::super::tests::fake_nvme;
    use super::*;
    use crate::fake_tree::FakeTree;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn partitions_are_distinguished_from_disks_by_their_names() {
        for (name, whole) in [
            ("/dev/nvme0n1p2", "/dev/nvme0n1"),
            ("/dev/nvme10n12p128", "/dev/nvme10n12"),
            ("/dev/nvme0n1", "/dev/nvme0n1"),
            ("/dev/sdb1", "/dev/sdb"),
            ("/dev/sdaa12", "/dev/sdaa"),
            ("/dev/sdb", "/dev/sdb"),
            ("/dev/xvdf3", "/dev/xvdf"),
            ("/dev/mmcblk0p1", "/dev/mmcblk0"),
            ("/dev/loop7", "/dev/loop7"),
            ("/dev/loop7p1", "/dev/loop7"),
            ("/dev/md0p3", "/dev/md0"),
            ("/dev/dm-3", "/dev/dm-3"),
            ("/dev/zram0", "/dev/zram0"),
            (
                "/dev/disk/by-id/wwn-0x5000-part2",
                "/dev/disk/by-id/wwn-0x5000",
            ),
            ("/data/snap1", "/data/snap1"),
            ("/data/sd1", "/data/sd1"),
            ("7", "7"),
            ("", ""),
        ] {
            assert_eq!(disk_name_of_partition(name), whole, "{name}");
        }
    }

    #[test]
    fn partitions_of_one_absent_drive_are_one_drive_with_a_discovery_error() {
        let given = names(&["/dev/nvme90n1p1", "/dev/nvme91n1", "/dev/nvme90n1p2"]);
        let drives = drives_of(&given, Path::new("/"));
        assert_eq!(drives.len(), 2);
        assert_eq!(drives[0].name.as_str(), "/dev/nvme90n1");
        assert_eq!(drives[0].members.len(), 2);
        assert_eq!(drives[0].size_bytes, None);
        let why = drives[0].discovery_error.as_deref().unwrap();
        assert!(why.starts_with("there is no such device"), "{why}");
    }

    #[test]
    fn a_partition_resolves_to_the_drive_of_its_disk_with_name_and_size() {
        let tree = FakeTree::with_files(&[]);
        fake_nvme(&tree);
        let root = tree.root();
        let fact = |minor| {
            super::super::discover_block_for_tests(DeviceNumber { major: 259, minor }, root)
        };
        let disk = asked("/dev/x", &fact(0), root);
        let part = asked("/dev/by-uuid/y", &fact(2), root);
        assert!(disk.0 == part.0, "one drive");
        for (_, drive) in [disk, part] {
            assert_eq!(drive.name.as_str(), "nvme0n1");
            assert_eq!(drive.size_bytes, Some(2000 * 512));
            assert_eq!(drive.min_io_bytes, Some(512));
            assert_eq!(drive.discovery_error, None);
        }
    }

    #[test]
    fn two_paths_to_a_drive_resolve_to_one_drive() {
        let tree = FakeTree::with_files(&[]);
        let root = tree.root();
        for (name, number, wwid) in [
            ("sda", "8:0", "naa.5000c500a1b2c3d4"),
            ("sdb", "8:16", "naa.5000c500a1b2c3d4"),
            ("sdc", "8:32", "naa.5000c500a1b2c3d5"),
        ] {
            let disk = format!("sys/devices/{name}");
            tree.write_all(
                &disk,
                &[("dev", number), ("size", "2000"), ("device/wwid", wwid)],
            );
            tree.link(format!("sys/block/{name}"), &disk);
            tree.block(number, &disk);
        }
        let drive = |minor| {
            let facts =
                super::super::discover_block_for_tests(DeviceNumber { major: 8, minor }, root);
            asked("/dev/x", &facts, root).0
        };
        assert!(drive(0) == drive(16) && drive(0) != drive(32));
    }

    #[test]
    fn each_file_counts_as_a_separate_drive() {
        let files = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
        let paths = files.each_ref().map(|file| file.path().to_str().unwrap());
        let drives = drives_of(&names(&paths), Path::new("/"));
        assert_eq!(drives.len(), 2);
        assert_eq!(drives[1].size_bytes, None);
        assert_eq!(&drives[1].discovery_error, &None);
    }

    fn named(kernel_name: &str) -> DeviceFacts {
        DeviceFacts {
            kernel_name: Some(kernel_name.to_owned()),
            ..unknown_facts(&format!("/dev/{kernel_name}"), Kind::WholeDisk)
        }
    }

    #[test]
    fn devices_backed_by_files_memory_or_programs_are_not_drives_but_disks_are() {
        let of = |kernel_name| why_not_a_drive(&named(kernel_name), Path::new("/"));
        assert_eq!(
            of("loop3").as_deref(),
            Some("/dev/loop3 is a loop device, which is a file")
        );
        for name in ["zram5", "ram0", "nullb0", "nbd2", "ublkb1"] {
            assert!(of(name).is_some(), "{name}");
        }
        for name in [
            "nvme0n1", "sda", "vda", "xvdf", "md127", "dm-0", "ramble", "loopy", "",
        ] {
            assert_eq!(of(name), None, "{name}");
        }
        let scsi = DeviceFacts {
            model: Some("scsi_debug".into()),
            ..named("sdb")
        };
        assert!(why_not_a_drive(&scsi, Path::new("/")).is_some());
    }

    #[test]
    fn a_device_built_on_loop_devices_is_no_drive() {
        let tree = FakeTree::with_files(&[]);
        for (disk, number, below) in [("dm-9", "252:9", "dm-8"), ("dm-8", "252:8", "loop7p1")] {
            let dir = |name: &str| format!("sys/devices/virtual/block/{name}");
            tree.write(format!("{}/dev", dir(disk)), number);
            tree.block(number, &dir(disk));
            tree.link(format!("{}/slaves/{below}", dir(disk)), dir(below));
        }
        let root = tree.root();
        let stacked = DeviceFacts {
            number: DeviceNumber::parse("252:9"),
            ..named("dm-9")
        };
        let why = why_not_a_drive(&stacked, root);
        assert_eq!(
            why.as_deref(),
            Some("/dev/dm-9 lies on loop7p1, a loop device, which is a file")
        );
    }

    #[test]
    fn disks_at_the_bottom_of_lvm_on_raid_are_found_once() {
        let tree = FakeTree::with_files(&[]);
        let slaves: [(&str, &str, &[&str]); 4] = [
            ("dm-0", "252:0", &["md0", "sdb"]),
            ("md0", "9:0", &["sda", "sdb"]),
            ("sda", "8:0", &[]),
            ("sdb", "8:16", &[]),
        ];
        for (disk, number, below) in slaves {
            let dir = |name: &str| format!("sys/devices/virtual/block/{name}");
            tree.write(format!("{}/dev", dir(disk)), number);
            tree.block(number, &dir(disk));
            for below in below {
                tree.link(format!("{}/slaves/{below}", dir(disk)), dir(below));
            }
        }
        let disks = disks_beneath(DeviceNumber::parse("252:0").unwrap(), tree.root());
        let names: Vec<_> = disks
            .iter()
            .filter_map(|disk| disk.kernel_name.as_deref())
            .collect();
        assert_eq!(names, ["sda", "sdb"]);
    }
}
