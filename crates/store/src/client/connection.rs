//! A connection to a node: requests, and replies in the same order.
//!
//! Batch reads: one request per node for several records, by the batch-index protocol.
//!
//! ```text
//! operation (keys) -> a part for each node: u32 position | digest, the rest as in the previous key
//!                  <- entries in any order, in one frame or several, then an entry with the "last" flag
//! ```

use super::replies::ReplyEntry;
use crate::wire::frame::{self, FrameKind, Malformed};
use crate::wire::message::{self, MessageHeader, field, info1};
use crate::wire::request;
use crate::{Digest, Transaction};
use rustls::ClientConnection;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// Appends the request for `transaction`. `timeout_ms`: how long the server may work on the request.
pub(super) fn put_request(
    out: &mut Vec<u8>,
    namespace: &[u8],
    transaction: &Transaction,
    timeout_ms: u32,
) {
    let begin = frame::begin(out, FrameKind::Message);
    request::put(out, namespace, transaction, false, timeout_ms);
    frame::end(out, begin);
}

#[derive(Debug)]
pub(super) struct PendingReply {
    /// The transaction's token; `None` if the transaction has ended.
    pub(super) token: Option<u32>,
    pub(super) tries: usize,
    pub(super) part: Option<BatchPart>,
}

#[derive(Debug, Default)]
pub(super) struct ConnectionSlot {
    pub(super) node: usize,
    pub(super) socket: Option<Arc<TcpStream>>,
    pub(super) tls: Option<Box<ClientConnection>>,
    pub(super) is_connecting: bool,
    /// True while the connection closes: some of its operations on the ring are not complete.
    pub(super) is_ending: bool,
    /// Requests with an outstanding reply, in the order of the replies.
    pub(super) pending_replies: VecDeque<PendingReply>,
    pub(super) partial_reply: Vec<u8>,
    pub(super) unsent: Vec<u8>,
    pub(super) is_sending: bool,
    pub(super) is_receiving: bool,
    pub(super) is_listed: bool,
    pub(super) is_free: bool,
}

impl ConnectionSlot {
    pub(super) fn takes(&self, pipeline_max: usize) -> bool {
        // Requests behind a request that has timed out would time out, too.
        let is_stuck = self
            .pending_replies
            .front()
            .is_some_and(|first| first.token.is_none());
        self.socket.is_some()
            && !self.is_ending
            && !is_stuck
            && self.pending_replies.len() < pipeline_max
    }

    pub(super) fn is_vacant(&self) -> bool {
        self.socket.is_none() && !self.is_connecting
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    pub(super) fn take_unsent(&mut self) -> io::Result<Vec<u8>> {
        let plain = std::mem::take(&mut self.unsent);
        let Some(tls) = &mut self.tls else {
            return Ok(plain);
        };
        let mut rest = &plain[..];
        let mut encrypted = Vec::new();
        loop {
            // TLS buffers are bounded: a long request is taken in parts.
            let written = tls.writer().write(rest)?;
            rest = &rest[written..];
            while tls.wants_write() {
                tls.write_tls(&mut encrypted)?;
            }
            match (rest.is_empty(), written) {
                (true, _) => return Ok(encrypted),
                (false, 0) => return Err(ErrorKind::WriteZero.into()),
                (false, _) => {}
            }
        }
    }

    /// The replies in `bytes` from the socket, decrypted if the connection has TLS. Errors: invalid TLS.
    pub(super) fn received<'a>(&mut self, mut bytes: &'a [u8]) -> io::Result<Cow<'a, [u8]>> {
        let Some(tls) = &mut self.tls else {
            return Ok(Cow::Borrowed(bytes));
        };
        let mut plain = Vec::new();
        while !bytes.is_empty() && tls.read_tls(&mut bytes)? > 0 {
            tls.process_new_packets().map_err(io::Error::other)?;
            match tls.reader().read_to_end(&mut plain) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        Ok(Cow::Owned(plain))
    }

