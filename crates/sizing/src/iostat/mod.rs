//! Parses the output of sysstat's iostat, text or JSON: rates of each device, report by report.
//!
//! Columns are found by their names. So the output of old versions (`avgrq-sz`) and of new versions is read, with `-m`,
//! `--human` or `--pretty`, and in any language: `r/s` and `w/s` are not translated.
//!
//! A run of iostat begins with a banner. Its first report covers the time since boot, or with `-y` an interval like the
//! other reports. The output does not say which of the two, but the numbers show it. Over an interval of n s a rate is
//! a whole number divided by n, while a rate since boot is divided by an arbitrary time: with n = 10, `2439.60` can
//! belong to an interval, and `2439.63` cannot. The later reports show whether intervals are that exact. Rates with
//! fewer decimals (`--dec=0`) show less, or nothing.

mod reports;
mod table;
mod time;

use crate::drive_io::DriveIo;
use crate::lines::LineReader;
use crate::source::{InputFile, SourceError};
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;
use reports::ReportCollector;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::Path;
use thiserror::Error;

/// Splits `NODE=FILE`: iostat does not print the node on which it ran. A path without a node may contain a `=`, too.
pub fn of_node(path: &Path) -> (Option<String>, &Path) {
    let split = path
        .to_str()
        .filter(|_| !path.exists())
        .and_then(|text| text.split_once('='));
    match split.filter(|(node, _)| !node.is_empty() && node.chars().all(|c| c.is_ascii_hexdigit()))
    {
        Some((node, file)) => (Some(node.to_ascii_uppercase()), Path::new(file)),
        None => (None, path),
    }
}

const FIRST_BYTES: u64 = 256;

#[derive(Debug, Error)]
pub enum IostatError {
    #[error(transparent)]
    Read(#[from] SourceError),
    #[error(
        "reading {name} - it has no table of iostat -x: expected a line like \"Device r/s rkB/s ... w/s wkB/s\", or \
         JSON, found {found} - record the output with \"iostat -xty 10 > FILE\", or \"iostat -xty 10 -o JSON\""
    )]
    NotIostat { name: String, found: String },
    #[error(
        "reading {name} - this JSON is not iostat's, or has no complete report - record the output with \"iostat -xty 10 \
         -o JSON\""
    )]
    OtherJson { name: String },
    #[error("reading {name} - {why} - record the output during the load: iostat -xty 10 60 > FILE")]
    Unusable { name: String, why: Unusable },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// iostat without -x.
    NotExtended,
    /// iostat -s.
    Short,
    /// iostat of Solaris, FreeBSD or another system.
    OtherSystem,
    /// Each run has only one report.
    SinceBoot,
}

results::display!(Unusable {
    NotExtended => "iostat without -x does not show reads and writes separately (busybox's iostat has no -x: install sysstat)",
    Short => "iostat -s (and sar) adds reads and writes up: leave out -s",
    OtherSystem => "the table is of another system's iostat (kr/s, kw/s, KB/t), but a node runs Linux",
    SinceBoot => "a single report may cover the time since boot (without -y it does), not the load: give iostat an interval",
});

/// Reads the output of one machine's iostat, from one run or several.
/// `near_date`: a day near the reports, if known. It decides whether `04/03/26` is 3 April or 4 March.
pub fn read(source: InputFile, near_date: Option<Date>) -> Result<Iostat, IostatError> {
    let (name, mut input) = source.into_parts();
    let read_error = |source| SourceError {
        name: name.clone(),
        source,
    };
    let mut first = Vec::new();
    input
        .by_ref()
        .take(FIRST_BYTES)
        .read_to_end(&mut first)
        .map_err(read_error)?;
    // A prompt and the command may stand before the JSON.
    let lines = first.split_inclusive(|byte| *byte == b'\n');
    let before_json: usize = lines
        .take_while(|line| !line.trim_ascii_start().starts_with(b"{"))
        .map(<[u8]>::len)
        .sum();
    let is_json = before_json < first.len();
    if is_json {
        first.drain(..before_json);
    }
    let bytes = io::Cursor::new(first).chain(&mut input);
    let mut collector = ReportCollector::new(&name);
    let mut found = String::new();
    if is_json {
        table::read_json(bytes, &mut collector).map_err(read_error)?;
    } else {
        found = table::read(&mut LineReader::new(bytes), &mut collector).map_err(read_error)?;
    }
    if input.is_cut() {
        collector.add_remark(
            "the compressed data is truncated: only its readable part is used".to_owned(),
        );
    }
    let (iostat, unusable) = collector.finish(near_date);
    match (iostat.reports.is_empty(), unusable) {
        (false, _) => Ok(iostat),
        (true, Some(why)) => Err(IostatError::Unusable { name, why }),
        (true, None) if is_json => Err(IostatError::OtherJson { name }),
        (true, None) => Err(IostatError::NotIostat { name, found }),
    }
}

