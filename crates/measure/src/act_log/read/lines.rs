//! Lines of a log with their numbers, and which of them are messages.

use super::ReadError;
use std::collections::VecDeque;
use std::io::{BufRead, Read};

/// Longest line accepted: a log of anything else is given up before it fills the memory.
const LINE_MAX_BYTES: u64 = 64 * 1024;

/// What ACT prints beside its reports, other than lines that begin with `ERROR: `.
/// Source: ACT 6.6, `src/storage/act_storage.c`, `src/index/act_index.c`.
const STOP_MESSAGES: [&str; 3] = [
    "ACT can't do requested load - test stopped",
    "try configuring more 'service-threads'",
    "drive(s) can't keep up - test stopped",
];

/// One line without its end.
#[derive(Debug)]
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    pub(super) text: String,
    /// Whether its newline was there; if not, it is the last and possibly only a part.
    pub(super) whole: bool,
}

impl Line {
    /// Whether this is something that was printed beside the reports. ACT's signal handlers print
    /// `SIGBUS received` and lines of `stacktrace: `.
    pub(super) fn is_message(&self) -> bool {
        let text = self.text.as_str();
        text.starts_with("ERROR: ")
            || text.starts_with("stacktrace: ")
            || (text.starts_with("SIG") && text.ends_with(" received"))
            || STOP_MESSAGES.contains(&text)
    }
}

#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    number: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, number: 0, bytes: Vec::new() }
    }

    /// Number of the line read last.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, or `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Line>, ReadError> {
        self.bytes.clear();
        let number = self.number + 1;
        let read = self.input.by_ref().take(LINE_MAX_BYTES).read_until(b'\n', &mut self.bytes);
        let length = read.map_err(|source| ReadError::Io { line: number, source })?;
        if length == 0 {
            return Ok(None);
        }
        self.number = number;
        let whole = self.bytes.ends_with(b"\n");
        if !whole && length as u64 == LINE_MAX_BYTES {
            return Err(ReadError::Format {
                line: number,
                expected: format!("a line of at most {LINE_MAX_BYTES} bytes"),
                found: "a longer one".to_owned(),
                complete_sec: 0,
            });
        }
        let text = String::from_utf8_lossy(&self.bytes);
        Ok(Some(Line { number, text: text.trim_end_matches(['\n', '\r']).to_owned(), whole }))
    }

    /// The next line that is no message; messages on the way are appended to `messages`.
    pub(super) fn next_but(&mut self, messages: &mut VecDeque<String>) -> Result<Option<Line>, ReadError> {
        while let Some(line) = self.next()? {
            if !line.is_message() {
                return Ok(Some(line));
            }
            if line.whole {
                messages.push_back(line.text);
            }
        }
        Ok(None)
    }
}

/// `text` in quotes, shortened to what fits an error message.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN_CHARS: usize = 80;
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{:?} and more", &text[..end]),
        None => format!("{text:?}"),
    }
}
