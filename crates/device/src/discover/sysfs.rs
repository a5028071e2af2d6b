//! Reads attributes from sysfs. The root of the file system is a parameter, so that tests can build a fake tree.
//!
//! An attribute that is missing, empty or unparsable is `None`: drivers differ in their attributes, and unknown values
//! are never guessed.
//!
//! In sysfs the directory of an NVMe drive with one path is below its controller. The directory of a drive with several
//! paths is below its subsystem, which links to all controllers of the drive.

use super::DeviceNumber;
use results::format::natural_key;
use std::fs::{self, File, Metadata, OpenOptions};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use sys::ioctl;

/// Maximum depth of stacked devices (dm, md, bcache); real stacks are far lower.
pub(super) const STACK_DEPTH_MAX: u32 = 8;

#[derive(Debug, Clone)]
pub(crate) struct SysDir(PathBuf);

impl SysDir {
    /// The directory of the block device `number`, links resolved; `None` if sysfs lacks the device.
    pub(crate) fn of_block(root: &Path, number: DeviceNumber) -> Option<Self> {
        fs::canonicalize(root.join("sys/dev/block").join(number.to_string()))
            .ok()
            .map(Self)
    }

    /// The directory at `path`, which need not exist.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn of_name(name: &str, root: &Path) -> Self {
        Self(root.join("sys/class/block").join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Last component of the target of the link `name`; for `driver`, the name of the driver.
    pub(crate) fn link_name(&self, name: &str) -> Option<String> {
        let to = fs::read_link(self.0.join(name)).ok()?;
        Some(to.file_name()?.to_string_lossy().into_owned())
    }

    /// Subdirectory `name`, which need not exist.
    pub(crate) fn child(&self, name: &str) -> Self {
        Self(self.0.join(name))
    }

    pub(crate) fn parent(&self) -> Option<Self> {
        self.0.parent().map(|parent| Self(parent.to_path_buf()))
    }

    /// This directory and all directories above it, upwards.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = Self> {
        self.0.ancestors().map(|dir| Self(dir.to_path_buf()))
    }

    /// Directory of the whole disk; for a partition, the parent directory.
    pub(crate) fn disk(&self) -> Self {
        match self.text("partition") {
            Some(_) => self.parent().unwrap_or_else(|| self.clone()),
            None => self.clone(),
        }
    }

    /// Last component of the path: the kernel's name of the device.
    pub(crate) fn name(&self) -> String {
        self.0
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// Name of the device's node: `nvme0n1`, or `cciss/c0d0`, for which sysfs writes `!` instead of the slash.
    pub(crate) fn node_name(&self) -> String {
        self.name().replace('!', "/")
    }

    pub(crate) fn node(&self) -> String {
        format!("/dev/{}", self.node_name())
    }

    /// Components of the path: the buses and controllers that lead to the device.
    pub(crate) fn components(&self) -> impl DoubleEndedIterator<Item = String> + '_ {
        self.0
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
    }

