//! Procedures on drives. Each procedure turns a request into a result, by several runs or none. A request that consists
//! only of options also defines the names and the help of these options ([`clap::Args`]).
//!
//! * [`configuration`]: reads configurations
//! * [`prep`]: writes whole drives, and reads a sample back
//! * [`series`]: dependent runs in one directory; [`certify`], [`rate`] and [`baseline`] are series
//! * [`predict`]: the rating of a drive from its baseline
//! * [`waf`]: write amplification, modelled and measured
//! * [`align`]: adjusts a configuration until a drive receives the I/O that a cluster's drive received
//! * [`fio`]: fio's jobs as runs
//! * [`check`]: is a disk good enough for a database
//! * [`durability`]: does acknowledged data survive a power cut
//! * [`formatting`]: formats devices for a record store
//! * [`select`]: number of drives of each candidate that a cluster needs

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

pub mod align;
pub mod baseline;
pub mod certify;
pub mod check;
pub mod configuration;
pub mod durability;
pub mod fio;
pub mod formatting;
pub mod predict;
pub mod prep;
pub mod rate;
pub mod select;
pub mod series;
pub mod waf;
