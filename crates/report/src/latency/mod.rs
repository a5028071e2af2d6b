//! Latency tables from ACT's logs: the share of operations over each threshold, slice by slice.
//!
//! ```text
//! log -> Source (header) -> Log (counts by slice) -> table | csv | json | markdown
//!                                                 -> sla: pass or fail
//! ```
//!
//! The one idea: a slice is the difference of two reports, so only the reports at the ends of slices are read from a
//! day's log. Counts stay whole numbers; each form rounds on its own. The table is, to the byte, the output of ACT's
//! `act_latency.py`, except for the script's bugs, which `docs/act-differences.md` lists.
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
