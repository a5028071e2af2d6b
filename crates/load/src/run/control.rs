//! Settings, pacing and end of a run. The end is requested from outside, or caused by an event in a shard.

use results::format;
pub use results::judge::DelayOwner;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Operations due before this time are issued.
    pub duration_ns: u64,
    /// A lane further behind than this ends the run; 0: never.
    pub max_lag_ns: u64,
    /// More failed operations than this end the run.
    pub errors_max: u64,
    pub pacing: Pacing,
    /// After the end of the run, a device with operations in flight is given up once it completes nothing for this
    /// long. Its operations are then lost.
    pub hang_ns: u64,
    /// Ramp: initial part of the duration that does not count.
    pub ramp_ns: u64,
}

/// Default time to wait for a device that hangs, nanoseconds. The kernel's I/O timeout is 30 s for most devices.
pub const HANG_NS: u64 = 60_000_000_000;

impl Settings {
    /// Settings of a run that lasts until its streams have ended, and ends at the first error.
    pub fn until_done(pacing: Pacing) -> Self {
        Self {
            duration_ns: u64::MAX / 4,
            max_lag_ns: 0,
            errors_max: 0,
            pacing,
            hang_ns: HANG_NS,
            ramp_ns: 0,
        }
    }
}

/// How the issuing thread waits between operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// Sleeps. With several operations in flight the thread takes completions when it issues, or once every
    /// `period_ns`, because waking costs far more than taking a completion. Completions stay unseen for up to a
    /// period. With one or two operations in flight, the thread wakes for the first completion.
    Sleep {
        /// Maximum time between two polls.
        period_ns: u64,
        /// True to wake once every period and issue all operations due by then: fewer wake-ups, but a lag of up to a
        /// period. False to wake for each operation.
        gathers: bool,
    },
    /// Never sleeps: least lag, but one CPU is always busy.
    Spin,
}

/// Maximum sleep, so that signals are handled in time.
pub(super) const SLEEP_MAX_NS: u64 = 100_000_000;

#[derive(Debug, Clone, PartialEq)]
pub enum EndCause {
    /// A signal, or the caller of the run.
    Requested {
        /// Signal number; 0 for none.
        signal: i32,
    },
    /// The receiver of the records has enough data: a regular end.
    Enough {
        /// Reason, a phrase.
        reason: String,
    },
    /// A lane fell further behind its schedule than allowed.
    Lag {
        lane: String,
        whose: DelayOwner,
        behind_ns: u64,
        /// Operations in flight under the lane's limit.
        in_flight: u32,
        slots: u32,
    },
    /// A target no longer answers.
    Gone {
        device: usize,
        /// Error of the last operation.
        error: String,
    },
    /// More operations failed than allowed.
    Errors { count: u64 },
    /// A stream has more operations but cannot produce the next, and no completion in flight will change that.
    Stuck {
        /// Message for the user.
        reason: String,
    },
    /// The run directory could not be written, or an engine failed.
    Failed {
        /// Message for the user.
        message: String,
    },
}

/// A phrase for the errors of a run with a single workload.
impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested { signal } => write!(f, "signal {signal}"),
            Self::Enough { reason: why } | Self::Stuck { reason: why } => f.write_str(why),
            Self::Lag {
                lane, behind_ns, ..
            } => {
                write!(
                    f,
                    "{lane} was {} behind its schedule",
                    format::duration(*behind_ns)
                )
            }
            Self::Gone { error, .. } => write!(f, "the drive is gone: {error}"),
            Self::Errors { count } => write!(f, "{} failed", format::count(*count, "operation")),
            Self::Failed { message } => f.write_str(message),
        }
    }
}

/// Stop flag that all shards and the recorder watch.
#[derive(Debug, Default)]
pub struct Control {
    stopped: AtomicBool,
    cause: Mutex<Option<EndCause>>,
    errors: AtomicU64,
}

impl Control {
    /// Ends the run. The first cause counts.
    pub fn stop(&self, cause: EndCause) {
        let mut first_cause = self
            .cause
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        first_cause.get_or_insert(cause);
        self.stopped.store(true, Ordering::Release);
    }

    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub fn cause(&self) -> Option<EndCause> {
        self.cause
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .clone()
    }

    /// Counts one failed operation; returns the total over all shards.
    pub(super) fn count_error(&self) -> u64 {
        self.errors.fetch_add(1, Ordering::Relaxed) + 1
    }
}
