//! Exports recorded runs and series as Parquet files: one file for each table, for SQL over a population of drives.
//!
//! The data is read only through the crates `results` and `conclusions`. As in reports, outcomes are computed again
//! from the recorded counts. Memory does not grow with the number of runs: rows are written by row groups.
//! docs/data.md is generated from [`TABLES`].

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

mod facts;
mod file;
mod samples;
mod schema;
mod source;
mod table;

pub use file::{VERSION_KEY, VIEWS};
pub use schema::{PERCENTILE_SQL, SCHEMA_VERSION, TABLES, TaskRow};
pub use table::{ColumnSchema, ColumnType, TableSchema};

use file::{PartFiles, TemporaryFile};
use parquet::errors::ParquetError;
use results::files::Dir;
use results::run_dir::RunDirError;
use source::{FoundSources, RunSource};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum ExportError {
    /// There is neither a run nor a series in a directory and below it.
    #[error(transparent)]
    Source(#[from] RunDirError),
    #[error("exporting to {} - the directory has {found}, which no export wrote; give another \
             directory", .dir.display())]
    Foreign { dir: PathBuf, found: String },
    #[error(
        "exporting to {} - the directory has {found} of an earlier export; add --force to replace it, or give another \
         directory",
        .dir.display()
    )]
    Occupied { dir: PathBuf, found: String },
    #[error("{tried} {} - {source}; give a directory that this user may write to, on a disk with free \
             space", .path.display())]
    Io {
        tried: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("writing {} - {source}; free some space, or give a directory on another disk", .path.display())]
    Parquet { path: PathBuf, source: ParquetError },
    /// A defect of this program: a thread that writes a table ended early.
    #[error("exporting - a thread that writes tables stopped too early; report this as a defect")]
    Thread,
}

type Result<T = (), E = ExportError> = std::result::Result<T, E>;

impl ExportError {
    fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            tried: operation,
            path: path.to_owned(),
            source,
        }
    }
}

#[derive(Debug, Default)]
pub struct Exported {
    pub runs: u64,
    pub series: u64,
    pub rows: u64,
    pub bytes: u64,
    /// Directories of further copies of a run or series, which were not exported again.
    pub repeated: Vec<String>,
    /// For each run or file that could not be read completely, a sentence.
    pub unreadable: Vec<String>,
}

