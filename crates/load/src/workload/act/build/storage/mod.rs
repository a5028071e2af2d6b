//! The workload of a storage test: which streams it has, what is recorded of them, what must fit.
//!
//! * `lanes`: their arrivals, limits and buffers, shard by shard

mod lanes;
#[cfg(test)]
mod tests;

use super::WorkloadError;
use super::common::Common;
use crate::choice::Arrival;
use crate::rate::Rate;
use crate::sizes::SizeTable;
use crate::stream::Pattern;
use crate::workload::act::configuration::Fields;
use crate::workload::act::derive::Derived;
use crate::workload::act::storage::StorageConfig;
use crate::workload::{Choices, DeviceShape, Place, RunPlan};
use results::cell::StreamInfo;
use std::sync::Arc;

/// The streams of the model, in the order of the layout, which holds those that a configuration has.
const STREAMS: [&str; 5] = ["reads", "large-block-reads", "large-block-writes", "writes", "tomb-raider"];

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
    /// The streams that the configuration has, in the order in which they are recorded.
    names: Vec<String>,
    /// Sizes that a histogram gives, of reads and of commit writes on each device.
    tables: Vec<[Option<Arc<SizeTable>>; 2]>,
}

/// Adds what `config` asks for on `devices`, which are those of `config.device_names`, to `run`; gives the
/// operations in flight at most that clients wait for, over all devices and shards: the service-threads in
/// force.
///
/// `derived` is that of `config`. Errors: a device too small for the configuration.
pub(in super::super) fn storage(
    config: &StorageConfig,
    derived: &Derived,
    devices: &[DeviceShape],
    choices: &Choices,
    run: &mut RunPlan<Pattern>,
) -> Result<u32, WorkloadError> {
    let common = Common {
        terms: config.terms(),
        devices,
        choices,
        client_bytes: 1,
        // Large blocks and the tomb raider.
        other_slots: 2 * config.large_block_concurrency + 1,
        shards: 1,
        place: Place::default(),
    };
    let streams = streams(config, derived);
    let names = streams.iter().map(|stream| stream.name.clone()).collect();
    let mut builder = Builder { common, config, derived, names, tables: Vec::new() };
    builder.check()?;
    builder.tables = devices.iter().map(|device| builder.size_tables(device)).collect();
    if builder.has_records() {
        builder.common.client_bytes = builder.largest_record_bytes();
    }
    let parts = if builder.has_records() { builder.common.client_slots_total() } else { u32::MAX };
    let shards = builder.common.shards_wanted(builder.iops(), parts);
    builder.common.shards = shards;
    builder.common.place = run.add(streams, shards as usize);
    (0..shards).zip(&mut run.shards).for_each(|(shard, plan)| builder.add_to(shard, plan));
    Ok(if builder.has_records() { builder.common.client_slots_total() } else { 0 })
}

/// What is recorded: the streams that the configuration has, on every device.
fn streams(config: &StorageConfig, derived: &Derived) -> Vec<StreamInfo> {
    let terms = config.terms();
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
        workload: 0,
        act: Some(terms.histograms(true)),
    };
    let blocks = |stream: usize, judged: bool, rate: Rate| StreamInfo {
        name: STREAMS[stream].to_owned(),
        judged,
        offered_iops: rate.per_sec_f64(),
        workload: 0,
        act: (stream != TOMB_RAIDER).then(|| terms.histograms(false)),
    };
    let streams = [
        (!reads.is_zero()).then(|| records(READS, reads)),
        has_large_blocks.then(|| blocks(LARGE_BLOCK_READS, false, derived.large_block_read_rate)),
        has_large_blocks.then(|| blocks(LARGE_BLOCK_WRITES, large_blocks_alone, derived.large_block_write_rate)),
        (!writes.is_zero()).then(|| records(WRITES, writes)),
        config.tomb_raider.then(|| blocks(TOMB_RAIDER, false, Rate::ZERO)),
    ];
    streams.into_iter().flatten().collect()
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
