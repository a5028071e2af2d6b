//! The options of `flashproof rate`, `rate predict` and `check`.

use super::{FormArgs, OtherRating, seconds};
use clap::Args;
use procedures::durability::Options;
use procedures::predict::PredictedLoad;
use procedures::rate::RateOptions;
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
    /// Replace a screening
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub duration: Option<u32>,
    /// With several devices, the one that is tested alone in stages 1 and 2 [default: the first]
    #[arg(long, value_name = "DEVICE")]
    pub single: Option<String>,
    /// Run all stages, even after a failed one
    #[arg(long)]
    pub all_stages: bool,
    /// Limits of the verdicts: shares of operations that may be slower than a threshold
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default(), allow_hyphen_values = true, value_parser = Sla::wanted)]
    pub sla: Sla,
    /// Length of a slice of the verdict: 1h, 30m, or a number of seconds; the worst slice decides
    #[arg(long, value_name = "TIME", default_value_t = 3600, allow_hyphen_values = true, value_parser = seconds)]
    pub slice: u32,
    /// Pace and distribute operations as ACT 6 does, to compare with published ratings (arrival: act)
    #[arg(long)]
    pub as_act: bool,
    #[command(flatten)]
    pub series: SeriesArgs,
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// Do not prepare devices; a device that is not recorded as prepared is then screened, not certified
    #[arg(long)]
    pub no_prep: bool,
    /// Directory of the series: its state, and a run directory for each stage
    /// [default: flashproof-results/certify-SERIAL-30x, which the same command finds again]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Options of a search for the highest rating.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct RateArgs {
    /// Ratings without a search
    #[command(subcommand)]
    pub other: Option<OtherRating>,
    /// Device to rate: ALL its data is erased. Several devices get the load at the same time
    #[arg(value_name = "DEVICE", required_unless_present = "config", value_parser = NonEmptyStringValueParser::new())]
    pub devices: Vec<String>,
    /// Configuration of any ACT version with the load of 1x [default: ACT's, 2000 reads and 1000 writes per second
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
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default(), allow_hyphen_values = true, value_parser = Sla::wanted)]
    pub sla: Sla,
    /// Time over which a load is judged, and the rating confirmed at the end: 1h, 30m, or a number of seconds; a round
    /// is a twelfth of this time, at most 60 s [default: 3600; less on simulated drives if 3600 s take over a minute
    /// of CPU]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = confirmation)]
    pub slice: Option<u32>,
    /// Pace and distribute operations as ACT 6 does, to compare with published ratings (arrival: act)
    #[arg(long)]
    pub as_act: bool,
    #[command(flatten)]
    pub series: SeriesArgs,
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
        seconds if seconds < 12 => {
            Err("give at least 12 s: the confirmation of a rating takes 12 rounds of a second or more".to_owned())
        }
        seconds => Ok(seconds),
    }
}

/// Parses a resolution, at least 1 %: below that, multiples of three digits cannot be distinguished.
fn resolution(text: &str) -> Result<f64, String> {
    percent(text, 1.0..=50.0)
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

/// Length of a quick baseline in seconds: the shortest baseline that contains every job.
const QUICK_SEC: u32 = 600;

/// Options of a drive's baseline.
#[derive(Args, Debug)]
pub struct BaselineArgs {
    /// Device to measure: ALL its data is erased. Several devices are measured at the same time, each with its own jobs
    #[arg(value_name = "DEVICE", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub devices: Vec<String>,
    /// Time under load: 24h characterises a drive, 6h gives a good idea; each job takes at least a second, and all
    /// jobs together about a minute
    #[arg(long = "duration", value_name = "TIME", default_value = "6h", allow_hyphen_values = true, value_parser = seconds)]
    pub seconds: u32,
    /// Same as --duration 10m
    #[arg(long, conflicts_with = "seconds")]
    pub quick: bool,
    /// Sizes of the database's operations, separated by commas; depths, rates and grid use only the first size
    #[arg(long, value_name = "SIZES", default_value = "4k", value_delimiter = ',', value_parser = block_bytes)]
    pub bs: Vec<u64>,
    /// Largest queue depth to try, a power of two
    #[arg(long, value_name = "DEPTH", default_value_t = 256, allow_hyphen_values = true, value_parser = depth)]
    pub max_depth: u32,
    /// Only read: erases nothing, needs no consent, and works on a device in use
    #[arg(long)]
    pub read_only: bool,
    /// Run these tests of SNIA's PTS 2.0.2 instead: iops, throughput, latency, saturation; before each test,
    /// the whole device is discarded, and then written twice (before saturation, only discarded)
    #[arg(long, value_name = "TESTS", value_delimiter = ',', value_parser = pts, conflicts_with_all = ["seconds", "quick", "bs", "max_depth", "read_only", "no_prep"])]
    pub pts: Vec<Pts>,
    /// Length of a job of --pts [default: 60 as SNIA specifies; on simulated drives 2]
    #[arg(long, value_name = "TIME", requires = "pts", allow_hyphen_values = true, value_parser = seconds)]
    pub pts_round: Option<u32>,
    /// Also run each profile with the installed fio, three rounds in turns with flashproof, on flashproof's open
    /// descriptors, and compare the results
    #[arg(long, conflicts_with = "pts")]
    pub cross_check: bool,
    #[command(flatten)]
    pub series: SeriesArgs,
    /// Do not prepare devices; an empty drive does not show how a used one behaves
    #[arg(long)]
    pub no_prep: bool,
    /// Directory of the series: its state, and a run directory for each job
    /// [default: flashproof-results/baseline-SERIAL-TIME, which the same command finds again]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl BaselineArgs {
    /// Time under load, seconds.
    pub fn seconds(&self) -> u64 {
        u64::from(if self.quick { QUICK_SEC } else { self.seconds })
    }
}

/// Parses the size of an operation in fio's syntax.
fn block_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_number(text, BYTES)?;
    match bytes {
        512..=LARGE_BYTES if bytes.is_multiple_of(512) => Ok(bytes),
        _ => Err(format!("give a multiple of 512 up to {LARGE_BYTES}, such as 4k or 1536")),
    }
}

/// Parses the name of a SNIA test.
fn pts(text: &str) -> Result<Pts, String> {
    let test = Pts::ALL.into_iter().find(|test| test.option_name() == text.trim());
    test.ok_or_else(|| "the tests are iops, throughput, latency and saturation".to_owned())
}

/// Parses the maximum depth of the sweep.
fn depth(text: &str) -> Result<u32, String> {
    let depth = text.trim().parse().ok().sim in DIR that flashproof did not write
    #[arg(long)]
    pub force: bool,
    /// Print only results, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of a check.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// A check, "all", or your own TOML file; without CHECK the checks are listed
    #[arg(value_name = "CHECK")]
    pub name: Option<String>,
    /// Directory, device or simulated drive to check
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
    /// Show the jobs, the limits and their sources, and check nothing
    #[arg(long, requires = "name", conflicts_with = "path")]
    pub show: bool,
    /// Run for this time instead of about a minute, to measure beyond a burst: 40m, 1h
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
    #[command(flatten)]
    pub durability: Options,
}
