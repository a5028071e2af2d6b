//! Batches: a client's request for many keys, and the one reply to it.

use super::super::connection::UNSENT_BYTES_MAX;
use super::Shard;
use super::transactions::Origin;
use crate::wire::{self, Keyed, frame, reply};
use crate::{Reply, ResultCode, Work};

/// Keys of a batch that are under way at once.
const BATCH_IN_FLIGHT_MAX: usize = 64;

/// Bytes of a batch's reply that go out before the rest is there.
const BATCH_PART_BYTES: usize = 64 << 10;

/// A batch that is not answered.
#[derive(Debug)]
pub(super) struct Batch {
    connection: u32,
    serial: u32,
    request: u64,
    rest: std::vec::IntoIter<Keyed>,
    in_flight: usize,
    deadline_ns: u64,
    /// A frame, begun at its first byte.
    out: Vec<u8>,
    /// Bytes of its requests.
    bytes: usize,
}

impl Batch {
    /// Bytes of memory that are taken for it.
    pub(super) fn held(&self) -> usize {
        self.out.capacity() + self.bytes
    }

    pub(super) fn new(connection: u32, serial: u32, request: u64, requests: Vec<Keyed>, deadline_ns: u64) -> Self {
        let bytes = requests.iter().map(held).sum();
        let mut out = Vec::new();
        frame::begin(&mut out, wire::Kind::Message);
        Self { connection, serial, request, rest: requests.into_iter(), in_flight: 0, deadline_ns, out, bytes }
    }
}

/// Bytes of memory that one key of a batch takes.
fn held(keyed: &Keyed) -> usize {
    let ops = match keyed.request.as_ref().map(|request| &request.transaction.work) {
        Ok(Work::Write(write)) => write.ops.len() + write.key.len(),
        Ok(Work::Read(ops)) => ops.len(),
        _ => 0,
    };
    size_of::<Keyed>() + ops
}

impl Shard {
    /// Adds the reply of a key to its batch.
    pub(super) fn answer_key(&mut self, at: u32, index: u32, reply: &Reply) {
        if let Some(batch) = self.batches.get(at) {
            batch.in_flight -= 1;
            reply::put_entry(&mut batch.out, index, reply);
            self.pump(at);
        }
    }

    /// Starts as many keys of a batch as the limit allows, and sends the available part of its reply.
    pub(super) fn pump(&mut self, at: u32) {
        loop {
            let Some(batch) = self.batches.get(at) else { return };
            let connection = self.connections.get(batch.connection);
            let Some(connection) = connection.filter(|of| of.serial == batch.serial && !of.ended) else {
                batch.rest = Vec::new().into_iter();
                if batch.in_flight == 0 {
                    self.batches.remove(at);
                }
                return;
            };
            if !connection.is_first(batch.request) {
                // Earlier replies are sent first, and then this is called again.
                return;
            }
            if batch.out.len() >= BATCH_PART_BYTES {
                frame::end(&mut batch.out, 0);
                connection.out().append(&mut batch.out);
                frame::begin(&mut batch.out, wire::Kind::Message);
                let connection = batch.connection;
                self.list(connection);
                continue;
            }
            let unread = batch.out.len() + connection.unsent();
            if batch.in_flight == BATCH_IN_FLIGHT_MAX || unread >= UNSENT_BYTES_MAX {
                return;
            }
            match batch.rest.next() {
                Some(Keyed { index, request: Ok(request) }) => {
                    batch.in_flight += 1;
                    let deadline_ns = batch.deadline_ns;
                    self.start(Origin::Batch { batch: at, index }, request, deadline_ns);
                }
                Some(Keyed { index, request: Err(code) }) => reply::put_entry(&mut batch.out, index, &Reply::of(code)),
                None if batch.in_flight > 0 => return,
                None => {
                    let Some(Batch { connection: to, request, mut out, .. }) = self.batches.remove(at) else { return };
                    reply::put_last(&mut out, ResultCode::OK);
                    self.counts.batches.success += 1;
                    frame::end(&mut out, 0);
                    if let Some(connection) = self.connections.get(to) {
                        connection.batch = None;
                        connection.answer(request, |replies| replies.append(&mut out));
                    }
                    return self.list(to);
                }
            }
        }
    }
}
