//! Lines of a log with their numbers, their classification as messages, and their ACT dialect.
//!
//! The file is read in large pieces into a window. To skip a report, the window is searched for the next report; the
//! skipped report is not split into lines.
//!
//! The reports of the dialects (ACT 3 and 4; 5; 6) differ only in their first line, in a queue length that ACT 6 does
//! not report, and in the names of histograms: ACT 3 and 4 pad these names with blanks and list them only in the
//! reports. Source: `act.c` of ACT 3.0 and 4.0, `src/storage/act_storage.c` of ACT 5.0 to 6.6.

use super::LogReadError;
use crate::act_log::{DERIVED_TITLE, Input, NAMES_TITLE, SETTINGS_TITLE};
use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter};
use std::io::{ErrorKind, Read};

/// Longest accepted line, bytes, so that other files cannot fill the memory.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Longest accepted report, bytes: 128 devices, ACT's maximum, need about 200 KB.
const REPORT_BYTES_MAX: usize = 4 << 20;
/// Initial size of the window, bytes; the window grows only for a longer report.
const WINDOW_BYTES: usize = 256 * 1024;

/// Lines that ACT prints outside its reports, in addition to lines that begin with `ERROR: `. Source: ACT 6.6,
/// `src/storage/act_storage.c`, `src/index/act_index.c`.
const STOP_MESSAGES: [&str; 3] = [
    "ACT can't do requested load - test stopped",
    "try configuring more 'service-threads'",
    DEVICES_FELL_BEHIND,
];

/// Message of a test whose devices fell behind by more than `max-lag-sec`; flashproof writes `ERROR: ` before the text.
const DEVICES_FELL_BEHIND: &str = "drive(s) can't keep up - test stopped";

#[derive(Debug)]
pub(super) struct LogLine {
    /// Line number, from 1.
    pub(super) number: u64,
    pub(super) text: String,
    /// False if the newline was missing: this is then the last line, which may be incomplete.
    pub(super) has_newline: bool,
}

impl LogLine {
    /// True if the line can belong to a report: a time, a histogram's name and total, buckets, or the empty line at the
    /// end. Other lines, from the test or from standard error redirected to the same file, are skipped, as by ACT's
    /// script. Damage is still detected: counts must add up, and the lines after a damaged line are out of place.
    pub(super) fn can_be_of_report(&self) -> bool {
        let text = self.text.as_str();
        text.is_empty()
            || text.starts_with(" (")
            || text.ends_with(" total)")
            || [Dialect::Act3, Dialect::Act6]
                .iter()
                .any(|dialect| text.starts_with(dialect.after()))
    }
}

/// White space in a prefix.
const BLANKS: [char; 2] = [' ', '\t'];

/// Shape of the text that `kubectl logs --prefix`, `docker logs -t`, `ts` or the journal puts before each line: a number
/// of words, whose text can differ in each line, and the blanks after the last word.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prefix {
    words: usize,
    blanks: usize,
}

impl Prefix {
    pub(super) fn of(text: &str) -> Self {
        Self {
            words: text.split_ascii_whitespace().count(),
            blanks: text.len() - text.trim_end_matches(BLANKS).len(),
        }
    }

    /// `line` without its prefix. A line with fewer words has no prefix, and stays.
    fn strip(self, line: &str) -> &str {
        let mut rest = line;
        for _ in 0..self.words {
            rest = rest.trim_start_matches(BLANKS);
            if rest.is_empty() {
                return line;
            }
            rest = &rest[rest.find(BLANKS).unwrap_or(rest.len())..];
        }
        (0..self.blanks).fold(rest, |rest, _| rest.strip_prefix(BLANKS).unwrap_or(rest))
    }
}

#[derive(Debug)]
pub(super) struct LogLines<'a> {
    input: Input<'a>,
    pub(super) prefix: Prefix,
    /// True if the log lost its empty lines, as in the journal. An empty line is then added before each block.
    lacks_empty_lines: bool,
    /// The line to return next.
    pending: Option<LogLine>,
    number: u64,
    window: Vec<u8>,
    /// Position of the next byte to return, in the window.
    at: usize,
    /// End of the data in the window.
    filled: usize,
    is_at_eof: bool,
    devices_fell_behind: bool,
}

