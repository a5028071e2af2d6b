//! A connection: received bytes of an incomplete frame, and replies in the order of their requests. Also has [`Slab`].

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Maximum number of requests of a connection that wait for their replies.
const WAITING_MAX: usize = 512;

/// Initial estimate of a reply's size, bytes.
const REPLY_BYTES: usize = 4 << 10;

/// While a client leaves this many bytes of replies unread, no more of its requests are taken.
pub(super) const UNSENT_BYTES_MAX: usize = 1 << 20;

/// Buffers above this size, bytes, are released instead of being reused.
const KEPT_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A client, or a node that has sent nothing yet.
    Client,
    /// Another node, which sends its writes to this node.
    Inbound,
    /// Another node, by its index, which receives the writes of this node.
    Outbound(usize),
}

/// A connection, which belongs to one core.
#[derive(Debug)]
pub(super) struct PeerConnection {
    pub(super) socket: Arc<TcpStream>,
    /// Distinguishes the connection from an earlier connection with the same number.
    pub(super) serial: u32,
    pub(super) role: Role,
    /// For a connection with another node: process number of that node, and number of this node's mode changes at the
    /// greeting.
    pub(super) process: u64,
    pub(super) greeting_changes: u16,
    /// Bytes received and not parsed yet.
    pub(super) input: Vec<u8>,
    /// Time since which `input` has held an incomplete frame.
    pub(super) incomplete_since_ns: Option<u64>,
    pub(super) arrived_ns: u64,
    /// For a link: send time of the last message that the node has answered.
    pub(super) heard_ns: u64,
    /// For a link: send time of the last ping.
    pub(super) pinged_ns: u64,
    pub(super) is_receiving: bool,
    /// For a connection to a node: cleared when the link is lost, so that the connecting thread makes a new link.
    pub(super) link: Option<Arc<AtomicBool>>,
    pub(super) is_cancelling: bool,
    /// True if the other side has closed its sending direction.
    pub(super) is_half_closed: bool,
    /// True if this side has closed the connection.
    pub(super) is_closed: bool,
    /// Number of the oldest unanswered request.
    first_number: u64,
    /// Requests from `first_number` on, each with its reply if the reply is ready, but waits for earlier replies.
    pending_replies: VecDeque<Option<Vec<u8>>>,
    /// The unanswered batch, which is always the last request: its number, and its approximate memory, bytes.
    pub(super) batch: Option<(u32, usize)>,
    /// Bytes of the largest reply so far: the estimate for the next replies.
    reply_bytes: usize,
    /// Bytes of replies that are ready, but wait for earlier replies.
    early_bytes: usize,
    output: Vec<u8>,
    spare: Vec<u8>,
    sending_bytes: usize,
    pub(super) sending_since_ns: u64,
    pub(super) is_listed: bool,
}

impl PeerConnection {
    pub(super) fn new(socket: Arc<TcpStream>, serial: u32, role: Role, now_ns: u64) -> Self {
        Self {
            socket,
            serial,
            role,
            process: 0,
            greeting_changes: 0,
            input: Vec::new(),
            incomplete_since_ns: None,
            arrived_ns: now_ns,
            heard_ns: now_ns,
            pinged_ns: now_ns,
            is_receiving: false,
            link: None,
            is_cancelling: false,
            is_half_closed: false,
            is_closed: false,
            first_number: 0,
            pending_replies: VecDeque::new(),
            batch: None,
            reply_bytes: REPLY_BYTES,
            early_bytes: 0,
            output: Vec::new(),
            spare: Vec::new(),
            sending_bytes: 0,
            sending_since_ns: 0,
            is_listed: false,
        }
    }

    /// Adds a request that gets a reply, and returns the request's number.
    pub(super) fn ask(&mut self) -> u64 {
        self.pending_replies.push_back(None);
        self.first_number + self.pending_replies.len() as u64 - 1
    }

    pub(super) fn is_first(&self, number: u64) -> bool {
        self.first_number == number
    }

    /// Answers request `number` with the output of `write`, after the replies to all earlier requests.
    pub(super) fn answer(&mut self, number: u64, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.is_first(number) {
            let mut reply = Vec::new();
            write(&mut reply);
            let reply_slot = number
                .checked_sub(self.first_number)
                .and_then(|at| self.pending_replies.get_mut(at as usize));
            if let Some(slot) = reply_slot {
                self.early_bytes += reply.len();
                self.reply_bytes = self.reply_bytes.max(reply.len());
                *slot = Some(reply);
            }
            return;
        }
        let len_before = self.output.len();
        write(&mut self.output);
        self.reply_bytes = self.reply_bytes.max(self.output.len() - len_before);
        self.pending_replies.pop_front();
        self.first_number += 1;
        while let Some(Some(reply)) = self.pending_replies.front_mut() {
            self.early_bytes -= reply.len();
            self.output.append(reply);
            self.pending_replies.pop_front();
            self.first_number += 1;
        }
    }

    /// The output buffer. Append only the reply to the oldest request, or messages to a node, which have no order.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Bytes of replies whose send is not complete.
    pub(super) fn unsent(&self) -> usize {
        self.sending_bytes + self.output.len()
    }

