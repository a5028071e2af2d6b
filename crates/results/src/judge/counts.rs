//! The exact counts of one interval: all that the judge wants to know of it.
//!
//! Made from a live [`Interval`] or from the lines of a run directory; both must be equal.

use crate::buckets::THRESHOLDS_MAX;
use crate::cell::{Backlog, Carried, Cell, Interval, Latencies, harmless_gap_ns};
use crate::slow::SlowTimes;

/// How many gaps were longer than `limit_ns`, to the histogram's resolution of 1 %.
pub(crate) fn gaps_over(gap: &Latencies, limit_ns: u64) -> u64 {
    gap.len() - gap.count_between(0, limit_ns)
}

/// The counts of one stream on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CellCounts {
    /// Operations that succeeded.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// See [`Cell::overtime`].
    pub overtime: u64,
    /// Operations that were wanted and never issued; in run directories of format 1 also those that were lost.
    pub unissued: u64,
    /// Operations that were issued and never came back.
    pub lost: u64,
    /// Operations not back in time, see [`Cell::missed`]; and the least that this can be held to be.
    pub missed: u64,
    /// See [`Cell::missed_least`].
    pub missed_least: u64,
    /// See [`Cell::late`].
    pub late: u64,
    /// See [`Cell::late_max_ns`].
    pub late_max_ns: u64,
    /// See [`Cell::silent_ns`].
    pub silent_ns: u64,
    /// Time for which the stream had operations on the device, nanoseconds: whole report intervals. Kept by slices only.
    pub active_ns: u64,
    /// See [`Cell::last_back_ns`].
    pub last_back_ns: u64,
    /// See [`Cell::held_by`].
    pub held_by: u64,
    /// By threshold, then zeros: wanted operations whose `wait + service` was over it.
    pub judged_over: [u64; THRESHOLDS_MAX],
    /// The least that `judged_over` can be held to be: see [`Cell::judged_least`].
    pub judged_least_over: [u64; THRESHOLDS_MAX],
    /// By threshold, then zeros: wanted operations whose `wait + lag + service` was over it.
    pub response_over: [u64; THRESHOLDS_MAX],
    /// By threshold, then zeros: operations that succeeded and whose service time alone was over it.
    pub service_over: [u64; THRESHOLDS_MAX],
    /// Where the time of the slow ones went.
    pub slow: SlowTimes,
    /// What was outstanding at the end: of one interval only.
    pub backlog: Backlog,
}

impl CellCounts {
    /// Operations that the verdict counts: succeeded, failed, never issued and lost.
    pub fn wanted(&self) -> u64 {
        self.ops.saturating_add(self.errors).saturating_add(self.unissued).saturating_add(self.lost)
    }

    /// When the last operation of an interval that ended at `end_ns` came back; 0 where none did.
    pub(crate) fn back_ns(&self, end_ns: u64) -> u64 {
        if self.last_back_ns == 0 && self.ops > 0 { end_ns } else { self.last_back_ns }
    }

    /// Whether anything was wanted or outstanding, or its device silent.
    pub(crate) fn is_any(&self) -> bool {
        self.wanted() > 0 || self.backlog != Backlog::default() || self.silent_ns > 0
    }

    /// Adds other counts over the same thresholds. What was outstanding at an instant is not added up.
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

impl From<&Cell> for CellCounts {
    fn from(cell: &Cell) -> Self {
        let padded = |counts: &[u64]| {
            let mut all = [0; THRESHOLDS_MAX];
            all[..counts.len()].copy_from_slice(counts);
            all
        };
        Self {
            ops: cell.ops,
            bytes: cell.bytes,
            errors: cell.errors,
            overtime: cell.overtime,
            unissued: cell.unissued,
            lost: cell.lost,
            missed: cell.missed,
            missed_least: cell.missed_least,
            late: cell.late,
            late_max_ns: cell.late_max_ns,
            silent_ns: cell.silent_ns,
            active_ns: 0,
            last_back_ns: cell.last_back_ns,
            held_by: cell.held_by,
            judged_over: padded(cell.judged.counts()),
            judged_least_over: padded(cell.judged_least.counts()),
            response_over: padded(cell.response.counts()),
            service_over: padded(cell.service_over.counts()),
            slow: cell.slow,
            backlog: cell.backlog,
        }
    }
}

/// The counts of one interval.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IntervalCounts {
    /// 0 for the first interval of the run.
    pub index: u64,
    /// Nominal seconds since the run began, as in ACT's log.
    pub after_sec: u64,
    /// End of the interval, nanoseconds since the run began. Earlier than nominal only when the run
    /// stopped within the interval.
    pub end_ns: u64,
    /// One for each stream on each device, see [`crate::cell::Layout::cell`].
    pub cells: Vec<CellCounts>,
    /// Of what `cells` counted, the operations that were wanted in earlier slices.
    pub carried: Vec<Carried>,
    /// Gaps between two looks at the completion queue, one for each completion.
    pub gaps: u64,
    /// Those longer than 5 % of the tightest threshold.
    pub gaps_over: u64,
    /// The longest of them, nanoseconds.
    pub gap_max_ns: u64,
    /// Most operations in flight at once, on all devices.
    pub in_flight_max: u64,
    /// CPU time of the issuing threads, nanoseconds.
    pub cpu_ns: u64,
    /// Time for which they were ready to run and had no CPU, nanoseconds.
    pub run_delay_ns: u64,
}

impl IntervalCounts {
    /// Takes over the counts of `interval`, reusing the memory. `tightest_ns` is the smallest
    /// threshold; `after_sec` is left to the caller.
    pub fn set(&mut self, interval: &Interval, tightest_ns: u64) {
        self.index = interval.index;
        self.end_ns = interval.end_ns;
        self.cells.clear();
        self.cells.extend(interval.cells.iter().map(CellCounts::from));
        self.carried.clone_from(&interval.carried);
        self.gaps = interval.gap.len();
        self.gaps_over = gaps_over(&interval.gap, harmless_gap_ns(tightest_ns));
        self.gap_max_ns = interval.gap.max();
        self.in_flight_max = interval.in_flight_max;
        self.cpu_ns = interval.cpu_ns;
        self.run_delay_ns = interval.run_delay_ns;
    }
}
