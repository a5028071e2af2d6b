//! Loads for devices, and the run loop that issues them. A workload is a set of streams; one run loop paces them; the
//! engine is replaceable.
//!
//! [`prepare`], [`records`] and [`replay`] are workloads without a configuration of their own.

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
