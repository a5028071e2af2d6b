//! The engine of io_uring, with registered files and buffers.

pub use crate::queued::Setup;

use crate::queued::{QueueSupport, Queued};
use device::target::Target;
use std::io;
use std::sync::Arc;
use sys::ring::{FileForm, Ring, RingFacts};

/// A shard's ring and targets. Must stay on the thread that created it.
pub type Uring = Queued<Ring<FileForm>>;

impl Uring {
    /// An engine for `targets`. `polled`: reads and writes complete without interrupts, which needs targets with direct
    /// I/O and poll queues; helper threads perform all other operations.
    ///
    /// Errors: those of io_uring_setup(2) and io_uring_register(2); `PermissionDenied` where io_uring is forbidden.
    pub fn new(targets: Vec<Arc<Target>>, setup: Setup, polled: bool) -> io::Result<(Self, RingFacts)> {
        let files: Vec<_> = targets.iter().map(|target| target.fd()).collect();
        let (form, epoch_ns) = (FileForm::new(&files)?, setup.epoch_ns());
        let (ring, facts) = Ring::new(&files, form, setup.in_flight_max, setup.memory_bytes, epoch_ns, polled)?;
        let limits = match polled {
            true => QueueSupport { deallocates: false, writes_back: false, flushes: false, ..QueueSupport::NONE },
            false => QueueSupport { deallocates: ring.discards(), ..QueueSupport::NONE },
        };
        Ok((Self::on(ring, targets, limits, None, setup), facts))
    }
}
