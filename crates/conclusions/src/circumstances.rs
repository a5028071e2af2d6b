//! Circumstances of a result, as far as known.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Drives, host and command of a result. Records of earlier versions have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Circumstances {
    /// Each drive below the path: name, model, serial number, firmware, size.
    pub drives: Vec<String>,
    /// Name of the host.
    pub host: Option<String>,
    /// Command line.
    pub command: Vec<String>,
}
