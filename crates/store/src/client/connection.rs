//! One connection to a node: requests, and their replies in the same order.

use super::batch::Part;
use crate::ops;
use crate::wire::frame::{self, Kind};
use crate::wire::message::{self, Header, field, info1, info2, info3};
use crate::{Exists, Transaction, Work};
use rustls::ClientConnection;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// Appends the request for `transaction`, which the server may work on for `timeout_ms`.
pub(super) fn put_request(out: &mut Vec<u8>, namespace: &[u8], transaction: &Transaction, timeout_ms: u32) {
    let begin = frame::begin(out, Kind::Message);
    let mut header = Header { timeout: timeout_ms, fields: 2, ..Header::default() };
    let ops: &[u8] = match &transaction.work {
        Work::Write(write) => {
            header.info[1] = info2::WRITE;
            if write.policy.exists == Exists::CreateOrReplace {
                header.info[2] = info3::CREATE_OR_REPLACE;
            }
            &write.ops
        }
        // A benchmark asks for nothing else.
        _ => {
            header.info[0] = info1::READ | info1::GET_ALL;
            &[]
        }
    };
    header.ops = ops::entries(ops).count() as u16;
    header.fields += u16::from(!transaction.set.is_empty());
    header.put(out);
    message::put_field(out, field::NAMESPACE, namespace);
    if !transaction.set.is_empty() {
        message::put_field(out, field::SET, &transaction.set);
    }
    message::put_field(out, field::DIGEST, &transaction.digest);
    out.extend_from_slice(ops);
    frame::end(out, begin);
}

/// A request with an outstanding reply.
#[derive(Debug)]
pub(super) struct Awaited {
    /// The transaction's token; `None` if nobody waits for it.
    pub(super) token: Option<u32>,
    /// Nodes that were tried before.
    pub(super) tries: usize,
    /// For a batch: its keys on this node.
    pub(super) part: Option<Part>,
}

/// A connection, or the place of one.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// Number of its node.
    pub(super) node: usize,
    pub(super) socket: Option<Arc<TcpStream>>,
    /// Between the bytes of its requests and replies and those of the socket.
    pub(super) tls: Option<Box<ClientConnection>>,
    /// True while the connection is being made.
    pub(super) is_wanted: bool,
    /// True while the connection closes: its operations on the ring are not back yet.
    pub(super) is_ending: bool,
    /// In the order of the replies.
    pub(super) awaited: VecDeque<Awaited>,
    /// Received bytes of an incomplete reply.
    pub(super) arrived: Vec<u8>,
    /// Bytes to send.
    pub(super) unsent: Vec<u8>,
    pub(super) is_sending: bool,
    pub(super) is_receiving: bool,
    /// True if it is in the list of connections with bytes to send.
    pub(super) is_listed: bool,
    /// True if it is in its node's list of free connections.
    pub(super) is_free: bool,
}

impl Connection {
    /// True if it can take a request; at most `most` may be in flight on it.
    pub(super) fn takes(&self, most: usize) -> bool {
        // Behind a request that nobody waits for, others would wait too long as well.
        let is_stuck = self.awaited.front().is_some_and(|first| first.token.is_none());
        self.socket.is_some() && !self.is_ending && !is_stuck && self.awaited.len() < most
    }

    /// True if there is something to send.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Takes the bytes for the socket.
    pub(super) fn take_unsent(&mut self) -> io::Result<Vec<u8>> {
        let plain = std::mem::take(&mut self.unsent);
        let Some(tls) = &mut self.tls else { return Ok(plain) };
        let (mut rest, mut sealed) = (&plain[..], Vec::new());
        loop {
            // Its buffers are bounded, so it takes a long request in parts.
            let taken = tls.writer().write(rest)?;
            rest = &rest[taken..];
            while tls.wants_write() {
                tls.write_tls(&mut sealed)?;
            }
            match (rest.is_empty(), taken) {
                (true, _) => return Ok(sealed),
                (false, 0) => return Err(ErrorKind::WriteZero.into()),
                (false, _) => {}
            }
        }
    }

    /// The bytes of replies in `bytes` from the socket. Errors: they are not the TLS that was begun.
    pub(super) fn received<'a>(&mut self, mut bytes: &'a [u8]) -> io::Result<Cow<'a, [u8]>> {
        let Some(tls) = &mut self.tls else { return Ok(Cow::Borrowed(bytes)) };
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

    /// True if all its operations are back, so that its slot can be reused.
    pub(super) fn is_over(&self) -> bool {
        self.is_ending && !self.is_sending && !self.is_receiving
    }

    /// Ends it; its operations on the ring come back then.
    pub(super) fn end(&mut self) {
        self.is_ending = true;
        if let Some(socket) = &self.socket {
            // The connection may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Write;
    use crate::object::{Object, Value};
    use crate::wire::{Command, Limits, parse};
    use sys::op::OpKind;

    #[test]
    fn a_server_understands_what_is_asked() {
        for (set, replace) in [(&b""[..], false), (b"users", true)] {
            let object =
                Object { set: set.into(), bins: 3, value: Value::String(20), single_bin: false, replace, began: 9 };
            for kind in [OpKind::Read, OpKind::Write] {
                let asked = object.transaction(kind, 77, 1);
                let mut bytes = Vec::new();
                put_request(&mut bytes, b"test", &asked, 50);
                let (_, body) = frame::take(&mut &bytes[..], 1 << 20).unwrap().unwrap();
                let understood = parse(body, Limits::default(), |name| (name == b"test").then_some(0)).unwrap();
                let Command::Single(single) = understood else { panic!("{understood:?}") };
                let single = single.request.transaction;
                assert_eq!((single.digest, &single.set), (asked.digest, &asked.set));
                match (single.work, asked.work) {
                    (Work::ReadAll, Work::ReadAll) => {}
                    (Work::Write(Write { policy, ops, .. }), Work::Write(wanted)) => {
                        assert_eq!((policy, ops), (wanted.policy, wanted.ops));
                    }
                    (work, _) => panic!("{work:?}"),
                }
            }
        }
    }
}
