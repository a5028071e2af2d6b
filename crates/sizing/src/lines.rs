//! Reads the lines of a log, or of another tool's output, through one buffer.
//!
//! Memory is bounded for any input: a line of more than [`LINE_BYTES_MAX`] is skipped and counted, and so are NUL bytes
//! at the start of a line. A log contains gigabytes of NUL bytes if it was truncated (`copytruncate`) while the server
//! kept writing at its old offset. At most [`NUL_BYTES_MAX`] are skipped.
//!
//! Text copied from a web page has no-break spaces, which are read as spaces. The escape sequences of a terminal's
//! colours (`grep --color=always`) are skipped.

use memchr::{memchr, memchr2};
use results::format::{Grouped, count};
use std::fmt;
use std::io::{self, Read};

/// Longest line that is read. Servers write lines of at most about 4 KiB.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Maximum number of consecutive NUL bytes to skip: some seconds of reading. A sparse file may have any size.
const NUL_BYTES_MAX: u64 = 4 << 30;
const NO_BREAK_SPACE: &[u8] = "\u{a0}".as_bytes();
const ESCAPE: u8 = b'\x1b';
/// Bytes per read; fits into a core's cache.
const WINDOW_BYTES: usize = 256 << 10;

/// A line without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLine<'a> {
    pub bytes: &'a [u8],
    /// False for the last line of a file that is truncated or still being written.
    pub is_complete: bool,
}

/// The previous line, to detect repeats in a log that has each line twice.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Vec<u8>);

impl Repeats {
    pub(crate) fn is_repeat(&mut self, line: &[u8]) -> bool {
        let is_repeat = self.0 == line;
        if !is_repeat {
            self.0.clear();
            self.0.extend_from_slice(line);
        }
        is_repeat
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    pub long_lines: u64,
    pub long_bytes: u64,
    /// NUL bytes before lines.
    pub nul_bytes: u64,
    /// True if a long line begins as JSON.
    pub has_json: bool,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = count(self.long_lines, "line");
        let bytes = Grouped(self.long_bytes);
        let lines = format!("{lines} of more than {LINE_BYTES_MAX} bytes ({bytes} bytes in total)");
        let nul_bytes = format!("{} NUL bytes before lines", Grouped(self.nul_bytes));
        let parts = [(self.long_lines, lines), (self.nul_bytes, nul_bytes)];
        let parts = parts.into_iter().filter(|(number, _)| *number > 0);
        f.write_str(
            &parts
                .map(|(_, text)| text)
                .collect::<Vec<_>>()
                .join(" and "),
        )
    }
}

pub struct LineReader<R> {
    pub input: R,
    window: Vec<u8>,
    begin: usize,
    end: usize,
    is_at_eof: bool,
    /// Number of the last line, from 1.
    pub number: u64,
    pub read_bytes: u64,
    pub skipped: Skipped,
    nul_bytes_max: u64,
    nul_bytes: u64,
}

impl<R: Read> LineReader<R> {
    /// Reads from the current position of `input`.
    pub fn new(input: R) -> Self {
        let window = vec![0; WINDOW_BYTES];
        Self {
            input,
            window,
            begin: 0,
            end: 0,
            is_at_eof: false,
            number: 0,
            read_bytes: 0,
            skipped: Skipped::default(),
            nul_bytes_max: NUL_BYTES_MAX,
            nul_bytes: 0,
        }
    }

    /// Puts back `lines`, `count` of them, which are returned next. Only the input's last line may lack its line end.
    pub(crate) fn unread(&mut self, lines: &[u8], count: u64) {
        let mut window = [lines, &self.window[self.begin..self.end]].concat();
        (self.begin, self.end) = (0, window.len());
        window.resize(window.len() + WINDOW_BYTES, 0);
        self.window = window;
        self.number -= count;
    }

