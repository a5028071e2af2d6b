//! Options of `flashproof check`.

use crate::commands::check::durability::DurabilityOptions;
use crate::output::FormArgs;
use crate::record::{EraseArgs, NoteArgs};
use clap::Args;
use results::format::seconds;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// A check, several with commas, "all", or your own TOML file; a path alone for a look; nothing for a list
    #[arg(value_name = "CHECK")]
    pub name: Option<String>,
    /// Directory, device or simulated drive to check
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
    /// Show the jobs, the limits and their sources, and check nothing
    #[arg(long, requires = "name", conflicts_with = "path")]
    pub show: bool,
    /// As --show, but for a command line with PATH
    #[arg(long, requires = "name")]
    pub dry_run: bool,
    /// Run each check for this time instead of about a minute, to measure beyond a burst: 40m, 1h
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub lasting: Option<u32>,
    /// Exit code 4 if the limits were held, but tested too briefly
    #[arg(long)]
    pub require_sustained: bool,
    #[command(flatten)]
    pub form: FormArgs,
    /// Directory for the record [default: flashproof-results/check-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub consent: EraseArgs,
    #[command(flatten)]
    pub note: NoteArgs,
    /// Print only the result, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub durability: DurabilityOptions,
}
