//! Work on drives that takes more than one run, or none: each procedure from a request of plain values to its result.
//!
//! * [`configuration`]: reads what the run of a procedure, or of a command, is to be
//! * [`prep`]: writes drives from end to end, and reads a sample back
//! * [`series`]: runs of which one follows from the other, kept in a directory: certification, rating, baseline
//! * [`predict`]: the rating of a drive from its baseline
//! * [`waf`]: write amplification, modelled and measured, and what a drive does with placement handles
//! * [`align`]: a configuration adjusted until a drive receives what a cluster's drive received
//! * [`select`]: how many drives of each candidate a cluster needs

#![forbid(unsafe_code)]

pub mod align;
pub mod configuration;
pub mod predict;
pub mod prep;
pub mod select;
pub mod series;
pub mod waf;
