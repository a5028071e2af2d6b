//! The options of `flashproof check`.

use super::values::seconds;
use clap::Args;
use std::path::PathBuf;

/// Options of a check.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// A check, "all", or a TOML file of your own; without it the checks are listed
    #[arg(value_name = "CHECK")]
    pub name: Option<String>,
    /// Directory, device or simulated drive to check
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
    /// Show the jobs, the limits and their sources, and check nothing
    #[arg(long, requires = "name", conflicts_with = "path")]
    pub show: bool,
    /// Go on for this time instead of about a minute, to see what comes after a burst: 40m, 1h
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub lasting: Option<u32>,
    /// Write one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print as JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print as Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Directory for the record [default: flashproof-results/check-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Allow the erasure of this device, by its serial number, wwid, by-id link or path; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Print only the result, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  flashproof check                                   the checks, and how long each takes
  flashproof check etcd /var/lib/etcd                is this disk good enough? a minute, no root
  flashproof check all /mnt/data --html disk.html    for which databases it is, and what stops it for others
  flashproof check etcd /var/lib/etcd --for 1h       beyond the burst credits of a cloud volume
  flashproof check etcd --show                       the jobs, the limits and their sources
  flashproof check ./mine.toml sim:                  a check of your own, on a simulated drive

In a directory the check makes files of its own, says how large they are, and removes them. On a device it
ERASES: the guard decides as ever. The exit code is 0 for PASS and MEASURED, 1 for FAIL, 4 for INVALID.";
