//! The workload of a storage test: streams, size checks, and the lanes of each shard with limits and buffers.
//!
//! Record operations are divided among all shards. Large blocks and the tomb raider, one at a time on each device,
//! belong to the one shard that owns the device.

#[cfg(test)]
mod tests;

use super::{LaneInputs, check_room, share};
use crate::config::ActConfig;
use crate::rates::StorageDerived;
use load::choice::Arrival as Arrivals;
use load::plan::{Arrival, BufferClass, Fill, Plan, salted_ahead};
use load::rate::Rate;
use load::sizes::SizeTable;
use load::stream::{Extent, Mixed, Sequential, SizeDistribution, Uniform};
use load::workload::{BuildContext, CannotRun, DeviceShape, PlanOffsets, RunPlan, stream_info};
use results::cell::StreamInfo;
use std::sync::Arc;
use sys::op::OpKind;

/// All streams of the model, in the order of the layout. A layout has only the streams that are configured.
const STREAMS: [&str; 5] = [
    "reads",
    "large-block-reads",
    "large-block-writes",
    "writes",
    "tomb-raider",
];

const READS: usize = 0;
const LARGE_BLOCK_READS: usize = 1;
const LARGE_BLOCK_WRITES: usize = 2;
const WRITES: usize = 3;
const TOMB_RAIDER: usize = 4;

/// Buffer classes of reads, by position in the plan; write classes follow, two per device.
const RECORD_READS: u16 = 0;
const BLOCK_READS: u16 = 1;

fn record_writes(index: usize) -> u16 {
    2 + 2 * index as u16
}

fn block_writes(index: usize) -> u16 {
    record_writes(index) + 1
}

/// Adds the load of `config` to `run`; `devices` are those of `config.device_names`, and `derived` belongs to
/// `config`. Returns the service-threads in force: the limit of client operations in flight over all devices and
/// shards. Errors: a device too small for the configuration.
pub(in super::super) fn storage(
    config: &ActConfig,
    derived: &StorageDerived,
    devices: &[DeviceShape],
    choices: &BuildContext,
    run: &mut RunPlan,
) -> Result<u32, CannotRun> {
    let mut builder = LaneInputs {
        config,
        derived,
        devices,
        choices,
        client_bytes: 1,
        // Slots for reads and writes of large blocks, and one slot for the tomb raider.
        other_slots: 2 * config.large_block_concurrency + 1,
        tables: Vec::new(),
        shards: 1,
        plan_offsets: PlanOffsets::default(),
    };
    builder.check()?;
    builder.tables = devices
        .iter()
        .map(|device| builder.size_tables(device))
        .collect();
    builder.client_bytes = builder.largest_record_bytes();
    let service_threads = builder.has_records().then(|| builder.client_slots_total());
    let iops = builder.iops();
    let parts_max = service_threads.unwrap_or(u32::MAX);
    builder.build(
        run,
        streams(config, derived),
        iops,
        parts_max,
        LaneInputs::<StorageDerived>::add_to,
    );
    Ok(service_threads.unwrap_or(0))
}

fn streams(config: &ActConfig, derived: &StorageDerived) -> Vec<StreamInfo> {
    let reads = derived.read_rate;
    let writes = derived.commit_write_rate;
    // ACT's log includes the large blocks of a load with writes, whatever their rate.
    let has_large_blocks = config.write_reqs_per_sec > 0;
    // The verdict judges client operations, or large blocks if there are no client operations.
    let large_blocks_alone = reads.is_zero() && writes.is_zero();
    let mut streams = Vec::new();
    if !reads.is_zero() {
        streams.push(record_stream(config, READS, reads));
    }
    if has_large_blocks {
        let read_rate = derived.large_block_read_rate;
        let write_rate = derived.large_block_write_rate;
        streams.push(block_stream(config, LARGE_BLOCK_READS, false, read_rate));
        streams.push(block_stream(
            config,
            LARGE_BLOCK_WRITES,
            large_blocks_alone,
            write_rate,
        ));
    }
    if !writes.is_zero() {
        streams.push(record_stream(config, WRITES, writes));
    }
    if config.tomb_raider {
        streams.push(block_stream(config, TOMB_RAIDER, false, Rate::ZERO));
    }
    streams
}

