//! One stage: its run, its outcome, and the state on disk before and after.

use super::messages;
use super::place::Place;
use super::request::Request;
use crate::args::CertifyArgs;
use procedures::series::{alone, now_unix_ms};
use results::certify::{self, Judged, Linearity};
use results::judge::{End, Outcome, Verdict};
use results::run_dir;
use results::series::{Rule, State, Step};
use serde_json::{Value, json};
use session::console;
use session::devices::Consents;
use session::failure::Failure;
use session::recording::Unwatched;
use session::runner::{RunRequest, SeriesContext};
use session::signals::Switch;

/// Runs the stage `index`; `None`: a signal ended it. Errors: it did not begin, or could not be recorded; it is then marked as interrupted, and
/// the same command runs it again.
pub fn run(
    args: &CertifyArgs,
    request: &Request,
    place: &mut Place,
    index: usize,
    switch: &Switch,
) -> Result<Option<Outcome>, Failure> {
    certify::begin(&mut place.kept.series.steps[index], now_unix_ms());
    place.kept.save()?;
    messages::stage_begins(place, index);
    let devices = request.base.spec().names();
    let step = &place.kept.series.steps[index];
    let asked = RunRequest {
        consents: Consents { erase: &[], others: &devices, shared: false },
        sla: args.sla.clone(),
        slice_sec: args.slice.into(),
        patience: args.patience.into(),
        part: SeriesContext { heading: Some(messages::heading(place, index)), ..SeriesContext::default() },
        ..RunRequest::new(alone(request.load(step)?, &step.name))
    };
    let verdict = place.kept.run_step(index, asked, None, switch, &mut Unwatched)?;
    let ended = take(place, index, &verdict, now_unix_ms());
    place.kept.save()?;
    if ended.is_some() {
        messages::stage_ended(place, index);
    }
    Ok(ended)
}

/// Settles a stage that an earlier process left as running: done if its run is completely recorded, even if the process
/// ended before it noted the verdict; otherwise interrupted.
pub fn settle(place: &mut Place) {
    for index in 0..place.kept.series.steps.len() {
        let step = &place.kept.series.steps[index];
        if step.state != State::Running {
            continue;
        }
        let run = run_dir::read(&place.kept.dir.join(&step.dir));
        if let Some(run) = run.ok().filter(|run| run.agrees() == Some(true)) {
            let ended_unix_ms = run.manifest.started_unix_ms.saturating_add((run.verdict.ran_sec * 1e3) as u64);
            take(place, index, &run.verdict, ended_unix_ms);
        }
    }
    place.kept.series.settle();
    for step in place.kept.series.steps.iter().filter(|step| step.state == State::Interrupted) {
        console::note(&format!("{} was not ended ({}): it is run again from its beginning", step.name, step.reason));
    }
}

/// Records the verdict on the run of a stage.
fn take(place: &mut Place, index: usize, verdict: &Verdict, ended_unix_ms: u64) -> Option<Outcome> {
    let step = &mut place.kept.series.steps[index];
    step.ended_unix_ms = Some(ended_unix_ms);
    if let End::Interrupted { signal } = &verdict.end {
        step.interrupt(&format!("{signal} after {:.0} of {} s", verdict.ran_sec, verdict.duration_sec));
        return None;
    }
    let Judged { outcome, reason, notes } = certify::judge_stage(step.rule, verdict);
    step.state = State::Done;
    step.outcome = Some(outcome);
    step.reason = reason;
    step.details = details(verdict, &notes);
    if let Some(linearity) = linearity(place, index) {
        console::note(&format!("\n{linearity}"));
        place.kept.series.steps[index].details["linearity"] = json!(linearity);
    }
    Some(outcome)
}

/// Details of a run for the conclusion and the report, so that they need not read its directory.
fn details(verdict: &Verdict, notes: &[String]) -> Value {
    json!({
        "verdict": verdict.outcome,
        "decided_by": verdict.decided_by,
        "ran_sec": verdict.ran_sec,
        "streams": verdict.streams,
        "notes": notes,
    })
}

/// Compares the devices of a stage with the one tested alone, if there are several.
fn linearity(place: &Place, index: usize) -> Option<Linearity> {
    let step = &place.kept.series.steps[index];
    if step.rule != Rule::Limits || step.devices.len() < 2 {
        return None;
    }
    let is_alone = |step: &&Step| step.rule == Rule::Limits && step.devices.len() == 1 && step.state == State::Done;
    let alone = place.kept.series.steps.iter().find(is_alone)?;
    // Names may have changed at a reboot between the two runs; the number in the series is permanent.
    let numbers = |step: &Step| {
        let devices = step.devices.iter().filter_map(|device| place.kept.series.devices.get(*device));
        let names: Vec<_> = devices.map(|device| device.name.as_str()).collect();
        certify::device_numbers(&run_dir::read(&place.kept.dir.join(&step.dir))?, &names)
    };
    let compared = numbers(alone).and_then(|alone| Ok(certify::linearity(&alone, &numbers(step)?)));
    compared.unwrap_or_else(|error| {
        console::warning(&format!("the devices in company cannot be compared with one alone: {error}"));
        None
    })
}
