//! One test from its workload to its recorded verdict, and what every command needs around it: devices opened by the
//! guard's consent, an engine, signals, messages and progress on standard error, output files, exit codes.

#![forbid(unsafe_code)]

pub mod console;
pub mod devices;
pub mod engine;
pub mod failure;
pub mod in_process;
pub mod input;
pub mod leave;
pub mod output_file;
pub mod place;
pub mod placement;
pub mod progress;
pub mod record;
pub mod recording;
pub mod runner;
pub mod screen;
pub mod signals;
mod stderr;
pub mod tracing;

/// As whose program a command behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Ours: verdicts and results on standard output, exit codes 0 to 4.
    Own,
    /// As ACT's program by whose name it was called: its log or its lines on standard output, its
    /// exit codes, of which there are two.
    Act,
    /// As fio, by whose name it was called: what it prints, and 0 or 1.
    Fio,
}
