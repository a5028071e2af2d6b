//! The engine of io_uring: registered files and buffers.

use crate::queued::{Limits, Queued, epoch_ns};
use device::target::Target;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use sys::ring::{Files, Ring, RingFacts};

/// A shard's ring and targets. Stays on the thread that made it.
pub type Uring = Queued<Ring<Files>>;

impl Uring {
    /// An engine for `targets` with at most `in_flight_max` operations in flight and `memory_bytes` of buffers.
    ///
    /// `epoch` is instant 0 of its clock (CLOCK_MONOTONIC). A completion may stay unseen for `harmless_gap_ns`
    /// without raising a doubt. `polled`: reads and writes complete without interrupts, on targets that bypass the page
    /// cache and have poll queues; a thread does all other operations. Errors: those of io_uring_setup(2) and
    /// io_uring_register(2); `PermissionDenied` where io_uring is forbidden.
    pub fn new(
        targets: Vec<Arc<Target>>,
        in_flight_max: usize,
        memory_bytes: usize,
        epoch: Instant,
        harmless_gap_ns: u64,
        polled: bool,
    ) -> io::Result<(Self, RingFacts)> {
        let files: Vec<_> = targets.iter().map(|target| target.fd()).collect();
        let form = Files::new(&files)?;
        let (ring, facts) = Ring::new(&files, form, in_flight_max, memory_bytes, epoch_ns(epoch), polled)?;
        let limits = match polled {
            true => Limits { deallocates: false, writes_back: false, flushes: false, ..Limits::NONE },
            false => Limits { deallocates: ring.discards(), ..Limits::NONE },
        };
        Ok((Self::on(ring, targets, in_flight_max, limits, None, epoch, harmless_gap_ns), facts))
    }
}
