//! Finds the runs and series below the given directories. Links are not followed.

use conclusions::rejudge::{StepEvidence, rejudge, run_dir_of};
use conclusions::series::Series;
use results::files::{self, Links};
use results::format::hex;
use results::run_dir::{self, DirKind, MANIFEST, Run, RunDirError};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

const DEPTH_MAX: usize = 8;

/// Maximum size of a manifest, as in the readers of run directories.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

pub(crate) struct SourceRun {
    pub(crate) dir: PathBuf,
    /// Name of the given directory ([`crate::dir_names`]), and the path below that directory.
    pub(crate) path: String,
    /// Identity of the run, independent of its directory.
    pub(crate) id: String,
}

pub(crate) struct SourceSeries {
    pub(crate) dir: PathBuf,
    pub(crate) path: String,
    pub(crate) id: String,
    pub(crate) series: Series,
}

/// A run, or a series with all runs below its directory, including interrupted attempts.
pub(crate) struct RunSource {
    pub(crate) series: Option<SourceSeries>,
    pub(crate) runs: Vec<SourceRun>,
    pub(crate) bytes: u64,
}

#[derive(Default)]
pub(crate) struct FoundSources {
    pub(crate) entries: Vec<RunSource>,
    ids: HashSet<String>,
    /// Directories with a copy of a run or series that was already found elsewhere.
    pub(crate) repeated: Vec<String>,
    /// For each directory that cannot be read, a sentence with the reason.
    pub(crate) unreadable: Vec<String>,
}

impl FoundSources {
    /// Adds the run or series in `root`, or all below `root`, ordered by path. `path`: first part of their paths.
    /// Errors: nothing was found.
    pub(crate) fn add(&mut self, root: &Path, path: String) -> Result<(), RunDirError> {
        match run_dir::dir_kind(root) {
            Ok(holds) => self.add_source(root, path, holds),
            Err(error) => {
                let found = self.below(root, &path, DEPTH_MAX);
                if found.is_empty() {
                    return Err(error);
                }
                found
                    .into_iter()
                    .for_each(|(dir, path, holds)| self.add_source(&dir, path, holds));
            }
        }
        Ok(())
    }

    /// Runs and series below `dir`, without the runs that belong to one of these series.
    fn below(&mut self, dir: &Path, path: &str, depth: usize) -> Vec<(PathBuf, String, DirKind)> {
        let mut names = Vec::new();
        let mut found_dirs = Vec::new();
        match fs::read_dir(dir) {
            Ok(listed) => {
                let is_dir =
                    |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
                names.extend(
                    listed
                        .flatten()
                        .filter(is_dir)
                        .map(|entry| entry.file_name()),
                );
            }
            Err(error) => self.unreadable.push(format!(
                "looking for runs in {} - {error}; export as the owner of the directory or as root",
                dir.display()
            )),
        }
        names.sort();
        for name in names {
            let dir = dir.join(&name);
            let path = format!("{path}/{}", name.to_string_lossy());
            match run_dir::dir_kind(&dir) {
                Ok(holds) => found_dirs.push((dir, path, holds)),
                Err(_) if depth > 1 => found_dirs.extend(self.below(&dir, &path, depth - 1)),
                Err(_) => {}
            }
        }
        found_dirs
    }

    fn add_source(&mut self, dir: &Path, path: String, kind: DirKind) {
        let mut source = RunSource {
            series: None,
            runs: Vec::new(),
            bytes: 0,
        };
        let mut run_paths = Vec::new();
        if kind == DirKind::Run {
            run_paths.push((dir.to_owned(), path));
        } else {
            match Series::read(dir) {
                Ok(Some(series)) => {
                    let id = identity_of(&series);
                    let dir = dir.to_owned();
                    let path = path.clone();
                    if self.ids.insert(id.clone()) {
                        source.series = Some(SourceSeries {
                            dir,
                            path,
                            id,
                            series,
                        });
                    } else {
                        self.repeated.push(path);
                    }
                }
                // The runs of the series can be read without its record.
                Ok(None) => self
                    .unreadable
                    .push(conclusions::rejudge::disappeared_error(dir).to_string()),
                Err(error) => self.unreadable.push(error.to_string()),
            }
            let runs = self
                .below(dir, &path, DEPTH_MAX)
                .into_iter()
                .filter(|(_, _, holds)| *holds == DirKind::Run);
            run_paths.extend(runs.map(|(dir, path, _)| (dir, path)));
        }
        for (dir, path) in run_paths {
            match files::read(&dir.join(MANIFEST), Links::Refused, MANIFEST_BYTES_MAX) {
                Ok(manifest) => {
                    let id = identity(&manifest);
                    if self.ids.insert(id.clone()) {
                        source.bytes += bytes_in(&dir);
                        source.runs.push(SourceRun { dir, path, id });
                    } else if source.series.is_some() || kind == DirKind::Run {
                        self.repeated.push(path);
                    }
                }
                Err(error) => self.unreadable.push(format!(
                    "reading {} - {error}; use an untouched copy of the directory of the run",
                    dir.join(MANIFEST).display()
                )),
            }
        }
        if source.series.is_some() || !source.runs.is_empty() {
            self.entries.push(source);
        }
    }
}

fn bytes_in(dir: &Path) -> u64 {
    let listed = fs::read_dir(dir).into_iter().flatten().flatten();
    listed
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

/// First 16 hex digits of the SHA-256 of `bytes`. The probability of a collision in a million runs: 1 in 37 million.
fn identity(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..8])
}

/// Identity of a series. Does not change while the record of the series grows.
fn identity_of(series: &Series) -> String {
    let devices = series
        .devices
        .iter()
        .map(|drive| drive.serial.as_ref().unwrap_or(&drive.name).as_str());
    let devices = devices.collect::<Vec<_>>().join("\n");
    identity(format!("{:?} {} {devices}", series.purpose, series.began_unix_ms).as_bytes())
}

impl SourceSeries {
    /// Judges the series again from `runs`, the readable runs below its directory. Returns the index of each step's
    /// run, and the reasons why the record cannot be trusted completely.
    pub(crate) fn rejudge(
        &mut self,
        runs: &[(SourceRun, Run)],
    ) -> (Vec<Option<usize>>, Vec<String>) {
        let run_at = |dir: PathBuf| runs.iter().position(|(_, run)| run.dir == dir);
        let steps = self.series.steps.iter();
        let run_of_step: Vec<_> = steps
            .map(|step| run_dir_of(&self.dir, step).ok().and_then(run_at))
            .collect();
        let evidence = run_of_step.iter().map(|at| {
            Ok(StepEvidence::from_run(
                &runs[at.ok_or("no run of the step can be read")?].1,
            ))
        });
        let doubts = rejudge(&mut self.series, &evidence.collect::<Vec<_>>());
        (run_of_step, doubts)
    }
}
