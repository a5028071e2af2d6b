//! System calls that show other users of an open file.

use crate::succeed;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `KCMP_FILES` of linux/kcmp.h.
const KCMP_FILES: libc::c_int = 2;

/// `F_SETSIG` of asm-generic/fcntl.h.
const F_SETSIG: libc::c_int = 10;

/// Magic number of overlayfs in linux/magic.h.
const OVERLAY_MAGIC: i64 = 0x794c_7630;

/// True if two threads share a descriptor table (kcmp(2)). Errors: an ended thread, no permission, no `CONFIG_KCMP`.
pub fn share_descriptors(one: u32, two: u32) -> io::Result<bool> {
    // SAFETY: no pointers; the kernel checks both thread IDs.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, two, KCMP_FILES, 0_usize, 0_usize) };
    succeed(order).map(|order| order == 0)
}

/// True if the regular file of `fd` has another writer: a process (any container) or the kernel that has the file open
/// or mapped for writing. `fd` must be the only writable descriptor of this process. `None` if the file system or the
/// user may not take leases.
///
/// The kernel grants a write lease only if no other writable open file exists (fcntl(2), `F_SETLEASE`). The lease is
/// released at once. Opening the file in between raises SIGURG, which is ignored by default.
pub fn has_other_writer(fd: BorrowedFd<'_>) -> io::Result<Option<bool>> {
    // SAFETY: F_SETSIG takes an integer.
    succeed(unsafe { libc::fcntl(fd.as_raw_fd(), F_SETSIG, libc::SIGURG) })?;
    match set_lease(fd, libc::F_WRLCK) {
        Ok(_) => set_lease(fd, libc::F_UNLCK).map(|_| Some(false)),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN) => Ok(Some(true)),
            Some(libc::EINVAL | libc::EACCES | libc::EPERM | libc::EOPNOTSUPP) => Ok(None),
            _ => Err(error),
        },
    }
}

fn set_lease(fd: BorrowedFd<'_>, lease: libc::c_int) -> io::Result<usize> {
    // SAFETY: F_SETLEASE takes an integer.
    succeed(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, lease) })
}

/// True if the file at `path` is on overlayfs.
pub fn is_on_overlay(path: &std::path::Path) -> io::Result<bool> {
    #[allow(
        clippy::unnecessary_cast,
        reason = "its type differs between C libraries and architectures"
    )]
    let magic = rustix::fs::statfs(path)?.f_type as i64;
    Ok(magic == OVERLAY_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn processes_do_not_share_a_descriptor_table_and_an_ended_process_is_an_error() {
        let own = std::process::id();
        let child = std::process::Command::new("sleep").arg("60").spawn();
        let Ok(mut child) = child else { return };
        assert!(share_descriptors(own, own).unwrap());
        assert!(!share_descriptors(own, child.id()).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(share_descriptors(own, child.id()).is_err());
    }

    #[test]
    fn a_second_writer_is_detected_and_the_callers_descriptor_does_not_count() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let Some(other) = has_other_writer(file.as_file().as_fd()).unwrap() else {
            return;
        };
        assert!(!other);
        let second = file.reopen().unwrap();
        let found = has_other_writer(file.as_file().as_fd()).unwrap();
        assert_eq!(found, Some(true));
        drop(second);
        let found = has_other_writer(file.as_file().as_fd()).unwrap();
        assert_eq!(found, Some(false));
    }
}
