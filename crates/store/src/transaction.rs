//! What is asked of a store, and what it answers.

use crate::Digest;

/// How a transaction ended, as the protocol numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResultCode(pub u8);

impl ResultCode {
    /// Done.
    pub const OK: Self = Self(0);
    /// The server failed, or a device did.
    pub const SERVER_ERROR: Self = Self(1);
    /// No such record.
    pub const NOT_FOUND: Self = Self(2);
    /// The generation is not the one demanded.
    pub const GENERATION: Self = Self(3);
    /// A parameter makes no sense.
    pub const PARAMETER: Self = Self(4);
    /// There is such a record, and there must be none.
    pub const EXISTS: Self = Self(5);
    /// No free space: writes have stopped.
    pub const OUT_OF_SPACE: Self = Self(8);
    /// It took longer than the client allows.
    pub const TIMEOUT: Self = Self(9);
    /// The node does not have the partition.
    pub const UNAVAILABLE: Self = Self(11);
    /// The bin holds a value of another type.
    pub const BIN_TYPE: Self = Self(12);
    /// The record is larger than a write block holds.
    pub const TOO_BIG: Self = Self(13);
    /// Too many transactions wait for the same record.
    pub const KEY_BUSY: Self = Self(14);
    /// More waits to be written than may.
    pub const DEVICE_OVERLOAD: Self = Self(18);
    /// No such namespace.
    pub const NO_NAMESPACE: Self = Self(20);
    /// The bin's name is too long.
    pub const BIN_NAME: Self = Self(21);
    /// Not done by this server.
    pub const UNSUPPORTED: Self = Self(16);
    /// Only the real server's Enterprise Edition does it.
    pub const ENTERPRISE_ONLY: Self = Self(25);
    /// The value is not fit for the operation.
    pub const OP_NOT_APPLICABLE: Self = Self(26);
    /// There is no login.
    pub const NO_SECURITY: Self = Self(51);
    /// More keys in a batch than are accepted.
    pub const BATCH_REQUESTS: Self = Self(151);
}

/// What must be true of there being a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exists {
    /// Nothing.
    #[default]
    Any,
    /// There must be none.
    CreateOnly,
    /// There must be one.
    UpdateOnly,
    /// Nothing; bins that are not written are gone.
    CreateOrReplace,
    /// There must be one; bins that are not written are gone.
    ReplaceOnly,
}

/// What must be true of a record's generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Generation {
    /// Nothing.
    #[default]
    Any,
    /// It is this.
    Equal(u16),
    /// The given one is greater than it.
    Less(u16),
}

/// How long a record lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ttl {
    /// As long as the namespace says.
    #[default]
    Default,
    /// For ever.
    Never,
    /// As long as it would have without this write.
    Keep,
    /// Seconds from now.
    Seconds(u32),
}

/// Conditions of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// Of there being a record.
    pub exists: Exists,
    /// Of its generation.
    pub generation: Generation,
    /// How long it lives then.
    pub ttl: Ttl,
}

/// What is written.
#[derive(Debug, Clone, Default)]
pub struct Write {
    /// Conditions.
    pub policy: Policy,
    /// The key as it is kept with the record: its particle type and its bytes; empty: not kept.
    pub key: Vec<u8>,
    /// [`crate::ops`]: writes, and reads that see what was written before them.
    pub ops: Vec<u8>,
    /// Answers to each operation, also to those that read nothing.
    pub answers_each: bool,
    /// Has the reply bring the record as it is on the device then, for a replica.
    pub image: bool,
}

/// A deletion.
#[derive(Debug, Clone, Copy, Default)]
pub struct Delete {
    /// What must be true of the generation.
    pub generation: Generation,
    /// As [`Write::image`].
    pub image: bool,
}

/// What is to be done to a record.
#[derive(Debug, Clone)]
pub enum Work {
    /// Tells whether there is one, with generation and time to live.
    Exists,
    /// Reads all of its bins.
    ReadAll,
    /// Reads the bins that its operations ([`crate::ops`]) name.
    Read(Vec<u8>),
    /// Writes it.
    Write(Write),
    /// Deletes it.
    Delete(Delete),
    /// Takes over what another node wrote, if it is newer.
    Image(Vec<u8>),
}

/// A transaction on one record.
#[derive(Debug, Clone)]
pub struct Transaction {
    /// Which record.
    pub digest: Digest,
    /// Its set; empty: none. At most 63 bytes.
    pub set: Box<[u8]>,
    /// What to do.
    pub work: Work,
}

/// What a store answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// How it ended.
    pub result: ResultCode,
    /// Of the record now.
    pub generation: u16,
    /// When the record dies, seconds since 2010-01-01 UTC; 0: never.
    pub void_time_sec: u32,
    /// Bins that were asked for.
    pub bins: u16,
    /// They, as [`crate::ops`].
    pub ops: Vec<u8>,
    /// The record for a replica, if that was asked for and something was written.
    pub image: Option<Vec<u8>>,
}

impl Reply {
    /// One that says no more than how it ended.
    pub fn of(result: ResultCode) -> Self {
        Self { result, generation: 0, void_time_sec: 0, bins: 0, ops: Vec::new(), image: None }
    }
}
