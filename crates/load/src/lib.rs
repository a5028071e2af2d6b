//! What load to put on a device, and the loop that puts it there.
//!
//! ```text
//! a workload is a set of streams;  one run loop paces them;  the engine is replaceable
//! ```
//!
//! * [`workload`]: the seam between a configuration of any kind and the run loop; a folder for each kind
//! * [`baseline`]: which of fio's jobs a baseline of a drive takes next
//! * [`choice`], [`factor`]: words that configurations share, and multiples of a load
//! * [`keys`]: which record is the next, by its popularity
//! * [`rate`], [`schedule`]: exact rates, and the instants that follow from them
//! * [`stream`], [`sizes`]: where operations come from, and sizes of any distribution
//! * [`plan`]: lanes, limits and buffers: what one shard runs
//! * [`run`]: the run loop
//! * [`memory`]: whether there is enough of it
//! * [`waf`]: tenants on drives with an FTL inside, without time

#![forbid(unsafe_code)]

pub mod baseline;
pub mod choice;
pub mod factor;
pub mod keys;
pub mod memory;
pub mod plan;
pub mod rate;
pub mod run;
pub mod schedule;
pub mod sizes;
pub mod stream;
pub mod waf;
pub mod workload;
