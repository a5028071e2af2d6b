//! Procedures on drives: each takes a request to its result, with several runs or none. Requests that consist of
//! options only define their names and help ([`clap::Args`]).
//!
//! * [`configuration`]: reads configurations
//! * [`prep`]: writes whole drives, and reads a sample back
//! * [`series`]: dependent runs in one directory: certification, rating, baseline
//! * [`predict`]: the rating of a drive from its baseline
//! * [`waf`]: write amplification, modelled and measured; how a drive handles placement
//! * [`align`]: adjusts a configuration until a drive receives the I/O that a cluster's drive received
//! * [`cross_check`]: the same jobs by fio, and both results
//! * [`fio`]: fio's jobs as runs
//! * [`check`]: is a disk good enough for a database
//! * [`formatting`]: formats devices for a record store
//! * [`select`]: number of drives of each candidate that a cluster needs

#![forbid(unsafe_code)]

pub mod align;
pub mod check;
pub mod configuration;
pub mod cross_check;
pub mod durability;
pub mod fio;
pub mod formatting;
pub mod predict;
pub mod prep;
pub mod select;
pub mod series;
pub mod waf;
