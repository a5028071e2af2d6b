//! Writes a run directory, interval by interval, and estimates its size.

use super::checksums::{self, FileSum};
use super::file::{self, AppendFile, HlogKind, Sum, write_whole};
use super::files_of_a_run;
use super::free_bytes;
use super::hlog::{Hlogs, window_intervals};
use super::{INTERVALS, MANIFEST, Manifest, RunDirError, TELEMETRY, TRACE, VERDICT, tables};
use crate::act_log::{ServiceTotals, histogram_names, write_error_line, write_header};
use crate::buckets::ActScale;
use crate::cell::{Interval, Layout};
use crate::files;
use crate::judge::{IntervalCounts, Verdict};
use serde::Serialize;
use std::path::{Path, PathBuf};

const NS_PER_SEC: u64 = 1_000_000_000;

/// Writes the directory of a run. Used by the thread that merges intervals, never by an issuing thread. After a failed
/// write nothing more is written, so that the tables have no gaps. The directory then has no verdict, which marks the
/// run as incomplete.
pub struct RunWriter {
    dir: PathBuf,
    files: OpenFiles,
    failed: Option<String>,
}

struct OpenFiles {
    layout: Layout,
    interval_sec: u64,
    tightest_ns: u64,
    columns: usize,
    intervals: AppendFile,
    telemetry: AppendFile,
    act_logs: Vec<ActLog>,
    hlogs: Hlogs,
    manifest: Sum,
    checksums: checksums::ChecksumWriter,
    counts: IntervalCounts,
    text: String,
}

struct ActLog {
    file: AppendFile,
    totals: ServiceTotals,
    /// Last appended text.
    text: Vec<u8>,
}

impl ActLog {
    fn create_all(dir: &Path, manifest: &Manifest) -> Result<Vec<Self>, RunDirError> {
        let asking = (0..manifest.workloads.len())
            .filter_map(|index| Some((index, manifest.act_header(index)?)));
        asking
            .map(|(index, header)| {
                let mut file = AppendFile::create(dir.join(manifest.act_log_name(index)))?;
                let mut text = Vec::new();
                write_header(&mut text, &header).expect("a vector takes any bytes");
                file.append(&text)?;
                Ok(Self {
                    file,
                    totals: ServiceTotals::new(&manifest.layout(), index),
                    text,
                })
            })
            .collect()
    }

    fn append_interval(&mut self, interval: &Interval, after_sec: u64) -> Result<(), RunDirError> {
        self.totals.add(interval);
        self.text.clear();
        self.totals
            .write_chunk(&mut self.text, after_sec)
            .expect("a vector takes any bytes");
        self.file.append(&self.text)
    }

    fn append_error(&mut self, message: &str) -> Result<(), RunDirError> {
        self.text.clear();
        write_error_line(&mut self.text, message).expect("a vector takes any bytes");
        self.file.append(&self.text)
    }
}

