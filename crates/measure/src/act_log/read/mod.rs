//! Reading ACT's log as a stream: the header at once, then chunk after chunk.
//!
//! Strict, because a misread log is a wrong verdict: names must be those of the header and in its
//! order, buckets must ascend and add up to their total, counts never shrink. Tolerant in two things
//! only. Messages may stand between any two lines, because ACT's threads print while its main thread
//! reports. And the tail may be missing, because runs get killed: what is incomplete at the end of
//! the file is dropped and [`Reader::truncation`] says so.
//!
//! Who wants only some of the reports ([`Reader::next_chunk_at`]) has the others passed over: of
//! those only the line with the time is looked at, so that a day of a large log takes a tenth of a
//! second. The last report is always read, because it is the one that can be torn.

mod dialect;
mod header;
mod lines;

use super::Header;
use crate::buckets::{ACT_BUCKETS, ActBuckets, ActScale};
use dialect::Dialect;
use lines::{Line, Lines};
use std::collections::VecDeque;
use std::io::Read;
use thiserror::Error;

/// Why a log could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file itself could not be read.
    #[error("reading line {line} - {source}")]
    Io {
        /// Line being read, from 1.
        line: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// The log is of a version of ACT that is not known here.
    #[error("line {line}: expected a log of ACT 3, 4, 5 or 6, found ACT version {version:?}; nothing of it was read")]
    Version {
        /// Line number, from 1.
        line: u64,
        /// What stands for the version.
        version: String,
    },
    /// A line before the first report is not what the format wants.
    #[error("line {line}: expected {expected}, found {found}; it stands before the first report, so none was read")]
    Header {
        /// Line number, from 1.
        line: u64,
        /// The part of the header that the line should belong to.
        part: Part,
        /// The version of the log; empty when the line with it was not found.
        version: String,
        /// What should stand there.
        expected: String,
        /// What does stand there, in quotes, or "the end of the file".
        found: String,
    },
    /// A line of the reports is not what the format wants.
    #[error("line {line}: expected {expected}, found {found}; the {complete_sec} s before it are complete")]
    Format {
        /// Line number, from 1.
        line: u64,
        /// What should stand there.
        expected: String,
        /// What does stand there, in quotes, or "the end of the file".
        found: String,
        /// Time of the last chunk that was read completely, 0 when there was none.
        complete_sec: u64,
    },
}

/// The parts of a header, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The line with the version.
    Version,
    /// The banner and the configuration.
    Configuration,
    /// The derived rates.
    Derived,
    /// The device lines and the names of the histograms.
    Names,
}

/// What one report added to the log: counts since the run began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Nominal seconds since the run began.
    pub after_sec: u64,
    /// One for each of [`Reader::names`], in their order.
    pub histograms: Vec<ActBuckets>,
}

/// What follows the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A report.
    Chunk(Chunk),
    /// A line that the test printed between (or within) its reports, as printed: an I/O error, or
    /// why it stopped.
    Message(String),
}

/// That the log ends in the middle of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// Last line of the file, from 1.
    pub line: u64,
    /// Time of the last complete chunk, 0 when there is none.
    pub complete_sec: u64,
}

/// Reads a log entry by entry; memory does not grow with the log.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    dialect: Dialect,
    header: Header,
    names: Vec<String>,
    scale: ActScale,
    /// The first report, where it had to be read for the names.
    ahead: Option<Chunk>,
    messages: VecDeque<String>,
    last: Chunk,
    truncation: Option<Truncation>,
    ended: bool,
}

/// How far the parsing of a chunk or header got.
enum Fault {
    Error(ReadError),
    /// The file ends here, in the middle.
    Truncated,
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Self {
        Self::Error(error)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header. A log that ends within it is an error, which quotes the test's own error
    /// message if there is one.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut lines = Lines::new(input);
        let mut messages = VecDeque::new();
        let (header, dialect) = header::read(&mut lines, &mut messages)?;
        let scale = match header.configured("microsecond-histograms") {
            Some(value) if value.starts_with('y') => ActScale::Microseconds,
            _ => ActScale::Milliseconds,
        };
        let names = dialect.names(&header.histogram_names);
        let last = Chunk { after_sec: 0, histograms: vec![ActBuckets::new(scale); names.len()] };
        let (ahead, truncation, ended) = (None, None, false);
        let mut reader = Self { lines, dialect, header, names, scale, ahead, messages, last, truncation, ended };
        if dialect.names_stand_in_reports() {
            reader.learn_names()?;
        }
        Ok(reader)
    }

    /// What the log is read from.
    pub fn input(&self) -> &R {
        self.lines.input()
    }

