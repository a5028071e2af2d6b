//! The answer of a comparison: the candidate that holds most, or why it is unknown.

use super::{Candidate, CandidateComparison, HeldLoad, TestFacts};
use crate::head::Head;
use results::format::{duration, multiple, number};
use results::judge::{Headline, Outcome};

/// Values that differ by less than this factor count as equal.
const EQUAL_WITHIN: f64 = 1.02;

const NOT_SEARCHED: &str = "the highest load was not searched for";
const SEARCH: &str = "find the highest load of each candidate: flashproof rate";
const SAME_TEST: &str =
    "test all candidates with the same settings; the warnings name what differs or is damaged";

/// A candidate and one of its numbers.
type Figure<'a> = (&'a Candidate, f64);

impl CandidateComparison {
    /// The box with the answer, and the devices of each candidate.
    pub(super) fn head(&self) -> Head {
        let names = self.candidates.iter().map(|of| of.name.as_str());
        let title = format!("Comparison of {}", names.collect::<Vec<_>>().join(", "));
        let headline = self.headline();
        let mut head = if self.is_doubtful() {
            let headline = Headline::new(&headline.sentence, Some(SAME_TEST));
            Head::labelled(title, "IN DOUBT", Some(Outcome::Invalid), headline)
        } else {
            Head::labelled(title, "COMPARED", Some(Outcome::Measured), headline)
        };
        for candidate in &self.candidates {
            if let Some(test) = candidate.test.value() {
                head.fact(&candidate.name, devices_text(test));
            }
        }
        head
    }

    /// The first of these comparisons that is possible: load held, highest IOPS of baselines, closed-loop rate, p99.
    fn headline(&self) -> Headline {
        if let [only] = &self.candidates[..] {
            let reason = only.reason.value().map_or("no result", String::as_str);
            return settled(&format!("{}: {reason}", only.name));
        }
        if let Some(headline) = self.by_load() {
            return headline;
        }
        let answer = self.baselines.as_ref().and_then(|of| of.answer());
        let answer = answer.or_else(|| self.by_rate()).or_else(|| self.by_p99());
        match answer {
            Some(answer) => settled(&answer),
            None => not_searched("no candidate is known to hold its load"),
        }
    }

    fn by_load(&self) -> Option<Headline> {
        let held = self
            .candidates
            .iter()
            .filter(|of| of.load.value().is_some());
        let held: Vec<&Candidate> = held.collect();
        if let [only] = held[..] {
            let sentence = format!("only {} is known to hold its load", only.name);
            return Some(settled(&sentence));
        }
        let [a, b] = leading(&held, |load| load.x_per_device)
            .or_else(|| leading(&held, |load| load.multiple))?;
        let names = format!("{} and {}", a.0.name, b.0.name);
        let is_highest = b.0.load.value()?.highest;
        Some(if a.1 < b.1 * EQUAL_WITHIN && is_highest {
            settled(&format!("{names} hold the same load, {}", multiple(a.1)))
        } else if a.1 < b.1 * EQUAL_WITHIN {
            let p99 = p99_clause(a.0, b.0).unwrap_or_default();
            not_searched(&format!(
                "{names} held the same load, {}{p99}",
                multiple(a.1)
            ))
        } else if is_highest {
            let is_searched = a.0.load.value()?.highest;
            let verb = if is_searched {
                "holds"
            } else {
                "holds at least"
            };
            settled(&winner(verb, [a, b], "load", multiple))
        } else {
            let loads = format!("{} against {}", multiple(a.1), multiple(b.1));
            not_searched(&format!(
                "{} held more than {} ({loads})",
                a.0.name, b.0.name
            ))
        })
    }

    /// Compares the rates of closed loops, which run as fast as the drive can.
    fn by_rate(&self) -> Option<String> {
        let rate = |of: &Candidate| {
            let rate = of.rate.value().filter(|rate| rate.offered_iops == 0.0);
            rate.map(|rate| rate.achieved_iops)
        };
        let [a, b] = first_two(self.candidates.iter(), rate)?;
        let text = |iops| format!("{}/s", number(iops));
        let answer = if a.1 < b.1 * EQUAL_WITHIN {
            format!(
                "{} and {} reach the same rate, {}",
                a.0.name,
                b.0.name,
                text(a.1)
            )
        } else {
            winner("reaches", [a, b], "rate", text)
        };
        Some(answer + &failed_clause([a.0, b.0]))
    }

