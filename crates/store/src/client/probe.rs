//! Checks before a run if the existing records can be verified.

use super::ClientSettings;
use super::connection::put_request;
use super::replies::take_entry;
use crate::object::Value;
use crate::ops::{self, particle};
use crate::wire::Kind;
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
    /// Errors: its node cannot be queried, or gives an unexpected answer, a sentence.
    pub fn stored(&self, key: u64) -> Result<Option<Stored>, String> {
        let transaction = self.object.transaction(OpKind::Read, key, 0);
        let map = self.cluster.map();
        let Some(node) = map.master(&transaction.digest) else { return Ok(None) };
        let mut request = Vec::new();
        put_request(&mut request, self.namespace.as_bytes(), &transaction, self.timeout_ms);
        let mut connection = self.cluster.connect_now(&map.nodes[node]).map_err(|(_, error)| error)?;
        let body = connection.exchange(Kind::Message, &request)?;
        let entry = take_entry(&mut &body[..]).map_err(|error| error.to_string())?;
        Ok(if entry.code == 0 { of(entry.bins) } else { None })
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
