//! From a test's configuration to what its shards run: streams, lanes, limits and buffers.
//!
//! ```text
//! configuration + rates + devices    ->  Layout (what is recorded)  +  one Plan a shard (what runs)
//! ```
//!
//! The one idea: everything about a stream on a device (its cell, buffers, phase and random numbers)
//! follows from the stream, the device and the shard. Pure: it sees devices as sizes only.
//!
//! * [`Workload::storage`], [`Workload::index`]: check that the devices are large enough and build everything
//! * `common`: how rates become arrivals, limits and shards
//! * `storage`, `index`: the streams of either test with their limits and buffers, shard by shard

mod common;
mod index;
mod storage;

use crate::plan::Plan;
use crate::stream::Pattern;
use results::cell::Layout;
use std::sync::Arc;

/// A device, as far as the load on it is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceShape {
    /// Its name as the user wrote it.
    pub name: String,
    /// Its size, in bytes.
    pub size_bytes: u64,
    /// The smallest direct I/O that it does, in bytes: 512 to 4096.
    pub min_io_bytes: u32,
    /// Key of the stamps in what is written to it (`device::guard::stamp`).
    pub stamp_key: u64,
}

/// What the machine and the user add to a configuration.
#[derive(Debug, Clone)]
pub struct Choices {
    /// Seed of all random choices.
    pub seed: u64,
    /// Issuing threads that may be used: CPUs, or 1 on virtual time.
    pub shards_max: u32,
    /// CPUs of the machine. ACT's number of service threads depends on it.
    pub cpus: u32,
    /// Operations that the engine carries at once on one issuing thread, if it has a bound: more would
    /// wait for the engine, which is our own lag, and not for a slot.
    pub in_flight_max: Option<u32>,
    /// Thresholds of the verdict, nanoseconds, ascending.
    pub thresholds_ns: Arc<[u64]>,
}

/// Everything that a test runs and records.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Streams and devices: what is recorded.
    pub layout: Layout,
    /// What each shard runs.
    pub shards: Vec<Plan<Pattern>>,
    /// Operations in flight at most that clients wait for, over all devices and shards: the
    /// service-threads in force.
    pub record_slots: u32,
}

/// A configuration that these devices cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
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
