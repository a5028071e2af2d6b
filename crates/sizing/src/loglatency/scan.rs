//! Collects the dumps of one histogram from logs.

use super::HistogramQuery;
use crate::lines::{LineReader, Repeats, Skipped};
use crate::server_log::collect::{DumpCounts, is_stray};
use crate::server_log::order::{self, LogFile, TimeSteps};
use crate::server_log::prefix::{Prefixes, SourcedLine};
use crate::server_log::text::{self, DUMP};
use crate::server_log::{HistogramUnit, LogError, same_node};
use crate::source::{InputFile, SourceError};
use jiff::civil::DateTime;
use memchr::memmem::Finder;
use results::format::{count, quoted};
use std::collections::BTreeSet;

/// Maximum number of dumps kept, some 250 bytes each: half a year at one dump every 10 s.
const DUMPS_MAX: usize = 1_600_000;
/// Maximum number of names kept, to list them if the wanted histogram is not found.
const NAMES_MAX: usize = 512;
/// Maximum number of namespaces with the histogram. A server has at most 64.
const SERIES_MAX: usize = 512;
/// Number of last dumps among which a stray dump is searched: two of each namespace.
const STRAY_DUMPS: usize = 2 * SERIES_MAX;
/// Maximum time between the lines of one histogram.
const TOGETHER_SEC: i64 = 5;
/// Number of first lines in which a log is recognised: a rotated file may begin within a line, and the JSON of another
/// program with lines about its query.
const FIRST_LINES: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScannedDump {
    /// Time by the log's own clock, in whole seconds.
    pub(super) local_time: DateTime,
    /// Index of the dump's name among the wanted names.
    pub(super) series: usize,
    pub(super) unit: HistogramUnit,
    pub(super) total: u64,
    pub(super) buckets: Vec<u64>,
}

impl ScannedDump {
    fn counts(&self) -> DumpCounts<'_> {
        (self.unit, self.total, &self.buckets)
    }
}

#[derive(Debug, Default)]
pub struct ScanResult {
    pub(super) dumps: Vec<ScannedDump>,
    /// Time of the first line.
    pub head: Option<DateTime>,
    /// Time of the last line.
    pub tail: Option<DateTime>,
    /// True if a line follows the last dump.
    pub(super) followed: bool,
    /// Names of other histograms, collected until the wanted histogram is found.
    pub names: BTreeSet<String>,
    pub remarks: Vec<String>,
}

impl ScanResult {
    pub fn number(&self) -> usize {
        self.dumps.len()
    }
}

/// True if one of the first lines has a server's time stamp, with or without a prefix.
pub fn is_server_log(source: InputFile) -> bool {
    let (_, input) = source.into_parts();
    let mut lines = LineReader::new(input);
    let mut prefixes = Prefixes::default();
    (0..FIRST_LINES).any(
        |_| matches!(lines.next_line(), Ok(Some(line)) if prefixes.split(line.bytes).is_some()),
    )
}

/// Reads logs of one node to their ends, in the order of time.
pub fn scan(sources: Vec<InputFile>, query: &HistogramQuery) -> Result<ScanResult, LogError> {
    let (files, empty) = order::in_order(sources)?;
    let mut scanner = Scanner::new(query);
    if !empty.is_empty() {
        scanner.add_remark(format!("empty files: {}", empty.join(", ")));
    }
    for mut file in files {
        scanner.file(&mut file)?;
    }
    Ok(scanner.finish())
}

struct Scanner<'a> {
    query: &'a HistogramQuery,
    names_a_namespace: bool,
    dump: Finder<'static>,
    prefixes: Prefixes,
    result: ScanResult,
    open_dump: Option<(ScannedDump, u64)>,
    incomplete: u64,
    strays: u64,
    dumps_dropped: u64,
    series_dropped: u64,
    repeats: Repeats,
    repeated: u64,
    cut_line: Vec<u8>,
    node: Option<String>,
    /// Source of the first histogram: without ticker lines, only the prefixes of the lines name their node.
    source: Option<String>,
    series: Vec<String>,
}

