//! Reports from run directories and logs, and from nothing else: on any machine, years later.
//!
//! * [`document`]: all that is known of runs and series of runs, as one document; as HTML, Markdown,
//!   JSON and text
//! * [`charts`]: what is drawn, as data
//! * [`latency`]: the tables of ACT's analysis script from logs, and the same as CSV, JSON, Markdown
//! * [`latencies`]: quantiles of each stream over the whole run, from the interval logs
//! * [`summary`]: verdict and latencies of a run that just ended, as text

#![forbid(unsafe_code)]

pub mod charts;
pub mod document;
mod html;
pub mod latencies;
pub mod latency;
mod markdown;
mod method;
pub mod summary;
mod text;
mod words;
