//! One io_uring with its files, its buffers and the operations that the kernel has.
//!
//! The ring takes an [`Op`] whole and gives it back with its completion, so the buffer belongs to the
//! ring exactly as long as the kernel may touch it. That is the argument behind every `unsafe` here.

use crate::buffer::{Buf, Pool};
use crate::op::{Kind, Op, Outcome};
use io_uring::types::{Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `RWF_DSYNC` of linux/fs.h: this write only, as if the file were open with `O_DSYNC`.
const RWF_DSYNC: i32 = 0x2;

/// An operation that the kernel has.
struct InFlight {
    op: Op,
    issued_ns: u64,
}

/// A ring for one thread.
pub struct Ring {
    // Dropped before the pool: closing the ring is what makes the kernel let go of the buffers.
    ring: Option<IoUring>,
    pool: Pool,
    slots: Vec<Option<InFlight>>,
    free: Vec<u32>,
    /// Slots pushed and not yet handed to the kernel.
    pushed: Vec<u32>,
}

/// What setting up found, worth telling the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingFacts {
    /// Buffers are registered: the kernel does not pin pages for each operation.
    pub registered_buffers: bool,
    /// Completions are processed by this thread when it looks (Linux 6.1), not by interruption.
    pub deferred_taskrun: bool,
}

