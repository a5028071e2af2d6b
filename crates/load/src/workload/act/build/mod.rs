//! From a test's configuration to what its shards run: streams, lanes, limits and buffers.
//!
//! The one idea: everything about a stream on a device (its cell, buffers, phase and random numbers)
//! follows from the stream, the device and the shard. Pure: it sees devices as sizes only.
//!
//! * [`storage`], [`index`]: check that the devices are large enough, and add the streams of either test with
//!   their limits and buffers, shard by shard
//! * `common`: how rates become arrivals, limits and shards

mod common;
mod index;
mod storage;

pub(super) use index::index;
pub(super) use storage::storage;

/// A configuration that these devices cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum WorkloadError {
    /// Not even one large block fits.
    #[error(
        "cannot use {device} - its {size_bytes} bytes do not hold one large block of {large_block_bytes} bytes - use a larger device or a smaller large-block-op-kbytes"
    )]
    TooSmall {
        /// The device.
        device: String,
        /// Its size.
        size_bytes: u64,
        /// What has to fit.
        large_block_bytes: u32,
    },
    /// Not even one page of an index fits.
    #[error(
        "cannot use {device} - its {size_bytes} bytes do not hold one index page of 4096 bytes - use a larger device"
    )]
    NoPage {
        /// The device.
        device: String,
        /// Its size.
        size_bytes: u64,
    },
    /// A large block is smaller than the device's direct I/O.
    #[error(
        "cannot use {device} - its smallest direct I/O is {min_io_bytes} bytes, more than a large block of {large_block_bytes} bytes - raise large-block-op-kbytes"
    )]
    BlockTooSmall {
        /// The device.
        device: String,
        /// Its smallest direct I/O.
        min_io_bytes: u32,
        /// What is smaller.
        large_block_bytes: u32,
    },
    /// `arrival: closed` keeps record operations going, and there are none.
    #[error(
        "cannot run arrival: closed - the configuration has no record reads or commit writes to keep going - set read-reqs-per-sec, or choose another arrival"
    )]
    NothingClosed,
}
