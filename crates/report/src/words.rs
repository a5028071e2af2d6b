//! Names in words: how all forms of a report say an outcome, a device, a class.

use results::judge::{Class, Outcome};
use results::series::{Series, State, Step};
use results::units::span_of;

/// Device of a group or share: its name, or all together.
pub(crate) fn device(device: Option<&str>) -> &str {
    device.unwrap_or("all devices together")
}

/// The outcome as one capital word; `None` of what is not at its end.
pub(crate) fn outcome(outcome: Option<Outcome>) -> String {
    outcome.map_or_else(|| "UNFINISHED".to_owned(), |outcome| outcome.to_string())
}

/// How a step of `series` ended, or how far it is.
pub(crate) fn step_outcome(step: &Step, series: &Series) -> String {
    let state = match (step.state, step.outcome) {
        (State::Done, Some(outcome)) => return outcome.to_string(),
        (State::Done, None) => "done",
        (State::Planned, _) if series.conclusion.is_some() => "not run",
        (State::Planned, _) => "planned",
        (State::Running, _) => "running",
        (State::Interrupted, _) => "interrupted",
    };
    state.to_owned()
}

/// What a run of this class may be called. Anything shorter than a day, or simulated, certifies nothing.
pub(crate) fn class(class: Class, simulated: bool, ran_sec: f64, partial: bool) -> String {
    let length = span_of(ran_sec);
    let partial = if partial { ", stopped before its time" } else { "" };
    match (class, simulated) {
        (_, true) => format!("screening of {length} on simulated drives{partial}: it certifies nothing"),
        (Class::Screening, false) => format!("screening of {length}{partial}: it certifies nothing"),
        (Class::CertificationLoad, false) => format!("a certification's load, for {length}{partial}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_day_is_a_screening() {
        let words = class(Class::CertificationLoad, true, 86_400.0, false);
        assert_eq!(words, "screening of 24 h on simulated drives: it certifies nothing");
        assert!(class(Class::Screening, false, 21_600.0, true).starts_with("screening of 6 h, stopped before"));
        assert_eq!(class(Class::CertificationLoad, false, 86_400.0, false), "a certification's load, for 24 h");
    }
}
