//! Circumstances of a result: the drives, the host and the command, as far as known.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Circumstances of a result. Records of earlier versions have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Circumstances {
    /// Name of the host.
    pub host: Option<String>,
    /// Command line.
    pub command: Vec<String>,
    /// The drives below the path; empty if they are unknown or simulated.
    pub drives: Vec<TestedDrive>,
}

/// A drive. `None`: the drive does not report the value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TestedDrive {
    /// The kernel's name: `nvme0n1`.
    pub name: Option<String>,
    pub model: Option<String>,
    pub serial: Option<String>,
    pub firmware: Option<String>,
    pub size_bytes: u64,
}
