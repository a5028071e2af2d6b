//! Takeover between two nodes: the mode of this node, and the partitions for which it answers in that mode.
//!
//! ```text
//!            the other is there              it is gone                 first write without it
//! Starting ---------------------> Paired <----------------> Alone -----------------------------> Ahead
//!     \                             |      it is back, lacks nothing,                           (recorded)
//!      \  the other is Ahead        |      and nothing was written
//!       `---------------------------+----------------------------------> Behind: passes all requests on
//! ```
//!
//! **No acknowledged write is lost.** While the nodes are paired, a master acknowledges a write when its replica has
//! it: each node has all acknowledged writes. A node that is ahead refuses the other node's writes, so the other
//! cannot acknowledge any, however late it learns of the takeover. Before a node acknowledges its first write without
//! the other, it records on its own device that it is ahead; with that record it is ahead after a restart too. Without
//! it a starting node answers for nothing until the other says that it is not ahead. Records are not copied between
//! nodes: a node that is behind stays behind.
//!
//! **A killed process** lacks what it had in memory only, unless all is committed to the device. So a node is ahead at
//! once if the other was killed, or starts again and did not end in order.
//!
//! **Dead or silent.** A refused connection proves that the host answers and the process is gone: either node takes
//! over after [`REFUSED_NS`] of refusals and nothing else. Silence may be a split or a stopped process, and the other
//! may still serve clients. Then one node must not write, and both must know which: the first node of the list takes
//! over after [`SILENCE_NS`], the second never. A reset by something else than the node's host defeats the proof: a
//! firewall that rejects, a forwarded port, an address that moved to another host.
//!
//! **Lease.** With `write-commit-level-override master` an acknowledgement does not need the replica. Such a node
//! acknowledges for [`LEASE_NS`] from when it sent the last message that the other answered, by its own monotonic
//! clock, looked at when it acknowledges. The first node takes over [`SILENCE_NS`] after it received the last message:
//! a second later than any lease ends. Clocks need not agree, only run at about the same speed.

use super::cluster::Cluster;
use super::state::lock;
use crate::{Digest, digest};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard};

const SECOND_NS: u64 = 1_000_000_000;

/// A link whose last answered message was sent longer ago is down.
pub(super) const LEASE_NS: u64 = 2 * SECOND_NS;

/// The first node takes over when the second has said nothing for this long.
pub(super) const SILENCE_NS: u64 = 3 * SECOND_NS;

/// Time in which all attempts to connect must have been refused.
const REFUSED_NS: u64 = SECOND_NS;

/// Two looks further apart: this process was stopped, so the silence in between says nothing about the other node.
const STOPPED_NS: u64 = 2 * SECOND_NS;

/// Time between two messages that ask the other node for an answer.
pub(super) const PING_NS: u64 = SECOND_NS / 5;

/// Set and key of the record that says that this node is ahead.
pub(super) const RECORD_SET: &[u8] = b"<flashproof";
pub(super) const RECORD_KEY: &[u8] = b"ahead";

/// Digest of the record that says that this node is ahead.
pub(super) fn record_digest() -> Digest {
    digest(RECORD_SET, 0, RECORD_KEY)
}

/// State of a node towards the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mode {
    /// Answers for nothing: the other node may be ahead.
    Starting,
    /// Each node has all records, and answers for its partitions.
    Paired,
    /// Answers for all partitions; nothing was written yet without the other node.
    Alone,
    /// Answers for all partitions, with writes that the other node does not have.
    Ahead,
    /// Lacks writes of the other node: answers for nothing.
    Behind,
}

impl Mode {
    pub(super) fn of(number: u8) -> Option<Self> {
        [Self::Starting, Self::Paired, Self::Alone, Self::Ahead, Self::Behind].get(usize::from(number)).copied()
    }
}

#[derive(Debug, Default)]
struct Words {
    /// When the other node said something last.
    word_ns: u64,
    looked_ns: u64,
    /// Number of the other node's process.
    process: Option<u64>,
    /// Cores of that process that have written all to the device and ended.
    ended_cores: u64,
    /// True if all have.
    has_ended: bool,
}

