//! Linux AIO (io_submit(2)): asynchronous direct reads and writes, and flushes, for systems that forbid io_uring, such
//! as most containers.
//!
//! Reads and writes must not block the submitting thread (`RWF_NOWAIT`). An operation that would block, because the
//! device has no free request, ends with `EAGAIN`; the caller repeats it on another thread. At process exit the kernel
//! waits for operations in flight, even on a hung device. Structures and opcodes: include/uapi/linux/aio_abi.h.

use crate::buffer::{ALIGN, Buf, Pool};
use crate::op::{Op, OpKind, Outcome, Queue, Reaped, Wait};
use crate::process::monotonic_ns;
use crate::succeed;
use std::io;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;

/// `RWF_NOWAIT` of linux/fs.h.
const RWF_NOWAIT: u32 = 0x8;

/// Flag of a control block with a priority (linux/aio_abi.h).
const IOCB_FLAG_IOPRIO: u32 = 2;

/// Timeout of [`probe`]'s read, nanoseconds.
const PROBE_NS: u64 = 5_000_000_000;

/// Magic number of the kernel's ring of events (`AIO_RING_MAGIC` of fs/aio.c).
const RING_MAGIC: u32 = 0xa10a_10a1;

/// `struct iocb`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ControlBlock {
    data: u64,
    #[cfg(target_endian = "big")]
    rw_flags: u32,
    key: u32,
    #[cfg(target_endian = "little")]
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buf: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

const _: () = assert!(size_of::<ControlBlock>() == 64 && offset_of!(ControlBlock, buf) == 24);
const _: () = assert!(offset_of!(ControlBlock, flags) == 56);

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct IoEvent {
    data: u64,
    block: u64,
    result: i64,
    result2: i64,
}

const _: () = assert!(size_of::<IoEvent>() == 32);

/// Start of `struct aio_ring`. The context number is the address at which the kernel maps the ring.
#[repr(C)]
struct EventRing {
    id: u32,
    events: u32,
    head: u32,
    tail: u32,
    magic: u32,
}

struct AioInFlight {
    op: Op,
    /// `None`: pushed, but not submitted.
    issued_ns: Option<u64>,
}

/// An AIO context for one thread.
pub struct AioContext {
    context: u64,
    /// The context's own copies of the descriptors. The kernel looks up the number in a control block at submission; by
    /// then the caller may have closed its descriptor and opened another file under the same number.
    files: Vec<OwnedFd>,
    /// `CLOCK_MONOTONIC` at instant 0 of the clock of [`Queue::enter`].
    epoch_ns: u64,
    pool: Pool,
    slots: Vec<Option<AioInFlight>>,
    /// A control block for each token.
    blocks: Vec<ControlBlock>,
    in_flight: usize,
    pushed: Vec<u32>,
    /// Addresses of the control blocks of the pushed operations, for one call of io_submit(2).
    pointers: Vec<*mut ControlBlock>,
    /// Room for the kernel's completions: one entry more than can arrive.
    events: Vec<IoEvent>,
    posted: usize,
    // Not `Send`: addresses of control blocks are passed to the kernel by one thread.
    _one_thread: PhantomData<*const ()>,
}

