//! A series of runs with one purpose: a certification in stages, a search for the highest rating.
//!
//! `series.json` in the directory of the series is its state on disk: rewritten, whole, before and after each run, so
//! that the same command can resume after a crash, and a report can be made years later. Each run has a run directory
//! of its own below it.
//!
//! This module handles the record only: its contents, its identity, its lock. [`crate::certify`] defines the stages of
//! a certification, [`crate::rating`] the search.

mod lock;
mod same;

pub use lock::SeriesLock;
pub use same::{Differs, check_same};

use crate::finding::Finding;
use crate::judge::Outcome;
pub use crate::run_dir::SERIES;
use crate::run_dir::{Process, RunDirError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// Version of the format. Grows when a field changes its meaning, not when one is added.
pub const SERIES_FORMAT_VERSION: u32 = 1;

/// What a series is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Stages that a device passes or fails.
    Certify,
    /// The highest load that meets the limits.
    Rate,
    /// What a drive does under fio's jobs: depths, profiles, rates.
    Baseline,
}

/// Which drive a device is, whatever name it has after the next start of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// The name that the user gave.
    pub name: String,
    /// Model, where the device tells.
    pub model: Option<String>,
    /// Serial number, where the device tells; a simulated drive's is its description.
    pub serial: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether it is simulated.
    pub simulated: bool,
}

/// What decides whether a step was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The verdict of its run.
    Limits,
    /// That it runs to its end without an I/O error, however slow.
    Completes,
    /// That the shares of an earlier step return. Nothing is judged.
    Recovers,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not begun.
    Planned,
    /// Begun and not ended: it goes on, or its program was killed.
    Running,
    /// Ended, with an outcome.
    Done,
    /// Broken off; it will be run again from its beginning.
    Interrupted,
}

/// One run of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Its name: `stage 1`, `30x`, `recovery at 20x`.
    pub name: String,
    /// Its run directory, relative to that of the series; the latest attempt.
    pub dir: String,
    /// The load as a multiple of the load of 1x.
    pub multiple: f64,
    /// Which devices it loads: their numbers in [`Series::devices`].
    pub devices: Vec<usize>,
    /// How long it should last at most, seconds.
    pub duration_sec: u64,
    /// What decides.
    pub rule: Rule,
    /// How far it is.
    pub state: State,
    /// Whether it was passed; `None` until it is done.
    pub outcome: Option<Outcome>,
    /// Why this outcome, one sentence; empty until it is done.
    pub reason: String,
    /// How often it was begun.
    pub attempts: u32,
    /// When its latest attempt began, milliseconds since 1970 (UTC).
    pub began_unix_ms: Option<u64>,
    /// When its latest attempt ended.
    pub ended_unix_ms: Option<u64>,
    /// What else is known, by purpose (shares of a step of a search, linearity of a stage).
    pub details: Value,
}

/// What came of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conclusion {
    /// Pass, fail or invalid.
    pub outcome: Outcome,
    /// In one sentence, with the number that decided.
    pub sentence: String,
    /// What a reader must know beside it, each one sentence.
    pub remarks: Vec<String>,
    /// The rating as a multiple of 1x, where a search found one.
    pub rating: Option<f64>,
    /// Whether it may be laid beside published ratings.
    pub comparable: bool,
    /// What else is known, by purpose.
    pub details: Value,
}

/// A series of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// [`SERIES_FORMAT_VERSION`] of the program that wrote it.
    pub format_version: u32,
    /// Program and version.
    pub tool: String,
    /// The command line that began it.
    pub command: Vec<String>,
    /// What it is for.
    pub purpose: Purpose,
    /// When it began, milliseconds since 1970 (UTC).
    pub began_unix_ms: u64,
    /// The devices.
    pub devices: Vec<Identity>,
    /// The configuration at 1x, in ACT's dialect.
    pub config_1x: String,
    /// Everything else that must be equal for the same command to go on: limits, lengths, pacing.
    /// Pairs of name and value.
    pub terms: Vec<(String, String)>,
    /// What was found about host and devices before the first run.
    pub findings: Vec<Finding>,
    /// The steps, oldest first.
    pub steps: Vec<Step>,
    /// What came of it; `None` while it goes on.
    pub conclusion: Option<Conclusion>,
    /// The process that runs it, or ran it last; `None` where /proc does not tell.
    pub process: Option<Process>,
}

