//! `flashproof latency`: tables of latencies from logs and run directories, and judgements of them.
//!
//! The output of ACT's script goes to standard output, including its error messages. Additional information (left-out
//! or damaged data, advice) goes to standard error.

pub mod options;
pub mod server;

use crate::commands::latency::options::{ACT_USAGE, Format, LatencyArgs};
use report::latency::json;
use report::latency::run::{self, RunLatencies};
use report::latency::sla::{self, Judgement, UnjudgedError};
use report::latency::table::{self, BUCKETS, TableOptions};
use results::act_log::{Input, LogReadError};
use results::files::Links;
use results::format::quoted;
use results::judge::Outcome;
use results::run_dir::{self, ACT_LOG, Manifest};
use results::sliced_log::{LogReader, SlicedLog, SlicedLogError, common_slice_sec};
use session::failure::Failure;
use session::{console, user_file};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

pub(super) struct TableError {
    /// Text that the imitated program prints to standard output on this error.
    pub(super) imitated_output: String,
    pub(super) failure: Failure,
}

impl From<Failure> for TableError {
    fn from(failure: Failure) -> Self {
        Self {
            imitated_output: String::new(),
            failure,
        }
    }
}

impl From<SlicedLogError> for TableError {
    fn from(error: SlicedLogError) -> Self {
        let failure = match error {
            SlicedLogError::Read { .. } | SlicedLogError::Interval { .. } => {
                Failure::environment(&error)
            }
            _ => Failure::usage(&error),
        };
        Self {
            imitated_output: table::error_in_acts_words(&error),
            failure,
        }
    }
}

impl From<UnjudgedError> for TableError {
    fn from(error: UnjudgedError) -> Self {
        Failure::usage(&error).into()
    }
}

pub fn run(args: &LatencyArgs) -> Result<ExitCode, Failure> {
    let mut page = if args.format == Format::Table {
        table::command_line(&args.typed)
    } else {
        String::new()
    };
    let result = page_of(args, &mut page);
    if let (Err(stop), Format::Table) = (&result, args.format) {
        page += &stop.imitated_output;
    }
    let print_result = console::result(&page);
    let outcome = result.map_err(|stop| stop.failure)?;
    print_result?;
    Ok(ExitCode::from(outcome.map_or(0, Outcome::exit_code)))
}

struct Opened<'a> {
    path: &'a Path,
    source: LogReader<'static>,
    /// `None` unless the counts of a run directory include the thresholds of the SLA.
    judgement: Option<Judgement>,
}

impl Opened<'_> {
    fn is_run(&self) -> bool {
        self.path.is_dir()
    }
}

/// Appends the tables to `page`, up to an error if there is one. Returns the worst outcome if an SLA was given.
fn page_of(args: &LatencyArgs, page: &mut String) -> Result<Option<Outcome>, TableError> {
    let table_options = choice(args)?;
    let mut opened = args
        .logs
        .iter()
        .map(|name| open(name, args, &table_options))
        .collect::<Result<Vec<_>, _>>()?;
    let intervals: Vec<u64> = opened.iter().map(|log| log.source.interval_sec).collect();
    let slice_sec = common_slice_sec(table_options.slice_sec, &intervals)?;
    let mut logs = Vec::new();
    let mut runs = Vec::new();
    let mut judgements = Vec::new();
    for (name, opened) in args.logs.iter().zip(&mut opened) {
        let (log, judgement) = read(name, opened, args, &table_options, slice_sec)?;
        print_remarks(&log, opened);
        judgements.extend(judgement);
        let run = opened
            .is_run()
            .then(|| RunLatencies::read(opened.path))
            .transpose()
            .map_err(Failure::environment)?;
        run.iter()
            .flat_map(|run| &run.remarks)
            .for_each(|remark| console::warning(remark));
        runs.push(run);
        logs.push(log);
    }
    append(page, args.format, &table_options, &logs, &runs, &judgements)?;
    if let Some(log) = logs.iter().find(|log| log.damage.is_some()) {
        return Err(damaged(log, &logs, args.format).into());
    }
    let damage = args
        .logs
        .iter()
        .zip(&runs)
        .find_map(|(name, run)| Some((name, run.as_ref()?.damage.first()?)));
    if let Some((name, damage)) = damage {
        return Err(Failure::environment(format!(
            "cannot read all of {name} - {damage} - use an intact copy"
        ))
        .into());
    }
    if !logs.iter().any(SlicedLog::has_slices) {
        return Err(no_slices(&logs, slice_sec));
    }
    Ok(judgements.iter().map(|judgement| judgement.outcome).max())
}

