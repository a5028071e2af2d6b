//! A test of either kind, read from a file, checked, with the rates that follow from it.
//!
//! What the binary works with: it never asks which of the two tests it runs.

use super::any::AnyConfig;
use super::build;
use super::configuration::{Fields, Terms};
use super::derive::{Derived, derive};
use super::echo;
use super::index::{IndexConfig, IndexDerived, PAGE_BYTES, derive_index};
use super::options::Test;
use super::problem::{ConfigErrors, Located, Problem};
use super::storage::StorageConfig;
use super::warning::Warning;
use crate::choice::Arrival;
use crate::stream::Pattern;
use crate::workload::{CannotRun, Choices, DeviceShape, RunPlan, RunSpec, Workload};
use results::run_dir::{ActLogHead, Config, WorkloadRecord};

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

    /// Settles the bound on the operations in flight that clients wait for.
    pub fn set_service_threads(&mut self, threads: u32) {
        either!(self, config => config.set_service_threads(threads));
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
    fn device_line(&self, device: &DeviceShape) -> String {
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

impl Workload for Model {
    type Stream = Pattern;

    fn kind(&self) -> &'static str {
        self.test().name()
    }

    fn spec(&self) -> RunSpec {
        self.terms().spec()
    }

    fn writes(&self) -> bool {
        match self {
            Self::Storage { derived, .. } => {
                !derived.commit_write_rate.is_zero() || !derived.large_block_write_rate.is_zero()
            }
            Self::Index { derived, .. } => !derived.update_rate.is_zero(),
        }
    }

    fn unit_bytes(&self) -> u64 {
        match self {
            Self::Storage { derived, .. } => derived.large_block_bytes.into(),
            Self::Index { .. } => PAGE_BYTES.into(),
        }
    }

    fn build(
        &self,
        devices: &[DeviceShape],
        choices: &Choices,
        run: &mut RunPlan<Pattern>,
    ) -> Result<WorkloadRecord, CannotRun> {
        let built = match self {
            Self::Storage { config, derived } => build::storage(config, derived, devices, choices, run),
            Self::Index { config, derived } => build::index(config, derived, devices, choices, run),
        };
        let service_threads = built.map_err(|error| CannotRun(error.to_string()))?;
        // The log shows what is in force.
        let mut in_force = self.clone();
        in_force.set_service_threads(self.terms().service_threads.unwrap_or(service_threads));
        either!(&mut in_force, config => config.seed = Some(choices.seed));
        Ok(WorkloadRecord {
            name: String::new(),
            kind: self.kind().to_owned(),
            config: Config {
                as_written: String::new(),
                resolved: in_force.configuration(),
                derived: self.derived(),
                settings: in_force.settings(),
            },
            times_1x: self.times_1x(),
            not_comparable: self.not_comparable(),
            act_log: Some(ActLogHead {
                test: self.test(),
                device_lines: devices.iter().map(|device| self.device_line(device)).collect(),
            }),
        })
    }
}
