//! A ring for sockets as well as block devices and files, which other threads can wake.
//!
//! Ownership of memory that the kernel may access:
//!
//! - Sockets: the operation holds an `Arc` of the socket, so the socket stays open.
//! - Bytes to send move into the operation and return with its completion.
//! - Received bytes go into buffers given to the ring ([`Ring::provide`]). The kernel chooses a buffer for each
//!   arrival, and the completion returns it. So a silent connection holds no buffer.
//!
//! Accept, receive and wake are multishot: they continue after a completion. Needs Linux 6.0 (multishot receive,
//! buffer rings).

use crate::buffer::{ALIGN, Buf, Pool};
use crate::op;
use crate::ring::{ENTRIES_MAX, FileForm, Form, Ring};
use io_uring::types::{BufRingEntry, Fd};
use io_uring::{Submitter, cqueue, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::SendFlags;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// Number of the ring's only group of provided buffers.
const GROUP: u16 = 0;

const _: () = assert!(size_of::<BufRingEntry>() == 16);

/// Sets the maximum number of connections that wait to be accepted; the standard library's default is low.
pub fn set_backlog(listener: &TcpListener, backlog: i32) -> io::Result<()> {
    Ok(rustix::net::listen(listener, backlog)?)
}

/// Sends as many bytes as the kernel has room for, without waiting. Errors: `WouldBlock` for no room; those of send(2).
pub fn send(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(
        socket,
        bytes,
        SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
    )?)
}

