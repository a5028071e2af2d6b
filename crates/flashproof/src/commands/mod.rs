//! The commands, one file each.

pub mod prep;
pub mod report;
pub mod storage;
