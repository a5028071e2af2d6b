//! Reads ACT's log as a stream: first the header, then chunk after chunk.
//!
//! The reader is strict, because a misread log gives a wrong verdict: names and their order must match the header,
//! buckets must ascend and add up to their total, and counts must never shrink. The reader tolerates these deviations:
//!
//! * Other lines between any two lines of reports, which are skipped: ACT's threads print while its main thread reports,
//!   and standard error may go to the same file. In the header, only known messages of ACT are tolerated.
//! * Starts that failed before the first report, of a command that was repeated with `>>`: the last header counts.
//! * A prefix of each line, as of the version line, and missing empty lines: containers and the journal print logs so.
//! * A missing tail, because runs get killed. An incomplete end of the file is dropped, and [`ActLogReader::truncation`]
//!   reports it.
//!
//! A caller that needs only some reports ([`ActLogReader::next_chunk_at`]) skips the others. Of skipped reports only the time
//! is parsed, so that a day of a large log takes a tenth of a second. The last report is always read, because it can be
//! torn.

mod header;
mod lines;

use super::{Input, LogHeader};
use crate::buckets::{ACT_BUCKETS, ActBuckets, ActScale};
use crate::format::quoted_start;
use lines::{Dialect, LogLine, LogLines, number};
use memchr::memmem::Finder;
use thiserror::Error;

/// A report: counts since the run began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Nominal seconds since the run began.
    pub after_sec: u64,
    /// Histograms in the order of [`ActLogReader::names`].
    pub histograms: Vec<ActBuckets>,
}

/// A log that ends in the middle of a line or of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// Last line of the file, from 1.
    pub line: u64,
    /// Time of the last complete chunk, seconds; 0 without a complete chunk.
    pub complete_sec: u64,
}

/// Sanity limit on the number of histograms: several times what 128 devices, ACT's maximum, need.
const HISTOGRAMS_MAX: usize = 2048;

/// Appended to the second of two equal names: ACT 4 reports the reads and the commit writes of a device under its name.
const WRITES: &str = "-writes";

/// Reads a log chunk by chunk; memory does not grow with the log.
#[derive(Debug)]
pub struct ActLogReader<'a> {
    lines: LogLines<'a>,
    dialect: Dialect,
    report: Finder<'static>,
    header: LogHeader,
    names: Vec<String>,
    scale: ActScale,
    /// The first report, if it was read ahead to learn the histogram names.
    read_ahead: Option<Chunk>,
    last_chunk: Chunk,
    truncation: Option<Truncation>,
    has_ended: bool,
}

impl<'a> ActLogReader<'a> {
    /// Reads the header. A log that ends within the header is an error, which has the test's own message, if any.
    pub fn new(input: impl Into<Input<'a>>) -> Result<Self, LogReadError> {
        Self::of_lines(LogLines::new(input.into()))
    }

    fn of_lines(mut lines: LogLines<'a>) -> Result<Self, LogReadError> {
        let (header, dialect) = header::read(&mut lines)?;
        let scale = match header.configured("microsecond-histograms") {
            Some(value) if value.starts_with('y') => ActScale::Microseconds,
            _ => ActScale::Milliseconds,
        };
        let names = dialect.names(&header.histogram_names);
        let last_chunk = Chunk {
            after_sec: 0,
            histograms: vec![ActBuckets::new(scale); names.len()],
        };
        let read_ahead = None;
        let truncation = None;
        let has_ended = false;
        let report = dialect.report();
        let mut reader = Self {
            lines,
            dialect,
            report,
            header,
            names,
            scale,
            read_ahead,
            last_chunk,
            truncation,
            has_ended,
        };
        if dialect.names_stand_in_reports() {
            reader.learn_names()?;
        }
        Ok(reader)
    }