impl Step {
    /// A step that has not begun.
    pub fn planned(
        name: String,
        dir: String,
        multiple: f64,
        devices: Vec<usize>,
        duration_sec: u64,
        rule: Rule,
    ) -> Self {
        Self {
            name,
            dir,
            multiple,
            devices,
            duration_sec,
            rule,
            state: State::Planned,
            outcome: None,
            reason: String::new(),
            attempts: 0,
            began_unix_ms: None,
            ended_unix_ms: None,
            details: Value::Null,
        }
    }

    /// The step, begun for the first time at `now_unix_ms`.
    pub fn begun(self, now_unix_ms: u64) -> Self {
        Self { state: State::Running, attempts: 1, began_unix_ms: Some(now_unix_ms), ..self }
    }

    /// Marks the step as broken off, with the reason.
    pub fn interrupt(&mut self, why: &str) {
        self.state = State::Interrupted;
        self.outcome = None;
        why.clone_into(&mut self.reason);
    }
}

impl Series {
    /// Marks running steps as interrupted. The caller has checked that no process runs them.
    pub fn settle(&mut self) {
        for step in self.steps.iter_mut().filter(|step| step.state == State::Running) {
            step.interrupt("its program was killed, or the machine stopped");
        }
    }

    /// Reads the series in `dir`; `None` if there is none. Errors: it cannot be read, is damaged, or is of a later
    /// version.
    pub fn read(dir: &Path) -> Result<Option<Self>, RunDirError> {
        if dir.is_file() {
            return Ok(None);
        }
        crate::run_dir::read_json(&dir.join(SERIES), SERIES_FORMAT_VERSION)
    }

    /// Writes the series into `dir`, which exists: whole or not at all, and synced.
    pub fn write(&self, dir: &Path) -> Result<(), RunDirError> {
        crate::run_dir::write_json(dir, SERIES, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series() -> Series {
        Series {
            format_version: SERIES_FORMAT_VERSION,
            tool: "flashproof 0.1.0".into(),
            command: vec!["flashproof".into(), "certify".into()],
            purpose: Purpose::Certify,
            began_unix_ms: 1,
            devices: vec![Identity {
                name: "sim:".into(),
                model: None,
                serial: None,
                size_bytes: 1 << 36,
                simulated: true,
            }],
            config_1x: "device-names: sim:\n".into(),
            terms: vec![("sla".into(), "5%>1ms".into())],
            findings: Vec::new(),
            steps: Vec::new(),
            conclusion: None,
            process: Some(Process { pid: 77, start_ticks: 1, boot_id: "b".into(), pid_namespace: None }),
        }
    }

    #[test]
    fn a_series_of_an_earlier_version_names_no_process() {
        let mut value = serde_json::to_value(series()).unwrap();
        value.as_object_mut().unwrap().remove("process");
        assert_eq!(serde_json::from_value::<Series>(value).unwrap(), Series { process: None, ..series() });
    }

    #[test]
    fn a_series_is_read_as_it_was_written_and_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Series::read(dir.path()).unwrap(), None);
        assert_eq!(Series::read(tempfile::NamedTempFile::new().unwrap().path()).unwrap(), None);
        let mut series = series();
        series.write(dir.path()).unwrap();
        series.conclusion = Some(Conclusion {
            outcome: Outcome::Pass,
            sentence: "held".into(),
            remarks: Vec::new(),
            rating: Some(30.5),
            comparable: false,
            details: Value::Null,
        });
        series.write(dir.path()).unwrap();
        assert_eq!(Series::read(dir.path()).unwrap(), Some(series));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing temporary is left");
    }

    #[test]
    fn a_later_version_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        Series { format_version: SERIES_FORMAT_VERSION + 1, ..series() }.write(dir.path()).unwrap();
        let error = Series::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("series.json"), "{error}");
    }
}
