//! An NVMe drive's health logs: SMART, and OCP's if the drive has it.
//!
//! ```text
//! Controller::find -> /dev/nvme0, read-only -> Get Log Page 02h -> Smart
//!                                              Get Log Page C0h -> OcpSmart (identified by its GUID)
//!                                              FDP's logs       -> Fdp, Bytes
//! ```
//!
//! Only read-only queries are ever sent ([`sys::nvme::Query`]). Queries need root. A slow drive blocks the caller;
//! callers that cannot wait use a separate thread ([`poll`]).

mod counted;
pub mod fdp;
pub mod namespaces;
mod ocp;
pub(super) mod poll;
mod smart;

pub use counted::CountedBy;
pub use ocp::OcpSmart;
pub use smart::{CriticalWarning, Smart};
pub use sys::nvme::QueryError;

use super::DeviceNumber;
use super::block_dir;
use crate::discover::controller_names;
use std::cell::OnceCell;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use sys::nvme::{IDENTIFY_BYTES, LOG_PAGE_BYTES, Query, ask};

/// An NVMe controller, open for questions about its health.
#[derive(Debug)]
pub struct Controller {
    name: String,
    file: File,
    /// The namespace that the device is.
    nsid: Option<u32>,
    /// Endurance group, once queried.
    group: OnceCell<Option<u16>>,
}

impl Controller {
    /// The controller of the block device `device`, found below `root` (`/` but in tests); the first that can be opened
    /// of a drive with several paths. `None` if it is no NVMe drive, or may not be opened.
    pub fn find(root: &Path, device: DeviceNumber) -> Option<Self> {
        let block = block_dir(root, device)?;
        let names = controller_names(&block);
        if names.is_empty() {
            return None;
        }
        // For a partition the disk has it.
        let nsid = |dir: &Path| fs::read_to_string(dir.join("nsid")).ok()?.trim().parse().ok();
        let nsid = nsid(&block).or_else(|| nsid(block.parent()?));
        // A container may have no node of the controller; the drive's node works as well.
        let own = block.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        names.into_iter().chain(own).find_map(|name| {
            let file = File::open(root.join("dev").join(&name)).ok()?;
            Some(Self { name, file, nsid, group: OnceCell::new() })
        })
    }

    /// Identifier of the device's namespace; `None` if sysfs does not have it.
    pub fn nsid(&self) -> Option<u32> {
        self.nsid
    }

    /// Name of the queried node: `nvme0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the SMART / Health Information log. Errors: the kernel or the drive refused.
    pub fn smart(&self) -> Result<Smart, QueryError> {
        self.page(Query::Smart).map(|bytes| Smart::parse(&bytes))
    }

    /// Reads OCP's extended SMART log; `Ok(None)` if the page has another meaning on this drive. Errors: the kernel or
    /// the drive refused; most drives do not have the page.
    ///
    /// Errors: the kernel or the drive refused; most drives do not have the page.
    pub fn ocp_smart(&self) -> Result<Option<OcpSmart>, QueryError> {
        self.page(Query::OcpSmart).map(|bytes| OcpSmart::parse(&bytes))
    }

    fn page(&self, page: Query) -> Result<[u8; LOG_PAGE_BYTES], QueryError> {
        let mut bytes = [0; LOG_PAGE_BYTES];
        ask(self.file.as_fd(), page, &mut bytes).map(|_| bytes)
    }
}

/// The unsigned little-endian number of N bytes at `at`. Callers pass offsets of a page's own fields, which are inside
/// it.
///
/// Callers pass offsets of a page's own fields, which lie inside it.
fn little_endian<const N: usize>(page: &[u8], at: usize) -> u128 {
    let field = page.get(at..at + N).unwrap_or_default();
    field.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    fn fake_root(block: &str) -> FakeTree {
        let root = FakeTree::of(&[]);
        root.block("259:0", block);
        root
    }

    #[test]
    fn the_controller_is_asked_before_the_drive() {
        let root = fake_root("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme3/nvme3n1");
        assert!(Controller::find(root.root(), (259, 0)).is_none(), "there is no node");
        root.write("dev/nvme3n1", "");
        assert_eq!(Controller::find(root.root(), (259, 0)).unwrap().name(), "nvme3n1");
        root.write("dev/nvme3", "");
        let controller = Controller::find(root.root(), (259, 0)).unwrap();
        assert_eq!(controller.name(), "nvme3");
        assert!(matches!(controller.smart(), Err(QueryError::Io(_))), "a plain file takes no commands");
    }

    #[test]
    fn another_kind_of_drive_is_not_asked() {
        let root = fake_root("sys/devices/pci0000:00/0000:02:00.0/virtio1/block/vda");
        root.write("dev/vda", "");
        assert!(Controller::find(root.root(), (259, 0)).is_none());
    }

    #[test]
    fn numbers_are_read_from_their_lowest_byte() {
        assert_eq!(little_endian::<2>(&[0, 0x34, 0x12], 1), 0x1234);
        assert_eq!(little_endian::<16>(&[0xff; 16], 0), u128::MAX);
    }
}
