//! What is said of a series: on standard error while it goes on, on standard output when it ends.

use super::place::Place;
use crate::failure::Failure;
use crate::say;
use measure::certify::span;
use measure::judge::Outcome;
use measure::series::{State, Step};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// Says what will be done, and how long it will take.
pub fn beginning(place: &Place) {
    let steps = &place.series.steps;
    let left = steps.iter().filter(|step| step.state != State::Done);
    let left_sec: u64 = left.map(|step| step.duration_sec).sum();
    let time = match place.claim.simulated {
        true => format!("{} of simulated time", span(left_sec)),
        false => format!("{}, until about {}", span(left_sec), utc(SystemTime::now(), left_sec)),
    };
    say::note(&format!(
        "{} for {} in {} stages: {time}; state and results: {}",
        place.claim.noun(),
        place.claim.subject(),
        steps.len(),
        place.dir.display()
    ));
}

/// Says that a stage begins.
pub fn stage_begins(place: &Place, index: usize) {
    let step = &place.series.steps[index];
    let rule = match step.rule {
        measure::series::Rule::Limits => "passes within the limits",
        _ => "passes when it runs to completion, however slow",
    };
    say::note(&format!(
        "\n{}: {} on {}, {}; it {rule}",
        heading(place, index),
        load(place, step),
        devices(place, step),
        span(step.duration_sec)
    ));
}

/// Says how a stage ended.
pub fn stage_ended(place: &Place, index: usize) {
    let step = &place.series.steps[index];
    say::note(&format!("{}: {}: {}", place.which(index), outcome(step), step.reason));
}

/// What stands before each line of progress.
pub fn heading(place: &Place, index: usize) -> String {
    let which = place.which(index);
    match place.claim.simulated {
        true => which,
        false => format!("{which}, ends about {}", utc(SystemTime::now(), place.series.steps[index].duration_sec)),
    }
}

/// The result of a series that ended; gives its exit code.
pub fn conclusion(place: &Place) -> Result<ExitCode, Failure> {
    let Some(conclusion) = &place.series.conclusion else { return Ok(ExitCode::from(Outcome::Invalid.exit_code())) };
    let mut page = format!("\n{} ({}): {}\n", conclusion.outcome, place.claim.noun(), conclusion.sentence);
    for remark in &conclusion.remarks {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "  {remark}");
    }
    page.push_str(&table(place));
    say::result(&page)?;
    Ok(ExitCode::from(conclusion.outcome.exit_code()))
}

/// The state of a series that was interrupted in a stage; gives its exit code.
pub fn interruption(place: &Place, index: usize) -> Result<ExitCode, Failure> {
    let step = &place.series.steps[index];
    let mut page = format!(
        "\nINTERRUPTED ({}): {} was ended by {}; the same command goes on with it, from its beginning\n",
        place.claim.noun(),
        place.which(index),
        step.reason
    );
    page.push_str(&table(place));
    say::result(&page)?;
    Ok(ExitCode::from(Outcome::Invalid.exit_code()))
}

/// The stages in a table, and where they are recorded.
fn table(place: &Place) -> String {
    let rows: Vec<[String; 6]> = place.series.steps.iter().map(|step| row(place, step)).collect();
    let head = ["stage", "load", "devices", "length", "outcome", "run directory"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::from("\n");
    for row in &rows {
        let cells: Vec<_> = row.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column))).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    let _ = writeln!(text, "\nseries: {}", place.dir.display());
    text
}

fn row(place: &Place, step: &Step) -> [String; 6] {
    let dir = if step.attempts > 0 { step.dir.clone() } else { "-".to_owned() };
    [step.name.clone(), load(place, step), devices(place, step), span(step.duration_sec), outcome(step), dir]
}

/// The load of a stage, as a multiple.
fn load(place: &Place, step: &Step) -> String {
    match &place.claim.config {
        None => format!("{}x", step.multiple),
        Some(config) => format!("{} times {config}", step.multiple),
    }
}

/// The devices of a stage by their names, or their number where they are many.
fn devices(place: &Place, step: &Step) -> String {
    let named = step.devices.iter().filter_map(|device| place.series.devices.get(*device));
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

/// The time `seconds` after `now` on the clock of UTC, with its day where that is another one.
fn utc(now: SystemTime, seconds: u64) -> String {
    let text = |time| humantime::format_rfc3339_seconds(time).to_string();
    let (today, then) = (text(now), text(now + Duration::from_secs(seconds)));
    // 2026-11-21T14:05:09Z
    let (day, clock) = then.split_once('T').unwrap_or(("", &then));
    let minutes = clock.get(..5).unwrap_or(clock);
    if today.starts_with(day) { format!("{minutes} UTC") } else { format!("{minutes} UTC on {day}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_by_the_minute_and_by_its_day_if_that_is_another() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(3_600 * 14 + 309);
        assert_eq!(utc(now, 60), "14:06 UTC");
        assert_eq!(utc(now, 86_400), "14:05 UTC on 1970-01-02");
    }
}
