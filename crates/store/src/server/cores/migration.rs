//! Compares the records of both nodes, so that the node that is behind gets its missing records; see
//! [`super::super::pair`].
//!
//! ```text
//! ahead:  version of each own record               -> behind; if it differs: the record or a tombstone -> behind
//! behind: version of each own record and tombstone -> ahead;  if it differs: the record or a tombstone -> behind
//! ```
//!
//! Of two versions of a record, the greater version is valid everywhere. A node that is behind may have a greater
//! version, of a write that nobody acknowledged. Then the node that is ahead writes its record again, with an even
//! greater version. From the start of a comparison on, a core also sends each write to the other node. So once both
//! nodes have compared all their records, the node that is behind lacks nothing. After a refused or lost message, the
//! comparison begins again.
//!
//! The second part of this module tracks **writes in flight to the other node**, reads that wait for such writes, and
//! records whose last write the other node may lack. A linearizable read must not return a write that a takeover can
//! undo, and the refusal of a write must not reveal such a write. So the read and the refusal wait for the last write
//! in flight of the record. If it is unknown whether the other node has a write, the record is sent again. Until then,
//! such reads and refusals are answered as unavailable.

use super::super::node_message::NodeMessage;
use super::super::pair::{ModeVersion, PairMode, RecordComparison};
use super::transactions::Requester;
use super::{MS, ServerCore};
use crate::{Digest, PARTITIONS, RecordOp, Reply, ResultCode, Transaction, Version, partition};
use results::format::hex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Maximum number of records in flight that a core compares or sends again.
const FLYING_MAX: usize = 64;

/// Maximum number of index entries that are examined in one pass.
const TURN: u32 = 4_000;

/// Delay before a comparison begins again, and before a refused record is sent again, ns.
const AGAIN_NS: u64 = 100 * MS;

/// Delay before a comparison begins again if a record could not be copied for a permanent reason, ns.
const REST_NS: u64 = 2_000 * MS;

/// Delay before another attempt to copy a record that the other node refused for a temporary reason, ns.
const PASSING_NS: u64 = 10 * MS;

/// Minimum time between two log lines about failed comparisons, ns.
const QUIET_NS: u64 = 10_000 * MS;

/// True if the refusal is temporary: a node is overloaded, the record is busy, or the other node has a newer version.
fn is_passing(result: ResultCode) -> bool {
    matches!(
        result,
        ResultCode::DEVICE_OVERLOAD | ResultCode::KEY_BUSY | ResultCode::GENERATION
    )
}

#[derive(Debug, Default)]
pub(super) struct CoreComparison {
    comparison: RecordComparison,
    /// Distinguishes the comparison from earlier comparisons.
    serial: u32,
    /// The next entry to compare.
    namespace: usize,
    next_number: u32,
    /// Records that could not be copied for a temporary reason.
    retries: Vec<RecordKey>,
    in_flight: usize,
    /// No record is compared before this time.
    due_ns: u64,
    is_begun: bool,
    is_over: bool,
}

