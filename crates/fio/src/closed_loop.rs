//! Bounds of a closed loop: pauses (`thinktime`), the search for the depth that meets a latency target, and a queue
//! that drains before it is refilled (`iodepth_low`).
//!
//! After each completion, `ThinkTimePauses` and `DepthSearch` return how many operations may be in flight, and from when
//! on. As in fio, the queue drains before a pause and before a smaller depth is tried.

use super::NS_PER_SEC;
use super::progress::{LATENCY_MISSED, Progress};
use load::choice::with_defaults;

/// Pauses of a job (`thinktime`), with the defaults filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThinkTime {
    pub pause_ns: u64,
    /// Operations between two pauses; 0: not limited by number.
    pub blocks: u64,
    /// Time between two pauses; 0: not limited by time.
    pub work_ns: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct ThinkTimeOptions {
    pub pause_ns: u64,
    /// `thinktime_spin`: the part of the pause in which fio spins.
    pub spin_ns: u64,
    /// Operations between two pauses.
    pub blocks: Option<u64>,
    /// Time between two pauses; 0: not limited by time.
    pub work_ns: u64,
}

impl ThinkTimeOptions {
    pub(super) fn think_time(self) -> Option<ThinkTime> {
        (self.pause_ns > 0).then(|| ThinkTime {
            pause_ns: self.pause_ns.max(self.spin_ns),
            // Default: one operation, then a pause, unless a time is given.
            blocks: self.blocks.unwrap_or(u64::from(self.work_ns == 0)),
            work_ns: self.work_ns,
        })
    }
}

with_defaults! {
    #[derive(Debug, Clone, Copy)]
    pub struct RefillOptions {
        /// Number of completions after which a closed loop that reached its depth issues again
        /// (`iodepth_batch_complete_min`).
        pub after: u64 = 1,
        /// Number of operations in flight at which a closed loop that reached its depth issues again (`iodepth_low`).
        pub low: u64 = u64::MAX,
    }
}

impl RefillOptions {
    /// Operations in flight at which a full queue of `slots` is refilled; `None`: each completion is replaced at once.
    pub(super) fn refill_at(self, slots: u64) -> Option<u32> {
        let at = self.low.max(1).min(slots.saturating_sub(self.after.max(1)));
        (at + 1 < slots).then_some(at as u32)
    }
}

with_defaults! {
    /// `latency_target` and its further options.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct LatencyTargetOptions {
        pub latency_ns: u64 = 0,
        /// Time per depth, nanoseconds.
        pub window_ns: u64 = 0,
        /// Percent of operations that must meet the target.
        pub percentile: f64 = 100.0,
    }
}

/// Bound on the operations in flight of a closed loop, in addition to the job's depth.
#[derive(Debug)]
pub(super) enum ClosedLoopBound {
    Depth,
    ThinkTimePauses(ThinkTimePauses),
    Search(DepthSearch),
    /// An operation begins at `next_ns`, and the next at least `period_ns` later. For a depth of 1.
    Paced {
        period_ns: u64,
        next_ns: u64,
    },
    /// Once the depth is reached, nothing is issued until the queue has drained to `refill_at` operations.
    Drains {
        refill_at: u32,
    },
}

#[derive(Debug)]
pub(super) struct ThinkTimePauses {
    think: ThinkTime,
    /// Operations since the last pause.
    pub(super) ops_begun: u64,
    pause_end_ns: u64,
}

impl ThinkTimePauses {
    pub(super) fn new(think: ThinkTime, from_ns: u64) -> Self {
        Self {
            think,
            ops_begun: 0,
            pause_end_ns: from_ns,
        }
    }

    pub(super) fn width(&mut self, now_ns: u64, in_flight: u32) -> (u32, u64) {
        let ThinkTime {
            pause_ns,
            blocks,
            work_ns,
        } = self.think;
        let is_due = (blocks > 0 && self.ops_begun >= blocks)
            || (work_ns > 0 && now_ns >= self.pause_end_ns.saturating_add(work_ns));
        if is_due && in_flight > 0 {
            return (0, now_ns);
        }
        if is_due {
            (self.ops_begun, self.pause_end_ns) = (0, now_ns.saturating_add(pause_ns));
        }
        // Further operations that may begin before the next pause.
        let ops_allowed = if blocks > 0 {
            u32::try_from(blocks - self.ops_begun).unwrap_or(u32::MAX)
        } else {
            u32::MAX
        };
        (in_flight.saturating_add(ops_allowed), self.pause_end_ns)
    }
}

