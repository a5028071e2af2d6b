//! `flashproof certify`: the stages of a certification on devices, one after another, whatever comes
//! between.
//!
//! ```text
//! options, CONFIG -> Asked     load, devices, terms; nothing touched
//!                 -> Drives    which drives they are, and whether they are prepared
//!                 -> Place     the directory of the series, its lock, its state: begun or gone on with
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
use crate::commands::{Manner, prep};
use crate::failure::Failure;
use crate::say;
use crate::signals::Switch;
use asked::Asked;
use drives::Drives;
use measure::certify;
use measure::judge::Outcome;
use measure::series::State;
use place::Place;
use stage::Ended;
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
    if let Some(code) = prepare(args, &drives, &place, &switch)? {
        return Ok(code);
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

/// Prepares the drives that are not on record as prepared. Gives an exit code where that did not come to
/// its end.
fn prepare(args: &CertifyArgs, drives: &Drives, place: &Place, switch: &Switch) -> Result<Option<ExitCode>, Failure> {
    let begun = place.series.steps.iter().any(|step| step.attempts > 0 || step.state != State::Planned);
    let names = drives.to_prepare(begun);
    if args.no_prep || names.is_empty() {
        return Ok(None);
    }
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
