//! The seam between the run loop and what it drives: a clock and all targets of one shard.
//!
//! The run loop is generic over [`World`], never dynamic: one call per operation and one wait for all
//! targets. Real worlds are [`crate::uring`] and [`crate::threads`]; [`crate::sim`] is virtual and
//! jumps from event to event.

use crate::op::{Completion, Op};

/// How long [`World::reap`] may sleep.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// Return at this instant of the world's clock at the latest. In the past: do not sleep at all.
    pub until_ns: u64,
    /// Return as soon as this many completions are there. At least 1.
    pub completions: u32,
}

/// One shard's clock and all of its targets.
///
/// The caller keeps the number of operations in flight within the limit the world was made for.
pub trait World {
    /// Whether time is virtual: it passes only in [`World::reap`], and sleeping costs nothing.
    const VIRTUAL: bool;

    /// The world's clock, nanoseconds. Never runs backwards.
    fn now(&mut self) -> u64;

    /// Takes an operation. It is handed to the target here or in the next [`World::reap`], whichever
    /// the world does better; the completion tells when.
    fn submit(&mut self, op: Op);

    /// Hands over what was submitted, then waits as `wait` says, and appends completions to `out`.
    ///
    /// Never blocks longer than until `wait.until_ns` (plus the kernel's timer slack). An error of
    /// the world itself (not of an operation) is final.
    fn reap(&mut self, wait: Wait, out: &mut Vec<Completion>) -> std::io::Result<()>;

    /// Operations submitted and not yet reaped.
    fn in_flight(&self) -> usize;

    /// A buffer of `len` bytes for operations in this world, zeroed; `None` when the world's memory
    /// is used up. Virtual worlds give empty buffers. Not for the hot path.
    fn buffer(&mut self, len: usize) -> Option<crate::sys::buffer::Buf>;
}
