//! Facts about one device, read from sysfs.
//!
//! Attributes of the queue and of the hardware belong to the whole disk; a partition has the attributes of its disk.
//! Sources: `Documentation/ABI/stable/sysfs-block` and `Documentation/ABI/testing/sysfs-nvme` of the kernel.

use super::sysfs::{STACK_DEPTH_MAX, is_numbered, open_to_ask, queue_attribute, serial, wwid};
use super::{DeviceNumber, DiscoverError, Resolved, SysDir, controllers, file_identity};
use results::run_dir::DeviceKind as Kind;
use serde::Serialize;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use sys::ioctl::{self, LoopFile};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Partition {
    pub index: u32,
    pub start_bytes: u64,
    pub disk: String,
    pub disk_number: DeviceNumber,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoopBacking {
    /// Path, as the kernel reports it.
    pub file: String,
    /// `major:minor:inode+offset`; `None` if the loop driver did not answer.
    pub identity: Option<String>,
    /// True if the loop device reads and writes the file directly, past the page cache.
    pub direct_io: Option<bool>,
}

/// Facts about a device or file. `None` means unknown or not applicable.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DeviceFacts {
    pub path: String,
    pub kernel_name: Option<String>,
    pub number: Option<DeviceNumber>,
    pub kind: Kind,
    pub size_bytes: u64,
    /// Smallest addressable unit, bytes; for a file, the value of the disk below.
    pub logical_sector_bytes: Option<u32>,
    /// Smallest write that the drive performs without read-modify-write, bytes.
    pub physical_sector_bytes: Option<u32>,
    pub model: Option<String>,
    pub serial: Option<String>,
    pub firmware: Option<String>,
    /// World-wide name; for an NVMe drive, the name of the namespace.
    pub wwid: Option<String>,
    pub nsid: Option<u32>,
    /// Attachment: `nvme-pcie`, `sata`, `sas`, `usb`, `virtio`...
    pub transport: Option<String>,
    /// True if the device reports that it is a hard disk (`queue/rotational`).
    pub rotational: Option<bool>,
    pub scheduler: Option<String>,
    /// Maximum number of requests in each hardware queue, or in the scheduler in front of the queue (`nr_requests`).
    pub queue_requests_max: Option<u32>,
    /// Number of hardware queues; `None` for drivers without hardware queues (device-mapper, RAM disks).
    pub hardware_queues: Option<u32>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// True if the device supports FUA: single writes that are durable without a flush.
    pub fua: Option<bool>,
    /// Largest write that is never torn, bytes; 0: none. `None` before Linux 6.13.
    pub atomic_write_bytes: Option<u64>,
    pub numa_node: Option<u32>,
    /// Largest request of the hardware, bytes.
    pub max_hw_io_bytes: Option<u64>,
    /// Largest discard, bytes; 0: discards are not supported.
    pub max_discard_bytes: Option<u64>,
    /// Number of write streams (NVMe: FDP placement handles) that writes can name; `None` before Linux 6.16.
    pub max_write_streams: Option<u16>,
    /// True if the device refuses writes.
    pub read_only: Option<bool>,
    /// The kernel's sequence number of the disk, unique until the next boot.
    pub disk_sequence: Option<u64>,
    pub dm_uuid: Option<String>,
    pub partition: Option<Partition>,
    pub loop_backing: Option<LoopBacking>,
    /// For a regular file: `major:minor:inode`.
    pub file_identity: Option<String>,
}

impl DeviceFacts {
    /// `nvme0n1`, also for `nvme0n1p2`; `None` for a file.
    pub fn disk_name(&self) -> Option<&str> {
        self.partition
            .as_ref()
            .map(|part| part.disk.as_str())
            .or(self.kernel_name.as_deref())
    }

    /// Device number of the whole disk, also for a partition.
    pub fn disk_number(&self) -> Option<DeviceNumber> {
        self.partition
            .as_ref()
            .map(|part| part.disk_number)
            .or(self.number)
    }

