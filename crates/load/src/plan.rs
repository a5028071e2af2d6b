//! Input of one shard: lanes, limits and buffers. The run loop knows nothing beyond this.

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
        /// Operations kept in flight.
        depth: u32,
        /// Pause before each operation, the first included.
        think_ns: u64,
    },
}

/// A stream with its arrivals and the limit it is under.
#[derive(Debug)]
pub struct Lane {
    /// Source of the operations.
    pub stream: Box<dyn Stream>,
    /// When operations are wanted.
    pub arrival: Arrival,
    /// Index into [`Plan::limits`].
    pub limit: u32,
    /// Name in messages: `reads@/dev/nvme0n1`.
    pub name: String,
}

/// A bound on the operations in flight of some lanes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Most operations in flight.
    pub slots: u32,
    /// True if the user set this bound: then the configured limit is blamed for reaching it, otherwise the device.
    pub configured: bool,
}

/// Buffers of one size and use.
#[derive(Debug, Clone, Default)]
pub struct BufferClass {
    /// Bytes per buffer.
    pub len_bytes: usize,
    /// Number of buffers.
    pub count: u32,
    /// Contents at the time of use.
    pub fill: Fill,
}

/// Contents of a buffer when its operation is issued. A stamp belongs to one device, so each device that is written
/// with salt has its own classes.
#[derive(Debug, Clone, Default)]
pub enum Fill {
    /// Previous contents: for reads, and for writes of the zeros that a buffer begins with.
    #[default]
    AsIs,
    /// Salt that was never written before, filled in ahead between operations.
    Fresh(Salt),
    /// Salt that follows from its place, filled in when the operation gets its buffer.
    Placed(PlacedSalt),
}

/// Everything that one shard runs.
#[derive(Debug, Default)]
pub struct Plan {
    pub lanes: Vec<Lane>,
    /// In-flight limits.
    pub limits: Vec<Limit>,
    pub buffers: Vec<BufferClass>,
    /// CPUs for its thread; empty: the kernel chooses.
    pub cpus: Vec<u32>,
}

impl Plan {
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
