//! Messages: on standard error during the work, on standard output at its end.

use super::place::Place;
use procedures::series::{Drives, now_unix_ms, utc};
use report::table::Table;
use results::judge::Outcome;
use results::series::{State, Step};
use results::units::{self, span};
use session::console;
use session::failure::Failure;
use std::process::ExitCode;

/// Announces the work and its duration.
pub fn beginning(place: &Place) {
    console::note(&summary(place));
}

/// Prints the plan of a dry run. Returns the exit code.
pub fn plan(place: &Place, drives: &Drives) -> Result<ExitCode, Failure> {
    let devices = drives.plan(&drives.to_prepare(place.kept.has_begun()));
    let slices = span(place.claim.slice_sec.min(place.claim.stage_sec));
    console::page(&format!(
        "{}\n{devices}judged in slices of {slices}\n{}nothing was written\n",
        summary(place),
        stages(place)
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn summary(place: &Place) -> String {
    let steps = &place.kept.series.steps;
    let left = steps.iter().filter(|step| step.state != State::Done);
    let left_sec: u64 = left.map(|step| step.duration_sec).sum();
    let time = match place.claim.simulated {
        true => format!("{} of simulated time", span(left_sec)),
        false => format!("{}, until about {}", span(left_sec), utc(now_unix_ms(), left_sec)),
    };
    format!(
        "{} for {} in {}: {time}; state and results: {}",
        place.claim.noun(),
        place.claim.subject(),
        units::count(steps.len() as u64, "stage"),
        place.kept.dir.display()
    )
}

/// Announces a stage on a terminal; the log of a script has only its result.
pub fn stage_begins(place: &Place, index: usize) {
    if !console::is_watched() {
        return;
    }
    let step = &place.kept.series.steps[index];
    let rule = match step.rule {
        results::series::Rule::Limits => "passes within the limits",
        _ => "passes when it runs to completion, however slow",
    };
    console::note(&format!(
        "\n{}: {} on {}, {}; it {rule}",
        heading(place, index),
        load(place, step),
        devices(place, step),
        span(step.duration_sec)
    ));
}

/// Reports the end of a stage.
pub fn stage_ended(place: &Place, index: usize) {
    let step = &place.kept.series.steps[index];
    console::note(&format!("{}: {}: {}", place.which(index), outcome(step), step.reason));
}

/// Heading of each line of progress.
pub fn heading(place: &Place, index: usize) -> String {
    let which = place.which(index);
    match place.claim.simulated {
        true => which,
        false => format!("{which}, ends about {}", utc(now_unix_ms(), place.kept.series.steps[index].duration_sec)),
    }
}

/// Prints the result of a finished series. Returns the exit code.
pub fn conclusion(place: &Place) -> Result<ExitCode, Failure> {
    let outcome = place.kept.series.conclusion.as_ref().map(|conclusion| conclusion.outcome);
    let head = outcome.map(|outcome| format!("{outcome} ({}): ", place.claim.noun()));
    place.kept.show_conclusion(&head.unwrap_or_default(), &stages(place))
}

/// Prints the state of a series interrupted in a stage. Returns the exit code.
pub fn interruption(place: &Place, index: usize) -> Result<ExitCode, Failure> {
    let reason = &place.kept.series.steps[index].reason;
    interrupted(place, &format!("{} was ended by {reason}", place.which(index)), "with it, from its beginning")
}

/// Prints the state of a series that `signal` ended before stage `index` began. Returns the exit code.
pub fn interruption_between(place: &Place, index: usize, signal: &str) -> Result<ExitCode, Failure> {
    interrupted(place, &format!("{signal} came before {} began", place.which(index)), "with it")
}

fn interrupted(place: &Place, what: &str, how: &str) -> Result<ExitCode, Failure> {
    let noun = place.claim.noun();
    let page = format!("\nINTERRUPTED ({noun}): {what}; the same command goes on {how}\n{}", stages(place));
    console::page(&page)?;
    Ok(ExitCode::from(Outcome::Invalid.exit_code()))
}

/// Table of the stages, and their directories.
fn stages(place: &Place) -> String {
    let headings = ["stage", "load", "devices", "length", "outcome", "run directory"];
    let rows = place.kept.series.steps.iter().map(|step| row(place, step));
    format!("\n{}\n{}", Table::new("").text(headings).rows(rows), place.kept.places())
}

fn row(place: &Place, step: &Step) -> Vec<String> {
    let dir = if step.attempts > 0 { step.dir.clone() } else { "-".to_owned() };
    vec![step.name.clone(), load(place, step), devices(place, step), span(step.duration_sec), outcome(step), dir]
}

/// The load of a stage, as a multiple.
fn load(place: &Place, step: &Step) -> String {
    match &place.claim.config {
        None => format!("{}x", step.multiple),
        Some(config) => format!("{} times {config}", step.multiple),
    }
}

/// Names of the devices of a stage, or their number if they are many.
fn devices(place: &Place, step: &Step) -> String {
    let named = step.devices.iter().filter_map(|device| place.kept.series.devices.get(*device));
    let names: Vec<_> = named.map(|device| device.name.as_str()).collect();
    match names.len() {
        0..=2 => names.join(", "),
        many => format!("all {many} devices"),
    }
}

fn outcome(step: &Step) -> String {
    match (step.state, step.outcome) {
        (State::Done, Some(outcome)) => outcome.to_string(),
        (State::Planned, _) => "not run".to_owned(),
        (State::Running, _) => "running".to_owned(),
        _ => "interrupted".to_owned(),
    }
}
