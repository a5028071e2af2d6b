//! `flashproof certify`: runs the stages of a certification on devices, one after another, across interruptions.
//!
//! ```text
//! options, CONFIG -> Request     load, devices, terms; nothing touched
//!                 -> Drives    identities of the drives, and whether they are prepared
//!                 -> Place     the directory of the series, its lock, its state: started or resumed
//!                 -> doctor    what may spoil the result: shown and recorded, never blocking
//!                 -> prep      drives that are not recorded as prepared
//!                 -> stages    one after another; series.json before and after each
//!                 -> conclusion, report.html
//! ```
//! `results::certify` defines the stages, their rules and the claims; `load::workload::act::staged` the load of a
//! stage; the runner runs it. This module joins them, and keeps the state on disk.

mod messages;
mod place;
mod request;
mod stage;

use crate::args::CertifyArgs;
use place::Place;
use procedures::series::Drives;
use request::Request;
use results::certify;
use results::judge::Outcome;
use session::Manner;
use session::console;
use session::failure::Failure;
use session::signals::{self, Switch};
use std::process::ExitCode;

/// Certifies devices, resuming from the state on disk.
pub fn run(args: &CertifyArgs) -> Result<ExitCode, Failure> {
    let request = Request::of(args)?;
    let drives = Drives::look(&request.base.spec(), args.no_prep)?;
    let mut place = Place::open(args, &request, &drives)?;
    stage::settle(&mut place);
    if certify::next(&place.kept.series, args.all_stages).is_none() && place.kept.series.conclusion.is_some() {
        console::note(&format!(
            "the series in {} ended before, and this is what came of it; --fresh begins anew",
            place.kept.dir.display()
        ));
        return messages::conclusion(&place);
    }
    if args.series.dry_run {
        return messages::plan(&place, &drives);
    }
    let switch = Switch::install("the stage will be run again from its beginning; the same command does", Manner::Own)?;
    place.kept.examine();
    place.kept.tell_findings();
    // The preparation can take hours, in which `flashproof report status` may be called.
    place.kept.series.conclusion = None;
    place.kept.save()?;
    if !args.no_prep && !drives.to_prepare(place.kept.has_begun()).is_empty() {
        if let Some(code) = place.kept.prepare(&drives, &switch)? {
            return Ok(code);
        }
        // Findings about unprepared drives are no longer valid.
        place.kept.examine();
        place.kept.save()?;
    }
    messages::beginning(&place);
    while let Some(index) = certify::next(&place.kept.series, args.all_stages) {
        // A signal during the recording of the last run or preparation did not end it.
        if let Some(signal) = switch.was_asked() {
            return messages::interruption_between(&place, index, &signals::name(signal));
        }
        match stage::run(args, &request, &mut place, index, &switch)? {
            // Another run now would have the same result; the same command tries again later.
            Some(Outcome::Invalid) => break,
            Some(_) => {}
            None => return messages::interruption(&place, index),
        }
    }
    place.kept.series.conclusion = Some(certify::conclude(&place.kept.series, &place.claim));
    place.kept.save()?;
    place.kept.write_report();
    messages::conclusion(&place)
}
