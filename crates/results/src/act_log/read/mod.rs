//! Reading ACT's log as a stream: the header at once, then chunk after chunk.
//!
//! Strict, because a misread log is a wrong verdict: names must be those of the header and in its order, buckets must
//! ascend and add up to their total, counts never shrink. Tolerant in two things only. Other lines may stand between
//! any two lines of reports, because ACT's threads print while its main thread reports, and because standard error may
//! go to the same file; in the header only known ACT messages. And the tail may be missing, because runs get killed: an
//! incomplete end of the file is dropped and [`Reader::truncation`] reports it.
//!
//! A caller that needs only some of the reports ([`Reader::next_chunk_at`]) skips the others: only their time is
//! parsed, so that a day of a large log takes a tenth of a second. The last report is always read, because it can be
//! torn.

mod error;
mod header;
mod lines;
mod report;

pub use error::{HeaderPart, ReadError};

use super::Header;
use crate::buckets::{ActBuckets, ActScale};
use error::{Fault, Messages};
use lines::{Dialect, Lines};
use std::io::Read;

/// One report: counts since the run began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Nominal seconds since the run began.
    pub after_sec: u64,
    /// One per name in [`Reader::names`], in that order.
    pub histograms: Vec<ActBuckets>,
}

/// An entry after the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Chunk(Chunk),
    /// A line between or within the reports that is not part of one, as printed: an I/O error, the reason for the end
    /// of the test, or anything else written to the file.
    Message(String),
}

/// A log that ends in the middle of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// Last line of the file, from 1.
    pub line: u64,
    /// Time of the last complete chunk, 0 when there is none.
    pub complete_sec: u64,
}

/// Maximum number of histograms, several times that of ACT's maximum of 128 devices.
const HISTOGRAMS_MAX: usize = 2048;

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
    messages: Messages,
    last: Chunk,
    truncation: Option<Truncation>,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header. A log that ends within it is an error, which quotes the test's own error
    /// message if there is one.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut lines = Lines::new(input);
        let mut messages = Messages::default();
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

    pub fn input(&self) -> &R {
        self.lines.input()
    }

    /// Everything before the first chunk.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The histograms of each report: those in the header, or, without names in the header, those of the first report.
    /// ACT 6.1 names two that it does not report.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Time of the last report that was read completely or skipped, 0 without any.
    pub fn complete_sec(&self) -> u64 {
        self.last.after_sec
    }

    /// Unit of the buckets.
    pub fn scale(&self) -> ActScale {
        self.scale
    }

    /// The truncation, if the log ends in the middle of an entry. Known once the iterator has ended.
    pub fn truncation(&self) -> Option<Truncation> {
        self.truncation
    }

    /// Number of messages dropped because too many stood within one report or the header.
    pub fn messages_left_out(&self) -> u64 {
        self.messages.left_out()
    }

    /// The next report at a time that is `wanted`. Other reports and messages are skipped; times must ascend
    /// nevertheless. Errors and the end are those of the iterator.
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
        if let Some(message) = self.messages.pop() {
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
                self.messages.pop().map(|message| Ok(Entry::Message(message)))
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
            if !line.can_be_of_report() {
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
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Entry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(&|_| true)
    }
}

#[cfg(test)]
mod tests;
