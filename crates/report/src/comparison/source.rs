//! Finds the representative run of each candidate's directory, and how the tests of these runs differ.
//!
//! A series is represented by the run of the highest load held within the limits; if none was held, by the run of the
//! lowest load tried. An unreadable run is left out with a remark. Differences between the tests are reported first;
//! results of different tests are never averaged.

use super::ValueOrReason;
use crate::latencies::{StreamLatencies, latencies};
use crate::words::unique;
use conclusions::rejudge::{disappeared_error, doubt_of, rejudge_in, run_dir_of};
use conclusions::series::{Rule, Series, SeriesPurpose, SeriesStepState, Step};
use results::finding::{Finding, Severity};
use results::format::{greatest_divisor, in_one_line};
use results::judge::Outcome;
use results::run_dir::{self, DirKind, Manifest, Run, RunDirError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thiserror::Error;

pub(super) struct CandidateSource {
    pub(super) name: String,
    pub(super) dir: PathBuf,
    pub(super) kind: CandidateKind,
    /// The representative run; missing if no run can be read.
    pub(super) run: ValueOrReason<Run>,
    pub(super) latencies: ValueOrReason<Vec<StreamLatencies>>,
    pub(super) series: Option<Series>,
    /// The step whose run represents the series.
    pub(super) step: Option<Step>,
    /// Reasons why the numbers are unreliable, each one sentence.
    pub(super) warnings: Vec<String>,
    pub(super) remarks: Vec<String>,
    /// True if the series and its runs contradict each other.
    pub(super) doubtful: bool,
}

impl CandidateSource {
    /// Reads `dir`. Errors: the directory is missing, or holds something else. Damage becomes a remark.
    pub(super) fn read(name: String, dir: &Path) -> Result<Self, CompareError> {
        match run_dir::dir_kind(dir)? {
            DirKind::Run => Ok(match run_dir::read(dir) {
                Ok(run) => Self::with(name, dir, CandidateKind::Run, run),
                Err(error) => Self::unreadable(name, dir, CandidateKind::Run, error.to_string()),
            }),
            DirKind::Series => match Series::read(dir) {
                Ok(Some(series)) => Ok(Self::of_series(name, dir, series)),
                Ok(None) => Err(disappeared_error(dir).into()),
                Err(error) => Ok(Self::unreadable(
                    name,
                    dir,
                    CandidateKind::Series,
                    error.to_string(),
                )),
            },
        }
    }

    pub(super) fn note(&self) -> Option<&str> {
        let of_series = self
            .series
            .as_ref()
            .and_then(|series| series.note.as_deref());
        of_series.or_else(|| self.run.value()?.manifest.note.as_deref())
    }

    fn without_run(name: String, dir: &Path, kind: CandidateKind, reason: &str) -> Self {
        Self {
            name,
            dir: dir.to_owned(),
            kind,
            run: ValueOrReason::missing(reason),
            latencies: ValueOrReason::missing(reason),
            series: None,
            step: None,
            warnings: Vec::new(),
            remarks: Vec::new(),
            doubtful: false,
        }
    }

    fn unreadable(name: String, dir: &Path, kind: CandidateKind, reason: String) -> Self {
        let this = Self::without_run(name, dir, kind, &reason);
        Self {
            warnings: vec![reason],
            ..this
        }
    }

    fn with(name: String, dir: &Path, kind: CandidateKind, run: Run) -> Self {
        let mut this = Self::without_run(name, dir, kind, "");
        // All remarks on an incomplete or damaged run become warnings.
        *(if doubt_of(&run).is_some() {
            &mut this.warnings
        } else {
            &mut this.remarks
        }) = run.remarks.clone();
        this.latencies = match latencies(&run.dir, &run.manifest.layout()) {
            Ok(latencies) => ValueOrReason::Value(latencies),
            Err(error) => {
                this.warnings
                    .push(format!("no quantiles of latencies: {error}"));
                ValueOrReason::missing(error.to_string())
            }
        };
        Self {
            run: ValueOrReason::Value(run),
            ..this
        }
    }

    fn of_series(name: String, dir: &Path, mut series: Series) -> Self {
        let kind = CandidateKind::from_purpose(series.purpose);
        let mut warnings = rejudge_in(dir, &mut series);
        let doubtful = !warnings.is_empty();
        let remarks = series
            .conclusion
            .as_ref()
            .map_or_else(Vec::new, |ended| ended.remarks.clone());
        if series.conclusion.is_none() {
            warnings.push(
                "this series is not finished: it is still running, or was interrupted".to_owned(),
            );
        }
        if kind == CandidateKind::Baseline {
            let why = "a baseline has many jobs, and no single load to hold";
            let this = Self::without_run(name, dir, kind, why);
            return Self {
                series: Some(series),
                warnings,
                remarks,
                doubtful,
                ..this
            };
        }
        for step in steps_by_rank(&series) {
            match run_dir_of(dir, step)
                .and_then(|at| run_dir::read(&at).map_err(|error| error.to_string()))
            {
                Ok(run) => {
                    let step = Some(step.clone());
                    let source = Self::with(name, dir, kind, run);
                    let warnings = [warnings, source.warnings].concat();
                    let remarks = [remarks, source.remarks].concat();
                    return Self {
                        step,
                        series: Some(series),
                        warnings,
                        remarks,
                        doubtful,
                        ..source
                    };
                }
                Err(error) => warnings.push(format!("step {} cannot be read: {error}", step.name)),
            }
        }
        let why = "no run of the series can be read";
        warnings.push(why.to_owned());
        Self {
            series: Some(series),
            warnings,
            remarks,
            doubtful,
            ..Self::without_run(name, dir, kind, why)
        }
    }
}

/// Steps judged by the limits: held loads first, the highest load first; then loads not held, the lowest first; then
/// unfinished steps.
///
/// In a search, a load above the rating does not count as held. Neither does a load that a later step did not hold: a
/// drive may hold a load for minutes and fail its confirmation. If a search has several steps at one load, the last
/// step, which is the confirmation, comes first.
fn steps_by_rank(series: &Series) -> Vec<&Step> {
    let is_search = series.purpose == SeriesPurpose::Rate;
    let rating = series
        .conclusion
        .as_ref()
        .and_then(|ended| ended.rating)
        .unwrap_or(f64::INFINITY);
    let judged = series
        .steps
        .iter()
        .filter(|step| step.rule == Rule::Limits && step.attempts > 0);
    let mut judged: Vec<&Step> = judged.collect();
    if is_search {
        judged.reverse();
    }
    // Loads are rounded when they are written to a file.
    let is_above = |step: &Step, multiple: f64| step.multiple > multiple * (1.0 + 1e-6);
    let mut refuted = Vec::new();
    if is_search {
        for step in &judged {
            let last = judged
                .iter()
                .find(|later| (later.multiple - step.multiple).abs() <= 1e-6 * step.multiple);
            let last_outcome = last.and_then(|last| last.outcome);
            if last_outcome.is_some_and(|outcome| outcome != Outcome::Pass) {
                refuted.push(step.multiple);
            }
        }
    }
    let is_held = |step: &Step| !is_above(step, rating) && !refuted.contains(&step.multiple);
    let rank = |step: &Step| match step.outcome {
        Some(Outcome::Pass | Outcome::Measured)
            if step.state == SeriesStepState::Done && is_held(step) =>
        {
            (0, -step.multiple)
        }
        None if step.state != SeriesStepState::Done => (2, step.multiple),
        _ => (1, step.multiple),
    };
    // A stable sort: steps at the same load stay in their order.
    judged.sort_by(|a, b| {
        rank(a)
            .0
            .cmp(&rank(b).0)
            .then(rank(a).1.total_cmp(&rank(b).1))
    });
    judged
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CandidateKind {
    Run,
    Certify,
    /// A search for the highest rating.
    Rate,
    Baseline,
    /// A series that cannot be read.
    Series,
}

impl CandidateKind {
    pub(crate) fn from_purpose(purpose: SeriesPurpose) -> Self {
        match purpose {
            SeriesPurpose::Certify => Self::Certify,
            SeriesPurpose::Rate => Self::Rate,
            SeriesPurpose::Baseline => Self::Baseline,
        }
    }

    /// Name of the kind, for a table and for a sentence.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Run => ("one run", "run"),
            Self::Certify => ("certification", "certification"),
            Self::Rate => ("rating", "search for the highest rating"),
            Self::Baseline => ("baseline", "baseline"),
            Self::Series => ("series", "series that cannot be read"),
        }
    }
}

