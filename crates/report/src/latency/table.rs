//! The table for a terminal, as ACT's `act_latency.py` prints it: to the byte, for one log.
//!
//! As in the script, percentages are rounded to hundredths and rates to tenths before they are averaged: the average
//! line matches the lines above it. Unknown values are dashes: a histogram that the log does not have, or a percentage
//! of no operations. ACT's script prints both as 0.00.
//!
//! Markdown, for tickets and wikis, averages unrounded numbers. CSV has unrounded numbers.

use super::run::RunLatencies;
use crate::table::{Cell, Table, escaped};
use results::act_log::{DERIVED_TITLE, HeaderPart, LogReadError, NAMES_TITLE};
use results::buckets::ActScale;
use results::sliced_log::{LogSlice, SlicedHistogram, SlicedLog, SlicedLogError};

const GAP: &str = "  ";
const SLICE: &str = "slice";

/// Number of buckets that ACT's script knows, of the 65 that a log can have: up to "longer than 65,536 units".
pub const BUCKETS: usize = 17;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOptions {
    /// Requested length of a slice, seconds, at least 1.
    pub slice_sec: u64,
    /// Names of the histograms; empty for the log's reads.
    pub histograms: Vec<String>,
    /// The first bucket shown, below [`BUCKETS`].
    pub first_bucket: usize,
    /// Maximum number of buckets shown, at least 1.
    pub buckets_max: usize,
    /// Distance between two buckets shown, at least 1.
    pub every_nth: usize,
    /// True to show rates, too.
    pub extra: bool,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            slice_sec: 3600,
            histograms: Vec::new(),
            first_bucket: 0,
            buckets_max: 7,
            every_nth: 1,
            extra: false,
        }
    }
}

impl TableOptions {
    /// The buckets shown, ascending. Bucket `b` stands for "longer than 2^b units".
    pub fn buckets(&self) -> Vec<usize> {
        (self.first_bucket..BUCKETS)
            .step_by(self.every_nth.max(1))
            .take(self.buckets_max)
            .collect()
    }
}

/// The first line: the arguments, as they were typed.
pub fn command_line(arguments: &[String]) -> String {
    format!("act_latency.py {}\n", arguments.join(" "))
}

/// The second line of ACT's output: name and version of the log. An empty line follows.
fn version_line(name: &str, version: &str) -> String {
    format!("{name} is ACT version {version}\n\n")
}

/// The line that names the program of a log: for a run directory flashproof, for a log ACT, as in ACT's output.
fn origin_line((log, run): (&SlicedLog, &Option<RunLatencies>)) -> String {
    let version = &log.header.act_version;
    match run {
        Some(_) => format!(
            "{} is a run of flashproof, in the format of ACT version {version}\n\n",
            log.name
        ),
        None => version_line(&log.name, version),
    }
}

/// Text that ACT's script prints for this error before it exits, for parsers; empty if the script continues or crashes.
pub fn error_in_acts_words(error: &SlicedLogError) -> String {
    let (log, version, message) = match error {
        SlicedLogError::Read {
            log,
            source: LogReadError::Version { version, .. },
        } => (log, version, format!("{log} ACT version not compatible")),
        SlicedLogError::Read {
            log,
            source: LogReadError::Header { part, version, .. },
        } => {
            let lacks = match part {
                HeaderPart::Version => return format!("{log} ACT version not found\n"),
                HeaderPart::Configuration => "report interval",
                HeaderPart::Derived => "derived configuration",
                HeaderPart::Names => "histogram names",
            };
            (log, version, format!("can't find {lacks}"))
        }
        SlicedLogError::Interval {
            log,
            version,
            found,
        } if found == "\"0\"" => (
            log,
            version,
            "reporting interval must be more than 0".to_owned(),
        ),
        SlicedLogError::Interval { log, version, .. } => {
            (log, version, "can't find report interval".to_owned())
        }
        _ => return String::new(),
    };
    format!("{}{message}\n", version_line(log, version))
}

