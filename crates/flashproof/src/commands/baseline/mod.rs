//! `flashproof baseline`: measures drives under fio's jobs, one job after another, across interruptions.
//!
//! ```text
//! options -> Request   form, devices, terms; nothing touched
//!         -> Kept      the directory of the series, started or resumed
//!         -> prep, doctor, and the devices opened for all of it
//!         -> per drive: form + its points -> its next job
//!            the jobs furthest behind, at the same time -> a run -> a point for each drive
//!         -> conclusion, report
//! ```
//! `load::baseline` decides which job is next, `results::baseline` what follows from points. Several drives work at the
//! same time, as in a server: each has its own job, and a step for it.

mod job_run;
mod measuring;
mod messages;
mod request;

use crate::args::BaselineArgs;
use job_run::{next_jobs, run_jobs};
use procedures::cross_check::RealFio;
use procedures::prep::{Preparation, Style, Wanted};
use procedures::series::{Drives, Kept, NOT_PREPARED, default_name};
use request::Request;
use results::baseline::{Part, conclude};
use results::series::Identity;
use session::Manner;
use session::console;
use session::devices::erasable;
use session::failure::Failure;
use session::signals::Switch;
use std::process::ExitCode;

/// Measures devices, resuming from the state on disk.
pub fn run(args: &BaselineArgs) -> Result<ExitCode, Failure> {
    let mut request = Request::of(args)?;
    let no_prep = args.no_prep || args.read_only;
    let drives = Drives::look(&request.spec(), no_prep)?;
    request.look()?;
    let fio = args.cross_check.then(|| real_fio(&request, &drives)).transpose()?;
    let first = args.out.clone().unwrap_or_else(|| default_name("baseline", &drives.identities, &request.name()));
    let now = request.series(drives.identities.clone(), &drives.left_unprepared);
    let mut kept = Kept::open(&first, args.series.options(), now, &[NOT_PREPARED], |options| {
        erasable(&request.spec(), !args.read_only, &options.erase, !options.dry_run)
    })?;
    kept.series.settle();
    if kept.series.conclusion.is_some() {
        console::note(&format!("the baseline in {} ended before; --fresh begins anew", kept.dir.display()));
        return messages::conclusion(&kept);
    }
    if args.series.dry_run {
        return messages::plan(&kept, &request, &drives);
    }
    let switch = Switch::install("the job will be run again; the same command does", Manner::Own)?;
    kept.save()?;
    let is_pts = !request.form.pts.is_empty();
    if !no_prep
        && !is_pts
        && let Some(code) = kept.prepare(&drives, &switch)?
    {
        return Ok(code);
    }
    kept.examine();
    kept.tell_findings();
    messages::beginning(&kept, &request);
    let mut opened = Some(request.open(&kept.erase)?);
    loop {
        // A signal during the recording of the last job did not end that job.
        if switch.was_asked().is_some() {
            return messages::interruption(&kept);
        }
        let jobs = next_jobs(&request.form, &kept.series);
        if jobs.is_empty() {
            break;
        }
        if is_pts && jobs[0].1.place.1 == 0 {
            // The preparation opens the devices itself and needs them exclusively. A simulated drive starts anew.
            drop(opened.take());
        }
        if is_pts && jobs[0].1.place.1 == 0 && !request.form.simulated {
            let devices = jobs.iter().map(|(device, _)| request.devices[*device].clone()).collect();
            if let Some(code) = precondition(jobs[0].1.part, devices, &kept.erase, args.series.quiet, &switch)? {
                return Ok(code);
            }
        }
        if opened.is_none() {
            opened = Some(request.open(&kept.erase)?);
        }
        let Some(opened) = &opened else { break };
        if run_jobs(&jobs, &request, opened, fio.as_ref(), &mut kept, &switch)?.is_break() {
            return messages::interruption(&kept);
        }
    }
    let mut conclusion = conclude(&kept.series);
    conclusion.remarks.splice(0..0, request.remarks());
    kept.series.conclusion = Some(conclusion);
    kept.save()?;
    kept.write_report();
    messages::conclusion(&kept)
}

/// The fio for the cross-check. Errors: none is installed, or it is unsuitable.
fn real_fio(request: &Request, drives: &Drives) -> Result<RealFio, Failure> {
    let first = |(device, drive): (usize, &Identity)| Some((device, request.form.next(&[], drive.size_bytes)?));
    let jobs: Vec<_> = drives.identities.iter().enumerate().filter_map(first).collect();
    let borrowed: Vec<_> = jobs.iter().map(|(device, job)| (*device, job)).collect();
    RealFio::beside(&[request.load(&borrowed)?])
}

/// Discards each of `devices` and writes it twice completely, as SNIA's tests start; the saturation starts on an empty
/// drive. Returns an exit code if the preconditioning did not complete.
fn precondition(
    part: Part,
    devices: Vec<String>,
    erase: &[String],
    quiet: bool,
    switch: &Switch,
) -> Result<Option<ExitCode>, Failure> {
    let usual = Preparation::usual(devices, erase, Style::of(quiet));
    let purged = |fills| Wanted { discard_first: true, zeros: false, fills, restart: true, ..Wanted::USUAL };
    let asked = match part {
        Part::PtsSaturation => {
            console::note("discarding all of each device, as the procedure of SNIA's PTS asks");
            Preparation { wanted: purged(0), samples: 0, ..usual }
        }
        _ => {
            console::note("discarding all of each device and writing it twice, as the procedure of SNIA's PTS asks");
            Preparation { wanted: purged(2), ..usual }
        }
    };
    let code = asked.run(switch)?;
    Ok((code != 0).then(|| ExitCode::from(code)))
}
