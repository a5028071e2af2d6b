//! Files of /proc that are read repeatedly (opened once, into the same memory), and differences between two readings.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The open file and the text last read.
#[derive(Debug)]
pub(super) struct ProcFile {
    file: File,
    text: Vec<u8>,
}

/// Bytes by which the memory grows. A read of /proc returns at most what fits, so this also bounds the number of reads.
const STEP_BYTES: usize = 16 << 10;

impl ProcFile {
    /// Opens `name` below `root`.
    pub(super) fn open(root: &Path, name: &str) -> io::Result<Self> {
        Ok(Self { file: File::open(root.join(name))?, text: vec![0; STEP_BYTES] })
    }

    /// Reads the file again. Allocates only if the file is longer than ever before.
    pub(super) fn read(&mut self) -> io::Result<&str> {
        let mut filled = 0;
        loop {
            if filled == self.text.len() {
                self.text.resize(filled + STEP_BYTES, 0);
            }
            match self.file.read_at(&mut self.text[filled..], filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        std::str::from_utf8(&self.text[..filled]).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// Why telemetry cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot take telemetry from {} - {source} - {}", path.display(), sys::remedy(source, "mount /proc"))]
pub struct TelemetryError {
    /// The file that could not be opened.
    pub path: PathBuf,
    pub source: io::Error,
}

/// Opens a file of /proc that every kernel has.
pub(super) fn open(root: &Path, name: &str) -> Result<ProcFile, TelemetryError> {
    ProcFile::open(root, name).map_err(|source| TelemetryError { path: root.join(name), source })
}

/// `count` per second of `interval`; `None` for a zero interval.
pub(super) fn per_sec(count: u64, interval: Duration) -> Option<f64> {
    (!interval.is_zero()).then(|| count as f64 / interval.as_secs_f64())
}

/// `part_ns` as a share of `interval`, percent; `None` for a zero interval.
pub(super) fn share_pct(part_ns: u64, interval: Duration) -> Option<f64> {
    (!interval.is_zero()).then(|| part_ns as f64 * 100.0 / interval.as_nanos() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_sees_the_file_as_it_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "first and longer").unwrap();
        let mut file = ProcFile::open(dir.path(), "file").unwrap();
        assert_eq!(file.read().unwrap(), "first and longer");
        std::fs::write(&path, "second").unwrap();
        assert_eq!(file.read().unwrap(), "second");
        let long = "x".repeat(3 * STEP_BYTES);
        std::fs::write(&path, &long).unwrap();
        assert_eq!(file.read().unwrap(), long);
    }

    #[test]
    fn a_real_file_of_proc_can_be_read_twice() {
        let mut file = ProcFile::open("/proc".as_ref(), "stat").unwrap();
        assert!(file.read().unwrap().starts_with("cpu "));
        assert!(file.read().unwrap().starts_with("cpu "));
    }
}