#[derive(Debug, Error)]
pub enum CompareError {
    #[error(transparent)]
    Read(#[from] RunDirError),
    #[error("comparing {first} with {second} - both are {}; give each result once", dir.display())]
    Twice {
        first: String,
        second: String,
        dir: PathBuf,
    },
    #[error(
        "comparing {name} with {name} - two candidates have that name; rename one of them (NAME=DIR)"
    )]
    SameName { name: String },
    #[error(
        "using the price or endurance of {name:?} - no candidate or device has that name; the names are {known}"
    )]
    UnknownName { name: String, known: String },
}

impl CompareError {
    /// True for an error in the user's request, false for an error of a file.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Read(_))
    }
}

/// Settings not compared: they do not change the test, other sentences cover them, or they are the compared load or
/// drive. A fio option of the job `r` has the prefix `r: `.
const IGNORED_SETTINGS: &str = "device-names filename directory num-devices report-interval-sec microsecond-histograms seed shards engine \
                         test-duration-sec read-reqs-per-sec write-reqs-per-sec service-threads";

type CandidatesByValue<'a> = BTreeMap<String, Vec<&'a str>>;

/// A sentence on the differences in `aspect` between `objects`; `None` if equal. `empty`: word for an empty value.
fn difference(
    objects: &str,
    aspect: &str,
    values: &CandidatesByValue<'_>,
    empty: &str,
) -> Option<String> {
    let told = values
        .iter()
        .map(|(value, names): (&String, &Vec<&str>)| {
            format!(
                "{} ({})",
                if value.is_empty() { empty } else { value },
                names.join(", ")
            )
        })
        .collect::<Vec<_>>()
        .join("; ");
    (values.len() > 1).then(|| format!("different {objects}: {aspect}: {told}"))
}

