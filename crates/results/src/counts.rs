//! The exact counts of one stream on one device: of an interval, in the recorder and in a run directory, and of the
//! judge's slices.

use crate::buckets::THRESHOLDS_MAX;
use crate::cell::Backlog;
use crate::slow::SlowTimes;

/// The counts of one stream on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CellCounts {
    /// Operations that succeeded.
    pub ops: u64,
    /// Bytes that the operations moved.
    pub bytes: u64,
    pub errors: u64,
    /// Operations among `ops` that came back only after the end of the run, or of their stream: its backlog, completed
    /// then.
    pub overtime: u64,
    /// Operations that were wanted and never issued; in run directories of format 1 also those that were lost.
    pub unissued: u64,
    /// Operations that were issued and never came back.
    pub lost: u64,
    /// Wanted operations that were not back [`GRACE_NS`](crate::cell::GRACE_NS) after the deadline of their slice: those never
    /// issued and lost included.
    pub missed: u64,
    /// The least that `missed` can be held to be: without this program's own lag.
    pub missed_least: u64,
    /// Operations that came back later than their stream allows by `wait + service`: see
    /// [`StreamInfo::late_ns`](crate::cell::StreamInfo::late_ns).
    pub late: u64,
    /// The longest `wait + service` of those.
    pub late_max_ns: u64,
    /// Time, in nanoseconds, for which the device had operations of the stream in flight and returned nothing for longer than
    /// the largest threshold. Only of judged closed loops.
    pub silent_ns: u64,
    /// Time for which the stream had operations on the device, nanoseconds: whole report intervals. Kept by slices only.
    pub active_ns: u64,
    /// When the last of its operations came back; where some were lost, when their device last returned something.
    /// Nanoseconds since the run began; 0: at the end of the interval, see
    /// [`Interval::round_ends`](crate::cell::Interval::round_ends).
    pub last_back_ns: u64,
    /// Cell, counted from 1, whose operations held the slots for which operations of this one waited; 0: none but its own.
    pub held_by: u64,
    /// By threshold, then zeros: wanted operations whose `wait + service` was over it; failed and never-issued ones are over
    /// all.
    pub judged_over: [u64; THRESHOLDS_MAX],
    /// Lower bound of `judged_over`. Three delays are subtracted where together they exceed
    /// [`harmless_gap_ns`](crate::cell::harmless_gap_ns): time in which its completion, or earlier ones on its slot,
    /// may have lain unseen, and time in which the device worked off operations issued late. Operations issued late by
    /// the tightest threshold or more are left out, as they met a load that was not configured. The true count lies
    /// between the two.
    pub judged_least_over: [u64; THRESHOLDS_MAX],
    /// By threshold, then zeros: wanted operations whose `wait + lag + service` was over it; likewise.
    pub response_over: [u64; THRESHOLDS_MAX],
    /// By threshold, then zeros: operations that succeeded and whose service time alone was over it.
    pub service_over: [u64; THRESHOLDS_MAX],
    /// Times of the slow operations.
    pub slow: SlowTimes,
    /// Wanted and not completed at the end of an interval, or of the run if that was earlier: of one interval only.
    pub backlog: Backlog,
}

impl CellCounts {
    /// Operations that the verdict counts: succeeded, failed, never issued and lost.
    pub fn wanted(&self) -> u64 {
        self.ops.saturating_add(self.errors).saturating_add(self.unissued).saturating_add(self.lost)
    }

    /// Time of the last completion in an interval that ended at `end_ns`; 0 without one.
    pub fn back_ns(&self, end_ns: u64) -> u64 {
        if self.last_back_ns == 0 && self.ops > 0 { end_ns } else { self.last_back_ns }
    }

    /// True if any operation was wanted or outstanding, or the device was silent.
    pub(crate) fn is_any(&self) -> bool {
        self.wanted() > 0 || self.backlog != Backlog::default() || self.silent_ns > 0
    }

    /// Adds other counts over the same thresholds. The backlog is not summed: it holds for one instant.
    pub fn add(&mut self, other: &Self) {
        // Saturating, because the numbers may come from a file that somebody edited.
        self.combine(other, u64::saturating_add);
        self.late_max_ns = self.late_max_ns.max(other.late_max_ns);
        self.last_back_ns = self.last_back_ns.max(other.last_back_ns);
        self.held_by = if other.held_by > 0 { other.held_by } else { self.held_by };
    }

    /// Takes other counts off that are among these.
    pub fn take_off(&mut self, other: &Self) {
        self.combine(other, u64::saturating_sub);
    }

    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        let of = |mine: &mut u64, theirs: &u64| *mine = with(*mine, *theirs);
        of(&mut self.ops, &other.ops);
        of(&mut self.bytes, &other.bytes);
        of(&mut self.errors, &other.errors);
        of(&mut self.overtime, &other.overtime);
        of(&mut self.unissued, &other.unissued);
        of(&mut self.lost, &other.lost);
        of(&mut self.missed, &other.missed);
        of(&mut self.missed_least, &other.missed_least);
        of(&mut self.late, &other.late);
        of(&mut self.silent_ns, &other.silent_ns);
        of(&mut self.active_ns, &other.active_ns);
        let of_all = |mine: &mut [u64], theirs: &[u64]| mine.iter_mut().zip(theirs).for_each(|(m, t)| of(m, t));
        of_all(&mut self.judged_over, &other.judged_over);
        of_all(&mut self.judged_least_over, &other.judged_least_over);
        of_all(&mut self.response_over, &other.response_over);
        of_all(&mut self.service_over, &other.service_over);
        self.slow.combine(&other.slow, with);
    }
}
