//! Why there is no report.

use results::run_dir::RunDirError;
use thiserror::Error;

/// Why a report could not be made.
#[derive(Debug, Error)]
pub enum ReportError {
    /// A directory cannot be read as a run or a series.
    #[error(transparent)]
    Directory(#[from] RunDirError),
}
