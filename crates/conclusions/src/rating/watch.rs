//! Watching one step of a search, round by round: when the step can end, and its result.
//!
//! A step lasts a slice, and is held if a verdict on that slice would pass. Two things end a step before that:
//!
//! * a **cliff**: so many slow operations that no rest of the slice could make up for them. Not held.
//! * for a load that is only tried, a **window** over which the shares are settled. A window has six rounds, or holds
//!   four of the slow spells ([`Spells`]) that the drive showed. A share is settled if it agrees in both halves, or is
//!   below half of its limit. On a simulated drive only the latter ends a step, because its time costs little.
//!
//! A whole slice within its limits is held, as a verdict would say. Where a share is over its limit in the second half
//! alone, and each half holds a window, the result says that a longer run may not hold.
//!
//! Shares are attributed as for a verdict: a share counts against the drive only if it is at its limit without delays
//! that this program may have caused, and for the drive only if our own lag would not put it there.

use results::buckets::THRESHOLDS_MAX;
use results::cell::Interval;
use results::judge::{End, Limit, Outcome, Verdict};
use results::run_dir::Manifest;
use results::steady::{Round, Rounds, Series, Spells};
use results::units;
use serde::{Deserialize, Serialize};

/// Minimum number of rounds of a window.
pub const ROUNDS_MIN: usize = 6;
/// Maximum number of rounds of a recovery. Source: SNIA PTS 2.0.2, which stops after 25.
pub const RECOVERY_ROUNDS_MAX: usize = 25;
/// Number of slow spells that a window holds: one more or less changes a share by a quarter.
pub const SPELLS_IN_WINDOW: usize = 4;
/// Consecutive rounds with the earlier shares after which a drive has recovered.
const RECOVERED_ROUNDS: usize = 2;
/// Maximum distance between two shares that agree, relative to the share or to its limit.
const NEAR_OF_ITSELF: f64 = 0.20;
const NEAR_OF_LIMIT: f64 = 0.10;
/// Fraction of its limit up to which a share needs no closer look.
const CLEAR_OF_LIMIT: f64 = 0.5;
/// Minimum growth of a share in the second half of a step that gets worse: more than one slow spell of a window.
const WORSE: f64 = 1.0 + 1.0 / SPELLS_IN_WINDOW as f64;
/// Student's t for 95 % and four degrees of freedom: five rounds.
const T_OF_FIVE: f64 = 2.776;

/// The shares of one group over the rounds that were judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// The stream and device: `reads on /dev/nvme0n1`.
    pub group: String,
    /// By threshold: operations over it by operations wanted.
    pub share: Vec<f64>,
    /// By threshold: half the width of the 95 % interval of the mean of rounds.
    pub margin: Vec<f64>,
    /// 99th percentile of service times, mean over rounds; `None` if nothing succeeded.
    pub p99_ns: Option<f64>,
    /// Operations per second that succeeded.
    pub achieved_iops: f64,
}

/// Purpose of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// Check if the load is held: over a window, if that is enough.
    Try {
        /// The longest time until a slow spell in earlier steps, seconds: a window holds several such times, too.
        wait_sec: f64,
        /// The step runs to the end of the slice unless all shares are far below their limits.
        exact: bool,
    },
    /// Watch a whole slice.
    Whole,
    /// Wait for these shares to return.
    Return(Vec<Shares>),
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// The load was held (or, in a recovery, the earlier shares returned).
    Held,
    /// A limit was reached, or the load was not done.
    Failed,
    /// Operations failed, or the device is gone: no other load would avoid that.
    Broken,
    /// A recovery without the earlier shares, or a step that ended before its first round did.
    NotSteady,
    /// This program or host was in the way.
    OurLimit,
    Interrupted,
}

