//! Slices, shares over thresholds, the verdict.
//!
//! ```text
//! Interval --IntervalCounts--> Judge (slices of counts) --End--> Verdict
//!              ^
//! run directory read back
//! ```
//!
//! A run is cut into slices of equal length (an hour). Each slice gets the share of a judged stream's operations that
//! took longer than a threshold, for every device and for all of them together; the worst of all these shares decides.
//! Nothing is rounded on the way: shares stay pairs of whole numbers until they are printed.
//!
//! The shares stand for the whole load only if all of it was carried out: see `load`.
//!
//! The judge takes one interval at a time and stores only counts, so memory depends on the number of slices only. A
//! live run and a run directory use the same counts, so both give the same verdict.
//!
//! * [`Sla`]: the limits; [`IntervalCounts`]: the counts of an interval that the judge uses
//! * [`Judge`]: the accumulator; [`End`]: how the run ended; [`Verdict`]: all that follows, and its text
//! * [`RunResult`]: the summary of a verdict that every output format shows
//!
//! The steady state of a device is not judged here.

mod decide;
mod load;
mod slices;
mod text;
mod verdict;

pub use crate::sla::{Limit, Sla, StreamLimits};
pub use load::{Shortfall, shortfall};
pub(crate) use slices::GroupCounts;
pub use slices::{IntervalCounts, Judge, JudgePlan, Tested, round_sec, stretched_slice, whole_slice_sec};
pub use text::RunResult;
pub use verdict::{
    Blame, BlamePart, Cause, Class, Code, Deciding, End, GapSummary, Group, Insufficient, Outcome, Reason, RecordsRead,
    Refused, SLICE_OPS_MIN, SliceShares, StreamTotals, Undone, VERDICT_FORMAT_VERSION, Verdict, Whose, WorkloadVerdict,
};

#[cfg(test)]
mod tests;
