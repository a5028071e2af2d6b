//! Facts about a device, for the run directory and for the guard.
//!
//! A path is resolved to a device (`/dev/disk/by-id/...` to the disk); sysfs has the facts about that device. Unknown
//! facts are `None`, never guessed. This module only reads; [`crate::guard`] judges the facts.
//!
//! An NVMe character device (`/dev/ng0n1`) resolves to the block device of its namespace, so the same rules apply.

mod drives;
mod facts;
mod sysfs;

pub(crate) use crate::discover;
pub use drives::{Drive, disk_name_of_partition, drives_of, why_not_a_drive};
pub use facts::{DeviceFacts, LoopBacking, Partition, disks_beneath};
pub(crate) use facts::{changes_since, facts_of, is_zoned, known_block, unknown_facts};
use results::files::{file_type_name, stable_path};
pub use results::run_dir::DeviceKind as Kind;
use serde::Serialize;
use std::fs::{self, File, Metadata};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fmt, io};
use sys::buffer::Pool;
pub(crate) use sysfs::{
    Backing, Disk, LoopDevice, SysDir, controller_names, controllers, disks, loops, unescape,
};
pub use sysfs::{DiskWithPartitions, list, queue_attribute};
use thiserror::Error;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceNumber {
    /// Major number: the driver.
    pub major: u32,
    /// Minor number: the device within its driver.
    pub minor: u32,
}

impl DeviceNumber {
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Splits `st_dev` or `st_rdev` of `stat`.
    pub fn of_stat(number: u64) -> Self {
        #[allow(clippy::unnecessary_cast)]
        // The result of `major` and `minor` is signed in one C library, and unsigned in another.
        Self {
            major: libc::major(number) as u32,
            minor: libc::minor(number) as u32,
        }
    }

    /// Reads `major:minor` as the kernel prints it in /proc and /sys.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }

    /// `major,minor`, as in the kernel's traces.
    pub fn traced(self) -> String {
        format!("{},{}", self.major, self.minor)
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl Serialize for DeviceNumber {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Debug, Error)]
pub enum DiscoverError {
    #[error("there is no such device or file; check the name (`lsblk -d` lists the disks)")]
    NotFound,
    #[error(
        "{PLACEHOLDER} is a placeholder from flashproof's examples, not a device; replace it with your device's name \
         (`flashproof doctor` lists the devices)"
    )]
    Placeholder,
    /// Neither the file nor its folder exists.
    #[error("its folder {} does not exist; create it, or check the path", folder.display())]
    NoFolder { folder: PathBuf },
    #[error("it is a link to {}, which does not exist; correct the link, or remove it", target.display())]
    DanglingLink { target: PathBuf },
    /// Not a device or file: `a directory`, `a character device`...
    #[error(
        "it is {what}, not a block device; name a whole disk, a partition, or a file with its size (file-size-mbytes, or size in a fio job)"
    )]
    NotADevice { what: &'static str },
    #[error(
        "no permission to {tried} ({source}); run as root, or as a member of the group that owns the device"
    )]
    NoPermission {
        tried: &'static str,
        source: io::Error,
    },
    #[error(
        "block device {number} has no entry under {root}; mount sysfs there (a container may hide it)"
    )]
    NoSysfs { number: DeviceNumber, root: PathBuf },
    #[error(
        "cannot {tried} ({source}); {}",
        sys::remedy(source, "look at the kernel log (dmesg) for the reason")
    )]
    Io {
        tried: &'static str,
        source: io::Error,
    },
}

/// Last part of the device's name in examples and derived configurations.
const PLACEHOLDER: &str = "PUT-YOUR-DRIVE-HERE";

impl DiscoverError {
    pub(crate) fn io(tried: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied => Self::NoPermission { tried, source },
            _ => Self::Io { tried, source },
        }
    }
}

/// `root`: parent of the kernel's file systems, `/` except in tests.
pub fn discover(path: &str, root: &Path) -> Result<DeviceFacts, DiscoverError> {
    facts_of(path, &resolve(Path::new(path), root)?, root)
}

