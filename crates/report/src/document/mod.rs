//! The report as one document: its content as data, the same for every output format.
//!
//! ```text
//! directories -> Document (serialisable) -> html() | markdown() | json() | text()
//! ```
//!
//! Output formats only do the layout. Judging, reduction, wording and omissions are decided here, so no two formats can
//! disagree.

mod series;

pub use crate::charts::Section;
pub use crate::run_report::{RunReport, StepReport};
pub use crate::words::{Banner, Pair, Paragraph};
pub use series::SeriesReport;

use crate::charts::ChartResolution;
use crate::words::OutcomeLabel;
use conclusions::series::Series;
use results::judge::Outcome;
use results::run_dir::RunDirError;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// Version of the document's fields. Raised when a field changes its meaning.
pub const DOCUMENT_FORMAT_VERSION: u32 = 1;

/// A report on some directories.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Document {
    /// [`DOCUMENT_FORMAT_VERSION`].
    pub format_version: u32,
    /// Program and version that made the report.
    pub made_by: String,
    /// A report for each directory, in the order of the request.
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
    /// Reads `dirs`, each the directory of a run or of a series, and nothing else: on any machine, years later, the
    /// document is the same. Damaged data is left out, and a banner says so.
    /// Errors: a directory has neither a run nor a series, or its manifest cannot be read.
    pub fn read<P: AsRef<Path>>(dirs: &[P]) -> Result<Self, RunDirError> {
        let series = dirs
            .iter()
            .map(|dir| Series::read(dir.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        let runs: usize = series
            .iter()
            .map(|series| series.as_ref().map_or(1, |series| series.steps.len()))
            .sum();
        let detail = ChartResolution::of_runs(runs);
        let reports: Result<Vec<Report>, RunDirError> = dirs
            .iter()
            .zip(series)
            .map(|(dir, series): (&P, Option<Series>)| {
                let dir = dir.as_ref();
                Ok(match series {
                    Some(series) => {
                        Report::Series(Box::new(SeriesReport::read(dir, series, detail)))
                    }
                    None => Report::Run(Box::new(RunReport::read(dir, detail)?)),
                })
            })
            .collect();
        let made_by = concat!("flashproof ", env!("CARGO_PKG_VERSION")).to_owned();
        Ok(Self {
            format_version: DOCUMENT_FORMAT_VERSION,
            made_by,
            reports: reports?,
        })
    }

    /// The worst outcome: a failure is worse than an invalid result. An unfinished series counts as invalid.
    pub fn outcome(&self) -> Outcome {
        let of = |report: &Report| report.outcome().unwrap_or(Outcome::Invalid);
        self.reports
            .iter()
            .map(of)
            .max()
            .unwrap_or(Outcome::Invalid)
    }

    /// Most important remarks, each one sentence; with several reports, each begins with the directory.
    pub fn banners(&self) -> Vec<String> {
        let has_several = self.reports.len() > 1;
        let all = self.reports.iter().flat_map(|report| {
            report
                .banners()
                .iter()
                .map(move |banner| (report.dir(), &banner.text))
        });
        all.map(|(dir, text)| {
            if has_several {
                format!("{dir}: {text}")
            } else {
                text.clone()
            }
        })
        .collect()
    }
}

impl Report {
    /// The directory, as the user named it.
    pub fn dir(&self) -> &str {
        match self {
            Self::Run(run) => &run.dir,
            Self::Series(series) => &series.dir,
        }
    }

    /// Pass, fail or invalid; `None` for an unfinished series.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Run(run) => Some(run.verdict.outcome),
            Self::Series(series) => series
                .series
                .conclusion
                .as_ref()
                .map(|conclusion| conclusion.outcome),
        }
    }

    pub(crate) fn headline(&self) -> OutcomeLabel {
        match self {
            Self::Run(run) => OutcomeLabel::from_outcome(Some(run.verdict.outcome)),
            Self::Series(series) => series.headline(),
        }
    }

    fn banners(&self) -> &[Banner] {
        match self {
            Self::Run(run) => &run.banners,
            Self::Series(series) => &series.banners,
        }
    }
}