/// The state of this node, which all threads share.
#[derive(Debug)]
pub(super) struct Pair {
    /// False in a cluster without a second copy of every record: then the mode is always [`Mode::Paired`].
    takes_over: bool,
    is_first: bool,
    /// True if a node that is killed lacks nothing that it acknowledged.
    is_durable: bool,
    /// Changed only with `words` locked.
    mode: AtomicU8,
    words: Mutex<Words>,
    is_recorded: AtomicBool,
    is_recording: AtomicBool,
}

impl Pair {
    /// `has_copies`: a namespace has two copies of each record. `is_durable`: all such namespaces commit to the device.
    pub(super) fn new(cluster: &Cluster, has_copies: bool, is_durable: bool) -> Self {
        let takes_over = cluster.nodes().len() == 2 && has_copies;
        let mode = if takes_over { Mode::Starting } else { Mode::Paired };
        Self {
            takes_over,
            is_first: cluster.own().id == cluster.nodes()[0].id,
            is_durable,
            mode: AtomicU8::new(mode as u8),
            words: Mutex::default(),
            is_recorded: AtomicBool::new(false),
            is_recording: AtomicBool::new(false),
        }
    }

    pub(super) fn takes_over(&self) -> bool {
        self.takes_over
    }

    pub(super) fn mode(&self) -> Mode {
        Mode::of(self.mode.load(Ordering::SeqCst)).unwrap_or(Mode::Starting)
    }

