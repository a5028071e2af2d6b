//! The commands, one file each.

pub mod config;
pub mod latency;
pub mod report;
pub mod test;