    pub fn input(&self) -> &Input<'a> {
        self.lines.input()
    }

    pub fn header(&self) -> &LogHeader {
        &self.header
    }

    /// Names of the histograms in each report: from the header, or, if the header has no names, from the first report.
    /// The header of ACT 6.1 also names two histograms that its reports do not have.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Time of the last report that was read completely or skipped, seconds; 0 without a report.
    pub fn complete_sec(&self) -> u64 {
        self.last_chunk.after_sec
    }

    /// The last report, once the iterator has ended without damage or truncation. Before that, counts of skipped
    /// reports are missing.
    pub fn last_chunk(&self) -> &Chunk {
        &self.last_chunk
    }

    /// True if the test stopped because devices fell behind by over `max-lag-sec`. Valid once the iterator has ended.
    pub fn devices_fell_behind(&self) -> bool {
        self.lines.devices_fell_behind()
    }

    pub fn scale(&self) -> ActScale {
        self.scale
    }

    /// The truncation, if the log ends in the middle of a line or of a chunk. Valid once the iterator has ended.
    pub fn truncation(&self) -> Option<Truncation> {
        self.truncation
    }

    /// The next report for whose time `time_filter` is true. Skips other lines and reports, but checks that times
    /// ascend, and records how the log ends.
    pub fn next_chunk_at(
        &mut self,
        time_filter: impl Fn(u64) -> bool,
    ) -> Option<Result<Chunk, LogReadError>> {
        if self.has_ended {
            return None;
        }
        match self.next_chunk(&time_filter) {
            Ok(Some(chunk)) => Some(Ok(chunk)),
            Ok(None) => {
                self.has_ended = true;
                None
            }
            Err(ParseStop::Truncated) => {
                self.has_ended = true;
                let line = self.lines.number();
                let complete_sec = self.last_chunk.after_sec;
                self.truncation = Some(Truncation { line, complete_sec });
                None
            }
            Err(ParseStop::Error(mut error)) => {
                self.has_ended = true;
                if let LogReadError::Format { complete_sec, .. } = &mut error {
                    *complete_sec = self.last_chunk.after_sec;
                }
                Some(Err(error))
            }
        }
    }

    fn next_chunk(
        &mut self,
        time_filter: &dyn Fn(u64) -> bool,
    ) -> Result<Option<Chunk>, ParseStop> {
        if let Some(chunk) = self.read_ahead.take() {
            self.last_chunk.clone_from(&chunk);
            if time_filter(chunk.after_sec) {
                return Ok(Some(chunk));
            }
        }
        loop {
            let Some(line) = self.lines.next()? else {
                return Ok(None);
            };
            if !line.can_be_of_report() && !line.has_newline {
                return Err(ParseStop::Truncated);
            }
            if !line.can_be_of_report() || line.text.is_empty() {
                continue;
            }
            let after_sec = self.after_sec(&line)?;
            let is_selected = time_filter(after_sec);
            if !is_selected && self.lines.skip_to(&self.report)? {
                self.last_chunk.after_sec = after_sec;
                continue;
            }
            let chunk = self.body(after_sec)?;
            self.last_chunk.clone_from(&chunk);
            if is_selected {
                return Ok(Some(chunk));
            }
        }
    }

    /// Reads ahead to the first report, for a log whose header has no histogram names.
    fn learn_names(&mut self) -> Result<(), LogReadError> {
        match self.first_report() {
            Ok(chunk) => self.read_ahead = chunk,
            Err(ParseStop::Error(error)) => return Err(error),
            Err(ParseStop::Truncated) => {
                let line = self.lines.number();
                let complete_sec = 0;
                (self.truncation, self.has_ended) = (Some(Truncation { line, complete_sec }), true);
            }
        }
        Ok(())
    }

    fn after_sec(&self, line: &LogLine) -> Result<u64, ParseStop> {
        let prefix = self.dialect.after();
        let after_sec = line
            .text
            .strip_prefix(prefix)
            .and_then(|rest| rest.strip_suffix(" sec:"))
            .and_then(number);
        let Some(after_sec) = after_sec else {
            return Err(self.fault(line, &format!("\"{prefix}N sec:\"")));
        };
        if after_sec <= self.last_chunk.after_sec {
            return Err(self.fault(
                line,
                &format!("a time after {} sec", self.last_chunk.after_sec),
            ));
        }
        Ok(after_sec)
    }

    /// Reads a report from its second line to its empty line.
    fn body(&mut self, after_sec: u64) -> Result<Chunk, ParseStop> {
        let mut histograms = Vec::with_capacity(self.names.len());
        for index in 0..self.names.len() {
            let line = self.first_line_of_histogram()?;
            let total = self
                .dialect
                .total(&line.text)
                .filter(|(found, _)| self.is_named(index, found));
            let Some((_, total)) = total else {
                let name = quoted_start(&self.names[index]);
                return Err(self.fault(&line, &format!("histogram {name} and its total")));
            };
            histograms.push(self.buckets(index, total)?);
        }
        // A chunk with all histograms is complete; the file may end before its empty line.
        match self.report_line()? {
            Some(line) if !line.text.is_empty() => {
                Err(self.fault(&line, "an empty line after the last histogram"))
            }
            _ => Ok(Chunk {
                after_sec,
                histograms,
            }),
        }
    }

    /// Reads the first report of a log whose header has no histogram names, and takes the names from it.
    fn first_report(&mut self) -> Result<Option<Chunk>, ParseStop> {
        let after_sec = loop {
            match self.report_line()? {
                None => return Ok(None),
                Some(line) if line.text.is_empty() => {}
                Some(line) => break self.after_sec(&line)?,
            }
        };
        let mut histograms = Vec::new();
        loop {
            let line = self.first_line_of_histogram()?;
            if line.text.is_empty() {
                return Ok(Some(Chunk {
                    after_sec,
                    histograms,
                }));
            }
            let total = self
                .dialect
                .total(&line.text)
                .filter(|(name, _)| !lines::is_message(name));
            let Some((name, total)) = total else {
                return Err(self.fault(&line, "a histogram's name and its total"));
            };
            if self.names.len() >= HISTOGRAMS_MAX {
                return Err(self.fault(&line, &format!("at most {HISTOGRAMS_MAX} histograms")));
            }
            let name = name.to_owned();
            let is_second = self.names.contains(&name);
            self.names
                .push(if is_second { name + WRITES } else { name });
            self.last_chunk.histograms.push(ActBuckets::new(self.scale));
            histograms.push(self.buckets(histograms.len(), total)?);
        }
    }

    fn is_named(&self, index: usize, found: &str) -> bool {
        let name = self.names[index].as_str();
        name == found
            || self.dialect.names_stand_in_reports() && name.strip_suffix(WRITES) == Some(found)
    }

    /// The next line that can belong to a report; other lines are skipped.
    fn report_line(&mut self) -> Result<Option<LogLine>, LogReadError> {
        loop {
            let line = self.lines.next()?;
            if line.as_ref().is_none_or(|line| {
                line.can_be_of_report() || self.dialect.is_queue_length(&line.text)
            }) {
                return Ok(line);
            }
        }
    }

    /// The first line of a histogram. Skips the queue length that ACT 3 to 5 report before the histograms.
    fn first_line_of_histogram(&mut self) -> Result<LogLine, ParseStop> {
        loop {
            let line = self.report_line()?.ok_or(ParseStop::Truncated)?;
            if !(line.has_newline && self.dialect.is_queue_length(&line.text)) {
                return Ok(line);
            }
        }
    }

    /// Reads the histogram at `index`: lines of `(bucket: count)`, until the counts add up to `total`.
    fn buckets(&mut self, index: usize, total: u64) -> Result<ActBuckets, ParseStop> {
        let name = quoted_start(&self.names[index]);
        let mut buckets = ActBuckets::new(self.scale);
        // The sum of the counts, and the lowest bucket that may follow.
        let mut sum = 0_u64;
        let mut lowest = 0;
        while sum < total {
            let line = self.report_line()?.ok_or(ParseStop::Truncated)?;
            let mut rest = line.text.as_str();
            if rest.is_empty() {
                return Err(self.fault(&line, &format!("more buckets of histogram {name}")));
            }
            while !rest.is_empty() {
                let column = rest
                    .strip_prefix(" (")
                    .and_then(|rest| rest.split_once(')'));
                let column =
                    column.and_then(|(column, after)| Some((column.split_once(": ")?, after)));
                let Some(((bucket, count), remaining)) = column else {
                    return Err(self.fault(
                        &line,
                        &format!("a bucket \"(NN: COUNT)\" of histogram {name}"),
                    ));
                };
                let bucket_index = number(bucket).and_then(|bucket| usize::try_from(bucket).ok());
                let bucket_index =
                    bucket_index.filter(|bucket| (lowest..ACT_BUCKETS).contains(bucket));
                let Some(bucket_index) = bucket_index else {
                    let expected = format!(
                        "histogram {name}, a bucket from {lowest:02} to {:02}",
                        ACT_BUCKETS - 1
                    );
                    return Err(self.fault_at(&line, &expected, bucket));
                };
                let Some(count) = number(count).filter(|count| *count > 0) else {
                    let expected = format!("histogram {name}, bucket {bucket_index:02}: a count");
                    return Err(self.fault_at(&line, &expected, count));
                };
                let previous_count = self.last_chunk.histograms[index].counts()[bucket_index];
                if count < previous_count {
                    let expected = format!(
                        "histogram {name}, bucket {bucket_index:02}: at least {previous_count}, as in the report before"
                    );
                    return Err(self.fault_at(&line, &expected, &count.to_string()));
                }
                let Some(new_sum) = sum.checked_add(count) else {
                    return Err(self.fault(&line, "counts that add up to a 64-bit number"));
                };
                sum = new_sum;
                lowest = bucket_index + 1;
                buckets.add(bucket_index, count);
                rest = remaining;
            }
            if sum > total {
                return Err(self.fault(&line, &format!("counts that add up to {total}")));
            }
        }
        self.check_none_vanished(index, &buckets)?;
        Ok(buckets)
    }

    /// Checks that no count vanished: a missing bucket means 0, and counts must never shrink. Without this check, a
    /// reader that skips reports could find a shrinking count that a reader of all reports would miss.
    fn check_none_vanished(&self, index: usize, buckets: &ActBuckets) -> Result<(), ParseStop> {
        let counts = self.last_chunk.histograms[index]
            .counts()
            .iter()
            .zip(buckets.counts());
        let Some((bucket, (before, _))) =
            counts.enumerate().find(|(_, (before, now))| before > now)
        else {
            return Ok(());
        };
        let name = quoted_start(&self.names[index]);
        Err(ParseStop::Error(LogReadError::Format {
            line: self.lines.number(),
            expected: format!(
                "histogram {name}, bucket {bucket:02}: at least {before}, as in the report before"
            ),
            found: "none".to_owned(),
            complete_sec: self.last_chunk.after_sec,
        }))
    }

    fn fault(&self, line: &LogLine, expected: &str) -> ParseStop {
        self.fault_at(line, expected, &line.text)
    }

    /// A format error; or a truncation, if the line is the incomplete last line of the file.
    fn fault_at(&self, line: &LogLine, expected: &str, found: &str) -> ParseStop {
        if !line.has_newline {
            return ParseStop::Truncated;
        }
        ParseStop::Error(LogReadError::Format {
            line: line.number,
            expected: expected.to_owned(),
            found: quoted_start(found),
            complete_sec: self.last_chunk.after_sec,
        })
    }
}

