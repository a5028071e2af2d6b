//! Computes how long a shard sleeps, and for which event.

use super::Shard;
use super::clock::RunClock;
use super::control::{Pacing, SLEEP_MAX_NS};
use engine::{BlockEngine, Wait};

/// Polling interval when a lane waits for one of a few operations while many others are in flight, nanoseconds.
const LOOK_NS: u64 = 30_000;

/// Maximum time by which a sleep for an operation is shortened, and maximum spin after the sleep, nanoseconds.
const EARLY_MAX_NS: u64 = 30_000;

/// Change of [`Oversleep::usual_ns`] with each sleep, nanoseconds.
const OVERSLEEP_STEP_NS: u64 = 100;

/// Lateness of the kernel's wake-ups: some microseconds, or tens of microseconds in a virtual machine. A sleep for an
/// operation is shortened by the lower quartile of this lateness, and the thread spins for the rest. Otherwise every
/// operation would be late.
#[derive(Debug, Default)]
pub(super) struct Oversleep {
    /// Lower quartile of the lateness, nanoseconds: three of four shortened sleeps end after the operation is due.
    usual_ns: u64,
    /// End of the current sleep; `u64::MAX`: the sleep is not for an operation.
    sleep_end_ns: u64,
}

impl Oversleep {
    /// A sleep until the operation due at `next_ns`, or a poll for completions if there is no time to sleep.
    fn aim(&mut self, now_ns: u64, next_ns: u64, start_ns: u64, completions: u32) -> Wait {
        let until_ns = next_ns.saturating_sub(self.usual_ns);
        if until_ns <= now_ns {
            return Wait::first(0);
        }
        self.sleep_end_ns = until_ns;
        Wait {
            until_ns: until_ns.saturating_add(start_ns),
            completions,
        }
    }

    #[inline]
    pub(super) fn woke(&mut self, now_ns: u64) {
        if let Some(wake_delay_ns) = now_ns.checked_sub(self.sleep_end_ns) {
            self.usual_ns = if wake_delay_ns > self.usual_ns {
                (self.usual_ns + OVERSLEEP_STEP_NS).min(EARLY_MAX_NS)
            } else {
                self.usual_ns.saturating_sub(3 * OVERSLEEP_STEP_NS)
            };
        }
    }
}

impl<E: BlockEngine> Shard<E> {
    /// The next wait: until when, and for how many completions.
    #[inline]
    pub(super) fn wait(&mut self) -> Wait {
        self.oversleep.sleep_end_ns = u64::MAX;
        if self.buffers.behind() || self.is_done() {
            return Wait::first(0);
        }
        let RunClock {
            start_ns,
            stop_ns,
            now_ns,
            ..
        } = self.clock;
        let next_ns = self.lanes.first_due_ns();
        // The wait ignores operations that are never issued: those due after the end, and all of an abandoned run.
        let next_ns = if next_ns < stop_ns && self.clock.may_issue() {
            next_ns
        } else {
            u64::MAX
        };
        if next_ns <= now_ns && !self.engine.is_virtual() {
            return Wait::first(0);
        }
        // After the end of the run, the last interval still takes late completions. The interval's nominal end may have
        // passed, and is no reason to wake.
        let bound_ns = if now_ns < stop_ns {
            stop_ns.min(self.recorder.end_ns)
        } else if self.is_to_issue() {
            self.clock.issue_end_ns
        } else {
            self.silence.hangs_at_ns(self.settings.hang_ns)
        };
        let (until_ns, completions) = match self.settings.pacing {
            _ if self.engine.is_virtual() => {
                // Completions before `next_ns` trigger nothing: one iteration takes all of them.
                let takes_all = next_ns < bound_ns && self.is_undisturbed();
                (next_ns.min(bound_ns), if takes_all { u32::MAX } else { 1 })
            }
            Pacing::Spin => (0, 1),
            Pacing::Sleep { period_ns, gathers } => {
                let gather_until_ns = if gathers {
                    self.clock.issued_ns + period_ns
                } else {
                    0
                };
                let wake_ns = next_ns
                    .max(gather_until_ns)
                    .min(bound_ns)
                    .min(now_ns + SLEEP_MAX_NS);
                // This count of completions exceeds the operations in flight, so only the clock ends the wait.
                let by_clock = self.engine.in_flight() as u32 + 1;
                match self.unseen_max_ns(period_ns).filter(|_| next_ns < u64::MAX) {
                    None => (wake_ns, 1),
                    Some(unseen_ns) => (wake_ns.min(now_ns + unseen_ns), by_clock),
                }
            }
        };
        if until_ns == next_ns && !self.engine.is_virtual() {
            return self.oversleep.aim(now_ns, next_ns, start_ns, completions);
        }
        Wait {
            until_ns: until_ns.saturating_add(start_ns),
            completions,
        }
    }

    /// True if no completion triggers an operation: no lane waits for a slot, none is closed, no stream has followers.
    #[inline]
    fn is_undisturbed(&self) -> bool {
        !self.limits.is_any_waiting() && self.closed_in_flight == 0 && !self.lanes.has_followers
    }

    /// Maximum time for which a completion may stay unseen in a sleep; `None`: the first completion wakes the thread.
    #[inline]
    fn unseen_max_ns(&self, period_ns: u64) -> Option<u64> {
        let in_flight = self.engine.in_flight() as u32;
        let waiting = self.limits.iter().filter(|limit| !limit.waiting.is_empty());
        let slots = waiting.map(|limit| limit.limit.slots).sum::<u32>() + self.closed_in_flight;
        match slots {
            // Few operations are in flight, or at least a quarter of them can start the next operation.
            _ if in_flight <= 2 || (slots > 0 && slots >= in_flight / 4) => None,
            0 => Some(period_ns),
            // A lane waits for one of a few operations among many. To wake for every completion would cost too much.
            _ => Some(LOOK_NS.min(period_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_are_shortened_by_the_usual_lateness_up_to_a_bound() {
        let after = |wake_delays_ns: [u64; 4]| {
            let mut oversleep = Oversleep::default();
            let mut now_ns = 0;
            for wake_delay_ns in wake_delays_ns.into_iter().cycle().take(4_000) {
                let next_ns = now_ns + 1_000_000;
                let wait = oversleep.aim(now_ns, next_ns, 500, 1);
                assert!((next_ns - EARLY_MAX_NS..=next_ns).contains(&(wait.until_ns - 500)));
                now_ns = wait.until_ns - 500 + wake_delay_ns;
                oversleep.woke(now_ns);
            }
            oversleep.usual_ns
        };
        assert!(
            (4_800..=5_300).contains(&after([5_000, 7_000, 9_000, 40_000])),
            "a quarter is that late at most"
        );
        assert!(after([0; 4]) <= OVERSLEEP_STEP_NS);
        assert_eq!(after([80_000; 4]), EARLY_MAX_NS);
    }

    #[test]
    fn a_thread_without_time_for_a_sleep_polls_and_keeps_its_estimate() {
        let mut oversleep = Oversleep {
            usual_ns: 5_000,
            sleep_end_ns: u64::MAX,
        };
        let wait = oversleep.aim(96_000, 100_000, 0, 1);
        oversleep.woke(110_000);
        assert_eq!((wait.until_ns, oversleep.usual_ns), (0, 5_000));
    }
}