/// The search for the greatest depth at which latencies stay below a target. Source: fio's `lat_target_check()` and its
/// callees. Unlike fio, flashproof never retries the full depth after a failure.
#[derive(Debug, Default)]
pub(super) struct DepthSearch {
    target: LatencyTargetOptions,
    depth_max: u32,
    depth: u32,
    /// Greatest depth that met the target, and smallest depth that missed it.
    low: u32,
    high: Option<u32>,
    /// Number of consecutive windows in which the depth below `high` met the target.
    stable: u32,
    /// Start of the current window, nanoseconds.
    began_ns: u64,
    ends_ns: u64,
    ops: u64,
    slow_ops: u64,
    /// True while operations in flight drain before the next window.
    is_draining: bool,
    /// True once the depth is found: the current window measures the result.
    is_last: bool,
    pub(super) is_done: bool,
}

impl DepthSearch {
    pub(super) fn new(target: LatencyTargetOptions, depth_max: u32, from_ns: u64) -> Self {
        let ends_ns = from_ns.saturating_add(target.window_ns);
        Self {
            target,
            depth_max,
            depth: 1,
            low: 1,
            began_ns: from_ns,
            ends_ns,
            ..Self::default()
        }
    }

    pub(super) fn record(&mut self, now_ns: u64, latency_ns: u64, progress: &Progress) {
        if self.is_draining || now_ns < self.began_ns || self.is_done {
            return;
        }
        self.ops += 1;
        let is_over = latency_ns > self.target.latency_ns;
        self.slow_ops += u64::from(is_over);
        if is_over && self.target.percentile >= 100.0 {
            self.missed_target(now_ns, progress);
        } else if now_ns >= self.ends_ns {
            let met_pct = (self.ops - self.slow_ops) as f64 * 100.0 / self.ops as f64;
            if met_pct >= self.target.percentile {
                self.met_target(now_ns, progress)
            } else {
                self.missed_target(now_ns, progress)
            }
        }
        progress.depth.set(self.depth.into());
    }

    fn missed_target(&mut self, now_ns: u64, progress: &Progress) {
        self.is_last = false;
        progress.counts_from_ns.set(0);
        if self.depth == 1 {
            // As in fio, a miss at depth 1 ends the job only with latency_percentile=100.
            self.is_done = self.target.percentile >= 100.0;
            if self.is_done {
                let reason = "at queue depth 1 an operation took longer than latency_target";
                progress.set_failure(LATENCY_MISSED, reason.into());
            }
            return self.begin(now_ns);
        }
        self.high = Some(self.depth);
        if self.depth == self.low {
            self.low -= 1;
        }
        self.depth = (self.depth + self.low) / 2;
        self.stable = 0;
        self.is_draining = true;
    }

    fn met_target(&mut self, now_ns: u64, progress: &Progress) {
        let depth_before = self.depth;
        self.low = depth_before;
        if self.high == Some(depth_before + 1) {
            self.stable += 1;
        }
        let next = self
            .high
            .map_or(depth_before * 2, |high| (depth_before + high) / 2);
        self.depth = next.clamp(1, self.depth_max);
        self.is_done = self.is_last && self.depth == depth_before;
        self.is_last = self.depth == depth_before;
        if self.is_last && !self.is_done {
            // The result's window is aligned to seconds of the run, because reports count whole seconds.
            let from_ns = now_ns.div_ceil(NS_PER_SEC) * NS_PER_SEC;
            progress.counts_from_ns.set(from_ns);
            self.begin(from_ns);
            let seconds = self.target.window_ns.div_ceil(NS_PER_SEC).max(1);
            self.ends_ns = from_ns.saturating_add(seconds.saturating_mul(NS_PER_SEC));
        } else {
            self.begin(now_ns);
        }
    }

