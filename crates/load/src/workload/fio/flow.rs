//! Shares of jobs that run at once: fio's `flow`.
//!
//! Jobs with the same `flow_id` share a counter of operations. A job whose part of them is above the part that its weight
//! has of all weights issues nothing until the others have followed.
//!
//! Source: fio's `flow_threshold_exceeded()`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Time after which a job that waits for the others looks again, without `flow_sleep`. fio looks all the time.
const LOOK_NS: u64 = 20_000;

/// Options of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowOptions {
    /// Share of the operations; 0: the job is not controlled.
    pub weight: u64,
    pub id: u64,
    pub sleep_ns: u64,
}

/// Jobs that share their operations out.
#[derive(Debug, Default)]
pub(super) struct FlowGroup {
    ops: AtomicU64,
    weights: AtomicU64,
}

/// A clone's part in its group. Leaves the group when dropped.
#[derive(Debug)]
pub(super) struct Flow {
    group: Arc<FlowGroup>,
    options: FlowOptions,
    ops: u64,
    /// Its weight counts: it has begun.
    has_joined: bool,
}

impl Flow {
    pub(super) fn new(group: Arc<FlowGroup>, options: FlowOptions) -> Self {
        Self { group, options, ops: 0, has_joined: false }
    }

    /// Counts an operation if the job may issue one now.
    #[inline]
    pub(super) fn take(&mut self) -> bool {
        let FlowGroup { ops, weights } = &*self.group;
        if !std::mem::replace(&mut self.has_joined, true) {
            weights.fetch_add(self.options.weight, Ordering::Relaxed);
        }
        // As in fio one more than there were, so that the first operation has a part.
        let (all, weights) = (ops.load(Ordering::Relaxed) + 1, weights.load(Ordering::Relaxed));
        if u128::from(self.ops) * u128::from(weights) > u128::from(all) * u128::from(self.options.weight) {
            return false;
        }
        self.ops += 1;
        ops.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Time after which to look again, nanoseconds.
    pub(super) fn look_after_ns(&self) -> u64 {
        self.options.sleep_ns.max(LOOK_NS)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.group.ops.fetch_sub(self.ops, Ordering::Relaxed);
        let weight = if self.has_joined { self.options.weight } else { 0 };
        self.group.weights.fetch_sub(weight, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_shared_by_weight_until_a_job_ends() {
        let group = Arc::new(FlowGroup::default());
        let join = |weight| Flow::new(group.clone(), FlowOptions { weight, ..FlowOptions::default() });
        let (mut heavy, mut light) = (join(8), join(1));
        let mut counts = [0; 2];
        for _ in 0..10_000 {
            counts[0] += u64::from(heavy.take());
            counts[1] += u64::from(light.take());
        }
        assert!(counts[1].abs_diff(counts[0] / 8) <= 2, "{counts:?}");
        let alone = |flow: &mut Flow| (0..1_000).filter(|_| flow.take()).count();
        assert!(alone(&mut heavy) < 20, "the other does not follow");
        drop(light);
        assert_eq!(alone(&mut heavy), 1_000);
    }
}
