//! The options of `flashproof size align`.

use super::config::seconds;
use clap::Args;
use engine::DeviceName;
use procedures::align::Alignment;
use session::output_file::Output;
use std::path::PathBuf;

/// Options of an alignment.
#[derive(Args, Debug)]
pub struct AlignArgs {
    /// Configuration with histograms, as of "flashproof size profile" or by hand
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,
    /// What has to reach each device: a profile (profile.json), what "iostat -xty" printed beside the cluster, or its
    /// numbers as r/s=N,w/s=N,rkB/s=N,wkB/s=N; with f/s=N flushes that w/s counts are taken off it
    #[arg(long, value_name = "PROFILE")]
    pub target: String,
    /// Device to run on instead of those of CONFIG, as many as it has; may be repeated: ALL that is on it is erased
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<DeviceName>,
    /// Allow the erasure of this device, by its serial number, wwid, by-id link or path; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Write the aligned configuration to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "out")]
    pub force: bool,
    /// How near to the target each of the four numbers must come, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, allow_hyphen_values = true, value_parser = percent)]
    pub within: f64,
    /// Most bursts after the first, which runs CONFIG as it is
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// How long a burst is measured, beside 3 s to begin and end [default: as long as --within asks for, 5 s to 5 min]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub burst: Option<u32>,
    /// Node of the profile [default: the one whose drives move most bytes]
    #[arg(long, value_name = "ID")]
    pub node: Option<String>,
    /// Drive of the profile or of iostat; of a node with several drives the mean is taken otherwise
    #[arg(long, value_name = "NAME")]
    pub drive: Option<String>,
    /// Namespace that CONFIG stands for, where several share the drive [default: the name of the file]
    #[arg(long, value_name = "NS")]
    pub namespace: Option<String>,
    /// Use a profile that is marked as not balanced
    #[arg(long)]
    pub accept_unbalanced: bool,
    /// Why an offset may be below 80 or over 125: a sentence for the aligned configuration
    #[arg(long, value_name = "WHY")]
    pub because: Option<String>,
    /// Keep the run directories of the bursts in this new directory
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
    /// Say results, warnings and errors only
    #[arg(long, short)]
    pub quiet: bool,
}

impl AlignArgs {
    /// The alignment that the options ask for.
    pub fn alignment(&self) -> Alignment {
        Alignment {
            config: self.config.clone(),
            target: self.target.clone(),
            device: self.device.clone(),
            erase: self.erase.clone(),
            output: self.out.clone().map(|path| Output::File { path, force: self.force }),
            within: self.within / 100.0,
            rounds: self.rounds,
            burst: self.burst,
            node: self.node.clone(),
            drive: self.drive.clone(),
            namespace: self.namespace.clone(),
            accept_unbalanced: self.accept_unbalanced,
            because: self.because.clone(),
            out_dir: self.out_dir.clone(),
            quiet: self.quiet,
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').parse().ok();
    let number = number.filter(|percent: &f64| (0.5..=20.0).contains(percent));
    number.ok_or_else(|| "that is no percentage from 0.5 to 20, such as 2; offsets are whole percents".to_owned())
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof size align a.conf --target p.json --out aligned.conf
  flashproof size align a.conf --target p.json --device /dev/nvme1n1
  flashproof size align a.conf --target p.json --drive nvme0n1 --node BB9
  flashproof size align a.conf --target r/s=900,w/s=90,rkB/s=26000,wkB/s=11500
  flashproof size align a.conf --target p.json --device sim:     the rates alone

It runs CONFIG for some seconds, sees by the kernel's counters what reached the device, and finds read-size-offset,
lbr-req-offset, lbw-req-offset (with commit-to-device write-size-offset, too) in whole percents. Exit codes: 0 aligned,
2 usage, 3 environment, 4 not aligned, or not to be trusted: nothing is written then. More in docs/align.md.";
