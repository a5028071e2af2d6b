//! A single run: recorded, judged and shown.

use crate::Manner;
use crate::console;
use crate::failure::Failure;
use crate::leave;
use crate::place::Place;
use crate::recording::Unwatched;
use crate::runner::{Ended, RunRequest, run};
use crate::signals::Switch;
use load::workload::Workload;
use report::text::Summary;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

/// Performs the run of `request`, a test called `what`, and shows its verdict. The run directory is `out`, or the
/// default of `manner`.
pub fn record<W: Workload>(
    what: &str,
    out: Option<&Path>,
    request: RunRequest<'_, W>,
    manner: Manner,
) -> Result<ExitCode, Failure> {
    let place = Place::of(what, out, manner)?;
    let (dir, quiet) = (place.dir().to_owned(), request.quiet);
    let request = RunRequest {
        dir: dir.clone(),
        // Progress lines would disturb the reports in ACT's log.
        quiet: quiet || (manner == Manner::Act && !is_shown_beside_log()),
        act_log: manner == Manner::Act,
        ..request
    };
    let switch = Switch::install("the run directory has no verdict and says so", manner)?;
    let verdict = match run(request, &switch, &mut Unwatched)? {
        Ended::Recorded(verdict) => verdict,
        Ended::Unrecorded { verdict, failure } => {
            show(&format!("\n{verdict}\n"), manner)?;
            return Err(failure);
        }
    };
    // Reads the result back from the directory, as any reader will; an unreadable record is no result.
    let summary = Summary::read(&dir).map_err(Failure::environment)?;
    let page = match quiet {
        // The part up to the first empty line: the verdict and what decided it.
        true => summary.verdict.to_string().split_inclusive("\n\n").next().unwrap_or_default().trim_end().to_owned(),
        false => format!("\n{summary}"),
    };
    show(&format!("{page}\n{place}\n"), manner)?;
    drop(place);
    match (manner, switch.was_asked()) {
        (Manner::Own, _) => Ok(ExitCode::from(verdict.outcome.exit_code())),
        (_, None) => Ok(ExitCode::SUCCESS),
        (_, Some(signal)) => leave::by_signal(signal),
    }
}

/// True if progress can be drawn next to ACT's log: on a terminal, with the log going elsewhere.
fn is_shown_beside_log() -> bool {
    io::stderr().is_terminal() && !io::stdout().is_terminal()
}

/// Shows the final page: on standard output, or on standard error if ACT's log or fio's output is the result.
fn show(page: &str, manner: Manner) -> Result<(), Failure> {
    match manner {
        Manner::Own => console::page(page),
        _ => {
            console::notice(page);
            Ok(())
        }
    }
}
