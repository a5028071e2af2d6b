//! Errors of a run directory, each in one line: the operation and its object, the cause, the remedy.

use crate::units::bytes;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a run directory could not be written or read.
#[derive(Debug, Error)]
pub enum RunDirError {
    /// The directory holds a run already.
    #[error("starting a run in {} - it already holds {found} of another run; give another --out or move that run away", .dir.display())]
    Occupied {
        dir: PathBuf,
        /// Name of the file that is there.
        found: String,
    },
    /// Too little space for the whole run.
    #[error(
        "starting a run in {} - it will need about {} and {} are free; free some space or give an --out with more room",
        .dir.display(), bytes(*.needed_bytes as f64), bytes(*.free_bytes as f64)
    )]
    NoRoom {
        dir: PathBuf,
        /// Space that the run will need, bytes.
        needed_bytes: u64,
        /// Free space, bytes.
        free_bytes: u64,
    },
    /// System call failed.
    #[error("{tried} {} - {source}{}; {}", .path.display(), free_text(.free_bytes), advice(.tried, .source))]
    Io {
        /// Operation, up to the path: `appending 312 bytes to`.
        tried: String,
        path: PathBuf,
        source: io::Error,
        /// Bytes free there, where that matters and could be found out.
        free_bytes: Option<u64>,
    },
    /// An earlier write had failed; nothing was tried.
    #[error(
        "recording in {} - stopped after an earlier error ({earlier}); earlier records can be read",
        .dir.display()
    )]
    Stopped { dir: PathBuf, earlier: String },
    /// There is no run where one was looked for.
    #[error("reading {} - {why}; {what_to_do}", .path.display())]
    NoRun {
        /// The path that was looked at.
        path: PathBuf,
        /// Contents of the directory instead.
        why: String,
        what_to_do: String,
    },
    /// A file is of a later version.
    #[error(
        "reading {} - it has format version {found} and this program knows versions up to {known}; use a newer flashproof",
        .path.display()
    )]
    Newer {
        path: PathBuf,
        /// Its format version.
        found: u64,
        /// The newest version known here.
        known: u32,
    },
    #[error("reading {} - it is missing; copy the whole directory of the run from where it was recorded", .path.display())]
    Missing { path: PathBuf },
    /// A file has invalid contents.
    #[error("reading {} - {why}; it was damaged or edited after the run: use an untouched copy", .path.display())]
    Damaged {
        path: PathBuf,
        /// Damage and its position.
        why: String,
    },
    /// A line of a table or log is invalid.
    #[error(
        "reading {} line {line} - expected {expected}, found {found}; it was damaged or edited after the run: use an \
         untouched copy", .path.display()
    )]
    Line {
        path: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Expected text.
        expected: String,
        /// Text found, shortened.
        found: String,
    },
}

impl RunDirError {
    /// A failed system call, with the free space if that is the cause.
    pub(super) fn io(tried: impl Into<String>, path: &Path, source: io::Error) -> Self {
        let free_bytes = if is_full(&source) { free_bytes(path).ok() } else { None };
        Self::Io { tried: tried.into(), path: path.to_owned(), source, free_bytes }
    }

    pub(super) fn line(path: &Path, line: u64, expected: impl Into<String>, found: &str) -> Self {
        const SHOWN_CHARS: usize = 80;
        let short: String = found.chars().take(SHOWN_CHARS).collect();
        let more = if short.len() < found.len() { " and more" } else { "" };
        let found = format!("{short:?}{more}");
        Self::Line { path: path.to_owned(), line, expected: expected.into(), found }
    }

    /// True if the disk under the directory (or the user's quota) is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => is_full(source),
            Self::NoRoom { .. } => true,
            _ => false,
        }
    }
}

/// Bytes that this user may still write on the file system of `path`.
pub(super) fn free_bytes(path: &Path) -> Result<u64, RunDirError> {
    let stat = rustix::fs::statvfs(path);
    let stat = stat.map_err(|error| RunDirError::io("asking for the free space of", path, error.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn free_text(free_bytes: &Option<u64>) -> String {
    free_bytes.map(|bytes| format!(", {bytes} bytes free")).unwrap_or_default()
}

fn advice(tried: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied if tried.starts_with("reading") => {
            "read it as the user who ran it or as root, or let this user read it (chmod)"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space or give another --out; data written before is complete and can be read"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "give an --out that this user may write to",
        ErrorKind::NotFound => "give the directory of a run, or a place where one can be made",
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => "a file is in the way: give the path of a directory",
        ErrorKind::InvalidInput | ErrorKind::InvalidData if tried.starts_with("reading") => {
            "a run leaves regular files only: use an untouched copy of its directory"
        }
        ErrorKind::FileTooLarge => {
            "raise the limit of the size of a file (ulimit -f), or give an --out where there is none"
        }
        _ if is_out_of_descriptors(error) => "raise the limit of open files (ulimit -n)",
        _ => "check the disk under it",
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_says_what_on_what_why_and_what_to_do() {
        let dir = PathBuf::from("/runs/a");
        let room = RunDirError::NoRoom { dir: dir.clone(), needed_bytes: 93_400_000, free_bytes: 1_250_000 };
        assert_eq!(
            room.to_string(),
            "starting a run in /runs/a - it will need about 93.4 MB and 1.25 MB are free; free some space or give an \
             --out with more room"
        );
        let denied = RunDirError::io("creating", &dir, ErrorKind::PermissionDenied.into());
        assert_eq!(
            denied.to_string(),
            "creating /runs/a - permission denied; give an --out that this user may write to"
        );
        let unreadable = RunDirError::io("reading", &dir, ErrorKind::PermissionDenied.into()).to_string();
        assert!(unreadable.ends_with("or let this user read it (chmod)"), "{unreadable}");
        let line = RunDirError::line(&dir.join("intervals.csv"), 7, "a number", &"x".repeat(100));
        let expected = format!(
            "reading /runs/a/intervals.csv line 7 - expected a number, found {:?} and more; it was damaged or edited \
             after the run: use an untouched copy",
            "x".repeat(80)
        );
        assert_eq!(line.to_string(), expected);
    }
}
