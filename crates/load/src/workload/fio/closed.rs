//! Depth of a job without a rate: pauses, and the search for the depth that a latency allows.
//!
//! After each completion both give the number of operations that may be in flight now, and from which instant on. As in
//! fio, operations in flight drain before a pause and before a smaller depth is tried.

use super::progress::Progress;

/// Options of a job with pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Think {
    pub pause_ns: u64,
    /// Operations between two pauses; 0: not limited by number.
    pub blocks: u64,
    /// Time between two pauses; 0: not limited by time.
    pub work_ns: u64,
}

/// Options of a job that searches for a depth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// Latency target.
    pub latency_ns: u64,
    /// Time per depth, nanoseconds.
    pub window_ns: u64,
    /// Percent of operations that must meet it.
    pub percentile: f64,
    /// Continues after the depth is found, and follows changes.
    pub goes_on: bool,
}

/// Bound of a closed loop's operations beside its depth.
#[derive(Debug)]
pub(super) enum Bound {
    Depth,
    Pauses(Pauses),
    Search(Search),
    Drains(Drain),
}

/// A depth that, once reached, drains before more operations are issued.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drain {
    /// Operations in flight down to which it drains.
    pub(super) refill_at: u32,
}

impl Drain {
    pub(super) fn width(self, now_ns: u64, in_flight: u32) -> (u32, u64) {
        (if in_flight <= self.refill_at { u32::MAX } else { in_flight }, now_ns)
    }
}

#[derive(Debug)]
pub(super) struct Pauses {
    think: Think,
    /// Operations since the last pause.
    begun: u64,
    /// End of the last pause, nanoseconds.
    since_ns: u64,
}

impl Pauses {
    pub(super) fn new(think: Think, from_ns: u64) -> Self {
        Self { think, begun: 0, since_ns: from_ns }
    }

    #[inline]
    pub(super) fn begin(&mut self) {
        self.begun += 1;
    }

    pub(super) fn width(&mut self, now_ns: u64, in_flight: u32) -> (u32, u64) {
        let Think { pause_ns, blocks, work_ns } = self.think;
        let is_due =
            (blocks > 0 && self.begun >= blocks) || (work_ns > 0 && now_ns >= self.since_ns.saturating_add(work_ns));
        if is_due && in_flight > 0 {
            return (0, now_ns);
        }
        if is_due {
            (self.begun, self.since_ns) = (0, now_ns.saturating_add(pause_ns));
        }
        // Operations that may begin before the next pause, beside those in flight.
        let more = if blocks > 0 { u32::try_from(blocks - self.begun).unwrap_or(u32::MAX) } else { u32::MAX };
        (in_flight.saturating_add(more), self.since_ns)
    }
}

/// The search for the greatest depth at which latencies stay below a target.
///
/// Source: fio's `lat_target_check()` and what it calls. Unlike fio's, the search never retries the full depth after a
/// failure.
#[derive(Debug)]
pub(super) struct Search {
    target: Target,
    /// Depth of the job.
    most: u32,
    depth: u32,
    /// The greatest depth that held, and the smallest that did not.
    low: u32,
    high: Option<u32>,
    /// Times in a row that the depth below `high` held.
    stable: u32,
    /// Start of the current window, nanoseconds.
    began_ns: u64,
    ends_ns: u64,
    ops: u64,
    over: u64,
    /// True while operations in flight drain before the next window.
    drains: bool,
    /// The depth is found, and the current window measures the result.
    is_last: bool,
    pub(super) is_done: bool,
}

/// The window that is the result begins and ends with a second of the run, as reports count.
const NS_PER_SEC: u64 = 1_000_000_000;

impl Search {
    pub(super) fn new(target: Target, most: u32, from_ns: u64) -> Self {
        Self {
            target,
            most,
            depth: 1,
            low: 1,
            high: None,
            stable: 0,
            began_ns: from_ns,
            ends_ns: from_ns.saturating_add(target.window_ns),
            ops: 0,
            over: 0,
            drains: false,
            is_last: false,
            is_done: false,
        }
    }

    /// An operation was done at `now_ns`.
    pub(super) fn took(&mut self, now_ns: u64, latency_ns: u64, progress: &Progress) {
        if self.drains || now_ns < self.began_ns || self.is_done {
            return;
        }
        self.ops += 1;
        let is_over = latency_ns > self.target.latency_ns;
        self.over += u64::from(is_over);
        if is_over && self.target.percentile >= 100.0 {
            self.failed(now_ns, progress);
        } else if now_ns >= self.ends_ns {
            let held = (self.ops - self.over) as f64 * 100.0 / self.ops as f64;
            match held >= self.target.percentile {
                true => self.held(now_ns, progress),
                false => self.failed(now_ns, progress),
            }
        }
        progress.set_depth(self.depth);
    }

    fn failed(&mut self, now_ns: u64, progress: &Progress) {
        self.is_last = false;
        progress.set_counts_from(0);
        if self.depth == 1 {
            // fio gives up only if no operation at all may be slower.
            self.is_done = self.target.percentile >= 100.0;
            if self.is_done {
                progress.set_missed("with one in flight an operation took longer than latency_target".into());
            }
            return self.begin(now_ns);
        }
        self.high = Some(self.depth);
        if self.depth == self.low {
            self.low -= 1;
        }
        self.depth = (self.depth + self.low) / 2;
        self.stable = 0;
        self.drains = true;
    }

