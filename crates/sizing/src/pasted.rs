//! Tables of asloglatency pasted into a file, with or without drv_ssd lines between them: the paper prints such data.
//!
//! A table has averages where a log has counters. Each table becomes two dumps of a histogram, at the start and the end
//! of one period; their difference has the table's averages. drv_ssd lines, often of another day, are moved to that
//! period. All numbers derived from a log can therefore be derived from tables, too. Old and new headings are read,
//! blanks may be collapsed, and a table may lack its heading: then the command before it gives its name. A table without
//! its line of averages ends at the next title. Lines may be quoted, as in a mail: `> avg ...`.

use crate::lines::LineReader;
use crate::server_log::{self, Dump, HistogramUnit, LogError, ServerLog};
use crate::source::{InputFile, SourceError};
use jiff::{SignedDuration, Timestamp};
use results::format::is_unprintable;
use std::io::{Cursor, Read};
use std::path::Path;
use thiserror::Error;

/// Assumed duration of a table without slices, seconds.
const SECONDS: f64 = 1000.0;

/// Maximum length of a slice, and of the period that all tables share, seconds: some thirty years.
const SECONDS_MAX: f64 = 1e9;

/// Maximum plausible values per second of a table; no node does more.
const PER_SEC_MAX: f64 = 1e12;

const TABLES_MAX: usize = 1000;

/// Maximum bytes kept of lines that belong to no table.
const REST_BYTES_MAX: usize = 64 << 20;

/// Lines that are searched for the heading of a table.
const SNIFFED_LINES: usize = 1000;

#[derive(Debug, Error)]
pub enum PastedError {
    #[error(transparent)]
    Read(#[from] SourceError),
    /// The lines between the tables do not belong to a log.
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(
        "the drv_ssd lines between pasted tables are of {0} nodes, and tables do not name their node - give the lines \
         and tables of one node at a time"
    )]
    SeveralNodes(usize),
    #[error(
        "{0}: has histograms of a log, and also pasted tables - give only the log, which has more data, or only the \
         tables"
    )]
    Mixed(String),
    #[error(
        "the table of {name} has no column for {missing} - sizes need a column for each power of two: run asloglatency \
         with -e 1 -n {n}"
    )]
    Columns {
        name: String,
        missing: String,
        n: usize,
    },
}

/// A table: averages over its slices.
#[derive(Debug, Clone, PartialEq)]
pub struct Pasted {
    /// The histogram: `{test}-device-read-size`.
    pub name: String,
    /// Unit of the table's values; `None` without a heading.
    pub unit: Option<HistogramUnit>,
    /// `pct_over[i]`: percentage of the values that are at least `thresholds[i]`.
    pub pct_over: Vec<f64>,
    /// Thresholds of the columns. Empty without a heading: the thresholds are then the powers of two.
    pub thresholds: Vec<u64>,
    pub per_sec: f64,
    pub seconds: f64,
}

/// True if the file has a table of asloglatency near its start.
pub fn is_pasted(path: &Path) -> bool {
    // A pipe is not examined: bytes read from a pipe are lost.
    if !path.is_file() {
        return false;
    }
    let Ok(source) = InputFile::open(path, "") else {
        return false;
    };
    let mut lines = LineReader::new(source.into_parts().1);
    for _ in 0..SNIFFED_LINES {
        match lines.next_line() {
            Ok(Some(line)) if is_head(unquoted(line.bytes)) => return true,
            Ok(Some(_)) => {}
            _ => return false,
        }
    }
    false
}

/// Reads tables, and the lines of a log between them, as the log of one node.
pub fn read(sources: Vec<InputFile>) -> Result<ServerLog, PastedError> {
    let mut tables = Vec::new();
    let mut log_bytes = Vec::new();
    let mut names = Vec::new();
    for source in sources {
        let (name, input) = source.into_parts();
        let read = tables_of(input, &mut tables, &mut log_bytes);
        read.map_err(|source| SourceError {
            name: name.clone(),
            source,
        })?;
        names.push(name);
    }
    let mut log = ServerLog::default();
    if !log_bytes.is_empty() {
        let source = InputFile::new(&names.join(", "), Box::new(Cursor::new(log_bytes)), "")?;
        let logs = server_log::read(vec![source])?;
        [log] =
            <[_; 1]>::try_from(logs).map_err(|several| PastedError::SeveralNodes(several.len()))?;
    }
    if log.histograms.keys().any(|name| name.ends_with("-size")) {
        return Err(PastedError::Mixed(names.join(", ")));
    }
    log.files = names;
    join(&mut log, tables)?;
    Ok(log)
}

