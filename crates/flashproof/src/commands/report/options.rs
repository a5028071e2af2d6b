//! Options of `flashproof report` and its other views.

use crate::candidates::{GivenArgs, parse_named_dir};
use crate::configuration::positive;
use crate::output::FormArgs;
use clap::{Args, Subcommand};
use report::comparison::CandidateDir;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ReportArgs {
    /// Another view
    #[command(subcommand)]
    pub other: Option<OtherReport>,
    /// Directories of runs, of series or of checks; or the directory of a campaign. Several campaigns, and a directory
    /// that holds several results, are listed, newest first [default: flashproof-results]
    #[arg(value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    #[command(flatten)]
    pub form: FormArgs,
    /// For a campaign: judge its drives with the drives of these campaigns as further peers. The compared step must
    /// have the same command in all campaigns
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with = "parquet")]
    pub peers: Vec<PathBuf>,
    /// For a campaign: print the bad drives as CSV, the worst first: host, slot, serial number, reason, since when. For
    /// checks: print the measured values and limits as CSV
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    pub csv: bool,
    /// For a campaign: replace the names of drives and hosts by stable pseudonyms, for sharing
    #[arg(long)]
    pub anonymous: bool,
    /// Write all data as Parquet files into this directory, for SQL (docs/data.md); exit code: 0 if all was read,
    /// else 3
    #[arg(long, value_name = "OUTDIR", conflicts_with_all = ["html", "json", "markdown", "csv", "anonymous"], hide = cfg!(not(feature = "export")))]
    pub parquet: Option<PathBuf>,
    /// With --parquet: replace an earlier export
    #[arg(long, requires = "parquet", hide = cfg!(not(feature = "export")))]
    pub force: bool,
}

#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Directories of runs or of series (certify, rate, baseline), each as DIR or NAME=DIR
    #[arg(required = true, value_name = "DIR", value_parser = parse_named_dir)]
    pub dirs: Vec<CandidateDir>,
    #[command(flatten)]
    pub given: GivenArgs,
    /// Years of warranty for which drive writes per day are rated
    #[arg(long, value_name = "YEARS", default_value_t = 5.0, value_parser = positive)]
    pub warranty: f64,
    /// Your own list of published ratings, in the format of the built-in list
    #[arg(long, value_name = "CSV")]
    pub published: Option<PathBuf>,
    #[command(flatten)]
    pub form: FormArgs,
    /// Print the table as CSV
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    pub csv: bool,
}

#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Directories of runs, series, checks or campaigns, running or finished
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Refresh each second until all have ended
    #[arg(long, short)]
    pub watch: bool,
    /// Print as JSON, one document per directory; with --watch one line per directory at every refresh
    #[arg(long)]
    pub json: bool,
}

/// Other views of run directories.
#[derive(Subcommand, Debug)]
pub enum OtherReport {
    /// Compare runs or series: load held, wear, price, published ratings
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("compare-examples.txt")))]
    Compare(Box<CompareArgs>),
    /// Show the progress of a run, series, check or campaign, from another terminal, while it runs or afterwards
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("status-examples.txt")))]
    Status(StatusArgs),
}
