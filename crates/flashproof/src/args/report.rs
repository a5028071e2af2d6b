//! The options of `flashproof report`.

use clap::Args;
use std::path::PathBuf;

/// Options of a report.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Directories of runs, or of series of runs
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Write one page of HTML with charts, which needs no network and no other file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print all of it as JSON (docs/report.schema.json says what is in it)
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print it as Markdown, for a ticket or a wiki
    #[arg(long)]
    pub markdown: bool,
}

/// Shown below the help.
pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof report runs/demo                             verdict, shares and latencies, here
  flashproof report runs/demo --html demo.html            a page to keep, to print, to send
  flashproof report runs/a runs/b --markdown > ticket.md
  flashproof report runs/demo --json | jq .reports[0].verdict.outcome

Nothing but the directories is read, so this works on any machine, years later. The exit code is that of
the worst verdict: 0 pass, 1 fail, 4 invalid.";
