//! The run directory: the files of a run, written and read.
//!
//! ```text
//! manifest.json   setup: load, devices, program          written first, atomically
//! intervals.csv   exact counts by interval, stream, device
//! telemetry.csv   a line per interval, which closes the interval
//! act.log         service times as ACT 6.6 logs them
//! service.hlog    HdrHistogram interval logs, at least every 10 s
//! wait.hlog
//! lag.hlog
//! trace.csv       samples of the block layer, if tracing was possible
//! checksums.csv   length and checksum of each file at each report
//! verdict.json    the verdict, and final checksums        written last, atomically
//! ```
//!
//! A run without `verdict.json` is incomplete, and readers say so. The other files are appended in whole lines. So if a
//! signal, a full disk or a power cut stops the run, the directory is still readable, without its last interval.
//! Readers compute the verdict again from the manifest and the two tables, and compare it with the recorded verdict.
//!
//! A [`RunWriter`] writes the directory, outside the issuing threads. `docs/run-directory.md` explains the columns;
//! [`crate::judge`] explains the verdict.

mod checksums;
mod file;
mod hlog;
mod manifest;
mod read;
mod tables;
mod write;

pub use file::HlogKind;
pub use file::{read as read_json, write as write_json};
pub use hlog::{
    HistogramWindow, HlogBucket, WindowBuckets, each_buckets, each_window, last_windows,
};
pub use manifest::{
    ActLogHead, DeviceKind, Manifest, NAMESPACE, Process, ProcessState, RecordedConfig,
    WorkloadRecord, text_fact, time_left,
};
pub use read::{EachInterval, IntervalRecord, Intervals, Run, blame, manifest, read, read_each};
pub use tables::{TraceSamples, TraceWriter, read_trace};
pub use write::{RunWriter, check_usable, space_needed_bytes};

use crate::act_log::{ActLogReader, Input};
use crate::files::{self, Links, dir_of};
use crate::format::{bytes, quoted_start, shell_quoted};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Version of the formats in a run directory. Raised when a column or field changes its meaning, not when a column or
/// field is added. Readers read all versions up to their own. Version 2: separate counts for operations due in an
/// earlier slice, for lost operations and for operations that did not complete in time. Version 3: counts by half-slice,
/// and the number of reads with wrong data.
pub const FORMAT_VERSION: u32 = 3;

pub const MANIFEST: &str = "manifest.json";
/// Written by `size profile`, which is no run.
const PROFILE: &str = "profile.json";
pub const INTERVALS: &str = "intervals.csv";
pub const TELEMETRY: &str = "telemetry.csv";
pub const TRACE: &str = "trace.csv";
pub const ACT_LOG: &str = "act.log";
pub const CHECKSUMS: &str = "checksums.csv";
pub const VERDICT: &str = "verdict.json";
/// The file in the directory of a series of runs.
pub const SERIES: &str = "series.json";

#[derive(Debug, Error)]
pub enum RunDirError {
    #[error("starting a run in {} - it already holds {found} of another run; give another --out or move that run away", .dir.display())]
    Occupied { dir: PathBuf, found: String },
    #[error(
        "starting a run in {} - the run needs about {}, but only {} are free; free some space or give an --out with more room",
        .dir.display(), bytes(*.needed_bytes as f64), bytes(*.free_bytes as f64)
    )]
    NoRoom {
        dir: PathBuf,
        needed_bytes: u64,
        free_bytes: u64,
    },
    #[error("{tried} {} - {source}{}; {}", .path.display(), free_text(.free_bytes), advice(.tried, .source))]
    Io {
        /// Operation, up to the path: `appending 312 bytes to`.
        tried: String,
        path: PathBuf,
        source: io::Error,
        /// Free bytes on the file system, if the disk is full and the number is known.
        free_bytes: Option<u64>,
    },
    #[error(
        "recording in {} - stopped after an earlier error ({earlier}); earlier records can be read",
        .dir.display()
    )]
    Stopped { dir: PathBuf, earlier: String },
    #[error("reading {} - {why}; {what_to_do}", .path.display())]
    NoRun {
        path: PathBuf,
        why: String,
        what_to_do: String,
    },
    #[error(
        "reading {} - it has format version {found} and this program knows versions up to {known}; use a newer flashproof",
        .path.display()
    )]
    Newer {
        path: PathBuf,
        found: u64,
        known: u32,
    },
    #[error("reading {} - it is missing; copy the whole directory of the run from where it was recorded", .path.display())]
    Missing { path: PathBuf },
    #[error("reading {} - {why}; it was damaged or edited after the run: use an untouched copy", .path.display())]
    Damaged { path: PathBuf, why: String },
    #[error(
        "reading {} line {line} - expected {expected}, found {found}; it was damaged or edited after the run: use an \
         untouched copy", .path.display()
    )]
    Line {
        path: PathBuf,
        line: u64,
        expected: String,
        found: String,
    },
}

