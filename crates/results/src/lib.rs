//! Measurements of a run, and their meaning.
//!
//! This crate is pure: it takes times and counts, stores them in histograms, writes and reads run directories, and
//! judges runs. The crate never touches a device and never reads a clock.
//!
//! * [`times`]: the four instants of an operation, and the durations between them
//! * [`counts`]: the exact counts of a cell, and the time of slow operations by stage
//! * [`cell`]: everything recorded of one stream on one device in one interval
//! * [`buckets`]: ACT's power-of-two buckets, and exact counts over thresholds
//! * [`act_log`]: ACT 6.6's log, written and read
//! * [`sliced_log`]: the counts of ACT's log by slice
//! * [`files`]: reading of files given by users, and atomic replacement of this program's files
//! * [`parallel`]: work on several objects at the same time
//! * [`run_dir`]: the run directory, written and read
//! * [`sla`]: limits of latencies and rates
//! * [`judge`]: slices, shares over thresholds, the verdict
//! * [`steady`]: rounds, steady state of the metrics, change points
//! * [`blame`]: causes of slow operations in a slice over a limit
//! * [`device_numbers`]: the numbers of each device in a run on several devices
//! * [`finding`]: findings about host and devices, and their remedies
//! * [`telemetry`]: the columns of telemetry.csv, declared once; samples of the block layer
//! * [`waf`]: write amplification measured by an experiment
//! * [`written`]: bytes that a drive has written, by its own counters
//! * [`units`]: numbers as text

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

pub mod act_log;
pub mod blame;
pub mod buckets;
pub mod cell;
pub mod counts;
pub mod device_numbers;
pub mod files;
pub mod finding;
pub mod judge;
pub mod parallel;
pub mod run_dir;
pub mod sla;
pub mod sliced_log;
pub mod steady;
pub mod telemetry;
#[doc(hidden)]
pub mod testing;
pub mod times;
pub mod units;
pub mod waf;
pub mod written;