/// Describes each difference between the tests in one sentence, the most important first.
pub(super) fn differences(sources: &[CandidateSource]) -> Vec<String> {
    let runs: Vec<(&str, &Run)> = sources
        .iter()
        .filter_map(|source| Some((source.name.as_str(), source.run.value()?)))
        .collect();
    let mut sentences = Vec::new();
    sentences.extend(difference_of_tests(&runs, "the test", |run| {
        run.manifest.kind()
    }));
    sentences.extend(difference_of_tests(&runs, "the drives", |run| {
        let simulated = run.manifest.simulated;
        if simulated { "simulated" } else { "real" }.to_owned()
    }));
    sentences.extend(difference_of_tests(&runs, "the preparation", |run| {
        preparation(&run.manifest.findings).to_owned()
    }));
    sentences.extend(difference_of_tests(&runs, "the limits", |run| {
        run.manifest.sla.to_string()
    }));
    sentences.extend(difference_of_tests(&runs, "the length of the run", |run| {
        format!("{:.0} s", run.verdict.ran_sec)
    }));
    sentences.extend(difference_of_tests(&runs, "the length of a slice", |run| {
        format!("{} s", run.manifest.slice_sec)
    }));
    sentences.extend(difference_of_tests(&runs, "the number of devices", |run| {
        run.manifest.devices.len().to_string()
    }));
    sentences.extend(difference_of_tests(&runs, "reads to writes", |run| {
        mix(&run.manifest)
    }));
    let same_test = runs
        .windows(2)
        .all(|pair| pair[0].1.manifest.kind() == pair[1].1.manifest.kind());
    let keys = runs
        .iter()
        .flat_map(|(_, run)| settings(&run.manifest))
        .map(|(key, _)| key);
    for key in unique(keys) {
        // Different tests (reported above) have different settings: only settings that all runs have are compared.
        let is_compared = same_test
            || runs
                .iter()
                .all(|(_, run)| setting(&run.manifest, key).is_some());
        let option = key.rsplit(": ").next().unwrap_or(key);
        if is_compared && IGNORED_SETTINGS.split(' ').all(|other| other != option) {
            sentences.extend(difference_of_tests(&runs, key, |run| {
                setting(&run.manifest, key)
                    .unwrap_or("not a setting of this test")
                    .to_owned()
            }));
        }
    }
    sentences.extend(differences_of_baselines(sources));
    if sources.windows(2).any(|pair| pair[0].kind != pair[1].kind) {
        let kind =
            |source: &CandidateSource| format!("{} is a {}", source.name, source.kind.words().1);
        let kinds = sources.iter().map(kind).collect::<Vec<_>>().join("; ");
        sentences.push(format!(
            "different kinds of result: {kinds}: a held load is only a lower bound of a rating"
        ));
    }
    sentences
}

