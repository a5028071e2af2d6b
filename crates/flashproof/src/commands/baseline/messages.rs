//! Messages: on standard error during the work, on standard output at its end.

use super::request::Request;
use load::baseline::Job;
use procedures::series::{Drives, Kept};
use report::baseline::pts_table;
use report::table::Table;
use results::baseline::{Done, Part, Point, Pts, in_doubt, point_of, points_of};
use results::judge::Outcome;
use results::units::{milliseconds, number, span};
use session::console;
use session::failure::Failure;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Announces the work.
pub fn beginning(kept: &Kept, request: &Request) {
    console::note(&summary(kept, request));
}

/// Prints the plan of a dry run. Returns the exit code.
pub fn plan(kept: &Kept, request: &Request, drives: &Drives) -> Result<ExitCode, Failure> {
    // SNIA's tests prepare the drives themselves.
    let to_prepare = if request.form.pts.is_empty() { drives.to_prepare(kept.has_begun()) } else { Vec::new() };
    let devices = drives.plan(&to_prepare);
    console::page(&format!("{}\n{devices}nothing was written\n", summary(kept, request)))?;
    Ok(ExitCode::SUCCESS)
}

fn summary(kept: &Kept, request: &Request) -> String {
    let what = match request.form.jobs() {
        Some(jobs) => {
            format!("in {jobs} jobs and the rounds of a saturation, {} under load", span(request.form.seconds))
        }
        None => "by tests of SNIA's PTS 2.0.2, each until it is steady".to_owned(),
    };
    format!(
        "a baseline of {} {what}; state and results: {}{}",
        request.devices.join(", "),
        kept.dir.display(),
        kept.done_before()
    )
}

/// Heading of a job's progress.
pub fn heading(request: &Request, job: &Job) -> String {
    match (request.form.jobs(), job.place) {
        (Some(jobs), (1, place)) => format!("{} ({} of {jobs})", job.name, place + 1),
        _ => job.name.clone(),
    }
}

/// Prints the results of the jobs from step `index` on.
pub fn jobs_ended(kept: &Kept, index: usize) {
    for step in &kept.series.steps[index..] {
        if let Some(point) = point_of(step) {
            console::note(&format!("{}: {}", step.name, shown(&point)));
        }
        if step.outcome == Some(Outcome::Fail) {
            console::warning(&format!("{} failed: {}; this drive has no further jobs", step.name, step.reason));
        }
    }
}

/// Result of a job in one line.
fn shown(point: &Point) -> String {
    let side = |done: &Option<Done>, what: &str| {
        let done = done.as_ref()?;
        let undone = if done.undone > 0 { format!(", {} not done", number(done.undone as f64)) } else { String::new() };
        Some(format!("{} {what} a second, p99 {}{undone}", achieved(done), done.answer_at(99.0)))
    };
    let sides = [side(&point.reads, "reads"), side(&point.writes, "writes")];
    sides.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Operations per second done, and also offered if more were offered.
fn achieved(done: &Done) -> String {
    match done.offered_iops {
        Some(offered) if done.undone > 0 => format!("{} of {}", number(done.iops), number(offered)),
        _ => number(done.iops),
    }
}

/// Prints the result of a finished baseline. Returns the exit code.
pub fn conclusion(kept: &Kept) -> Result<ExitCode, Failure> {
    let mut page = String::new();
    for (number, device) in kept.series.devices.iter().enumerate() {
        let points = points_of(&kept.series, number);
        for table in Pts::ALL.iter().filter_map(|test| test.table(&points)) {
            let table = pts_table(&table);
            let _ = write!(page, "\n{}: {}\n{table}", device.name, table.title);
        }
    }
    page.push_str(&table(kept));
    // A prediction does not use SNIA's tests.
    let read: Vec<_> =
        kept.series.steps.iter().filter_map(point_of).filter(|point| point.part == Part::Depth).collect();
    let outcome = kept.series.conclusion.as_ref().map(|conclusion| conclusion.outcome);
    if outcome == Some(Outcome::Pass) && !read.is_empty() {
        let without = if in_doubt(&kept.series).is_some() { " (by the jobs that are not in doubt)" } else { "" };
        let _ = match read.iter().all(|point| point.doubt.is_some()) {
            true => writeln!(page, "no rating can be predicted from it: each queue depth is in doubt"),
            false => {
                writeln!(page, "the rating that it predicts{without}: flashproof rate predict {}", kept.dir.display())
            }
        };
    }
    kept.show_conclusion("", &page)
}

/// Prints the state of an interrupted baseline. Returns the exit code.
pub fn interruption(kept: &Kept) -> Result<ExitCode, Failure> {
    console::page(&format!("\nINTERRUPTED: the same command goes on with the job that was ended\n{}", table(kept)))?;
    Ok(ExitCode::from(Outcome::Invalid.exit_code()))
}

/// Table of the jobs, and their directories.
fn table(kept: &Kept) -> String {
    let table =
        Table::new("").text(["job", "does"]).numbers(["IOPS", "MB/s", "mean", "p50", "p99", "p99.99", "in flight"]);
    let doubts = in_doubt(&kept.series);
    let rows = kept.series.steps.iter().enumerate().flat_map(|(number, step)| {
        let doubt = doubts.as_ref().and_then(|doubts| doubts.of(number)).map_or("", |_| " (in doubt)");
        point_of(step).map(|point| rows(&format!("{}{doubt}", step.name), &point)).unwrap_or_default()
    });
    format!("\n{}\n{}", table.rows(rows), kept.places())
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
