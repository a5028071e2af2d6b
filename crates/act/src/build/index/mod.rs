//! The workload of an index test: service reads, and page updates by cache threads.
//!
//! Service reads and the reads of updates are counted in one cell of a device, as ACT counts them in one histogram. An
//! update is one arrival: its write follows its read in the same slot, so that `cache-threads` bounds both.

#[cfg(test)]
mod tests;

use super::{LaneInputs, check_room, share};
use crate::config::ActConfig;
use crate::rates::{IndexDerived, PAGE_BYTES};
use load::choice::Arrival as Arrivals;
use load::plan::{BufferClass, Fill, Plan, salted_ahead};
use load::rate::Rate;
use load::stream::{Extent, Mixed, Uniform, Updates};
use load::workload::{BuildContext, CannotRun, DeviceShape, PlanOffsets, RunPlan, stream_info};
use results::cell::{self, StreamInfo};
use sys::op::OpKind;
use sys::random::Random;

const READS: &str = "reads";
const WRITES: &str = "writes";
const STREAMS: usize = 2;

/// Streams by origin: reads that clients wait for, and updates in the background.
const SERVICE: usize = 0;
const UPDATES: usize = 1;

/// Updates that an ACT thread does in a row before it checks the clock. Source: ACT 6.6, `act_index.c`, `BUNDLE_SIZE`.
const ACT_BUNDLE: u32 = 100;

/// ACT's number of cache threads; any other number is the user's choice.
const ACT_CACHE_THREADS: u32 = 8;

/// Memory for write buffers over all devices of a shard, and minimum number of write buffers per device.
const WRITE_MEMORY_BYTES: u32 = 64 << 20;
const WRITE_BUFFERS_MIN: u32 = 64;

/// Buffer class of reads; write classes follow, one per device.
const PAGE_READS: u16 = 0;

/// Buffer class of the writes to a device.
fn page_writes(index: usize) -> u16 {
    1 + index as u16
}

/// Adds the load of `config` to `run`; `devices` are those of `config.device_names`, and `derived` belongs to
/// `config`. Returns the service-threads in force, as for a storage test. Errors: a device smaller than a page.
pub(in super::super) fn index(
    config: &ActConfig,
    derived: &IndexDerived,
    devices: &[DeviceShape],
    choices: &BuildContext,
    run: &mut RunPlan,
) -> Result<u32, CannotRun> {
    devices.iter().try_for_each(|device| {
        check_room(device, PAGE_BYTES, "index page", "use a larger device")
    })?;
    let builder = LaneInputs {
        config,
        derived,
        devices,
        choices,
        client_bytes: PAGE_BYTES,
        other_slots: config.cache_threads.div_ceil(devices.len() as u32),
        tables: Vec::new(),
        shards: 1,
        plan_offsets: PlanOffsets::default(),
    };
    let iops = derived.service_read_rate.per_sec_f64() + 2.0 * derived.update_rate.per_sec_f64();
    let service_threads = builder.client_slots_total();
    builder.build(
        run,
        streams(config, derived),
        iops,
        service_threads,
        LaneInputs::<IndexDerived>::add_to,
    );
    Ok(service_threads)
}

/// Recorded streams. The verdict judges reads, which include all operations that clients wait for.
fn streams(config: &ActConfig, derived: &IndexDerived) -> Vec<StreamInfo> {
    let updates_iops = derived.update_rate.per_sec_f64();
    let reads_iops = match config.arrival {
        // A closed loop has no rate.
        Arrivals::Closed => 0.0,
        _ => derived.service_read_rate.per_sec_f64() + updates_iops,
    };
    let mut streams = vec![StreamInfo {
        act: Some(config.histograms(true)),
        ..stream_info(READS, true, reads_iops, config.arrival.recorded())
    }];
    if !derived.update_rate.is_zero() {
        // The write of an update follows its read, so writes have no schedule of their own.
        streams.push(StreamInfo {
            act: Some(config.histograms(true)),
            late_ns: config.late_ns(),
            ..stream_info(WRITES, false, updates_iops, cell::Arrivals::Given)
        });
    }
    streams
}

