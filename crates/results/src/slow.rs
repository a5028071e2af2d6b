//! Sums of the times of slow operations.
//!
//! Counts over a threshold give the number of slow operations; these sums give their time by stage. Only operations
//! over a threshold are summed, so the many fast ones cost nothing, and do not hide the slow ones in a mean.

use crate::buckets::THRESHOLDS_MAX;
use crate::times::Times;

/// Sums over the operations whose response time (`wait + lag + service`) was over each threshold, in
/// nanoseconds; by threshold, then zeros. Operations that failed or never came back have no times and
/// are not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlowTimes {
    /// Waits for a slot.
    pub wait_ns: [u64; THRESHOLDS_MAX],
    /// Lateness of issuing.
    pub lag_ns: [u64; THRESHOLDS_MAX],
    /// Service times.
    pub service_ns: [u64; THRESHOLDS_MAX],
    /// The part of their service times for which their completions may have lain unseen, where that
    /// was long enough to raise a doubt: see [`crate::cell::harmless_gap_ns`].
    pub unseen_ns: [u64; THRESHOLDS_MAX],
    /// The part of their waits in which unseen completions may have held their slots; likewise.
    pub held_ns: [u64; THRESHOLDS_MAX],
}

impl SlowTimes {
    /// Adds an operation to each of `thresholds_ns` (ascending) that its response time is over. `unseen_ns` and
    /// `held_ns` are parts of its service time and of its wait.
    pub fn record(&mut self, thresholds_ns: &[u64], times: &Times, unseen_ns: u64, held_ns: u64) {
        let response_ns = times.response_ns();
        let over = thresholds_ns.iter().take(THRESHOLDS_MAX).take_while(|threshold_ns| response_ns >= **threshold_ns);
        let unseen_ns = unseen_ns.min(times.service_ns());
        for index in 0..over.count() {
            self.wait_ns[index] += times.wait_ns();
            self.lag_ns[index] += times.lag_ns();
            self.service_ns[index] += times.service_ns();
            self.unseen_ns[index] += unseen_ns;
            self.held_ns[index] += held_ns;
        }
    }

    /// Adds sums over the same thresholds. Saturating, because they may come from an edited file.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, u64::saturating_add);
    }

    /// Puts sums over the same thresholds together, one by one.
    pub(crate) fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        let all = [&mut self.wait_ns, &mut self.lag_ns, &mut self.service_ns, &mut self.unseen_ns, &mut self.held_ns];
        for (mine, theirs) in all.into_iter().zip(other.all()) {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = with(*mine, *theirs));
        }
    }

    /// The sums in the order of their columns in a run directory.
    pub(crate) fn all(&self) -> [&[u64; THRESHOLDS_MAX]; 5] {
        [&self.wait_ns, &self.lag_ns, &self.service_ns, &self.unseen_ns, &self.held_ns]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_summed_up_for_each_threshold_that_its_response_time_is_over() {
        let mut slow = SlowTimes::default();
        slow.record(&[100, 1_000, 10_000], &Times::new(0, 300, 400, 1_000), 5_000, 200);
        slow.record(&[100, 1_000, 10_000], &Times::new(0, 0, 0, 99), 0, 0);
        assert_eq!((slow.wait_ns[..3].to_vec(), slow.lag_ns[..3].to_vec()), (vec![300, 300, 0], vec![100, 100, 0]));
        assert_eq!(slow.service_ns[..3], [600, 600, 0]);
        assert_eq!(slow.unseen_ns[..3], [600, 600, 0], "no more than the service time");
        assert_eq!(slow.held_ns[..3], [200, 200, 0]);
    }
}
