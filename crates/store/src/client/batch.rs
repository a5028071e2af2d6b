//! Reads of several records in one request to each node, by the batch-index protocol.
//!
//! ```text
//! operation (keys) -> a part for each node: u32 position | digest, the rest as in the key before
//!                  <- entries in any order, in one frame or several, then one with the "last" flag
//! ```

use super::replies::Entry;
use crate::Digest;
use crate::wire::frame::{self, Kind, Malformed};
use crate::wire::message::{self, Header, field, info1};
use std::sync::Arc;

/// Keys, one after the other.
pub type Keys = Box<dyn FnMut() -> u64>;

/// Settings of batch reads.
#[derive(Clone)]
pub struct BatchReads {
    /// Records of a batch. At least 2.
    pub records: u32,
    /// Further keys of the batches of an issuing thread, by its number and the number of threads. Each thread has keys of
    /// its own.
    pub keys: Arc<dyn Fn(usize, usize) -> Keys + Send + Sync>,
}

/// Index of a record in its batch, and its digest.
pub(super) type Key = (u32, Digest);

/// Allows the server to read in the thread that received the request, and asks for an entry for every key. Source: the
/// Go client.
const FLAGS: u8 = 0b101;

/// Bits of a key: info bytes and a time to live follow; as in the key before.
const INFO_AND_TTL: u8 = 0b1010;
const REPEAT: u8 = 1;

/// Appends the request for all bins of `keys`, which the server may work on for `timeout_ms`.
pub(super) fn put_batch(out: &mut Vec<u8>, namespace: &[u8], set: &[u8], keys: &[Key], timeout_ms: u32) {
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
    let begin = frame::begin(out, Kind::Message);
    Header { info: [info1::BATCH, 0, 0, 0], timeout: timeout_ms, fields: 1, ..Header::default() }.put(out);
    message::put_field(out, field::BATCH, &body);
    frame::end(out, begin);
}

/// One node's part of a batch that is out.
#[derive(Debug)]
pub(super) struct Part {
    /// By position in the request; `None`: answered.
    keys: Vec<Option<Key>>,
}

impl Part {
    pub(super) fn new(keys: Vec<Key>) -> Self {
        Self { keys: keys.into_iter().map(Some).collect() }
    }

    /// The keys that `entry` answers: one, or as the last entry, all that are left.
    ///
    /// Errors: no such key, a second answer, or none for some.
    pub(super) fn answered(&mut self, entry: &Entry<'_>) -> Result<Vec<Key>, Malformed> {
        let wrong = Malformed::Body("records of a batch");
        match entry.is_last {
            true if entry.code == 0 && self.rest().next().is_some() => Err(wrong),
            // The whole part was refused, or all of it is answered.
            true => Ok(self.rest().collect()),
            false => self.keys.get_mut(entry.index as usize).and_then(Option::take).map(|key| vec![key]).ok_or(wrong),
        }
    }

    /// Keys without an answer.
    pub(super) fn rest(&self) -> impl Iterator<Item = Key> + '_ {
        self.keys.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Command, Limits, parse};
    use crate::{Work, digest};

    #[test]
    fn a_server_understands_a_batch_as_it_does_those_of_real_clients() {
        for set in [&b""[..], b"users"] {
            let keys: Vec<Key> = (0..3).map(|key| (7 - key, digest(set, 1, &[key as u8]))).collect();
            let mut bytes = Vec::new();
            put_batch(&mut bytes, b"test", set, &keys, 50);
            let (_, body) = frame::take(&mut &bytes[..], 1 << 20).unwrap().unwrap();
            let understood = parse(body, Limits::default(), |name| (name == b"test").then_some(0)).unwrap();
            let Command::Batch(batch) = understood else { panic!("{understood:?}") };
            assert_eq!((batch.timeout_ms, batch.requests.len()), (50, 3));
            for (position, (keyed, (_, digest))) in batch.requests.into_iter().zip(&keys).enumerate() {
                let transaction = keyed.request.unwrap().transaction;
                assert_eq!((keyed.index as usize, transaction.digest), (position, *digest));
                assert!(*transaction.set == *set && matches!(transaction.work, Work::ReadAll));
            }
        }
    }

    #[test]
    fn a_batch_is_that_of_the_go_client_byte_for_byte() {
        // Recorded between Go v8.5.0 and a server of 8.0.
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
