//! The report as one document: the content of a page as data, the same for every output format.
//!
//! ```text
//! directories -> Document (serialisable) -> html() | markdown() | json() | text()
//! ```
//!
//! The one idea: output formats only do the layout. Judging, reduction, wording and omissions are decided here, so no
//! two formats can disagree.

mod rating;
mod run;
mod series;

pub use crate::charts::Section;
pub use crate::words::{Banner, Pair, Paragraph};
pub use run::RunReport;
pub use series::{SeriesReport, StepReport};

use crate::charts::Detail;
use crate::words::Shown;
use results::judge::Outcome;
use results::run_dir::RunDirError;
use results::series::Series;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// Marker within the first kilobyte of an HTML report, by which flashproof recognises its own files.
pub const HTML_MARK: &str = "<meta name=\"generator\" content=\"flashproof\">";

/// Version of the document's fields. Raised when one changes its meaning.
pub const DOCUMENT_FORMAT_VERSION: u32 = 1;

/// A report on some directories.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Document {
    /// [`DOCUMENT_FORMAT_VERSION`].
    pub format_version: u32,
    /// Program and version that made the report.
    pub made_by: String,
    /// One report for each directory, in the order in which they were named.
    pub reports: Vec<Report>,
}

/// Contents of one directory.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Report {
    /// A run.
    Run(Box<RunReport>),
    /// A series of runs.
    Series(Box<SeriesReport>),
}

impl Document {
    /// Reads `dirs`, each the directory of a run or of a series. Reads nothing else: years later, on any
    /// machine, the document is the same.
    ///
    /// Damage costs only what depends on it, and is shown in a banner. Errors: a directory is neither, or
    /// its manifest cannot be read.
    pub fn read<P: AsRef<Path>>(dirs: &[P]) -> Result<Self, RunDirError> {
        let mut series = Vec::new();
        for dir in dirs {
            series.push(Series::read(dir.as_ref())?);
        }
        let runs: usize = series.iter().map(|series| series.as_ref().map_or(1, |series| series.steps.len())).sum();
        let detail = Detail::of_runs(runs);
        let read = |(dir, series): (&P, Option<Series>)| {
            let dir = dir.as_ref();
            Ok(match series {
                Some(series) => Report::Series(Box::new(SeriesReport::read(dir, series, detail))),
                None => Report::Run(Box::new(RunReport::read(dir, detail)?)),
            })
        };
        let reports: Result<Vec<Report>, RunDirError> = dirs.iter().zip(series).map(read).collect();
        let made_by = concat!("flashproof ", env!("CARGO_PKG_VERSION")).to_owned();
        Ok(Self { format_version: DOCUMENT_FORMAT_VERSION, made_by, reports: reports? })
    }

    /// The worst outcome of the reports; a failure is worse than an invalid result. An unfinished series counts as
    /// invalid.
    pub fn outcome(&self) -> Outcome {
        let of = |report: &Report| report.outcome().unwrap_or(Outcome::Invalid);
        self.reports.iter().map(of).max().unwrap_or(Outcome::Invalid)
    }

    /// Most important remarks, each one sentence, with the directory if there are several.
    pub fn banners(&self) -> Vec<String> {
        let several = self.reports.len() > 1;
        let named = |report: &Report| {
            let dir = report.dir().to_owned();
            let name = move |text: &String| if several { format!("{dir}: {text}") } else { text.clone() };
            report.banners().iter().map(name).collect::<Vec<_>>()
        };
        self.reports.iter().flat_map(named).collect()
    }

    /// The document as indented JSON. `docs/report.schema.json` says what it holds.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// JSON Schema (draft 2020-12) of [`Self::json`]: `docs/report.schema.json`.
    pub fn schema() -> Result<String, serde_json::Error> {
        crate::schema_of::<Self>()
    }
}

impl Report {
    /// The directory, as it was named.
    pub fn dir(&self) -> &str {
        match self {
            Self::Run(run) => &run.dir,
            Self::Series(series) => &series.dir,
        }
    }

    /// Pass, fail or invalid; `None` for a series that goes on.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Run(run) => Some(run.verdict.outcome),
            Self::Series(series) => series.series.conclusion.as_ref().map(|conclusion| conclusion.outcome),
        }
    }

    /// The same as the headline of a page.
    pub(crate) fn headline(&self) -> Shown {
        match self {
            Self::Run(run) => Shown::of(Some(run.verdict.outcome)),
            Self::Series(series) => series.headline(),
        }
    }

    fn banners(&self) -> Vec<String> {
        match self {
            Self::Run(run) => run.banners.iter().map(|banner| banner.text.clone()).collect(),
            Self::Series(series) => series.banners.iter().map(|banner| banner.text.clone()).collect(),
        }
    }
}
