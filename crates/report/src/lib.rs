//! Reports from run directories, and from nothing else: on any machine, years later.
//!
//! * [`latencies`]: quantiles of each stream over the whole run, from the interval logs
//! * [`summary`]: verdict, latencies and what to know about the run, as text and as JSON

#![forbid(unsafe_code)]

pub mod latencies;
pub mod summary;
