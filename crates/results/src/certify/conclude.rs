//! The next stage of a certification, stages to repeat, and the conclusion.
//!
//! A stage that did not end (killed, rebooted, interrupted) or has an invalid outcome is repeated from its beginning,
//! in a run directory of its own: half a day before and half a day after a reboot are not a day of load.

use super::{Claim, Linearity};
use crate::judge::{Deciding, Outcome};
use crate::series::{Conclusion, Rule, Series, State, Step};
use serde_json::{Value, json};

/// The conclusion of a finished series.
///
/// The first failed stage decides; else the first stage with an invalid outcome; else the stage whose worst share was
/// nearest to its limit is named. Edited records are concluded as they are.
pub fn conclude(series: &Series, claim: &Claim) -> Conclusion {
    let steps = &series.steps;
    let with = |outcome| steps.iter().find(|step| step.state == State::Done && step.outcome == Some(outcome));
    let open = steps.iter().find(|step| step.state != State::Done);
    let (outcome, sentence) = match (with(Outcome::Fail), with(Outcome::Invalid), open) {
        (Some(failed), ..) => (Outcome::Fail, format!("{}: {}", claim.failed(), told(failed))),
        (None, Some(unknown), _) => (Outcome::Invalid, format!("{}: {}", claim.undecided(), told(unknown))),
        (None, None, Some(open)) => (Outcome::Invalid, format!("{}: {} was not run", claim.undecided(), open.name)),
        (None, None, None) => {
            let tightest = tightest(steps).map(|step| format!(": {}", told(step))).unwrap_or_default();
            (Outcome::Pass, format!("{}{tightest}", claim.passed()))
        }
    };
    let linearity = linearity_of(series);
    let mut remarks = steps_remarks(series, outcome);
    remarks.extend(linearity.as_ref().map(|linearity| linearity.sentence.clone()));
    remarks.extend(claim.remarks());
    Conclusion {
        outcome,
        sentence,
        remarks,
        rating: None,
        comparable: outcome == Outcome::Pass && claim.is_comparable(),
        details: linearity.map_or(Value::Null, |linearity| json!({ "linearity": linearity })),
    }
}

fn told(step: &Step) -> String {
    match step.outcome {
        Some(Outcome::Fail) => format!("{} failed: {}", step.name, step.reason),
        _ => format!("{}: {}", step.name, step.reason),
    }
}

/// The stage at the load that came nearest to a limit.
fn tightest(steps: &[Step]) -> Option<&Step> {
    let of_limit = |step: &Step| {
        let decided: Deciding = serde_json::from_value(step.details.get("decided_by")?.clone()).ok()?;
        Some(decided.share / decided.share_max)
    };
    let judged = steps.iter().filter(|step| step.rule == Rule::Limits);
    // The first of several that are equal.
    judged.rev().max_by(|one, other| of_limit(one).unwrap_or(0.0).total_cmp(&of_limit(other).unwrap_or(0.0)))
}

/// The linearity that a stage on several devices recorded.
fn linearity_of(series: &Series) -> Option<Linearity> {
    series.steps.iter().find_map(|step| serde_json::from_value(step.details.get("linearity")?.clone()).ok())
}

