//! Messages: on standard error during the work, on standard output at its end.

use super::request::Request;
use super::search::SearchRun;
use procedures::series::{Drives, Kept};
use report::table::Table;
use results::judge::Outcome;
use results::rating::{Details, Seen};
use results::series::{State, Step};
use results::units::span;
use session::console;
use session::failure::Failure;
use std::process::ExitCode;

/// Announces the work.
pub fn beginning(kept: &Kept, request: &Request) {
    console::note(&summary(kept, request));
}

/// Prints the plan of a dry run. Returns the exit code.
pub fn plan(kept: &Kept, request: &Request, drives: &Drives) -> Result<ExitCode, Failure> {
    let (least_sec, most_sec) = SearchRun::replayed(request, &kept.series).range_sec(request);
    let devices = drives.plan(&drives.to_prepare(kept.has_begun()));
    let of = if request.simulated { " of simulated time" } else { "" };
    console::page(&format!(
        "{}\n{devices}the rating is confirmed over {}\nunder load: from {} to {}{of}, by the rating that is found; slow spells \
         of a drive make it longer\nnothing was written\n",
        summary(kept, request),
        span(request.slice(request.from).sec),
        span(least_sec),
        span(most_sec)
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn summary(kept: &Kept, request: &Request) -> String {
    let bound = match request.max_sec {
        Some(seconds) => format!(", at most {} under load", span(seconds as u64)),
        None => String::new(),
    };
    format!(
        "rating from {}x up in rounds of {}{bound}; state and results: {}{}",
        request.from,
        span(request.slice(request.from).round_sec),
        kept.dir.display(),
        kept.done_before()
    )
}

/// Announces a step on a terminal; the log of a script has only its result.
pub fn step_begins(step: &Step) {
    if console::is_watched() {
        console::note(&format!("\n{}: at most {}", step.name, span(step.duration_sec)));
    }
}

/// Reports the result of a step.
pub fn step_ended(step: &Step) {
    console::note(&format!("{}: {}: {}", step.name, shown(step), step.reason));
}

/// Prints the result of a finished search. Returns the exit code.
pub fn conclusion(kept: &Kept) -> Result<ExitCode, Failure> {
    kept.show_conclusion("", &steps(kept))
}

/// Prints the state of an interrupted search. Returns the exit code.
pub fn interruption(kept: &Kept) -> Result<ExitCode, Failure> {
    console::page(&format!("\nINTERRUPTED: the same command goes on with the step that was ended\n{}", steps(kept)))?;
    Ok(ExitCode::from(Outcome::Invalid.exit_code()))
}

/// Table of the steps, and their directories.
fn steps(kept: &Kept) -> String {
    let headings = ["step", "shown", "rounds", "worst share", "run directory"];
    format!("\n{}\n{}", Table::new("").text(headings).rows(kept.series.steps.iter().map(row)), kept.places())
}

fn row(step: &Step) -> Vec<String> {
    let details = Details::of(step);
    let rounds = details.as_ref().map_or(String::new(), |details| details.judged.rounds.to_string());
    // Only for the tightest threshold; the report has the others.
    let shares = details.iter().flat_map(|details| &details.judged.shares).filter_map(|shares| shares.share.first());
    let worst = shares.copied().reduce(f64::max).map_or(String::new(), |share| format!("{:.3} %", share * 100.0));
    vec![step.name.clone(), shown(step).to_owned(), rounds, worst, step.dir.clone()]
}

/// Result of a step, in a word or two.
fn shown(step: &Step) -> &'static str {
    match (step.state, Details::of(step).map(|details| details.judged.seen)) {
        (State::Done, Some(Seen::Held)) => "held",
        (State::Done, Some(Seen::Failed)) => "not held",
        (State::Done, Some(Seen::Broken)) => "operations failed",
        (State::Done, Some(Seen::NotSteady)) => "not steady",
        (State::Done, Some(Seen::OurLimit)) => "not ours to tell",
        (State::Running, _) => "running",
        _ => "interrupted",
    }
}
