//! Options of `flashproof trace`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct TraceArgs {
    /// Block devices to trace; with --from, device numbers such as 259,0 [default with --from: all]
    #[arg(value_name = "DEVICE", required_unless_present = "from")]
    pub devices: Vec<String>,
    /// Duration: a number of seconds, 5m, 1h [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", conflicts_with = "from", allow_hyphen_values = true, value_parser = results::format::seconds)]
    pub duration: Option<u32>,
    /// Read a recorded trace: output of ftrace, trace-cmd report, perf script, blkparse, iosnoop or --ops, plain or
    /// compressed by gzip or zstd; "-" is standard input
    #[arg(long, value_name = "FILE")]
    pub from: Option<String>,
    /// Print one line per operation instead of the summary
    #[arg(long)]
    pub ops: bool,
    /// Write the summary to a CSV file, with a row for each device, type and size
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "csv")]
    pub force: bool,
    /// Print the summary as JSON
    #[arg(long, conflicts_with = "ops")]
    pub json: bool,
    /// Kernel memory for events not read yet, in MiB over all CPUs
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=16_384))]
    pub buffer: u64,
}