    /// True if another request may be taken. Limits the number of waiting requests, and the bytes of expected replies.
    pub(super) fn may_take(&self) -> bool {
        let expected = self.pending_replies.len() * self.reply_bytes;
        // A batch may be a hundred times as large in memory as its frame.
        self.batch.is_none()
            && self.unsent() < UNSENT_BYTES_MAX
            && self.pending_replies.len() < WAITING_MAX
            && expected < UNSENT_BYTES_MAX
    }

    /// Bytes of memory that the connection takes.
    pub(super) fn bytes_in_use(&self) -> usize {
        self.input.capacity()
            + self.early_bytes
            + self.unsent()
            + self.batch.map_or(0, |(_, bytes)| bytes)
    }

    pub(super) fn awaits_reply(&self) -> bool {
        !self.pending_replies.is_empty()
    }

    /// True if all requests are answered and all replies are sent.
    pub(super) fn is_idle(&self) -> bool {
        self.pending_replies.is_empty() && self.unsent() == 0
    }

    /// Bytes to send now, if there are any and no send is in flight.
    pub(super) fn take_out(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        if self.sending_bytes > 0 || self.output.is_empty() || self.is_closed {
            return None;
        }
        self.sending_bytes = self.output.len();
        self.sending_since_ns = now_ns;
        Some(std::mem::replace(
            &mut self.output,
            std::mem::take(&mut self.spare),
        ))
    }

    /// Takes back the buffer of a completed send.
    pub(super) fn sent(&mut self, mut bytes: Vec<u8>) {
        self.sending_bytes = 0;
        if bytes.capacity() <= KEPT_BYTES {
            bytes.clear();
            self.spare = bytes;
        }
    }

    pub(super) fn is_sending(&self) -> bool {
        self.sending_bytes > 0
    }

    /// Appends `arrived` to the bytes that are not parsed yet. Returns all these bytes.
    pub(super) fn take_input(&mut self, arrived: &[u8]) -> Vec<u8> {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(arrived);
        input
    }

    pub(super) fn keep_input(&mut self, mut input: Vec<u8>, consumed: usize) {
        if consumed == input.len() && input.capacity() > KEPT_BYTES {
            input = Vec::new();
        } else {
            input.drain(..consumed);
        }
        self.input = input;
    }

    /// Closes the connection: no more requests or replies. Its operations on the ring then complete.
    pub(super) fn end(&mut self) {
        if !self.is_closed {
            self.is_closed = true;
            (self.input, self.output, self.early_bytes) = (Vec::new(), Vec::new(), 0);
            self.pending_replies.clear();
            // The other side may have closed the connection already.
            let _ = self.socket.shutdown(Shutdown::Both);
        }
    }
}

/// A slab: values addressed by reusable integer keys.
#[derive(Debug)]
pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Stores a value under the number that was freed last, or under a new number.
    pub(super) fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.items[number as usize] = Some(item);
                number
            }
            None => {
                self.items.push(Some(item));
                self.items.len() as u32 - 1
            }
        }
    }

    pub(super) fn get(&mut self, number: u32) -> Option<&mut T> {
        self.items.get_mut(number as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let item = self.items.get_mut(number as usize)?.take();
        if item.is_some() {
            self.free.push(number);
        }
        item
    }

    pub(super) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    pub(super) fn iter(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0..)
            .zip(&mut self.items)
            .filter_map(|(number, thing)| Some((number, thing.as_mut()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn connection() -> PeerConnection {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        PeerConnection::new(Arc::new(socket), 0, Role::Client, 0)
    }

    #[test]
    fn replies_leave_in_the_order_of_their_requests() {
        let mut connection = connection();
        let numbers: Vec<_> = (0..4).map(|_| connection.ask()).collect();
        let answer = |connection: &mut PeerConnection, at: usize| {
            connection.answer(numbers[at], |out| out.push(at as u8));
            connection.out().clone()
        };
        assert!(answer(&mut connection, 2).is_empty());
        assert_eq!(answer(&mut connection, 0), [0]);
        assert_eq!(answer(&mut connection, 1), [0, 1, 2]);
        assert!(!connection.is_idle());
        assert_eq!(connection.take_out(0), Some(vec![0, 1, 2]));
        assert_eq!(answer(&mut connection, 3), [3]);
        assert_eq!((connection.take_out(0), connection.unsent()), (None, 4));
        connection.sent(vec![0, 1, 2]);
        assert_eq!(connection.take_out(0), Some(vec![3]));
        connection.sent(vec![3]);
        assert!(connection.is_idle());
    }

    #[test]
    fn a_client_that_reads_no_replies_is_not_read_from() {
        let mut connection = connection();
        let number = connection.ask();
        connection.answer(number, |out| out.resize(UNSENT_BYTES_MAX, 0));
        assert!(!connection.may_take());
        let bytes = connection.take_out(0).unwrap();
        assert!(
            !connection.may_take(),
            "the kernel has it, and the client has not"
        );
        connection.sent(bytes);
        assert!(connection.may_take());
        // The previous reply was large, and two more replies of its size would exceed the limit.
        let number = connection.ask();
        assert!(!connection.may_take());
        connection.answer(number, |_| ());
        assert!(connection.may_take());
    }
}
