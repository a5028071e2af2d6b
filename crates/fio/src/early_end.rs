//! Conditions on a job's own results that end it early: a steady state (`steadystate`), and a missed minimum rate
//! (`rate_min`).
//!
//! The operations of all clones of a report entry are summed in intervals of the run's clock. The clones end once the
//! intervals of the last `steadystate_duration` meet the criterion. Source: fio's `steadystate_slope()` and
//! `steadystate_deviation()`.
//!
//! A minimum rate is checked at completions, beginning two seconds after the ramp time. Each check covers the time
//! since the previous check, at least one `rate_cycle`. Source: fio's `__check_min_rate()`.

use super::directions::DIRECTIONS;
use super::rates::{RateOptions, RateTarget};
use super::value::{MICROSECONDS, NumberUnit, number};
use super::{NS_PER_SEC, locked};
use results::format::{self, Grouped, duration, quoted};
use results::times::Times;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const INTERVAL_NS: u64 = NS_PER_SEC;

/// Maximum number of intervals that a criterion covers.
const INTERVALS_MAX: u64 = 4_000;

/// Measures of an interval: operations per second, bytes per second, mean latency in nanoseconds.
const MEASURES: [&str; 3] = ["iops", "bw", "lat"];
const BANDWIDTH: usize = 1;
const LATENCY: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SteadyOptions {
    pub criterion: Option<SteadyCriterion>,
    /// Time for which the measure has to be steady; 0: not given.
    pub duration_ns: u64,
    /// Ramp time before the first interval.
    pub ramp_ns: u64,
}

/// The value of `steadystate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyCriterion {
    /// Measure that has to be steady: index into [`MEASURES`].
    measure: usize,
    /// True if `limit` applies to the slope of the least-squares line; false: to the greatest deviation from the mean.
    slope: bool,
    limit: f64,
    /// True if `limit` is in percent of the mean.
    percent: bool,
}

impl SteadyCriterion {
    /// Parses `iops:10%`. Errors: an unknown measure, or a limit below 0 or above 100 %.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (what, limit) = text
            .split_once(':')
            .ok_or("the value must be like iops:10% or bw_slope:0.5%")?;
        let (name, slope) = what
            .strip_suffix("_slope")
            .map_or((what, false), |name| (name, true));
        let measure = MEASURES
            .iter()
            .position(|known| *known == name)
            .ok_or_else(|| {
                format!(
                    "{} is not one of iops, bw, lat, iops_slope, bw_slope, lat_slope",
                    quoted(what)
                )
            })?;
        let limit = limit.trim();
        let percent = limit.strip_suffix('%');
        let within = |text: &str, max: f64| {
            let value = text.trim().parse::<f64>().ok();
            value.filter(|value| value.is_finite() && (0.0..=max).contains(value))
        };
        let plain = within(limit, f64::MAX);
        let value = match (percent, measure) {
            (Some(percent), _) => {
                within(percent, 100.0).ok_or("the limit must be 0 to 100 percent")?
            }
            (None, BANDWIDTH) if plain.is_none() => number(limit, NumberUnit::Kilo(1024))? as f64,
            (None, LATENCY) => number(limit, MICROSECONDS)? as f64,
            (None, _) => plain.ok_or_else(|| {
                format!("the limit {} is not a number of 0 or more", quoted(limit))
            })?,
        };
        Ok(Self {
            measure,
            slope,
            limit: value,
            percent: percent.is_some(),
        })
    }

    /// The criterion as fio writes it: `bw_slope:1.000000%`.
    pub fn text(&self) -> String {
        let slope = if self.slope { "_slope" } else { "" };
        let percent = if self.percent { "%" } else { "" };
        format!(
            "{}{slope}:{:.6}{percent}",
            MEASURES[self.measure], self.limit
        )
    }
}

