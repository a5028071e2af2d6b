//! Start times of operations, fixed before the run begins.
//!
//! An even schedule is a pure function of the operation's index, `t(j) = (j + phase) / rate`, in exact integer
//! arithmetic. Nothing drifts, and shards that each take every n-th index need not communicate. A Poisson schedule is
//! split into independent Poisson processes at fractions of its rate. Together, these equal a process at the full rate.
//! The schedule of ACT's sleeping threads adds a random delay to each time of an even schedule.

use crate::rate::Rate;
use std::sync::Arc;
use sys::random::Random;

const NS_PER_SEC: u128 = 1_000_000_000;

/// Denominator of a phase: phases are 16-bit fractions of a period.
pub const PHASE_ONE: u32 = 1 << 16;

/// Phase of the `stream`-th stream of a run: multiples of the golden ratio are far apart for any number of streams.
pub fn phase(stream: usize) -> u32 {
    (stream as u32).wrapping_mul(40_503) % PHASE_ONE
}

/// Due times of a lane's operations, ascending, in nanoseconds since the run began.
#[derive(Debug, Clone)]
pub enum Schedule {
    Even(Even),
    Poisson(Poisson),
    /// Wake-ups of a thread that sleeps until each due time of an even sequence.
    Woken(Woken),
    Listed(Listed),
    Paused(Paused),
}

impl Schedule {
    /// The next due time; `None` if it exceeds 64 bits of nanoseconds.
    #[inline]
    pub fn next_ns(&mut self) -> Option<u64> {
        match self {
            Self::Even(even) => even.next_ns(),
            Self::Poisson(poisson) => poisson.next_ns(),
            Self::Woken(woken) => woken.next_ns(),
            Self::Listed(listed) => listed.next_ns(),
            Self::Paused(paused) => paused.next_ns(),
        }
    }

    /// The `count`-th of the remaining due times, if it is before `end_ns`. The next due time has the number 1.
    pub fn nth_before(&self, count: u64, end_ns: u64) -> Option<u64> {
        let mut schedule = self.clone();
        if let Self::Even(even) = &mut schedule {
            let ns = even.skip(count.checked_sub(1)?)?;
            return Some(ns).filter(|ns| *ns < end_ns);
        }
        let ns = (1..count).try_fold(schedule.next_ns()?, |ns, _| {
            if ns < end_ns {
                schedule.next_ns()
            } else {
                None
            }
        });
        ns.filter(|ns| *ns < end_ns)
    }

    /// Skips the remaining due times before `end_ns`, and returns their number.
    pub fn count_before(&mut self, end_ns: u64) -> u64 {
        if let Self::Even(even) = self
            && let Some(count) = even.pass_before(end_ns)
        {
            return count;
        }
        if let Self::Listed(listed) = self {
            return listed.pass_before(end_ns);
        }
        if let Self::Paused(paused) = self {
            return paused.pass_before(end_ns);
        }
        let mut count = 0;
        loop {
            let saved = self.clone();
            if self.next_ns().is_none_or(|ns| ns >= end_ns) {
                // The due time just taken is not before `end_ns`, so it is put back.
                *self = saved;
                return count;
            }
            count += 1;
        }
    }
}

/// Every `stride`-th operation of an even sequence, from operation `first` on. The sequence covers all devices (and
/// shards) together, so that the parts are evenly interleaved, and the number of operations in a whole period is exact.
#[derive(Debug, Clone)]
pub struct Even {
    /// Due time of the next operation: `whole + numerator / denominator` nanoseconds.
    whole_ns: u128,
    numerator: u128,
    denominator: u128,
    step_ns: u128,
    step_numerator: u128,
}

impl Even {
    /// Operations `first`, `first + stride`, ... of a sequence of `rate`, shifted by
    /// `phase` / [`PHASE_ONE`] of a period. `None` for a rate of zero.
    pub fn new(rate: Rate, first: u64, stride: u64, phase: u32) -> Option<Self> {
        if rate.is_zero() {
            return None;
        }
        // t(j) = (j * ONE + phase) * 1e9 * seconds / (ops * ONE)
        let denominator = u128::from(rate.ops()) * u128::from(PHASE_ONE);
        let period = NS_PER_SEC * u128::from(rate.seconds());
        let start =
            (u128::from(first) * u128::from(PHASE_ONE) + u128::from(phase)).checked_mul(period)?;
        let step = (u128::from(stride) * u128::from(PHASE_ONE)).checked_mul(period)?;
        Some(Self {
            whole_ns: start / denominator,
            numerator: start % denominator,
            denominator,
            step_ns: step / denominator,
            step_numerator: step % denominator,
        })
    }