    fn begin(&mut self, from_ns: u64) {
        (self.began_ns, self.ends_ns) = (from_ns, from_ns.saturating_add(self.target.window_ns));
        (self.ops, self.slow_ops) = (0, 0);
    }

    pub(super) fn width(&mut self, now_ns: u64, in_flight: u32) -> (u32, u64) {
        if self.is_draining && in_flight > 0 {
            return (0, now_ns);
        }
        if std::mem::take(&mut self.is_draining) {
            self.begin(now_ns);
        }
        (self.depth, now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The depths tried on a drive whose operations take `latency_ns(depth)`; at most `windows` of them.
    fn tried(
        target: LatencyTargetOptions,
        most: u32,
        windows: usize,
        latency_ns: impl Fn(u32) -> u64,
    ) -> (Vec<u32>, DepthSearch) {
        let mut search = DepthSearch::new(target, most, 0);
        let progress = Progress::default();
        let mut now_ns = 0;
        let mut depths = Vec::new();
        for _ in 0..windows {
            let (depth, _) = search.width(now_ns, 0);
            depths.push(depth);
            let until_ns = search.ends_ns;
            while !search.is_done && !search.is_draining && search.ends_ns == until_ns {
                now_ns += 1_000_000;
                search.record(now_ns, latency_ns(depth), &progress);
            }
            if search.is_done {
                break;
            }
        }
        (depths, search)
    }

    #[test]
    fn a_latency_target_doubles_the_depth_until_it_is_missed_and_then_bisects() {
        let target = LatencyTargetOptions {
            latency_ns: 1_000,
            window_ns: 50_000_000,
            percentile: 99.0,
        };
        let (depths, search) = tried(target, 64, 99, |depth| u64::from(depth) * 100);
        assert_eq!(
            depths,
            [1, 2, 4, 8, 16, 12, 10, 11, 10, 10],
            "at depth 10 an operation takes 10 times 100 ns, the target; depth 10 is found, then measured"
        );
        assert!(search.is_done);
        // All depths meet the target in the first search, and none in the second.
        assert_eq!(tried(target, 6, 99, |_| 5).0, [1, 2, 4, 6, 6]);
        assert_eq!(
            tried(target, 64, 5, |_| 5_000).0,
            [1, 1, 1, 1, 1],
            "the search continues at depth 1, as in fio"
        );
        let all = LatencyTargetOptions {
            percentile: 100.0,
            ..target
        };
        let (depths, search) = tried(all, 64, 99, |_| 5_000);
        assert!(depths == [1] && search.is_done, "{depths:?}");
        assert_eq!(
            tried(all, 9, 99, |depth| if depth > 8 { 2_000 } else { 1 }).0,
            [1, 2, 4, 8, 9, 8, 8]
        );
    }

    #[test]
    fn thinktime_pauses_after_a_number_of_operations_or_a_time() {
        let think = ThinkTime {
            pause_ns: 500,
            blocks: 3,
            work_ns: 0,
        };
        let mut pauses = ThinkTimePauses::new(think, 0);
        assert_eq!(pauses.width(0, 0), (3, 0));
        pauses.ops_begun = 2;
        assert_eq!(pauses.width(10, 1), (2, 0), "one more than in flight");
        pauses.ops_begun += 1;
        assert_eq!(pauses.width(20, 1).0, 0, "wait for the operation in flight");
        assert_eq!(pauses.width(30, 0), (3, 530));
        let mut pauses = ThinkTimePauses::new(
            ThinkTime {
                pause_ns: 500,
                blocks: 0,
                work_ns: 1_000,
            },
            0,
        );
        pauses.ops_begun = 9;
        assert_eq!(pauses.width(999, 4), (u32::MAX, 0));
        assert_eq!(pauses.width(1_000, 4).0, 0);
        assert_eq!(pauses.width(1_100, 0), (u32::MAX, 1_600));
        assert_eq!(pauses.width(2_599, 1), (u32::MAX, 1_600));
        assert_eq!(pauses.width(2_600, 0), (u32::MAX, 3_100));
    }
}