    fn held(&mut self, now_ns: u64, progress: &Progress) {
        let before = self.depth;
        self.low = before;
        if self.high == Some(before + 1) {
            self.stable += 1;
            // A depth that failed before may hold now.
            if self.target.goes_on && self.stable >= 3 {
                (self.high, self.stable) = (Some(before + 2), 0);
            }
        }
        self.depth = match self.high {
            Some(high) => (before + high) / 2,
            None => before * 2,
        }
        .clamp(1, self.most);
        self.is_done = self.is_last && self.depth == before;
        self.is_last = !self.target.goes_on && self.depth == before;
        if self.is_last && !self.is_done {
            let from_ns = now_ns.div_ceil(NS_PER_SEC) * NS_PER_SEC;
            progress.set_counts_from(from_ns);
            self.begin(from_ns);
            let seconds = self.target.window_ns.div_ceil(NS_PER_SEC).max(1);
            self.ends_ns = from_ns.saturating_add(seconds.saturating_mul(NS_PER_SEC));
        } else {
            self.begin(now_ns);
        }
    }

    fn begin(&mut self, from_ns: u64) {
        (self.began_ns, self.ends_ns) = (from_ns, from_ns.saturating_add(self.target.window_ns));
        (self.ops, self.over) = (0, 0);
    }

    pub(super) fn width(&mut self, now_ns: u64, in_flight: u32) -> (u32, u64) {
        if self.drains && in_flight > 0 {
            return (0, now_ns);
        }
        if std::mem::take(&mut self.drains) {
            self.begin(now_ns);
        }
        (self.depth, now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The depths tried on a drive whose operations take `latency_ns(depth)`; at most `windows` of them.
    fn tried(target: Target, most: u32, windows: usize, latency_ns: impl Fn(u32) -> u64) -> (Vec<u32>, Search) {
        let (mut search, progress) = (Search::new(target, most, 0), Progress::default());
        let (mut now_ns, mut depths) = (0, Vec::new());
        for _ in 0..windows {
            let (depth, _) = search.width(now_ns, 0);
            depths.push(depth);
            let until_ns = search.ends_ns;
            while !search.is_done && !search.drains && search.ends_ns == until_ns {
                now_ns += 1_000_000;
                search.took(now_ns, latency_ns(depth), &progress);
            }
            if search.is_done {
                break;
            }
        }
        (depths, search)
    }

    #[test]
    fn the_depth_doubles_until_it_fails_and_is_then_bisected() {
        let target = Target { latency_ns: 1_000, window_ns: 50_000_000, percentile: 99.0, goes_on: false };
        let (depths, search) = tried(target, 64, 99, |depth| u64::from(depth) * 100);
        assert_eq!(
            depths,
            [1, 2, 4, 8, 16, 12, 10, 11, 10, 10],
            "10 times 100 ns is the target, found and then measured"
        );
        assert!(search.is_done);
        // All depths hold, or none.
        assert_eq!(tried(target, 6, 99, |_| 5).0, [1, 2, 4, 6, 6]);
        assert_eq!(tried(target, 64, 5, |_| 5_000).0, [1, 1, 1, 1, 1], "it goes on at a depth of one, as fio does");
        let all = Target { percentile: 100.0, ..target };
        let (depths, search) = tried(all, 64, 99, |_| 5_000);
        assert!(depths == [1] && search.is_done, "{depths:?}");
        assert_eq!(tried(all, 9, 99, |depth| if depth > 8 { 2_000 } else { 1 }).0, [1, 2, 4, 8, 9, 8, 8]);
        // The search follows the drive for as long as it runs.
        let (depths, search) = tried(Target { goes_on: true, ..target }, 64, 30, |depth| u64::from(depth) * 100);
        assert!(
            !search.is_done && depths.len() == 30 && depths[20..].iter().all(|depth| (9..=11).contains(depth)),
            "{depths:?}"
        );
    }

    #[test]
    fn a_pause_comes_after_so_many_operations_or_so_much_time() {
        let think = Think { pause_ns: 500, blocks: 3, work_ns: 0 };
        let mut pauses = Pauses::new(think, 0);
        assert_eq!(pauses.width(0, 0), (3, 0));
        (0..2).for_each(|_| pauses.begin());
        assert_eq!(pauses.width(10, 1), (2, 0), "one more beside that in flight");
        pauses.begin();
        assert_eq!(pauses.width(20, 1).0, 0, "what was issued is waited for");
        assert_eq!(pauses.width(30, 0), (3, 530));
        let mut pauses = Pauses::new(Think { pause_ns: 500, blocks: 0, work_ns: 1_000 }, 0);
        (0..9).for_each(|_| pauses.begin());
        assert_eq!(pauses.width(999, 4), (u32::MAX, 0));
        assert_eq!(pauses.width(1_000, 4).0, 0);
        assert_eq!(pauses.width(1_100, 0), (u32::MAX, 1_600));
        assert_eq!(pauses.width(2_599, 1), (u32::MAX, 1_600));
        assert_eq!(pauses.width(2_600, 0), (u32::MAX, 3_100));
    }
}
