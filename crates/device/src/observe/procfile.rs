//! A file of /proc that is read again and again: opened once, read into the same memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The open file and the text last read.
#[derive(Debug)]
pub(super) struct ProcFile {
    file: File,
    text: Vec<u8>,
}

/// Bytes by which the memory grows. A read of /proc gives at most what fits, so this also bounds the
/// number of reads.
const STEP_BYTES: usize = 16 << 10;

impl ProcFile {
    /// Opens `name` below `root`.
    pub(super) fn open(root: &Path, name: &str) -> io::Result<Self> {
        Ok(Self { file: File::open(root.join(name))?, text: vec![0; STEP_BYTES] })
    }

    /// Reads the file anew. No allocation unless it outgrew what it ever was.
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
