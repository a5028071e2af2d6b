//! Issued operations by token, and the commits that they are part of.

use crate::stream::IoRequest;
use results::times::{OwnDelay, Times};

/// An operation that has a slot under its limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) request: IoRequest,
    pub(super) lane: u32,
    pub(super) intended_ns: u64,
    pub(super) eligible_ns: u64,
    /// Delays by flashproof before the operation was issued.
    pub(super) own_delay: OwnDelay,
    /// Index of the commit of earlier operations on the slot, if this operation is part of it.
    pub(super) commit: Option<u32>,
}

impl Slot {
    #[inline]
    pub(super) fn times(&self, is_closed: bool, issued_ns: u64, completed_ns: u64) -> Times {
        if is_closed {
            // Operations of a closed lane are due when they are issued: only service counts.
            return Times::new(issued_ns, issued_ns, issued_ns, completed_ns)
                .with_own_delay(self.own_delay);
        }
        let intended_ns = self.intended_ns.min(issued_ns);
        let eligible_ns = self.eligible_ns.min(issued_ns);
        Times::new(intended_ns, eligible_ns, issued_ns, completed_ns).with_own_delay(self.own_delay)
    }
}

/// The completed operations of a commit, which follow each other in one slot. The whole commit has a cell of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Commit {
    pub(super) cell: u32,
    pub(super) first: Times,
    /// Delays by flashproof within the commit. The lag is the sum of the gaps between a completion and the next issue.
    pub(super) own_delay: OwnDelay,
    pub(super) failed: bool,
}

impl Commit {
    /// The times of the commit whose last operation completed at `completed_ns`. The gaps are lag, not service.
    pub(super) fn times(&self, completed_ns: u64) -> Times {
        let intended_ns = self.first.intended_ns();
        let eligible_ns = intended_ns + self.first.wait_ns();
        let lag_ns = self.first.lag_ns() + self.own_delay.lag_ns;
        let issued_ns = (eligible_ns + lag_ns).min(completed_ns);
        Times::new(intended_ns, eligible_ns, issued_ns, completed_ns).with_own_delay(OwnDelay {
            lag_ns: 0,
            unseen_ns: self.first.own_delay().unseen_ns,
            behind_ns: self.own_delay.behind_ns,
        })
    }
}

/// Operations in flight by token, and their commits by index.
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    commits: Vec<Commit>,
    free_commits: Vec<u32>,
}

impl Slots {
    pub(super) fn with_capacity(slots: usize) -> Self {
        Self {
            slots: Vec::with_capacity(slots),
            free: Vec::with_capacity(slots),
            commits: Vec::with_capacity(slots),
            free_commits: Vec::with_capacity(slots),
        }
    }

    /// Stores an operation, and returns its token.
    #[inline]
    pub(super) fn insert(&mut self, slot: Slot) -> u32 {
        match self.free.pop() {
            Some(token) => {
                self.slots[token as usize] = slot;
                token
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, token: u32) -> Slot {
        self.free.push(token);
        self.slots[token as usize]
    }

    /// Operations in flight. Not for the hot path.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        let mut is_in_flight = vec![true; self.slots.len()];
        self.free
            .iter()
            .for_each(|token| is_in_flight[*token as usize] = false);
        self.slots
            .iter()
            .zip(is_in_flight)
            .filter_map(|(slot, is_in_flight)| is_in_flight.then_some(slot))
    }

    #[inline]
    pub(super) fn begun_commit(&self, slot: &Slot) -> Option<&Commit> {
        slot.commit.map(|index| &self.commits[index as usize])
    }

    /// Cell and scheduled start of the commit that the operation in `slot` is part of.
    pub(super) fn commit_of(&self, slot: &Slot) -> Option<(u32, u64)> {
        self.begun_commit(slot)
            .map(|commit| (commit.cell, commit.first.intended_ns()))
            .or_else(|| Some((slot.request.commit?, slot.intended_ns)))
    }

    /// Keeps `commit` for the operation that follows `slot`. Returns the commit's index.
    pub(super) fn keep_commit(&mut self, slot: &Slot, commit: Commit) -> u32 {
        let index = slot
            .commit
            .or_else(|| self.free_commits.pop())
            .unwrap_or(self.commits.len() as u32);
        match self.commits.get_mut(index as usize) {
            Some(kept) => *kept = commit,
            None => self.commits.push(commit),
        }
        index
    }

    /// Frees the index of the commit of the operations before `slot`.
    pub(super) fn drop_commit(&mut self, slot: &Slot) {
        self.free_commits.extend(slot.commit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_of_this_program_within_a_commit_are_lag_and_not_service() {
        // Due at 100, with a slot at 150, issued at 180. A gap of 20, then of 5 before the last operation.
        let first = Times::new(100, 150, 180, 400);
        let commit = Commit {
            cell: 0,
            first,
            own_delay: OwnDelay {
                lag_ns: 25,
                ..OwnDelay::default()
            },
            failed: false,
        };
        let times = commit.times(1_000);
        assert_eq!(times.wait_ns(), 50);
        assert_eq!(times.lag_ns(), 55);
        assert_eq!(times.service_ns(), 795);
        assert_eq!(times.intended_ns(), 100);
        assert_eq!(times.completed_ns(), 1_000);
        assert_eq!(times.response_ns(), 900);
    }
}
