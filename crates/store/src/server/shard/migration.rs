//! Compares all records with the other node's, so that the one that is behind gets what it lacks; see
//! [`super::super::pair`].
//!
//! ```text
//! ahead: each own record -- version --> behind    differs: the record, or a tombstone ->
//! behind: each own record and tombstone -- version --> ahead    the same
//! ```
//!
//! Of two versions the greater one is valid everywhere. A node that is behind may have a greater one, of a write that
//! nobody acknowledged: then the record is written again at the node that is ahead, with a version above it. From the
//! begin of a comparison on, a core sends each write to the other node, too. So when both nodes have compared all that
//! they have, the other lacks nothing; anything that is refused or gets lost begins the comparison again.

use super::super::cluster::Said;
use super::super::pair::{Comparison, Mode, Word};
use super::transactions::Origin;
use super::{MS, Shard};
use crate::{Digest, PARTITIONS, Reply, ResultCode, Transaction, Version, Work, partition};

/// Records that a core compares at once.
const FLYING_MAX: usize = 64;

/// Entries of the index that are looked at in one turn.
const TURN: u32 = 4_000;

/// Time before a comparison that begins again.
const AGAIN_NS: u64 = 100 * MS;

/// The same, if a record could not be copied for a reason that does not pass by itself.
const REST_NS: u64 = 2_000 * MS;

/// Time before a record is copied that the other node could not take.
const PASSING_NS: u64 = 10 * MS;

/// Time between two log lines about failed comparisons.
const QUIET_NS: u64 = 10_000 * MS;

/// True if the other node may take the record soon, or has it in a version that was not known.
pub(super) fn is_passing(result: ResultCode) -> bool {
    matches!(result, ResultCode::DEVICE_OVERLOAD | ResultCode::KEY_BUSY | ResultCode::GENERATION)
}

/// A core's part of a comparison.
#[derive(Debug)]
pub(super) struct Migration {
    of: Comparison,
    /// Distinguishes it from earlier ones.
    serial: u32,
    /// The next entry to compare.
    namespace: usize,
    next: u32,
    /// Records that could not be copied for a passing reason.
    again: Vec<(u16, Digest)>,
    flying: usize,
    /// Before this nothing is compared.
    due_ns: u64,
    is_begun: bool,
    is_over: bool,
}

impl Shard {
    /// Continues the comparison. Returns the time of the next step.
    pub(super) fn migrate(&mut self) -> u64 {
        if self.stops_ns.is_some() {
            return u64::MAX;
        }
        if self.state.pair.mode() == Mode::Handing {
            if self.pending.iter().all(|(_, of)| !of.may_write()) {
                self.state.pair.drained(self.state.pair.word().changes, self.core);
                self.state.record();
            }
            return u64::MAX;
        }
        let (Some(of), Some(node)) = (self.state.pair.comparison(), self.other_node()) else {
            self.end_migration();
            return u64::MAX;
        };
        match self.refusal(node) {
            None => {}
            Some(ResultCode::UNAVAILABLE) => {
                self.end_migration();
                return u64::MAX;
            }
            Some(_) => return u64::MAX,
        }
        let pause_ns = match &self.migration {
            Some(migration) if migration.of == of => None,
            Some(_) => Some(AGAIN_NS),
            None => Some(0),
        };
        if let Some(pause_ns) = pause_ns {
            let rest_ns = self.rests_ns.saturating_sub(self.now_ns);
            self.begin_migration(of, pause_ns.max(rest_ns));
        }
        for _ in 0..TURN {
            let Some(migration) = &mut self.migration else { return u64::MAX };
            if migration.is_over || migration.flying >= FLYING_MAX {
                return u64::MAX;
            }
            if migration.due_ns > self.now_ns {
                return migration.due_ns;
            }
            // A write that the other node does not get could be in the store only after its record is compared.
            if !migration.is_begun && self.pending.iter().any(|(_, of)| of.may_write() && of.node().is_none()) {
                return self.now_ns + MS;
            }
            let Some(migration) = &mut self.migration else { return u64::MAX };
            migration.is_begun = true;
            if let Some((namespace, digest)) = migration.again.pop() {
                migration.flying += 1;
                let origin = Origin::Comparison { serial: migration.serial };
                self.compare(origin, node, namespace, digest, Version { number: 0, tombstone: false });
                continue;
            }
            let (serial, namespace, number) = (migration.serial, migration.namespace, migration.next);
            let Some((store, _)) = self.stores.get(namespace) else {
                if migration.flying == 0 {
                    migration.is_over = true;
                    self.compared_all(of, node);
                }
                return u64::MAX;
            };
            if number >= store.end() || self.state.setup.config.namespaces[namespace].replication_factor < 2 {
                (migration.namespace, migration.next) = (namespace + 1, 0);
                continue;
            }
            migration.next += 1;
            // Tombstones of a node that is behind count: a later write has to have a greater version.
            let is_wanted = |(digest, version): &(Digest, Version)| {
                *digest != self.state.record_digest && !(of.sends && version.tombstone)
            };
            let Some((digest, version)) = store.nth(number).filter(is_wanted) else { continue };
            migration.flying += 1;
            let namespace = namespace as u16;
            self.compare(Origin::Comparison { serial }, node, namespace, digest, version);
        }
        self.now_ns
    }