/// Text between the line with the arguments and the table: the log, its configuration, derived rates and names.
/// Several logs are numbered, and their configurations left out. `asked_sec` is the requested length of a slice.
pub fn preamble(logs: &[SlicedLog], runs: &[Option<RunLatencies>], asked_sec: u64) -> String {
    let lines: Vec<String> = logs.iter().zip(runs).map(origin_line).collect();
    let mut text = match &lines[..] {
        [line] => line.clone(),
        [] => String::new(),
        several => {
            let numbered = (1..).zip(several);
            let lines = numbered
                .map(|(number, line)| format!("[{number}] {}\n", line.trim_end_matches('\n')));
            lines.collect::<String>() + "\n"
        }
    };
    if logs
        .iter()
        .any(|log| log.header.configured("microsecond-histograms").is_none())
    {
        text += "can't find histograms' scale, assuming milliseconds\n";
    }
    if let Some(log) = logs.first().filter(|log| log.slice_sec != asked_sec) {
        text += &format!("analyzing time slices of {} seconds\n", log.slice_sec);
    }
    if let [log] = logs {
        text += &header_blocks(log);
    }
    text
}

fn header_blocks(log: &SlicedLog) -> String {
    let header = &log.header;
    let names = if header.histogram_names.is_empty() {
        &log.names
    } else {
        &header.histogram_names
    };
    let names: String = names
        .iter()
        .map(|name| format!("{}\n", name.trim()))
        .collect();
    header_block(header.test.configuration_title(), &header.configuration)
        + &header_block(DERIVED_TITLE, &header.derived_rates)
        + &format!("{NAMES_TITLE}\n{names}\n")
}

fn header_block(title: &str, lines: &[(String, String)]) -> String {
    let lines: String = lines
        .iter()
        .map(|(name, value)| format!("{}\n", format!("{name}: {value}").trim()))
        .collect();
    format!("{title}\n{lines}\n")
}

pub fn no_slices(slice_sec: u64) -> String {
    format!("could not find {slice_sec} seconds of data\n")
}

/// A histogram of one log: a group of columns.
struct ColumnGroup<'a> {
    log: &'a SlicedLog,
    histogram: &'a SlicedHistogram,
    title: String,
    /// Blanks that make room for a preceding title that is longer than its columns.
    pad: String,
    /// Positions of the shown buckets, among the counts that the log keeps.
    edges: Vec<usize>,
}

/// The table: titles, a line for each slice, averages and maxima. The logs have slices of equal length; a log that
/// lacks a slice shows dashes. Without any slice, the table has only its titles.
pub fn table(logs: &[SlicedLog], choice: &TableOptions) -> String {
    let buckets = choice.buckets();
    let mut labels: String = buckets
        .iter()
        .map(|bucket| format!("{:>7}", 1_u64 << bucket))
        .collect();
    let mut underline = " ------".repeat(buckets.len());
    if choice.extra {
        labels += &format!("{:>11}", "rate");
        underline += " ----------";
    }
    let columns = columns(logs, &buckets, labels.len());
    let mut text = titles(&columns, &labels);
    let rule = rule(&columns, &underline);
    text += &rule;
    if !logs.iter().any(SlicedLog::has_slices) {
        return text;
    }
    let mut numbers: Vec<u64> = logs
        .iter()
        .flat_map(|log| log.slices.iter().copied())
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    for number in numbers {
        let cells = columns.iter().map(|column| {
            let position = column.log.slices.binary_search(&number).ok();
            column.cells(position.and_then(|position| column.log.slice(column.histogram, position)))
        });
        text += &line(&number.to_string(), &columns, cells, choice.extra);
    }
    text += &rule;
    let all: Vec<Vec<Cells>> = columns
        .iter()
        .map(|column| {
            let slices = column.log.slices_of(column.histogram);
            slices.map(|(_, slice)| column.cells(Some(slice))).collect()
        })
        .collect();
    text += &line(
        "avg",
        &columns,
        all.iter().map(|cells| summary(cells, average)),
        choice.extra,
    );
    text += &line(
        "max",
        &columns,
        all.iter().map(|cells| summary(cells, maximum)),
        choice.extra,
    );
    text
}

