//! The workload of a storage test: its streams, their records, size checks; and its lanes with their limits and
//! buffers, shard by shard.
//!
//! Record operations are shared out over all shards. Large blocks and the tomb raider, one at a time on each device,
//! belong to the one shard that owns the device.

#[cfg(test)]
mod tests;

use super::common::{Common, check_room, share};
use crate::choice::Arrival as Arrivals;
use crate::plan::{Arrival, BufferClass, Fill, Plan, salted_ahead};
use crate::rate::Rate;
use crate::sizes::SizeTable;
use crate::stream::{Extent, Mixed, Sequential, SizeDistribution, Uniform};
use crate::workload::act::config::ActConfig;
use crate::workload::act::rates::StorageDerived;
use crate::workload::{CannotRun, Choices, DeviceShape, Place, RunPlan, recorded};
use results::cell::StreamInfo;
use std::sync::Arc;
use sys::op::OpKind;

/// The streams of the model, in the order of the layout; the layout has only those of the configuration.
const STREAMS: [&str; 5] = ["reads", "large-block-reads", "large-block-writes", "writes", "tomb-raider"];

const READS: usize = 0;
const LARGE_BLOCK_READS: usize = 1;
const LARGE_BLOCK_WRITES: usize = 2;
const WRITES: usize = 3;
const TOMB_RAIDER: usize = 4;

/// Buffer classes for reads, by place in the plan; those for writes follow, two for each device.
const RECORD_READS: u16 = 0;
const BLOCK_READS: u16 = 1;

/// Buffer class of the commit writes to a device.
fn record_writes(index: usize) -> u16 {
    2 + 2 * index as u16
}

/// Buffer class of the large-block writes to a device.
fn block_writes(index: usize) -> u16 {
    record_writes(index) + 1
}

/// Data shared by the parts of the storage test's builder.
struct Builder<'a> {
    common: Common<'a>,
    derived: &'a StorageDerived,
    /// The streams of the configuration, in the order of their records.
    names: Vec<String>,
    /// Sizes that a histogram gives, of reads and of commit writes on each device.
    tables: Vec<[Option<Arc<SizeTable>>; 2]>,
}