    #[inline]
    fn next_ns(&mut self) -> Option<u64> {
        let at_ns = self.whole_ns.try_into().ok()?;
        self.whole_ns += self.step_ns;
        self.numerator += self.step_numerator;
        if self.numerator >= self.denominator {
            self.numerator -= self.denominator;
            self.whole_ns += 1;
        }
        Some(at_ns)
    }

    /// The due time after the next `count` due times; `None` if it exceeds 64 bits of nanoseconds.
    fn skip(&self, count: u64) -> Option<u64> {
        let step = self.step_ns.checked_mul(count.into())?;
        let numerator = self
            .step_numerator
            .checked_mul(count.into())?
            .checked_add(self.numerator)?;
        let ns = self
            .whole_ns
            .checked_add(step)?
            .checked_add(numerator / self.denominator)?;
        ns.try_into().ok()
    }

    /// Skips and counts the due times before `end_ns`, by division: a backlog can hold billions of operations.
    /// `None`, without skipping, if the division needs more than 128 bits.
    fn pass_before(&mut self, end_ns: u64) -> Option<u64> {
        // Due time k is (next + k * step) / denominator nanoseconds, rounded down for the comparison with `end_ns`.
        let next = self
            .whole_ns
            .checked_mul(self.denominator)?
            .checked_add(self.numerator)?;
        let step = self
            .step_ns
            .checked_mul(self.denominator)?
            .checked_add(self.step_numerator)?;
        let end = u128::from(end_ns).checked_mul(self.denominator)?;
        let count = end.saturating_sub(next).div_ceil(step);
        let next = count.checked_mul(step)?.checked_add(next)?;
        let count = count.try_into().ok()?;
        (self.whole_ns, self.numerator) = (next / self.denominator, next % self.denominator);
        Some(count)
    }
}

/// A Poisson process: independent, exponentially distributed gaps.
#[derive(Debug, Clone)]
pub struct Poisson {
    at_ns: f64,
    mean_gap_ns: f64,
    random: Random,
}

impl Poisson {
    pub fn new(rate: Rate, random: Random) -> Option<Self> {
        let mean_gap_ns = rate.seconds() as f64 * 1e9 / rate.ops() as f64;
        (!rate.is_zero()).then_some(Self {
            at_ns: 0.0,
            mean_gap_ns,
            random,
        })
    }

    #[inline]
    fn next_ns(&mut self) -> Option<u64> {
        // 1 - unit() is in (0, 1], so the logarithm is finite.
        self.at_ns -= (1.0 - self.random.unit()).ln() * self.mean_gap_ns;
        // Below 2^53 ns (104 days) a double still counts single nanoseconds.
        (self.at_ns < u64::MAX as f64).then_some(self.at_ns as u64)
    }
}

/// An even sequence as issued by a thread that sleeps until each due time, as ACT's threads do: the thread wakes a
/// little later, and does not sleep when a due time is already past. All threads sleep until the same times; the
/// differences between their wake-ups spread their bursts.
#[derive(Debug, Clone)]
pub struct Woken {
    even: Even,
    wake_delay_ns_max: u64,
    random: Random,
    at_ns: u64,
}

impl Woken {
    /// A thread whose lateness after each due time of `even` is uniform between 0 and `wake_delay_ns_max`.
    pub fn new(even: Even, wake_delay_ns_max: u64, random: Random) -> Self {
        Self {
            even,
            wake_delay_ns_max,
            random,
            at_ns: 0,
        }
    }

    #[inline]
    fn next_ns(&mut self) -> Option<u64> {
        let intended_ns = self.even.next_ns()?;
        if intended_ns >= self.at_ns {
            self.at_ns = intended_ns.checked_add(self.random.below(self.wake_delay_ns_max + 1))?;
        }
        Some(self.at_ns)
    }
}

/// Every `stride`-th time of an ascending list, repeated in laps. Shards share the list without a copy.
#[derive(Debug, Clone)]
pub struct Listed {
    at_ns: Arc<[u64]>,
    lap_ns: u64,
    /// Number of due times, over all laps.
    end_index: u64,
    next_index: u64,
    stride: u64,
}

