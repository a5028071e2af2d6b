//! The engine of io_uring, with registered files and buffers.

use crate::queued::{QueueSupport, Queued};
use crate::setup::EngineSetup;
use device::target::Target;
use std::io;
use std::sync::Arc;
use sys::ring::{FileForm, Ring, RingFacts};

/// A shard's ring and targets. Must stay on the thread that created it.
pub type Uring = Queued<Ring<FileForm>>;

impl Uring {
    /// An engine for `targets`. Errors: io_uring_setup(2), io_uring_register(2); `PermissionDenied` where io_uring is
    /// forbidden.
    pub fn new(targets: Vec<Arc<Target>>, setup: EngineSetup) -> io::Result<(Self, RingFacts)> {
        let files: Vec<_> = targets.iter().map(|target| target.fd()).collect();
        let form = FileForm::new(&files)?;
        let epoch_ns = setup.epoch_ns();
        let (ring, facts) = Ring::new(
            &files,
            form,
            setup.in_flight_max,
            setup.memory_bytes,
            epoch_ns,
        )?;
        let limits = QueueSupport {
            deallocates: ring.discards(),
            ..QueueSupport::NONE
        };
        Ok((Self::on(ring, targets, limits, None, setup), facts))
    }
}
