//! Candidates side by side: what each held, how far from its limits, at what wear and price, and where
//! it stands among published ratings.
//!
//! ```text
//! DIR, DIR... -> source      the one run that stands for a directory (of a series: the highest load held)
//!             -> candidate   margins, wear, price, place
//!             -> differences where the tests differ: said, never averaged
//!             -> Comparison  -> table (text), markdown, page, JSON
//! ```
//!
//! A value that cannot be had, or not be compared, is a [`Cell`] with the reason.

mod candidate;
mod cell;
mod page;
mod published;
mod source;
mod table;
mod wear;

pub use candidate::{Candidate, DeviceIo, Load, Margin, Quantile, Rate, Test};
pub use cell::Cell;
pub use published::{ListError, Place, Published, TPS_OF_1X, built_in, read as read_published};
pub use wear::{DeviceWear, Endurance, Given, UnknownName};

use crate::baseline::{Beside, BesideDrive};
use results::baseline::points_of;
use serde::Serialize;
use source::Source;
pub use source::{CompareError, Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Candidates side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// In the order in which they were named.
    pub candidates: Vec<Candidate>,
    /// Warnings that a comparison needs, each one sentence: differences between the tests, damage.
    pub warnings: Vec<String>,
    /// Remarks made when the candidates were tested, each one sentence. They do not affect the numbers.
    pub remarks: Vec<String>,
    /// The drives of baselines side by side; `None` without a baseline.
    pub baselines: Option<Beside>,
    /// Years that a rating in drive writes per day is taken to be for.
    pub warranty_years: f64,
}

/// A directory to compare, and its name in the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The name; `None`: that of the directory.
    pub name: Option<String>,
    /// The directory of a run or a series.
    pub dir: PathBuf,
}

impl Comparison {
    /// True if the tests differ, or something is damaged.
    pub fn is_doubtful(&self) -> bool {
        !self.warnings.is_empty()
    }
}

/// Compares the runs or series in `dirs`, with the operator's data `given`, and ranks them in `ratings` (highest
/// first).
///
/// Errors: a directory holds neither, one is named twice, or `given` names an unknown candidate. Damaged runs are shown
/// as far as they are whole, with a warning.
pub fn compare(dirs: &[Named], given: &Given, ratings: &[Published]) -> Result<Comparison, CompareError> {
    let names = names(dirs)?;
    let mut places: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut once = |dir: &Path, name: &str| {
        let place = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        match places.insert(place, name.to_owned()) {
            None => Ok(()),
            Some(first) => Err(CompareError::Twice { first, second: name.to_owned(), dir: dir.to_owned() }),
        }
    };
    let mut sources = Vec::with_capacity(dirs.len());
    for (Named { dir, .. }, name) in dirs.iter().zip(names) {
        once(dir, &name)?;
        let source = Source::read(name, dir)?;
        // A series, and that run of it that stands for it.
        if let Some(run) = source.run.value().filter(|_| source.series.is_some()) {
            once(&run.dir, &source.name)?;
        }
        sources.push(source);
    }
    let mut known: BTreeSet<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    let runs = sources.iter().filter_map(|source| source.run.value());
    known.extend(runs.flat_map(|run| &run.manifest.devices).map(String::as_str));
    given.check(&known)?;
    let mut warnings = source::differences(&sources);
    let mut remarks = Vec::new();
    for source in &sources {
        let named = |text: &String| format!("{}: {text}", source.name);
        warnings.extend(source.warnings.iter().map(named));
        remarks.extend(source.remarks.iter().map(named));
    }
    let candidates = sources.iter().map(|source| Candidate::new(source, given, ratings)).collect();
    Ok(Comparison {
        candidates,
        warnings,
        remarks,
        baselines: baselines(&sources),
        warranty_years: given.warranty_years,
    })
}

/// The drives of all baselines among `sources`, each under the name of its candidate.
fn baselines(sources: &[Source]) -> Option<Beside> {
    let mut drives = Vec::new();
    for source in sources.iter().filter(|source| source.kind == Kind::Baseline) {
        let Some(series) = &source.series else { continue };
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

/// A name for each directory: the one that was given, or that of the directory, or (where two are
/// called the same) its path. Errors: one was given twice.
fn names(dirs: &[Named]) -> Result<Vec<String>, CompareError> {
    let last = |dir: &Path| {
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        dir.file_name().map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned())
    };
    let short: Vec<String> = dirs.iter().map(|Named { name, dir }| name.clone().unwrap_or_else(|| last(dir))).collect();
    let is_one = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let name = |(index, Named { name, dir }): (usize, &Named)| match name {
        Some(name) => name.clone(),
        None if is_one(&short[index]) => short[index].clone(),
        None => dir.display().to_string(),
    };
    let names: Vec<String> = dirs.iter().enumerate().map(name).collect();
    let given = dirs.iter().zip(&names).filter(|(named, _)| named.name.is_some()).map(|(_, name)| name);
    for name in given {
        if names.iter().filter(|other| *other == name).count() > 1 {
            return Err(CompareError::SameName { name: name.clone() });
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
