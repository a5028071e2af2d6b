//! The system calls that no safe library wraps, each behind a safe function; and what an operation is,
//! because the ring takes it whole.
//!
//! This is the only crate of the project that may hold `unsafe` code; every other forbids it.

pub mod buffer;
pub mod ioctl;
pub mod mount;
pub mod nvme;
pub mod op;
pub mod open;
pub mod process;
pub mod ring;
pub mod usage;