/// A step with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Result.
    pub seen: Seen,
    /// Why, one sentence with the number that decided.
    pub why: String,
    /// Rounds that were judged, the last ones of the step.
    pub rounds_judged: usize,
    pub rounds: usize,
    /// Shares over the judged rounds, a group each.
    pub shares: Vec<Shares>,
    /// By limit, the slow spells of the step.
    #[serde(default)]
    pub spells: Vec<Spells>,
    /// The step lasted as long as planned: nothing ended it early.
    #[serde(default)]
    pub whole: bool,
}

impl Judged {
    /// The longest time before a slow spell, seconds; 0 without any.
    pub fn longest_wait_sec(&self) -> f64 {
        self.spells.iter().fold(0.0, |longest, spells| longest.max(spells.longest_wait_sec()))
    }
}

/// The last rounds of a series under one limit.
#[derive(Clone, Copy)]
struct AtLimit<'a> {
    /// Index of the series.
    number: usize,
    series: &'a Series,
    rounds: &'a [Round],
    /// Index of the limit.
    index: usize,
    limit: &'a Limit,
}

impl AtLimit<'_> {
    /// Sum of the operations that `over` counts, and of the wanted operations.
    fn sums(&self, over: fn(&Round) -> &[u64; THRESHOLDS_MAX]) -> (u64, u64) {
        sums(self.rounds, |round| over(round)[self.index])
    }

    fn share(&self) -> f64 {
        share(self.sums(|round| &round.over))
    }

    /// Share, threshold and series in words.
    fn text(&self) -> String {
        format!("{0} of {2} over {1}", units::percent(self.share()), self.limit.threshold_text(), self.series.group)
    }
}

#[derive(Debug, Clone)]
pub struct Watcher {
    rounds: Rounds,
    target: Target,
    /// By series: number of operations that the whole step wants; `None` for a closed loop.
    step_ops: Vec<Option<u64>>,
}

impl Watcher {
    /// A watcher of the run that `manifest` describes, of a step that may last `step_sec`.
    pub fn new(manifest: &Manifest, target: Target, step_sec: u64) -> Self {
        let rounds = Rounds::new(manifest);
        let devices = manifest.devices.len().max(1) as f64;
        let offered = |series: &Series| {
            let stream = manifest.streams.iter().find(|stream| stream.name == series.group.stream);
            let parts = if series.group.device.is_some() { devices } else { 1.0 };
            stream.map_or(0.0, |stream| stream.offered_iops / parts)
        };
        let ops = |per_sec: f64| (per_sec > 0.0).then_some((per_sec * step_sec as f64) as u64);
        let step_ops = rounds.series.iter().map(offered).map(ops).collect();
        Self { rounds, target, step_ops }
    }

    /// Adds an interval; returns the result once there is enough data.
    pub fn add(&mut self, interval: &Interval) -> Option<String> {
        if self.rounds.add(interval) { self.enough() } else { None }
    }

    fn enough(&self) -> Option<String> {
        let (count, cliff) = (self.rounds.count(), self.cliff());
        if cliff.is_some() {
            return cliff;
        }
        match &self.target {
            Target::Return(_) if self.has_returned() => {
                Some(format!("the earlier shares returned after {count} rounds"))
            }
            Target::Return(_) if count >= RECOVERY_ROUNDS_MAX => {
                Some(format!("the earlier shares did not return within {count} rounds"))
            }
            Target::Try { exact, .. } if self.is_settled(*exact) => Some(format!("settled after {count} rounds")),
            _ => None,
        }
    }

    /// Judges the step, given the verdict on its run.
    pub fn judge(&self, verdict: &Verdict) -> Judged {
        let (rounds, whole) = (self.rounds.count(), verdict.end == End::Completed);
        let rounds_judged = match &self.target {
            Target::Return(_) if self.has_returned() => RECOVERED_ROUNDS,
            Target::Return(_) => self.window(),
            Target::Try { .. } if !whole && self.cliff().is_none() => self.window(),
            Target::Try { .. } | Target::Whole => rounds,
        }
        .min(rounds);
        let (seen, why) = self.ended(verdict).unwrap_or_else(|| self.seen(verdict, rounds_judged));
        let spells = self.rounds.series.iter().map(|series| series.spells.clone());
        let worst = |one: Vec<Spells>, other: Vec<Spells>| one.iter().zip(other).map(|(a, b)| a.or(b)).collect();
        Judged {
            seen,
            why,
            rounds_judged,
            rounds,
            shares: self.shares(rounds_judged),
            spells: spells.reduce(worst).unwrap_or_default(),
            whole,
        }
    }