#[derive(Debug, Clone, Default)]
pub struct Iostat {
    /// In order. The first report of a run is dropped unless its numbers show that it covers an interval. The first
    /// report of a text without a banner is dropped only if its numbers show that it covers the time since boot.
    pub reports: Vec<IostatReport>,
    pub remarks: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct IostatReport {
    /// Print time, by the clock and zone of the machine; `None`: the report has no time (iostat without -t).
    pub timestamp: Option<DateTime>,
    /// Zone of the machine's clock, if the printed time includes the zone (S_TIME_FORMAT=ISO).
    pub offset: Option<Offset>,
    pub devices: Vec<DeviceRates>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRates {
    /// Name without `/dev/`.
    pub device: String,
    /// Completed reads and writes. The writes include flushes that the kernel counts as writes.
    pub io: DriveIo,
    /// Flushes per second; `None` if this version of iostat does not print them.
    pub flushes_per_sec: Option<f64>,
    /// Discards per second; `None` if this version of iostat does not print them.
    pub discards_per_sec: Option<f64>,
}

/// Writes per second that carry data; `writes` may include the `flushes`. On a drive with a volatile cache, a
/// synchronous write with its flush counts as two writes and two flushes, or with FUA as two writes and one flush. If
/// all writes are large blocks of `block_kib`, the mean size of a write decides which case applies. Without
/// `block_kib`, two writes and two flushes are assumed.
pub fn writes_with_data(
    writes: f64,
    flushes: f64,
    kib_written: f64,
    block_kib: Option<f64>,
) -> f64 {
    let mut possible = [writes - flushes / 2.0, writes - flushes, writes]
        .into_iter()
        .filter(|writes| *writes >= 0.0);
    let Some(block_kib) = block_kib else {
        return possible.next().unwrap_or(writes);
    };
    let off = |writes: f64| (kib_written / writes / block_kib).ln().abs();
    possible
        .min_by(|a, b| off(*a).total_cmp(&off(*b)))
        .unwrap_or(writes)
}

/// Longest interval that is tried, seconds.
const INTERVALS_MAX: u32 = 50;
/// Maximum probability that all numbers match an interval by chance. For one number with two decimals it is 0.1 at
/// 10 s.
const CHANCE_MAX: f64 = 0.02;
/// Decimals of rates without `--dec`; JSON always has them.
const DECIMALS: usize = 2;
/// Of ten numbers in the later reports, at least this many must be multiples of 1/interval.
const MOST_OF_TEN: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstOf {
    /// After a banner.
    Run,
    /// The text may begin in the middle of a run.
    Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstReport {
    SinceBoot,
    OfInterval,
    Unknown,
}

/// Removes first reports (ascending indices in `firsts`) that may cover the time since boot. Returns remarks: one for
/// all runs with the same reason. `decimals`: fewest decimals of a rate.
fn drop_firsts(
    reports: &mut Vec<IostatReport>,
    firsts: &[(usize, FirstOf)],
    decimals: usize,
) -> Vec<String> {
    let steps = 10_f64.powi(decimals as i32);
    let ends = firsts
        .iter()
        .skip(1)
        .map(|(begin, _)| *begin)
        .chain([reports.len()]);
    let mut is_used = vec![true; reports.len()];
    let mut sentences: Vec<(usize, &str)> = Vec::new();
    for ((begin, of), end) in firsts.iter().copied().zip(ends) {
        let first = classify_first(&reports[begin..end], steps);
        let sentence = match first {
            FirstReport::OfInterval if of == FirstOf::Text => continue,
            FirstReport::Unknown if of == FirstOf::Text => {
                "the first report is used, but the text does not begin with iostat's line \"Linux ...\": if this report \
                 is the first of a run without -y, it covers the time since boot"
            }
            FirstReport::OfInterval => {
                "the first report is used: its numbers show that it covers an interval (iostat -y)"
            }
            FirstReport::SinceBoot => {
                "the first report is left out: its numbers show that it covers the time since boot"
            }
            FirstReport::Unknown if end - begin == 1 => {
                "the only report is left out: without iostat -y it covers the time since boot; record more with \
                 iostat -xty 10"
            }
            FirstReport::Unknown => {
                "the first report is left out: without iostat -y it covers the time since boot"
            }
        };
        is_used[begin] = first == FirstReport::OfInterval
            || of == FirstOf::Text && first == FirstReport::Unknown;
        match sentences.iter_mut().find(|(_, known)| *known == sentence) {
            Some((number, _)) => *number += 1,
            None => sentences.push((1, sentence)),
        }
    }
    let mut is_used = is_used.into_iter();
    reports.retain(|_| is_used.next().unwrap_or(true));
    sentences
        .into_iter()
        .map(|(number, sentence)| match number {
            1 => sentence.to_owned(),
            _ => format!("{sentence} ({number} runs)"),
        })
        .collect()
}

/// `steps`: steps of printed rates between two whole numbers, 100 for two decimals.
fn classify_first(run: &[IostatReport], steps: f64) -> FirstReport {
    let [first, rest @ ..] = run else {
        return FirstReport::Unknown;
    };
    let first = distinct_rates(std::slice::from_ref(first), steps);
    let rest = distinct_rates(rest, steps);
    // Probability that this many numbers are multiples of 1/`seconds` by chance.
    let by_chance = |count: usize, seconds: u32| (f64::from(seconds) / steps).powi(count as i32);
    let printed = run.windows(2).filter_map(|pair| {
        Some(
            pair[1]
                .timestamp?
                .duration_since(pair[0].timestamp?)
                .as_secs(),
        )
    });
    let intervals = match printed.min() {
        Some(seconds) => {
            let seconds = u32::try_from(seconds).unwrap_or(0);
            seconds..=seconds.min(INTERVALS_MAX)
        }
        None => 1..=INTERVALS_MAX,
    };
    // On a busy host some intervals last 10.01 s.
    let interval = intervals.into_iter().find(|seconds| {
        *seconds > 0 && count_fitting(&rest, *seconds, steps) * 10 >= rest.len() * MOST_OF_TEN
    });
    let Some(seconds) = interval else {
        return FirstReport::Unknown;
    };
    let of_rest = count_fitting(&rest, seconds, steps);
    let of_first = count_fitting(&first, seconds, steps);
    if by_chance(of_rest, seconds) > CHANCE_MAX {
        return FirstReport::Unknown;
    }
    let all_of_first = of_first == first.len();
    if all_of_first && by_chance(of_first, seconds) <= CHANCE_MAX {
        FirstReport::OfInterval
    } else if !all_of_first && of_rest == rest.len() {
        FirstReport::SinceBoot
    } else {
        FirstReport::Unknown
    }
}

/// Rates of the first 100 reports in steps, each number only once: a repeated number adds no evidence.
fn distinct_rates(reports: &[IostatReport], steps: f64) -> BTreeSet<u64> {
    let reports = reports.iter().take(100);
    reports
        .flat_map(|report| report.devices.iter().flat_map(counts))
        .map(|rate| (rate * steps).round() as u64)
        .collect()
}

/// Number of `rates`, in steps, that are rates of an interval of `seconds`.
fn count_fitting(rates: &BTreeSet<u64>, seconds: u32, steps: f64) -> usize {
    rates
        .iter()
        .filter(|rate| is_of(**rate as f64, seconds, steps))
        .count()
}

/// Rates of whole operations; zeros are left out, because they fit any interval.
fn counts(device: &DeviceRates) -> impl Iterator<Item = f64> {
    let DriveIo {
        reads_per_sec,
        writes_per_sec,
        ..
    } = device.io;
    let all = [
        Some(reads_per_sec),
        Some(writes_per_sec),
        device.flushes_per_sec,
        device.discards_per_sec,
    ];
    all.into_iter().flatten().filter(|rate| *rate > 0.0)
}

/// True if a rate, in steps, is a whole number divided by `seconds`, rounded to a step.
fn is_of(rate: f64, seconds: u32, steps: f64) -> bool {
    let seconds = f64::from(seconds);
    let count = (rate / steps * seconds).round();
    (count / seconds * steps - rate).abs() < 0.500_1
}

#[cfg(test)]
mod tests;
