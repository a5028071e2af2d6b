//! Takeover between two nodes, and the way back: the mode of this node, and the partitions for which it answers in that
//! mode.
//!
//! ```text
//!          the other's process is gone, or begins anew
//! Paired ----------------------------------------------> Ahead ----> Handing ----> Paired
//!                          one of two that start -------->      the other has all
//!
//!            the other is ahead         the other is paired
//! Starting, Paired -------> Behind -------------------------> Paired
//! ```
//!
//! **No acknowledged write is lost.** While the nodes are paired, a master acknowledges a write when its replica has
//! it: each node has all acknowledged writes. A node that is ahead refuses the other node's writes, so the other cannot
//! acknowledge any, however late it learns of the takeover. Before a node acknowledges a write without the other, it
//! records on its own device that it is ahead. With that record it is ahead after a restart, too. Without the record a
//! starting node answers for nothing until the other has said its mode.
//!
//! **Migration.** A node that is behind passes all requests on to the node that is ahead, and compares records with it.
//! The node that is ahead sends the records that differ (`shard::migration`) and, from the begin of the comparison on,
//! each write. The number of a comparison is the number of mode changes of the node that is ahead. When a message is
//! lost or refused, the comparison begins again under the next number. After the comparison, new writes wait
//! (`Handing`) until none is in flight. Then the node that was ahead records that it no longer is, and tells the other.
//! If either dies before that, the one that was ahead is ahead again. A node that is behind records that, too: when
//! both start, neither takes its records for complete.
//!
//! **A process that begins** gets the other's records, even if nothing was written meanwhile: it may lack what it had
//! only in memory, and may have writes that nobody acknowledged. If both begin, the second gets the records of the
//! first. A node without records gets those of the other.
//!
//! **New devices** of a namespace look the same whether the namespace is new or a device was replaced: the other node
//! may have its records. So the node answers for nothing, and records its mode apart from that namespace
//! ([`Mode::New`], [`Mode::NewAhead`]). Each node tells in which namespaces it has no records. If the other node has no
//! records there either, this node lacks nothing because of new devices, and continues as if it had no such namespace.
//! What a node tells of that is valid while it starts, because it takes no records then.
//!
//! **Damage** leaves older versions of records, and of the record of the mode if that was in the damaged store. A node
//! that was paired gets all records from the other ([`Mode::Damaged`]). A node that was ahead, or may have been
//! ([`Mode::MaybeAhead`]), follows another that is ahead, or gives its records to one without records. Otherwise both
//! wait, because no rule keeps each acknowledged write: a record that is only here may be newer than the other node's
//! state, or older; a record that is only there was lost here, or deleted; and the greater of two versions may be one
//! that nobody acknowledged.
//!
//! **A crash** before the mode is recorded hides neither: the record names the devices for which it was written
//! ([`Recorded`]).
//!
//! **Dead or silent.** A refused connection proves that the host answers and the process is gone. Either node takes
//! over after [`REFUSED_NS`] in which all attempts were refused. The second does so only if the refusals began within
//! [`SILENCE_NS`] of the first's last answer: later, the first may have taken over before it died. Silence may be a
//! network split or a stopped process, and the other may still serve clients. Then one node must not write, and both
//! must know which: the first node of the list takes over after [`SILENCE_NS`], the second never. A reset by anything
//! but the node's host defeats the proof: a firewall that rejects, a forwarded port, an address that moved to another
//! host.
//!
//! **Lease.** With `write-commit-level-override master` an acknowledgement does not need the replica. Such a node
//! acknowledges until [`LEASE_NS`] after it sent the last message that the other answered as one of a pair. It checks
//! that by its own monotonic clock at each acknowledgement. The first node takes over [`SILENCE_NS`] after it received
//! the last message: one second after any lease ends. Clocks need not agree, only run at about the same speed.

mod mode;

use super::cluster::Cluster;
use super::state::lock;
use crate::{Digest, digest};
use mode::is_earlier;
pub(super) use mode::{Devices, Found, Mode, Recorded, Word};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

const SECOND_NS: u64 = 1_000_000_000;

