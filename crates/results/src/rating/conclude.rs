//! The conclusion of a search: the rating, its margin, and why the next load failed.
//!
//! All of it follows from the record of the series, so every reader of it gets the same words.

use super::search::{Finding, Multiple, Stop};
use super::watch::{Judged, SPELLS_IN_WINDOW, Seen};
use crate::judge::{Limit, Outcome, Sla};
use crate::series::{Conclusion, Rule, Series, State, Step};
use crate::units;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The details of a search's step, stored in [`Step::details`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// Purpose of the step.
    #[serde(flatten)]
    pub moved: super::Move,
    /// Result of the step.
    pub judged: Judged,
    /// Time run, seconds.
    pub ran_sec: f64,
}

impl Details {
    /// Details of a finished step; `None` for others, and for steps of other series.
    pub fn of(step: &Step) -> Option<Self> {
        let done = step.state == State::Done;
        done.then(|| serde_json::from_value(step.details.clone()).ok()).flatten()
    }
}

/// Comparability of a rating with published ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Published ratings: the load, the limits and the pacing are ACT's, the drives real and prepared.
    Comparable,
    /// Nothing published, for these reasons, each a phrase.
    Alone(Vec<String>),
}

/// The conclusion of the search in `series` that found `finding`.
pub fn conclude(series: &Series, finding: &Finding, sla: &Sla, standing: &Standing) -> Conclusion {
    let steps: Vec<_> = series.steps.iter().filter_map(|step| Some((step, Details::of(step)?))).collect();
    let last = |multiple: Option<Multiple>, rule: &dyn Fn(&Step, &Details) -> bool| {
        let is =
            |(step, details): &&(&Step, Details)| Some(details.moved.multiple()) == multiple && rule(step, details);
        steps.iter().rev().find(is).map(|(_, details)| details)
    };
    let held = last(finding.held, &|step, details| step.rule == Rule::Limits && details.judged.seen == Seen::Held);
    let not_held = last(finding.not_held, &|_, details| details.judged.seen != Seen::Held);
    let confirmed = matches!(finding.stop, Stop::Found | Stop::Highest);

    let mut remarks = Vec::new();
    remarks.extend(
        held.map(|details| format!("at {}x: {}{}", details.moved.multiple(), details.judged.why, margin(details, sla))),
    );
    let broken = steps.iter().rev().find(|(_, details)| details.judged.seen == Seen::Broken);
    remarks.extend(broken.map(|(step, details)| format!("{}: {}", step.name, details.judged.why)));
    remarks.extend(not_held.map(|details| format!("not held: {}x: {}", details.moved.multiple(), details.judged.why)));
    if finding.held.is_some() && !confirmed {
        remarks.push("the load was not confirmed over a whole slice".to_owned());
    }
    let moved = steps.iter().filter(|(_, details)| details.judged.why.contains("at other shares than before"));
    remarks
        .extend(moved.map(|(step, _)| {
            format!("{}: the drive settled at other shares than before it was overdriven", step.name)
        }));
    if let Some(decisive) = held.or(not_held) {
        remarks.push(spells(decisive, sla));
        remarks.push(unseen(decisive));
    }
    if let Standing::Alone(reasons) = standing {
        remarks.push(format!("not to be compared with published ratings: {}", reasons.join("; ")));
    }
    let outcome = match (finding.stop, finding.held) {
        (Stop::Found | Stop::Highest, Some(_)) => Outcome::Pass,
        (Stop::NoneHeld | Stop::Broken, _) => Outcome::Fail,
        _ => Outcome::Invalid,
    };
    Conclusion {
        outcome,
        sentence: sentence(finding),
        remarks,
        rating: finding.held.filter(|_| confirmed).map(Multiple::get),
        comparable: *standing == Standing::Comparable && outcome == Outcome::Pass,
        details: json!({ "finding": finding, "confirmed": confirmed, "held": held, "not_held": not_held }),
    }
}

