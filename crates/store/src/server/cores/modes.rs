//! The mode of this node in a pair: changes of the mode, its record on the devices, log lines, and transactions that
//! wait for the record. [`super::super::pair`] has the rules.

use super::super::pair::{Greeting, ModeRecord, ModeVersion, PairMode};
use super::super::state::{CoreMessage, Mailbox, ServerState, lock};
use super::{RingDisk, ServerCore};
use crate::observe::Takeover;
use crate::{Note, Transaction};
use std::sync::atomic::Ordering;

/// Advice in the log when the only node with all records is gone.
const NO_COPY: &str = "start the node that had all records, with its devices, or start this node without `heartbeat` \
                       and with `replication-factor 1` to use the records that it has";

fn clear(node: &str) -> String {
    format!(
        "stop {node}, clear its devices and start it again: it then gets all records from its peer"
    )
}

impl ServerState {
    /// Namespace and core that have the record of this node's mode. `None`: this node never takes over.
    pub(in crate::server) fn record_place(&self) -> Option<(usize, usize)> {
        let namespace = self
            .setup
            .config
            .namespaces
            .iter()
            .position(|of| of.replication_factor > 1)?;
        self.pair.takes_over().then_some((namespace, 0))
    }

    /// Takes over if the other node is gone; the rules are in [`super::super::pair`].
    pub(in crate::server) fn check_takeover(&self, refused_ns: Option<u64>) {
        let now_ns = self.now_ns();
        let Some(since_ns) = self.pair.check_takeover(now_ns, refused_ns) else {
            return;
        };
        self.took_over(since_ns, now_ns);
        self.on_mode(Some(PairMode::Ahead));
    }

    /// Counts and logs a takeover. `since_ns`: time of the other node's last message.
    fn took_over(&self, since_ns: u64, now_ns: u64) {
        let now = self.requests();
        let before = lock(&self.requests_at_loss).unwrap_or(now);
        let requests = now[0].saturating_sub(before[0]);
        let failed = now[1].saturating_sub(before[1]);
        let ms = now_ns.saturating_sub(since_ns) / 1_000_000;
        self.facts(|facts| {
            facts.node.takeover = Some(Takeover {
                ms,
                requests,
                failed,
            })
        });
        let other = self.other_node();
        let pct = failed as f64 * 100.0 / requests.max(1) as f64;
        let text = format!(
            "this node took over the partitions of node {other}, {ms} ms after its last message - {failed} of {requests} requests failed \
             in this time ({pct:.1} %)"
        );
        self.warn("hb", "hb.c", text);
    }

    pub(in crate::server) fn on_mode_reported(
        &self,
        process: u64,
        mode_version: ModeVersion,
        now_ns: u64,
    ) {
        let mode = self.pair.on_mode_reported(process, mode_version, now_ns);
        if mode == Some(PairMode::Ahead) && mode_version.mode == PairMode::Leaving {
            self.took_over(now_ns, now_ns);
        }
        self.on_mode(mode);
    }

    pub(in crate::server) fn on_greeting(&self, greeting: Greeting, now_ns: u64) {
        let Greeting {
            process,
            mode_version,
            ..
        } = greeting;
        let mode_before = self.pair.mode();
        self.on_mode(self.pair.on_greeting(greeting, now_ns));
        let mode = self.pair.mode();
        let text = self.older_state(mode_before, mode_version.mode);
        let Some(text) = text.or_else(|| self.disagreement(mode, mode_version.mode)) else {
            return;
        };
        // Log only once: each core has two connections with the other node.
        let event = Some((process, mode, mode_version.mode));
        if std::mem::replace(&mut *lock(&self.last_warning), event) != event {
            self.warn("hb", "hb.c", text);
        }
    }

