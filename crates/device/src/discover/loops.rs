//! The loop devices of this machine, and what each of them shows as a disk.

use super::facts::open_to_ask;
use super::{DevNum, Roots, SysDir};
use std::fs::{self, Metadata};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use sys::ioctl;

/// A loop device with something behind it.
#[derive(Debug, Clone)]
pub(crate) struct LoopDevice {
    /// Its number.
    pub(crate) number: DevNum,
    /// Its directory in sysfs.
    pub(crate) dir: SysDir,
    /// The path behind it, as it was when the loop device was set up.
    pub(crate) path: String,
    /// What is behind it.
    pub(crate) backing: Backing,
    /// The part of that which it shows.
    pub(crate) bytes: Range<u64>,
}

/// What a loop device shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    /// A file.
    File {
        /// Number of the file system that it lies on.
        device: DevNum,
        /// Its inode there.
        inode: u64,
    },
    /// A block device.
    Device(DevNum),
    /// It could not be looked at.
    Unknown,
}

/// All loop devices that show something.
pub(crate) fn loops(roots: &Roots) -> Vec<LoopDevice> {
    let entries = fs::read_dir(roots.sys.join("block")).into_iter().flatten().flatten();
    entries.filter_map(|entry| loop_at(&SysDir::new(fs::canonicalize(entry.path()).ok()?), roots)).collect()
}

fn loop_at(dir: &SysDir, roots: &Roots) -> Option<LoopDevice> {
    let attributes = dir.child("loop");
    let path = attributes.text("backing_file")?;
    let number = dir.dev()?;
    let start: u64 = attributes.number("offset").unwrap_or(0);
    let len = dir.number::<u64>("size").map_or(u64::MAX, |sectors| sectors.saturating_mul(512));
    let backing = by_driver(&roots.dev.join(dir.node_name()), number)
        .or_else(|| fs::metadata(&path).ok().map(|metadata| by_metadata(&metadata)))
        .unwrap_or(Backing::Unknown);
    Some(LoopDevice { number, dir: dir.clone(), path, backing, bytes: start..start.saturating_add(len) })
}

/// What the driver says. The path could meanwhile be that of another file, or of none that is seen from here.
fn by_driver(node: &Path, number: DevNum) -> Option<Backing> {
    let device = open_to_ask(node)?;
    let metadata = device.metadata().ok()?;
    if !metadata.file_type().is_block_device() || DevNum::of_stat(metadata.rdev()) != number {
        return None;
    }
    let file = ioctl::loop_file(device.as_fd()).ok()?;
    Some(match file.rdevice {
        0 => Backing::File { device: DevNum::of_stat(file.device), inode: file.inode },
        rdevice => Backing::Device(DevNum::of_stat(rdevice)),
    })
}

fn by_metadata(metadata: &Metadata) -> Backing {
    match metadata.file_type().is_block_device() {
        true => Backing::Device(DevNum::of_stat(metadata.rdev())),
        false => Backing::File { device: DevNum::of_stat(metadata.dev()), inode: metadata.ino() },
    }
}
