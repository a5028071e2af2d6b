//! Preparation: a device is written from end to end, and samples of it are read back, by the run loop
//! with streams of its own.
//!
//! [`Sweep`] writes, [`Sample`] reads; both end, and with them the run. What is written follows from
//! seed, pass and place ([`Content`]), so that whoever knows those can go on where another stopped, or
//! compare. What is written in which order, and what is kept of it, is the caller's business.

mod sample;
mod sweep;

pub use sample::{Compared, Mismatch, SPOT_BYTES, Sample};
pub use sweep::{BLOCK_BYTES, Sweep};

use crate::plan::{Arrival, BufferClass, Fill, Lane, Limit, Plan};
use crate::stream::Stream;
use device::salt::PlacedSalt;
use results::cell::{Layout, StreamInfo};

/// Operations kept in flight: enough for a drive of many channels to be busy while we fill buffers.
pub const DEPTH: u32 = 32;

/// What is or will be on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Zeros.
    Zeros,
    /// Salt that follows from its place.
    Salt(PlacedSalt),
}

impl Content {
    /// Fills `bytes` with what belongs at `offset`, a multiple of [`SPOT_BYTES`].
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

/// A plan that writes `content` as `sweep` goes.
pub fn write_plan(sweep: Sweep, content: Content) -> Plan<Sweep> {
    plan(sweep, "writes", BLOCK_BYTES as usize, content.fill())
}

/// A plan that reads the places of `sample`.
pub fn read_plan(sample: Sample) -> Plan<Sample> {
    plan(sample, "reads", SPOT_BYTES, Fill::AsIs)
}

/// What is recorded of such a plan on `device`: one stream.
pub fn layout(device: &str) -> Layout {
    let stream =
        StreamInfo { name: "preparation".to_owned(), judged: false, offered_iops: 0.0, workload: 0, act: None };
    Layout { streams: vec![stream], devices: vec![device.to_owned()], thresholds_ns: [].into() }
}

/// One closed lane on target 0.
fn plan<S: Stream>(stream: S, name: &str, len_bytes: usize, fill: Fill) -> Plan<S> {
    Plan {
        lanes: vec![Lane { stream, arrival: Arrival::Closed { depth: DEPTH, think_ns: 0 }, limit: 0, name: 0 }],
        limits: vec![Limit { slots: DEPTH, configured: false }],
        buffers: vec![BufferClass { len_bytes, count: DEPTH, fill }],
        names: vec![name.to_owned()],
    }
}