fn sentence(finding: &Finding) -> String {
    let between = match (finding.held, finding.not_held) {
        (Some(held), Some(not_held)) => {
            let apart = (not_held.get() / held.get() - 1.0) * 100.0;
            format!("{held}x was held and {not_held}x was not, {apart:.1} % apart")
        }
        (Some(held), None) => format!("{held}x was held, and nothing above it failed"),
        (None, Some(not_held)) => format!("not even {not_held}x was held"),
        (None, None) => "no load was judged".to_owned(),
    };
    match (finding.stop, finding.held) {
        (Stop::Found, Some(held)) => format!("the rating is {held}x: {between}"),
        (Stop::Highest, Some(held)) => format!("the rating is at least {held}x, the highest load that was allowed"),
        (Stop::NoneHeld, _) => format!("there is no rating: {between}"),
        (Stop::Broken, _) => format!("there is no rating, because operations failed: {between}"),
        (Stop::OurLimit, _) => {
            format!("the rating was not found, because this program or this host could not offer a load: {between}")
        }
        (Stop::Unstable, _) => {
            format!("there is no rating that lasts: loads that were held were not held later; so far {between}")
        }
        (Stop::TimeUp, _) => format!("the rating was not found in the time given: {between}"),
        (Stop::Found | Stop::Highest, None) => between,
    }
}

/// The slow spells of a step, a sentence.
fn spells(details: &Details, sla: &Sla) -> String {
    let each = sla.limits().iter().zip(&details.judged.spells).filter(|(_, spells)| spells.count > 0);
    let each = each.map(|(limit, spells)| {
        let threshold = limit.threshold_text();
        match spells.count {
            1 => format!("one over {threshold}, after {}", units::span(spells.first_sec.round() as u64)),
            count => {
                format!("{count} over {threshold}, at most {} apart", units::span(spells.apart_sec.round() as u64))
            }
        }
    });
    let each: Vec<_> = each.collect();
    let multiple = details.moved.multiple();
    if each.is_empty() {
        return format!("no slow spells at {multiple}x: no report interval had a share at a limit");
    }
    let few = details.judged.spells.iter().any(|spells| (1..SPELLS_IN_WINDOW as u64).contains(&spells.count));
    let few =
        if few { "; of fewer than four it is not known how often they come: a longer --slice shows it" } else { "" };
    format!("slow spells at {multiple}x (report intervals with a share at a limit): {}{few}", each.join("; "))
}

/// The events that a step was too short to see, a sentence.
fn unseen(details: &Details) -> String {
    let (ran, rare) = (details.ran_sec, details.ran_sec / SPELLS_IN_WINDOW as f64);
    let [ran, rare] = [ran, rare].map(|sec| units::span(sec.round() as u64));
    format!(
        "not seen: stalls and garbage collection that come less often than every {rare}, and what begins later than {ran} \
         into a load; certify the rating"
    )
}

