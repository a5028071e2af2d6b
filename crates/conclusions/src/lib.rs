//! Conclusions from runs: whether a drive is certified, good enough, slower than its peers.
//!
//! This crate is pure, like [`results`], which covers a single run: its numbers and its verdict.
//!
//! * [`percentile`]: percentiles that a number of operations can resolve
//! * [`series`]: several runs with one purpose (a certification, a search for the highest rating)
//! * [`certify`]: the stages of a certification, and its claims
//! * [`rating`]: the highest load that a drive holds
//! * [`baseline`]: measurements of a drive under fio's jobs
//! * [`check`]: is a disk good enough for a database
//! * [`durability`]: acknowledged writes after a power cut
//! * [`population`]: drives of one model compared: the slow ones, and the rating that most hold
//! * [`together`]: runs of several hosts at the same time, judged as one test
//! * [`rejudge`]: a finished series judged again from its runs
//! * [`waf`]: write amplification measured by an experiment

#![forbid(unsafe_code)]

pub mod baseline;
pub mod certify;
pub mod check;
pub mod durability;
pub mod percentile;
pub mod population;
pub mod rating;
pub mod rejudge;
pub mod series;
#[doc(hidden)]
pub mod testing;
pub mod together;
pub mod waf;
