//! What was measured, and what it means.
//!
//! This crate is pure: it takes times and counts, keeps them in histograms, writes and reads the
//! run directory, and judges. It never touches a device and never asks the clock.
//!
//! * [`times`]: the four instants of an operation and the durations between them
//! * [`cell`]: everything recorded of one stream on one device in one interval
//! * [`slow`]: where the time of slow operations went
//! * [`buckets`]: ACT's power-of-two buckets, and exact counts over thresholds
//! * [`act_log`]: ACT 6.6's log, written and read
//! * [`files`]: files of others read, files of ours written whole
//! * [`run_dir`]: the run directory, written and read
//! * [`judge`]: slices, shares over thresholds, the verdict
//! * [`steady`]: rounds, whether what is measured still changes, when it jumped
//! * [`percentile`]: which percentiles a number of operations can tell
//! * [`rating`]: the highest load that is held
//! * [`baseline`]: what a drive did under fio's jobs
//! * [`blame`]: where the time went in a slice over a threshold
//! * [`finding`]: what was found about host and devices, and what to do about it
//! * [`certify`]: the stages of a certification, and what may be said of it
//! * [`telemetry`]: the columns of telemetry.csv, declared once
//! * [`units`]: numbers as text
//! * [`waf`]: what write amplification an experiment found
//! * [`series`]: several runs with one purpose (a certification, a search for the highest rating)

#![forbid(unsafe_code)]

pub mod act_log;
pub mod baseline;
pub mod blame;
pub mod buckets;
pub mod cell;
pub mod certify;
pub mod counts;
pub mod files;
pub mod finding;
pub mod judge;
pub mod percentile;
pub mod rating;
pub mod run_dir;
pub mod series;
pub mod slow;
pub mod steady;
pub mod telemetry;
#[doc(hidden)]
pub mod testing;
pub mod times;
pub mod units;
pub mod waf;
