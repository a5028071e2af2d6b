//! `flashproof baseline`: measures drives under fio's jobs, one job after another, across interruptions.
//!
//! ```text
//! options -> BaselineSetup  requested jobs, devices, settings; nothing touched
//!         -> SeriesDir      the directory of the series, started or resumed
//!         -> prep, doctor, and the devices opened for the whole series
//!         -> per drive: BaselineRequest + the drive's points -> the drive's next job
//!            the next jobs of the drives furthest behind -> one run of these jobs -> a point for each drive
//!         -> conclusion, report
//! ```
//! `plan` decides the next job, and `conclusions::baseline` draws conclusions from points. Several drives work at the
//! same time, as in a server: each has its own job, and a step for this job.

mod measuring;
mod options;
pub mod plan;

use crate::commands::baseline::plan::{BaselineRequest, Job};
use crate::preparation::{PrepOptions, Preparation, ProgressStyle};
use crate::series::{Drives, NOT_PREPARED, SeriesDir, default_name, now_unix_ms};
use conclusions::baseline::{
    DirectionResult, JobPurpose, Point, Pts, conclude, has_failed, in_doubt, judge_job, point_of,
    points_of, saturated_at,
};
use conclusions::series::{DriveIdentity, Rule, Series, SeriesStepState, Step};
use measuring::JobObserver;
pub use options::BaselineOptions;
use options::BaselineSetup;
use report::baseline::pts_table;
use report::table::Table;
use results::format::{milliseconds, number, span};
use results::judge::{End, Outcome, Sla};
use results::steady::ROUNDS_IN_WINDOW;
use serde_json::json;
use session::devices::erasable;
use session::failure::Failure;
use session::runner::{FailureLimits, NamedWorkload, OpenDevices, RunRequest};
use session::signals::SignalHandler;
use session::{CompatMode, console};
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

pub fn run(args: &BaselineOptions) -> Result<ExitCode, Failure> {
    let mut request = BaselineSetup::from_options(args)?;
    let no_prep = args.no_prep || args.read_only;
    let drives = Drives::inspect(&request.spec(), no_prep)?;
    request.probe_devices()?;
    let first = args
        .out
        .clone()
        .unwrap_or_else(|| default_name("baseline", &drives.identities, &request.name()));
    let new_series = request.series(drives.identities.clone(), &drives.left_unprepared);
    let mut series_dir = SeriesDir::open(
        &first,
        args.series.clone(),
        new_series,
        &[NOT_PREPARED],
        |options| {
            erasable(
                &request.spec(),
                !args.read_only,
                &options.consent.erase,
                !options.dry_run,
            )
        },
    )?;
    series_dir.series.interrupt_running_steps();
    if series_dir.series.conclusion.is_some() {
        console::note(&format!(
            "the baseline in {} is complete; --fresh starts a new one",
            series_dir.dir.display()
        ));
        return show_conclusion(&series_dir);
    }
    if args.series.dry_run {
        return show_plan(&series_dir, &request, &drives);
    }
    let signal_handler =
        SignalHandler::install("run the same command to repeat the job", CompatMode::Native)?;
    series_dir.save()?;
    let is_pts = !request.form.pts.is_empty();
    if !is_pts && let Some(code) = series_dir.prepare(&drives, &signal_handler)? {
        return Ok(code);
    }
    series_dir.examine();
    series_dir.print_findings();
    console::note(&summary(&series_dir, &request));
    let mut opened = request.open(&series_dir.erase)?;
    loop {
        // A signal that arrived while the last job was being recorded takes effect here.
        if signal_handler.signal_received().is_some() {
            return show_interruption(&series_dir);
        }
        let jobs = next_jobs(&request.form, &series_dir.series);
        if jobs.is_empty() {
            break;
        }
        if is_pts && jobs[0].1.position.1 == 0 {
            // The preparation needs the devices exclusively. A simulated drive is prepared by opening it again.
            drop(opened);
            let devices = jobs
                .iter()
                .map(|(device, _)| request.devices[*device].clone())
                .collect();
            if !request.form.simulated
                && let Some(code) = precondition(
                    jobs[0].1.part,
                    devices,
                    &series_dir.erase,
                    args.series.quiet,
                    &signal_handler,
                )?
            {
                return Ok(code);
            }
            opened = request.open(&series_dir.erase)?;
        }
        if run_jobs(&jobs, &request, &opened, &mut series_dir, &signal_handler)?.is_break() {
            return show_interruption(&series_dir);
        }
    }
    let mut conclusion = conclude(&series_dir.series);
    conclusion.remarks.splice(0..0, request.remarks());
    series_dir.conclude(conclusion)?;
    show_conclusion(&series_dir)
}

