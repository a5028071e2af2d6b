//! The record engine: its server, its client and its benchmark.

pub mod bench;
pub mod client;
mod formatting;
pub mod serve;
