//! In-flight limits while a shard runs: their free slots, and the lanes that wait for one.

use crate::plan::{Lane, Limit};
use results::times::OwnDelay;
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FreeSlot {
    /// Time at which the slot would have become free without flashproof's lag.
    pub(super) freed_ns: u64,
    /// Upper bound on the time for which the completions that freed the slot were unseen.
    pub(super) unseen_ns: u64,
}

pub(super) struct RunningLimit {
    /// Free slots in the order in which they became free. The lane that has waited longest is entitled to the first
    /// slot from the time at which that slot became free, even if other completions were seen in the same poll.
    pub(super) free_slots: VecDeque<FreeSlot>,
    pub(super) limit: Limit,
    /// Delays of the operation that last freed a slot, and of the earlier operations on that slot. Without these delays
    /// the slot would have been free earlier by at most their sum.
    pub(super) own_delay: OwnDelay,
    /// Lanes that wait for a slot, each with the intended start of its next operation.
    pub(super) waiting: VecDeque<(u64, u32)>,
    /// True if slots are free, but the first waiting stream has no next operation until one in flight completes.
    starved: bool,
}

impl RunningLimit {
    /// Number of operations charged to flashproof, out of `count` waiting operations. Their fraction is flashproof's
    /// share of the longest wait, which lasts from `intended_ns` to `at_ns`.
    pub(super) fn own_delayed(&self, count: u64, intended_ns: u64, at_ns: u64) -> u64 {
        let wait_ns = at_ns.saturating_sub(intended_ns).max(1);
        let own_ns = self.own_delay.total_ns().min(wait_ns);
        let charged = u128::from(count) * u128::from(own_ns) / u128::from(wait_ns);
        u64::try_from(charged).unwrap_or(count)
    }
}

pub(super) struct Limits {
    limits: Vec<RunningLimit>,
    /// Lanes whose next operation waits for a slot, over all limits.
    lanes_waiting: u32,
}

impl Limits {
    pub(super) fn new(limits: Vec<Limit>, lanes: &[Lane]) -> Self {
        let mut lanes_of = vec![0; limits.len()];
        lanes
            .iter()
            .for_each(|lane| lanes_of[lane.limit as usize] += 1);
        let running = |(limit, lanes): (Limit, usize)| RunningLimit {
            free_slots: vec![FreeSlot::default(); limit.slots as usize].into(),
            limit,
            own_delay: OwnDelay::default(),
            waiting: VecDeque::with_capacity(lanes),
            starved: false,
        };
        Self {
            limits: limits.into_iter().zip(lanes_of).map(running).collect(),
            lanes_waiting: 0,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &RunningLimit> {
        self.limits.iter()
    }

    #[inline]
    pub(super) fn is_any_waiting(&self) -> bool {
        self.lanes_waiting > 0
    }

    #[inline]
    pub(super) fn queue(&mut self, limit: u32, intended_ns: u64, lane: u32) {
        self[limit].waiting.push_back((intended_ns, lane));
        self.lanes_waiting += 1;
    }

    /// Puts a lane at the head of the queue, because its stream has no next operation until an operation in flight
    /// completes. False if none is in flight under the limit: the lane would wait forever.
    pub(super) fn starve(&mut self, limit: u32, intended_ns: u64, lane: u32) -> bool {
        self.lanes_waiting += 1;
        let limit = &mut self[limit];
        limit.waiting.push_front((intended_ns, lane));
        limit.starved = limit.free_slots.len() < limit.limit.slots as usize;
        limit.starved
    }

    #[inline]
    pub(super) fn free(&mut self, limit: u32, completed_ns: u64, own_delay: OwnDelay) {
        // Without its lag, the operation would have freed its slot earlier. During the lag, the next lane on the slot
        // waits for flashproof, not for the device. `unseen_ns` is only an upper bound.
        let slot = FreeSlot {
            freed_ns: completed_ns.saturating_sub(own_delay.lag_ns),
            unseen_ns: own_delay.unseen_ns,
        };
        let limit = &mut self[limit];
        limit.own_delay = own_delay;
        limit.free_slots.push_back(slot);
        if std::mem::take(&mut limit.starved) {
            // While starved, the limit could not use its free slots: all count as freed now.
            for free in &mut limit.free_slots {
                let freed_ns = free.freed_ns.max(slot.freed_ns);
                *free = FreeSlot { freed_ns, ..slot };
            }
        }
    }

    /// Takes the lane that has waited longest from the queue of `limit`, if a slot is free for it.
    #[inline]
    pub(super) fn next_waiting(&mut self, limit: u32) -> Option<(u64, u32)> {
        let limit = &mut self[limit];
        if limit.free_slots.is_empty() || limit.starved {
            return None;
        }
        let waiting = limit.waiting.pop_front()?;
        self.lanes_waiting -= 1;
        Some(waiting)
    }
}

impl Index<u32> for Limits {
    type Output = RunningLimit;

    #[inline]
    fn index(&self, limit: u32) -> &RunningLimit {
        &self.limits[limit as usize]
    }
}

impl IndexMut<u32> for Limits {
    #[inline]
    fn index_mut(&mut self, limit: u32) -> &mut RunningLimit {
        &mut self.limits[limit as usize]
    }
}
