//! The exact counts of one interval: the judge's input.
//!
//! Made from a live [`Interval`] or from the lines of a run directory; both must be equal.

use crate::cell::{Carried, Interval, Latencies, harmless_gap_ns};
use crate::counts::CellCounts;

/// Number of gaps longer than `limit_ns`, to the histogram's resolution of 1 %.
pub(crate) fn gaps_over(gap: &Latencies, limit_ns: u64) -> u64 {
    gap.len() - gap.count_between(0, limit_ns)
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IntervalCounts {
    /// 0 for the first interval of the run.
    pub index: u64,
    /// Nominal seconds since the run began, as in ACT's log.
    pub after_sec: u64,
    /// End of the interval, nanoseconds since the run began. Earlier than nominal only when the run
    /// stopped within the interval.
    pub end_ns: u64,
    /// One per stream and device, see [`crate::cell::Layout::cell`].
    pub cells: Vec<CellCounts>,
    /// Operations in `cells` that were wanted in earlier slices.
    pub carried: Vec<Carried>,
    /// Gaps between two looks at the completion queue, one for each completion.
    pub gaps: u64,
    /// Gaps longer than 5 % of the tightest threshold.
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
        self.cells.extend(interval.cells.iter().map(|cell| cell.counts));
        self.carried.clone_from(&interval.carried);
        self.gaps = interval.gap.len();
        self.gaps_over = gaps_over(&interval.gap, harmless_gap_ns(tightest_ns));
        self.gap_max_ns = interval.gap.max();
        self.in_flight_max = interval.in_flight_max;
        self.cpu_ns = interval.cpu_ns;
        self.run_delay_ns = interval.run_delay_ns;
    }
}