    /// Tells a node the version of a record here, and asks for its own.
    pub(super) fn compare(&mut self, origin: Origin, node: usize, namespace: u16, digest: Digest, version: Version) {
        let number = self.pend(origin, namespace, None, digest, u64::MAX);
        if let Some(pending) = self.pending.get(number) {
            pending.is_sent_to(node);
        }
        self.say(node, &Said::Compare { number: number.into(), namespace, digest, version });
    }

    fn begin_migration(&mut self, of: Comparison, pause_ns: u64) {
        self.serial = self.serial.wrapping_add(1);
        let (serial, due_ns) = (self.serial, self.now_ns + pause_ns);
        let (namespace, next, flying, is_begun, is_over) = (0, 0, 0, false, false);
        let again = Vec::new();
        self.migration = Some(Migration { of, serial, namespace, next, again, flying, due_ns, is_begun, is_over });
    }

    /// The other node is not there. Writes go on without it, so that all must be compared again.
    pub(super) fn end_migration(&mut self) {
        if self.migration.take().is_some_and(|migration| migration.of.sends) {
            self.state.pair.compare_again();
        }
    }

    fn compared_all(&mut self, of: Comparison, node: usize) {
        self.state.on_mode(self.state.pair.compared(of, self.core));
        let (core, cores) = (self.core as u32, self.state.mailboxes.len() as u32);
        if !of.sends {
            self.say(node, &Said::ComparedAll { comparison: of.number, core, cores });
        }
    }

    fn other_node(&self) -> Option<usize> {
        self.state.setup.cluster.others().next().map(|(node, _)| node)
    }

    /// The node that gets a write of this record, too, if there is one; `word` is that of this node as the write began,
    /// paired or ahead. Errors: it cannot take more now, or is not there and has to have the write.
    pub(super) fn receiver(&mut self, word: Word, digest: &Digest) -> Result<Option<usize>, ResultCode> {
        if word.mode == Mode::Paired {
            let replica = self.state.setup.cluster.replica(partition(digest));
            return replica.and_then(|node| self.refusal(node)).map_or(Ok(replica), Err);
        }
        let is_of = |of: &Comparison| of.sends && of.number == word.changes;
        let sends = self.migration.as_ref().is_some_and(|of| is_of(&of.of));
        let Some(node) = self.other_node().filter(|_| sends) else { return Ok(None) };
        match self.refusal(node) {
            None => Ok(Some(node)),
            Some(ResultCode::UNAVAILABLE) => {
                self.compare_again(ResultCode::UNAVAILABLE, None);
                Ok(None)
            }
            Some(code) => Err(code),
        }
    }

    /// True if this core compares now: it sends each write to the other node, and all before are in its stores.
    pub(super) fn compares(&self) -> bool {
        self.migration.as_ref().is_some_and(|migration| migration.is_begun)
    }

    /// The other node has told its version of a record, or has what it lacked of it; then `version` is that.
    pub(super) fn on_compared(&mut self, number: u64, version: u64) {
        let Ok(number) = u32::try_from(number) else { return };
        let Some(pending) = self.pending.get(number).filter(|pending| pending.is_comparison()) else { return };
        let (namespace, digest) = (pending.namespace, pending.digest);
        if self.state.pair.mode() != Mode::Behind {
            let work = Work::Compare(Version { number: version, tombstone: false });
            return self.execute(number, namespace, Transaction { digest, set: Box::default(), work }, false);
        }
        self.complete(number, Reply { version, ..Reply::of(ResultCode::OK) });
    }