/// The options, checked in the order and with the bounds of ACT's script.
fn choice(args: &LatencyArgs) -> Result<TableOptions, TableError> {
    let refused = |words: &str, why: String| TableError {
        imitated_output: words.to_owned(),
        failure: Failure::usage(why),
    };
    let slice = args
        .slice
        .as_ref()
        .map(|text| whole_number("-t", text))
        .transpose()?;
    let first = whole_number("-s", &args.start_bucket)?;
    let count = whole_number("-n", &args.num_buckets)?;
    let every = whole_number("-e", &args.every_nth)?;
    if args.logs.is_empty() {
        return Err(refused(
            ACT_USAGE,
            "no log is given - give -l LOG (see --help)".to_owned(),
        ));
    }
    let slice = slice.unwrap_or_else(|| default_slice_sec(&args.logs).into());
    let buckets_text = format!("non-negative and less than {BUCKETS}");
    let bounds = [
        (slice >= 1, "-t", slice, "slice must be", "more than 0"),
        (
            (0..BUCKETS as i128).contains(&first),
            "-s",
            first,
            "start_bucket must be",
            buckets_text.as_str(),
        ),
        (
            count >= 1,
            "-n",
            count,
            "num_buckets must be",
            "more than 0",
        ),
        (every >= 1, "-e", every, "every_nth must be", "more than 0"),
    ];
    if let Some((_, option, value, subject, bound)) =
        bounds.into_iter().find(|(is_within, ..)| !is_within)
    {
        return Err(refused(
            &format!("{subject} {bound}\n"),
            format!("cannot use {option} {value} - {subject} {bound}"),
        ));
    }
    let Ok(slice_sec) = u64::try_from(slice) else {
        return Err(Failure::usage(format!(
            "cannot use -t {slice} - it is over {} s - give a shorter slice",
            u64::MAX
        ))
        .into());
    };
    let at_most = |value: i128| usize::try_from(value).unwrap_or(usize::MAX);
    Ok(TableOptions {
        slice_sec,
        histograms: args.histograms.clone(),
        first_bucket: at_most(first),
        buckets_max: at_most(count),
        every_nth: at_most(every),
        extra: args.extra,
    })
}

fn whole_number(option: &str, text: &str) -> Result<i128, Failure> {
    integer(text).ok_or_else(|| {
        Failure::usage(format!(
            "cannot use {option} {} - it is not a whole number - give a whole number",
            quoted(text)
        ))
    })
}

/// Default length of a slice. If each of `logs` belongs to a run (a run directory, or one of several logs in a run
/// directory), the default is the shortest slice of these runs. Otherwise the default is an hour, as in ACT's script.
fn default_slice_sec(logs: &[String]) -> u64 {
    let run_slices = logs
        .iter()
        .map(|name| run::slice_sec(Path::new(name)))
        .collect::<Option<Vec<_>>>();
    run_slices
        .and_then(|own| own.into_iter().min())
        .unwrap_or(3_600)
}

/// Parses an integer as Python does: surrounding blanks, a sign, single underscores between digits. A number too large
/// for 128 bits becomes the largest.
fn integer(text: &str) -> Option<i128> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let grouped = digits
        .split('_')
        .all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()));
    let magnitude = digits
        .bytes()
        .filter(u8::is_ascii_digit)
        .fold(0_i128, |value, digit| {
            value
                .saturating_mul(10)
                .saturating_add((digit - b'0').into())
        });
    grouped.then_some(if negative { -magnitude } else { magnitude })
}

fn open<'a>(
    name: &'a str,
    args: &LatencyArgs,
    table_options: &TableOptions,
) -> Result<Opened<'a>, TableError> {
    let path = Path::new(name);
    let input = input_of(name, path).and_then(|bytes| {
        Input::new(bytes).map_err(|error| Failure::usage(format!("cannot read {name} - {error}")))
    });
    let input = input.map_err(|failure| TableError {
        imitated_output: format!("log file {name} not found\n"),
        failure,
    })?;
    let source = LogReader::open(name, input)?;
    let mut opened = Opened {
        path,
        source,
        judgement: None,
    };
    if let (Some(limits), true) = (&args.sla, opened.is_run()) {
        opened.judgement = run::judge(name, path, limits, table_options.slice_sec)
            .map_err(Failure::environment)?;
    }
    Ok(opened)
}

/// Opens a log: a file, the log of a run directory, or standard input.
fn input_of(name: &str, path: &Path) -> Result<Box<dyn Read>, Failure> {
    if !path.is_dir() {
        return user_file::open(name, "log", "-l -");
    }
    let manifest = run_dir::manifest(path).map_err(Failure::usage)?;
    if manifest.workloads.len() > 1 {
        return Err(Failure::usage(several_logs(path, &manifest)));
    }
    if manifest.kind() == "fio" {
        return Err(Failure::usage(format!(
            "cannot show tables of {name} - a run of fio jobs has no {ACT_LOG} - \"flashproof report {name}\" shows \
             its percentiles, and its shares over the limits of --sla"
        )));
    }
    user_file::open_file(&path.join(ACT_LOG), Links::Refused, "log", "-l -")
}

fn several_logs(dir: &Path, manifest: &Manifest) -> String {
    let logs = (0..manifest.workloads.len()).map(|at| dir.join(manifest.act_log_name(at)));
    let logs: Vec<String> = logs.map(|log| format!("-l {}", log.display())).collect();
    format!(
        "cannot read {} as one log - this run has several configurations, each with its own log - give one of {}, or \
         all",
        dir.display(),
        logs.join(", ")
    )
}

