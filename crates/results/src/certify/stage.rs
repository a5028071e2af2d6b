//! Whether a stage was passed, from the verdict on its run.
//!
//! The stages at N times the load have their run's own verdict. Those at twice that ask for less: ACT's
//! README lets them pass "regardless of the error rate", which there means the share of slow
//! operations. Operations that *fail* are no such thing, so they fail the stage here too; and so does a load
//! that was not done, which is not slow but missing.

use crate::judge::{End, Outcome, Verdict, Whose};
use crate::series::Rule;
use crate::units::{self, Grouped};

/// The result of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Passed, failed, or not to be told.
    pub outcome: Outcome,
    /// Why, one sentence with the number that decided.
    pub reason: String,
    /// Of a pass, what its run says beside that, each one sentence: a rate that was not held.
    pub notes: Vec<String>,
}

/// Judges a stage by `rule` from the `verdict` on its run.
///
/// [`Rule::Recovers`] judges nothing, so only an end before its time speaks against it.
pub fn judge_stage(rule: Rule, verdict: &Verdict) -> Judged {
    match rule {
        Rule::Limits => by_limits(verdict),
        Rule::Completes | Rule::Recovers => by_completion(verdict),
    }
}

fn by_limits(verdict: &Verdict) -> Judged {
    let decided = verdict.decided_by.as_ref().map(ToString::to_string);
    let first = verdict.reasons.first().cloned();
    let (outcome, reason, notes) = match (verdict.outcome, verdict.unjudged()) {
        // The run passes by its complete slices; a day of which the last half hour was bad does not.
        (Outcome::Pass, Some(unjudged)) => (Outcome::Invalid, Some(unjudged.to_owned()), Vec::new()),
        // The first reason of a pass is the number that decided.
        (Outcome::Pass, None) => (Outcome::Pass, decided.or(first), verdict.reasons.iter().skip(1).cloned().collect()),
        (outcome, _) => (outcome, first.or(decided), Vec::new()),
    };
    Judged { outcome, reason: reason.unwrap_or_else(|| verdict.end.to_string()), notes }
}

fn by_completion(verdict: &Verdict) -> Judged {
    let judged = |outcome, reason| Judged { outcome, reason, notes: Vec::new() };
    let errors: u64 = verdict.streams.iter().map(|stream| stream.errors).sum();
    let after = format!("after {:.0} of {} s", verdict.ran_sec, Grouped(verdict.duration_sec));
    match &verdict.end {
        end if errors > 0 => judged(
            Outcome::Fail,
            format!(
                "{} ({end}): slow operations are allowed in this stage, failed ones are not",
                units::count(errors, "I/O error")
            ),
        ),
        End::LagExceeded { whose: Whose::Ours, .. } => {
            judged(Outcome::Invalid, format!("{} {after}, so nothing is known of the device", verdict.end))
        }
        end @ (End::LagExceeded { .. } | End::DeviceGone { .. } | End::TooManyErrors { .. }) => {
            judged(Outcome::Fail, format!("{end} {after}: it did not run to completion"))
        }
        End::Completed | End::Enough { .. } => match verdict.undone.first() {
            Some(undone) if undone.ours => judged(Outcome::Invalid, format!("{undone}: this program held it up")),
            Some(undone) => judged(Outcome::Fail, undone.to_string()),
            None => judged(Outcome::Pass, completed(verdict)),
        },
        end => judged(Outcome::Invalid, format!("{end} {after}")),
    }
}

