//! From a directory to the one run that a candidate is compared by.
//!
//! Of a series that is the highest load that was held within the limits; where none was, the lowest
//! one that was tried. A run that cannot be read is left out and said.

use super::cell::Cell;
use super::{CompareError, Kind};
use crate::latencies::{StreamLatencies, latencies};
use crate::rejudge::{doubt_of, place_of, rejudge_in};
use results::judge::Outcome;
use results::run_dir::{self, Holds, Run, RunDirError};
use results::series::{Purpose, Rule, Series, State, Step};
use std::path::{Path, PathBuf};

/// A directory as it was read.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) dir: PathBuf,
    pub(super) kind: Kind,
    /// The run that stands for it, if any could be read.
    pub(super) run: Cell<Run>,
    /// Latencies of that run.
    pub(super) latencies: Cell<Vec<StreamLatencies>>,
    /// The series, if it is one.
    pub(super) series: Option<Series>,
    /// The step of the series that the run is of.
    pub(super) step: Option<Step>,
    /// What makes its numbers doubtful, each one sentence.
    pub(super) warnings: Vec<String>,
    /// What else a reader should know, each one sentence.
    pub(super) remarks: Vec<String>,
    /// Whether its series does not say what its runs do.
    pub(super) doubtful: bool,
}

impl Source {
    /// Reads `dir`. Errors: nothing is there, or it is something else. What is damaged is a remark.
    pub(super) fn read(name: String, dir: &Path) -> Result<Self, CompareError> {
        let unreadable = |source| CompareError::Read { name: name.clone(), source };
        match run_dir::holds(dir).map_err(unreadable)? {
            Holds::Run => Ok(Self::of_run(name, dir)),
            Holds::Series => match Series::read(dir) {
                Ok(Some(series)) => Ok(Self::of_series(name, dir, series)),
                Ok(None) => Err(unreadable(RunDirError::NoRun {
                    path: dir.to_owned(),
                    why: "its series.json went away".to_owned(),
                    what_to_do: "try again".to_owned(),
                })),
                Err(error) => Ok(Self::unreadable(name, dir, Kind::Series, error.to_string())),
            },
        }
    }

    fn of_run(name: String, dir: &Path) -> Self {
        match run_dir::read(dir) {
            Ok(run) => Self::with(name, dir, Kind::Run, run),
            Err(error) => Self::unreadable(name, dir, Kind::Run, error.to_string()),
        }
    }

    fn unreadable(name: String, dir: &Path, kind: Kind, why: String) -> Self {
        Self {
            name,
            dir: dir.to_owned(),
            kind,
            run: Cell::missing(why.clone()),
            latencies: Cell::missing(why.clone()),
            series: None,
            step: None,
            warnings: vec![why],
            remarks: Vec::new(),
            doubtful: false,
        }
    }

    fn with(name: String, dir: &Path, kind: Kind, run: Run) -> Self {
        // All that is said of a run that is incomplete or damaged is a warning.
        let (mut warnings, remarks) = match doubt_of(&run) {
            Some(_) => (run.remarks.clone(), Vec::new()),
            None => (Vec::new(), run.remarks.clone()),
        };
        let latencies = match latencies(&run.dir, &run.manifest.layout()) {
            Ok(latencies) => Cell::Value(latencies),
            Err(error) => {
                warnings.push(format!("no quantiles of latencies: {error}"));
                Cell::missing(error.to_string())
            }
        };
        let (dir, run) = (dir.to_owned(), Cell::Value(run));
        Self { name, dir, kind, run, latencies, series: None, step: None, warnings, remarks, doubtful: false }
    }

    fn of_series(name: String, dir: &Path, mut series: Series) -> Self {
        let kind = match series.purpose {
            Purpose::Certify => Kind::Certify,
            Purpose::Rate => Kind::Rate,
        };
        let mut warnings = rejudge_in(dir, &mut series);
        let doubtful = !warnings.is_empty();
        let remarks = series.conclusion.as_ref().map_or_else(Vec::new, |ended| ended.remarks.clone());
        if series.conclusion.is_none() {
            warnings.push("this series is not finished: it goes on still, or was broken off".to_owned());
        }
        for step in by_weight(&series) {
            match place_of(dir, step).and_then(|at| run_dir::read(&at).map_err(|error| error.to_string())) {
                Ok(run) => {
                    let step = Some(step.clone());
                    let source = Self::with(name, dir, kind, run);
                    let (warnings, remarks) =
                        ([warnings, source.warnings].concat(), [remarks, source.remarks].concat());
                    return Self { step, series: Some(series), warnings, remarks, doubtful, ..source };
                }
                Err(error) => warnings.push(format!("its step {} cannot be read: {error}", step.name)),
            }
        }
        let why = "none of its runs can be read".to_owned();
        warnings.push(why.clone());
        Self { series: Some(series), warnings, remarks, doubtful, ..Self::unreadable(name, dir, kind, why) }
    }
}

/// Steps that are judged by the limits: those that held first, the highest load of them first; then
/// those that did not, the lowest first; then those that have not ended. Of a search no load above its
/// rating comes first: it held for minutes and not when it was confirmed. Of several steps of a search
/// at one load the last comes first, which is the confirmation.
fn by_weight(series: &Series) -> Vec<&Step> {
    let is_search = series.purpose == Purpose::Rate;
    let rating = series.conclusion.as_ref().and_then(|ended| ended.rating).unwrap_or(f64::INFINITY);
    let judged = series.steps.iter().filter(|step| step.rule == Rule::Limits && step.attempts > 0);
    let mut judged: Vec<&Step> = judged.collect();
    if is_search {
        judged.reverse();
    }
    // The digits that a load loses in a file are no difference.
    let is_above = |step: &Step| step.multiple > rating * (1.0 + 1e-6);
    let rank = |step: &Step| match step.outcome {
        Some(Outcome::Pass) if step.state == State::Done && !is_above(step) => (0, -step.multiple),
        Some(_) => (1, step.multiple),
        None if step.state == State::Done => (1, step.multiple),
        None => (2, step.multiple),
    };
    // Stable: those at the same load stay in their order.
    judged.sort_by(|a, b| rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1)));
    judged
}