    pub fn is_nvme(&self) -> bool {
        self.disk_name()
            .is_some_and(|name| name.starts_with("nvme"))
    }

    /// `nvme0n1, Samsung SSD 990 PRO`; `None` if neither is known.
    pub fn name_and_model(&self) -> Option<String> {
        let parts = [
            self.kernel_name.clone(),
            self.model.as_ref().map(|model| model.trim().to_owned()),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Identity of the device, the same after a reboot; `None` for devices without such an identity (zram, RAM disks).
    ///
    /// The world-wide name has priority, because the namespaces of an NVMe drive share one serial number.
    pub fn identity(&self) -> Option<String> {
        if let Some(file) = &self.file_identity {
            return Some(format!("file {file}"));
        }
        let disk = if let Some(backing) = &self.loop_backing {
            format!("loop {}", backing.identity.as_ref()?)
        } else if let Some(wwid) = &self.wwid {
            format!("wwid {wwid}")
        } else if let Some(serial) = &self.serial {
            let nsid = self
                .nsid
                .map(|nsid| format!(" nsid {nsid}"))
                .unwrap_or_default();
            format!("serial {serial}{nsid}")
        } else {
            format!("dm {}", self.dm_uuid.as_ref()?)
        };
        Some(match &self.partition {
            Some(part) => format!("{disk} partition {} at {}", part.index, part.start_bytes),
            None => disk,
        })
    }

    /// True if the identity (world-wide name or serial number) stays with the drive. Otherwise the identity can pass to
    /// another object: a new file can get the inode of a deleted file, and a volume can move to another drive.
    pub fn has_own_name(&self) -> bool {
        let is_place = self.file_identity.is_some() || self.loop_backing.is_some();
        !is_place && (self.wwid.is_some() || self.serial.is_some())
    }
}

pub(crate) fn facts_of(
    path: &str,
    resolved: &Resolved,
    root: &Path,
) -> Result<DeviceFacts, DiscoverError> {
    match resolved {
        Resolved::File { metadata } => Ok(DeviceFacts {
            file_identity: Some(file_identity(metadata)),
            size_bytes: metadata.len(),
            // `None` for a file system that does not lie on exactly one block device (tmpfs, btrfs, NFS).
            logical_sector_bytes: queue_attribute(
                DeviceNumber::of_stat(metadata.dev()),
                "logical_block_size",
                root,
            )
            .and_then(|bytes| bytes.parse().ok()),
            ..unknown_facts(path, Kind::RegularFile)
        }),
        Resolved::Block { number, node } => {
            let dir = known_block(*number, root)?;
            let loop_identity = open_to_ask(node).and_then(|device| loop_identity(device.as_fd()));
            Ok(of_block(path, *number, &dir, loop_identity.as_deref()))
        }
    }
}

/// True if writes must go to the write pointers of zones (`host-managed`).
pub(crate) fn is_zoned(device: &DeviceFacts, root: &Path) -> bool {
    let model = device
        .number
        .and_then(|number| queue_attribute(number, "zoned", root));
    model.is_some_and(|model| model == "host-managed")
}

pub(crate) fn known_block(number: DeviceNumber, root: &Path) -> Result<SysDir, DiscoverError> {
    SysDir::of_block(root, number).ok_or_else(|| DiscoverError::NoSysfs {
        number,
        root: root.join("sys"),
    })
}

/// Disks that hold the data of the block device or file system `number`: the device itself, or all disks at the bottom
/// of a stack of dm and md devices. Empty for file systems without their own block device (tmpfs, overlay, btrfs, NFS).
pub fn disks_beneath(number: DeviceNumber, root: &Path) -> Vec<DeviceFacts> {
    let mut disks = Vec::new();
    add_disks_beneath(number, root, STACK_DEPTH_MAX, &mut disks);
    disks
}

fn add_disks_beneath(number: DeviceNumber, root: &Path, depth: u32, disks: &mut Vec<DeviceFacts>) {
    let Some(dir) = SysDir::of_block(root, number) else {
        return;
    };
    // A partition of an md device has no slaves of its own.
    let slaves: Vec<DeviceNumber> = dir
        .disk()
        .below("slaves")
        .filter_map(|slave| slave.dev())
        .collect();
    if slaves.is_empty() || depth == 0 {
        let disk = of_block(&format!("/dev/{}", dir.name()), number, &dir, None);
        if disks.iter().all(|other| other.number != disk.number) {
            disks.push(disk);
        }
    }
    for number in slaves.into_iter().filter(|_| depth > 0) {
        add_disks_beneath(number, root, depth - 1, disks);
    }
}

pub(crate) fn unknown_facts(path: &str, kind: Kind) -> DeviceFacts {
    DeviceFacts {
        path: path.to_owned(),
        kind,
        ..DeviceFacts::default()
    }
}

/// Facts of the block device at `dir`; `loop_identity`: identity of a loop device's backing file, from the loop driver.
fn of_block(
    path: &str,
    number: DeviceNumber,
    dir: &SysDir,
    loop_identity: Option<&str>,
) -> DeviceFacts {
    let partition = partition_at(dir);
    let disk = dir.disk();
    let kind = if partition.is_some() {
        Kind::Partition
    } else {
        Kind::WholeDisk
    };
    let queue = disk.child("queue");
    let device = disk.child("device");
    // A multipath namespace has no request limits, bus and NUMA node of its own, so take those of its first path.
    let driven = path_disk(&disk).unwrap_or_else(|| disk.clone());
    let driven_device = driven.child("device");
    DeviceFacts {
        kernel_name: Some(dir.name()),
        number: Some(number),
        size_bytes: dir.sectors("size").unwrap_or(0),
        logical_sector_bytes: queue.number("logical_block_size"),
        physical_sector_bytes: queue.number("physical_block_size"),
        model: device.text("model"),
        serial: serial(&disk),
        firmware: device.text("firmware_rev").or_else(|| device.text("rev")),
        wwid: wwid(&disk),
        nsid: disk.number("nsid"),
        transport: transport(&driven, &driven_device),
        rotational: queue.flag("rotational"),
        scheduler: queue.chosen("scheduler"),
        queue_requests_max: driven.child("queue").number("nr_requests"),
        hardware_queues: u32::try_from(driven.below("mq").count())
            .ok()
            .filter(|queues| *queues > 0),
        write_cache: queue.text("write_cache"),
        fua: queue.flag("fua"),
        atomic_write_bytes: queue.number("atomic_write_unit_max_bytes"),
        numa_node: numa_node(&driven, &driven_device),
        max_discard_bytes: queue.number("discard_max_bytes"),
        max_write_streams: queue.number("max_write_streams"),
        max_hw_io_bytes: queue
            .number::<u64>("max_hw_sectors_kb")
            .map(|kib| kib * 1024),
        read_only: dir.flag("ro"),
        disk_sequence: disk.number("diskseq"),
        dm_uuid: disk.child("dm").text("uuid"),
        loop_backing: disk
            .child("loop")
            .text("backing_file")
            .map(|file| LoopBacking {
                file,
                identity: loop_identity.map(str::to_owned),
                direct_io: disk.child("loop").flag("dio"),
            }),
        partition,
        ..unknown_facts(path, kind)
    }
}

/// Disk of the first path (`nvme0c1n1`) of an NVMe namespace (`nvme0n1`) that may have several paths. The path's disk
/// is hidden and has the driver's attributes. Source: `drivers/nvme/host/multipath.c` of the kernel;
/// `nvme_set_disk_name` in `core.c`.
fn path_disk(disk: &SysDir) -> Option<SysDir> {
    let name = disk.name();
    let (subsystem, namespace) = name.rsplit_once('n')?;
    controllers(disk).into_iter().find_map(|dir| {
        dir.below("").find(|dir: &SysDir| {
            let name = dir.name();
            let between = name
                .strip_prefix(subsystem)
                .and_then(|rest| rest.strip_prefix('c')?.rsplit_once('n'));
            between.is_some_and(|(controller, of)| {
                of == namespace && controller.parse::<u32>().is_ok()
            })
        })
    })
}

/// `None` for a whole disk.
fn partition_at(dir: &SysDir) -> Option<Partition> {
    let disk = dir.parent()?;
    Some(Partition {
        index: dir.number("partition")?,
        start_bytes: dir.sectors("start")?,
        disk: disk.name(),
        disk_number: disk.dev()?,
    })
}

/// Attachment of the disk: reported by the driver, or derived from the buses in its sysfs path.
fn transport(disk: &SysDir, device: &SysDir) -> Option<String> {
    if let Some(name) = device.text("transport") {
        return Some(format!("nvme-{name}"));
    }
    // In order of priority: a SATA disk behind a USB bridge is a USB disk to the host.
    const BUSES: [(&str, &str); 5] = [
        ("usb", "usb"),
        ("end_device-", "sas"),
        ("ata", "sata"),
        ("virtio", "virtio"),
        ("nvme", "nvme"),
    ];
    let path_parts: Vec<String> = disk.components().collect();
    let parent_parts = &path_parts[..path_parts.len().saturating_sub(1)];
    BUSES
        .iter()
        .find(|(prefix, _)| parent_parts.iter().any(|part| is_numbered(part, prefix)))
        .map(|(_, name)| (*name).to_owned())
}

/// NUMA node of the nearest ancestor device that reports a node; `None` if it reports -1 (no NUMA nodes).
fn numa_node(disk: &SysDir, device: &SysDir) -> Option<u32> {
    let mut above = std::iter::once(device.clone()).chain(disk.ancestors().skip(1));
    above
        .find_map(|dir| dir.number::<i64>("numa_node"))
        .and_then(|node| u32::try_from(node).ok())
}

/// `major:minor:inode+offset`, from the loop driver, because the path in sysfs may lead to another file by now.
fn loop_identity(device: BorrowedFd<'_>) -> Option<String> {
    let LoopFile {
        device,
        inode,
        offset_bytes,
        ..
    } = ioctl::loop_file(device).ok()?;
    Some(format!(
        "{}:{inode}+{offset_bytes}",
        DeviceNumber::of_stat(device)
    ))
}

/// How the open device differs from the `facts` read before the open; `None` if both are the same device. In the
/// meantime a drive may be replaced, a namespace recreated, or a loop device attached to another file. The same node,
/// and even the same device number, then lead to another device.
pub(crate) fn changes_since(facts: &DeviceFacts, device: &File, root: &Path) -> Option<String> {
    let metadata = device
        .metadata()
        .ok()
        .filter(|metadata| metadata.file_type().is_block_device());
    let Some(number) = metadata.map(|metadata| DeviceNumber::of_stat(metadata.rdev())) else {
        return Some("it is no longer a block device".to_owned());
    };
    if let Some(before) = facts.number.filter(|before| *before != number) {
        return Some(format!(
            "its device number was {before} and is {number} now"
        ));
    }
    // Kernels before 5.15 have no disk sequence number.
    if let (Some(before), Ok(now)) = (facts.disk_sequence, ioctl::disk_sequence(device.as_fd()))
        && before != now
    {
        return Some(format!(
            "another disk took its place (sequence number {before} before, {now} now)"
        ));
    }
    let Some(dir) = SysDir::of_block(root, number) else {
        return Some("it is no longer there".to_owned());
    };
    let now = of_block(
        &facts.path,
        number,
        &dir,
        loop_identity(device.as_fd()).as_deref(),
    )
    .identity();
    let before = facts.identity();
    if now == before {
        return None;
    }
    let unnamed = || "a device without a lasting name".to_owned();
    Some(format!(
        "it was {} and is {} now",
        before.unwrap_or_else(unnamed),
        now.unwrap_or_else(unnamed)
    ))
}
