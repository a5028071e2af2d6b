//! `flashproof rate`: the highest multiple of a load that devices hold.
//!
//! ```text
//! options, CONFIG -> Asked   load, bounds, terms; nothing touched
//!                 -> Kept    the directory of the series, begun or gone on with
//!                 -> Course  the search, replayed from the steps that are done
//!                     next move -> a watched run -> what it showed -> next move ...
//!                 -> conclusion
//! ```
//! Which load comes next, and what a step showed, is decided in `measure::rating`. This joins it with the
//! runner, and keeps the state on disk, before and after each step.

mod asked;
mod course;
mod tell;

use crate::args::RateArgs;
use crate::failure::Failure;
use crate::say;
use crate::series::{Drives, Kept, NOT_PREPARED, default_name, prepare};
use crate::signals::Switch;
use asked::Asked;
use course::{Course, Ended};
use measure::judge::Outcome;
use measure::rating::conclude;
use std::process::ExitCode;

/// Rates devices, from where the state on disk says that it is.
pub fn run(args: &RateArgs) -> Result<ExitCode, Failure> {
    let asked = Asked::of(args)?;
    let drives = Drives::look(&asked.base, args.no_prep)?;
    let first = args.out.clone().unwrap_or_else(|| default_name("rate", &drives.identities, &asked.config_name));
    let now = asked.series(drives.identities.clone(), &drives.left_unprepared);
    let mut kept = Kept::open(&first, args.series.fresh, now, &[NOT_PREPARED])?;
    kept.series.settle();
    if kept.series.conclusion.as_ref().is_some_and(|conclusion| conclusion.outcome != Outcome::Invalid) {
        say::note(&format!("the search in {} ended before; --fresh begins anew", kept.dir.display()));
        return tell::conclusion(&kept);
    }
    let switch = Switch::install("the step will be run again; the same command does")?;
    kept.series.conclusion = None;
    kept.save()?;
    if !args.no_prep
        && let Some(code) = prepare(&drives, kept.has_begun(), &args.series.erase, args.series.quiet, &switch)?
    {
        return Ok(code);
    }
    kept.examine();
    kept.tell_findings();
    tell::beginning(&kept, &asked);
    let mut course = Course::replayed(&asked, &kept.series);
    let finding = loop {
        // One that came while the last step or the preparation was being recorded did not end that.
        if switch.was_asked().is_some() {
            return tell::interruption(&kept);
        }
        let moved = match course.next(&asked) {
            Ok(moved) => moved,
            Err(finding) => break finding,
        };
        match course.run(moved, args, &asked, &mut kept, &switch)? {
            Ended::Judged => {}
            Ended::Interrupted => return tell::interruption(&kept),
        }
    };
    let standing = asked.standing(kept.term(NOT_PREPARED), &drives.virtual_kinds);
    kept.series.conclusion = Some(conclude(&kept.series, &finding, &args.sla, &standing));
    kept.save()?;
    kept.write_report();
    tell::conclusion(&kept)
}
