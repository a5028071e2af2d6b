//! Slow drives in simulated populations: recall, precision, false alarms, and unusual or invalid input.

#![allow(clippy::disallowed_methods, reason = "tests make files of their own")]

mod batch;
mod evaluation;
mod generator;
mod robustness;