impl RunWriter {
    /// Starts a run in `dir`, created if missing. `telemetry_columns` has the names of the values of each interval.
    /// Errors: `dir` already holds a run, there is too little space for this run, or a system call failed.
    pub fn create(
        dir: &Path,
        manifest: &Manifest,
        telemetry_columns: &[String],
    ) -> Result<Self, RunDirError> {
        let new_dirs = files::create_dirs(dir)
            .map_err(|error| RunDirError::io("making the directory", dir, error))?;
        refuse_occupied(dir)?;
        let layout = manifest.layout();
        let interval_sec = manifest.report_interval_sec;
        let columns = telemetry_columns.len();
        check_space(dir, space_needed_bytes(manifest, columns))
            .inspect_err(|_| new_dirs.remove())?;
        // intervals.csv is created first, and exclusively: of two runs that start at once, only one gets the directory.
        let mut intervals = AppendFile::create(dir.join(INTERVALS)).or_else(|error| {
            refuse_occupied(dir)?;
            Err(error)
        })?;
        let manifest_bytes = file::to_bytes(manifest);
        write_whole(dir, MANIFEST, &manifest_bytes)?;
        intervals.append(format!("{}\n", tables::header(&manifest.sla)).as_bytes())?;
        let mut telemetry = AppendFile::create(dir.join(TELEMETRY))?;
        telemetry
            .append(format!("{}\n", tables::telemetry_header(telemetry_columns)).as_bytes())?;
        let act_logs = ActLog::create_all(dir, manifest)?;
        let window = window_intervals(interval_sec, manifest.round_sec);
        let hlogs = Hlogs::create(
            dir,
            &layout,
            &manifest.tool,
            manifest.started_unix_ms,
            window,
        )?;
        let appended = [&intervals, &telemetry]
            .into_iter()
            .chain(act_logs.iter().map(|log| &log.file));
        let names = appended.chain(hlogs.files()).map(AppendFile::name);
        let names: Vec<_> = [MANIFEST.to_owned()].into_iter().chain(names).collect();
        let checksums = checksums::ChecksumWriter::create(dir, &names)?;
        let tightest_ns = manifest.sla.tightest_ns();
        let counts = IntervalCounts::default();
        let text = String::new();
        let mut files = OpenFiles {
            layout,
            interval_sec: interval_sec.max(1),
            tightest_ns,
            columns,
            intervals,
            telemetry,
            act_logs,
            hlogs,
            manifest: Sum::from_bytes(&manifest_bytes),
            checksums,
            counts,
            text,
        };
        files.append_checksums(0)?;
        files.sync()?;
        files::sync_dir(dir).map_err(|error| RunDirError::io("syncing", dir, error))?;
        Ok(Self {
            dir: dir.to_owned(),
            files,
            failed: None,
        })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Appends an interval, merged over all shards. Intervals must come in the order of their index. `telemetry` has a
    /// value for each telemetry column, empty if it could not be measured.
    pub fn write_interval(
        &mut self,
        interval: &Interval,
        telemetry: &[String],
    ) -> Result<(), RunDirError> {
        self.attempt(|files| files.write_interval(interval, telemetry))
    }

    /// Last text appended to the only log in ACT's format: header, chunks, error lines. Empty for several logs or none.
    pub fn act_text(&self) -> &[u8] {
        match &self.files.act_logs[..] {
            [log] => &log.text,
            _ => &[],
        }
    }

    pub fn write_error(&mut self, message: &str) -> Result<(), RunDirError> {
        self.attempt(|files| {
            files
                .act_logs
                .iter_mut()
                .try_for_each(|log| log.append_error(message))
        })
    }

    /// Syncs all written data. In real time, called for each report; in virtual time, only [`Self::finish`] syncs.
    pub fn sync(&mut self) -> Result<(), RunDirError> {
        self.attempt(OpenFiles::sync)
    }

    /// Writes the last window of the interval logs, then the verdict, which marks the run as complete.
    pub fn finish(mut self, verdict: &Verdict) -> Result<(), RunDirError> {
        let dir = self.dir.clone();
        self.attempt(|files| {
            files.hlogs.write_window()?;
            files.sync()?;
            // trace.csv has its own writer, which has finished by now.
            let sums = files
                .sums()
                .into_iter()
                .chain(FileSum::of_file(&dir, TRACE))
                .collect();
            write_whole(
                &dir,
                VERDICT,
                &file::to_bytes(&VerdictWithSums {
                    verdict,
                    files: sums,
                }),
            )
        })
    }

    fn attempt(
        &mut self,
        act: impl FnOnce(&mut OpenFiles) -> Result<(), RunDirError>,
    ) -> Result<(), RunDirError> {
        if let Some(earlier) = &self.failed {
            return Err(RunDirError::Stopped {
                dir: self.dir.clone(),
                earlier: earlier.clone(),
            });
        }
        act(&mut self.files).inspect_err(|error| self.failed = Some(error.to_string()))
    }
}

impl OpenFiles {
    /// The line of telemetry.csv is written last, because it closes the interval.
    fn write_interval(
        &mut self,
        interval: &Interval,
        telemetry: &[String],
    ) -> Result<(), RunDirError> {
        debug_assert_eq!(telemetry.len(), self.columns);
        let after_sec = self.after_sec(interval);
        self.counts.set(interval, self.tightest_ns);
        self.counts.after_sec = after_sec;
        self.text.clear();
        let lines = tables::push_cells(&mut self.text, &self.counts, &self.layout);
        self.intervals.append(self.text.as_bytes())?;

        self.act_logs
            .iter_mut()
            .try_for_each(|log| log.append_interval(interval, after_sec))?;
        self.hlogs.add(interval)?;

        let mut padded = telemetry.to_vec();
        padded.resize(self.columns, String::new());
        self.text.clear();
        tables::push_closing(&mut self.text, &mut self.counts, lines, &padded);
        self.telemetry.append(self.text.as_bytes())?;
        self.append_checksums(after_sec)
    }