fn difference_of_tests(
    runs: &[(&str, &Run)],
    aspect: &str,
    value_of: impl Fn(&Run) -> String,
) -> Option<String> {
    let mut values = CandidatesByValue::new();
    for (name, run) in runs {
        values.entry(value_of(run)).or_default().push(name);
    }
    difference("tests", aspect, &values, "")
}

/// Preparation of a run's devices, by the finding with the highest level.
fn preparation(findings: &[Finding]) -> &'static str {
    let levels = findings
        .iter()
        .filter(|finding| finding.check == "preparation")
        .map(|finding| finding.level);
    match levels.max() {
        None | Some(Severity::Unknown) => "unknown",
        Some(Severity::Ok) => "prepared",
        Some(Severity::Note | Severity::Warning | Severity::Problem) => "not prepared",
    }
}

/// Differences between baselines: their terms, and simulated or unprepared drives.
fn differences_of_baselines(sources: &[CandidateSource]) -> Vec<String> {
    let baselines = sources
        .iter()
        .filter(|source| source.kind == CandidateKind::Baseline);
    let baselines =
        baselines.filter_map(|source| Some((source.name.as_str(), source.series.as_ref()?)));
    let mut values: BTreeMap<&str, CandidatesByValue<'_>> = BTreeMap::new();
    for (name, series) in baselines {
        let mut terms = Vec::new();
        for (term, value) in &series.terms {
            // Device names differ anyway; only their presence is compared.
            let value = if term == "not prepared" && !value.is_empty() {
                "some drives".to_owned()
            } else {
                in_one_line(value)
            };
            terms.push((term.as_str(), value));
        }
        let simulated = series.devices.iter().any(|device| device.simulated);
        let drives = if simulated { "simulated" } else { "real" };
        terms.push(("drives", drives.to_owned()));
        for (term, value) in terms {
            let by_value = values.entry(term).or_default();
            by_value.entry(value).or_default().push(name);
        }
    }
    values
        .iter()
        .filter_map(|(what, values)| difference("baselines", what, values, "none"))
        .collect()
}

fn settings(manifest: &Manifest) -> impl Iterator<Item = (&str, &str)> {
    let configs = manifest.workloads.iter().map(|workload| &workload.config);
    let pairs = configs.flat_map(|config| config.resolved.iter().chain(&config.settings));
    pairs.map(|(key, value)| (key.as_str(), value.as_str()))
}

/// A setting of the configuration as it was in force.
pub(super) fn setting<'a>(manifest: &'a Manifest, key: &str) -> Option<&'a str> {
    settings(manifest)
        .find(|(known, _)| *known == key)
        .map(|(_, value)| value)
}

/// Ratio of client reads to client writes, over all devices, in lowest terms.
fn mix(manifest: &Manifest) -> String {
    let rate = |key| setting(manifest, key)?.parse::<u64>().ok();
    let (Some(reads), Some(writes)) = (rate("read-reqs-per-sec"), rate("write-reqs-per-sec"))
    else {
        return "unknown".to_owned();
    };
    let divisor = greatest_divisor(reads, writes).max(1);
    format!("{}:{}", reads / divisor, writes / divisor)
}