/// A link is down if its last answered message was sent longer ago than this.
pub(super) const LEASE_NS: u64 = 2 * SECOND_NS;

/// The first node takes over when no message of the second has come for this long.
pub(super) const SILENCE_NS: u64 = 3 * SECOND_NS;

/// Time in which all attempts to connect must have been refused.
const REFUSED_NS: u64 = SECOND_NS;

/// If two checks are further apart, this process was stopped: the silence in between says nothing about the other node.
const STOPPED_NS: u64 = 2 * SECOND_NS;

/// Time between two messages that ask the other node for an answer.
pub(super) const PING_NS: u64 = SECOND_NS / 5;

/// Set, key and bin of the record with this node's mode, which no client writes.
pub(super) const RECORD_SET: &[u8] = b"<flashproof";
const RECORD_KEY: &[u8] = b"ahead";
pub(super) const RECORD_BIN: &[u8] = b"mode";

/// No mode is on the device for certain.
const UNRECORDED: u8 = u8::MAX;

pub(super) fn record_digest() -> Digest {
    digest(RECORD_SET, 0, RECORD_KEY)
}

#[derive(Debug, Default)]
struct Words {
    /// When the last message of the other node came.
    word_ns: u64,
    looked_ns: u64,
    /// Number of the other node's process, and its last word.
    process: Option<u64>,
    word: Option<Word>,
    /// Namespaces without records, a bit each: at this node, 0 once it takes records, and at the other.
    empty: [u32; 2],
    /// The mode before was [`Mode::Fresh`].
    was_fresh: bool,
    /// Cores of this node, and of the other, that have compared all their records in `comparison`.
    compared: [HashSet<usize>; 2],
    comparison: u16,
    /// Cores of the other node.
    other_cores: usize,
    /// Cores of this node without a pending write that the other must have.
    drained: HashSet<usize>,
    /// This node's devices, as found at its start.
    devices: Devices,
}

impl Words {
    /// First: true if the other node has no records in any namespace where this node has none. Second: the reverse.
    fn covers(&self) -> [bool; 2] {
        let [own, other] = self.empty;
        [own & !other == 0, other & !own == 0]
    }
}

/// The state of this node, which all threads share.
#[derive(Debug)]
pub(super) struct Pair {
    /// False in a cluster without a second copy of every record: then the mode is always [`Mode::Paired`].
    takes_over: bool,
    is_first: bool,
    cores: usize,
    /// [`Word::number`] of this node. Changed only with `words` locked.
    word: AtomicU16,
    /// Number of mode changes when this node took over last.
    since: AtomicU16,
    /// Send time of the last message that the other node has answered as one of a pair.
    answered_ns: AtomicU64,
    words: Mutex<Words>,
    /// The mode that is on the device.
    recorded: AtomicU8,
    is_recording: AtomicBool,
}

impl Pair {
    /// `has_copies`: a namespace has two copies of each record.
    pub(super) fn new(cluster: &Cluster, has_copies: bool, cores: usize) -> Self {
        let takes_over = cluster.nodes().len() == 2 && has_copies;
        let mode = if takes_over { Mode::Starting } else { Mode::Paired };
        Self {
            takes_over,
            is_first: cluster.own().id == cluster.nodes()[0].id,
            cores,
            word: AtomicU16::new(Word { mode, changes: 0 }.number()),
            since: AtomicU16::new(0),
            answered_ns: AtomicU64::new(0),
            words: Mutex::default(),
            recorded: AtomicU8::new(UNRECORDED),
            is_recording: AtomicBool::new(false),
        }
    }

    pub(super) fn takes_over(&self) -> bool {
        self.takes_over
    }

    pub(super) fn word(&self) -> Word {
        Word::of(self.word.load(Ordering::SeqCst)).unwrap_or(Word { mode: Mode::Starting, changes: 0 })
    }

    pub(super) fn mode(&self) -> Mode {
        self.word().mode
    }

