//! How a run goes on, how it passes the time, and when it ends.

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Operations intended before this instant are issued.
    pub duration_ns: u64,
    /// A lane further behind than this ends the run; 0: never.
    pub max_lag_ns: u64,
    /// More failed operations than this end the run.
    pub errors_max: u64,
    /// How to pass the time.
    pub pacing: Pacing,
    /// After the end a device with operations in flight is waited for as long as it returns something within this time;
    /// operations still in flight then are lost.
    pub hang_ns: u64,
    /// Part of the duration before anything counts.
    pub ramp_ns: u64,
}

/// Default time to wait for a device that hangs, nanoseconds. The kernel gives up on most after 30 s.
pub const HANG_NS: u64 = 60_000_000_000;

impl Settings {
    /// Settings of a run that lasts until its streams have ended, and ends at the first error.
    pub fn until_done(pacing: Pacing) -> Self {
        Self { duration_ns: u64::MAX / 4, max_lag_ns: 0, errors_max: 0, pacing, hang_ns: HANG_NS, ramp_ns: 0 }
    }
}

/// How the issuing thread passes the time between operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// Sleeps. With several operations in flight the thread takes completions when it issues, or once every `period_ns`,
    /// because waking costs far more than taking one: they lie unseen for up to a period. With one or two in flight the
    /// thread wakes for the first completion.
    Sleep {
        /// Longest time without a look.
        period_ns: u64,
        /// True to issue only once every period, all operations that are due then: fewer wake-ups for a lag of up to a
        /// period. False to wake for each operation.
        gathers: bool,
    },
    /// Never sleeps: least lag, a whole CPU.
    Spin,
}

/// Longest sleep, so that a signal is answered.
pub(super) const SLEEP_MAX_NS: u64 = 100_000_000;
