//! The character device of an NVMe namespace (`/dev/ng0n1`): a second path to a block device that is already open.
//!
//! The guard examined and claimed the block device, which stays open. Names do not prove that both devices are the same
//! namespace, so the device number, the namespace identifier and the drive's identifiers are compared. Commands bypass
//! the block layer, and so its checks of partition bounds, block alignment and queue limits. The caller must make these
//! checks, with the values in [`OpenNamespace`].

use crate::discover::{DeviceNumber, Kind, generic_of_block, queue_attribute};
use crate::observe::nvme::{self, fdp};
use crate::target::Target;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use sys::nvme::ring::{BLOCKS_MAX, OpenNamespace};
use sys::nvme::{IDENTIFY_BYTES, Query, QueryError, namespace_id, query_bytes};
use thiserror::Error;

/// Transfer limit if the kernel reports no limit of the queue, bytes. Every NVMe drive seen so far accepts this size.
const TRANSFER_BYTES: u64 = 128 << 10;

/// Page size with which the kernel counts the segments of a transfer.
const PAGE_BYTES: u64 = 4096;

/// Why commands cannot be sent to a device. One line.
#[derive(Debug, Error)]
#[error("cannot send NVMe commands to {device} - {reason}")]
pub struct GenericError {
    pub device: String,
    #[source]
    pub reason: GenericReason,
}

#[derive(Debug, Error)]
pub enum GenericReason {
    /// A file, or a disk of another kind.
    #[error("it is not an NVMe namespace; set engine: uring, or name an NVMe drive")]
    NotNvme,
    #[error(
        "the kernel has no character device {name} for it (the kernel is older than Linux 5.13, or the drive is gone); set engine: uring"
    )]
    NoCharDevice { name: String },
    #[error("its character device has no node /dev/{name}, which udev normally creates; create it: mknod /dev/{name} c {} {}", number.major, number.minor)]
    NoNode { name: String, number: DeviceNumber },
    #[error(
        "/dev/{name} is not its character device: {what}; look at /dev/{name} and at /sys/class/nvme-generic/{name}, and remove the node if it is stale"
    )]
    OtherDevice { name: String, what: String },
    #[error(
        "its blocks of {block_bytes} bytes carry {metadata_bytes} bytes of metadata each, which this engine does not write; set engine: uring"
    )]
    Metadata {
        block_bytes: u32,
        metadata_bytes: u16,
    },
    #[error("cannot {tried} ({source}); run as root")]
    Refused { tried: String, source: QueryError },
}

#[derive(Debug)]
pub struct NvmeGeneric {
    file: File,
    name: String,
    namespace: OpenNamespace,
}

impl NvmeGeneric {
    /// `target` must stay open while the result is in use.
    pub fn open(target: &Target) -> Result<Self, GenericError> {
        Self::open_below(target, Path::new("/")).map_err(|reason| GenericError {
            device: target.name().to_owned(),
            reason,
        })
    }

    fn open_below(target: &Target, root: &Path) -> Result<Self, GenericReason> {
        let facts = target.facts();
        let disk = facts.disk_name().unwrap_or_default();
        let name = match disk.strip_prefix("nvme") {
            Some(rest) if facts.kind != Kind::RegularFile => format!("ng{rest}"),
            _ => return Err(GenericReason::NotNvme),
        };
        let Some(number) = generic_of_block(disk, root) else {
            return Err(GenericReason::NoCharDevice { name });
        };
        let node = format!("/dev/{name}");
        let refused = |tried: String, source| GenericReason::Refused { tried, source };
        let opened = OpenOptions::new()
            .read(true)
            .write(target.is_writable())
            .open(root.join("dev").join(&name));
        if matches!(&opened, Err(error) if error.kind() == ErrorKind::NotFound) {
            return Err(GenericReason::NoNode { name, number });
        }
        let file = opened.map_err(|error| refused(format!("open {node}"), error.into()))?;
        let difference = difference(&file, number, target)
            .map_err(|source| refused(format!("compare {node} with its block device"), source))?;
        if let Some(what) = difference {
            return Err(GenericReason::OtherDevice { name, what });
        }
        let nsid = namespace_id(file.as_fd()).map_err(|error| {
            refused(
                format!("read the namespace identifier of {node}"),
                error.into(),
            )
        })?;
        let identify = query_bytes(file.as_fd(), Query::Namespace(nsid), IDENTIFY_BYTES)
            .map_err(|source| refused(format!("read the format of {node}"), source))?;
        let nvme::NvmeNamespace {
            block_bytes,
            metadata_bytes,
            ..
        } = nvme::NvmeNamespace::parse(nsid, &identify);
        // A block size beyond 32 bits becomes 0, which differs from the block size of every block device.
        let block_bytes = u32::try_from(block_bytes).unwrap_or(0);
        if metadata_bytes != 0 {
            return Err(GenericReason::Metadata {
                block_bytes,
                metadata_bytes,
            });
        }
        if facts.logical_sector_bytes != Some(block_bytes) {
            let what =
                format!("its block size is {block_bytes} bytes, unlike that of the block device");
            return Err(GenericReason::OtherDevice { name, what });
        }
        let has_fdp = fdp::is_supported(file.as_fd())
            .map_err(|source| refused(format!("identify the controller of {node}"), source))?;
        let list = if has_fdp {
            fdp::placement_list(&file, nsid).unwrap_or_default()
        } else {
            Vec::new()
        };
        let segments = facts
            .number
            .and_then(|number| queue_attribute(number, "max_segments", root)?.parse().ok());
        let namespace = OpenNamespace {
            nsid,
            block_bytes,
            first_byte: facts.partition.as_ref().map_or(0, |part| part.start_bytes),
            transfer_bytes_max: transfer_bytes_max(facts.max_hw_io_bytes, segments, block_bytes),
            fua: target.is_odsync() && facts.write_cache.as_deref() != Some("write through"),
            placement_ids: list.iter().map(|handle| handle.placement_id).collect(),
        };
        Ok(Self {
            file,
            name,
            namespace,
        })
    }

