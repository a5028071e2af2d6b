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

/// Performs the run of `request`, a test called `test_name`, and shows the verdict. The run directory is `out_dir`, or
/// the default of `compat_mode`.
pub fn record<W: Workload>(
    test_name: &str,
    out_dir: Option<&Path>,
    request: RunRequest<'_, W>,
    compat_mode: CompatMode,
) -> Result<ExitCode, Failure> {
    let run_directory = RunDirectory::of(test_name, out_dir, compat_mode)?;
    let (dir, is_quiet) = (run_directory.dir().to_owned(), request.quiet);
    // True if standard error is a terminal and the log goes elsewhere.
    let is_beside_log = io::stderr().is_terminal() && !io::stdout().is_terminal();
    let request = RunRequest {
        dir: dir.clone(),
        // Progress lines would disturb the reports in ACT's log.
        quiet: is_quiet || (compat_mode == CompatMode::Act && !is_beside_log),
        act_log: compat_mode == CompatMode::Act,
        ..request
    };
    let signal_handler = SignalHandler::install("the run directory has no verdict", compat_mode)?;
    let verdict = match run(request, &signal_handler, &mut NoObserver)? {
        RunOutcome::Recorded(verdict) => verdict,
        RunOutcome::Unrecorded { verdict, failure } => {
            show(&format!("\n{verdict}\n"), compat_mode)?;
            return Err(failure);
        }
    };
    // Reads the result back from the directory, as any reader will; an unreadable record is no result.
    let summary = RunSummary::read(&dir).map_err(Failure::environment)?;
    let page = match is_quiet {
        // The part up to the first empty line: the verdict and what decided it.
        true => summary.verdict.to_string().split_inclusive("\n\n").next().unwrap_or_default().trim_end().to_owned(),
        false => format!("\n{summary}"),
    };
    show(&format!("{page}\n{run_directory}\n"), compat_mode)?;
    drop(run_directory);
    match (compat_mode, signal_handler.signal_received()) {
        (CompatMode::Native, _) => Ok(ExitCode::from(verdict.outcome.exit_code())),
        (_, None) => Ok(ExitCode::SUCCESS),
        (_, Some(signal)) => end_by_signal(signal),
    }
}

/// Shows the final page: on standard output, or on standard error if ACT's log or fio's output is the result.
fn show(page: &str, compat_mode: CompatMode) -> Result<(), Failure> {
    match compat_mode {
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
    /// Temporary directory, deleted after the verdict. With ACT's and fio's dialects, only the output is kept.
    Temporary(TempDir),
}

impl RunDirectory {
    pub fn of(test_name: &str, out_dir: Option<&Path>, compat_mode: CompatMode) -> Result<Self, Failure> {
        match (out_dir, compat_mode) {
            (Some(dir), _) => Ok(Self::Permanent(dir.to_owned())),
            (None, CompatMode::Native) => Ok(Self::Permanent(default_dir(test_name))),
            (None, _) => Self::temporary(test_name),
        }
    }

    /// Creates the directory in $TMPDIR, if set; otherwise in /var/tmp, if writable. The last choice is /tmp: it may be
    /// in memory, which the record of a one-day run could fill.
    fn temporary(test_name: &str) -> Result<Self, Failure> {
        let parent_dirs = match std::env::var_os("TMPDIR") {
            Some(place) => vec![PathBuf::from(place)],
            None => vec![PathBuf::from("/var/tmp"), std::env::temp_dir()],
        };
        let prefix = format!("flashproof-{test_name}-");
        let mut errors = Vec::new();
        for parent_dir in &parent_dirs {
            match tempfile::Builder::new().prefix(&prefix).tempdir_in(parent_dir) {
                Ok(dir) => return Ok(Self::Temporary(dir)),
                Err(error) => errors.push(format!("{}: {error}", parent_dir.display())),
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
pub fn default_dir(test_name: &str) -> PathBuf {
    let now = rfc3339(unix_s());
    Path::new(RESULTS_DIR).join(format!("{test_name}-{}-{}", now.replace(':', "-"), std::process::id()))
}
