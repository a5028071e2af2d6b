//! A watch: a long, light, steady load, recorded second by second, for effects that single jobs are too short to show.
//!
//! ```text
//! median and longest operation of each second -> Watch    stored in the job's point in series.json
//!                                             -> pauses   seconds with an unusually long operation: length, period
//!                                             -> drift    different medians of the tenths of the watch
//! ```

use results::format;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of pauses stored.
const PAUSES_MAX: usize = 2_000;

/// A pause exceeds the usual longest operation of a second by this factor and by [`PAUSE_US`] microseconds.
const PAUSE_FACTOR: f64 = 4.0;
const PAUSE_US: f64 = 1_000.0;
/// Each second has a longest operation. Of these longest operations, the one at this quantile counts as usual.
const USUAL: f64 = 0.1;
/// If more than this fraction of the seconds have pauses, single pauses cannot be separated.
const SEPARATE_MAX: f64 = 0.85;

/// Minimum number of pauses from which a period can be estimated.
pub const PAUSES_MIN: u64 = 3;

/// Minimum usual gap between two stalls, seconds, at which a gap twice as long shows a missed stall. Shorter gaps can
/// double because they are rounded to whole seconds.
const LONG_GAP_SEC: f64 = 3.0;

/// Number of equal parts of a watch whose medians are compared.
const PARTS: usize = 10;
/// Medians drift if they differ by more than this factor and by more than [`DRIFT_US`] microseconds.
const DRIFT_FACTOR: f64 = 1.1;
const DRIFT_US: f64 = 2.0;

/// Latencies of a second of a watch, microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Second {
    pub median_us: f64,
    pub max_us: f64,
}

/// Observations of a watch.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Watch {
    /// Length of the watch, seconds.
    pub seconds: u64,
    /// Median latency of each tenth of the watch, microseconds.
    pub medians_us: Vec<f64>,
    /// Longest operation of a usual second, microseconds.
    pub usual_us: f64,
    /// Number of seconds in which an operation took far longer than usual.
    pub pauses: u64,
    /// The first 2,000 of these seconds.
    pub first_pauses: Vec<Pause>,
}

/// A second in which an operation took far longer than usual.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// Seconds after the watch began.
    pub second: u64,
    /// Longest operation of the second, microseconds.
    pub us: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    /// Upper bound; infinite if there is none.
    pub high: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecurringStalls {
    pub count: u64,
    pub ms: Estimate,
    /// Period: time from the start of a stall to the start of the next stall, seconds.
    pub every_s: Estimate,
    pub regular: bool,
}

impl Watch {
    /// The observations of consecutive `seconds`; a second without a completion is `None`.
    pub fn from_seconds(seconds: &[Option<Second>]) -> Self {
        let measured = || seconds.iter().flatten();
        let usual_us = at(measured().map(|second| second.max_us).collect(), USUAL);
        let limit_us = (PAUSE_FACTOR * usual_us).max(usual_us + PAUSE_US);
        let pauses: Vec<_> = seconds
            .iter()
            .enumerate()
            .filter_map(|(at, second): (usize, &Option<Second>)| {
                let us = second.as_ref()?.max_us;
                (us > limit_us).then_some(Pause {
                    second: at as u64,
                    us,
                })
            })
            .collect();
        let parts = seconds.chunks(seconds.len().div_ceil(PARTS).max(1));
        let medians = parts.map(|part| {
            at(
                part.iter()
                    .flatten()
                    .map(|second| second.median_us)
                    .collect(),
                0.5,
            )
        });
        Self {
            seconds: seconds.len() as u64,
            medians_us: medians.collect(),
            usual_us,
            pauses: pauses.len() as u64,
            first_pauses: pauses.into_iter().take(PAUSES_MAX).collect(),
        }
    }

