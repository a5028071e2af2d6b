//! The options of `flashproof certify`.

use super::config::seconds;
use super::{PatienceArgs, SeriesArgs};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use load::factor::Factor;
use results::judge::Sla;
use std::path::PathBuf;

/// Options of a certification.
#[derive(Args, Debug)]
pub struct CertifyArgs {
    /// Devices to certify: ALL that is on them is erased [default: those of CONFIG, or a simulated drive]
    #[arg(value_name = "DEVICE", value_parser = NonEmptyStringValueParser::new())]
    pub devices: Vec<String>,
    /// N times the load of 1x: 2000 reads and 1000 writes a second on each device, or what CONFIG says
    /// [default: 30 on real devices; 1 for CONFIG and for simulated drives]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub load: Option<Factor>,
    /// A configuration of any ACT as the load of 1x of all the devices that it names
    #[arg(long, value_name = "CONFIG")]
    pub config: Option<PathBuf>,
    /// Stages of 6 hours: a screening, which gives a good idea and certifies nothing
    #[arg(long, conflicts_with = "duration")]
    pub screen: bool,
    /// Length of a stage [default: 24h; 1h of simulated time on simulated drives]; below 24h a screening
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub duration: Option<u32>,
    /// Of several devices, the one that is tested alone in stages 1 and 2 [default: the first]
    #[arg(long, value_name = "DEVICE")]
    pub single: Option<String>,
    /// Run the stages after a failed one, too
    #[arg(long)]
    pub all_stages: bool,
    /// What the verdicts allow: shares of operations that may be slower than a threshold
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default(), allow_hyphen_values = true, value_parser = Sla::wanted)]
    pub sla: Sla,
    /// Length of a slice of the verdict: 1h, 30m, or a number of seconds; the worst slice decides
    #[arg(long, value_name = "TIME", default_value_t = 3600, allow_hyphen_values = true, value_parser = seconds)]
    pub slice: u32,
    /// Pace and spread operations as ACT 6 does, to compare with published ratings (arrival: act)
    #[arg(long)]
    pub as_act: bool,
    #[command(flatten)]
    pub series: SeriesArgs,
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// Do not prepare devices; one that is not on record as prepared is then screened, not certified
    #[arg(long)]
    pub no_prep: bool,
    /// Directory of the series: its state, and a run directory for each stage
    /// [default: flashproof-results/certify-SERIAL-30x, which the same command finds again]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof certify                               a simulated drive, in seconds: what it looks like
  flashproof certify /dev/nvme1n1                  30x: prepare, then 24 h at 30x and 24 h at 60x
  flashproof certify /dev/nvme1n1                  the same again after a reboot or Ctrl-C: goes on
  flashproof certify /dev/nvme1n1 --screen         stages of 6 h
  flashproof certify /dev/nvme1n1 /dev/nvme2n1     the first alone, then both: 4 days
  flashproof certify /dev/nvme1n1 --load 80 --as-act
  flashproof certify --config cluster.conf --load 1.5 --erase S64ANX0T402

Stages: 1, N times the load on one device, within the limits; 2, twice that, to its end; with several
devices 3 and 4, the same on all of them. Exit codes: 0 all stages passed, 1 one failed, 2 usage,
3 environment, 4 interrupted or invalid. More in docs/certify.md.";
