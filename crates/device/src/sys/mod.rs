//! The system calls that no safe library wraps, each behind a safe function.
//!
//! This is the only folder in the project that may hold `unsafe` code.

#![allow(unsafe_code)]

pub mod buffer;
pub mod ioctl;
pub mod mount;
pub mod nvme;
pub mod open;
pub mod process;
pub mod ring;
pub mod usage;
