//! Options of `flashproof latency`, also called as ACT's script.

use crate::commands::latency::server::options::LogLatencyArgs;
use crate::examples::lay_out_examples;
use crate::imitated::{parse_as, program};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use results::judge::Sla;
use std::ffi::OsString;

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The table of ACT's script, or of asloglatency for a server's log
    Table,
    /// One line per log, histogram, slice and threshold
    Csv,
    /// All numbers, with names
    Json,
    /// Tables for tickets and wikis
    Markdown,
}

pub const ACT_USAGE: &str = include_str!("act-usage.txt");

/// Parses the options of ACT's script. Errors are reported in the script's words.
pub fn parse_latency_as_act(arguments: Vec<OsString>) -> LatencyArgs {
    let typed = typed(&arguments, 1);
    match parse_as(
        acts_script().after_help(lay_out_examples(include_str!("examples.txt"))),
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

/// `flashproof latency`: tables from ACT's logs, runs and servers' logs. The content of a log shows its kind.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_flag = true
)]
pub struct LatencyCommand {
    /// Other logs
    #[command(subcommand)]
    pub other: Option<OtherLog>,
    /// Log of act_storage, act_index, flashproof or a server, plain or compressed; or a run directory
    #[arg(value_name = "FILE")]
    pub files: Vec<String>,
    #[command(flatten)]
    pub args: LatencyArgs,
}

/// A server's logs, with all options of asloglatency.
#[derive(Subcommand)]
pub enum OtherLog {
    /// Show a histogram of a server's log by slices of time, as asloglatency does
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("server/examples.txt")), disable_help_flag = true)]
    Server(LogLatencyArgs),
}

/// The arguments after the first `skipped` ones, as text.
pub fn typed(arguments: &[OsString], skipped: usize) -> Vec<String> {
    arguments
        .iter()
        .skip(skipped)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn option_errors_have_the_text_of_acts_script() {
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
