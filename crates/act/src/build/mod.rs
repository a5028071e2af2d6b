//! Converts a test's configuration to the plans of its shards: streams, lanes, limits and buffers.
//!
//! Everything about a stream on a device (its cell, buffers, phase and random numbers) follows from the stream, the
//! device and the shard. The code is pure: it knows only the sizes of devices.
//!
//! This module has the parts that both tests share. [`storage`](mod@storage) and [`index`](mod@index) add the streams
//! of their test, shard by shard.

mod index;
mod storage;

pub(super) use index::index;
pub(super) use storage::storage;

use crate::config::{ActConfig, SERVICE_THREADS_PER_DEVICE};
use load::choice::Arrival as Arrivals;
use load::plan::{Arrival, Plan};
use load::rate::Rate;
use load::schedule::{Even, Poisson, Schedule, Woken, phase};
use load::sizes::SizeTable;
use load::stream::{Extent, IoRequest, Stream};
use load::workload::{BuildContext, CannotRun, DeviceShape, PlanOffsets, RunPlan, SHARD_IOPS};
use results::cell::StreamInfo;
use std::sync::Arc;
use sys::op::OpKind;
use sys::random::Random;

/// Memory for client operations' buffers, over all devices, if the configuration does not limit the number in flight.
const CLIENT_MEMORY_BYTES: u64 = 64 << 20;

/// At least this many operations with waiting clients may be in flight on a device, even if the operations are large.
const CLIENT_SLOTS_MIN: u64 = 16;

/// Default number of operations in flight on each device for `arrival: closed`.
const CLOSED_DEPTH_PER_DEVICE: u32 = 32;

/// ACT's default number of threads per CPU. Source: ACT 6.6, `cfg_storage.c`.
const ACT_THREADS_PER_CPU: u32 = 5;

/// Nearly all wake-ups of ACT 6.6's threads from usleep are at most this late, nanoseconds. Causes: the kernel's timer
/// slack of 50 us, and competition of the threads for CPUs. Measured: docs/method.md.
const ACT_WAKES_LATE_NS: u64 = 150_000;

/// Larger than the number of streams of a workload, so that streams of several workloads are not in phase.
const STREAMS_MAX: usize = 8;

struct LaneInputs<'a, D> {
    config: &'a ActConfig,
    derived: &'a D,
    devices: &'a [DeviceShape],
    choices: &'a BuildContext,
    /// Bytes of the largest operation that a client waits for, on any device, at least 1.
    client_bytes: u32,
    /// Maximum number of operations without a waiting client that are in flight on each device.
    other_slots: u32,
    /// Size tables of reads and of commit writes on each device, if histograms give the sizes. Empty in an index test.
    tables: Vec<[Option<Arc<SizeTable>>; 2]>,
    /// Number of issuing threads.
    shards: u32,
    plan_offsets: PlanOffsets,
}