impl AioContext {
    /// Sets up a context for up to `in_flight_max` operations on `files`, with `memory_bytes` of buffers. Instant 0 of
    /// its clock is `epoch_ns` of `CLOCK_MONOTONIC`. The context has its own descriptors of the files. Errors: those of
    /// io_setup(2), `EAGAIN` beyond /proc/sys/fs/aio-max-nr; those of dup(2).
    pub fn new(
        files: &[BorrowedFd<'_>],
        in_flight_max: usize,
        memory_bytes: usize,
        epoch_ns: u64,
    ) -> io::Result<Self> {
        let files = files
            .iter()
            .map(BorrowedFd::try_clone_to_owned)
            .collect::<io::Result<_>>()?;
        let pool = Pool::new(memory_bytes.next_multiple_of(ALIGN))?;
        let mut context = 0_u64;
        let events = in_flight_max.max(1);
        // SAFETY: the kernel writes one number, which lives until the call returns.
        succeed(unsafe { libc::syscall(libc::SYS_io_setup, events, &raw mut context) })?;
        Ok(Self {
            context,
            files,
            epoch_ns,
            pool,
            slots: (0..in_flight_max).map(|_| None).collect(),
            blocks: vec![ControlBlock::default(); in_flight_max],
            in_flight: 0,
            pushed: Vec::with_capacity(in_flight_max),
            pointers: Vec::with_capacity(in_flight_max),
            events: vec![IoEvent::default(); in_flight_max + 1],
            posted: 0,
            _one_thread: PhantomData,
        })
    }

    /// Submits the pushed operations. An operation that the kernel rejects completes with the kernel's error.
    fn submit(&mut self, now_ns: u64) {
        let blocks = self.blocks.as_mut_ptr();
        self.pointers.clear();
        self.pointers.extend(
            self.pushed
                .iter()
                .map(|token| blocks.wrapping_add(*token as usize)),
        );
        let mut begin = 0;
        while begin < self.pushed.len() {
            let pointers = &self.pointers[begin..];
            // SAFETY: each pointer leads to an element of `blocks`, which the kernel reads and writes only during the
            // call. The element describes memory of an operation, and `slots` keeps the operation until its
            // completion.
            let submitted = unsafe {
                libc::syscall(
                    libc::SYS_io_submit,
                    self.context,
                    pointers.len(),
                    pointers.as_ptr(),
                )
            };
            let submitted_count = match succeed(submitted) {
                Ok(0) => break,
                Ok(taken) => taken,
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
                    break;
                }
                Err(error) => {
                    // The error concerns only the first operation of `pointers`; the loop submits the rest again.
                    let data = self.pushed[begin].into();
                    let errno = error.raw_os_error().unwrap_or(libc::EIO);
                    self.post(IoEvent {
                        data,
                        result: -i64::from(errno),
                        ..IoEvent::default()
                    });
                    1
                }
            };
            for token in &self.pushed[begin..begin + submitted_count] {
                if let Some(in_flight) = &mut self.slots[*token as usize] {
                    in_flight.issued_ns = Some(now_ns);
                }
            }
            begin += submitted_count;
        }
        self.pushed.drain(..begin);
    }

    fn post(&mut self, event: IoEvent) {
        self.events[self.posted] = event;
        self.posted += 1;
    }

    /// Takes the completions of the kernel, and waits for `completions_min` of them until `until_ns`.
    fn collect(&mut self, completions_min: usize, until_ns: u64) -> io::Result<()> {
        let room = self.events.len() - self.posted;
        let left_ns = until_ns
            .saturating_add(self.epoch_ns)
            .saturating_sub(monotonic_ns());
        let left_ns = if completions_min == 0 { 0 } else { left_ns };
        let timeout = libc::timespec {
            tv_sec: (left_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (left_ns % 1_000_000_000) as libc::c_long,
        };
        let events = self.events[self.posted..].as_mut_ptr();
        // SAFETY: there is room for that many events, and both addresses live until the call returns.
        let event_count = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                completions_min.min(room),
                room,
                events,
                &raw const timeout,
            )
        };
        match succeed(event_count) {
            Ok(came) => self.posted += came,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// True if the kernel has completions. Reads the kernel's ring of events, without a system call.
    fn has_events(&self) -> bool {
        let ring = self.context as *const EventRing;
        // SAFETY: io_setup(2) returned the address of this structure, mapped until io_destroy(2), which only `drop`
        // calls. The kernel changes the fields at any time, so each field is read once.
        let (magic, head, tail) = unsafe {
            (
                (&raw const (*ring).magic).read_volatile(),
                (&raw const (*ring).head).read_volatile(),
                (&raw const (*ring).tail).read_volatile(),
            )
        };
        // If the ring has an unknown layout, assume completions: the caller then asks the kernel by a system call.
        magic != RING_MAGIC || head != tail
    }
}

impl Queue for AioContext {
    type Op = Op;
    type Outcome = Outcome;

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.pool.cut(len)
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn pushed(&self) -> usize {
        self.pushed.len()
    }

    /// Also panics for a deallocation and a write-back, because AIO has no such operations.
    fn push(&mut self, mut op: Op) -> Result<(), Op> {
        let token = op.token as usize;
        assert!(self.slots[token].is_none(), "token {token} is in flight");
        let fd = self.files[usize::from(op.target)].as_raw_fd() as u32;
        let (opcode, rw_flags) = match op.kind {
            OpKind::Read => (PREAD, RWF_NOWAIT),
            OpKind::Write => (PWRITE, RWF_NOWAIT | op.sync.flags() as u32),
            OpKind::Flush => (FDSYNC, 0),
            OpKind::FlushFile => (FSYNC, 0),
            OpKind::Deallocate | OpKind::WriteBack(_) => panic!("AIO has no {}", op.kind),
        };
        let mut block = ControlBlock {
            data: token as u64,
            rw_flags,
            opcode,
            fd,
            ..ControlBlock::default()
        };
        if op.kind.moves_data() {
            block.bytes = u64::from(op.len).min(op.buf.len() as u64);
            block.offset = op.offset as i64;
            block.buf = op.buf.address() as u64;
            block.priority = op.priority.value() as i16;
            if op.priority.value() > 0 {
                block.flags = IOCB_FLAG_IOPRIO;
            }
        }
        self.blocks[token] = block;
        self.pushed.push(op.token);
        self.slots[token] = Some(AioInFlight {
            op,
            issued_ns: None,
        });
        self.in_flight += 1;
        Ok(())
    }