/// Reads a log to its end, in one pass for the table and the judgement.
fn read(
    name: &str,
    opened: &mut Opened<'_>,
    args: &LatencyArgs,
    table_options: &TableOptions,
    slice_sec: u64,
) -> Result<(SlicedLog, Option<Judgement>), TableError> {
    let judged_by_log = args.sla.as_ref().filter(|_| opened.judgement.is_none());
    let source = &mut opened.source;
    let edges = sla::edges(
        name,
        source.reader.scale(),
        &table_options.buckets(),
        judged_by_log,
    )?;
    let mut histograms = table_options.histograms.clone();
    if histograms.is_empty() {
        histograms.push(source.default_histogram());
    }
    let shown = histograms.len();
    if judged_by_log.is_some() && table_options.histograms.is_empty() {
        histograms.extend(sla::judged_names(
            name,
            source.reader.header(),
            source.reader.names(),
        )?);
    }
    let mut log = source.read(slice_sec, &histograms, &edges)?;
    let more = log.histograms.split_off(shown);
    let judged = if table_options.histograms.is_empty() {
        &more
    } else {
        &log.histograms
    };
    let judgement = judged_by_log.map(|limits| sla::judge(&log, judged, limits));
    Ok((log, judgement.or_else(|| opened.judgement.take())))
}

fn print_remarks(log: &SlicedLog, opened: &Opened<'_>) {
    for remark in log.remarks() {
        console::warning(&remark);
    }
    if opened.source.reader.input().is_cut() {
        console::warning(&format!(
            "{} is compressed and truncated: only the part before the end is shown",
            log.name
        ));
    }
}

fn append(
    page: &mut String,
    format: Format,
    table_options: &TableOptions,
    logs: &[SlicedLog],
    runs: &[Option<RunLatencies>],
    judgements: &[Judgement],
) -> Result<(), TableError> {
    let buckets = table_options.buckets();
    match format {
        Format::Table => {
            *page += &table::preamble(logs, runs, table_options.slice_sec);
            *page += &table::table(logs, table_options);
            for (log, run) in logs
                .iter()
                .zip(runs)
                .filter_map(|(log, run)| Some((log, run.as_ref()?)))
            {
                let name = if logs.len() > 1 {
                    format!("{}\n", log.name)
                } else {
                    String::new()
                };
                *page += &format!("\n{name}{run}");
            }
            if !judgements.is_empty() {
                page.push('\n');
            }
            judgements
                .iter()
                .for_each(|judgement| *page += &format!("{judgement}\n"));
        }
        Format::Csv => {
            *page += &table::csv(logs, runs, &buckets).map_err(Failure::environment)?;
            judgements
                .iter()
                .for_each(|judgement| console::note(&judgement.to_string()));
        }
        Format::Markdown => {
            *page += &table::markdown(logs, table_options);
            runs.iter()
                .flatten()
                .for_each(|run| *page += &format!("\n```\n{run}```\n"));
            judgements
                .iter()
                .for_each(|judgement| *page += &format!("\n{judgement}\n"));
        }
        Format::Json => {
            let document = json::document(logs, &buckets, runs, judgements);
            *page += &crate::output::json(&document)?;
        }
    }
    Ok(())
}

fn damaged(log: &SlicedLog, logs: &[SlicedLog], format: Format) -> Failure {
    let mut damage = log
        .damage
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    if let Some(LogReadError::Io { .. }) = log.damage {
        damage += &format!(
            "; the {} s before the damage are complete",
            log.complete_sec
        );
    }
    let shown = match (format, logs) {
        (Format::Json, _) => "the document shows",
        (_, [_]) => "the table shows",
        _ => "the tables show",
    };
    Failure::environment(format!(
        "cannot read all of {}, {damage}; {shown} the slices before the damage - use an intact copy, or cut the log \
         before that line",
        log.name
    ))
}

fn no_slices(logs: &[SlicedLog], slice_sec: u64) -> TableError {
    let failure = match logs {
        [log, ..]
            if logs.iter().all(|log: &SlicedLog| {
                log.histograms
                    .iter()
                    .all(|histogram| histogram.index.is_none())
            }) =>
        {
            Failure::usage(format!(
                "cannot show {} - it has none of the given histograms - see the names above",
                log.name
            ))
        }
        _ => {
            let complete = logs
                .iter()
                .map(|log| format!("{} is complete up to {} s", log.name, log.complete_sec));
            let complete: Vec<_> = complete.collect();
            Failure::usage(format!(
                "no slice of {slice_sec} s is complete: {} - give a shorter -t",
                complete.join(", ")
            ))
        }
    };
    TableError {
        imitated_output: table::no_slices(slice_sec),
        failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_as_python_reads_them() {
        for (text, value) in [("5", 5), (" 007 ", 7), ("-3", -3), ("+1_000", 1000)] {
            assert_eq!(integer(text), Some(value), "{text}");
        }
        assert_eq!(integer(&"9".repeat(60)), Some(i128::MAX));
        for text in ["", "-", "1e3", "0x10", "5s", "1__0", "_1", "- 1", "1.0"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }
}