/// Exports the runs and series in and below `dirs`, and the `tasks` of campaigns, to tables in `out_dir`. A run that
/// cannot be read is named in the result, and the others are exported. Errors: a directory of `dirs` has no run;
/// `out_dir` has foreign files, or an earlier export without `force`; a file cannot be written. After an error the
/// tables in `out_dir` are unchanged.
pub fn export(
    dirs: &[PathBuf],
    tasks: &[TaskRow<'_>],
    out_dir: &Path,
    force: bool,
) -> Result<Exported> {
    let mut sources = FoundSources::default();
    let mut named = dirs.iter().zip(dir_names(dirs));
    named.try_for_each(|(dir, name)| sources.add(dir, name))?;
    let new_dirs = file::prepare(out_dir, force)?;
    let dir = Dir::open(out_dir).map_err(ExportError::io("opening", out_dir))?;
    let FoundSources {
        entries,
        repeated,
        unreadable,
        ..
    } = sources;
    let mut exported = Exported {
        repeated,
        unreadable,
        ..Exported::default()
    };
    let written = write(entries, tasks, &dir, &mut exported).inspect_err(|_| new_dirs.remove())?;
    for file in written {
        exported.rows += file.rows;
        exported.bytes += file.publish()?;
    }
    file::write_views(out_dir)?;
    Ok(exported)
}

/// For each of `dirs`, the beginning of its exported paths: its name, or its whole path if several have this name.
pub fn dir_names(dirs: &[PathBuf]) -> Vec<String> {
    let name = |dir: &Path| dir.file_name().unwrap_or(dir.as_os_str()).to_owned();
    let count = |of: &Path| dirs.iter().filter(|dir| name(dir) == name(of)).count();
    let names = dirs.iter().map(|dir| match count(dir) {
        1 => name(dir).to_string_lossy().into_owned(),
        _ => dir.display().to_string(),
    });
    names.collect()
}

/// Minimum size of all runs together in one part of the tables, bytes: enough for efficient row groups.
const PART_BYTES: u64 = 64 << 20;

/// The parts depend only on the sources, so the same sources give the same bytes in the tables.
fn parts(sources: Vec<RunSource>) -> Vec<Vec<RunSource>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut bytes = 0;
    for source in sources {
        bytes += source.bytes;
        part.push(source);
        if bytes >= PART_BYTES {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
    }
    // Without any run, empty tables are written.
    if parts.is_empty() || !part.is_empty() {
        parts.push(part);
    }
    parts
}

/// Maximum number of parts written at once: each has 14 open files and 60 MB of memory.
const THREADS_MAX: usize = 16;

/// Threads, at most one for each CPU, write the parts under temporary names. Then the parts are joined.
fn write(
    sources: Vec<RunSource>,
    tasks: &[TaskRow<'_>],
    dir: &Dir,
    exported: &mut Exported,
) -> Result<Vec<TemporaryFile>> {
    let source_parts = parts(sources);
    let threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(source_parts.len())
        .min(THREADS_MAX);
    let queue = Mutex::new(source_parts.into_iter().enumerate());
    let next_part = || queue.lock().ok()?.next();
    let written_parts = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut written = Vec::new();
                    while let Some((number, sources)) = next_part() {
                        let tasks = if number == 0 { tasks } else { &[] };
                        written.push((number, TablePart::write(sources, tasks, dir)?));
                    }
                    Ok::<_, ExportError>(written)
                })
            })
            .collect();
        let done = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(ExportError::Thread)));
        done.collect::<Result<Vec<_>>>()
    })?;
    let mut written_parts: Vec<_> = written_parts.into_iter().flatten().collect();
    written_parts.sort_by_key(|(number, _)| *number);
    let mut by_table: Vec<Vec<TemporaryFile>> = TABLES.iter().map(|_| Vec::new()).collect();
    for (
        _,
        TablePart {
            written,
            runs,
            series,
            unreadable,
        },
    ) in written_parts
    {
        by_table
            .iter_mut()
            .zip(written)
            .for_each(|(parts, part)| parts.push(part));
        exported.runs += runs;
        exported.series += series;
        exported.unreadable.extend(unreadable);
    }
    by_table
        .into_iter()
        .filter_map(|parts| file::join(dir, &parts).transpose())
        .collect()
}

#[derive(Default)]
struct TablePart {
    written: Vec<TemporaryFile>,
    runs: u64,
    series: u64,
    unreadable: Vec<String>,
}

impl TablePart {
    fn write(sources: Vec<RunSource>, tasks: &[TaskRow<'_>], dir: &Dir) -> Result<Self> {
        let mut files = PartFiles::create(dir)?;
        tasks.iter().try_for_each(|task| files.push(*task))?;
        let mut part = Self::default();
        for RunSource {
            mut series,
            runs: places,
            ..
        } in sources
        {
            let mut runs = Vec::new();
            for place in places {
                match files.add_intervals(&place.dir, &place.id)? {
                    Ok(run) => runs.push((place, run)),
                    Err(error) => part.unreadable.push(error.to_string()),
                }
            }
            if let Some(series) = &mut series {
                files.add_series(series, &runs)?;
                part.series += 1;
            }
            let series_id = series.as_ref().map(|series| series.id.as_str());
            for (place, run) in &runs {
                let unreadable = [
                    files.add_run(place, run, series_id)?,
                    files.add_histograms(run, &place.id)?,
                ];
                part.unreadable.extend(
                    unreadable
                        .into_iter()
                        .flatten()
                        .map(|error| error.to_string()),
                );
                part.runs += 1;
            }
        }
        part.written = files.finish()?;
        Ok(part)
    }
}
