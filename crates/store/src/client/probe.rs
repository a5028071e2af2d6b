//! Checks before a run if the existing records can be verified.

use super::ClientSettings;
use super::cluster::{PATIENCE, connect};
use super::connection::put_request;
use super::replies::take_reply;
use crate::object::Value;
use crate::ops::{self, particle};
use std::io::{self, Read, Write};
use sys::op::OpKind;

/// Contents of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Number of bins.
    pub bins: u16,
    /// Type and length of the first value.
    pub value: Value,
}

impl ClientSettings {
    /// Contents of the record of `key`. `None` if there is none, or if a benchmark does not write such records.
    ///
    /// Errors: its node cannot be queried, or gives an unexpected answer.
    pub fn stored(&self, key: u64) -> io::Result<Option<Stored>> {
        let transaction = self.object.transaction(OpKind::Read, key, 0);
        let map = self.cluster.map();
        let Some(node) = map.master(&transaction.digest) else { return Ok(None) };
        let mut socket = connect(map.nodes[node].address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut request = Vec::new();
        put_request(&mut request, self.namespace.as_bytes(), &transaction, self.timeout_ms);
        socket.write_all(&request)?;
        let (mut arrived, mut part) = (Vec::new(), [0; 16 << 10]);
        loop {
            if let Some((code, bins)) = take_reply(&mut &arrived[..]).map_err(io::Error::other)? {
                return Ok(if code == 0 { of(bins) } else { None });
            }
            match socket.read(&mut part)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => arrived.extend_from_slice(&part[..bytes]),
            }
        }
    }
}

fn of(bins: &[u8]) -> Option<Stored> {
    let first = ops::entries(bins).next()?;
    let bytes = first.value.len() as u32;
    let value = match first.particle {
        particle::INTEGER => Value::Integer,
        particle::STRING => Value::String(bytes),
        particle::BLOB => Value::Blob(bytes),
        _ => return None,
    };
    Some(Stored { bins: ops::entries(bins).count() as u16, value })
}
