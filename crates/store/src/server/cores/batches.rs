//! Batches: requests of clients for many keys. Each request gets one reply, in one or several frames.

use super::super::connection::UNSENT_BYTES_MAX;
use super::ServerCore;
use super::transactions::{ReplyAddress, Requester};
use crate::wire::{self, BatchKey, frame, message};
use crate::{RecordOp, Reply, ResultCode};

const BATCH_IN_FLIGHT_MAX: usize = 64;

/// A part of a batch's reply is sent when it has this many bytes.
const BATCH_PART_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Batch {
    reply_address: ReplyAddress,
    keys_left: std::vec::IntoIter<BatchKey>,
    in_flight: usize,
    deadline_ns: u64,
    /// The part of the reply that is not sent yet: one frame.
    output: Vec<u8>,
    bytes: usize,
}

impl Batch {
    pub(super) fn bytes_in_use(&self) -> usize {
        self.output.capacity() + self.bytes
    }

    pub(super) fn new(
        reply_address: ReplyAddress,
        requests: Vec<BatchKey>,
        deadline_ns: u64,
    ) -> Self {
        let bytes = requests.iter().map(bytes_in_use).sum();
        let mut output = Vec::new();
        frame::begin(&mut output, wire::FrameKind::Message);
        Self {
            reply_address,
            keys_left: requests.into_iter(),
            in_flight: 0,
            deadline_ns,
            output,
            bytes,
        }
    }
}

/// Bytes of memory that one key of a batch takes.
fn bytes_in_use(keyed: &BatchKey) -> usize {
    let ops = match keyed
        .request
        .as_ref()
        .map(|request| &request.transaction.record_op)
    {
        Ok(RecordOp::Write(write)) => write.ops.len() + write.key.len(),
        Ok(RecordOp::Read(ops, _)) => ops.len(),
        _ => 0,
    };
    size_of::<BatchKey>() + ops
}

impl ServerCore {
    pub(super) fn answer_key(&mut self, batch_number: u32, index: u32, reply: &Reply) {
        if let Some(batch) = self.batches.get(batch_number) {
            batch.in_flight -= 1;
            message::put_entry(&mut batch.output, index, reply);
            self.pump(batch_number);
        }
    }

    /// Starts as many keys of a batch as the limit allows, and sends the available part of its reply.
    pub(super) fn pump(&mut self, batch_number: u32) {
        loop {
            let Some(batch) = self.batches.get(batch_number) else {
                return;
            };
            let ReplyAddress {
                connection: connection_number,
                serial,
                number,
            } = batch.reply_address;
            let Some(connection) = self
                .connections
                .get(connection_number)
                .filter(|of| of.serial == serial && !of.is_closed)
            else {
                batch.keys_left = Vec::new().into_iter();
                if batch.in_flight == 0 {
                    self.batches.remove(batch_number);
                }
                return;
            };
            if !connection.is_first(number) {
                // `pump` is called again when the earlier replies are sent.
                return;
            }
            if batch.output.len() >= BATCH_PART_BYTES {
                frame::end(&mut batch.output, 0);
                connection.out().append(&mut batch.output);
                frame::begin(&mut batch.output, wire::FrameKind::Message);
                self.list(connection_number);
                continue;
            }
            let unread = batch.output.len() + connection.unsent();
            if batch.in_flight == BATCH_IN_FLIGHT_MAX || unread >= UNSENT_BYTES_MAX {
                return;
            }
            match batch.keys_left.next() {
                Some(BatchKey {
                    index,
                    request: Ok(request),
                }) => {
                    batch.in_flight += 1;
                    let deadline_ns = batch.deadline_ns;
                    self.start(
                        Requester::Batch {
                            batch: batch_number,
                            index,
                        },
                        request,
                        deadline_ns,
                    );
                }
                Some(BatchKey {
                    index,
                    request: Err(code),
                }) => message::put_entry(&mut batch.output, index, &Reply::with_result(code)),
                None if batch.in_flight > 0 => return,
                None => {
                    let Some(Batch { mut output, .. }) = self.batches.remove(batch_number) else {
                        return;
                    };
                    message::put_last(&mut output, ResultCode::OK);
                    self.counts.batches.success += 1;
                    frame::end(&mut output, 0);
                    if let Some(connection) = self.connections.get(connection_number) {
                        connection.batch = None;
                        connection.answer(number, |replies| replies.append(&mut output));
                    }
                    return self.list(connection_number);
                }
            }
        }
    }
}
