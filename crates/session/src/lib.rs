//! Runs a test from its workload to its recorded verdict. This crate also has the parts that every command needs:
//! devices opened with the guard's consent, an engine, signals, messages and progress on standard error, output files,
//! exit codes.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

pub mod clock;
pub mod console;
pub mod devices;
pub mod engine;
pub mod failure;
pub mod in_process;
pub mod metrics;
pub mod placement;
pub mod progress;
pub mod recording;
pub mod run_directory;
pub mod runner;
mod scrape;
pub mod signals;
pub mod sleep;
mod stderr;
pub mod tracing;
pub mod user_file;

/// Program whose output and exit codes a command imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompatMode {
    /// flashproof: verdicts and results on standard output, exit codes 0 to 4.
    Native,
    /// ACT, if called by the name of an ACT program: ACT's log or lines on standard output, ACT's two exit codes.
    Act,
    /// fio, if called by that name: fio's output, and exit code 0 or 1.
    Fio,
}