impl Iterator for ActLogReader<'_> {
    type Item = Result<Chunk, LogReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_chunk_at(|_| true)
    }
}

/// Why a log could not be read, with the line number.
#[derive(Debug, Error)]
pub enum LogReadError {
    #[error("line {line}: {source}")]
    Io { line: u64, source: std::io::Error },
    #[error(
        "line {line}: expected a log of ACT 3, 4, 5 or 6, found ACT version {}; nothing was read",
        quoted_start(version)
    )]
    Version { line: u64, version: String },
    /// `version` is empty if the line with the version was not found.
    #[error(
        "line {line}: expected {expected}, found {found}; this line is before the first report, so no report was read"
    )]
    Header {
        line: u64,
        part: HeaderPart,
        version: String,
        expected: String,
        found: String,
    },
    /// `complete_sec`: time of the last whole chunk; 0 without a chunk.
    #[error(
        "line {line}: expected {expected}, found {found}; the {complete_sec} s before this line are complete"
    )]
    Format {
        line: u64,
        expected: String,
        found: String,
        complete_sec: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderPart {
    Version,
    /// The banner and the configuration.
    Configuration,
    Derived,
    /// The device lines and the names of the histograms.
    Names,
}

enum ParseStop {
    Error(LogReadError),
    Truncated,
}

impl From<LogReadError> for ParseStop {
    fn from(error: LogReadError) -> Self {
        Self::Error(error)
    }
}

#[cfg(test)]
mod tests;
