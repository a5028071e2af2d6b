//! Takeover between two nodes, and the way back: the mode of this node, and the partitions that it serves in this mode.
//!
//! ```text
//!          the other process is gone, or has restarted
//! Paired ----------------------------------------------> Ahead ----> Handing ----> Paired
//!                one of two nodes that start ----------->   the other node has all records
//!
//!          the other node is ahead   the other node is paired
//! Starting, Paired -------> Behind -------------------------> Paired
//! ```
//!
//! **No acknowledged write is lost.** While the nodes are paired, a master acknowledges a write only when the replica
//! has the record. So each node has all acknowledged writes. A node that is ahead refuses the other node's writes, so
//! the other node cannot acknowledge any, however late it learns of the takeover. Before a node acknowledges a write
//! without the other node, it records on its own device that it is ahead. With that record, the node is ahead after a
//! restart, too. Until the node acknowledges anything, the recorded mode is [`PairMode::AheadUnused`]: the other node
//! still has all records, and becomes ahead if this node's devices are damaged. Without a record of either mode, a
//! starting node serves no partition until it knows the mode of the other node.
//!
//! **Migration.** A node that is behind passes all requests on to the node that is ahead, and both compare their
//! records. The node that is ahead sends the records that differ (`cores::migration`) and, from the start of the
//! comparison on, each write. The number of a comparison is the number of mode changes of the node that is ahead. When
//! a message is lost or refused, the comparison begins again with the next number. After the comparison, new writes
//! wait (`Handing`) until no write is in flight. Then the node that was ahead records that it is paired, and tells the
//! other node. If either node dies before that, the node that was ahead is ahead again. A node also records that it is
//! behind, so that it does not take its own records for complete when both nodes start.
//!
//! **A restarted process** gets the other node's records, even if nothing was written meanwhile. Data that was only in
//! memory may be lost, and the node's device may have writes that nobody acknowledged. If both nodes restart, the
//! second gets the records of the first. A node without records gets those of the other node.
//!
//! **New devices** of a namespace look the same whether the namespace is new or a device was replaced. In the second
//! case the other node has the records. So the node serves no partition, and records its mode without that namespace
//! ([`PairMode::New`], [`PairMode::NewAhead`]). Each node tells the other in which namespaces it has no records. If the
//! other node has no records there either, this node lacks nothing because of new devices, and continues as if the
//! namespace did not exist. This information is valid while a node starts, because a starting node takes no records.
//!
//! **Damage** leaves older versions of records. The record of the mode is kept apart from them, twice on each device. A
//! node that was paired gets all records from the other node ([`PairMode::Damaged`]). A node that was ahead, or may
//! have been ([`PairMode::MaybeAhead`]), follows a node that is ahead, or gives its records to a node without records.
//! Otherwise both nodes wait, because no rule keeps every acknowledged write. A record that only this node has may be
//! newer or older than the state of the other node. A record that only the other node has may have been lost or deleted
//! here. The greater of two versions may be a write that nobody acknowledged.
//!
//! **Old copies.** Both nodes count their pairings, and record the number with the mode. A node whose devices were
//! restored from a copy has a smaller number than the other node: it gets the records of the other node, and never
//! passes its own on. Copies since the last pairing are not recognised.
//!
//! **A crash** before the mode is recorded hides neither new devices nor damage: the record of the mode identifies the
//! devices for which it was written.
//!
//! **Dead or silent.** A refused connection proves that the host answers and that the process is gone. Either node
//! takes over after all attempts were refused for [`REFUSED_NS`]. The second node does so only if the refusals began
//! within [`SILENCE_NS`] of the first node's last answer: later, the first node may have taken over before it died.
//! Silence may mean a network split or a stopped process, and the other node may still serve clients. Then one node
//! must not write, and both must know which one: the first node of the list takes over after [`SILENCE_NS`] of silence,
//! the second node never does. A refusal that does not come from the node's host defeats the proof: from a firewall,
//! through a forwarded port, or at an address that moved to another host.
//!
//! **Goodbye.** A node that ends in an orderly way, or because its drive fails, first answers its requests, then
//! reports [`PairMode::Leaving`]. From then on it acknowledges nothing, so the other node takes over at once.
//!
//! **Lease.** With `write-commit-level-override master`, an acknowledgement does not need the replica. Such a node
//! acknowledges writes until [`LEASE_NS`] after it sent the last message that the other node answered in mode `Paired`.
//! The node checks this at each acknowledgement, by its own monotonic clock. The first node takes over [`SILENCE_NS`]
//! after it received the last message: one second after any lease has ended. Clocks need not agree; they only have to
//! run at about the same speed.