impl Listed {
    /// Entries `first`, `first + stride`, ... of `at_ns`, in `laps` laps of `lap_ns` each.
    pub fn new(at_ns: Arc<[u64]>, lap_ns: u64, laps: u64, first: u64, stride: u64) -> Self {
        let end = at_ns.len() as u64 * laps;
        Self {
            at_ns,
            lap_ns,
            end_index: end,
            next_index: first,
            stride: stride.max(1),
        }
    }

    #[inline]
    fn next_ns(&mut self) -> Option<u64> {
        let count = self.at_ns.len() as u64;
        if self.next_index >= self.end_index {
            return None;
        }
        let lap = self.next_index / count;
        let index = self.next_index % count;
        self.next_index += self.stride;
        self.lap_ns
            .checked_mul(lap)?
            .checked_add(self.at_ns[index as usize])
    }

    /// Skips and counts the due times before `end_ns`, by binary search.
    fn pass_before(&mut self, end_ns: u64) -> u64 {
        let count = self.at_ns.len() as u64;
        // Laps overlap only at their ends, so the due times before `end_ns` come first in the list.
        let mut low = self.next_index;
        let mut high = self.end_index.max(self.next_index);
        while low < high {
            let middle = low + (high - low) / 2;
            let at_ns = self
                .lap_ns
                .saturating_mul(middle / count)
                .saturating_add(self.at_ns[(middle % count) as usize]);
            if at_ns < end_ns {
                low = middle + 1
            } else {
                high = middle
            }
        }
        let passed = (low - self.next_index).div_ceil(self.stride);
        self.next_index += passed * self.stride;
        passed
    }
}

/// Pauses of a schedule, and the due times of operations within a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    pub pause_ns: u64,
    /// Operations between two pauses; 0: not limited by number.
    pub ops: u64,
    /// Time between two pauses; 0: not limited by time.
    pub work_ns: u64,
    /// True if each pause delays all later operations; false if the operations due in a pause are due at its end.
    pub delays_rest: bool,
}

/// A schedule with pauses, each of which begins when the last operation before the pause is due.
#[derive(Debug, Clone)]
pub struct Paused {
    schedule: Box<Schedule>,
    pauses: Pauses,
    /// Operations since the last pause.
    ops: u64,
    pause_end_ns: u64,
    /// Sum of the pauses that delay the next operation.
    delay_ns: u64,
    /// The next due time, if it is already known.
    ahead_ns: Option<u64>,
}

impl Paused {
    pub fn new(schedule: Schedule, pauses: Pauses) -> Self {
        Self {
            schedule: Box::new(schedule),
            pauses,
            ops: 0,
            pause_end_ns: 0,
            delay_ns: 0,
            ahead_ns: None,
        }
    }

    fn next_ns(&mut self) -> Option<u64> {
        if let Some(at_ns) = self.ahead_ns.take() {
            return Some(at_ns);
        }
        let Pauses {
            pause_ns,
            ops,
            work_ns,
            delays_rest,
        } = self.pauses;
        let at_ns = self
            .schedule
            .next_ns()?
            .checked_add(self.delay_ns)?
            .max(self.pause_end_ns);
        self.ops += 1;
        let is_due =
            ops > 0 && self.ops >= ops || work_ns > 0 && at_ns - self.pause_end_ns >= work_ns;
        if is_due {
            (self.ops, self.pause_end_ns) = (0, at_ns.checked_add(pause_ns)?);
            self.delay_ns = self
                .delay_ns
                .saturating_add(if delays_rest { pause_ns } else { 0 });
        }
        Some(at_ns)
    }