/// Discards each of `devices`, then writes it twice completely, as SNIA's PTS requires before a test. Before the
/// saturation test, devices are only discarded. Returns an exit code if the preconditioning did not complete.
fn precondition(
    part: JobPurpose,
    devices: Vec<String>,
    erase: &[String],
    quiet: bool,
    signal_handler: &SignalHandler,
) -> Result<Option<ExitCode>, Failure> {
    let mut preparation =
        Preparation::with_defaults(devices, erase, ProgressStyle::from_quiet(quiet));
    preparation.options = PrepOptions {
        discard_first: true,
        zeros: false,
        fills: 2,
        restart: true,
        ..PrepOptions::DEFAULT
    };
    if part == JobPurpose::PtsSaturation {
        console::note("discarding each whole device, as SNIA's PTS requires");
        preparation.options.fills = 0;
        preparation.samples = 0;
    } else {
        console::note("discarding each whole device and writing it twice, as SNIA's PTS requires");
    }
    preparation.run(signal_handler)
}

/// A run of jobs ends after this many I/O errors. A drive with any error gets no further jobs.
const PATIENCE: FailureLimits = FailureLimits::with_errors(100);

/// Drive numbers and next jobs of the drives furthest behind, which run together. A failed drive has no next job.
fn next_jobs(form: &BaselineRequest, series: &Series) -> Vec<(usize, Job)> {
    let mut next: Vec<_> = series
        .devices
        .iter()
        .enumerate()
        .filter_map(|(device, identity): (usize, &DriveIdentity)| {
            let points = (!has_failed(series, device)).then(|| points_of(series, device))?;
            Some((device, form.next(&points, identity.size_bytes)?))
        })
        .collect();
    let behind = next.iter().map(|(_, job)| job.position).min();
    next.retain(|(_, job)| Some(job.position) == behind);
    next
}

/// Runs `jobs` at the same time. Their steps are saved in `series_dir` before and after the run. `Continue`: each drive
/// has a point, except drives whose run ended because another drive failed. `Break`: a signal ended the run.
fn run_jobs(
    jobs: &[(usize, Job)],
    request: &BaselineSetup,
    opened: &OpenDevices,
    series_dir: &mut SeriesDir,
    signal_handler: &SignalHandler,
) -> Result<ControlFlow<()>, Failure> {
    let load = request.load(jobs)?;
    let index = series_dir.series.steps.len();
    let first = &jobs[0].1;
    let dir = format!("{:03}-{}", index + 1, slug(&first.name));
    let steps: Vec<_> = jobs
        .iter()
        .map(|(device, job)| step(*device, job, &dir, &series_dir.series))
        .collect();
    series_dir.series.steps.extend(steps);
    series_dir.save()?;
    let mut lines = String::new();
    for (device, job) in jobs {
        lines += &format!("{}: {}\n", request.devices[*device], job.line());
    }
    // Unlimited latency: a drive is measured, not judged.
    let sla = Sla::requested(Sla::UNLIMITED).map_err(Failure::usage)?;
    let stage_request = RunRequest {
        opened: Some(opened),
        sla,
        slice_sec: first.seconds,
        round_sec: Some(first.round_sec),
        failure_limits: PATIENCE,
        heading: Some(heading(request, first, &series_dir.series)),
        ..RunRequest::new(NamedWorkload::alone(load.clone(), lines))
    };
    let mut observer = JobObserver::new(&load);
    let verdict = series_dir.run_step(index, stage_request, signal_handler, &mut observer)?;
    let stage_results: Vec<_> = jobs
        .iter()
        .map(|(device, _)| judge_job(&verdict, *device, &request.devices[*device]))
        .collect();
    let none_failed = stage_results
        .iter()
        .all(|judged| judged.outcome != Outcome::Fail);
    if let Some(judged) = stage_results
        .iter()
        .find(|judged| none_failed && judged.outcome == Outcome::Invalid)
    {
        series_dir.series.steps[index..]
            .iter_mut()
            .for_each(|step| step.interrupt(&judged.reason));
        series_dir.save()?;
        return match verdict.end {
            End::Interrupted { .. } => Ok(ControlFlow::Break(())),
            _ => Err(Failure::environment(format!(
                "cannot measure {} - {} - remove the cause, then run the same command to repeat this job",
                first.name, judged.reason
            ))),
        };
    }
    let doubt = verdict
        .reason()
        .filter(|_| verdict.outcome == Outcome::Invalid)
        .map(str::to_owned);
    for (offset, ((device, job), judged)) in jobs.iter().zip(&stage_results).enumerate() {
        let point = observer.point(offset, job, doubt.clone());
        let so_far = points_of(&series_dir.series, *device);
        let step = &mut series_dir.series.steps[index + offset];
        // Errors of another drive ended this drive's run: its job is repeated without the failed drive.
        if judged.outcome == Outcome::Invalid {
            step.interrupt(&judged.reason);
            continue;
        }
        step.state = SeriesStepState::Done;
        step.outcome = Some(judged.outcome);
        step.reason.clone_from(&judged.reason);
        step.ended_unix_ms = Some(now_unix_ms());
        step.details = json!(with_rounds(point, so_far));
    }
    series_dir.save()?;
    jobs_ended(series_dir, index);
    Ok(ControlFlow::Continue(()))
}

