//! Lists the results below a directory, newest first.
//!
//! Runs are shown as they were recorded. A report judges the recorded counts again, which would take too long for
//! thousands of runs. The drives of a campaign are compared as in its report.

use crate::campaign::Campaign;
use crate::html::HtmlPage;
use crate::status::{ChecksStatus, StateOf, unix_ms};
use crate::table::Table;
use crate::words::counts_text;
use conclusions::series::{Series, SeriesStepState};
use results::format::{count, date_to_minute, shell_quoted};
use results::judge::{VERDICT_FORMAT_VERSION, Verdict, brief};
use results::run_dir::{
    self, DirKind, Manifest, Process, ProcessState, RunDirError, VERDICT, read_json,
};
use serde::Serialize;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Reads the campaign in a directory; `None` if there is none.
pub type CampaignIn<'a> = &'a dyn Fn(&Path) -> Option<ListedResult>;

/// A run, a series, checks or a campaign.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ListedResult {
    /// Name of the result's directory.
    pub dir: String,
    /// Beginning, milliseconds since 1970; if unknown, the last change of the directory.
    pub began_unix_ms: u64,
    /// Test or command: `storage`, `certify`, `check NAME`.
    pub test: String,
    /// Tested drives, with their serial numbers.
    pub drives: Vec<String>,
    /// Outcome; or `running`, `unfinished` or `damaged`.
    pub outcome: String,
    pub headline: String,
    pub note: Option<String>,
}

/// Results in the subdirectories of a directory.
#[derive(Debug, Clone, Serialize)]
pub struct Listing {
    pub dir: PathBuf,
    /// Newest first.
    pub results: Vec<ListedResult>,
}

impl Listing {
    /// Reads the results one level below `dir`; `campaign_in` reads a campaign. Links are not followed. Errors: `dir`
    /// cannot be listed.
    pub fn read(
        dir: &Path,
        state_of: StateOf<'_>,
        campaign_in: CampaignIn<'_>,
    ) -> io::Result<Self> {
        let entries = fs::read_dir(dir)?.flatten();
        let results: Vec<_> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| listed(&entry, state_of, campaign_in))
            .collect();
        Ok(Self::new(dir, results))
    }

    pub fn new(dir: &Path, mut results: Vec<ListedResult>) -> Self {
        results.sort_by(|a, b| (b.began_unix_ms, &b.dir).cmp(&(a.began_unix_ms, &a.dir)));
        Self {
            dir: dir.to_owned(),
            results,
        }
    }

    /// A line for each result, and below it the headline.
    pub fn text(&self) -> String {
        let mut heads = Table::new("").text(["", "", "", "", ""]);
        for result in &self.results {
            heads.row(result.cells().into_iter().take(5));
        }
        let mut text = format!("{}\n\n", self.title());
        for (head, result) in heads.row_lines().iter().zip(&self.results) {
            text += &format!("{head}\n    {}\n", result.headline);
            text.extend(result.note.iter().map(|note| format!("    note: {note}\n")));
        }
        text
    }

    pub fn markdown(&self) -> String {
        format!("# {}\n\n{}", self.title(), self.table().markdown())
    }

    /// A self-contained page. `made_by`: program and version.
    pub fn html(&self, made_by: &str) -> String {
        let mut page = HtmlPage::new(self.title());
        page.add(&[self.table()]);
        page.html(made_by)
    }

    fn table(&self) -> Table {
        Table::new("Results")
            .text(["began", "outcome", "test", "drive", "directory"])
            .text(["result", "note"])
            .rows(self.results.iter().map(ListedResult::cells))
    }

    fn title(&self) -> String {
        let dir = self.dir.display().to_string();
        let results = count(self.results.len() as u64, "result");
        let quoted = shell_quoted(dir.trim_end_matches('/'));
        let outcomes = self
            .results
            .iter()
            .map(|result| result.outcome.to_uppercase());
        format!(
            "{results} in {dir} ({}), newest first; to show one in full: flashproof report {quoted}/DIRECTORY",
            counts_text(outcomes)
        )
    }
}

impl ListedResult {
    pub fn damaged(headline: String) -> Self {
        Self {
            outcome: "damaged".to_owned(),
            headline,
            ..Self::default()
        }
    }

    pub fn of_campaign(dir: &Path, campaign: &Campaign) -> Self {
        let head = campaign.head();
        Self {
            dir: dir.display().to_string(),
            began_unix_ms: campaign
                .began_and_last_unix_ms
                .map_or(0, |[began, _]| began),
            test: format!("fleet {}", campaign.name),
            drives: campaign
                .drives
                .iter()
                .map(|drive| drive.drive.clone())
                .collect(),
            outcome: head.label.text.to_lowercase(),
            headline: head.headline.sentence,
            note: None,
        }
    }

