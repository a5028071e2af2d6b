//! The options of `flashproof status`.

use clap::Args;
use std::path::PathBuf;

/// Options of a status.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// The directory of a run or of a series (certify, rate), running or finished
    pub dir: PathBuf,
    /// Renew it each second until it ends
    #[arg(long, short)]
    pub watch: bool,
    /// Print all of it as JSON; with --watch one line each time
    #[arg(long)]
    pub json: bool,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof status runs/demo                    from any terminal, as often as you like
  flashproof status runs/demo --watch            until it ends
  flashproof status runs/demo --json | jq .phase
  nohup flashproof storage a.conf --out runs/a & flashproof status runs/a

It reads files only and disturbs nothing. Exit code: 0 while it runs or when it passed, else that of the
verdict (1 fail, 4 invalid: broken off, killed, hung). More in docs/status.md.";
