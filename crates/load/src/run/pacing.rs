//! Computes how long a shard sleeps, and for which event.

use super::Shard;
use super::settings::{Pacing, SLEEP_MAX_NS};
use engine::{BlockEngine, Wait};
use results::cell::GRACE_NS;

/// Time between two looks when somebody waits for one of many operations.
const LOOK_NS: u64 = 30_000;

/// How soon a completion has to be seen when the thread sleeps.
enum Awaited {
    /// At once: few are in flight, or most of them block the next operation.
    First,
    /// Soon: somebody waits for one of the few, and waking for each of the many would cost too much.
    Soon,
    /// With the next operation, or after a period.
    Never,
}

impl<W: BlockEngine> Shard<W> {
    /// The next wait: until when, and for how many completions.
    #[inline]
    pub(super) fn wait(&self) -> Wait {
        if self.buffers.behind() || self.is_done() {
            return Wait { until_ns: 0, completions: 1 };
        }
        let next_ns = self.next_due_ns();
        // Operations after the end are never issued, nor any of an abandoned run: nothing waits for them.
        let is_over = self.now_ns >= self.stop_ns.saturating_add(GRACE_NS);
        let next_ns = if next_ns < self.stop_ns && !is_over && !self.abandoned { next_ns } else { u64::MAX };
        if next_ns <= self.now_ns && !W::VIRTUAL {
            return Wait { until_ns: 0, completions: 1 };
        }
        // After the end the last interval takes late completions, however long they take: its nominal end may have
        // passed and wakes nobody.
        let bound_ns = match self.now_ns < self.stop_ns {
            true => self.stop_ns.min(self.recorder.end_ns()),
            false if self.is_to_issue() => self.stop_ns.saturating_add(GRACE_NS),
            false => self.silence.hangs_at_ns(self.settings.hang_ns),
        };
        let (until_ns, completions) = match self.settings.pacing {
            // Completions before then trigger nothing: one turn takes all of them.
            _ if W::VIRTUAL && next_ns < bound_ns && self.is_undisturbed() => (next_ns, u32::MAX),
            _ if W::VIRTUAL => (next_ns.min(bound_ns), 1),
            Pacing::Spin => (0, 1),
            Pacing::Sleep { period_ns } => {
                let wake_ns = next_ns.max(self.issued_ns + period_ns).min(bound_ns).min(self.now_ns + SLEEP_MAX_NS);
                // More completions than can come: the clock alone wakes.
                let by_clock = self.engine.in_flight() as u32 + 1;
                match self.awaited() {
                    _ if next_ns == u64::MAX => (wake_ns, 1),
                    Awaited::First => (wake_ns, 1),
                    Awaited::Soon => (wake_ns.min(self.now_ns + LOOK_NS.min(period_ns)), by_clock),
                    Awaited::Never => (wake_ns.min(self.now_ns + period_ns), by_clock),
                }
            }
        };
        Wait { until_ns: until_ns.saturating_add(self.start_ns), completions }
    }

    /// True if no completion triggers an operation: no lane waits for a slot, none is a closed loop, and no stream has
    /// followers.
    #[inline]
    fn is_undisturbed(&self) -> bool {
        self.lanes_waiting == 0 && self.closed_out == 0 && !self.follows
    }

    /// How soon a completion has to be seen.
    #[inline]
    fn awaited(&self) -> Awaited {
        let in_flight = self.engine.in_flight() as u32;
        let waiting = self.limits.iter().filter(|limit| !limit.waiting.is_empty());
        let slots = waiting.map(|limit| limit.limit.slots).sum::<u32>() + self.closed_out;
        match slots {
            _ if in_flight <= 2 => Awaited::First,
            0 => Awaited::Never,
            slots if slots >= in_flight / 4 => Awaited::First,
            _ => Awaited::Soon,
        }
    }
}