impl SteadyOptions {
    pub(super) fn check(&self) -> Option<&'static str> {
        let of_criterion = self.duration_ns > 0 || self.ramp_ns > 0;
        if self.criterion.is_none() {
            of_criterion.then_some("steadystate_duration and steadystate_ramp_time need a criterion - give steadystate=iops:10% or the like")
        } else if self.duration_ns < 2 * INTERVAL_NS {
            Some(
                "steadystate compares intervals of 1 s, at least two - give steadystate_duration=2s or more",
            )
        } else if self.duration_ns / INTERVAL_NS > INTERVALS_MAX {
            Some("steadystate_duration is more than 4000 s - give a shorter one")
        } else {
            None
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct SteadyStateStatus {
    /// The last intervals of the criterion: operations per second, bytes per second, mean latency in nanoseconds.
    pub intervals: VecDeque<[u64; 3]>,
    /// Value last compared with the limit.
    pub criterion: f64,
    pub deviation: f64,
    pub slope: f64,
    pub attained: bool,
}

/// Steadiness of a report entry, shared by its clones.
#[derive(Debug)]
pub struct SteadyStateDetector {
    pub criterion: SteadyCriterion,
    /// Time for which the measure has to be steady.
    pub duration_ns: u64,
    /// End of the current interval, nanoseconds of the run.
    next_ns: AtomicU64,
    /// Start of the intervals.
    from_ns: u64,
    /// Operations, bytes, sum of latencies in the current interval.
    sums: [AtomicU64; 3],
    state: Mutex<SteadyStateStatus>,
    /// When the criterion was met, nanoseconds of the run.
    ended_ns: AtomicU64,
}

impl SteadyStateDetector {
    /// `None` without a criterion. `begin_ns`: end of the job's start delay and ramp time, nanoseconds of the run.
    pub(super) fn new(options: SteadyOptions, begin_ns: u64) -> Option<Self> {
        let from_ns = begin_ns.saturating_add(options.ramp_ns);
        Some(Self {
            criterion: options.criterion?,
            duration_ns: options.duration_ns,
            next_ns: from_ns.saturating_add(INTERVAL_NS).into(),
            from_ns,
            sums: Default::default(),
            state: Mutex::default(),
            ended_ns: u64::MAX.into(),
        })
    }

    pub fn state(&self) -> SteadyStateStatus {
        locked(&self.state).clone()
    }

    /// When the criterion was met, nanoseconds of the run; `u64::MAX`: not yet.
    #[inline]
    pub(super) fn ended_ns(&self) -> u64 {
        self.ended_ns.load(Ordering::Relaxed)
    }

    pub(super) fn record(&self, now_ns: u64, bytes: u64, latency_ns: u64) {
        if now_ns >= self.next_ns.load(Ordering::Relaxed) {
            self.close(now_ns);
        }
        if now_ns >= self.from_ns {
            for (sum, value) in self.sums.iter().zip([1, bytes, latency_ns]) {
                sum.fetch_add(value, Ordering::Relaxed);
            }
        }
    }

    /// Closes all intervals that end by `now_ns`. An interval without an operation counts as zeros.
    #[cold]
    fn close(&self, now_ns: u64) {
        let mut state = locked(&self.state);
        let intervals_max = (self.duration_ns / INTERVAL_NS) as usize;
        while !state.attained && now_ns >= self.next_ns.load(Ordering::Relaxed) {
            let end_ns = self.next_ns.fetch_add(INTERVAL_NS, Ordering::Relaxed);
            let [ops, bytes, latency_ns] = self
                .sums
                .each_ref()
                .map(|sum| sum.swap(0, Ordering::Relaxed));
            state
                .intervals
                .push_back([ops, bytes, latency_ns / ops.max(1)]);
            if state.intervals.len() > intervals_max {
                state.intervals.pop_front();
            }
            if state.intervals.len() == intervals_max {
                state.judge(&self.criterion);
            }
            if state.attained {
                self.ended_ns.store(end_ns, Ordering::Relaxed);
            }
        }
    }
}

impl SteadyStateStatus {
    fn judge(&mut self, limits: &SteadyCriterion) {
        let values: Vec<_> = self
            .intervals
            .iter()
            .map(|interval| interval[limits.measure] as f64)
            .collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        self.deviation = values
            .iter()
            .map(|value| (value - mean).abs())
            .fold(0.0, f64::max);
        // Least squares over the interval numbers 0, 1, 2, ...
        let middle = (count - 1.0) / 2.0;
        let mut weighted_sum = 0.0;
        let mut squares = 0.0;
        for (at, value) in values.iter().enumerate() {
            weighted_sum += (at as f64 - middle) * value;
            squares += (at as f64 - middle).powi(2);
        }
        self.slope = weighted_sum / squares;
        let value = if limits.slope {
            self.slope
        } else {
            self.deviation
        };
        self.criterion = if !limits.percent {
            value
        } else if mean > 0.0 {
            100.0 * value / mean
        } else {
            f64::INFINITY
        };
        self.attained = self.criterion.abs() < limits.limit;
    }

    pub fn means(&self) -> [u64; 3] {
        let count = self.intervals.len().max(1) as u64;
        [0, 1, 2].map(|of: usize| {
            self.intervals
                .iter()
                .map(|interval| interval[of])
                .sum::<u64>()
                / count
        })
    }
}

/// Time after the ramp in which a minimum rate is not checked.
const SETTLE_NS: u64 = 2_000_000_000;

/// A cycle in which flashproof lagged more than 1/`OWN_ONE_IN` of its length is ignored: its rate says nothing about
/// the device.
const OWN_ONE_IN: u64 = 10;

/// Operations of a direction in the current cycle.
#[derive(Debug, Clone, Copy, Default)]
struct Cycle {
    began_ns: Option<u64>,
    /// Operations or bytes.
    amount: u64,
    lag_max_ns: u64,
}

#[derive(Debug)]
pub(super) struct MinRateCheck {
    targets: [RateTarget; DIRECTIONS],
    cycle_ns: u64,
    settled_ns: u64,
    cycles: [Cycle; DIRECTIONS],
}

impl MinRateCheck {
    pub(super) fn new(rates: &RateOptions, ramp_end_ns: u64) -> Self {
        Self {
            targets: rates.min,
            cycle_ns: rates.cycle_ns.max(1),
            settled_ns: ramp_end_ns.saturating_add(SETTLE_NS),
            cycles: Default::default(),
        }
    }

    /// Returns a description if the operation ends a cycle below the minimum rate.
    pub(super) fn record(&mut self, direction: usize, bytes: u32, times: &Times) -> Option<String> {
        let (min_rate, did, unit) = match self.targets[direction] {
            RateTarget::Unlimited => return None,
            RateTarget::Iops(least) => (least, 1, ""),
            RateTarget::Bytes(least) => (least, bytes.into(), "bytes of "),
        };
        let now_ns = times.completed_ns();
        if now_ns < self.settled_ns {
            return None;
        }
        let cycle = &mut self.cycles[direction];
        cycle.amount += did;
        cycle.lag_max_ns = cycle.lag_max_ns.max(times.lag_ns());
        let began_ns = cycle.began_ns.unwrap_or(now_ns);
        let passed_ns = now_ns.saturating_sub(began_ns);
        if cycle.began_ns.is_some() && passed_ns < self.cycle_ns {
            return None;
        }
        let Cycle {
            amount: did,
            lag_max_ns,
            ..
        } = std::mem::replace(
            cycle,
            Cycle {
                began_ns: Some(now_ns),
                ..Cycle::default()
            },
        );
        if passed_ns == 0 || lag_max_ns > passed_ns / OWN_ONE_IN {
            return None;
        }
        let is_short =
            u128::from(did) * 1_000_000_000 < u128::from(min_rate) * u128::from(passed_ns);
        is_short.then(|| {
            format!(
                "{} {unit}{} per second in the {} that ended at {}, below the minimum rate of {}",
                format::number(did as f64 * 1e9 / passed_ns as f64),
                ["reads", "writes", "trims"][direction],
                duration(passed_ns),
                duration(now_ns),
                Grouped(min_rate)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(given: &[(&str, &str)]) -> SteadyOptions {
        let steady = crate::testing::job_with(given).steady;
        assert_eq!(steady.check(), None, "{given:?}");
        steady
    }

    /// Number of seconds after which a job ends, given its `iops` by second; `None`: the criterion is not met.
    fn ends_after(options: SteadyOptions, iops: &[u64]) -> (Option<u64>, SteadyStateStatus) {
        let steady = SteadyStateDetector::new(options, 0).unwrap();
        for (second, iops) in iops.iter().enumerate() {
            (0..*iops).for_each(|op| {
                steady.record(
                    second as u64 * NS_PER_SEC + op * (NS_PER_SEC / iops),
                    4096,
                    1_000 * second as u64,
                );
            });
        }
        steady.record(iops.len() as u64 * NS_PER_SEC, 4096, 0);
        let ended = Some(steady.ended_ns()).filter(|ns| *ns < u64::MAX);
        (ended.map(|ns| ns / NS_PER_SEC), steady.state())
    }

    #[test]
    fn a_job_ends_when_its_last_seconds_are_steady() {
        let falling = [400, 300, 200, 150, 120, 100, 104, 98, 101, 99];
        let deviation = options(&[("steadystate", "iops:5%"), ("steadystate_duration", "3s")]);
        let (ended, state) = ends_after(deviation, &falling);
        assert_eq!(ended, Some(8), "100, 104 and 98");
        assert!(
            state.attained && (state.criterion - 300.0 * 10.0 / 302.0 / 3.0).abs() < 0.1,
            "{state:?}"
        );
        assert_eq!(state.means(), [100, 100 * 4096 + 2730, 6_000]);
        // Seconds of the ramp time are ignored.
        let late = [
            ("steadystate_ramp_time", "8"),
            ("steadystate", "iops:3"),
            ("steadystate_duration", "2"),
        ];
        let late = options(&late);
        assert_eq!(ends_after(late, &falling).0, Some(10));
        let slope = options(&[
            ("steadystate", "bw_slope:0.5%"),
            ("steadystate_duration", "4"),
        ]);
        assert_eq!(
            ends_after(slope, &falling[..9]).0,
            Some(9),
            "{:?}",
            ends_after(slope, &falling).1
        );
        assert_eq!(ends_after(deviation, &[100, 110, 120, 130]).0, None);
        // A second without any operation is not steady.
        let gap = [100, 100, 0, 100, 100, 100];
        assert_eq!(ends_after(deviation, &gap).0, Some(6));
        let idle = SteadyStateDetector::new(deviation, 0).unwrap();
        idle.record(10 * NS_PER_SEC, 1, 1);
        assert_eq!(idle.ended_ns(), u64::MAX, "idle time is not a steady state");
    }

    #[test]
    fn steady_state_criteria_are_parsed_and_printed_as_in_fio() {
        let text = |given| {
            SteadyCriterion::parse(given)
                .map(|criterion| criterion.text())
                .unwrap()
        };
        assert_eq!(text("iops:10%"), "iops:10.000000%");
        assert_eq!(text("lat_slope:1ms"), "lat_slope:1000000.000000");
        assert_eq!(text("bw:1m"), "bw:1048576.000000");
        for text in [
            "iops",
            "tps:1%",
            "iops:101%",
            "iops:-1",
            "iops:x",
            "bw:nan",
            "lat:5parsecs",
        ] {
            assert!(SteadyCriterion::parse(text).is_err(), "{text}");
        }
        let without_criterion = SteadyOptions {
            duration_ns: 1,
            ..SteadyOptions::default()
        };
        assert!(without_criterion.check().is_some());
    }

    const MS: u64 = 1_000_000;

    /// Cycles below the minimum of 9 reads per second, for reads that complete at these instants.
    fn short_cycles(instants_ms: &[u64], lag_ms: u64) -> Vec<(u64, String)> {
        let least = [
            RateTarget::Iops(9),
            RateTarget::Unlimited,
            RateTarget::Unlimited,
        ];
        let mut rate = MinRateCheck::new(
            &RateOptions {
                min: least,
                ..RateOptions::default()
            },
            0,
        );
        instants_ms
            .iter()
            .filter_map(|ms: &u64| {
                let done_ns = ms * MS;
                let lag_ns = lag_ms * MS;
                let times = Times::new(done_ns - lag_ns, done_ns - lag_ns, done_ns, done_ns);
                rate.record(0, 4096, &times).map(|short| (*ms, short))
            })
            .collect()
    }

    #[test]
    fn a_cycle_below_the_minimum_rate_is_reported_after_the_first_two_seconds() {
        let each = |step: usize| (100..5_000).step_by(step).collect::<Vec<_>>();
        assert_eq!(short_cycles(&each(100), 0), []);
        let short = short_cycles(&each(200), 0);
        assert_eq!(
            short[0].0, 3_100,
            "the first second after the settling time"
        );
        assert_eq!(
            short[0].1,
            "5 reads per second in the 1 s that ended at 3.1 s, below the minimum rate of 9"
        );
        let found = short_cycles(&[2_000, 2_100, 4_900], 0).len();
        assert_eq!(found, 1, "a stall is one long cycle");
    }

    #[test]
    fn a_cycle_in_which_flashproof_lagged_is_ignored() {
        assert_eq!(short_cycles(&[2_100, 2_600, 3_100, 3_600, 4_100], 150), []);
    }
}