fn record_stream(config: &ActConfig, stream: usize, rate: Rate) -> StreamInfo {
    let iops = if config.arrival == Arrivals::Closed {
        0.0
    } else {
        rate.per_sec_f64()
    };
    StreamInfo {
        act: Some(config.histograms(true)),
        ..stream_info(STREAMS[stream], true, iops, config.arrival.recorded())
    }
}

fn block_stream(config: &ActConfig, stream: usize, judged: bool, rate: Rate) -> StreamInfo {
    StreamInfo {
        act: (stream != TOMB_RAIDER).then(|| config.histograms(false)),
        late_ns: config.late_ns().filter(|_| !judged),
        ..stream_info(
            STREAMS[stream],
            judged,
            rate.per_sec_f64(),
            config.arrival.recorded(),
        )
    }
}

impl LaneInputs<'_, StorageDerived> {
    fn check(&self) -> Result<(), CannotRun> {
        let block_bytes = self.derived.large_block_bytes;
        for device in self.devices {
            let DeviceShape {
                name, min_io_bytes, ..
            } = device;
            if *min_io_bytes > block_bytes {
                return Err(CannotRun(format!(
                    "cannot use {name} - its smallest direct I/O is {min_io_bytes} bytes, more than a large block of \
                     {block_bytes} bytes - raise large-block-op-kbytes"
                )));
            }
            check_room(
                device,
                block_bytes,
                "large block",
                "use a larger device or a smaller large-block-op-kbytes",
            )?;
        }
        if self.config.arrival == Arrivals::Closed && !self.has_records() {
            return Err(CannotRun(
                "cannot run arrival: closed - the configuration has no record reads or commit writes to keep in flight - set \
                 read-reqs-per-sec, or choose another arrival"
                    .into(),
            ));
        }
        Ok(())
    }

    fn has_commits(&self) -> bool {
        !self.derived.commit_write_rate.is_zero()
    }

    fn record_rates(&self) -> [(usize, Rate); 2] {
        [
            (READS, self.derived.read_rate),
            (WRITES, self.derived.commit_write_rate),
        ]
    }

    fn has_records(&self) -> bool {
        self.record_rates().iter().any(|(_, rate)| !rate.is_zero())
    }

    /// Alignment of offsets and sizes of record operations on a device: the device's minimum direct I/O size, and for
    /// commit writes at least `commit-min-bytes`. Both numbers are powers of two and at most a large block, so a
    /// rounded-up record still fits a large block.
    fn step_bytes(&self, stream: usize, device: &DeviceShape) -> u32 {
        let align_bytes_min = if stream == WRITES {
            self.config.commit_min_bytes
        } else {
            0
        };
        device.min_io_bytes.max(align_bytes_min)
    }

    /// Size tables of a device, shared by its lanes; the alignment may differ between devices.
    fn size_tables(&self, device: &DeviceShape) -> [Option<Arc<SizeTable>>; 2] {
        let commits = self.config.write_sizes().filter(|_| self.has_commits());
        [(READS, self.config.read_sizes()), (WRITES, commits)]
            .map(|(stream, sizes)| Some(Arc::new(sizes?.table(self.step_bytes(stream, device)))))
    }

    /// Operations per second of the load, over all devices.
    fn iops(&self) -> f64 {
        let StorageDerived {
            large_block_read_rate,
            large_block_write_rate,
            ..
        } = *self.derived;
        let [(_, reads), (_, writes)] = self.record_rates();
        [reads, writes, large_block_read_rate, large_block_write_rate]
            .map(Rate::per_sec_f64)
            .iter()
            .sum()
    }

    fn add_to(&self, shard: u32, plan: &mut Plan) {
        let first_lane = plan.lanes.len();
        let first_limit = plan.limits.len();
        if self.has_records() {
            match self.config.arrival {
                Arrivals::Act => self.service_threads(shard, plan),
                _ => self.records(shard, plan),
            }
        }
        let record_slots = plan.limits[first_limit..]
            .iter()
            .map(|limit| limit.slots)
            .sum();
        for index in (0..self.devices.len()).filter(|index| *index as u32 % self.shards == shard) {
            self.large_blocks(index, plan);
        }
        let buffers = self.buffers(shard, plan, first_lane, record_slots);
        plan.buffers.extend(buffers);
    }

    fn name(&self, stream: usize, index: usize) -> String {
        self.lane_name(STREAMS[stream], index)
    }

    fn record_sizes(&self, stream: usize, index: usize) -> SizeDistribution {
        let StorageDerived {
            record_stored_bytes_min: min,
            record_stored_bytes_max: max,
            ..
        } = *self.derived;
        match &self.tables[index][usize::from(stream == WRITES)] {
            Some(table) => SizeDistribution::Drawn(table.clone()),
            None => {
                SizeDistribution::records(min, max, self.step_bytes(stream, &self.devices[index]))
            }
        }
    }

    /// Only whole large blocks are used, not a partial block at the end.
    fn extent(&self, stream: usize, index: usize) -> Extent {
        let (kind, class) = match stream {
            READS => (OpKind::Read, RECORD_READS),
            WRITES => (OpKind::Write, record_writes(index)),
            LARGE_BLOCK_WRITES => (OpKind::Write, block_writes(index)),
            _ => (OpKind::Read, BLOCK_READS),
        };
        let request = self.request(kind, STREAMS[stream], index, class);
        let block_bytes = self.derived.large_block_bytes;
        if !matches!(stream, READS | WRITES) {
            return self.blocks(request, index, block_bytes);
        }
        let device = &self.devices[index];
        let usable_bytes = device.size_bytes / u64::from(block_bytes) * u64::from(block_bytes);
        let step_bytes = self.step_bytes(stream, device);
        let sizes = self.record_sizes(stream, index);
        let extent = Extent::new(request, usable_bytes, step_bytes, sizes);
        extent.expect("a record fits a large block, and a large block the device, as was checked")
    }

    fn uniform(&self, stream: usize, index: usize, shard: u32) -> Uniform {
        Uniform {
            extent: self.extent(stream, index),
            random: self.random(stream, index, shard),
        }
    }

    /// One lane per device, with this shard's part of the device's schedule or of its closed loop's depth.
    fn records(&self, shard: u32, plan: &mut Plan) {
        for (index, limit) in self.client_limits(shard, plan).into_iter().enumerate() {
            if self.config.arrival == Arrivals::Closed {
                let reads_or_writes = if self.derived.read_rate.is_zero() {
                    WRITES
                } else {
                    READS
                };
                let stream = self.mixed(&[index], index, shard);
                let name = self.name(reads_or_writes, index);
                plan.add_lane(stream, self.closed_on(index, shard), limit, name);
                continue;
            }
            for (stream, rate) in self.record_rates() {
                if let Some(arrival) = self.arrival_on(stream, rate, index, shard, self.shards) {
                    let pattern = self.uniform(stream, index, shard);
                    let name = self.name(stream, index);
                    plan.add_lane(pattern, arrival, limit, name);
                }
            }
        }
    }

    /// ACT's service threads: each does one operation at a time, read or write, on any device.
    fn service_threads(&self, shard: u32, plan: &mut Plan) {
        let rate = sum(self.derived.read_rate, self.derived.commit_write_rate);
        let devices: Vec<_> = (0..self.devices.len()).collect();
        let threads = (shard, self.client_slots_total(), "service-threads");
        self.act_threads(threads, (READS, rate), plan, |thread| {
            self.mixed(&devices, thread, shard)
        });
    }

    /// Reads and writes on `devices` in the proportion of their rates.
    fn mixed(&self, devices: &[usize], index: usize, shard: u32) -> Mixed {
        let [reads, writes] = self.record_rates().map(|(stream, rate)| {
            let devices = devices.iter().filter(|_| !rate.is_zero());
            devices.map(|index| self.extent(stream, *index)).collect()
        });
        let split = proportion(self.derived.read_rate, self.derived.commit_write_rate);
        Mixed {
            reads,
            writes,
            split,
            random: self.random(READS, index, shard),
        }
    }

    fn large_blocks(&self, index: usize, plan: &mut Plan) {
        let derived = self.derived;
        let devices = self.devices.len() as u64;
        let rates = [
            (LARGE_BLOCK_READS, derived.large_block_read_rate),
            (LARGE_BLOCK_WRITES, derived.large_block_write_rate),
        ];
        for (stream, rate) in rates {
            if let Some(arrival) = self.arrival(stream, rate, index as u64, devices) {
                let slots = self.config.large_block_concurrency;
                // By default one large block at a time; a higher number is the user's choice, and counts as configured.
                let limit = plan.add_limit(slots, slots > 1);
                plan.add_lane(
                    self.uniform(stream, index, 0),
                    arrival,
                    limit,
                    self.name(stream, index),
                );
            }
        }
        if self.config.tomb_raider {
            let limit = plan.add_limit(1, false);
            let stream = Sequential {
                extent: self.extent(TOMB_RAIDER, index),
                next_block: 0,
            };
            let think_ns = u64::from(self.config.tomb_raider_sleep_usec) * 1_000;
            plan.add_lane(
                stream,
                Arrival::Closed { depth: 1, think_ns },
                limit,
                self.name(TOMB_RAIDER, index),
            );
        }
    }

    /// Bytes of the largest record operation on any device, at least 1.
    fn largest_record_bytes(&self) -> u32 {
        // With histograms, either stream can have the larger operations; otherwise writes, with the larger alignment.
        let streams = self
            .record_rates()
            .into_iter()
            .filter(|(_, rate)| !rate.is_zero());
        let sizes = streams.flat_map(|(stream, _)| {
            (0..self.devices.len()).map(move |index| self.record_sizes(stream, index).max_bytes())
        });
        sizes.max().unwrap_or(0).max(1)
    }

    /// Buffers by class. `first_lane`: first lane that gets buffers. `record_slots`: maximum record operations in
    /// flight.
    fn buffers(
        &self,
        shard: u32,
        plan: &Plan,
        first_lane: usize,
        record_slots: u32,
    ) -> Vec<BufferClass> {
        let record_bytes = if self.has_records() {
            self.client_bytes as usize
        } else {
            0
        };
        let block_bytes = self.derived.large_block_bytes as usize;
        let reads = if self.derived.read_rate.is_zero() {
            0
        } else {
            record_slots
        };
        let mut blocks = 0;
        for index in 0..self.devices.len() {
            for stream in [LARGE_BLOCK_READS, TOMB_RAIDER] {
                blocks += slots_of(plan, first_lane, &self.name(stream, index));
            }
        }
        let mut classes = vec![
            BufferClass::plain(record_bytes, reads),
            BufferClass::plain(block_bytes, blocks),
        ];
        for (index, device) in self.devices.iter().enumerate() {
            let commits = if self.has_commits() {
                self.commit_buffers(shard, index, record_slots)
            } else {
                0
            };
            let blocks = 2 * slots_of(plan, first_lane, &self.name(LARGE_BLOCK_WRITES, index));
            for (class, len_bytes, count) in [
                (record_writes(index), record_bytes, commits),
                (block_writes(index), block_bytes, blocks),
            ] {
                let salt = device.salt(
                    self.random(STREAMS.len(), class.into(), shard),
                    self.config.compress_pct,
                );
                classes.push(BufferClass {
                    len_bytes,
                    count,
                    fill: Fill::Fresh(salt),
                });
            }
        }
        classes
    }

    fn commit_buffers(&self, shard: u32, index: usize, record_slots: u32) -> u32 {
        // If all devices share one limit, all operations can be on the same device.
        let alone = self.config.service_threads.is_none() && self.config.arrival != Arrivals::Act;
        salted_ahead(if alone {
            share(self.client_slots_on(index), self.shards, shard).max(1)
        } else {
            record_slots
        })
    }
}

fn slots_of(plan: &Plan, first_lane: usize, name: &str) -> u32 {
    plan.lanes[first_lane..]
        .iter()
        .filter(|lane| lane.name == name)
        .map(|lane| plan.limits[lane.limit as usize].slots)
        .sum()
}

/// Sum of two rates of checked options; the result fits 64 bits.
fn sum(a: Rate, b: Rate) -> Rate {
    let ops = u128::from(a.ops()) * u128::from(b.seconds())
        + u128::from(b.ops()) * u128::from(a.seconds());
    Rate::new(ops, u128::from(a.seconds()) * u128::from(b.seconds()))
        .expect("rates of checked options fit 64 bits")
}

/// `.0` of `.1` operations are reads. Rates whose fractions exceed 64 bits are rounded to within 2^-63.
fn proportion(reads: Rate, writes: Rate) -> (u64, u64) {
    let reads_part = u128::from(reads.ops()) * u128::from(writes.seconds());
    let whole = reads_part + u128::from(writes.ops()) * u128::from(reads.seconds());
    let excess = (u128::BITS - whole.leading_zeros()).saturating_sub(u64::BITS);
    (
        (reads_part >> excess) as u64,
        ((whole >> excess) as u64).max(1),
    )
}
