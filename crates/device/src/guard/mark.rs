//! flashproof's mark: a lock, by which runs of this program on one device see each other.
//!
//! A run locks one byte far beyond the end of the device, through its writable descriptor: exclusively, or shared for a
//! shared run. The kernel releases the lock with the descriptor, even after `kill -9`. Other processes see the lock in
//! /proc/PID/fdinfo, where a shared run finds other shared runs. No other program locks this byte, so the lock does not
//! conflict with `flock` locks of udev and others on whole devices. A lock belongs to the device's node. Runs that open
//! one device through two device nodes (not links) see each other only in /proc.

use sys::open::ByteLock;

/// Offset of the locked byte: `flashpro` in ASCII, beyond the end of any device.
pub(super) const MARK_BYTE: u64 = u64::from_be_bytes(*b"flashpro");

pub(super) fn mark_of(shared: bool) -> ByteLock {
    if shared {
        ByteLock::Shared
    } else {
        ByteLock::Exclusive
    }
}

/// The mark in /proc/PID/fdinfo: a line such as `lock: 1: OFDLCK ADVISORY READ -1 00:06:351 100 100`; the last two
/// numbers are the first and the last locked byte (proc_pid_fdinfo(5)).
pub(super) fn mark_in_fdinfo(text: &str) -> Option<ByteLock> {
    text.lines().find_map(|line| {
        let words: Vec<&str> = line.strip_prefix("lock:")?.split_whitespace().collect();
        let [_, "OFDLCK", _, access, _, _, start, _] = words[..] else {
            return None;
        };
        match (start.parse() == Ok(MARK_BYTE), access) {
            (true, "READ") => Some(ByteLock::Shared),
            (true, "WRITE") => Some(ByteLock::Exclusive),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::{AsFd, AsRawFd};
    use sys::open::{conflicting_lock, try_lock_byte};

    #[test]
    fn the_lock_that_marks_a_flashproof_run_is_recognised_in_proc_fdinfo() {
        for (mark, other) in [
            (mark_of(true), mark_of(false)),
            (mark_of(false), mark_of(true)),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            assert!(try_lock_byte(file.as_file().as_fd(), MARK_BYTE, mark).unwrap());
            let text =
                fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).unwrap();
            assert_eq!(mark_in_fdinfo(&text), Some(mark), "{text}");
            assert_eq!(
                conflicting_lock(file.reopen().unwrap().as_fd(), MARK_BYTE, other).unwrap(),
                Some(mark)
            );
        }
    }

    #[test]
    fn locks_of_other_programs_are_not_mistaken_for_the_mark_of_flashproof() {
        for line in [
            "lock:\t1: FLOCK  ADVISORY  WRITE 359 00:06:351 0 EOF",
            "lock:\t1: OFDLCK ADVISORY  READ -1 00:06:351 0 0",
            "lock:\t1: POSIX  ADVISORY  READ 9 00:06:351 7380959305949671023 7380959305949671023",
            "pos:\t0",
        ] {
            assert_eq!(mark_in_fdinfo(line), None, "{line}");
        }
    }
}
