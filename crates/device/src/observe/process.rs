//! What this program itself uses: CPU time and memory. Below it: which process it is, and whether one
//! that was recorded still runs.
//!
//! A tool that measures others has to say what it costs. CPU time is that of all threads; divided by
//! the operations done it is the cost of one.

mod alive;

pub use alive::{Alive, is_alive, this_process};

use super::procfile::ProcFile;
use std::io;
use std::path::Path;
use sys::usage::{page_bytes, usage};

/// CPU time of the whole process since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel on its behalf.
    pub system_ns: u64,
}

impl CpuTime {
    /// The time used so far.
    pub fn now() -> io::Result<Self> {
        usage().map(|usage| Self { user_ns: usage.user_ns, system_ns: usage.system_ns })
    }

    /// User and system time together.
    pub fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

/// Largest resident memory of this process so far.
pub fn peak_rss_bytes() -> io::Result<u64> {
    usage().map(|usage| usage.peak_rss_bytes)
}

/// Resident memory of this process, read again and again.
#[derive(Debug)]
pub struct ResidentMemory {
    statm: ProcFile,
    page_bytes: u64,
}

impl ResidentMemory {
    /// Prepares reading below `root` (`/` but in tests).
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { statm: ProcFile::open(root, "proc/self/statm")?, page_bytes: page_bytes() })
    }

    /// Resident bytes now. No allocation.
    pub fn bytes(&mut self) -> io::Result<u64> {
        // proc_pid_statm(5): size, resident, ... in pages.
        let resident = self.statm.read()?.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
        Ok(resident.ok_or(io::ErrorKind::InvalidData)? * self.page_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_a_difference() {
        let earlier = CpuTime { user_ns: 10, system_ns: 5 };
        let later = CpuTime { user_ns: 30, system_ns: 6 };
        assert_eq!(later.since(earlier), CpuTime { user_ns: 20, system_ns: 1 });
        assert_eq!(later.since(earlier).total_ns(), 21);
        assert!(CpuTime::now().unwrap().total_ns() > 0);
    }

    #[test]
    fn resident_memory_is_the_second_number_in_pages() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        std::fs::write(root.path().join("proc/self/statm"), "900 100 50 1 0 80 0\n").unwrap();
        assert_eq!(ResidentMemory::open(root.path()).unwrap().bytes().unwrap(), 100 * page_bytes());
    }

    #[test]
    fn memory_that_is_touched_is_resident() {
        let mut resident = ResidentMemory::open("/".as_ref()).unwrap();
        let memory = std::hint::black_box(vec![1_u8; 256 << 20]);
        assert!(resident.bytes().unwrap() >= 256 << 20);
        assert!(peak_rss_bytes().unwrap() >= 256 << 20);
        drop(memory);
    }
}
