//! Runs of jobs on several drives at the same time: the next jobs, their run, and a step with a point for each.

use super::measuring::Measuring;
use super::messages;
use super::request::Request;
use load::baseline::{Form, Job};
use procedures::cross_check::{self, RealFio};
use procedures::series::{Kept, now_unix_ms};
use results::baseline::{Part, Point, Pts, has_failed, judge_job, points_of, saturated_at};
use results::certify::Judged;
use results::judge::{End, Outcome, Sla, Verdict};
use results::series::{Identity, Rule, Series, State, Step};
use results::steady::ROUNDS_IN_WINDOW;
use serde_json::json;
use session::console;
use session::failure::Failure;
use session::runner::{Named, Opened, Patience, RunRequest, SeriesContext};
use session::signals::Switch;
use std::ops::ControlFlow;

/// Maximum I/O errors of a run of jobs: a drive with an error has no further jobs.
const PATIENCE: Patience = Patience::with_errors(100);

/// The next jobs, each with the number of its drive: the jobs furthest behind that can run at the same time. A failed
/// drive has none; the others continue.
pub fn next_jobs(form: &Form, series: &Series) -> Vec<(usize, Job)> {
    let of = |(device, identity): (usize, &Identity)| {
        let points = (!has_failed(series, device)).then(|| points_of(series, device))?;
        Some((device, form.next(&points, identity.size_bytes)?))
    };
    let mut next: Vec<_> = series.devices.iter().enumerate().filter_map(of).collect();
    let behind = next.iter().map(|(_, job)| job.place).min();
    next.retain(|(_, job)| Some(job.place) == behind);
    next
}

/// Runs `jobs` at the same time. Their steps are saved in `kept` before and after. `Continue`: each drive has a point,
/// except drives whose run ended because another drive failed. `Break`: a signal ended it.
pub fn run_jobs(
    jobs: &[(usize, Job)],
    request: &Request,
    opened: &Opened,
    fio: Option<&RealFio>,
    kept: &mut Kept,
    switch: &Switch,
) -> Result<ControlFlow<()>, Failure> {
    let borrowed: Vec<_> = jobs.iter().map(|(device, job)| (*device, job)).collect();
    let load = request.load(&borrowed)?;
    let (index, first) = (kept.series.steps.len(), &jobs[0].1);
    let dir = format!("{:03}-{}", index + 1, slug(&first.name));
    let steps = jobs.iter().map(|(device, job)| step(*device, job, &dir, &kept.series));
    let steps: Vec<_> = steps.collect();
    kept.series.steps.extend(steps);
    kept.save()?;
    let lines: Vec<_> =
        jobs.iter().map(|(device, job)| format!("{}: {}", request.devices[*device], job.line())).collect();
    // Unlimited latency: a drive is measured, not judged.
    let sla = Sla::wanted(Sla::UNLIMITED).map_err(Failure::usage)?;
    let asked = || RunRequest {
        opened: Some(opened),
        sla: sla.clone(),
        slice_sec: first.seconds,
        round_sec: Some(first.round_sec),
        patience: PATIENCE,
        part: SeriesContext { heading: Some(messages::heading(request, first)), ..SeriesContext::default() },
        ..RunRequest::new(Named::alone(load.clone(), lines.join("\n") + "\n"))
    };
    let mut measuring = Measuring::new(&load);
    let verdict = kept.run_step(index, asked(), None, switch, &mut measuring)?;
    let judge = |verdict: &Verdict| -> Vec<Judged> {
        jobs.iter().map(|(device, _)| judge_job(verdict, *device, &request.devices[*device])).collect()
    };
    let judged = judge(&verdict);
    let is_any = |outcome| judged.iter().any(|judged| judged.outcome == outcome);
    let none_failed = !is_any(Outcome::Fail);
    if let Some(judged) = judged.iter().find(|judged| none_failed && judged.outcome == Outcome::Invalid) {
        kept.series.steps[index..].iter_mut().for_each(|step| step.interrupt(&judged.reason));
        kept.save()?;
        return match verdict.end {
            End::Interrupted { .. } => Ok(ControlFlow::Break(())),
            _ => Err(Failure::environment(format!(
                "cannot measure {} - {} - mend that, and the same command goes on with this job",
                first.name, judged.reason
            ))),
        };
    }
    let mut checked = None;
    if let Some(fio) = fio.filter(|_| first.part == Part::Profile && none_failed) {
        checked = cross_check::in_turns(fio, &load, &opened.devices, switch, |round| {
            let mut measuring = Measuring::new(&load);
            let verdict = kept.run_step(index, asked(), Some(round), switch, &mut measuring)?;
            let passed = judge(&verdict).iter().all(|judged| judged.outcome == Outcome::Pass);
            Ok(passed.then(|| measuring.sides()))
        })?;
        if switch.was_asked().is_some() {
            kept.series.steps[index..].iter_mut().for_each(|step| step.interrupt("a signal ended its cross-check"));
            kept.save()?;
            return Ok(ControlFlow::Break(()));
        }
        if let Some(checked) = &checked {
            console::result(&format!("\n{}: {}", first.name, checked.text()))?;
        }
    }
    let doubt = verdict.reason().filter(|_| verdict.outcome == Outcome::Invalid).map(str::to_owned);
    for (place, ((device, job), judged)) in jobs.iter().zip(&judged).enumerate() {
        let point = measuring.point(place, job, doubt.clone());
        let so_far = points_of(&kept.series, *device);
        let step = &mut kept.series.steps[index + place];
        // A drive whose run was ended by another drive's errors is not at fault. Its job is repeated without that
        // drive.
        if judged.outcome == Outcome::Invalid {
            step.interrupt(&judged.reason);
            continue;
        }
        step.state = State::Done;
        step.outcome = Some(judged.outcome);
        step.reason.clone_from(&judged.reason);
        step.ended_unix_ms = Some(now_unix_ms());
        step.details = json!(with_rounds(point, so_far));
        // The cross-check contains the streams of all jobs.
        if let Some(checked) = checked.take() {
            step.details["cross_check"] = checked.json();
        }
    }
    kept.save()?;
    messages::jobs_ended(kept, index);
    Ok(ControlFlow::Continue(()))
}

/// `point` with the steady state of the drive, if the rounds `so_far` of its part are enough.
fn with_rounds(point: Point, mut so_far: Vec<Point>) -> Point {
    let part = point.part;
    let test = Pts::ALL.into_iter().find(|test| test.has(&point));
    if test.is_none() && part != Part::Saturation {
        return point;
    }
    so_far.push(point.clone());
    let is_steady = match test {
        Some(test) => test.steady_at(&so_far).is_some(),
        None => saturated_at(&so_far).is_some(),
    };
    Point { steady: (point.round as usize + 1 >= ROUNDS_IN_WINDOW).then_some(is_steady), ..point }
}

/// The step of a job, marked as begun.
fn step(device: usize, job: &Job, dir: &str, series: &Series) -> Step {
    let on = if series.devices.len() > 1 { format!(" on {}", series.devices[device].name) } else { String::new() };
    let name = format!("{}{on}", job.name);
    Step::planned(name, dir.to_owned(), 1.0, vec![device], job.seconds, Rule::Completes).begun(now_unix_ms())
}

/// A name for use in a directory name.
fn slug(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    plain.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}
