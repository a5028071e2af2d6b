//! How I/O is carried out: a clock and all targets of one shard behind one interface.
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

/// How long [`IoEngine::reap`] may sleep.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// Return at this instant of the engine's clock at the latest. In the past: do not sleep at all.
    pub until_ns: u64,
    /// Return as soon as this many completions are there. At least 1.
    pub completions: u32,
}

/// One shard's clock and all of its targets.
///
/// The caller keeps the number of operations in flight within the limit the engine was made for. What an
/// operation is, is the engine's business: the run loop asks for a [`BlockEngine`], and one whose ring
/// carries more than block operations implements this with operations of its own.
pub trait IoEngine {
    /// Whether time is virtual: it passes only in [`IoEngine::reap`], and sleeping costs nothing.
    const VIRTUAL: bool;

    /// What it carries out.
    type Op;

    /// What comes back.
    type Completion;

    /// The engine's clock, nanoseconds. Never runs backwards.
    fn now(&mut self) -> u64;

    /// Takes an operation. It is handed to the target here or in the next [`IoEngine::reap`], whichever
    /// the engine does better; the completion tells when.
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