fn steps_remarks(series: &Series, outcome: Outcome) -> Vec<String> {
    let mut remarks = Vec::new();
    for step in series.steps.iter().filter(|step| step.rule == Rule::Completes && step.outcome == Some(Outcome::Pass)) {
        remarks.push(format!("{}, at {} times the load of 1x, {}", step.name, step.multiple, step.reason));
    }
    for step in &series.steps {
        let notes = step.details.get("notes").and_then(Value::as_array).into_iter().flatten();
        remarks.extend(notes.filter_map(Value::as_str).map(|note| format!("{}: {note}", step.name)));
    }
    let skipped: Vec<_> =
        series.steps.iter().filter(|step| step.state == State::Planned).map(|step| &*step.name).collect();
    if outcome == Outcome::Fail && !skipped.is_empty() {
        remarks.push(format!(
            "not run after the failure, which they could not make up for: {} (--all-stages runs them)",
            skipped.join(", ")
        ));
    }
    if let (true, Some(first)) = (series.devices.len() > 1, series.steps.first()) {
        let alone = first.devices.first().and_then(|device| series.devices.get(*device));
        remarks.extend(alone.map(|device| format!("tested alone, in the first two stages, was {} only", device.name)));
    }
    for step in series.steps.iter().filter(|step| step.attempts > 1) {
        remarks.push(format!("{} was begun {} times; the last time counts", step.name, step.attempts));
    }
    remarks
}

/// The next stage to run; `None` if the series is finished.
///
/// A failed stage ends the series unless `all` stages are requested: later stages cannot compensate for it, and twice
/// the load only wears a drive that did not hold the load.
pub fn next(series: &Series, all: bool) -> Option<usize> {
    for (index, step) in series.steps.iter().enumerate() {
        match (step.state, step.outcome) {
            (State::Done, Some(Outcome::Pass)) => {}
            (State::Done, Some(Outcome::Fail)) if all => {}
            (State::Done, Some(Outcome::Fail)) => return None,
            _ => return Some(index),
        }
    }
    None
}

/// Begins an attempt at a stage: state, number and run directory, `stage-1` and then `stage-1.2`.
pub fn begin(step: &mut Step, now_unix_ms: u64) {
    let first = step.name.replace(' ', "-");
    step.attempts = step.attempts.saturating_add(1);
    step.dir = if step.attempts > 1 { format!("{first}.{}", step.attempts) } else { first };
    step.state = State::Running;
    step.outcome = None;
    step.reason.clear();
    step.began_unix_ms = Some(now_unix_ms);
    step.ended_unix_ms = None;
    step.details = serde_json::Value::Null;
}

#[cfg(test)]
mod tests {
    use super::super::testing::{claim, series};
    use super::*;

    fn done(step: &mut Step, outcome: Outcome, reason: &str) {
        step.state = State::Done;
        step.outcome = Some(outcome);
        step.reason = reason.into();
        step.attempts = 1;
    }

    #[test]
    fn all_stages_passed_certify_with_the_deciding_number() {
        let mut series = series(1);
        done(&mut series.steps[0], Outcome::Pass, "2.70 % of reads");
        done(&mut series.steps[1], Outcome::Pass, "ran to completion");
        let conclusion = conclude(&series, &claim());
        assert_eq!(conclusion.outcome, Outcome::Pass);
        assert_eq!(conclusion.sentence, "certified for 30x: stage 1: 2.70 % of reads");
        assert_eq!(conclusion.remarks[0], "stage 2, at 60 times the load of 1x, ran to completion");
        assert!(!conclusion.comparable);
        assert!(conclude(&series, &Claim { as_act: true, ..claim() }).comparable);
    }

    #[test]
    fn the_stage_nearest_to_its_limit_is_the_one_that_is_named() {
        let mut series = series(2);
        series.steps.iter_mut().for_each(|step| done(step, Outcome::Pass, "so"));
        let details = |share: f64| {
            json!({"decided_by": {"stream": "reads", "device": null, "slice": 1, "threshold_ns": 1_000_000,
                "over": 1, "wanted": 100, "cut": false, "share": share, "share_max": 0.05}})
        };
        series.steps[0].details = details(0.01);
        series.steps[2].details = details(0.04);
        assert_eq!(conclude(&series, &claim()).sentence, "certified for 30x: stage 3: so");
        series.steps[0].details = details(0.04);
        assert_eq!(conclude(&series, &claim()).sentence, "certified for 30x: stage 1: so");
    }