/// Adds the load of `config` on `devices`, which are those of `config.device_names`, to `run`; returns the limit of
/// client operations in flight over all devices and shards: the service-threads in force.
///
/// `derived` belongs to `config`. Errors: a device too small for the configuration.
pub(in super::super) fn storage(
    config: &ActConfig,
    derived: &StorageDerived,
    devices: &[DeviceShape],
    choices: &Choices,
    run: &mut RunPlan,
) -> Result<u32, CannotRun> {
    let common = Common {
        config,
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
    let mut builder = Builder { common, derived, names, tables: Vec::new() };
    builder.check()?;
    builder.tables = devices.iter().map(|device| builder.size_tables(device)).collect();
    if builder.has_records() {
        builder.common.client_bytes = builder.largest_record_bytes();
    }
    let parts = if builder.has_records() { builder.common.client_slots_total() } else { u32::MAX };
    builder.common.divide(run, streams, builder.iops(), parts);
    (0..builder.common.shards).zip(&mut run.shards).for_each(|(shard, plan)| builder.add_to(shard, plan));
    Ok(if builder.has_records() { builder.common.client_slots_total() } else { 0 })
}

/// Recorded streams: those that the configuration has, on every device.
fn streams(config: &ActConfig, derived: &StorageDerived) -> Vec<StreamInfo> {
    let (reads, writes) = (derived.read_rate, derived.commit_write_rate);
    // ACT's log includes the large blocks of a load with writes, whatever their rate.
    let has_large_blocks = config.write_reqs_per_sec > 0;
    // The verdict is about client operations; a load of large blocks alone is judged by those.
    let large_blocks_alone = reads.is_zero() && writes.is_zero();
    let record_iops = |rate: Rate| if config.arrival == Arrivals::Closed { 0.0 } else { rate.per_sec_f64() };
    let records = |stream: usize, rate: Rate| {
        let act = Some(config.histograms(true));
        StreamInfo { act, ..recorded(STREAMS[stream], true, record_iops(rate)) }
    };
    let blocks = |stream: usize, judged: bool, rate: Rate| StreamInfo {
        act: (stream != TOMB_RAIDER).then(|| config.histograms(false)),
        late_ns: config.late_ns().filter(|_| !judged),
        ..recorded(STREAMS[stream], judged, rate.per_sec_f64())
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
    fn check(&self) -> Result<(), CannotRun> {
        let block_bytes = self.derived.large_block_bytes;
        for device in self.common.devices {
            let DeviceShape { name, min_io_bytes, .. } = device;
            if *min_io_bytes > block_bytes {
                return Err(CannotRun(format!(
                    "cannot use {name} - its smallest direct I/O is {min_io_bytes} bytes, more than a large block of \
                     {block_bytes} bytes - raise large-block-op-kbytes"
                )));
            }
            check_room(device, block_bytes, "large block", "use a larger device or a smaller large-block-op-kbytes")?;
        }
        if self.common.config.arrival == Arrivals::Closed && !self.has_records() {
            return Err(CannotRun(
                "cannot run arrival: closed - the configuration has no record reads or commit writes to keep going - set \
                 read-reqs-per-sec, or choose another arrival"
                    .into(),
            ));
        }
        Ok(())
    }

    fn has_commits(&self) -> bool {
        !self.derived.commit_write_rate.is_zero()
    }

    /// True if there are record operations at all.
    fn has_records(&self) -> bool {
        self.has_commits() || !self.derived.read_rate.is_zero()
    }

    /// Step of the place and size of commit writes on a device: its minimum, or `commit-min-bytes`. Both
    /// are powers of two and no larger than a large block, so a record still fits one when rounded up.
    fn write_step_bytes(&self, device: &DeviceShape) -> u32 {
        device.min_io_bytes.max(self.common.config.commit_min_bytes)
    }

    /// Once for each device, because the smallest step may differ; its lanes share them.
    fn size_tables(&self, device: &DeviceShape) -> [Option<Arc<SizeTable>>; 2] {
        let StorageDerived { read_sizes, write_sizes, .. } = self.derived;
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

    /// Adds the work of shard `shard` to its `plan`.
    fn add_to(&self, shard: u32, plan: &mut Plan) {
        let (first_lane, first_limit) = (plan.lanes.len(), plan.limits.len());
        if self.has_records() {
            match self.common.config.arrival {
                Arrivals::Act => self.service_threads(shard, plan),
                _ => self.records(shard, plan),
            }
        }
        let record_slots = plan.limits[first_limit..].iter().map(|limit| limit.slots).sum();
        for index in (0..self.common.devices.len()).filter(|index| *index as u32 % self.common.shards == shard) {
            self.large_blocks(index, plan);
        }
        let buffers = self.buffers(shard, plan, first_lane, record_slots);
        plan.buffers.extend(buffers);
    }

    /// Index of a stream that the configuration has among its streams.
    fn place(&self, stream: usize) -> usize {
        let place = self.names.iter().position(|name| *name == STREAMS[stream]);
        place.expect("only lanes of streams that are recorded are built")
    }

    fn name(&self, stream: usize, index: usize) -> String {
        self.common.lane_name(STREAMS[stream], index)
    }

    fn class(&self, class: u16) -> u16 {
        self.common.place.buffers(class)
    }

    fn uniform(&self, stream: usize, index: usize, shard: u32) -> Uniform {
        let (kind, buffers) = match stream {
            READS => (OpKind::Read, RECORD_READS),
            WRITES => (OpKind::Write, record_writes(index)),
            LARGE_BLOCK_READS => (OpKind::Read, BLOCK_READS),
            _ => (OpKind::Write, block_writes(index)),
        };
        let extent = match stream {
            READS | WRITES => self.records_on(stream, index),
            _ => self.blocks_on(stream, index),
        };
        let random = self.common.random(stream, index, shard);
        Uniform { extent, kind, buffers: self.class(buffers), random }
    }

    fn records_on(&self, stream: usize, index: usize) -> Extent {
        let device = &self.common.devices[index];
        let step_bytes = if stream == WRITES { self.write_step_bytes(device) } else { device.min_io_bytes };
        let (target, cell, usable_bytes) =
            (device.target, self.common.cell(self.place(stream), index), self.usable_bytes(device));
        let [reads, writes] = &self.tables[index];
        let lens = match if stream == WRITES { writes } else { reads } {
            Some(table) => SizeDistribution::Drawn(table.clone()),
            None => {
                let (min, max) = (self.derived.record_stored_bytes_min, self.derived.record_stored_bytes_max);
                SizeDistribution::records(min, max, step_bytes)
            }
        };
        let extent = Extent::new(target, cell, usable_bytes, step_bytes, lens);
        extent.expect("a record fits a large block, and a large block the device, as was checked")
    }

    fn blocks_on(&self, stream: usize, index: usize) -> Extent {
        self.common.blocks(self.place(stream), index, self.derived.large_block_bytes)
    }

    /// Record operations, by device: each device has this shard's part of its schedule, or of its
    /// depth.
    fn records(&self, shard: u32, plan: &mut Plan) {
        let common = &self.common;
        for (index, limit) in common.client_limits(shard, plan).into_iter().enumerate() {
            if self.common.config.arrival == Arrivals::Closed {
                let reads_or_writes = if self.derived.read_rate.is_zero() { WRITES } else { READS };
                let (stream, name) = (self.mixed(&[index], index, shard), self.name(reads_or_writes, index));
                plan.add_lane(stream, common.closed_on(index, shard), limit, name);
                continue;
            }
            for (stream, rate) in [(READS, self.derived.read_rate), (WRITES, self.derived.commit_write_rate)] {
                if let Some(arrival) = common.arrival_on(stream, rate, index, shard, common.shards) {
                    let (pattern, name) = (self.uniform(stream, index, shard), self.name(stream, index));
                    plan.add_lane(pattern, arrival, limit, name);
                }
            }
        }
    }

    /// ACT's service threads: each does one operation at a time, read or write, on any device.
    fn service_threads(&self, shard: u32, plan: &mut Plan) {
        let rate = sum(self.derived.read_rate, self.derived.commit_write_rate);
        let (threads, name) =
            (self.common.client_slots_total(), format!("{}service-threads", self.common.place.prefix));
        let devices: Vec<_> = (0..self.common.devices.len()).collect();
        self.common
            .act_threads(shard, threads, (READS, rate, name), plan, |thread| self.mixed(&devices, thread, shard));
    }

    /// Reads and writes on `devices` in the proportion of their rates.
    fn mixed(&self, devices: &[usize], index: usize, shard: u32) -> Mixed {
        let (reads, writes) = (self.derived.read_rate, self.derived.commit_write_rate);
        let on = |rate: Rate| devices.iter().copied().filter(move |_| !rate.is_zero());
        Mixed {
            reads: on(reads).map(|index| self.records_on(READS, index)).collect(),
            writes: on(writes)
                .map(|index| (self.records_on(WRITES, index), self.class(record_writes(index))))
                .collect(),
            split: proportion(reads, writes),
            buffers: self.class(RECORD_READS),
            random: self.common.random(READS, index, shard),
        }
    }

    /// Large blocks and the tomb raider of one device.
    fn large_blocks(&self, index: usize, plan: &mut Plan) {
        let (derived, devices) = (self.derived, self.common.devices.len() as u64);
        let rates =
            [(LARGE_BLOCK_READS, derived.large_block_read_rate), (LARGE_BLOCK_WRITES, derived.large_block_write_rate)];
        for (stream, rate) in rates {
            if let Some(arrival) = self.common.arrival(stream, rate, index as u64, devices) {
                let slots = self.common.config.large_block_concurrency;
                // One at a time is the model; any other number is the user's choice.
                let limit = plan.add_limit(slots, slots > 1);
                plan.add_lane(self.uniform(stream, index, 0), arrival, limit, self.name(stream, index));
            }
        }
        if self.common.config.tomb_raider {
            let limit = plan.add_limit(1, false);
            let extent = self.blocks_on(TOMB_RAIDER, index);
            let stream = Sequential { extent, buffers: self.class(BLOCK_READS), next: 0 };
            let think_ns = u64::from(self.common.config.tomb_raider_sleep_usec) * 1_000;
            let arrival = Arrival::Closed { depth: 1, think_ns };
            plan.add_lane(stream, arrival, limit, self.name(TOMB_RAIDER, index));
        }
    }

    /// Bytes of the largest record operation on any device. There are record operations.
    fn largest_record_bytes(&self) -> u32 {
        // With histograms either can have the larger ones; otherwise the steps of writes are the wider ones.
        let streams = [(READS, self.derived.read_rate), (WRITES, self.derived.commit_write_rate)];
        let streams = streams.into_iter().filter(|(_, rate)| !rate.is_zero()).map(|(stream, _)| stream);
        let extents = streams.flat_map(|stream| (0..self.common.devices.len()).map(move |index| (stream, index)));
        let largest = extents.map(|(stream, index)| self.records_on(stream, index).len_max_bytes()).max();
        largest.unwrap_or(0).max(1)
    }

    /// The buffers that the lanes of a plan from `first_lane` on need. `record_slots`: record operations in
    /// flight at most.
    fn buffers(&self, shard: u32, plan: &Plan, first_lane: usize, record_slots: u32) -> Vec<BufferClass> {
        let slots_of = |stream: usize, index: usize| -> u32 {
            let name = self.name(stream, index);
            let lanes = plan.lanes[first_lane..].iter().filter(|lane| lane.name == name);
            lanes.map(|lane| plan.limits[lane.limit as usize].slots).sum()
        };
        let over_all = |stream| (0..self.common.devices.len()).map(|index| slots_of(stream, index)).sum::<u32>();
        let record_bytes = if self.has_records() { self.common.client_bytes as usize } else { 0 };
        let block_bytes = self.derived.large_block_bytes as usize;
        let reads = if self.derived.read_rate.is_zero() { 0 } else { record_slots };
        let blocks = over_all(LARGE_BLOCK_READS) + over_all(TOMB_RAIDER);
        let mut classes = vec![BufferClass::plain(record_bytes, reads), BufferClass::plain(block_bytes, blocks)];
        for (index, device) in self.common.devices.iter().enumerate() {
            let commits = if self.has_commits() { self.commit_buffers(shard, index, record_slots) } else { 0 };
            let blocks = 2 * slots_of(LARGE_BLOCK_WRITES, index);
            for (class, len_bytes, count) in
                [(record_writes(index), record_bytes, commits), (block_writes(index), block_bytes, blocks)]
            {
                let random = self.common.random(STREAMS.len(), class.into(), shard);
                let salt = device.salt(random, self.common.config.compress_pct);
                classes.push(BufferClass { len_bytes, count, fill: Fill::Fresh(salt) });
            }
        }
        classes
    }

    /// Buffers for the commit writes of a shard to a device.
    fn commit_buffers(&self, shard: u32, index: usize, record_slots: u32) -> u32 {
        // If all devices share one limit, all operations can be on one of them.
        let alone = self.common.config.service_threads.is_none() && self.common.config.arrival != Arrivals::Act;
        let slots = if alone {
            share(self.common.client_slots_on(index), self.common.shards, shard).max(1)
        } else {
            record_slots
        };
        salted_ahead(slots)
    }
}

/// Sum of two rates of checked options, whose parts fit 64 bits.
fn sum(a: Rate, b: Rate) -> Rate {
    let ops = u128::from(a.ops()) * u128::from(b.seconds()) + u128::from(b.ops()) * u128::from(a.seconds());
    Rate::new(ops, u128::from(a.seconds()) * u128::from(b.seconds())).expect("rates of checked options fit 64 bits")
}

/// Of `.1` operations `.0` are reads. Rates too odd for 64 bits are rounded to within 2^-63.
fn proportion(reads: Rate, writes: Rate) -> (u64, u64) {
    let reads_part = u128::from(reads.ops()) * u128::from(writes.seconds());
    let whole = reads_part + u128::from(writes.ops()) * u128::from(reads.seconds());
    let excess = (u128::BITS - whole.leading_zeros()).saturating_sub(u64::BITS);
    ((reads_part >> excess) as u64, ((whole >> excess) as u64).max(1))
}