impl<D> LaneInputs<'_, D> {
    /// Divides the load of `iops` operations per second into shards of `run`: as many as requested or needed, at most
    /// `parts_max`. `add` adds the work of each shard.
    fn build(
        mut self,
        run: &mut RunPlan,
        streams: Vec<StreamInfo>,
        iops: f64,
        parts_max: u32,
        add: impl Fn(&Self, u32, &mut Plan),
    ) {
        let shards_needed = match self.config.arrival {
            // Without a rate, each device may get as many operations as one core can issue.
            Arrivals::Closed => self.devices.len() as u32,
            _ => (iops / SHARD_IOPS).ceil() as u32,
        };
        let shards = self
            .config
            .shards
            .unwrap_or(shards_needed.min(self.choices.shards_max));
        self.shards = if self.choices.shards_max == 1 {
            1
        } else {
            shards.clamp(1, parts_max.max(1))
        };
        self.plan_offsets = run.add(streams, self.shards as usize);
        (0..self.shards)
            .zip(&mut run.shards)
            .for_each(|(shard, plan)| add(&self, shard, plan));
    }

    /// The arrivals of the `part`-th of `parts` equal parts of a stream; `None` without a rate.
    fn arrival(&self, stream: usize, rate: Rate, part: u64, parts: u64) -> Option<Arrival> {
        let random = || Random::for_part(!self.choices.seed, random_part(stream, part as usize, 0));
        let schedule = match self.config.arrival {
            Arrivals::Paced | Arrivals::Closed => {
                return Arrival::even(
                    rate,
                    part,
                    parts,
                    phase(STREAMS_MAX * self.plan_offsets.workload + stream),
                );
            }
            // ACT's threads all begin at the same moment, each with an equal part of the rate.
            Arrivals::Act => Schedule::Woken(Woken::new(
                Even::new(rate.divided(parts)?, 0, 1, 0)?,
                ACT_WAKES_LATE_NS,
                random(),
            )),
            Arrivals::Poisson => Schedule::Poisson(Poisson::new(rate.divided(parts)?, random())?),
        };
        Some(Arrival::Scheduled(schedule))
    }

    /// This shard's part of a stream's arrivals on a device. The stream is divided among `shards` shards.
    fn arrival_on(
        &self,
        stream: usize,
        rate: Rate,
        index: usize,
        shard: u32,
        shards: u32,
    ) -> Option<Arrival> {
        let devices = self.devices.len() as u64;
        self.arrival(
            stream,
            rate,
            u64::from(shard) * devices + index as u64,
            devices * u64::from(shards),
        )
    }

    /// Random numbers of a stream on a device (or of a thread), on this shard.
    fn random(&self, stream: usize, index: usize, shard: u32) -> Random {
        Random::for_part(self.choices.seed, random_part(stream, index, shard))
    }

    /// `class`: buffer class within this workload.
    fn request(&self, kind: OpKind, stream: &str, index: usize, class: u16) -> IoRequest {
        let target = self.devices[index].target;
        let cell = self
            .plan_offsets
            .cell_of(stream, target)
            .expect("only lanes of streams that are recorded are built");
        IoRequest::new(kind, target, cell, self.plan_offsets.buffers(class))
    }

    fn blocks(&self, request: IoRequest, index: usize, bytes: u32) -> Extent {
        let extent = Extent::blocks(request, self.devices[index].size_bytes, bytes);
        extent.expect("a block fits each device, as was checked")
    }

    fn lane_name(&self, stream: &str, index: usize) -> String {
        self.plan_offsets
            .lane_name(stream, &self.devices[index].name)
    }

    /// Adds this shard's threads of the `threads` threads over all shards. Each thread performs its `pattern` one
    /// operation at a time, at its part of the stream's `rate`.
    fn act_threads<S: Stream + 'static>(
        &self,
        (shard, threads, name): (u32, u32, &str),
        (stream, rate): (usize, Rate),
        plan: &mut Plan,
        pattern: impl Fn(usize) -> S,
    ) {
        let name = format!("{}{name}", self.plan_offsets.prefix);
        for thread in (shard..threads).step_by(self.shards as usize) {
            let Some(arrival) = self.arrival(stream, rate, thread.into(), threads.into()) else {
                continue;
            };
            // ACT or the user chose the number of threads, so the limit counts as configured.
            let limit = plan.add_limit(1, true);
            plan.add_lane(pattern(thread as usize), arrival, limit, name.clone());
        }
    }

    /// Returns the limit of each device. With `service-threads` all devices share one limit.
    fn client_limits(&self, shard: u32, plan: &mut Plan) -> Vec<u32> {
        let devices = 0..self.devices.len();
        let per_shard = |slots| share(slots, self.shards, shard).max(1);
        match self.config.service_threads {
            Some(threads) => vec![plan.add_limit(per_shard(threads), true); devices.len()],
            None => devices
                .map(|index| plan.add_limit(per_shard(self.client_slots_on(index)), false))
                .collect(),
        }
    }

    /// This shard's part of a device's closed loop.
    fn closed_on(&self, index: usize, shard: u32) -> Arrival {
        Arrival::Closed {
            depth: share(self.client_slots_on(index), self.shards, shard),
            think_ns: 0,
        }
    }

    /// Maximum number of client operations in flight, over all devices and shards.
    fn client_slots_total(&self) -> u32 {
        match (self.config.service_threads, self.config.arrival) {
            (Some(threads), _) => threads,
            (None, Arrivals::Act) => self.choices.cpus.saturating_mul(ACT_THREADS_PER_CPU).max(1),
            (None, _) => (0..self.devices.len())
                .map(|index| self.client_slots_on(index))
                .sum(),
        }
    }

    /// Maximum number of client operations in flight on one device, over all shards.
    fn client_slots_on(&self, index: usize) -> u32 {
        let devices = self.devices.len() as u32;
        match (self.config.service_threads, self.config.arrival) {
            (Some(threads), _) => share(threads, devices, index as u32).max(1),
            (None, Arrivals::Closed) => CLOSED_DEPTH_PER_DEVICE,
            (None, _) => {
                let fitting_slots =
                    CLIENT_MEMORY_BYTES / u64::from(devices) / u64::from(self.client_bytes);
                let fitting_slots =
                    fitting_slots.clamp(CLIENT_SLOTS_MIN, SERVICE_THREADS_PER_DEVICE.into()) as u32;
                // The engine and the device's queue must also hold the operations that no client waits for.
                let carried = self
                    .choices
                    .in_flight_max
                    .map_or(u32::MAX, |most| most / devices);
                let queued = self.devices[index].queue_requests.unwrap_or(u32::MAX);
                fitting_slots
                    .min(carried.min(queued).saturating_sub(self.other_slots))
                    .max(1)
            }
        }
    }
}

/// Errors: the device is smaller than `bytes`. `advice` ends the message.
fn check_room(device: &DeviceShape, bytes: u32, unit: &str, advice: &str) -> Result<(), CannotRun> {
    let DeviceShape {
        name, size_bytes, ..
    } = device;
    if *size_bytes < u64::from(bytes) {
        Err(CannotRun(format!(
            "cannot use {name} - its {size_bytes} bytes do not hold one {unit} of {bytes} bytes - {advice}"
        )))
    } else {
        Ok(())
    }
}

/// Part number `part` of `whole`, divided as evenly as possible into `parts`.
fn share(whole: u32, parts: u32, part: u32) -> u32 {
    whole / parts + u32::from(part < whole % parts)
}

/// Streams of random numbers: one for each stream, device (or thread) and shard.
fn random_part(stream: usize, index: usize, shard: u32) -> u64 {
    ((stream as u64) << 48) | ((index as u64) << 16) | u64::from(shard)
}
