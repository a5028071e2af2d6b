//! Performs a single run: records it in its directory, judges it and shows the verdict.

use crate::output::{FormArgs, show_report};
use ::report::text::RunSummary;
use clap::Args;
use results::format::{is_unprintable, seconds};
use results::judge::Sla;
use session::failure::Failure;
use session::recording::NoObserver;
use session::run_directory::RunDirectory;
use session::runner::{FailureLimits, NamedWorkload, RunOutcome, RunRequest, run};
use session::signals::{SignalHandler, end_by_signal};
use session::{CompatMode, console};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Limits beyond which a run ends as failed.
#[derive(Args, Debug, Clone, Copy)]
pub struct FailureLimitArgs {
    /// Stop after more failed operations than this; any failed operation fails the run
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = FailureLimits::default().max_errors, allow_hyphen_values = true, value_parser = count)]
    max_errors: u64,
    /// I/O timeout after the end of the run: give up a device if none of its operations in flight completes for this
    /// time, such as 60 or 5m
    #[arg(long = "hang", hide_short_help = true, value_name = "TIME", default_value_t = FailureLimits::default().hang_sec, allow_hyphen_values = true, value_parser = seconds)]
    hang_sec: u32,
    /// End the run as soon as it can only fail, whatever the rest of the run brings
    #[arg(long, hide_short_help = true)]
    stop_when_decided: bool,
}

impl FailureLimitArgs {
    pub fn limits(self) -> FailureLimits {
        FailureLimits {
            max_errors: self.max_errors,
            hang_sec: self.hang_sec,
            stop_when_decided: self.stop_when_decided,
        }
    }
}

/// Consent to the erasure of devices.
#[derive(Args, Debug, Clone, Default)]
pub struct EraseArgs {
    /// Allow the erasure of this device, by its serial number, wwid, by-id link or path; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
}

/// Maximum length of a note, characters.
const NOTE_CHARS_MAX: usize = 200;

/// The user's own words about a result.
#[derive(Args, Debug, Clone, Default)]
pub struct NoteArgs {
    /// Your own words, kept with the result and shown in lists, reports and comparisons: "rack 7, after fw 2.1"
    #[arg(long = "note", hide_short_help = true, value_name = "TEXT", value_parser = note)]
    pub text: Option<String>,
}

/// Parses a note: a line without control characters.
pub fn note(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_plain = |c: char| !c.is_control() && !is_unprintable(c);
    if (1..=NOTE_CHARS_MAX).contains(&text.chars().count()) && text.chars().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "give one line of 1 to {NOTE_CHARS_MAX} characters, without control characters"
        ))
    }
}

/// Parses a number from 0 on.
pub fn count(text: &str) -> Result<u64, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("give a whole number from 0 to {}", u64::MAX))
}

/// Performs the run of `request`, a test called `test_name`, and shows the verdict. The run directory is `out_dir`, or
/// the default of `compat_mode`. `form`: output format of the result.
pub fn record(
    test_name: &str,
    out_dir: Option<&Path>,
    form: &FormArgs,
    request: RunRequest<'_>,
    compat_mode: CompatMode,
) -> Result<ExitCode, Failure> {
    form.check()?;
    if compat_mode != CompatMode::Native && form.is_given() {
        return Err(Failure::usage(format!(
            "cannot show a report - ACT's log is the output of this program - use flashproof {test_name}"
        )));
    }
    let run_directory = RunDirectory::choose(test_name, out_dir, compat_mode)?;
    let dir = run_directory.dir().to_owned();
    let is_quiet = request.quiet;
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
    let page = if is_quiet {
        // The part up to the first empty line: the verdict and what decided it.
        summary
            .verdict
            .to_string()
            .split_inclusive("\n\n")
            .next()
            .unwrap_or_default()
            .trim_end()
            .to_owned()
    } else {
        format!("\n{summary}")
    };
    let page = format!("{page}\n{run_directory}\n");
    if form.is_given() {
        show_report(form, &dir, &page)?;
    } else {
        show(&page, compat_mode)?;
    }
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

/// Recording and judging of a run.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// Run directory [default: flashproof-results/COMMAND-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Limits of the verdict: shares of operations that may be slower than a threshold
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default(), allow_hyphen_values = true, value_parser = Sla::requested)]
    pub sla: Sla,
    /// Length of a slice of the verdict: 1h, 30m, or a number of seconds; the worst slice decides
    #[arg(long, value_name = "TIME", default_value_t = 3600, allow_hyphen_values = true, value_parser = seconds)]
    pub slice: u32,
    #[command(flatten)]
    pub failure_limits: FailureLimitArgs,
    #[command(flatten)]
    pub note: NoteArgs,
    /// Print only the verdict, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

impl RecordArgs {
    pub fn request(&self, workloads: Vec<NamedWorkload>) -> RunRequest<'_> {
        RunRequest {
            sla: self.sla.clone(),
            slice_sec: self.slice.into(),
            failure_limits: self.failure_limits.limits(),
            quiet: self.quiet,
            note: self.note.text.clone(),
            ..RunRequest::new(workloads)
        }
    }
}