    /// A record is compared, and copied if it had to be.
    pub(super) fn on_comparison(&mut self, serial: u32, key: (u16, Digest), reply: &Reply) {
        let Some(migration) = self.migration.as_mut().filter(|migration| migration.serial == serial) else { return };
        migration.flying = migration.flying.saturating_sub(1);
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
        if migration.of.sends {
            self.count_copied(key.0, is_copied);
        }
    }

    /// True if this core, at a node with this word, still compares: it does not hand over before a record is copied.
    pub(super) fn may_copy_later(&self, word: Word) -> bool {
        let is_of = |of: &Comparison| of.sends && word.mode == Mode::Ahead && of.number == word.changes;
        self.migration
            .as_ref()
            .is_some_and(|migration| migration.is_begun && !migration.is_over && is_of(&migration.of))
    }

    /// The other node could not take a record now.
    pub(super) fn copy_later(&mut self, key: (u16, Digest)) {
        if let Some(migration) = &mut self.migration {
            migration.again.push(key);
            migration.due_ns = migration.due_ns.max(self.now_ns + PASSING_NS);
        }
    }

    pub(super) fn count_copied(&mut self, namespace: u16, is_copied: bool) {
        let counts = &mut self.counts.namespaces[usize::from(namespace)].migration;
        counts.transmitted += u64::from(is_copied);
        counts.skipped += u64::from(!is_copied);
    }

    /// A record could not be compared or copied. Begins again with the first.
    pub(super) fn compare_again(&mut self, result: ResultCode, key: Option<(u16, Digest)>) {
        let current = self.state.pair.comparison();
        let of = self.migration.as_ref().map(|migration| migration.of).filter(|of| Some(*of) == current);
        match of {
            None if self.state.pair.mode() == Mode::Handing => self.state.pair.compare_again(),
            // This core begins again for another reason.
            None => return,
            Some(Comparison { sends: true, .. }) => self.state.pair.compare_again(),
            Some(of) => self.begin_migration(of, AGAIN_NS),
        }
        // A lost link, or another core that has not begun, has a reason that the log tells elsewhere.
        if matches!(result, ResultCode::UNAVAILABLE | ResultCode::TIMEOUT) {
            return;
        }
        self.rests_ns = self.now_ns + REST_NS;
        if self.now_ns >= self.compares_again_ns {
            self.compares_again_ns = self.now_ns + QUIET_NS;
            let record = key.map_or(String::new(), |(namespace, digest)| {
                let name = &self.state.setup.config.namespaces[usize::from(namespace)].settings.name;
                let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                format!(" {digest} of namespace {name}")
            });
            let what = format!(
                "record{record} could not be compared or copied - result {} - compares all again, until it can be, or is replaced or \
                 deleted",
                result.0
            );
            self.state.warn("migrate", "migrate.c", what);
        }
    }

    /// Counts the partitions that are not compared yet, by the share of the index.
    pub(super) fn count_remaining(&mut self) {
        let all = PARTITIONS as usize / self.state.mailboxes.len();
        let pair = &self.state.pair;
        // Until the nodes are paired again it is not over.
        let mut least = u64::from(self.core == 0 && pair.migrates());
        for (at, counts) in self.counts.namespaces.iter_mut().enumerate() {
            let is_copied = self.state.setup.config.namespaces[at].replication_factor > 1;
            let end = u64::from(self.stores[at].0.end()).max(1);
            let remaining = match &self.migration {
                Some(of) if is_copied && of.namespace < at => all as u64,
                Some(of) if is_copied && of.namespace == at => {
                    (all as u64 * end.saturating_sub(of.next.into())).div_ceil(end)
                }
                _ => 0,
            };
            let remaining = if is_copied { remaining.max(std::mem::take(&mut least)) } else { 0 };
            let is_behind = pair.mode() == Mode::Behind;
            let migration = &mut counts.migration;
            (migration.tx_remaining, migration.rx_remaining) = if is_behind { (0, remaining) } else { (remaining, 0) };
        }
    }
}
