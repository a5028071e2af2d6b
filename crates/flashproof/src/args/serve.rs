//! The options of `flashproof engine serve`.

use clap::Args;
use std::path::PathBuf;

/// Options of the server.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Configuration: the part of aerospike.conf that docs/serve.md tells
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,
    /// Allow the erasure of this device, where it holds other data than records of this namespace: its path, serial number or
    /// world-wide name
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub erase: Vec<String>,
    /// Read the configuration, tell what it says and what is wrong with it, and end
    #[arg(long)]
    pub dry_run: bool,
}

/// What stands behind the options.
pub const EXAMPLES: &str = "Examples:
  flashproof engine serve examples/serve.conf     a namespace in a file, on 127.0.0.1 port 3000
  flashproof engine serve --dry-run my.conf     what of a real server's configuration has no effect here
  flashproof engine serve my.conf --erase SERIAL     a drive that held something else

An instrument, not a database to keep data in: it shows what a drive gives a record engine, to existing clients and \
benchmarks. A device that has the namespace's records on it is opened with them. SIGTERM or SIGINT writes what is in \
memory and ends. No TLS, no users.";
