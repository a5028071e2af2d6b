//! Breakdown of the time of slow operations in a slice over a threshold.
//!
//! ```text
//! IntervalCounts (what slow operations spent their time on) ---+
//! telemetry (CPU, interrupts, temperature, diskstats) ---------+--> Blamer --> Blame for each slice
//! trace.csv (kernel queue and device, in samples) -------------+      ^
//!                                                              Judge: which slices were over
//! ```
//!
//! Blame is an estimate of causes, not a measurement. It combines the run's own times (wait, lag, service), samples of
//! the kernel's tracepoints, and telemetry of host and drive. It explains an outcome and never changes one.
//!
//! The one idea: parts with a share are measured, those without are circumstances. The run's own clock gives the exact
//! share of time at each stage for the operations over the threshold. Only the split between kernel and device needs a
//! trace or the kernel's disk statistics; without both the message says so. Steal, a full CPU or heat have no share of
//! their own: they are why one of the others is large.

mod accumulate;
mod explain;
mod samples;
mod service;
mod subject;

pub use crate::judge::{Blame, BlamePart, Cause};
pub use accumulate::Blamer;

#[cfg(test)]
mod tests;
