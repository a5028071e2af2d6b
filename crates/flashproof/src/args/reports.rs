//! The options of `flashproof report`, `report compare` and `report status`.

use super::OtherReport;
use super::values::{named, number, positive};
use clap::Args;
use report::comparison::{Endurance, Given, Named};
use std::path::PathBuf;

/// Options of a report.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ReportArgs {
    /// Another view
    #[command(subcommand)]
    pub other: Option<OtherReport>,
    /// Directories of runs, or of series of runs; or one of a campaign
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    #[command(flatten)]
    pub form: FormArgs,
    /// Of a campaign: replace the names of drives and hosts by stable pseudonyms, for sharing
    #[arg(long)]
    pub anonymous: bool,
    /// Write all data as Parquet files into this directory, for SQL (docs/data.md); exit code: 0 if all was read, else 3
    #[arg(long, value_name = "OUTDIR", conflicts_with_all = ["html", "json", "markdown", "anonymous"], hide = cfg!(not(feature = "export")))]
    pub parquet: Option<PathBuf>,
    /// With --parquet: replace an earlier export
    #[arg(long, requires = "parquet", hide = cfg!(not(feature = "export")))]
    pub force: bool,
}

/// Forms of a result, instead of text.
#[derive(Args, Debug)]
pub struct FormArgs {
    /// Write one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print as JSON (schemas: docs/*.schema.json)
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print as Markdown, for a ticket or a wiki
    #[arg(long)]
    pub markdown: bool,
}

/// Shown below the help.
pub(super) const REPORT_EXAMPLES: &str = "\
Examples:
  flashproof report runs/demo                             verdict, shares and latencies, here
  flashproof report runs/demo --html demo.html            a page to keep, to print, to send
  flashproof report runs/a runs/b --markdown > ticket.md
  flashproof report lab --html lab.html                   a campaign: ratings, and which drive is the odd one
  flashproof report runs/demo --json | jq .reports[0].verdict.outcome

Nothing but the directories is read, so this works on any machine, years later. The exit code is that of
the worst verdict: 0 pass, 1 fail, 4 invalid.";

/// Options of a comparison.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Directories of runs or of series (certify, rate), each as DIR or NAME=DIR
    #[arg(required = true, value_name = "DIR", value_parser = named)]
    pub dirs: Vec<Named>,
    #[command(flatten)]
    pub given: GivenArgs,
    /// Years of warranty for which drive writes per day are rated
    #[arg(long, value_name = "YEARS", default_value_t = 5.0, value_parser = positive)]
    pub warranty: f64,
    /// Your own list of published ratings, in the format of the built-in one
    #[arg(long, value_name = "CSV")]
    pub published: Option<PathBuf>,
    #[command(flatten)]
    pub form: FormArgs,
}

/// Endurance ratings and prices of drives, which no run records.
#[derive(Args, Debug)]
pub struct GivenArgs {
    /// Rated drive writes per day; NAME is a candidate's or a device's
    #[arg(long, value_name = "NAME=N", value_parser = number)]
    pub dwpd: Vec<(String, f64)>,
    /// Rated terabytes written
    #[arg(long, value_name = "NAME=TB", value_parser = number)]
    pub tbw: Vec<(String, f64)>,
    /// Price of one drive, all in the same currency
    #[arg(long, value_name = "NAME=PRICE", value_parser = number)]
    pub price: Vec<(String, f64)>,
}

impl GivenArgs {
    /// The options as values, with drive writes per day rated for `warranty_years`. If a name has ratings of both kinds,
    /// the terabytes count, as in a warranty.
    pub fn given(&self, warranty_years: f64) -> Given {
        let Self { dwpd, tbw, price } = self;
        let dwpd = dwpd.iter().filter(|(name, _)| tbw.iter().all(|(other, _)| other != name));
        let dwpd = dwpd.map(|(name, n)| (name.clone(), Endurance::DriveWritesPerDay(*n)));
        let tbw = tbw.iter().map(|(name, tb)| (name.clone(), Endurance::TerabytesWritten(*tb)));
        Given { endurance: dwpd.chain(tbw).collect(), prices: price.clone(), warranty_years }
    }
}

pub(super) const COMPARE_EXAMPLES: &str = "\
Examples:
  flashproof report compare runs/a runs/b             two runs side by side
  flashproof report compare old=runs/2024 new=runs/2026          under names of your own
  flashproof report compare runs/a --dwpd a=3 --price a=549
  flashproof report compare runs/a --published our-ratings.csv   among your own ratings
  flashproof report compare runs/* --html drives.html            a page to keep, to send
  flashproof report compare runs/* --markdown > drives.md        for a ticket

Tests that differ are compared all the same and said to differ: the exit code is 0. 2: a directory was
named twice, or a name is nobody's. 3: a directory cannot be read. More in docs/compare.md.";

/// Options of a status.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Directories of runs or of series (certify, rate), running or finished
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Refresh each second until all have ended
    #[arg(long, short)]
    pub watch: bool,
    /// Print as JSON, one document per directory; with --watch one line each, at every refresh
    #[arg(long)]
    pub json: bool,
}

pub(super) const STATUS_EXAMPLES: &str = "\
Examples:
  flashproof report status runs/demo                    from any terminal, as often as you like
  flashproof report status runs/demo --watch            until it ends
  flashproof report status flashproof-results/certify-*         several, one after the other
  flashproof report status runs/demo --json | jq .phase
  nohup flashproof storage a.conf --out r & flashproof report status r

It reads files only and disturbs nothing. Exit code: 0 while it runs or when it passed, else that of the
verdict (1 fail, 4 invalid: broken off, killed, hung); of several the worst, and 3 where one cannot be read.
More in docs/status.md.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_before_directories_and_numbers() {
        assert_eq!(named("a=b/c"), Ok(Named { name: Some("a".into()), dir: "b/c".into() }));
        assert_eq!(named("b/c"), Ok(Named { name: None, dir: "b/c".into() }));
        assert_eq!(number("sim:capacity=1GiB=3"), Ok(("sim:capacity=1GiB".into(), 3.0)));
        for text in ["a", "=3", "a=", "a=-1", "a=0", "a=nan", "a=inf", "a=x"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