    fn enter(&mut self, now_ns: u64, sleep: Option<Wait>) -> io::Result<()> {
        self.submit(now_ns);
        match sleep {
            // No wait while completions are posted: the caller reaps them first, which makes room for operations that
            // the kernel did not take.
            Some(sleep) if self.posted == 0 => {
                self.collect(sleep.completions as usize, sleep.until_ns)
            }
            _ if self.has_events() => self.collect(0, 0),
            _ => Ok(()),
        }
    }

    fn is_ready(&mut self) -> bool {
        self.posted > 0 || self.has_events()
    }

    fn has_completions(&mut self) -> bool {
        self.posted > 0
    }

    fn reap(&mut self, mut on_reaped: impl FnMut(Reaped<Op, Outcome>)) {
        for IoEvent { data, result, .. } in &self.events[..std::mem::take(&mut self.posted)] {
            let token = *data as u32;
            let Some(AioInFlight { op, issued_ns }) =
                self.slots.get_mut(token as usize).and_then(Option::take)
            else {
                continue;
            };
            self.in_flight -= 1;
            let outcome = Outcome::from_result(*result, &op);
            on_reaped(Reaped {
                token,
                op: Some(op),
                outcome,
                issued_ns: issued_ns.unwrap_or(0),
            });
        }
    }
}

impl Drop for AioContext {
    fn drop(&mut self) {
        // Errors are ignored: operations that are still in flight are leaked below.
        let _ = self.collect(0, 0);
        self.reap(drop);
        if self.in_flight == self.pushed.len() {
            // SAFETY: this value owns the context, and none of its operations is in flight.
            let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
            return;
        }
        // io_destroy(2) waits for operations in flight. With a hung device, only a leak is sound.
        for in_flight in self.slots.drain(..).flatten() {
            std::mem::forget(in_flight.op.buf);
        }
        std::mem::forget(self.pool.cut(0));
    }
}

/// Reads the start of `file` by AIO. Errors: io_setup(2), or the read; `EOPNOTSUPP` if the read would block.
pub fn probe(file: BorrowedFd<'_>) -> io::Result<()> {
    let mut aio = AioContext::new(&[file], 1, ALIGN, monotonic_ns())?;
    let buf = aio
        .buffer(ALIGN)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
    let kind = OpKind::Read;
    let len = ALIGN as u32;
    // Cannot fail: no other operation is in flight.
    let _ = aio.push(Op::new(kind, 0, len, buf));
    let began_ns = monotonic_ns();
    let mut result = Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
    // A signal can end a wait early, so repeat the wait.
    while aio.posted == 0 && monotonic_ns() < began_ns + PROBE_NS {
        aio.enter(0, Some(Wait::first(PROBE_NS)))?;
    }
    aio.reap(|reaped| {
        result = match reaped.outcome {
            Outcome::Errno(errno) if errno != libc::EAGAIN => {
                Err(io::Error::from_raw_os_error(errno))
            }
            _ => Ok(()),
        }
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn operations_go_to_the_opened_file_even_if_its_descriptor_number_is_reused() {
        let mut caller_fd = OwnedFd::from(tempfile::tempfile().unwrap());
        let Ok(mut aio) = AioContext::new(&[caller_fd.as_fd()], 1, ALIGN, monotonic_ns()) else {
            println!("skipped: no AIO");
            return;
        };
        // Gives the descriptor number to a pipe, on which a flush would fail.
        rustix::io::dup2(std::io::pipe().unwrap().1, &mut caller_fd).unwrap();
        assert!(aio.push(Op::new(OpKind::Flush, 0, 0, Buf::empty())).is_ok());
        let mut outcome = None;
        while outcome.is_none() {
            aio.enter(0, Some(Wait::first(PROBE_NS))).unwrap();
            aio.reap(|reaped| outcome = Some(reaped.outcome));
        }
        assert_eq!(outcome, Some(Outcome::Done));
    }
}