    fn cells(&self) -> [String; 7] {
        let drives = match &self.drives[..] {
            [one] => one.clone(),
            several => count(several.len() as u64, "drive"),
        };
        [
            date_to_minute(self.began_unix_ms),
            self.outcome.to_uppercase(),
            self.test.clone(),
            drives,
            self.dir.clone(),
            self.headline.clone(),
            self.note.clone().unwrap_or_default(),
        ]
    }
}

/// The result in a directory; `None` if there is none.
fn listed(
    entry: &DirEntry,
    state_of: StateOf<'_>,
    campaign_in: CampaignIn<'_>,
) -> Option<ListedResult> {
    let dir = entry.path();
    let result = match run_dir::dir_kind(&dir) {
        Ok(DirKind::Run) => listed_run(&dir, state_of).map(Some),
        Ok(DirKind::Series) => listed_series(&dir, state_of),
        Err(_) if run_dir::is_run_dir(&dir) => listed_run(&dir, state_of).map(Some),
        Err(_) => {
            campaign_in(&dir).map_or_else(|| listed_checks(&dir, state_of), |of| Ok(Some(of)))
        }
    };
    let result = result.unwrap_or_else(|error| Some(ListedResult::damaged(error.to_string())))?;
    let changed = entry.metadata().and_then(|metadata| metadata.modified());
    let began_unix_ms = match result.began_unix_ms {
        0 => changed.map_or(0, unix_ms),
        began => began,
    };
    Some(ListedResult {
        dir: entry.file_name().to_string_lossy().into_owned(),
        began_unix_ms,
        ..result
    })
}

fn listed_run(dir: &Path, state_of: StateOf<'_>) -> Result<ListedResult, RunDirError> {
    let manifest = run_dir::manifest(dir)?;
    let verdict: Option<Verdict> = read_json(&dir.join(VERDICT), VERDICT_FORMAT_VERSION)?;
    let (outcome, headline) = match verdict {
        Some(verdict) => (verdict.outcome.to_string(), verdict.headline().sentence),
        None => (
            progress(manifest.process.as_ref(), state_of),
            "no verdict".to_owned(),
        ),
    };
    Ok(ListedResult {
        began_unix_ms: manifest.started_unix_ms,
        test: manifest.kind(),
        drives: drives_of_run(&manifest),
        outcome: outcome.to_lowercase(),
        headline,
        note: manifest.note,
        ..ListedResult::default()
    })
}

fn listed_series(dir: &Path, state_of: StateOf<'_>) -> Result<Option<ListedResult>, RunDirError> {
    let Some(series) = Series::read(dir)? else {
        return Ok(None);
    };
    let (outcome, headline) = match &series.conclusion {
        Some(conclusion) => (
            conclusion.outcome.to_string(),
            conclusion.headline().sentence,
        ),
        None => {
            let steps = series.steps.iter();
            let done = steps
                .filter(|step| step.state == SeriesStepState::Done)
                .count();
            let all = count(series.steps.len() as u64, "step");
            (
                progress(series.process.as_ref(), state_of),
                format!("{done} of {all} done"),
            )
        }
    };
    let drives = series.devices.iter();
    Ok(Some(ListedResult {
        began_unix_ms: series.began_unix_ms,
        test: series.purpose.command().to_owned(),
        drives: drives
            .map(|drive| drive_text(&drive.name, drive.serial.as_deref()))
            .collect(),
        outcome: outcome.to_lowercase(),
        headline,
        note: series.note,
        ..ListedResult::default()
    }))
}

fn listed_checks(dir: &Path, state_of: StateOf<'_>) -> Result<Option<ListedResult>, RunDirError> {
    let checks = ChecksStatus::read(dir, SystemTime::now(), state_of)?;
    Ok(checks.map(|checks| ListedResult {
        began_unix_ms: checks.began_unix_ms,
        test: checks.command(),
        drives: vec![checks.path.clone()],
        outcome: checks.outcome_text().to_lowercase(),
        headline: brief(&checks.summary()),
        note: checks.results().find_map(|check| check.note.clone()),
        ..ListedResult::default()
    }))
}

/// State of a result without an outcome.
fn progress(process: Option<&Process>, state_of: StateOf<'_>) -> String {
    match process.map(state_of) {
        Some(ProcessState::Running | ProcessState::Stopped) => "running".to_owned(),
        _ => "unfinished".to_owned(),
    }
}

fn drives_of_run(manifest: &Manifest) -> Vec<String> {
    let names = manifest.devices.iter().enumerate();
    names
        .map(|(index, name)| drive_text(name, manifest.serial(index)))
        .collect()
}

/// The name of a drive, and its serial number: the same drive can have another name after a reboot.
fn drive_text(name: &str, serial: Option<&str>) -> String {
    match serial.filter(|serial| *serial != name) {
        Some(serial) => format!("{name} ({serial})"),
        None => name.to_owned(),
    }
}
