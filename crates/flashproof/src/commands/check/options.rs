//! Options of `flashproof check`.

use crate::commands::check::durability::DurabilityOptions;
use crate::output::FormArgs;
use crate::record::{EraseArgs, NoteArgs};
use clap::Args;
use results::format::seconds;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Names of checks with commas, "all", or your own TOML file. Only a path: a look. Nothing: the list
    #[arg(value_name = "CHECK")]
    pub name: Option<String>,
    /// Directory, device or simulated drive to check
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
    /// Words that do not fit, to suggest the command that was meant
    #[arg(hide = true)]
    pub excess: Vec<String>,
    /// Show the jobs, the limits and their sources, and check nothing
    #[arg(long, requires = "name", conflicts_with_all = ["path", "json", "markdown", "html"])]
    pub show: bool,
    /// Same as --show, but PATH may be given
    #[arg(long, requires = "name", conflicts_with_all = ["json", "markdown", "html"])]
    pub dry_run: bool,
    /// Run each check for this time instead of about a minute, to measure beyond a burst: 40m, 1h. For check
    /// durability: the time of the writes, instead of until the power is cut
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
