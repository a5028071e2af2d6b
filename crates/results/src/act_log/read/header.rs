//! Reads the header: everything before the first chunk.

use super::lines::{self, Dialect, LogLine, LogLines, Prefix};
use super::{HISTOGRAMS_MAX, HeaderPart, LogHeader, LogReadError};
use crate::act_log::{
    DERIVED_TITLE, NAMES_TITLE, SETTINGS_TITLE, Test, WRITTEN_BY, WRITTEN_BY_TAIL,
};
use crate::format::quoted_start;

/// Maximum size of a header, bytes: 128 devices, ACT's maximum, need about 100 KB.
const HEADER_BYTES_MAX: usize = 1 << 20;

/// Maximum size of the foreign lines (a shell's, of a build) before the banner, bytes.
const PREAMBLE_BYTES_MAX: usize = HEADER_BYTES_MAX / 2;

/// Approximate memory of a stored line in addition to its text, bytes: the string, its entry in a list, heap overhead.
const LINE_OVERHEAD_BYTES: usize = 64;

/// Title of the configuration in ACT 3 and 4.
const OLD_CONFIGURATION_TITLE: &str = "ACT CONFIGURATION";

/// Yields the lines of a header without messages. The end of the file and a header over [`HEADER_BYTES_MAX`] are errors.
struct HeaderLines<'a, 'b> {
    lines: &'a mut LogLines<'b>,
    first_message: Option<String>,
    part: HeaderPart,
    version: String,
    bytes: usize,
    /// A version line within the header: the test failed before its first report, and was started again.
    restart: Option<(String, Dialect)>,
}

impl HeaderLines<'_, '_> {
    fn next(&mut self, expected: &str) -> Result<LogLine, LogReadError> {
        let line = loop {
            let Some(line) = self.lines.next()? else {
                let after = self.first_message.as_deref().map(quoted_start);
                let after = after.map(|message| format!(" after the test's own message {message}"));
                let found = format!("the end of the file{}", after.unwrap_or_default());
                return Err(self.error(self.lines.number(), expected, found));
            };
            if !lines::is_message(&line.text) {
                break line;
            }
            if line.has_newline {
                self.first_message.get_or_insert(line.text);
            }
        };
        self.bytes += line.text.len() + LINE_OVERHEAD_BYTES;
        if self.bytes > HEADER_BYTES_MAX {
            let expected = format!("a header of at most {HEADER_BYTES_MAX} bytes");
            return Err(self.error(line.number, &expected, "a longer one".to_owned()));
        }
        if !self.version.is_empty()
            && let Some((_, version, Some(dialect))) = version_in(&line.text)
        {
            self.restart = Some((version.to_owned(), dialect));
            return Err(self.wrong(&line, expected));
        }
        Ok(line)
    }

