//! Reports from run directories.
#![forbid(unsafe_code)]
