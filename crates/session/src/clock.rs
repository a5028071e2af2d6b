//! The wall clock, and seeds derived from it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub fn now_unix_ms() -> u64 {
    since_1970().as_millis() as u64
}

/// Seed for a run without a configured seed; recorded in the manifest. Below 2^53, so exact in every JSON reader.
pub fn fresh_seed() -> u64 {
    since_1970().as_nanos() as u64 & ((1 << 53) - 1)
}

/// Time since 1970. Zero if the clock shows an earlier time, so that a test can still run.
fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
