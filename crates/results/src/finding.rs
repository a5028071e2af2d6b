//! Findings about a host or a device before or beside a run, each with its remedy.
//!
//! The crate `device` makes them, every run stores them, reports show them. A finding never changes a verdict; it adds
//! context.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; it spoils nothing.
    Note,
    /// Not examined, for a reason. Never taken for [`Level::Ok`].
    Unknown,
    /// May spoil the result.
    Warning,
    /// Spoils the result, or makes it meaningless.
    Problem,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Check, a stable name for programs: `io-scheduler`.
    pub check: String,
    /// How much it weighs.
    pub level: Level,
    /// The device that it is about, as the user named it; `None` for the host.
    pub device: Option<String>,
    /// Finding, with its number: `the scheduler of nvme0n1 is mq-deadline`.
    pub finding: String,
    /// Why that matters to a result; empty for [`Level::Ok`].
    pub reason: String,
    /// Remedy, if possible as a command; empty for [`Level::Ok`].
    pub remedy: String,
}
