//! Options of `flashproof certify`.

use crate::record::FailureLimitArgs;
use crate::series::SeriesOptions;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use load::factor::Factor;
use results::format::seconds;
use results::judge::Sla;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct CertifyOptions {
    /// Devices to certify: ALL their data is erased [default: those of CONFIG, or a simulated drive]
    #[arg(value_name = "DEVICE", value_parser = NonEmptyStringValueParser::new())]
    pub devices: Vec<String>,
    /// Load as a multiple of 1x: 2000 reads and 1000 writes per second on each device, or the load of CONFIG [default:
    /// 30 on real devices; 1 for CONFIG and for simulated drives]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub load: Option<Factor>,
    /// Configuration (of any ACT version) that defines the load of 1x, for all its devices together
    #[arg(long, value_name = "CONFIG")]
    pub config: Option<PathBuf>,
    /// Stages of 6 hours instead of 24: a screening, not a certification
    #[arg(long, conflicts_with = "duration")]
    pub screen: bool,
    /// Length of a stage [default: 24h; 1h of simulated time on simulated drives]; below 24h a screening
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub duration: Option<u32>,
    /// Device to test alone in stages 1 and 2, if there are several devices [default: the first]
    #[arg(long, value_name = "DEVICE")]
    pub single: Option<String>,
    /// Run all stages, even after a failed one
    #[arg(long)]
    pub all_stages: bool,
    /// Limits of the verdicts: shares of operations that may be slower than a threshold
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default(), allow_hyphen_values = true, value_parser = Sla::requested)]
    pub sla: Sla,
    /// Length of a slice of the verdict: 1h, 30m, or a number of seconds; the worst slice decides
    #[arg(long, value_name = "TIME", default_value_t = 3600, allow_hyphen_values = true, value_parser = seconds)]
    pub slice: u32,
    /// Pace and distribute operations as ACT 6 does, to compare with published ratings (arrival: act)
    #[arg(long)]
    pub as_act: bool,
    #[command(flatten)]
    pub series: SeriesOptions,
    #[command(flatten)]
    pub failure_limits: FailureLimitArgs,
    /// Do not prepare devices; a device without a preparation, or discarded since, is only screened, not certified
    #[arg(long)]
    pub no_prep: bool,
    /// Directory of the series: its state, and a run directory for each stage
    /// [default: flashproof-results/certify-SERIAL-30x, which the same command finds again]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}
