//! The runs and series below the directories that were given. Links are not followed.

use results::judge::Outcome;
use results::rejudge::{Evidence, doubt_of, place_of, rejudge};
use results::run_dir::{self, Holds, MANIFEST, Run, RunDirError};
use results::series::Series;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// Directories below a given one are looked at down to this depth.
const DEPTH_MAX: usize = 8;

/// Largest manifest that is read: the limit of the readers of run directories.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// A run or a series that was found.
pub(crate) struct Source {
    pub(crate) dir: PathBuf,
    /// The last name of the given directory, and the path below it.
    pub(crate) path: String,
    pub(crate) holds: Holds,
}

/// Runs and series in `root` and below, in the order of their paths; runs of a series are not listed.
/// Directories that cannot be listed are added to `unreadable`. Errors: there are none.
pub(crate) fn find(root: &Path, unreadable: &mut Vec<String>) -> Result<Vec<Source>, RunDirError> {
    let path = root.file_name().map_or_else(|| root.to_string_lossy(), |name| name.to_string_lossy()).into_owned();
    let mut found = Vec::new();
    match run_dir::holds(root) {
        Ok(holds) => found.push(Source { dir: root.to_owned(), path, holds }),
        Err(error) => {
            below(root, &path, DEPTH_MAX, &mut found, unreadable);
            if found.is_empty() {
                return Err(error);
            }
        }
    }
    Ok(found)
}

fn below(dir: &Path, path: &str, depth: usize, found: &mut Vec<Source>, unreadable: &mut Vec<String>) {
    let mut dirs = Vec::new();
    match fs::read_dir(dir) {
        Ok(listed) => {
            let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            dirs.extend(listed.flatten().filter(is_dir).map(|entry| entry.file_name()));
        }
        Err(error) => unreadable.push(format!(
            "looking for runs in {} - {error}; read it as the user who made it or as root",
            dir.display()
        )),
    }
    dirs.sort();
    for name in dirs {
        let (dir, path) = (dir.join(&name), format!("{path}/{}", name.to_string_lossy()));
        match run_dir::holds(&dir) {
            Ok(holds) => found.push(Source { dir, path, holds }),
            Err(_) if depth > 1 => below(&dir, &path, depth - 1, found, unreadable),
            Err(_) => {}
        }
    }
}

/// A run that was read, and its identity.
pub(crate) struct SourceRun {
    pub(crate) id: String,
    pub(crate) path: String,
    pub(crate) run: Run,
}

impl SourceRun {
    pub(crate) fn read(dir: &Path, path: String) -> Result<Self, RunDirError> {
        let run = run_dir::read(dir)?;
        let manifest = dir.join(MANIFEST);
        let bytes = results::files::read(&manifest, results::files::Links::Refused, MANIFEST_BYTES_MAX);
        let bytes = bytes.map_err(|source| RunDirError::Io {
            tried: "reading".to_owned(),
            path: manifest,
            source,
            free_bytes: None,
        })?;
        Ok(Self { id: identity(&bytes), path, run })
    }
}

/// The first 16 hexadecimal digits of the SHA-256 of `bytes`: two of a million runs share them once in 37 million
/// exports.
fn identity(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A series that was read and judged again, and its runs.
pub(crate) struct SourceSeries {
    pub(crate) id: String,
    pub(crate) series: Series,
    /// All runs below its directory, attempts that were interrupted included.
    pub(crate) runs: Vec<SourceRun>,
    /// For each step: the position of its run in `runs`.
    pub(crate) run_of_step: Vec<Option<usize>>,
    /// Why the record of the series cannot be believed whole, each one sentence.
    pub(crate) doubts: Vec<String>,
}

impl SourceSeries {
    /// Reads the series at `source`. Runs that cannot be read are added to `unreadable`. Errors: the record of the series
    /// cannot be read.
    pub(crate) fn read(source: &Source, unreadable: &mut Vec<String>) -> Result<Self, RunDirError> {
        let Some(mut series) = Series::read(&source.dir)? else { return Err(results::rejudge::went_away(&source.dir)) };
        let mut found = Vec::new();
        below(&source.dir, &source.path, DEPTH_MAX, &mut found, unreadable);
        let mut runs = Vec::new();
        for Source { dir, path, .. } in found.into_iter().filter(|found| found.holds == Holds::Run) {
            match SourceRun::read(&dir, path) {
                Ok(run) => runs.push(run),
                Err(error) => unreadable.push(error.to_string()),
            }
        }
        let run_of = |dir: PathBuf| runs.iter().position(|run| run.run.dir == dir);
        let run_of_step: Vec<_> =
            series.steps.iter().map(|step| place_of(&source.dir, step).ok().and_then(run_of)).collect();
        let doubt_of_run: Vec<_> = runs.iter().map(|run| doubt_of(&run.run)).collect();
        let evidence: Vec<_> = run_of_step
            .iter()
            .map(|at| {
                let at = at.ok_or("no run of the step can be read")?;
                let (run, doubt) = (&runs[at].run, doubt_of_run[at].as_deref());
                Ok(Evidence { verdict: &run.verdict, multiple: run.manifest.multiple, doubt })
            })
            .collect();
        let doubts = rejudge(&mut series, &evidence);
        let devices = series.devices.iter().map(|drive| drive.serial.as_ref().unwrap_or(&drive.name).as_str());
        let id = format!("{:?} {} {}", series.purpose, series.began_unix_ms, devices.collect::<Vec<_>>().join("\n"));
        Ok(Self { id: identity(id.as_bytes()), series, runs, run_of_step, doubts })
    }

    /// The outcome of the conclusion; `None` while the series goes on.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.series.conclusion.as_ref().map(|conclusion| conclusion.outcome)
    }
}
