//! The options of commands that show recorded data: `flashproof report`, `latency` (also called as ACT's script or as
//! asloglatency), and `trace`.

use super::help::lay_out_examples;
use super::{OtherReport, exit_as_act, number, parse_as, parse_named_dir, positive, program};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args, ValueEnum};
use report::comparison::{CandidateDir, Endurance, OperatorData};
use results::judge::Sla;
use sizing::loglatency::TableStart;
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of a report.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ReportArgs {
    /// Another view
    #[command(subcommand)]
    pub other: Option<OtherReport>,
    /// Directories of runs or of series; or the directory of a campaign
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    #[command(flatten)]
    pub form: FormArgs,
    /// For a campaign: replace the names of drives and hosts by stable pseudonyms, for sharing
    #[arg(long)]
    pub anonymous: bool,
    /// Write all data as Parquet files into this directory, for SQL (docs/data.md); exit code: 0 if all was read,
    /// else 3
    #[arg(long, value_name = "OUTDIR", conflicts_with_all = ["html", "json", "markdown", "anonymous"], hide = cfg!(not(feature = "export")))]
    pub parquet: Option<PathBuf>,
    /// With --parquet: replace an earlier export
    #[arg(long, requires = "parquet", hide = cfg!(not(feature = "export")))]
    pub force: bool,
}

/// Output formats of a result, other than text.
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

/// Options of a comparison.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Directories of runs or of series (certify, rate), each as DIR or NAME=DIR
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
}

/// Endurance ratings and prices of drives, which no run records.
#[derive(Args, Debug)]
pub struct GivenArgs {
    /// Rated drive writes per day; NAME is the name of a candidate or of a device
    #[arg(long, value_name = "NAME=N", value_parser = number)]
    pub dwpd: Vec<(String, f64)>,
    /// Rated terabytes written
    #[arg(long, value_name = "NAME=TB", value_parser = number)]
    pub tbw: Vec<(String, f64)>,
    /// Price of one drive; all prices are in the same currency
    #[arg(long, value_name = "NAME=PRICE", value_parser = number)]
    pub price: Vec<(String, f64)>,
}

impl GivenArgs {
    /// The options as values, with drive writes per day rated for `warranty_years`. If a name has ratings of both
    /// kinds, the terabytes count, as in a warranty.
    pub fn given(&self, warranty_years: f64) -> OperatorData {
        let Self { dwpd, tbw, price } = self;
        let dwpd = dwpd
            .iter()
            .filter(|(name, _)| tbw.iter().all(|(other, _)| other != name));
        let dwpd = dwpd.map(|(name, n)| (name.clone(), Endurance::DriveWritesPerDay(*n)));
        let tbw = tbw
            .iter()
            .map(|(name, tb)| (name.clone(), Endurance::TerabytesWritten(*tb)));
        OperatorData {
            endurance: dwpd.chain(tbw).collect(),
            prices: price.clone(),
            warranty_years,
        }
    }
}

/// Options of a status.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Directories of runs or of series (certify, rate), running or finished
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Refresh each second until all runs and series have ended
    #[arg(long, short)]
    pub watch: bool,
    /// Print as JSON, one document per directory; with --watch one line per directory at every refresh
    #[arg(long)]
    pub json: bool,
}

