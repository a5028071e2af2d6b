//! The two ways in which a run directory is written: by appending, and whole or not at all.

use super::RunDirError;
use super::checksums::Sum;
use crate::files::{self, Over};
use crc32fast::Hasher;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file that only grows, and the checksum of what is in it.
#[derive(Debug)]
pub(super) struct AppendFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    hasher: Hasher,
    unsynced: bool,
}

impl AppendFile {
    /// Creates the file, which must not exist.
    pub(super) fn create(path: PathBuf) -> Result<Self, RunDirError> {
        let opened = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = opened.map_err(|error| RunDirError::io("creating", &path, error))?;
        Ok(Self { path, file, bytes: 0, hasher: Hasher::new(), unsynced: false })
    }

    /// Appends whole lines in one write, so that a reader never sees half of them without need.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), RunDirError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.unsynced = true;
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
        let tried = || format!("appending {} bytes to", bytes.len());
        self.file.write_all(bytes).map_err(|error| RunDirError::io(tried(), &self.path, error))
    }

    /// Name of the file.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Length and checksum of what was appended.
    pub(super) fn sum(&self) -> Sum {
        Sum { bytes: self.bytes, crc32: self.hasher.clone().finalize() }
    }

    /// Waits until what was appended is on the disk.
    pub(super) fn sync(&mut self) -> Result<(), RunDirError> {
        if self.unsynced {
            self.file.sync_data().map_err(|error| RunDirError::io("syncing", &self.path, error))?;
            self.unsynced = false;
        }
        Ok(())
    }
}

/// Writes `dir/name` so that either all of it is there, after a power cut too, or nothing.
pub(super) fn write_whole(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), RunDirError> {
    let path = dir.join(name);
    let tried = || format!("writing {} bytes to", bytes.len());
    files::replace(&path, bytes, Over::Own).map_err(|error| RunDirError::io(tried(), &path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_with_the_path_the_bytes_and_what_to_do() {
        let path = PathBuf::from("/dev/full");
        let Ok(file) = OpenOptions::new().append(true).open(&path) else {
            println!("skipped: /dev/full cannot be opened here");
            return;
        };
        let mut full = AppendFile { path, file, bytes: 0, hasher: Hasher::new(), unsynced: false };
        let error = full.append(b"a line\n").unwrap_err();
        assert!(error.is_disk_full());
        let text = error.to_string();
        assert!(text.starts_with("appending 7 bytes to /dev/full - No space left on device"), "{text}");
        assert!(text.contains("bytes free; free some space or give another --out"), "{text}");
    }

    #[test]
    fn an_existing_file_is_never_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        write_whole(dir.path(), "x.json", b"{}").unwrap();
        let error = AppendFile::create(dir.path().join("x.json")).unwrap_err().to_string();
        assert!(error.contains("File exists"), "{error}");
    }
}
