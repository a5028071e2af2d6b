//! The comparison of all records of two nodes, one of which is behind, as far as it decides their modes.

use super::super::state::lock;
use super::{Mode, Pair, Word};
use std::sync::atomic::Ordering;

/// A comparison of all records with the other node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Comparison {
    /// Changes of the node that is ahead.
    pub(in crate::server) number: u16,
    /// Number of the other node's process.
    pub(super) process: u64,
    /// True at that node.
    pub(in crate::server) sends: bool,
}

impl Pair {
    /// The comparison that this node takes part in.
    pub(in crate::server) fn comparison(&self) -> Option<Comparison> {
        let (own, other) = (self.word(), Word::of(self.other.load(Ordering::SeqCst))?);
        let process = self.process.load(Ordering::SeqCst);
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

    /// A core of this node has no write any more that the other must have, under the word of these changes.
    pub(in crate::server) fn drained(&self, number: u16, core: usize) {
        let mut words = lock(&self.words);
        if self.word() == (Word { mode: Mode::Handing, changes: number }) {
            words.drained.insert(core);
        }
    }
}
