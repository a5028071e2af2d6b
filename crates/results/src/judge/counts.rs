//! The exact counts of one interval: all that the judge wants to know of it.
//!
//! Made from a live [`Interval`] or from the lines of a run directory; both must be equal.

use crate::buckets::THRESHOLDS_MAX;
use crate::cell::{Backlog, Cell, Interval, Latencies, harmless_gap_ns};
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
    /// Those of `ops` that came back only after the end of the run.
    pub overtime: u64,
    /// Operations that were wanted but never came back.
    pub unissued: u64,
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
    /// Operations that the verdict counts: succeeded, failed and never issued.
    pub fn wanted(&self) -> u64 {
        self.ops.saturating_add(self.errors).saturating_add(self.unissued)
    }

    /// Whether anything was wanted or outstanding.
    pub(crate) fn is_any(&self) -> bool {
        self.wanted() > 0 || self.backlog != Backlog::default()
    }

    /// Adds other counts over the same thresholds. What was outstanding at an instant is not added up.
    pub fn add(&mut self, other: &Self) {
        // Saturating, because the numbers may come from a file that somebody edited.
        let add = |mine: &mut u64, theirs: &u64| *mine = mine.saturating_add(*theirs);
        add(&mut self.ops, &other.ops);
        add(&mut self.bytes, &other.bytes);
        add(&mut self.errors, &other.errors);
        add(&mut self.overtime, &other.overtime);
        add(&mut self.unissued, &other.unissued);
        let add_all = |mine: &mut [u64], theirs: &[u64]| mine.iter_mut().zip(theirs).for_each(|(m, t)| add(m, t));
        add_all(&mut self.judged_over, &other.judged_over);
        add_all(&mut self.judged_least_over, &other.judged_least_over);
        add_all(&mut self.response_over, &other.response_over);
        add_all(&mut self.service_over, &other.service_over);
        self.slow.add(&other.slow);
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
        self.gaps = interval.gap.len();
        self.gaps_over = gaps_over(&interval.gap, harmless_gap_ns(tightest_ns));
        self.gap_max_ns = interval.gap.max();
        self.in_flight_max = interval.in_flight_max;
        self.cpu_ns = interval.cpu_ns;
        self.run_delay_ns = interval.run_delay_ns;
    }
}
