//! Reports from run directories and logs, and from nothing else: on any machine, years later.
//!
//! * [`comparison`]: candidates side by side, and among published ratings
//! * [`latency`]: the tables of ACT's analysis script from logs, and the same as CSV, JSON, Markdown
//! * [`latencies`]: quantiles of each stream over the whole run, from the interval logs
//! * [`status`]: how a run or a series stands, while it goes on too
//! * [`summary`]: verdict, latencies and what to know about the run, as text and as JSON

#![forbid(unsafe_code)]

pub mod comparison;
pub mod latencies;
pub mod latency;
pub mod status;
pub mod summary;
