//! The engine of Linux AIO, where io_uring is forbidden. Flushes and deallocations are done on helper threads, and so are
//! operations that would block the issuing thread.

use crate::queued::{Helped, Queued, epoch_ns};
use crate::threads::WORKERS_MAX;
use device::target::Target;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// A shard's AIO context and targets. Stays on the thread that made it.
pub type Aio = Queued<sys::aio::Aio>;

impl Aio {
    /// An engine for `targets`, which bypass the page cache: otherwise every operation would block. Arguments as of
    /// [`crate::uring::Uring::new`]. Errors: those of io_setup(2).
    pub fn new(
        targets: Vec<Arc<Target>>,
        in_flight_max: usize,
        memory_bytes: usize,
        epoch: Instant,
        harmless_gap_ns: u64,
    ) -> io::Result<Self> {
        let files: Vec<_> = targets.iter().map(|target| target.fd()).collect();
        let queue = sys::aio::Aio::new(&files, in_flight_max, memory_bytes, epoch_ns(epoch))?;
        let helped = Helped { flushes: true, deallocations: true, again: true, streams: true, threads: WORKERS_MAX };
        Ok(Self::on(queue, targets, in_flight_max, helped, epoch, harmless_gap_ns))
    }
}
