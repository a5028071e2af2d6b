//! The inside of an SSD: a flash translation layer, and what it makes of the writes of a host.
//!
//! ```text
//! host writes units of the logical space -> mapping -> append points (one a handle) -> superblocks
//!                                                 garbage collection: victim -> its valid units -> append point
//! ```
//!
//! Pure and deterministic: no clock, no device; all chance comes from a seed. What it counts has the names of
//! NVMe's FDP statistics.

#![forbid(unsafe_code)]

mod counters;
mod spec;

pub use counters::Counters;
pub use spec::{Append, Isolation, Spec, Victim};