impl RunDirError {
    /// Error of a failed system call, with the free space if the disk is full.
    fn io(operation: impl Into<String>, path: &Path, source: io::Error) -> Self {
        let free_bytes = if is_full(&source) {
            free_bytes(path).ok()
        } else {
            None
        };
        Self::Io {
            tried: operation.into(),
            path: path.to_owned(),
            source,
            free_bytes,
        }
    }

    fn line(path: &Path, line: u64, expected: impl Into<String>, found: &str) -> Self {
        Self::Line {
            path: path.to_owned(),
            line,
            expected: expected.into(),
            found: quoted_start(found),
        }
    }
}

/// Bytes that this user may still write on the file system of `path`.
fn free_bytes(path: &Path) -> Result<u64, RunDirError> {
    let stat = rustix::fs::statvfs(path);
    let stat =
        stat.map_err(|error| RunDirError::io("asking for the free space of", path, error.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

fn free_text(free_bytes: &Option<u64>) -> String {
    free_bytes
        .map(|bytes| format!(", {bytes} bytes free"))
        .unwrap_or_default()
}

fn advice(operation: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied if operation.starts_with("reading") => {
            "read the run as root or as the user who recorded it, or let this user read it (chmod)"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space or give another --out; data written before is complete and can be read"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "give an --out that this user may write to"
        }
        ErrorKind::NotFound => {
            "give the directory of a run, or a path where a directory can be created"
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            "a file is in the way: give the path of a directory"
        }
        ErrorKind::InvalidInput | ErrorKind::InvalidData if operation.starts_with("reading") => {
            "a run directory holds only regular files: use an untouched copy of the directory"
        }
        ErrorKind::FileTooLarge => {
            "raise the file size limit (ulimit -f), or give an --out on a file system without such a limit"
        }
        _ if is_out_of_descriptors(error) => "raise the limit of open files (ulimit -n)",
        _ => "check the disk that holds this path",
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirKind {
    Run,
    /// A series of runs, each in a subdirectory.
    Series,
}

/// Classifies `dir`. Errors: neither a run nor a series; the error describes the contents.
pub fn dir_kind(dir: &Path) -> Result<DirKind, RunDirError> {
    if is_there(dir, SERIES) {
        Ok(DirKind::Series)
    } else if is_there(dir, MANIFEST) {
        Ok(DirKind::Run)
    } else {
        Err(no_run(dir))
    }
}

/// True if `name` exists, as a file of any type.
fn is_there(dir: &Path, name: &str) -> bool {
    dir.join(name).symlink_metadata().is_ok()
}

fn files_of_a_run(dir: &Path) -> impl Iterator<Item = &'static str> {
    let names = [
        MANIFEST, INTERVALS, TELEMETRY, TRACE, ACT_LOG, CHECKSUMS, VERDICT,
    ]
    .into_iter();
    names
        .chain(HlogKind::ALL.map(HlogKind::file_name))
        .filter(|name| is_there(dir, name))
}

/// True if `dir` holds a run, whole or damaged: at least two files of a run. A single file may be unrelated.
pub fn is_run_dir(dir: &Path) -> bool {
    files_of_a_run(dir).nth(1).is_some()
}

/// Runs and series that the error of a directory without a run names, and entries of a directory that are searched for
/// them.
const NAMED_RUNS_MAX: usize = 3;
const SEARCHED_ENTRIES_MAX: usize = 1_000;

/// Runs and series one level below `dir`, otherwise two levels below.
fn runs_below(dir: &Path) -> Vec<PathBuf> {
    let is_result = |path: &PathBuf| is_there(path, MANIFEST) || is_there(path, SERIES);
    let near = entries(dir);
    if near.iter().any(is_result) {
        return near.into_iter().filter(is_result).collect();
    }
    let far = near.iter().flat_map(|dir| entries(dir));
    far.filter(is_result).take(NAMED_RUNS_MAX + 1).collect()
}

/// The entries of `dir` by name, at most [`SEARCHED_ENTRIES_MAX`]; none if `dir` cannot be listed.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut paths: Vec<_> = paths.take(SEARCHED_ENTRIES_MAX).collect();
    paths.sort();
    paths
}

fn is_act_log(path: &Path) -> bool {
    let log = files::open(path, Links::Followed).and_then(Input::new);
    log.is_ok_and(|log| ActLogReader::new(log).is_ok())
}

/// The error for `dir`, which has no manifest and so cannot be read as a run.
fn no_run(dir: &Path) -> RunDirError {
    let error = |path: PathBuf, why: String, what_to_do: String| RunDirError::NoRun {
        path,
        why,
        what_to_do,
    };
    let manifest = dir.join(MANIFEST);
    let entries = match fs::metadata(dir).and_then(|_| fs::read_dir(dir)) {
        Ok(listed) => listed,
        Err(_) if dir.is_file() => {
            let what_to_do = match dir
                .file_name()
                .filter(|name| files_of_a_run(dir_of(dir)).any(|ours| **name == *ours))
            {
                Some(_) => format!(
                    "give the directory that holds this file: {}",
                    dir_of(dir).display()
                ),
                None if is_act_log(dir) => {
                    return error(
                        dir.to_owned(),
                        "it is an ACT log, and a run is a directory".to_owned(),
                        format!(
                            "read the log by \"flashproof latency {}\"",
                            shell_quoted(&dir.to_string_lossy())
                        ),
                    );
                }
                None => "give the directory of a run (--out of the run)".to_owned(),
            };
            return error(
                dir.to_owned(),
                "it is a file, and a run is a directory".to_owned(),
                what_to_do,
            );
        }
        Err(why) => {
            let why = format!(
                "{why}; a directory with {MANIFEST} (a run) or {SERIES} (a series) was expected"
            );
            return error(dir.to_owned(), why, "check the path".to_owned());
        }
    };
    if is_there(dir, SERIES) {
        let why = format!("this directory holds a series ({SERIES}), not a run");
        let what_to_do = "give the directory of one of its runs".to_owned();
        return error(manifest, why, what_to_do);
    }
    if let Some(run_file) = files_of_a_run(dir).next() {
        let why = format!(
            "the manifest is missing, although {run_file} is there: without the manifest, nobody can tell what was run"
        );
        return error(
            manifest,
            why,
            "restore the manifest from a copy; act.log can be read without a manifest (flashproof latency)".to_owned(),
        );
    }
    let below = runs_below(dir);
    if let Some(parent) = below.first().and_then(|first| first.parent()) {
        let names = below.iter().filter_map(|run| run.strip_prefix(dir).ok());
        let names = names.map(|name| name.display().to_string());
        let named: Vec<_> = names.take(NAMED_RUNS_MAX).collect();
        let more = if below.len() > NAMED_RUNS_MAX {
            ", ..."
        } else {
            ""
        };
        let why = format!(
            "there is no run in this directory, but there are runs below it: {}{more}",
            named.join(", ")
        );
        let what_to_do = format!(
            "give one of them; \"flashproof report {}\" lists them",
            shell_quoted(&parent.to_string_lossy())
        );
        return error(manifest, why, what_to_do);
    }
    if is_there(dir, PROFILE) {
        let why = format!("the directory holds a load profile ({PROFILE}), not a run");
        let what_to_do = format!(
            "compute drives for it by \"flashproof size select --published all --profile {}\"",
            shell_quoted(&dir.join(PROFILE).to_string_lossy())
        );
        return error(manifest, why, what_to_do);
    }
    let what = if entries.count() == 0 {
        "the directory is empty"
    } else {
        "the directory holds other files"
    };
    error(
        manifest,
        format!("there is no run: {what}"),
        "give the directory of a run (--out of the run)".to_owned(),
    )
}

#[cfg(test)]
mod tests;
