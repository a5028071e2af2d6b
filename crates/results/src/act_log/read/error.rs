//! Why a log could not be read, and where.
//!
//! Messages are queued while another entry is read: the first ones, and the number of the others, because a test on a
//! dying device can print any number of them within one report.

use std::collections::VecDeque;
use thiserror::Error;

/// Why a log could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file itself could not be read.
    #[error("line {line}: {source}")]
    Io {
        /// Line being read, from 1.
        line: u64,
        source: std::io::Error,
    },
    /// The log is of a version of ACT that is not known here.
    #[error("line {line}: expected a log of ACT 3, 4, 5 or 6, found ACT version {version:?}; nothing of it was read")]
    Version {
        /// Line number, from 1.
        line: u64,
        /// Text found in place of the version.
        version: String,
    },
    /// A line before the first report violates the format.
    #[error("line {line}: expected {expected}, found {found}; it stands before the first report, so none was read")]
    Header {
        /// Line number, from 1.
        line: u64,
        /// The part of the header that the line should belong to.
        part: HeaderPart,
        /// The version of the log; empty when the line with it was not found.
        version: String,
        /// Expected text.
        expected: String,
        /// Text found, in quotes, or "the end of the file".
        found: String,
    },
    /// A line of the reports violates the format.
    #[error("line {line}: expected {expected}, found {found}; the {complete_sec} s before it are complete")]
    Format {
        /// Line number, from 1.
        line: u64,
        /// Expected text.
        expected: String,
        /// Text found, in quotes, or "the end of the file".
        found: String,
        /// Time of the last chunk that was read completely, 0 when there was none.
        complete_sec: u64,
    },
}

/// The parts of a header, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderPart {
    /// The line with the version.
    Version,
    /// The banner and the configuration.
    Configuration,
    Derived,
    /// The device lines and the names of the histograms.
    Names,
}

/// Why the parsing of a chunk or header stopped.
pub(super) enum Fault {
    /// A line violates the format.
    Error(ReadError),
    /// The file ends here, in the middle.
    Truncated,
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Self {
        Self::Error(error)
    }
}

/// Limit on queued messages, bytes: room for some ten thousand of ACT's.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Approximate memory of a stored line besides its text, bytes: the string, its list slot, heap overhead.
pub(super) const LINE_OVERHEAD_BYTES: usize = 64;

/// Messages in the order in which they were printed.
#[derive(Debug, Default)]
pub(super) struct Messages {
    waiting: VecDeque<String>,
    bytes: usize,
    left_out: u64,
}

impl Messages {
    /// Stores a message, or only counts it if too many are queued.
    pub(super) fn push(&mut self, text: String) {
        let bytes = self.bytes + text.len() + LINE_OVERHEAD_BYTES;
        if bytes > WAITING_BYTES_MAX {
            self.left_out += 1;
        } else {
            self.bytes = bytes;
            self.waiting.push_back(text);
        }
    }

    pub(super) fn pop(&mut self) -> Option<String> {
        let text = self.waiting.pop_front()?;
        self.bytes -= text.len() + LINE_OVERHEAD_BYTES;
        Some(text)
    }

    pub(super) fn first(&self) -> Option<&str> {
        self.waiting.front().map(String::as_str)
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }

    /// Number of messages counted and not stored.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}
