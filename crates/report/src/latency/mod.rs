//! Latency tables from ACT's logs: the share of operations over each threshold, slice by slice.
//!
//! ```text
//! log -> LogReader (header) -> Log (counts by slice) -> table | csv | json | markdown
//!                                                    -> sla: pass or fail
//! ```
//!
//! The one idea: a slice is the difference of two reports, so only the reports at the ends of slices are read from a
//! day's log. Counts stay whole numbers; each output format rounds on its own. The table is, to the byte, the output of
//! ACT's `act_latency.py`, except for the script's bugs, which `docs/act-differences.md` lists.
//!
//! * [`log`]: selection of histograms and buckets; the counts; errors
//! * [`table`] (also Markdown and CSV), [`json`]: output formats
//! * [`sla`]: judging; [`load`]: operations compared with the rates of the header; [`run`]: data of a run directory that its log lacks

pub mod json;
pub mod load;
pub mod log;
pub mod run;
pub mod sla;
pub mod table;

pub use log::{Histogram, LatencyError, Log, LogReader, Slice, TableOptions, common_slice_sec};

#[cfg(test)]
pub(crate) mod testing;
