//! Latency tables from ACT's logs: the share of operations over each threshold, slice by slice.
//!
//! ```text
//! log -> results::sliced_log (counts by slice) -> table | csv | json | markdown
//!                                              -> sla: pass or fail
//! ```
//!
//! Counts are whole numbers; each output format rounds on its own. The table is, to the byte, the output of ACT's
//! `act_latency.py`, except for the script's bugs, which `docs/act-differences.md` lists.

pub mod json;
pub mod run;
pub mod sla;
pub mod table;
