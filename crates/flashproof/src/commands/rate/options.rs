//! Options of `flashproof rate`.

use crate::commands::rate::RateOptions;
use crate::commands::rate::predict::options::PredictArgs;
use clap::{Args, Subcommand};

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

/// Ratings that need no run.
#[derive(Subcommand, Debug)]
pub enum OtherRating {
    /// Predict the rating of a drive and its interval from a baseline, in seconds
    #[command(after_long_help = crate::cli::help::lay_out_examples(include_str!("predict/examples.txt")))]
    Predict(Box<PredictArgs>),
}