/// Adds tables to a log that lacks their histograms.
fn join(log: &mut ServerLog, tables: Vec<Pasted>) -> Result<(), PastedError> {
    let log_end = log.span.map_or(
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24),
        |(_, last)| last,
    );
    // Counters start again from 0 at a restart.
    if let Some(restart) = log.restarts.pop() {
        log.drives
            .values_mut()
            .for_each(|lines| lines.retain(|line| line.timestamp >= restart));
        log.drives.retain(|_, lines| !lines.is_empty());
    }
    // drv_ssd lines may be of another day than the tables, so they are moved to the end of the log.
    for lines in log.drives.values_mut() {
        let Some(last) = lines.last().map(|line| line.timestamp) else {
            continue;
        };
        lines.retain(|line| last.duration_since(line.timestamp) <= SignedDuration::from_hours(24));
        lines
            .iter_mut()
            .for_each(|line| line.timestamp += log_end.duration_since(last));
    }
    let of_lines = log.drives.values().filter_map(|lines| {
        Some(
            log_end
                .duration_since(lines.first()?.timestamp)
                .as_secs_f64(),
        )
    });
    let of_tables = tables.iter().map(|table| table.seconds);
    let seconds = of_lines
        .chain(of_tables)
        .fold(0.0, f64::max)
        .clamp(60.0, SECONDS_MAX)
        .round();
    let log_begin = log_end - SignedDuration::from_secs_f64(seconds);
    for table in tables.into_iter().filter(|table| table.per_sec >= 0.0) {
        let unit = table.unit.unwrap_or(if table.name.ends_with("-size") {
            HistogramUnit::Bytes
        } else {
            HistogramUnit::Millis
        });
        if unit == HistogramUnit::Bytes {
            check_columns(&table)?;
        }
        let total = (table.per_sec * seconds).round();
        let count_over = |pct: f64| (total * (pct / 100.0).clamp(0.0, 1.0)).round() as u64;
        let edges: Vec<u64> = table
            .pct_over
            .iter()
            .map(|pct| count_over(*pct))
            .chain([0])
            .collect();
        let first = total as u64 - edges[0].min(total as u64);
        let buckets: Vec<u64> = [first]
            .into_iter()
            .chain(edges.windows(2).map(|pair| pair[0].saturating_sub(pair[1])))
            .collect();
        if let Some(pct) = table
            .pct_over
            .last()
            .filter(|pct| **pct > 0.0 && unit == HistogramUnit::Bytes)
        {
            log.remarks.push(format!(
                "the last column of the table of {} has {pct} %, not 0: all larger values are counted in it - run \
                 asloglatency with a larger -n",
                table.name
            ));
        }
        let dump = |at, counts: &[u64]| Dump {
            timestamp: at,
            unit,
            total: counts.iter().sum(),
            buckets: counts.to_vec(),
        };
        let dumps = vec![dump(log_begin, &[]), dump(log_end, &buckets)];
        if log.histograms.contains_key(&table.name) {
            log.remarks.push(format!(
                "{} is given more than once: the log's own histogram or the first table is used",
                table.name
            ));
        }
        log.histograms.entry(table.name).or_insert(dumps);
    }
    (log.span, log.is_averages) = (Some((log_begin, log_end)), true);
    log.restarts.clear();
    log.clock_steps.clear();
    Ok(())
}

/// Checks that a table of sizes has a column for each power of two.
fn check_columns(table: &Pasted) -> Result<(), PastedError> {
    let powers = (0..).map(|i| 1_u64.checked_shl(i).unwrap_or(0));
    let Some((_, power)) = table
        .thresholds
        .iter()
        .zip(powers)
        .find(|(column, power)| *column != power)
    else {
        return Ok(());
    };
    let n = table
        .thresholds
        .last()
        .map_or(0, |last| last.max(&1).ilog2() as usize + 1);
    Err(PastedError::Columns {
        name: table.name.clone(),
        missing: format!("{power} bytes"),
        n,
    })
}

