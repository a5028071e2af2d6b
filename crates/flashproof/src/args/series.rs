//! The options of `flashproof rate`, `rate predict` and `check`.

use super::{FormArgs, OtherRating, seconds};
use crate::commands::check::durability::Options;
use crate::commands::rate::RateOptions;
use crate::commands::rate::predict::PredictedLoad;
use clap::Args;
use std::path::PathBuf;

/// Options of `flashproof rate`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct RateArgs {
    /// Ratings without a search
    #[command(subcommand)]
    pub other: Option<OtherRating>,
    /// Options of a search.
    #[command(flatten)]
    pub search: RateOptions,
}

/// Options of a prediction.
#[derive(Args, Debug)]
pub struct PredictArgs {
    /// Directory of a baseline, made by `flashproof baseline`
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub load: PredictedLoad,
    /// Replace a drive.sim in DIR that flashproof did not write
    #[arg(long)]
    pub force: bool,
    /// Print only results, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of a check.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// A check, several with commas, "all", or your own TOML file; without CHECK the checks are listed
    #[arg(value_name = "CHECK")]
    pub name: Option<String>,
    /// Directory, device or simulated drive to check
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
    /// Show the jobs, the limits and their sources, and check nothing
    #[arg(long, requires = "name", conflicts_with = "path")]
    pub show: bool,
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
    /// Allow the erasure of this device, by its serial number, wwid, by-id link or path; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Print only the result, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub durability: Options,
}
