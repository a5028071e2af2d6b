//! I/O engines: a clock and all targets of one shard behind one interface.
//!
//! The run loop is generic over [`IoEngine`], never dynamic: one call per operation and one wait for all
//! targets. Real engines are [`uring`], [`threads`] and [`passthrough`]; [`sim`] is virtual and jumps from event to event.
//! [`net`] carries sockets beside the targets.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod device_name;
pub mod event_queue;
pub mod net;
pub mod passthrough;
pub mod pool;
pub mod sim;
pub mod threads;
pub mod uring;

pub use device_name::DeviceName;
use sys::op::{Completion, Op};

/// Operations handed to the kernel at once, and issued between two looks at the clock. The kernel works through a
/// batch before the call returns, so the last of a long one would be issued later than it is stamped.
pub const BATCH: usize = 8;

/// Bounds of the sleep in [`IoEngine::reap`].
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// Return at this instant of the engine's clock at the latest. In the past: do not sleep at all.
    pub until_ns: u64,
    /// Return as soon as this many completions are there. At least 1.
    pub completions: u32,
}

/// One shard's clock and all of its targets.
///
/// The caller keeps the number of operations in flight within the limit the engine was made for. The run loop needs a
/// [`BlockEngine`]; an engine whose ring carries more than block operations implements this trait with its own
/// operation type.
pub trait IoEngine {
    /// True for virtual time: it advances only in [`IoEngine::reap`], and sleeping costs nothing.
    const VIRTUAL: bool;

    /// Operation type.
    type Op;

    /// Completion type.
    type Completion;

    /// The engine's clock, nanoseconds. Never runs backwards.
    fn now(&mut self) -> u64;

    /// Submits an operation. The target gets it here or in the next [`IoEngine::reap`], whichever is cheaper; the
    /// completion has the time.
    fn submit(&mut self, op: Self::Op);

    /// Hands over what was submitted, then waits as `wait` says, and appends completions to `out`.
    ///
    /// Never blocks longer than until `wait.until_ns` (plus the kernel's timer slack). An error of
    /// the engine itself (not of an operation) is final.
    fn reap(&mut self, wait: Wait, out: &mut Vec<Self::Completion>) -> std::io::Result<()>;

    /// Operations submitted and not yet reaped.
    fn in_flight(&self) -> usize;

    /// A buffer of `len` bytes for operations in this engine, zeroed; `None` when the engine's memory
    /// is used up. Virtual engines give empty buffers. Not for the hot path.
    fn buffer(&mut self, len: usize) -> Option<sys::buffer::Buf>;

    /// Appends what the drives inside the engine counted so far, drive by drive; nothing where drives are real.
    fn counters(&self, _counters: &mut Vec<u64>) {}
}

/// An engine of operations on block devices and files.
pub trait BlockEngine: IoEngine<Op = Op, Completion = Completion> {}

impl<E: IoEngine<Op = Op, Completion = Completion>> BlockEngine for E {}
