//! `flashproof report`: judges a run again, from its run directory alone.

use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::say;
use report::summary::Summary;
use std::process::ExitCode;

/// Reads the run, judges it, says what to know about it, and prints the verdict and the latencies.
pub fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let summary = Summary::read(&args.dir).map_err(Failure::environment)?;
    for remark in &summary.remarks {
        say::warning(remark);
    }
    if args.json {
        let json = serde_json::to_string_pretty(&summary).map_err(Failure::environment)?;
        say::result(&format!("{json}\n"))?;
    } else {
        say::result(&summary.to_string())?;
    }
    Ok(ExitCode::from(summary.verdict.outcome.exit_code()))
}
