//! The lanes of one shard of a storage test, with their limits and buffers.
//!
//! Record operations are shared out over all shards. Large blocks and the tomb raider, one at a time
//! on each device, belong to the one shard that the device is given to.

use super::super::common::{SALTED_AHEAD, share};
use super::{Builder, LARGE_BLOCK_READS, LARGE_BLOCK_WRITES, READS, STREAMS, TOMB_RAIDER, WRITES};
use crate::choice::Arrival as Arrivals;
use crate::plan::{Arrival, BufferClass, Fill, Lane, Limit, Plan};
use crate::rate::Rate;
use crate::stream::{Extent, Mixed, Pattern, Sequential, Uniform};
use crate::workload::DeviceShape;
use device::salt::Salt;
use sys::op::OpKind;

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

impl Builder<'_> {
    /// Adds what shard `shard` runs to its `plan`.
    pub(super) fn add_to(&self, shard: u32, plan: &mut Plan<Pattern>) {
        let (first_lane, first_limit) = (plan.lanes.len(), plan.limits.len());
        if self.has_records() {
            match self.config.arrival {
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

    /// Place of a stream among those that the configuration has.
    fn place(&self, stream: usize) -> Option<usize> {
        self.names.iter().position(|name| *name == STREAMS[stream])
    }

    /// The cell of a stream that the configuration has, on a device.
    fn cell(&self, stream: usize, index: usize) -> u32 {
        self.common.cell(self.place(stream).expect("only lanes of streams that are recorded are built"), index)
    }

    fn name(&self, stream: usize, index: usize) -> String {
        self.common.lane_name(STREAMS[stream], index)
    }

    fn class(&self, class: u16) -> u16 {
        self.common.place.buffers(class)
    }

    fn uniform(&self, stream: usize, index: usize, shard: u32) -> Pattern {
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
        Pattern::Uniform(Uniform { extent, kind, buffers: self.class(buffers), random })
    }

    fn records_on(&self, stream: usize, index: usize) -> Extent {
        let device = &self.common.devices[index];
        let step_bytes = if stream == WRITES { self.write_step_bytes(device) } else { device.min_io_bytes };
        let (target, cell, usable_bytes) = (device.target, self.cell(stream, index), self.usable_bytes(device));
        let [reads, writes] = &self.tables[index];
        let extent = match if stream == WRITES { writes } else { reads } {
            Some(table) => Extent::drawn(target, cell, usable_bytes, step_bytes, table.clone()),
            None => {
                let (min, max) = (self.derived.record_stored_bytes_min, self.derived.record_stored_bytes_max);
                Extent::records(target, cell, usable_bytes, step_bytes, min, max)
            }
        };
        extent.expect("a record fits a large block, and a large block the device, as was checked")
    }

    fn blocks_on(&self, stream: usize, index: usize) -> Extent {
        let DeviceShape { target, size_bytes, .. } = self.common.devices[index];
        Extent::blocks(target, self.cell(stream, index), size_bytes, self.derived.large_block_bytes)
            .expect("a large block fits the device, as was checked")
    }

    /// Record operations, by device: each device has this shard's part of its schedule, or of its
    /// depth.
    fn records(&self, shard: u32, plan: &mut Plan<Pattern>) {
        let common = &self.common;
        for (index, limit) in common.client_limits(shard, plan).into_iter().enumerate() {
            if self.config.arrival == Arrivals::Closed {
                let reads_or_writes = if self.derived.read_rate.is_zero() { WRITES } else { READS };
                let (stream, name) = (self.mixed(&[index], index, shard), self.name(reads_or_writes, index));
                plan.lanes.push(Lane { stream, arrival: common.closed_on(index, shard), limit, name });
                continue;
            }
            for (stream, rate) in [(READS, self.derived.read_rate), (WRITES, self.derived.commit_write_rate)] {
                if let Some(arrival) = common.arrival_on(stream, rate, index, shard, common.shards) {
                    let (pattern, name) = (self.uniform(stream, index, shard), self.name(stream, index));
                    plan.lanes.push(Lane { stream: pattern, arrival, limit, name });
                }
            }
        }
    }

    /// ACT's service threads: each does one operation at a time, read or write, on any device.
    fn service_threads(&self, shard: u32, plan: &mut Plan<Pattern>) {
        let rate = sum(self.derived.read_rate, self.derived.commit_write_rate);
        let (threads, name) =
            (self.common.client_slots_total(), format!("{}service-threads", self.common.place.prefix));
        let devices: Vec<_> = (0..self.common.devices.len()).collect();
        self.common
            .act_threads(shard, threads, (READS, rate, name), plan, |thread| self.mixed(&devices, thread, shard));
    }

    /// Reads and writes on `devices` in the proportion of their rates.
    fn mixed(&self, devices: &[usize], index: usize, shard: u32) -> Pattern {
        let (reads, writes) = (self.derived.read_rate, self.derived.commit_write_rate);
        let on = |rate: Rate| devices.iter().copied().filter(move |_| !rate.is_zero());
        Pattern::Mixed(Mixed {
            reads: on(reads).map(|index| self.records_on(READS, index)).collect(),
            writes: on(writes)
                .map(|index| (self.records_on(WRITES, index), self.class(record_writes(index))))
                .collect(),
            split: proportion(reads, writes),
            buffers: self.class(RECORD_READS),
            random: self.common.random(READS, index, shard),
        })
    }

    /// Large blocks and the tomb raider of one device.
    fn large_blocks(&self, index: usize, plan: &mut Plan<Pattern>) {
        let (derived, devices) = (self.derived, self.common.devices.len() as u64);
        let rates =
            [(LARGE_BLOCK_READS, derived.large_block_read_rate), (LARGE_BLOCK_WRITES, derived.large_block_write_rate)];
        for (stream, rate) in rates {
            if let Some(arrival) = self.common.arrival(stream, rate, index as u64, devices) {
                let limit = plan.limits.len() as u32;
                let slots = self.config.large_block_concurrency;
                // One at a time is the model; any other number is the user's choice.
                plan.limits.push(Limit { slots, configured: slots > 1 });
                let (pattern, name) = (self.uniform(stream, index, 0), self.name(stream, index));
                plan.lanes.push(Lane { stream: pattern, arrival, limit, name });
            }
        }
        if self.config.tomb_raider {
            let limit = plan.limits.len() as u32;
            plan.limits.push(Limit { slots: 1, configured: false });
            let extent = self.blocks_on(TOMB_RAIDER, index);
            let stream = Pattern::Sequential(Sequential { extent, buffers: self.class(BLOCK_READS), next: 0 });
            let think_ns = u64::from(self.config.tomb_raider_sleep_usec) * 1_000;
            let arrival = Arrival::Closed { depth: 1, think_ns };
            plan.lanes.push(Lane { stream, arrival, limit, name: self.name(TOMB_RAIDER, index) });
        }
    }

    /// Bytes of the largest record operation on any device. There are record operations.
    pub(super) fn largest_record_bytes(&self) -> u32 {
        // With histograms either can have the larger ones; otherwise the steps of writes are the wider ones.
        let streams = [(READS, self.derived.read_rate), (WRITES, self.derived.commit_write_rate)];
        let streams = streams.into_iter().filter(|(_, rate)| !rate.is_zero()).map(|(stream, _)| stream);
        let extents = streams.flat_map(|stream| (0..self.common.devices.len()).map(move |index| (stream, index)));
        let largest = extents.map(|(stream, index)| self.records_on(stream, index).len_max_bytes()).max();
        largest.unwrap_or(0).max(1)
    }

    /// The buffers that the lanes of a plan from `first_lane` on need. `record_slots`: record operations in
    /// flight at most.
    fn buffers(&self, shard: u32, plan: &Plan<Pattern>, first_lane: usize, record_slots: u32) -> Vec<BufferClass> {
        let slots_of = |stream: usize, index: usize| -> u32 {
            let name = self.name(stream, index);
            let lanes = plan.lanes[first_lane..].iter().filter(|lane| lane.name == name);
            lanes.map(|lane| plan.limits[lane.limit as usize].slots).sum()
        };
        let over_all = |stream| (0..self.common.devices.len()).map(|index| slots_of(stream, index)).sum::<u32>();
        let record_bytes = if self.has_records() { self.common.client_bytes as usize } else { 0 };
        let block_bytes = self.derived.large_block_bytes as usize;
        let reads = if self.derived.read_rate.is_zero() { 0 } else { record_slots };
        let mut classes = vec![
            BufferClass { len_bytes: record_bytes, count: reads, fill: Fill::AsIs },
            BufferClass {
                len_bytes: block_bytes,
                count: over_all(LARGE_BLOCK_READS) + over_all(TOMB_RAIDER),
                fill: Fill::AsIs,
            },
        ];
        for (index, device) in self.common.devices.iter().enumerate() {
            let commits = if self.has_commits() { self.commit_buffers(shard, index, record_slots) } else { 0 };
            let blocks = 2 * slots_of(LARGE_BLOCK_WRITES, index);
            for (class, len_bytes, count) in
                [(record_writes(index), record_bytes, commits), (block_writes(index), block_bytes, blocks)]
            {
                let mut random = self.common.random(STREAMS.len(), class.into(), shard);
                let salt = Salt::new(random.next_u64(), self.config.compress_pct, device.stamp_key);
                classes.push(BufferClass { len_bytes, count, fill: Fill::Fresh(salt) });
            }
        }
        classes
    }

    /// Buffers for the commit writes of a shard to a device.
    fn commit_buffers(&self, shard: u32, index: usize, record_slots: u32) -> u32 {
        // When all devices share one limit, all of it can be on one of them.
        let alone = self.config.service_threads.is_none() && self.config.arrival != Arrivals::Act;
        let slots = if alone {
            share(self.common.client_slots_on(index), self.common.shards, shard).max(1)
        } else {
            record_slots
        };
        slots + slots.min(SALTED_AHEAD)
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