mod mode;

use super::cluster::Cluster;
pub(super) use mode::{DeviceContents, ModeRecord, ModeVersion, PairMode};
use mode::{DeviceIdentity, is_earlier};
use std::cmp::Ordering as Order;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SECOND_NS: u64 = 1_000_000_000;

/// A link is down if its last answered message was sent more than this time ago, ns.
pub(super) const LEASE_NS: u64 = 2 * SECOND_NS;

/// The first node takes over if no message of the second node came for this long, ns.
pub(super) const SILENCE_NS: u64 = 3 * SECOND_NS;

/// Time for which all attempts to connect must have been refused before a takeover, ns.
const REFUSED_NS: u64 = SECOND_NS;

/// Maximum time between two checks, ns. After a longer time, this process was stopped, and silence proves nothing.
const STOPPED_NS: u64 = 2 * SECOND_NS;

/// Time between two pings of the other node, ns.
pub(super) const PING_NS: u64 = SECOND_NS / 5;

/// Value of `recorded_mode` if the mode on the device is unknown.
const UNRECORDED: u8 = u8::MAX;

#[derive(Debug, Default)]
struct PairState {
    /// Time of the other node's last message.
    last_report_ns: u64,
    checked_ns: u64,
    /// Number of the other node's process, and the mode that the other node reported last.
    process: Option<u64>,
    peer_mode_version: Option<ModeVersion>,
    /// Bits of the namespaces without records: at this node (0 once it takes records), and at the other node.
    empty_namespaces: [u32; 2],
    /// True if the previous mode was [`PairMode::Fresh`].
    was_fresh: bool,
    /// Cores of this node, and of the other node, that have compared all their records in `comparison`.
    compared_cores: [HashSet<usize>; 2],
    comparison: u16,
    other_cores: usize,
    /// Cores of this node without a pending write that the other node must get.
    drained_cores: HashSet<usize>,
    /// This node's devices, as found at its start.
    devices: DeviceIdentity,
    /// Number of times that the nodes were paired, according to this node and to the other node.
    pairings: [u64; 2],
    /// True if this node took over and has acknowledged nothing since.
    is_unused: bool,
}

impl PairState {
    /// First value: true if the other node also lacks records in each namespace where this node has none. Second value:
    /// the same with the nodes exchanged.
    fn covers(&self) -> [bool; 2] {
        let [own_empty, peer_empty] = self.empty_namespaces;
        [own_empty & !peer_empty == 0, peer_empty & !own_empty == 0]
    }

    /// `Less` if this node's devices hold an older state than the other node's devices.
    fn age(&self) -> Order {
        self.pairings[0].cmp(&self.pairings[1])
    }

    /// Number of the next pairing, the same on both nodes.
    fn next_pairing(&self) -> u64 {
        self.pairings[0].max(self.pairings[1]) + 1
    }
}

/// First message of a node on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    pub process: u64,
    pub mode_version: ModeVersion,
    /// Bits of the node's namespaces without records.
    pub empty_namespaces: u32,
    pub pairings: u64,
}

