//! The engine of NVMe passthrough: reads, writes, flushes and deallocations as commands on the character device of a
//! namespace (`/dev/ng0n1`), which bypass the block layer. Failures have the NVMe status of the drive.
//!
//! The engine is a [`Queued`] ring of NVMe commands. For passthrough commands of root the kernel checks neither range
//! nor permission, so this engine checks both first. Operations larger than the queue's limit are split into several
//! commands, as in the block layer. The block device stays open and claimed during the run ([`device::nvme_generic`]).

use crate::queued::{QueueSupport, Queued};
use crate::setup::EngineSetup;
use crate::{IoEngine, Wait};
use device::nvme_generic::NvmeGeneric;
use device::target::Target;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use sys::buffer::{ALIGN, Buf};
use sys::nvme::ring::{NvmeForm, OpenNamespace};
use sys::op::{Completion, Op, OpKind, Outcome};
use sys::ring::{ENTRIES_MAX, Ring, RingFacts};

/// A shard's ring and namespaces. Must stay on the thread that created it.
pub struct Passthrough {
    uring: Queued<Ring<NvmeForm>>,
    // Owners of the descriptors that are registered with the ring.
    generics: Vec<Arc<NvmeGeneric>>,
}

/// Drops the page cache of the block devices, which lacks the data of passthrough writes.
impl Drop for Passthrough {
    fn drop(&mut self) {
        self.uring
            .targets
            .iter()
            .filter(|target| target.is_writable())
            .for_each(|target| target.drop_cached());
    }
}

impl Passthrough {
    /// An engine for `targets` with their character devices `generics`; otherwise as [`crate::uring::Uring::new`].
    pub fn new(
        targets: Vec<Arc<Target>>,
        generics: Vec<Arc<NvmeGeneric>>,
        setup: EngineSetup,
    ) -> io::Result<(Self, RingFacts)> {
        let files: Vec<_> = generics.iter().map(|generic| generic.as_fd()).collect();
        let commands = NvmeForm::new(
            generics
                .iter()
                .map(|generic| generic.namespace().clone())
                .collect(),
        );
        let slots = setup.in_flight_max;
        let bytes = setup.memory_bytes;
        let (ring, facts) = Ring::new(&files, commands, slots, bytes, setup.epoch_ns())?;
        let uring = Queued::on(ring, targets, QueueSupport::NONE, None, setup);
        Ok((Self { uring, generics }, facts))
    }

    /// Reads the first block of each target, to test whether kernel and drive support passthrough. Errors: outcome of
    /// the first failed read; before Linux 6.1 `EINVAL`, because of the registered buffers.
    pub fn probe(targets: &[Arc<Target>], generics: &[Arc<NvmeGeneric>]) -> Result<(), Outcome> {
        let setup = EngineSetup::new(1, ALIGN * targets.len());
        let (mut engine, _) =
            Self::new(targets.to_vec(), generics.to_vec(), setup).map_err(errno_outcome)?;
        for (target, generic) in (0..).zip(generics) {
            let len = generic.namespace().block_bytes;
            let buf = engine
                .buffer(len as usize)
                .ok_or(Outcome::Errno(libc::ENOMEM))?;
            engine.submit(Op {
                target,
                ..Op::new(OpKind::Read, 0, len, buf)
            });
            let mut completions = Vec::new();
            while completions.is_empty() {
                let until_ns = engine.now() + 1_000_000_000;
                engine
                    .reap(Wait::first(until_ns), &mut completions)
                    .map_err(errno_outcome)?;
            }
            match completions[0].outcome {
                Outcome::Done => {}
                failed => return Err(failed),
            }
        }
        Ok(())
    }

    /// Errno for an operation that must not reach the drive.
    fn refusal(&self, op: &Op) -> Option<i32> {
        let target = &self.uring.targets[usize::from(op.target)];
        let generic = &self.generics[usize::from(op.target)];
        let OpenNamespace {
            block_bytes,
            transfer_bytes_max,
            placement_ids,
            ..
        } = generic.namespace();
        if matches!(op.kind, OpKind::Write | OpKind::Deallocate) && !target.is_writable() {
            // The errno of a read-only descriptor.
            return Some(libc::EBADF);
        }
        if op.kind.is_flush() {
            return None;
        }
        if matches!(op.kind, OpKind::WriteBack(_)) {
            // WriteBack (sync_file_range) writes out the page cache, which passthrough bypasses.
            return Some(libc::EOPNOTSUPP);
        }
        let is_block_aligned = op.len > 0
            && op.offset.is_multiple_of((*block_bytes).into())
            && op.len.is_multiple_of(*block_bytes);
        let commands = op.len.div_ceil(*transfer_bytes_max);
        let fits =
            !op.kind.moves_data() || (commands <= ENTRIES_MAX && op.buf.len() >= op.len as usize);
        if !is_block_aligned || !fits {
            return Some(libc::EINVAL);
        }
        if op
            .offset
            .checked_add(op.len.into())
            .is_none_or(|end| end > target.size_bytes())
        {
            return Some(libc::ENOSPC);
        }
        if let Some(placement) = op.placement
            && !(1..=placement_ids.len()).contains(&usize::from(placement.0))
        {
            return Some(libc::EOPNOTSUPP);
        }
        None
    }
}

fn errno_outcome(error: io::Error) -> Outcome {
    Outcome::Errno(error.raw_os_error().unwrap_or(libc::EIO))
}

impl IoEngine for Passthrough {
    type Op = Op;
    type Completion = Completion;

    #[inline]
    fn now(&mut self) -> u64 {
        self.uring.now()
    }

    #[inline]
    fn submit(&mut self, op: Op) {
        match self.refusal(&op) {
            Some(errno) => self.uring.refuse(op, errno),
            None => self.uring.push(op),
        }
    }

    fn reap(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.uring.reap(wait, completions)
    }

    fn in_flight(&self) -> usize {
        self.uring.in_flight()
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.uring.buffer(len)
    }
}