impl ServerCore {
    /// Continues the comparison. Returns the time of the next step.
    pub(super) fn migrate(&mut self) -> u64 {
        if self.stops_ns.is_some() {
            return u64::MAX;
        }
        if self.state.pair.mode() == PairMode::Handing {
            if self.pending.iter().all(|(_, of)| !of.may_write()) {
                self.state
                    .pair
                    .drained(self.state.pair.word().changes, self.core);
                self.state.record();
            }
            return u64::MAX;
        }
        let (Some(comparison), Some(node)) = (self.state.pair.comparison(), self.other_node())
        else {
            self.end_migration();
            return u64::MAX;
        };
        if let Some(code) = self.refusal(node) {
            if code == ResultCode::UNAVAILABLE {
                self.end_migration();
            }
            return u64::MAX;
        }
        if self
            .migration
            .as_ref()
            .is_none_or(|migration| migration.comparison != comparison)
        {
            let pause_ns = if self.migration.is_some() {
                AGAIN_NS
            } else {
                0
            };
            self.begin_migration(
                comparison,
                pause_ns.max(self.next_comparison_ns.saturating_sub(self.now_ns)),
            );
        }
        for _ in 0..TURN {
            let Some(migration) = &mut self.migration else {
                return u64::MAX;
            };
            if migration.is_over || migration.in_flight >= FLYING_MAX {
                return u64::MAX;
            }
            if migration.due_ns > self.now_ns {
                return migration.due_ns;
            }
            // Wait for pending writes that do not go to the other node: such a write could change a compared record.
            if !migration.is_begun
                && self
                    .pending
                    .iter()
                    .any(|(_, of)| of.may_write() && of.node.is_none())
            {
                return self.now_ns + MS;
            }
            let Some(migration) = &mut self.migration else {
                return u64::MAX;
            };
            migration.is_begun = true;
            if let Some((namespace, digest)) = migration.retries.pop() {
                migration.in_flight += 1;
                let origin = Requester::Comparison {
                    serial: migration.serial,
                };
                self.compare(
                    origin,
                    node,
                    namespace,
                    digest,
                    Version {
                        number: 0,
                        is_tombstone: false,
                    },
                );
                continue;
            }
            let serial = migration.serial;
            let namespace = migration.namespace;
            let number = migration.next_number;
            let Some((store, _)) = self.stores.get(namespace) else {
                if migration.in_flight == 0 {
                    migration.is_over = true;
                    self.state
                        .on_mode(self.state.pair.compared(comparison, self.core));
                    let core = self.core as u32;
                    let cores = self.state.mailboxes.len() as u32;
                    if !comparison.is_sender {
                        let comparison = comparison.changes;
                        self.send_to_node(
                            node,
                            &NodeMessage::ComparedAll {
                                comparison,
                                core,
                                cores,
                            },
                        );
                    }
                }
                return u64::MAX;
            };
            if number >= store.end()
                || self.state.setup.config.namespaces[namespace].replication_factor < 2
            {
                (migration.namespace, migration.next_number) = (namespace + 1, 0);
                continue;
            }
            migration.next_number += 1;
            let Some((digest, version)) = store.nth(number) else {
                continue;
            };
            // A node that is behind also compares tombstones, because later writes must get greater versions.
            if comparison.is_sender && version.is_tombstone {
                continue;
            }
            migration.in_flight += 1;
            let namespace = namespace as u16;
            self.compare(
                Requester::Comparison { serial },
                node,
                namespace,
                digest,
                version,
            );
        }
        self.now_ns
    }

    /// Sends this node's version of a record to another node, and asks for that node's version.
    pub(super) fn compare(
        &mut self,
        origin: Requester,
        node: usize,
        namespace: u16,
        digest: Digest,
        version: Version,
    ) {
        let number = self.pend(origin, namespace, digest);
        if let Some(pending) = self.pending.get(number) {
            pending.is_sent_to(node);
        }
        self.send_to_node(
            node,
            &NodeMessage::Compare {
                number: number.into(),
                namespace,
                digest,
                version,
            },
        );
    }

    fn begin_migration(&mut self, comparison: RecordComparison, pause_ns: u64) {
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let due_ns = self.now_ns + pause_ns;
        self.migration = Some(CoreComparison {
            comparison,
            serial,
            due_ns,
            ..CoreComparison::default()
        });
    }

    /// Ends the comparison, because the other node is disconnected. Writes continue without that node, so all records
    /// must be compared again.
    pub(super) fn end_migration(&mut self) {
        if self
            .migration
            .take()
            .is_some_and(|migration| migration.comparison.is_sender)
        {
            self.state.pair.compare_again();
        }
    }

    fn other_node(&self) -> Option<usize> {
        self.state
            .setup
            .cluster
            .others()
            .next()
            .map(|(node, _)| node)
    }

    /// The node that must also get a write of this record, if there is one. `mode_version`: this node's mode when the
    /// write began, paired or ahead. Errors: that node cannot take more writes now, or, in mode paired, is
    /// not connected.
    pub(super) fn receiver(
        &mut self,
        mode_version: ModeVersion,
        digest: &Digest,
    ) -> Result<Option<usize>, ResultCode> {
        if mode_version.mode == PairMode::Paired {
            let replica = self.state.setup.cluster.replica(partition(digest));
            return replica
                .and_then(|node| self.refusal(node))
                .map_or(Ok(replica), Err);
        }
        let is_sender = self.migration.as_ref().is_some_and(|migration| {
            let comparison = migration.comparison;
            comparison.is_sender && comparison.changes == mode_version.changes
        });
        let Some(node) = self.other_node().filter(|_| is_sender) else {
            return Ok(None);
        };
        match self.refusal(node) {
            None => Ok(Some(node)),
            Some(ResultCode::UNAVAILABLE) => {
                self.compare_again(ResultCode::UNAVAILABLE, None);
                Ok(None)
            }
            Some(code) => Err(code),
        }
    }

