//! The plan of `flashproof check`: its checks and their runs, written before the first run. With the plan, another
//! program sees what runs now and what is still to come.

use crate::check::CheckResult;
use results::run_dir::{self, Process, RunDirError};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// File name of the plan, in the directory of the command.
pub const CHECK_PLAN: &str = "check-plan.json";

/// Version of the plan's fields. Raised when a field is removed or changes its meaning.
pub const CHECK_PLAN_FORMAT_VERSION: u32 = 1;

/// Checks of one disk, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckPlan {
    /// [`CHECK_PLAN_FORMAT_VERSION`] of the program that wrote the plan.
    pub format_version: u32,
    /// Directory, device or simulated drive.
    pub path: String,
    /// Beginning, milliseconds since 1970 (UTC).
    pub began_unix_ms: u64,
    pub checks: Vec<PlannedCheck>,
    /// The process of the command; `None` if /proc does not show it.
    pub process: Option<Process>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedCheck {
    pub name: String,
    /// Name of each run, which is also the name of its directory, and its length in seconds.
    pub runs: Vec<(String, u64)>,
}

impl CheckPlan {
    /// `None` if `dir` has no plan.
    pub fn read(dir: &Path) -> Result<Option<Self>, RunDirError> {
        run_dir::read_json(&dir.join(CHECK_PLAN), CHECK_PLAN_FORMAT_VERSION)
    }

    pub fn of_result(check: &CheckResult) -> Self {
        let done = PlannedCheck {
            name: check.name.clone(),
            runs: Vec::new(),
        };
        Self {
            format_version: CHECK_PLAN_FORMAT_VERSION,
            path: check.path.clone(),
            began_unix_ms: check.started_unix_ms,
            checks: vec![done],
            process: None,
        }
    }

    pub fn write(&self, dir: &Path) -> Result<(), RunDirError> {
        run_dir::write_json(dir, CHECK_PLAN, self)
    }

    /// Directory of the check `name`: below `dir`, the directory of the command. A single check uses `dir` itself.
    pub fn dir_of(&self, dir: &Path, name: &str) -> PathBuf {
        match self.checks[..] {
            [_] => dir.to_owned(),
            _ => dir.join(name),
        }
    }
}
