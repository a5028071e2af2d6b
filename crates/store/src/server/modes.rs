//! The mode of this node towards the other: what changes it, has it recorded, and logs it. [`super::pair`] has the rules.

use super::pair::{Devices, Found, Mode, Recorded, Word};
use super::state::{Mailbox, Message, State, lock};
use crate::observe::Takeover;
use crate::partition;

/// Log text when the only node with all records is gone.
const NO_COPY: &str = "start the node that has them with its devices, or this one without `heartbeat` and with \
                       `replication-factor 1` to use what it has";

impl State {
    /// Namespace and core of the record with this node's mode. `None`: this node never takes over.
    pub(super) fn record_place(&self) -> Option<(usize, usize)> {
        let namespace = self.setup.config.namespaces.iter().position(|of| of.replication_factor > 1)?;
        let core = usize::from(partition(&self.record_digest)) % self.mailboxes.len();
        self.pair.takes_over().then_some((namespace, core))
    }

    /// Takes over if the other node is gone; see [`super::pair::Pair::look`].
    pub(super) fn look(&self, refused_ns: Option<u64>) {
        let now_ns = self.now_ns();
        let Some(since_ns) = self.pair.look(now_ns, refused_ns) else { return };
        let ([before, failed_before], [all, failed]) = (lock(&self.cut).unwrap_or_default(), self.requests());
        let takeover = Takeover {
            ms: now_ns.saturating_sub(since_ns) / 1_000_000,
            requests: all.saturating_sub(before),
            failed: failed.saturating_sub(failed_before),
        };
        self.facts(|facts| facts.node.takeover = Some(takeover));
        let other = self.other_node();
        let Takeover { ms, requests, failed } = takeover;
        let pct = failed as f64 * 100.0 / requests.max(1) as f64;
        let text = format!(
            "took over the partitions of node {other}, {ms} ms after its last word - {failed} of {requests} requests failed \
             meanwhile ({pct:.1} %)"
        );
        self.warn("hb", "hb.c", text);
        self.on_mode(Some(Mode::Ahead));
    }

    /// A process of another node has said its mode on a connection that it began before.
    pub(super) fn heard(&self, process: u64, word: Word, now_ns: u64) {
        self.on_mode(self.pair.heard(process, word, now_ns));
    }

    /// A process of another node has begun a connection; `empty` are its namespaces without records.
    pub(super) fn greeted(&self, process: u64, word: Word, empty: u32, now_ns: u64) {
        self.on_mode(self.pair.greeted(process, word, empty, now_ns));
        let mode = self.pair.mode();
        let clear = |which| format!("stop {which} and clear its devices: it gets the records of the other");
        let text = match (mode, word.mode) {
            (Mode::Ahead | Mode::NewAhead, Mode::Ahead | Mode::NewAhead) => {
                format!("both nodes took over, and each has writes that the other lacks - {}", clear("one"))
            }
            (own, other) if self.pair.is_stuck(other) => format!(
                "both nodes lack records (damage, or new devices), and each may have those of the other - {}",
                clear(match (own, other) {
                    // The one that was ahead, or was paired when the other was behind, has the newer records.
                    (Mode::NewAhead, _) | (_, Mode::Behind) => "the other node",
                    (_, Mode::NewAhead) | (Mode::Behind, _) => "this node",
                    (Mode::MaybeAhead, _) | (_, Mode::MaybeAhead) => "the node that did not take over last",
                    _ => "one",
                })
            ),
            (Mode::Behind, Mode::Behind | Mode::Fresh) | (Mode::Fresh, Mode::Behind) => {
                format!("no node has all records - {NO_COPY}")
            }
            _ => return,
        };
        // Each core has two connections with the other node.
        let event = Some((process, mode, word.mode));
        if std::mem::replace(&mut *lock(&self.warned), event) != event {
            self.warn("hb", "hb.c", text);
        }
    }

    /// Tells each core what this shard found. The last sets this node's mode.
    pub(super) fn started(&self, recorded: Option<Recorded>, full: u32, lost: [u64; 2]) {
        let mut start = lock(&self.start);
        start.shards += 1;
        start.recorded = start.recorded.or(recorded);
        start.full |= full;
        start.lost = [0, 1].map(|at| start.lost[at] + lost[at]);
        if start.shards == self.mailboxes.len() {
            let namespaces = self.setup.config.namespaces.iter().zip(&self.setup.devices).zip(0..);
            let (mut copied, mut sets) = (0, 0);
            for ((_, devices), at) in namespaces.filter(|((of, _), _)| of.replication_factor > 1) {
                copied |= 1 << at;
                sets ^= devices.first().map_or(0, |(_, header)| header.set);
            }
            let devices = Devices { sets, lost: start.lost };
            let found = Found { recorded: start.recorded, devices, copied, full: start.full };
            drop(start);
            self.on_mode(self.pair.started(found));
        }
    }

    /// Has this node's mode recorded, if it is not.
    pub(super) fn record(&self) {
        if let Some((_, core)) = self.record_place()
            && self.pair.must_record()
        {
            self.mailboxes[core].push(Message::Record);
            self.mailboxes[core].wake();
        }
    }

    /// Tells clients and the log of this node's new mode, if it has one.
    pub(super) fn on_mode(&self, mode: Option<Mode>) {
        let Some(mode) = mode else { return };
        self.record();
        self.show_cluster();
        self.mailboxes.iter().for_each(Mailbox::wake);
        let other = self.other_node();
        let was_fresh = self.pair.was_fresh();
        let text = match mode {
            Mode::Starting | Mode::Handing | Mode::Deciding => return,
            Mode::Fresh => format!("has no records: waits for node {other}, which may have some"),
            Mode::Damaged | Mode::New | Mode::NewAhead | Mode::MaybeAhead => {
                format!("lacks records (damage, or a new device): waits for node {other}, which may have them")
            }
            Mode::Paired => format!("paired with node {other}: each node has all records"),
            Mode::Ahead if was_fresh => format!("begins without records, as node {other} does"),
            Mode::Behind if was_fresh => format!("has no records: gets those of node {other}"),
            Mode::Ahead => format!("answers all requests until node {other} is there and has all records"),
            Mode::Behind => {
                format!("passes all requests on to node {other}, and gets the records that it lacks")
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
