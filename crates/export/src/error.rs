//! Errors of an export, each in one line: the operation and its object, the cause, the remedy.

use parquet::errors::ParquetError;
use results::run_dir::RunDirError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why nothing was exported.
#[derive(Debug, Error)]
pub enum ExportError {
    /// Not a run, not a series, and none below.
    #[error(transparent)]
    Source(#[from] RunDirError),
    #[error("exporting to {} - it holds {found}, which no export wrote; give another directory", .dir.display())]
    Foreign { dir: PathBuf, found: String },
    #[error(
        "exporting to {} - it holds {found} of an earlier export; add --force to replace it, or give another directory",
        .dir.display()
    )]
    Occupied { dir: PathBuf, found: String },
    #[error("{tried} {} - {source}; give a directory on a disk with room that this user may write to", .path.display())]
    Io { tried: &'static str, path: PathBuf, source: io::Error },
    #[error("writing {} - {source}; free some space, or give a directory on another disk", .path.display())]
    Parquet { path: PathBuf, source: ParquetError },
    /// A defect of this program: a thread that writes a table ended early.
    #[error("exporting - a thread that writes tables ended before its work; report this as a defect")]
    Thread,
}

impl ExportError {
    pub(crate) fn io(tried: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { tried, path: path.to_owned(), source }
    }
}
