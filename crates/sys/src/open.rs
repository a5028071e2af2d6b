//! System calls for opening and sizing a target that `std` lacks: byte locks, free space, reserved space, write
//! hints.
//!
//! Locks are *open file description* locks (`F_OFD_SETLK`). They belong to the descriptor, not to the process. Closing
//! another descriptor of the same device does not release them. The kernel releases them when the last copy of the
//! descriptor is closed, even if the process was killed.

use crate::succeed;
use rustix::fs::{Advice, FallocateFlags, fadvise};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// `F_SET_RW_HINT` of linux/fcntl.h.
const F_SET_RW_HINT: i32 = 1024 + 12;

/// Type of lock on a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteLock {
    /// Compatible with other shared locks. Needs a readable descriptor.
    Shared,
    /// Excludes all other locks. Needs a writable descriptor.
    Exclusive,
}

fn request(offset: u64, lock: ByteLock) -> libc::flock {
    // SAFETY: the struct holds integers only, for which all-zero bytes are a value.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = match lock {
        ByteLock::Shared => libc::F_RDLCK,
        ByteLock::Exclusive => libc::F_WRLCK,
    } as _;
    request.l_whence = libc::SEEK_SET as _;
    request.l_start = offset as libc::off_t;
    request.l_len = 1;
    request
}

/// Sets the write hint of the inode behind `fd` (`F_SET_RW_HINT`); 0: none. The hint applies to all later writes, by
/// any process, until the next hint is set. On a block device the hint is the number of a write stream (Linux 6.16).
/// Errors: `EINVAL` above 5, the kernel's largest hint.
pub fn set_write_hint(fd: BorrowedFd<'_>, hint: u64) -> io::Result<()> {
    // SAFETY: F_SET_RW_HINT reads one integer of 64 bits, which lives until the call returns.
    succeed(unsafe { libc::fcntl(fd.as_raw_fd(), F_SET_RW_HINT, &raw const hint) }).map(drop)
}

/// Drops the clean pages of `len` bytes at `offset` of a file or device from the page cache; `len` 0: up to the end. If
/// `path` has become a FIFO, the call does not wait for its writer.
pub fn drop_cached(path: &str, offset: u64, len: u64) -> io::Result<()> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    Ok(fadvise(
        &file,
        offset,
        NonZeroU64::new(len),
        Advice::DontNeed,
    )?)
}

/// Locks the byte at `offset` (below 2^63, also beyond the end) without waiting; `false`: another lock conflicts.
pub fn try_lock_byte(fd: BorrowedFd<'_>, offset: u64, lock: ByteLock) -> io::Result<bool> {
    let request = request(offset, lock);
    // SAFETY: F_OFD_SETLK only reads the struct, which lives until the call returns.
    match succeed(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const request) }) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        locked => locked.map(|_| true),
    }
}

/// Lock of another descriptor that conflicts with a lock of the byte at `offset`, if any.
pub fn conflicting_lock(
    fd: BorrowedFd<'_>,
    offset: u64,
    lock: ByteLock,
) -> io::Result<Option<ByteLock>> {
    let mut request = request(offset, lock);
    // SAFETY: F_OFD_GETLK reads and writes the struct, which lives until the call returns.
    succeed(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_GETLK, &raw mut request) })?;
    Ok(match i32::from(request.l_type) {
        libc::F_UNLCK => None,
        libc::F_RDLCK => Some(ByteLock::Shared),
        _ => Some(ByteLock::Exclusive),
    })
}

/// Bytes that an unprivileged process can still use on the file system of `fd`.
pub fn free_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let stat = rustix::fs::fstatvfs(fd)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Name of the file system of `fd` if the file system is in memory; otherwise `None`. Source: linux/magic.h.
pub fn memory_file_system(fd: BorrowedFd<'_>) -> io::Result<Option<&'static str>> {
    #[allow(
        clippy::unnecessary_cast,
        reason = "its type differs between C libraries and architectures"
    )]
    let magic = rustix::fs::fstatfs(fd)?.f_type as i64;
    Ok(match magic {
        0x0102_1994 => Some("tmpfs"),
        0x8584_58f6 => Some("ramfs"),
        0x9584_58f6 => Some("hugetlbfs"),
        _ => None,
    })
}

/// Extends a file to `size_bytes` with all blocks allocated, so that no later write fails with ENOSPC. `false` if the
/// file system does not support this (the length is then unchanged).
pub fn reserve(fd: BorrowedFd<'_>, size_bytes: u64) -> io::Result<bool> {
    match rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, size_bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        reserved => Ok(reserved.map(|()| true)?),
    }
}

/// Effective user ID of this process.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    const BYTE: u64 = 1 << 62;

    #[test]
    fn byte_locks_belong_to_the_open_file_description_and_end_with_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let one = file.reopen().unwrap();
        let two = file.reopen().unwrap();
        assert!(try_lock_byte(one.as_fd(), BYTE, ByteLock::Exclusive).unwrap());
        assert!(!try_lock_byte(two.as_fd(), BYTE, ByteLock::Shared).unwrap());
        assert_eq!(
            conflicting_lock(two.as_fd(), BYTE, ByteLock::Shared).unwrap(),
            Some(ByteLock::Exclusive)
        );
        drop(one);
        assert!(try_lock_byte(two.as_fd(), BYTE, ByteLock::Shared).unwrap());
    }

    #[test]
    fn shared_locks_do_not_exclude_each_other_but_exclude_an_exclusive_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let one = file.reopen().unwrap();
        let two = file.reopen().unwrap();
        assert!(try_lock_byte(one.as_fd(), BYTE, ByteLock::Shared).unwrap());
        assert!(try_lock_byte(two.as_fd(), BYTE, ByteLock::Shared).unwrap());
        assert_eq!(
            conflicting_lock(two.as_fd(), BYTE, ByteLock::Exclusive).unwrap(),
            Some(ByteLock::Shared)
        );
        assert_eq!(
            conflicting_lock(two.as_fd(), BYTE, ByteLock::Shared).unwrap(),
            None
        );
    }

    #[test]
    fn reserving_sets_the_length() {
        let file = tempfile::tempfile().unwrap();
        if reserve(file.as_fd(), 65_536).unwrap() {
            assert_eq!(file.metadata().unwrap().len(), 65_536);
        }
        assert!(free_bytes(file.as_fd()).unwrap() > 0);
    }
}
