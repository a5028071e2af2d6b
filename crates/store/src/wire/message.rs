//! Messages: a header of bits and counts, fields, operations on bins. Requests and replies have the same format.
//! Replies are appended to a connection's output.
//!
//! ```text
//! u8 22 | u8 info1 | u8 info2 | u8 info3 | u8 info4 | u8 result | u32 generation | u32 ttl | u32 timeout, ms
//!       | u16 fields | u16 operations                                                                  big-endian
//! field: u32 bytes of what follows | u8 type | value           operation: see crate::ops
//! ```
//!
//! In the reply to a batch, each entry has the index of its key in the field of the timeout.

use super::frame::{self, FrameKind, Malformed};
use crate::{Reply, ResultCode, ops};

pub const HEADER_BYTES: usize = 22;

/// Bits of the first info byte: reads.
pub mod info1 {
    pub const READ: u8 = 1;
    pub const GET_ALL: u8 = 1 << 1;
    pub const BATCH: u8 = 1 << 3;
    /// No bins: only generation and time to live.
    pub const GET_NO_BINS: u8 = 1 << 5;
    /// The read consults all copies.
    pub const CONSISTENCY_ALL: u8 = 1 << 6;
}

/// Bits of the second info byte: writes.
pub mod info2 {
    pub const WRITE: u8 = 1;
    pub const DELETE: u8 = 1 << 1;
    /// The record's generation must be equal to the request's generation.
    pub const GENERATION: u8 = 1 << 2;
    /// The record's generation must be less than the request's generation.
    pub const GENERATION_GREATER: u8 = 1 << 3;
    /// A deletion that leaves a tombstone.
    pub const DURABLE_DELETE: u8 = 1 << 4;
    /// The record must not exist.
    pub const CREATE_ONLY: u8 = 1 << 5;
    /// Each operation is answered, in order.
    pub const RESPOND_ALL_OPS: u8 = 1 << 7;
}

pub mod info3 {
    /// The last of several replies.
    pub const LAST: u8 = 1;
    /// The record must exist.
    pub const UPDATE_ONLY: u8 = 1 << 3;
    /// Bins that the request does not write are removed.
    pub const CREATE_OR_REPLACE: u8 = 1 << 4;
    /// The record must exist, and bins that the request does not write are removed.
    pub const REPLACE_ONLY: u8 = 1 << 5;
    /// Mode of a read, together with [`READ_RELAX`]. Neither bit: session consistency; only `READ_TYPE`: linearizable;
    /// only `READ_RELAX`: any replica.
    pub const READ_TYPE: u8 = 1 << 6;
    pub const READ_RELAX: u8 = 1 << 7;
}

/// Bits of the fourth info byte. All belong to transactions over several records.
pub mod info4 {
    /// The bits for: verify a read, roll forward, roll back, lock.
    pub const TRANSACTION: u8 = 0b1_0111;
}

