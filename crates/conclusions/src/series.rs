//! A series of runs with a common purpose: a certification in stages, a search for the highest rating, a baseline.
//!
//! `series.json` in the directory of the series is the state on disk. The file is rewritten atomically before and after
//! each run, so that the same command can resume the series after a crash, and a report is possible years later. Each
//! run has a run directory below the directory of the series.

use results::finding::Finding;
use results::format::{Grouped, count};
use results::judge::{Headline, Outcome};
pub use results::run_dir::SERIES;
use results::run_dir::{Process, RunDirError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

pub const REPORT: &str = "report.html";

/// Version of the format. Raised when a field changes its meaning, not when a field is added.
pub const SERIES_FORMAT_VERSION: u32 = 1;

/// The purpose of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Purpose")]
pub enum SeriesPurpose {
    /// A certification: stages that devices pass or fail.
    Certify,
    /// A rating: a search for the highest load within the limits.
    Rate,
    /// A baseline: measurements of drives with fio jobs at several depths, mixes and rates.
    Baseline,
}

impl SeriesPurpose {
    pub fn command(self) -> &'static str {
        match self {
            Self::Certify => "certify",
            Self::Rate => "rate",
            Self::Baseline => "baseline",
        }
    }
}

/// Identity of a drive. The name of the same drive can change at the next boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Identity")]
pub struct DriveIdentity {
    /// Name that the user gave.
    pub name: String,
    /// Model, if the device reports it.
    pub model: Option<String>,
    /// Serial number, if the device reports it; for a simulated drive its specification.
    pub serial: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// True for a simulated device.
    pub simulated: bool,
}

/// Rule that decides the outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The verdict of the run decides.
    Limits,
    /// The step passes if the run reaches its end without an I/O error, however slow it is.
    Completes,
    /// The step waits until the shares of an earlier step return. Nothing is judged.
    Recovers,
}

/// State of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "State")]
pub enum SeriesStepState {
    /// Not begun.
    Planned,
    /// Begun and not ended: the step is running, or the program was killed.
    Running,
    /// Ended, with an outcome.
    Done,
    /// Interrupted; the step will be repeated from its beginning.
    Interrupted,
}

/// A run of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Name: `stage 1`, `30x`, `recovery at 20x`.
    pub name: String,
    /// Run directory of the latest attempt, relative to the directory of the series.
    pub dir: String,
    /// Load as a multiple of 1x.
    pub multiple: f64,
    /// Devices under load: indexes into [`Series::devices`].
    pub devices: Vec<usize>,
    /// Maximum duration, seconds.
    pub duration_sec: u64,
    /// Rule that decides the outcome.
    pub rule: Rule,
    /// State.
    pub state: SeriesStepState,
    /// Outcome; `None` until the step is done.
    pub outcome: Option<Outcome>,
    /// Reason for the outcome, or for an interruption, one sentence; otherwise empty.
    pub reason: String,
    /// Number of attempts.
    pub attempts: u32,
    /// Start of the latest attempt, milliseconds since 1970 (UTC).
    pub began_unix_ms: Option<u64>,
    /// End of the latest attempt, milliseconds since 1970 (UTC).
    pub ended_unix_ms: Option<u64>,
    /// Further data, depending on the purpose: shares of a step of a search, linearity of a stage, the point of a job.
    pub details: Value,
}

impl Step {
    /// The details, of the type that the purpose of the series stores; `None` if they are missing.
    pub fn details_as<T: DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(&self.details).ok()
    }
}

/// The result of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conclusion {
    /// Pass, fail or invalid; for a baseline, which has no limits: measured, fail or invalid.
    pub outcome: Outcome,
    /// The result in one sentence, with the number that decided.
    pub sentence: String,
    /// The next step, in the imperative; records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Further remarks, one sentence each.
    pub remarks: Vec<String>,
    /// Rating as a multiple of 1x, if a search found one.
    pub rating: Option<f64>,
    /// True if the result can be compared with published ratings.
    pub comparable: bool,
    /// Further data, depending on the purpose.
    pub details: Value,
}

impl Conclusion {
    pub fn headline(&self) -> Headline {
        Headline::new(&self.sentence, self.action.as_deref())
    }