/// The state of this node, which all threads share.
#[derive(Debug, Default)]
pub(super) struct NodePair {
    /// True in a cluster of two nodes with second copies. False: the mode is always [`PairMode::Paired`].
    takes_over: bool,
    is_first: bool,
    cores: usize,
    /// Encoded mode of this node, with the number of mode changes. Changed only with `state` locked.
    mode_number: AtomicU16,
    takeover_changes: AtomicU16,
    /// Send time of the last message that the other node answered in mode `Paired`.
    answered_ns: AtomicU64,
    state: Mutex<PairState>,
    /// The mode that is on the device.
    recorded_mode: AtomicU8,
    is_recording: AtomicBool,
}

impl NodePair {
    /// `has_copies`: at least one namespace has two copies of each record.
    pub(super) fn new(cluster: &Cluster, has_copies: bool, cores: usize) -> Self {
        let takes_over = cluster.nodes().len() == 2 && has_copies;
        let mode = if takes_over {
            PairMode::Starting
        } else {
            PairMode::Paired
        };
        Self {
            takes_over,
            is_first: cluster.own_node().id == cluster.nodes()[0].id,
            cores,
            mode_number: AtomicU16::new(ModeVersion { mode, changes: 0 }.number()),
            recorded_mode: AtomicU8::new(UNRECORDED),
            ..Self::default()
        }
    }

    pub(super) fn takes_over(&self) -> bool {
        self.takes_over
    }

