//! Counts of this core's transactions and stores, for observers.

use super::transactions::{Origin, Pending};
use super::{MS, Shard, lock};
use crate::ResultCode;
use crate::observe::{self, Kind};
use engine::IoEngine as _;

/// A transaction that was answered.
#[derive(Debug)]
pub(super) struct Answered {
    namespace: u16,
    from: observe::Origin,
    kind: Kind,
    result: ResultCode,
    began_ns: u64,
    is_proxied: bool,
}

impl Shard {
    pub(super) fn publish(&mut self) {
        self.reported_ns = self.now_ns;
        self.has_changed = false;
        for (counts, (store, _)) in self.counts.namespaces.iter_mut().zip(&self.stores) {
            counts.store = store.statistics();
        }
        if let Some((namespace, _)) = self.state.record_place().filter(|_| self.has_record) {
            let objects = &mut self.counts.namespaces[namespace].store.objects;
            *objects = objects.saturating_sub(1);
        }
        self.count_remaining();
        self.counts.in_progress = self.pending.len() as u64;
        lock(&self.state.counts[self.core]).clone_from(&self.counts);
    }

    pub(super) fn count(&mut self, pending: &Pending, result: ResultCode) {
        let from = match pending.origin {
            Origin::Single { .. } => observe::Origin::Client,
            Origin::Batch { .. } => observe::Origin::Batch,
            Origin::Proxied { .. } => observe::Origin::Proxy,
            _ => return,
        };
        let Pending { namespace, began_ns, is_proxied, .. } = *pending;
        let Some(kind) = pending.kind else { return };
        self.answered.push(Answered { namespace, from, kind, result, began_ns, is_proxied });
    }

    /// Counts the transactions answered in this pass, once their replies are with the kernel.
    pub(super) fn count_answered(&mut self) {
        if self.answered.is_empty() {
            return;
        }
        let now_ns = self.net.now();
        let unit_ns = if self.state.setup.config.microsecond_histograms { 1_000 } else { MS };
        for Answered { namespace, from, kind, result, began_ns, is_proxied } in self.answered.drain(..) {
            let counts = &mut self.counts.namespaces[usize::from(namespace)];
            match is_proxied {
                true => counts.record_proxied(from, result),
                false => counts.record(from, kind, result, now_ns.saturating_sub(began_ns) / unit_ns),
            }
        }
    }
}
