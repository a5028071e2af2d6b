//! An io_uring with its files, its buffers and its operations in flight.
//!
//! The ring takes ownership of an [`Op`] and returns its buffer with the completion, so it owns the buffer exactly as
//! long as the kernel may access the bytes. Every `unsafe` here relies on this. The table of operations in flight is
//! indexed by the issuer's token, which is also the user data of the entries. A token that is already in flight is
//! refused, because the kernel uses the buffer of that operation.
//!
//! The [`Form`] of a ring translates operations into entries for the kernel: [`FileForm`] for block devices and files,
//! [`crate::nvme::ring`] for NVMe commands, [`crate::net`] for files and sockets.

use super::buffer::{ALIGN, Buf, Pool};
use crate::op::{Op, OpKind, Outcome, Queue, Reaped, Wait};
use crate::succeed;
use io_uring::cqueue::EntryMarker as _;
use io_uring::squeue::EntryMarker as _;
use io_uring::types::{CancelBuilder, Fixed, FsyncFlags, TimeoutFlags, Timespec};
use io_uring::{IoUring, Submitter, cqueue, opcode, squeue};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

// From linux/io_uring.h.
const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const ENTER_ABS_TIMER: u32 = 1 << 5;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

/// `BLOCK_URING_CMD_DISCARD` of linux/blkdev.h (Linux 6.12).
const BLOCK_URING_CMD_DISCARD: u32 = 0x1200;

/// Maximum number of entries of a ring, and therefore of an operation.
pub const ENTRIES_MAX: u32 = 4096;

/// Maximum wait for cancelled operations when a ring is closed.
const CANCEL_WAIT: Timespec = Timespec::new().sec(1);

/// Token and user data of the ring's own timer; larger than every token of an operation.
const TIMER: u32 = u32::MAX;

/// Value of `issued_ns` for an operation that is not issued.
const NOT_ISSUED: u64 = u64::MAX;

/// An operation that is pushed or submitted, but not complete.
struct OpInFlight<F: Form> {
    op: F::Op,
    /// Time at which the operation's first entry was submitted; [`NOT_ISSUED`] until then.
    issued_ns: u64,
    /// Number of incomplete entries.
    entries: usize,
    /// Result of the first entry that failed.
    failed: Option<F::Outcome>,
}

pub(crate) use sealed::Form;

pub(crate) mod sealed {
    use super::{Pool, Submitter, cqueue, io, squeue};

    /// Translates operations into entries of a ring, and completions into results. Only this crate can implement a
    /// form: an entry must point only into the operation's buffer or into the form.
    pub trait Form {
        type Entry: squeue::EntryMarker;
        type Completion: cqueue::EntryMarker;

        /// Operation type. Owns all memory that the kernel may access.
        type Op;

        /// Result type of a completion.
        type Outcome;

        /// True if closing the ring cancels operations that wait for a peer.
        const CANCELS: bool = false;

        /// Memory that the form needs in addition to the buffers of operations.
        fn memory_bytes(&self, _in_flight_max: usize) -> usize {
            0
        }

        /// Takes the form's memory for `in_flight_max` operations from `pool`; registers it with the ring if needed.
        fn set_up(
            &mut self,
            _pool: &mut Pool,
            _ring: &Submitter<'_>,
            _in_flight_max: usize,
        ) -> io::Result<()> {
            Ok(())
        }

        /// Token of an operation.
        fn token(op: &Self::Op) -> u32;

        /// Number of entries that an operation takes.
        fn entries(&self, _op: &Self::Op) -> usize {
            1
        }

        /// Maximum number of entries of `in_flight_max` operations whose buffers total `memory_bytes`.
        fn entries_max(&self, in_flight_max: usize, _memory_bytes: usize) -> usize {
            in_flight_max
        }

        /// Builds entry `entry_index`, from 0. Valid until the operation's memory or the form is moved or freed.
        fn entry(&mut self, op: &mut Self::Op, entry_index: usize) -> Self::Entry;

        /// True if more completions of the operation follow.
        fn goes_on(_completion: &Self::Completion) -> bool {
            false
        }

        /// Result of the entry of `op` that `completion` reports.
        fn outcome(&mut self, completion: Self::Completion, op: &Self::Op) -> Self::Outcome;

        /// True for a failure. A failed entry determines the result of an operation with several entries.
        fn is_failure(outcome: &Self::Outcome) -> bool;