    /// The growing files, without checksums.csv.
    fn appended(&self) -> impl Iterator<Item = &AppendFile> {
        let tables = [&self.intervals, &self.telemetry].into_iter();
        tables
            .chain(self.act_logs.iter().map(|log| &log.file))
            .chain(self.hlogs.files())
    }

    /// Called last, so that the sums cover data that is already in the other files.
    fn append_checksums(&mut self, after_sec: u64) -> Result<(), RunDirError> {
        let sums: Vec<_> = [self.manifest]
            .into_iter()
            .chain(self.appended().map(AppendFile::sum))
            .collect();
        self.checksums.append(after_sec, sums)
    }

    fn sums(&self) -> Vec<FileSum> {
        let appended = self.appended().chain([&self.checksums.file]);
        let appended = appended.map(|file| FileSum::new(&file.name(), file.sum()));
        [FileSum::new(MANIFEST, self.manifest)]
            .into_iter()
            .chain(appended)
            .collect()
    }

    /// Nominal time of the report. An interval that was cut short gets its last second, so that it looks incomplete.
    fn after_sec(&self, interval: &Interval) -> u64 {
        let nominal_sec = (interval.index + 1).saturating_mul(self.interval_sec);
        let before_sec = self.counts.after_sec;
        nominal_sec
            .min(interval.end_ns.div_ceil(NS_PER_SEC))
            .max(before_sec + 1)
    }

    fn sync(&mut self) -> Result<(), RunDirError> {
        // The tables are synced first, because a verdict needs nothing else.
        self.intervals.sync()?;
        self.telemetry.sync()?;
        self.act_logs
            .iter_mut()
            .try_for_each(|log| log.file.sync())?;
        self.hlogs.sync()?;
        self.checksums.file.sync()
    }
}

/// The verdict, with the sums of all files at the end of the run.
#[derive(Serialize)]
struct VerdictWithSums<'a> {
    #[serde(flatten)]
    verdict: &'a Verdict,
    files: Vec<FileSum>,
}

/// Checks, without leaving anything behind, that a run can start in `dir`. For use before a device is erased. Errors:
/// `dir` already holds a run, or a system call failed. [`RunWriter::create`] checks the free space.
pub fn check_usable(dir: &Path) -> Result<(), RunDirError> {
    refuse_occupied(dir)?;
    let new_dirs = files::create_dirs(dir)
        .map_err(|error| RunDirError::io("making the directory", dir, error))?;
    let written = files::check_dir_writable(dir)
        .map_err(|error| RunDirError::io("creating a file in", dir, error));
    new_dirs.remove();
    written
}

