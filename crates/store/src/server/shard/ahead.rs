//! The record that this node is ahead of the other, and the writes that wait for it; see [`super::super::pair`].

use super::super::pair::{self, Mode};
use super::super::state::Message;
use super::transactions::Origin;
use super::{RingDisk, Shard};
use crate::ops::{self, Entry, operation, particle};
use crate::{Policy, Reply, ResultCode, Transaction, Ttl, Work, Write};

impl Shard {
    /// Looks for the record that this node is ahead. A store answers that from its index, at once.
    pub(super) fn find_record(&mut self) {
        let Some((namespace, core)) = self.state.record_place() else { return };
        if core == self.core {
            let digest = pair::record_digest();
            let exists = Transaction { digest, set: Box::default(), work: Work::Exists };
            let mut replies = Vec::new();
            self.stores[namespace].0.execute(0, exists, &mut RingDisk(&mut self.net), &mut replies);
            if replies.iter().any(|(_, reply)| reply.result == ResultCode::OK) {
                self.state.pair.found_record();
                self.state.on_mode(Some(Mode::Ahead));
            }
        }
    }

    /// Has a write wait until it is recorded that this node is ahead.
    pub(super) fn park(&mut self, number: u32, transaction: Transaction) {
        self.parked.push((number, transaction));
        self.state.on_mode(Some(Mode::Ahead));
    }

    /// Records that this node is ahead.
    pub(super) fn record(&mut self) {
        let Some((namespace, _)) = self.state.record_place() else { return };
        let name: &[u8] = match self.state.setup.config.namespaces[namespace].settings.single_bin {
            true => b"",
            false => b"ahead",
        };
        let mut ops = Vec::new();
        let (operation, particle) = (operation::WRITE, particle::INTEGER);
        ops::put(&mut ops, &Entry { operation, particle, name, value: &1_u64.to_be_bytes() });
        let policy = Policy { ttl: Ttl::Never, ..Policy::default() };
        let (digest, set) = (self.state.record_digest, pair::RECORD_SET.into());
        let transaction = Transaction { digest, set, work: Work::Write(Write { policy, ops, ..Write::default() }) };
        let number = self.pend(Origin::Record, namespace as u16, None, digest, u64::MAX);
        let (store, _) = &mut self.stores[namespace];
        store.execute(number.into(), transaction, &mut RingDisk(&mut self.net), &mut self.replies);
    }

    /// The record is in the store, or was refused.
    pub(super) fn on_record(&mut self, result: ResultCode) {
        // Written before the writes that wait for it, where those are not awaited either.
        self.stores.iter_mut().for_each(|(store, _)| store.flush(&mut RingDisk(&mut self.net)));
        self.state.pair.end_record(result == ResultCode::OK);
        self.state.tell_all(|| Message::Recorded(result));
    }

    /// Continues with the parked writes, or refuses them.
    pub(super) fn resume(&mut self, result: ResultCode) {
        for (number, transaction) in std::mem::take(&mut self.parked) {
            let Some(namespace) = self.pending.get(number).map(|pending| pending.namespace) else { continue };
            match result {
                ResultCode::OK => self.route(number, namespace, transaction, false),
                refused => self.complete(number, Reply::of(refused)),
            }
        }
    }
}
