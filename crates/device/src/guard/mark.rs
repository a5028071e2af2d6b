//! The lock by which runs of this program see each other on a device.
//!
//! A run locks one byte of the device, far beyond its end, through its writable descriptor: exclusively, or shared if
//! it is one of several. There is no file to clean up: the kernel drops the lock with the descriptor, after `kill -9`
//! too. Other processes see it in /proc/PID/fdinfo, by which a shared run recognises other shared runs. Nobody else
//! locks this byte, so it does not conflict with locks of udev and others on whole devices (`flock`). A lock is on the
//! device's node: runs that reach one device by two nodes (not links) see each other in /proc only.

use std::io;
use std::os::fd::BorrowedFd;
use sys::open::{ByteLock, conflicting_lock, try_lock_byte};

/// The byte that is locked: `flashpro` in ASCII, an offset that no device reaches.
const BYTE: u64 = u64::from_be_bytes(*b"flashpro");

/// How a run marks a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// With other runs that say so too.
    Shared,
    Alone,
}

impl Mark {
    /// The mark that a run with these options sets.
    pub(super) fn wanted(shared: bool) -> Self {
        if shared { Self::Shared } else { Self::Alone }
    }

    fn lock(self) -> ByteLock {
        match self {
            Self::Shared => ByteLock::Shared,
            Self::Alone => ByteLock::Exclusive,
        }
    }

    /// Sets the mark on a descriptor, for as long as that is open; `false` when another run's is in the way.
    pub(super) fn set(self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        try_lock_byte(fd, BYTE, self.lock())
    }

    /// The mark of another run that is in this one's way.
    pub(super) fn in_the_way(self, fd: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        Ok(conflicting_lock(fd, BYTE, self.lock())?.map(|lock| match lock {
            ByteLock::Shared => Self::Shared,
            ByteLock::Exclusive => Self::Alone,
        }))
    }

    /// The mark on a descriptor of another process, from its text in /proc/PID/fdinfo.
    ///
    /// A lock is a line such as `lock: 1: OFDLCK ADVISORY READ -1 00:06:351 100 100`; the last two
    /// are its first and last byte (proc_pid_fdinfo(5)).
    pub(super) fn in_fdinfo(text: &str) -> Option<Self> {
        text.lines().find_map(|line| {
            let words: Vec<&str> = line.strip_prefix("lock:")?.split_whitespace().collect();
            let [_, "OFDLCK", _, access, _, _, first, _] = words[..] else { return None };
            match (first.parse() == Ok(BYTE), access) {
                (true, "READ") => Some(Self::Shared),
                (true, "WRITE") => Some(Self::Alone),
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::{AsFd, AsRawFd};

    #[test]
    fn a_mark_that_was_set_is_read_back_from_proc() {
        for (mark, other) in [(Mark::Shared, Mark::Alone), (Mark::Alone, Mark::Shared)] {
            let file = tempfile::NamedTempFile::new().unwrap();
            assert!(mark.set(file.as_file().as_fd()).unwrap());
            let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).unwrap();
            assert_eq!(Mark::in_fdinfo(&text), Some(mark), "{text}");
            assert_eq!(other.in_the_way(file.reopen().unwrap().as_fd()).unwrap(), Some(mark));
        }
    }

    #[test]
    fn locks_of_others_are_no_mark() {
        for line in [
            "lock:\t1: FLOCK  ADVISORY  WRITE 359 00:06:351 0 EOF",
            "lock:\t1: OFDLCK ADVISORY  READ -1 00:06:351 0 0",
            "lock:\t1: POSIX  ADVISORY  READ 9 00:06:351 7380959305949671023 7380959305949671023",
            "pos:\t0",
        ] {
            assert_eq!(Mark::in_fdinfo(line), None, "{line}");
        }
    }
}
