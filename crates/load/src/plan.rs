//! What one shard runs: lanes, limits and buffers. The run loop knows nothing beyond this.

use crate::schedule::Schedule;
use crate::stream::Stream;
use device::salt::{PlacedSalt, Salt};

/// When the operations of a lane are wanted.
#[derive(Debug, Clone)]
pub enum Arrival {
    /// Open loop: at instants fixed beforehand.
    Scheduled(Schedule),
    /// Closed loop: `depth` operations, each `think_ns` after the completion of the one before.
    Closed {
        /// Operations kept going.
        depth: u32,
        /// Pause before each operation, the first included.
        think_ns: u64,
    },
}

/// A stream with its arrivals and the limit it is under.
#[derive(Debug, Clone)]
pub struct Lane<S> {
    /// Where the operations come from.
    pub stream: S,
    /// When they are wanted.
    pub arrival: Arrival,
    /// Index into [`Plan::limits`].
    pub limit: u32,
    /// What it is called in messages: `reads@/dev/nvme0n1`.
    pub name: String,
}

/// A bound on the operations in flight of some lanes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Most operations in flight.
    pub slots: u32,
    /// Whether the user asked for this bound: then reaching it is the configured limit's doing, and
    /// otherwise the device's.
    pub configured: bool,
}

/// Buffers of one size and use.
#[derive(Debug, Clone, Default)]
pub struct BufferClass {
    /// Bytes of each.
    pub len_bytes: usize,
    /// How many.
    pub count: u32,
    /// What is in them when they are used.
    pub fill: Fill,
}

/// What a buffer holds when its operation goes out. Stamps are those of one device, so each device that
/// is written salt has classes of its own.
#[derive(Debug, Clone, Default)]
pub enum Fill {
    /// Whatever it held before: for reads, and for writes of the zeros that a buffer begins with.
    #[default]
    AsIs,
    /// Salt that was never written before, filled in ahead between operations.
    Fresh(Salt),
    /// Salt that follows from its place, filled in when the operation gets its buffer.
    Placed(PlacedSalt),
}

/// Everything that one shard runs.
#[derive(Debug, Clone)]
pub struct Plan<S> {
    /// The streams.
    pub lanes: Vec<Lane<S>>,
    /// The in-flight limits.
    pub limits: Vec<Limit>,
    /// The buffers.
    pub buffers: Vec<BufferClass>,
    /// The CPUs on which it is run; none: wherever the kernel will.
    pub cpus: Vec<u32>,
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Self { lanes: Vec::new(), limits: Vec::new(), buffers: Vec::new(), cpus: Vec::new() }
    }
}

impl<S: Stream> Plan<S> {
    /// Most operations in flight at once.
    pub fn in_flight_max(&self) -> usize {
        self.limits.iter().map(|limit| limit.slots as usize).sum()
    }

    /// Memory that the buffers take, each starting on a page.
    pub fn buffer_bytes(&self) -> usize {
        let pages = |class: &BufferClass| class.len_bytes.next_multiple_of(sys::buffer::ALIGN);
        self.buffers.iter().map(|class| pages(class) * class.count as usize).sum()
    }
}
