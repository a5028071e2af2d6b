//! End of a run: requested from outside, or caused by an event in a shard. Shared by all shards.

pub use results::judge::Whose;
use results::units;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Why a run ended before its time.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// A signal, or the caller of the run.
    Asked {
        /// Signal number; 0 for none.
        signal: i32,
    },
    /// The receiver of the records has enough data: a regular end.
    Enough {
        /// Reason, a phrase.
        why: String,
    },
    /// A lane fell further behind its schedule than allowed.
    Lag {
        lane: String,
        /// Who caused the delay.
        whose: Whose,
        /// Delay, nanoseconds.
        behind_ns: u64,
        /// Operations in flight under the lane's limit.
        in_flight: u32,
        /// In-flight limit.
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
    /// A stream has more operations but cannot produce the next one, and none in flight can change that.
    Stuck {
        /// Message for the user.
        why: String,
    },
    /// The run directory could not be written, or an engine failed.
    Failed {
        /// Message for the user.
        message: String,
    },
}

/// In words, for one workload of a run.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked { signal } => write!(f, "signal {signal}"),
            Self::Enough { why } | Self::Stuck { why } => f.write_str(why),
            Self::Lag { lane, behind_ns, .. } => {
                write!(f, "{lane} was {} behind its schedule", units::duration(*behind_ns))
            }
            Self::Gone { error, .. } => write!(f, "the drive is gone: {error}"),
            Self::Errors { count } => write!(f, "{} failed", units::count(*count, "operation")),
            Self::Failed { message } => f.write_str(message),
        }
    }
}

/// The switch that all shards and the recorder watch.
#[derive(Debug, Default)]
pub struct Control {
    stopped: AtomicBool,
    cause: Mutex<Option<Cause>>,
    errors: AtomicU64,
}

impl Control {
    /// Ends the run. The first cause counts.
    pub fn stop(&self, cause: Cause) {
        let mut first = self.cause.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        first.get_or_insert(cause);
        self.stopped.store(true, Ordering::Release);
    }

    /// True if the run is to end now.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Why the run ended early, if it did.
    pub fn cause(&self) -> Option<Cause> {
        self.cause.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Counts one failed operation; returns the total over all shards.
    pub(super) fn count_error(&self) -> u64 {
        self.errors.fetch_add(1, Ordering::Relaxed) + 1
    }
}