    /// Log line if one node's devices hold an older state. `own_mode`: this node's mode before the greeting.
    fn older_state(&self, own_mode: PairMode, peer_mode: PairMode) -> Option<String> {
        let [own_pairings, peer_pairings] = self.pair.pairings();
        let peer = format!("node {}", self.other_node());
        let is_own = own_pairings < peer_pairings;
        let (older, older_mode, newer_mode) = if is_own {
            ("this node", own_mode, peer_mode)
        } else {
            (peer.as_str(), peer_mode, own_mode)
        };
        let has_records = matches!(
            older_mode,
            PairMode::Starting
                | PairMode::Ahead
                | PairMode::Damaged
                | PairMode::New
                | PairMode::NewAhead
        );
        if own_pairings == peer_pairings || !has_records {
            return None;
        }
        let what = match newer_mode {
            PairMode::Behind => NO_COPY.to_owned(),
            _ if self.pair.is_stuck(peer_mode) && is_own => clear(older),
            _ if self.pair.is_stuck(peer_mode) => {
                format!(
                    "if {older} does not get the records of its peer, {}",
                    clear(older)
                )
            }
            _ => format!("{older} gets all records from its peer"),
        };
        let fewer = own_pairings.min(peer_pairings);
        let more = own_pairings.max(peer_pairings);
        Some(format!(
            "the devices of {older} hold an older state, perhaps restored from a copy: they record that the \
             nodes were paired {fewer} times, and the devices of its peer {more} times - {what}"
        ))
    }

    /// Line for the log if both nodes wait for each other, or if both took over.
    fn disagreement(&self, own_mode: PairMode, peer_mode: PairMode) -> Option<String> {
        let peer = format!("node {}", self.other_node());
        Some(match (own_mode, peer_mode) {
            (PairMode::Ahead | PairMode::NewAhead, PairMode::Ahead | PairMode::NewAhead) => {
                format!(
                    "both nodes took over, and each has writes that the other lacks - {}",
                    clear("one node")
                )
            }
            _ if self.pair.is_stuck(peer_mode) => format!(
                "{} (damage or new devices), and each node may have records that the other lacks - {}",
                match [own_mode, peer_mode].map(PairMode::lacks_records) {
                    [true, false] => "this node lacks records".to_owned(),
                    [false, true] => format!("{peer} lacks records"),
                    _ => "both nodes lack records".to_owned(),
                },
                clear(match (own_mode, peer_mode) {
                    // The newer records are on the node that was ahead, or that was paired while the other was behind.
                    (PairMode::NewAhead, _) | (_, PairMode::Behind) => &peer,
                    (_, PairMode::NewAhead) | (PairMode::Behind, _) => "this node",
                    (PairMode::MaybeAhead, _) | (_, PairMode::MaybeAhead) =>
                        "the node that did not take over last",
                    _ => "one node",
                })
            ),
            (PairMode::Behind, PairMode::Behind | PairMode::Fresh)
            | (PairMode::Fresh, PairMode::Behind) => {
                format!("no node has all records - {NO_COPY}")
            }
            _ => return None,
        })
    }

    /// Adds the contents of this core's devices. The call of the last core sets this node's mode.
    pub(in crate::server) fn started(
        &self,
        recorded: Option<ModeRecord>,
        full: u32,
        lost_blocks: u64,
    ) {
        let mut start = lock(&self.reported_contents);
        let (reported_cores, contents) = &mut *start;
        *reported_cores += 1;
        contents.recorded = contents.recorded.or(recorded);
        contents.nonempty |= full;
        contents.devices.lost_blocks += lost_blocks;
        if *reported_cores == self.mailboxes.len() {
            let namespaces = self
                .setup
                .config
                .namespaces
                .iter()
                .zip(&self.setup.devices)
                .zip(0..);
            for ((_, devices), at) in namespaces.filter(|((of, _), _)| of.replication_factor > 1) {
                contents.replicated |= 1 << at;
                contents.devices.device_sets ^=
                    devices.first().map_or(0, |(_, header)| header.device_set);
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
            self.mailboxes[core].push(CoreMessage::Record);
            self.mailboxes[core].wake();
        }
    }

    /// Records and logs this node's new mode, if there is one, and updates the partitions reported to clients.
    pub(in crate::server) fn on_mode(&self, mode: Option<PairMode>) {
        let Some(mode) = mode else { return };
        self.record();
        self.show_cluster();
        self.mailboxes.iter().for_each(Mailbox::wake);
        let other = self.other_node();
        let was_fresh = self.pair.was_fresh();
        let text = match mode {
            PairMode::Starting | PairMode::Handing | PairMode::Deciding | PairMode::AheadUnused => {
                return;
            }
            PairMode::Fresh => format!(
                "this node has no records and waits for node {other}, which may have records"
            ),
            PairMode::Damaged | PairMode::New | PairMode::NewAhead | PairMode::MaybeAhead => {
                format!(
                    "this node lacks records (damage or a new device) and waits for node {other}, which may have them"
                )
            }
            PairMode::Leaving => {
                format!("this node ends and leaves its partitions to node {other}")
            }
            PairMode::Paired => format!("paired with node {other}: each node has all records"),
            PairMode::Ahead if was_fresh => {
                format!("this node starts without records, as node {other} does")
            }
            PairMode::Behind if was_fresh => {
                format!("this node has no records and gets those of node {other}")
            }
            PairMode::Ahead => {
                format!(
                    "this node answers all requests until node {other} is connected and has all records"
                )
            }
            PairMode::Behind => {
                format!(
                    "this node passes all requests on to node {other} and gets the missing records from there"
                )
            }
        };
        match mode {
            PairMode::Paired | PairMode::Fresh | PairMode::Leaving => {
                self.inform("hb", "hb.c", text)
            }
            _ if was_fresh => self.inform("hb", "hb.c", text),
            _ => self.warn("hb", "hb.c", text),
        }
    }

    fn other_node(&self) -> String {
        self.setup
            .cluster
            .others()
            .map(|(_, node)| node.name())
            .collect()
    }
}

impl ServerCore {
    /// Called when all records of this core are indexed.
    pub(super) fn indexed(&mut self) {
        let Some(namespace) = self.record_namespace() else {
            return self.ready(None);
        };
        let (store, _) = &mut self.stores[namespace];
        match store.note() {
            Ok(Note { number: 0, .. }) => self.ready(None),
            Ok(note) => {
                // A crash may have left the note in some of the slots only.
                store.set_note(note, &mut RingDisk(&mut self.net, self.now_ns));
                self.record_number = note.number;
                self.found_record = Some(ModeRecord::read(&note.text).unwrap_or(ModeRecord::LOST));
            }
            Err(()) => self.ready(Some(ModeRecord::LOST)),
        }
    }