    /// The sentence in full, if the headline does not say all of it.
    pub fn details(&self) -> Option<&str> {
        self.headline().unless_said(&self.sentence)
    }

    /// Sentences below the headline: [`Self::details`], then the remarks.
    pub fn sentences_below(&self) -> impl Iterator<Item = &str> {
        let remarks = self.remarks.iter().map(String::as_str);
        self.details().into_iter().chain(remarks)
    }
}

/// A series of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// [`SERIES_FORMAT_VERSION`] of the program that wrote the record.
    pub format_version: u32,
    /// Program and version.
    pub tool: String,
    /// Command line that began the series.
    pub command: Vec<String>,
    /// Purpose of the series.
    pub purpose: SeriesPurpose,
    /// Start of the series, milliseconds since 1970 (UTC).
    pub began_unix_ms: u64,
    /// Devices under test.
    pub devices: Vec<DriveIdentity>,
    /// Configuration of the load of 1x, in ACT's format.
    pub config_1x: String,
    /// Other settings that must be equal to resume the series: limits, lengths, pacing. Pairs of name and value.
    pub terms: Vec<(String, String)>,
    /// Findings about host and devices before the first run.
    pub findings: Vec<Finding>,
    /// The steps, oldest first.
    pub steps: Vec<Step>,
    /// Result; `None` until the series has ended.
    pub conclusion: Option<Conclusion>,
    /// The process that runs the series, or ran it last; `None` if /proc does not show it.
    pub process: Option<Process>,
    /// The user's note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Step {
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
            state: SeriesStepState::Planned,
            outcome: None,
            reason: String::new(),
            attempts: 0,
            began_unix_ms: None,
            ended_unix_ms: None,
            details: Value::Null,
        }
    }

    pub fn begun(self, now_unix_ms: u64) -> Self {
        Self {
            state: SeriesStepState::Running,
            attempts: 1,
            began_unix_ms: Some(now_unix_ms),
            ..self
        }
    }

    pub fn interrupt(&mut self, reason: &str) {
        self.state = SeriesStepState::Interrupted;
        self.outcome = None;
        reason.clone_into(&mut self.reason);
    }
}