pub mod field {
    pub const NAMESPACE: u8 = 0;
    pub const SET: u8 = 1;
    /// The key's particle type, then the key.
    pub const KEY: u8 = 2;
    pub const DIGEST: u8 = 4;
    /// Number of a transaction over several records.
    pub const TRANSACTION: u8 = 5;
    /// File of a user-defined function.
    pub const FUNCTION: u8 = 30;
    /// Keys of a batch, and the operations on each.
    pub const BATCH: u8 = 41;
    /// As [`BATCH`], from older clients.
    pub const BATCH_WITH_SET: u8 = 42;
    /// An expression that records must satisfy.
    pub const FILTER: u8 = 43;
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageHeader {
    /// [`info1`], [`info2`], [`info3`], [`info4`].
    pub info: [u8; 4],
    pub result: u8,
    /// Request: expected generation. Reply: the record's generation.
    pub generation: u32,
    /// Request: time to live, s. Reply: when the record expires, seconds since 2010.
    pub ttl: u32,
    /// Request: timeout, ms. Entry of a batch's reply: index.
    pub timeout: u32,
    pub fields: u16,
    pub ops: u16,
}

impl MessageHeader {
    pub fn take(bytes: &mut &[u8]) -> Result<Self, Malformed> {
        let torn = Malformed::Body("header");
        let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(torn);
        };
        // The first byte is the length of the header, which may be longer in a later version.
        let length = usize::from(header[0]);
        *bytes = bytes
            .get(length..)
            .filter(|_| length >= HEADER_BYTES)
            .ok_or(torn)?;
        Ok(Self {
            info: [header[1], header[2], header[3], header[4]],
            result: header[5],
            generation: u32::from_be_bytes([header[6], header[7], header[8], header[9]]),
            ttl: u32::from_be_bytes([header[10], header[11], header[12], header[13]]),
            timeout: u32::from_be_bytes([header[14], header[15], header[16], header[17]]),
            fields: u16::from_be_bytes([header[18], header[19]]),
            ops: u16::from_be_bytes([header[20], header[21]]),
        })
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        let mut header = [0; HEADER_BYTES];
        header[0] = HEADER_BYTES as u8;
        header[1..5].copy_from_slice(&self.info);
        header[5] = self.result;
        header[6..10].copy_from_slice(&self.generation.to_be_bytes());
        header[10..14].copy_from_slice(&self.ttl.to_be_bytes());
        header[14..18].copy_from_slice(&self.timeout.to_be_bytes());
        header[18..20].copy_from_slice(&self.fields.to_be_bytes());
        header[20..].copy_from_slice(&self.ops.to_be_bytes());
        out.extend_from_slice(&header);
    }
}

pub fn put_field(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    out.extend_from_slice(&(value.len() as u32 + 1).to_be_bytes());
    out.push(kind);
    out.extend_from_slice(value);
}

/// Takes a field off `bytes`: its type and its value.
pub(super) fn take_field<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (size, rest) = bytes.split_first_chunk()?;
    let (field, rest) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)?;
    *bytes = rest;
    field.split_first().map(|(kind, value)| (*kind, value))
}

/// Takes all of `bytes` as a batch, and ignores the size of the field: Go client 8.5 adds the bytes of a filter to the
/// size. The batch itself contains the number of its keys.
fn take_long_batch<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let ([.., kind], batch) = std::mem::take(bytes).split_first_chunk::<5>()?;
    (*kind == field::BATCH).then_some((*kind, batch))
}

/// The fields that this server uses. If a field occurs twice, the later field counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MessageFields<'a> {
    pub(super) namespace: Option<&'a [u8]>,
    pub(super) set: &'a [u8],
    pub(super) key: &'a [u8],
    pub(super) digest: Option<&'a [u8]>,
    pub(super) batch: Option<&'a [u8]>,
    /// Result code if a field needs an unsupported feature: a transaction over several records, a function, a filter.
    pub(super) refusal: Option<ResultCode>,
}

impl<'a> MessageFields<'a> {
    pub(crate) fn take(bytes: &mut &'a [u8], count: u16) -> Result<Self, Malformed> {
        let mut fields = Self::default();
        for _ in 0..count {
            let field = take_field(bytes).or_else(|| take_long_batch(bytes));
            let (kind, value) = field.ok_or(Malformed::Body("fields"))?;
            match kind {
                field::NAMESPACE => fields.namespace = Some(value),
                field::SET => fields.set = value,
                field::KEY => fields.key = value,
                field::DIGEST => fields.digest = Some(value),
                field::BATCH | field::BATCH_WITH_SET => fields.batch = Some(value),
                field::TRANSACTION => fields.refusal = Some(ResultCode::ENTERPRISE_ONLY),
                field::FUNCTION | field::FILTER => fields.refusal = Some(ResultCode::UNSUPPORTED),
                _ => {}
            }
        }
        Ok(fields)
    }
}