    /// Compares the p99 at equal rates.
    fn by_p99(&self) -> Option<String> {
        let offered = |of: &Candidate| of.rate.value().map(|rate| rate.offered_iops);
        let [most, _] = first_two(self.candidates.iter(), offered)?;
        let is_equal =
            |of: &Candidate| offered(of).is_some_and(|rate| most.1 < rate * EQUAL_WITHIN);
        let p99 = |of: &Candidate| of.p99.value().map(|p99| -(p99.service_ns as f64));
        let [a, b] = first_two(self.candidates.iter(), p99)?;
        let clause = p99_clause(a.0, b.0)?;
        let is_comparable = self.candidates.iter().all(is_equal);
        let subject = if -b.1 < -a.1 * EQUAL_WITHIN {
            format!("{} and {} have the same p99", a.0.name, b.0.name)
        } else {
            format!("{} has the shortest p99", a.0.name)
        };
        let failed = failed_clause([a.0, b.0]);
        is_comparable.then(|| format!("{subject} at the same rate{clause}{failed}"))
    }
}

fn settled(sentence: &str) -> Headline {
    Headline::new(sentence, None)
}

/// An answer that a search for the highest loads would improve.
fn not_searched(sentence: &str) -> Headline {
    Headline::new(&format!("{sentence}; {NOT_SEARCHED}"), Some(SEARCH))
}

/// The two candidates that hold most, by one kind of load that all of them have.
fn leading<'a>(
    held: &[&'a Candidate],
    load: impl Fn(&HeldLoad) -> Option<f64>,
) -> Option<[Figure<'a>; 2]> {
    first_two(held.iter().copied(), |of| load(of.load.value()?))
}

/// The two candidates with the highest values; `None` if a value is missing.
fn first_two<'a>(
    candidates: impl Iterator<Item = &'a Candidate>,
    value: impl Fn(&Candidate) -> Option<f64>,
) -> Option<[Figure<'a>; 2]> {
    let figures = candidates.map(|of| Some((of, value(of)?)));
    let mut figures: Vec<Figure<'_>> = figures.collect::<Option<_>>()?;
    figures.sort_by(|a, b| b.1.total_cmp(&a.1));
    figures.first_chunk().copied()
}

/// `A holds 1.3 times B's load (48x against 36x)`.
fn winner(verb: &str, [a, b]: [Figure<'_>; 2], noun: &str, text: impl Fn(f64) -> String) -> String {
    let times = number(a.1 / b.1);
    let values = format!("{} against {}", text(a.1), text(b.1));
    format!(
        "{} {verb} {times} times {}'s {noun} ({values})",
        a.0.name, b.0.name
    )
}

/// ` (p99 0.42 ms against 0.61 ms)`.
fn p99_clause(a: &Candidate, b: &Candidate) -> Option<String> {
    let [a, b] = [a.p99.value()?, b.p99.value()?].map(|p99| duration(p99.service_ns));
    Some(format!(" (p99 {a} against {b})"))
}

/// `; A failed`: a candidate that failed is never named without its failure.
fn failed_clause(candidates: [&Candidate; 2]) -> String {
    let failed = candidates
        .iter()
        .filter(|of| of.outcome.value() == Some(&Outcome::Fail));
    let names: Vec<&str> = failed.map(|of| of.name.as_str()).collect();
    match names[..] {
        [] => String::new(),
        _ => format!("; {} failed", names.join(" and ")),
    }
}

pub(super) fn devices_text(test: &TestFacts) -> String {
    let devices = test.devices.iter().zip(&test.models);
    let text = |(name, model): (&String, &Option<String>)| match model {
        Some(model) => format!("{model} ({name})"),
        None => name.clone(),
    };
    devices.map(text).collect::<Vec<_>>().join(", ")
}