    /// The word for the other node. The other is told that this node is ahead only once that is recorded: otherwise a
    /// crash would leave neither with all records. A node that is behind takes no records before that is recorded.
    pub(super) fn told(&self) -> Word {
        let word = self.word();
        let is_sure = !matches!(word.mode, Mode::Ahead | Mode::Behind) || self.is_recorded();
        Word { mode: if is_sure { word.mode } else { Mode::Deciding }, ..word }
    }

    /// True if the mode before was [`Mode::Fresh`].
    pub(super) fn was_fresh(&self) -> bool {
        lock(&self.words).was_fresh
    }

    fn set(&self, words: &mut MutexGuard<'_, Words>, mode: Mode) -> Mode {
        let before = self.mode();
        if before != mode {
            words.was_fresh = before == Mode::Fresh;
        }
        words.empty[0] = 0;
        self.word.store(self.word().next(mode).number(), Ordering::SeqCst);
        if before == Mode::Paired {
            self.since.store(self.word().changes, Ordering::SeqCst);
        }
        words.compared.iter_mut().for_each(HashSet::clear);
        words.drained.clear();
        mode
    }

    /// True if a connection of the other node that was greeted at this number of changes is from before this node took
    /// over: it brings writes that nobody acknowledged.
    pub(super) fn is_past(&self, changes: u16) -> bool {
        is_earlier(changes, self.since.load(Ordering::SeqCst))
    }

    /// The place of this node for a partition: 0 master, 1 replica. `copies`: the namespace has two of each record.
    pub(super) fn place(&self, cluster: &Cluster, partition: u16, copies: bool) -> Option<usize> {
        match self.mode() {
            _ if !copies => cluster.has(partition, 0).then_some(0),
            Mode::Paired => (0..2).find(|place| cluster.has(partition, *place)),
            Mode::Ahead | Mode::Handing => Some(0),
            _ => None,
        }
    }

    /// Sets the mode that follows from what was found, once all records are indexed.
    pub(super) fn started(&self, found: Found) -> Option<Mode> {
        if !self.takes_over {
            return None;
        }
        let mode = found.mode();
        // A node that is behind is behind with any devices, and has to tell it at once.
        let recorded = found.recorded.filter(|of| of.devices == found.devices || mode == Some(Mode::Behind));
        self.recorded.store(recorded.map_or(UNRECORDED, |of| of.mode as u8), Ordering::SeqCst);
        let mut words = lock(&self.words);
        words.devices = found.devices;
        let mode = mode.map(|mode| self.set(&mut words, mode));
        let takes_none = !matches!(mode, Some(Mode::Ahead | Mode::Behind));
        words.empty[0] = if takes_none { found.empty() } else { 0 };
        mode
    }

    /// Namespaces without records on this node, for the other node.
    pub(super) fn empty(&self) -> u32 {
        lock(&self.words).empty[0]
    }

    /// True if the nodes wait for each other for ever. `other`: the other node's mode.
    pub(super) fn is_stuck(&self, other: Mode) -> bool {
        let covers = lock(&self.words).covers();
        self.mode().is_stuck(other, covers)
    }

    /// A process of the other node has begun a connection; `empty` are its namespaces without records. Returns this
    /// node's mode, if that changes.
    pub(super) fn greeted(&self, process: u64, word: Word, empty: u32, now_ns: u64) -> Option<Mode> {
        let mut words = lock(&self.words);
        let before = words.process.replace(process);
        let is_new = before.is_some_and(|before| before != process);
        if before != Some(process) {
            words.word = None;
            self.answered_ns.store(0, Ordering::SeqCst);
            words.compared.iter_mut().for_each(HashSet::clear);
        }
        if is_new && matches!(self.mode(), Mode::Ahead | Mode::Handing) {
            self.set(&mut words, Mode::Ahead);
        }
        words.empty[1] = empty;
        self.on_word(&mut words, word, is_new, now_ns)
    }

    /// The process of this number at the other node has said its mode. Returns this node's, if that changes.
    pub(super) fn heard(&self, process: u64, word: Word, now_ns: u64) -> Option<Mode> {
        let mut words = lock(&self.words);
        match words.process {
            Some(known) if known == process => self.on_word(&mut words, word, false, now_ns),
            _ => None,
        }
    }

