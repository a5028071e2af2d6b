//! `flashproof baseline`: measures drives under fio's jobs, one job after another, across interruptions.
//!
//! ```text
//! options -> Request   form, devices, terms; nothing touched
//!         -> SeriesDir the directory of the series, started or resumed
//!         -> prep, doctor, and the devices opened for the whole series
//!         -> per drive: form + its points -> its next job
//!            the jobs furthest behind, at the same time -> a run -> a point for each drive
//!         -> conclusion, report
//! ```
//! `load::baseline` decides which job is next, `conclusions::baseline` what follows from points. Several drives work
//! at the same time, as in a server: each has its own job, and a step for it.

mod measuring;
mod request;

use crate::args::BaselineArgs;
use conclusions::baseline::{
    Done, Part, Point, Pts, conclude, has_failed, in_doubt, judge_job, point_of, points_of, saturated_at,
};
use conclusions::certify::StageResult;
use conclusions::series::{Identity, Rule, Series, State, Step};
use load::baseline::{BaselineRequest, Job};
use measuring::JobObserver;
use procedures::cross_check::{self, RealFio};
use procedures::prep::{PrepOptions, Preparation, Style};
use procedures::series::{Drives, NOT_PREPARED, SeriesDir, default_name, now_unix_ms};
use report::baseline::pts_table;
use report::table::Table;
use request::Request;
use results::judge::{End, Outcome, Sla, Verdict};
use results::steady::ROUNDS_IN_WINDOW;
use results::units::{milliseconds, number, span};
use serde_json::json;
use session::devices::erasable;
use session::failure::Failure;
use session::runner::{FailureLimits, NamedWorkload, Opened, RunRequest};
use session::signals::SignalHandler;
use session::{CompatMode, console};
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Measures devices, resuming from the state on disk.
pub fn run(args: &BaselineArgs) -> Result<ExitCode, Failure> {
    let mut request = Request::of(args)?;
    let no_prep = args.no_prep || args.read_only;
    let drives = Drives::inspect(&request.spec(), no_prep)?;
    request.probe_devices()?;
    let fio = args.cross_check.then(|| real_fio(&request, &drives)).transpose()?;
    let first = args.out.clone().unwrap_or_else(|| default_name("baseline", &drives.identities, &request.name()));
    let now = request.series(drives.identities.clone(), &drives.left_unprepared);
    let mut kept = SeriesDir::open(&first, args.series.clone(), now, &[NOT_PREPARED], |options| {
        erasable(&request.spec(), !args.read_only, &options.erase, !options.dry_run)
    })?;
    kept.series.interrupt_running_steps();
    if kept.series.conclusion.is_some() {
        console::note(&format!("the baseline in {} is complete; --fresh starts a new one", kept.dir.display()));
        return show_conclusion(&kept);
    }
    if args.series.dry_run {
        return show_plan(&kept, &request, &drives);
    }
    let switch = SignalHandler::install("run the same command to repeat the job", CompatMode::Native)?;
    kept.save()?;
    let is_pts = !request.form.pts.is_empty();
    if !no_prep
        && !is_pts
        && let Some(code) = kept.prepare(&drives, &switch)?
    {
        return Ok(code);
    }
    kept.examine();
    kept.print_findings();
    console::note(&summary(&kept, &request));
    let mut opened = request.open(&kept.erase)?;
    loop {
        // A signal that arrived while the last job was being recorded takes effect here.
        if switch.signal_received().is_some() {
            return show_interruption(&kept);
        }
        let jobs = next_jobs(&request.form, &kept.series);
        if jobs.is_empty() {
            break;
        }
        if is_pts && jobs[0].1.place.1 == 0 {
            // The preparation opens the devices itself and needs them exclusively. A simulated drive is new when
            // opened.
            drop(opened);
            let devices = jobs.iter().map(|(device, _)| request.devices[*device].clone()).collect();
            if !request.form.simulated
                && let Some(code) = precondition(jobs[0].1.part, devices, &kept.erase, args.series.quiet, &switch)?
            {
                return Ok(code);
            }
            opened = request.open(&kept.erase)?;
        }
        if run_jobs(&jobs, &request, &opened, fio.as_ref(), &mut kept, &switch)?.is_break() {
            return show_interruption(&kept);
        }
    }
    let mut conclusion = conclude(&kept.series);
    conclusion.remarks.splice(0..0, request.remarks());
    kept.conclude(conclusion)?;
    show_conclusion(&kept)
}

