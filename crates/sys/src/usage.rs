//! Resource usage of this process: CPU time, memory pages, the clock of the block layer.

use crate::succeed;
use std::io;

/// CPU time, peak memory, context switches and page faults of the whole process, all threads included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Time in user mode, microsecond steps.
    pub user_ns: u64,
    /// Time in the kernel, microsecond steps.
    pub system_ns: u64,
    /// Largest resident memory so far.
    pub peak_rss_bytes: u64,
    /// Context switches, voluntary and involuntary.
    pub switches: u64,
    /// Page faults that had to read from a disk.
    pub major_faults: u64,
    /// Page faults served without disk I/O.
    pub minor_faults: u64,
}

/// Reads the usage of this process. Cheap: one system call.
pub fn usage() -> io::Result<Usage> {
    // SAFETY: all-zero bytes are a valid `rusage`, a struct of numbers.
    let mut raw: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `raw` is writable and of the type that the call fills.
    succeed(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut raw) })?;
    let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
    Ok(Usage {
        user_ns: timeval_ns(raw.ru_utime),
        system_ns: timeval_ns(raw.ru_stime),
        // Linux counts ru_maxrss in KiB (getrusage(2)).
        peak_rss_bytes: count(raw.ru_maxrss) * 1024,
        switches: count(raw.ru_nvcsw) + count(raw.ru_nivcsw),
        major_faults: count(raw.ru_majflt),
        minor_faults: count(raw.ru_minflt),
    })
}

fn timeval_ns(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    seconds * 1_000_000_000 + micros * 1_000
}

/// Bytes of a memory page.
pub fn page_bytes() -> u64 {
    // SAFETY: the call takes a number and touches no memory of this process.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // Every Linux has a page size; 4096 is the smallest there is.
    u64::try_from(bytes).unwrap_or(4096)
}

/// Time of `clock`, nanoseconds. Source: clock_gettime(2).
pub(super) fn clock_ns(clock: libc::clockid_t) -> io::Result<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable and outlives the call.
    succeed(unsafe { libc::clock_gettime(clock, &raw mut now) })?;
    Ok(u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// `CLOCK_MONOTONIC` in nanoseconds: the clock of block trace events, and of `std::time::Instant` (which hides its
/// number).
pub fn monotonic_ns() -> u64 {
    // Cannot fail: Linux always has this clock.
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_cpu_time() {
        let before = usage().unwrap();
        let mut mixed = 1_u64;
        loop {
            for step in 0..1_000_000_u64 {
                mixed = std::hint::black_box(mixed.rotate_left(5) ^ step);
            }
            let now = usage().unwrap();
            assert!(now.user_ns >= before.user_ns && now.system_ns >= before.system_ns);
            if now.user_ns > before.user_ns {
                break;
            }
        }
    }

    #[test]
    fn touched_memory_shows_in_the_peak() {
        let bytes = 64 << 20;
        let memory = std::hint::black_box(vec![1_u8; bytes]);
        assert!(usage().unwrap().peak_rss_bytes >= bytes as u64);
        drop(memory);
    }

    #[test]
    fn a_page_is_a_power_of_two() {
        assert!(page_bytes().is_power_of_two() && page_bytes() >= 4096);
    }

    #[test]
    fn the_monotonic_clock_does_not_run_backwards() {
        let first = monotonic_ns();
        assert!(first > 0 && monotonic_ns() >= first);
    }
}