/// Options of latency tables. Long options have underscores, as in ACT's script.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    infer_long_args = true,
    args_override_self = true,
    rename_all = "snake_case"
)]
pub struct LatencyArgs {
    /// Log of act_storage, act_index or flashproof, plain or compressed by gzip or zstd; a run directory; "-" for
    /// standard input. May be repeated: the logs are shown side by side
    #[arg(short, long = "log", value_name = "LOG", allow_hyphen_values = true)]
    pub logs: Vec<String>,
    /// Histogram to show, one of HISTOGRAM NAMES in the log; may be repeated [default: reads]
    #[arg(
        short = 'h',
        long = "histogram",
        value_name = "NAME",
        allow_hyphen_values = true
    )]
    pub histograms: Vec<String>,
    /// Length of a slice in seconds, rounded up to whole report intervals [default: 3600; for run directories the
    /// slice of the run]
    #[arg(short = 't', long, value_name = "SECONDS", allow_hyphen_values = true)]
    pub slice: Option<String>,
    /// First threshold to show: N stands for 2^N units of the log (0: 1 ms, 3: 8 ms), up to 16
    #[arg(
        short,
        long,
        alias = "start-bucket",
        value_name = "N",
        default_value = "0",
        allow_hyphen_values = true
    )]
    pub start_bucket: String,
    /// Number of thresholds to show
    #[arg(
        short,
        long,
        alias = "num-buckets",
        value_name = "N",
        default_value = "7",
        allow_hyphen_values = true
    )]
    pub num_buckets: String,
    /// Show the first threshold, then every n-th
    #[arg(
        short,
        long,
        alias = "every-nth",
        value_name = "N",
        default_value = "1",
        allow_hyphen_values = true
    )]
    pub every_nth: String,
    /// Also show operations per second
    #[arg(short = 'x', long)]
    pub extra: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Judge by these limits, and by the load and duration in the header: a pass or fail line at the end, exit code 1 on
    /// fail
    #[arg(long, value_name = "LIMITS")]
    pub sla: Option<Sla>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Arguments as typed, for the first line of a table
    #[arg(skip)]
    pub typed: Vec<String>,
}

/// Output formats of a latency table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// ACT's table
    Table,
    /// One line per log, histogram, slice and threshold
    Csv,
    /// All numbers, with names
    Json,
    /// Tables for tickets and wikis
    Markdown,
}

/// Usage text of ACT's script.
pub const ACT_USAGE: &str = include_str!("examples/act-latency-usage.txt");

/// Parses the options of ACT's script. Errors are reported in the script's words.
pub(super) fn parse_latency_as_act(arguments: Vec<OsString>) -> LatencyArgs {
    let typed = typed(&arguments, 1);
    match parse_as(
        acts_script().after_help(lay_out_examples(include_str!("examples/latency.txt"))),
        arguments,
    ) {
        Ok(args) => LatencyArgs { typed, ..args },
        Err(error) => refuse_as_act(&error, &typed),
    }
}

fn acts_script() -> clap::Command {
    let about =
        "Show latency tables as ACT's script does: its options, its output, its exit status";
    program::<LatencyArgs>("act_latency.py", about)
}

/// The arguments after the first `skipped` ones, as text.
pub(super) fn typed(arguments: &[OsString], skipped: usize) -> Vec<String> {
    arguments
        .iter()
        .skip(skipped)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect()
}

/// Prints help as clap does, but errors on standard output, as the script does.
fn refuse_as_act(error: &clap::Error, typed: &[String]) -> ! {
    if !error.use_stderr() {
        // Write errors are ignored: the terminal may be closed.
        let _ = error.print();
        std::process::exit(0);
    }
    let _ = session::console::result(&format!(
        "{}{}\n{}",
        report::latency::table::command_line(typed),
        in_acts_words(error, typed),
        ACT_USAGE
    ));
    std::process::exit(session::failure::ACT_FAILURE.into())
}

fn in_acts_words(error: &clap::Error, typed: &[String]) -> String {
    let name = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) => {
            name.split([' ', '=']).next().unwrap_or(name).to_owned()
        }
        _ => String::new(),
    };
    let no_value = matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
    match error.kind() {
        ErrorKind::UnknownArgument if name.starts_with('-') => {
            format!("option {name} not recognized")
        }
        ErrorKind::InvalidValue if no_value => {
            format!(
                "option {} requires argument",
                short_as_typed(&name, typed).unwrap_or(name)
            )
        }
        _ => error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned(),
    }
}

/// Short form of the option `long`, if the user typed the short form: clap always reports the long form. An option
/// without its value is the last argument, or the last letter of the last argument.
fn short_as_typed(long: &str, typed: &[String]) -> Option<String> {
    let command = acts_script();
    let option = command
        .get_arguments()
        .find(|option| option.get_long() == long.strip_prefix("--"))?;
    let letter = option.get_short()?;
    let last = typed
        .last()
        .filter(|last| last.starts_with('-') && !last.starts_with("--"))?;
    last.ends_with(letter).then(|| format!("-{letter}"))
}