    /// True once this core has begun to compare: new writes go to the other node, all earlier writes are in the stores.
    pub(super) fn compares(&self) -> bool {
        self.migration
            .as_ref()
            .is_some_and(|migration| migration.is_begun)
    }

    /// Handles the answer to a comparison. `version`: the other node's version, possibly that of a copy just received.
    pub(super) fn on_compared(&mut self, number: u64, version: u64) {
        let Ok(number) = u32::try_from(number) else {
            return;
        };
        let Some(pending) = self
            .pending
            .get(number)
            .filter(|pending| pending.is_comparison())
        else {
            return;
        };
        let namespace = pending.namespace;
        let digest = pending.digest;
        if self.state.pair.mode() != PairMode::Behind {
            let record_op = RecordOp::Compare(Version {
                number: version,
                is_tombstone: false,
            });
            return self.execute(
                number,
                namespace,
                Transaction {
                    digest,
                    set: Box::default(),
                    record_op,
                },
                false,
            );
        }
        self.complete(
            number,
            Reply {
                version,
                ..Reply::with_result(ResultCode::OK)
            },
        );
    }

    /// Handles the end of the comparison of a record, including the copy if there was one.
    pub(super) fn on_comparison(&mut self, serial: u32, key: RecordKey, reply: &Reply) {
        let Some(migration) = self
            .migration
            .as_mut()
            .filter(|migration| migration.serial == serial)
        else {
            return;
        };
        migration.in_flight = migration.in_flight.saturating_sub(1);
        match reply.result {
            ResultCode::OK => {}
            code if is_passing(code) => return self.copy_later(key),
            code => return self.compare_again(code, Some(key)),
        }
        let is_copied = reply.version > 0;
        if is_copied {
            let sleep_us = self.state.setup.config.namespaces[usize::from(key.0)].migrate_sleep_us;
            migration.due_ns = migration.due_ns.max(self.now_ns) + u64::from(sleep_us) * 1_000;
        }
        if migration.comparison.is_sender {
            self.count_copied(key.0, is_copied);
        }
    }

    /// True if this core still compares in this mode. Then a record may be copied later, before the nodes are paired.
    pub(super) fn may_copy_later(&self, mode_version: ModeVersion) -> bool {
        let Some(CoreComparison {
            comparison,
            is_begun: true,
            is_over: false,
            ..
        }) = &self.migration
        else {
            return false;
        };
        comparison.is_sender
            && mode_version.mode == PairMode::Ahead
            && comparison.changes == mode_version.changes
    }

    pub(super) fn copy_later(&mut self, key: RecordKey) {
        if let Some(migration) = &mut self.migration {
            migration.retries.push(key);
            migration.due_ns = migration.due_ns.max(self.now_ns + PASSING_NS);
        }
    }

    pub(super) fn count_copied(&mut self, namespace: u16, is_copied: bool) {
        let counts = &mut self.counts.namespaces[usize::from(namespace)].migration;
        counts.transmitted += u64::from(is_copied);
        counts.skipped += u64::from(!is_copied);
    }

    /// Begins the comparison again, because a record could not be compared or copied.
    pub(super) fn compare_again(&mut self, result: ResultCode, key: Option<RecordKey>) {
        let current = self.state.pair.comparison();
        let comparison = self
            .migration
            .as_ref()
            .map(|migration| migration.comparison)
            .filter(|of| Some(*of) == current);
        match comparison {
            None if self.state.pair.mode() == PairMode::Handing => self.state.pair.compare_again(),
            // This core already begins the comparison again, for another reason.
            None => return,
            Some(RecordComparison {
                is_sender: true, ..
            }) => self.state.pair.compare_again(),
            Some(comparison) => self.begin_migration(comparison, AGAIN_NS),
        }
        // Other log lines report a lost link, or a core that has not begun to compare.
        if matches!(result, ResultCode::UNAVAILABLE | ResultCode::TIMEOUT) {
            return;
        }
        self.next_comparison_ns = self.now_ns + REST_NS;
        if self.now_ns >= self.next_warning_ns {
            self.next_warning_ns = self.now_ns + QUIET_NS;
            let record = key.map_or(String::new(), |(namespace, digest)| {
                let name = &self.state.setup.config.namespaces[usize::from(namespace)]
                    .settings
                    .name;
                format!(" {} of namespace {name}", hex(&digest))
            });
            let what =
                "all records are compared again until the record is copied, replaced or deleted";
            let what = format!(
                "record{record} could not be compared or copied - result code {} - {what}",
                result.0
            );
            self.state.warn("migrate", "migrate.c", what);
        }
    }

