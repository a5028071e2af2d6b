//! The mode of this node in a pair: changes of the mode, the record of the mode, log lines, and transactions that wait
//! for the record. [`super::super::pair`] has the rules.

use super::super::pair::{self, DeviceIdentity, Mode, ModeRecord, ModeVersion};
use super::super::state::{Mailbox, Message, State, lock};
use super::transactions::Origin;
use super::{RingDisk, Shard};
use crate::observe::Takeover;
use crate::ops::{self, Entry, operation, particle};
use crate::{Exists, Policy, Reply, ResultCode, Transaction, Ttl, Work, Write, partition};
use std::sync::atomic::Ordering;

/// Advice in the log when the only node with all records is gone.
const NO_COPY: &str = "start the node that had all records, with its devices, or start this node without `heartbeat` \
                       and with `replication-factor 1` to use the records that it has";

impl State {
    /// Namespace and core that have the record of this node's mode. `None`: this node never takes over.
    pub(in crate::server) fn record_place(&self) -> Option<(usize, usize)> {
        let namespace = self.setup.config.namespaces.iter().position(|of| of.replication_factor > 1)?;
        let core = usize::from(partition(&self.record_digest)) % self.mailboxes.len();
        self.pair.takes_over().then_some((namespace, core))
    }

    /// Takes over if the other node is gone; the rules are in [`super::super::pair`].
    pub(in crate::server) fn check_takeover(&self, refused_ns: Option<u64>) {
        let now_ns = self.now_ns();
        let Some(since_ns) = self.pair.check_takeover(now_ns, refused_ns) else { return };
        let before = lock(&self.requests_at_loss).unwrap_or_default();
        let now = self.requests();
        let [requests, failed] = [0, 1].map(|at| now[at].saturating_sub(before[at]));
        let ms = now_ns.saturating_sub(since_ns) / 1_000_000;
        self.facts(|facts| facts.node.takeover = Some(Takeover { ms, requests, failed }));
        let other = self.other_node();
        let pct = failed as f64 * 100.0 / requests.max(1) as f64;
        let text = format!(
            "this node took over the partitions of node {other}, {ms} ms after its last message - {failed} of {requests} requests failed \
             in this time ({pct:.1} %)"
        );
        self.warn("hb", "hb.c", text);
        self.on_mode(Some(Mode::Ahead));
    }

    /// Handles the mode that a process of another node reports on an existing connection.
    pub(in crate::server) fn on_mode_reported(&self, process: u64, mode_version: ModeVersion, now_ns: u64) {
        self.on_mode(self.pair.on_mode_reported(process, mode_version, now_ns));
    }

    /// Handles the greeting of a process of another node. `empty_namespaces`: bits of that node's namespaces without
    /// records.
    pub(in crate::server) fn on_greeting(
        &self,
        process: u64,
        mode_version: ModeVersion,
        empty_namespaces: u32,
        now_ns: u64,
    ) {
        self.on_mode(self.pair.on_greeting(process, mode_version, empty_namespaces, now_ns));
        let mode = self.pair.mode();
        let clear =
            |node| format!("stop {node}, clear its devices and start it again: it then gets all records from its peer");
        let text = match (mode, mode_version.mode) {
            (Mode::Ahead | Mode::NewAhead, Mode::Ahead | Mode::NewAhead) => {
                format!("both nodes took over, and each has writes that the other lacks - {}", clear("one node"))
            }
            (own_mode, peer_mode) if self.pair.is_stuck(peer_mode) => format!(
                "both nodes lack records (damage or new devices), and each may have records that the other lacks - {}",
                clear(match (own_mode, peer_mode) {
                    // The newer records are on the node that was ahead, or that was paired while the other was behind.
                    (Mode::NewAhead, _) | (_, Mode::Behind) => "the other node",
                    (_, Mode::NewAhead) | (Mode::Behind, _) => "this node",
                    (Mode::MaybeAhead, _) | (_, Mode::MaybeAhead) => "the node that did not take over last",
                    _ => "one node",
                })
            ),
            (Mode::Behind, Mode::Behind | Mode::Fresh) | (Mode::Fresh, Mode::Behind) => {
                format!("no node has all records - {NO_COPY}")
            }
            _ => return,
        };
        // Log only once: each core has two connections with the other node.
        let event = Some((process, mode, mode_version.mode));
        if std::mem::replace(&mut *lock(&self.last_warning), event) != event {
            self.warn("hb", "hb.c", text);
        }
    }

