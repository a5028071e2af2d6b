//! Live statistics of a clone.

use super::counter::Counter;
use super::verify::counts::VerifyCounts;
use std::sync::OnceLock;

/// Error numbers that fio reports for jobs that missed a goal: a rate (EIO), a latency (ETIMEDOUT).
pub(super) const RATE_MISSED: u64 = 5;
pub(super) const LATENCY_MISSED: u64 = 110;

/// Only the clone's own thread changes these values.
#[derive(Debug, Default)]
pub struct Progress {
    in_flight: Counter,
    /// Operations begun since the last completion. The next completion counts all of them in `levels`, at the depth
    /// that they reached together.
    begun_since_completion: Counter,
    /// Number of operations by depth at submission, including the operation itself. The classes of depth are 1, 2 to 3,
    /// 4 to 7, and so on, up to 64 or more.
    pub levels: [Counter; 7],
    /// Depth found so far by the search; 0: no search.
    pub depth: Counter,
    /// Start of the measured result, nanoseconds of the run. Before this time the job searched for its depth.
    pub counts_from_ns: Counter,
    /// Why the job ended and failed, with fio's error number.
    failure: OnceLock<(u64, String)>,
    begun_ops: Counter,
    pub(super) read_back: Counter,
    pub verify: VerifyCounts,
    /// For a job that reads its writes back at the end: time of the job's own operations, and of the read-backs,
    /// nanoseconds without the ramp time.
    pub phases_ns: [Counter; 2],
    /// Lanes that completed their work before their time was over.
    pub lanes_done: Counter,
    /// Nanoseconds of the run.
    pub last_completion_ns: Counter,
}

impl Progress {
    /// Why the job ended and failed: the latency target or rate that it missed.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(|(_, reason)| reason.as_str())
    }

    /// The error number that fio gives to the failure.
    pub fn error(&self) -> Option<u64> {
        self.failure.get().map(|(error, _)| *error)
    }

    /// Records the first reason; later reasons are ignored.
    pub(super) fn set_failure(&self, error: u64, reason: String) {
        let _ = self.failure.set((error, reason));
    }

    /// Operations begun, without read-backs and operations that follow in the same slot.
    pub fn ops(&self) -> u64 {
        self.begun_ops.get() - self.read_back.get()
    }

    #[inline]
    pub(super) fn begin(&self) {
        [
            &self.in_flight,
            &self.begun_since_completion,
            &self.begun_ops,
        ]
        .into_iter()
        .for_each(|count| count.add(1));
    }

    #[inline]
    pub(super) fn end(&self) {
        let in_flight = self.in_flight.get();
        let begun = self.begun_since_completion.get();
        if begun > 0 {
            self.levels[(in_flight.max(1).ilog2() as usize).min(6)].add(begun);
            self.begun_since_completion.set(0);
        }
        self.in_flight.set(in_flight.saturating_sub(1));
    }
}