    /// The namespace whose devices have the record of this node's mode, if this core writes the record.
    fn record_namespace(&self) -> Option<usize> {
        self.state
            .record_place()
            .filter(|(_, core)| *core == self.core)
            .map(|(namespace, _)| namespace)
    }

    fn ready(&mut self, recorded: Option<ModeRecord>) {
        self.publish();
        let mut full = 0;
        let mut lost_blocks = 0;
        for at in (0..self.stores.len()).filter(|at| self.has_copies(*at as u16)) {
            let store = &self.counts.namespaces[at].store;
            full |= u32::from(store.objects > 0) << at;
            lost_blocks += store.losses.blocks;
        }
        self.state.started(recorded, full, lost_blocks);
        if self.state.ready.fetch_add(1, Ordering::AcqRel) + 1 == self.state.mailboxes.len() {
            // Wake the core of the listeners: it waits until all cores are ready.
            self.cores_to_wake[0] = true;
        }
    }

    pub(super) fn park(&mut self, number: u32, transaction: Transaction, at_master: bool) {
        self.parked.push((number, transaction, at_master));
        self.state.pair.begin_use();
        self.state.record();
    }

    pub(super) fn record(&mut self) {
        let Some(namespace) = self.record_namespace() else {
            return;
        };
        let Some(mode) = self.state.pair.begin_record() else {
            return;
        };
        self.recording = Some(mode);
        self.record_number += 1;
        let note = Note {
            number: self.record_number,
            text: self.state.pair.record_of(mode).to_text(),
        };
        self.stores[namespace]
            .0
            .set_note(note, &mut RingDisk(&mut self.net, self.now_ns));
    }

    /// Handles the end of the recording of the mode. After a failure, the next `sweep` tries again.
    pub(super) fn check_record(&mut self) {
        if self.recording.is_none() && self.found_record.is_none() {
            return;
        }
        let Some(namespace) = self.record_namespace() else {
            return;
        };
        let result = self.stores[namespace].0.is_noted();
        if result == Ok(false) {
            return;
        }
        if let Some(found) = self.found_record.take() {
            return self.ready(Some(found));
        }
        let Some(mode) = self.recording.take() else {
            return;
        };
        self.state
            .on_mode(self.state.pair.end_record(result.is_ok().then_some(mode)));
        if result.is_ok() {
            // The mode may have changed meanwhile.
            self.state.record();
            self.state.send_to_all(|| CoreMessage::Recorded);
        }
    }

    pub(super) fn resume(&mut self) {
        for (number, transaction, at_master) in std::mem::take(&mut self.parked) {
            let Some(namespace) = self.pending.get(number).map(|pending| pending.namespace) else {
                continue;
            };
            self.route(number, namespace, transaction, at_master);
        }
    }
}
