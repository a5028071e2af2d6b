//! Watching one step of a search, round by round: whether it has shown enough, and what it showed.
//!
//! A step is held when every metric is steady and, over the five rounds of that window, every share is
//! below its limit and the whole load was done, as a verdict asks for it. It is not held when a cliff shows: two
//! rounds in a row with a share at its limit, and so many slow operations in the step that a whole slice could
//! not pass with them; the worst of overdriving is over sooner that way. A step that is neither
//! after 25 rounds (as many as SNIA allows) is not steady, and a rating is not built on it. A recovery
//! has no cliff: that a drive is slow then is why it is run.
//!
//! Whose doing a share is, is asked as for a verdict: it speaks against the drive only if it is at its
//! limit without what this program may have made itself, and for the drive only if our own lag would not
//! put it there.

use crate::buckets::THRESHOLDS_MAX;
use crate::cell::Interval;
use crate::judge::{End, Limit, Outcome, Verdict};
use crate::run_dir::Manifest;
use crate::steady::{ROUNDS_IN_WINDOW, Round, Rounds, Series, Steadiness, is_steady_at};
use crate::units;
use serde::{Deserialize, Serialize};

/// Most rounds of a step. Source: SNIA PTS 2.0.2, which stops after 25.
pub const ROUNDS_MAX: usize = 25;
/// Rounds in a row with a share at its limit that make a cliff.
pub const CLIFF_ROUNDS: usize = 2;
/// Rounds in a row that must be as they were for a drive to have recovered.
const RECOVERED_ROUNDS: usize = 2;
/// How far a share may be from where it was: of itself, or of its limit. As a steady window may range.
const RETURNED_OF_ITSELF: f64 = 0.20;
const RETURNED_OF_LIMIT: f64 = 0.10;
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
    /// 99th percentile of service times, the mean of rounds; `None` where nothing succeeded.
    pub p99_ns: Option<f64>,
    /// Operations a second that succeeded.
    pub achieved_iops: f64,
}

/// What a step is run for.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// To be steady.
    Steady,
    /// To be steady over a given number of rounds, all of which are judged.
    Whole(usize),
    /// For these shares to return.
    Return(Vec<Shares>),
}

/// What a step showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// The load was held (or, in a recovery, the earlier shares returned).
    Held,
    /// A limit was reached, or the load was not done.
    Failed,
    /// Operations failed, or the device is gone: no load makes that better.
    Broken,
    /// Within the limits, but not steady (or, in a recovery, not as before).
    NotSteady,
    /// This program or host was in the way.
    OurLimit,
    /// It was broken off.
    Interrupted,
}

/// A step with what it showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// What it showed.
    pub seen: Seen,
    /// Why, one sentence with the number that decided.
    pub why: String,
    /// Rounds that were judged, the last ones of the step.
    pub rounds_judged: usize,
    /// Whole rounds of the step.
    pub rounds: usize,
    /// Shares over the judged rounds, a group each.
    pub shares: Vec<Shares>,
}

/// Watches one step.
#[derive(Debug, Clone)]
pub struct Watcher {
    rounds: Rounds,
    target: Target,
    /// By series, how many operations a whole slice wants; `None` of a closed stream.
    slice_ops: Vec<Option<u64>>,
}

impl Watcher {
    /// A watcher of the run that `manifest` describes.
    pub fn new(manifest: &Manifest, target: Target) -> Self {
        let rounds = Rounds::new(manifest);
        let devices = manifest.devices.len().max(1) as f64;
        let offered = |series: &Series| {
            let stream = manifest.streams.iter().find(|stream| stream.name == series.group.stream);
            let parts = if series.group.device.is_some() { devices } else { 1.0 };
            stream.map_or(0.0, |stream| stream.offered_iops / parts)
        };
        let ops = |per_sec: f64| (per_sec > 0.0).then_some((per_sec * manifest.slice_sec as f64) as u64);
        let slice_ops = rounds.series().iter().map(offered).map(ops).collect();
        Self { rounds, target, slice_ops }
    }

    /// Takes in an interval; says what was seen once that is enough.
    pub fn add(&mut self, interval: &Interval) -> Option<String> {
        if self.rounds.add(interval) { self.enough() } else { None }
    }

    fn enough(&self) -> Option<String> {
        let (count, cliff) = (self.rounds.len(), self.cliff());
        if cliff.is_some() {
            return cliff;
        }
        match &self.target {
            Target::Return(_) if self.has_returned() => {
                Some(format!("the earlier shares returned after {count} rounds"))
            }
            Target::Return(_) if count >= ROUNDS_MAX => Some(format!("not as before within {count} rounds")),
            Target::Steady if self.is_steady() => Some(format!("steady after {count} rounds")),
            Target::Steady if count >= ROUNDS_MAX => Some(format!("not steady within {count} rounds")),
            Target::Whole(rounds) if count >= *rounds => Some(format!("{count} rounds are over")),
            _ => None,
        }
    }