fn refuse_occupied(dir: &Path) -> Result<(), RunDirError> {
    match files_of_a_run(dir).next() {
        Some(found) => Err(RunDirError::Occupied {
            dir: dir.to_owned(),
            found: found.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Bytes of a bucket in ACT's log: ` (00: 0123456789)` and its share of newlines.
const ACT_BUCKET_BYTES: u64 = 18;
/// Bytes of a histogram's first line in ACT's log, without the histogram's name.
const ACT_TOTAL_BYTES: u64 = 20;
/// Bytes of a line of intervals.csv. Measured by `tests/size.rs`.
const CELL_LINE_BYTES: u64 = 60;
/// Bytes of a line of telemetry.csv without the caller's columns, and bytes of one of the caller's columns.
const TELEMETRY_LINE_BYTES: u64 = 75;
const TELEMETRY_COLUMN_BYTES: u64 = 12;
/// Bytes of trace.csv for each device and second: at most four lines in 30 s.
const TRACE_BYTES_PER_SEC: u64 = 4 * 200 / 30;
/// Bytes of a line of checksums.csv, and of the column of each log in ACT's format.
const CHECKSUMS_LINE_BYTES: u64 = 48;
const CHECKSUMS_LOG_BYTES: u64 = 13;
/// Bytes of manifest, headers and verdict: the verdict of a one-day run on eight devices has about 400 slices.
const FIXED_BYTES: u64 = 2_000_000;

/// Estimated number of non-empty buckets in a histogram of a whole run.
fn act_buckets(scale: ActScale) -> u64 {
    match scale {
        ActScale::Milliseconds => 4,
        ActScale::Microseconds => 12,
    }
}

/// Bytes that an interval log needs for one window of a cell. Measured by `tests/size.rs`.
fn window_bytes(kind: HlogKind) -> u64 {
    match kind {
        HlogKind::Service => 650,
        HlogKind::Wait => 150,
        HlogKind::Lag => 300,
    }
}

/// Rate, operations per second, that the size estimate assumes for a run that ends after a number of operations: every
/// drive is faster. A slower run needs more space, and fails with an error if the disk is full.
const OPERATIONS_PER_SEC_MIN: u64 = 1_000;

/// Upper bound of the recorded time of a run, seconds.
fn recorded_sec(manifest: &Manifest) -> u64 {
    let Some(operations) = manifest.operations else {
        return manifest.duration_sec;
    };
    operations
        .div_ceil(OPERATIONS_PER_SEC_MIN)
        .max(manifest.report_interval_sec)
        .min(manifest.duration_sec)
}

/// Estimates the size of a run directory, bytes: an upper bound for usual devices; with a very broad spread of
/// latencies the directory may take a third more. `telemetry_columns` is the number of the caller's columns.
pub fn space_needed_bytes(manifest: &Manifest, telemetry_columns: usize) -> u64 {
    let layout = &manifest.layout();
    let interval_sec = manifest.report_interval_sec.max(1);
    let duration_sec = recorded_sec(manifest);
    let intervals = duration_sec.div_ceil(interval_sec);
    let windows = intervals.div_ceil(window_intervals(interval_sec, manifest.round_sec));
    let cells = layout.cells() as u64;
    let scales = layout
        .streams
        .iter()
        .filter_map(|stream| stream.act)
        .map(|act| act_buckets(act.scale));
    let histogram_bytes = ACT_TOTAL_BYTES + scales.max().unwrap_or(0) * ACT_BUCKET_BYTES;
    let histogram = |name: String| name.len() as u64 + histogram_bytes;
    let names =
        (0..manifest.workloads.len()).flat_map(|workload| histogram_names(layout, workload));
    let chunk = ACT_TOTAL_BYTES + names.map(histogram).sum::<u64>();
    let telemetry = TELEMETRY_LINE_BYTES + telemetry_columns as u64 * TELEMETRY_COLUMN_BYTES;
    let window = HlogKind::ALL.into_iter().map(window_bytes).sum::<u64>();
    let checksums = CHECKSUMS_LINE_BYTES + manifest.workloads.len() as u64 * CHECKSUMS_LOG_BYTES;
    let per_interval = chunk + cells * CELL_LINE_BYTES + telemetry + checksums;
    let series = intervals
        .saturating_mul(per_interval)
        .saturating_add(windows.saturating_mul(cells * window));
    let trace = duration_sec.saturating_mul(manifest.devices.len() as u64 * TRACE_BYTES_PER_SEC);
    series.saturating_add(trace).saturating_add(FIXED_BYTES)
}

pub(super) fn check_space(dir: &Path, needed_bytes: u64) -> Result<(), RunDirError> {
    let free_bytes = free_bytes(dir)?;
    if free_bytes < needed_bytes {
        return Err(RunDirError::NoRoom {
            dir: dir.to_owned(),
            needed_bytes,
            free_bytes,
        });
    }
    Ok(())
}
