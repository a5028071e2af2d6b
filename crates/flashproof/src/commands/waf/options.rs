//! Options of `flashproof waf`.

use crate::commands::prep::options::{OverProvisioning, block_bytes, over_provisioning};
use crate::commands::waf::measure::Measurement;
use crate::commands::waf::request::{EnduranceRating, Model};
use crate::output::FormArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use tenants::waf::Arrangement;

/// Help of `--arrange` for a measurement. Dedicated drives are only computed.
const MEASURED_ARRANGEMENTS: &str = "Arrangements: shared (no handles), fdp (a handle for each tenant) [default: all \
                                     that the drive supports]";

/// Commands about a drive's write amplification.
#[derive(Subcommand)]
pub enum Waf {
    /// Predict write amplification on a simulated drive, for tenants on dedicated and on shared drives
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("model-examples.txt")))]
    Model(Box<WafModelArgs>),
    /// Measure a drive's write amplification from its counters; ERASES the drive
    #[command(
        mut_arg("arrange", |arrange| arrange.help(MEASURED_ARRANGEMENTS)),
        after_long_help = crate::examples::lay_out_examples(include_str!("measure-examples.txt"))
    )]
    Measure(Box<WafMeasureArgs>),
    /// Compare preparations for random writes on a simulated drive
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("prep-examples.txt")))]
    Prep(WafPrepArgs),
    /// Print (but do not run) the nvme-cli commands that add placement handles (FDP) to a namespace, or remove them
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("setup-examples.txt")))]
    Setup(WafSetupArgs),
}

#[derive(Args, Debug)]
pub struct OnDriveArgs {
    /// File of the tenants, as for flashproof storage tenants
    #[arg(value_name = "TENANTS")]
    pub tenants: PathBuf,
    /// Arrangements: dedicated (a drive for each tenant), shared (one drive), fdp (one drive, a handle for each tenant)
    /// [default: all that the drive supports]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub arrange: Vec<Arrangement>,
    /// Give up after this many drive fills, if the write amplification is not steady by then
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(5..=1_000))]
    pub max_fills: u16,
    /// Seed of all random choices [default: the seed in the file, or 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub rated: EnduranceRating,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    /// Also write an HTML page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct WafModelArgs {
    #[command(flatten)]
    pub on_drive: OnDriveArgs,
    #[command(flatten)]
    pub model: Model,
}

#[derive(Args, Debug)]
pub struct WafMeasureArgs {
    #[command(flatten)]
    pub on_drive: OnDriveArgs,
    #[command(flatten)]
    pub measurement: Measurement,
}

#[derive(Args, Debug)]
pub struct WafPrepArgs {
    /// Simulated drive: sim:ftl+...
    #[arg(
        value_name = "DEVICE",
        default_value = "sim:ftl+capacity=1GiB+op=7%+superblock=1MiB+page=4KiB+reserve=1"
    )]
    pub device: String,
    /// Over-provisioning to assume for the preparation, in percent; auto: the drive's own
    #[arg(long, value_name = "P", default_value = "auto", value_parser = over_provisioning)]
    pub over_provisioning: OverProvisioning,
    /// Write size of the preparation, 4k to 128k
    #[arg(long, value_name = "BYTES", default_value = "4k", value_parser = block_bytes)]
    pub block: u32,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub form: FormArgs,
}

#[derive(Args, Debug)]
pub struct WafSetupArgs {
    /// Namespace to set up
    #[arg(value_name = "DEVICE")]
    pub device: String,
}
