//! JSON files of a run or a series: whole or not at all, with a checksum in their first field.
//!
//! ```text
//! {
//!   "crc32": "9c2f4d01",        CRC-32, as zlib and gzip have it, of every byte after this line
//!   "format_version": 1,
//!   ...
//! ```

use super::RunDirError;
use super::file::write_whole;
use crate::files::{self, Links};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::ErrorKind;
use std::path::Path;

/// Largest file that is read: the verdict of a year on eight devices has a tenth of it.
const BYTES_MAX: u64 = 64 << 20;

/// What stands around the checksum.
const BEFORE: &str = "{\n  \"crc32\": \"";
const AFTER: &str = "\",\n";
const DIGITS: usize = 8;

/// Writes `value` to `dir/name`, whole or not at all.
pub(crate) fn write<T: Serialize>(dir: &Path, name: &str, value: &T) -> Result<(), RunDirError> {
    write_whole(dir, name, &to_bytes(value))
}

/// Pretty, because people read these files; with an end of line, because tools want it.
pub(super) fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    let text = serde_json::to_string_pretty(value).expect("maps have text keys and a vector takes any bytes");
    let rest = text.strip_prefix("{\n").unwrap_or(&text);
    let rest = format!("{rest}\n");
    format!("{BEFORE}{:08x}{AFTER}{rest}", crc32fast::hash(rest.as_bytes())).into_bytes()
}

/// A file of a known version; `None` when there is none.
///
/// Errors: it is damaged, of a later version, or the system refuses.
pub(crate) fn read<T: DeserializeOwned>(path: &Path, known: u32) -> Result<Option<T>, RunDirError> {
    let bytes = match files::read(path, Links::Refused, BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RunDirError::io("reading", path, error)),
    };
    let damaged = |why: String| RunDirError::Damaged { path: path.to_owned(), why };
    #[derive(serde::Deserialize)]
    struct Versioned {
        format_version: u64,
    }
    let Versioned { format_version } = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if format_version > u64::from(known) {
        return Err(RunDirError::Newer { path: path.to_owned(), found: format_version, known });
    }
    check(&bytes).map_err(damaged)?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(error.to_string()))
}

/// Whether the bytes are those that were written; `Err` says why not.
fn check(bytes: &[u8]) -> Result<(), String> {
    let rest = bytes.strip_prefix(BEFORE.as_bytes()).and_then(|rest| rest.split_at_checked(DIGITS));
    let recorded = rest.and_then(|(digits, rest)| Some((digits, rest.strip_prefix(AFTER.as_bytes())?)));
    let (digits, rest) = recorded.ok_or("it does not begin with its checksum")?;
    let found = format!("{:08x}", crc32fast::hash(rest));
    match found.as_bytes() == digits {
        true => Ok(()),
        false => {
            Err(format!("its bytes have the checksum {found}, and it begins with {}", String::from_utf8_lossy(digits)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Thing {
        format_version: u32,
        name: String,
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_every_changed_byte_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let thing = Thing { format_version: 1, name: "a \"b\"\nc".into() };
        write(dir.path(), "thing.json", &thing).unwrap();
        let path = dir.path().join("thing.json");
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(read::<Thing>(&path, 1).unwrap(), Some(thing));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            std::fs::write(&path, &changed).unwrap();
            let error = read::<Thing>(&path, 1).unwrap_err().to_string();
            // The version may have become another one.
            assert!(error.contains("damaged or edited") || error.contains("format version"), "byte {at}: {error}");
            std::fs::write(&path, &bytes[..at]).unwrap();
            assert!(read::<Thing>(&path, 1).is_err(), "cut at {at}");
        }
        assert_eq!(read::<Thing>(&dir.path().join("none.json"), 1).unwrap(), None);
    }

    #[test]
    fn any_tool_reads_it_and_can_check_it() {
        let text = String::from_utf8(to_bytes(&Thing { format_version: 1, name: "x".into() })).unwrap();
        let rest = "  \"format_version\": 1,\n  \"name\": \"x\"\n}\n";
        assert_eq!(text, format!("{{\n  \"crc32\": \"{:08x}\",\n{rest}", crc32fast::hash(rest.as_bytes())));
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }
}
