//! Slow drives in simulated populations: recall, precision, false alarms, and input that is not as it should be.

mod evaluation;
mod generator;
mod robustness;
