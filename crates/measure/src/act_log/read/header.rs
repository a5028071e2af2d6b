//! Reading what stands before the first chunk.

use super::lines::{self, Line, Lines};
use super::{Header, ReadError};
use crate::act_log::{DERIVED_TITLE, NAMES_TITLE, SETTINGS_TITLE, Test, WRITTEN_BY, WRITTEN_BY_TAIL};
use std::collections::VecDeque;
use std::io::BufRead;

/// How many lines of something else (a shell's, `nohup`'s) may stand before the banner.
const PREAMBLE_LINES_MAX: u64 = 100;

/// The lines of a header: messages put aside, the end of the file an error.
struct HeaderLines<'a, R> {
    lines: &'a mut Lines<R>,
    messages: &'a mut VecDeque<String>,
}

impl<R: BufRead> HeaderLines<'_, R> {
    fn next(&mut self, expected: &str) -> Result<Line, ReadError> {
        match self.lines.next_but(self.messages)? {
            Some(line) => Ok(line),
            None => Err(ReadError::Format {
                line: self.lines.number(),
                expected: expected.to_owned(),
                found: match self.messages.front() {
                    Some(message) => format!("the end of the file after the test's own message {message:?}"),
                    None => "the end of the file".to_owned(),
                },
                complete_sec: 0,
            }),
        }
    }

    /// Lines of `name: value` up to an empty line.
    fn block(&mut self) -> Result<Vec<(String, String)>, ReadError> {
        const EXPECTED: &str = "\"name: value\" or an empty line";
        let mut block = Vec::new();
        loop {
            let line = self.next(EXPECTED)?;
            if line.text.is_empty() {
                return Ok(block);
            }
            let Some((name, value)) = line.text.split_once(": ") else { return Err(wrong(&line, EXPECTED)) };
            block.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Skips empty lines and the index test's count of CPUs; then `title` must come.
    fn title(&mut self, title: &str) -> Result<(), ReadError> {
        loop {
            let line = self.next(title)?;
            if line.text == title {
                return Ok(());
            }
            if !line.text.is_empty() && !line.text.starts_with("detected ") {
                return Err(wrong(&line, title));
            }
        }
    }
}

pub(super) fn read<R: BufRead>(lines: &mut Lines<R>, messages: &mut VecDeque<String>) -> Result<Header, ReadError> {
    let mut lines = HeaderLines { lines, messages };
    let mut header = Header { act_version: version(&mut lines)?, ..Header::default() };
    header.test = test(&mut lines)?;
    header.written_by = written_by(&mut lines)?;
    lines.title(header.test.configuration_title())?;
    header.configuration = lines.block()?;
    lines.title(DERIVED_TITLE)?;
    header.derived = lines.block()?;
    loop {
        let line = lines.next(NAMES_TITLE)?;
        match line.text.as_str() {
            NAMES_TITLE => break,
            SETTINGS_TITLE => header.settings = lines.block()?,
            "" => {}
            text if text.contains(" size = ") => header.device_lines.push(line.text),
            _ => return Err(wrong(&line, "a device's size or \"HISTOGRAM NAMES\"")),
        }
    }
    loop {
        let line = lines.next("a histogram's name or an empty line")?;
        if line.text.is_empty() {
            return Ok(header);
        }
        header.histogram_names.push(line.text);
    }
}

fn version<R: BufRead>(lines: &mut HeaderLines<'_, R>) -> Result<String, ReadError> {
    const EXPECTED: &str = "\"ACT version 6.x\"";
    loop {
        let line = lines.next(EXPECTED)?;
        match line.text.strip_prefix("ACT version ") {
            Some(version) if version.starts_with("6.") => return Ok(version.to_owned()),
            Some(_) => return Err(wrong(&line, EXPECTED)),
            None if line.number > PREAMBLE_LINES_MAX => return Err(wrong(&line, EXPECTED)),
            None => {}
        }
    }
}

fn test<R: BufRead>(lines: &mut HeaderLines<'_, R>) -> Result<Test, ReadError> {
    let line = lines.next("the test's name")?;
    let test = [Test::Storage, Test::Index].into_iter().find(|test| line.text == test.banner());
    test.ok_or_else(|| wrong(&line, "\"Storage device IO test\" or \"Index device IO test\""))
}

/// The rest of the banner: who wrote the log, or ACT's copyright line.
fn written_by<R: BufRead>(lines: &mut HeaderLines<'_, R>) -> Result<String, ReadError> {
    let mut writer = String::new();
    loop {
        let line = lines.next("an empty line after the banner")?;
        if line.text.is_empty() {
            return Ok(writer);
        }
        if let Some(rest) = line.text.strip_prefix(WRITTEN_BY) {
            writer = rest.strip_suffix(WRITTEN_BY_TAIL).unwrap_or(rest).to_owned();
        } else if !line.text.starts_with("Copyright ") {
            return Err(wrong(&line, "an empty line after the banner"));
        }
    }
}

fn wrong(line: &Line, expected: &str) -> ReadError {
    ReadError::Format {
        line: line.number,
        expected: expected.to_owned(),
        found: lines::quoted(&line.text),
        complete_sec: 0,
    }
}
