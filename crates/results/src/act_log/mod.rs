//! ACT 6.6's log, written and read.
//!
//! The log is the dialect that ten years of scripts and comparisons speak, so it must stay what it
//! was: a banner, the configuration as resolved, the derived rates, the names of the histograms,
//! and at each report a chunk of *cumulative* service times in power-of-two buckets:
//!
//! ```text
//! ACT version 6.6
//! Storage device IO test
//! written by flashproof 0.1.0, in ACT's log format     <- ACT has its copyright line here
//!
//! ACT-STORAGE CONFIGURATION
//! name: value ...
//!
//! DERIVED CONFIGURATION
//! name: value ...
//!
//! FLASHPROOF SETTINGS                                  <- ours only; ACT's script does not see it
//! name: value ...
//!
//! /dev/x size = N bytes, M large blocks, minimum IO size = K bytes
//!
//! HISTOGRAM NAMES
//! reads ...
//!
//! after 1 sec:
//! reads (2002 total)
//!  (00: 0000001914) (01: 0000000048) (02: 0000000030) (03: 0000000009)
//!  (04: 0000000001)
//! ```
//!
//! Written here, checked against ACT's own analysis script. Read as ACT wrote it, too: messages may stand between any
//! two lines, and the tail of a killed run may be missing. Failed operations are in no histogram; the verdict counts
//! them elsewhere.

mod input;
mod read;
mod write;

pub use input::{Compression, Input};
pub use read::{Chunk, Entry, HeaderPart, ReadError, Reader, Truncation};
use schemars::JsonSchema;
pub use write::{Totals, histogram_names, write_chunk, write_error_line, write_header};

/// The version of ACT whose format is written.
pub const ACT_VERSION: &str = "6.6";

/// ACT's test that wrote a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// `act_storage`: records and large blocks.
    #[default]
    Storage,
    /// `act_index`: 4 KiB pages of a primary index.
    Index,
}

impl Test {
    pub const ALL: [Self; 2] = [Self::Storage, Self::Index];

    /// The test that is called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|test| test.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Index => "index",
        }
    }

    /// Second line of the banner.
    fn banner(self) -> &'static str {
        match self {
            Self::Storage => "Storage device IO test",
            Self::Index => "Index device IO test",
        }
    }

    pub fn configuration_title(self) -> &'static str {
        match self {
            Self::Storage => "ACT-STORAGE CONFIGURATION",
            Self::Index => "ACT-INDEX CONFIGURATION",
        }
    }
}

/// Title of the derived rates.
pub const DERIVED_TITLE: &str = "DERIVED CONFIGURATION";
const SETTINGS_TITLE: &str = "FLASHPROOF SETTINGS";
pub const NAMES_TITLE: &str = "HISTOGRAM NAMES";
const WRITTEN_BY: &str = "written by ";
const WRITTEN_BY_TAIL: &str = ", in ACT's log format";

/// Everything before the first chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// ACT's version whose format this is: [`ACT_VERSION`] in our own logs.
    pub act_version: String,
    pub test: Test,
    /// Program and version that wrote the log; empty when ACT itself did.
    pub written_by: String,
    /// The configuration with its defaults, name and value, in ACT's order.
    pub configuration: Vec<(String, String)>,
    /// The derived rates, name and value, in ACT's order.
    pub derived: Vec<(String, String)>,
    /// Settings that ACT does not have, name and value. The block is left out when empty.
    pub settings: Vec<(String, String)>,
    /// One line per device: size, large blocks, minimum I/O size.
    pub device_lines: Vec<String>,
    /// The histograms of each chunk, in order.
    pub histogram_names: Vec<String>,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            act_version: ACT_VERSION.to_owned(),
            test: Test::Storage,
            written_by: String::new(),
            configuration: Vec::new(),
            derived: Vec::new(),
            settings: Vec::new(),
            device_lines: Vec::new(),
            histogram_names: Vec::new(),
        }
    }
}

impl Header {
    /// Value of `name` in the configuration block.
    pub fn configured(&self, name: &str) -> Option<&str> {
        self.configuration.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}