impl<'a> LogLines<'a> {
    pub(super) fn new(input: Input<'a>) -> Self {
        let window = vec![0; WINDOW_BYTES];
        Self {
            input,
            prefix: Prefix::default(),
            lacks_empty_lines: false,
            pending: None,
            number: 0,
            window,
            at: 0,
            filled: 0,
            is_at_eof: false,
            devices_fell_behind: false,
        }
    }

    pub(super) fn devices_fell_behind(&self) -> bool {
        self.devices_fell_behind
    }

    pub(super) fn input(&self) -> &Input<'a> {
        &self.input
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Called with the first line of a block, if the empty line before the block is missing.
    pub(super) fn add_empty_lines(&mut self, line: LogLine) {
        self.lacks_empty_lines = true;
        self.pending = Some(line);
    }

    pub(super) fn next(&mut self) -> Result<Option<LogLine>, LogReadError> {
        if self.pending.is_some() {
            return Ok(self.pending.take());
        }
        let mut searched = 0;
        let end = loop {
            let rest = &self.window[self.at..self.filled];
            match memchr(b'\n', &rest[searched..]) {
                Some(newline) => break searched + newline + 1,
                None => searched = rest.len(),
            }
            if searched >= LINE_BYTES_MAX {
                return Err(self.too_long("a line", LINE_BYTES_MAX));
            }
            if !self.fill()? {
                break searched;
            }
        };
        if end == 0 {
            return Ok(None);
        }
        let bytes = &self.window[self.at..self.at + end];
        self.at += end;
        self.number += 1;
        let text = String::from_utf8_lossy(bytes);
        let text = self.prefix.strip(text.trim_end_matches(['\n', '\r']));
        self.devices_fell_behind |= text.ends_with(DEVICES_FELL_BEHIND);
        let line = LogLine {
            number: self.number,
            text: text.to_owned(),
            has_newline: bytes.ends_with(b"\n"),
        };
        if self.lacks_empty_lines && begins_block(&line.text) {
            self.pending = Some(line);
            return Ok(Some(LogLine {
                number: self.number,
                text: String::new(),
                has_newline: true,
            }));
        }
        Ok(Some(line))
    }

    /// Skips a report: everything before the next line that `report` finds, see [`Dialect::report`]. Returns false and
    /// skips nothing if no such line follows (this is the last report of the file), or if the line before the found
    /// line is not empty (it is a message, or lines are missing).
    pub(super) fn skip_to(&mut self, report: &Finder<'_>) -> Result<bool, LogReadError> {
        if self.prefix != Prefix::default() || self.lacks_empty_lines {
            return Ok(false);
        }
        let mut searched = 0;
        loop {
            let rest = &self.window[self.at..self.filled];
            if let Some(found) = report.find(&rest[searched..]) {
                let length = searched + found + 1;
                if !rest[..length].ends_with(b"\n\n") {
                    return Ok(false);
                }
                self.number += memchr_iter(b'\n', &rest[..length]).count() as u64;
                self.at += length;
                return Ok(true);
            }
            searched = rest.len().saturating_sub(report.needle().len() - 1);
            if rest.len() > REPORT_BYTES_MAX {
                return Err(self.too_long("a report", REPORT_BYTES_MAX));
            }
            if !self.fill()? {
                return Ok(false);
            }
        }
    }

