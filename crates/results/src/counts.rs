//! The exact counts of a stream on a device: per interval in the recorder and in a run directory, per slice in the
//! judge.
//!
//! Counts over a threshold give the number of slow operations; [`SlowTimes`] gives their time by stage. Only the times
//! of operations over a threshold are summed, so fast operations cost nothing and do not hide slow operations in a
//! mean.

use crate::buckets::THRESHOLDS_MAX;
use crate::times::Times;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CellCounts {
    pub ops: u64,
    pub bytes: u64,
    /// Operations that failed, including `wrong_data`.
    pub errors: u64,
    /// Reads that returned wrong data. 0 in runs of earlier versions, which count them only in `errors`.
    pub wrong_data: u64,
    /// Part of `ops` that completed only after the end of the run, or of their stream, while the backlog drained.
    pub overtime: u64,
    /// Operations that were due, but never issued; in run directories of format 1 also lost operations.
    pub unissued: u64,
    /// Operations that were issued, but never completed.
    pub lost: u64,
    /// Due operations that had not completed [`GRACE_NS`](crate::cell::GRACE_NS) after the deadline of their slice,
    /// including lost and never issued operations.
    pub missed: u64,
    /// Lower bound of `missed`, without operations that this program delayed.
    pub missed_lower_bound: u64,
    /// Operations whose `wait + service` is longer than their stream allows: see
    /// [`StreamInfo::late_ns`](crate::cell::StreamInfo::late_ns).
    pub late: u64,
    /// Longest `wait + service` of the `late` operations.
    pub late_max_ns: u64,
    /// Time, nanoseconds, in which the device had operations of the stream in flight and completed nothing for longer
    /// than the largest threshold. Only for judged closed loops.
    pub silent_ns: u64,
    /// Part of `silent_ns` that the lack of CPUs may explain, see
    /// [`IntervalCounts::host_silence_ns`](crate::judge::IntervalCounts::host_silence_ns). Only in slices.
    pub silent_host_ns: u64,
    /// Sum of the report intervals in which the stream had operations on the device, nanoseconds. Only in slices.
    pub active_ns: u64,
    /// Time of the last completion, nanoseconds since the run began; if operations were lost, time of the last
    /// completion of any stream on the device. 0 stands for the end of the interval, see
    /// [`Interval::clear_recent_last_completion`](crate::cell::Interval::clear_recent_last_completion).
    pub last_completion_ns: u64,
    /// Number, from 1, of the cell that held the slots for which operations of this cell waited; 0: no other cell.
    pub slots_used_by: u64,
    /// For each threshold: operations whose `wait + service` was over the threshold. Unused entries are 0. Operations
    /// that failed, were lost or were never issued count as over all thresholds.
    pub judged_over: [u64; THRESHOLDS_MAX],
    /// Lower bound of the number of slow operations; `judged_over` is the upper bound. From the time of each operation,
    /// three delays are subtracted if their sum exceeds [`harmless_gap_ns`](crate::cell::harmless_gap_ns): the time in
    /// which its completion may have been unseen, the time in which earlier completions on its slot may have been
    /// unseen, and the time in which the device cleared a backlog of operations issued late. Operations issued late by
    /// the tightest threshold or more are not counted, because they met another load than the configured load.
    pub judged_over_lower_bound: [u64; THRESHOLDS_MAX],
    /// For each threshold: operations whose `wait + lag + service` was over the threshold. Failed, lost and never
    /// issued operations count as in `judged_over`.
    pub response_over: [u64; THRESHOLDS_MAX],
    /// For each threshold: successful operations whose service time alone was over the threshold.
    pub service_over: [u64; THRESHOLDS_MAX],
    pub slow: SlowTimes,
    /// Operations due but not completed at the end of the interval, or of the run if that was earlier; not summed over
    /// intervals.
    pub backlog: Backlog,
}

impl CellCounts {
    /// Operations that the verdict counts: succeeded, failed, never issued and lost.
    pub fn counted_ops(&self) -> u64 {
        self.ops
            .saturating_add(self.errors)
            .saturating_add(self.unissued)
            .saturating_add(self.lost)
    }

    /// `over`, a count over a threshold, without failed operations, which count as over but have no latency.
    pub(crate) fn slow_of(&self, over: u64) -> u64 {
        over.saturating_sub(self.errors)
    }

    /// Time of the last completion in an interval that ended at `end_ns`; 0 without a completion.
    pub fn back_ns(&self, end_ns: u64) -> u64 {
        if self.last_completion_ns == 0 && self.ops > 0 {
            end_ns
        } else {
            self.last_completion_ns
        }
    }

    /// True if any operation was due or outstanding, or the device was silent.
    pub(crate) fn is_any(&self) -> bool {
        self.counted_ops() > 0 || self.backlog != Backlog::default() || self.silent_ns > 0
    }

    /// Adds other counts over the same thresholds. The backlog is not summed: it is a state, not a count.
    pub fn add(&mut self, other: &Self) {
        // Saturating, because the numbers may come from an edited file.
        self.combine(other, u64::saturating_add);
        self.late_max_ns = self.late_max_ns.max(other.late_max_ns);
        self.last_completion_ns = self.last_completion_ns.max(other.last_completion_ns);
        self.slots_used_by = if other.slots_used_by > 0 {
            other.slots_used_by
        } else {
            self.slots_used_by
        };
    }

