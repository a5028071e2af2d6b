//! Private mounts of pseudo file systems.
//!
//! The mount is made with the kernel's descriptor-based calls and never attached to a directory. It exists as long as
//! its descriptor and leaves nothing to clean up, not even after a kill.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Mounts `fs_type` (such as `tracefs`) without attaching it anywhere.
///
/// Returns the root directory of the mount; `/proc/self/fd/N/` reaches the files in it. Errors: EPERM without
/// CAP_SYS_ADMIN, ENODEV for an unknown file system, ENOSYS before Linux 5.2.
pub fn mount_detached(fs_type: &CStr) -> io::Result<OwnedFd> {
    let null = std::ptr::null::<libc::c_char>();
    // SAFETY: the name is a terminated string that outlives the call.
    let context = descriptor(unsafe { libc::syscall(libc::SYS_fsopen, fs_type.as_ptr(), libc::FSOPEN_CLOEXEC) })?;
    // SAFETY: `context` is open, and CMD_CREATE takes neither key nor value.
    let created = unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), libc::FSCONFIG_CMD_CREATE, null, null, 0 as libc::c_int)
    };
    if created < 0 {
        return Err(io::Error::last_os_error());
    }
    let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;
    // SAFETY: `context` is open; the other arguments are plain numbers.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), libc::FSMOUNT_CLOEXEC, attributes) })
}

/// Takes ownership of the descriptor that a system call returned.
fn descriptor(returned: libc::c_long) -> io::Result<OwnedFd> {
    if returned < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = libc::c_int::try_from(returned).map_err(|_| io::Error::from_raw_os_error(libc::EMFILE))?;
    // SAFETY: the kernel just gave us this descriptor, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detached_mount_is_readable_and_attached_nowhere() {
        let mounted = match mount_detached(c"tmpfs") {
            Ok(mounted) => mounted,
            Err(error) => {
                eprintln!("skipped: a private mount needs root and Linux 5.2: {error}");
                return;
            }
        };
        let root = format!("/proc/self/fd/{}", mounted.as_raw_fd());
        std::fs::write(format!("{root}/file"), "bytes").unwrap();
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1);
    }

    #[test]
    fn an_unknown_file_system_is_an_error() {
        assert!(mount_detached(c"no-such-fs").is_err());
    }
}