impl LaneInputs<'_, IndexDerived> {
    fn add_to(&self, shard: u32, plan: &mut Plan) {
        let is_act = self.config.arrival == Arrivals::Act;
        let before = plan.in_flight_max() as u32;
        if is_act {
            self.service_threads(shard, plan)
        } else {
            self.service_reads(shard, plan)
        }
        let with_services = plan.in_flight_max() as u32;
        if is_act {
            self.cache_threads(shard, plan)
        } else {
            self.updates(shard, plan)
        }
        let with_updates = plan.in_flight_max() as u32;
        plan.buffers.extend(self.buffers(
            shard,
            with_updates - before,
            with_updates - with_services,
        ));
    }

    fn page_reads(&self, index: usize) -> Extent {
        self.blocks(
            self.request(OpKind::Read, READS, index, PAGE_READS),
            index,
            PAGE_BYTES,
        )
    }

    /// For each device, a lane of reads that clients wait for, with this shard's part of the device's schedule.
    fn service_reads(&self, shard: u32, plan: &mut Plan) {
        for (index, limit) in self.client_limits(shard, plan).into_iter().enumerate() {
            let arrival = match self.config.arrival {
                Arrivals::Closed => Some(self.closed_on(index, shard)),
                _ => self.arrival_on(
                    SERVICE,
                    self.derived.service_read_rate,
                    index,
                    shard,
                    self.shards,
                ),
            };
            let Some(arrival) = arrival else { continue };
            let stream = Uniform {
                extent: self.page_reads(index),
                random: self.random(SERVICE, index, shard),
            };
            plan.add_lane(stream, arrival, limit, self.lane_name(READS, index));
        }
    }

    /// Page updates, by device; `cache-threads` bounds the updates in flight over all devices.
    fn updates(&self, shard: u32, plan: &mut Plan) {
        let threads = self.config.cache_threads;
        // More shards than threads would exceed the bound: each shard has at least one thread.
        let shards = self.shards.min(threads);
        if shard >= shards || self.derived.update_rate.is_zero() {
            return;
        }
        let limit = plan.add_limit(share(threads, shards, shard), threads != ACT_CACHE_THREADS);
        for index in 0..self.devices.len() {
            if let Some(arrival) =
                self.arrival_on(UPDATES, self.derived.update_rate, index, shard, shards)
            {
                let stream = self.update_stream(&[index], 1, self.random(UPDATES, index, shard));
                plan.add_lane(
                    stream,
                    arrival,
                    limit,
                    self.lane_name("page-updates", index),
                );
            }
        }
    }

    /// Stream of updates on `devices`; each arrival issues `bundle` updates.
    fn update_stream(&self, devices: &[usize], bundle: u32, random: Random) -> Updates {
        let reads = devices
            .iter()
            .map(|index| self.page_reads(*index))
            .collect();
        Updates::new(
            reads,
            devices
                .iter()
                .map(|index: &usize| {
                    self.blocks(
                        self.request(OpKind::Write, WRITES, *index, page_writes(*index)),
                        *index,
                        PAGE_BYTES,
                    )
                })
                .collect(),
            bundle,
            random,
        )
    }

    /// ACT's service threads: each reads one page at a time from any device.
    fn service_threads(&self, shard: u32, plan: &mut Plan) {
        let threads = self.client_slots_total();
        let rate = self.derived.service_read_rate;
        self.act_threads(
            (shard, threads, "service-threads"),
            (SERVICE, rate),
            plan,
            |thread| Mixed {
                reads: (0..self.devices.len())
                    .map(|index| self.page_reads(index))
                    .collect(),
                writes: Vec::new(),
                split: (1, 1),
                random: self.random(SERVICE, thread, shard),
            },
        );
    }

    /// ACT's cache threads: each does the updates of a bundle one by one, and sleeps until the next bundle is due.
    fn cache_threads(&self, shard: u32, plan: &mut Plan) {
        let bundles = self
            .derived
            .update_rate
            .divided(ACT_BUNDLE.into())
            .unwrap_or(Rate::ZERO);
        let devices: Vec<_> = (0..self.devices.len()).collect();
        self.act_threads(
            (shard, self.config.cache_threads, "cache-threads"),
            (UPDATES, bundles),
            plan,
            |thread| self.update_stream(&devices, ACT_BUNDLE, self.random(UPDATES, thread, shard)),
        );
    }

    fn buffers(&self, shard: u32, slots: u32, update_slots: u32) -> Vec<BufferClass> {
        let len_bytes = PAGE_BYTES as usize;
        let mut classes = vec![BufferClass::plain(len_bytes, slots)];
        // All updates can be on one device at once. If buffers for this case take too much memory, there are fewer, and
        // a write waits until a buffer is free.
        let fit = WRITE_MEMORY_BYTES / PAGE_BYTES / self.devices.len() as u32;
        let count = salted_ahead(update_slots).min(fit.max(WRITE_BUFFERS_MIN));
        for (index, device) in self.devices.iter().enumerate() {
            let salt = device.salt(self.random(STREAMS, page_writes(index).into(), shard), 100);
            classes.push(BufferClass {
                len_bytes,
                count,
                fill: Fill::Fresh(salt),
            });
        }
        classes
    }
}
