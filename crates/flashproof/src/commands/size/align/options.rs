//! Options of `flashproof size align`.

use crate::commands::size::one_device;
use crate::configuration::percent;
use crate::record::EraseArgs;
use clap::Args;
use engine::DeviceName;
use results::format::seconds;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct Alignment {
    /// Configuration with histograms, from "flashproof size profile" or written by hand
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,
    /// Target for each device: a profile (profile.json), output of "iostat -xty" on the cluster, or numbers as
    /// r/s=N,w/s=N,rkB/s=N,wkB/s=N; if w/s includes flushes, add f/s=N to subtract them
    #[arg(long, value_name = "PROFILE")]
    pub target: String,
    /// Device to run on, instead of a device of CONFIG; repeat for each device of CONFIG, or join several by commas. ALL
    /// its data is erased
    #[arg(long, value_name = "DEVICE", value_delimiter = ',', value_parser = one_device)]
    pub device: Vec<DeviceName>,
    #[command(flatten)]
    pub consent: EraseArgs,
    /// Write the aligned configuration to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Tolerance for each of the four numbers, in percent
    #[arg(long, value_name = "PERCENT", default_value = "2", allow_hyphen_values = true, value_parser = within)]
    pub within: f64,
    /// Maximum bursts after the first, which runs CONFIG unchanged
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Measured time of a burst, which lasts 3 s longer [default: 5 s to 5 min, depending on --within]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub burst: Option<u32>,
    /// Node of the profile [default: the node whose drives move most bytes]
    #[arg(long, value_name = "ID")]
    pub node: Option<String>,
    /// Drive of the profile or of iostat [default: the mean of the node's drives]
    #[arg(long, value_name = "NAME")]
    pub drive: Option<String>,
    /// Namespace that CONFIG models, if several share the drive [default: the name of the file]
    #[arg(long, value_name = "NS")]
    pub namespace: Option<String>,
    /// Use a profile that is marked as not balanced
    #[arg(long)]
    pub accept_unbalanced: bool,
    /// Reason for an offset below 80 or above 125: a sentence for the aligned configuration
    #[arg(long, value_name = "WHY")]
    pub because: Option<String>,
    /// Keep the run directories of the bursts in this new directory
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
    /// Print only results, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Parses a percentage as a fraction.
fn within(text: &str) -> Result<f64, String> {
    percent(text, 0.5..=20.0).map(|percent| percent / 100.0)
}
