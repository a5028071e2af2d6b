//! What load to put on a device, and the loop that puts it there.
//!
//! ```text
//! a workload is a set of streams;  one run loop paces them;  the engine is replaceable
//! ```
//!
//! * [`act`]: ACT's configuration dialect: the option table, parsing, checking, derived rates
//! * [`rate`], [`schedule`]: exact rates, and the instants that follow from them
//! * [`stream`], [`sizes`]: where operations come from, and sizes of any distribution
//! * [`prep`]: a device written from end to end, and samples of it compared
//! * [`plan`]: lanes, limits and buffers: what one shard runs
//! * [`run`]: the run loop

#![forbid(unsafe_code)]

pub mod act;
pub mod plan;
pub mod prep;
pub mod rate;
pub mod run;
pub mod schedule;
pub mod sizes;
pub mod stream;
