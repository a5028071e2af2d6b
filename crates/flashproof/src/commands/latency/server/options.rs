//! Options of `flashproof latency server`, also called as asloglatency.

use crate::commands::latency::options::{Format, LatencyArgs};
use crate::examples::lay_out_examples;
use crate::imitated::{exit_as_act, parse_as, program};
use clap::{ArgAction, Args};
use sizing::loglatency::TableStart;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(disable_help_flag = true, args_override_self = true)]
pub struct LogLatencyArgs {
    /// Log of the server, plain or compressed by gzip or zstd; "-" for standard input. May be repeated: the rotated
    /// files of one node, in any order
    #[arg(
        short,
        long = "log",
        value_name = "LOG",
        default_value = "/var/log/aerospike/aerospike.log"
    )]
    logs: Vec<PathBuf>,
    /// As --log
    #[arg(value_name = "LOG", conflicts_with = "logs")]
    files: Vec<PathBuf>,
    /// Histogram to show: "{test}-read", "{test}-/dev/nvme0n1-read", or "read" for the sum of all namespaces
    #[arg(
        short = 'h',
        long = "histogram",
        value_name = "NAME",
        allow_hyphen_values = true
    )]
    pub histogram: Option<String>,
    /// Namespace of the histogram, if its name has none: -N test -h read
    #[arg(short = 'N', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Length of a slice: 3600 or 1:00:00
    #[arg(
        short = 't',
        long,
        value_name = "TIME",
        default_value = "10",
        allow_hyphen_values = true
    )]
    pub slice: String,
    /// Start: head, tail (5 minutes before the end), "Sep 22 2011 22:40:14", or a time before the end such as -3600 or
    /// -1:00:00
    #[arg(
        short = 'f',
        long,
        value_name = "TIME",
        default_value = "tail",
        allow_hyphen_values = true
    )]
    pub from: String,
    /// Length of the analysed time: 3600 or 1:00:00 [default: to the end]
    #[arg(short = 'd', long, value_name = "TIME", allow_hyphen_values = true)]
    pub duration: Option<String>,
    /// Number of thresholds to show
    #[arg(short = 'n', long, alias = "num_buckets", value_name = "N", default_value = "3", value_parser = from_one)]
    pub num_buckets: usize,
    /// Show the first threshold, then every n-th
    #[arg(short = 'e', long, alias = "every_nth", value_name = "N", default_value = "3", value_parser = from_one)]
    pub every_nth: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Print help
    #[arg(short = 'E', long, action = ArgAction::Help)]
    help: Option<bool>,
}

impl LogLatencyArgs {
    /// Given logs, or the default.
    pub fn logs(&self) -> &[PathBuf] {
        if self.files.is_empty() {
            &self.logs
        } else {
            &self.files
        }
    }

    /// Translates the options of `flashproof latency FILE` for a server's logs. Other options have asloglatency's
    /// defaults; the default histogram is the reads of all namespaces.
    ///
    /// Errors: an option that does not apply to these logs.
    pub fn from_args(args: &LatencyArgs) -> Result<Self, String> {
        Self::translated(args).map_err(|why| {
            format!(
                "cannot show a server's log - {why} - for the options see flashproof latency server --help"
            )
        })
    }

    fn translated(args: &LatencyArgs) -> Result<Self, String> {
        let histogram = match &args.histograms[..] {
            [] => "read".to_owned(),
            [one] => one.clone(),
            _ => return Err("-h selects one histogram, and cannot be repeated".to_owned()),
        };
        if args.extra || args.sla.is_some() || args.start_bucket != "0" {
            return Err("-s, -x and --sla apply only to logs of ACT and to runs".to_owned());
        }
        let defaults = parse_as_asloglatency(vec!["asloglatency".into()]);
        Ok(Self {
            logs: args.logs.iter().map(PathBuf::from).collect(),
            histogram: Some(histogram),
            slice: args.slice.clone().unwrap_or(defaults.slice.clone()),
            num_buckets: number_of_thresholds(&args.num_buckets)?,
            every_nth: number_of_thresholds(&args.every_nth)?,
            format: args.format,
            ..defaults
        })
    }
}

fn from_one(text: &str) -> Result<usize, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| "give a whole number from 1".to_owned())
}

/// Parses the options of asloglatency, or exits with its exit code.
pub fn parse_as_asloglatency(arguments: Vec<OsString>) -> LogLatencyArgs {
    let about = "Show a histogram of a server's log as asloglatency does: its options, its output, its exit status";
    let asloglatency = program::<LogLatencyArgs>("asloglatency", about)
        .after_help(lay_out_examples(include_str!("examples.txt")));
    parse_as(asloglatency, arguments).unwrap_or_else(exit_as_act)
}

/// Parses the value of `-f`.
pub fn from(text: &str) -> Result<TableStart, String> {
    let trimmed = text.trim();
    match trimmed {
        "head" => return Ok(TableStart::Head),
        "tail" => return Ok(TableStart::Tail),
        _ => {}
    }
    if trimmed.starts_with('-') {
        let seconds = sizing::loglatency::seconds(trimmed.trim_matches(['-', ' ']));
        return seconds
            .map(TableStart::Before)
            .ok_or_else(|| format!("can't parse relative start time {text}"));
    }
    let forms = [
        "%b %d %Y %H:%M:%S",
        "%B %d %Y %H:%M:%S",
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%dT%H:%M:%S",
    ];
    let at = forms
        .iter()
        .find_map(|form| jiff::civil::DateTime::strptime(form, trimmed).ok());
    at.map(TableStart::At)
        .ok_or_else(|| format!("can't parse absolute start time {text}"))
}

fn number_of_thresholds(text: &str) -> Result<usize, String> {
    from_one(text).map_err(|why| format!("{text} is not a number of thresholds: {why}"))
}
