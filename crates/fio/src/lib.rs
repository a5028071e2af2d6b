//! fio's jobs as loads: fio's command lines and job files, run by flashproof's run loop.
//!
//! ```text
//! command line, job files -> sections   text.rs, options.rs
//!                         -> jobs       jobs.rs by the table in table.rs; values: value.rs, parse.rs; job.rs;
//!                                       mistakes: contradictions.rs
//!                         -> runs       one FioLoad for all jobs up to a stonewall: workload.rs; clones: thread.rs;
//!                                       start delays after a stonewall: start_delay.rs
//!                            streams    areas, buffers, start times: lanes.rs; operations: stream.rs
//!                                       order, sizes and maps: offsets.rs, zones.rs, pattern.rs
//!                                       priorities: priority.rs; logs of operations: iolog.rs
//!                                       data of writes: content.rs; read back and compared: verify/
//!                                       depth: closed_loop.rs; early ends: early_end.rs, exit.rs
//!                                       statistics: progress.rs, samples.rs
//! ```
//!
//! A job with a rate is an open loop, limited by its depth. Each operation is due at its scheduled time, whatever
//! happened to earlier ones, so operations that fio would leave out during a stall count as waiting. A job without a
//! rate is a closed loop, as in fio. Each direction with a rate has its own lane, because fio holds each direction to
//! its own rate and lets the mix follow.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

mod closed_loop;
mod content;
mod contradictions;
mod counter;
mod directions;
mod early_end;
mod engine_kind;
mod exit;
mod files;
mod flush;
mod iolog;
mod job;
mod jobs;
mod lanes;
mod offsets;
pub mod options;
mod parse;
mod pattern;
mod priority;
mod progress;
mod rates;
mod samples;
mod start_delay;
mod stream;
mod table;
mod text;
mod thread;
mod value;
mod verify;
mod workload;
mod zones;

pub use counter::Counter;
pub use directions::{FLUSHES, KINDS, READS};
pub use early_end::{SteadyStateDetector, SteadyStateStatus};
pub use engine_kind::EngineKind;
pub use exit::ExitWhat;
pub use iolog::{Iolog, IssuedOps};
pub use job::{CommitParts, Job};
pub use jobs::jobs;
pub use pattern::Sizes;
pub use priority::LatenciesByPriority;
pub use progress::Progress;
pub use samples::{BINS, LogOptions, LogSample, Samples};
pub use start_delay::overtaking;
pub use stream::FioStream;
pub use text::{
    BYTES_MAX, CommandLine, GivenOption, JobSection, ParseContext, Problem, command_line, job_file,
};
pub use thread::JobClone;
pub use value::{BYTES, SECONDS, Size, number as parse_number};
pub use verify::counts::VerifyCounts;
pub use verify::damage::Damage;
pub use verify::formats::VerifyState;
pub use workload::{FioLoad, ReportEntry, runs};

use std::sync::{Mutex, MutexGuard, PoisonError};

const NS_PER_SEC: u64 = 1_000_000_000;

/// Locks `mutex`, even if a thread panicked while it held the lock: the value is consistent between any two statements.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod testing {
    use super::job::Job;
    use super::table::KNOWN;
    use super::text::ParseContext;

    pub(super) fn apply(job: &mut Job, name: &str, text: &str) -> Result<(), String> {
        let option = KNOWN.iter().find(|option| option.name == name).unwrap();
        option.apply(job, Some(text))
    }

    pub(super) fn job_with(given: &[(&str, &str)]) -> Job {
        let mut job = Job::default();
        for (name, text) in given {
            apply(&mut job, name, text).unwrap();
        }
        job
    }

    /// A machine with 4 CPUs, the device `/dev/sdb`, and `SIZE` in its environment.
    pub(super) fn around<'a>(read: &'a dyn Fn(&str) -> Result<String, String>) -> ParseContext<'a> {
        let variable: &dyn Fn(&str) -> Option<String> =
            &|name| (name == "SIZE").then(|| "64".to_owned());
        ParseContext {
            read,
            variable,
            is_device: &|path| path == "/dev/sdb",
            cpus: 4,
            page_bytes: 4096,
            memory_mbytes: 1_000,
            readonly: false,
        }
    }
}

#[cfg(test)]
mod tests;