/// Describes the margin of the share nearest to its limit.
fn margin(details: &Details, sla: &Sla) -> String {
    let limits = sla.limits();
    let shares = details.judged.shares.iter().flat_map(|shares| {
        shares.share.iter().zip(&shares.margin).zip(limits).map(|((share, margin), limit)| (*share, *margin, limit))
    });
    let part = |(share, _, limit): &(f64, f64, &Limit)| share / limit.share_max();
    let nearest = shares.reduce(|nearest, next| if part(&next) > part(&nearest) { next } else { nearest });
    nearest.map_or_else(String::new, |(share, margin, limit)| {
        format!(
            "; the mean of its {} rounds is {} ± {} over {} (95 %)",
            details.judged.rounds_judged,
            units::percent(share),
            units::percent(margin),
            limit.threshold_text()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rating::{Move, Shares};
    use crate::series::Purpose;
    use crate::steady::Spells;
    use serde_json::Value;

    fn step(moved: Move, seen: Seen, why: &str, share: f64) -> Step {
        let shares = Shares {
            group: "reads on d".into(),
            share: vec![share, 0.0, 0.0],
            margin: vec![0.001, 0.0, 0.0],
            p99_ns: None,
            achieved_iops: 1.0,
        };
        let spells = vec![Spells::default(); 3];
        let (rounds_judged, rounds) = (5, 5);
        let judged = Judged { seen, why: why.into(), rounds_judged, rounds, shares: vec![shares], spells, whole: true };
        Step {
            rule: if let Move::Recover(_) = moved { Rule::Recovers } else { Rule::Limits },
            outcome: None,
            reason: why.into(),
            details: serde_json::to_value(Details { moved, judged, ran_sec: 3600.0 }).unwrap(),
            ..crate::testing::step(moved.multiple().to_string(), moved.multiple().get(), Outcome::Pass)
        }
    }

    fn series(steps: Vec<Step>) -> Series {
        crate::testing::series(Purpose::Rate, &[], steps)
    }

    fn at(multiple: f64) -> Option<Multiple> {
        Some(Multiple::new(multiple))
    }

    #[test]
    fn a_rating_says_what_was_held_how_surely_and_what_the_next_load_failed_by() {
        let (held, failed) = (Multiple::new(42.4), Multiple::new(43.1));
        let series = series(vec![
            step(Move::Try(held), Seen::Held, "first", 0.03),
            step(Move::Try(failed), Seen::Failed, "6 % over 1ms of reads on d in 2 rounds in a row (limit 5 %)", 0.06),
            step(Move::Recover(held), Seen::Held, "the earlier shares returned", 0.03),
            step(Move::Confirm(held), Seen::Held, "within the limits", 0.04),
        ]);
        let finding = Finding { stop: Stop::Found, held: Some(held), not_held: Some(failed) };
        let found = conclude(&series, &finding, &Sla::default(), &Standing::Comparable);
        assert_eq!(found.sentence, "the rating is 42.4x: 42.4x was held and 43.1x was not, 1.7 % apart");
        assert_eq!((found.outcome, found.rating, found.comparable), (Outcome::Pass, Some(42.4), true));
        assert_eq!(
            found.remarks,
            [
                "at 42.4x: within the limits; the mean of its 5 rounds is 4.00 % ± 0.100 % over 1ms (95 %)",
                "not held: 43.1x: 6 % over 1ms of reads on d in 2 rounds in a row (limit 5 %)",
                "no slow spells at 42.4x: no report interval had a share at a limit",
                "not seen: stalls and garbage collection that come less often than every 15 min, and what begins later than \
                 1 h into a load; certify the rating",
            ]
        );
    }

    #[test]
    fn a_conclusion_names_the_slow_spells_and_those_that_are_too_few() {
        let spells = |count, apart_sec| {
            let mut spells = Spells::default();
            (spells.count, spells.first_sec, spells.apart_sec) = (count, 60.0, apart_sec);
            spells
        };
        let of = |each: [Spells; 3]| {
            let mut step = step(Move::Confirm(Multiple::new(2.0)), Seen::Failed, "", 0.0);
            step.details["judged"]["spells"] = serde_json::to_value(each).unwrap();
            super::spells(&Details::of(&step).unwrap(), &Sla::default())
        };
        assert_eq!(
            of([Spells::default(), spells(899, 4.0), spells(11, 300.0)]),
            "slow spells at 2x (report intervals with a share at a limit): 899 over 8ms, at most 4 s apart; 11 over \
             64ms, at most 5 min apart"
        );
        assert!(of([spells(1, 0.0), spells(899, 4.0), Spells::default()]).ends_with(
            "one over 1ms, after 60 s; 899 over 8ms, at most 4 s apart; of fewer than four it is not known how often they come: a \
             longer --slice shows it"
        ));
    }

    #[test]
    fn what_is_not_a_rating_is_not_called_one() {
        let conclusion = |stop, held, not_held| {
            let finding = Finding { stop, held, not_held };
            conclude(&series(Vec::new()), &finding, &Sla::default(), &Standing::Alone(vec!["even pacing".into()]))
        };
        let time_up = conclusion(Stop::TimeUp, at(2.0), at(4.0));
        assert_eq!(time_up.rating, None);
        assert_eq!((time_up.outcome, time_up.comparable), (Outcome::Invalid, false));
        assert!(time_up.sentence.starts_with("the rating was not found in the time given: 2x was held and 4x was not"));
        assert!(time_up.remarks.iter().any(|remark| remark.contains("not confirmed")));
        assert_eq!(conclusion(Stop::NoneHeld, None, at(0.0157)).outcome, Outcome::Fail);
        assert_eq!(conclusion(Stop::OurLimit, at(80.0), None).outcome, Outcome::Invalid);
        let highest = conclusion(Stop::Highest, at(100.0), None);
        assert_eq!(highest.sentence, "the rating is at least 100x, the highest load that was allowed");
        assert_eq!(highest.remarks.last().unwrap(), "not to be compared with published ratings: even pacing");
    }

    #[test]
    fn details_of_other_steps_are_none() {
        let mut other = step(Move::Try(Multiple::new(1.0)), Seen::Held, "", 0.0);
        assert!(Details::of(&other).is_some());
        other.state = State::Interrupted;
        assert!(Details::of(&other).is_none());
        other.state = State::Done;
        other.details = Value::Null;
        assert!(Details::of(&other).is_none());
    }
}
