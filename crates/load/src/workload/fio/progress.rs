//! State of a job that its own thread changes while others look: statistics, and the ends of jobs that end with each other.

use super::verify::VerifyCounts;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Live statistics of a job. Only the job's own thread writes them.
#[derive(Debug, Default)]
pub struct Progress {
    in_flight: AtomicU32,
    /// Operations begun since the last completion: they are counted at the depth that they reach together.
    begun: AtomicU32,
    levels: [AtomicU64; 7],
    depth: AtomicU32,
    counts_from_ns: AtomicU64,
    missed: OnceLock<String>,
    /// Operations begun.
    ops: AtomicU64,
    /// Operations begun that read back what was written.
    read_back: AtomicU64,
    zone_resets: AtomicU64,
    /// Counts of its verification.
    pub verify: VerifyCounts,
    /// Lanes that completed their work.
    lanes_done: AtomicU32,
}

impl Progress {
    /// Number of operations by depth at submission, including the operation itself: 1, 2 to 3, 4 to 7, and so on; 64
    /// and more.
    pub fn levels(&self) -> [u64; 7] {
        std::array::from_fn(|level| self.levels[level].load(Ordering::Relaxed))
    }

    /// The depth that it has found up to now, if it looks for one.
    pub fn depth(&self) -> Option<u32> {
        Some(self.depth.load(Ordering::Relaxed)).filter(|depth| *depth > 0)
    }

    pub(super) fn set_depth(&self, depth: u32) {
        self.depth.store(depth, Ordering::Relaxed);
    }

    /// Start of the measured result, nanoseconds of the run: before, the job searched for its depth.
    pub fn counts_from_ns(&self) -> u64 {
        self.counts_from_ns.load(Ordering::Relaxed)
    }

    pub(super) fn set_counts_from(&self, from_ns: u64) {
        self.counts_from_ns.store(from_ns, Ordering::Relaxed);
    }

    /// Describes the latency or rate target that the job missed, which ended it.
    pub fn missed(&self) -> Option<&str> {
        self.missed.get().map(String::as_str)
    }

    /// Records the first violation; later ones are ignored.
    pub(super) fn set_missed(&self, what: String) {
        let _ = self.missed.set(what);
    }

    /// Operations begun, without followers and those of a verification.
    pub fn ops(&self) -> u64 {
        self.ops.load(Ordering::Relaxed) - self.read_back.load(Ordering::Relaxed)
    }

    pub(super) fn count_read_back(&self) {
        self.read_back.store(self.read_back.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Zone resets, including those of emulated zones.
    pub fn zone_resets(&self) -> u64 {
        self.zone_resets.load(Ordering::Relaxed)
    }

    pub(super) fn count_zone_reset(&self) {
        self.zone_resets.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of lanes that completed their work before their time was over.
    pub fn lanes_done(&self) -> usize {
        self.lanes_done.load(Ordering::Relaxed) as usize
    }

    pub(super) fn lane_is_done(&self) {
        self.lanes_done.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn begin(&self) {
        let add = |count: &AtomicU32| count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        add(&self.in_flight);
        add(&self.begun);
        self.ops.store(self.ops.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn end(&self) {
        let (in_flight, begun) = (self.in_flight.load(Ordering::Relaxed), self.begun.load(Ordering::Relaxed));
        if begun > 0 {
            let level = &self.levels[(in_flight.max(1).ilog2() as usize).min(6)];
            level.store(level.load(Ordering::Relaxed) + u64::from(begun), Ordering::Relaxed);
            self.begun.store(0, Ordering::Relaxed);
        }
        self.in_flight.store(in_flight.saturating_sub(1), Ordering::Relaxed);
    }
}

/// Ends jobs with each other.
#[derive(Debug, Clone)]
pub(super) struct Exit {
    /// By group of the run: the end of its jobs, nanoseconds since the run began.
    pub(super) groups: Arc<[AtomicU64]>,
    /// Index of this job's group in `groups`.
    pub(super) own: usize,
    /// Groups whose jobs end with this one.
    pub(super) ends: std::ops::Range<usize>,
}

impl Exit {
    /// End of its own jobs, nanoseconds since the run began.
    #[inline]
    pub(super) fn at_ns(&self) -> u64 {
        self.groups[self.own].load(Ordering::Relaxed)
    }
}