    /// Subtracts `other`, which must be included in `self`.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, u64::saturating_sub);
    }

    fn combine(&mut self, other: &Self, operation: impl Fn(u64, u64) -> u64) {
        let mut other = *other;
        let (mine, mine_over) = self.sums();
        let (theirs, theirs_over) = other.sums();
        mine.into_iter()
            .zip(theirs)
            .for_each(|(mine, theirs)| *mine = operation(*mine, *theirs));
        for (mine, theirs) in mine_over.into_iter().zip(theirs_over) {
            mine.iter_mut()
                .zip(theirs)
                .for_each(|(mine, theirs)| *mine = operation(*mine, *theirs));
        }
    }

    /// Every count that can be summed: single counts, and counts by threshold.
    fn sums(&mut self) -> ([&mut u64; 13], [&mut [u64; THRESHOLDS_MAX]; 9]) {
        let Self {
            ops,
            bytes,
            errors,
            wrong_data,
            overtime,
            unissued,
            lost,
            ..
        } = self;
        let Self {
            missed,
            missed_lower_bound,
            late,
            silent_ns,
            silent_host_ns,
            active_ns,
            ..
        } = self;
        let Self {
            judged_over,
            judged_over_lower_bound,
            response_over,
            service_over,
            slow,
            ..
        } = self;
        let [wait_ns, lag_ns, service_ns, unseen_ns, unseen_before_ns] = slow.all_mut();
        (
            [
                ops,
                bytes,
                errors,
                wrong_data,
                overtime,
                unissued,
                lost,
                missed,
                missed_lower_bound,
                late,
                silent_ns,
                silent_host_ns,
                active_ns,
            ],
            [
                judged_over,
                judged_over_lower_bound,
                response_over,
                service_over,
                wait_ns,
                lag_ns,
                service_ns,
                unseen_ns,
                unseen_before_ns,
            ],
        )
    }
}

/// For each threshold: sums over the operations whose response time (`wait + lag + service`) was over the threshold,
/// nanoseconds. Unused entries are 0. Operations that failed or never completed have no times and are not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlowTimes {
    pub wait_ns: [u64; THRESHOLDS_MAX],
    pub lag_ns: [u64; THRESHOLDS_MAX],
    pub service_ns: [u64; THRESHOLDS_MAX],
    /// Part of the service times in which the completions may have been unseen. Only parts longer than
    /// [`crate::cell::harmless_gap_ns`] count.
    pub unseen_ns: [u64; THRESHOLDS_MAX],
    /// Part of the waits in which unseen completions may have held the slots. Only parts longer than
    /// [`crate::cell::harmless_gap_ns`] count.
    pub unseen_before_ns: [u64; THRESHOLDS_MAX],
}

impl SlowTimes {
    /// Adds an operation to the sums of each of the ascending `thresholds_ns` that its response time reaches.
    /// `unseen_ns` is a part of its service time, `unseen_before_ns` a part of its wait.
    pub fn record(
        &mut self,
        thresholds_ns: &[u64],
        times: &Times,
        [unseen_ns, unseen_before_ns]: [u64; 2],
    ) {
        let response_ns = times.response_ns();
        let exceeded = thresholds_ns
            .iter()
            .take(THRESHOLDS_MAX)
            .take_while(|threshold_ns| response_ns >= **threshold_ns);
        let unseen_ns = unseen_ns.min(times.service_ns());
        for index in 0..exceeded.count() {
            self.wait_ns[index] += times.wait_ns();
            self.lag_ns[index] += times.lag_ns();
            self.service_ns[index] += times.service_ns();
            self.unseen_ns[index] += unseen_ns;
            self.unseen_before_ns[index] += unseen_before_ns;
        }
    }

    /// The sums in the order of their columns in a run directory.
    pub(crate) fn all_mut(&mut self) -> [&mut [u64; THRESHOLDS_MAX]; 5] {
        let Self {
            wait_ns,
            lag_ns,
            service_ns,
            unseen_ns,
            unseen_before_ns,
        } = self;
        [wait_ns, lag_ns, service_ns, unseen_ns, unseen_before_ns]
    }
}

/// Operations due but not completed at one instant, by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Backlog {
    /// Issued and not completed.
    pub in_flight: u64,
    /// Due, and waiting for a slot under an in-flight limit.
    pub waiting: u64,
    /// Due, and delayed by this program: a slot was free, or would have been free if this program had seen completions
    /// at once and issued earlier operations in time.
    pub late: u64,
}

impl Backlog {
    pub fn add(&mut self, other: &Self) {
        // Saturating, because the numbers may come from an edited file.
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        self.waiting = self.waiting.saturating_add(other.waiting);
        self.late = self.late.saturating_add(other.late);
    }

    pub fn total(&self) -> u64 {
        self.in_flight
            .saturating_add(self.waiting)
            .saturating_add(self.late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_an_operation_are_added_up_for_each_threshold_below_its_response_time() {
        let mut slow = SlowTimes::default();
        slow.record(
            &[100, 1_000, 10_000],
            &Times::new(0, 300, 400, 1_000),
            [5_000, 200],
        );
        slow.record(&[100, 1_000, 10_000], &Times::new(0, 0, 0, 99), [0; 2]);
        assert_eq!(slow.wait_ns[..3].to_vec(), vec![300, 300, 0]);
        assert_eq!(slow.lag_ns[..3].to_vec(), vec![100, 100, 0]);
        assert_eq!(slow.service_ns[..3], [600, 600, 0]);
        assert_eq!(
            slow.unseen_ns[..3],
            [600, 600, 0],
            "no more than the service time"
        );
        assert_eq!(slow.unseen_before_ns[..3], [200, 200, 0]);
    }
}