    /// Entries of the directory `name`, sorted; empty if the directory is missing.
    pub(crate) fn below(&self, name: &str) -> impl Iterator<Item = Self> + use<> {
        let entries = fs::read_dir(self.0.join(name))
            .into_iter()
            .flatten()
            .flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths.into_iter().map(Self)
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = Self> + use<> {
        self.below("")
            .filter(|part| part.text("partition").is_some())
    }

    pub(crate) fn text(&self, attribute: &str) -> Option<String> {
        let bytes = fs::read(self.0.join(attribute)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, attribute: &str) -> Option<T> {
        self.text(attribute)?.parse().ok()
    }

    /// Value in bytes. sysfs counts sectors of 512 bytes, for any sector size of the device.
    pub(crate) fn sectors(&self, attribute: &str) -> Option<u64> {
        Some(self.number::<u64>(attribute)?.saturating_mul(512))
    }

    pub(crate) fn flag(&self, attribute: &str) -> Option<bool> {
        match self.number::<u8>(attribute)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// The word in brackets in text such as `none [mq-deadline] kyber`; a single word may lack the brackets.
    pub(crate) fn chosen(&self, attribute: &str) -> Option<String> {
        let text = self.text(attribute)?;
        match text
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'))
        {
            Some((chosen, _)) => Some(chosen.to_owned()),
            None => (!text.contains(' ')).then_some(text),
        }
    }

    pub(crate) fn dev(&self) -> Option<DeviceNumber> {
        DeviceNumber::parse(&self.text("dev")?)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct LoopDevice {
    pub(crate) number: DeviceNumber,
    pub(crate) dir: SysDir,
    /// Path of the backing when the loop device was set up.
    pub(crate) path: String,
    pub(crate) backing: Backing,
    /// Part of the backing that the loop device uses.
    pub(crate) bytes: Range<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    File {
        /// Device number of the file system that holds the file.
        device: DeviceNumber,
        inode: u64,
    },
    Device(DeviceNumber),
    Unknown,
}

pub(crate) fn loops(root: &Path) -> Vec<LoopDevice> {
    whole_disks(root)
        .filter_map(|dir| loop_at(&dir, root))
        .collect()
}

/// All block devices except partitions, links resolved.
fn whole_disks(root: &Path) -> impl Iterator<Item = SysDir> + use<> {
    let entries = fs::read_dir(root.join("sys/block"))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| fs::canonicalize(entry.path()).ok())
        .map(SysDir)
}

fn loop_at(dir: &SysDir, root: &Path) -> Option<LoopDevice> {
    let attributes = dir.child("loop");
    let path = attributes.text("backing_file")?;
    let number = dir.dev()?;
    let start: u64 = attributes.number("offset").unwrap_or(0);
    let len = dir.sectors("size").unwrap_or(u64::MAX);
    let backing = by_driver(&root.join("dev").join(dir.node_name()), number)
        .or_else(|| {
            fs::metadata(&path)
                .ok()
                .map(|metadata| by_metadata(&metadata))
        })
        .unwrap_or(Backing::Unknown);
    Some(LoopDevice {
        number,
        dir: dir.clone(),
        path,
        backing,
        bytes: start..start.saturating_add(len),
    })
}

/// Backing of a loop device, from its driver. The path in sysfs is not reliable: by now it may lead to another file, or
/// to a file outside this mount namespace.
fn by_driver(node: &Path, number: DeviceNumber) -> Option<Backing> {
    let device = open_to_ask(node)?;
    let metadata = device.metadata().ok()?;
    if !metadata.file_type().is_block_device() || DeviceNumber::of_stat(metadata.rdev()) != number {
        return None;
    }
    let file = ioctl::loop_file(device.as_fd()).ok()?;
    Some(match file.rdevice {
        0 => Backing::File {
            device: DeviceNumber::of_stat(file.device),
            inode: file.inode,
        },
        rdevice => Backing::Device(DeviceNumber::of_stat(rdevice)),
    })
}

fn by_metadata(metadata: &Metadata) -> Backing {
    if metadata.file_type().is_block_device() {
        Backing::Device(DeviceNumber::of_stat(metadata.rdev()))
    } else {
        Backing::File {
            device: DeviceNumber::of_stat(metadata.dev()),
            inode: metadata.ino(),
        }
    }
}

/// Opens a device for queries only; never waits for a medium.
pub(super) fn open_to_ask(node: &Path) -> Option<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(node)
        .ok()
}

/// Decodes the kernel's octal escapes (`\040`) of bytes that would separate fields.
pub(crate) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Attribute `name` of the queue of the block device `number`, as text; for a partition, the attribute of its disk.
/// `None` if sysfs lacks the attribute.
pub fn queue_attribute(number: DeviceNumber, name: &str, root: &Path) -> Option<String> {
    let dir = SysDir::of_block(root, number)?;
    let of = |dir: &SysDir| dir.child("queue").text(name);
    of(&dir).or_else(|| of(&dir.parent()?))
}

/// The NVMe controllers that the subsystem of `block` links to, sorted; empty for a device without a subsystem.
/// `block`: the directory of a block device in /sys, links resolved.
pub(crate) fn controllers(block: &SysDir) -> Vec<SysDir> {
    let links = block
        .below("device")
        .filter(|dir| dir.path().is_symlink() && is_controller(&dir.name()));
    let mut paths: Vec<PathBuf> = links
        .filter_map(|link| fs::canonicalize(link.path()).ok())
        .collect();
    paths.sort_unstable();
    paths.into_iter().map(SysDir).collect()
}

/// True if `text` is `prefix` followed by a digit, and anything after it: `loop0`, `ata3`, `nvme0n1`.
pub(super) fn is_numbered(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix)
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// True for the name of a controller (`nvme0`), false for a namespace (`nvme0n1`).
fn is_controller(name: &str) -> bool {
    name.strip_prefix("nvme")
        .is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Names of the controllers of `block`: the nearest controller above it in sysfs, or all controllers of its subsystem.
pub(crate) fn controller_names(block: &SysDir) -> Vec<String> {
    let controller = block
        .ancestors()
        .skip(1)
        .map(|dir| dir.name())
        .find(|name| is_controller(name));
    controller.map_or_else(
        || controllers(block).iter().map(SysDir::name).collect(),
        |name| vec![name],
    )
}

/// A whole disk and its partitions, as names of device nodes: `/dev/sda`, `/dev/cciss/c0d0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskWithPartitions {
    pub disk: String,
    /// Partitions, in the order of their start sectors.
    pub partitions: Vec<String>,
}

/// All block devices with a size above 0, in natural order of their names (`nvme2n1` before `nvme10n1`), and the number
/// of empty devices: drives without a medium, loop devices without a file. Without sysfs the list is empty.
pub fn list(root: &Path) -> (Vec<DiskWithPartitions>, usize) {
    // The single paths of a multipath NVMe drive are hidden, and have no node.
    let shown = SysDir(root.join("sys"))
        .below("block")
        .filter(|dir| dir.flag("hidden") != Some(true));
    let mut dirs: Vec<SysDir> = shown.collect();
    dirs.sort_by_cached_key(|dir| natural_key(&dir.name()));
    let total = dirs.len();
    dirs.retain(|dir| dir.sectors("size").is_some_and(|bytes| bytes > 0));
    let empty = total - dirs.len();
    (dirs.iter().map(listed).collect(), empty)
}

fn listed(dir: &SysDir) -> DiskWithPartitions {
    let mut partitions: Vec<(u64, String)> = dir
        .partitions()
        .map(|part| (part.sectors("start").unwrap_or(0), part.node()))
        .collect();
    partitions.sort();
    DiskWithPartitions {
        disk: dir.node(),
        partitions: partitions.into_iter().map(|(_, node)| node).collect(),
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub(crate) number: DeviceNumber,
    pub(crate) dir: SysDir,
    pub(crate) serial: Option<String>,
    pub(crate) wwid: Option<String>,
}

impl Disk {
    /// `None` if the disk has no device number: a hidden path (`nvme0c1n1`) of a multipath NVMe drive.
    pub(crate) fn at(dir: SysDir) -> Option<Self> {
        Some(Self {
            number: dir.dev()?,
            serial: serial(&dir),
            wwid: wwid(&dir),
            dir,
        })
    }

    /// True if both disks are paths to one drive: two ports of the drive, with multipath switched off.
    ///
    /// The world-wide name decides. A name of zeros means that the drive has none. Different serial numbers override
    /// equal names, because some vendors give all drives the same name.
    pub(crate) fn is_same_drive(&self, other: &Self) -> bool {
        let same_name = self.wwid.is_some()
            && self.wwid == other.wwid
            && self.wwid.as_deref().is_some_and(|wwid: &str| {
                wwid.rsplit('.')
                    .next()
                    .is_some_and(|id| id.chars().any(|c| c != '0'))
            });
        same_name
            && (self.serial == other.serial || self.serial.is_none() || other.serial.is_none())
    }
}

pub(super) fn serial(disk: &SysDir) -> Option<String> {
    let device = disk.child("device");
    device
        .text("serial")
        .or_else(|| disk.text("serial"))
        .or_else(|| vpd_serial(&device))
}

pub(super) fn wwid(disk: &SysDir) -> Option<String> {
    disk.text("wwid")
        .or_else(|| disk.child("device").text("wwid"))
}

/// Serial number of a SCSI or ATA disk, from its "unit serial number" page (SPC-4, 7.8.15). Layout: a header of four
/// bytes, the last of them the length of the text; then the text.
fn vpd_serial(device: &SysDir) -> Option<String> {
    let page = fs::read(device.path().join("vpd_pg80")).ok()?;
    let text = page.get(4..)?.get(..usize::from(*page.get(3)?))?;
    let text = String::from_utf8_lossy(text)
        .trim_matches(|c: char| c.is_whitespace() || c == '\0')
        .to_owned();
    (!text.is_empty()).then_some(text)
}

pub(crate) fn disks(root: &Path) -> Vec<Disk> {
    whole_disks(root).filter_map(Disk::at).collect()
}

#[cfg(test)]
mod list_tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    #[test]
    fn disks_are_listed_in_natural_order_with_their_partitions() {
        let tree = FakeTree::with_files(&[]);
        let files = [
            ("nvme10n1/size", "8"),
            ("nvme2n1/size", "8"),
            ("nvme2n1/nvme2n1p2/partition", "2"),
            ("nvme2n1/nvme2n1p2/start", "2"),
            ("nvme2n1/nvme2n1p10/partition", "10"),
            ("nvme2n1/nvme2n1p10/start", "4"),
            ("nvme2n1/queue/scheduler", "none"),
            ("cciss!c0d0/size", "8"),
            ("nvme2c1n1/size", "8"),
            ("nvme2c1n1/hidden", "1"),
            ("loop0/size", "0"),
        ];
        tree.write_all("sys/block", &files);
        let (disks, empty) = list(tree.root());
        let names: Vec<&str> = disks.iter().map(|listed| listed.disk.as_str()).collect();
        assert_eq!(
            (names, empty),
            (vec!["/dev/cciss/c0d0", "/dev/nvme2n1", "/dev/nvme10n1"], 1)
        );
        assert_eq!(disks[1].partitions, ["/dev/nvme2n1p2", "/dev/nvme2n1p10"]);
        assert_eq!(list(&tree.path("none")), (Vec::new(), 0));
    }
}
