//! `flashproof certify`: the stages of a certification on devices, one after another, whatever comes
//! between.
//!
//! ```text
//! options, CONFIG -> Asked     load, devices, terms; nothing touched
//!                 -> Drives    which drives they are, and whether they are prepared
//!                 -> Place     the directory of the series, its lock, its state: begun or gone on with
//!                 -> doctor    what will spoil the result: shown and recorded, never in the way
//!                 -> prep      where a drive is not on record as prepared
//!                 -> stages    one after another; series.json before and after each
//!                 -> conclusion
//! ```
//! What the stages are, what passes one and what may be said of it is in `measure::certify`; the load of
//! a stage is `load::act::staged`'s; a run is the runner's. This joins them, and keeps the state on disk.

mod asked;
mod drives;
mod place;
mod stage;
mod tell;

use crate::args::{CertifyArgs, PrepArgs};
use crate::commands::{Manner, doctor, prep};
use crate::failure::Failure;
use crate::say;
use crate::signals::Switch;
use asked::Asked;
use drives::Drives;
use measure::certify;
use measure::finding::{Finding, Level};
use measure::judge::Outcome;
use place::Place;
use stage::Ended;
use std::path::Path;
use std::process::ExitCode;

/// Certifies devices, from where the state on disk says that it is.
pub fn run(args: &CertifyArgs) -> Result<ExitCode, Failure> {
    let asked = Asked::of(args)?;
    let drives = Drives::look(&asked, args.no_prep)?;
    let mut place = Place::open(args, &asked, &drives)?;
    stage::settle(&mut place);
    if certify::next(&place.series, args.all_stages).is_none() && place.series.conclusion.is_some() {
        say::note(&format!(
            "the series in {} ended before, and this is what came of it; --fresh begins anew",
            place.dir.display()
        ));
        return tell::conclusion(&place);
    }
    let switch = Switch::install("the stage will be run again from its beginning; the same command does")?;
    place.series.findings = examined(&place);
    let told = doctor::listed(&place.series.findings, Level::Warning);
    if !told.is_empty() {
        say::note(&format!("{}\n(all of it: flashproof doctor; nothing of it is in the way)\n", told.trim_end()));
    }
    let names = to_prepare(args, &drives, &place);
    if !names.is_empty() {
        if let Some(code) = prepare(args, names, &switch)? {
            return Ok(code);
        }
        // What was found of drives that were not prepared is no longer so.
        place.series.findings = examined(&place);
    }
    place.series.conclusion = None;
    place.save()?;
    tell::beginning(&place);
    while let Some(index) = certify::next(&place.series, args.all_stages) {
        match stage::run(args, &asked, &mut place, index, &switch)? {
            // Nothing would be other in another run now; the same command tries again.
            Ended::Judged(Outcome::Invalid) => break,
            Ended::Judged(_) => {}
            Ended::Interrupted => return tell::interruption(&place, index),
        }
    }
    place.series.conclusion = Some(certify::conclude(&place.series, &place.claim));
    place.save()?;
    tell::conclusion(&place)
}

/// What was found about host and devices. Simulated drives have neither.
fn examined(place: &Place) -> Vec<Finding> {
    if place.claim.simulated {
        return Vec::new();
    }
    let names: Vec<&str> = place.series.devices.iter().map(|device| device.name.as_str()).collect();
    device::doctor::examine(Path::new("/"), &names, Some(&place.dir))
}

/// The devices to prepare now.
fn to_prepare(args: &CertifyArgs, drives: &Drives, place: &Place) -> Vec<String> {
    let begun = place.series.steps.iter().any(|step| step.attempts > 0);
    if args.no_prep { Vec::new() } else { drives.to_prepare(begun) }
}

/// Prepares the devices of these names. Gives an exit code where that did not come to its end.
fn prepare(args: &CertifyArgs, names: Vec<String>, switch: &Switch) -> Result<Option<ExitCode>, Failure> {
    say::note(&format!(
        "not on record as prepared: {}; preparing first, because an empty drive is faster than it will be in use",
        names.join(", ")
    ));
    let erase: Vec<_> = args.erase.iter().filter(|name| names.contains(name)).cloned().collect();
    match prep::prepare(&PrepArgs::usual(names, &erase, args.quiet), Manner::Own, switch)? {
        0 => Ok(None),
        code => Ok(Some(ExitCode::from(code))),
    }
}
