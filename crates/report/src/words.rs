//! Names in words: how all forms of a report say an outcome, a device, a class.

use results::judge::{Class, Outcome};
use results::series::{Series, State, Step};
use results::units::span_of;
use schemars::JsonSchema;
use serde::Serialize;

/// Something that a reader must know before anything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Banner {
    /// One sentence.
    pub text: String,
}

/// A name and a value, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pair {
    /// Name of the value.
    pub name: String,
    /// The value with its unit.
    pub value: String,
}

/// A text under a heading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Paragraph {
    /// The heading.
    pub title: String,
    /// One paragraph.
    pub text: String,
}

/// Device of a group or share: its name, or all together.
pub(crate) fn device(device: Option<&str>) -> &str {
    device.unwrap_or("all devices together")
}

/// An outcome as readers see it: in words, and by which outcome's colour and sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// One capital word, and the most important addition.
    pub(crate) text: String,
    /// Outcome that gives colour and sign; `None` if unfinished.
    pub(crate) look: Option<Outcome>,
}

impl Shown {
    /// An outcome; `None` of what is not at its end.
    pub(crate) fn of(outcome: Option<Outcome>) -> Self {
        let text = outcome.map_or_else(|| "UNFINISHED".to_owned(), |outcome| outcome.to_string());
        Self { text, look: outcome }
    }

    /// The same of what is in doubt: nobody may take it for a pass that means what it says.
    pub(crate) fn in_doubt(mut self) -> Self {
        self.text += ", IN DOUBT";
        self.look = self.look.map(|look| if look == Outcome::Pass { Outcome::Invalid } else { look });
        self
    }
}

/// Outcome or state of a step of `series`.
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

/// Wording for a run of this class. Anything shorter than a day, or simulated, certifies nothing.
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