/// Minimum size of a direct read: the smallest of 512, 1024, 2048 and 4096 bytes with which a read at offset 0
/// succeeds. `fd` must be open with `O_DIRECT`.
///
/// Errors: the error of the read of 4096 bytes. ACT finds its minimum in the same way.
pub fn min_direct_io_bytes(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let file = File::from(fd.try_clone_to_owned()?);
    let mut buf = Pool::new(4096)?
        .cut(4096)
        .ok_or(io::ErrorKind::OutOfMemory)?;
    let mut size = 512;
    loop {
        match file.read_at(&mut buf[..size], 0) {
            Ok(_) => return Ok(size as u32),
            Err(error) if size == buf.len() => return Err(error),
            Err(_) => size *= 2,
        }
    }
}

#[cfg(test)]
pub(crate) fn discover_block_for_tests(number: DeviceNumber, root: &Path) -> DeviceFacts {
    facts_of(
        "/dev/fake",
        &Resolved::Block {
            number,
            node: PathBuf::from("/nowhere"),
        },
        root,
    )
    .unwrap()
}

#[derive(Debug, Clone)]
pub(crate) enum Resolved {
    Block {
        number: DeviceNumber,
        /// Node to open: the given path; for a character device, the node of its block device.
        node: PathBuf,
    },
    File {
        metadata: Metadata,
    },
}

/// `major:minor:inode`.
pub(crate) fn file_identity(metadata: &Metadata) -> String {
    format!(
        "{}:{}",
        DeviceNumber::of_stat(metadata.dev()),
        metadata.ino()
    )
}

pub(crate) fn resolve(path: &Path, root: &Path) -> Result<Resolved, DiscoverError> {
    let metadata = fs::metadata(stable_path(path)).map_err(|source| why_not(path, source))?;
    let kind = metadata.file_type();
    let number = DeviceNumber::of_stat(metadata.rdev());
    if kind.is_block_device() {
        return Ok(Resolved::Block {
            number,
            node: path.to_path_buf(),
        });
    }
    if kind.is_file() {
        return Ok(Resolved::File { metadata });
    }
    if kind.is_char_device()
        && let Some(name) = block_name_of_generic(number, root)
        && let Some(number) = SysDir::of_name(&name, root).dev()
    {
        return Ok(Resolved::Block {
            number,
            node: Path::new("/dev").join(name),
        });
    }
    Err(DiscoverError::NotADevice {
        what: file_type_name(metadata.mode()),
    })
}

fn why_not(path: &Path, source: io::Error) -> DiscoverError {
    if source.kind() == io::ErrorKind::NotFound {
        if path.ends_with(PLACEHOLDER) {
            return DiscoverError::Placeholder;
        }
        if let Ok(target) = fs::read_link(path) {
            return DiscoverError::DanglingLink { target };
        }
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.exists()) {
            return DiscoverError::NoFolder {
                folder: folder.to_owned(),
            };
        }
    }
    DiscoverError::io("look it up", source)
}

/// Name of the block device (`nvme0n1`) of the namespace behind the NVMe character device `number` (`ng0n1`).
pub(crate) fn block_name_of_generic(number: DeviceNumber, root: &Path) -> Option<String> {
    let link = fs::canonicalize(root.join("sys/dev/char").join(number.to_string())).ok()?;
    let rest = link.file_name()?.to_str()?.strip_prefix("ng")?;
    rest.starts_with(|c: char| c.is_ascii_digit())
        .then(|| format!("nvme{rest}"))
}

/// Number of the NVMe character device (`ng0n1`) beside the block device `name` (`nvme0n1`).
pub(crate) fn generic_of_block(name: &str, root: &Path) -> Option<DeviceNumber> {
    let generic = format!("ng{}", name.strip_prefix("nvme")?);
    SysDir::new(root.join("sys/class/nvme-generic").join(generic)).dev()
}

#[cfg(test)]
pub(crate) mod tests;