#[derive(Debug, Default)]
struct OpenTable {
    name: Option<String>,
    unit: Option<HistogramUnit>,
    thresholds: Vec<u64>,
    /// Seconds, percentages and rate of each slice.
    slices: Vec<(f64, Vec<f64>, f64)>,
}

fn tables_of(
    input: impl Read,
    tables: &mut Vec<Pasted>,
    log_bytes: &mut Vec<u8>,
) -> std::io::Result<()> {
    let mut lines = LineReader::new(input);
    let mut open_table = OpenTable::default();
    while let Some(line) = lines.next_line()? {
        let bytes = unquoted(line.bytes);
        let text = String::from_utf8_lossy(bytes);
        let words: Vec<&str> = text.split_whitespace().collect();
        let closed = match open_table.take(&text, &words) {
            PastedLineKind::Title(name) => {
                let closed = open_table.close(None);
                open_table.name = name;
                closed
            }
            PastedLineKind::Average(average) => open_table.close(Some(average)),
            // Other lines belong to a log, or are dropped.
            PastedLineKind::Not if log_bytes.len() < REST_BYTES_MAX && is_of_a_log(&words) => {
                log_bytes.extend_from_slice(bytes);
                log_bytes.push(b'\n');
                None
            }
            PastedLineKind::Part | PastedLineKind::Not => None,
        };
        tables.extend(closed.filter(|_| tables.len() < TABLES_MAX));
    }
    let last = open_table.close(None);
    tables.extend(last.filter(|_| tables.len() < TABLES_MAX));
    Ok(())
}

/// `line` without the marks of a quotation at its start: `> > avg`.
fn unquoted(line: &[u8]) -> &[u8] {
    let is_mark = |byte: &&u8| b"> \t".contains(byte);
    &line[line.iter().take_while(is_mark).count()..]
}

/// Percentages over the thresholds, and values per second.
type TableRow = (Vec<f64>, f64);

enum PastedLineKind {
    /// The start of a table, with its name if the line has one.
    Title(Option<String>),
    Part,
    Average(TableRow),
    Not,
}

impl OpenTable {
    fn take(&mut self, text: &str, words: &[&str]) -> PastedLineKind {
        let titled = text
            .trim()
            .strip_prefix("Histogram")
            .map(|rest| rest.trim().trim_start_matches("Name").trim());
        if let Some(name) = titled.and_then(|rest| rest.strip_prefix(':')) {
            return PastedLineKind::Title(Some(name.trim().to_owned()));
        }
        if let Some(at) = words.iter().position(|word| word.ends_with("asloglatency")) {
            let after = words[at..]
                .iter()
                .position(|word| *word == "-h")
                .and_then(|h| words.get(at + h + 1));
            let name = after.map(|name| name.trim_matches(['\'', '"']).to_owned());
            return PastedLineKind::Title(name);
        }
        match words {
            [name] if name.starts_with('{') && name.contains("}-") => {
                PastedLineKind::Title(Some((*name).to_owned()))
            }
            ["Log", ":", ..] => PastedLineKind::Part,
            ["%", ">", unit] | ["%>", unit] => {
                self.unit = match *unit {
                    "(bytes)" => Some(HistogramUnit::Bytes),
                    "(ms)" => Some(HistogramUnit::Millis),
                    "(us)" => Some(HistogramUnit::Micros),
                    _ => Some(HistogramUnit::Count),
                };
                PastedLineKind::Part
            }
            ["slice-to", "(sec)", columns @ .., "ops/sec"] => {
                self.thresholds = columns
                    .iter()
                    .filter_map(|column| column.parse().ok())
                    .collect();
                PastedLineKind::Part
            }
            ["max", ..] => PastedLineKind::Part,
            ["avg", numbers @ ..] => self
                .row(numbers)
                .map_or(PastedLineKind::Part, PastedLineKind::Average),
            [time, seconds, numbers @ ..] if time.len() == 8 && time.split(':').count() == 3 => {
                let seconds = seconds
                    .parse()
                    .ok()
                    .filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
                let row = self
                    .row(numbers)
                    .and_then(|(pct_over, rate)| Some((seconds?, pct_over, rate)));
                self.slices.extend(row);
                PastedLineKind::Part
            }
            _ => PastedLineKind::Not,
        }
    }

