//! The lock of a directory in which a series runs.
//!
//! An advisory lock on the directory itself: no file is left behind, the kernel releases the lock however the process
//! ends, and readers need no lock.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::Path;

/// Exclusive lock on a directory of a series, held until this value is dropped.
#[derive(Debug)]
pub struct SeriesLock {
    /// Closing the directory releases the lock.
    _dir: File,
}

impl SeriesLock {
    /// Locks the existing directory `dir`. Errors: another process has the lock, or the file system has no locks.
    pub fn take(dir: &Path) -> Result<Self, String> {
        let opened =
            File::open(results::files::stable_path(dir)).map_err(|error| lock_error(dir, error))?;
        match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _dir: opened }),
            Err(Errno::WOULDBLOCK) => Err(format!(
                "cannot resume the series in {} - another flashproof process runs this series now - wait for its end, or \
                 give another --out",
                dir.display()
            )),
            Err(errno) => Err(lock_error(dir, errno.into())),
        }
    }
}

fn lock_error(dir: &Path, error: io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "give a directory that this user may read and write, or change its mode (chmod)"
        }
        _ => "give a directory on a disk of this machine",
    };
    format!(
        "cannot lock the directory {} - {error} - {remedy}",
        dir.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_is_refused_until_the_first_is_released() {
        let dir = tempfile::tempdir().unwrap();
        let first = SeriesLock::take(dir.path()).unwrap();
        let error = SeriesLock::take(dir.path()).unwrap_err();
        assert!(error.starts_with("cannot resume the series"), "{error}");
        assert!(error.contains("another flashproof process runs"), "{error}");
        drop(first);
        assert!(SeriesLock::take(dir.path()).is_ok());
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "nothing is left behind"
        );
    }

    #[test]
    fn the_error_of_locking_a_missing_directory_names_the_directory() {
        let error = SeriesLock::take(Path::new("/nowhere/series")).unwrap_err();
        assert!(
            error.starts_with("cannot lock the directory /nowhere/series - No such file"),
            "{error}"
        );
    }
}
