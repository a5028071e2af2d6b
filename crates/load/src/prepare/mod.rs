//! Preparation: the run loop writes a device from end to end and reads back samples of it, with the streams of this
//! module.
//!
//! [`SweepStream`] writes, [`Sample`] reads; a run ends when its only stream ends. The written data are a function of seed,
//! pass and offset ([`Content`]), so that a later process can resume the writes or compare the data. The caller chooses
//! the order of passes and records their progress. With an [`Order`], a sweep writes in random order.

mod order;
mod sample;
mod sweep;

pub use order::permuted;
pub use order::{Order, OrderSpec};
pub use sample::{Compared, Mismatch, SPOT_BYTES};
pub use sweep::BLOCK_BYTES;

use crate::plan::{Arrival, BufferClass, Fill};
use crate::stream::Stream;
use crate::workload::{
    BuildContext, Built, DeviceShape, NO_END_SEC, RunPlan, RunSpec, Workload, stream_info,
};
use engine::DeviceName;
use results::cell::Arrivals;
use results::run_dir::WorkloadRecord;
use sample::Sample;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use sweep::SweepStream;
use sys::salt::PlacedSalt;

/// Bytes in flight, and bounds on the operations in flight: enough to keep many channels busy while buffers are filled.
const IN_FLIGHT_BYTES: u32 = 4 << 20;
const DEPTHS: RangeInclusive<u32> = 32..=128;

/// Data that a device has, or that will be written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Zeros,
    Salt(PlacedSalt),
}

impl Content {
    /// Fills `bytes` with the expected data at `offset`, a multiple of [`SPOT_BYTES`].
    pub fn put(&self, bytes: &mut [u8], offset: u64) {
        match self {
            Self::Zeros => bytes.fill(0),
            Self::Salt(salt) => salt.fill(bytes, offset),
        }
    }

    fn fill(&self) -> Fill {
        match self {
            // Buffers are zeroed initially, and writes do not change them.
            Self::Zeros => Fill::AsIs,
            Self::Salt(salt) => Fill::Placed(*salt),
        }
    }
}

/// Writes a part of a device once.
#[derive(Debug)]
pub struct Pass {
    pub device: DeviceName,
    /// Byte range: begins at a multiple of [`BLOCK_BYTES`], ends at a multiple of the device's minimum direct I/O size.
    pub range: Range<u64>,
    /// Progress: everything in the range before this offset is written.
    pub mark: Arc<AtomicU64>,
    pub content: Content,
    /// Present for a pass in random order; positions in `range` are then bytes written, not offsets.
    pub random: Option<RandomPass>,
}

/// A pass in random order, in which some writes are overwritten by later writes.
#[derive(Debug, Clone)]
pub struct RandomPass {
    pub order: Arc<Order>,
    pub device_bytes: u64,
    /// Data of the writes that are overwritten.
    pub overwritten_content: Content,
}

/// Reads back places of a device, and compares the data.
#[derive(Debug)]
pub struct ReadBack {
    pub device: DeviceName,
    /// Only places before this byte are read.
    pub end: u64,
    /// An order and a number n: only blocks whose lasting write is among the first n writes of the order are read.
    pub order: Option<(Arc<Order>, u64)>,
    pub spots: u64,
    pub seed: u64,
    pub content: Content,
    pub compared: Arc<Mutex<Compared>>,
}

impl Workload for Pass {
    fn kind(&self) -> &'static str {
        "preparation"
    }

    fn spec(&self) -> RunSpec {
        spec(&self.device)
    }

    fn writes(&self) -> bool {
        true
    }

    fn unit_bytes(&self) -> u64 {
        self.random
            .as_ref()
            .map_or(BLOCK_BYTES, |random| random.order.block_bytes())
            .into()
    }

    fn build(&self, devices: &[DeviceShape], _: &BuildContext, run: &mut RunPlan) -> Built {
        let Some(RandomPass {
            order,
            device_bytes,
            overwritten_content,
        }) = &self.random
        else {
            let sweep = SweepStream::new(self.range.clone(), self.mark.clone());
            return Ok(add(
                run,
                self.kind(),
                devices,
                sweep,
                BLOCK_BYTES,
                &[self.content.fill()],
            ));
        };
        let sweep = SweepStream::ordered(
            self.range.start,
            order.clone(),
            *device_bytes,
            self.mark.clone(),
        );
        Ok(add(
            run,
            self.kind(),
            devices,
            sweep,
            order.block_bytes(),
            &[self.content.fill(), overwritten_content.fill()],
        ))
    }
}

impl ReadBack {
    /// Number of places read: fewer than requested if the device has no more.
    pub fn spots(&self) -> u64 {
        self.spots.min(self.end.div_ceil(SPOT_BYTES as u64))
    }
}

impl Workload for ReadBack {
    fn kind(&self) -> &'static str {
        "read-back"
    }

    fn spec(&self) -> RunSpec {
        spec(&self.device)
    }

    fn writes(&self) -> bool {
        false
    }

    fn unit_bytes(&self) -> u64 {
        SPOT_BYTES as u64
    }

    fn build(&self, devices: &[DeviceShape], _: &BuildContext, run: &mut RunPlan) -> Built {
        Ok(add(
            run,
            self.kind(),
            devices,
            Sample::new(self),
            SPOT_BYTES as u32,
            &[Fill::AsIs],
        ))
    }
}

fn spec(device: &DeviceName) -> RunSpec {
    RunSpec::new(vec![device.clone()], NO_END_SEC)
}

fn add(
    run: &mut RunPlan,
    kind: &str,
    devices: &[DeviceShape],
    stream: impl Stream + 'static,
    len_bytes: u32,
    fills: &[Fill],
) -> WorkloadRecord {
    let plan_offsets = run.add([stream_info(kind, false, 0.0, Arrivals::Unknown)], 1);
    let plan = &mut run.shards[0];
    let depth = (IN_FLIGHT_BYTES / len_bytes).clamp(*DEPTHS.start(), *DEPTHS.end());
    let limit = plan.add_limit(depth, false);
    let name = plan_offsets.lane_name(kind, &devices[0].name);
    plan.add_lane(stream, Arrival::Closed { depth, think_ns: 0 }, limit, name);
    for fill in fills {
        plan.add_buffers(BufferClass {
            len_bytes: len_bytes as usize,
            count: depth,
            fill: fill.clone(),
        });
    }
    WorkloadRecord {
        kind: kind.to_owned(),
        ..WorkloadRecord::default()
    }
}
