//! Measurements and their meaning.
//!
//! This crate is pure: it takes times and counts, keeps them in histograms, writes and reads the
//! run directory, and judges. It never touches a device and never asks the clock.
//!
//! * [`times`]: the four instants of an operation and the durations between them
//! * [`counts`]: the exact counts of a cell, and where the time of slow operations went
//! * [`cell`]: everything recorded of one stream on one device in one interval
//! * [`buckets`]: ACT's power-of-two buckets, and exact counts over thresholds
//! * [`act_log`]: ACT 6.6's log, written and read
//! * [`files`]: files of others read, files of ours written whole
//! * [`run_dir`]: the run directory, written and read
//! * [`sla`]: limits of latencies and rates
//! * [`judge`]: slices, shares over thresholds, the verdict
//! * [`steady`]: rounds, steady state of the metrics, change points
//! * [`population`]: drives of one model compared: the slow ones, and the rating that most hold
//! * [`percentile`]: percentiles that a number of operations can resolve
//! * [`rating`]: the highest load that a drive holds
//! * [`baseline`]: measurements of a drive under fio's jobs
//! * [`blame`]: causes of slow operations in a slice over a threshold
//! * [`finding`]: findings about host and devices, and their remedies
//! * [`certify`]: the stages of a certification, and its claims
//! * [`check`]: is a disk good enough for a database
//! * [`rejudge`]: a finished series judged again from its runs
//! * [`telemetry`]: the columns of telemetry.csv, declared once; samples of the block layer
//! * [`units`]: numbers as text
//! * [`waf`]: write amplification measured by an experiment
//! * [`together`]: runs of several hosts at the same time, judged as one test
//! * [`series`]: several runs with one purpose (a certification, a search for the highest rating)

#![forbid(unsafe_code)]

pub mod act_log;
pub mod baseline;
pub mod blame;
pub mod buckets;
pub mod cell;
pub mod certify;
pub mod check;
pub mod counts;
pub mod durability;
pub mod files;
pub mod finding;
pub mod judge;
pub mod percentile;
pub mod population;
pub mod rating;
pub mod rejudge;
pub mod run_dir;
pub mod series;
pub mod sla;
pub mod steady;
pub mod telemetry;
#[doc(hidden)]
pub mod testing;
pub mod times;
pub mod together;
pub mod units;
pub mod waf;
