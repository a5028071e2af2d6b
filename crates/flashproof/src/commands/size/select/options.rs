//! Options of `flashproof size select`.

use crate::candidates::{GivenArgs, parse_named_dir};
use crate::configuration::positive;
use crate::output::FormArgs;
use clap::{ArgGroup, Args};
use report::comparison::CandidateDir;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("drives").args(["candidates", "published"]).required(true).multiple(true))]
pub struct SelectArgs {
    /// The cluster's load: profile.json of "flashproof size profile"
    #[arg(long, value_name = "PROFILE")]
    pub profile: PathBuf,
    /// Directories of runs or of series (certify, rate), each as DIR or NAME=DIR
    #[arg(long = "candidate", value_name = "DIR", num_args = 1.., value_parser = parse_named_dir)]
    pub candidates: Vec<CandidateDir>,
    /// Also use the published ratings of drives with these words in their names, or "all"; may be repeated
    #[arg(long, value_name = "NAME")]
    pub published: Vec<String>,
    /// Your own list of published ratings, in the format of the built-in list
    #[arg(long, value_name = "CSV", requires = "published")]
    pub ratings: Option<PathBuf>,
    /// Future load, as a multiple of the present load
    #[arg(long, value_name = "N", default_value_t = 2.0, allow_hyphen_values = true, value_parser = positive)]
    pub scale: f64,
    /// Future data, as a multiple of the present data
    #[arg(long, value_name = "N", default_value_t = 1.0, allow_hyphen_values = true, value_parser = positive)]
    pub data_scale: f64,
    /// Maximum fill of a drive, in percent of its capacity
    #[arg(long, value_name = "PERCENT", default_value_t = 50.0, allow_hyphen_values = true, value_parser = fill)]
    pub fill: f64,
    #[command(flatten)]
    pub given: GivenArgs,
    /// Years that a drive must last, and for which drive writes per day are rated
    #[arg(long, value_name = "YEARS", default_value_t = 5.0, value_parser = positive)]
    pub warranty: f64,
    /// Use a profile that is marked as not balanced
    #[arg(long)]
    pub accept_unbalanced: bool,
    #[command(flatten)]
    pub form: FormArgs,
}

fn fill(text: &str) -> Result<f64, String> {
    let percent = positive(text.trim_end_matches('%'))?;
    if percent <= 100.0 {
        Ok(percent)
    } else {
        Err("give a percentage above 0 and up to 100".to_owned())
    }
}