impl Series {
    pub fn term(&self, name: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    /// Marks running steps as interrupted. The caller has checked that no process runs them.
    pub fn interrupt_running_steps(&mut self) {
        for step in self
            .steps
            .iter_mut()
            .filter(|step| step.state == SeriesStepState::Running)
        {
            step.interrupt("its program was killed, or the machine stopped");
        }
    }

    /// Reads the record in `dir`; `None` if there is none. Errors: it is unreadable, damaged, or of a later version.
    pub fn read(dir: &Path) -> Result<Option<Self>, RunDirError> {
        if dir.is_file() {
            return Ok(None);
        }
        let mut series: Option<Self> =
            results::run_dir::read_json(&dir.join(SERIES), SERIES_FORMAT_VERSION)?;
        series.iter_mut().for_each(Self::update_outcomes);
        Ok(series)
    }

    /// Replaces PASS, which earlier versions recorded for a baseline, by MEASURED: a baseline has no limits to pass.
    fn update_outcomes(&mut self) {
        if self.purpose != SeriesPurpose::Baseline {
            return;
        }
        let steps = self
            .steps
            .iter_mut()
            .filter_map(|step| step.outcome.as_mut());
        let conclusion = self.conclusion.iter_mut().map(|end| &mut end.outcome);
        for outcome in steps.chain(conclusion) {
            if *outcome == Outcome::Pass {
                *outcome = Outcome::Measured;
            }
        }
    }

    /// Writes the record into the existing directory `dir`, atomically and synced.
    pub fn write(&self, dir: &Path) -> Result<(), RunDirError> {
        results::run_dir::write_json(dir, SERIES, self)
    }
}

const SAME_OPTIONS: &str = "give the same options to resume";

/// Checks that the requested settings are those of the recorded series. Names of devices may differ, because a drive
/// can have another name after a reboot. Errors: all differences, each with a remedy.
pub fn check_same(recorded: &Series, requested: &Series) -> Result<(), Vec<String>> {
    if recorded.purpose != requested.purpose {
        let purpose = match recorded.purpose {
            SeriesPurpose::Rate => "a search for a rating",
            SeriesPurpose::Certify => "a certification",
            SeriesPurpose::Baseline => "a baseline",
        };
        let command = recorded.purpose.command();
        return Err(vec![format!(
            "it holds {purpose} (flashproof {command}) - {SAME_OPTIONS}"
        )]);
    }
    let mut differs = Vec::new();
    let then = recorded.devices.len();
    let now = requested.devices.len();
    if then != now {
        let then = count(then as u64, "device");
        differs.push(format!(
            "it was begun with {then}, but {now} are given now - {SAME_OPTIONS}"
        ));
    } else {
        let pairs = recorded
            .devices
            .iter()
            .zip(&requested.devices)
            .filter(|(then, now)| !is_same_drive(then, now));
        differs.extend(pairs.map(|(then, now)| {
            let name = &now.name;
            let then = drive_text(then);
            let now = drive_text(now);
            format!("it was begun with {then}, but {name} is {now} - put that drive back")
        }));
    }
    differs.extend(terms(&recorded.terms, &requested.terms));
    differs.extend(terms(
        &keys(&recorded.config_1x),
        &keys(&requested.config_1x),
    ));
    if differs.is_empty() {
        Ok(())
    } else {
        Err(differs)
    }
}

fn is_same_drive(recorded: &DriveIdentity, requested: &DriveIdentity) -> bool {
    let named = recorded.serial.is_some() || recorded.name == requested.name;
    named
        && recorded.serial == requested.serial
        && recorded.size_bytes == requested.size_bytes
        && recorded.simulated == requested.simulated
}

/// A drive in words: model, serial number and size.
fn drive_text(drive: &DriveIdentity) -> String {
    let model = drive
        .model
        .as_deref()
        .map(|model| format!("{} ", model.trim()))
        .unwrap_or_default();
    let serial = match &drive.serial {
        Some(serial) => format!("serial {serial}"),
        None => format!("{} without a serial number", drive.name),
    };
    format!("{model}{serial} ({} bytes)", Grouped(drive.size_bytes))
}

/// The keys of a configuration, except the devices, which are compared by their identity.
pub(crate) fn keys(config: &str) -> Vec<(String, String)> {
    let lines = config.lines().filter_map(|line| line.split_once(':'));
    let keys = lines.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
    keys.filter(|(key, _)| key != "device-names").collect()
}

/// Terms that differ, each with a remedy; a missing term counts as empty.
fn terms(recorded: &[(String, String)], requested: &[(String, String)]) -> Vec<String> {
    let gone = recorded
        .iter()
        .filter(|(name, _)| !requested.iter().any(|(other, _)| other == name));
    let names = requested.iter().chain(gone).map(|(name, _)| name);
    let differs = names
        .map(|name| (name, term(recorded, name), term(requested, name)))
        .filter(|(_, then, now)| then != now);
    differs
        .map(|(name, then, now)| {
            format!("{name} was {then:?}, but is {now:?} now - {SAME_OPTIONS}")
        })
        .collect()
}

/// The value of a term; empty if the term is missing.
fn term<'a>(terms: &'a [(String, String)], name: &str) -> &'a str {
    terms
        .iter()
        .find(|(other, _)| other == name)
        .map_or("", |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certify::testing::{drive, series};

    #[test]
    fn a_series_of_an_earlier_version_names_no_process() {
        let process = Some(Process {
            pid: 77,
            start_ticks: 1,
            boot_id: "b".into(),
            pid_namespace: None,
        });
        let mut value = serde_json::to_value(Series {
            process,
            ..series(1)
        })
        .unwrap();
        value.as_object_mut().unwrap().remove("process");
        assert_eq!(
            serde_json::from_value::<Series>(value).unwrap(),
            Series {
                process: None,
                ..series(1)
            }
        );
    }

    #[test]
    fn a_series_is_read_as_it_was_written_and_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Series::read(dir.path()).unwrap(), None);
        assert_eq!(
            Series::read(tempfile::NamedTempFile::new().unwrap().path()).unwrap(),
            None
        );
        let mut series = series(1);
        series.write(dir.path()).unwrap();
        let held = crate::testing::conclusion(Outcome::Pass, "held");
        series.conclusion = Some(Conclusion {
            rating: Some(30.5),
            ..held
        });
        series.write(dir.path()).unwrap();
        assert_eq!(Series::read(dir.path()).unwrap(), Some(series));
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            1,
            "nothing temporary is left"
        );
    }

    #[test]
    fn the_outcome_pass_of_an_old_baseline_is_read_as_measured() {
        let dir = tempfile::tempdir().unwrap();
        let now = crate::testing::baseline_series(&[("/dev/a", 1.0)], "001");
        let mut old = now.clone();
        old.conclusion = Some(crate::testing::conclusion(Outcome::Pass, "measured"));
        old.steps[0].outcome = Some(Outcome::Pass);
        old.write(dir.path()).unwrap();
        assert_eq!(Series::read(dir.path()).unwrap(), Some(now));
    }

    #[test]
    fn a_record_of_a_later_version_is_refused_with_the_name_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        Series {
            format_version: SERIES_FORMAT_VERSION + 1,
            ..series(1)
        }
        .write(dir.path())
        .unwrap();
        let error = Series::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("series.json"), "{error}");
    }

    #[test]
    fn a_series_does_not_resume_on_another_drive_and_the_error_has_both_serial_numbers() {
        let mut now = series(1);
        now.devices[0] = drive("/dev/nvme0n1", Some("S9"));
        let differs = check_same(&series(1), &now).unwrap_err();
        let other = "it was begun with M serial S0 (960,197,124,096 bytes), but /dev/nvme0n1 is M serial S9 \
                     (960,197,124,096 bytes) - put that drive back";
        assert_eq!(differs, [other]);
        let mut larger = series(1);
        larger.devices[0].size_bytes += 512;
        assert_eq!(check_same(&series(1), &larger).unwrap_err().len(), 1);
    }

    #[test]
    fn a_drive_may_be_renamed_within_a_series_only_if_it_has_a_serial_number() {
        let mut now = series(1);
        now.devices[0].name = "/dev/nvme7n1".into();
        assert_eq!(check_same(&series(1), &now), Ok(()));
        let nameless = |name| Series {
            devices: vec![drive(name, None)],
            ..series(1)
        };
        assert_eq!(
            check_same(&nameless("/dev/zram5"), &nameless("/dev/zram5")),
            Ok(())
        );
        assert!(check_same(&nameless("/dev/zram5"), &nameless("/dev/zram6")).is_err());
    }

    #[test]
    fn every_option_that_differs_when_a_series_resumes_is_reported() {
        let mut now = series(1);
        now.terms = vec![
            ("load".into(), "20x".into()),
            ("pacing".into(), "as ACT".into()),
        ];
        let terms = [
            ("load", "30x", "20x"),
            ("pacing", "", "as ACT"),
            ("limits", "5%>1ms,1%>8ms,0.1%>64ms", ""),
        ];
        let remedy = "give the same options to resume";
        let differs = terms
            .map(|(name, then, now)| format!("{name} was {then:?}, but is {now:?} now - {remedy}"));
        assert_eq!(check_same(&series(1), &now).unwrap_err(), differs);
    }

    #[test]
    fn a_series_does_not_resume_with_another_configuration_and_changed_keys_are_named() {
        let with = |text: &str| Series {
            config_1x: text.into(),
            ..series(1)
        };
        let then = with("device-names: /dev/a\nread-reqs-per-sec: 2000\nrecord-bytes: 1536\n");
        let now = with("device-names: /dev/b\nread-reqs-per-sec: 2500\nrecord-bytes: 1536\n");
        let differs =
            "read-reqs-per-sec was \"2000\", but is \"2500\" now - give the same options to resume";
        assert_eq!(check_same(&then, &now).unwrap_err(), [differs]);
    }

    #[test]
    fn a_series_does_not_resume_with_more_devices_or_for_another_purpose() {
        let more =
            "it was begun with 1 device, but 2 are given now - give the same options to resume";
        assert_eq!(check_same(&series(1), &series(2)).unwrap_err(), [more]);
        let rating = Series {
            purpose: SeriesPurpose::Rate,
            ..series(1)
        };
        let other =
            "it holds a search for a rating (flashproof rate) - give the same options to resume";
        assert_eq!(check_same(&rating, &series(1)).unwrap_err(), [other]);
    }
}