impl<'a> Scanner<'a> {
    fn new(query: &'a HistogramQuery) -> Self {
        Self {
            query,
            names_a_namespace: query.names_a_namespace(),
            dump: Finder::new(DUMP),
            prefixes: Prefixes::default(),
            result: ScanResult::default(),
            open_dump: None,
            incomplete: 0,
            strays: 0,
            dumps_dropped: 0,
            series_dropped: 0,
            repeats: Repeats::default(),
            repeated: 0,
            cut_line: Vec::new(),
            node: None,
            source: None,
            series: Vec::new(),
        }
    }

    fn add_remark(&mut self, sentence: String) {
        self.result.remarks.push(sentence);
    }

    fn file(&mut self, file: &mut LogFile) -> Result<(), LogError> {
        let cannot = |source| SourceError {
            name: file.name.clone(),
            source,
        };
        self.prefixes = std::mem::take(&mut file.prefixes);
        if !file.head.is_empty() && !self.cut_line.is_empty() {
            let line = [&self.cut_line[..], &file.head].concat();
            self.line(&line, &file.name, 1)?;
        }
        self.cut_line.clear();
        let mut steps = TimeSteps::default();
        loop {
            let number = file.lines.number + 1;
            let Some(line) = file.lines.next_line().map_err(cannot)? else {
                break;
            };
            if !line.is_complete {
                self.cut_line = line.bytes.to_vec();
            } else {
                self.line(line.bytes, &file.name, number)?;
            }
            if let Some(at) = self.result.tail {
                steps.add(at);
            }
        }
        steps.check(&file.name)?;
        let skipped = file.lines.skipped;
        if skipped != Skipped::default() {
            self.add_remark(format!("{}: skipped {skipped}", file.name));
        }
        if file.lines.input.is_cut() {
            self.add_remark(format!(
                "{}: the compressed data is truncated: only its readable part is used",
                file.name
            ));
        }
        Ok(())
    }

    /// Reads a line. `name`, `number`: its file and its number, for the error.
    /// Errors: earlier lines are of another node.
    fn line(&mut self, line: &[u8], name: &str, number: u64) -> Result<(), LogError> {
        let Some(SourcedLine {
            source,
            line,
            stamp,
            stamp_bytes,
        }) = self.prefixes.split(line)
        else {
            return Ok(());
        };
        if self.repeats.is_repeat(&line) {
            self.repeated += 1;
            return Ok(());
        }
        let message = &line[stamp_bytes..];
        let dump = self.dump.find(message);
        if dump.is_some() {
            same_node(&mut self.source, quoted(source), name, number)?;
        }
        self.result.tail = Some(stamp.local);
        self.result.head.get_or_insert(stamp.local);
        self.result.followed = true;
        if let Some((dumped, counted)) = &mut self.open_dump {
            let parts = text::parts(message);
            let buckets = parts
                .filter(|parts| parts.file == b"hist.c")
                .and_then(|parts| text::buckets(parts.text));
            let seconds = stamp
                .local
                .duration_since(dumped.local_time)
                .as_secs()
                .abs();
            if let Some((bucket_counts, length)) = buckets
                .filter(|(found, _)| dumped.buckets.len() <= found[0].0 && seconds <= TOGETHER_SEC)
            {
                for (bucket, count) in &bucket_counts[..length] {
                    dumped.buckets.resize(bucket + 1, 0);
                    dumped.buckets[*bucket] = *count;
                    *counted = counted.saturating_add(*count);
                }
                // A dump at the end of the log counts only if another line follows it.
                if *counted >= dumped.total {
                    self.close();
                    self.result.followed = false;
                }
                return Ok(());
            }
        }
        let Some(at) = dump else {
            return match text::parts(message).and_then(text::node_id) {
                Some(id) => same_node(&mut self.node, id, name, number),
                None => Ok(()),
            };
        };
        self.close();
        self.begin(&message[at + DUMP.len()..], stamp.local);
        Ok(())
    }

