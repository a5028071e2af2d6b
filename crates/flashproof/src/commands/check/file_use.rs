//! The files of a check, and their state when a run begins.

use serde::Deserialize;

/// State of a job's file when a run begins, as in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileState {
    /// Written before the first run, and shared by all runs.
    #[default]
    Shared,
    /// A file of the run, with allocated blocks that were never written.
    Fresh,
    /// A file of the run, whose blocks were written before.
    Rewritten,
    /// A file of the run that is empty and grows.
    Appended,
    /// A device with the data that it has: jobs only read, and nothing is written before.
    Existing,
}

#[derive(Debug, Clone, Default)]
pub struct FileUse {
    /// Name in the jobs.
    pub file: String,
    pub bytes: u64,
    pub is_read: bool,
    pub state: FileState,
    /// Name of the run to which the file belongs, unless the file is shared.
    pub run: String,
}