    /// Result that follows from the end of the run alone, whatever the shares were.
    fn ended(&self, verdict: &Verdict) -> Option<(Seen, String)> {
        let reason = || verdict.reason().unwrap_or_default().to_owned();
        match &verdict.end {
            End::Interrupted { .. } => Some((Seen::Interrupted, verdict.end.to_string())),
            _ if verdict.is_broken() => Some((Seen::Broken, reason())),
            // A device or limit that lagged failed the run; otherwise our own lag stopped it.
            end if !end.is_complete() && verdict.outcome == Outcome::Fail => Some((Seen::Failed, reason())),
            end if !end.is_complete() => Some((Seen::OurLimit, reason())),
            _ if self.rounds.count() == 0 => {
                Some((Seen::NotSteady, "the step ended before its first round was complete".to_owned()))
            }
            _ => None,
        }
    }

    /// Result that follows from the judged rounds.
    fn seen(&self, verdict: &Verdict, rounds_judged: usize) -> (Seen, String) {
        if self.has_returned() {
            return (Seen::Held, "the earlier shares returned".to_owned());
        }
        if let Some(cliff) = self.cliff() {
            return (Seen::Failed, cliff);
        }
        if let Some(over) = self.over_limit(rounds_judged) {
            return over;
        }
        if let Some((group, found)) = self.rounds.undone(rounds_judged) {
            let seen = if found.ours { Seen::OurLimit } else { Seen::Failed };
            return (seen, format!("the load of {group} was not done: {found}"));
        }
        // The rest of a truncated slice might have compensated for the cause of its verdict.
        let outcome = if verdict.end == End::Completed { verdict.outcome } else { Outcome::Pass };
        let reason = || verdict.reason().unwrap_or_default().to_owned();
        match (&self.target, outcome) {
            (Target::Return(_), _) if self.is_settled(false) => {
                (Seen::Held, "within the limits and settled, at other shares than before".to_owned())
            }
            (Target::Return(_), _) => (Seen::NotSteady, "the earlier shares did not return".to_owned()),
            (_, Outcome::Fail) => (Seen::Failed, reason()),
            (_, Outcome::Invalid) => (Seen::OurLimit, reason()),
            _ => {
                let worse = self.worse().map_or_else(String::new, |worse| format!("; {worse}"));
                (Seen::Held, format!("within the limits: {}{worse}", self.nearest(rounds_judged)))
            }
        }
    }

    /// Length of a window with several spells, rounds; `wait_sec` gives the time until one comes.
    fn window_of(&self, wait_sec: impl Fn(&Spells) -> f64) -> usize {
        let spells = self.rounds.series.iter().flat_map(|series| &series.spells);
        let wait_sec = spells.map(wait_sec).fold(0.0, f64::max);
        let earlier_sec = if let Target::Try { wait_sec, .. } = self.target { wait_sec } else { 0.0 };
        let window_sec = SPELLS_IN_WINDOW as f64 * wait_sec.max(earlier_sec);
        ((window_sec / self.rounds.round_sec as f64).ceil() as usize).max(ROUNDS_MIN)
    }

    /// Length of a window, rounds.
    fn window(&self) -> usize {
        self.window_of(Spells::longest_wait_sec)
    }

