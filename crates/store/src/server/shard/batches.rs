//! Batches: requests of clients for many keys. Each request gets one reply, in one or several frames.

use super::super::connection::UNSENT_BYTES_MAX;
use super::Shard;
use super::transactions::{Origin, ReplyAddress};
use crate::wire::{self, BatchKey, frame, message};
use crate::{Reply, ResultCode, Work};

/// Maximum number of keys of a batch that are in flight.
const BATCH_IN_FLIGHT_MAX: usize = 64;

/// A part of a batch's reply is sent when it has this many bytes.
const BATCH_PART_BYTES: usize = 64 << 10;

/// A batch that is not completely answered.
#[derive(Debug)]
pub(super) struct Batch {
    asker: ReplyAddress,
    rest: std::vec::IntoIter<BatchKey>,
    in_flight: usize,
    deadline_ns: u64,
    /// The part of the reply that is not sent yet: one frame.
    out: Vec<u8>,
    /// Bytes of memory that the batch's requests take.
    bytes: usize,
}

impl Batch {
    /// Bytes of memory that the batch takes.
    pub(super) fn held(&self) -> usize {
        self.out.capacity() + self.bytes
    }

    pub(super) fn new(asker: ReplyAddress, requests: Vec<BatchKey>, deadline_ns: u64) -> Self {
        let bytes = requests.iter().map(held).sum();
        let mut out = Vec::new();
        frame::begin(&mut out, wire::FrameKind::Message);
        Self { asker, rest: requests.into_iter(), in_flight: 0, deadline_ns, out, bytes }
    }
}

/// Bytes of memory that one key of a batch takes.
fn held(keyed: &BatchKey) -> usize {
    let ops = match keyed.request.as_ref().map(|request| &request.transaction.work) {
        Ok(Work::Write(write)) => write.ops.len() + write.key.len(),
        Ok(Work::Read(ops)) => ops.len(),
        _ => 0,
    };
    size_of::<BatchKey>() + ops
}

impl Shard {
    /// Adds the reply of a key to its batch.
    pub(super) fn answer_key(&mut self, at: u32, index: u32, reply: &Reply) {
        if let Some(batch) = self.batches.get(at) {
            batch.in_flight -= 1;
            message::put_entry(&mut batch.out, index, reply);
            self.pump(at);
        }
    }

    /// Starts as many keys of a batch as the limit allows, and sends the available part of its reply.
    pub(super) fn pump(&mut self, at: u32) {
        loop {
            let Some(batch) = self.batches.get(at) else { return };
            let ReplyAddress { connection: to, serial, number } = batch.asker;
            let Some(connection) = self.connections.get(to).filter(|of| of.serial == serial && !of.ended) else {
                batch.rest = Vec::new().into_iter();
                if batch.in_flight == 0 {
                    self.batches.remove(at);
                }
                return;
            };
            if !connection.is_first(number) {
                // `pump` is called again when the earlier replies are sent.
                return;
            }
            if batch.out.len() >= BATCH_PART_BYTES {
                frame::end(&mut batch.out, 0);
                connection.out().append(&mut batch.out);
                frame::begin(&mut batch.out, wire::FrameKind::Message);
                self.list(to);
                continue;
            }
            let unread = batch.out.len() + connection.unsent();
            if batch.in_flight == BATCH_IN_FLIGHT_MAX || unread >= UNSENT_BYTES_MAX {
                return;
            }
            match batch.rest.next() {
                Some(BatchKey { index, request: Ok(request) }) => {
                    batch.in_flight += 1;
                    let deadline_ns = batch.deadline_ns;
                    self.start(Origin::Batch { batch: at, index }, request, deadline_ns);
                }
                Some(BatchKey { index, request: Err(code) }) => {
                    message::put_entry(&mut batch.out, index, &Reply::of(code))
                }
                None if batch.in_flight > 0 => return,
                None => {
                    let Some(Batch { mut out, .. }) = self.batches.remove(at) else { return };
                    message::put_last(&mut out, ResultCode::OK);
                    self.counts.batches.success += 1;
                    frame::end(&mut out, 0);
                    if let Some(connection) = self.connections.get(to) {
                        connection.batch = None;
                        connection.answer(number, |replies| replies.append(&mut out));
                    }
                    return self.list(to);
                }
            }
        }
    }
}
