//! Loads for devices, and the run loop that issues them.
//!
//! ```text
//! a workload is a set of streams;  one run loop paces them;  the engine is replaceable
//! ```
//!
//! * [`workload`]: the interface between a configuration of any kind and the run loop
//! * [`prepare`], [`records`], [`replay`]: workloads without a configuration of their own
//! * [`choice`]: words that configurations share; [`factor`]: multiples of a load
//! * [`keys`]: choice of the next record, by popularity
//! * [`rate`]: exact rates; [`schedule`]: the instants that follow from rates
//! * [`stream`]: sources of operations; [`sizes`]: sizes of any distribution
//! * [`plan`]: lanes, limits and buffers: the input of one shard
//! * [`run`]: the run loop
//! * [`model_job`]: a job on a simulated drive, without the run loop
//! * [`memory`]: check for enough free memory

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

pub mod choice;
pub mod factor;
pub mod keys;
pub mod memory;
pub mod model_job;
pub mod plan;
pub mod prepare;
pub mod rate;
pub mod records;
pub mod replay;
pub mod run;
pub mod schedule;
pub mod sizes;
pub mod stream;
pub mod testing;
pub mod workload;