    /// What the step showed, given the verdict on its run.
    pub fn judge(&self, verdict: &Verdict) -> Judged {
        let rounds = self.rounds.len();
        let rounds_judged = match &self.target {
            Target::Return(_) if self.has_returned() => RECOVERED_ROUNDS,
            _ if self.cliff().is_some() => CLIFF_ROUNDS,
            Target::Whole(_) => rounds,
            Target::Steady | Target::Return(_) => ROUNDS_IN_WINDOW,
        }
        .min(rounds);
        let (seen, why) = self.ended(verdict).unwrap_or_else(|| self.seen(verdict, rounds_judged));
        Judged { seen, why, rounds_judged, rounds, shares: self.shares(rounds_judged) }
    }

    /// What the end of the run says of the step, whatever its shares were.
    fn ended(&self, verdict: &Verdict) -> Option<(Seen, String)> {
        let reason = || verdict.reason().unwrap_or_default().to_owned();
        match &verdict.end {
            End::Interrupted { .. } => Some((Seen::Interrupted, verdict.end.to_string())),
            _ if verdict.is_broken() => Some((Seen::Broken, reason())),
            // A device or limit that lagged; or our own lag.
            end if !end.is_complete() && verdict.outcome == Outcome::Fail => Some((Seen::Failed, reason())),
            end if !end.is_complete() => Some((Seen::OurLimit, reason())),
            _ if self.rounds.is_empty() => Some((Seen::NotSteady, "it ended before its first round did".to_owned())),
            _ => None,
        }
    }

