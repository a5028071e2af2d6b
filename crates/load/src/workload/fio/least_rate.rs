//! The minimum rate of a job, cycle by cycle.
//!
//! Source: fio's `__check_min_rate()`: checked on completions, after the first two seconds, over the time since the
//! last check, at least a cycle.

use super::job::{DIRECTIONS, Job, Wanted};
use results::times::Times;
use results::units::{self, Grouped, duration};

/// Time that a job has to settle.
const SETTLE_NS: u64 = 2_000_000_000;

/// A cycle in which this program was late for more than this fraction allows no conclusion about the device: one in
/// this many.
const OWN_ONE_IN: u64 = 10;

/// Operations of a direction in the current cycle.
#[derive(Debug, Clone, Copy, Default)]
struct Cycle {
    began_ns: Option<u64>,
    ops: u64,
    bytes: u64,
    lag_max_ns: u64,
}

#[derive(Debug)]
pub(super) struct LeastRate {
    wanted: [Wanted; DIRECTIONS],
    cycle_ns: u64,
    settled_ns: u64,
    cycles: [Cycle; DIRECTIONS],
}

impl LeastRate {
    /// The minimum rate of `job`, which begins at `from_ns`.
    pub(super) fn new(job: &Job, from_ns: u64) -> Self {
        let settled_ns = from_ns.saturating_add(job.ramp_ns).saturating_add(SETTLE_NS);
        Self { wanted: job.least, cycle_ns: job.rate_cycle_ns.max(1), settled_ns, cycles: Default::default() }
    }

    /// Counts an operation of `bytes` in `direction`. Returns a description if this ends a cycle below the minimum
    /// rate.
    #[inline]
    pub(super) fn took(&mut self, direction: usize, bytes: u32, times: &Times) -> Option<String> {
        match self.wanted[direction] {
            Wanted::Unlimited => None,
            wanted => self.check(direction, wanted, bytes, times),
        }
    }

    fn check(&mut self, direction: usize, wanted: Wanted, bytes: u32, times: &Times) -> Option<String> {
        let now_ns = times.completed_ns();
        if now_ns < self.settled_ns {
            return None;
        }
        let cycle = &mut self.cycles[direction];
        cycle.ops += 1;
        cycle.bytes += u64::from(bytes);
        cycle.lag_max_ns = cycle.lag_max_ns.max(times.lag_ns());
        let began_ns = cycle.began_ns.unwrap_or(now_ns);
        let passed_ns = now_ns.saturating_sub(began_ns);
        if cycle.began_ns.is_some() && passed_ns < self.cycle_ns {
            return None;
        }
        let Cycle { ops, bytes, lag_max_ns, .. } =
            std::mem::replace(cycle, Cycle { began_ns: Some(now_ns), ..Cycle::default() });
        if passed_ns == 0 || lag_max_ns > passed_ns / OWN_ONE_IN {
            return None;
        }
        let (did, least, unit) = match wanted {
            Wanted::Bytes(least) => (bytes, least, "bytes of "),
            Wanted::Iops(least) => (ops, least, ""),
            Wanted::Unlimited => return None,
        };
        let is_short = u128::from(did) * 1_000_000_000 < u128::from(least) * u128::from(passed_ns);
        is_short.then(|| {
            format!(
                "it did {} {unit}{} a second in the {} up to {}; its least rate is {}",
                units::number(did as f64 * 1e9 / passed_ns as f64),
                ["reads", "writes", "trims"][direction],
                duration(passed_ns),
                duration(now_ns),
                Grouped(least)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Cycles below the minimum of 9 reads a second, for reads that complete at these instants.
    fn of(instants_ms: &[u64], lag_ms: u64) -> Vec<(u64, String)> {
        let least = [Wanted::Iops(9), Wanted::Unlimited, Wanted::Unlimited];
        let mut rate = LeastRate::new(&Job { least, ..Job::default() }, 0);
        let took = |ms: &u64| {
            let (done_ns, lag_ns) = (ms * MS, lag_ms * MS);
            let times = Times::new(done_ns - lag_ns, done_ns - lag_ns, done_ns, done_ns);
            rate.took(0, 4096, &times).map(|short| (*ms, short))
        };
        instants_ms.iter().filter_map(took).collect()
    }

    #[test]
    fn a_cycle_with_too_few_operations_is_told_and_what_came_before_two_seconds_is_not() {
        let each = |step: usize| (100..5_000).step_by(step).collect::<Vec<_>>();
        assert_eq!(of(&each(100), 0), []);
        let short = of(&each(200), 0);
        assert_eq!(short[0].0, 3_100, "the first second after the settling time");
        assert_eq!(short[0].1, "it did 5 reads a second in the 1 s up to 3.1 s; its least rate is 9");
        assert_eq!(of(&[2_000, 2_100, 4_900], 0).len(), 1, "a stall is one long cycle");
    }

    #[test]
    fn a_cycle_in_which_this_program_was_late_says_nothing() {
        assert_eq!(of(&[2_100, 2_600, 3_100, 3_600, 4_100], 150), []);
    }
}
