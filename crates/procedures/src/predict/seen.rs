//! Time-dependent behaviour of a drive in a baseline, and behaviour that it cannot have observed.

use load::baseline::Form;
use load::baseline::fit::Fit;
use results::baseline::{Declined, DeclinedBy, Done, PAUSES_MIN, Part, Point, Stalls, Watch};
use results::series::Identity;
use results::units;

/// An event's period is known if the watch lasts this many periods.
const TIMES_SEEN: u64 = PAUSES_MIN;

/// Events that occur once an hour matter to readers, seconds.
const HOUR_SEC: u64 = 3_600;

/// Garbage collection is assumed if the saturation's last [`LAST_ROUNDS`] rounds of writes are slower by this
/// fraction.
const FELL: f64 = 0.1;
const LAST_ROUNDS: usize = 3;

/// The second watch is short: a drift must exceed this factor and this time.
const DRIFT_FACTOR: f64 = 1.2;
const DRIFT_US: f64 = 5.0;

/// Observations of a baseline.
pub(super) struct Seen<'a> {
    watch: Option<&'a Watch>,
    later: Option<&'a Watch>,
    /// Stalls rarer than a second.
    pub stalls: Option<Stalls>,
    /// Time under load, seconds.
    lived_sec: f64,
    /// Bytes written meanwhile.
    written_bytes: f64,
}

impl<'a> Seen<'a> {
    pub(super) fn of(points: &'a [Point]) -> Self {
        let watches = || points.iter().filter(|point| point.part == Part::Watch);
        let of = |round: u32| watches().rfind(|point| point.round == round).and_then(|point| point.watch.as_ref());
        let stalls = watches().find(|point| point.round == 0).and_then(|point| {
            let all = |of: fn(&Done) -> f64| point.directions().map(of).sum::<f64>();
            let mean_us = all(|done| done.answer.mean_us * done.ops as f64) / all(|done| done.ops as f64);
            point.watch.as_ref()?.stalls(all(|done| done.iops), mean_us)
        });
        let written = |point: &Point| point.writes.as_ref().map_or(0.0, |done| done.ops as f64 * done.bytes_each);
        Self {
            watch: of(0),
            later: of(1),
            stalls,
            lived_sec: points.iter().map(|point| point.seconds).sum(),
            written_bytes: points.iter().map(written).sum(),
        }
    }

    /// Why a drive that drifts has no prediction; `None`: it does not drift.
    pub(super) fn drift(&self) -> Option<Declined> {
        let watch = self.watch?;
        let seen = watch.drift().or_else(|| drift_between(watch, self.later?))?;
        let reason =
            format!("{seen}: what the drive does after an hour is not known - measure it again once it has settled");
        Some(Declined { cause: DeclinedBy::Drift, reason })
    }

    /// Why a drive that `fit` does not describe has no prediction; `None`: it describes the drive.
    pub(super) fn undescribed(&self, points: &[Point], fit: &Fit) -> Option<Declined> {
        let collects = |seen: String| Declined {
            cause: DeclinedBy::GarbageCollection,
            reason: format!("{seen}, and how much a drive collects depends on the load - rate the drive itself"),
        };
        if let Some(fell) = fell(points) {
            return Some(collects(fell));
        }
        if !fit.doubtful {
            return None;
        }
        let missed = format!(
            "a drive of channels and service times misses {} of {}",
            units::number(fit.misses.len() as f64),
            units::count(fit.points as u64, "point")
        );
        Some(match self.stalls.as_ref().filter(|stalls| !stalls.regular) {
            Some(stalls) => collects(format!("{missed}, and a light load met {}", told(stalls))),
            None => Declined {
                cause: DeclinedBy::Model,
                reason: format!(
                    "{missed}: reads may wait for writes, or a cache, or something else kept the machine busy - rate the drive itself"
                ),
            },
        })
    }

    /// Why there is no prediction if the drives at both ends differ too much.
    pub(super) fn undecided(&self, [_, slow, fast]: [Option<f64>; 3]) -> Declined {
        let rating = |rating: Option<f64>| rating.map_or("no load".to_owned(), units::multiple);
        let ends = format!("anything from {} to {} is possible", rating(slow), rating(fast));
        match &self.stalls {
            Some(stalls) => Declined { cause: DeclinedBy::Stalls, reason: format!("{}, so {ends}", told(stalls)) },
            None => Declined {
                cause: DeclinedBy::Model,
                reason: format!("the points bound its parameters too loosely: {ends}"),
            },
        }
    }