    /// What the judged rounds show.
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
        match &self.target {
            // The whole of it is judged, so what the verdict doubts is in doubt.
            Target::Whole(_) if verdict.outcome == Outcome::Invalid => {
                (Seen::OurLimit, verdict.reason().unwrap_or_default().to_owned())
            }
            Target::Return(_) if self.is_steady() => {
                (Seen::Held, "within the limits and steady, at other shares than before".to_owned())
            }
            Target::Steady | Target::Whole(_) if self.is_steady() => {
                (Seen::Held, format!("steady and within the limits: {}", self.nearest(rounds_judged)))
            }
            _ => (Seen::NotSteady, Steadiness::of(&self.rounds).sentence()),
        }
    }

    /// Whether every metric is steady over the last rounds; of a whole slice, over five that end among its
    /// last five: one odd round at its very end does not undo an hour.
    fn is_steady(&self) -> bool {
        let end = self.rounds.len();
        match self.target {
            Target::Whole(_) => {
                (end.saturating_sub(ROUNDS_IN_WINDOW - 1)..=end).any(|end| is_steady_at(&self.rounds, end))
            }
            _ => is_steady_at(&self.rounds, end),
        }
    }

    /// The first share that was at its limit in each of the last rounds, without anything of ours in it, and of
    /// which all rounds so far have so much that a whole slice would be at its limit. A recovery has no cliff.
    fn cliff(&self) -> Option<String> {
        if matches!(self.target, Target::Return(_)) || self.rounds.len() < CLIFF_ROUNDS {
            return None;
        }
        self.judged(CLIFF_ROUNDS).zip(&self.slice_ops).find_map(|((series, last), slice_ops)| {
            let is_over = |(index, limit): &(usize, &Limit)| {
                let (so_far, wanted) = sums(&series.rounds, |round| round.over_least[*index]);
                last.iter().all(|round| limit.is_exceeded(round.over_least[*index], round.wanted))
                    && slice_ops.is_none_or(|ops| limit.is_exceeded(so_far, ops.max(wanted)))
            };
            let (index, limit) = self.rounds.sla().limits().iter().enumerate().find(is_over)?;
            let (over, wanted) = sums(last, |round| round.over[index]);
            Some(format!(
                "{} over {} of {} in {CLIFF_ROUNDS} rounds in a row (limit {})",
                percent(over, wanted),
                limit.threshold_text(),
                series.group,
                limit.share_text()
            ))
        })
    }

    /// The first share that is at its limit over all of the judged rounds, or would be by our own doing.
    fn over_limit(&self, rounds_judged: usize) -> Option<(Seen, String)> {
        self.judged(rounds_judged).find_map(|(series, rounds)| {
            let over = |(index, limit): (usize, &Limit)| {
                let exceeded = |over: fn(&Round) -> &[u64; THRESHOLDS_MAX]| {
                    let (over, wanted) = sums(rounds, |round| over(round)[index]);
                    limit.is_exceeded(over, wanted).then(|| percent(over, wanted))
                };
                let (threshold, group, most) = (limit.threshold_text(), &series.group, limit.share_text());
                let judged = exceeded(|round| &round.over);
                match (&judged, exceeded(|round| &round.over_least), exceeded(|round| &round.over_response)) {
                    (Some(share), Some(_), _) => Some((
                        Seen::Failed,
                        format!("{share} over {threshold} of {group} over {rounds_judged} rounds (limit {most})"),
                    )),
                    (Some(share), None, _) => Some((
                        Seen::OurLimit,
                        format!("{share} over {threshold} of {group} (limit {most}), but only with what this program was late itself"),
                    )),
                    (None, _, Some(share)) => Some((
                        Seen::OurLimit,
                        format!("with our own lag {share} over {threshold} of {group} (limit {most}): it would decide"),
                    )),
                    (None, _, None) => None,
                }
            };
            self.rounds.sla().limits().iter().enumerate().find_map(over)
        })
    }

    /// The share that came nearest to its limit.
    fn nearest(&self, rounds_judged: usize) -> String {
        let limits = self.rounds.sla().limits();
        let all = self.judged(rounds_judged).flat_map(|(series, rounds)| {
            let sums = move |index: usize| sums(rounds, |round| round.over[index]);
            limits.iter().enumerate().map(move |(index, limit)| (series, limit, sums(index)))
        });
        let part = |(_, limit, (over, wanted)): &(&Series, &Limit, (u64, u64))| {
            *over as f64 / (*wanted).max(1) as f64 / limit.share_max()
        };
        // Of equals the first: the tightest threshold.
        let nearest = all.reduce(|nearest, next| if part(&next) > part(&nearest) { next } else { nearest });
        nearest.map_or_else(String::new, |(series, limit, (over, wanted))| {
            let (share, threshold) = (percent(over, wanted), limit.threshold_text());
            format!("{share} over {threshold} of {} (limit {})", series.group, limit.share_text())
        })
    }

    fn has_returned(&self) -> bool {
        let Target::Return(earlier) = &self.target else { return false };
        let sla = self.rounds.sla();
        let near =
            |now: f64, then: f64, limit: f64| now <= then + (RETURNED_OF_ITSELF * then).max(RETURNED_OF_LIMIT * limit);
        self.rounds.len() >= RECOVERED_ROUNDS
            && self.judged(RECOVERED_ROUNDS).zip(earlier).all(|((_, rounds), earlier)| {
                rounds.iter().all(|round| {
                    let shares = sla.limits().iter().enumerate().zip(&earlier.share).all(|((index, limit), then)| {
                        near(round.over[index] as f64 / round.wanted.max(1) as f64, *then, limit.share_max())
                    });
                    let p99 = round.p99_ns.zip(earlier.p99_ns);
                    shares && p99.is_none_or(|(now, then)| near(now as f64, then, sla.tightest_ns() as f64))
                })
            })
    }

    /// The last rounds of each series.
    fn judged(&self, rounds_judged: usize) -> impl Iterator<Item = (&Series, &[Round])> {
        let last = move |series: &'_ Series| series.rounds.len().saturating_sub(rounds_judged);
        self.rounds.series().iter().map(move |series| (series, &series.rounds[last(series)..]))
    }

    fn shares(&self, rounds_judged: usize) -> Vec<Shares> {
        let thresholds = self.rounds.sla().limits().len();
        let of = |(series, rounds): (&Series, &[Round])| {
            let share = |index| {
                let (over, wanted) = sums(rounds, |round| round.over[index]);
                if wanted > 0 { over as f64 / wanted as f64 } else { 0.0 }
            };
            let p99s: Vec<f64> = rounds.iter().filter_map(|round| round.p99_ns).map(|ns| ns as f64).collect();
            Shares {
                group: series.group.to_string(),
                share: (0..thresholds).map(share).collect(),
                margin: (0..thresholds).map(|index| margin(rounds, index)).collect(),
                p99_ns: (!p99s.is_empty()).then(|| mean(p99s.iter().copied())),
                achieved_iops: mean(rounds.iter().map(|round| round.achieved_iops)),
            }
        };
        self.judged(rounds_judged).map(of).collect()
    }
}

/// Operations that `over` counts, and wanted.
fn sums(rounds: &[Round], over: impl Fn(&Round) -> u64) -> (u64, u64) {
    rounds.iter().fold((0, 0), |(sum, wanted), round| (sum + over(round), wanted + round.wanted))
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// Half the width of the 95 % interval of the mean share of rounds, by Student's t. It takes the width for
/// five rounds for any number from two on: for more it is a little too wide.
fn margin(rounds: &[Round], index: usize) -> f64 {
    let shares: Vec<f64> = rounds.iter().map(|round| round.over[index] as f64 / round.wanted.max(1) as f64).collect();
    if shares.len() < 2 {
        return 0.0;
    }
    let (count, centre) = (shares.len() as f64, mean(shares.iter().copied()));
    let variance = shares.iter().map(|share| (share - centre).powi(2)).sum::<f64>() / (count - 1.0);
    T_OF_FIVE * (variance / count).sqrt()
}

fn percent(over: u64, wanted: u64) -> String {
    units::percent(over as f64 / wanted.max(1) as f64)
}

#[cfg(test)]
mod tests;