    /// Reads lines of `name: value` up to an empty line.
    fn block(&mut self) -> Result<Vec<(String, String)>, LogReadError> {
        const EXPECTED: &str = "\"name: value\" or an empty line";
        let mut block = Vec::new();
        loop {
            let line = self.next(EXPECTED)?;
            if line.text.is_empty() {
                return Ok(block);
            }
            let Some((name, value)) = line.text.split_once(": ") else {
                return Err(self.wrong(&line, EXPECTED));
            };
            block.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Reads the line `title`. Skips empty lines before the title, and the line with the index test's number of CPUs.
    fn title(&mut self, title: &str) -> Result<(), LogReadError> {
        loop {
            let line = self.next(title)?;
            if line.text == title {
                return Ok(());
            }
            if !line.text.is_empty() && !line.text.starts_with("detected ") {
                return Err(self.wrong(&line, title));
            }
        }
    }

    fn wrong(&self, line: &LogLine, expected: &str) -> LogReadError {
        self.error(line.number, expected, quoted_start(&line.text))
    }

    fn error(&self, line: u64, expected: &str, found: String) -> LogReadError {
        let part = self.part;
        let version = self.version.clone();
        LogReadError::Header {
            line,
            part,
            version,
            expected: expected.to_owned(),
            found,
        }
    }
}

pub(super) fn read(lines: &mut LogLines<'_>) -> Result<(LogHeader, Dialect), LogReadError> {
    let part = HeaderPart::Version;
    let mut lines = HeaderLines {
        lines,
        first_message: None,
        part,
        version: String::new(),
        bytes: 0,
        restart: None,
    };
    let (mut version, mut dialect) = version(&mut lines)?;
    loop {
        (lines.part, lines.version) = (HeaderPart::Configuration, version.clone());
        let mut header = LogHeader {
            act_version: version,
            ..LogHeader::default()
        };
        let is_read = if dialect == Dialect::Act3 {
            read_old(&mut lines, &mut header)
        } else {
            read_blocks(&mut lines, &mut header)
        };
        match lines.restart.take() {
            Some(restarted) => (version, dialect) = restarted,
            None => return is_read.map(|()| (header, dialect)),
        }
        lines.bytes = 0;
    }
}

/// Reads the blocks after the version line, ACT 5 and later.
fn read_blocks(
    lines: &mut HeaderLines<'_, '_>,
    header: &mut LogHeader,
) -> Result<(), LogReadError> {
    header.test = test(lines)?;
    header.written_by = written_by(lines)?;
    lines.title(header.test.configuration_title())?;
    header.configuration = lines.block()?;
    lines.part = HeaderPart::Derived;
    lines.title(DERIVED_TITLE)?;
    header.derived_rates = lines.block()?;
    lines.part = HeaderPart::Names;
    loop {
        let line = lines.next(NAMES_TITLE)?;
        match line.text.as_str() {
            NAMES_TITLE => break,
            SETTINGS_TITLE => header.settings = lines.block()?,
            "" => {}
            text if text.contains(" size = ") => header.device_lines.push(line.text),
            _ => return Err(lines.wrong(&line, "a device's size or \"HISTOGRAM NAMES\"")),
        }
    }
    loop {
        let line = lines.next("a histogram's name or an empty line")?;
        if line.text.is_empty() {
            return Ok(());
        }
        if header.histogram_names.len() >= HISTOGRAMS_MAX {
            return Err(lines.wrong(&line, &format!("at most {HISTOGRAMS_MAX} histograms")));
        }
        header.histogram_names.push(line.text);
    }
}

/// Reads ACT 3 and 4 after the version line: two blocks, the second untitled, then device lines; no histogram names.
fn read_old(lines: &mut HeaderLines<'_, '_>, header: &mut LogHeader) -> Result<(), LogReadError> {
    written_by(lines)?;
    lines.title(OLD_CONFIGURATION_TITLE)?;
    header.configuration = lines.block()?;
    lines.part = HeaderPart::Derived;
    header.derived_rates = lines.block()?;
    lines.part = HeaderPart::Names;
    loop {
        let line = lines.next("a device's size or an empty line")?;
        if line.text.is_empty() {
            return Ok(());
        }
        // ACT also reports the scheduler that it set, among the device lines.
        header.device_lines.push(line.text);
    }
}

/// Reads the version line. Lines before the banner are foreign and skipped. Text before the version is the prefix of each
/// line that follows.
fn version(lines: &mut HeaderLines<'_, '_>) -> Result<(String, Dialect), LogReadError> {
    const EXPECTED: &str = "a log of ACT 3, 4, 5 or 6 with the line \"ACT version N.N\"";
    let mut other = None;
    loop {
        let line = match lines.next(EXPECTED) {
            Ok(line) => line,
            Err(error) => return Err(other.unwrap_or(error)),
        };
        if other.is_none()
            && let Some((format, command)) = other_format(&line.text)
        {
            let found = format!("{format}, which \"{command}\" reads");
            other = Some(lines.error(line.number, EXPECTED, found));
        }
        match version_in(&line.text) {
            Some((prefix, version, Some(dialect))) => {
                lines.lines.prefix = Prefix::of(prefix);
                return Ok((version.to_owned(), dialect));
            }
            Some(("", version, None)) => {
                return Err(LogReadError::Version {
                    line: line.number,
                    version: version.to_owned(),
                });
            }
            _ if lines.bytes > PREAMBLE_BYTES_MAX => {
                return Err(other.unwrap_or_else(|| lines.wrong(&line, EXPECTED)));
            }
            _ => {}
        }
    }
}

/// Prefix and version of a version line, and the version's dialect if it is known.
fn version_in(line: &str) -> Option<(&str, &str, Option<Dialect>)> {
    let old = line
        .split_once(Dialect::OLD_VERSION)
        .map(|(prefix, rest)| (prefix, rest.split(' ').next().unwrap_or(rest)));
    let (prefix, version) = line.split_once(Dialect::VERSION).or(old)?;
    Some((
        prefix,
        version,
        Dialect::from_version(version, old.is_some()),
    ))
}

/// If `line` is of another program: the program's output, and the command that reads it.
fn other_format(line: &str) -> Option<(&'static str, &'static str)> {
    if line.contains(" GMT: INFO (") {
        return Some(("a log of the database", "flashproof latency server"));
    }
    let is_iostat = line.starts_with("Device") && line.contains("%util");
    is_iostat.then_some(("output of iostat", "flashproof size profile --iostat"))
}

fn test(lines: &mut HeaderLines<'_, '_>) -> Result<Test, LogReadError> {
    let line = lines.next("the test's name")?;
    let test = Test::ALL
        .into_iter()
        .find(|test| line.text == test.banner());
    test.ok_or_else(|| {
        lines.wrong(
            &line,
            "\"Storage device IO test\" or \"Index device IO test\"",
        )
    })
}

/// Reads the rest of the banner: the writer of the log (empty for ACT), or ACT's copyright line.
fn written_by(lines: &mut HeaderLines<'_, '_>) -> Result<String, LogReadError> {
    let mut writer = String::new();
    loop {
        let line = lines.next("an empty line after the banner")?;
        if line.text.is_empty() {
            return Ok(writer);
        }
        if Test::ALL
            .iter()
            .any(|test| line.text == test.configuration_title())
        {
            lines.lines.add_empty_lines(line);
            return Ok(writer);
        }
        if let Some(rest) = line.text.strip_prefix(WRITTEN_BY) {
            writer = rest
                .strip_suffix(WRITTEN_BY_TAIL)
                .unwrap_or(rest)
                .to_owned();
        } else if !line.text.starts_with("Copyright ") {
            return Err(lines.wrong(&line, "an empty line after the banner"));
        }
    }
}
