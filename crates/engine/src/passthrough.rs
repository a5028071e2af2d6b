//! The engine of NVMe passthrough: reads, writes, flushes and deallocations as commands on the character device of a
//! namespace (`/dev/ng0n1`), past the block layer. What fails comes back as the drive's own status.
//!
//! It is [`Uring`] on another ring. The kernel checks of such a command neither range nor right (as root), and what is
//! longer than its queue takes it refuses: all of that is checked here, before a command is made. The block device stays
//! open and claimed meanwhile ([`device::generic`]).

use crate::uring::{Uring, epoch_ns};
use crate::{IoEngine, Wait};
use device::generic::Generic;
use device::target::Target;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;
use sys::buffer::Buf;
use sys::nvme::ring::{Commands, Namespace};
use sys::op::{Completion, Op, OpKind};
use sys::ring::{Ring, RingFacts};

/// A shard's ring and namespaces. Lives on the thread that made it.
pub struct Passthrough {
    uring: Uring<Commands>,
    // The descriptors registered with the ring.
    generics: Vec<Arc<Generic>>,
}

impl Passthrough {
    /// An engine for `targets` by their character devices `generics`; otherwise as [`Uring::new`].
    pub fn new(
        targets: Vec<Arc<Target>>,
        generics: Vec<Arc<Generic>>,
        in_flight_max: usize,
        memory_bytes: usize,
        epoch: Instant,
        harmless_gap_ns: u64,
    ) -> io::Result<(Self, RingFacts)> {
        let files: Vec<_> = generics.iter().map(|generic| generic.as_fd()).collect();
        let namespace = |generic: &Arc<Generic>| Namespace {
            nsid: generic.nsid(),
            block_bytes: generic.block_bytes(),
            first_byte: generic.first_byte(),
            fua: generic.needs_fua(),
            placement_ids: generic.placement_ids().to_vec(),
        };
        let commands = Commands::new(generics.iter().map(namespace).collect());
        let (ring, facts) = Ring::new(&files, commands, in_flight_max, memory_bytes, epoch_ns(epoch))?;
        let uring = Uring::on(ring, targets, in_flight_max, true, epoch, harmless_gap_ns);
        Ok((Self { uring, generics }, facts))
    }

    /// Why the drive must not see `op`.
    fn refusal(&self, op: &Op) -> Option<i32> {
        let generic = &self.generics[usize::from(op.target)];
        if matches!(op.kind, OpKind::Write | OpKind::Deallocate) && !generic.is_writable() {
            // As of a descriptor that cannot write.
            return Some(libc::EBADF);
        }
        if op.kind == OpKind::Flush {
            return None;
        }
        let block_bytes = generic.block_bytes();
        let whole = op.len > 0 && op.offset.is_multiple_of(block_bytes.into()) && op.len.is_multiple_of(block_bytes);
        let fits = !op.kind.moves_data() || (op.len <= generic.transfer_bytes_max() && op.buf.len() >= op.len as usize);
        if !whole || !fits {
            return Some(libc::EINVAL);
        }
        if op.offset.checked_add(op.len.into()).is_none_or(|end| end > generic.size_bytes()) {
            return Some(libc::ENOSPC);
        }
        let placements = generic.placement_ids().len();
        let is_placed = |at: u16| (1..=placements).contains(&usize::from(at));
        (op.placement.is_some_and(|placement| !is_placed(placement.0))).then_some(libc::EOPNOTSUPP)
    }
}

impl IoEngine for Passthrough {
    const VIRTUAL: bool = false;
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

    fn reap(&mut self, wait: Wait, out: &mut Vec<Completion>) -> io::Result<()> {
        self.uring.reap(wait, out)
    }

    fn in_flight(&self) -> usize {
        self.uring.in_flight()
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.uring.buffer(len)
    }
}
