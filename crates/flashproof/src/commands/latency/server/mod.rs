//! `flashproof latency server`: tables of one histogram of a server's log, as asloglatency prints them.
//!
//! The table goes to standard output. Additional information (damage, a restart, available names) goes to standard
//! error. Called as asloglatency, the program prints its error messages on standard output, too.

pub mod options;

use super::TableError;
use crate::commands::latency::options::Format;
use crate::commands::latency::server::options::LogLatencyArgs;
use results::format::{printable, quoted};
use session::failure::Failure;
use session::{CompatMode, console};
use sizing::loglatency::{self, HistogramQuery, LatencyTable, ScanResult, TableStart};
use sizing::source::InputFile;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Command that reads a log from standard input.
const PIPED: &str = "flashproof latency server -l -";
const NAMES_SHOWN_MAX: usize = 60;

/// True if all `logs` are files that begin as a server's log.
pub fn are_of_server(logs: &[String]) -> bool {
    !logs.is_empty() && logs.iter().all(|log| is_of_server(Path::new(log)))
}

/// False for a directory and a pipe: a pipe could not be read again.
fn is_of_server(log: &Path) -> bool {
    log.is_file() && InputFile::open(log, PIPED).is_ok_and(loglatency::is_server_log)
}

pub fn run(args: &LogLatencyArgs, compat_mode: CompatMode) -> Result<ExitCode, Failure> {
    let mut page = String::new();
    let result = page_of(args, compat_mode, &mut page);
    if let Err(stop) = &result {
        match (compat_mode, args.format) {
            (CompatMode::Act, Format::Table) => page += &stop.imitated_output,
            _ => page.clear(),
        }
    }
    let print_result = console::result(&page);
    result.map_err(|stop| stop.failure)?;
    print_result?;
    Ok(ExitCode::SUCCESS)
}

fn page_of(
    args: &LogLatencyArgs,
    compat_mode: CompatMode,
    page: &mut String,
) -> Result<(), TableError> {
    let mut query = parse_request(args, compat_mode)?;
    let sources: Vec<InputFile> = session::failure::collect_all(
        args.logs().iter().map(|log| InputFile::open(log, PIPED)),
        Failure::usage,
    )?;
    let names: Vec<String> = args
        .logs()
        .iter()
        .map(|log| log.display().to_string())
        .collect();
    if args.format == Format::Table {
        *page += &query.title(&names.join(", "));
    }
    query.start = options::from(&args.from).map_err(|words| {
        refused(words, "give head, tail, a time like 'Sep 22 2011 22:40:14', or -3600 for an hour before the end")
    })?;
    let scan_result = loglatency::scan(sources, &query).map_err(Failure::usage)?;
    scan_result
        .remarks
        .iter()
        .for_each(|remark| console::warning(remark));
    let table = loglatency::table(&scan_result, &query);
    for (gaps, text) in [
        (
            &table.restarts,
            "the server restarted between {}: its counts begin at 0 again",
        ),
        (
            &table.clock_steps,
            "the clock of the server was set between {}: the interval of its histograms changed",
        ),
    ] {
        if let [(after, until), rest @ ..] = &gaps[..] {
            let message = text.replace("{}", &format!("{after} and {until}"));
            let effect = if query.as_asloglatency {
                "that slice is wrong"
            } else {
                "no slice spans this time"
            };
            let more = if rest.is_empty() {
                String::new()
            } else {
                format!(", and {} more such gaps", rest.len())
            };
            console::warning(&format!("{message}; {effect}{more}"));
        }
    }
    if args.format == Format::Table {
        *page += &table.asked_from_line();
    }
    if table.from.is_none() {
        let in_its_words = format!(
            "can't find histogram {} from start time {}\n",
            query.histogram, args.from
        );
        return Err(TableError {
            imitated_output: in_its_words,
            failure: Failure::usage(missing_histogram(&scan_result, &query, &table, &names)),
        });
    }
    match args.format {
        Format::Table => *page += &table.to_string(),
        Format::Csv => csv(&table, page),
        Format::Markdown => markdown(&table, page),
        Format::Json => {
            *page += &crate::output::json(&table)?;
        }
    }
    if table.slices.is_empty() {
        let why = format!(
            "no slice of {} s is complete: {} of {} from {} to {} - {}",
            query.slice_sec,
            results::format::count(scan_result.number() as u64, "histogram"),
            names.join(", "),
            table.from.unwrap_or_default(),
            scan_result.tail.unwrap_or_default(),
            scan_result.no_slice_advice(&table, &query)
        );
        // Not an error for asloglatency.
        if compat_mode == CompatMode::Native {
            return Err(Failure::usage(why).into());
        }
        console::warning(&why);
    }
    Ok(())
}

/// asloglatency's message, and the remedy.
fn refused(words: String, why: &str) -> TableError {
    TableError {
        failure: Failure::usage(format!("{words} - {why}")),
        imitated_output: format!("{words}\n"),
    }
}

