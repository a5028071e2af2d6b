//! Reading ACT's log as a stream: the header at once, then chunk after chunk.
//!
//! Strict, because a misread log is a wrong verdict: names must be those of the header and in its
//! order, buckets must ascend and add up to their total, counts never shrink. Tolerant in two things
//! only. Messages may stand between any two lines, because ACT's threads print while its main thread
//! reports. And the tail may be missing, because runs get killed: what is incomplete at the end of
//! the file is dropped and [`Reader::truncation`] says so.

mod header;
mod lines;

use super::Header;
use crate::buckets::{ACT_BUCKETS, ActBuckets, ActScale};
use lines::{Line, Lines};
use std::collections::VecDeque;
use std::io::BufRead;
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
    /// A line is not what the format wants.
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

/// What one report added to the log: counts since the run began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Nominal seconds since the run began.
    pub after_sec: u64,
    /// One for each of the header's names, in their order.
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
    header: Header,
    scale: ActScale,
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

impl<R: BufRead> Reader<R> {
    /// Reads the header. A log that ends within it is an error, which quotes the test's own error
    /// message if there is one.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut lines = Lines::new(input);
        let mut messages = VecDeque::new();
        let header = header::read(&mut lines, &mut messages)?;
        let scale = match header.configured("microsecond-histograms") {
            Some(value) if value.starts_with('y') => ActScale::Microseconds,
            _ => ActScale::Milliseconds,
        };
        let last = Chunk { after_sec: 0, histograms: vec![ActBuckets::new(scale); header.histogram_names.len()] };
        Ok(Self { lines, header, scale, messages, last, truncation: None, ended: false })
    }

    /// Everything before the first chunk.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Unit of the buckets.
    pub fn scale(&self) -> ActScale {
        self.scale
    }

    /// Whether the log ends in the middle of something. Known once the iterator has ended.
    pub fn truncation(&self) -> Option<Truncation> {
        self.truncation
    }

    fn next_entry(&mut self) -> Result<Option<Entry>, Fault> {
        if let Some(message) = self.messages.pop_front() {
            return Ok(Some(Entry::Message(message)));
        }
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            if line.is_message() {
                return if line.whole { Ok(Some(Entry::Message(line.text))) } else { Err(Fault::Truncated) };
            }
            if !line.text.is_empty() {
                let chunk = self.chunk(&line)?;
                self.last.clone_from(&chunk);
                return Ok(Some(Entry::Chunk(chunk)));
            }
        }
    }

    fn chunk(&mut self, first: &Line) -> Result<Chunk, Fault> {
        let after_sec = first.text.strip_prefix("after ").and_then(|rest| rest.strip_suffix(" sec:")).and_then(number);
        let Some(after_sec) = after_sec else { return Err(self.fault(first, "\"after N sec:\"")) };
        if after_sec <= self.last.after_sec {
            return Err(self.fault(first, &format!("a time after {} sec", self.last.after_sec)));
        }
        let mut histograms = Vec::with_capacity(self.header.histogram_names.len());
        for index in 0..self.header.histogram_names.len() {
            histograms.push(self.histogram(index)?);
        }
        // A chunk whose histograms are all there is complete; the file may end before its empty line.
        match self.lines.next_but(&mut self.messages)? {
            Some(line) if !line.text.is_empty() => Err(self.fault(&line, "an empty line after the last histogram")),
            _ => Ok(Chunk { after_sec, histograms }),
        }
    }

    /// One histogram: its name and total, then lines of buckets until they add up to it.
    fn histogram(&mut self, index: usize) -> Result<ActBuckets, Fault> {
        let line = self.lines.next_but(&mut self.messages)?.ok_or(Fault::Truncated)?;
        let name = &self.header.histogram_names[index];
        let total = line.text.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix(" ("));
        let total = total.and_then(|rest| rest.strip_suffix(" total)")).and_then(number);
        let Some(total) = total else {
            let expected = format!("histogram \"{name}\" and its total");
            return Err(self.fault(&line, &expected));
        };
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
        let name = &self.header.histogram_names[index];
        let mut rest = line.text.as_str();
        if rest.is_empty() {
            return Err(self.fault(line, &format!("more buckets of histogram \"{name}\"")));
        }
        while !rest.is_empty() {
            let column = rest.strip_prefix(" (").and_then(|rest| rest.split_once(')'));
            let Some((column, after)) = column else {
                return Err(self.fault(line, &format!("a bucket \"(NN: COUNT)\" of histogram \"{name}\"")));
            };
            let Some((bucket, count)) = column.split_once(": ") else {
                return Err(self.fault(line, &format!("a bucket \"(NN: COUNT)\" of histogram \"{name}\"")));
            };
            let bucket_index = number(bucket).and_then(|bucket| usize::try_from(bucket).ok());
            let bucket_index = bucket_index.filter(|bucket| (*lowest..ACT_BUCKETS).contains(bucket));
            let Some(bucket_index) = bucket_index else {
                let expected = format!("histogram \"{name}\", a bucket from {lowest:02} to {:02}", ACT_BUCKETS - 1);
                return Err(self.fault_at(line, &expected, bucket));
            };
            let Some(count) = number(count).filter(|count| *count > 0) else {
                let expected = format!("histogram \"{name}\", bucket {bucket_index:02}: a count");
                return Err(self.fault_at(line, &expected, count));
            };
            let before = self.last.histograms[index].counts()[bucket_index];
            if count < before {
                let expected = format!(
                    "histogram \"{name}\", bucket {bucket_index:02}: at least the {before} of the report before"
                );
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

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Entry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return self.messages.pop_front().map(|message| Ok(Entry::Message(message)));
        }
        match self.next_entry() {
            Ok(Some(entry)) => return Some(Ok(entry)),
            Ok(None) => self.ended = true,
            Err(Fault::Truncated) => {
                self.ended = true;
                let (line, complete_sec) = (self.lines.number(), self.last.after_sec);
                self.truncation = Some(Truncation { line, complete_sec });
                return self.next();
            }
            Err(Fault::Error(error)) => {
                self.ended = true;
                self.messages.clear();
                return Some(Err(error));
            }
        }
        None
    }
}

/// A decimal number of digits only: no sign, no blanks.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
