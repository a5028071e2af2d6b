//! The commands, one file each.

pub mod latency;
pub mod prep;
pub mod report;
pub mod test;
