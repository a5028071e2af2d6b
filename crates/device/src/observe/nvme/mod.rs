//! Health logs of an NVMe drive: SMART, and OCP's log if the drive has it.
//!
//! ```text
//! Controller::find -> /dev/nvme0, read-only -> Get Log Page 02h -> Smart
//!                                              Get Log Page C0h -> OcpSmart (identified by its GUID)
//!                                              FDP's logs       -> Fdp, WrittenBytes
//! ```
//!
//! All queries are read-only ([`sys::nvme::Query`]), and need root. A slow drive blocks the caller; callers that cannot
//! wait use a separate thread ([`poll`]).
//!
//! This module also lists the namespaces of a drive, and reports if a host can create and delete namespaces: users need
//! both for the setup of placement handles.

pub mod fdp;
pub(super) mod poll;
mod smart;

use crate::discover::{DeviceNumber, SysDir, controller_names};
pub use smart::{CounterSource, OcpSmart, Smart};
use std::cell::OnceCell;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
pub use sys::nvme::QueryError;
use sys::nvme::{IDENTIFY_BYTES, LOG_PAGE_BYTES, Query, query_bytes, send_query};

/// An NVMe controller, open for queries.
#[derive(Debug)]
pub struct Controller {
    name: String,
    file: File,
    nsid: Option<u32>,
    group: OnceCell<Option<u16>>,
}

impl Controller {
    /// The controller of the drive; for a drive with several paths, the first controller that can be opened. `root` is
    /// `/` except in tests. `None`: not an NVMe drive, or no controller can be opened.
    pub fn find(root: &Path, device: DeviceNumber) -> Option<Self> {
        let dir = SysDir::of_block(root, device)?;
        let names = controller_names(&dir);
        if names.is_empty() {
            return None;
        }
        // For a partition, sysfs has the namespace identifier at the disk.
        let nsid = dir.number("nsid").or_else(|| dir.parent()?.number("nsid"));
        // A container may lack the node of the controller; the node of the drive works as well.
        names.into_iter().chain([dir.name()]).find_map(|name| {
            let file = File::open(root.join("dev").join(&name)).ok()?;
            Some(Self {
                name,
                file,
                nsid,
                group: OnceCell::new(),
            })
        })
    }

    /// Namespace identifier of the drive; `None` if sysfs does not have the identifier.
    pub fn nsid(&self) -> Option<u32> {
        self.nsid
    }

    /// Name of the opened node: `nvme0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the SMART log. Errors: the kernel or the drive refused the query.
    pub fn smart(&self) -> Result<Smart, QueryError> {
        self.page(Query::Smart).map(|bytes| Smart::parse(&bytes))
    }

    /// Reads OCP's log. `Ok(None)` if page C0h has another meaning on this drive. Errors: the kernel or the drive
    /// refused the query, as most drives do, because they lack the page.
    pub fn ocp_smart(&self) -> Result<Option<OcpSmart>, QueryError> {
        self.page(Query::OcpSmart)
            .map(|bytes| OcpSmart::parse(&bytes))
    }

    fn page(&self, page: Query) -> Result<[u8; LOG_PAGE_BYTES], QueryError> {
        let mut bytes = [0; LOG_PAGE_BYTES];
        send_query(self.file.as_fd(), page, &mut bytes).map(|_| bytes)
    }
}

