//! Progress of a run or a series, from its files alone: while it runs, and afterwards.
//!
//! A directory can be read at any moment: a torn end belongs to the interval that is being written. The files do not
//! show if a process still runs; the caller (the binary) checks that.

mod run;
mod series;
mod text;

pub use run::{Phase, RunStatus, Shares, Temperature};
pub use series::{SeriesStatus, StepStatus};

use results::run_dir::{self, Holds, Process, RunDirError};
use serde::Serialize;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// State of a run's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    Running,
    /// Stopped (SIGSTOP).
    Stopped,
    Gone,
    /// Not visible from here; it may run in another container, or on another machine.
    Elsewhere,
    /// Cannot be determined.
    Unknown,
}

/// Status of a directory.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Status {
    Run(Box<RunStatus>),
    Series(Box<SeriesStatus>),
}

impl Status {
    /// Reads how the run or series in `dir` stands at `now`. `look` tells of a process.
    ///
    /// Errors: it is neither, or what says what it is is damaged.
    pub fn read(dir: &Path, now: SystemTime, look: &dyn Fn(&Process) -> Seen) -> Result<Self, RunDirError> {
        Ok(match run_dir::holds(dir)? {
            Holds::Run => Self::Run(Box::new(RunStatus::read(dir, now, look)?)),
            Holds::Series => Self::Series(Box::new(SeriesStatus::read(dir, now, look)?)),
        })
    }

    /// True if nothing more will come.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Run(run) => run.phase.is_over(),
            Self::Series(series) => series.is_over(),
        }
    }

    /// 0 while it runs or when it passed, else that of the verdict.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Run(run) => run.exit_code(),
            Self::Series(series) => series.exit_code(),
        }
    }
}

/// Milliseconds since 1970; 0 before.
fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests;