    /// The process of this number at the other node has answered a message that was sent at `sent_ns`.
    pub(super) fn answered(&self, process: u64, word: Word, sent_ns: u64) {
        if lock(&self.words).process == Some(process) && word.mode == Mode::Paired {
            self.answered_ns.fetch_max(sent_ns, Ordering::SeqCst);
        }
    }

    /// True if the other node has certainly not taken over.
    pub(super) fn has_lease(&self, now_ns: u64) -> bool {
        !self.takes_over || now_ns < self.answered_ns.load(Ordering::SeqCst) + LEASE_NS
    }

    fn on_word(&self, words: &mut MutexGuard<'_, Words>, word: Word, is_new: bool, now_ns: u64) -> Option<Mode> {
        words.word_ns = words.word_ns.max(now_ns);
        if !self.takes_over || words.word.is_some_and(|known| word.is_before(known)) {
            return None;
        }
        words.word = Some(word);
        let new = self.mode().next(word.mode, self.is_first, is_new, words.covers())?;
        // Two changes after the comparison: from ahead to handing to paired, without another comparison in between.
        let has_all = words.compared[0].len() == self.cores && word.changes == (words.comparison + 2) & 4095;
        if self.mode() == Mode::Behind && !has_all {
            return None;
        }
        Some(self.set(words, new))
    }

    /// Takes over if the other node is gone, and returns the time of its last message. `refused_ns`: since when all
    /// attempts to connect have been refused.
    pub(super) fn look(&self, now_ns: u64, refused_ns: Option<u64>) -> Option<u64> {
        let mut words = lock(&self.words);
        if now_ns.saturating_sub(words.looked_ns) > STOPPED_NS {
            words.word_ns = words.word_ns.max(now_ns);
        }
        words.looked_ns = words.looked_ns.max(now_ns);
        let word_ns = words.word_ns;
        let is_silent = self.is_first && now_ns.saturating_sub(word_ns) > SILENCE_NS;
        // The other node's last message may be read only after the first refusal.
        let is_dead = refused_ns.is_some_and(|since_ns| {
            // Later the first node may have taken over before it died.
            let is_known = self.is_first || since_ns < self.answered_ns.load(Ordering::SeqCst) + SILENCE_NS;
            is_known && now_ns >= since_ns.max(word_ns) + REFUSED_NS
        });
        if !self.takes_over || self.mode() != Mode::Paired || !(is_silent || is_dead) {
            return None;
        }
        self.set(&mut words, Mode::Ahead);
        Some(word_ns)
    }

    /// True if a write must wait at a node with this word: until the node has recorded that it is ahead, or until the
    /// other node has its partitions back.
    pub(super) fn must_wait(&self, word: Word) -> bool {
        match word.mode {
            Mode::Handing => true,
            Mode::Ahead => self.recorded.load(Ordering::SeqCst) != Mode::Ahead as u8,
            _ => false,
        }
    }

    /// True if the current mode is on the device.
    pub(super) fn is_recorded(&self) -> bool {
        self.recorded.load(Ordering::SeqCst) == self.mode() as u8
    }

    /// The mode that has to be recorded.
    fn wanted(&self) -> Option<Mode> {
        match self.mode() {
            Mode::Starting | Mode::Fresh => None,
            Mode::Handing => (lock(&self.words).drained.len() == self.cores).then_some(Mode::Paired),
            mode => Some(mode),
        }
    }

    /// True if a mode is to be recorded.
    pub(super) fn must_record(&self) -> bool {
        self.unrecorded().is_some()
    }

    /// The mode that is not on the device and is not being recorded.
    fn unrecorded(&self) -> Option<Mode> {
        let begins = self.takes_over && !self.is_recording.load(Ordering::SeqCst);
        self.wanted().filter(|wanted| begins && *wanted as u8 != self.recorded.load(Ordering::SeqCst))
    }

