//! Writes on their way to the other node, reads that wait for them, and records of which the other node may lack a write.
//!
//! A linearizable read must not return a write that a takeover can undo, and a refused write must not tell of one. So
//! either waits for the last write of its record that is under way. If nobody knows that the other node has a write, it
//! is sent again; until then both are refused.

use super::super::pair::Mode;
use super::migration::is_passing;
use super::transactions::Origin;
use super::{MS, Shard};
use crate::{Digest, Reply, ResultCode, Version, partition};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Records that are sent again at once.
const FLYING_MAX: usize = 64;

/// Time before a record is sent again that was refused.
const AGAIN_NS: u64 = 100 * MS;

type Key = (u16, Digest);

#[derive(Debug, Default)]
pub(super) struct Copies {
    /// The writes of each record that are under way, by their numbers.
    writes: HashMap<Key, Vec<u32>>,
    /// Records of which the other node may lack a write, and those among them that are being sent again.
    unsure: HashMap<Key, bool>,
    again_ns: u64,
}

impl Copies {
    /// A write of this record begins.
    pub(super) fn begin(&mut self, key: Key, number: u32) {
        self.writes.entry(key).or_default().push(number);
    }

    /// A write is answered, or has changed nothing.
    pub(super) fn end(&mut self, key: Key, number: u32) {
        if let Entry::Occupied(mut writes) = self.writes.entry(key) {
            writes.get_mut().retain(|of| *of != number);
            if writes.get().is_empty() {
                writes.remove();
            }
        }
    }
}

impl Shard {
    /// The store has answered a linearizable read, or a write that changes nothing. Returns the reply if it can go out.
    pub(super) fn settle(&mut self, number: u32, key: Key, reply: Reply) -> Option<Reply> {
        self.copies.end(key, number);
        if self.copies.unsure.contains_key(&key) {
            return Some(Reply::of(ResultCode::UNAVAILABLE));
        }
        let writer = self.copies.writes.get(&key).and_then(|writes| writes.last());
        match writer.and_then(|writer| self.pending.get(*writer)) {
            Some(writer) => {
                writer.readers.push((number, reply));
                None
            }
            None => Some(reply),
        }
    }

    /// The replica has the write, or refused it.
    pub(super) fn on_done(&mut self, number: u64, result: ResultCode) {
        let Ok(number) = u32::try_from(number) else { return };
        let Some(pending) = self.pending.get(number) else { return };
        let key = (pending.namespace, pending.digest);
        let Some(reply) = pending.reply.take() else {
            // The other node cannot tell its version.
            if pending.is_comparison() && result != ResultCode::OK {
                self.complete(number, Reply::of(result));
            }
            return;
        };
        let reply = match result {
            ResultCode::OK => {
                self.copies.unsure.remove(&key);
                reply
            }
            refused => self.not_copied(number, key, reply, refused),
        };
        self.complete(number, reply);
    }

    /// The link to a node is lost, and with it the answer to this transaction.
    pub(super) fn unanswered(&mut self, number: u32) {
        let Some(pending) = self.pending.get(number) else { return };
        let key = (pending.namespace, pending.digest);
        let reply = match pending.reply.take() {
            Some(reply) => self.not_copied(number, key, reply, ResultCode::TIMEOUT),
            None => Reply::of(ResultCode::TIMEOUT),
        };
        self.complete(number, reply);
    }

    /// The reply to a write that is here, and perhaps not at the other node. A node that is ahead answers for itself.
    pub(super) fn not_copied(&mut self, number: u32, key: Key, reply: Reply, result: ResultCode) -> Reply {
        let word = self.state.pair.word();
        if matches!(word.mode, Mode::Ahead | Mode::Handing) {
            if is_passing(result) && self.may_copy_later(word) {
                self.copy_later(key);
            } else {
                self.compare_again(result, Some(key));
            }
            // Only once that is recorded.
            let is_recorded = word.mode == Mode::Handing || !self.state.pair.must_wait(word);
            // Clients that write more than the other node can take have to wait.
            if is_recorded && result != ResultCode::DEVICE_OVERLOAD {
                return reply;
            }
        } else {
            self.copies.unsure.insert(key, false);
        }
        if let Some(pending) = self.pending.get(number) {
            pending.has_failed = true;
            if pending.is_comparison() {
                return Reply::of(result);
            }
        }
        // Nobody knows what becomes of it.
        Reply::of(ResultCode::TIMEOUT)
    }

    /// Answers what waited for a write.
    pub(super) fn answer_readers(&mut self, readers: Vec<(u32, Reply)>, has_failed: bool) {
        for (number, reply) in readers {
            if let Some(pending) = self.pending.get(number) {
                pending.has_failed |= has_failed;
            }
            self.complete(number, if has_failed { Reply::of(ResultCode::UNAVAILABLE) } else { reply });
        }
    }

    /// Sends records again of which the other node may lack a write. Returns the time of the next step.
    pub(super) fn copy_again(&mut self) -> u64 {
        if self.copies.unsure.is_empty() {
            return u64::MAX;
        }
        if self.state.pair.mode() != Mode::Paired {
            // A migration compares all records, these too.
            self.copies.unsure.clear();
            return u64::MAX;
        }
        if self.copies.again_ns > self.now_ns {
            return self.copies.again_ns;
        }
        let flying = self.copies.unsure.values().filter(|is_flying| **is_flying).count();
        let rests = self.copies.unsure.iter().filter(|(_, is_flying)| !**is_flying).map(|(key, _)| *key);
        let rests: Vec<_> = rests.collect();
        let mut room = FLYING_MAX.saturating_sub(flying);
        for key @ (namespace, digest) in rests {
            let replica = self.state.setup.cluster.replica(partition(&digest));
            let Some(node) = replica.filter(|node| self.refusal(*node).is_none()) else { continue };
            if room == 0 {
                break;
            }
            room -= 1;
            self.copies.unsure.insert(key, true);
            self.compare(Origin::Again, node, namespace, digest, Version { number: 0, tombstone: false });
        }
        self.copies.again_ns = self.now_ns + AGAIN_NS;
        self.copies.again_ns
    }

    /// A record was sent again, or could not be.
    pub(super) fn on_copied_again(&mut self, key: Key, result: ResultCode) {
        if result == ResultCode::OK {
            self.copies.unsure.remove(&key);
        } else if let Some(is_flying) = self.copies.unsure.get_mut(&key) {
            *is_flying = false;
        }
    }
}
