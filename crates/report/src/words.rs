//! Words for outcomes, devices and classes, and the method behind the numbers: the same in every output format.

use conclusions::grouped;
use conclusions::series::SeriesStepState;
use results::format::{self, span_of};
use results::judge::{Outcome, VerdictClass};
use results::run_dir::Manifest;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Display;

/// A warning that is shown before anything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Banner {
    /// A sentence.
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

impl Pair {
    pub fn new(name: &str, value: String) -> Self {
        Self {
            name: name.to_owned(),
            value,
        }
    }
}

/// `1 FAIL, 2 PASS`: how often each of `items` occurs, in their order.
pub(crate) fn counts_text<T: Ord + Display>(items: impl Iterator<Item = T>) -> String {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for item in items {
        *counts.entry(item).or_default() += 1;
    }
    let counts = counts.iter().map(|(item, count)| format!("{count} {item}"));
    counts.collect::<Vec<_>>().join(", ")
}

/// A paragraph under a heading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Paragraph {
    /// The heading.
    pub title: String,
    /// The text of the paragraph.
    pub text: String,
}

pub(crate) fn device(device: Option<&str>) -> &str {
    device.unwrap_or("all devices together")
}

pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

/// Each of `items` once, at its first position.
pub(crate) fn unique<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    grouped(items.into_iter().map(|one| (one, ())))
        .into_iter()
        .map(|(one, _)| one)
        .collect()
}

/// An outcome as readers see it: its words, and the outcome that gives colour and sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutcomeLabel {
    /// The outcome in capitals, followed by the most important addition.
    pub(crate) text: String,
    /// Outcome that gives colour and sign; `None` if unfinished.
    pub(crate) look: Option<Outcome>,
}

impl OutcomeLabel {
    /// An outcome; `None` for an unfinished run or series.
    pub(crate) fn from_outcome(outcome: Option<Outcome>) -> Self {
        let text = outcome.map_or_else(|| "UNFINISHED".to_owned(), |outcome| outcome.to_string());
        Self {
            text,
            look: outcome,
        }
    }

    /// Marks the outcome as unreliable.
    pub(crate) fn in_doubt(mut self) -> Self {
        self.text += ", IN DOUBT";
        self.look = self.look.map(|look| {
            if look == Outcome::Fail {
                look
            } else {
                Outcome::Invalid
            }
        });
        self
    }
}

/// The outcome of a step, or its state (`running`: word for a running step). `is_over`: the series is concluded.
pub fn step_outcome(
    state: SeriesStepState,
    outcome: Option<Outcome>,
    is_over: bool,
    running: &str,
) -> String {
    let state = match (state, outcome) {
        (SeriesStepState::Done, Some(outcome)) => return outcome.to_string(),
        (SeriesStepState::Done, None) => "done",
        (SeriesStepState::Planned, _) if is_over => "not run",
        (SeriesStepState::Planned, _) => "planned",
        (SeriesStepState::Running, _) => running,
        (SeriesStepState::Interrupted, _) => "interrupted",
    };
    state.to_owned()
}

/// Wording for a run of this class. Anything shorter than a day, or simulated, certifies nothing.
pub(crate) fn class(class: VerdictClass, simulated: bool, ran_sec: f64, partial: bool) -> String {
    let length = span_of(ran_sec);
    let partial = if partial { ", stopped early" } else { "" };
    match (class, simulated) {
        (_, true) => {
            format!("screening of {length} on simulated drives{partial}: it certifies nothing")
        }
        (VerdictClass::Screening, false) => {
            format!("screening of {length}{partial}: it certifies nothing")
        }
        (VerdictClass::CertificationLoad, false) => {
            format!("a certification's load, for {length}{partial}")
        }
    }
}

pub(crate) fn method(manifest: &Manifest) -> Vec<Paragraph> {
    let paragraph = |title: &str, text: String| Paragraph {
        title: title.to_owned(),
        text,
    };
    let slice = format::span(manifest.slice_sec);
    let interval = format::span(manifest.report_interval_sec);
    let mut paragraphs = vec![
        paragraph(
            "The times of an operation",
            "An operation is intended at its scheduled start time, eligible once the in-flight limit has a free slot, \
             issued at its submission, and completed when flashproof sees its completion. Wait = eligible - intended: \
             caused by the device or by the in-flight limit. Lag = issued - eligible: caused by flashproof or its \
             host. Service = completed - issued: the time that ACT reports. Judged = wait + service. Response = wait + \
             lag + service."
                .into(),
        ),
        paragraph(
            "The verdict",
            format!(
                "The run is divided into slices of {slice}. For each device, and for all devices together, the share \
                 of judged operations whose wait + service reaches a threshold is compared with the limits ({}), \
                 in whole numbers. The worst complete slice decides. A failed or lost operation is over every \
                 threshold. INVALID means that delays by flashproof or its host, or completions that were seen late, \
                 may have decided the outcome.",
                manifest.sla
            ),
        ),
        paragraph(
            "Exact and rounded numbers",
            format!(
                "Shares are exact counts. Percentiles come from histograms with steps of 1 % for service and 6 % for wait \
                 and lag, but at least 1 us. Tables have a row for every {interval} and are reduced for the charts; \
                 the caption of a chart explains its points. The verdict was computed again from the recorded counts \
                 for this report."
            ),
        ),
        paragraph(
            "Limits of this result",
            "The load is a model of a database's device I/O: fixed rates, random offsets, no cache hits. Your \
             database was \
             not measured. The result holds for this drive, firmware, fill level, host and duration: drives may slow \
             down after hours, and another drive of the same model may differ."
                .into(),
        ),
        paragraph(
            "Screening and certification",
            "Certified means a full day of the load on a real device. Anything shorter, and anything simulated, is a \
             screening: it finds drives that fail, and certifies none."
                .into(),
        ),
    ];
    if manifest.simulated {
        paragraphs.push(paragraph(
            "Simulated drives",
            "The drives of this run are a queueing model on virtual time. The numbers show how flashproof measures and \
             judges, but nothing about a real drive."
                .into(),
        ));
    }
    paragraphs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_run_of_24_hours_is_called_a_screening() {
        let words = class(VerdictClass::CertificationLoad, true, 86_400.0, false);
        assert_eq!(
            words,
            "screening of 24 h on simulated drives: it certifies nothing"
        );
        assert!(
            class(VerdictClass::Screening, false, 21_600.0, true)
                .starts_with("screening of 6 h, stopped early")
        );
        assert_eq!(
            class(VerdictClass::CertificationLoad, false, 86_400.0, false),
            "a certification's load, for 24 h"
        );
    }
}
