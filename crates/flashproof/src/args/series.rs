//! The options that every series of runs has.

use clap::Args;
use procedures::series::Options;
use std::path::PathBuf;

/// How the runs of a series are made.
#[derive(Args, Debug)]
pub struct SeriesArgs {
    /// Do not sample the kernel's block tracepoints (0.5 s in every 30, as root), which tell the kernel's
    /// part of a latency from the device's
    #[arg(long, hide_short_help = true)]
    pub no_trace: bool,
    /// Allow the erasure of this device, by its serial number, wwid, by-id link or path; may be repeated
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Show what would run and for how long, or why it is refused; write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Write the report into this file, too; it is report.html in the directory of the series anyway
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub html: Option<PathBuf>,
    /// Begin anew, in a new directory beside the one that is there; nothing is deleted
    #[arg(long, hide_short_help = true)]
    pub fresh: bool,
    /// Say results, warnings and errors only
    #[arg(long, short)]
    pub quiet: bool,
}

impl SeriesArgs {
    /// How the options want the runs to be made.
    pub fn options(&self) -> Options {
        let Self { no_trace, ref erase, dry_run, fresh, ref html, quiet } = *self;
        Options { trace: !no_trace, erase: erase.clone(), dry_run, fresh, html: html.clone(), quiet }
    }
}
