//! How a run ended.

use crate::units;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Who kept operations back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Whose {
    /// The device did not keep up.
    Device,
    /// The configured limit of operations in flight was in the way.
    Limit,
    /// This program was late.
    Ours,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "the device",
            Self::Limit => "the configured limit of operations in flight",
            Self::Ours => "this program",
        })
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum End {
    /// After its full time.
    Completed,
    /// Before it, because enough had been seen: it lasted as long as it should.
    Enough {
        /// The reason to stop, a phrase: `the judged shares were steady`.
        why: String,
    },
    /// By a signal.
    Interrupted {
        /// Its name: `SIGINT`.
        signal: String,
    },
    /// A device went away.
    DeviceGone {
        /// Which.
        device: String,
    },
    /// More operations failed than allowed.
    TooManyErrors {
        /// How many there were.
        errors: u64,
        /// How many were allowed.
        errors_max: u64,
    },
    /// Operations were started so late that the load was no longer the one asked for.
    LagExceeded {
        /// The stream and device that were late: `reads@/dev/nvme0n1`.
        lane: String,
        /// Who was slow.
        whose: Whose,
        /// How late, milliseconds.
        lag_ms: u64,
        /// How late it may be, milliseconds.
        lag_max_ms: u64,
        /// Operations in flight at that moment.
        in_flight: u64,
        /// The limit of operations in flight.
        in_flight_max: u64,
    },
    /// The run directory could not be written any more.
    RecordingFailed {
        /// The error, one sentence.
        why: String,
    },
    /// The engine failed, not the operations.
    EngineFailed {
        /// The error, one sentence.
        why: String,
    },
    /// The load itself could not go on: a store's space is full.
    LoadStuck {
        /// Why, one sentence.
        why: String,
    },
    /// No end was recorded: the process was killed, or the machine stopped.
    Unrecorded,
}

impl End {
    /// True if the run lasted its configured time.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Completed | Self::Enough { .. })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed => f.write_str("completed"),
            Self::Enough { why } => write!(f, "ended because enough was seen: {why}"),
            Self::Interrupted { signal } => write!(f, "stopped by {signal}"),
            Self::DeviceGone { device } => write!(f, "{device} is gone"),
            Self::TooManyErrors { errors, errors_max } => {
                write!(f, "stopped after {} ({errors_max} are allowed)", units::count(*errors, "error"))
            }
            Self::LagExceeded { lane, whose, lag_ms, lag_max_ms, in_flight, in_flight_max } => {
                let (lag_sec, lag_max_sec) = (*lag_ms as f64 / 1000.0, *lag_max_ms as f64 / 1000.0);
                write!(
                    f,
                    "stopped because {lane} was {lag_sec:.1} s late (max-lag-sec {lag_max_sec}), with {in_flight} of \
                     at most {} in flight: {whose} could not keep up",
                    units::count(*in_flight_max, "operation")
                )?;
                if lane.starts_with("large-block-") && *in_flight_max == 1 {
                    f.write_str(" with large blocks one at a time, as in ACT (large-block-concurrency)")?;
                }
                Ok(())
            }
            Self::RecordingFailed { why } => write!(f, "stopped because nothing could be recorded any more: {why}"),
            Self::EngineFailed { why } => write!(f, "stopped because its engine failed: {why}"),
            Self::LoadStuck { why } => write!(f, "stopped because its load could not go on: {why}"),
            Self::Unrecorded => f.write_str("ended without a record of how (killed, or the machine stopped)"),
        }
    }
}
