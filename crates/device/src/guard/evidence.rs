//! Evidence that a device holds data that flashproof did not write. The guard asks before such data is erased.

use results::format;
use std::fmt;

/// Data that the test would erase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// A partition table, with the number of partitions if known.
    PartitionTable {
        name: &'static str,
        partitions: Option<u32>,
    },
    /// A file system, or a member of a volume or pool.
    Signature {
        name: &'static str,
        /// Label, UUID or name by which a user knows the data: `label "backup"`.
        details: Vec<String>,
        /// Where the signature is, in words, unless it is at its usual place on the device.
        place: Option<String>,
        /// Offset of the magic number.
        at: u64,
    },
    /// A device of an Aerospike database, with its namespace.
    Aerospike { namespace: Option<String> },
    /// A device of flashproof's own record engine, with its namespace.
    RecordStore { namespace: Option<String> },
    /// Foreign data in `samples` of `samples_tried` samples. `first_at`: offset of the first foreign sector; `why`: why
    /// no record explains the data.
    Data {
        samples: u32,
        samples_tried: u32,
        first_at: u64,
        why: String,
    },
    /// Unreadable samples, whose contents are unknown. `first_at`: offset of the first such sample; `error`: the
    /// kernel's error.
    Unreadable {
        samples: u32,
        samples_tried: u32,
        first_at: u64,
        error: String,
    },
}

impl Evidence {
    /// True if the data identifies its owner: a file system, a volume, a database.
    pub(super) fn has_owner(&self) -> bool {
        !matches!(self, Self::Data { .. } | Self::Unreadable { .. })
    }

    /// True if `evidence` has a store of flashproof's own record engine, and no data of another owner. The header does
    /// not prove that the store is intact, because other programs may have written behind the header since. The code
    /// that opens the store compares samples of the store's blocks.
    ///
    /// Signatures of lost partitions behind the header do not count: formatting a store clears only its header, and a
    /// record may look like a superblock.
    pub(super) fn is_store_alone(evidence: &[Self]) -> bool {
        /// Bytes that formatting clears: `store::DEVICE_HEADER_BYTES`.
        const HEADER_BYTES: u64 = 8 << 20;
        let is_of_store = |one: &Self| match one {
            Self::RecordStore { .. } => true,
            Self::Signature {
                place: Some(_), at, ..
            } => *at >= HEADER_BYTES,
            other => !other.has_owner(),
        };
        evidence
            .iter()
            .any(|one| matches!(one, Self::RecordStore { .. }))
            && evidence.iter().all(is_of_store)
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PartitionTable {
                name,
                partitions: None,
            } => f.write_str(name),
            Self::PartitionTable {
                name,
                partitions: Some(n),
            } => {
                let partitions = format::count((*n).into(), "partition");
                write!(f, "{name} with {partitions}")
            }
            Self::Signature {
                name,
                details,
                place,
                ..
            } => {
                f.write_str(name)?;
                details
                    .iter()
                    .try_for_each(|detail| write!(f, ", {detail}"))?;
                place.iter().try_for_each(|place| write!(f, " ({place})"))
            }
            Self::Aerospike { namespace: None } => f.write_str("an Aerospike device header"),
            Self::Aerospike {
                namespace: Some(name),
            } => {
                write!(
                    f,
                    "an Aerospike device header of namespace {}",
                    format::quoted(name)
                )
            }
            Self::RecordStore { namespace: None } => {
                f.write_str("records written by `flashproof engine serve`")
            }
            Self::RecordStore {
                namespace: Some(name),
            } => {
                write!(
                    f,
                    "records of namespace {}, written by `flashproof engine serve`",
                    format::quoted(name)
                )
            }
            Self::Data {
                samples,
                samples_tried,
                first_at,
                why,
            } => {
                write!(
                    f,
                    "data of no known format in {samples} of {samples_tried} samples, first at byte {first_at}: {why}"
                )
            }
            Self::Unreadable {
                samples,
                samples_tried,
                first_at,
                error,
            } => {
                write!(
                    f,
                    "{samples} of {samples_tried} samples could not be read, first at byte {first_at} ({error})"
                )
            }
        }
    }
}