/// The fio for the cross-check. Errors: fio is not installed, or its version is unsuitable.
fn real_fio(request: &Request, drives: &Drives) -> Result<RealFio, Failure> {
    let first = |(device, drive): (usize, &Identity)| Some((device, request.form.next(&[], drive.size_bytes)?));
    let jobs: Vec<_> = drives.identities.iter().enumerate().filter_map(first).collect();
    let borrowed: Vec<_> = jobs.iter().map(|(device, job)| (*device, job)).collect();
    RealFio::beside(&[request.load(&borrowed)?])
}

/// Discards each of `devices`, then writes it twice completely, as SNIA's PTS requires before a test. The saturation
/// test starts on an empty drive. Returns an exit code if the preconditioning did not complete.
fn precondition(
    part: Part,
    devices: Vec<String>,
    erase: &[String],
    quiet: bool,
    switch: &SignalHandler,
) -> Result<Option<ExitCode>, Failure> {
    let usual = Preparation::with_defaults(devices, erase, Style::of(quiet));
    let purged =
        |fills| PrepOptions { discard_first: true, zeros: false, fills, restart: true, ..PrepOptions::DEFAULT };
    let asked = match part {
        Part::PtsSaturation => {
            console::note("discarding each whole device, as SNIA's PTS requires");
            Preparation { wanted: purged(0), samples: 0, ..usual }
        }
        _ => {
            console::note("discarding each whole device and writing it twice, as SNIA's PTS requires");
            Preparation { wanted: purged(2), ..usual }
        }
    };
    let code = asked.run(switch)?;
    Ok((code != 0).then(|| ExitCode::from(code)))
}

/// Maximum I/O errors of a run of jobs: a drive with an error has no further jobs.
const PATIENCE: FailureLimits = FailureLimits::with_errors(100);

/// The next jobs, each with the number of its drive: the jobs of the drives furthest behind, which run at the same
/// time. A failed drive has no next job; the other drives continue.
fn next_jobs(form: &BaselineRequest, series: &Series) -> Vec<(usize, Job)> {
    let of = |(device, identity): (usize, &Identity)| {
        let points = (!has_failed(series, device)).then(|| points_of(series, device))?;
        Some((device, form.next(&points, identity.size_bytes)?))
    };
    let mut next: Vec<_> = series.devices.iter().enumerate().filter_map(of).collect();
    let behind = next.iter().map(|(_, job)| job.place).min();
    next.retain(|(_, job)| Some(job.place) == behind);
    next
}

