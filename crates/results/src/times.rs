//! The four timestamps of an operation, and the cause of the time between two of them.
//!
//! ```text
//! intended ----wait----> eligible ----lag----> issued ----service----> completed
//!          (no free slot:          (this program           (ACT's number)
//!           device or limit)        was late)
//! ```
//!
//! `judged = wait + service` is charged to the device; `response = wait + lag + service` is the time that a user would
//! see. All timestamps are nanoseconds on the clock of the operation's engine.

/// Upper bounds of delays that this program may have caused, summed over successive operations on a slot, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnDelay {
    /// Time from eligible to issued.
    pub lag_ns: u64,
    /// Time from completion to its detection.
    pub unseen_ns: u64,
    /// Delay in the device by operations that this program issued late.
    pub behind_ns: u64,
}

impl OwnDelay {
    #[inline]
    pub fn total_ns(&self) -> u64 {
        self.lag_ns + self.unseen_ns + self.behind_ns
    }
}

/// The four timestamps of an operation, nanoseconds since the run began, and this program's earlier delays. Invariant:
/// `intended <= eligible <= issued <= completed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    intended_ns: u64,
    eligible_ns: u64,
    issued_ns: u64,
    completed_ns: u64,
    own_delay: OwnDelay,
}

impl Times {
    /// Raises `eligible_ns` to `intended_ns` if a slot was free earlier: an operation cannot be eligible before it is
    /// due. Panics in debug builds if `issued_ns` or `completed_ns` is before the previous timestamp.
    #[inline]
    pub fn new(intended_ns: u64, eligible_ns: u64, issued_ns: u64, completed_ns: u64) -> Self {
        let eligible_ns = eligible_ns.max(intended_ns);
        debug_assert!(eligible_ns <= issued_ns && issued_ns <= completed_ns);
        Self {
            intended_ns,
            eligible_ns,
            issued_ns,
            completed_ns,
            own_delay: OwnDelay::default(),
        }
    }

    /// Sets the delays from before the operation was issued. Completions that were seen late delay only an operation that
    /// waits for a slot, so `unseen_ns` is limited to the operation's wait.
    #[inline]
    #[must_use]
    pub fn with_own_delay(mut self, own_delay: OwnDelay) -> Self {
        let unseen_ns = own_delay.unseen_ns.min(self.wait_ns());
        self.own_delay = OwnDelay {
            unseen_ns,
            ..own_delay
        };
        self
    }

    /// Delays from before the operation was issued: `lag_ns` and `unseen_ns` are those of the earlier operations on its
    /// slot. The operation's own lag is [`Self::lag_ns`].
    #[inline]
    pub fn own_delay(&self) -> &OwnDelay {
        &self.own_delay
    }

    /// The scheduled start.
    #[inline]
    pub fn intended_ns(&self) -> u64 {
        self.intended_ns
    }

    /// Time at which this program saw the completion.
    #[inline]
    pub fn completed_ns(&self) -> u64 {
        self.completed_ns
    }

    /// Time in which no slot under the in-flight limit was free.
    #[inline]
    pub fn wait_ns(&self) -> u64 {
        self.eligible_ns - self.intended_ns
    }

    /// Time in which only this program delayed the operation.
    #[inline]
    pub fn lag_ns(&self) -> u64 {
        self.issued_ns.saturating_sub(self.eligible_ns)
    }

    /// Time from submission to completion: ACT's latency.
    #[inline]
    pub fn service_ns(&self) -> u64 {
        self.completed_ns.saturating_sub(self.issued_ns)
    }

    /// Time charged to the device: wait + service.
    #[inline]
    pub fn judged_ns(&self) -> u64 {
        self.wait_ns() + self.service_ns()
    }

    /// Time that a user would see: from the scheduled start to completion.
    #[inline]
    pub fn response_ns(&self) -> u64 {
        self.wait_ns() + self.lag_ns() + self.service_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_counts_toward_response_but_not_toward_judged() {
        let times = Times::new(100, 150, 180, 400);
        assert_eq!(times.wait_ns(), 50);
        assert_eq!(times.lag_ns(), 30);
        assert_eq!(times.service_ns(), 220);
        assert_eq!(times.judged_ns(), 270);
        assert_eq!(times.response_ns(), 300);
    }

    #[test]
    fn an_operation_due_after_its_slot_was_freed_has_no_wait() {
        assert_eq!(Times::new(100, 10, 100, 101).wait_ns(), 0);
    }
}