/// The unsigned number of N bytes at `at`, the offset of a field within the page.
fn little_endian<const N: usize>(page: &[u8], at: usize) -> u128 {
    let field = page.get(at..at + N).unwrap_or_default();
    field
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u128::from(*byte))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespaces {
    /// Controller identifier, needed to attach a namespace.
    pub controller_id: u16,
    /// True if a host can create and delete namespaces.
    pub can_manage: bool,
    /// All namespaces, attached or not.
    pub list: Vec<NvmeNamespace>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmeNamespace {
    pub nsid: u32,
    /// Size, logical blocks (NSZE).
    pub size_blocks: u64,
    /// Capacity, logical blocks (NCAP).
    pub capacity_blocks: u64,
    /// Number of the LBA format (FLBAS).
    pub format: u8,
    pub block_bytes: u64,
    /// Metadata with each block, bytes.
    pub metadata_bytes: u16,
    /// Endurance group; 0: none.
    pub endurance_group: u16,
}

impl NvmeNamespace {
    pub fn size_bytes(&self) -> u64 {
        self.size_blocks.saturating_mul(self.block_bytes)
    }

    pub fn parse(nsid: u32, identify: &[u8]) -> Self {
        let flbas = identify[26];
        let format = 128 + 4 * usize::from(flbas & 0xf | (flbas >> 5 & 0x3) << 4);
        Self {
            nsid,
            size_blocks: little_endian::<8>(identify, 0) as u64,
            capacity_blocks: little_endian::<8>(identify, 8) as u64,
            format: flbas,
            block_bytes: 1_u64.checked_shl(identify[format + 2].into()).unwrap_or(0),
            metadata_bytes: little_endian::<2>(identify, format) as u16,
            endurance_group: little_endian::<2>(identify, 102) as u16,
        }
    }
}

impl Controller {
    /// Errors: the drive or the kernel refused a mandatory query.
    pub fn namespaces(&self) -> Result<Namespaces, QueryError> {
        /// Bit of `OACS` in the Identify Controller structure.
        const MANAGES_NAMESPACES: u128 = 1 << 3;
        let query_identify = |query| query_bytes(self.file.as_fd(), query, IDENTIFY_BYTES);
        let controller = query_identify(Query::Controller)?;
        let can_manage = little_endian::<2>(&controller, 256) & MANAGES_NAMESPACES != 0;
        let list = query_identify(Query::NamespaceNumbers(can_manage))?;
        let numbers = list
            .chunks_exact(4)
            .map(|nsid| little_endian::<4>(nsid, 0) as u32)
            .take_while(|nsid| *nsid != 0);
        Ok(Namespaces {
            controller_id: little_endian::<2>(&controller, 78) as u16,
            can_manage,
            list: numbers
                .map(|nsid| {
                    let query = if can_manage {
                        Query::AllocatedNamespace(nsid)
                    } else {
                        Query::Namespace(nsid)
                    };
                    query_identify(query).map(|identify| NvmeNamespace::parse(nsid, &identify))
                })
                .collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    fn fake_root(block: &str) -> FakeTree {
        let root = FakeTree::with_files(&[]);
        root.block("259:0", block);
        root
    }

    #[test]
    fn the_node_of_the_controller_is_preferred_to_the_node_of_the_drive() {
        let root = fake_root("sys/devices/pci0000:00/0000:01:00.0/nvme/nvme3/nvme3n1");
        assert!(
            Controller::find(root.root(), DeviceNumber::new(259, 0)).is_none(),
            "there is no node"
        );
        root.write("dev/nvme3n1", "");
        assert_eq!(
            Controller::find(root.root(), DeviceNumber::new(259, 0))
                .unwrap()
                .name(),
            "nvme3n1"
        );
        root.write("dev/nvme3", "");
        let controller = Controller::find(root.root(), DeviceNumber::new(259, 0)).unwrap();
        assert_eq!(controller.name(), "nvme3");
        assert!(
            matches!(controller.smart(), Err(QueryError::Io(_))),
            "a plain file takes no commands"
        );
    }

    #[test]
    fn a_drive_that_is_not_nvme_has_no_controller() {
        let root = fake_root("sys/devices/pci0000:00/0000:02:00.0/virtio1/block/vda");
        root.write("dev/vda", "");
        assert!(Controller::find(root.root(), DeviceNumber::new(259, 0)).is_none());
    }

    #[test]
    fn fields_are_little_endian_numbers() {
        assert_eq!(little_endian::<2>(&[0, 0x34, 0x12], 1), 0x1234);
        assert_eq!(little_endian::<16>(&[0xff; 16], 0), u128::MAX);
    }
}

#[cfg(test)]
mod namespaces_tests {
    use super::*;

    #[test]
    fn the_size_and_format_of_a_namespace_are_read_from_its_identify_structure() {
        let mut identify = vec![0; IDENTIFY_BYTES];
        identify[0..8].copy_from_slice(&1000_u64.to_le_bytes());
        identify[8..16].copy_from_slice(&900_u64.to_le_bytes());
        (identify[26], identify[102], identify[132], identify[134]) = (1, 3, 8, 12);
        let expected = NvmeNamespace {
            nsid: 2,
            size_blocks: 1000,
            capacity_blocks: 900,
            format: 1,
            block_bytes: 4096,
            metadata_bytes: 8,
            endurance_group: 3,
        };
        assert_eq!(NvmeNamespace::parse(2, &identify), expected);
        assert_eq!(expected.size_bytes(), 4_096_000);
        let found = NvmeNamespace::parse(1, &[0xff; IDENTIFY_BYTES]).size_bytes();
        assert_eq!(found, 0, "a block of 2^255 bytes");
    }

    #[test]
    fn the_block_size_is_that_of_the_lba_format_in_use() {
        let mut identify = vec![0; IDENTIFY_BYTES];
        let format = |identify: &[u8]| {
            let NvmeNamespace {
                block_bytes,
                metadata_bytes,
                ..
            } = NvmeNamespace::parse(1, identify);
            (block_bytes, metadata_bytes)
        };
        identify[128..132].copy_from_slice(&[0, 0, 9, 0]);
        identify[132..136].copy_from_slice(&[8, 0, 12, 0]);
        assert_eq!(format(&identify), (512, 0));
        identify[26] = 1;
        assert_eq!(format(&identify), (4096, 8));
        // Bits 5 and 6 are the upper bits of the index: 0x21 selects format 1 + 16.
        identify[26] = 0x21;
        identify[196..200].copy_from_slice(&[0, 0, 13, 0]);
        assert_eq!(format(&identify), (8192, 0));
        identify[198] = 0xff;
        assert_eq!(format(&identify), (0, 0));
    }
}