    /// The next line; `None` at the end. Errors: a read fails, or there are too many NUL bytes before the line.
    pub fn next_line(&mut self) -> io::Result<Option<TextLine<'_>>> {
        let mut searched = 0;
        loop {
            if searched == 0 {
                self.skip_nul_bytes()?;
            }
            let rest = &self.window[self.begin..self.end];
            if let Some(at) = memchr(b'\n', &rest[searched..]) {
                let length = searched + at;
                let begin = self.begin;
                self.begin += length + 1;
                self.number += 1;
                if length > LINE_BYTES_MAX {
                    self.count_long_line(begin);
                    self.skipped.long_bytes += length as u64;
                    searched = 0;
                    continue;
                }
                let line = plain(&mut self.window[begin..begin + length]);
                return Ok(Some(TextLine {
                    bytes: line.strip_suffix(b"\r").unwrap_or(line),
                    is_complete: true,
                }));
            }
            searched = rest.len();
            if searched > LINE_BYTES_MAX {
                self.skip_long_line()?;
                searched = 0;
            } else if !self.fill()? {
                let begin = std::mem::replace(&mut self.begin, self.end);
                self.number += u64::from(begin < self.end);
                let rest = TextLine {
                    bytes: plain(&mut self.window[begin..self.end]),
                    is_complete: false,
                };
                return Ok((begin < self.end).then_some(rest));
            }
        }
    }

    fn skip_nul_bytes(&mut self) -> io::Result<()> {
        let rest = &self.window[self.begin..self.end];
        let count = rest
            .iter()
            .position(|byte| *byte != 0)
            .unwrap_or(rest.len());
        self.nul_bytes += count as u64;
        if self.nul_bytes > self.nul_bytes_max {
            return Err(io::Error::other(format!(
                "more than {} NUL bytes before a line, as in a sparse file - give only the part with lines (tail -c)",
                results::format::Grouped(self.nul_bytes_max)
            )));
        }
        if count < rest.len() {
            self.nul_bytes = 0;
        }
        self.begin += count;
        self.skipped.nul_bytes += count as u64;
        Ok(())
    }

    fn count_long_line(&mut self, begin: usize) {
        self.skipped.long_lines += 1;
        self.skipped.has_json |= b"[{".contains(&self.window[begin]);
    }

    fn skip_long_line(&mut self) -> io::Result<()> {
        self.count_long_line(self.begin);
        self.number += 1;
        loop {
            let rest = &self.window[self.begin..self.end];
            let end = memchr(b'\n', rest);
            let length = end.unwrap_or(rest.len());
            self.skipped.long_bytes += length as u64;
            self.begin += length + usize::from(end.is_some());
            if end.is_some() || !self.fill()? {
                return Ok(());
            }
        }
    }

    /// Appends data to the window; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.is_at_eof {
            return Ok(false);
        }
        self.window.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        loop {
            match self.input.read(&mut self.window[self.end..]) {
                Ok(0) => {
                    self.is_at_eof = true;
                    return Ok(false);
                }
                Ok(length) => {
                    self.end += length;
                    self.read_bytes += length as u64;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// `line` with a space for each no-break space, and without colours, in its first bytes.
fn plain(line: &mut [u8]) -> &[u8] {
    // Few lines have these bytes, and the search for single bytes is the fastest.
    let Some(first) = memchr2(NO_BREAK_SPACE[0], ESCAPE, line) else {
        return line;
    };
    let mut read = first;
    let mut written = first;
    while read < line.len() {
        if let Some(bytes) = colour_bytes(&line[read..]) {
            read += bytes;
            continue;
        }
        let is_space = line[read..].starts_with(NO_BREAK_SPACE);
        line[written] = if is_space { b' ' } else { line[read] };
        read += if is_space { NO_BREAK_SPACE.len() } else { 1 };
        written += 1;
    }
    &line[..written]
}

/// Bytes of the escape sequence at the start of `text`, if it sets a colour (`ESC[1;31m`) or erases the rest of the
/// terminal's line (`ESC[K`).
fn colour_bytes(text: &[u8]) -> Option<usize> {
    let parameters = text.strip_prefix(b"\x1b[")?;
    let end = parameters
        .iter()
        .position(|byte| !byte.is_ascii_digit() && *byte != b';')?;
    matches!(parameters[end], b'm' | b'K').then_some(end + b"\x1b[m".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_break_spaces_become_spaces_and_colours_of_a_terminal_are_skipped() {
        for (line, expected) in [
            ("a b", "a b"),
            ("\u{a0}a:\u{a0}\u{a0}(b\u{a0}", " a:  (b "),
            (
                "(\x1b[01;31m\x1b[Kdrv\x1b[m\x1b[K): \u{a0}\u{a9}",
                "(drv):  \u{a9}",
            ),
            ("\x1b[2J \x1b[ \x1b \x1b[1", "\x1b[2J \x1b[ \x1b \x1b[1"),
        ] {
            let text = format!("{line}\r\n{line}");
            let mut lines = LineReader::new(text.as_bytes());
            for _ in 0..2 {
                let found = lines.next_line().unwrap().unwrap().bytes;
                assert_eq!(String::from_utf8_lossy(found), expected);
            }
        }
    }

    #[test]
    fn a_sparse_file_is_not_read_to_its_end() {
        let endless = |max: u64| {
            let mut lines = LineReader::new(b"one\n".chain(io::repeat(0)));
            lines.nul_bytes_max = max;
            lines
        };
        let mut lines = endless(10 << 20);
        assert_eq!(lines.next_line().unwrap().unwrap().bytes, b"one");
        let error = lines.next_line().unwrap_err().to_string();
        assert!(
            error.contains("more than 10,485,760 NUL bytes") && lines.read_bytes < 11 << 20,
            "{error}"
        );
        let text = [&[0; 900][..], b"one\n", &[0; 900], b"two\n"].concat();
        let mut lines = LineReader::new(&text[..]);
        lines.nul_bytes_max = 1000;
        assert_eq!(
            std::iter::from_fn(|| lines.next_line().unwrap().map(|line| line.bytes.len())).count(),
            2
        );
    }
}
