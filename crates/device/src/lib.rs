//! Drives: discovery, guard and observation.
//!
//! * [`discover`]: facts about devices; [`guard`]: consent to erasure; [`target`]: an open device; [`generic`]: the
//!   character device beside it
//! * [`doctor`]: properties of host and devices that spoil a result
//! * [`salt`]: the written data
//! * [`observe`]: diskstats, block tracepoints, host facts
//!
//! Simulated drives belong to the crate `engine`.

#![forbid(unsafe_code)]

pub mod discover;
pub mod doctor;
#[cfg(test)]
mod fake_tree;
pub mod generic;
pub mod guard;
pub mod observe;
pub mod target;