fn columns<'a>(logs: &'a [SlicedLog], buckets: &[usize], width: usize) -> Vec<ColumnGroup<'a>> {
    let mut columns: Vec<ColumnGroup<'a>> = Vec::new();
    for (index, log) in logs.iter().enumerate() {
        for histogram in &log.histograms {
            let number = if logs.len() > 1 {
                format!("[{}] ", index + 1)
            } else {
                String::new()
            };
            let previous_width = columns
                .last()
                .map_or(0, |column| 1 + column.title.chars().count());
            columns.push(ColumnGroup {
                log,
                histogram,
                title: number + &histogram.name,
                pad: " ".repeat(previous_width.saturating_sub(width)),
                edges: buckets
                    .iter()
                    .filter_map(|bucket| log.edge(*bucket))
                    .collect(),
            });
        }
    }
    columns
}

fn titles(columns: &[ColumnGroup<'_>], labels: &str) -> String {
    let width = labels.len();
    let blank = " ".repeat(SLICE.len());
    let mut names = blank.clone();
    let mut units = blank;
    let mut thresholds = SLICE.to_owned();
    for ColumnGroup {
        log, title, pad, ..
    } in columns
    {
        let unit = match log.scale {
            ActScale::Milliseconds => " %>(ms)",
            ActScale::Microseconds => " %>(us)",
        };
        names += &format!("{GAP} {title:<0$}", width - 1);
        units += &format!("{GAP}{pad}{unit:<width$}");
        thresholds += &format!("{GAP}{pad}{labels}");
    }
    format!("{names}\n{units}\n{thresholds}\n")
}

fn rule(columns: &[ColumnGroup<'_>], underline: &str) -> String {
    let groups = columns
        .iter()
        .map(|column| format!("{GAP}{}{underline}", column.pad));
    format!(
        "{}{}\n",
        "-".repeat(SLICE.len()),
        groups.collect::<String>()
    )
}

/// The numbers of one group of columns in one line, rounded as they are printed.
struct Cells {
    percents: Vec<Option<f64>>,
    rate: Option<f64>,
}

impl ColumnGroup<'_> {
    fn cells(&self, slice: Option<LogSlice<'_>>) -> Cells {
        Cells {
            percents: self
                .edges
                .iter()
                .map(|edge: &usize| {
                    slice
                        .and_then(|slice| slice.percent_over(*edge))
                        .map(|value| rounded(value, 2))
                })
                .collect(),
            rate: slice.map(|slice| rounded(slice.iops(), 1)),
        }
    }
}

fn line(
    tag: &str,
    columns: &[ColumnGroup<'_>],
    cells: impl Iterator<Item = Cells>,
    extra: bool,
) -> String {
    let mut text = format!("{tag:>0$}", SLICE.len());
    for (column, Cells { percents, rate }) in columns.iter().zip(cells) {
        text += GAP;
        text += &column.pad;
        for at in 0..column.edges.len() {
            let percent = percents
                .get(at)
                .copied()
                .flatten()
                .map_or("-".to_owned(), |percent| format!("{percent:.2}"));
            text += &format!("{percent:>7}");
        }
        if extra {
            text += &format!(
                "{:>11}",
                rate.map_or("-".to_owned(), |rate| format!("{rate:.1}"))
            );
        }
    }
    text.push('\n');
    text
}

/// A statistic over the values of all slices; slices without operations are left out.
pub(super) type Statistic = fn(&mut dyn Iterator<Item = f64>) -> Option<f64>;

fn summary(cells: &[Cells], statistic: Statistic) -> Cells {
    let edges = cells.first().map_or(0, |cells| cells.percents.len());
    let percents = (0..edges)
        .map(|edge| statistic(&mut cells.iter().filter_map(|cells| cells.percents[edge])));
    Cells {
        percents: percents.collect(),
        rate: statistic(&mut cells.iter().filter_map(|cells| cells.rate)),
    }
}

pub(super) fn average(values: &mut dyn Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

pub(super) fn maximum(values: &mut dyn Iterator<Item = f64>) -> Option<f64> {
    values.reduce(f64::max)
}

/// Rounds `value` to `decimals` decimals through its printed form: exact, ties to even.
fn rounded(value: f64, decimals: usize) -> f64 {
    format!("{value:.decimals$}").parse().unwrap_or(value)
}

/// A table for each histogram of each log: a line for each slice, then average and maximum. Averages are computed
/// from unrounded percentages, without slices that have no operations.
pub fn markdown(logs: &[SlicedLog], choice: &TableOptions) -> String {
    let mut text = String::new();
    for log in logs {
        for histogram in &log.histograms {
            let blank = if text.is_empty() { "" } else { "\n" };
            let name = escaped(&histogram.name);
            let log_name = escaped(&log.name);
            let sec = log.slice_sec;
            text += &format!(
                "{blank}**{name}**, {log_name}: % of operations over each threshold, in slices of {sec} s\n\n"
            );
            text += &one(log, histogram, choice).markdown();
        }
    }
    text
}

fn one(log: &SlicedLog, histogram: &SlicedHistogram, choice: &TableOptions) -> Table {
    let buckets = choice.buckets();
    let edges: Vec<usize> = buckets
        .iter()
        .filter_map(|bucket| log.edge(*bucket))
        .collect();
    let slices: Vec<(u64, LogSlice<'_>)> = log.slices_of(histogram).collect();

    let thresholds = buckets
        .iter()
        .map(|bucket| format!("{} {}", 1_u64 << bucket, log.scale.unit()));
    let mut table = Table::new("")
        .numbers(["slice"])
        .numbers(thresholds)
        .numbers(choice.extra.then_some("ops/s"));
    for (number, slice) in &slices {
        let percents = edges.iter().map(|edge| cell(slice.percent_over(*edge), 2));
        let rate = choice.extra.then(|| cell(Some(slice.iops()), 1));
        table.row(
            [number.to_string().into()]
                .into_iter()
                .chain(percents)
                .chain(rate),
        );
    }
    let summaries: [(&str, Statistic); 2] = [("avg", average), ("max", maximum)];
    for (name, summary) in summaries {
        let percents = edges.iter().map(|edge| {
            let mut percents = slices
                .iter()
                .filter_map(|(_, slice)| slice.percent_over(*edge));
            cell(summary(&mut percents), 2)
        });
        let mut rates = slices.iter().map(|(_, slice)| slice.iops());
        let rate = choice.extra.then(|| cell(summary(&mut rates), 1));
        table.row([Cell::strong(name)].into_iter().chain(percents).chain(rate));
    }
    table
}

fn cell(value: Option<f64>, decimals: usize) -> Cell {
    value.map_or_else(|| "-".into(), |value| format!("{value:.decimals$}").into())
}

const COLUMNS: &str =
    "log,histogram,slice,begin_sec,end_sec,ops,iops,threshold,unit,ops_over,share_over,damage";

/// All slices of `logs` as CSV over the thresholds of `buckets`: a line per log, histogram, slice and threshold, with
/// unrounded values. Without operations the share is empty. `runs` has an entry for each log, or none at all.
///
/// Thresholds are lines, not columns, because logs can differ in their unit. Each line repeats the damage of its log: a
/// separate warning is lost when lines are extracted or combined.
pub fn csv(
    logs: &[SlicedLog],
    runs: &[Option<RunLatencies>],
    buckets: &[usize],
) -> Result<String, ::csv::Error> {
    let mut table = Table::new("").text(COLUMNS.split(','));
    for (at, log) in logs.iter().enumerate() {
        let run = runs
            .get(at)
            .and_then(Option::as_ref)
            .into_iter()
            .flat_map(|run| run.damage.iter().cloned());
        let damage = log
            .damage
            .iter()
            .map(ToString::to_string)
            .chain(run)
            .collect::<Vec<_>>()
            .join("; ");
        for histogram in &log.histograms {
            for (number, slice) in log.slices_of(histogram) {
                let begin_sec = (number - 1) * log.slice_sec;
                let end_sec = number * log.slice_sec;
                for (bucket, edge) in buckets
                    .iter()
                    .filter_map(|bucket| Some((bucket, log.edge(*bucket)?)))
                {
                    let share = slice
                        .percent_over(edge)
                        .map(|_| slice.ops_over[edge] as f64 / slice.total as f64);
                    table.row([
                        log.name.clone(),
                        histogram.name.clone(),
                        number.to_string(),
                        begin_sec.to_string(),
                        end_sec.to_string(),
                        slice.total.to_string(),
                        slice.iops().to_string(),
                        (1_u64 << bucket).to_string(),
                        log.scale.unit().to_owned(),
                        slice.ops_over[edge].to_string(),
                        share.map(|share| share.to_string()).unwrap_or_default(),
                        damage.clone(),
                    ]);
                }
            }
        }
    }
    table.csv()
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::testing::{act_log_text, sliced_log_reader};

    #[test]
    fn percentages_are_rounded_as_by_pythons_round() {
        // As Python's round(): 2.675 is stored as a little less, 0.125 exactly.
        assert_eq!(rounded(2.675, 2), 2.67);
        assert_eq!(rounded(0.125, 2), 0.12);
        assert_eq!(rounded(0.375, 2), 0.38);
        assert_eq!(rounded(99.995, 2), 100.0);
    }

    #[test]
    fn the_average_line_averages_the_rounded_numbers() {
        let cells = |percent| Cells {
            percents: vec![percent],
            rate: None,
        };
        // 6, 6 and 0 of 100,000 round to 0.01, 0.01 and 0.00.
        let all = [
            cells(Some(rounded(0.006, 2))),
            cells(Some(rounded(0.006, 2))),
            cells(Some(0.0)),
            cells(None),
        ];
        assert_eq!(
            format!("{:.2}", summary(&all, average).percents[0].unwrap()),
            "0.01"
        );
        assert_eq!(summary(&all, maximum).percents, [Some(0.01)]);
        assert_eq!(summary(&[cells(None)], average).percents, [None]);
    }

    #[test]
    fn a_slice_without_operations_has_no_percentage_and_lowers_the_average_rate() {
        // The slices have 10, 0 and 20 operations; in each slice with operations, 40 % take 1 ms or longer.
        let report =
            |seconds: u64| act_log_text(seconds)[act_log_text(seconds - 1).len()..].to_owned();
        let text = act_log_text(1) + &report(1).replace("after 1", "after 2") + &report(3);
        let log = sliced_log_reader(&text)
            .read(1, &["reads".to_owned()], &[0])
            .unwrap();
        let choice = TableOptions {
            buckets_max: 1,
            slice_sec: 1,
            extra: true,
            ..TableOptions::default()
        };
        let shown = table(&[log], &choice);
        let rows = shown.lines().skip(4);
        let rows: Vec<String> = rows
            .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            rows,
            [
                "1 40.00 10.0",
                "2 - 0.0",
                "3 40.00 20.0",
                "----- ------ ----------",
                "avg 40.00 10.0",
                "max 40.00 20.0"
            ]
        );
    }

    #[test]
    fn a_title_longer_than_its_columns_pads_the_next_group() {
        let names = ["/dev/x-reads".to_owned(), "reads".to_owned()];
        let choice = TableOptions {
            buckets_max: 1,
            slice_sec: 1,
            ..TableOptions::default()
        };
        let log = sliced_log_reader(&act_log_text(1))
            .read(1, &names, &[0])
            .unwrap();
        let expected = "         /dev/x-reads   reads \n        %>(ms)         %>(ms)\nslice        1              1\n\
                        -----   ------         ------\n    1    40.00          40.00\n-----   ------         ------\n  \
                        avg    40.00          40.00\n  max    40.00          40.00\n";
        // As in ACT, the name begins one blank further left than its columns.
        assert_eq!(
            table(&[log], &choice),
            expected.replacen("         /dev", "        /dev", 1)
        );
    }

    #[test]
    fn columns_begin_at_the_chosen_bucket_and_end_at_bucket_16() {
        let buckets = |first_bucket, buckets_max, every_nth| {
            TableOptions {
                first_bucket,
                buckets_max,
                every_nth,
                ..TableOptions::default()
            }
            .buckets()
        };
        assert_eq!(buckets(0, 7, 1), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(buckets(0, 3, 3), [0, 3, 6]);
        assert_eq!(buckets(15, usize::MAX, 1), [15, 16]);
        assert_eq!(buckets(16, 3, usize::MAX), [16]);
    }
}