    fn begin(&mut self, text: &[u8], local_time: DateTime) {
        if !self.is_requested(text) {
            if self.result.dumps.is_empty()
                && self.result.names.len() < NAMES_MAX
                && let Some(header) = text::dump_header(text)
                && !self.result.names.contains(header.name)
            {
                self.result.names.insert(header.name.to_owned());
            }
            return;
        }
        let Some(header) = text::dump_header(text) else {
            self.incomplete += 1;
            return;
        };
        if self.series.len() == SERIES_MAX && !self.series.iter().any(|name| name == header.name) {
            self.series_dropped += 1;
            return;
        }
        let unit = header.unit.unwrap_or(HistogramUnit::Count);
        let series = self
            .series
            .iter()
            .position(|name| name == header.name)
            .unwrap_or_else(|| {
                self.series.push(header.name.to_owned());
                self.series.len() - 1
            });
        let rounded_time = local_time.round(
            jiff::civil::DateTimeRound::new()
                .smallest(jiff::Unit::Second)
                .mode(jiff::RoundMode::Trunc),
        );
        let dumped = ScannedDump {
            local_time: rounded_time.unwrap_or_default(),
            series,
            unit,
            total: header.total,
            buckets: Vec::new(),
        };
        self.open_dump = Some((dumped, 0));
        if header.total == 0 {
            self.close();
            self.result.followed = false;
        }
    }

    /// True if a line with this `text` belongs to the histogram.
    fn is_requested(&self, text: &[u8]) -> bool {
        match &self.query.namespace {
            Some(requested) => self.split_namespace(text).is_some_and(|(found, rest)| {
                found == requested.as_bytes() && self.is_histogram(rest)
            }),
            None => {
                self.is_histogram(text)
                    || !self.names_a_namespace
                        && self
                            .split_namespace(text)
                            .is_some_and(|(_, rest)| self.is_histogram(rest))
            }
        }
    }

    fn is_histogram(&self, text: &[u8]) -> bool {
        text.strip_prefix(self.query.histogram.as_bytes())
            .is_some_and(|rest| rest.starts_with(b" "))
    }

    /// Splits off the namespace in braces.
    fn split_namespace<'t>(&self, text: &'t [u8]) -> Option<(&'t [u8], &'t [u8])> {
        let rest = text.strip_prefix(b"{")?;
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let end = match &self.query.namespace {
            Some(namespace) => namespace.len(),
            None => rest.iter().take_while(|byte| is_of_name(byte)).count(),
        };
        let (namespace, rest) = rest.split_at_checked(end)?;
        Some((namespace, rest.strip_prefix(b"}-")?))
    }

    fn close(&mut self) {
        let Some((mut dumped, counted)) = self.open_dump.take() else {
            return;
        };
        // Old versions count while they print, so small differences are accepted.
        if counted < dumped.total || counted - dumped.total > dumped.total / 1000 {
            self.incomplete += 1;
        } else if self.result.dumps.len() >= DUMPS_MAX {
            self.dumps_dropped += 1;
        } else {
            self.result.names.clear();
            dumped.buckets.shrink_to_fit();
            self.drop_stray(&dumped);
            self.result.dumps.push(dumped);
        }
    }

    /// Drops the dump before `next` if it has the buckets of another histogram. asloglatency shows such a dump.
    fn drop_stray(&mut self, next: &ScannedDump) {
        if self.query.as_asloglatency {
            return;
        }
        let dumps = &self.result.dumps;
        let mut of_series = (0..dumps.len())
            .rev()
            .take(STRAY_DUMPS)
            .filter(|at| dumps[*at].series == next.series);
        if let (Some(last), Some(before)) = (of_series.next(), of_series.next())
            && is_stray([&dumps[before], &dumps[last], next].map(ScannedDump::counts))
        {
            self.result.dumps.remove(last);
            self.strays += 1;
        }
    }

    fn finish(mut self) -> ScanResult {
        self.close();
        let series = format!("of further namespaces than the first {SERIES_MAX}, left out");
        let memory = "beyond the memory limit, left out; give the files one by one";
        for (number, noun, note) in [
            (
                self.incomplete,
                "histogram",
                "without all of its buckets, left out",
            ),
            (
                self.strays,
                "histogram",
                "with the buckets of another histogram, because lines between the two are missing, left out",
            ),
            (self.dumps_dropped, "histogram", memory),
            (self.series_dropped, "histogram", &series),
            (self.repeated, "line", "equal to the one before, left out"),
        ] {
            if number > 0 {
                self.add_remark(format!("{} {note}", count(number, noun)));
            }
        }
        self.result
    }
}
