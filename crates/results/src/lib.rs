//! Measurements of a run, and their meaning.
//!
//! This crate is pure: it takes times and counts, stores them in histograms, writes and reads run directories, and
//! judges runs. The crate never touches a device and never reads a clock.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

pub mod act_log;
pub mod blame;
pub mod buckets;
pub mod bytes_written;
pub mod cell;
pub mod counts;
pub mod device_numbers;
pub mod files;
pub mod finding;
pub mod format;
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
pub mod waf;
