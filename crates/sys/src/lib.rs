//! The system calls that no safe library wraps, each behind a safe function; the type of an operation, as the ring
//! takes it; and the random generator of all crates.
//!
//! This is the only crate of the project that may hold `unsafe` code; every other forbids it.

#![warn(missing_docs)]

pub mod buffer;
pub mod ioctl;
pub mod memory;
pub mod mount;
pub mod net;
pub mod nvme;
pub mod op;
pub mod open;
pub mod process;
pub mod random;
pub mod ring;
pub mod status;
pub mod usage;

/// Remedy for `error`: how to raise the limit if descriptors ran out, whatever the operation; `otherwise` for any other
/// error.
pub fn remedy<'a>(error: &std::io::Error, otherwise: &'a str) -> &'a str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => "raise the limit of open files (ulimit -n)",
        Some(libc::ENFILE) => "raise the machine's limit of open files (sysctl fs.file-max)",
        _ => otherwise,
    }
}