    /// Stalls under a load of `iops` with the mean latency `mean_us`. `None` without pauses, or if so many seconds have
    /// pauses that single pauses cannot be separated.
    pub fn stalls(&self, iops: f64, mean_us: f64) -> Option<RecurringStalls> {
        if self.pauses as f64 > SEPARATE_MAX * self.seconds as f64 || iops <= 0.0 {
            return None;
        }
        // If not all pauses are stored, only the time up to the last stored pause counts.
        let seconds = match self.first_pauses.last()? {
            last if self.pauses as usize > self.first_pauses.len() => last.second + 1,
            _ => self.seconds,
        } as f64;
        let usual_us = self.medians_us.last().copied().unwrap_or_default();
        let stalls = self.stalls_apart(seconds, mean_us - usual_us);
        let stall_count = stalls.len() as f64;
        // The longest operation of a stall arrived up to one inter-arrival time after the start of the stall.
        let gap_us = 1e6 / iops;
        let excesses_us = || stalls.iter().map(|stall| stall.us - usual_us);
        let mean_us = excesses_us().sum::<f64>() / stall_count;
        let longest_us = excesses_us().fold(0.0, f64::max);
        let ms = if mean_us + gap_us.min(longest_us / 2.0) < 0.75 * longest_us {
            // The stalls differ so much in length that the longest one does not represent them.
            Estimate {
                value: mean_us / 1e3,
                low: mean_us / 2e3,
                high: longest_us / 1e3,
            }
        } else {
            // The more stalls were observed, the closer the longest operation is to the full length of a stall.
            let missed_us = 3.0 * gap_us / stall_count;
            let low = (longest_us - self.usual_us) * 0.99;
            Estimate {
                value: longest_us / 1e3,
                low: low / 1e3,
                high: (longest_us * 1.01 + missed_us) / 1e3,
            }
        };
        let gaps: Vec<_> = stalls
            .windows(2)
            .map(|pair| (pair[1].second - pair[0].second) as f64)
            .collect();
        let usual_gap = at(gaps.clone(), 0.5);
        let regular_gaps = gaps
            .iter()
            .filter(|gap| (*gap - usual_gap).abs() <= 1.0 + 0.1 * usual_gap)
            .count();
        let regular =
            stalls.len() as u64 >= PAUSES_MIN && regular_gaps as f64 >= 0.8 * gaps.len() as f64;
        // A stall shows only if an operation arrives during the stall.
        let visible_fraction = (1.0 - (-iops * ms.value / 1e3).exp()).max(0.1);
        let every_s = if regular {
            let total_sec: f64 = gaps.iter().sum();
            let periods = match usual_gap {
                // A stall without an operation leaves a gap of two periods.
                LONG_GAP_SEC.. => gaps
                    .iter()
                    .map(|gap| (gap / usual_gap).round().max(1.0))
                    .sum::<f64>(),
                _ => gaps.len() as f64 / visible_fraction,
            };
            Estimate {
                value: total_sec / periods,
                low: (total_sec - 1.0) / periods,
                high: (total_sec + 1.0) / periods,
            }
        } else {
            let count = stall_count / visible_fraction;
            let (least, most) = chance(count);
            Estimate {
                value: seconds / count,
                low: seconds / most,
                high: seconds / least,
            }
        };
        let seen = (stall_count * self.seconds as f64 / seconds).round() as u64;
        Some(RecurringStalls {
            count: seen,
            ms,
            every_s,
            regular,
        })
    }

    /// Merges pauses into stalls, given that the mean latency over `seconds` was `excess_us` above normal. Operations
    /// count in the second in which they were due, so a stall can show as pauses in several seconds. But several pauses
    /// can also be several stalls; the mean latency decides.
    fn stalls_apart(&self, seconds: f64, excess_us: f64) -> Vec<Pause> {
        let mut joined: Vec<Pause> = Vec::new();
        for pause in &self.first_pauses {
            let within =
                |first: &Pause| (pause.second - first.second) as f64 <= first.us / 1e6 + 1.0;
            if !joined.last().is_some_and(within) {
                joined.push(*pause);
            }
        }
        // Operations that arrive during a stall wait for half of the stall on average. So the excess is the fraction of
        // time in stalls, times half the length of a stall.
        let longest_us = joined.iter().map(|pause| pause.us).fold(0.0, f64::max);
        let expected = 2.0 * excess_us * seconds * 1e6 / longest_us.powi(2);
        let far = |count: usize| (count as f64 / expected.max(1e-9)).ln().abs();
        if far(joined.len()) <= far(self.first_pauses.len()) {
            joined
        } else {
            self.first_pauses.clone()
        }
    }

    /// A sentence about a change of the median latency after the first tenth; `None` if the median did not change.
    pub fn drift(&self) -> Option<String> {
        let later_medians = self.medians_us.get(1..)?;
        let (low, high) = later_medians
            .iter()
            .fold((f64::INFINITY, 0.0), |(low, high), us| {
                (us.min(low), us.max(high))
            });
        differ(low, high).then(|| {
            let part_text = |at: usize| format::span_about(self.seconds as f64 * at as f64 / PARTS as f64);
            let first_change = 1 + later_medians.windows(2).position(|pair| differ(pair[0].min(pair[1]), pair[0].max(pair[1]))).unwrap_or(0);
            format!(
                "the median latency under a light load went from {} to {} within {}; the first change was between {} and {} after the start",
                microseconds(later_medians[0]),
                microseconds(if later_medians[0] == high { low } else { high }),
                format::span_about(self.seconds as f64),
                part_text(first_change),
                part_text(first_change + 2)
            )
        })
    }
}

