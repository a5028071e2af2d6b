//! The options of `flashproof size select`.

use super::compare::{EnduranceArgs, named, number, positive};
use clap::Args;
use report::comparison::Named;
use std::path::PathBuf;

/// Options of a selection.
#[derive(Args, Debug)]
pub struct SelectArgs {
    /// The cluster's load: profile.json of "flashproof size profile"
    #[arg(long, value_name = "PROFILE")]
    pub profile: PathBuf,
    /// Directories of runs or of series (certify, rate), each as DIR or NAME=DIR
    #[arg(long = "candidate", value_name = "DIR", num_args = 1.., required_unless_present = "published", value_parser = named)]
    pub candidates: Vec<Named>,
    /// Published ratings, too: of drives with these words in their names, or all; may be repeated
    #[arg(long, value_name = "NAME")]
    pub published: Vec<String>,
    /// A list of published ratings of your own, in the format of the one that is built in
    #[arg(long, value_name = "CSV", requires = "published")]
    pub ratings: Option<PathBuf>,
    /// The load to be held later, as a multiple of the present one
    #[arg(long, value_name = "N", default_value_t = 2.0, allow_hyphen_values = true, value_parser = positive)]
    pub scale: f64,
    /// The data to be held then, likewise
    #[arg(long, value_name = "N", default_value_t = 1.0, allow_hyphen_values = true, value_parser = positive)]
    pub data_scale: f64,
    /// How full a drive may be, in percent of its capacity
    #[arg(long, value_name = "PERCENT", default_value_t = 50.0, allow_hyphen_values = true, value_parser = fill)]
    pub fill: f64,
    #[command(flatten)]
    pub endurance: EnduranceArgs,
    /// Years that a drive must last, and that drive writes per day are rated for
    #[arg(long, value_name = "YEARS", default_value_t = 5.0, value_parser = positive)]
    pub warranty: f64,
    /// Price of one drive, all in the same currency
    #[arg(long, value_name = "NAME=PRICE", value_parser = number)]
    pub price: Vec<(String, f64)>,
    /// Use a profile that is marked as not balanced
    #[arg(long)]
    pub accept_unbalanced: bool,
    /// Print all of it as JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print it as Markdown
    #[arg(long)]
    pub markdown: bool,
}

fn fill(text: &str) -> Result<f64, String> {
    let percent = positive(text.trim_end_matches('%'))?;
    if percent <= 100.0 { Ok(percent) } else { Err("that is no percentage up to 100".to_owned()) }
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof size select --profile p.json --candidate runs/a runs/b
  flashproof size select --profile p.json --candidate new=rate-1 --scale 3
  flashproof size select --profile p.json --candidate a=run --price a=549
  flashproof size select --profile p.json --published Micron --published P5800
  flashproof size select --profile p.json --published all --json

Best candidates are those that ran the cluster's own load: \"flashproof rate --config\" with the configuration of
\"flashproof size profile\". Of others the number is an estimate, and says so. Exit codes: 0 shown, 2 usage, 3 a directory
cannot be read, 4 a candidate is damaged, or the profile does not balance. More in docs/select.md.";
