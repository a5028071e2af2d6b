//! The options of `flashproof check`.

use super::reports::FormArgs;
use super::values::seconds;
use clap::Args;
use std::path::PathBuf;

/// Options of a check.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// A check, "all", or a TOML file of your own; without it the checks are listed
    #[arg(value_name = "CHECK")]
    pub name: Option<String>,
    /// Directory, device or simulated drive to check
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
    /// Show the jobs, the limits and their sources, and check nothing
    #[arg(long, requires = "name", conflicts_with = "path")]
    pub show: bool,
    /// Go on for this time instead of about a minute, to see what comes after a burst: 40m, 1h
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub lasting: Option<u32>,
    #[command(flatten)]
    pub form: FormArgs,
    /// Directory for the record [default: flashproof-results/check-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Allow the erasure of this device, by its serial number, wwid, by-id link or path; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Print only the result, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// A file, because the code names no database.
pub(super) const CHECK_EXAMPLES: &str = include_str!("check-examples.txt");
