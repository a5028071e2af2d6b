//! fio's jobs as loads: fio's command lines and job files, run by flashproof's run loop.
//!
//! ```text
//! command line, job files -> sections   text.rs
//!                         -> jobs       job.rs, set.rs by the table in options.rs, values by value.rs, parse.rs
//!                         -> runs       one FioLoad for all jobs up to a stonewall: workload.rs; clones: thread.rs
//!                            streams    areas, buffers, start times: lanes.rs; operations: stream.rs
//!                                       order, sizes and maps: offsets.rs, pattern.rs
//!                                       priorities: priority.rs; logs of operations: iolog.rs
//!                                       data of writes: content.rs; read back and compared: verify/
//!                                       depth: closed_loop.rs; early ends: early_end.rs; statistics: thread.rs, samples.rs
//! ```
//!
//! A job with a rate is an open loop, limited by its depth. Each operation is due at its scheduled time, whatever
//! happened to earlier ones, so operations that fio would leave out during a stall count as waiting. A job without a
//! rate is a closed loop, as in fio. Each direction with a rate has its own lane, because fio holds each direction to
//! its own rate and lets the mix follow. Without rates, one lane mixes the directions.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

mod offsets;
mod closed_loop;
mod content;
mod early_end;
mod iolog;
mod job;
mod lanes;
pub mod options;
mod parse;
mod pattern;
mod priority;
mod samples;
mod set;
mod stream;
mod text;
mod thread;
mod value;
mod verify;
mod workload;

pub use early_end::{SteadyStateDetector, SteadyStateStatus};
pub use iolog::{Iolog, IssuedOps};
pub use job::{CommitParts, ExitWhat, FLUSHES, Job, KINDS, READS, jobs};
pub use pattern::Sizes;
pub use priority::LatenciesByPriority;
pub use samples::{BINS, Sample, Samples};
pub use stream::FioStream;
pub use text::{
    BYTES_MAX, CommandLine, GivenOption, ParseContext, Problem, Section, command_line, job_file,
};
pub use thread::{Counter, JobClone, Progress};
pub use value::{BYTES, SECONDS, Size, number as parse_number};
pub use verify::{Damage, State as VerifyState, VerifyCounts};
pub use workload::{FioLoad, ReportEntry, runs};

use std::sync::{Mutex, MutexGuard, PoisonError};

const NS_PER_SEC: u64 = 1_000_000_000;

/// Locks `mutex`, even if a thread panicked while it held the lock: the value is consistent between any two statements.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod testing {
    use super::text::ParseContext;

    /// A machine with 4 CPUs and `SIZE` in its environment.
    pub(super) fn around<'a>(read: &'a dyn Fn(&str) -> Result<String, String>) -> ParseContext<'a> {
        let variable: &dyn Fn(&str) -> Option<String> =
            &|name| (name == "SIZE").then(|| "64".to_owned());
        ParseContext {
            read,
            variable,
            cpus: 4,
            page_bytes: 4096,
            memory_mbytes: 1_000,
            readonly: false,
        }
    }
}

#[cfg(test)]
mod tests;