/// The reason of a stage that ran to its end, with what it was like.
fn completed(verdict: &Verdict) -> String {
    let worst = verdict.decided_by.as_ref().map(|worst| match verdict.outcome {
        Outcome::Pass => format!("; {worst}"),
        _ => format!("; {worst}, which this stage allows"),
    });
    let behind: u64 = verdict.streams.iter().map(|stream| stream.overtime.saturating_add(stream.unissued)).sum();
    let backlog = match behind {
        0 => String::new(),
        behind => format!("; {} operations had not come back at its end", Grouped(behind)),
    };
    format!("ran to completion without an I/O error{}{backlog}", worst.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{total, verdict};
    use super::*;
    use crate::judge::NOT_JUDGED;

    fn lag(whose: Whose) -> End {
        End::LagExceeded {
            lane: "reads@x".into(),
            whose,
            lag_ms: 10_200,
            lag_max_ms: 10_000,
            in_flight: 7,
            in_flight_max: 7,
        }
    }

    #[test]
    fn the_stage_at_the_load_has_the_verdict_of_its_run_with_the_deciding_number() {
        let judged = judge_stage(Rule::Limits, &verdict(Outcome::Pass, End::Completed, 0.027));
        assert_eq!(judged.outcome, Outcome::Pass);
        assert!(judged.reason.starts_with("2.70 % of reads on x took over 1 ms in slice 9"), "{}", judged.reason);
        let judged = judge_stage(Rule::Limits, &verdict(Outcome::Fail, End::Completed, 0.07));
        assert_eq!((judged.outcome, judged.reason.as_str()), (Outcome::Fail, "the first reason"));
    }

    #[test]
    fn a_bad_end_behind_the_last_complete_slice_is_no_pass_and_other_notes_are_kept() {
        let mut passed = verdict(Outcome::Pass, End::Completed, 0.027);
        passed.reasons.push("reads did not hold its rate: 900 of 9,000 had not come back at the end".into());
        let judged = judge_stage(Rule::Limits, &passed);
        assert_eq!((judged.outcome, &judged.notes[..]), (Outcome::Pass, &passed.reasons[1..]));
        passed.reasons.push(format!("{NOT_JUDGED} after the last complete slice of 3,600 s, too many reads"));
        let judged = judge_stage(Rule::Limits, &passed);
        assert_eq!((judged.outcome, Some(&judged.reason)), (Outcome::Invalid, passed.reasons.last()));
        assert_eq!(judge_stage(Rule::Completes, &passed).outcome, Outcome::Pass, "slowness is allowed there");
    }

    #[test]
    fn the_stage_at_twice_the_load_passes_however_slow_when_it_completes() {
        let judged = judge_stage(Rule::Completes, &verdict(Outcome::Fail, End::Completed, 0.6));
        assert_eq!(judged.outcome, Outcome::Pass);
        assert!(
            judged.reason.starts_with("ran to completion without an I/O error; 60.0 % of reads"),
            "{}",
            judged.reason
        );
    }

    #[test]
    fn the_stage_at_twice_the_load_fails_if_that_was_not_done() {
        let mut undone = verdict(Outcome::Fail, End::Completed, 0.0);
        undone.undone = vec![crate::judge::Undone {
            stream: "large-block-writes".into(),
            device: "x".into(),
            slice: 1,
            slices: 1,
            wanted: 2_000,
            done: 1_000,
            outstanding: crate::cell::Backlog { in_flight: 1, waiting: 999, late: 0 },
            growing: true,
            ours: false,
        }];
        let judged = judge_stage(Rule::Completes, &undone);
        assert_eq!(judged.outcome, Outcome::Fail);
        assert!(judged.reason.starts_with("the load of large-block-writes on x was not done"), "{}", judged.reason);
        undone.undone[0].ours = true;
        assert_eq!(judge_stage(Rule::Completes, &undone).outcome, Outcome::Invalid);
    }

    #[test]
    fn an_io_error_fails_it_even_when_it_completes() {
        let mut failing = verdict(Outcome::Fail, End::Completed, 0.0);
        failing.streams = vec![total("reads", 3)];
        let judged = judge_stage(Rule::Completes, &failing);
        assert_eq!(judged.outcome, Outcome::Fail);
        assert!(judged.reason.starts_with("3 I/O errors (completed)"), "{}", judged.reason);
    }

    #[test]
    fn being_stopped_by_the_lag_is_a_failure_of_the_device_but_not_of_ours() {
        let judged = judge_stage(Rule::Completes, &verdict(Outcome::Fail, lag(Whose::Device), 0.5));
        assert_eq!(judged.outcome, Outcome::Fail);
        assert!(judged.reason.contains("10.2 s late") && judged.reason.ends_with("did not run to completion"));
        assert_eq!(
            judge_stage(Rule::Completes, &verdict(Outcome::Fail, lag(Whose::Limit), 0.5)).outcome,
            Outcome::Fail
        );
        let ours = judge_stage(Rule::Completes, &verdict(Outcome::Invalid, lag(Whose::Ours), 0.5));
        assert_eq!(ours.outcome, Outcome::Invalid);
    }

    #[test]
    fn what_ended_for_other_reasons_tells_nothing() {
        for end in
            [End::Unrecorded, End::Interrupted { signal: "SIGINT".into() }, End::EngineFailed { why: "x".into() }]
        {
            let judged = judge_stage(Rule::Completes, &verdict(Outcome::Invalid, end.clone(), 0.0));
            assert_eq!(judged.outcome, Outcome::Invalid, "{end}");
        }
    }
}
