//! The run directory, written and read.
