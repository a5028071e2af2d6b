//! Whole lines of a file that may have been cut anywhere.

use super::RunDirError;
use crate::files::{self, Links};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Take};
use std::path::{Path, PathBuf};

/// Longest line accepted: something else is given up before it fills the memory.
const LINE_BYTES_MAX: u64 = 256 * 1024;

/// How the lines ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// After a whole line.
    Clean,
    /// In the middle of a line, which was dropped.
    Torn,
}

/// Gives the lines of a file one by one, without their ends, and drops a torn last one.
#[derive(Debug)]
pub(super) struct WholeLines {
    path: PathBuf,
    input: Option<BufReader<Take<File>>>,
    bytes: Vec<u8>,
    line: u64,
    tail: Tail,
}

impl WholeLines {
    /// Opens the file; one that is missing has no lines.
    pub(super) fn open(path: PathBuf) -> Result<Self, RunDirError> {
        match files::open(&path, Links::Refused) {
            Ok(file) => Ok(Self::of(path, file)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(Self { path, input: None, bytes: Vec::new(), line: 0, tail: Tail::Clean })
            }
            Err(error) => Err(RunDirError::io("reading", &path, error)),
        }
    }

    /// The lines of `file`, which is at `path`.
    pub(super) fn of(path: PathBuf, file: File) -> Self {
        Self { path, input: Some(BufReader::new(file.take(u64::MAX))), bytes: Vec::new(), line: 0, tail: Tail::Clean }
    }

    /// Ends after so many bytes. Nothing may have been read before.
    pub(super) fn limited(mut self, bytes: u64) -> Self {
        if let Some(input) = &mut self.input {
            input.get_mut().set_limit(bytes);
        }
        self
    }

    /// The next whole line, with an end only if it was carriage return and newline.
    pub(super) fn next(&mut self) -> Result<Option<&str>, RunDirError> {
        let Some(input) = &mut self.input else { return Ok(None) };
        self.bytes.clear();
        let read = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.bytes);
        let length = read.map_err(|error| RunDirError::io("reading", &self.path, error))?;
        if length == 0 {
            self.input = None;
            return Ok(None);
        }
        self.line += 1;
        if self.bytes.pop_if(|last| *last == b'\n').is_none() {
            if length as u64 == LINE_BYTES_MAX {
                let expected = format!("a line of less than {LINE_BYTES_MAX} bytes");
                return Err(RunDirError::line(&self.path, self.line, expected, "a longer one"));
            }
            self.input = None;
            self.tail = Tail::Torn;
            return Ok(None);
        }
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(RunDirError::line(&self.path, self.line, "text", &String::from_utf8_lossy(&self.bytes))),
        }
    }

    /// How the lines ended; known once [`Self::next`] has given `None`.
    pub(super) fn tail(&self) -> Tail {
        self.tail
    }

    /// An error about the line given last.
    pub(super) fn error(&self, expected: impl Into<String>) -> RunDirError {
        RunDirError::line(&self.path, self.line, expected, &String::from_utf8_lossy(&self.bytes))
    }

    /// Name of the file.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or(Path::new("").as_os_str()).to_string_lossy().into_owned()
    }
}
