//! The commands, one file each.

pub mod report;
pub mod test;
