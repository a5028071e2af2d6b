//! A test of either kind, read from a file, checked, with the rates that follow from it.
//!
//! What the binary works with: it never asks which of the two tests it runs.

use super::any::AnyConfig;
use super::choice::Arrival;
use super::configuration::{Fields, Terms};
use super::derive::{Derived, derive};
use super::echo;
use super::index::{IndexConfig, IndexDerived, PAGE_BYTES, derive_index};
use super::options::Test;
use super::problem::{ConfigErrors, Located, Problem};
use super::storage::StorageConfig;
use super::warning::Warning;
use super::workload::{Choices, DeviceShape, Workload, WorkloadError};

/// A test that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one in a run")]
pub enum Model {
    /// Records and large blocks.
    Storage {
        /// What was said.
        config: StorageConfig,
        /// What will run.
        derived: Derived,
    },
    /// Pages of a primary index.
    Index {
        /// What was said.
        config: IndexConfig,
        /// What will run.
        derived: IndexDerived,
    },
}

/// Does the same with the configuration of either test.
macro_rules! either {
    ($model:expr, $config:ident => $what:expr) => {
        match $model {
            Model::Storage { config: $config, .. } => $what,
            Model::Index { config: $config, .. } => $what,
        }
    };
}

impl Model {
    /// What `config` makes.
    ///
    /// Errors: everything that is wrong with it.
    pub fn of(config: AnyConfig) -> Result<Self, Vec<Problem>> {
        Ok(match config {
            AnyConfig::Storage(config) => Self::Storage { derived: derive(&config)?, config },
            AnyConfig::Index(config) => Self::Index { derived: derive_index(&config)?, config },
        })
    }

    /// Reads a configuration of `test` from `bytes`, with what deserves to be said about it. `file` is
    /// only named in messages.
    ///
    /// Errors: every mistake of the file, see [`parse`](super::parse::parse).
    pub fn parse(test: Test, file: &str, bytes: &[u8]) -> Result<(Self, Vec<Located<Warning>>), ConfigErrors> {
        let (config, warnings) = AnyConfig::parse(test, file, bytes)?;
        // What parsed can be derived; if not, the reasons concern no single line.
        let located = |what| Located { file: file.to_owned(), line: None, what };
        let refused = |problems: Vec<Problem>| ConfigErrors(problems.into_iter().map(located).collect());
        Ok((Self::of(config).map_err(refused)?, warnings))
    }

    /// Which test it is.
    pub fn test(&self) -> Test {
        match self {
            Self::Storage { .. } => Test::Storage,
            Self::Index { .. } => Test::Index,
        }
    }

    /// How it is run.
    pub fn terms(&self) -> Terms {
        either!(self, config => config.terms())
    }

    /// Settles when operations are intended to start.
    pub fn set_arrival(&mut self, arrival: Arrival) {
        either!(self, config => config.set_arrival(arrival));
    }

    /// Settles the seed of all random choices.
    pub fn set_seed(&mut self, seed: u64) {
        either!(self, config => config.set_seed(seed));
    }

    /// Settles the bound on the operations in flight that clients wait for.
    pub fn set_service_threads(&mut self, threads: u32) {
        either!(self, config => config.set_service_threads(threads));
    }

    /// Whether the load writes at all. One that does not needs nobody's consent.
    pub fn writes(&self) -> bool {
        match self {
            Self::Storage { derived, .. } => {
                !derived.commit_write_rate.is_zero() || !derived.large_block_write_rate.is_zero()
            }
            Self::Index { derived, .. } => !derived.update_rate.is_zero(),
        }
    }

    /// What at least has to fit on each device, in bytes: the largest unit of the load.
    pub fn unit_bytes(&self) -> u32 {
        match self {
            Self::Storage { derived, .. } => derived.large_block_bytes,
            Self::Index { .. } => PAGE_BYTES,
        }
    }

    /// What runs on `devices`, which are those of its terms.
    ///
    /// Errors: a device too small for the configuration.
    pub fn workload(&self, devices: &[DeviceShape], choices: &Choices) -> Result<Workload, WorkloadError> {
        match self {
            Self::Storage { config, derived } => Workload::storage(config, derived, devices, choices),
            Self::Index { config, derived } => Workload::index(config, derived, devices, choices),
        }
    }

    /// The lines of ACT's CONFIGURATION block; see [`echo::configuration`].
    pub fn configuration(&self) -> Vec<(String, String)> {
        either!(self, config => echo::configuration(config))
    }

    /// The lines of ACT's DERIVED CONFIGURATION block.
    pub fn derived(&self) -> Vec<(String, String)> {
        match self {
            Self::Storage { config, derived } => echo::derived(config, derived),
            Self::Index { config, derived } => echo::derived_index(config, derived),
        }
    }

    /// The lines of our own FLASHPROOF SETTINGS block; see [`echo::settings`].
    pub fn settings(&self) -> Vec<(String, String)> {
        either!(self, config => echo::settings(config))
    }

    /// All three blocks as one text.
    pub fn blocks(&self) -> String {
        either!(self, config => echo::blocks(config, self.derived()))
    }

    /// What ACT's log says of a device before the histograms.
    pub fn device_line(&self, device: &DeviceShape) -> String {
        let DeviceShape { name, size_bytes, min_io_bytes, .. } = device;
        match self {
            Self::Storage { derived, .. } => {
                let blocks = size_bytes / u64::from(derived.large_block_bytes);
                format!(
                    "{name} size = {size_bytes} bytes, {blocks} large blocks, minimum IO size = {min_io_bytes} bytes"
                )
            }
            Self::Index { .. } => format!("{name} size = {size_bytes} bytes"),
        }
    }
}
