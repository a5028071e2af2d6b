//! The namespaces of a drive, and its support for creating others, as needed to give one placement handles.

use super::{Controller, IDENTIFY_BYTES, QueryError, little_endian};
use std::os::fd::AsFd;
use sys::nvme::{Query, answer};

/// Namespaces of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespaces {
    /// The number of the controller, to which a namespace is attached.
    pub controller_id: u16,
    /// True if a host can create and delete namespaces.
    pub can_manage: bool,
    /// All namespaces, attached or not.
    pub all: Vec<Namespace>,
}

/// A namespace, as it would be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    pub nsid: u32,
    /// Size, logical blocks (NSZE).
    pub size_blocks: u64,
    /// Capacity, logical blocks (NCAP).
    pub capacity_blocks: u64,
    /// The number of its format (FLBAS).
    pub format: u8,
    /// Logical block, bytes.
    pub block_bytes: u64,
    /// Endurance group; 0: none.
    pub endurance_group: u16,
}

impl Namespace {
    pub fn size_bytes(&self) -> u64 {
        self.size_blocks.saturating_mul(self.block_bytes)
    }

    /// Parses the identify structure of a namespace.
    pub fn parse(nsid: u32, identify: &[u8]) -> Self {
        let flbas = identify[26];
        let index = usize::from(flbas & 0xf | (flbas >> 5 & 0x3) << 4);
        Self {
            nsid,
            size_blocks: little_endian::<8>(identify, 0) as u64,
            capacity_blocks: little_endian::<8>(identify, 8) as u64,
            format: flbas,
            block_bytes: 1_u64.checked_shl(identify[128 + 4 * index + 2].into()).unwrap_or(0),
            endurance_group: little_endian::<2>(identify, 102) as u16,
        }
    }
}

impl Controller {
    /// The namespaces of the drive.
    ///
    /// Errors: the drive or the kernel refused a mandatory query.
    pub fn namespaces(&self) -> Result<Namespaces, QueryError> {
        /// Of `OACS` in the controller's identify structure.
        const MANAGES_NAMESPACES: u128 = 1 << 3;
        let ask = |query| answer(self.file.as_fd(), query, IDENTIFY_BYTES);
        let controller = ask(Query::Controller)?;
        let can_manage = little_endian::<2>(&controller, 256) & MANAGES_NAMESPACES != 0;
        let list = ask(Query::NamespaceNumbers { allocated: can_manage })?;
        let numbers = list.chunks_exact(4).map(|nsid| little_endian::<4>(nsid, 0) as u32).take_while(|nsid| *nsid != 0);
        let namespace = |nsid| {
            let query = if can_manage { Query::AllocatedNamespace { nsid } } else { Query::Namespace { nsid } };
            ask(query).map(|identify| Namespace::parse(nsid, &identify))
        };
        Ok(Namespaces {
            controller_id: little_endian::<2>(&controller, 78) as u16,
            can_manage,
            all: numbers.map(namespace).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_read_as_it_would_be_created() {
        let mut identify = vec![0; IDENTIFY_BYTES];
        identify[0..8].copy_from_slice(&1000_u64.to_le_bytes());
        identify[8..16].copy_from_slice(&900_u64.to_le_bytes());
        (identify[26], identify[102], identify[134]) = (1, 3, 12);
        let expected = Namespace {
            nsid: 2,
            size_blocks: 1000,
            capacity_blocks: 900,
            format: 1,
            block_bytes: 4096,
            endurance_group: 3,
        };
        assert_eq!(Namespace::parse(2, &identify), expected);
        assert_eq!(expected.size_bytes(), 4_096_000);
        assert_eq!(Namespace::parse(1, &[0xff; IDENTIFY_BYTES]).size_bytes(), 0, "a block of 2^255 bytes");
    }
}
