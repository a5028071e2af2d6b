//! Clock of a run: the current time, the end of the run, and the grace period after the end.

use super::control::SLEEP_MAX_NS;
use results::cell::GRACE_NS;

/// Iterations of the run loop after which the control is checked even if no time has passed.
const TURNS_UNCHECKED_MAX: u64 = 1 << 16;

/// Iterations of the run loop in which virtual time has to advance by [`VIRTUAL_NS_MIN`]. An iteration handles all
/// completions of the same time: no drive has completions at a hundred million different times per second.
pub(super) const VIRTUAL_TURNS: u64 = 16 * TURNS_UNCHECKED_MAX;
const VIRTUAL_NS_MIN: u64 = 10_000_000;

/// Times in nanoseconds since the run began, except `start_ns`.
#[derive(Default)]
pub(super) struct RunClock {
    /// Start of the run on the engine's clock.
    pub(super) start_ns: u64,
    /// Operations due from this time on are not issued.
    pub(super) stop_ns: u64,
    pub(super) now_ns: u64,
    pub(super) issued_ns: u64,
    /// End of the grace period: operations due before the end of the run are issued until then. 0 once the run failed:
    /// remaining operations are counted instead of issued.
    pub(super) issue_end_ns: u64,
    next_check_ns: u64,
    turns: u64,
    /// Virtual time at the last check for progress.
    virtual_ns: u64,
}

impl RunClock {
    pub(super) fn new(stop_ns: u64) -> Self {
        Self {
            stop_ns,
            issue_end_ns: stop_ns.saturating_add(GRACE_NS),
            ..Self::default()
        }
    }

    #[inline]
    pub(super) fn since_start_ns(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.start_ns)
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.now_ns >= self.stop_ns
    }

    /// True if operations due before the end may still be issued.
    #[inline]
    pub(super) fn may_issue(&self) -> bool {
        self.now_ns < self.issue_end_ns
    }

    pub(super) fn stop(&mut self) {
        self.stop_ns = self.stop_ns.min(self.now_ns);
        self.issue_end_ns = self.issue_end_ns.min(self.stop_ns.saturating_add(GRACE_NS));
    }

    pub(super) fn abandon(&mut self) {
        self.issue_end_ns = 0;
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.issue_end_ns == 0
    }

    /// Counts an iteration of the loop. True if the control is to be checked: after some time, or after
    /// [`TURNS_UNCHECKED_MAX`] iterations, so that a signal is seen even if virtual time stands still.
    #[inline]
    pub(super) fn begin_turn(&mut self) -> bool {
        self.turns += 1;
        let is_due =
            self.now_ns >= self.next_check_ns || self.turns.is_multiple_of(TURNS_UNCHECKED_MAX);
        if is_due {
            self.next_check_ns = self.now_ns + SLEEP_MAX_NS / 2;
        }
        is_due
    }

    /// The advance of virtual time in the last [`VIRTUAL_TURNS`], if it is below [`VIRTUAL_NS_MIN`].
    pub(super) fn virtual_stall_ns(&mut self) -> Option<u64> {
        if !self.turns.is_multiple_of(VIRTUAL_TURNS) {
            return None;
        }
        let advanced_ns = self.now_ns - std::mem::replace(&mut self.virtual_ns, self.now_ns);
        (advanced_ns < VIRTUAL_NS_MIN).then_some(advanced_ns)
    }
}