    /// Everything before the first chunk.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The histograms of each report: those that the header names, or, in logs that name none, those
    /// of the first report. ACT 6.1 names two that it does not report.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Time of the last report that was read completely or passed over, 0 when there was none.
    pub fn complete_sec(&self) -> u64 {
        self.last.after_sec
    }

    /// Unit of the buckets.
    pub fn scale(&self) -> ActScale {
        self.scale
    }

    /// Whether the log ends in the middle of something. Known once the iterator has ended.
    pub fn truncation(&self) -> Option<Truncation> {
        self.truncation
    }

    /// The next report at a time that is `wanted`. The others are passed over, and so are messages;
    /// their times must ascend nevertheless. Errors and the end are those of the iterator.
    pub fn next_chunk_at(&mut self, wanted: impl Fn(u64) -> bool) -> Option<Result<Chunk, ReadError>> {
        loop {
            match self.step(&wanted)? {
                Ok(Entry::Chunk(chunk)) => return Some(Ok(chunk)),
                Ok(Entry::Message(_)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// The next entry, with only the reports that are `wanted`; notes how the log ends.
    fn step(&mut self, wanted: &dyn Fn(u64) -> bool) -> Option<Result<Entry, ReadError>> {
        if let Some(message) = self.messages.pop_front() {
            return Some(Ok(Entry::Message(message)));
        }
        if self.ended {
            return None;
        }
        match self.next_entry(wanted) {
            Ok(Some(entry)) => Some(Ok(entry)),
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(Fault::Truncated) => {
                self.ended = true;
                let (line, complete_sec) = (self.lines.number(), self.last.after_sec);
                self.truncation = Some(Truncation { line, complete_sec });
                self.messages.pop_front().map(|message| Ok(Entry::Message(message)))
            }
            Err(Fault::Error(mut error)) => {
                self.ended = true;
                self.messages.clear();
                if let ReadError::Format { complete_sec, .. } = &mut error {
                    *complete_sec = self.last.after_sec;
                }
                Some(Err(error))
            }
        }
    }

    fn next_entry(&mut self, wanted: &dyn Fn(u64) -> bool) -> Result<Option<Entry>, Fault> {
        if let Some(chunk) = self.ahead.take() {
            self.last.clone_from(&chunk);
            if wanted(chunk.after_sec) {
                return Ok(Some(Entry::Chunk(chunk)));
            }
        }
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            if line.is_message() {
                return if line.whole { Ok(Some(Entry::Message(line.text))) } else { Err(Fault::Truncated) };
            }
            if line.text.is_empty() {
                continue;
            }
            let after_sec = self.after_sec(&line)?;
            let wanted = wanted(after_sec);
            if !wanted && self.lines.skip_to(self.dialect.after())? {
                self.last.after_sec = after_sec;
                continue;
            }
            let chunk = self.body(after_sec)?;
            self.last.clone_from(&chunk);
            if wanted {
                return Ok(Some(Entry::Chunk(chunk)));
            }
        }
    }

    /// The time of a report, by its first line.
    fn after_sec(&self, line: &Line) -> Result<u64, Fault> {
        let after = self.dialect.after();
        let after_sec = line.text.strip_prefix(after).and_then(|rest| rest.strip_suffix(" sec:")).and_then(number);
        let Some(after_sec) = after_sec else { return Err(self.fault(line, &format!("\"{after}N sec:\""))) };
        if after_sec <= self.last.after_sec {
            return Err(self.fault(line, &format!("a time after {} sec", self.last.after_sec)));
        }
        Ok(after_sec)
    }

    /// What follows a report's first line, up to its empty line.
    fn body(&mut self, after_sec: u64) -> Result<Chunk, Fault> {
        let mut histograms = Vec::with_capacity(self.names.len());
        for index in 0..self.names.len() {
            let line = self.first_line_of_histogram()?;
            let total = self.dialect.total(&line.text).filter(|(found, _)| *found == self.names[index]);
            let Some((_, total)) = total else {
                let name = lines::quoted(&self.names[index]);
                return Err(self.fault(&line, &format!("histogram {name} and its total")));
            };
            histograms.push(self.buckets(index, total)?);
        }
        // A chunk whose histograms are all there is complete; the file may end before its empty line.
        match self.lines.next_but(&mut self.messages)? {
            Some(line) if !line.text.is_empty() => Err(self.fault(&line, "an empty line after the last histogram")),
            _ => Ok(Chunk { after_sec, histograms }),
        }
    }

    /// Reads the first report of a log that has the names of its histograms nowhere else.
    fn learn_names(&mut self) -> Result<(), ReadError> {
        match self.first_report() {
            Ok(chunk) => self.ahead = chunk,
            Err(Fault::Error(error)) => return Err(error),
            Err(Fault::Truncated) => {
                let (line, complete_sec) = (self.lines.number(), 0);
                (self.truncation, self.ended) = (Some(Truncation { line, complete_sec }), true);
            }
        }
        Ok(())
    }

    fn first_report(&mut self) -> Result<Option<Chunk>, Fault> {
        let after_sec = loop {
            match self.lines.next_but(&mut self.messages)? {
                None => return Ok(None),
                Some(line) if line.text.is_empty() => {}
                Some(line) => break self.after_sec(&line)?,
            }
        };
        let mut histograms = Vec::new();
        loop {
            let line = self.first_line_of_histogram()?;
            if line.text.is_empty() {
                return Ok(Some(Chunk { after_sec, histograms }));
            }
            let Some((name, total)) = self.dialect.total(&line.text) else {
                return Err(self.fault(&line, "a histogram's name and its total"));
            };
            self.names.push(name.to_owned());
            self.last.histograms.push(ActBuckets::new(self.scale));
            histograms.push(self.buckets(histograms.len(), total)?);
        }
    }

    /// The next line, past the length of the queue that ACT 3 to 5 report first.
    fn first_line_of_histogram(&mut self) -> Result<Line, Fault> {
        loop {
            let line = self.lines.next_but(&mut self.messages)?.ok_or(Fault::Truncated)?;
            if !(line.whole && self.dialect.is_queue_length(&line.text)) {
                return Ok(line);
            }
        }
    }

    /// Lines of buckets of the histogram at `index`, until they add up to its total.
    fn buckets(&mut self, index: usize, total: u64) -> Result<ActBuckets, Fault> {
        let mut buckets = ActBuckets::new(self.scale);
        let mut sum: u64 = 0;
        let mut lowest = 0;
        while sum < total {
            let line = self.lines.next_but(&mut self.messages)?.ok_or(Fault::Truncated)?;
            self.bucket_line(&line, index, &mut lowest, &mut sum, &mut buckets)?;
            if sum > total {
                return Err(self.fault(&line, &format!("counts that add up to {total}")));
            }
        }
        Ok(buckets)
    }

    /// One line of `(bucket: count)`, appended to `buckets`; `lowest` is the next bucket allowed.
    fn bucket_line(
        &self,
        line: &Line,
        index: usize,
        lowest: &mut usize,
        sum: &mut u64,
        buckets: &mut ActBuckets,
    ) -> Result<(), Fault> {
        let name = lines::quoted(&self.names[index]);
        let mut rest = line.text.as_str();
        if rest.is_empty() {
            return Err(self.fault(line, &format!("more buckets of histogram {name}")));
        }
        while !rest.is_empty() {
            let column = rest.strip_prefix(" (").and_then(|rest| rest.split_once(')'));
            let Some((column, after)) = column else {
                return Err(self.fault(line, &format!("a bucket \"(NN: COUNT)\" of histogram {name}")));
            };
            let Some((bucket, count)) = column.split_once(": ") else {
                return Err(self.fault(line, &format!("a bucket \"(NN: COUNT)\" of histogram {name}")));
            };
            let bucket_index = number(bucket).and_then(|bucket| usize::try_from(bucket).ok());
            let bucket_index = bucket_index.filter(|bucket| (*lowest..ACT_BUCKETS).contains(bucket));
            let Some(bucket_index) = bucket_index else {
                let expected = format!("histogram {name}, a bucket from {lowest:02} to {:02}", ACT_BUCKETS - 1);
                return Err(self.fault_at(line, &expected, bucket));
            };
            let Some(count) = number(count).filter(|count| *count > 0) else {
                let expected = format!("histogram {name}, bucket {bucket_index:02}: a count");
                return Err(self.fault_at(line, &expected, count));
            };
            let before = self.last.histograms[index].counts()[bucket_index];
            if count < before {
                let expected =
                    format!("histogram {name}, bucket {bucket_index:02}: at least the {before} of the report before");
                return Err(self.fault_at(line, &expected, &count.to_string()));
            }
            let Some(new_sum) = sum.checked_add(count) else {
                return Err(self.fault(line, "counts that add up to a 64-bit number"));
            };
            *sum = new_sum;
            *lowest = bucket_index + 1;
            buckets.add(bucket_index, count);
            rest = after;
        }
        Ok(())
    }

    fn fault(&self, line: &Line, expected: &str) -> Fault {
        self.fault_at(line, expected, &line.text)
    }

    /// An error, unless the line is the end of a truncated file.
    fn fault_at(&self, line: &Line, expected: &str, found: &str) -> Fault {
        if !line.whole {
            return Fault::Truncated;
        }
        Fault::Error(ReadError::Format {
            line: line.number,
            expected: expected.to_owned(),
            found: lines::quoted(found),
            complete_sec: self.last.after_sec,
        })
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Entry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(&|_| true)
    }
}

/// A decimal number of digits only: no sign, no blanks.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
