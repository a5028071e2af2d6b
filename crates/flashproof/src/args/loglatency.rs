//! The options of `flashproof latency server`: those of asloglatency, long names included, and ours.
//!
//! `-h` is a histogram there, so help is `--help` alone.

use super::latency::{Format, LatencyArgs};
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser};
use sizing::loglatency::From;
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of tables of a server's log.
#[derive(Args, Debug)]
#[command(disable_help_flag = true, args_override_self = true)]
pub struct LogLatencyArgs {
    /// Log of the server, plain or compressed by gzip or zstd; "-" for standard input. May be repeated: the
    /// rotated files of one node, in any order
    #[arg(short, long = "log", value_name = "LOG", default_value = "/var/log/aerospike/aerospike.log")]
    pub logs: Vec<PathBuf>,
    /// Histogram to show: "{test}-read", "{test}-/dev/nvme0n1-read", or "read" for the sum of all namespaces
    #[arg(short = 'h', long = "histogram", value_name = "NAME", allow_hyphen_values = true)]
    pub histogram: Option<String>,
    /// Namespace of the histogram, where its name has none: -N test -h read
    #[arg(short = 'N', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Length of a slice: 3600 or 1:00:00
    #[arg(short = 't', long, value_name = "TIME", default_value = "10", allow_hyphen_values = true)]
    pub slice: String,
    /// Where to begin: head, tail (5 minutes before the end), "Sep 22 2011 22:40:14", or -3600 and -1:00:00, so
    /// long before the end
    #[arg(short = 'f', long, value_name = "TIME", default_value = "tail", allow_hyphen_values = true)]
    pub from: String,
    /// How far to go: 3600 or 1:00:00 [default: to the end]
    #[arg(short = 'd', long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Number of thresholds to show
    #[arg(short = 'n', long = "num-buckets", alias = "num_buckets", value_name = "N", default_value = "3", value_parser = from_one)]
    pub num_buckets: usize,
    /// Show the first threshold, then every n-th
    #[arg(short = 'e', long = "every-nth", alias = "every_nth", value_name = "N", default_value = "3", value_parser = from_one)]
    pub every_nth: usize,
    /// Form of the result
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Print help
    #[arg(short = 'E', long, action = ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Parser)]
#[command(
    name = "asloglatency",
    version,
    disable_help_flag = true,
    about = "Show a histogram of a server's log as asloglatency does: its options, its output, its exit status"
)]
struct AsCli {
    #[command(flatten)]
    args: LogLatencyArgs,
}

impl LogLatencyArgs {
    /// Options that show a server's logs as `flashproof latency FILE` was asked to; what it does not name is
    /// asloglatency's default, and the histogram the reads of all namespaces.
    ///
    /// Errors: an option that these logs have no use for.
    pub fn of(args: &LatencyArgs) -> Result<Self, String> {
        let refused = |what: &str| {
            format!(
                "cannot show a server's log - {what} - flashproof latency server --help has the options for such a log"
            )
        };
        let histogram = match &args.histograms[..] {
            [] => "read".to_owned(),
            [one] => one.clone(),
            _ => return Err(refused("it is shown by one histogram at a time (-h)")),
        };
        if args.extra || args.sla.is_some() || args.start_bucket != "0" {
            return Err(refused("-s, -x and --sla are for logs of ACT and for runs"));
        }
        let number =
            |text: &str| from_one(text).map_err(|why| refused(&format!("{text} is no number of thresholds, {why}")));
        let AsCli { args: defaults } = AsCli::parse_from(["asloglatency"]);
        Ok(Self {
            logs: args.logs.iter().map(PathBuf::from).collect(),
            histogram: Some(histogram),
            slice: args.slice.clone().unwrap_or(defaults.slice.clone()),
            num_buckets: number(&args.num_buckets)?,
            every_nth: number(&args.every_nth)?,
            format: args.format,
            ..defaults
        })
    }
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof latency server -h '{test}-read' -f head -t 60    the whole log by minutes: over 1, 8, 64 ms or us
  flashproof latency server -h '{test}-device-read-size' -f -3000 -t 500 -n 19
  flashproof latency server -N test -h write -f 'Nov 20 2026 23:14:00' -d 600
  flashproof latency server -h '{test}-/dev/sdb-read' -l a.log.gz -l a.log
  cat a.log | flashproof latency server -h read -f head -l - --format csv

A name that is not there is told with those that are. What the columns mean: docs/loglatency.md.";

fn from_one(text: &str) -> Result<usize, String> {
    text.trim().parse().ok().filter(|number| *number > 0).ok_or_else(|| "give a whole number from 1".to_owned())
}

/// Reads the options of asloglatency, or exits as it does.
pub(super) fn parse_as_asloglatency(arguments: Vec<OsString>) -> LogLatencyArgs {
    let command = AsCli::command().after_help(super::help::laid_out(EXAMPLES));
    let matches = command.try_get_matches_from(arguments);
    match matches.and_then(|matches| AsCli::from_arg_matches(&matches)) {
        Ok(cli) => cli.args,
        Err(error) => super::exit_as_act(&error),
    }
}

/// What `-f` says.
pub fn from(text: &str) -> Result<From, String> {
    let trimmed = text.trim();
    match trimmed {
        "head" => return Ok(From::Head),
        "tail" => return Ok(From::Tail),
        _ => {}
    }
    if trimmed.starts_with('-') {
        let seconds = sizing::loglatency::seconds(trimmed.trim_matches(['-', ' ']));
        return seconds.map(From::Before).ok_or_else(|| format!("can't parse relative start time {text}"));
    }
    let forms = ["%b %d %Y %H:%M:%S", "%B %d %Y %H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"];
    let at = forms.iter().find_map(|form| jiff::civil::DateTime::strptime(form, trimmed).ok());
    at.map(From::At).ok_or_else(|| format!("can't parse absolute start time {text}"))
}