    /// Estimates the number of partitions that are not compared yet, from the compared share of the index.
    pub(super) fn count_remaining(&mut self) {
        let partition_count = PARTITIONS as usize / self.state.mailboxes.len();
        let pair = &self.state.pair;
        // At least one partition counts as remaining until the nodes are paired again.
        let mut remaining_min = u64::from(self.core == 0 && pair.migrates());
        for (at, counts) in self.counts.namespaces.iter_mut().enumerate() {
            let is_copied = self.state.setup.config.namespaces[at].replication_factor > 1;
            let end = u64::from(self.stores[at].0.end()).max(1);
            let remaining = match &self.migration {
                Some(core_comparison) if is_copied && core_comparison.namespace < at => {
                    partition_count as u64
                }
                Some(core_comparison) if is_copied && core_comparison.namespace == at => {
                    (partition_count as u64
                        * end.saturating_sub(core_comparison.next_number.into()))
                    .div_ceil(end)
                }
                _ => 0,
            };
            let remaining = if is_copied {
                remaining.max(std::mem::take(&mut remaining_min))
            } else {
                0
            };
            let is_behind = pair.mode() == PairMode::Behind;
            let migration = &mut counts.migration;
            (migration.tx_remaining, migration.rx_remaining) = if is_behind {
                (0, remaining)
            } else {
                (remaining, 0)
            };
        }
    }
}

type RecordKey = (u16, Digest);

#[derive(Debug, Default)]
pub(super) struct CopiesInFlight {
    /// Numbers of the writes in flight, by record.
    writes: HashMap<RecordKey, Vec<u32>>,
    /// Records whose last write the other node may lack. True: the record is being sent again.
    suspect_copies: HashMap<RecordKey, bool>,
    retry_ns: u64,
}

impl CopiesInFlight {
    pub(super) fn begin(&mut self, key: RecordKey, number: u32) {
        self.writes.entry(key).or_default().push(number);
    }

    /// Removes a write that is answered or has changed nothing.
    pub(super) fn end(&mut self, key: RecordKey, number: u32) {
        if let Entry::Occupied(mut writes) = self.writes.entry(key) {
            writes.get_mut().retain(|of| *of != number);
            if writes.get().is_empty() {
                writes.remove();
            }
        }
    }
}

impl ServerCore {
    /// Handles the store's reply to a linearizable read or a write without effect. Returns the reply if it can be sent
    /// now.
    pub(super) fn settle(&mut self, number: u32, key: RecordKey, reply: Reply) -> Option<Reply> {
        self.copies.end(key, number);
        if self.copies.suspect_copies.contains_key(&key) {
            return Some(Reply::with_result(ResultCode::UNAVAILABLE));
        }
        let writer = self
            .copies
            .writes
            .get(&key)
            .and_then(|writes| writes.last());
        let Some(writer) = writer.and_then(|writer| self.pending.get(*writer)) else {
            return Some(reply);
        };
        writer.readers.push((number, reply));
        None
    }

    pub(super) fn on_done(&mut self, number: u64, result: ResultCode) {
        let Ok(number) = u32::try_from(number) else {
            return;
        };
        let Some(pending) = self.pending.get(number) else {
            return;
        };
        let key = (pending.namespace, pending.digest);
        let Some(reply) = pending.reply.take() else {
            // The other node could not return its version.
            if pending.is_comparison() && result != ResultCode::OK {
                self.complete(number, Reply::with_result(result));
            }
            return;
        };
        let reply = match result {
            ResultCode::OK => {
                self.copies.suspect_copies.remove(&key);
                reply
            }
            refused => self.not_copied(number, key, reply, refused),
        };
        self.complete(number, reply);
    }

