//! The record of this node's mode, and the writes that wait for it; see [`super::super::pair`].

use super::super::pair::{self, Devices, Mode, Recorded};
use super::super::state::Message;
use super::transactions::Origin;
use super::{RingDisk, Shard};
use crate::ops::{self, Entry, operation, particle};
use crate::{Exists, Policy, Reply, ResultCode, Transaction, Ttl, Work, Write};
use std::sync::atomic::Ordering;

impl Shard {
    /// All records of this core are indexed. The core that has the record of this node's mode reads it first.
    pub(super) fn indexed(&mut self) {
        let Some((namespace, core)) = self.state.record_place() else { return self.ready(None) };
        if core != self.core {
            return self.ready(None);
        }
        let digest = self.state.record_digest;
        let number = self.pend(Origin::Found, namespace as u16, None, digest, u64::MAX);
        let read = Transaction { digest, set: Box::default(), work: Work::ReadAll };
        let (store, _) = &mut self.stores[namespace];
        store.execute(number.into(), read, &mut RingDisk(&mut self.net, self.now_ns), &mut self.replies);
    }

    /// The record, if there is one.
    pub(super) fn on_found(&mut self, reply: &Reply) {
        let recorded = match reply.result {
            ResultCode::OK => ops::entries(&reply.ops).next().and_then(|entry| Recorded::read(entry.value)),
            ResultCode::NOT_FOUND => None,
            _ => Some(Recorded { mode: Mode::MaybeAhead, devices: Devices::default() }),
        };
        self.ready(recorded);
    }

    fn ready(&mut self, recorded: Option<Recorded>) {
        self.has_record = recorded.is_some();
        self.publish();
        let (mut full, mut lost) = (0, [0; 2]);
        for at in (0..self.stores.len()).filter(|at| self.has_copies(*at as u16)) {
            let store = &self.counts.namespaces[at].store;
            full |= u32::from(store.objects > 0) << at;
            lost[usize::from(self.state.record_place() != Some((at, self.core)))] += store.losses.blocks;
        }
        self.state.started(recorded, full, lost);
        if self.state.ready.fetch_add(1, Ordering::AcqRel) + 1 == self.state.mailboxes.len() {
            // The listeners' core waits for this.
            self.mailed[0] = true;
        }
    }

    /// Has a transaction wait until this node's mode is recorded.
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
        // The old record need not be readable.
        let policy = Policy { ttl: Ttl::Never, exists: Exists::CreateOrReplace, ..Policy::default() };
        let (digest, set) = (self.state.record_digest, pair::RECORD_SET.into());
        let transaction =
            Transaction { digest, set, work: Work::Write(Write { policy, ops, is_vital: true, ..Write::default() }) };
        let number = self.pend(Origin::Record(mode), namespace as u16, None, digest, u64::MAX);
        let (store, _) = &mut self.stores[namespace];
        store.execute(number.into(), transaction, &mut RingDisk(&mut self.net, self.now_ns), &mut self.replies);
    }

    /// The record is on the device, or was refused; then the next look at timers tries again.
    pub(super) fn on_record(&mut self, mode: Mode, result: ResultCode) {
        let is_recorded = result == ResultCode::OK;
        self.state.on_mode(self.state.pair.end_record(is_recorded.then_some(mode)));
        if is_recorded {
            self.has_record = true;
            // The mode may have changed meanwhile.
            self.state.record();
            self.state.tell_all(|| Message::Recorded);
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
