//! Reports from run directories and logs alone, so that a report can be made on any machine, years later.
//!
//! * [`document`]: runs and series of runs as one document: as HTML, Markdown, JSON and text
//! * [`charts`]: charts as data; [`bars`]: numbers as bars
//! * [`baseline`]: results of a baseline for each drive, and the drives side by side
//! * [`comparison`]: candidates side by side, and among published ratings
//! * [`check`]: results of `check`: is a disk good enough for a database
//! * [`latency`]: the tables of ACT's analysis script from logs, and the same as CSV, JSON, Markdown
//! * [`latencies`]: quantiles of each stream over the whole run, from the interval logs
//! * [`text`]: the document for a terminal, and the summary of a run that just ended
//! * [`listing`]: the results below a directory, newest first
//! * [`status`]: progress of a run, a series or a check, also while it runs
//! * [`waf`]: write amplification of tenants, arrangement by arrangement
//! * [`findings`]: findings of `doctor`
//! * [`head`]: the head of an answer: outcome, sentence, next step, facts
//! * [`html`]: HTML pages
//! * [`table`]: a table as text, Markdown, HTML or CSV, also for the output of commands

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

pub mod bars;
pub mod baseline;
pub mod campaign;
pub mod charts;
pub mod check;
pub mod comparison;
pub mod document;
pub mod durability;
pub mod findings;
pub mod fio;
pub mod head;
pub mod html;
pub mod latencies;
pub mod latency;
pub mod listing;
mod markdown;
mod run_report;
pub mod status;
pub mod table;
mod tables;
pub mod text;
pub mod waf;
mod words;

pub use words::step_outcome;

/// `value` as JSON in the format of `--json` of all commands, with a newline at the end.
pub fn json<T: serde::Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// JSON Schema (draft 2020-12) of the JSON of a `T`: `docs/*.schema.json`.
pub fn schema_of<T: schemars::JsonSchema>() -> serde_json::Result<String> {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    json(&settings.into_generator().into_root_schema_for::<T>())
}
