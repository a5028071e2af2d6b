//! How a certification goes on: which stage is next, and what is run again.
//!
//! A stage that was not ended (killed, rebooted, interrupted) or of which nothing is known (its outcome
//! is invalid) is run again from its beginning, in a run directory of its own: half a day of one load
//! and half a day after a reboot are no day.

use crate::judge::Outcome;
use crate::series::{Series, State, Step};

/// The stage that is to be run next; `None` when there is nothing more to run.
///
/// A stage that failed ends the series unless `all` stages are wanted: what follows cannot make up for
/// it, and twice the load only wears a drive that did not hold the load.
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
    use super::super::testing::series;
    use super::*;

    fn done(step: &mut Step, outcome: Outcome) {
        step.state = State::Done;
        step.outcome = Some(outcome);
    }

    #[test]
    fn stages_come_in_their_order_and_finished_ones_do_not_come_again() {
        let mut series = series(2);
        assert_eq!(next(&series, false), Some(0));
        done(&mut series.steps[0], Outcome::Pass);
        assert_eq!(next(&series, false), Some(1));
        series.steps[1].state = State::Interrupted;
        assert_eq!(next(&series, false), Some(1));
        series.steps[1..].iter_mut().for_each(|step| done(step, Outcome::Pass));
        assert_eq!(next(&series, false), None);
    }

    #[test]
    fn a_failed_stage_ends_the_series_unless_all_are_wanted() {
        let mut series = series(1);
        done(&mut series.steps[0], Outcome::Fail);
        assert_eq!((next(&series, false), next(&series, true)), (None, Some(1)));
    }

    #[test]
    fn a_stage_of_which_nothing_is_known_is_run_again() {
        let mut series = series(1);
        done(&mut series.steps[0], Outcome::Invalid);
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
