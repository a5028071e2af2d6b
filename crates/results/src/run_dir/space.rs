//! How much room a run needs, and how much there is.

use super::hlog::{HlogKind, window_intervals};
use super::{Manifest, RunDirError};
use crate::act_log::histogram_names;
use crate::buckets::ActScale;
use std::path::Path;

/// Bytes of one bucket in ACT's log, ` (00: 0123456789)` and its share of line ends.
const ACT_BUCKET_BYTES: u64 = 18;
/// Bytes of a histogram's first line beside its name.
const ACT_TOTAL_BYTES: u64 = 20;
/// Bytes of one line of intervals.csv. Measured by `tests/size.rs`.
const CELL_LINE_BYTES: u64 = 60;
/// Bytes of one line of telemetry.csv without the caller's columns, and of one of those.
const TELEMETRY_LINE_BYTES: u64 = 75;
const TELEMETRY_COLUMN_BYTES: u64 = 12;
/// Bytes that trace.csv takes for each device and second: at most four lines in 30 s.
const TRACE_BYTES_PER_SEC: u64 = 4 * 200 / 30;
/// Bytes of one line of checksums.csv, and of each log in ACT's format in it.
const CHECKSUMS_LINE_BYTES: u64 = 48;
const CHECKSUMS_LOG_BYTES: u64 = 13;
/// Manifest, headers, verdict: the verdict of a day for eight devices has some 400 slices.
const FIXED_BYTES: u64 = 2_000_000;

/// Buckets that are not empty in a histogram of a whole run.
fn act_buckets(scale: ActScale) -> u64 {
    match scale {
        ActScale::Milliseconds => 4,
        ActScale::Microseconds => 12,
    }
}

/// Bytes of one window of one cell in an interval log. Measured by `tests/size.rs`.
fn window_bytes(kind: HlogKind) -> u64 {
    match kind {
        HlogKind::Service => 650,
        HlogKind::Wait => 150,
        HlogKind::Lag => 300,
    }
}

/// About how many bytes the run directory of a run will take.
///
/// Shape: an estimate from above for the devices that runs are made on; a device with a very broad
/// spread of latencies may take a third more. `telemetry_columns` is how many the caller adds.
pub fn space_needed_bytes(manifest: &Manifest, telemetry_columns: usize) -> u64 {
    let (layout, interval_sec) = (&manifest.layout(), manifest.report_interval_sec.max(1));
    let intervals = manifest.duration_sec.div_ceil(interval_sec);
    let windows = intervals.div_ceil(window_intervals(interval_sec, manifest.round_sec));
    let cells = layout.cells() as u64;
    let scales = layout.streams.iter().filter_map(|stream| stream.act).map(|act| act_buckets(act.scale));
    let histogram_bytes = ACT_TOTAL_BYTES + scales.max().unwrap_or(0) * ACT_BUCKET_BYTES;
    let histogram = |name: String| name.len() as u64 + histogram_bytes;
    let names = (0..manifest.workloads.len()).flat_map(|workload| histogram_names(layout, workload));
    let chunk = ACT_TOTAL_BYTES + names.map(histogram).sum::<u64>();
    let telemetry = TELEMETRY_LINE_BYTES + telemetry_columns as u64 * TELEMETRY_COLUMN_BYTES;
    let window = HlogKind::ALL.into_iter().map(window_bytes).sum::<u64>();
    let checksums = CHECKSUMS_LINE_BYTES + manifest.workloads.len() as u64 * CHECKSUMS_LOG_BYTES;
    let per_interval = chunk + cells * CELL_LINE_BYTES + telemetry + checksums;
    let series = intervals.saturating_mul(per_interval).saturating_add(windows.saturating_mul(cells * window));
    let trace = manifest.duration_sec.saturating_mul(manifest.devices.len() as u64 * TRACE_BYTES_PER_SEC);
    series.saturating_add(trace).saturating_add(FIXED_BYTES)
}

/// Bytes that this user may still write on the file system of `path`.
pub(super) fn free_bytes(path: &Path) -> Result<u64, RunDirError> {
    let stat = rustix::fs::statvfs(path);
    let stat = stat.map_err(|error| RunDirError::io("asking for the free space of", path, error.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Refuses a directory without room for the whole run.
pub(super) fn check(dir: &Path, needed_bytes: u64) -> Result<(), RunDirError> {
    let free_bytes = free_bytes(dir)?;
    if free_bytes < needed_bytes {
        return Err(RunDirError::NoRoom { dir: dir.to_owned(), needed_bytes, free_bytes });
    }
    Ok(())
}
