//! Options of `flashproof rate`.

use crate::commands::rate::predict::options::PredictArgs;
use crate::configuration::percent;
use crate::series::SeriesOptions;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use load::factor::Factor;
use results::format::seconds;
use results::judge::Sla;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct RateArgs {
    /// Ratings without a search
    #[command(subcommand)]
    pub other: Option<OtherRating>,
    #[command(flatten)]
    pub search: RateOptions,
}

/// Ratings that need no run.
#[derive(Subcommand, Debug)]
pub enum OtherRating {
    /// Predict the rating of a drive and its interval from a baseline, in seconds
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("predict/examples.txt")))]
    Predict(Box<PredictArgs>),
}

#[derive(Args, Debug)]
pub struct RateOptions {
    /// Device to rate: ALL its data is erased. Several devices get the load at the same time
    #[arg(value_name = "DEVICE", required_unless_present = "config", value_parser = NonEmptyStringValueParser::new())]
    pub devices: Vec<String>,
    /// Configuration (of any ACT version) with the load of 1x [default: ACT's, 2000 reads and 1000 writes per second
    /// on each device]
    #[arg(long, value_name = "CONFIG")]
    pub config: Option<PathBuf>,
    /// First load to try, a multiple of 1x that the device surely holds
    #[arg(long, value_name = "N", default_value = "1", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub from: Factor,
    /// Highest load to try, as a multiple of 1x
    #[arg(long, value_name = "N", default_value = "1000", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub up_to: Factor,
    /// Maximum time under load: 8h, 90m, or a number of seconds; the result is the rating found by then [default:
    /// no limit]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub max_duration: Option<u32>,
    /// Maximum distance between the highest load held and the lowest not held, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, allow_hyphen_values = true, value_parser = resolution)]
    pub resolution: f64,
    /// Latency limits of a load that is held: shares of operations that may be slower than a threshold
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default(), allow_hyphen_values = true, value_parser = Sla::requested)]
    pub sla: Sla,
    /// Time over which a load is judged and the final rating is confirmed: 1h, 30m, or a number of seconds; a round
    /// is a twelfth of this time, at most 60 s [default: 3600; less on simulated drives if 3600 s take over a minute
    /// of CPU]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = confirmation)]
    pub slice: Option<u32>,
    /// Pace and distribute operations as ACT 6 does, to compare with published ratings (arrival: act)
    #[arg(long)]
    pub as_act: bool,
    #[command(flatten)]
    pub series: SeriesOptions,
    /// Do not prepare devices; the rating is then not comparable with published ones
    #[arg(long)]
    pub no_prep: bool,
    /// Directory of the series: its state, and a run directory for each step
    /// [default: flashproof-results/rate-SERIAL, which the same command finds again]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Parses the time of the confirmation, which takes at least twelve rounds of a second.
fn confirmation(text: &str) -> Result<u32, String> {
    match seconds(text)? {
        seconds if seconds < 12 => Err(
            "give at least 12 s: the confirmation of a rating takes 12 rounds of a second or more"
                .to_owned(),
        ),
        seconds => Ok(seconds),
    }
}

/// Parses a resolution, at least 1 %: below that, multiples of three digits cannot be distinguished.
fn resolution(text: &str) -> Result<f64, String> {
    percent(text, 1.0..=50.0)
}
