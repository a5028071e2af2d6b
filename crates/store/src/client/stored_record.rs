//! Reads a sample record before a run, to check if the existing records can be verified.

use super::ClientSettings;
use super::cluster::connect_node;
use super::connection::put_request;
use super::replies::take_entry;
use crate::object::ValueType;
use crate::ops::{self, particle};
use crate::wire::frame::FrameKind;
use sys::op::OpKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredRecord {
    pub bins: u16,
    /// Type and length of the first value.
    pub value: ValueType,
}

impl ClientSettings {
    /// Reads the record of `key` and describes it. `None` if there is no record, or if no benchmark writes such a
    /// record.
    pub fn probe_record(&self, key: u64) -> Result<Option<StoredRecord>, String> {
        let transaction = self.object.transaction(OpKind::Read, key, 0);
        let map = self.cluster.map();
        let Some(node) = map.master(&transaction.digest) else {
            return Ok(None);
        };
        let mut request = Vec::new();
        put_request(
            &mut request,
            self.namespace.as_bytes(),
            &transaction,
            self.timeout_ms,
        );
        let mut connection =
            connect_node(&map.nodes[node], &self.cluster.access).map_err(|(_, error)| error)?;
        let body = connection.exchange(FrameKind::Message, &request)?;
        let entry = take_entry(&mut &body[..]).map_err(|error| error.to_string())?;
        Ok(if entry.code == 0 {
            describe(entry.bins)
        } else {
            None
        })
    }
}

fn describe(bins: &[u8]) -> Option<StoredRecord> {
    let first = ops::entries(bins).next()?;
    let bytes = first.value.len() as u32;
    let value = match first.particle {
        particle::INTEGER => ValueType::Integer,
        particle::STRING => ValueType::String(bytes),
        particle::BLOB => ValueType::Blob(bytes),
        _ => return None,
    };
    Some(StoredRecord {
        bins: ops::entries(bins).count() as u16,
        value,
    })
}
