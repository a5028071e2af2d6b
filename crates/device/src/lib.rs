//! Drives: discovery, guard and observation.
//!
//! * [`discover`]: facts about devices; [`guard`]: consent to erasure; [`target`]: an open device; [`nvme_generic`]: the
//!   NVMe character device of an open device
//! * [`doctor`]: properties of host and devices that distort results
//! * [`observe`]: diskstats, block tracepoints, host facts
//!
//! Simulated drives belong to the crate `engine`.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

pub mod discover;
pub mod doctor;
#[cfg(test)]
mod fake_tree;
pub mod guard;
pub mod nvme_generic;
pub mod observe;
pub mod target;
