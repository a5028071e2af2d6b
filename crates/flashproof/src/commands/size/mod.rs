//! The steps from a live cluster to the drives that it needs.

pub mod align;
pub mod collect;
pub mod config;
pub mod profile;
pub mod select;
