//! Transactions of a store, and its replies.

use crate::ResultCode;
use crate::ops::Answers;
use ripemd::{Digest as _, Ripemd160};

/// Condition on the existence of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exists {
    #[default]
    Any,
    CreateOnly,
    /// The record must exist.
    UpdateOnly,
    /// No condition. Bins that the request does not write are removed.
    CreateOrReplace,
    /// The record must exist. Bins that the request does not write are removed.
    ReplaceOnly,
}

/// Condition on a record's generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Generation {
    #[default]
    Any,
    Equal(u16),
    /// The record's generation must be less than this number.
    Less(u16),
}

/// Lifetime of a record: seconds from now, or one of the special values below. Source: the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ttl(pub u32);

impl Ttl {
    /// The namespace's default.
    pub const DEFAULT: Self = Self(0);
    /// Unlimited.
    pub const NEVER: Self = Self(u32::MAX);
    /// Not changed by the write.
    pub const KEEP: Self = Self(u32::MAX - 1);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    pub exists: Exists,
    pub generation: Generation,
    pub ttl: Ttl,
}

#[derive(Debug, Clone, Default)]
pub struct Write {
    pub policy: Policy,
    /// The key as stored with the record: its particle type and its bytes; empty: not stored.
    pub key: Vec<u8>,
    /// Operations in the format of [`crate::ops`]: writes, and reads, which see the writes before them.
    pub ops: Vec<u8>,
    pub answers: Answers,
    /// True if the reply must contain the record as stored on the device, for a replica.
    pub wants_image: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Delete {
    pub generation: Generation,
    /// As [`Write::wants_image`].
    pub wants_image: bool,
}

/// Version of a record, or of the tombstone in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub(crate) number: u64,
    pub(crate) is_tombstone: bool,
}

#[derive(Debug, Clone)]
pub enum RecordOp {
    /// Checks existence, with generation and time to live.
    Exists,
    ReadAll,
    /// Reads the bins that these operations ([`crate::ops`]) name.
    Read(Vec<u8>, Answers),
    Write(Write),
    Delete(Delete),
    /// Applies another node's write, if the write has a greater version than the record.
    Image(Vec<u8>),
    /// Returns the version of the record or tombstone; 0 if there is neither.
    Version,
    /// Compares the record's version with the other node's. If they differ, returns an image with a greater version.
    Compare(Version),
}

#[derive(Debug, Clone)]
pub struct Transaction {
    pub digest: Digest,
    /// Set; empty: none. At most 63 bytes.
    pub set: Box<[u8]>,
    pub record_op: RecordOp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub result: ResultCode,
    pub generation: u16,
    /// Expiry time of the record, seconds since 2010-01-01 UTC; 0: never.
    pub void_time_sec: u32,
    pub bins: u16,
    /// The bins, as [`crate::ops`].
    pub ops: Vec<u8>,
    /// The record for a replica, if requested and written.
    pub image: Option<Vec<u8>>,
    /// Version, for [`RecordOp::Version`] and [`RecordOp::Compare`].
    pub version: u64,
}

/// Replies, each with the number of its transaction.
pub type Replies = Vec<(u64, Reply)>;

impl Reply {
    pub fn with_result(result: ResultCode) -> Self {
        Self {
            result,
            generation: 0,
            void_time_sec: 0,
            bins: 0,
            ops: Vec::new(),
            image: None,
            version: 0,
        }
    }

    pub(crate) fn with_version(version: u64) -> Self {
        Self {
            version,
            ..Self::with_result(ResultCode::OK)
        }
    }
}

/// RIPEMD-160 of set, particle type and key.
pub type Digest = [u8; 20];

pub const PARTITIONS: u16 = 4096;

/// The digest of the key `key` of type `particle` in `set`. Source: recorded requests of Aerospike's clients.
pub fn digest(set: &[u8], particle: u8, key: &[u8]) -> Digest {
    let mut hash = Ripemd160::new();
    hash.update(set);
    hash.update([particle]);
    hash.update(key);
    hash.finalize().into()
}

/// The partition of a digest: its first two bytes, little-endian, modulo 4096.
pub fn partition(digest: &Digest) -> u16 {
    u16::from_le_bytes([digest[0], digest[1]]) % PARTITIONS
}

#[cfg(test)]
mod digest_tests {
    use super::*;

    #[test]
    fn a_partition_is_the_low_twelve_bits_of_the_first_two_digest_bytes() {
        assert_eq!(partition(&[0xff; 20]), 4095);
        let mut digest = [0; 20];
        digest[..3].copy_from_slice(&[0x34, 0x12, 0xff]);
        assert_eq!(partition(&digest), 0x234);
    }
}
