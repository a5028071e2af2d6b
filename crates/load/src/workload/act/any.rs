//! A configuration of either test, addressed by its keys.
//!
//! What works on keys alone (writing a commented file, scaling rates, translating old dialects) is
//! written once against this and the option table, and knows nothing of the tests' own types.

use super::check::check;
use super::configuration::{Configuration, Fields, Terms};
use super::derive::derive;
use super::echo;
use super::index::{IndexConfig, derive_index};
use super::load_summary::LoadSummary;
use super::options::{OptionSpec, Test, find};
use super::parse::{Parsed, parse, unknown};
use super::problem::{ConfigErrors, Located, Problem};
use super::setting::Setting;
use super::storage::StorageConfig;
use super::warning::Warning;
use crate::choice::Arrival;
use device::discover::Drive;

/// A configuration of one of the tests, complete or not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one, or two")]
pub enum AnyConfig {
    /// Of `flashproof storage`.
    Storage(StorageConfig),
    /// Of `flashproof index`.
    Index(IndexConfig),
}

/// Does the same with the configuration of either test.
macro_rules! either {
    ($any:expr, $config:ident => $what:expr) => {
        match $any {
            Self::Storage($config) => $what,
            Self::Index($config) => $what,
        }
    };
}

impl AnyConfig {
    /// The defaults of `test`; like ACT's they are not complete.
    pub fn new(test: Test) -> Self {
        match test {
            Test::Storage => Self::Storage(StorageConfig::default()),
            Test::Index => Self::Index(IndexConfig::default()),
        }
    }

    /// Reads the configuration of `test` from `bytes`; `file` is only named in messages.
    ///
    /// Errors: every mistake of the file.
    pub fn parse(test: Test, file: &str, bytes: &[u8]) -> Result<(Self, Vec<Located<Warning>>), ConfigErrors> {
        Ok(match test {
            Test::Storage => {
                let Parsed { config, warnings } = parse(file, bytes)?;
                (Self::Storage(config), warnings)
            }
            Test::Index => {
                let Parsed { config, warnings } = parse(file, bytes)?;
                (Self::Index(config), warnings)
            }
        })
    }

    /// The test that it configures.
    pub fn test(&self) -> Test {
        match self {
            Self::Storage(_) => Test::Storage,
            Self::Index(_) => Test::Index,
        }
    }

    /// The devices or files that it names.
    pub fn device_names(&self) -> &[String] {
        either!(self, config => &config.device_names)
    }

    /// Sets the devices or files; an empty list is a mistake that [`problems`](Self::problems) finds.
    pub fn set_device_names(&mut self, names: Vec<String>) {
        either!(self, config => config.device_names = names);
    }

    /// Settles when operations are intended to start.
    pub fn set_arrival(&mut self, arrival: Arrival) {
        either!(self, config => config.set_arrival(arrival));
    }

    /// Settles how long the test lasts, seconds.
    pub fn set_duration(&mut self, seconds: u32) {
        either!(self, config => config.test_duration_sec = seconds);
    }

    /// How the test is run.
    pub fn terms(&self) -> Terms {
        either!(self, config => config.terms())
    }

    /// A file that reads back to it, see [`echo::to_text`].
    pub fn to_text(&self) -> String {
        either!(self, config => echo::to_text(config))
    }

    /// Sets `key` to `value`, as a line of a file does. On an error nothing changes.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Problem> {
        let test = self.test();
        let unknown = || unknown(key, test);
        let spec = find(test, key).ok_or_else(unknown)?;
        let setting = self.setting_mut(key).ok_or_else(unknown)?;
        setting.set(spec, value).map_err(|found| Problem::value(spec, found))
    }

    /// Fills in what follows from keys that nobody gave. `given` tells whether somebody did.
    pub fn settle(&mut self, given: &dyn Fn(&str) -> bool) {
        either!(self, config => config.settle(given));
    }

    /// The value of an option as a file would have it; `None` when it is not set.
    pub fn text(&self, spec: &OptionSpec) -> Option<String> {
        self.setting(spec.name)?.text()
    }

    /// The number at `key`; `None` where there is none.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.setting(key)?.text()?.parse().ok()
    }

    /// Everything that is wrong with it; empty when it can be run.
    pub fn problems(&self) -> Vec<Problem> {
        either!(self, config => check(config))
    }

    /// What the load means for `drives`, on which its devices lie.
    ///
    /// Errors: everything that [`problems`](Self::problems) finds.
    pub fn load_summary(&self, drives: &[Drive]) -> Result<LoadSummary, Vec<Problem>> {
        match self {
            Self::Storage(config) => Ok(LoadSummary::of_storage(config, &derive(config)?, drives)),
            Self::Index(config) => Ok(LoadSummary::of_index(config, &derive_index(config)?, drives)),
        }
    }

    fn setting(&self, key: &str) -> Option<&dyn Setting> {
        either!(self, config => config.setting(key))
    }

    fn setting_mut(&mut self, key: &str) -> Option<&mut dyn Setting> {
        either!(self, config => config.setting_mut(key))
    }
}
