//! The commands, one file each.

pub mod config;
pub mod report;
pub mod storage;
