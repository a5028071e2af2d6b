//! Input of one shard: lanes, limits and buffers. The run loop knows nothing beyond this.

use crate::rate::Rate;
use crate::schedule::{Even, Schedule};
use crate::stream::Stream;
use engine::calls::MappedTargets;
use sys::salt::{PlacedSalt, Salt};

#[derive(Debug, Clone)]
pub enum Arrival {
    /// Open loop: start times are fixed before the run.
    Scheduled(Schedule),
    /// Closed loop: when one of `depth` operations completes, the next starts `think_ns` later.
    Closed {
        depth: u32,
        /// Pause before each operation, the first included.
        think_ns: u64,
    },
}

impl Arrival {
    /// Evenly spaced, see [`Even::new`].
    pub fn even(rate: Rate, first: u64, stride: u64, phase: u32) -> Option<Self> {
        Even::new(rate, first, stride, phase).map(|even| Self::Scheduled(Schedule::Even(even)))
    }
}

/// A stream with its arrivals and its in-flight limit.
#[derive(Debug)]
pub struct Lane {
    pub stream: Box<dyn Stream>,
    pub arrival: Arrival,
    /// Index into [`Plan::limits`].
    pub limit: u32,
    /// Name in messages: `reads@/dev/nvme0n1`.
    pub name: String,
}

/// A bound on the operations in flight of some lanes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub slots: u32,
    /// True: the user set this bound, and waits are charged to the configuration. False: charged to the device.
    pub configured: bool,
}

/// Buffers that are salted ahead, in addition to the buffers of the operations in flight.
pub const SALTED_AHEAD: u32 = 8;

#[derive(Debug, Clone, Default)]
pub struct BufferClass {
    pub len_bytes: usize,
    pub count: u32,
    pub fill: Fill,
}

/// Contents of a buffer when its operation is issued. Salt has a stamp that belongs to one device, so each device to
/// which salt is written has its own buffer classes.
#[derive(Debug, Clone, Default)]
pub enum Fill {
    /// Contents stay as they are: for reads, and for writes of zeros (new buffers contain zeros).
    #[default]
    AsIs,
    /// A new salt for each write, filled in between operations, before the write is due.
    Fresh(Salt),
    /// Salt that is a function of the offset, filled in when the operation gets its buffer.
    Placed(PlacedSalt),
    /// Data that the stream makes when the operation gets its buffer.
    ByStream,
}

#[derive(Debug, Default)]
pub struct Plan {
    pub lanes: Vec<Lane>,
    pub limits: Vec<Limit>,
    pub buffers: Vec<BufferClass>,
    /// CPUs of the shard's thread; empty: the kernel chooses.
    pub cpus: Vec<u32>,
    /// True if the shard's thread performs each operation itself, as a system call on a real device.
    pub synchronous: bool,
    /// Targets that a synchronous shard maps and accesses by page faults.
    pub mapping: Option<MappedTargets>,
    /// Cells that the shard's lanes record, ascending; `None`: all. All shards of a run have cells, or none.
    pub cells: Option<Vec<u32>>,
}

impl BufferClass {
    pub fn plain(len_bytes: usize, count: u32) -> Self {
        Self {
            len_bytes,
            count,
            fill: Fill::AsIs,
        }
    }

    /// Buffers for `slots` writes of `salt` in flight, plus a few buffers that are salted ahead.
    pub fn fresh(len_bytes: usize, slots: u32, salt: Salt) -> Self {
        Self {
            len_bytes,
            count: salted_ahead(slots),
            fill: Fill::Fresh(salt),
        }
    }
}

pub fn salted_ahead(slots: u32) -> u32 {
    slots + slots.min(SALTED_AHEAD)
}

impl Plan {
    /// Adds a limit; returns its index.
    pub fn add_limit(&mut self, slots: u32, configured: bool) -> u32 {
        self.limits.push(Limit { slots, configured });
        self.limits.len() as u32 - 1
    }

    pub fn add_buffers(&mut self, class: BufferClass) -> u16 {
        self.buffers.push(class);
        self.buffers.len() as u16 - 1
    }

    pub fn add_lane(
        &mut self,
        stream: impl Stream + 'static,
        arrival: Arrival,
        limit: u32,
        name: String,
    ) {
        self.lanes.push(Lane {
            stream: Box::new(stream),
            arrival,
            limit,
            name,
        });
    }

    pub fn in_flight_max(&self) -> usize {
        self.limits.iter().map(|limit| limit.slots as usize).sum()
    }

    /// Memory that the buffers take. Each buffer starts on a page boundary.
    pub fn buffer_bytes(&self) -> usize {
        let pages = |class: &BufferClass| class.len_bytes.next_multiple_of(sys::buffer::ALIGN);
        self.buffers
            .iter()
            .map(|class| pages(class) * class.count as usize)
            .sum()
    }
}