    /// Percentages and the rate after them.
    fn row(&self, numbers: &[&str]) -> Option<TableRow> {
        let numbers: Vec<f64> = numbers
            .iter()
            .map(|number| number.parse().ok())
            .collect::<Option<_>>()?;
        let (rate, pct_over) = numbers.split_last()?;
        let fits = self.thresholds.is_empty() || self.thresholds.len() == pct_over.len();
        let are_rates = (0.0..=PER_SEC_MAX).contains(rate)
            && pct_over.iter().all(|pct| (0.0..=100.0).contains(pct));
        (fits && are_rates && (1..=64).contains(&pct_over.len()))
            .then(|| (pct_over.to_vec(), *rate))
    }

    /// The table, computed from its slices if any, because the line of averages gives the same weight to slices without
    /// operations. `None`: there is neither a slice nor an `average`, or no name.
    fn close(&mut self, average: Option<TableRow>) -> Option<Pasted> {
        let Self {
            name,
            unit,
            thresholds,
            slices,
        } = std::mem::take(self);
        let last_slice = slices.last().map(|(_, pct, rate)| (pct.clone(), *rate));
        let (pct_over, per_sec) = average.or(last_slice)?;
        let count: f64 = slices.iter().map(|(seconds, _, rate)| seconds * rate).sum();
        let seconds: f64 = slices.iter().map(|(seconds, ..)| seconds).sum();
        let has_equal_columns = slices.iter().all(|(_, pct, _)| pct.len() == pct_over.len());
        let (pct_over, per_sec, seconds) = if count > 0.0 && seconds > 0.0 && has_equal_columns {
            (
                (0..pct_over.len())
                    .map(|column: usize| {
                        slices
                            .iter()
                            .map(|(seconds, pct, rate)| pct[column] * seconds * rate / count)
                            .sum::<f64>()
                    })
                    .collect(),
                count / seconds,
                seconds,
            )
        } else {
            (pct_over, per_sec, SECONDS)
        };
        let name =
            name.filter(|name| !name.contains(|c: char| c.is_control() || is_unprintable(c)))?;
        Some(Pasted {
            name,
            unit,
            pct_over,
            thresholds,
            per_sec,
            seconds,
        })
    }
}

fn is_head(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    let words: Vec<&str> = text.split_whitespace().collect();
    matches!(words[..], ["slice-to", "(sec)", .., "ops/sec"])
}

