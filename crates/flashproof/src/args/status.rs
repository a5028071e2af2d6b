//! The options of `flashproof report status`.

use clap::Args;
use std::path::PathBuf;

/// Options of a status.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Directories of runs or of series (certify, rate), running or finished
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Renew it each second until all have ended
    #[arg(long, short)]
    pub watch: bool,
    /// Print all of it as JSON, a document for each directory; with --watch in one line, each time
    #[arg(long)]
    pub json: bool,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof report status runs/demo                    from any terminal, as often as you like
  flashproof report status runs/demo --watch            until it ends
  flashproof report status flashproof-results/certify-*         several, one after the other
  flashproof report status runs/demo --json | jq .phase
  nohup flashproof storage a.conf --out r & flashproof report status r

It reads files only and disturbs nothing. Exit code: 0 while it runs or when it passed, else that of the
verdict (1 fail, 4 invalid: broken off, killed, hung); of several the worst, and 3 where one cannot be read.
More in docs/status.md.";