    #[test]
    fn what_a_run_says_beside_its_pass_is_said_of_its_stage() {
        let mut series = series(1);
        series.steps.iter_mut().for_each(|step| done(step, Outcome::Pass, "so"));
        series.steps[0].details = json!({"notes": ["reads did not hold its rate"]});
        assert!(conclude(&series, &claim()).remarks.contains(&"stage 1: reads did not hold its rate".to_owned()));
    }

    #[test]
    fn a_failed_first_stage_names_what_was_not_run() {
        let mut series = series(1);
        done(&mut series.steps[0], Outcome::Fail, "7.00 % of reads");
        let conclusion = conclude(&series, &claim());
        assert_eq!(
            (conclusion.outcome, conclusion.sentence.as_str()),
            (Outcome::Fail, "not certified for 30x: stage 1 failed: 7.00 % of reads")
        );
        assert!(conclusion.remarks[0].contains("stage 2 (--all-stages runs them)"), "{:?}", conclusion.remarks);
    }

    #[test]
    fn nothing_unknown_passes() {
        let mut series = series(1);
        assert_eq!(conclude(&series, &claim()).outcome, Outcome::Invalid, "nothing was run");
        done(&mut series.steps[0], Outcome::Pass, "so");
        assert_eq!(conclude(&series, &claim()).outcome, Outcome::Invalid, "stage 2 was not run");
        done(&mut series.steps[1], Outcome::Invalid, "our own lag");
        let conclusion = conclude(&series, &claim());
        assert_eq!(conclusion.sentence, "the certification for 30x is undecided: stage 2: our own lag");
        done(&mut series.steps[0], Outcome::Fail, "7 %");
        assert_eq!(conclude(&series, &claim()).outcome, Outcome::Fail, "a failure outranks a doubt");
    }

    #[test]
    fn which_device_was_alone_and_what_was_repeated_is_said() {
        let mut series = series(2);
        series.steps.iter_mut().for_each(|step| done(step, Outcome::Pass, "so"));
        series.steps[0].attempts = 2;
        let remarks = conclude(&series, &claim()).remarks.join("\n");
        assert!(remarks.contains("tested alone, in the first two stages, was /dev/nvme0n1 only"), "{remarks}");
        assert!(remarks.contains("stage 1 was begun 2 times"), "{remarks}");
    }

    #[test]
    fn stages_come_in_their_order_and_finished_ones_do_not_come_again() {
        let mut series = series(2);
        assert_eq!(next(&series, false), Some(0));
        done(&mut series.steps[0], Outcome::Pass, "");
        assert_eq!(next(&series, false), Some(1));
        series.steps[1].state = State::Interrupted;
        assert_eq!(next(&series, false), Some(1));
        series.steps[1..].iter_mut().for_each(|step| done(step, Outcome::Pass, ""));
        assert_eq!(next(&series, false), None);
    }

    #[test]
    fn a_failed_stage_ends_the_series_unless_all_are_wanted() {
        let mut series = series(1);
        done(&mut series.steps[0], Outcome::Fail, "");
        assert_eq!((next(&series, false), next(&series, true)), (None, Some(1)));
    }

    #[test]
    fn a_stage_of_which_nothing_is_known_is_run_again() {
        let mut series = series(1);
        done(&mut series.steps[0], Outcome::Invalid, "");
        assert_eq!(next(&series, false), Some(0));
    }

    #[test]
    fn what_was_killed_is_run_again_in_a_directory_of_its_own() {
        let mut series = series(1);
        begin(&mut series.steps[0], 5);
        assert_eq!((series.steps[0].dir.as_str(), series.steps[0].state), ("stage-1", State::Running));
        series.settle();
        assert_eq!(series.steps[0].state, State::Interrupted);
        assert_eq!(next(&series, false), Some(0));
        begin(&mut series.steps[0], 6);
        let step = &series.steps[0];
        assert_eq!((step.dir.as_str(), step.attempts, step.began_unix_ms), ("stage-1.2", 2, Some(6)));
    }
}