/// `point`, with the result of the test of steadiness if `point` is a round of the saturation or of a SNIA test, and at
/// least [`ROUNDS_IN_WINDOW`] rounds are done. `so_far`: the earlier points of the same part.
fn with_rounds(point: Point, mut so_far: Vec<Point>) -> Point {
    let part = point.part;
    let test = Pts::ALL.into_iter().find(|test| test.has(&point));
    if test.is_none() && part != JobPurpose::Saturation {
        return point;
    }
    so_far.push(point.clone());
    let is_steady = match test {
        Some(test) => test.steady_at(&so_far).is_some(),
        None => saturated_at(&so_far).is_some(),
    };
    Point {
        steady: (point.round as usize + 1 >= ROUNDS_IN_WINDOW).then_some(is_steady),
        ..point
    }
}

/// The step of a job, marked as begun.
fn step(device: usize, job: &Job, dir: &str, series: &Series) -> Step {
    let device_text = if series.devices.len() > 1 {
        format!(" on {}", series.devices[device].name)
    } else {
        String::new()
    };
    let name = format!("{}{device_text}", job.name);
    Step::planned(
        name,
        dir.to_owned(),
        1.0,
        vec![device],
        job.seconds,
        Rule::Completes,
    )
    .begun(now_unix_ms())
}