impl Ring {
    /// Sets up a ring for up to `in_flight_max` operations on `files`, with `memory_bytes` of buffers.
    ///
    /// Must be called on the thread that uses the ring. Errors: the kernel's, with `Unsupported` when
    /// io_uring is there but older than Linux 5.11 (no timeout on a wait).
    pub fn new(files: &[BorrowedFd<'_>], in_flight_max: usize, memory_bytes: usize) -> io::Result<(Self, RingFacts)> {
        let (ring, deferred_taskrun) = build(in_flight_max)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "io_uring of this kernel cannot wait with a timeout (needs Linux 5.11)",
            ));
        }
        let raw: Vec<_> = files.iter().map(AsRawFd::as_raw_fd).collect();
        ring.submitter().register_files(&raw)?;
        let mut pool = Pool::new(memory_bytes)?;
        let registered_buffers = register(&ring, &mut pool);
        let mut slots = Vec::new();
        slots.resize_with(in_flight_max, || None);
        let free = (0..in_flight_max as u32).rev().collect();
        let ring = Self { ring: Some(ring), pool, slots, free, pushed: Vec::with_capacity(in_flight_max) };
        Ok((ring, RingFacts { registered_buffers, deferred_taskrun }))
    }

    /// Cuts a buffer from the ring's memory.
    pub fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.pool.cut(len)
    }

    /// Operations between [`Self::push`] and [`Self::pop`].
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Operations pushed and not yet handed to the kernel.
    pub fn pushed(&self) -> usize {
        self.pushed.len()
    }

    /// Queues an operation for the next [`Self::enter`]. Gives it back when the queue is full.
    pub fn push(&mut self, mut op: Op) -> Result<(), Op> {
        let (Some(ring), Some(slot)) = (self.ring.as_mut(), self.free.pop()) else { return Err(op) };
        let (file, address, len) = (Fixed(op.target.into()), op.buf.address(), op.len.min(op.buf.len() as u32));
        let rw_flags = if op.sync { RWF_DSYNC } else { 0 };
        let entry = match (op.kind, op.buf.registered()) {
            (Kind::Read, Some(index)) => opcode::ReadFixed::new(file, address, len, index).offset(op.offset).build(),
            (Kind::Read, None) => opcode::Read::new(file, address, len).offset(op.offset).build(),
            (Kind::Write, Some(index)) => {
                opcode::WriteFixed::new(file, address, len, index).offset(op.offset).rw_flags(rw_flags).build()
            }
            (Kind::Write, None) => opcode::Write::new(file, address, len).offset(op.offset).rw_flags(rw_flags).build(),
        };
        // SAFETY: the entry points into `op.buf`, which moves into `slots` below (the bytes stay where
        // they are) and leaves it only in `pop`, after the kernel completed the operation. `len` is
        // within the buffer.
        if unsafe { ring.submission().push(&entry.user_data(slot.into())) }.is_err() {
            self.free.push(slot);
            return Err(op);
        }
        self.slots[slot as usize] = Some(InFlight { op, issued_ns: 0 });
        self.pushed.push(slot);
        Ok(())
    }

    /// Hands the pushed operations to the kernel as issued at `now_ns`, then waits until
    /// `completions` are there or `timeout_ns` has passed (0: do not sleep).
    pub fn enter(&mut self, now_ns: u64, completions: u32, timeout_ns: u64) -> io::Result<()> {
        for slot in self.pushed.drain(..) {
            if let Some(in_flight) = &mut self.slots[slot as usize] {
                in_flight.issued_ns = now_ns;
            }
        }
        let Some(ring) = self.ring.as_ref() else { return Ok(()) };
        let result = if timeout_ns == 0 {
            ring.submitter().submit_and_wait(0)
        } else {
            let timeout = Timespec::new().sec(timeout_ns / 1_000_000_000).nsec((timeout_ns % 1_000_000_000) as u32);
            ring.submitter().submit_with_args(completions as usize, &SubmitArgs::new().timespec(&timeout))
        };
        match result {
            Ok(_) => Ok(()),
            // Timed out, interrupted by a signal, or short of memory for a moment: what is still
            // queued goes with the next call.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the next completion: the operation, its outcome and when it was issued.
    pub fn pop(&mut self) -> Option<(Op, Outcome, u64)> {
        let entry = self.ring.as_mut()?.completion().next()?;
        let slot = entry.user_data() as u32;
        let InFlight { op, issued_ns } = self.slots[slot as usize].take()?;
        self.free.push(slot);
        let outcome = match entry.result() {
            errno if errno < 0 => Outcome::Errno(-errno),
            bytes if bytes as u32 == op.len => Outcome::Done,
            bytes => Outcome::Short(bytes as u32),
        };
        Some((op, outcome, issued_ns))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Closing the ring cancels what it can but does not wait for the rest. An operation that is
        // still out keeps its memory for ever: leaking is the only sound end for a device that hangs.
        self.ring = None;
        for in_flight in self.slots.drain(..).flatten() {
            std::mem::forget(in_flight.op.buf);
        }
    }
}

/// Whether this process may set up a ring at all. Errors: those of io_uring_setup(2).
pub fn probe() -> io::Result<()> {
    IoUring::new(2).map(drop)
}

/// The best ring this kernel gives, and whether it defers task work.
fn build(in_flight_max: usize) -> io::Result<(IoUring, bool)> {
    let entries = (in_flight_max.next_power_of_two() as u32).clamp(8, 4096);
    let completions = (in_flight_max.next_power_of_two() as u32).max(entries) * 2;
    let mut builder = IoUring::builder();
    builder.setup_cqsize(completions).setup_clamp();
    let mut deferring = builder.clone();
    deferring.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    if let Ok(ring) = deferring.build(entries) {
        return Ok((ring, true));
    }
    let mut cooperative = builder.clone();
    cooperative.setup_coop_taskrun().setup_taskrun_flag();
    Ok((cooperative.build(entries).or_else(|_| builder.build(entries))?, false))
}

/// Registers the pool's memory; without the right to lock so much, goes on unregistered.
fn register(ring: &IoUring, pool: &mut Pool) -> bool {
    // A registered buffer is at most 1 GiB (io_uring_register(2)).
    let iovec = pool.iovec();
    if iovec.iov_len > 1 << 30 {
        return false;
    }
    // SAFETY: the memory stays mapped until after the ring is closed: `Ring` drops the ring first, and
    // buffers still in flight then keep the mapping alive.
    let registered = unsafe { ring.submitter().register_buffers(&[iovec]) }.is_ok();
    if registered {
        pool.set_registered(0);
    }
    registered
}
