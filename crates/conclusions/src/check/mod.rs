//! A check of a disk: is the disk good enough for a database? Criteria, measured figures, and the conclusion.
//!
//! ```text
//! criteria -> limits of the streams of a run -> Verdict + figures -> judged criteria -> conclusion
//! ```
//!
//! A short run can pass during a burst: a volume with burst credits, or a drive with an SLC cache, holds a load for a
//! minute, but not for an hour. So each check defines a minimum of time and written bytes. With less, the answer is
//! "tested too briefly".

mod answer;
mod criteria;
mod evaluation;

pub use answer::{CheckAnswer, for_option};
pub use criteria::{CheckMetric, Criterion, LimitStatus, limits_of};
pub use evaluation::{Figures, JudgedCriterion, burst_ends, judge, outcome_of_run};

use crate::circumstances::Circumstances;
use results::format::quoted;
use results::judge::{Outcome, Verdict};
use results::run_dir::RunDirError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub const CHECK: &str = "check.json";

/// Version of the record's fields. Raised when a field is removed or changes its meaning.
pub const CHECK_FORMAT_VERSION: u32 = 1;

/// A run of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedRun {
    /// Name of the run, and of its directory below the directory of the check.
    pub name: String,
    pub outcome: Outcome,
    /// The sentence of its verdict.
    pub reason: String,
    pub seconds: f64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Ends of bursts, one sentence each: the rate of a stream fell permanently.
    pub burst_ends: Vec<String>,
    /// True if this program waited for a CPU so long that a limit that was not held does not count against the disk.
    #[serde(default)]
    pub is_host_busy: bool,
}

/// Minimum load that shows the sustained state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sustained {
    /// Minimum duration of the load, seconds.
    pub seconds: u64,
    /// Minimum number of written bytes.
    pub bytes_written: u64,
    /// Reason for these minimums, a sentence.
    pub why: String,
}

/// Lines of a look, which has neither a database nor limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Look {
    /// The doctor's answer about the host and the disk.
    pub doctor: String,
    /// Meaning of the measured values.
    pub meaning: String,
    /// Command of the next step.
    pub next: String,
}

/// Result of a check of one disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Check")]
pub struct CheckResult {
    /// [`CHECK_FORMAT_VERSION`] of the program that wrote the record.
    pub format_version: u32,
    /// Program and version.
    pub tool: String,
    /// Name of the check.
    pub name: String,
    pub database: String,
    pub question: String,
    /// Directory or device, as the user named it.
    pub path: String,
    /// Kind of disk, as far as known.
    pub disk: Option<String>,
    /// Beginning, milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    pub outcome: Outcome,
    #[serde(default)]
    pub answer: CheckAnswer,
    /// The deciding sentence.
    pub sentence: String,
    /// Other sentences about the result.
    pub remarks: Vec<String>,
    /// Names of the tiers of limits, ascending. The limits of the first tier decide.
    #[serde(default)]
    pub tiers: Vec<String>,
    pub criteria: Vec<JudgedCriterion>,
    pub runs: Vec<CheckedRun>,
    pub sustained: Sustained,
    /// Phrases about conditions that the check does not test.
    pub cannot_see: Vec<String>,
    /// Files with measured values in the directory of the check.
    pub files: Vec<String>,
    /// Set for a look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look: Option<Look>,
    /// The user's note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Drives, host and command.
    #[serde(default)]
    pub circumstances: Circumstances,
}

impl CheckResult {
    /// Judges the check again by `verdicts`, one for each run. An outcome worse than the recorded one is adopted, a
    /// better one is not.
    pub fn rejudge<'v>(&mut self, verdicts: impl Iterator<Item = &'v Verdict>) {
        for (run, verdict) in self.runs.iter_mut().zip(verdicts) {
            let of_run = self
                .criteria
                .iter()
                .map(|judged| &judged.criterion)
                .filter(|criterion| criterion.run == run.name);
            let rejudged = outcome_of_run(verdict, of_run, run.is_host_busy);
            if rejudged > run.outcome.max(Outcome::Pass) {
                let reason = verdict.headline().sentence;
                self.sentence = format!(
                    "{CHECK} says {} for run {}, but the directory of the run says {rejudged}: {reason}",
                    run.outcome, run.name
                );
                run.outcome = rejudged;
                self.outcome = self.outcome.max(rejudged);
            }
        }
        self.answer = self.answer_of_outcome();
    }

    /// Reads the record in `dir`; `None` if there is none. Errors: the record is damaged or of a later version.
    pub fn read(dir: &Path) -> Result<Option<Self>, RunDirError> {
        let path = dir.join(CHECK);
        let mut check: Option<Self> = results::run_dir::read_json(&path, CHECK_FORMAT_VERSION)?;
        // Earlier records have no answer.
        check
            .iter_mut()
            .for_each(|check| check.answer = check.answer_of_outcome());
        let outside = check
            .iter()
            .flat_map(|check| &check.runs)
            .find(|run| run.name.starts_with('.') || run.name.contains('/') || run.name.is_empty());
        match outside {
            None => Ok(check),
            Some(run) => Err(RunDirError::Damaged {
                why: format!(
                    "its run {} is not a directory below the directory of the check",
                    quoted(&run.name)
                ),
                path,
            }),
        }
    }

    pub fn write(&self, dir: &Path) -> Result<(), RunDirError> {
        results::run_dir::write_json(dir, CHECK, self)
    }
}

#[cfg(test)]
mod tests;
