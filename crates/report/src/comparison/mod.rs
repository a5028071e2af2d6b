//! Candidates side by side: load held, distance to the limits, wear, price, and rank among published ratings.
//!
//! ```text
//! DIR, DIR... -> source      representative run of each directory (of a series: the highest load held)
//!             -> candidate   margins, wear, price, rank
//!             -> differences differences between the tests: reported, never averaged
//!             -> Comparison  -> answer -> table (text), markdown, page, JSON
//! ```
//!
//! A value that is unknown or not comparable is a [`ValueOrReason`] with the reason: no value is invented.
//!
//! Published ratings come from ACT's 24-hour certifications of the standard mix: a drive is rated Nx if it holds N
//! times 2,000 reads and 1,000 writes per second within ACT's limits. Only a run with ACT's pacing, this mix and these
//! limits is comparable with a published rating.

mod answer;
mod candidate;
mod over_time;
mod source;
mod table;
mod wear;

pub use candidate::{
    Candidate, DeviceIo, HeldLoad, StreamQuantile, StreamRate, TestFacts, ThresholdMargin,
};
pub use source::{CandidateKind, CompareError};
pub use wear::{DeviceWear, Endurance, OperatorData};

use crate::baseline::{Beside, BesideDrive};
use conclusions::baseline::points_of;
use results::files::{self, Links};
use serde::Serialize;
use source::CandidateSource;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateComparison {
    /// Candidates in the order of the request.
    pub candidates: Vec<Candidate>,
    /// Warnings that a comparison needs, each one sentence: differences between the tests, damage.
    pub warnings: Vec<String>,
    /// Remarks made when the candidates were tested, each one sentence. They do not affect the numbers.
    pub remarks: Vec<String>,
    /// The drives of baselines side by side; `None` without a baseline.
    pub baselines: Option<Beside>,
    /// Years for which a rating in drive writes per day is assumed to hold.
    pub warranty_years: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateDir {
    /// The name; `None`: the name of the directory.
    pub name: Option<String>,
    /// The directory of a run or a series.
    pub dir: PathBuf,
}

impl CandidateComparison {
    /// True if the tests differ, or something is damaged.
    pub fn is_doubtful(&self) -> bool {
        !self.warnings.is_empty()
    }
}

/// Compares the runs or series in `dirs`. Ranks them among `ratings`, which are sorted, the highest first. Of a damaged
/// run, the undamaged part is shown, with a warning.
/// Errors: a directory has neither a run nor a series, a run is named twice, or `operator_data` names an unknown
/// candidate.
pub fn compare(
    dirs: &[CandidateDir],
    operator_data: &OperatorData,
    ratings: &[PublishedRating],
) -> Result<CandidateComparison, CompareError> {
    let names = names(dirs)?;
    let mut seen_dirs: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut sources = Vec::with_capacity(dirs.len());
    for (CandidateDir { dir, .. }, name) in dirs.iter().zip(names) {
        check_unique(&mut seen_dirs, dir, &name)?;
        let source = CandidateSource::read(name, dir)?;
        // A series and its representative run count as the same run.
        if let Some(run) = source.run.value().filter(|_| source.series.is_some()) {
            check_unique(&mut seen_dirs, &run.dir, &source.name)?;
        }
        sources.push(source);
    }
    let mut known_names: BTreeSet<&str> =
        sources.iter().map(|source| source.name.as_str()).collect();
    let runs = sources.iter().filter_map(|source| source.run.value());
    known_names.extend(
        runs.flat_map(|run| &run.manifest.devices)
            .map(String::as_str),
    );
    operator_data.check(&known_names)?;
    let mut warnings = source::differences(&sources);
    let mut remarks = Vec::new();
    for source in &sources {
        let named = |text: &String| format!("{}: {text}", source.name);
        warnings.extend(source.warnings.iter().map(named));
        remarks.extend(source.remarks.iter().map(named));
    }
    let candidates = sources
        .iter()
        .map(|source| Candidate::new(source, operator_data, ratings))
        .collect();
    let baselines = baselines(&sources);
    let warranty_years = operator_data.warranty_years;
    Ok(CandidateComparison {
        candidates,
        warnings,
        remarks,
        baselines,
        warranty_years,
    })
}

/// The drives of all baselines among `sources`, each under the name of its candidate.
fn baselines(sources: &[CandidateSource]) -> Option<Beside> {
    let mut drives = Vec::new();
    for source in sources
        .iter()
        .filter(|source| source.kind == CandidateKind::Baseline)
    {
        let Some(series) = &source.series else {
            continue;
        };
        for (number, device) in series.devices.iter().enumerate() {
            let name = match series.devices.len() {
                1 => source.name.clone(),
                _ => format!("{} {}", source.name, device.name),
            };
            drives.push(BesideDrive::new(name, device, &points_of(series, number)));
        }
    }
    (!drives.is_empty()).then(|| Beside::new(drives))
}

/// Adds `dir` to `seen_dirs`, with the name of its candidate. Errors: `seen_dirs` has `dir` already.
fn check_unique(
    seen_dirs: &mut BTreeMap<PathBuf, String>,
    dir: &Path,
    name: &str,
) -> Result<(), CompareError> {
    let canonical_dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    match seen_dirs.insert(canonical_dir, name.to_owned()) {
        None => Ok(()),
        Some(first) => Err(CompareError::Twice {
            first,
            second: name.to_owned(),
            dir: dir.to_owned(),
        }),
    }
}

/// A name for each directory: the given name; otherwise the last part of the path, or the whole path if two directories
/// have the same last part. Errors: one name was given twice.
fn names(dirs: &[CandidateDir]) -> Result<Vec<String>, CompareError> {
    let short_names: Vec<String> = dirs
        .iter()
        .map(|CandidateDir { name, dir }| name.clone().unwrap_or_else(|| last_part(dir)))
        .collect();
    let is_one = |name: &String| short_names.iter().filter(|other| *other == name).count() == 1;
    let name = |(index, CandidateDir { name, dir }): (usize, &CandidateDir)| match name {
        Some(name) => name.clone(),
        None if is_one(&short_names[index]) => short_names[index].clone(),
        None => dir.display().to_string(),
    };
    let names: Vec<String> = dirs.iter().enumerate().map(name).collect();
    let is_double = |name: &&String| names.iter().filter(|other| other == name).count() > 1;
    match dirs
        .iter()
        .filter_map(|named| named.name.as_ref())
        .find(is_double)
    {
        Some(name) => Err(CompareError::SameName { name: name.clone() }),
        None => Ok(names),
    }
}

fn last_part(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    dir.file_name().map_or_else(
        || dir.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ValueOrReason<T> {
    Value(T),
    Missing {
        /// The reason, a phrase.
        why_not: String,
    },
}

impl<T> ValueOrReason<T> {
    pub fn missing(why_not: impl Into<String>) -> Self {
        Self::Missing {
            why_not: why_not.into(),
        }
    }

    pub fn or_missing(value: Option<T>, why_not: impl Into<String>) -> Self {
        value.map_or_else(|| Self::missing(why_not), Self::Value)
    }

    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Missing { .. } => None,
        }
    }

    pub fn map<U>(&self, f: impl FnOnce(&T) -> U) -> ValueOrReason<U> {
        self.and_then(|value| ValueOrReason::Value(f(value)))
    }

    pub fn and_then<U>(&self, f: impl FnOnce(&T) -> ValueOrReason<U>) -> ValueOrReason<U> {
        match self {
            Self::Value(value) => f(value),
            Self::Missing { why_not } => ValueOrReason::missing(why_not.clone()),
        }
    }
}

const LIST_BYTES_MAX: u64 = 16 << 20;

/// The built-in list. Source: ACT's README and Aerospike's pages on certified and historical devices, with the results
/// that vendors submitted (the column `source`).
const LIST: &str = include_str!("published-ratings.csv");

/// Operations per second of 1x. Source: ACT's README (2,000 reads and 1,000 writes).
pub const TPS_OF_1X: f64 = 3_000.0;

/// Number of published ratings shown above the measured rating, and again below.
const NEIGHBOURS: usize = 2;

/// The required columns of a list; other columns are ignored.
const COLUMNS: &str =
    "class,device,tps,x(=tps/3000),gt1ms_pct,gt8ms_pct,gt64ms_pct,endurance,act_ver,source";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedRating {
    /// Kind of drive: `nvme`, `sata`, `cloud`; with the prefix `hist-` for tests with ACT 2 or earlier.
    pub class: String,
    pub device: String,
    /// The rating as a multiple of 1x.
    pub x: f64,
    /// Operations over 1, 8 and 64 ms in the worst hour, percent; `None` where it was not published.
    pub over_pct: [Option<f64>; 3],
    /// Endurance in the maker's words.
    pub endurance: Option<String>,
    pub act_version: Option<String>,
    /// Publisher of the rating.
    pub source: Option<String>,
}

pub fn built_in() -> Result<Vec<PublishedRating>, String> {
    parse("published-ratings.csv (built in)", LIST.as_bytes())
}

/// Reads a list in the format of the built-in one. Errors: the file cannot be read, or has another format.
pub fn read_published(path: &Path) -> Result<Vec<PublishedRating>, String> {
    let name = path.display().to_string();
    let bytes = files::read(path, Links::Followed, LIST_BYTES_MAX)
        .map_err(|error| format!("reading the list of ratings {name} - {error}; check the path"))?;
    parse(&name, &bytes)
}

fn list_error(name: &str, line: u64, why: impl std::fmt::Display) -> String {
    format!(
        "reading the list of ratings {name} line {line} - {why}; the first line of the list must be: {COLUMNS}"
    )
}

fn csv_error(name: &str, error: &csv::Error) -> String {
    let line = error.position().map_or(1, csv::Position::line);
    list_error(name, line, error)
}

fn parse(name: &str, bytes: &[u8]) -> Result<Vec<PublishedRating>, String> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(bytes);
    let header = reader
        .headers()
        .map_err(|error| csv_error(name, &error))?
        .clone();
    let mut column_indexes = [0; 10];
    for (index, column) in column_indexes.iter_mut().zip(COLUMNS.split(',')) {
        let found = header.iter().position(|name| name == column);
        *index =
            found.ok_or_else(|| list_error(name, 1, format!("there is no column {column}")))?;
    }
    let mut ratings = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| csv_error(name, &error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let [
            class,
            device,
            tps,
            x,
            over_1,
            over_8,
            over_64,
            endurance,
            act_version,
            source,
        ] = column_indexes.map(|at| record.get(at).unwrap_or(""));
        let number = |column: &str, text: &str| match text.parse::<f64>() {
            _ if text.is_empty() => Ok(None),
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
            _ => Err(list_error(
                name,
                line,
                format!("{column} is not a number: {text:?}"),
            )),
        };
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let x = match (number("x(=tps/3000)", x)?, number("tps", tps)?) {
            (Some(x), _) => x,
            (None, Some(tps)) => tps / TPS_OF_1X,
            (None, None) => {
                let why = format!("{device:?} has neither tps nor x");
                return Err(list_error(name, line, why));
            }
        };
        ratings.push(PublishedRating {
            class: class.to_owned(),
            device: device.to_owned(),
            x,
            over_pct: [
                number("gt1ms_pct", over_1)?,
                number("gt8ms_pct", over_8)?,
                number("gt64ms_pct", over_64)?,
            ],
            endurance: text(endurance),
            act_version: text(act_version),
            source: text(source),
        });
    }
    ratings.sort_by(|a, b| b.x.total_cmp(&a.x));
    Ok(ratings)
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedRank {
    /// The rating, as a multiple of 1x on one device.
    pub x: f64,
    /// Number of higher published ratings.
    pub higher: usize,
    /// Number of published ratings.
    pub of: usize,
    /// The next higher published ratings, the highest first.
    pub above: Vec<PublishedRating>,
    /// The next published ratings that are equal or lower, the highest first.
    pub below: Vec<PublishedRating>,
    /// Caveat: the published ratings lasted longer.
    pub caveat: Option<String>,
}

/// The rank of `x` in `ratings`, which are sorted, the highest first.
fn place(x: f64, ratings: &[PublishedRating], caveat: Option<String>) -> PublishedRank {
    let higher = ratings.iter().take_while(|rating| rating.x > x).count();
    let above = ratings[higher.saturating_sub(NEIGHBOURS)..higher].to_vec();
    let below = ratings[higher..].iter().take(NEIGHBOURS).cloned().collect();
    PublishedRank {
        x,
        higher,
        of: ratings.len(),
        above,
        below,
        caveat,
    }
}

#[cfg(test)]
mod tests;