    /// By series and limit: the shares in both halves of the last `rounds` rounds; `None` if there are fewer.
    fn halves(&self, rounds: usize) -> Option<impl Iterator<Item = (AtLimit<'_>, [f64; 2])>> {
        let half = rounds / 2;
        let shares = move |at: AtLimit<'_>| {
            let (first, second) = at.rounds.split_at(half);
            [first, second].map(|rounds| AtLimit { rounds, ..at }.share())
        };
        (self.rounds.count() >= rounds).then(|| self.at_limits(2 * half).map(move |at| (at, shares(at))))
    }

    /// True if every share of the last window is clear of its limit or, unless `only_clear`, agrees in both halves; and
    /// the load is done.
    fn is_settled(&self, only_clear: bool) -> bool {
        let window = self.window();
        let is_settled = |(AtLimit { limit, .. }, [first, second]): (AtLimit<'_>, [f64; 2])| {
            let apart_max = (NEAR_OF_LIMIT * limit.share_max()).max(NEAR_OF_ITSELF * first.max(second));
            first.max(second) <= CLEAR_OF_LIMIT * limit.share_max()
                || (!only_clear && (first - second).abs() <= apart_max)
        };
        self.halves(window).is_some_and(|mut halves| halves.all(is_settled))
            && !(only_clear && self.rounds.undone(window).is_some())
    }

    /// The first share that is over its limit in the second half of a step, and was not in the first; each half holds a
    /// window.
    fn worse(&self) -> Option<String> {
        let (rounds, window) = (self.rounds.count(), self.window_of(|spells| spells.apart_sec));
        let rose = |(at, [first, second]): &(AtLimit<'_>, [f64; 2])| {
            let is_lone = at.series.spells[at.index].is_lone();
            !is_lone && *second >= at.limit.share_max() && *second > WORSE * first
        };
        let (AtLimit { series, limit, .. }, [first, second]) = self.halves(rounds.max(2 * window))?.find(rose)?;
        let ([first, second], threshold) = ([first, second].map(units::percent), limit.threshold_text());
        Some(format!(
            "getting worse, a longer run may fail: {first} of {} over {threshold} in the first half of {rounds} rounds, \
             {second} in the second half (limit {})",
            series.group,
            limit.share_text()
        ))
    }

    /// The first share that puts the whole step at its limit by the rounds so far, without our own delays. A recovery
    /// has no cliff.
    fn cliff(&self) -> Option<String> {
        if matches!(self.target, Target::Return(_)) {
            return None;
        }
        let count = self.rounds.count();
        let is_too_much = |at: &AtLimit<'_>| {
            let (over, wanted) = at.sums(|round| &round.over_least);
            self.step_ops[at.number].is_some_and(|ops| at.limit.is_exceeded(over, ops.max(wanted)))
        };
        let at = self.at_limits(count).find(is_too_much)?;
        let (after, most) = (units::span(count as u64 * self.rounds.round_sec), at.limit.share_text());
        Some(format!("{} in {after} (limit {most}), so the whole step cannot pass", at.text()))
    }

    /// The first share that is at its limit over all of the judged rounds, or would be with our own lag.
    fn over_limit(&self, rounds_judged: usize) -> Option<(Seen, String)> {
        self.at_limits(rounds_judged).find_map(|at| {
            let exceeded = |(over, wanted)| at.limit.is_exceeded(over, wanted);
            let response = at.sums(|round| &round.over_response);
            let (text, most) = (at.text(), at.limit.share_text());
            match exceeded(at.sums(|round| &round.over)) {
                true if exceeded(at.sums(|round| &round.over_least)) => {
                    Some((Seen::Failed, format!("{text} over {rounds_judged} rounds (limit {most})")))
                }
                true => {
                    let why = "but only because of this program's own lag";
                    Some((Seen::OurLimit, format!("{text} (limit {most}), {why}")))
                }
                false if exceeded(response) => {
                    let (share, threshold) = (units::percent(share(response)), at.limit.threshold_text());
                    let group = &at.series.group;
                    let why =
                        format!("with this program's own lag {share} of {group} over {threshold} (limit {most}): this lag would decide");
                    Some((Seen::OurLimit, why))
                }
                false => None,
            }
        })
    }

    /// The share that came nearest to its limit.
    fn nearest(&self, rounds_judged: usize) -> String {
        let part = |at: &AtLimit<'_>| at.share() / at.limit.share_max();
        // Of equals the first: the tightest threshold.
        let nearest = |nearest, next| if part(&next) > part(&nearest) { next } else { nearest };
        let nearest = self.at_limits(rounds_judged).reduce(nearest);
        nearest.map_or_else(String::new, |at| format!("{} (limit {})", at.text(), at.limit.share_text()))
    }

    fn has_returned(&self) -> bool {
        let Target::Return(earlier) = &self.target else { return false };
        let sla = &self.rounds.sla;
        let near = |now: f64, then: f64, limit: f64| now <= then + (NEAR_OF_ITSELF * then).max(NEAR_OF_LIMIT * limit);
        self.rounds.count() >= RECOVERED_ROUNDS
            && self.judged(RECOVERED_ROUNDS).zip(earlier).all(|((_, rounds), earlier)| {
                rounds.iter().all(|round| {
                    sla.limits().iter().enumerate().zip(&earlier.share).all(|((index, limit), then)| {
                        near(round.over[index] as f64 / round.wanted.max(1) as f64, *then, limit.share_max())
                    })
                })
            })
    }

    /// The last rounds of each series.
    fn judged(&self, rounds_judged: usize) -> impl Iterator<Item = (&Series, &[Round])> {
        let last = move |series: &'_ Series| series.rounds.len().saturating_sub(rounds_judged);
        self.rounds.series.iter().map(move |series| (series, &series.rounds[last(series)..]))
    }

    /// The last rounds of each series by each limit.
    fn at_limits(&self, rounds: usize) -> impl Iterator<Item = AtLimit<'_>> {
        let limits = self.rounds.sla.limits();
        self.judged(rounds).enumerate().flat_map(move |(number, (series, rounds))| {
            let at = move |(index, limit)| AtLimit { number, series, rounds, index, limit };
            limits.iter().enumerate().map(at)
        })
    }

    fn shares(&self, rounds_judged: usize) -> Vec<Shares> {
        let thresholds = self.rounds.sla.limits().len();
        let of = |(series, rounds): (&Series, &[Round])| {
            let p99s: Vec<f64> = rounds.iter().filter_map(|round| round.p99_ns).map(|ns| ns as f64).collect();
            Shares {
                group: series.group.to_string(),
                share: (0..thresholds).map(|index| share(sums(rounds, |round| round.over[index]))).collect(),
                margin: (0..thresholds).map(|index| margin(rounds, index)).collect(),
                p99_ns: (!p99s.is_empty()).then(|| mean(p99s.iter().copied())),
                achieved_iops: mean(rounds.iter().map(|round| round.achieved_iops)),
            }
        };
        self.judged(rounds_judged).map(of).collect()
    }
}

/// Sum of the operations that `over` counts, and of the wanted operations.
fn sums(rounds: &[Round], over: impl Fn(&Round) -> u64) -> (u64, u64) {
    rounds.iter().fold((0, 0), |(sum, wanted), round| (sum + over(round), wanted + round.wanted))
}

fn share((over, wanted): (u64, u64)) -> f64 {
    over as f64 / wanted.max(1) as f64
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// Half the width of the 95 % interval of the mean share of rounds, by Student's t for five rounds. The interval is a
/// little too wide for more rounds, and too narrow for fewer.
fn margin(rounds: &[Round], index: usize) -> f64 {
    let shares: Vec<f64> = rounds.iter().map(|round| round.over[index] as f64 / round.wanted.max(1) as f64).collect();
    if shares.len() < 2 {
        return 0.0;
    }
    let (count, centre) = (shares.len() as f64, mean(shares.iter().copied()));
    let variance = shares.iter().map(|share| (share - centre).powi(2)).sum::<f64>() / (count - 1.0);
    T_OF_FIVE * (variance / count).sqrt()
}

#[cfg(test)]
mod tests;
