//! Files of a run directory. Tables and logs are appended in whole lines; readers drop a cut last line. JSON files,
//! also those of a series, are written atomically, with a checksum in their first field.
//!
//! ```text
//! {
//!   "crc32": "9c2f4d01",        CRC-32, as zlib and gzip have it, of every byte after this line
//!   "format_version": 1,
//!   ...
//! ```

use super::RunDirError;
use crate::files::{self, Links, ReplaceTarget};
use crate::format::in_one_line;
use crc32fast::Hasher;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Take, Write};
use std::path::{Path, PathBuf};

/// The kind of duration that an HdrHistogram log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HlogKind {
    /// From submission to completion.
    Service,
    Wait,
    /// Delay of the submission by this program itself.
    Lag,
}

impl HlogKind {
    pub const ALL: [Self; 3] = [Self::Service, Self::Wait, Self::Lag];

    pub fn file_name(self) -> &'static str {
        match self {
            Self::Service => "service.hlog",
            Self::Wait => "wait.hlog",
            Self::Lag => "lag.hlog",
        }
    }
}

/// Length and checksum of the beginning of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sum {
    pub(super) bytes: u64,
    pub(super) crc32: u32,
}

impl Sum {
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.len() as u64,
            crc32: crc32fast::hash(bytes),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct RunningSum {
    pub(super) bytes: u64,
    hasher: Hasher,
}

impl RunningSum {
    pub(super) fn sum(&self) -> Sum {
        Sum {
            bytes: self.bytes,
            crc32: self.hasher.clone().finalize(),
        }
    }
}

impl Write for RunningSum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that only grows, with the checksum of its contents.
#[derive(Debug)]
pub(super) struct AppendFile {
    path: PathBuf,
    file: File,
    appended: RunningSum,
    unsynced: bool,
}

impl AppendFile {
    /// Creates the file, which must not exist.
    pub(super) fn create(path: PathBuf) -> Result<Self, RunDirError> {
        let file = files::create_new(&path, files::SHARED)
            .map_err(|error| RunDirError::io("creating", &path, error))?;
        Ok(Self {
            path,
            file,
            appended: RunningSum::default(),
            unsynced: false,
        })
    }

    /// Appends whole lines with one write, so that readers rarely see partial lines.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), RunDirError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.unsynced = true;
        // Cannot fail: a sum accepts all bytes.
        let _ = self.appended.write_all(bytes);
        let tried = || format!("appending {} bytes to", bytes.len());
        self.file
            .write_all(bytes)
            .map_err(|error| RunDirError::io(tried(), &self.path, error))
    }

    pub(super) fn name(&self) -> String {
        self.path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    pub(super) fn sum(&self) -> Sum {
        self.appended.sum()
    }

    /// Waits until the appended bytes are on the disk.
    pub(super) fn sync(&mut self) -> Result<(), RunDirError> {
        if self.unsynced {
            self.file
                .sync_data()
                .map_err(|error| RunDirError::io("syncing", &self.path, error))?;
            self.unsynced = false;
        }
        Ok(())
    }
}

/// Writes `dir/name` atomically, also across a power cut.
pub(super) fn write_whole(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), RunDirError> {
    let path = dir.join(name);
    let tried = || format!("writing {} bytes to", bytes.len());
    files::replace(&path, bytes, ReplaceTarget::Own(BEFORE))
        .map_err(|error| RunDirError::io(tried(), &path, error))
}

/// Largest file that is read, bytes: the verdict of a one-year run on eight devices takes a tenth of this.
const BYTES_MAX: u64 = 64 << 20;

/// Text before the digits of the checksum; `AFTER` is the text after them.
const BEFORE: &str = "{\n  \"crc32\": \"";
const AFTER: &str = "\",\n";
const DIGITS: usize = 8;

pub fn write<T: Serialize>(dir: &Path, name: &str, value: &T) -> Result<(), RunDirError> {
    write_whole(dir, name, &to_bytes(value))
}

/// The JSON is pretty-printed for people, and has a final newline for tools.
pub(super) fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    let text = serde_json::to_string_pretty(value)
        .expect("maps have text keys and a vector takes any bytes");
    let rest = text.strip_prefix("{\n").unwrap_or(&text);
    let rest = format!("{rest}\n");
    format!(
        "{BEFORE}{:08x}{AFTER}{rest}",
        crc32fast::hash(rest.as_bytes())
    )
    .into_bytes()
}

/// `None` if the file does not exist. Errors: the file is damaged, or of a later version than `newest_version`.
pub fn read<T: DeserializeOwned>(
    path: &Path,
    newest_version: u32,
) -> Result<Option<T>, RunDirError> {
    let bytes = match files::read(path, Links::Refused, BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RunDirError::io("reading", path, error)),
    };
    // A JSON error can quote bytes of the file, so the text is made printable.
    let damaged = |why: String| RunDirError::Damaged {
        path: path.to_owned(),
        why: in_one_line(&why),
    };
    #[derive(serde::Deserialize)]
    struct Versioned {
        format_version: u64,
    }
    let Versioned { format_version } =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if format_version > u64::from(newest_version) {
        return Err(RunDirError::Newer {
            path: path.to_owned(),
            found: format_version,
            known: newest_version,
        });
    }
    check(&bytes).map_err(damaged)?;
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| damaged(error.to_string()))
}

/// Checks the bytes against their checksum; `Err` gives the reason.
fn check(bytes: &[u8]) -> Result<(), String> {
    let rest = bytes
        .strip_prefix(BEFORE.as_bytes())
        .and_then(|rest| rest.split_at_checked(DIGITS));
    let recorded =
        rest.and_then(|(digits, rest)| Some((digits, rest.strip_prefix(AFTER.as_bytes())?)));
    let (digits, rest) = recorded.ok_or("the file does not begin with its checksum")?;
    let checksum = format!("{:08x}", crc32fast::hash(rest));
    if checksum.as_bytes() == digits {
        Ok(())
    } else {
        Err(format!(
            "its bytes have the checksum {checksum}, but the file records {}",
            String::from_utf8_lossy(digits)
        ))
    }
}

