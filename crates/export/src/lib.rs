//! Recorded runs and series as Parquet files: one file for each table, for SQL over a population of drives.
//!
//! The data comes from the readers of `results` alone, and outcomes are computed again from the recorded counts, as
//! reports do. Memory does not grow with the runs: rows are written by row groups.
//!
//! * [`TABLES`]: the tables, their columns and the meaning of those; docs/data.md is generated from them
//! * `source`: runs and series below the given directories
//! * `facts`: rows of the small tables; `samples`: those of intervals, telemetry and histograms
//! * `file`: Parquet files

#![forbid(unsafe_code)]

mod error;
mod facts;
mod file;
mod samples;
mod schema;
mod source;
mod table;

pub use error::ExportError;
pub use file::{VERSION_KEY, VIEWS};
pub use schema::{PERCENTILE_SQL, SCHEMA_VERSION, TABLES};
pub use table::{Column, Kind, Table};

use facts::{Facts, serials};
use file::Written;
use results::run_dir::Holds;
use samples::{HistogramFile, IntervalFiles, Job};
use source::{Source, SourceRun, SourceSeries, find};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use table::text;

/// Result of an export.
#[derive(Debug, Default)]
pub struct Exported {
    pub runs: u64,
    pub series: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Size of all files.
    pub bytes: u64,
    /// Directories of runs that were found twice and are exported once.
    pub repeated: Vec<String>,
    /// Runs and files that could not be read, or not whole, each one sentence.
    pub unreadable: Vec<String>,
}

/// Exports the runs and series in `dirs`, or below them, to the tables of `out`.
///
/// A run that cannot be read is named in the result, and the others are exported. Errors: a directory of `dirs` has no
/// run; `out` holds something else, or an earlier export without `force`; a file cannot be written. Then `out` is as
/// before.
pub fn export(dirs: &[PathBuf], out: &Path, force: bool) -> Result<Exported, ExportError> {
    let mut exported = Exported::default();
    let mut sources = Vec::new();
    for dir in dirs {
        sources.extend(find(dir, &mut exported.unreadable)?);
    }
    let made = file::prepare(out, force)?;
    let written = write(&sources, out, &mut exported).inspect_err(|_| {
        if made {
            let _ = fs::remove_dir(out);
        }
    })?;
    for file in written {
        exported.rows += file.rows;
        exported.bytes += file.rename()?;
    }
    file::write_views(out)?;
    results::files::sync_dir(out).map_err(ExportError::io("syncing", out))?;
    Ok(exported)
}

/// Runs that wait for a thread that writes their rows: bounds the memory of manifests.
const JOBS_MAX: usize = 2;

/// Writes all tables under temporary names. Two threads write the large ones, while this one reads and judges runs.
fn write(sources: &[Source], out: &Path, exported: &mut Exported) -> Result<Vec<Written>, ExportError> {
    let mut facts = Facts::create(out)?;
    let (mut intervals, mut histograms) = (IntervalFiles::create(out)?, HistogramFile::create(out)?);
    let (to_intervals, of_intervals) = sync_channel(JOBS_MAX);
    let (to_histograms, of_histograms) = sync_channel(JOBS_MAX);
    thread::scope(|scope| {
        let intervals = scope.spawn(move || {
            let unreadable = work(&of_intervals, |job| intervals.add(job))?;
            Ok::<_, ExportError>((intervals.finish()?, unreadable))
        });
        let histograms = scope.spawn(move || {
            let unreadable = work(&of_histograms, |job| histograms.add(job))?;
            Ok::<_, ExportError>((histograms.finish()?, unreadable))
        });
        let (to, seen) = ([to_intervals, to_histograms], HashSet::new());
        let mut runs = Runs { facts: &mut facts, to, seen, exported };
        let read = sources.iter().try_for_each(|source| runs.read(source));
        // The threads end when nobody can send any more.
        drop(runs.to);
        let mut written = Vec::new();
        // The error of a thread that ended early is the cause of that in this one.
        for (thread, name) in [(intervals, "intervals"), (histograms, "histograms")] {
            let (files, unreadable) = thread.join().map_err(|_| ExportError::Thread(name))??;
            written.extend(files);
            exported.unreadable.extend(unreadable);
        }
        read?;
        written.extend(facts.finish()?);
        Ok(written)
    })
}

/// Adds each job as it comes. Returns what could not be read.
fn work(
    jobs: &Receiver<Arc<Job>>,
    mut add: impl FnMut(&Job) -> Result<(), ExportError>,
) -> Result<Vec<String>, ExportError> {
    let mut unreadable = Vec::new();
    for job in jobs {
        match add(&job) {
            Err(ExportError::Source(error)) => unreadable.push(error.to_string()),
            added => added?,
        }
    }
    Ok(unreadable)
}

/// Reads and judges runs, writes their facts, and hands them to the other threads.
struct Runs<'a> {
    facts: &'a mut Facts,
    to: [SyncSender<Arc<Job>>; 2],
    seen: HashSet<String>,
    exported: &'a mut Exported,
}

impl Runs<'_> {
    fn read(&mut self, source: &Source) -> Result<(), ExportError> {
        let unreadable = &mut self.exported.unreadable;
        match source.holds {
            Holds::Run => match SourceRun::read(&source.dir, source.path.clone()) {
                Ok(run) => self.add(run, None)?,
                Err(error) => unreadable.push(error.to_string()),
            },
            Holds::Series => match SourceSeries::read(source, unreadable) {
                Ok(series) => {
                    if self.is_new(&series.id, &source.path) {
                        self.facts.add_series(&series, &source.path)?;
                        self.exported.series += 1;
                    }
                    for run in series.runs {
                        self.add(run, Some(&series.id))?;
                    }
                }
                Err(error) => unreadable.push(error.to_string()),
            },
        }
        Ok(())
    }

    fn add(&mut self, source: SourceRun, series: Option<&str>) -> Result<(), ExportError> {
        if !self.is_new(&source.id, &source.path) {
            return Ok(());
        }
        self.exported.unreadable.extend(self.facts.add_run(&source, series)?);
        self.exported.runs += 1;
        let SourceRun { id, run, .. } = source;
        let (run_id, serials) = (text(&id), serials(&run.manifest));
        let job = Arc::new(Job { dir: run.dir, manifest: run.manifest, run_id, serials });
        self.to.iter().try_for_each(|to| to.send(Arc::clone(&job))).map_err(|_| ExportError::Thread("rows"))
    }

    /// False for a copy of a run or series that was added before.
    fn is_new(&mut self, id: &str, path: &str) -> bool {
        let is_new = self.seen.insert(id.to_owned());
        self.exported.repeated.extend((!is_new).then(|| path.to_owned()));
        is_new
    }
}
