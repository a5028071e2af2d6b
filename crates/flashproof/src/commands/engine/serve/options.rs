//! Options of `flashproof engine serve`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Configuration: the subset of aerospike.conf in docs/serve.md
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,
    /// Allow the erasure of this device, if it holds data other than records of the namespace: path, serial number or
    /// world-wide name of the device
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub erase: Vec<String>,
    /// Open damaged devices, although records may be missing or out of date
    #[arg(long)]
    pub accept_losses: bool,
    /// Show the effect of the configuration and its errors, and exit
    #[arg(long)]
    pub dry_run: bool,
}