    fn set(&self, _: &MutexGuard<'_, Words>, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    /// The place of this node for a partition: 0 master, 1 replica. `copies`: the namespace has two of each record.
    pub(super) fn place(&self, cluster: &Cluster, partition: u16, copies: bool) -> Option<usize> {
        match self.mode() {
            _ if !copies => cluster.has(partition, 0).then_some(0),
            Mode::Paired => (0..2).find(|place| cluster.has(partition, *place)),
            Mode::Alone | Mode::Ahead => Some(0),
            Mode::Starting | Mode::Behind => None,
        }
    }

    /// A process of the other node has begun a connection. Returns this node's mode, if that changes.
    pub(super) fn greeted(&self, process: u64, other: Mode, now_ns: u64) -> Option<Mode> {
        let mut words = lock(&self.words);
        let before = words.process.replace(process);
        if before == Some(process) {
            return self.on_word(&mut words, other, now_ns);
        }
        let has_ended = std::mem::take(&mut words.has_ended);
        words.ended_cores = 0;
        let lacks_records = before.is_some() && !has_ended && !self.is_durable;
        if self.takes_over && lacks_records && other == Mode::Starting && self.mode() != Mode::Starting {
            let is_new = matches!(self.mode(), Mode::Paired | Mode::Alone);
            words.word_ns = words.word_ns.max(now_ns);
            return is_new.then(|| {
                self.set(&words, Mode::Ahead);
                Mode::Ahead
            });
        }
        self.on_word(&mut words, other, now_ns)
    }

    /// A core of the other node has written all that it acknowledged to the device, and ends; it is one of `cores`.
    pub(super) fn core_ended(&self, cores: u64) {
        let mut words = lock(&self.words);
        words.ended_cores += 1;
        words.has_ended = words.ended_cores >= cores;
    }

    /// The other node has said its mode. Returns this node's, if that changes.
    pub(super) fn heard(&self, other: Mode, now_ns: u64) -> Option<Mode> {
        self.on_word(&mut lock(&self.words), other, now_ns)
    }

    fn on_word(&self, words: &mut MutexGuard<'_, Words>, other: Mode, now_ns: u64) -> Option<Mode> {
        words.word_ns = words.word_ns.max(now_ns);
        let new = match (self.mode(), other) {
            _ if !self.takes_over => return None,
            (Mode::Starting | Mode::Paired | Mode::Alone, Mode::Ahead) => Mode::Behind,
            // Until it has heard of this node, it may go ahead at any moment.
            (Mode::Starting, Mode::Starting | Mode::Paired) => Mode::Paired,
            (Mode::Alone, Mode::Starting | Mode::Paired | Mode::Alone) => Mode::Paired,
            _ => return None,
        };
        self.set(words, new);
        Some(new)
    }

    /// Takes over if the other node is gone, and returns the time of its last word. `refused_ns`: since when all
    /// attempts to connect have been refused.
    pub(super) fn look(&self, now_ns: u64, refused_ns: Option<u64>) -> Option<u64> {
        let mut words = lock(&self.words);
        if now_ns.saturating_sub(words.looked_ns) > STOPPED_NS {
            words.word_ns = words.word_ns.max(now_ns);
        }
        words.looked_ns = words.looked_ns.max(now_ns);
        let word_ns = words.word_ns;
        let is_silent = self.is_first && now_ns.saturating_sub(word_ns) > SILENCE_NS;
        // A last word may be read only after the first refusal.
        let is_dead = refused_ns.is_some_and(|since_ns| now_ns >= since_ns.max(word_ns) + REFUSED_NS);
        if !self.takes_over || self.mode() != Mode::Paired || !(is_silent || is_dead) {
            return None;
        }
        // A process that was killed lacks what it had in memory only, whether anything is written from now on or not.
        let is_killed = is_dead && !words.has_ended && !self.is_durable;
        self.set(&words, if is_killed { Mode::Ahead } else { Mode::Alone });
        Some(word_ns)
    }

    /// True if a write must wait until it is recorded that this node is ahead. From here on it is.
    pub(super) fn must_record(&self) -> bool {
        if self.mode() == Mode::Alone {
            let words = lock(&self.words);
            if self.mode() == Mode::Alone {
                self.set(&words, Mode::Ahead);
            }
        }
        self.mode() == Mode::Ahead && !self.is_recorded()
    }

    /// True for the first that asks: it has the record written.
    pub(super) fn begins_record(&self) -> bool {
        !self.is_recorded() && !self.is_recording.swap(true, Ordering::SeqCst)
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.is_recorded.load(Ordering::SeqCst)
    }

    /// The record is on its way to the device, or was refused; then the next write tries again.
    pub(super) fn end_record(&self, is_recorded: bool) {
        self.is_recorded.store(is_recorded, Ordering::SeqCst);
        self.is_recording.store(false, Ordering::SeqCst);
    }

    /// The record was found at the start.
    pub(super) fn found_record(&self) {
        self.set(&lock(&self.words), Mode::Ahead);
        self.end_record(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Node;

    const S: u64 = SECOND_NS;

    fn pair(own: usize) -> Pair {
        let nodes = [3000, 3001].map(|port| Node::new("127.0.0.1", port)).to_vec();
        Pair::new(&Cluster::new(nodes, own), true, false)
    }

    /// Looks every 100 ms from `from_ns` on; when it takes over, if that is within a minute.
    fn takeover(pair: &Pair, from_ns: u64, refused_ns: Option<u64>) -> Option<u64> {
        let looks = (from_ns..from_ns + 60 * S).step_by(S as usize / 10);
        looks.into_iter().find(|now_ns| pair.look(*now_ns, refused_ns.filter(|since_ns| since_ns <= now_ns)).is_some())
    }

    fn paired(own: usize) -> Pair {
        let pair = pair(own);
        assert_eq!(pair.heard(Mode::Starting, S), Some(Mode::Paired));
        pair
    }

    #[test]
    fn silence_lets_the_first_node_take_over_and_the_second_never() {
        assert_eq!(takeover(&paired(0), S, None), Some(4 * S + S / 10));
        assert_eq!(takeover(&paired(1), S, None), None);
        // Not a node that was itself stopped.
        let first = paired(0);
        first.look(S, None);
        assert_eq!(first.look(20 * S, None), None);
        assert_eq!(takeover(&first, 20 * S, None), Some(23 * S + S / 10));
    }

    #[test]
    fn a_refused_connection_lets_either_take_over_unless_the_other_says_something() {
        for own in [0, 1] {
            let pair = paired(own);
            assert_eq!((takeover(&pair, S, Some(2 * S)), pair.mode()), (Some(3 * S), Mode::Ahead));
            let pair = paired(own);
            pair.core_ended(1);
            assert_eq!((takeover(&pair, S, Some(2 * S)), pair.mode()), (Some(3 * S), Mode::Alone));
            let pair = paired(own);
            assert_eq!((pair.look(2 * S, None), pair.heard(Mode::Paired, 2 * S + S / 2)), (None, None));
            assert_eq!(pair.look(3 * S, Some(2 * S)), None, "it still said something");
            assert_eq!(pair.look(3 * S + S / 2, Some(2 * S)), Some(2 * S + S / 2));
        }
    }

    #[test]
    fn a_starting_node_never_takes_over_and_follows_one_that_is_ahead() {
        assert_eq!(takeover(&pair(0), S, Some(S)), None);
        let starting = pair(0);
        assert_eq!(starting.heard(Mode::Alone, S), None, "it may go ahead before it hears of this node");
        assert_eq!(starting.heard(Mode::Ahead, S), Some(Mode::Behind));
        assert_eq!((starting.heard(Mode::Starting, S), takeover(&starting, S, Some(S))), (None, None));
    }

    #[test]
    fn a_node_alone_gives_back_what_it_took_until_its_first_write() {
        let pair = paired(0);
        takeover(&pair, S, None).unwrap();
        assert_eq!(pair.heard(Mode::Starting, 9 * S), Some(Mode::Paired));
        assert!(!pair.must_record());
        takeover(&pair, 9 * S, None).unwrap();
        assert!(pair.must_record() && pair.must_record() && pair.begins_record() && !pair.begins_record());
        assert_eq!(pair.heard(Mode::Paired, 20 * S), None);
        pair.end_record(false);
        assert!(pair.must_record() && pair.begins_record());
        pair.end_record(true);
        assert_eq!((pair.must_record(), pair.mode()), (false, Mode::Ahead));
        let again = super::tests::pair(0);
        again.found_record();
        assert_eq!((again.must_record(), again.mode(), again.heard(Mode::Starting, S)), (false, Mode::Ahead, None));
    }

    #[test]
    fn a_process_that_did_not_end_in_order_lacks_records_unless_all_are_on_the_device() {
        let greeted = |is_durable: bool, ended: u64| {
            let nodes = [3000, 3001].map(|port| Node::new("127.0.0.1", port)).to_vec();
            let pair = Pair::new(&Cluster::new(nodes, 0), true, is_durable);
            assert_eq!(pair.greeted(7, Mode::Starting, S), Some(Mode::Paired));
            assert_eq!(pair.greeted(7, Mode::Starting, S), None, "another core");
            (0..ended).for_each(|_| pair.core_ended(2));
            pair.greeted(8, Mode::Starting, 2 * S);
            pair.mode()
        };
        assert_eq!(
            [(false, 0), (false, 1), (false, 2), (true, 0)].map(|(durable, ended)| greeted(durable, ended)),
            [Mode::Ahead, Mode::Ahead, Mode::Paired, Mode::Paired]
        );
    }

    #[test]
    fn other_clusters_have_no_takeover() {
        let nodes: Vec<_> = (0..3).map(|port| Node::new("127.0.0.1", port)).collect();
        let all = [(nodes.clone(), true), (nodes[..2].to_vec(), false), (nodes[..1].to_vec(), true)];
        for (nodes, has_copies) in all {
            let pair = Pair::new(&Cluster::new(nodes, 0), has_copies, false);
            assert_eq!(
                (pair.heard(Mode::Ahead, S), takeover(&pair, S, Some(S)), pair.mode()),
                (None, None, Mode::Paired)
            );
        }
    }
}
