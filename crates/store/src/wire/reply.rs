//! Replies, appended to a connection's output.

use super::frame::{self, Kind, Malformed};
use super::message::{self, Header, info3, take_ops};
use super::query::put_security;
use super::request::expects_last;
use crate::{Reply, ResultCode};

fn header(reply: &Reply, index: u32) -> Header {
    Header {
        result: reply.result.0,
        generation: reply.generation.into(),
        ttl: reply.void_time_sec,
        timeout: index,
        ops: reply.bins,
        ..Header::default()
    }
}

/// Appends the reply to one transaction.
pub fn put(out: &mut Vec<u8>, reply: &Reply) {
    out.reserve(frame::HEADER_BYTES + message::HEADER_BYTES + reply.ops.len());
    let begin = frame::begin(out, Kind::Message);
    put_entry(out, 0, reply);
    frame::end(out, begin);
}

/// Appends one key's part of the reply to a batch, to a frame that [`frame::begin`] began.
///
/// The parts may come in any order and in several frames, so a reply need not be gathered.
pub fn put_entry(out: &mut Vec<u8>, index: u32, reply: &Reply) {
    header(reply, index).put(out);
    out.extend_from_slice(&reply.ops);
}

/// The reply that [`put_entry`] appended.
pub fn parse(mut body: &[u8]) -> Result<Reply, Malformed> {
    let Header { result, generation, ttl: void_time_sec, ops: bins, .. } = Header::take(&mut body)?;
    let ops = take_ops(&mut body, bins)?.to_vec();
    Ok(Reply { generation: generation as u16, void_time_sec, bins, ops, ..Reply::of(ResultCode(result)) })
}

/// Appends to the last frame of a batch's reply that it is the last.
pub fn put_last(out: &mut Vec<u8>, result: ResultCode) {
    Header { info: [0, 0, info3::LAST, 0], result: result.0, ..Header::default() }.put(out);
}

/// Appends the answer to the message `body` that is not carried out: one, as the last of its replies if it expects several.
pub fn put_refusal(out: &mut Vec<u8>, body: &[u8], result: ResultCode) {
    let begin = frame::begin(out, Kind::Message);
    match expects_last(body) {
        true => put_last(out, result),
        false => put_entry(out, 0, &Reply::of(result)),
    }
    frame::end(out, begin);
}

/// Appends the answer to an unsupported frame: a login, a compressed message.
pub fn put_unsupported(out: &mut Vec<u8>, kind: Kind) {
    match kind {
        Kind::Security => put_security(out, ResultCode::NO_SECURITY.0, 0, &[]),
        _ => put_refusal(out, &[], ResultCode::UNSUPPORTED),
    }
}
