//! A queue of operations in the kernel: what io_uring and Linux AIO have in common.

use crate::buffer::Buf;
use std::io;

/// A completion.
pub struct Reaped<Op, Outcome> {
    /// Token of the operation.
    pub token: u32,
    /// The operation with its buffer; `None`: it continues (multishot), and more completions follow.
    pub op: Option<Op>,
    /// Result of the operation, or one event of a multishot operation.
    pub outcome: Outcome,
    /// Time of submission to the kernel, on the clock of [`Queue::enter`].
    pub issued_ns: u64,
}

/// Limits of a wait.
#[derive(Debug, Clone, Copy)]
pub struct Sleep {
    /// Number of completions that end the sleep.
    pub completions: u32,
    /// End of the sleep on the clock of [`Queue::enter`].
    pub until_ns: u64,
}

/// Takes operations whole and returns their buffers with the completions: the queue owns a buffer exactly as long as the
/// kernel may access it. Each has a token, below the maximum number of operations in flight.
pub trait Queue {
    /// Operation type.
    type Op;

    /// Result type of a completion.
    type Outcome;

    /// Cuts a buffer from the queue's memory.
    fn buffer(&mut self, len: usize) -> Option<Buf>;

    /// Operations between [`Self::push`] and [`Self::reap`].
    fn in_flight(&self) -> usize;

    /// Entries pushed and not yet submitted.
    fn pushed(&self) -> usize;

    /// Queues an operation for the next [`Self::enter`]. Returns it if the queue has no room for all of its entries.
    ///
    /// Panics if its token is out of range or already in flight.
    fn push(&mut self, op: Self::Op) -> Result<(), Self::Op>;

    /// Submits the pushed operations as issued at `now_ns`, has the kernel post completions, and waits if `sleep` is
    /// given. A wait for one completion can end early, with none.
    ///
    /// Entries that the kernel does not take (out of memory, or after a rejected entry) stay pushed and are issued by
    /// a later call.
    fn enter(&mut self, now_ns: u64, sleep: Option<Sleep>) -> io::Result<()>;

    /// True if completions are available, or the kernel has some to post in [`Self::enter`].
    fn is_ready(&mut self) -> bool;

    /// True if completions are available without a system call.
    fn has_completions(&mut self) -> bool;

    /// Returns all operations with completions, and the events of multishot operations.
    fn reap(&mut self, each: impl FnMut(Reaped<Self::Op, Self::Outcome>));
}