        /// Leaks all memory of an operation that the kernel may still access.
        fn forget(op: Self::Op);

        /// Leaks all memory of the form that the kernel may still access.
        fn forget_memory(&mut self) {}
    }
}

/// Form for block devices and files.
pub struct FileForm {
    /// Per target: true for a block device.
    is_block_device: Vec<bool>,
}

impl FileForm {
    /// Form of operations on `files`.
    pub fn new(files: &[BorrowedFd<'_>]) -> io::Result<Self> {
        Ok(Self {
            is_block_device: files
                .iter()
                .map(|fd: &BorrowedFd<'_>| {
                    let mode = rustix::fs::fstat(fd)?.st_mode;
                    Ok(rustix::fs::FileType::from_raw_mode(mode)
                        == rustix::fs::FileType::BlockDevice)
                })
                .collect::<io::Result<_>>()?,
        })
    }
}

impl Form for FileForm {
    type Entry = squeue::Entry;
    type Completion = cqueue::Entry;
    type Op = Op;
    type Outcome = Outcome;

    fn token(op: &Op) -> u32 {
        op.token
    }

    fn entry(&mut self, op: &mut Op, _number: usize) -> squeue::Entry {
        let is_block_device = self.is_block_device[usize::from(op.target)];
        entry(op, is_block_device)
    }

    fn outcome(&mut self, completion: cqueue::Entry, op: &Op) -> Outcome {
        Outcome::from_result(completion.result().into(), op)
    }

    fn is_failure(outcome: &Outcome) -> bool {
        !outcome.is_done()
    }

    fn forget(op: Op) {
        std::mem::forget(op.buf);
    }
}

/// A ring for one thread.
pub struct Ring<F: Form = FileForm> {
    // `drop` closes the ring first. From then on the kernel accesses only the memory of operations in flight, which
    // `drop` leaks.
    ring: Option<IoUring<F::Entry, F::Completion>>,
    form: F,
    /// The ring's index in the thread's table of registered rings (Linux 5.18).
    registered_ring: Option<u32>,
    /// True if waits have an absolute end (Linux 6.12). A relative timeout would start only after the submission.
    has_absolute_waits: bool,
    /// `CLOCK_MONOTONIC` at instant 0 of the clock of [`Queue::enter`].
    epoch_ns: u64,
    pool: Pool,
    slots: Vec<Option<OpInFlight<F>>>,
    in_flight: usize,
    /// Tokens of entries pushed and not yet submitted.
    pushed: Vec<u32>,
    /// Expiry of the armed timer, on the clock of [`Queue::enter`].
    timer_ns: Option<u64>,
    /// Expiry of the armed timer for the kernel, on `CLOCK_MONOTONIC`.
    timer: Box<Timespec>,
    // Not `Send`: the kernel allows one issuer, and the registered index belongs to that thread.
    _one_thread: PhantomData<*const ()>,
}

/// Properties of a ring that users should know, found during the setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingFacts {
    /// Buffers are registered: the kernel does not pin pages for each operation.
    pub registered_buffers: bool,
    /// The thread processes completions only when it polls (Linux 6.1), so completions do not interrupt it.
    pub deferred_taskrun: bool,
}

