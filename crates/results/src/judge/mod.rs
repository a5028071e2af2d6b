//! Judges a run: slices, shares over thresholds, the verdict.
//!
//! ```text
//! Interval --IntervalCounts--> Judge (slices of counts) --End--> Verdict
//!              ^
//! run directory read back
//! ```
//!
//! A run is cut into slices of equal length (an hour). For each slice, judged stream and threshold, the judge computes
//! the share of operations over the threshold: on each device, and on all devices together. The same is done for
//! windows from the middle of a slice to the middle of the next. The worst share decides. Shares are compared as pairs
//! of whole numbers, without rounding.
//!
//! Shares represent the load only if the whole load was carried out: see `load`.
//!
//! The judge takes one interval at a time and stores only counts, so its memory grows with the slices only. A live run
//! and its run directory give the same counts, and therefore the same verdict.
//!
//! The steady state of a device is not judged here.

mod backlog;
mod decide;
mod growth;
mod headline;
mod load;
mod slices;
mod text;
mod verdict;

pub use crate::sla::{Limit, Sla, StreamLimits};
pub use headline::{HEADLINE_CHARS_MAX, Headline, LESS_BUSY, LOOK_AT_DRIVE, brief};
pub use load::{Shortfall, shortfall};
pub(crate) use slices::GroupCounts;
pub use slices::{
    IntervalCounts, Judge, JudgePlan, TestedObject, round_sec, stretched_slice, whole_slice_sec,
    window_step_sec,
};
pub use text::RunResult;
pub(crate) use text::between_text;
pub use verdict::{
    Blame, BlamePart, Cause, DelayOwner, End, GapSummary, GroupShares, Insufficient, Outcome,
    Reason, ReasonCode, RecordsRead, Refused, SLICE_OPS_MIN, SliceShares, StreamTotals, UnmetLoad,
    VERDICT_FORMAT_VERSION, Verdict, VerdictClass, WorkloadVerdict, WorstShare,
};

#[cfg(test)]
mod tests;
