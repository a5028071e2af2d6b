//! Findings about a host or a device, before or during a run, each with a remedy.
//!
//! The crate `device` makes findings, every run stores them, and reports show them. A finding adds context and never
//! changes a verdict.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Severity of a finding.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Level")]
pub enum Severity {
    /// No problem.
    Ok,
    /// Worth knowing, without effect on the result.
    Note,
    /// The check was not possible; the finding has the reason. Never counts as passed.
    Unknown,
    /// May spoil the result.
    Warning,
    /// Spoils the result or makes the result meaningless.
    Problem,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable name of the check, for programs: `io-scheduler`.
    pub check: String,
    /// Severity.
    pub level: Severity,
    /// The examined device, as the user named it; `None` for the host.
    pub device: Option<String>,
    /// Observation, with its numbers: `the scheduler of nvme0n1 is mq-deadline`.
    pub finding: String,
    /// Effect on a result; empty if the check passed.
    pub reason: String,
    /// Remedy, if possible as a command; empty if the check passed.
    pub remedy: String,
}