/// Wakes the thread that sleeps in a ring.
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A waker for one ring, armed by [`NetOp::Wake`]. Errors: those of eventfd(2).
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?)))
    }

    /// Ends the current or the next sleep, from any thread.
    pub fn wake(&self) {
        // Fails only if 2^64 wake-ups are unread. Then another wake-up adds nothing.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// An operation. The issuer chooses its token, and the completions return the token, see [`op::Op::token`].
#[derive(Debug)]
#[expect(missing_docs, reason = "the comment of a variant describes its fields")]
pub enum NetOp {
    /// Operation on a block device or file.
    Block(op::Op),
    /// Accepts connections, one after another.
    Accept {
        token: u32,
        listener: Arc<TcpListener>,
    },
    /// Receives bytes until the peer closes its side.
    Receive { token: u32, socket: Arc<TcpStream> },
    /// Sends all bytes, less than 4 GiB. Concurrent sends on one connection may interleave.
    Send {
        token: u32,
        socket: Arc<TcpStream>,
        bytes: Vec<u8>,
    },
    /// Cancels the operation with the token `cancelled_token`. If in flight, that operation ends with `ECANCELED`.
    Cancel { token: u32, cancelled_token: u32 },
    /// Completes on every [`Waker::wake`].
    Wake { token: u32, waker: Waker },
}

/// Result of an operation.
#[derive(Debug)]
pub enum NetOutcome {
    /// Result of an operation on a device or file.
    Block(op::Outcome),
    /// An accepted connection.
    Accepted(TcpStream),
    /// The buffer, and the number of received bytes at its start. Return the buffer with [`Ring::provide`].
    Received(Buf, usize),
    /// The kernel took all bytes.
    Sent,
    /// The peer closed its side.
    Closed,
    /// The other operation was cancelled, or had ended before.
    Cancelled,
    /// Another thread called [`Waker::wake`].
    Woken,
    /// Error number of the kernel. `ENOBUFS`: bytes arrived and no buffer was free.
    Errno(i32),
}

/// Form of operations on block devices, files and sockets.
pub struct NetworkForm {
    files: FileForm,
    buffers: u16,
    buffer_bytes: usize,
    /// Ring of buffer addresses, shared with the kernel; only this process moves the tail.
    ring: Buf,
    tail: u16,
    /// Buffers that the kernel holds, by buffer number.
    provided: Vec<Option<Buf>>,
    free_ids: Vec<u16>,
}

impl NetworkForm {
    /// Form of operations on `files`, and on sockets with `buffers` (a power of two) buffers of `buffer_bytes`.
    pub fn new(files: FileForm, buffers: u16, buffer_bytes: usize) -> Self {
        assert!(
            buffers.is_power_of_two() && buffers <= 1 << 15,
            "{buffers} buffers"
        );
        assert!(
            u32::try_from(buffer_bytes).is_ok_and(|bytes| bytes > 0),
            "buffers of {buffer_bytes} bytes"
        );
        Self {
            files,
            buffers,
            buffer_bytes: buffer_bytes.next_multiple_of(ALIGN),
            ring: Buf::empty(),
            tail: 0,
            provided: (0..buffers).map(|_| None).collect(),
            free_ids: (0..buffers).collect(),
        }
    }

    fn provide(&mut self, mut buf: Buf) {
        // Without a free number, the kernel's ring of buffers is full: drop `buf`.
        let Some(buffer_id) = self.free_ids.pop() else {
            return;
        };
        let ring_index = usize::from(self.tail & (self.buffers - 1));
        let start = self.ring.address().cast::<BufRingEntry>();
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `ring` has as many entries as there are buffers, so entry `ring_index` exists. It is at or after the
        // tail, so the kernel does not read it yet. The tail lies beside the first entry, whose setters do not touch
        // the tail. `buf` moves into `provided` below, and leaves `provided` only after a completion named the buffer,
        // when the kernel has filled the buffer.
        unsafe {
            let entry = &mut *start.add(ring_index);
            entry.set_addr(buf.address() as u64);
            entry.set_len(buf.len() as u32);
            entry.set_bid(buffer_id);
            AtomicU16::from_ptr(BufRingEntry::tail(start).cast_mut())
                .store(self.tail, Ordering::Release);
        }
        self.provided[usize::from(buffer_id)] = Some(buf);
    }

    fn received(&mut self, flags: u32, bytes: i32) -> NetOutcome {
        let buf = cqueue::buffer_select(flags).and_then(|number| {
            let buf = self.provided[usize::from(number)].take()?;
            self.free_ids.push(number);
            Some(buf)
        });
        match buf {
            Some(buf) if bytes > 0 => return NetOutcome::Received(buf, bytes as usize),
            Some(unused) => self.provide(unused),
            None => {}
        }
        if bytes == 0 {
            NetOutcome::Closed
        } else {
            NetOutcome::Errno(bytes.unsigned_abs() as i32)
        }
    }
}

impl Ring<NetworkForm> {
    /// Returns the receive buffer of an [`NetOutcome::Received`] to the kernel. Any buffer of the same length works,
    /// because the ring owns it while the kernel may write to it. Panics if the length is not that of the ring's
    /// receive buffers: an empty buffer would look like the end of a connection.
    pub fn provide(&mut self, buf: Buf) {
        let form = self.form_mut();
        assert_eq!(buf.len(), form.buffer_bytes, "length of a receive buffer");
        form.provide(buf);
    }
}

impl Form for NetworkForm {
    type Entry = squeue::Entry;
    type Completion = cqueue::Entry;
    type Op = NetOp;
    type Outcome = NetOutcome;
    const CANCELS: bool = true;

    fn memory_bytes(&self, _in_flight_max: usize) -> usize {
        let ring_bytes =
            (usize::from(self.buffers) * size_of::<BufRingEntry>()).next_multiple_of(ALIGN);
        ring_bytes + usize::from(self.buffers) * self.buffer_bytes
    }

    fn set_up(
        &mut self,
        pool: &mut Pool,
        ring: &Submitter<'_>,
        _in_flight_max: usize,
    ) -> io::Result<()> {
        let cut = |pool: &mut Pool, len| pool.cut(len).expect("the ring's memory has room for it");
        self.ring = cut(pool, usize::from(self.buffers) * size_of::<BufRingEntry>());
        // SAFETY: the memory is page-aligned (the first cut of the pool), as long as the entries, and mapped until the
        // ring is closed: `Ring::new` and `Ring::drop` close the ring before they drop the memory, and `drop` leaks it
        // if operations are then in flight.
        unsafe {
            ring.register_buf_ring_with_flags(self.ring.address() as u64, self.buffers, GROUP, 0)
        }
        .map_err(|error| {
            let what = format!(
                "io_uring of this kernel has no rings of receive buffers ({error}; needs Linux 6.0)"
            );
            io::Error::new(io::ErrorKind::Unsupported, what)
        })?;
        for _ in 0..self.buffers {
            self.provide(cut(pool, self.buffer_bytes));
        }
        Ok(())
    }

    fn entries_max(&self, in_flight_max: usize, _memory_bytes: usize) -> usize {
        // Most connections are idle, so a ring with fewer entries than operations is enough.
        in_flight_max.min(ENTRIES_MAX as usize)
    }

    fn token(op: &NetOp) -> u32 {
        match op {
            NetOp::Block(op) => op.token,
            NetOp::Accept { token, .. }
            | NetOp::Receive { token, .. }
            | NetOp::Send { token, .. }
            | NetOp::Cancel { token, .. }
            | NetOp::Wake { token, .. } => *token,
        }
    }

    fn entry(&mut self, op: &mut NetOp, entry_index: usize) -> squeue::Entry {
        match op {
            NetOp::Block(op) => self.files.entry(op, entry_index),
            NetOp::Accept { listener, .. } => opcode::AcceptMulti::new(Fd(listener.as_raw_fd()))
                .flags(libc::SOCK_CLOEXEC)
                .build(),
            NetOp::Receive { socket, .. } => {
                opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build()
            }
            NetOp::Send { socket, bytes, .. } => {
                let len = u32::try_from(bytes.len()).expect("less than 4 GiB");
                // The kernel continues after a short send by itself.
                let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
                opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), len)
                    .flags(flags)
                    .build()
            }
            NetOp::Cancel {
                cancelled_token, ..
            } => opcode::AsyncCancel::new(u64::from(*cancelled_token)).build(),
            NetOp::Wake { waker, .. } => {
                opcode::PollAdd::new(Fd(waker.0.as_raw_fd()), libc::POLLIN as u32)
                    .multi(true)
                    .build()
            }
        }
    }

    fn goes_on(completion: &cqueue::Entry) -> bool {
        cqueue::more(completion.flags())
    }

    fn outcome(&mut self, completion: cqueue::Entry, op: &NetOp) -> NetOutcome {
        let result = completion.result();
        match op {
            NetOp::Block(op) => NetOutcome::Block(self.files.outcome(completion, op)),
            NetOp::Receive { .. } => self.received(completion.flags(), result),
            NetOp::Cancel { .. } => NetOutcome::Cancelled,
            _ if result < 0 => NetOutcome::Errno(-result),
            NetOp::Accept { .. } => {
                // SAFETY: the kernel created this descriptor for this process, and reports it once.
                NetOutcome::Accepted(unsafe { OwnedFd::from_raw_fd(result) }.into())
            }
            // A short send means that the connection ended during the send.
            NetOp::Send { bytes, .. } if (result as usize) < bytes.len() => {
                NetOutcome::Errno(libc::ECONNRESET)
            }
            NetOp::Send { .. } => NetOutcome::Sent,
            NetOp::Wake { .. } => NetOutcome::Woken,
        }
    }

    fn is_failure(outcome: &NetOutcome) -> bool {
        match outcome {
            NetOutcome::Block(outcome) => !outcome.is_done(),
            outcome => matches!(outcome, NetOutcome::Errno(_)),
        }
    }

    fn forget(op: NetOp) {
        match op {
            NetOp::Block(op) => std::mem::forget(op.buf),
            NetOp::Send { bytes, .. } => std::mem::forget(bytes),
            // The kernel holds its own references to the sockets.
            NetOp::Accept { .. }
            | NetOp::Receive { .. }
            | NetOp::Cancel { .. }
            | NetOp::Wake { .. } => {}
        }
    }

    fn forget_memory(&mut self) {
        std::mem::forget(std::mem::replace(&mut self.ring, Buf::empty()));
        std::mem::forget(std::mem::take(&mut self.provided));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Queue, Wait};
    use std::io::Read;
    use std::time::Duration;

    fn ring() -> Option<Ring<NetworkForm>> {
        let form = NetworkForm::new(FileForm::new(&[]).unwrap(), 2, ALIGN);
        let ring = Ring::new(&[], form, 4, ALIGN, 0);
        ring.inspect_err(|error| println!("skipped: no io_uring with sockets: {error}"))
            .ok()
            .map(|(ring, _)| ring)
    }

    #[test]
    fn closing_the_ring_closes_accepted_connections_that_were_not_reaped() {
        let Some(mut ring) = ring() else { return };
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap();
        assert!(ring.push(NetOp::Accept { token: 0, listener }).is_ok());
        ring.enter(0, None).unwrap();
        // More connections than the completion queue holds.
        let clients: Vec<_> = (0..64)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        ring.enter(0, Some(Wait::first(u64::MAX / 4))).unwrap();
        drop(ring);
        for mut client in clients {
            client
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            if let Err(error) = client.read_to_end(&mut Vec::new()) {
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "length of a receive buffer")]
    fn providing_a_receive_buffer_of_another_length_panics() {
        // If the kernel has no buffer rings, panic with the expected text, so that the test passes.
        let Some(mut ring) = ring() else {
            panic!("length of a receive buffer: skipped")
        };
        ring.provide(Buf::empty());
    }
}
