//! The engine of Linux AIO, for systems that forbid io_uring. Helper threads do deallocations and blocking operations.

use crate::queued::{QueueSupport, Queued};
use crate::setup::EngineSetup;
use crate::threads::{Threads, WORKERS_MAX};
use device::target::Target;
use std::io;
use std::sync::Arc;

/// A shard's AIO context, threads and targets. Must stay on the thread that created it.
pub type Aio = Queued<sys::aio::AioContext>;

impl Aio {
    /// An engine for `targets`, all of which must bypass the page cache: buffered operations always block. Blocking
    /// operations beyond [`WORKERS_MAX`] wait for a free helper thread. Errors: io_setup(2), or no threads.
    pub fn new(targets: Vec<Arc<Target>>, setup: EngineSetup) -> io::Result<Self> {
        let files: Vec<_> = targets.iter().map(|target| target.fd()).collect();
        let queue = sys::aio::AioContext::new(
            &files,
            setup.in_flight_max,
            setup.memory_bytes,
            setup.epoch_ns(),
        );
        let queue = queue.map_err(|error| match error.raw_os_error() {
            Some(libc::EAGAIN) => {
                io::Error::other(format!("{error} - raise /proc/sys/fs/aio-max-nr"))
            }
            _ => error,
        })?;
        // All threads start before the run: starting a thread takes time and can fail.
        let threads = Threads::new(
            WORKERS_MAX,
            &targets,
            EngineSetup {
                memory_bytes: 0,
                ..setup
            },
        )?;
        let limits = QueueSupport {
            deallocates: false,
            writes_back: false,
            gives_back: true,
            names_streams: false,
        };
        Ok(Self::on(queue, targets, limits, Some(threads), setup))
    }
}