impl<F: Form> Ring<F> {
    /// Sets up a ring for up to `in_flight_max` operations of `form` on `files`, with `memory_bytes` of buffers.
    /// Instant 0 of its clock is `epoch_ns` of `CLOCK_MONOTONIC`. Must be called on the thread that uses the ring.
    /// Errors: the kernel's; `Unsupported` before Linux 5.11 (no timeout on a wait).
    pub fn new(
        files: &[BorrowedFd<'_>],
        mut form: F,
        in_flight_max: usize,
        memory_bytes: usize,
        epoch_ns: u64,
    ) -> io::Result<(Self, RingFacts)> {
        let entries_max = form.entries_max(in_flight_max, memory_bytes);
        // Declared before the ring, so that an error below drops (closes) the ring before the memory is unmapped.
        let mut pool =
            Pool::new(memory_bytes.next_multiple_of(ALIGN) + form.memory_bytes(in_flight_max))?;
        let (ring, deferred_taskrun) = build(entries_max)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "io_uring of this kernel cannot wait with a timeout (needs Linux 5.11)",
            ));
        }
        let raw_fds: Vec<_> = files.iter().map(AsRawFd::as_raw_fd).collect();
        if !raw_fds.is_empty() {
            ring.submitter().register_files(&raw_fds)?;
        }
        let registered_buffers = register(&ring, &mut pool);
        form.set_up(&mut pool, &ring.submitter(), in_flight_max)?;
        let ring = Self {
            registered_ring: register_ring(ring.as_raw_fd()),
            // Linux 6.12 added absolute timeouts, discards and this feature flag.
            has_absolute_waits: ring.params().is_feature_min_timeout(),
            ring: Some(ring),
            epoch_ns,
            pool,
            slots: (0..in_flight_max).map(|_| None).collect(),
            in_flight: 0,
            pushed: Vec::with_capacity(entries_max + 1),
            timer_ns: None,
            timer: Box::default(),
            form,
            _one_thread: PhantomData,
        };
        Ok((
            ring,
            RingFacts {
                registered_buffers,
                deferred_taskrun,
            },
        ))
    }

    /// True if the kernel supports discards through the ring (Linux 6.12).
    pub fn discards(&self) -> bool {
        self.has_absolute_waits
    }

    pub(crate) fn form_mut(&mut self) -> &mut F {
        &mut self.form
    }

    /// True if the armed timer expires at `until_ns` or earlier. Arms a timer if there is none.
    ///
    /// The timer survives waits that end with a completion. A timeout per wait would be armed for each wait and
    /// cancelled by each completion; in a virtual machine this costs more CPU time than the operation. A timer that
    /// expires before `until_ns` causes one useless wake-up.
    fn has_timer(&mut self, until_ns: u64) -> bool {
        if let Some(timer_ns) = self.timer_ns {
            return timer_ns <= until_ns;
        }
        let Some(ring) = self.ring.as_mut() else {
            return false;
        };
        *self.timer = timespec(until_ns.saturating_add(self.epoch_ns));
        let entry = opcode::Timeout::new(&raw const *self.timer)
            .flags(TimeoutFlags::ABS)
            .build()
            .user_data(TIMER.into());
        // SAFETY: the kernel reads the time when it takes the entry from the queue. Until the timer completes,
        // `timer_ns` prevents another write to the time, which is freed after the ring is closed.
        let is_pushed = unsafe { ring.submission().push(&entry.into()) }.is_ok();
        if is_pushed {
            self.pushed.push(TIMER);
            self.timer_ns = Some(until_ns);
        }
        is_pushed
    }

    /// Cancels operations that wait for a peer, and reaps the completions.
    fn cancel(&mut self) {
        // Errors are ignored: `drop` leaks operations that remain incomplete.
        let _ = self.enter(0, None);
        if let Some(ring) = &self.ring {
            let _ = ring
                .submitter()
                .register_sync_cancel(Some(CANCEL_WAIT), CancelBuilder::any());
        }
        let _ = self.enter(0, None);
        // A pass reaps only the entries in the completion queue; the kernel then posts the next completions. Reaping
        // also closes accepted sockets.
        while self.has_completions() {
            self.reap(drop);
            let _ = self.enter(0, None);
        }
    }
}

impl<F: Form> Queue for Ring<F> {
    type Op = F::Op;
    type Outcome = F::Outcome;

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.pool.cut(len)
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn pushed(&self) -> usize {
        self.pushed.len()
    }

    fn push(&mut self, op: F::Op) -> Result<(), F::Op> {
        let token = F::token(&op);
        let slot = &mut self.slots[token as usize];
        assert!(slot.is_none(), "token {token} is in flight");
        let Some(ring) = self.ring.as_mut() else {
            return Err(op);
        };
        let entries = self.form.entries(&op);
        let mut queue = ring.submission();
        if queue.capacity() - queue.len() < entries {
            return Err(op);
        }
        // The slot owns the operation before the first entry is pushed. If the form panics at a later entry, the
        // operation never completes, and its memory is leaked with the ring.
        let in_flight = slot.insert(OpInFlight {
            op,
            issued_ns: NOT_ISSUED,
            entries,
            failed: None,
        });
        self.in_flight += 1;
        for entry_index in 0..entries {
            let mut entry = self.form.entry(&mut in_flight.op, entry_index);
            entry.set_user_data(token.into());
            // SAFETY: the entry points into the buffer of the operation (the form respects its length), or into the
            // form's memory for this token, which is in the ring's pool. The operation leaves its slot only in `reap`,
            // after the kernel completed all of its entries, or in `drop`, which leaks its memory.
            unsafe { queue.push(&entry) }.expect("there is room for all");
            self.pushed.push(token);
        }
        Ok(())
    }

