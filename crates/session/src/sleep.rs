//! Sleep of the machine (suspend, hibernation) during a run: logind's lock against it, and its detection.
//!
//! During a sleep the drive rests or loses power, and `CLOCK_MONOTONIC`, the clock of every run, stops. Nothing else in
//! the records of a run shows a sleep. A pause of a virtual machine stops both clocks and stays undetected.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use sys::process::asleep_ns;

/// A longer time asleep ends a run, nanoseconds. Readings of the two clocks differ by far less.
const ASLEEP_MAX_NS: u64 = 1_000_000_000;

/// Detects a sleep of the machine since the creation of this value.
pub(crate) struct SleepWatch {
    /// Reads the time that the machine has slept since its boot, nanoseconds.
    read_ns: fn() -> u64,
    began_ns: u64,
}

impl SleepWatch {
    pub(crate) fn start() -> Self {
        Self::with_clock(asleep_ns)
    }

    pub(crate) fn with_clock(read_ns: fn() -> u64) -> Self {
        Self {
            read_ns,
            began_ns: read_ns(),
        }
    }

    /// Time asleep since the start, nanoseconds; `None` if the machine was awake.
    pub(crate) fn asleep_ns(&self) -> Option<u64> {
        Some((self.read_ns)().saturating_sub(self.began_ns)).filter(|ns| *ns > ASLEEP_MAX_NS)
    }
}

/// logind's lock against sleep. A shutdown is never delayed, because series resume after a reboot. The lock is held by
/// `systemd-inhibit`, which runs `cat`. `cat` ends at the end of its input, a pipe from this process. Therefore the
/// lock ends with this process, even after `kill -9`.
pub struct SleepInhibitor(Child);

impl SleepInhibitor {
    /// Takes the lock; `None` without `systemd-inhibit`. Without logind, or if it denies the lock, the machine can
    /// sleep.
    pub fn hold() -> Option<Self> {
        let mut command = Command::new("systemd-inhibit");
        command.args([
            "--what=sleep",
            "--mode=block",
            "--who=flashproof",
            "--why=a drive is being tested",
            "cat",
        ]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // In its own group, because Ctrl-C must not end the lock before the run.
        command.process_group(0).spawn().ok().map(Self)
    }
}

impl Drop for SleepInhibitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // If logind does not answer, `systemd-inhibit` has not started `cat`, and would not notice the closed pipe.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_sleep_of_over_a_second_is_detected_and_one_before_the_start_does_not_count() {
        static CLOCK_NS: AtomicU64 = AtomicU64::new(5_000_000_000);
        let watch = SleepWatch::with_clock(|| CLOCK_NS.load(Ordering::Relaxed));
        assert_eq!(watch.asleep_ns(), None);
        CLOCK_NS.fetch_add(1_000_000_000, Ordering::Relaxed);
        assert_eq!(watch.asleep_ns(), None, "not over a second");
        CLOCK_NS.fetch_add(1, Ordering::Relaxed);
        assert_eq!(watch.asleep_ns(), Some(1_000_000_001));
    }

    #[test]
    fn no_sleep_is_detected_while_the_machine_is_awake() {
        assert_eq!(SleepWatch::start().asleep_ns(), None);
    }
}