    /// Handles a transaction whose answer was lost with the link to a node.
    pub(super) fn unanswered(&mut self, number: u32) {
        let Some(pending) = self.pending.get(number) else {
            return;
        };
        let key = (pending.namespace, pending.digest);
        let reply = match pending.reply.take() {
            Some(reply) => self.not_copied(number, key, reply, ResultCode::TIMEOUT),
            None => Reply::with_result(ResultCode::TIMEOUT),
        };
        self.complete(number, reply);
    }

    /// Reply to a write that the other node may lack. A node that is ahead acknowledges the write nevertheless.
    pub(super) fn not_copied(
        &mut self,
        number: u32,
        key: RecordKey,
        reply: Reply,
        result: ResultCode,
    ) -> Reply {
        let mode_version = self.state.pair.word();
        if matches!(mode_version.mode, PairMode::Ahead | PairMode::Handing) {
            if is_passing(result) && self.may_copy_later(mode_version) {
                self.copy_later(key);
            } else {
                self.compare_again(result, Some(key));
            }
            // A node acknowledges writes without the other node only after it has recorded that it is ahead.
            let is_recorded =
                mode_version.mode == PairMode::Handing || !self.state.pair.must_wait(mode_version);
            // Clients must slow down if they write more than the other node can take.
            if is_recorded && result != ResultCode::DEVICE_OVERLOAD {
                return reply;
            }
        } else {
            self.copies.suspect_copies.insert(key, false);
        }
        if let Some(pending) = self.pending.get(number) {
            pending.has_failed = true;
            if pending.is_comparison() {
                return Reply::with_result(result);
            }
        }
        // In doubt: the other node may or may not have the write.
        Reply::with_result(ResultCode::TIMEOUT)
    }

    pub(super) fn answer_readers(&mut self, readers: Vec<(u32, Reply)>, has_failed: bool) {
        for (number, reply) in readers {
            if let Some(pending) = self.pending.get(number) {
                pending.has_failed |= has_failed;
            }
            self.complete(
                number,
                if has_failed {
                    Reply::with_result(ResultCode::UNAVAILABLE)
                } else {
                    reply
                },
            );
        }
    }

    /// Sends again the records whose last write the other node may lack. Returns the time of the next step.
    pub(super) fn copy_again(&mut self) -> u64 {
        if self.copies.suspect_copies.is_empty() {
            return u64::MAX;
        }
        if self.state.pair.mode() != PairMode::Paired {
            // The next comparison covers all records, including the suspect copies.
            self.copies.suspect_copies.clear();
            return u64::MAX;
        }
        if self.copies.retry_ns > self.now_ns {
            return self.copies.retry_ns;
        }
        let in_flight = self
            .copies
            .suspect_copies
            .values()
            .filter(|is_flying| **is_flying)
            .count();
        let waiting_keys = self
            .copies
            .suspect_copies
            .iter()
            .filter(|(_, is_flying)| !**is_flying)
            .map(|(key, _)| *key);
        let waiting_keys: Vec<_> = waiting_keys.collect();
        let mut free_slots = FLYING_MAX.saturating_sub(in_flight);
        for key @ (namespace, digest) in waiting_keys {
            let replica = self.state.setup.cluster.replica(partition(&digest));
            let Some(node) = replica.filter(|node| self.refusal(*node).is_none()) else {
                continue;
            };
            if free_slots == 0 {
                break;
            }
            free_slots -= 1;
            self.copies.suspect_copies.insert(key, true);
            self.compare(
                Requester::CopyAgain,
                node,
                namespace,
                digest,
                Version {
                    number: 0,
                    is_tombstone: false,
                },
            );
        }
        self.copies.retry_ns = self.now_ns + AGAIN_NS;
        self.copies.retry_ns
    }

    pub(super) fn on_copied_again(&mut self, key: RecordKey, result: ResultCode) {
        if result == ResultCode::OK {
            self.copies.suspect_copies.remove(&key);
        } else if let Some(is_flying) = self.copies.suspect_copies.get_mut(&key) {
            *is_flying = false;
        }
    }
}