    fn lock_state(&self) -> MutexGuard<'_, PairState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn word(&self) -> ModeVersion {
        ModeVersion::from_number(self.mode_number.load(Ordering::SeqCst)).unwrap_or(ModeVersion {
            mode: PairMode::Starting,
            changes: 0,
        })
    }

    pub(super) fn mode(&self) -> PairMode {
        self.word().mode
    }

    /// The mode to report to the other node. `Ahead` only once recorded: otherwise a crash could leave no node ahead.
    /// `Behind` only once recorded: until then the node takes no records.
    pub(super) fn reported_mode(&self) -> ModeVersion {
        let mode_version = self.word();
        let is_sure =
            !matches!(mode_version.mode, PairMode::Ahead | PairMode::Behind) || self.is_recorded();
        ModeVersion {
            mode: if is_sure {
                mode_version.mode
            } else {
                PairMode::Deciding
            },
            ..mode_version
        }
    }

    pub(super) fn was_fresh(&self) -> bool {
        self.lock_state().was_fresh
    }

    fn set(&self, state: &mut MutexGuard<'_, PairState>, mode: PairMode) -> PairMode {
        let old_mode = self.mode();
        if old_mode != mode {
            state.was_fresh = old_mode == PairMode::Fresh;
        }
        state.empty_namespaces[0] = 0;
        state.is_unused = false;
        if mode == PairMode::Paired {
            state.pairings = [state.next_pairing(); 2];
        }
        self.mode_number
            .store(self.word().next(mode).number(), Ordering::SeqCst);
        if old_mode == PairMode::Paired && mode != PairMode::Leaving {
            self.takeover_changes
                .store(self.word().changes, Ordering::SeqCst);
        }
        state.compared_cores.iter_mut().for_each(HashSet::clear);
        state.drained_cores.clear();
        mode
    }

    /// True if a connection that was greeted at this number of mode changes is older than the last takeover by this
    /// node. Nobody has acknowledged the writes on such a connection.
    pub(super) fn is_past(&self, changes: u16) -> bool {
        is_earlier(changes, self.takeover_changes.load(Ordering::SeqCst))
    }

    /// Role for a partition: 0 master, 1 replica. `has_copies`: the namespace has two copies of each record.
    pub(super) fn role(
        &self,
        cluster: &Cluster,
        partition: u16,
        has_copies: bool,
    ) -> Option<usize> {
        match self.mode() {
            _ if !has_copies => cluster.has(partition, 0).then_some(0),
            PairMode::Paired => (0..2).find(|place| cluster.has(partition, *place)),
            PairMode::Ahead | PairMode::Handing => Some(0),
            _ => None,
        }
    }

    /// Sets the mode that follows from the contents of the devices, once all records are indexed.
    pub(super) fn started(&self, contents: DeviceContents) -> Option<PairMode> {
        if !self.takes_over {
            return None;
        }
        let mode = contents.mode();
        // A node that is behind stays behind, even with other devices, and has to tell the other node at once.
        let recorded = contents
            .recorded
            .filter(|of| of.devices == contents.devices || mode == Some(PairMode::Behind));
        self.recorded_mode.store(
            recorded.map_or(UNRECORDED, |of| of.mode as u8),
            Ordering::SeqCst,
        );
        let mut state = self.lock_state();
        (state.devices, state.pairings[0]) = (
            contents.devices,
            contents.recorded.map_or(0, |of| of.pairings),
        );
        let mode = mode.map(|mode| self.set(&mut state, mode));
        let is_unused = contents
            .recorded
            .is_some_and(|of| of.mode == PairMode::AheadUnused);
        state.is_unused = is_unused && mode == Some(PairMode::Ahead);
        let takes_none = !matches!(mode, Some(PairMode::Ahead | PairMode::Behind));
        state.empty_namespaces[0] = if takes_none { contents.empty() } else { 0 };
        mode
    }

    pub(super) fn greeting(&self, process: u64) -> Greeting {
        // The empty namespaces are valid only while the node starts, so they are read before the mode.
        let (empty_namespaces, pairings) = {
            let state = self.lock_state();
            (state.empty_namespaces[0], state.pairings[0])
        };
        Greeting {
            process,
            mode_version: self.reported_mode(),
            empty_namespaces,
            pairings,
        }
    }

    pub(super) fn pairings(&self) -> [u64; 2] {
        self.lock_state().pairings
    }

    /// True if the nodes would wait for each other for ever. `peer_mode`: the other node's mode.
    pub(super) fn is_stuck(&self, peer_mode: PairMode) -> bool {
        let (covers, age) = {
            let state = self.lock_state();
            (state.covers(), state.age())
        };
        self.mode().is_stuck(peer_mode, covers, age)
    }

    /// Handles the greeting of a process of the other node. Returns this node's new mode, if the mode changes.
    pub(super) fn on_greeting(&self, greeting: Greeting, now_ns: u64) -> Option<PairMode> {
        let Greeting {
            process,
            mode_version,
            empty_namespaces,
            pairings,
        } = greeting;
        let mut state = self.lock_state();
        let old_process = state.process.replace(process);
        let is_new = old_process.is_some_and(|before| before != process);
        if old_process != Some(process) {
            state.peer_mode_version = None;
            self.answered_ns.store(0, Ordering::SeqCst);
            state.compared_cores.iter_mut().for_each(HashSet::clear);
            state.pairings[1] = 0;
        }
        // The other node has already counted the pairing that this node is about to count.
        let is_next = self.mode() == PairMode::Behind && mode_version.mode == PairMode::Paired;
        state.pairings[1] = state.pairings[1].max(pairings.saturating_sub(is_next.into()));
        if is_new && matches!(self.mode(), PairMode::Ahead | PairMode::Handing) {
            let is_unused = state.is_unused && mode_version.mode == PairMode::Starting;
            self.set(&mut state, PairMode::Ahead);
            state.is_unused = is_unused;
        }
        state.empty_namespaces[1] = empty_namespaces;
        self.on_word(&mut state, mode_version, is_new, now_ns)
    }

    /// Handles the mode that a process of the other node reports. Returns this node's new mode, if the mode changes.
    pub(super) fn on_mode_reported(
        &self,
        process: u64,
        mode_version: ModeVersion,
        now_ns: u64,
    ) -> Option<PairMode> {
        let mut state = self.lock_state();
        match state.process {
            Some(known) if known == process => {
                self.on_word(&mut state, mode_version, false, now_ns)
            }
            _ => None,
        }
    }

    /// Handles an answer of a process of the other node to a message that was sent at `sent_ns`.
    pub(super) fn answered(&self, process: u64, mode_version: ModeVersion, sent_ns: u64) {
        if self.lock_state().process == Some(process) && mode_version.mode == PairMode::Paired {
            self.answered_ns.fetch_max(sent_ns, Ordering::SeqCst);
        }
    }

    /// True if the other node has certainly not taken over.
    pub(super) fn has_lease(&self, now_ns: u64) -> bool {
        !self.takes_over || now_ns < self.answered_ns.load(Ordering::SeqCst) + LEASE_NS
    }

    fn on_word(
        &self,
        state: &mut MutexGuard<'_, PairState>,
        mode_version: ModeVersion,
        is_new: bool,
        now_ns: u64,
    ) -> Option<PairMode> {
        state.last_report_ns = state.last_report_ns.max(now_ns);
        if !self.takes_over
            || state
                .peer_mode_version
                .is_some_and(|known| mode_version.is_before(known))
        {
            return None;
        }
        state.peer_mode_version = Some(mode_version);
        let mode = if state.is_unused {
            PairMode::AheadUnused
        } else {
            self.mode()
        };
        let new_mode = mode.next(
            mode_version.mode,
            self.is_first,
            is_new,
            state.covers(),
            state.age(),
        )?;
        // Two mode changes after the comparison, to `Handing` and to `Paired`: no other comparison was in between.
        let has_all = state.compared_cores[0].len() == self.cores
            && mode_version.changes == (state.comparison + 2) & 4095;
        if self.mode() == PairMode::Behind && !has_all {
            return None;
        }
        let is_unused = mode == PairMode::Paired && mode_version.mode == PairMode::Leaving;
        let new_mode = self.set(state, new_mode);
        state.is_unused = is_unused;
        Some(new_mode)
    }

    /// Takes over if the other node is gone. After a takeover, returns the time of the other node's last message.
    /// `refused_ns`: time since which all attempts to connect have been refused.
    pub(super) fn check_takeover(&self, now_ns: u64, refused_ns: Option<u64>) -> Option<u64> {
        let mut state = self.lock_state();
        if now_ns.saturating_sub(state.checked_ns) > STOPPED_NS {
            state.last_report_ns = state.last_report_ns.max(now_ns);
        }
        state.checked_ns = state.checked_ns.max(now_ns);
        let last_report_ns = state.last_report_ns;
        let is_silent = self.is_first && now_ns.saturating_sub(last_report_ns) > SILENCE_NS;
        // This node may read the other node's last message after the first refusal, so the later time counts.
        let is_dead = refused_ns.is_some_and(|since_ns| {
            // If the refusals began later, the first node may have taken over before it died.
            let is_known =
                self.is_first || since_ns < self.answered_ns.load(Ordering::SeqCst) + SILENCE_NS;
            is_known && now_ns >= since_ns.max(last_report_ns) + REFUSED_NS
        });
        if !self.takes_over || self.mode() != PairMode::Paired || !(is_silent || is_dead) {
            return None;
        }
        self.set(&mut state, PairMode::Ahead);
        state.is_unused = true;
        Some(last_report_ns)
    }

    /// Begins to acknowledge writes and linearizable reads without the other node, as soon as the mode is recorded.
    pub(super) fn begin_use(&self) {
        self.lock_state().is_unused = false;
    }

    /// True if the other node takes over when this node leaves.
    pub(super) fn may_leave(&self, now_ns: u64) -> bool {
        self.takes_over
            && match self.mode() {
                PairMode::Paired => self.has_lease(now_ns),
                mode => mode == PairMode::Behind,
            }
    }

    fn peer_mode(&self) -> Option<PairMode> {
        self.lock_state()
            .peer_mode_version
            .map(|version| version.mode)
    }

    /// True if the other node has all records but does not know this yet, so that it could not take over.
    pub(super) fn is_handing_back(&self) -> bool {
        self.mode() == PairMode::Paired && self.peer_mode() == Some(PairMode::Behind)
    }

    /// Leaves the partitions to the other node, before this node ends. Returns the new mode.
    pub(super) fn leave(&self) -> Option<PairMode> {
        let mut state = self.lock_state();
        let may_end = self.takes_over && matches!(self.mode(), PairMode::Paired | PairMode::Behind);
        may_end.then(|| self.set(&mut state, PairMode::Leaving))
    }

    /// False while this node is `Leaving` and the other node has neither taken over nor is leaving itself.
    pub(super) fn is_relieved(&self) -> bool {
        self.mode() != PairMode::Leaving
            || matches!(
                self.peer_mode(),
                Some(PairMode::Deciding | PairMode::Ahead | PairMode::Leaving)
            )
    }

    /// True if a write must wait: in `Ahead` until the mode is recorded, in `Handing` until the other node is paired.
    pub(super) fn must_wait(&self, mode_version: ModeVersion) -> bool {
        match mode_version.mode {
            PairMode::Handing => true,
            PairMode::Ahead => self.recorded_mode.load(Ordering::SeqCst) != PairMode::Ahead as u8,
            _ => false,
        }
    }

    pub(super) fn is_recorded(&self) -> bool {
        let recorded = self.recorded_mode.load(Ordering::SeqCst);
        let mode = self.mode();
        recorded == mode as u8 || mode == PairMode::Ahead && recorded == PairMode::AheadUnused as u8
    }

    /// The mode that has to be on the device.
    fn target_mode(&self) -> Option<PairMode> {
        match self.mode() {
            PairMode::Starting | PairMode::Fresh | PairMode::Leaving => None,
            PairMode::Handing => {
                (self.lock_state().drained_cores.len() == self.cores).then_some(PairMode::Paired)
            }
            PairMode::Ahead if self.lock_state().is_unused => Some(PairMode::AheadUnused),
            mode => Some(mode),
        }
    }

    pub(super) fn must_record(&self) -> bool {
        self.unrecorded().is_some()
    }

    /// The mode to record; `None` if the mode is on the device, or while a mode is being recorded.
    fn unrecorded(&self) -> Option<PairMode> {
        let may_begin = self.takes_over && !self.is_recording.load(Ordering::SeqCst);
        self.target_mode().filter(|target_mode| {
            may_begin && *target_mode as u8 != self.recorded_mode.load(Ordering::SeqCst)
        })
    }

    /// The mode that the calling core must record now. Until [`Self::end_record`], the mode on the device is unknown.
    pub(super) fn begin_record(&self) -> Option<PairMode> {
        let mode = self.unrecorded()?;
        self.recorded_mode.store(UNRECORDED, Ordering::SeqCst);
        self.is_recording.store(true, Ordering::SeqCst);
        Some(mode)
    }

    pub(super) fn record_of(&self, mode: PairMode) -> ModeRecord {
        let state = self.lock_state();
        let is_next = mode == PairMode::Paired && self.mode() == PairMode::Handing;
        let pairings = if is_next {
            state.next_pairing()
        } else {
            state.pairings[0]
        };
        ModeRecord {
            mode,
            devices: state.devices,
            pairings,
        }
    }

    /// Ends the recording. `mode`: the mode on the device; `None`: unknown. Returns this node's new mode, if changed.
    pub(super) fn end_record(&self, mode: Option<PairMode>) -> Option<PairMode> {
        let mut state = self.lock_state();
        self.recorded_mode
            .store(mode.map_or(UNRECORDED, |mode| mode as u8), Ordering::SeqCst);
        self.is_recording.store(false, Ordering::SeqCst);
        if self.mode() != PairMode::Handing || mode != Some(PairMode::Paired) {
            return None;
        }
        self.set(&mut state, PairMode::Paired);
        // The other node may have left in the meantime.
        let is_left = state
            .peer_mode_version
            .is_some_and(|of| of.mode == PairMode::Leaving);
        Some(if is_left {
            self.set(&mut state, PairMode::Ahead)
        } else {
            PairMode::Paired
        })
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::server) struct RecordComparison {
    /// Number of mode changes of the node that is ahead.
    pub(in crate::server) changes: u16,
    process: u64,
    /// True at the node that is ahead.
    pub(in crate::server) is_sender: bool,
}