    /// Name of the character device: `ng0n1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn namespace(&self) -> &OpenNamespace {
        &self.namespace
    }
}

impl AsFd for NvmeGeneric {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn difference(
    file: &File,
    number: DeviceNumber,
    target: &Target,
) -> Result<Option<String>, QueryError> {
    let metadata = file.metadata()?;
    let node_number = DeviceNumber::of_stat(metadata.rdev());
    if !metadata.file_type().is_char_device() || node_number != number {
        return Ok(Some(format!(
            "the kernel says device number {number}, and the node has {node_number}"
        )));
    }
    let char_fd = file.as_fd();
    let block_fd = target.fd();
    let nsid = namespace_id(char_fd)?;
    let other_nsid = namespace_id(block_fd)?;
    if nsid != other_nsid {
        return Ok(Some(format!(
            "it is namespace {nsid}, and the block device is namespace {other_nsid}"
        )));
    }
    let names = |fd| query_bytes(fd, Query::NamespaceNames(nsid), IDENTIFY_BYTES);
    let is_same = names(char_fd)? == names(block_fd)?
        && controller_serial(char_fd)? == controller_serial(block_fd)?;
    Ok(
        (!is_same)
            .then(|| "the drive reports different identifiers for the two devices".to_owned()),
    )
}

fn controller_serial(fd: BorrowedFd<'_>) -> Result<Vec<u8>, QueryError> {
    let controller = query_bytes(fd, Query::Controller, IDENTIFY_BYTES)?;
    Ok(controller[4..24].to_vec())
}

/// Minimum of the hardware's limit, the kernel's segments (no adjacent pages) and the command's length field, bytes.
fn transfer_bytes_max(hardware: Option<u64>, segments: Option<u64>, block_bytes: u32) -> u32 {
    let hardware = hardware.unwrap_or(TRANSFER_BYTES);
    let segments = segments.map_or(hardware, |segments| segments.saturating_mul(PAGE_BYTES));
    let command = u64::from(block_bytes) * u64::from(BLOCKS_MAX);
    let limit_bytes = hardware.min(segments).min(command).min(1 << 30);
    (limit_bytes - limit_bytes % u64::from(block_bytes)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_a_device_that_is_no_nvme_namespace_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let target = Target::read_only(file.path().to_str().unwrap(), 512).unwrap();
        let error = NvmeGeneric::open(&target).unwrap_err();
        assert!(matches!(error.reason, GenericReason::NotNvme));
        let text = error.to_string();
        assert!(
            text.starts_with("cannot send NVMe commands to /") && text.contains("engine: uring"),
            "{text}"
        );
    }

    #[test]
    fn the_transfer_limit_is_the_smallest_of_all_limits() {
        assert_eq!(transfer_bytes_max(Some(2 << 20), Some(128), 512), 512 << 10);
        let found = transfer_bytes_max(Some(128 << 10), Some(128), 4096);
        assert_eq!(found, 128 << 10);
        assert_eq!(transfer_bytes_max(None, None, 512), 128 << 10);
        let found = transfer_bytes_max(Some(1 << 40), None, 512);
        assert_eq!(found, 32 << 20, "65,536 blocks");
        assert_eq!(transfer_bytes_max(Some(10_000), Some(1), 4096), 4096);
    }
}
