//! Watches a step of a search, round by round: decides when the step can end, and judges it.
//!
//! A step lasts a slice, and its load is held if a verdict on this slice would pass. Two events end a step early:
//!
//! * so many slow operations that the rest of the slice cannot make up for them. The load is not held.
//! * for a load that is only tried: a **window** over which the shares are settled. A window has at least six rounds,
//!   and contains four of the drive's slow spells ([`Spells`]). A share is settled if it agrees in both halves of the
//!   window, or is at most half of its limit. On a simulated drive only the second condition counts, because simulated
//!   time costs little.
//!
//! A whole slice within its limits is held, as in a verdict. If a share is over its limit only in the second half of
//! the step, and each half is at least a window, the result says that a longer run may fail.
//!
//! The rules are those of a verdict. A share fails the drive only if it also reaches its limit without the delays that
//! this program may have caused. A share passes only if it also stays below the limit with this program's own lag.

use results::buckets::THRESHOLDS_MAX;
use results::cell::Interval;
use results::format;
use results::judge::{End, Limit, Outcome, Verdict};
use results::run_dir::Manifest;
use results::steady::{Round, RoundSeries, Rounds, Spells};
use serde::{Deserialize, Serialize};

/// Minimum length of a window, rounds.
pub const ROUNDS_MIN: usize = 6;
/// Maximum length of a recovery, rounds. Source: SNIA PTS 2.0.2, which stops after 25.
pub const RECOVERY_ROUNDS_MAX: usize = 25;
/// Number of slow spells in a window. With four, a single spell more or less changes a share by a quarter.
pub const SPELLS_IN_WINDOW: usize = 4;
/// Number of consecutive rounds with the earlier shares after which a drive counts as recovered.
const RECOVERED_ROUNDS: usize = 2;
/// Results of a recovery, for sentences.
const RETURNED: &str = "the earlier shares of slow operations returned";
const NOT_RETURNED: &str = "the earlier shares of slow operations did not return";
/// Two shares agree if they differ by at most this fraction of the larger share, or by [`NEAR_OF_LIMIT`] of the limit.
const NEAR_OF_ITSELF: f64 = 0.20;
/// Two shares agree if they differ by at most this fraction of the limit, or by [`NEAR_OF_ITSELF`] of the larger share.
const NEAR_OF_LIMIT: f64 = 0.10;
/// Maximum share, as a fraction of its limit, that counts as settled without a comparison of halves.
const CLEAR_OF_LIMIT: f64 = 0.5;
/// Growth of a share in the second half of a step that counts as getting worse: more than one slow spell can cause.
const WORSE: f64 = 1.0 + 1.0 / SPELLS_IN_WINDOW as f64;
/// Student's t for 95 % (two-sided) and four degrees of freedom, for five rounds.
const T_OF_FIVE: f64 = 2.776;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundShares {
    /// Stream and device: `reads on /dev/nvme0n1`.
    pub group: String,
    /// For each threshold: fraction of the operations over the threshold.
    pub share: Vec<f64>,
    /// For each threshold: half the width of the 95 % confidence interval of the mean over rounds.
    pub margin: Vec<f64>,
    /// 99th percentile of service times, mean over rounds, nanoseconds; `None` if nothing succeeded.
    pub p99_ns: Option<f64>,
    /// Operations per second that succeeded.
    pub achieved_iops: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StepPurpose {
    /// Check if the load is held; a window may be enough.
    Try {
        /// The longest time until a slow spell in earlier steps, seconds. A window must last several such times.
        wait_sec: f64,
        /// True if the step runs to the end of the slice, unless all shares are far below their limits.
        exact: bool,
    },
    /// Run a whole slice.
    Whole,
    /// Wait for these shares to return.
    Return(Vec<RoundShares>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepOutcome {
    /// The load was held (or, in a recovery, the earlier shares returned).
    Held,
    /// A share reached its limit, or too many due operations had not completed.
    Failed,
    /// Operations failed, or the device disappeared: a lower load would not avoid that.
    Broken,
    /// The earlier shares did not return in a recovery, or the step ended before its first round was complete.
    NotSteady,
    /// This program or host was too slow.
    OurLimit,
    Interrupted,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgedStep {
    pub seen: StepOutcome,
    /// Reason, one sentence with the number that decided.
    pub why: String,
    /// Number of judged rounds, which are the last rounds of the step.
    pub rounds_judged: usize,
    pub rounds: usize,
    pub shares: Vec<RoundShares>,
    /// For each limit: slow spells of the step.
    #[serde(default)]
    pub spells: Vec<Spells>,
    /// True if the step lasted as long as planned.
    #[serde(default)]
    pub whole: bool,
    /// True if the drive settled at other shares than before it was overdriven.
    #[serde(default)]
    pub has_moved: bool,
    /// True if the first slow spell began in the last [`ROUNDS_MIN`] rounds and still lasted at the end: the step does
    /// not show if the drive stays slow.
    #[serde(default)]
    pub ends_in_new_spell: bool,
}

impl JudgedStep {
    /// The longest time before a slow spell, seconds; 0 without spells.
    pub fn longest_wait_sec(&self) -> f64 {
        self.spells.iter().fold(0.0, |longest, spells| {
            longest.max(spells.longest_wait_sec())
        })
    }
}

#[derive(Clone, Copy)]
struct AtLimit<'a> {
    series_index: usize,
    series: &'a RoundSeries,
    rounds: &'a [Round],
    index: usize,
    limit: &'a Limit,
}

impl AtLimit<'_> {
    /// Sum of `count_of` over the rounds, and number of due operations.
    fn sums(&self, count_of: fn(&Round) -> &[u64; THRESHOLDS_MAX]) -> (u64, u64) {
        sums(self.rounds, |round| count_of(round)[self.index])
    }

    fn share(&self) -> f64 {
        share(self.sums(|round| &round.judged_over))
    }

    fn text(&self) -> String {
        format!(
            "{0} of {2} over {1}",
            format::percent(self.share()),
            self.limit.threshold_text(),
            self.series.group
        )
    }

    fn share_of_limit(&self) -> f64 {
        self.share() / self.limit.share_max()
    }
}

#[derive(Debug, Clone)]
pub struct Watcher {
    rounds: Rounds,
    target: StepPurpose,
    /// For each series: number of operations that are due in the whole step; `None` for a closed loop.
    step_ops: Vec<Option<u64>>,
}

impl Watcher {
    /// `manifest` is that of the step's run, which lasts at most `step_sec` seconds.
    pub fn new(manifest: &Manifest, target: StepPurpose, step_sec: u64) -> Self {
        let rounds = Rounds::new(manifest);
        let devices = manifest.devices.len().max(1) as f64;
        let ops = |per_sec: f64| (per_sec > 0.0).then_some((per_sec * step_sec as f64) as u64);
        let step_ops = rounds
            .series
            .iter()
            .map(|series: &RoundSeries| {
                let stream = manifest
                    .streams
                    .iter()
                    .find(|stream| stream.name == series.group.stream);
                let parts = if series.group.device.is_some() {
                    devices
                } else {
                    1.0
                };
                stream.map_or(0.0, |stream| stream.offered_iops / parts)
            })
            .map(ops)
            .collect();
        Self {
            rounds,
            target,
            step_ops,
        }
    }

    /// Returns the reason to end the step once there is enough data.
    pub fn add(&mut self, interval: &Interval) -> Option<String> {
        if self.rounds.add(interval) {
            self.reason_to_end()
        } else {
            None
        }
    }

    fn reason_to_end(&self) -> Option<String> {
        let count = self.rounds.count();
        let cliff = self.cliff();
        if cliff.is_some() {
            return cliff;
        }
        match &self.target {
            StepPurpose::Return(_) if self.has_returned() => {
                Some(format!("{RETURNED} after {count} rounds"))
            }
            StepPurpose::Return(_) if count >= RECOVERY_ROUNDS_MAX => {
                Some(format!("{NOT_RETURNED} within {count} rounds"))
            }
            StepPurpose::Try { exact, .. } if self.is_settled(*exact) => {
                Some(format!("settled after {count} rounds"))
            }
            _ => None,
        }
    }

    pub fn judge(&self, verdict: &Verdict) -> JudgedStep {
        let rounds = self.rounds.count();
        let is_completed = verdict.end == End::Completed;
        let rounds_judged = match &self.target {
            StepPurpose::Return(_) if self.has_returned() => RECOVERED_ROUNDS,
            StepPurpose::Return(_) => self.window(),
            StepPurpose::Try { .. } if !is_completed && self.cliff().is_none() => self.window(),
            StepPurpose::Try { .. } | StepPurpose::Whole => rounds,
        }
        .min(rounds);
        let (step_outcome, reason) = self
            .result_of_end(verdict)
            .unwrap_or_else(|| self.result_of_rounds(verdict, rounds_judged));
        let spells = self
            .rounds
            .series
            .iter()
            .map(|series| series.spells.clone());
        let is_return = matches!(self.target, StepPurpose::Return(_));
        JudgedStep {
            has_moved: is_return && step_outcome == StepOutcome::Held && !self.has_returned(),
            seen: step_outcome,
            why: reason,
            rounds_judged,
            rounds,
            shares: self.shares(rounds_judged),
            spells: spells
                .reduce(|one: Vec<Spells>, other: Vec<Spells>| {
                    one.iter().zip(other).map(|(a, b)| a.worse_of(b)).collect()
                })
                .unwrap_or_default(),
            whole: is_completed,
            ends_in_new_spell: self.ends_in_new_spell(),
        }
    }

    fn result_of_end(&self, verdict: &Verdict) -> Option<(StepOutcome, String)> {
        let reason = || verdict.reason().unwrap_or_default().to_owned();
        match &verdict.end {
            End::Interrupted { .. } => Some((StepOutcome::Interrupted, verdict.end.to_string())),
            _ if verdict.is_broken() => Some((StepOutcome::Broken, reason())),
            // If a device or a limit fell behind, the verdict of the stopped run is a failure. Without a failure, this
            // program's own lag stopped the run.
            end if !end.is_complete() && verdict.outcome == Outcome::Fail => {
                Some((StepOutcome::Failed, reason()))
            }
            end if !end.is_complete() => Some((StepOutcome::OurLimit, reason())),
            _ if self.rounds.count() == 0 => Some((
                StepOutcome::NotSteady,
                "the step ended before its first round was complete".to_owned(),
            )),
            _ => None,
        }
    }

    fn result_of_rounds(&self, verdict: &Verdict, rounds_judged: usize) -> (StepOutcome, String) {
        if self.has_returned() {
            return (StepOutcome::Held, RETURNED.to_owned());
        }
        if let Some(cliff) = self.cliff() {
            return (StepOutcome::Failed, cliff);
        }
        if let Some(over) = self.over_limit(rounds_judged) {
            return over;
        }
        if let Some((group, found)) = self.rounds.undone(rounds_judged) {
            let seen = if found.is_own_delay {
                StepOutcome::OurLimit
            } else {
                StepOutcome::Failed
            };
            return (
                seen,
                format!("the load of {group} was not carried out: {found}"),
            );
        }
        // The verdict on a truncated slice is ignored: the rest of the slice might have made up for a failure.
        let outcome = if verdict.end == End::Completed {
            verdict.outcome
        } else {
            Outcome::Pass
        };
        let reason = || verdict.reason().unwrap_or_default().to_owned();
        match (&self.target, outcome) {
            (StepPurpose::Return(_), _) if self.is_settled(false) => (
                StepOutcome::Held,
                "within the limits and settled, but at other shares of slow operations than before"
                    .to_owned(),
            ),
            (StepPurpose::Return(_), _) => (StepOutcome::NotSteady, NOT_RETURNED.to_owned()),
            (_, Outcome::Fail) => (StepOutcome::Failed, reason()),
            (_, Outcome::Invalid) => (StepOutcome::OurLimit, reason()),
            _ => {
                let worse = self
                    .worse()
                    .map_or_else(String::new, |worse| format!("; {worse}"));
                (
                    StepOutcome::Held,
                    format!("within the limits: {}{worse}", self.nearest(rounds_judged)),
                )
            }
        }
    }

    fn ends_in_new_spell(&self) -> bool {
        let round_sec = self.rounds.round_sec;
        let now_sec = (self.rounds.count() as u64 * round_sec) as f64;
        let window_sec = (ROUNDS_MIN as u64 * round_sec) as f64;
        let mut spells = self.rounds.series.iter().flat_map(|series| &series.spells);
        spells.any(|spells| spells.has_just_begun(now_sec, window_sec))
    }

    /// Length of a window with several spells, rounds; `wait_sec` gives the longest time until a spell.
    fn window_of(&self, wait_sec: impl Fn(&Spells) -> f64) -> usize {
        let spells = self.rounds.series.iter().flat_map(|series| &series.spells);
        let wait_sec = spells.map(wait_sec).fold(0.0, f64::max);
        let earlier_sec = if let StepPurpose::Try { wait_sec, .. } = self.target {
            wait_sec
        } else {
            0.0
        };
        let window_sec = SPELLS_IN_WINDOW as f64 * wait_sec.max(earlier_sec);
        ((window_sec / self.rounds.round_sec as f64).ceil() as usize).max(ROUNDS_MIN)
    }

    /// Length of a window, rounds.
    fn window(&self) -> usize {
        self.window_of(Spells::longest_wait_sec)
    }

    /// For each series and limit: the shares in both halves of the last `rounds` rounds. `None`: fewer rounds.
    fn halves(&self, rounds: usize) -> Option<impl Iterator<Item = (AtLimit<'_>, [f64; 2])>> {
        let half = rounds / 2;
        (self.rounds.count() >= rounds).then(|| {
            self.at_limits(2 * half).map(move |at| {
                let (first, second) = at.rounds.split_at(half);
                let shares = [first, second].map(|rounds| AtLimit { rounds, ..at }.share());
                (at, shares)
            })
        })
    }

    /// True if every share of the last window is settled: at most half of its limit or (without `only_clear`) about
    /// equal in both halves. With `only_clear`, the due operations must also have completed.
    fn is_settled(&self, only_clear: bool) -> bool {
        let window = self.window();
        self.halves(window).is_some_and(|mut halves| {
            halves.all(
                |(AtLimit { limit, .. }, [first, second]): (AtLimit<'_>, [f64; 2])| {
                    let apart_max =
                        (NEAR_OF_LIMIT * limit.share_max()).max(NEAR_OF_ITSELF * first.max(second));
                    first.max(second) <= CLEAR_OF_LIMIT * limit.share_max()
                        || (!only_clear && (first - second).abs() <= apart_max)
                },
            )
        }) && !(only_clear && self.rounds.undone(window).is_some())
    }

    /// The first share that reaches its limit in the second half of the step and has grown by more than a slow spell
    /// can cause. Each half must be at least a window.
    fn worse(&self) -> Option<String> {
        let rounds = self.rounds.count();
        let window = self.window_of(|spells| spells.apart_sec);
        let (AtLimit { series, limit, .. }, [first, second]) = self
            .halves(rounds.max(2 * window))?
            .find(|(at, [first, second]): &(AtLimit<'_>, [f64; 2])| {
                let is_lone = at.series.spells[at.index].is_lone();
                !is_lone && *second >= at.limit.share_max() && *second > WORSE * first
            })?;
        let ([first, second], threshold) =
            ([first, second].map(format::percent), limit.threshold_text());
        Some(format!(
            "getting worse, a longer run may fail: {first} of {} over {threshold} in the first half of {rounds} rounds, \
             {second} in the second half (limit {})",
            series.group,
            limit.share_text()
        ))
    }

    /// Why the step has already failed: the first share that exceeds its limit even if all remaining operations are
    /// fast. Excludes delays that this program may have caused. `None` for a recovery.
    fn cliff(&self) -> Option<String> {
        if matches!(self.target, StepPurpose::Return(_)) {
            return None;
        }
        let count = self.rounds.count();
        let at = self.at_limits(count).find(|at: &AtLimit<'_>| {
            let (over, scheduled) = at.sums(|round| &round.judged_over_lower_bound);
            self.step_ops[at.series_index]
                .is_some_and(|ops| at.limit.is_exceeded(over, ops.max(scheduled)))
        })?;
        let after = format::span(count as u64 * self.rounds.round_sec);
        let most = at.limit.share_text();
        Some(format!(
            "{} in {after} (limit {most}), so the whole step cannot pass",
            at.text()
        ))
    }

    /// The first share that reaches its limit over all judged rounds, or would reach it with this program's own lag.
    fn over_limit(&self, rounds_judged: usize) -> Option<(StepOutcome, String)> {
        self.at_limits(rounds_judged).find_map(|at_limit| {
            let is_exceeded = |(over, scheduled)| at_limit.limit.is_exceeded(over, scheduled);
            let response = at_limit.sums(|round| &round.response_over);
            let text = at_limit.text();
            let limit_text = at_limit.limit.share_text();
            if is_exceeded(at_limit.sums(|round| &round.judged_over)) {
                if is_exceeded(at_limit.sums(|round| &round.judged_over_lower_bound)) {
                    let why = format!("{text} over {rounds_judged} rounds (limit {limit_text})");
                    return Some((StepOutcome::Failed, why));
                }
                let why = format!(
                    "{text} (limit {limit_text}), but only because of this program's own lag"
                );
                Some((StepOutcome::OurLimit, why))
            } else if is_exceeded(response) {
                let share = format::percent(share(response));
                let threshold = at_limit.limit.threshold_text();
                let group = &at_limit.series.group;
                let why = format!(
                    "with this program's own lag, {share} of {group} are over {threshold} (limit {limit_text}): the \
                     lag would decide, not the drive"
                );
                Some((StepOutcome::OurLimit, why))
            } else {
                None
            }
        })
    }

    fn nearest(&self, rounds_judged: usize) -> String {
        // Of several equal shares the first is taken, because its threshold is the tightest.
        let nearest = self.at_limits(rounds_judged).reduce(|nearest, next| {
            if next.share_of_limit() > nearest.share_of_limit() {
                next
            } else {
                nearest
            }
        });
        nearest.map_or_else(String::new, |at| {
            format!("{} (limit {})", at.text(), at.limit.share_text())
        })
    }

    fn has_returned(&self) -> bool {
        let StepPurpose::Return(earlier_shares) = &self.target else {
            return false;
        };
        let sla = &self.rounds.sla;
        self.rounds.count() >= RECOVERED_ROUNDS
            && self
                .judged(RECOVERED_ROUNDS)
                .zip(earlier_shares)
                .all(|((_, rounds), earlier)| {
                    rounds.iter().all(|round| {
                        sla.limits().iter().enumerate().zip(&earlier.share).all(
                            |((index, limit), then)| {
                                let apart_max =
                                    (NEAR_OF_ITSELF * then).max(NEAR_OF_LIMIT * limit.share_max());
                                share((round.judged_over[index], round.scheduled_ops))
                                    <= then + apart_max
                            },
                        )
                    })
                })
    }

    fn judged(&self, rounds_judged: usize) -> impl Iterator<Item = (&RoundSeries, &[Round])> {
        let last = move |series: &'_ RoundSeries| series.rounds.len().saturating_sub(rounds_judged);
        self.rounds
            .series
            .iter()
            .map(move |series| (series, &series.rounds[last(series)..]))
    }

    /// For each series and limit: the last `rounds` rounds.
    fn at_limits(&self, rounds: usize) -> impl Iterator<Item = AtLimit<'_>> {
        let limits = self.rounds.sla.limits();
        self.judged(rounds)
            .enumerate()
            .flat_map(move |(number, (series, rounds))| {
                let at = move |(index, limit)| AtLimit {
                    series_index: number,
                    series,
                    rounds,
                    index,
                    limit,
                };
                limits.iter().enumerate().map(at)
            })
    }

    fn shares(&self, rounds_judged: usize) -> Vec<RoundShares> {
        let thresholds = self.rounds.sla.limits().len();
        self.judged(rounds_judged)
            .map(|(series, rounds): (&RoundSeries, &[Round])| {
                let p99s: Vec<f64> = rounds
                    .iter()
                    .filter_map(|round| round.p99_ns)
                    .map(|ns| ns as f64)
                    .collect();
                RoundShares {
                    group: series.group.to_string(),
                    share: (0..thresholds)
                        .map(|index| share(sums(rounds, |round| round.judged_over[index])))
                        .collect(),
                    margin: (0..thresholds).map(|index| margin(rounds, index)).collect(),
                    p99_ns: (!p99s.is_empty()).then(|| mean(p99s.iter().copied())),
                    achieved_iops: mean(rounds.iter().map(|round| round.achieved_iops)),
                }
            })
            .collect()
    }
}

fn sums(rounds: &[Round], count_of: impl Fn(&Round) -> u64) -> (u64, u64) {
    rounds.iter().fold((0, 0), |(sum, scheduled), round| {
        (sum + count_of(round), scheduled + round.scheduled_ops)
    })
}

fn share((over_ops, total_ops): (u64, u64)) -> f64 {
    over_ops as f64 / total_ops.max(1) as f64
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// Half the width of the 95 % confidence interval of the mean share over rounds, by Student's t for five rounds. The
/// interval is slightly too wide for more rounds, and too narrow for fewer.
fn margin(rounds: &[Round], index: usize) -> f64 {
    let of_round = |round: &Round| share((round.judged_over[index], round.scheduled_ops));
    let shares: Vec<f64> = rounds.iter().map(of_round).collect();
    if shares.len() < 2 {
        return 0.0;
    }
    let count = shares.len() as f64;
    let centre = mean(shares.iter().copied());
    let variance = shares
        .iter()
        .map(|share| (share - centre).powi(2))
        .sum::<f64>()
        / (count - 1.0);
    T_OF_FIVE * (variance / count).sqrt()
}

#[cfg(test)]
mod tests;