    /// Skips and counts the due times before `end_ns`, without a copy of the schedule.
    fn pass_before(&mut self, end_ns: u64) -> u64 {
        let mut count = 0;
        while let Some(at_ns) = self.next_ns() {
            if at_ns >= end_ns {
                self.ahead_ns = Some(at_ns);
                break;
            }
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_due_in_a_pause_run_at_its_end_or_all_later_operations_are_delayed() {
        let due_ms = |ops, work_ms: u64, delays_rest| {
            let pauses = Pauses {
                pause_ns: 25_000_000,
                ops,
                work_ns: work_ms * 1_000_000,
                delays_rest,
            };
            let even = Schedule::Even(Even::new(Rate::per_sec(100), 0, 1, 0).unwrap());
            let mut paused = Schedule::Paused(Paused::new(even, pauses));
            let mut counted = paused.clone();
            let due: Vec<_> = (0..8).map(|_| paused.next_ns().unwrap()).collect();
            let mut passed = 0;
            for end_ns in (0..due[7]).step_by(5_000_000) {
                passed += counted.count_before(end_ns);
                assert_eq!(
                    passed,
                    due.iter().filter(|ns| **ns < end_ns).count() as u64,
                    "{end_ns}"
                );
            }
            assert_eq!(counted.next_ns(), Some(due[passed as usize]));
            due.into_iter().map(|ns| ns / 1_000_000).collect::<Vec<_>>()
        };
        assert_eq!(
            due_ms(3, 0, false),
            [0, 10, 20, 45, 45, 50, 75, 75],
            "without pauses: 0, 10, ... 70"
        );
        assert_eq!(due_ms(3, 0, true), [0, 10, 20, 55, 65, 75, 110, 120]);
        assert_eq!(due_ms(0, 20, true), [0, 10, 20, 55, 65, 100, 110, 145]);
    }

    const HOUR_NS: u64 = 3_600_000_000_000;

    fn even(rate: Rate, first: u64, stride: u64, phase: u32) -> impl Iterator<Item = u64> {
        let mut schedule = Even::new(rate, first, stride, phase).unwrap();
        std::iter::from_fn(move || schedule.next_ns())
    }

    #[test]
    fn count_before_equals_counting_the_due_times_one_by_one() {
        for (rate, end_ns) in [
            (Rate::per_sec(7), 5_000_000_000),
            (Rate::new(22, 85).unwrap(), HOUR_NS),
            (Rate::per_sec(4_000_000_000), 1_000_003),
            (Rate::per_sec(1), 0),
        ] {
            for (first, stride, phase) in [(0, 1, 0), (2, 3, 40_503), (1, 2, 65_535)] {
                let schedule = Schedule::Even(Even::new(rate, first, stride, phase).unwrap());
                let walked = even(rate, first, stride, phase)
                    .take_while(|ns| *ns < end_ns)
                    .count() as u64;
                let mut counted = schedule.clone();
                let found = counted.count_before(end_ns);
                assert_eq!(found, walked, "{rate:?} {first} {stride} {phase}");
                let found = counted.count_before(end_ns);
                assert_eq!(found, 0, "these instants are already skipped");
                let found = counted.next_ns();
                assert_eq!(found, even(rate, first, stride, phase).nth(walked as usize));
            }
        }
        let mut fast = Schedule::Even(Even::new(Rate::per_sec(u32::MAX.into()), 0, 1, 0).unwrap());
        let found = fast.count_before(86_400 * 1_000_000_000);
        assert_eq!(found, 86_400 * u64::from(u32::MAX));
    }

    fn closed_formula(rate: Rate, j: u128, phase: u32) -> u64 {
        let one = u128::from(PHASE_ONE);
        ((j * one + u128::from(phase)) * 1_000_000_000 * u128::from(rate.seconds())
            / (u128::from(rate.ops()) * one)) as u64
    }

    #[test]
    fn due_times_of_an_even_schedule_equal_the_closed_formula() {
        for (rate, phase) in [
            (Rate::new(7, 3).unwrap(), 12_345),
            (Rate::per_sec(999_983), 65_535),
            (Rate::new(100_000, 8_449).unwrap(), 1),
            (Rate::new(1, 86_400).unwrap(), 0),
        ] {
            for (k, at_ns) in even(rate, 2, 5, phase).take(20_000).enumerate() {
                assert_eq!(
                    at_ns,
                    closed_formula(rate, 2 + 5 * k as u128, phase),
                    "{rate:?} {k}"
                );
            }
        }
    }

    #[test]
    fn seven_operations_per_second_over_three_devices_are_exact() {
        for phase in [0, 40_503, PHASE_ONE - 1] {
            let counts: Vec<_> = (0..3)
                .map(|device| {
                    even(Rate::per_sec(7), device, 3, phase)
                        .take_while(|ns| *ns < HOUR_NS)
                        .count()
                })
                .collect();
            assert_eq!(counts, [8_400; 3], "phase {phase}");
        }
    }

    #[test]
    fn schedules_of_all_shards_and_devices_together_are_the_whole_sequence() {
        let rate = Rate::new(48_011, 13).unwrap();
        let whole: Vec<_> = even(rate, 0, 1, 777)
            .take_while(|ns| *ns < 1_000_000_000)
            .collect();
        let mut parts: Vec<_> = (0..6)
            .flat_map(|part| even(rate, part, 6, 777).take_while(|ns| *ns < 1_000_000_000))
            .collect();
        parts.sort_unstable();
        assert_eq!(parts, whole);
    }

    #[test]
    fn an_even_schedule_does_not_drift_in_a_year() {
        let year_s = 365 * 86_400;
        let mut schedule = Even::new(Rate::new(1_000_003, 7).unwrap(), 0, 1_000_003, 0).unwrap();
        // Every 1,000,003rd operation falls on a multiple of 7 s exactly.
        for k in 0..year_s / 7 {
            assert_eq!(schedule.next_ns(), Some(k * 7_000_000_000));
        }
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_a_poisson_process() {
        let mut poisson = Poisson::new(Rate::per_sec(1_000), Random::new(1)).unwrap();
        let mut counts = vec![0_u32; 10_000];
        while let Some(window) = poisson
            .next_ns()
            .map(|ns| ns / 10_000_000)
            .filter(|w| *w < 10_000)
        {
            counts[window as usize] += 1;
        }
        let mean = counts.iter().sum::<u32>() as f64 / 10_000.0;
        let variance = counts
            .iter()
            .map(|n| (f64::from(*n) - mean).powi(2))
            .sum::<f64>()
            / 10_000.0;
        assert!((mean - 10.0).abs() < 0.1, "mean {mean}");
        assert!(
            (variance / mean - 1.0).abs() < 0.05,
            "dispersion {}",
            variance / mean
        );
    }

    #[test]
    fn a_thread_wakes_late_but_keeps_to_its_schedule() {
        let woken = |rate, wake_delay_ns| {
            let even = Even::new(Rate::per_sec(rate), 0, 1, 0).unwrap();
            let mut woken = Woken::new(even, wake_delay_ns, Random::new(4));
            (0..10_000)
                .map(|_| woken.next_ns().unwrap())
                .collect::<Vec<_>>()
        };
        let late: Vec<_> = (0_u64..)
            .zip(woken(1_000, 150_000))
            .map(|(j, at_ns)| at_ns - j * 1_000_000)
            .collect();
        assert!(late.iter().all(|ns| *ns <= 150_000) && late.iter().max() > Some(&149_000));
        let mean = late.iter().sum::<u64>() / 10_000;
        assert!((73_000..77_000).contains(&mean), "{mean}");
        // A period of 10 us: the thread oversleeps several instants, and then does not sleep for them.
        let quick = woken(100_000, 150_000);
        assert!(quick.is_sorted());
        assert!(
            (0_u64..)
                .zip(&quick)
                .all(|(j, at_ns)| (j * 10_000..=j * 10_000 + 150_000).contains(at_ns))
        );
    }

    #[test]
    fn listed_due_times_are_divided_among_lanes_and_count_before_counts_all_of_them() {
        let at_ns: Arc<[u64]> = [0, 5, 5, 7, 20].into();
        let walk = |first, stride| {
            let mut listed = Listed::new(at_ns.clone(), 20, 2, first, stride);
            std::iter::from_fn(move || listed.next_ns()).collect::<Vec<_>>()
        };
        assert_eq!(walk(0, 1), [0, 5, 5, 7, 20, 20, 25, 25, 27, 40]);
        let mut parts = [walk(0, 3), walk(1, 3), walk(2, 3)].concat();
        parts.sort_unstable();
        assert_eq!(parts, walk(0, 1));
        for (first, stride) in [(0, 1), (1, 3), (2, 3), (30, 3)] {
            for end_ns in [0, 1, 5, 6, 20, 21, 27, 1_000] {
                let mut schedule =
                    Schedule::Listed(Listed::new(at_ns.clone(), 20, 2, first, stride));
                let walked = walk(first, stride)
                    .into_iter()
                    .filter(|at| *at < end_ns)
                    .count() as u64;
                let found = schedule.count_before(end_ns);
                assert_eq!(found, walked, "{first} {stride} {end_ns}");
                let found = schedule.next_ns();
                assert_eq!(found, walk(first, stride).get(walked as usize).copied());
            }
        }
    }

    #[test]
    fn a_rate_of_zero_has_no_schedule() {
        assert!(Even::new(Rate::ZERO, 0, 1, 0).is_none());
        assert!(Poisson::new(Rate::ZERO, Random::new(1)).is_none());
    }
}