/// A reader of `input` with few system calls.
pub(super) fn buffered<R: Read>(input: R) -> BufReader<R> {
    BufReader::with_capacity(64 << 10, input)
}

/// Longest accepted line, bytes, so that other files cannot fill the memory.
const LINE_BYTES_MAX: u64 = 256 * 1024;

/// Reads the lines of a file one by one, without their newlines, and drops a torn last line.
#[derive(Debug)]
pub(super) struct WholeLines {
    path: PathBuf,
    input: Option<BufReader<Take<File>>>,
    bytes: Vec<u8>,
    line: u64,
    /// True if the last line had no newline and was dropped. Valid once [`Self::next`] has returned `None`.
    pub(super) torn: bool,
}

impl WholeLines {
    /// Opens the file; a missing file has no lines.
    pub(super) fn open(path: PathBuf) -> Result<Self, RunDirError> {
        match files::open(&path, Links::Refused) {
            Ok(file) => Ok(Self::new(path, Some(file))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::new(path, None)),
            Err(error) => Err(RunDirError::io("reading", &path, error)),
        }
    }

    pub(super) fn new(path: PathBuf, file: Option<File>) -> Self {
        let input = file.map(|file| buffered(file.take(u64::MAX)));
        Self {
            path,
            input,
            bytes: Vec::new(),
            line: 0,
            torn: false,
        }
    }

    /// Limits reading to this many bytes of the file. Must be called before the first read.
    pub(super) fn limited(mut self, bytes: u64) -> Self {
        if let Some(input) = &mut self.input {
            input.get_mut().set_limit(bytes);
        }
        self
    }

    /// The next whole line without its newline; a carriage return before the newline is kept.
    pub(super) fn next(&mut self) -> Result<Option<&str>, RunDirError> {
        let Some(input) = &mut self.input else {
            return Ok(None);
        };
        self.bytes.clear();
        let read = input
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut self.bytes);
        let length = read.map_err(|error| RunDirError::io("reading", &self.path, error))?;
        if length == 0 {
            self.input = None;
            return Ok(None);
        }
        self.line += 1;
        if self.bytes.pop_if(|last| *last == b'\n').is_none() {
            if length as u64 == LINE_BYTES_MAX {
                let expected = format!("a line of less than {LINE_BYTES_MAX} bytes");
                return Err(RunDirError::line(
                    &self.path,
                    self.line,
                    expected,
                    "a longer one",
                ));
            }
            self.input = None;
            self.torn = true;
            return Ok(None);
        }
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(RunDirError::line(
                &self.path,
                self.line,
                "UTF-8 text",
                &String::from_utf8_lossy(&self.bytes),
            )),
        }
    }

    /// An error about the last returned line.
    pub(super) fn error(&self, expected: impl Into<String>) -> RunDirError {
        RunDirError::line(
            &self.path,
            self.line,
            expected,
            &String::from_utf8_lossy(&self.bytes),
        )
    }

    pub(super) fn name(&self) -> String {
        self.path
            .file_name()
            .unwrap_or(Path::new("").as_os_str())
            .to_string_lossy()
            .into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_contains;
    use serde::Deserialize;

    #[test]
    fn a_full_disk_is_named_with_the_path_the_bytes_and_what_to_do() {
        let path = PathBuf::from("/dev/full");
        let Ok(file) = std::fs::OpenOptions::new().append(true).open(&path) else {
            println!("skipped: /dev/full cannot be opened here");
            return;
        };
        let mut full = AppendFile {
            path,
            file,
            appended: RunningSum::default(),
            unsynced: false,
        };
        let error = full.append(b"a line\n").unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("appending 7 bytes to /dev/full - No space left on device"),
            "{text}"
        );
        assert_contains!(text, "bytes free; free some space or give another --out");
    }

    #[test]
    fn an_existing_file_is_never_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        write_whole(dir.path(), "x.json", b"{}").unwrap();
        let error = AppendFile::create(dir.path().join("x.json"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("File exists"), "{error}");
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Thing {
        format_version: u32,
        name: String,
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_every_changed_byte_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let thing = Thing {
            format_version: 1,
            name: "a \"b\"\nc".into(),
        };
        write(dir.path(), "thing.json", &thing).unwrap();
        let path = dir.path().join("thing.json");
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(read::<Thing>(&path, 1).unwrap(), Some(thing));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            std::fs::write(&path, &changed).unwrap();
            let error = read::<Thing>(&path, 1).unwrap_err().to_string();
            // The changed byte may be in the version.
            assert!(
                error.contains("damaged or edited") || error.contains("format version"),
                "byte {at}: {error}"
            );
            std::fs::write(&path, &bytes[..at]).unwrap();
            assert!(read::<Thing>(&path, 1).is_err(), "cut at {at}");
        }
        let found = read::<Thing>(&dir.path().join("none.json"), 1).unwrap();
        assert_eq!(found, None);
    }

    #[test]
    fn the_file_is_json_whose_checksum_any_tool_can_check() {
        let text = String::from_utf8(to_bytes(&Thing {
            format_version: 1,
            name: "x".into(),
        }))
        .unwrap();
        let rest = "  \"format_version\": 1,\n  \"name\": \"x\"\n}\n";
        assert_eq!(
            text,
            format!(
                "{{\n  \"crc32\": \"{:08x}\",\n{rest}",
                crc32fast::hash(rest.as_bytes())
            )
        );
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }
}
