//! Safe functions for system calls that no safe library wraps. Also, for all crates: the operation type of the rings,
//! the random generator, and the data of writes. Only this crate may hold `unsafe` code; all others forbid it.

#![allow(clippy::disallowed_methods, reason = "this crate wraps system calls")]
#![warn(missing_docs)]

pub mod aio;
pub mod buffer;
pub mod call;
pub mod ioctl;
pub mod net;
pub mod nvme;
pub mod op;
pub mod open;
pub mod process;
pub mod random;
pub mod ring;
pub mod salt;
pub mod users;

// Numbers of 64 bits and addresses go to the kernel in one argument of a system call.
const _: () = assert!(usize::BITS == 64, "flashproof needs a 64-bit system");

/// Remedy for `error`: how to raise the limit if no file descriptors are left. For any other error: `otherwise`.
pub fn remedy<'a>(error: &std::io::Error, otherwise: &'a str) -> &'a str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => "raise the limit of open files (ulimit -n)",
        Some(libc::ENFILE) => "raise the machine's limit of open files (sysctl fs.file-max)",
        _ => otherwise,
    }
}

/// Return value of a system call; for a negative value, the error in `errno`.
#[inline]
pub(crate) fn succeed(returned: impl Into<i64>) -> std::io::Result<usize> {
    usize::try_from(returned.into()).map_err(|_| std::io::Error::last_os_error())
}
