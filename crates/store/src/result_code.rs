//! Results of requests, as clients know them.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResultCode(pub u8);

impl ResultCode {
    pub const OK: Self = Self(0);
    /// The server or a device failed.
    pub const SERVER_ERROR: Self = Self(1);
    pub const NOT_FOUND: Self = Self(2);
    /// The record has another generation than the request expects.
    pub const GENERATION: Self = Self(3);
    pub const PARAMETER: Self = Self(4);
    pub const EXISTS: Self = Self(5);
    /// No free space: writes have stopped.
    pub const OUT_OF_SPACE: Self = Self(8);
    pub const TIMEOUT: Self = Self(9);
    /// The node does not have the partition.
    pub const UNAVAILABLE: Self = Self(11);
    /// The bin holds a value of another type.
    pub const BIN_TYPE: Self = Self(12);
    /// The record is larger than a write block holds.
    pub const TOO_BIG: Self = Self(13);
    /// Too many transactions wait for the same record.
    pub const KEY_BUSY: Self = Self(14);
    /// Too much data waits to be written.
    pub const DEVICE_OVERLOAD: Self = Self(18);
    pub const NO_NAMESPACE: Self = Self(20);
    /// The bin's name is too long.
    pub const BIN_NAME: Self = Self(21);
    pub const UNSUPPORTED: Self = Self(16);
    /// The clocks of the nodes differ too much.
    pub const FORBIDDEN: Self = Self(22);
    /// Supported only by the real server's Enterprise Edition.
    pub const ENTERPRISE_ONLY: Self = Self(25);
    /// Logins are not supported.
    pub const NO_SECURITY: Self = Self(51);
    /// Too many keys in a batch.
    pub const BATCH_REQUESTS: Self = Self(151);
}
