//! Reports from run directories and logs, and from nothing else: on any machine, years later.
//!
//! * [`latency`]: the tables of ACT's analysis script from logs, and the same as CSV, JSON, Markdown
//! * [`latencies`]: quantiles of each stream over the whole run, from the interval logs
//! * [`summary`]: verdict, latencies and what to know about the run, as text and as JSON

#![forbid(unsafe_code)]

pub mod latencies;
pub mod latency;
pub mod summary;