    fn enter(&mut self, now_ns: u64, sleep: Option<Wait>) -> io::Result<()> {
        let is_timed =
            matches!(sleep, Some(Wait { completions: 1, until_ns }) if self.has_timer(until_ns));
        let Some(ring) = self.ring.as_ref() else {
            return Ok(());
        };
        for token in &self.pushed {
            if let Some(in_flight) =
                slot(&mut self.slots, *token).filter(|of| of.issued_ns == NOT_ISSUED)
            {
                in_flight.issued_ns = now_ns;
            }
        }
        let (fd, flags) = match self.registered_ring {
            Some(index) => (index as RawFd, ENTER_GETEVENTS | ENTER_REGISTERED_RING),
            None => (ring.as_raw_fd(), ENTER_GETEVENTS),
        };
        let result = match sleep {
            None => enter(fd, self.pushed.len(), 0, flags, None),
            // The armed timer ends the wait. If the kernel rejects the timer's entry, the call does not wait at all.
            Some(_) if is_timed => enter(fd, self.pushed.len(), 1, flags, None),
            Some(Wait {
                completions,
                until_ns,
            }) if self.has_absolute_waits => {
                let at_ns = until_ns.saturating_add(self.epoch_ns);
                enter(
                    fd,
                    self.pushed.len(),
                    completions,
                    flags | ENTER_ABS_TIMER,
                    Some(at_ns),
                )
            }
            Some(Wait {
                completions,
                until_ns,
            }) => enter(
                fd,
                self.pushed.len(),
                completions,
                flags,
                Some(until_ns.saturating_sub(now_ns)),
            ),
        };
        let submitted_count = match result {
            Ok(taken) => taken.min(self.pushed.len()),
            // Timed out, interrupted by a signal, or temporarily out of memory: the kernel took no entry.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)
                ) =>
            {
                0
            }
            Err(error) => return Err(error),
        };
        let last_token = self.pushed.drain(..submitted_count).next_back();
        // An operation of which the kernel took no entry is not issued.
        for token in self
            .pushed
            .iter()
            .filter(|token| Some(**token) != last_token)
        {
            if let Some(in_flight) = slot(&mut self.slots, *token) {
                in_flight.issued_ns = NOT_ISSUED;
            }
        }
        Ok(())
    }

    fn is_ready(&mut self) -> bool {
        let Some(ring) = self.ring.as_mut() else {
            return false;
        };
        !ring.completion().is_empty() || ring.submission().taskrun()
    }

    fn has_completions(&mut self) -> bool {
        self.ring
            .as_mut()
            .is_some_and(|ring| !ring.completion().is_empty())
    }

    fn reap(&mut self, mut on_reaped: impl FnMut(Reaped<F::Op, F::Outcome>)) {
        let Some(ring) = self.ring.as_mut() else {
            return;
        };
        for entry in ring.completion() {
            let token = entry.user_data() as u32;
            if token == TIMER {
                self.timer_ns = None;
                continue;
            }
            let slot = &mut self.slots[token as usize];
            // `push` fills the slot before the kernel sees an entry, and only the last completion empties the slot. So
            // each completion has an owner, also for an accepted socket.
            let in_flight = slot
                .as_mut()
                .expect("the slot is filled until the last completion");
            let goes_on = F::goes_on(&entry);
            let outcome = self.form.outcome(entry, &in_flight.op);
            if goes_on {
                on_reaped(Reaped {
                    token,
                    op: None,
                    outcome,
                    issued_ns: in_flight.issued_ns,
                });
                continue;
            }
            in_flight.entries -= 1;
            if in_flight.entries > 0 {
                if in_flight.failed.is_none() && F::is_failure(&outcome) {
                    in_flight.failed = Some(outcome);
                }
                continue;
            }
            let Some(OpInFlight {
                op,
                issued_ns,
                failed,
                ..
            }) = slot.take()
            else {
                continue;
            };
            self.in_flight -= 1;
            // With several entries, the first failure is the result.
            on_reaped(Reaped {
                token,
                op: Some(op),
                outcome: failed.unwrap_or(outcome),
                issued_ns,
            });
        }
    }
}

