//! `flashproof report`: judges a run again, from its run directory alone.

use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::say;
use measure::run_dir;
use std::process::ExitCode;

/// Reads the run, judges it, says where that differs from what was written, and prints the verdict.
pub fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let run = run_dir::read(&args.dir).map_err(Failure::environment)?;
    for remark in &run.remarks {
        say::warning(remark);
    }
    if run.agrees() == Some(false) {
        say::warning(
            "the verdict in the directory differs from the one its counts give now - one of them was edited, or another version judged it; this is the one from the counts",
        );
    }
    if args.json {
        let json = serde_json::to_string_pretty(&run.verdict).map_err(Failure::environment)?;
        say::result(&format!("{json}\n"));
    } else {
        say::result(&format!("{}\n", run.verdict));
    }
    Ok(ExitCode::from(run.verdict.outcome.exit_code()))
}
