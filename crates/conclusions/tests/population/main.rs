//! Slow drives in simulated populations: recall, precision, false alarms, and unusual or invalid input.

mod evaluation;
mod generator;
mod robustness;