    /// Adds the contents of this shard's devices. The last shard sets this node's mode.
    pub(in crate::server) fn started(&self, recorded: Option<ModeRecord>, full: u32, lost_blocks: [u64; 2]) {
        let mut start = lock(&self.reported_contents);
        let (shards, contents) = &mut *start;
        *shards += 1;
        contents.recorded = contents.recorded.or(recorded);
        contents.nonempty |= full;
        contents.devices.lost_blocks = [0, 1].map(|at| contents.devices.lost_blocks[at] + lost_blocks[at]);
        if *shards == self.mailboxes.len() {
            let namespaces = self.setup.config.namespaces.iter().zip(&self.setup.devices).zip(0..);
            for ((_, devices), at) in namespaces.filter(|((of, _), _)| of.replication_factor > 1) {
                contents.replicated |= 1 << at;
                contents.devices.device_sets ^= devices.first().map_or(0, |(_, header)| header.device_set);
            }
            let contents = *contents;
            drop(start);
            self.on_mode(self.pair.started(contents));
        }
    }

    /// Makes the responsible core record this node's mode, if that is necessary.
    pub(in crate::server) fn record(&self) {
        if let Some((_, core)) = self.record_place()
            && self.pair.must_record()
        {
            self.mailboxes[core].push(Message::Record);
            self.mailboxes[core].wake();
        }
    }

    /// Records and logs this node's new mode, if there is one, and updates the partitions reported to clients.
    pub(in crate::server) fn on_mode(&self, mode: Option<Mode>) {
        let Some(mode) = mode else { return };
        self.record();
        self.show_cluster();
        self.mailboxes.iter().for_each(Mailbox::wake);
        let other = self.other_node();
        let was_fresh = self.pair.was_fresh();
        let text = match mode {
            Mode::Starting | Mode::Handing | Mode::Deciding => return,
            Mode::Fresh => format!("this node has no records and waits for node {other}, which may have records"),
            Mode::Damaged | Mode::New | Mode::NewAhead | Mode::MaybeAhead => {
                format!(
                    "this node lacks records (damage or a new device) and waits for node {other}, which may have them"
                )
            }
            Mode::Paired => format!("paired with node {other}: each node has all records"),
            Mode::Ahead if was_fresh => format!("this node starts without records, as node {other} does"),
            Mode::Behind if was_fresh => format!("this node has no records and gets those of node {other}"),
            Mode::Ahead => {
                format!("this node answers all requests until node {other} is connected and has all records")
            }
            Mode::Behind => {
                format!("this node passes all requests on to node {other} and gets the missing records from there")
            }
        };
        match mode {
            Mode::Paired | Mode::Fresh => self.inform("hb", "hb.c", text),
            _ if was_fresh => self.inform("hb", "hb.c", text),
            _ => self.warn("hb", "hb.c", text),
        }
    }

    /// The name of the other node.
    fn other_node(&self) -> String {
        self.setup.cluster.others().map(|(_, node)| node.name()).collect()
    }
}

impl Shard {
    /// Called when all records of this core are indexed. The core with the record of this node's mode reads this record
    /// first.
    pub(super) fn indexed(&mut self) {
        let Some((namespace, core)) = self.state.record_place() else { return self.ready(None) };
        if core != self.core {
            return self.ready(None);
        }
        let digest = self.state.record_digest;
        let number = self.pend(Origin::ModeRead, namespace as u16, digest);
        let transaction = Transaction { digest, set: Box::default(), work: Work::ReadAll };
        let (store, _) = &mut self.stores[namespace];
        store.execute(number.into(), transaction, &mut RingDisk(&mut self.net, self.now_ns), &mut self.replies);
    }