/// Takes `count` operations off `bytes`, and returns their bytes.
pub(crate) fn take_ops<'a>(bytes: &mut &'a [u8], count: u16) -> Result<&'a [u8], Malformed> {
    let input = *bytes;
    for _ in 0..count {
        ops::take(bytes).ok_or(Malformed::Body("operations"))?;
    }
    Ok(&input[..input.len() - bytes.len()])
}

pub fn put_reply(out: &mut Vec<u8>, reply: &Reply) {
    out.reserve(frame::HEADER_BYTES + HEADER_BYTES + reply.ops.len());
    let begin = frame::begin(out, FrameKind::Message);
    put_entry(out, 0, reply);
    frame::end(out, begin);
}

/// Appends one key's part of the reply to a batch, to a frame that [`frame::begin`] began. The parts may come in any
/// order and in several frames, so the server need not wait for all parts.
pub fn put_entry(out: &mut Vec<u8>, index: u32, reply: &Reply) {
    let Reply {
        result,
        generation,
        void_time_sec,
        bins,
        ops,
        ..
    } = reply;
    let result = result.0;
    let generation = u32::from(*generation);
    let ttl = *void_time_sec;
    MessageHeader {
        result,
        generation,
        ttl,
        timeout: index,
        ops: *bins,
        ..MessageHeader::default()
    }
    .put(out);
    out.extend_from_slice(ops);
}

/// Parses a reply that [`put_entry`] appended.
pub fn parse_reply(mut body: &[u8]) -> Result<Reply, Malformed> {
    let MessageHeader {
        result,
        generation,
        ttl: void_time_sec,
        ops: bins,
        ..
    } = MessageHeader::take(&mut body)?;
    let ops = take_ops(&mut body, bins)?.to_vec();
    Ok(Reply {
        generation: generation as u16,
        void_time_sec,
        bins,
        ops,
        ..Reply::with_result(ResultCode(result))
    })
}

/// Appends the entry that ends a batch's reply.
pub fn put_last(out: &mut Vec<u8>, result: ResultCode) {
    MessageHeader {
        info: [0, 0, info3::LAST, 0],
        result: result.0,
        ..MessageHeader::default()
    }
    .put(out);
}

/// Appends the refusal of the message `body`: one reply, marked as the last if the client expects several replies.
pub fn put_refusal(out: &mut Vec<u8>, body: &[u8], result: ResultCode) {
    let begin = frame::begin(out, FrameKind::Message);
    if expects_last(body) {
        put_last(out, result)
    } else {
        put_entry(out, 0, &Reply::with_result(result))
    }
    frame::end(out, begin);
}

/// True for a batch, scan or query: the client reads replies to the message `body` until one has the "last" flag.
fn expects_last(body: &[u8]) -> bool {
    let mut rest = body;
    let Ok(header) = MessageHeader::take(&mut rest) else {
        return false;
    };
    let fields = MessageFields::take(&mut rest, header.fields);
    header.info[0] & info1::BATCH != 0 || fields.is_ok_and(|fields| fields.digest.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = MessageHeader {
            info: [1, 2, 3, 4],
            result: 5,
            generation: 6,
            ttl: 7,
            timeout: 8,
            fields: 9,
            ops: 10,
        };
        let mut bytes = Vec::new();
        header.put(&mut bytes);
        assert_eq!(
            bytes,
            [
                22, 1, 2, 3, 4, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 8, 0, 9, 0, 10
            ]
        );
        assert_eq!(MessageHeader::take(&mut &bytes[..]), Ok(header));
        // A longer header is skipped by its own length. A shorter header is invalid.
        bytes[0] = 24;
        bytes.extend_from_slice(&[0, 0, 99]);
        let mut rest = &bytes[..];
        assert_eq!(MessageHeader::take(&mut rest), Ok(header));
        assert_eq!(rest, &[99][..]);
        bytes[0] = 21;
        assert!(
            MessageHeader::take(&mut &bytes[..]).is_err()
                && MessageHeader::take(&mut &[22; 21][..]).is_err()
        );
    }
}
