//! Words for outcomes, devices and classes: the same in all forms of a report.
//!
//! Method of a report's numbers and their limits: the same words in every output format.

use conclusions::series::State;
use results::judge::{Class, Outcome};
use results::run_dir::Manifest;
use results::units::{self, span_of};
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

/// `text` with a capital first letter.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// Values grouped by key, in the order in which the keys first occur.
pub(crate) fn grouped<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Each of `all` once, at its first position.
pub(crate) fn unique<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    grouped(all.into_iter().map(|one| (one, ()))).into_iter().map(|(one, _)| one).collect()
}

/// An outcome as readers see it: its words, and the outcome that gives colour and sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// One capital word, and the most important addition.
    pub(crate) text: String,
    /// Outcome that gives colour and sign; `None` if unfinished.
    pub(crate) look: Option<Outcome>,
}

impl Shown {
    /// An outcome; `None` for an unfinished run or series.
    pub(crate) fn of(outcome: Option<Outcome>) -> Self {
        let text = outcome.map_or_else(|| "UNFINISHED".to_owned(), |outcome| outcome.to_string());
        Self { text, look: outcome }
    }

    /// The outcome marked as in doubt, so that nobody takes it for a trustworthy pass.
    pub(crate) fn in_doubt(mut self) -> Self {
        self.text += ", IN DOUBT";
        self.look = self.look.map(|look| if look == Outcome::Pass { Outcome::Invalid } else { look });
        self
    }
}

/// How a step of a series ended, or its state: `running` while it runs. `is_over`: the series has its conclusion.
pub(crate) fn step_outcome(state: State, outcome: Option<Outcome>, is_over: bool, running: &str) -> String {
    let state = match (state, outcome) {
        (State::Done, Some(outcome)) => return outcome.to_string(),
        (State::Done, None) => "done",
        (State::Planned, _) if is_over => "not run",
        (State::Planned, _) => "planned",
        (State::Running, _) => running,
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

/// The explanations for a run, in the order in which a doubt would come up.
pub(crate) fn method(manifest: &Manifest) -> Vec<Paragraph> {
    let part = |title: &str, text: String| Paragraph { title: title.to_owned(), text };
    let slice = units::span(manifest.slice_sec);
    let interval = units::span(manifest.report_interval_sec);
    let mut parts = vec![
        part(
            "The times of an operation",
            "An operation is intended at an instant of the schedule, eligible once a slot under the limit of operations \
             in flight is free, issued when it is handed over, and completed when its completion is seen. Wait = eligible \
             - intended (the device's doing, or the configured limit's); lag = issued - eligible (this program's own); \
             service = completed - issued (ACT's number); judged = wait + service; response = wait + lag + service."
                .into(),
        ),
        part(
            "The verdict",
            format!(
                "The run is cut into slices of {slice}. In each, the share of judged operations whose wait and service \
                 together took a threshold or longer is formed, for every device and for all of them together, and \
                 compared as whole numbers with the limits ({}). The worst complete slice decides. An operation that \
                 failed or never came back is over every threshold. Invalid means that this program's own lateness, or \
                 completions seen late, could decide it.",
                manifest.sla
            ),
        ),
        part(
            "What was counted exactly, and what was not",
            format!(
                "Shares are exact counts. Percentiles come from histograms with steps of 1 % for service and 6 % for wait \
                 and lag, nothing finer than a microsecond. Tables were written every {interval}, and were reduced for \
                 the charts; each chart says what a point of it is. The verdict shown was computed again from the \
                 recorded counts when this report was made."
            ),
        ),
        part(
            "What this does not say",
            "The load is a model of a database's device I/O: fixed rates, random places, a record cache that never helps. \
             It is no measurement of your database. It holds for this drive, this firmware, this fill, this host and \
             this length of time: drives fall off after hours, and another one of the same model may differ."
                .into(),
        ),
        part(
            "Screening and certification",
            "Certified means a full day of the load on a real device. Anything shorter, and anything simulated, is a \
             screening: it finds drives that fail, and certifies none."
                .into(),
        ),
    ];
    if manifest.simulated {
        parts.push(part(
            "Simulated drives",
            "This run's drives are a queueing model on virtual time. Its numbers show how this program measures and \
             judges; they say nothing about a real drive."
                .into(),
        ));
    }
    parts
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
