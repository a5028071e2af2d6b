//! Options of `flashproof prep`, also called as act_prep.

use crate::configuration::percent;
use crate::examples::lay_out_examples;
use crate::imitated::{exit_as_act, parse_as, program};
use crate::preparation::{
    CHECKPOINT_SEC, PrepOptions, Preparation, ProgressStyle, RandomWrites, SAMPLES,
};
use crate::record::EraseArgs;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use fio::{BYTES, parse_number};
use std::ffi::OsString;
use std::time::Duration;

/// Loads that a drive is prepared for.
#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum Purpose {
    /// Steady random overwrites: one pass over the drive's whole flash instead of hours of writes
    RandomWrites,
}

#[derive(Args, Debug)]
pub struct PrepArgs {
    /// Devices or files to prepare: ALL their data is erased
    #[arg(required = true, value_name = "DEVICE", value_parser = NonEmptyStringValueParser::new())]
    pub devices: Vec<String>,
    #[command(flatten)]
    pub consent: EraseArgs,
    /// Number of random fills (data that does not compress): 2 for SNIA's workload-independent preconditioning
    #[arg(long, value_name = "N", default_value_t = PrepOptions::DEFAULT.fills, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub fills: u32,
    /// Leave out the pass of zeros before the random fill
    #[arg(long)]
    pub skip_zero: bool,
    /// Write zeros only
    #[arg(long, conflicts_with_all = ["skip_zero", "fills"])]
    pub zero_only: bool,
    /// Prepare the drive for this load, by one pass in random order; the whole drive is discarded first, if possible
    #[arg(long = "for", value_name = "LOAD", conflicts_with_all = ["fills", "skip_zero", "zero_only"])]
    pub purpose: Option<Purpose>,
    /// With --for: flash beyond the capacity, in percent of the capacity; auto: assume flash of a usual size
    #[arg(long, value_name = "P", default_value = "auto", requires = "purpose", value_parser = over_provisioning)]
    pub over_provisioning: OverProvisioning,
    /// With --for: size of a write, 4k to 128k
    #[arg(long, value_name = "BYTES", default_value = "4k", requires = "purpose", value_parser = block_bytes)]
    pub block: u32,
    /// With --for: size of the drive's write cache; a block is written again only after that many other bytes
    /// [default: 1 GiB, at most 1/64 of the capacity]
    #[arg(long, value_name = "BYTES", requires = "purpose", value_parser = cache_bytes)]
    pub cache_bytes: Option<u64>,
    /// Discard (TRIM, deallocate) the whole of each device before the first write
    #[arg(long)]
    pub discard_first: bool,
    /// Prepare the first P percent only and discard the rest; later runs use no more than that part
    #[arg(long, value_name = "P", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub use_pct: u32,
    /// Seed of the random fill [default: random; it is recorded]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Show the planned writes and their duration, and write nothing
    #[arg(long, conflicts_with = "verify")]
    pub dry_run: bool,
    /// Start over from the first byte, even if an interrupted preparation could be resumed
    #[arg(long)]
    pub restart: bool,
    /// Write nothing: compare a sample of each device with the written data
    #[arg(
        long,
        conflicts_with_all = ["erase", "fills", "skip_zero", "zero_only", "discard_first", "use_pct", "seed", "restart", "purpose"]
    )]
    pub verify: bool,
    /// Number of 4 KiB blocks to read back from each device; 0: none; if a device has fewer: all
    #[arg(long, value_name = "N", default_value_t = SAMPLES)]
    pub samples: u64,
    /// Interval in seconds at which data is synced and progress is recorded; 0: ten times a second
    #[arg(long, value_name = "SECONDS", default_value_t = CHECKPOINT_SEC)]
    pub checkpoint: u64,
    /// Print only results, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Over-provisioning (T - U) / U, with T bytes of flash and U bytes of capacity; `None` for `auto`.
#[derive(Debug, Clone, Copy)]
pub struct OverProvisioning(pub Option<f64>);

pub fn over_provisioning(text: &str) -> Result<OverProvisioning, String> {
    if text == "auto" {
        return Ok(OverProvisioning(None));
    }
    percent(text, 0.1..=99.0).map(|percent| OverProvisioning(Some(percent / 100.0)))
}

pub fn block_bytes(text: &str) -> Result<u32, String> {
    let fits = |bytes: &u64| bytes.is_power_of_two() && (4 << 10..=128 << 10).contains(bytes);
    let bytes = parse_number(text, BYTES).ok().filter(fits);
    bytes
        .map(|bytes| bytes as u32)
        .ok_or_else(|| "give 4k, 8k, 16k, 32k, 64k or 128k".to_owned())
}

fn cache_bytes(text: &str) -> Result<u64, String> {
    engine::sim::size_bytes(text).ok_or_else(|| "give a size such as 4GiB, or 0".to_owned())
}

impl PrepArgs {
    pub fn preparation(&self) -> Preparation {
        Preparation {
            options: PrepOptions {
                discard_first: self.discard_first,
                zeros: !self.skip_zero && self.purpose.is_none(),
                fills: if self.zero_only { 0 } else { self.fills },
                use_pct: self.use_pct,
                random: self.purpose.map(|Purpose::RandomWrites| RandomWrites {
                    over_provisioning: self.over_provisioning.0,
                    block_bytes: self.block,
                    cache_bytes: self.cache_bytes,
                }),
                seed: self.seed,
                restart: self.restart,
            },
            verify: self.verify,
            samples: self.samples,
            checkpoint: Duration::from_secs(self.checkpoint),
            ..Preparation::with_defaults(
                self.devices.clone(),
                &self.consent.erase,
                ProgressStyle::from_quiet(self.quiet),
            )
        }
    }
}

/// Parses the options of ACT's program, or exits with ACT's exit code.
pub fn parse_prep_as_act(arguments: Vec<OsString>) -> PrepArgs {
    let about = "Prepare devices as ACT's program does: write zeros, then random data, to every byte of each device; ERASES them";
    let act = program::<PrepArgs>("act_prep", about)
        .after_help(lay_out_examples(include_str!("examples.txt")));
    parse_as(act, arguments).unwrap_or_else(exit_as_act)
}
