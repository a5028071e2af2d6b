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
mod telemetry;

pub use accumulate::Blamer;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who or what made operations slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// This program issued late.
    OurLag,
    /// Operations waited for a slot under the limit of operations in flight.
    SlotWait,
    /// The kernel held requests before it issued them to the device (throttling, scheduler, tags).
    KernelQueue,
    /// The device took long, from issue to completion.
    Device,
    /// A server took long, or the network to it.
    Server,
    /// The host: stolen time, no CPU free, all interrupts on one CPU.
    Host,
    /// The drive throttled itself because it was hot.
    Heat,
    /// What was recorded does not tell.
    Unknown,
}

/// One cause with its part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlamePart {
    /// Who or what.
    pub cause: Cause,
    /// Its part of the time of the operations over the threshold, a fraction in [0, 1]: their times are
    /// added up, so that one that took long weighs as much as many that did not. One without times
    /// (failed, never issued) weighs as the mean of the others. `None` where there is evidence for the
    /// cause but no number.
    pub share: Option<f64>,
    /// The evidence with its numbers and units, a phrase.
    pub evidence: String,
}

/// The blame for one slice of one judged stream that was over one threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Blame {
    /// The stream.
    pub stream: String,
    /// The device; `None` for all together.
    pub device: Option<String>,
    /// The slice, from 1.
    pub slice: u64,
    /// The threshold whose limit was reached, nanoseconds.
    pub threshold_ns: u64,
    /// Operations over it, by `wait + service`; by `wait + lag + service` where only that is over the
    /// limit.
    pub over: u64,
    /// Operations wanted.
    pub wanted: u64,
    /// Causes, the largest part first, those without a number last; never empty.
    pub parts: Vec<BlamePart>,
    /// All of it in one sentence, for a verdict.
    pub sentence: String,
}

#[cfg(test)]
mod tests;