    /// Events that the baseline of `device` cannot have observed.
    pub(super) fn unknown(&self, device: &Identity) -> String {
        let simulated = device.simulated;
        // A real drive is filled before its baseline.
        let unwritten = simulated && self.written_bytes < device.size_bytes as f64;
        let unwritten = if unwritten {
            format!(", garbage collection once more than {} are written", units::bytes(self.written_bytes))
        } else {
            String::new()
        };
        let lived = units::span_about(self.lived_sec);
        let Some(watch) = self.watch else {
            return format!(
                "not known: stalls, drift, and what the drive does after {lived} of load: this baseline has no watch - a longer one \
                 has: flashproof baseline --quick"
            );
        };
        let rarer_sec = watch.seconds / TIMES_SEEN;
        let longer = if rarer_sec < HOUR_SEC {
            let needed = Form::seconds_for_watch(simulated, TIMES_SEEN * HOUR_SEC);
            needed.map_or(String::new(), |seconds| {
                format!(
                    "; to know what happens once an hour: flashproof baseline --duration {}",
                    units::span(seconds).replace(' ', "")
                )
            })
        } else {
            String::new()
        };
        let few = self.stalls.as_ref().filter(|stalls| stalls.seen < PAUSES_MIN);
        let few = few.map_or(String::new(), |stalls| format!("how often the drive stalls ({}), ", told(stalls)));
        format!(
            "not known: {few}events rarer than one in {}{unwritten}, and what the drive does after {lived} of load{longer}",
            units::span_about(rarer_sec as f64)
        )
    }

    /// Further remarks, a sentence each.
    pub(super) fn remarks(&self, points: &[Point]) -> Vec<String> {
        let mut remarks: Vec<_> = self.stalls.iter().map(|stalls| format!("the watch saw {}", told(stalls))).collect();
        let saturated = points.iter().any(|point| point.part == Part::Saturation && point.steady == Some(true));
        remarks.push(
            match saturated {
                true => "the baseline wrote until the drive was steady, and writes did not become slower: no garbage collection was seen",
                false => "the baseline did not write until the drive was steady: garbage collection is not in it, and will lower the rating",
            }
            .to_owned(),
        );
        remarks
    }
}

/// Describes how the median latency changed from one watch to a `later` one; `None` if it did not.
fn drift_between(watch: &Watch, later: &Watch) -> Option<String> {
    let before_us = *watch.medians_us.last()?;
    let after_us = later.medians_us.iter().sum::<f64>() / later.medians_us.len().max(1) as f64;
    let factor = before_us.max(after_us) / before_us.min(after_us);
    (factor > DRIFT_FACTOR && (before_us - after_us).abs() > DRIFT_US).then(|| {
        let [before, after] = [before_us, after_us].map(|us| units::duration((us * 1e3) as u64));
        format!("the median latency under a light load was {before} before the jobs and {after} after them")
    })
}

/// Describes stalls.
fn told(Stalls { seen, ms, every_s, regular }: &Stalls) -> String {
    let length = units::milliseconds(ms.value);
    match (*seen < PAUSES_MIN, regular) {
        (true, _) => format!("{} of {length}", units::count(*seen, "stall")),
        (_, true) => format!("{} of {length}, one each {}", units::count(*seen, "stall"), seconds(every_s.value)),
        (_, false) => format!(
            "{} of up to {length}, at irregular intervals, one in {} on average",
            units::count(*seen, "stall"),
            seconds(every_s.value)
        ),
    }
}

fn seconds(sec: f64) -> String {
    if sec < 60.0 { format!("{} s", units::number(sec)) } else { units::span_about(sec) }
}

/// Describes how the writes of the saturation became slower; `None` if they did not.
fn fell(points: &[Point]) -> Option<String> {
    let rounds: Vec<_> = points.iter().filter(|point| point.part == Part::Saturation).collect();
    let most = |rounds: &[&Point]| rounds.iter().map(|point| point.iops()).fold(0.0, f64::max);
    // A stall makes one round slower, garbage collection the last ones.
    let (first, last) = (most(&rounds), most(&rounds[rounds.len().saturating_sub(LAST_ROUNDS)..]));
    (last < (1.0 - FELL) * first).then(|| {
        let seconds: f64 = rounds.iter().map(|point| point.seconds).sum();
        format!(
            "random writes fell from {} to {} a second within {}",
            units::number(first),
            units::number(last),
            units::span_about(seconds)
        )
    })
}
