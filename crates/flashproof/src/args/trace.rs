//! The options of `flashproof trace`.

use clap::Args;
use std::path::PathBuf;

/// Options of a trace.
#[derive(Args, Debug)]
pub struct TraceArgs {
    /// Block devices or partitions to trace; with --from, numbers such as 259,0 [default there: all]
    #[arg(value_name = "DEVICE", required_unless_present = "from")]
    pub devices: Vec<String>,
    /// Duration: a number of seconds, 5m, 1h [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", conflicts_with = "from", allow_hyphen_values = true, value_parser = super::values::seconds)]
    pub duration: Option<u32>,
    /// Read a recorded trace: ftrace, trace-cmd report, perf script, blkparse, iosnoop, --ops; gzip, zstd; "-" is
    /// standard input
    #[arg(long, value_name = "FILE")]
    pub from: Option<String>,
    /// Print one line per operation instead of the summary
    #[arg(long)]
    pub ops: bool,
    /// Write the summary to a file, a row per device, type and size
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

pub(super) const TRACE_EXAMPLES: &str = "\
Examples:
  flashproof trace /dev/nvme0n1 --duration 10      sizes, rates, queue and device times, who
  flashproof trace /dev/nvme0n1 --ops             one line an operation, as iosnoop prints
  flashproof trace /dev/sda --duration 60 --ops > ops.txt     to replay: storage --replay ops.txt
  flashproof trace /dev/nvme0n1p2 --csv sizes.csv     until Ctrl-C
  flashproof trace --from trace.txt.gz            a trace of ftrace, recorded elsewhere

Needs root: it reads the kernel's block tracepoints by an instance of its own, and removes that at its end; one that
kill -9 left behind is removed by the next trace. Nothing is written to any device. Exit codes: 0 done, 2 usage,
3 environment (permission, kernel, a device that went away). Every column is explained in docs/trace.md.";