impl<F: Form> Drop for Ring<F> {
    fn drop(&mut self) {
        if F::CANCELS && self.in_flight > 0 {
            self.cancel();
        }
        if let (Some(index), Some(ring)) = (self.registered_ring, &self.ring) {
            // Without this call, the thread's table would keep the ring open.
            let _ = update_rings(ring.as_raw_fd(), UNREGISTER_RING_FDS, index, 0);
        }
        // Closing the ring cancels operations if possible, and does not wait for the others. An operation still in
        // flight keeps its memory forever: with a hung device, only a leak is sound.
        self.ring = None;
        for in_flight in self.slots.drain(..).flatten() {
            F::forget(in_flight.op);
        }
        if self.in_flight > 0 {
            self.form.forget_memory();
            // Also leaks the mapping of the pool, because operations with an empty buffer hold no reference to it.
            std::mem::forget(self.pool.cut(0));
        }
    }
}

/// The operation with this token; `None` for the timer.
fn slot<F: Form>(slots: &mut [Option<OpInFlight<F>>], token: u32) -> Option<&mut OpInFlight<F>> {
    slots.get_mut(token as usize)?.as_mut()
}

fn timespec(ns: u64) -> Timespec {
    Timespec::new()
        .sec(ns / 1_000_000_000)
        .nsec((ns % 1_000_000_000) as u32)
}

fn entry(op: &mut Op, is_block_device: bool) -> squeue::Entry {
    let file = Fixed(op.target.into());
    let address = op.buf.address();
    let len = op.len.min(op.buf.len() as u32);
    let offset = op.offset;
    let rw_flags = op.sync.flags();
    let ioprio = op.priority.value();
    let stream = op.placement.map_or(0, |placement| placement.0 as u8);
    match (op.kind, op.buf.registered()) {
        (OpKind::Read, Some(index)) => opcode::ReadFixed::new(file, address, len, index)
            .offset(offset)
            .ioprio(ioprio)
            .build(),
        (OpKind::Read, None) => opcode::Read::new(file, address, len)
            .offset(offset)
            .ioprio(ioprio)
            .build(),
        (OpKind::Write, Some(index)) => opcode::WriteFixed::new(file, address, len, index)
            .offset(offset)
            .ioprio(ioprio)
            .rw_flags(rw_flags)
            .write_stream(stream)
            .build(),
        (OpKind::Write, None) => opcode::Write::new(file, address, len)
            .offset(offset)
            .ioprio(ioprio)
            .rw_flags(rw_flags)
            .write_stream(stream)
            .build(),
        (OpKind::Flush, _) => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
        (OpKind::FlushFile, _) => opcode::Fsync::new(file).build(),
        (OpKind::WriteBack(steps), _) => opcode::SyncFileRange::new(file, op.len)
            .offset(offset)
            .flags(steps.flags())
            .build(),
        (OpKind::Deallocate, _) if is_block_device => discard(file, offset, op.len.into()),
        (OpKind::Deallocate, _) => {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            opcode::Fallocate::new(file, op.len.into())
                .offset(offset)
                .mode(mode)
                .build()
        }
    }
}

/// Entry for a discard of `len` bytes at `offset` (`blkdev_uring_cmd` of the kernel's block/ioctl.c): the start is in
/// `addr`, a number and not a pointer. The length is in `addr3`, the first field of the command bytes.
fn discard(file: Fixed, offset: u64, len: u64) -> squeue::Entry {
    let mut command = [0; 16];
    command[..8].copy_from_slice(&len.to_ne_bytes());
    opcode::UringCmd16::new(file, BLOCK_URING_CMD_DISCARD)
        .cmd(command)
        .addr(Some(offset))
        .build()
}

/// Checks that this process may set up a ring. Errors: those of io_uring_setup(2).
pub fn probe() -> io::Result<()> {
    IoUring::new(2).map(drop)
}

/// Builds the best ring that this kernel supports. The second value: true if the ring defers task work.
fn build<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    entries_max: usize,
) -> io::Result<(IoUring<S, C>, bool)> {
    let requested_entries = entries_max.next_power_of_two() as u32;
    let entries = requested_entries.clamp(8, ENTRIES_MAX);
    let completions = requested_entries.max(entries) * 2;
    let mut plain = IoUring::<S, C>::builder();
    plain.setup_cqsize(completions).setup_clamp();
    // A rejected entry completes with an error and does not block later entries (Linux 5.18).
    let mut cooperative = plain.clone();
    cooperative
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all();
    let mut deferring = plain.clone();
    deferring
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all();
    // Saves one indirection per entry (Linux 6.6).
    let mut direct = deferring.clone();
    direct.setup_no_sqarray();
    if let Ok(ring) = direct.build(entries).or_else(|_| deferring.build(entries)) {
        return Ok((ring, true));
    }
    Ok((
        cooperative
            .build(entries)
            .or_else(|_| plain.build(entries))?,
        false,
    ))
}