    /// Reads more data into the window; false at the end of the file.
    fn fill(&mut self) -> Result<bool, LogReadError> {
        if self.is_at_eof {
            return Ok(false);
        }
        if self.window.len() - self.filled < WINDOW_BYTES / 2 {
            self.window.copy_within(self.at..self.filled, 0);
            (self.at, self.filled) = (0, self.filled - self.at);
            if self.window.len() - self.filled < WINDOW_BYTES / 2 {
                self.window.resize(self.window.len() * 2, 0);
            }
        }
        loop {
            match self.input.read(&mut self.window[self.filled..]) {
                Ok(length) => {
                    self.filled += length;
                    self.is_at_eof = length == 0;
                    return Ok(length > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(LogReadError::Io {
                        line: self.number + 1,
                        source,
                    });
                }
            }
        }
    }

    fn too_long(&self, noun: &str, bytes_max: usize) -> LogReadError {
        LogReadError::Format {
            line: self.number + 1,
            expected: format!("{noun} of at most {bytes_max} bytes"),
            found: "a longer one".to_owned(),
            complete_sec: 0,
        }
    }
}

/// True for the first line of a block or of a report, before which the tests of ACT 5 and later print an empty line.
fn begins_block(text: &str) -> bool {
    [DERIVED_TITLE, SETTINGS_TITLE, NAMES_TITLE].contains(&text)
        || text.contains(" size = ")
        || text.starts_with(Dialect::Act6.after()) && text.ends_with(" sec:")
}

/// True for a message that ACT can print at any time, even among the histogram names. ACT's signal handlers print
/// `SIGBUS received` (`Signal TERM received` in ACT 3 and 4) and lines of `stacktrace: `.
pub(super) fn is_message(text: &str) -> bool {
    text.starts_with("ERROR: ")
        || text.starts_with("stacktrace: ")
        || (text.starts_with("SIG") && text.ends_with(" received"))
        || (text.starts_with("Signal ") && text.contains(" received"))
        || STOP_MESSAGES.contains(&text)
}

/// A decimal number without sign or blanks.
pub(super) fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// Histograms that the header of ACT 6.1 names, but its reports do not have.
const NAMED_IN_VAIN: [&str; 2] = ["device-reads", "device-writes"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// ACT 3 and 4: `Aerospike act version`.
    Act3,
    Act5,
    Act6Point1,
    /// ACT 6 except 6.1, and flashproof's logs.
    Act6,
}

impl Dialect {
    /// Start of the version line in ACT 5 and 6; earlier versions have [`Self::OLD_VERSION`].
    pub(super) const VERSION: &str = "ACT version ";
    pub(super) const OLD_VERSION: &str = "Aerospike act version ";

    pub(super) fn from_version(version: &str, old_banner: bool) -> Option<Self> {
        let (major, minor) = version.split_once('.')?;
        number(minor)?;
        match (number(major)?, old_banner) {
            (3 | 4, true) => Some(Self::Act3),
            (5, false) => Some(Self::Act5),
            (6, false) if minor == "1" => Some(Self::Act6Point1),
            (6, false) => Some(Self::Act6),
            _ => None,
        }
    }

    /// The beginning of a report's first line, before its time.
    pub(super) fn after(self) -> &'static str {
        if self == Self::Act3 {
            "After "
        } else {
            "after "
        }
    }

    /// Finds the newline before a report.
    pub(super) fn report(self) -> Finder<'static> {
        Finder::new(&format!("\n{}", self.after())).into_owned()
    }

    pub(super) fn names_stand_in_reports(self) -> bool {
        self == Self::Act3
    }

    /// Names of the histograms in the reports, selected from the names in the header.
    pub(super) fn names(self, header_names: &[String]) -> Vec<String> {
        let reported =
            |name: &&String| self != Self::Act6Point1 || !NAMED_IN_VAIN.contains(&name.as_str());
        header_names.iter().filter(reported).cloned().collect()
    }

    pub(super) fn is_queue_length(self, line: &str) -> bool {
        matches!(self, Self::Act3 | Self::Act5)
            && [
                "requests-queued: ",
                "requests queued: ",
                "read-reqs queued: ",
            ]
            .iter()
            .any(|tag| line.starts_with(tag))
    }

    /// Parses name and total of a histogram from its first line.
    pub(super) fn total(self, line: &str) -> Option<(&str, u64)> {
        let (name, total) = line.strip_suffix(" total)")?.rsplit_once(" (")?;
        let name = if self == Self::Act3 {
            name.trim_end_matches(' ')
        } else {
            name
        };
        Some((name, number(total)?))
    }
}
