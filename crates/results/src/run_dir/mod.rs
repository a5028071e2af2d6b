//! The run directory: everything that a run leaves behind, written and read.
//!
//! ```text
//! manifest.json   what was run, on what, by whom         written first, whole or not at all
//! intervals.csv   exact counts by interval, stream, device
//! telemetry.csv   one line an interval; it closes the interval
//! act.log         service times as ACT 6.6 logs them
//! service.hlog    HdrHistogram interval logs, at least every 10 s
//! wait.hlog
//! lag.hlog
//! trace.csv       samples of the block layer, where it could be traced
//! checksums.csv   how long each file was at each report, and its checksum
//! verdict.json    the verdict, and the same of all files  written last, whole or not at all
//! ```
//!
//! A run without `verdict.json` is incomplete, and readers say so. Between the first file and the last one everything
//! is appended in whole lines, so whatever stops the run (a signal, a full disk, a power cut) leaves a readable
//! directory, less its last interval. The verdict can be computed again from the manifest and the two tables; a reader
//! does so and compares.
//!
//! Written off the issuing threads by one [`Writer`]. `docs/run-directory.md` explains the columns, [`crate::judge`]
//! the verdict.

mod checksums;
mod error;
mod file;
mod hlog;
mod manifest;
mod place;
mod read;
mod tables;
mod trace;
mod write;

pub use error::RunDirError;
pub use file::HlogKind;
pub(crate) use file::{read as read_json, write as write_json};
pub use hlog::{Bucket, Window, WindowBuckets, each_buckets, each_window, last_windows};
pub use manifest::{ActLogHead, Config, DeviceKind, Manifest, NAMESPACE, Process, WorkloadRecord, time_left};
pub use place::{Holds, holds, is_run_dir, run_dirs_below};
pub use read::{EachInterval, IntervalRecord, Intervals, Run, blame, manifest, read, read_each};
pub use trace::{Samples, TraceWriter, read_trace};
pub use write::{Writer, check_usable, space_needed_bytes};

/// Version of the formats in a run directory. Readers read all versions up to theirs; it grows when a column or a field
/// changes its meaning, not when one is added. Version 2: separate counts for operations wanted in an earlier slice,
/// for lost ones and for those not back in time.
pub const FORMAT_VERSION: u32 = 2;

/// Setup of the run.
pub const MANIFEST: &str = "manifest.json";
/// Exact counts by interval, stream and device.
pub const INTERVALS: &str = "intervals.csv";
/// One line per interval.
pub const TELEMETRY: &str = "telemetry.csv";
/// Samples of the block layer.
pub const TRACE: &str = "trace.csv";
pub const ACT_LOG: &str = "act.log";
/// Length and checksum of each file at each report.
pub const CHECKSUMS: &str = "checksums.csv";
pub const VERDICT: &str = "verdict.json";
/// The file in the directory of a series of runs.
pub const SERIES: &str = "series.json";

#[cfg(test)]
mod tests;