impl NodePair {
    pub(in crate::server) fn comparison(&self) -> Option<RecordComparison> {
        let own_version = self.word();
        if !matches!(own_version.mode, PairMode::Ahead | PairMode::Behind) {
            return None;
        }
        let (process, peer_version) = {
            let state = self.lock_state();
            (state.process?, state.peer_mode_version?)
        };
        match (own_version.mode, peer_version.mode) {
            (PairMode::Ahead, PairMode::Behind) => Some(RecordComparison {
                changes: own_version.changes,
                process,
                is_sender: true,
            }),
            (PairMode::Behind, PairMode::Ahead) if self.is_recorded() => Some(RecordComparison {
                changes: peer_version.changes,
                process,
                is_sender: false,
            }),
            _ => None,
        }
    }

    /// True while one of the nodes lacks records.
    pub(in crate::server) fn migrates(&self) -> bool {
        matches!(self.mode(), PairMode::Behind | PairMode::Handing) || self.comparison().is_some()
    }

    /// Begins the comparison again, because the other node may lack a write.
    pub(in crate::server) fn compare_again(&self) {
        let mut state = self.lock_state();
        if matches!(self.mode(), PairMode::Ahead | PairMode::Handing) {
            self.set(&mut state, PairMode::Ahead);
        }
    }