/// Options of tables of a server's log.
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
    pub logs: Vec<PathBuf>,
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
    /// Translates the options of `flashproof latency FILE` for a server's logs. Other options have asloglatency's
    /// defaults; the default histogram is the reads of all namespaces.
    ///
    /// Errors: an option that does not apply to these logs.
    pub fn of(args: &LatencyArgs) -> Result<Self, String> {
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

fn number_of_thresholds(text: &str) -> Result<usize, String> {
    from_one(text).map_err(|why| format!("{text} is not a number of thresholds: {why}"))
}

fn from_one(text: &str) -> Result<usize, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| "give a whole number from 1".to_owned())
}

/// Parses the options of asloglatency, or exits with its exit code.
pub(super) fn parse_as_asloglatency(arguments: Vec<OsString>) -> LogLatencyArgs {
    let about = "Show a histogram of a server's log as asloglatency does: its options, its output, its exit status";
    let asloglatency = program::<LogLatencyArgs>("asloglatency", about).after_help(
        lay_out_examples(include_str!("examples/latency-server.txt")),
    );
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

/// Options of a trace.
#[derive(Args, Debug)]
pub struct TraceArgs {
    /// Block devices to trace; with --from, device numbers such as 259,0 [default with --from: all]
    #[arg(value_name = "DEVICE", required_unless_present = "from")]
    pub devices: Vec<String>,
    /// Duration: a number of seconds, 5m, 1h [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", conflicts_with = "from", allow_hyphen_values = true, value_parser = super::seconds)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_before_directories_and_numbers() {
        assert_eq!(
            parse_named_dir("a=b/c"),
            Ok(CandidateDir {
                name: Some("a".into()),
                dir: "b/c".into()
            })
        );
        assert_eq!(
            parse_named_dir("b/c"),
            Ok(CandidateDir {
                name: None,
                dir: "b/c".into()
            })
        );
        assert_eq!(
            number("sim:capacity=1GiB=3"),
            Ok(("sim:capacity=1GiB".into(), 3.0))
        );
        for text in ["a", "=3", "a=", "a=-1", "a=0", "a=nan", "a=inf", "a=x"] {
            assert!(number(text).is_err(), "{text}");
        }
    }

    fn parse(arguments: &[&str]) -> Result<LatencyArgs, String> {
        let typed: Vec<String> = arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect();
        let words = std::iter::once("act_latency.py").chain(arguments.iter().copied());
        let words = words.map(Into::into).collect();
        parse_as(acts_script(), words).map_err(|error| in_acts_words(&error, &typed))
    }

    #[test]
    fn options_are_those_of_acts_script() {
        let args = parse(&[
            "-l",
            "a",
            "-xt5",
            "--hist",
            "reads",
            "-h",
            "-writes",
            "--num_buckets=3",
            "-n",
            "-4",
        ])
        .unwrap();
        assert_eq!(
            (args.logs, args.histograms),
            (
                vec!["a".to_owned()],
                vec!["reads".to_owned(), "-writes".to_owned()]
            )
        );
        assert_eq!(
            (args.slice.as_deref(), args.num_buckets.as_str(), args.extra),
            (Some("5"), "-4", true)
        );
    }

    #[test]
    fn mistakes_are_told_in_the_words_of_acts_script() {
        assert_eq!(parse(&["-z"]).unwrap_err(), "option -z not recognized");
        assert_eq!(
            parse(&["--nonsense=3"]).unwrap_err(),
            "option --nonsense not recognized"
        );
        assert_eq!(parse(&["-l"]).unwrap_err(), "option -l requires argument");
        assert_eq!(
            parse(&["-l", "x", "-xh"]).unwrap_err(),
            "option -h requires argument"
        );
        assert_eq!(
            parse(&["--hist"]).unwrap_err(),
            "option --histogram requires argument"
        );
        // If the empty value of an option is refused, the last argument can be another option.
        assert_eq!(
            parse(&["--format=", "-x"]).unwrap_err(),
            "option --format requires argument"
        );
    }
}