    /// Handles the result of reading the record of this node's mode.
    pub(super) fn on_found(&mut self, reply: &Reply) {
        let recorded = match reply.result {
            ResultCode::OK => ops::entries(&reply.ops).next().and_then(|entry| ModeRecord::read(entry.value)),
            ResultCode::NOT_FOUND => None,
            _ => Some(ModeRecord { mode: Mode::MaybeAhead, devices: DeviceIdentity::default() }),
        };
        self.ready(recorded);
    }

    fn ready(&mut self, recorded: Option<ModeRecord>) {
        self.has_record = recorded.is_some();
        self.publish();
        let (mut full, mut lost_blocks) = (0, [0; 2]);
        for at in (0..self.stores.len()).filter(|at| self.has_copies(*at as u16)) {
            let store = &self.counts.namespaces[at].store;
            full |= u32::from(store.objects > 0) << at;
            lost_blocks[usize::from(self.state.record_place() != Some((at, self.core)))] += store.losses.blocks;
        }
        self.state.started(recorded, full, lost_blocks);
        if self.state.ready.fetch_add(1, Ordering::AcqRel) + 1 == self.state.mailboxes.len() {
            // Wake the core of the listeners: it waits until all cores are ready.
            self.cores_to_wake[0] = true;
        }
    }

    /// Parks a transaction until this node's mode is recorded.
    pub(super) fn park(&mut self, number: u32, transaction: Transaction, at_master: bool) {
        self.parked.push((number, transaction, at_master));
        self.state.record();
    }

    /// Records this node's mode.
    pub(super) fn record(&mut self) {
        let Some((namespace, _)) = self.state.record_place() else { return };
        let Some(mode) = self.state.pair.begin_record() else { return };
        let name = match self.state.setup.config.namespaces[namespace].settings.single_bin {
            true => b"",
            false => pair::RECORD_BIN,
        };
        let mut ops = Vec::new();
        let (operation, particle) = (operation::WRITE, particle::BLOB);
        let value = &self.state.pair.record_of(mode).to_bytes();
        ops::put(&mut ops, &Entry { operation, particle, name, value });
        // Replaces the old record without reading it, because it may be unreadable.
        let policy = Policy { ttl: Ttl::NEVER, exists: Exists::CreateOrReplace, ..Policy::default() };
        let (digest, set) = (self.state.record_digest, pair::RECORD_SET.into());
        let transaction =
            Transaction { digest, set, work: Work::Write(Write { policy, ops, is_vital: true, ..Write::default() }) };
        let number = self.pend(Origin::Record(mode), namespace as u16, digest);
        let (store, _) = &mut self.stores[namespace];
        store.execute(number.into(), transaction, &mut RingDisk(&mut self.net, self.now_ns), &mut self.replies);
    }

    /// Handles the result of recording the mode. After a failure, the next check of timers tries again.
    pub(super) fn on_record(&mut self, mode: Mode, result: ResultCode) {
        let is_recorded = result == ResultCode::OK;
        self.state.on_mode(self.state.pair.end_record(is_recorded.then_some(mode)));
        if is_recorded {
            self.has_record = true;
            // The mode may have changed meanwhile.
            self.state.record();
            self.state.send_to_all(|| Message::Recorded);
        }
    }

    /// Continues with the parked transactions.
    pub(super) fn resume(&mut self) {
        for (number, transaction, at_master) in std::mem::take(&mut self.parked) {
            let Some(namespace) = self.pending.get(number).map(|pending| pending.namespace) else { continue };
            self.route(number, namespace, transaction, at_master);
        }
    }
}
