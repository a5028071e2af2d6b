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
#[cfg(test)]
mod tests;

use super::choice::Arrival;
use super::configuration::Fields;
use super::derive::Derived;
use super::storage::StorageConfig;
use crate::plan::Plan;
use crate::rate::Rate;
use crate::sizes::SizeTable;
use crate::stream::Pattern;
use common::Common;
use measure::buckets::ActScale;
use measure::cell::{Layout, StreamInfo};
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

/// The streams of the model, in the order of the layout, which holds those that a configuration has.
pub const STREAMS: [&str; 5] = ["reads", "large-block-reads", "large-block-writes", "writes", "tomb-raider"];

const READS: usize = 0;
const LARGE_BLOCK_READS: usize = 1;
const LARGE_BLOCK_WRITES: usize = 2;
const WRITES: usize = 3;
const TOMB_RAIDER: usize = 4;

/// What the parts of the builder of a storage test share.
struct Builder<'a> {
    common: Common<'a>,
    config: &'a StorageConfig,
    derived: &'a Derived,
    layout: Layout,
    /// Sizes that a histogram gives, of reads and of commit writes on each device.
    tables: Vec<[Option<Arc<SizeTable>>; 2]>,
}

impl Workload {
    /// Builds what `config` asks for on `devices`, which are those of `config.device_names`.
    ///
    /// `derived` is that of `config`. Errors: a device too small for the configuration.
    pub fn storage(
        config: &StorageConfig,
        derived: &Derived,
        devices: &[DeviceShape],
        choices: &Choices,
    ) -> Result<Self, WorkloadError> {
        let common = Common {
            terms: config.terms(),
            devices,
            choices,
            client_bytes: 1,
            // Large blocks and the tomb raider.
            other_slots: 2 * config.large_block_concurrency + 1,
            shards: 1,
        };
        let layout = layout(config, derived, devices, choices);
        let mut builder = Builder { common, config, derived, layout, tables: Vec::new() };
        builder.check()?;
        builder.tables = devices.iter().map(|device| builder.size_tables(device)).collect();
        if builder.has_records() {
            builder.common.client_bytes = builder.largest_record_bytes();
        }
        let parts = if builder.has_records() { builder.common.client_slots_total() } else { u32::MAX };
        builder.common.shards = builder.common.shards_wanted(builder.iops(), parts);
        let shards = (0..builder.common.shards).map(|shard| builder.plan(shard)).collect();
        let record_slots = if builder.has_records() { builder.common.client_slots_total() } else { 0 };
        Ok(Self { layout: builder.layout, shards, record_slots })
    }
}

/// What is recorded: the streams that the configuration has, on every device.
fn layout(config: &StorageConfig, derived: &Derived, devices: &[DeviceShape], choices: &Choices) -> Layout {
    let (reads, writes) = (derived.read_rate, derived.commit_write_rate);
    // ACT's log has the large blocks of a load with writes, at whatever rate they come out.
    let has_large_blocks = config.write_reqs_per_sec > 0;
    // The verdict is about what a client waits for; a load of large blocks alone is judged by those.
    let large_blocks_alone = reads.is_zero() && writes.is_zero();
    let record_iops = |rate: Rate| if config.arrival == Arrival::Closed { 0.0 } else { rate.per_sec_f64() };
    let records = |stream: usize, rate: Rate| StreamInfo {
        name: STREAMS[stream].to_owned(),
        judged: true,
        offered_iops: record_iops(rate),
        per_device_in_act_log: true,
        in_act_log: true,
    };
    let blocks = |stream: usize, judged: bool, rate: Rate| StreamInfo {
        name: STREAMS[stream].to_owned(),
        judged,
        offered_iops: rate.per_sec_f64(),
        per_device_in_act_log: false,
        in_act_log: stream != TOMB_RAIDER,
    };
    let streams = [
        (!reads.is_zero()).then(|| records(READS, reads)),
        has_large_blocks.then(|| blocks(LARGE_BLOCK_READS, false, derived.large_block_read_rate)),
        has_large_blocks.then(|| blocks(LARGE_BLOCK_WRITES, large_blocks_alone, derived.large_block_write_rate)),
        (!writes.is_zero()).then(|| records(WRITES, writes)),
        config.tomb_raider.then(|| blocks(TOMB_RAIDER, false, Rate::ZERO)),
    ];
    Layout {
        streams: streams.into_iter().flatten().collect(),
        devices: devices.iter().map(|device| device.name.clone()).collect(),
        scale: if config.microsecond_histograms { ActScale::Microseconds } else { ActScale::Milliseconds },
        thresholds_ns: choices.thresholds_ns.clone(),
    }
}

impl Builder<'_> {
    fn check(&self) -> Result<(), WorkloadError> {
        let large_block_bytes = self.derived.large_block_bytes;
        for device in self.common.devices {
            let (name, size_bytes, min_io_bytes) = (device.name.clone(), device.size_bytes, device.min_io_bytes);
            if min_io_bytes > large_block_bytes {
                return Err(WorkloadError::BlockTooSmall { device: name, min_io_bytes, large_block_bytes });
            }
            if size_bytes < u64::from(large_block_bytes) {
                return Err(WorkloadError::TooSmall { device: name, size_bytes, large_block_bytes });
            }
        }
        if self.config.arrival == Arrival::Closed && !self.has_records() {
            return Err(WorkloadError::NothingClosed);
        }
        Ok(())
    }

    fn has_commits(&self) -> bool {
        !self.derived.commit_write_rate.is_zero()
    }

    /// Whether there are record operations at all.
    fn has_records(&self) -> bool {
        self.has_commits() || !self.derived.read_rate.is_zero()
    }

    /// Step of the place and size of commit writes on a device: its minimum, or `commit-min-bytes`. Both
    /// are powers of two and no larger than a large block, so a record still fits one when rounded up.
    fn write_step_bytes(&self, device: &DeviceShape) -> u32 {
        device.min_io_bytes.max(self.config.commit_min_bytes)
    }

    /// Once for each device, because the smallest step may differ; its lanes share them.
    fn size_tables(&self, device: &DeviceShape) -> [Option<Arc<SizeTable>>; 2] {
        let Derived { read_sizes, write_sizes, .. } = self.derived;
        let commits = write_sizes.filter(|_| self.has_commits());
        [
            read_sizes.map(|sizes| Arc::new(sizes.table(device.min_io_bytes))),
            commits.map(|sizes| Arc::new(sizes.table(self.write_step_bytes(device)))),
        ]
    }

    /// Bytes in use: whole large blocks, a partial one at the end is left alone.
    fn usable_bytes(&self, device: &DeviceShape) -> u64 {
        let block_bytes = u64::from(self.derived.large_block_bytes);
        device.size_bytes / block_bytes * block_bytes
    }

    /// Operations a second that the load offers, over all devices.
    fn iops(&self) -> f64 {
        let derived = self.derived;
        let rates = [
            derived.read_rate,
            derived.commit_write_rate,
            derived.large_block_read_rate,
            derived.large_block_write_rate,
        ];
        rates.iter().map(|rate| rate.per_sec_f64()).sum()
    }
}
