//! Lanes and limits while a shard runs them: places that are free and taken, operations that became due.

use crate::plan::{Arrival, Limit};
use crate::schedule::Schedule;
use crate::stream::Request;
use std::collections::VecDeque;

/// An operation that was issued, by token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) request: Request,
    pub(super) lane: u32,
    pub(super) intended_ns: u64,
    pub(super) eligible_ns: u64,
    /// Our own lag in the operations that it followed in its place under the limit.
    pub(super) lag_before_ns: u64,
    /// Upper bound of the time by which the operation would have been eligible earlier, had no completion before it on
    /// its slot lain unseen.
    pub(super) unseen_before_ns: u64,
    /// By how much, at most, operations that were issued late put its device behind before it was issued.
    pub(super) behind_ns: u64,
}

/// A free place under a limit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// When it was freed, or would have been but for our own lag.
    pub(super) freed_ns: u64,
    /// For how long before that the completions that freed it can have lain unseen.
    pub(super) unseen_ns: u64,
}

pub(super) struct LimitState {
    /// Free places in the order in which they were freed: the longest waiting lane has had a claim to the first since
    /// then, whatever else was seen to complete in the same look.
    pub(super) free: VecDeque<Place>,
    pub(super) limit: Limit,
    /// Our own lag in the last operation that gave its slot back, and in those it followed.
    pub(super) lag_ns: u64,
    /// Upper bound of the time by which the slot would have been free earlier, had no completion on it lain unseen.
    pub(super) unseen_ns: u64,
    /// Lanes whose next operation, intended at the instant beside, waits for a slot.
    pub(super) waiting: VecDeque<(u64, u32)>,
    /// True if the first of them has free slots and waits for an operation in flight to complete before its stream has
    /// a next one.
    pub(super) starved: bool,
}

impl LimitState {
    /// Upper bound of the time by which the last freed slot would have been free earlier without this program's delays,
    /// nanoseconds.
    pub(super) fn own_ns(&self) -> u64 {
        self.lag_ns + self.unseen_ns
    }

    /// Number out of `count` operations waiting at `at_ns`, the first since `intended_ns`, that this program delays:
    /// proportional to its share of that wait.
    pub(super) fn ours(&self, count: u64, intended_ns: u64, at_ns: u64) -> u64 {
        let behind_ns = at_ns.saturating_sub(intended_ns).max(1);
        let ours = u128::from(count) * u128::from(self.own_ns().min(behind_ns)) / u128::from(behind_ns);
        u64::try_from(ours).unwrap_or(count)
    }
}

/// Operations that became due on a lane.
#[derive(Debug)]
pub(super) struct Arrived {
    /// Its schedule from the last evaluated instant on; `None` for a closed loop.
    ahead: Option<Schedule>,
    /// Operations due before that instant.
    due: u64,
    /// Operations that its stream gave.
    pub(super) taken: u64,
}

impl Arrived {
    pub(super) fn new(arrival: &Arrival) -> Self {
        let ahead = match arrival {
            Arrival::Scheduled(schedule) => Some(schedule.clone()),
            Arrival::Closed { .. } => None,
        };
        Self { ahead, due: 0, taken: 0 }
    }

    /// Operations due before `at_ns` and not taken. Instants ascend from call to call.
    pub(super) fn behind(&mut self, at_ns: u64) -> u64 {
        self.due += self.ahead.as_mut().map_or(0, |ahead| ahead.count_before(at_ns));
        self.due.saturating_sub(self.taken)
    }
}
