//! Preparation: a device is written from end to end, and samples of it are read back, by the run loop
//! with streams of its own.
//!
//! [`Sweep`] writes, [`Sample`] reads; both end, and with them the run. The written data follow from seed, pass and
//! offset ([`Content`]), so that a later process can resume or compare. The caller chooses the order of passes and
//! records their progress.

mod sample;
mod sweep;

pub use sample::{Compared, Mismatch, SPOT_BYTES, Sample};
pub use sweep::{BLOCK_BYTES, Sweep};

use super::{CannotRun, Choices, DeviceShape, NO_END_SEC, RunPlan, RunSpec, Workload, recorded};
use crate::plan::{Arrival, BufferClass, Fill};
use crate::stream::Stream;
use device::salt::PlacedSalt;
use engine::DeviceName;
use results::run_dir::WorkloadRecord;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Operations kept in flight: enough for a drive of many channels to be busy while we fill buffers.
pub const DEPTH: u32 = 32;

/// Present or future contents of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Zeros,
    /// Salt that follows from its place.
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
            // Buffers begin as zeros, and writes do not change them.
            Self::Zeros => Fill::AsIs,
            Self::Salt(salt) => Fill::Placed(*salt),
        }
    }
}

/// Writes a part of a device once.
#[derive(Debug)]
pub struct Pass {
    pub device: DeviceName,
    /// Byte range: begins at a multiple of [`BLOCK_BYTES`], ends at one of the device's minimum direct I/O.
    pub range: Range<u64>,
    /// Follows: all of the part before it is written.
    pub mark: Arc<AtomicU64>,
    /// Data to write.
    pub content: Content,
}

/// Reads places of a device back.
#[derive(Debug)]
pub struct ReadBack {
    pub device: DeviceName,
    /// Places are before this byte.
    pub end: u64,
    /// Number of places to read.
    pub spots: u64,
    pub seed: u64,
    /// Expected data.
    pub content: Content,
    /// Receives the result.
    pub compared: Arc<Compared>,
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
        BLOCK_BYTES.into()
    }

    fn build(&self, devices: &[DeviceShape], _: &Choices, run: &mut RunPlan) -> Result<WorkloadRecord, CannotRun> {
        let sweep = Sweep::new(self.range.clone(), self.mark.clone());
        Ok(add(run, self.kind(), devices, sweep, BLOCK_BYTES as usize, self.content.fill()))
    }
}

impl ReadBack {
    /// Places that are read in all: fewer than wanted where there are no more.
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

    fn build(&self, devices: &[DeviceShape], _: &Choices, run: &mut RunPlan) -> Result<WorkloadRecord, CannotRun> {
        let sample = Sample::new(self.end, self.spots, self.seed, self.content, self.compared.clone());
        Ok(add(run, self.kind(), devices, sample, SPOT_BYTES, Fill::AsIs))
    }
}

/// Lasts until the stream ends.
fn spec(device: &DeviceName) -> RunSpec {
    RunSpec::new(vec![device.clone()], NO_END_SEC)
}

/// Adds one closed lane, on the only device of the run.
fn add(
    run: &mut RunPlan,
    kind: &str,
    devices: &[DeviceShape],
    stream: impl Stream + 'static,
    len_bytes: usize,
    fill: Fill,
) -> WorkloadRecord {
    let place = run.add([recorded(kind, false, 0.0)], 1);
    let plan = &mut run.shards[0];
    let (limit, name) = (plan.add_limit(DEPTH, false), place.lane_name(kind, &devices[0].name));
    plan.add_lane(stream, Arrival::Closed { depth: DEPTH, think_ns: 0 }, limit, name);
    plan.add_buffers(BufferClass { len_bytes, count: DEPTH, fill });
    WorkloadRecord { kind: kind.to_owned(), ..WorkloadRecord::default() }
}