/// Registers the pool's memory. `false` if it cannot be locked or is too large: buffers are then unregistered.
fn register<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    ring: &IoUring<S, C>,
    pool: &mut Pool,
) -> bool {
    // A registered buffer is at most 1 GiB (io_uring_register(2)).
    let iovec = pool.iovec();
    if iovec.iov_len > 1 << 30 {
        return false;
    }
    // SAFETY: the memory stays mapped until the ring is closed: `Ring::new` and `Ring::drop` close the ring before they
    // drop the pool, and buffers still in flight then keep the mapping alive.
    let registered = unsafe { ring.submitter().register_buffers(&[iovec]) }.is_ok();
    if registered {
        pool.set_registered(0);
    }
    registered
}

/// Registers the ring in the thread's table: saves a lookup and a reference count per call. `None` before Linux 5.18.
fn register_ring(fd: RawFd) -> Option<u32> {
    update_rings(fd, REGISTER_RING_FDS, u32::MAX, fd as u64).ok()
}

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct RingUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

const _: () = assert!(size_of::<RingUpdate>() == 16);

fn update_rings(fd: RawFd, request: u32, offset: u32, data: u64) -> io::Result<u32> {
    let mut update = RingUpdate {
        offset,
        reserved: 0,
        data,
    };
    // SAFETY: both requests read and write one such struct, which lives until the call returns.
    match unsafe { libc::syscall(libc::SYS_io_uring_register, fd, request, &raw mut update, 1) } {
        1 => Ok(update.offset),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct io_uring_getevents_arg`.
#[repr(C)]
struct GetEvents {
    sigmask: u64,
    sigmask_bytes: u32,
    min_wait_usec: u32,
    timeout: u64,
}

const _: () = assert!(size_of::<GetEvents>() == 24);

/// io_uring_enter(2). `timeout_ns`: relative, or absolute with [`ENTER_ABS_TIMER`]. Returns the entries taken.
fn enter(
    fd: RawFd,
    pushed: usize,
    completions: u32,
    flags: u32,
    timeout_ns: Option<u64>,
) -> io::Result<usize> {
    let timeout = timespec(timeout_ns.unwrap_or(0));
    let argument = GetEvents {
        sigmask: 0,
        sigmask_bytes: 0,
        min_wait_usec: 0,
        timeout: (&raw const timeout) as u64,
    };
    let (flags, pointer, bytes) = match timeout_ns {
        Some(_) => (
            flags | ENTER_EXT_ARG,
            &raw const argument,
            size_of::<GetEvents>(),
        ),
        None => (flags, std::ptr::null(), 0),
    };
    // SAFETY: the kernel reads `argument` and the time that it points to, which live until the call returns.
    // `Ring::push` guarantees the memory that the entries point to.
    succeed(unsafe {
        libc::syscall(
            libc::SYS_io_uring_enter,
            fd,
            pushed,
            completions,
            flags,
            pointer,
            bytes,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Placement;

    use std::os::fd::AsFd;
    use std::time::Instant;

    fn op(kind: OpKind, placement: Option<Placement>) -> Op {
        let offset = 0x1122_3344_5566_7788;
        let len = 4096;
        Op {
            target: 3,
            placement,
            ..Op::new(kind, offset, len, Buf::empty())
        }
    }

    /// A ring that has completed a read while its timer (expiry after `timer_ns`) was armed, and the ring's clock.
    fn with_timer(timer_ns: u64) -> Option<(Ring, impl Fn() -> u64)> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let files = [file.as_fd()];
        let epoch = Instant::now();
        let epoch_ns = crate::process::monotonic_ns();
        let clock = move || epoch.elapsed().as_nanos() as u64;
        let Ok((mut ring, _)) =
            Ring::new(&files, FileForm::new(&files).unwrap(), 1, 4096, epoch_ns)
        else {
            println!("skipped: no io_uring");
            return None;
        };
        let buf = ring.buffer(4096).unwrap();
        let read = Op {
            target: 0,
            offset: 0,
            buf,
            ..op(OpKind::Read, None)
        };
        assert!(ring.push(read).is_ok());
        let mut reaped = 0;
        while reaped == 0 {
            ring.enter(clock(), Some(Wait::first(clock() + timer_ns)))
                .unwrap();
            ring.reap(|read| reaped += u32::from(read.outcome.is_done()));
        }
        Some((ring, clock))
    }

    #[test]
    fn a_timer_outlives_a_wait_and_every_wait_ends_on_time() {
        let Some((mut ring, clock)) = with_timer(60_000_000_000) else {
            return;
        };
        for _ in 0..2 {
            let until_ns = clock() + 20_000_000;
            while clock() < until_ns {
                ring.enter(clock(), Some(Wait::first(until_ns))).unwrap();
                ring.reap(|_| panic!("nothing came back"));
            }
        }
        assert!(ring.timer_ns.is_some(), "waited until it expired");
    }

    #[test]
    fn an_expired_timer_causes_one_wake_up_and_the_next_wait_arms_its_own_timer() {
        let Some((mut ring, clock)) = with_timer(50_000_000) else {
            return;
        };
        let mut waits = 0;
        let until_ns = clock() + 300_000_000;
        while clock() < until_ns {
            ring.enter(clock(), Some(Wait::first(until_ns))).unwrap();
            ring.reap(|_| panic!("nothing came back"));
            waits += 1;
        }
        assert!(waits <= 2, "{waits}");
        assert_eq!(ring.timer_ns, None);
    }

    /// Form whose operations have two entries; building the second entry panics.
    struct HalfForm(FileForm);

    impl Form for HalfForm {
        type Entry = squeue::Entry;
        type Completion = cqueue::Entry;
        type Op = Op;
        type Outcome = Outcome;

        fn token(op: &Op) -> u32 {
            op.token
        }

        fn entries(&self, _op: &Op) -> usize {
            2
        }

        fn entry(&mut self, op: &mut Op, entry_index: usize) -> squeue::Entry {
            assert_eq!(entry_index, 0, "no second entry");
            self.0.entry(op, entry_index)
        }

        fn outcome(&mut self, completion: cqueue::Entry, op: &Op) -> Outcome {
            self.0.outcome(completion, op)
        }

        fn is_failure(outcome: &Outcome) -> bool {
            FileForm::is_failure(outcome)
        }

        fn forget(op: Op) {
            FileForm::forget(op);
        }
    }

    #[test]
    fn an_operation_with_only_one_of_two_entries_submitted_keeps_its_buffer() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let files = [file.as_fd()];
        let form = HalfForm(FileForm::new(&files).unwrap());
        let Ok((mut ring, _)) = Ring::new(&files, form, 4, 4096, 0) else {
            println!("skipped: no io_uring");
            return;
        };
        let buf = ring.buffer(4096).unwrap();
        let push = std::panic::AssertUnwindSafe(|| ring.push(Op::new(OpKind::Read, 0, 4096, buf)));
        assert!(std::panic::catch_unwind(push).is_err());
        ring.enter(0, Some(Wait::first(u64::MAX / 4))).unwrap();
        assert!(ring.has_completions());
        ring.reap(|_| panic!("half of the operation"));
        assert_eq!(ring.in_flight(), 1);
    }

    fn bytes(entry: &squeue::Entry) -> [u8; 64] {
        // SAFETY: an entry is integers without padding.
        unsafe { std::mem::transmute(entry.clone()) }
    }

    #[test]
    fn a_placement_is_the_write_stream_of_the_entry_and_a_discard_has_its_range() {
        // Offsets of `struct io_uring_sqe`: addr 16, write_stream 44, addr3 48.
        let write = bytes(&entry(&mut op(OpKind::Write, Some(Placement(5))), true));
        assert_eq!(write[44..48], [5, 0, 0, 0]);
        assert_eq!(
            bytes(&entry(&mut op(OpKind::Write, None), true))[44..48],
            [0; 4]
        );
        let discard = bytes(&entry(&mut op(OpKind::Deallocate, None), true));
        assert_eq!(discard[8..12], BLOCK_URING_CMD_DISCARD.to_ne_bytes());
        assert_eq!(discard[16..24], 0x1122_3344_5566_7788_u64.to_ne_bytes());
        assert_eq!(discard[48..56], 4096_u64.to_ne_bytes());
    }
}
