//! `flashproof rate`: the highest multiple of a load that devices hold.
//!
//! ```text
//! options, CONFIG -> Request   load, bounds, terms; nothing touched
//!                 -> Kept    the directory of the series, started or resumed
//!                 -> SearchRun  the search, replayed from the steps done
//!                     next move -> a watched run -> what it showed -> next move ...
//!                 -> conclusion
//! ```
//! `results::rating` decides the next load and the result of a step. This module joins it with the runner, and saves
//! the state before and after each step.

mod messages;
mod request;
mod search;

use crate::args::RateArgs;
use procedures::series::{Drives, Kept, NOT_PREPARED, default_name, may_erase};
use request::Request;
use results::judge::Outcome;
use results::rating::{Finding, conclude};
use search::SearchRun;
use session::Manner;
use session::console;
use session::failure::Failure;
use session::signals::Switch;
use std::process::ExitCode;

/// Rates devices, resuming from the state on disk.
pub fn run(args: &RateArgs) -> Result<ExitCode, Failure> {
    let request = Request::of(args)?;
    let drives = Drives::look(&request.base.spec(), args.no_prep)?;
    let first = args.out.clone().unwrap_or_else(|| default_name("rate", &drives.identities, &request.config_name));
    let now = request.series(drives.identities.clone(), &drives.left_unprepared);
    let mut kept = Kept::open(&first, args.series.options(), now, &[NOT_PREPARED], |options| {
        may_erase(&request.base, args.no_prep, options)
    })?;
    kept.series.settle();
    if kept.series.conclusion.as_ref().is_some_and(|conclusion| conclusion.outcome != Outcome::Invalid) {
        console::note(&format!("the search in {} ended before; --fresh begins anew", kept.dir.display()));
        return messages::conclusion(&kept);
    }
    if args.series.dry_run {
        return messages::plan(&kept, &request, &drives);
    }
    let switch = Switch::install("the step will be run again; the same command does", Manner::Own)?;
    kept.series.conclusion = None;
    kept.save()?;
    if !args.no_prep
        && let Some(code) = kept.prepare(&drives, &switch)?
    {
        return Ok(code);
    }
    kept.examine();
    kept.tell_findings();
    messages::beginning(&kept, &request);
    let Some(finding) = climb(args, &request, &mut kept, &switch)? else { return messages::interruption(&kept) };
    let standing = request.standing(kept.term(NOT_PREPARED), &drives.virtual_kinds);
    let mut conclusion = conclude(&kept.series, &finding, &args.sla, &standing);
    conclusion.remarks.extend(finding.held.and_then(|held| request.shortened(held)));
    kept.series.conclusion = Some(conclusion);
    kept.save()?;
    kept.write_report();
    messages::conclusion(&kept)
}

/// Runs loads until the rating is found; `None`: interrupted.
fn climb(args: &RateArgs, request: &Request, kept: &mut Kept, switch: &Switch) -> Result<Option<Finding>, Failure> {
    let mut search = SearchRun::replayed(request, &kept.series);
    loop {
        // A signal during the recording of the last step or preparation did not end it.
        if switch.was_asked().is_some() {
            return Ok(None);
        }
        let moved = match search.next(request) {
            Ok(moved) => moved,
            Err(finding) => return Ok(Some(finding)),
        };
        if search.run(moved, args, request, kept, switch)?.is_break() {
            return Ok(None);
        }
    }
}