    /// Notes that a core of this node has compared all its records.
    pub(in crate::server) fn compared(
        &self,
        comparison: RecordComparison,
        core: usize,
    ) -> Option<PairMode> {
        if comparison.is_sender {
            return self.on_compared(0, comparison.changes, core, self.cores);
        }
        let mut state = self.lock_state();
        if state.process != Some(comparison.process) {
            return None;
        }
        if std::mem::replace(&mut state.comparison, comparison.changes) != comparison.changes {
            state.compared_cores[0].clear();
        }
        state.compared_cores[0].insert(core);
        None
    }

    /// Notes that a core of the other node, one of `cores`, has compared all its records.
    pub(in crate::server) fn other_compared(
        &self,
        changes: u16,
        core: usize,
        cores: usize,
    ) -> Option<PairMode> {
        self.on_compared(1, changes, core, cores)
    }

    fn on_compared(
        &self,
        node_index: usize,
        changes: u16,
        core: usize,
        cores: usize,
    ) -> Option<PairMode> {
        let mut state = self.lock_state();
        if self.word()
            != (ModeVersion {
                mode: PairMode::Ahead,
                changes,
            })
        {
            return None;
        }
        state.compared_cores[node_index].insert(core);
        if node_index == 1 {
            state.other_cores = cores;
        }
        let is_over = state.compared_cores[0].len() == self.cores
            && state.compared_cores[1].len() == state.other_cores;
        (is_over && state.other_cores > 0).then(|| self.set(&mut state, PairMode::Handing))
    }

    /// Notes that a core has no pending write left that the other node must get. `changes`: this node's mode changes.
    pub(in crate::server) fn drained(&self, changes: u16, core: usize) {
        let mut state = self.lock_state();
        if self.word()
            == (ModeVersion {
                mode: PairMode::Handing,
                changes,
            })
        {
            state.drained_cores.insert(core);
        }
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