fn microseconds(us: f64) -> String {
    format::duration((us * 1e3) as u64)
}

fn differ(low: f64, high: f64) -> bool {
    high > DRIFT_FACTOR * low && high - low > DRIFT_US
}

/// 95 % bounds of the expected number of events, given `count` observed. Source: Garwood's interval, approximated.
fn chance(count: f64) -> (f64, f64) {
    let bound =
        |count: f64, z: f64| count * (1.0 - 1.0 / (9.0 * count) + z / (3.0 * count.sqrt())).powi(3);
    let least = if count > 0.0 {
        bound(count, -1.96)
    } else {
        0.0
    };
    (least.max(0.0), bound(count + 1.0, 1.96))
}

fn at(mut values: Vec<f64>, quantile: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values
        .get((quantile * values.len().saturating_sub(1) as f64).round() as usize)
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watch of two hours; `second` gives median and maximum of each second.
    fn watch(second: impl Fn(u64) -> (f64, f64)) -> Watch {
        Watch::from_seconds(
            &(0..7_200)
                .map(|at| {
                    let (median_us, max_us) = second(at);
                    Some(Second { median_us, max_us })
                })
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn length_and_period_of_regular_stalls_are_estimated() {
        // A stall every 24 s. The longest operations arrive up to 5 ms after the start of a stall.
        let watch = watch(|at| {
            (
                100.0,
                if at % 24 == 23 {
                    150_000.0 - (at % 5) as f64 * 1e3
                } else {
                    300.0
                },
            )
        });
        let stalls = watch
            .stalls(210.0, 100.0 + 150e3 / 2.0 * 0.15 / 24.0)
            .unwrap();
        assert!(stalls.regular && stalls.count == 300, "{stalls:?}");
        let RecurringStalls { ms, every_s, .. } = stalls;
        assert!(
            (ms.value - 149.9).abs() < 0.1 && ms.low < 150.0 && ms.high > 150.0,
            "{ms:?}"
        );
        assert!(
            (every_s.value - 24.0).abs() < 0.01 && every_s.low < 24.0 && every_s.high > 24.0,
            "{every_s:?}"
        );
        assert_eq!(watch.drift(), None);
    }

    #[test]
    fn a_single_pause_shows_no_period_and_no_pause_shows_no_stalls() {
        // The later an operation arrives in the stall, the shorter it waits.
        let frozen = |at: u64| {
            if (1_800..=1_804).contains(&at) {
                5e6 - (at - 1_800) as f64 * 1e6
            } else {
                300.0
            }
        };
        let one = watch(|at| (100.0, frozen(at)))
            .stalls(210.0, 100.0 + 5e6 / 2.0 * 5.0 / 7_200.0)
            .unwrap();
        assert!(
            one.count == 1
                && !one.regular
                && one.every_s.low < 1_500.0
                && one.every_s.high > 100_000.0,
            "{one:?}"
        );
        assert_eq!(watch(|_| (100.0, 300.0)).stalls(210.0, 100.0), None);
        let each = watch(|_| (100.0, 9_000.0));
        assert_eq!(
            (each.pauses, each.stalls(210.0, 100.0)),
            (0, None),
            "what each second has is usual"
        );
    }

    #[test]
    fn the_mean_latency_decides_if_pauses_in_two_seconds_are_one_stall_or_two() {
        // Two of three seconds have a pause: one stall of 0.2 s that begins at 0.9 s, or a stall in each of the two.
        let watch = watch(|at| (100.0, [2e5, 1e5, 300.0][(at % 3) as usize]));
        let every = |every_s: f64| {
            watch
                .stalls(210.0, 100.0 + 2e5 / 2.0 * 0.2 / every_s)
                .unwrap()
                .every_s
                .value
        };
        assert!(
            (every(3.0) - 3.0).abs() < 0.01 && (every(1.5) - 1.5).abs() < 0.01,
            "{} {}",
            every(3.0),
            every(1.5)
        );
    }

    #[test]
    fn a_median_that_changes_after_the_first_tenth_is_drift() {
        let at_half = watch(|at| (if at < 3_600 { 100.0 } else { 300.0 }, 900.0));
        let told = at_half.drift().unwrap();
        assert!(told.contains("from 100 us to 300 us within 2 h"), "{told}");
        assert_eq!(
            watch(|at| (if at < 30 { 100.0 } else { 300.0 }, 900.0)).drift(),
            None,
            "settled at once"
        );
        assert_eq!(Watch::from_seconds(&[]).drift(), None);
    }
}