    /// The mode to record now, by one core. From here until [`Self::end_record`], no mode is on the device for certain.
    pub(super) fn begin_record(&self) -> Option<Mode> {
        let wanted = self.unrecorded()?;
        self.recorded.store(UNRECORDED, Ordering::SeqCst);
        self.is_recording.store(true, Ordering::SeqCst);
        Some(wanted)
    }

    /// The record of a mode.
    pub(super) fn record_of(&self, mode: Mode) -> Recorded {
        Recorded { mode, devices: lock(&self.words).devices }
    }

    /// Recording has ended: `mode` is on the device; `None`: perhaps no mode. Returns this node's mode, if that
    /// changes.
    pub(super) fn end_record(&self, mode: Option<Mode>) -> Option<Mode> {
        let mut words = lock(&self.words);
        self.recorded.store(mode.map_or(UNRECORDED, |mode| mode as u8), Ordering::SeqCst);
        self.is_recording.store(false, Ordering::SeqCst);
        let is_over = self.mode() == Mode::Handing && mode == Some(Mode::Paired);
        is_over.then(|| self.set(&mut words, Mode::Paired))
    }
}

/// A comparison of all records with the other node's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::server) struct Comparison {
    /// Number of mode changes of the node that is ahead.
    pub(in crate::server) number: u16,
    /// Number of the other node's process.
    process: u64,
    /// True at the node that is ahead.
    pub(in crate::server) sends: bool,
}

impl Pair {
    /// The comparison that this node takes part in.
    pub(in crate::server) fn comparison(&self) -> Option<Comparison> {
        let own = self.word();
        if !matches!(own.mode, Mode::Ahead | Mode::Behind) {
            return None;
        }
        let (process, other) = {
            let words = lock(&self.words);
            (words.process?, words.word?)
        };
        match (own.mode, other.mode) {
            (Mode::Ahead, Mode::Behind) => Some(Comparison { number: own.changes, process, sends: true }),
            (Mode::Behind, Mode::Ahead) if self.is_recorded() => {
                Some(Comparison { number: other.changes, process, sends: false })
            }
            _ => None,
        }
    }

    /// True while the other node lacks records, or this one does.
    pub(in crate::server) fn migrates(&self) -> bool {
        matches!(self.mode(), Mode::Behind | Mode::Handing) || self.comparison().is_some()
    }

    /// Begins the comparison again: the other node may lack a write.
    pub(in crate::server) fn compare_again(&self) {
        let mut words = lock(&self.words);
        if matches!(self.mode(), Mode::Ahead | Mode::Handing) {
            self.set(&mut words, Mode::Ahead);
        }
    }

    /// A core of this node has compared all its records.
    pub(in crate::server) fn compared(&self, of: Comparison, core: usize) -> Option<Mode> {
        if of.sends {
            return self.on_compared(0, of.number, core, self.cores);
        }
        let mut words = lock(&self.words);
        if words.process != Some(of.process) {
            return None;
        }
        if std::mem::replace(&mut words.comparison, of.number) != of.number {
            words.compared[0].clear();
        }
        words.compared[0].insert(core);
        None
    }

    /// A core of the other node, one of `cores`, has compared all its records.
    pub(in crate::server) fn other_compared(&self, number: u16, core: usize, cores: usize) -> Option<Mode> {
        self.on_compared(1, number, core, cores)
    }

    fn on_compared(&self, side: usize, number: u16, core: usize, cores: usize) -> Option<Mode> {
        let mut words = lock(&self.words);
        if self.word() != (Word { mode: Mode::Ahead, changes: number }) {
            return None;
        }
        words.compared[side].insert(core);
        if side == 1 {
            words.other_cores = cores;
        }
        let is_over = words.compared[0].len() == self.cores && words.compared[1].len() == words.other_cores;
        (is_over && words.other_cores > 0).then(|| self.set(&mut words, Mode::Handing))
    }

    /// A core of this node has no pending write left that the other must have. `number`: this node's mode changes.
    pub(in crate::server) fn drained(&self, number: u16, core: usize) {
        let mut words = lock(&self.words);
        if self.word() == (Word { mode: Mode::Handing, changes: number }) {
            words.drained.insert(core);
        }
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