fn parse_request(
    args: &LogLatencyArgs,
    compat_mode: CompatMode,
) -> Result<HistogramQuery, TableError> {
    let Some(histogram) = args.histogram.clone() else {
        let why = "no histogram is given - give -h NAME, such as -h '{test}-read'; an unknown NAME lists the available ones";
        return Err(Failure::usage(why).into());
    };
    let time = |text: &str| loglatency::seconds(text).filter(|seconds| *seconds > 0);
    const TIME: &str = "give seconds or hours:minutes:seconds, like 3600 or 1:00:00";
    let slice_sec = time(&args.slice)
        .ok_or_else(|| refused(format!("invalid slice time {}", args.slice), TIME))?;
    let duration =
        |text: &String| time(text).ok_or_else(|| refused(format!("invalid duration {text}"), TIME));
    Ok(HistogramQuery {
        histogram,
        namespace: args.namespace.clone(),
        slice_sec,
        start: TableStart::Head,
        duration_sec: args.duration.as_ref().map(duration).transpose()?,
        buckets: args.num_buckets,
        threshold_step: args.every_nth,
        as_asloglatency: compat_mode == CompatMode::Act,
    })
}

fn missing_histogram(
    scan_result: &ScanResult,
    query: &HistogramQuery,
    table: &LatencyTable,
    logs: &[String],
) -> String {
    let name = match &query.namespace {
        Some(namespace) => format!("{{{namespace}}}-{}", query.histogram),
        None => query.histogram.clone(),
    };
    let logs = logs.join(", ");
    let head = scan_result.head.unwrap_or_default();
    let tail = scan_result.tail.unwrap_or_default();
    if scan_result.number() > 0 && query.start == TableStart::Head {
        return format!(
            "cannot show {} of {logs} - the log has {} of this name from {head} to {tail}, too few for a slice - {}",
            quoted(&name),
            results::format::count(scan_result.number() as u64, "complete histogram"),
            scan_result.no_slice_advice(table, query)
        );
    }
    if scan_result.number() > 0 {
        let from = table
            .asked_from
            .map_or_else(|| "its start".to_owned(), |from| from.to_string());
        let tail_hint = if query.start == TableStart::Tail {
            "; without -f the last 5 minutes are shown"
        } else {
            ""
        };
        return format!(
            "cannot show {} of {logs} - the log has none from {from} on; the log spans {head} to {tail}{tail_hint} - give \
             -f head",
            quoted(&name)
        );
    }
    if scan_result.names.is_empty() {
        return format!(
            "cannot show {} of {logs} - the log, from {head} to {tail}, has no histograms at all - the server logs \
             histograms of transactions after the first transaction, and histograms of storage after \"asadm -e \
             'enable; manage config namespace NS storage-engine param enable-benchmarks-storage to true'\"",
            quoted(&name)
        );
    }
    let bare = |text: &str| text.replace(['{', '}'], "");
    let similar_name = scan_result
        .names
        .iter()
        .find(|known| bare(known) == bare(&query.histogram) || bare(known) == bare(&name));
    let hint = match similar_name {
        Some(meant) => format!(
            "did you mean -h '{meant}'? (quotes keep the shell from removing the braces) - "
        ),
        None => String::new(),
    };
    let names: Vec<_> = scan_result
        .names
        .iter()
        .take(NAMES_SHOWN_MAX)
        .map(|name| printable(name))
        .collect();
    let more = match scan_result.names.len() - names.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let names = names.join(", ");
    format!(
        "cannot show {} of {logs} - there is no such histogram - {hint}the log has {names}{more}",
        quoted(&name)
    )
}

/// A line per slice and threshold.
fn csv(table: &LatencyTable, page: &mut String) {
    page.push_str("histogram,from,to,seconds,ops_per_sec,over,unit,percent\n");
    let mut from = table.from.unwrap_or_default();
    for slice in &table.slices {
        // After a restart of the server, a slice begins later than the previous slice ended.
        from = from.max(
            slice
                .to
                .saturating_sub(jiff::SignedDuration::from_secs(slice.seconds)),
        );
        let name = table.histogram.replace('"', "\"\"");
        for (threshold, pct) in table.thresholds.iter().zip(&slice.pct_over) {
            let LatencyTable { unit, .. } = table;
            let _ = writeln!(
                page,
                "\"{name}\",{from},{},{},{},{threshold},{unit},{pct}",
                slice.to, slice.seconds, slice.ops_per_sec
            );
        }
        from = slice.to;
    }
}

fn markdown(table: &LatencyTable, page: &mut String) {
    let thresholds = table
        .thresholds
        .iter()
        .map(|threshold| format!("| % > {threshold} {} ", table.unit));
    let _ = writeln!(
        page,
        "| {} | s {}| ops/s |",
        table.histogram,
        thresholds.collect::<String>()
    );
    let _ = writeln!(
        page,
        "|---|---{}|---|",
        "|---".repeat(table.thresholds.len())
    );
    for slice in &table.slices {
        let cells = cells(&slice.pct_over, slice.ops_per_sec);
        let _ = writeln!(page, "| {} | {} {cells}", slice.to, slice.seconds);
    }
    for (label, all) in [("avg", &table.average), ("max", &table.largest)] {
        if let Some((pct, rate)) = all {
            let _ = writeln!(page, "| {label} |  {}", cells(pct, *rate));
        }
    }
}

/// The end of a row: percent over each threshold, and operations per second.
fn cells(pct_over: &[f64], ops_per_sec: f64) -> String {
    let pct_over: String = pct_over.iter().map(|pct| format!("| {pct:.2} ")).collect();
    format!("{pct_over}| {ops_per_sec:.1} |")
}
