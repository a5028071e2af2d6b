//! I/O engines: a clock and all targets of one shard behind one interface.
//!
//! The run loop is generic over [`IoEngine`]. The compiler builds the loop once for io_uring and once for [`sim`], the
//! engines with the cheapest operations. A third build serves all other engines as boxed trait objects: their
//! operations cost far more than a dynamic call. [`uring`], [`aio`], [`threads`], [`calls`] and [`passthrough`] drive
//! real devices. [`sim`] runs on virtual time, from event to event. [`net`] adds sockets to the ring of the targets.

#![warn(missing_docs)]
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

pub mod aio;
pub mod calls;
mod device_name;
pub mod event_queue;
pub mod net;
pub mod passthrough;
pub mod pool;
mod queued;
mod setup;
pub mod sim;
pub mod threads;
pub mod uring;

pub use device_name::DeviceName;
pub use setup::EngineSetup;
use std::ops::DerefMut;
pub use sys::op::Wait;
use sys::op::{Completion, Op};

/// Maximum number of operations per submission to the kernel, and between two readings of the clock. The kernel issues
/// the operations of a batch one by one, so in a long batch the last is issued later than its time stamp.
pub const BATCH: usize = 8;

/// The clock and all targets of a shard. The caller keeps the number of operations in flight within the engine's limit.
///
/// The run loop needs a [`BlockEngine`]. An engine whose ring also carries other operations has its own operation type.
pub trait IoEngine {
    /// Operation type.
    type Op;

    /// Completion type.
    type Completion;

    /// True for virtual time, which advances only in [`IoEngine::reap`]; sleeping costs nothing.
    #[inline]
    fn is_virtual(&self) -> bool {
        false
    }

    /// The engine's clock, nanoseconds. Never runs backwards.
    fn now(&mut self) -> u64;

    /// Submits an operation, now or in the next [`IoEngine::reap`]. The completion has the issue time.
    fn submit(&mut self, op: Self::Op);

    /// Submits queued operations, waits within the bounds of `wait`, and appends completions to `completions`. Blocks
    /// at most until `wait.until_ns` plus the kernel's timer slack. Errors are those of the engine, not of an
    /// operation, and final.
    fn reap(&mut self, wait: Wait, completions: &mut Vec<Self::Completion>) -> std::io::Result<()>;

    /// Operations submitted and not yet reaped.
    fn in_flight(&self) -> usize;

    /// A zeroed buffer; `None` if the engine's memory is used up. Empty on virtual engines. Slow, so reuse buffers.
    fn buffer(&mut self, len: usize) -> Option<sys::buffer::Buf>;

    /// Appends the counters of the simulated drives, drive by drive; real drives have none.
    fn counters(&self, _counters: &mut Vec<u64>) {}
}

/// Boxed and pooled engines forward to the engine inside.
impl<P: DerefMut<Target: IoEngine>> IoEngine for P {
    type Op = <P::Target as IoEngine>::Op;
    type Completion = <P::Target as IoEngine>::Completion;

    #[inline]
    fn is_virtual(&self) -> bool {
        (**self).is_virtual()
    }

    #[inline]
    fn now(&mut self) -> u64 {
        (**self).now()
    }

    #[inline]
    fn submit(&mut self, op: Self::Op) {
        (**self).submit(op);
    }

    #[inline]
    fn reap(&mut self, wait: Wait, completions: &mut Vec<Self::Completion>) -> std::io::Result<()> {
        (**self).reap(wait, completions)
    }

    #[inline]
    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }

    fn buffer(&mut self, len: usize) -> Option<sys::buffer::Buf> {
        (**self).buffer(len)
    }

    fn counters(&self, counters: &mut Vec<u64>) {
        (**self).counters(counters);
    }
}

/// An engine of operations on block devices and files.
pub trait BlockEngine: IoEngine<Op = Op, Completion = Completion> {}

impl<E: IoEngine<Op = Op, Completion = Completion>> BlockEngine for E {}
