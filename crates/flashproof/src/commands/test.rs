//! `flashproof storage` and `flashproof index`: one ACT test from its configuration to its verdict.

use crate::args::TestArgs;
use crate::commands::Manner;
use crate::console;
use crate::devices::Consents;
use crate::failure::Failure;
use crate::runner::{Ended, Part, RunRequest, Unwatched, run as run_order};
use crate::signals::Switch;
use load::act::options::Test;
use load::act::parse::FILE_BYTES_MAX;
use load::act::{Arrival, Model};
use report::summary::Summary;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

/// Runs the test.
pub fn run(test: Test, args: &TestArgs, manner: Manner) -> Result<ExitCode, Failure> {
    let (text, mut model) = read_config(test, &args.config)?;
    if args.as_act {
        model.set_arrival(Arrival::Act);
    }
    if args.dry_run {
        console::result(&model.blocks())?;
        return Ok(ExitCode::SUCCESS);
    }
    let dir = args.out.clone().unwrap_or_else(|| default_dir(test));
    let order = RunRequest {
        model,
        text,
        dir: dir.clone(),
        consents: Consents { erase: &args.erase, others: &[], shared: args.shared },
        sla: args.sla.clone(),
        slice_sec: args.slice,
        round_sec: None,
        max_errors: args.max_errors,
        part: Part::default(),
        quiet: args.quiet,
        act_log: manner == Manner::Act,
        trace: !args.no_trace,
    };
    let switch = Switch::install("the run directory has no verdict and says so")?;
    let verdict = match run_order(order, &switch, &mut Unwatched)? {
        Ended::Recorded(verdict) => verdict,
        Ended::Unrecorded { verdict, failure } => {
            show(&format!("\n{verdict}\n"), manner)?;
            return Err(failure);
        }
    };
    // From the directory, as anybody else will read it; what cannot be read back is no result.
    let summary = Summary::read(&dir).map_err(Failure::environment)?;
    let text = format!("\n{summary}\nrun directory: {}\n", dir.display());
    show(&text, manner)?;
    Ok(match manner {
        Manner::Own => ExitCode::from(verdict.outcome.exit_code()),
        Manner::Act => ExitCode::SUCCESS,
    })
}

/// Shows the page at the end; beside ACT's log where that is the result.
fn show(page: &str, manner: Manner) -> Result<(), Failure> {
    match manner {
        Manner::Own => console::result(page),
        Manner::Act => {
            console::note(page);
            Ok(())
        }
    }
}

/// Reads a configuration of `test`, with its text; says what deserves a warning.
pub fn read_config(test: Test, path: &Path) -> Result<(String, Model), Failure> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    // Named by mistake, a whole drive would be read otherwise; the parser refuses what is too long.
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::usage(format!("cannot read the configuration {name} - {error} - check the path")))?;
    let (model, warnings) = Model::parse(test, &name, &bytes).map_err(Failure::usage)?;
    for warning in &warnings {
        console::warning(&warning.to_string());
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), model))
}

/// Where a run is recorded when the user does not say: here, under the time and the process.
fn default_dir(test: Test) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    PathBuf::from(format!("flashproof-{}-{}-{}", test.name(), now.replace(':', "-"), std::process::id()))
}
