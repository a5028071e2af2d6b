//! Latency tables from ACT's logs: which share of operations took longer than what, slice by slice.
//!
//! ```text
//! log -> Source (header) -> Log (counts by slice) -> table | csv | json | markdown
//!                                                 -> sla: pass or fail
//! ```
//!
//! The one idea: a slice is the difference of two reports, so of a day's log only the reports at the
//! ends of slices are read. Counts stay whole numbers; each form rounds for itself. The table is, to
//! the byte, what ACT's `act_latency.py` prints; where that script is wrong this module is not, and
//! `docs/act-differences.md` lists the cases.
//!
//! * [`log`]: what to show, the counts, or why there are none
//! * [`table`] (also Markdown and CSV), [`json`]: the forms; [`sla`]: judging; [`run`]: what only a run
//!   directory knows

pub mod json;
pub mod log;
pub mod run;
pub mod sla;
pub mod table;

pub use log::{Choice, Histogram, LatencyError, Log, Slice, Source, common_slice_sec};

#[cfg(test)]
pub(crate) mod testing;
