//! Lock of a series: one process at a time runs it.
//!
//! An advisory lock on the directory itself leaves no file behind, and the kernel releases it however the process ends.
//! Readers (reports, status) take no lock.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The right to run the series in a directory, for as long as this lives.
#[derive(Debug)]
pub struct SeriesLock {
    /// Closing it lets go of the lock.
    _dir: File,
}

/// Why a series cannot be run.
#[derive(Debug, Error)]
pub enum SeriesLockError {
    /// Another process runs the series.
    #[error(
        "going on in {} - another flashproof runs the series there now; wait for it, or give another --out", .dir.display()
    )]
    Held { dir: PathBuf },
    /// System call failed.
    #[error("locking the directory {} - {source}; {}", .dir.display(), remedy(.source))]
    Io { dir: PathBuf, source: io::Error },
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "give a directory that this user may read and write, or change its mode (chmod)"
        }
        _ => "give a directory on a disk of this machine",
    }
}

impl SeriesLock {
    /// Takes the lock on the existing `dir`. Errors: another process has it, or the file system has no locks.
    pub fn take(dir: &Path) -> Result<Self, SeriesLockError> {
        let failed = |source| SeriesLockError::Io { dir: dir.to_owned(), source };
        let opened = File::open(dir).map_err(failed)?;
        match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _dir: opened }),
            Err(Errno::WOULDBLOCK) => Err(SeriesLockError::Held { dir: dir.to_owned() }),
            Err(errno) => Err(failed(errno.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_refused_until_the_first_lets_go() {
        let dir = tempfile::tempdir().unwrap();
        let first = SeriesLock::take(dir.path()).unwrap();
        let error = SeriesLock::take(dir.path()).unwrap_err();
        assert!(matches!(error, SeriesLockError::Held { .. }), "{error}");
        drop(first);
        assert!(SeriesLock::take(dir.path()).is_ok());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = SeriesLock::take(Path::new("/nowhere/series")).unwrap_err().to_string();
        assert!(error.starts_with("locking the directory /nowhere/series - No such file"), "{error}");
    }
}
