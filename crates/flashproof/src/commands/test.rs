//! `flashproof storage` and `flashproof index`: one ACT test from its configuration to its verdict.
//!
//! Called `act_storage` or `act_index` it takes the place of that program in a script: its log on standard
//! output, its pacing, its ends, and nothing left behind that nobody asked for.

use crate::args::TestArgs;
use crate::commands::config::{pace_as_act, read_configuration, several};
use load::workload::Workload;
use load::workload::act::dialect::line_of;
use load::workload::act::options::Test;
use load::workload::act::{ActConfig, ActWorkload, parse};
use report::text::Summary;
use session::Manner;
use session::console;
use session::devices::Consents;
use session::failure::Failure;
use session::leave;
use session::recording::Unwatched;
use session::runner::{Ended, Named, Opened, RunRequest, SeriesContext, run as run_request};
use session::signals::Switch;
use std::fmt;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;
use tempfile::TempDir;

pub fn run(test: Test, args: &TestArgs, manner: Manner) -> Result<ExitCode, Failure> {
    let mut workloads = Vec::new();
    for (path, name) in args.configs.iter().zip(names(&args.configs)) {
        let (text, mut config) = read_config(test, path)?;
        if args.as_act || (manner == Manner::Act && line_of(text.as_bytes(), "arrival").is_none()) {
            pace_as_act(path, text.as_bytes(), &mut config)?;
        }
        config.test_duration_sec = args.duration.unwrap_or(config.test_duration_sec);
        let workload = ActWorkload::of(config).map_err(several)?;
        workloads.push(Named { name, workload, text });
    }
    if args.dry_run {
        for Named { name, workload, .. } in &workloads {
            let title = if name.is_empty() { String::new() } else { format!("{name}:\n") };
            console::result(&format!("{title}{}", workload.blocks()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if manner == Manner::Act && workloads.len() > 1 {
        return Err(Failure::usage(format!(
            "cannot run {} configurations - act_{} takes one, as ACT's does - use flashproof {}",
            workloads.len(),
            test.name(),
            test.name()
        )));
    }
    record(test.name(), workloads, args, manner)
}

/// Runs `workloads`, a test called `what`, and records, judges and shows it as `args` say.
pub fn record<W: Workload>(
    what: &str,
    workloads: Vec<Named<W>>,
    args: &TestArgs,
    manner: Manner,
) -> Result<ExitCode, Failure> {
    record_on(what, workloads, args, manner, None, SeriesContext::default())
}

/// The same as `part` of something, on what is open already if that is given.
pub fn record_on<W: Workload>(
    what: &str,
    workloads: Vec<Named<W>>,
    args: &TestArgs,
    manner: Manner,
    opened: Option<&Opened>,
    part: SeriesContext,
) -> Result<ExitCode, Failure> {
    let place = Place::of(what, args.out.as_deref(), manner)?;
    let dir = place.dir().to_owned();
    let request = RunRequest {
        workloads,
        dir: dir.clone(),
        consents: Consents { erase: &args.erase, others: &[], shared: args.shared },
        opened,
        sla: args.sla.clone(),
        slice_sec: args.slice.into(),
        round_sec: None,
        patience: args.patience.into(),
        part,
        // Among the reports of ACT's log a line of progress would be in the way.
        quiet: args.quiet || (manner == Manner::Act && !is_shown_beside_log()),
        act_log: manner == Manner::Act,
        trace: !args.no_trace,
    };
    let switch = Switch::install("the run directory has no verdict and says so", manner)?;
    let verdict = match run_request(request, &switch, &mut Unwatched)? {
        Ended::Recorded(verdict) => verdict,
        Ended::Unrecorded { verdict, failure } => {
            show(&format!("\n{verdict}\n"), manner)?;
            return Err(failure);
        }
    };
    // From the directory, as anybody else will read it; what cannot be read back is no result.
    let summary = Summary::read(&dir).map_err(Failure::environment)?;
    let page = match args.quiet {
        // Up to its first empty line: the verdict and what decided it.
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

/// Names that distinguish several configurations: their file names without extension, with a number if two are equal;
/// empty for a single one. They become parts of file names and stream names.
fn names(configs: &[PathBuf]) -> Vec<String> {
    if let [_] = configs {
        return vec![String::new()];
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let stem = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().chars().map(plain).collect();
    let stems: Vec<String> = configs.iter().map(stem).collect();
    let name = |(place, stem): (usize, &String)| match stems[..place].iter().filter(|earlier| *earlier == stem).count()
    {
        0 => stem.clone(),
        earlier => format!("{stem}~{}", earlier + 1),
    };
    stems.iter().enumerate().map(name).collect()
}

/// True if progress can be drawn beside ACT's log: on a terminal, with the log going elsewhere.
fn is_shown_beside_log() -> bool {
    io::stderr().is_terminal() && !io::stdout().is_terminal()
}

/// Directory of a run.
pub(super) enum Place {
    /// In a run directory that stays.
    Kept(PathBuf),
    /// Other programs leave nothing but what they print: the record is for the verdict, and goes with it.
    Passing(TempDir),
}

impl Place {
    pub(super) fn of(what: &str, out: Option<&Path>, manner: Manner) -> Result<Self, Failure> {
        match (out, manner) {
            (Some(out), _) => Ok(Self::Kept(out.to_owned())),
            (None, Manner::Own) => Ok(Self::Kept(default_dir(what))),
            (None, _) => Self::passing(what),
        }
    }

    /// In $TMPDIR; else where a day's record does not fill the memory, if that can be written.
    fn passing(what: &str) -> Result<Self, Failure> {
        let places = match std::env::var_os("TMPDIR") {
            Some(place) => vec![PathBuf::from(place)],
            None => vec![PathBuf::from("/var/tmp"), std::env::temp_dir()],
        };
        let prefix = format!("flashproof-{what}-");
        let tried: Vec<_> =
            places.iter().map(|place| tempfile::Builder::new().prefix(&prefix).tempdir_in(place)).collect();
        let mut errors = Vec::new();
        for (made, place) in tried.into_iter().zip(&places) {
            match made {
                Ok(dir) => return Ok(Self::Passing(dir)),
                Err(error) => errors.push(format!("{}: {error}", place.display())),
            }
        }
        Err(Failure::environment(format!(
            "cannot make a temporary directory for the record of the run - {} - set TMPDIR, or keep the record with --out DIR",
            errors.join("; ")
        )))
    }

    pub(super) fn dir(&self) -> &Path {
        match self {
            Self::Kept(dir) => dir,
            Self::Passing(dir) => dir.path(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept(dir) => write!(f, "run directory: {}", dir.display()),
            Self::Passing(_) => write!(f, "not kept: histograms, telemetry, verdict (--out DIR keeps them)"),
        }
    }
}

/// Shows the page at the end; beside ACT's log where that is the result.
fn show(page: &str, manner: Manner) -> Result<(), Failure> {
    match manner {
        Manner::Own => console::result(page),
        _ => {
            console::notice(page);
            Ok(())
        }
    }
}

/// Reads a configuration of `test`, with its text; says what deserves a warning.
pub fn read_config(test: Test, path: &Path) -> Result<(String, ActConfig), Failure> {
    let bytes = read_configuration(path)?;
    let parsed = parse(test, &path.display().to_string(), &bytes).map_err(Failure::usage)?;
    for warning in &parsed.warnings {
        console::warning(&warning.to_string());
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), parsed.config))
}

/// Default directory of a run: in the current directory, named by time and process.
pub fn default_dir(what: &str) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    PathBuf::from(format!("flashproof-{what}-{}-{}", now.replace(':', "-"), std::process::id()))
}