/// Runs `jobs` at the same time. Their steps are saved in `kept` before and after the run. `Continue`: each drive has a
/// point, except drives whose run ended because another drive failed. `Break`: a signal ended the run.
fn run_jobs(
    jobs: &[(usize, Job)],
    request: &Request,
    opened: &Opened,
    fio: Option<&RealFio>,
    kept: &mut SeriesDir,
    switch: &SignalHandler,
) -> Result<ControlFlow<()>, Failure> {
    let borrowed: Vec<_> = jobs.iter().map(|(device, job)| (*device, job)).collect();
    let load = request.load(&borrowed)?;
    let (index, first) = (kept.series.steps.len(), &jobs[0].1);
    let dir = format!("{:03}-{}", index + 1, slug(&first.name));
    let steps: Vec<_> = jobs.iter().map(|(device, job)| step(*device, job, &dir, &kept.series)).collect();
    kept.series.steps.extend(steps);
    kept.save()?;
    let line = |(device, job): &(usize, Job)| format!("{}: {}", request.devices[*device], job.line());
    let lines: Vec<_> = jobs.iter().map(line).collect();
    // Unlimited latency: a drive is measured, not judged.
    let sla = Sla::wanted(Sla::UNLIMITED).map_err(Failure::usage)?;
    let asked = || RunRequest {
        opened: Some(opened),
        sla: sla.clone(),
        slice_sec: first.seconds,
        round_sec: Some(first.round_sec),
        patience: PATIENCE,
        heading: Some(heading(request, first)),
        ..RunRequest::new(NamedWorkload::alone(load.clone(), lines.join("\n") + "\n"))
    };
    let mut measuring = JobObserver::new(&load);
    let verdict = kept.run_step(index, asked(), None, switch, &mut measuring)?;
    let judge = |verdict: &Verdict| -> Vec<StageResult> {
        jobs.iter().map(|(device, _)| judge_job(verdict, *device, &request.devices[*device])).collect()
    };
    let judged = judge(&verdict);
    let none_failed = judged.iter().all(|judged| judged.outcome != Outcome::Fail);
    if let Some(judged) = judged.iter().find(|judged| none_failed && judged.outcome == Outcome::Invalid) {
        kept.series.steps[index..].iter_mut().for_each(|step| step.interrupt(&judged.reason));
        kept.save()?;
        return match verdict.end {
            End::Interrupted { .. } => Ok(ControlFlow::Break(())),
            _ => Err(Failure::environment(format!(
                "cannot measure {} - {} - remove the cause, then run the same command to repeat this job",
                first.name, judged.reason
            ))),
        };
    }
    let mut checked = None;
    if let Some(fio) = fio.filter(|_| first.part == Part::Profile && none_failed) {
        checked = cross_check::in_turns(fio, &load, &opened.devices, switch, |round| {
            let mut measuring = JobObserver::new(&load);
            let verdict = kept.run_step(index, asked(), Some(round), switch, &mut measuring)?;
            let passed = judge(&verdict).iter().all(|judged| judged.outcome == Outcome::Pass);
            Ok(passed.then(|| measuring.sides()))
        })?;
        if switch.signal_received().is_some() {
            kept.series.steps[index..]
                .iter_mut()
                .for_each(|step| step.interrupt("a signal ended the cross-check of this job"));
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
    jobs_ended(kept, index);
    Ok(ControlFlow::Continue(()))
}

/// `point` with the steady state of the drive, if there are enough rounds `so_far` of the same part of the baseline.
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

/// Prints the plan of a dry run. Returns the exit code.
fn show_plan(kept: &SeriesDir, request: &Request, drives: &Drives) -> Result<ExitCode, Failure> {
    // SNIA's tests prepare the drives themselves.
    let to_prepare = if request.form.pts.is_empty() { drives.to_prepare(kept.has_begun()) } else { Vec::new() };
    let devices = drives.plan(&to_prepare);
    console::page(&format!("{}\n{devices}nothing was written\n", summary(kept, request)))?;
    Ok(ExitCode::SUCCESS)
}

fn summary(kept: &SeriesDir, request: &Request) -> String {
    let what = match request.form.jobs() {
        Some(jobs) => {
            format!("in {jobs} jobs and the rounds of a saturation, {} under load", span(request.form.seconds))
        }
        None => "by tests of SNIA's PTS 2.0.2, each run to steady state".to_owned(),
    };
    format!(
        "a baseline of {} {what}; state and results: {}{}",
        request.devices.join(", "),
        kept.dir.display(),
        kept.done_before()
    )
}

/// Heading of a job's progress.
fn heading(request: &Request, job: &Job) -> String {
    match (request.form.jobs(), job.place) {
        (Some(jobs), (1, place)) => format!("{} ({} of {jobs})", job.name, place + 1),
        _ => job.name.clone(),
    }
}

/// Prints the results of the jobs from step `index` on.
fn jobs_ended(kept: &SeriesDir, index: usize) {
    for step in &kept.series.steps[index..] {
        if let Some(point) = point_of(step) {
            console::note(&format!("{}: {}", step.name, result_line(&point)));
        }
        if step.outcome == Some(Outcome::Fail) {
            console::warning(&format!("{} failed: {}; this drive gets no further jobs", step.name, step.reason));
        }
    }
}

/// Result of a job in one line.
fn result_line(point: &Point) -> String {
    let side = |done: &Option<Done>, what: &str| {
        let done = done.as_ref()?;
        let undone = if done.undone > 0 { format!(", {} not done", number(done.undone as f64)) } else { String::new() };
        Some(format!("{} {what} per second, p99 {}{undone}", achieved(done), done.answer_at(99.0)))
    };
    let sides = [side(&point.reads, "reads"), side(&point.writes, "writes")];
    sides.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Achieved operations per second, and the offered rate if it was higher.
fn achieved(done: &Done) -> String {
    match done.offered_iops {
        Some(offered) if done.undone > 0 => format!("{} of {}", number(done.iops), number(offered)),
        _ => number(done.iops),
    }
}

/// Prints the result of a finished baseline. Returns the exit code.
fn show_conclusion(kept: &SeriesDir) -> Result<ExitCode, Failure> {
    let mut page = String::new();
    for (number, device) in kept.series.devices.iter().enumerate() {
        let points = points_of(&kept.series, number);
        for table in Pts::ALL.iter().filter_map(|test| test.table(&points)) {
            let table = pts_table(&table);
            let _ = write!(page, "\n{}: {}\n{table}", device.name, table.title);
        }
    }
    page.push_str(&table(kept));
    // A prediction uses only the depth jobs, not SNIA's tests.
    let read: Vec<_> =
        kept.series.steps.iter().filter_map(point_of).filter(|point| point.part == Part::Depth).collect();
    let outcome = kept.series.conclusion.as_ref().map(|conclusion| conclusion.outcome);
    if outcome == Some(Outcome::Pass) && !read.is_empty() {
        let without = if in_doubt(&kept.series).is_some() { " (from the jobs that are not in doubt)" } else { "" };
        let _ = match read.iter().all(|point| point.doubt.is_some()) {
            true => writeln!(
                page,
                "no rating can be predicted from this baseline: the result of each queue depth is in doubt"
            ),
            false => {
                writeln!(page, "to predict a rating{without}: flashproof rate predict {}", kept.dir.display())
            }
        };
    }
    kept.show_conclusion("", &page)
}

/// Prints the state of an interrupted baseline. Returns the exit code.
fn show_interruption(kept: &SeriesDir) -> Result<ExitCode, Failure> {
    kept.show_interruption(": run the same command to repeat the interrupted job", &table(kept))
}

/// Table of the jobs, and their directories.
fn table(kept: &SeriesDir) -> String {
    let table = Table::new("").text(["job", "operations"]).numbers([
        "IOPS",
        "MB/s",
        "mean",
        "p50",
        "p99",
        "p99.99",
        "in flight",
    ]);
    let doubts = in_doubt(&kept.series);
    let rows = kept.series.steps.iter().enumerate().flat_map(|(number, step)| {
        let doubt = doubts.as_ref().and_then(|doubts| doubts.of(number)).map_or("", |_| " (in doubt)");
        point_of(step).map(|point| rows(&format!("{}{doubt}", step.name), &point)).unwrap_or_default()
    });
    format!("\n{}\n{}", table.rows(rows), kept.format_paths())
}

/// A row for reads and a row for writes.
fn rows(name: &str, point: &Point) -> Vec<Vec<String>> {
    let row = |done: &Option<Done>, what: &str| {
        let done = done.as_ref()?;
        let in_flight = point.mean_in_flight.map_or(String::new(), number);
        Some(vec![
            name.to_owned(),
            what.to_owned(),
            achieved(done),
            number(done.mbps),
            milliseconds(done.answer.mean_us / 1e3),
            done.answer_at(50.0).to_string(),
            done.answer_at(99.0).to_string(),
            done.answer_at(99.99).to_string(),
            in_flight,
        ])
    };
    [row(&point.reads, "reads"), row(&point.writes, "writes")].into_iter().flatten().collect()
}