/// True if a line can belong to a server's log, because it begins with a month.
fn is_of_a_log(words: &[&str]) -> bool {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    words.len() > 5 && MONTHS.iter().any(|month| words[0].starts_with(month))
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_contains;

    fn pasted(text: &str) -> (Vec<Pasted>, String) {
        let mut tables = Vec::new();
        let mut rest = Vec::new();
        tables_of(text.as_bytes(), &mut tables, &mut rest).unwrap();
        (tables, String::from_utf8(rest).unwrap())
    }

    #[test]
    fn old_and_new_headings_are_read_and_blanks_may_be_collapsed() {
        let old = "{a}-device-read-size\nApr 09 2018 21:31:30\n% > (bytes)\nslice-to (sec) 1 2 4 ops/sec\n\
                   -------------- ------ ----------\n21:39:52 502 100.00 50.00 0.00 10407.5\n\
                   21:48:13 501 100.00 60.00 0.00 10436.5\navg 100.00 55.00 0.00 10427.0\nmax 100.00 60.00 0.00 10448.3\n";
        let new = "Histogram Name : {a}-read\nLog       : a.log\nNov 20 2026 23:00:55\n               %> (us)\n\
                   slice-to (sec)      1      8    ops/sec\n23:01:55    60   0.00   0.00        0.0\n\
                   23:02:55    60 100.00  10.00     1000.0\n     avg        50.00   5.00      500.0\n";
        let (tables, rest) = pasted(&format!(
            "{old}{new}Apr 10 2018 07:28:02 GMT: INFO (drv_ssd): x\na letter of mine\n"
        ));
        let first = &tables[0];
        let second = &tables[1];
        assert_eq!(&*first.name, "{a}-device-read-size");
        assert_eq!(first.unit, Some(HistogramUnit::Bytes));
        assert_eq!(first.seconds, 1003.0);
        assert!(
            (first.pct_over[1] - 55.0).abs() < 0.01 && (first.per_sec - 10_422.0).abs() < 1.0,
            "{tables:?}"
        );
        let of_second = (&second.pct_over[..], second.per_sec);
        assert_eq!(
            of_second,
            (&[100.0, 10.0][..], 500.0),
            "the empty slice weighs nothing"
        );
        assert_eq!(second.thresholds, [1, 8]);
        assert_eq!(rest, "Apr 10 2018 07:28:02 GMT: INFO (drv_ssd): x\n");
    }

    #[test]
    fn a_table_without_a_heading_gets_its_name_from_the_command_before_it() {
        let (tables, _) = pasted(
            "$ asloglatency -t 500 -n 3 -e 1 -h {a}-device-write-size -l x\navg 100.00 20.00 0.00 7.5\n",
        );
        assert_eq!(tables[0].name.as_str(), "{a}-device-write-size");
        assert_eq!(tables[0].per_sec, 7.5);
        assert_eq!(
            pasted("Histogram : {a}-read\navg 100.00 0.00 7.5\n").0[0].name,
            "{a}-read",
            "of asloglatency -N"
        );
        assert_eq!(
            pasted("avg 100.00 20.00 0.00 7.5\n").0,
            [],
            "a table without a name is dropped"
        );
        assert_eq!(
            pasted("{a}-read\navg 100.00 120.00 0.00 7.5\navg nan 1\n").0,
            []
        );
    }

    #[test]
    fn a_table_without_averages_or_in_a_quotation_has_the_averages_of_its_slices() {
        let text = "{a}-device-write-size\nslice-to (sec) 1 2 ops/sec\n21:39:42 502 100.00 50.00 7.5\n\
                    avg 100.00 50.00 7.5\n{a}-device-read-size\nslice-to (sec) 1 2 ops/sec\n21:39:52 502 100.00 25.00 3.5\n\
                    avg 100.00 25.00 3.5\nApr 10 2018 07:28:02 GMT: INFO (drv_ssd): x\n";
        let without_averages = text.replace("avg", "max");
        let quoted = format!("> > {}", text.trim_end().replace('\n', "\n> > "));
        let expected = pasted(text);
        assert_eq!(expected.0.len(), 2);
        for other in [without_averages, quoted] {
            assert_eq!(pasted(&other), expected, "{other}");
            assert!(other.lines().any(|line| is_head(unquoted(line.as_bytes()))));
        }
    }

    #[test]
    fn a_table_becomes_two_dumps_whose_difference_has_its_averages() {
        let (tables, _) = pasted(
            "{a}-device-read-size\nslice-to (sec) 1 2 4 ops/sec\navg 100.00 25.00 0.00 1000.0\n",
        );
        let mut log = ServerLog::default();
        join(&mut log, tables).unwrap();
        let dumps = &log.histograms["{a}-device-read-size"];
        assert_eq!([0, 1].map(|at| dumps[at].total), [0, 1_000_000]);
        assert_eq!(dumps[1].buckets, [0, 750_000, 250_000, 0]);
        let (tables, _) =
            pasted("{a}-device-read-size\nslice-to (sec) 1 8 ops/sec\navg 100.00 25.00 1000.0\n");
        let error = join(&mut ServerLog::default(), tables)
            .unwrap_err()
            .to_string();
        assert_contains!(error, "no column for 2 bytes", "-e 1 -n 4");
        let (tables, _) = pasted("{a}-device-read-size\nslice-to (sec) 0 ops/sec\navg 100 5\n");
        assert!(
            join(&mut ServerLog::default(), tables).is_err(),
            "there is no column of 0"
        );
    }
}