/// `name` as part of a directory name: letters and digits, joined by single hyphens.
fn slug(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    plain
        .split('-')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

fn show_plan(
    series_dir: &SeriesDir,
    request: &BaselineSetup,
    drives: &Drives,
) -> Result<ExitCode, Failure> {
    // SNIA's tests prepare the drives themselves.
    let to_prepare = if request.form.pts.is_empty() {
        drives.to_prepare(series_dir.has_begun())
    } else {
        Vec::new()
    };
    let devices = drives.plan(&to_prepare);
    console::page(&format!(
        "{}\n{devices}nothing was written\n",
        summary(series_dir, request)
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn summary(series_dir: &SeriesDir, request: &BaselineSetup) -> String {
    format!(
        "a baseline of {} {}; state and results: {}{}",
        request.devices.join(", "),
        request.form.text(),
        series_dir.dir.display(),
        series_dir.done_before()
    )
}

/// Heading of a job's progress: its number, and the time under load left in the whole baseline.
fn heading(request: &BaselineSetup, job: &Job, series: &Series) -> String {
    let Some(jobs) = request.form.jobs() else {
        return job.name.clone();
    };
    let number = match job.position {
        (1, place) => format!(" ({} of {jobs})", place + 1),
        _ => String::new(),
    };
    if request.form.simulated {
        return format!("{}{number}", job.name);
    }
    // The jobs of several drives run at the same time.
    let of_first = series.steps.iter().filter(|step| step.devices.contains(&0));
    let done = of_first.filter(|step| step.state == SeriesStepState::Done);
    let done_sec: u64 = done.map(|step| step.duration_sec).sum();
    let left = span(request.form.seconds.saturating_sub(done_sec));
    format!("{}{number}, {left} left in all", job.name)
}

/// Prints the results of the jobs from step `index` on.
fn jobs_ended(series_dir: &SeriesDir, index: usize) {
    for step in &series_dir.series.steps[index..] {
        // On a terminal, the progress line is replaced by the next one, and the table comes at the end.
        if let Some(point) = point_of(step)
            && !console::stderr_is_terminal()
        {
            console::note(&format!("{}: {}", step.name, result_line(&point)));
        }
        if step.outcome == Some(Outcome::Fail) {
            console::warning(&format!(
                "{} failed: {}; this drive gets no further jobs",
                step.name, step.reason
            ));
        }
    }
}

fn result_line(point: &Point) -> String {
    let mut texts = Vec::new();
    for (kind, done) in [("reads", &point.reads), ("writes", &point.writes)] {
        let Some(done) = done else { continue };
        let undone = if done.undone > 0 {
            format!(", {} not done", number(done.undone as f64))
        } else {
            String::new()
        };
        texts.push(format!(
            "{} {kind} per second, p99 {}{undone}",
            achieved(done),
            done.answer_at(99.0)
        ));
    }
    texts.join("; ")
}

/// Achieved operations per second; with the offered rate, if operations did not complete.
fn achieved(done: &DirectionResult) -> String {
    match done.offered_iops {
        Some(offered) if done.undone > 0 => format!("{} of {}", number(done.iops), number(offered)),
        _ => number(done.iops),
    }
}

fn show_conclusion(series_dir: &SeriesDir) -> Result<ExitCode, Failure> {
    let mut page = String::new();
    for (number, device) in series_dir.series.devices.iter().enumerate() {
        let points = points_of(&series_dir.series, number);
        for table in Pts::ALL.iter().filter_map(|test| test.table(&points)) {
            let table = pts_table(&table);
            let _ = write!(page, "\n{}: {}\n{table}", device.name, table.title);
        }
    }
    page.push_str(&table(series_dir));
    // A prediction needs the depth jobs, which SNIA's tests do not have.
    let depth_points: Vec<_> = series_dir
        .series
        .steps
        .iter()
        .filter_map(point_of)
        .filter(|point| point.part == JobPurpose::Depth)
        .collect();
    let outcome = series_dir
        .series
        .conclusion
        .as_ref()
        .map(|conclusion| conclusion.outcome);
    if outcome == Some(Outcome::Measured) && !depth_points.is_empty() {
        let doubt_hint = if in_doubt(&series_dir.series).is_some() {
            " (from the jobs that are not in doubt)"
        } else {
            ""
        };
        let _ = if depth_points.iter().all(|point| point.doubt.is_some()) {
            writeln!(
                page,
                "no rating can be predicted from this baseline: the result of each queue depth is in doubt - measure \
                 again on an idle machine"
            )
        } else {
            writeln!(
                page,
                "to predict a rating{doubt_hint}: flashproof rate predict {}",
                series_dir.dir.display()
            )
        };
    }
    series_dir.show_conclusion("", &page)
}

fn show_interruption(series_dir: &SeriesDir) -> Result<ExitCode, Failure> {
    series_dir.show_interruption(
        ": run the same command to repeat the interrupted job",
        &table(series_dir),
    )
}

fn table(series_dir: &SeriesDir) -> String {
    let table = Table::new("").text(["job", "operations"]).numbers([
        "IOPS",
        "MB/s",
        "mean",
        "p50",
        "p99",
        "p99.99",
        "in flight",
    ]);
    let doubts = in_doubt(&series_dir.series);
    let rows = series_dir
        .series
        .steps
        .iter()
        .enumerate()
        .flat_map(|(number, step)| {
            let doubt = doubts
                .as_ref()
                .and_then(|doubts| doubts.reason(number))
                .map_or("", |_| " (in doubt)");
            point_of(step)
                .map(|point| rows(&format!("{}{doubt}", step.name), &point))
                .unwrap_or_default()
        });
    format!("\n{}\n{}", table.rows(rows), series_dir.format_paths())
}

fn rows(name: &str, point: &Point) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (kind, done) in [("reads", &point.reads), ("writes", &point.writes)] {
        let Some(done) = done else { continue };
        rows.push(vec![
            name.to_owned(),
            kind.to_owned(),
            achieved(done),
            number(done.mbps),
            milliseconds(done.answer.mean_us / 1e3),
            done.answer_at(50.0).to_string(),
            done.answer_at(99.0).to_string(),
            done.answer_at(99.99).to_string(),
            point.mean_in_flight.map_or(String::new(), number),
        ]);
    }
    rows
}
