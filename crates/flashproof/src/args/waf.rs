//! The options of `flashproof waf` and of each of its subcommands.

use super::prepare::{OverProvisioning, block_bytes, over_provisioning};
use super::reports::FormArgs;
use super::{positive, seconds};
use clap::Args;
use engine::sim::size_bytes;
use load::waf::Arrangement;
use procedures::waf::Rated;
use report::comparison::Endurance;
use std::path::PathBuf;

/// Options of tenants whose write amplification is predicted or measured.
#[derive(Args, Debug)]
pub struct OnDriveArgs {
    /// File of the tenants, as for flashproof storage tenants
    #[arg(value_name = "TENANTS")]
    pub tenants: PathBuf,
    /// Arrangements: a drive each, one drive without handles, one drive with a placement handle each
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub arrange: Vec<Arrangement>,
    /// Give up after this many drive fills, if not steady before
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(5..=1_000))]
    pub max_fills: u16,
    /// Seed of all random choices [default: that of the file, or 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub rated: RatedArgs,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    /// Also write an HTML page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Endurance rating of a drive.
#[derive(Args, Debug, Clone, Copy)]
pub struct RatedArgs {
    /// Rated drive writes per day
    #[arg(long, value_name = "N", value_parser = positive)]
    pub dwpd: Option<f64>,
    /// Rated terabytes written
    #[arg(long, value_name = "TB", value_parser = positive, conflicts_with = "dwpd")]
    pub tbw: Option<f64>,
    /// Years of warranty for which drive writes per day are rated
    #[arg(long, value_name = "YEARS", default_value_t = 5.0, value_parser = positive)]
    pub warranty: f64,
}

impl RatedArgs {
    /// The rating given by the options.
    pub fn rated(&self) -> Rated {
        let endurance = self.tbw.map(Endurance::TerabytesWritten).or(self.dwpd.map(Endurance::DriveWritesPerDay));
        Rated { endurance, warranty: self.warranty }
    }
}

/// Options of a prediction.
#[derive(Args, Debug)]
pub struct WafModelArgs {
    #[command(flatten)]
    pub on_drive: OnDriveArgs,
    /// The simulated drive: sim:ftl+... [default: 16 GiB with 7 % over-provisioning, 32 KiB units and a handle per
    /// tenant]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Writes of blocks are split into commands of this size (the kernel: queue/max_sectors_kb) [default: 128KiB]
    #[arg(long, value_name = "SIZE", value_parser = command)]
    pub command: Option<u32>,
    /// Number of blocks written at the same time; the drive takes a command of each in turn [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub in_flight: Option<u32>,
    /// Do not measure clients' latencies; find only what needs no clock
    #[arg(long)]
    pub no_latency: bool,
    /// Vary assumptions one by one: op=7%:14.5%:28%,fill=40:50:60,handles=1:2:4; a name alone takes default values.
    /// Also lwm, record, keys, reuse, rates, command, in-flight and every parameter of the simulated drive
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub sweep: Vec<String>,
}

/// Options of a measurement.
#[derive(Args, Debug)]
pub struct WafMeasureArgs {
    #[command(flatten)]
    pub on_drive: OnDriveArgs,
    /// Drive that counts its media writes: it is ERASED
    #[arg(long, value_name = "DEVICE")]
    pub device: String,
    /// Also predict the result for this simulated drive, for comparison: sim:ftl+...
    #[arg(long, value_name = "DEVICE")]
    pub predict: Option<String>,
    /// Give up after this time, for each arrangement: 8h, 30m, or a number of seconds
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<u32>,
    /// Allow this device to be erased, by its serial number, wwid, by-id link or path
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Parent of the run directories, one for each arrangement [default: flashproof-results/waf-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Options of a probe.
#[derive(Args, Debug)]
pub struct WafProbeArgs {
    /// Drive: sim:ftl+..., or a real one with FDP, which is ERASED and written ten times its size
    #[arg(value_name = "DEVICE")]
    pub device: String,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Allow this device to be erased, by its serial number, wwid, by-id link or path
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Also write the result to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace an existing FILE
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of a comparison of preparations.
#[derive(Args, Debug)]
pub struct WafPrepArgs {
    /// Simulated drive: sim:ftl+...
    #[arg(value_name = "DEVICE", default_value = "sim:ftl+capacity=1GiB+op=7%+superblock=1MiB+page=4KiB+reserve=1")]
    pub device: String,
    /// Over-provisioning for which the one pass is made, in percent; auto: that of the drive
    #[arg(long, value_name = "P", default_value = "auto", value_parser = over_provisioning)]
    pub over_provisioning: OverProvisioning,
    /// Size of a write of that pass, 4k to 128k
    #[arg(long, value_name = "BYTES", default_value = "4k", value_parser = block_bytes)]
    pub block: u32,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub form: FormArgs,
}

/// Options of the command that prints how to set a namespace up.
#[derive(Args, Debug)]
pub struct WafSetupArgs {
    /// Namespace to set up
    #[arg(value_name = "DEVICE")]
    pub device: String,
}

fn command(text: &str) -> Result<u32, String> {
    let fits = |bytes: &u64| (4 << 10..=64 << 20).contains(bytes) && bytes.is_multiple_of(4 << 10);
    match size_bytes(text).filter(fits) {
        Some(bytes) => Ok(bytes as u32),
        None => Err("give a multiple of 4KiB up to 64MiB, such as 128KiB".to_owned()),
    }
}
