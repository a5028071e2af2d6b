//! Performs a single run: records it in its directory, judges it and shows the verdict.

use crate::failure::Failure;
use crate::recording::NoObserver;
use crate::runner::{RunOutcome, RunRequest, run};
use crate::signals::{SignalHandler, end_by_signal};
use crate::{CompatMode, console};
use device::guard::unix_s;
use load::workload::Workload;
use report::text::RunSummary;
use results::units::rfc3339;
use std::fmt;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::TempDir;

/// Performs the run of `request`, a test called `what`, and shows its verdict. The run directory is `out`, or the
/// default of `manner`.
pub fn record<W: Workload>(
    what: &str,
    out: Option<&Path>,
    request: RunRequest<'_, W>,
    manner: CompatMode,
) -> Result<ExitCode, Failure> {
    let place = RunDirectory::of(what, out, manner)?;
    let (dir, quiet) = (place.dir().to_owned(), request.quiet);
    // True if standard error is a terminal and the log goes elsewhere.
    let is_beside_log = io::stderr().is_terminal() && !io::stdout().is_terminal();
    let request = RunRequest {
        dir: dir.clone(),
        // Progress lines would disturb the reports in ACT's log.
        quiet: quiet || (manner == CompatMode::Act && !is_beside_log),
        act_log: manner == CompatMode::Act,
        ..request
    };
    let switch = SignalHandler::install("the run directory has no verdict and says so", manner)?;
    let verdict = match run(request, &switch, &mut NoObserver)? {
        RunOutcome::Recorded(verdict) => verdict,
        RunOutcome::Unrecorded { verdict, failure } => {
            show(&format!("\n{verdict}\n"), manner)?;
            return Err(failure);
        }
    };
    // Reads the result back from the directory, as any reader will; an unreadable record is no result.
    let summary = RunSummary::read(&dir).map_err(Failure::environment)?;
    let page = match quiet {
        // The part up to the first empty line: the verdict and what decided it.
        true => summary.verdict.to_string().split_inclusive("\n\n").next().unwrap_or_default().trim_end().to_owned(),
        false => format!("\n{summary}"),
    };
    show(&format!("{page}\n{place}\n"), manner)?;
    drop(place);
    match (manner, switch.signal_received()) {
        (CompatMode::Native, _) => Ok(ExitCode::from(verdict.outcome.exit_code())),
        (_, None) => Ok(ExitCode::SUCCESS),
        (_, Some(signal)) => end_by_signal(signal),
    }
}

/// Shows the final page: on standard output, or on standard error if ACT's log or fio's output is the result.
fn show(page: &str, manner: CompatMode) -> Result<(), Failure> {
    match manner {
        CompatMode::Native => console::page(page),
        _ => {
            console::notice(page);
            Ok(())
        }
    }
}

/// Default parent directory for recorded results, in the current directory.
pub const RESULTS_DIR: &str = "flashproof-results";

/// Directory of a run.
pub enum RunDirectory {
    /// Permanent run directory.
    Permanent(PathBuf),
    /// Temporary directory for ACT's and fio's dialects, which leave only their output; deleted after the verdict.
    Temporary(TempDir),
}

impl RunDirectory {
    pub fn of(what: &str, out: Option<&Path>, manner: CompatMode) -> Result<Self, Failure> {
        match (out, manner) {
            (Some(out), _) => Ok(Self::Permanent(out.to_owned())),
            (None, CompatMode::Native) => Ok(Self::Permanent(default_dir(what))),
            (None, _) => Self::temporary(what),
        }
    }

    /// Creates the directory in $TMPDIR, if set. Otherwise in /var/tmp, if writable: /tmp may be in memory, which the
    /// record of a day could fill.
    fn temporary(what: &str) -> Result<Self, Failure> {
        let places = match std::env::var_os("TMPDIR") {
            Some(place) => vec![PathBuf::from(place)],
            None => vec![PathBuf::from("/var/tmp"), std::env::temp_dir()],
        };
        let prefix = format!("flashproof-{what}-");
        let mut errors = Vec::new();
        for place in &places {
            match tempfile::Builder::new().prefix(&prefix).tempdir_in(place) {
                Ok(dir) => return Ok(Self::Temporary(dir)),
                Err(error) => errors.push(format!("{}: {error}", place.display())),
            }
        }
        Err(Failure::environment(format!(
            "cannot make a temporary directory for the record of the run - {} - set TMPDIR, or keep the record with --out DIR",
            errors.join("; ")
        )))
    }

    pub fn dir(&self) -> &Path {
        match self {
            Self::Permanent(dir) => dir,
            Self::Temporary(dir) => dir.path(),
        }
    }
}

impl fmt::Display for RunDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permanent(dir) => write!(f, "run directory: {}", dir.display()),
            Self::Temporary(_) => write!(f, "not kept: histograms, telemetry, verdict (--out DIR keeps them)"),
        }
    }
}

/// Default directory of a run, named by time and process.
pub fn default_dir(what: &str) -> PathBuf {
    let now = rfc3339(unix_s());
    Path::new(RESULTS_DIR).join(format!("{what}-{}-{}", now.replace(':', "-"), std::process::id()))
}