    /// True if all operations of a closing connection are complete, so that its slot can be reused.
    pub(super) fn is_over(&self) -> bool {
        self.is_ending && !self.is_sending && !self.is_receiving
    }

    /// Ends the connection. Its operations on the ring then complete.
    pub(super) fn end(&mut self) {
        self.is_ending = true;
        if let Some(socket) = &self.socket {
            // The connection may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

pub type KeySource = Box<dyn FnMut() -> u64>;

#[derive(Clone)]
pub struct BatchReads {
    /// Number of records in a batch; at least 2.
    pub records: u32,
    /// Returns the source of the batch's other keys. Arguments: number of the issuing thread, number of threads. No key
    /// belongs to two threads.
    pub keys: Arc<dyn Fn(usize, usize) -> KeySource + Send + Sync>,
}

/// Index of a record in its batch, and its digest.
pub(super) type IndexedDigest = (u32, Digest);

/// Flags of a batch: the server may read in its receiving thread, and answers every key. Source: the Go client.
const FLAGS: u8 = 0b101;

/// Flags of a key: info bytes and a time to live follow.
const INFO_AND_TTL: u8 = 0b1010;
/// Flag of a key: except for the digest, the key is like the previous key.
const REPEAT: u8 = 1;

/// Appends the request for all bins of `keys`. `timeout_ms`: how long the server may work on the request.
pub(super) fn put_batch(
    out: &mut Vec<u8>,
    namespace: &[u8],
    set: &[u8],
    keys: &[IndexedDigest],
    timeout_ms: u32,
) {
    let mut body = (keys.len() as u32).to_be_bytes().to_vec();
    body.push(FLAGS);
    for (position, (_, digest)) in (0u32..).zip(keys) {
        body.extend_from_slice(&position.to_be_bytes());
        body.extend_from_slice(digest);
        if position > 0 {
            body.push(REPEAT);
            continue;
        }
        body.extend_from_slice(&[INFO_AND_TTL, info1::READ | info1::GET_ALL, 0, 0, 0, 0, 0, 0]);
        body.extend_from_slice(&[0, if set.is_empty() { 1 } else { 2 }, 0, 0]);
        message::put_field(&mut body, field::NAMESPACE, namespace);
        if !set.is_empty() {
            message::put_field(&mut body, field::SET, set);
        }
    }
    let begin = frame::begin(out, FrameKind::Message);
    MessageHeader {
        info: [info1::BATCH, 0, 0, 0],
        timeout: timeout_ms,
        fields: 1,
        ..MessageHeader::default()
    }
    .put(out);
    message::put_field(out, field::BATCH, &body);
    frame::end(out, begin);
}

/// The part of a batch in flight that one node answers.
#[derive(Debug)]
pub(super) struct BatchPart {
    /// Keys by their position in the request; `None`: answered.
    keys: Vec<Option<IndexedDigest>>,
}

impl BatchPart {
    pub(super) fn new(keys: Vec<IndexedDigest>) -> Self {
        Self {
            keys: keys.into_iter().map(Some).collect(),
        }
    }

    /// The keys that `entry` answers: one key, or all keys left if `entry` is the last entry. Errors: a key that is
    /// unknown or already answered; a last entry while keys are left without an answer.
    pub(super) fn answered(
        &mut self,
        entry: &ReplyEntry<'_>,
    ) -> Result<Vec<IndexedDigest>, Malformed> {
        let error = Malformed::Body("records of a batch");
        if !entry.is_last {
            let key = self.keys.get_mut(entry.index as usize);
            return Ok(vec![key.and_then(Option::take).ok_or(error)?]);
        }
        // At the last entry, either the whole part was refused, or all of its keys were answered.
        if entry.code == 0 && self.rest().next().is_some() {
            return Err(error);
        }
        Ok(self.rest().collect())
    }

    pub(super) fn rest(&self) -> impl Iterator<Item = IndexedDigest> + '_ {
        self.keys.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{RecordSpec, ValueType};
    use crate::testing::records;
    use crate::wire::{BatchLimits, ParsedMessage, parse};
    use crate::{RecordOp, Write};
    use sys::op::OpKind;

    #[test]
    fn the_server_parses_the_client_s_requests() {
        for (set, replace) in [(&b""[..], false), (b"users", true)] {
            let object = RecordSpec {
                set: set.into(),
                replace,
                began: 9,
                ..records(3, ValueType::String(20))
            };
            for kind in [OpKind::Read, OpKind::Write] {
                let asked = object.transaction(kind, 77, 1);
                let mut bytes = Vec::new();
                put_request(&mut bytes, b"test", &asked, 50);
                let (_, body) = frame::take(&mut &bytes[..], 1 << 20).unwrap().unwrap();
                let understood = parse(body, BatchLimits::default(), |name| {
                    (name == b"test").then_some(0)
                })
                .unwrap();
                let ParsedMessage::Single { request, .. } = understood else {
                    panic!("{understood:?}")
                };
                let single = request.transaction;
                assert_eq!((single.digest, &single.set), (asked.digest, &asked.set));
                match (single.record_op, asked.record_op) {
                    (RecordOp::ReadAll, RecordOp::ReadAll) => {}
                    (RecordOp::Write(Write { policy, ops, .. }), RecordOp::Write(expected)) => {
                        assert_eq!((policy, ops), (expected.policy, expected.ops));
                    }
                    (record_op, _) => panic!("{record_op:?}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod batch_tests {
    use super::*;
    use crate::wire::{BatchLimits, ParsedMessage, parse};
    use crate::{RecordOp, digest};

    #[test]
    fn the_server_parses_the_client_s_batches() {
        for set in [&b""[..], b"users"] {
            let keys: Vec<IndexedDigest> = (0..3)
                .map(|key| (7 - key, digest(set, 1, &[key as u8])))
                .collect();
            let mut bytes = Vec::new();
            put_batch(&mut bytes, b"test", set, &keys, 50);
            let (_, body) = frame::take(&mut &bytes[..], 1 << 20).unwrap().unwrap();
            let understood = parse(body, BatchLimits::default(), |name| {
                (name == b"test").then_some(0)
            })
            .unwrap();
            let ParsedMessage::Batch {
                requests,
                timeout_ms,
            } = understood
            else {
                panic!("{understood:?}")
            };
            assert_eq!((timeout_ms, requests.len()), (50, 3));
            for (position, (keyed, (_, digest))) in requests.into_iter().zip(&keys).enumerate() {
                let transaction = keyed.request.unwrap().transaction;
                assert_eq!(keyed.index as usize, position);
                assert_eq!(transaction.digest, *digest);
                assert!(
                    *transaction.set == *set && matches!(transaction.record_op, RecordOp::ReadAll)
                );
            }
        }
    }

    #[test]
    fn a_batch_has_the_same_bytes_as_the_go_client_s() {
        // Request recorded between the Go client v8.5.0 and a server 8.0.
        let body = "1608000000000000000000000000000003e7000100000000005529000000020500000000\
                    1a14cc7cb06a682f634e45a0e6230d5e58a25c2f0a030000000000000002000000000005007465737400000005016773657400000001\
                    038dde88a92916b7733951cf89b34ba87a0e530601";
        let hex = |at: usize| u8::from_str_radix(&body[2 * at..2 * at + 2], 16).unwrap();
        let recorded: Vec<u8> = (0..body.len() / 2).map(hex).collect();
        let digest = |at: usize| -> Digest { recorded[at..at + 20].try_into().unwrap() };
        let keys = [(0, digest(36)), (1, digest(90))];
        let mut bytes = Vec::new();
        put_batch(&mut bytes, b"test", b"gset", &keys, 999);
        assert_eq!(bytes[frame::HEADER_BYTES..], recorded);
    }
}
