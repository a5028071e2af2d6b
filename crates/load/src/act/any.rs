//! A configuration of either test, addressed by its keys.
//!
//! What works on keys alone (writing a commented file, scaling rates, translating old dialects) is
//! written once against this and the option table, and knows nothing of the tests' own types.

use super::check::check;
use super::derive::derive;
use super::meaning::Meaning;
use super::options::{OptionSpec, Test, find, nearest};
use super::parse::parse_storage;
use super::problem::{ConfigErrors, Located, Problem, Quoted};
use super::setting::Setting;
use super::storage::StorageConfig;
use super::warning::Warning;
use device::discover::Drive;

/// A configuration of one of the tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnyConfig {
    /// Of `flashproof storage`.
    Storage(StorageConfig),
}

impl AnyConfig {
    /// The defaults of `test`; like ACT's they are not complete.
    pub fn new(test: Test) -> Self {
        match test {
            Test::Storage => Self::Storage(StorageConfig::default()),
        }
    }

    /// Reads the configuration of `test` from `bytes`; `file` is only named in messages.
    ///
    /// Errors: every mistake of the file.
    pub fn parse(test: Test, file: &str, bytes: &[u8]) -> Result<(Self, Vec<Located<Warning>>), ConfigErrors> {
        match test {
            Test::Storage => {
                let parsed = parse_storage(file, bytes)?;
                Ok((Self::Storage(parsed.config), parsed.warnings))
            }
        }
    }

    /// The test that it configures.
    pub fn test(&self) -> Test {
        match self {
            Self::Storage(_) => Test::Storage,
        }
    }

    /// The devices or files that it names.
    pub fn device_names(&self) -> &[String] {
        match self {
            Self::Storage(config) => &config.device_names,
        }
    }

    /// Sets `key` to `value`, as a line of a file does. On an error nothing changes.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Problem> {
        let test = self.test();
        let unknown = || {
            let nearest = nearest(test, key).filter(|near| *near != key);
            Problem::UnknownKey { key: Quoted::new(key), nearest }
        };
        let spec = find(test, key).ok_or_else(unknown)?;
        let setting = self.setting_mut(key).ok_or_else(unknown)?;
        setting.set(spec, value).map_err(|found| Problem::value(spec, found))
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
        match self {
            Self::Storage(config) => check(config),
        }
    }

    /// What the load means for `drives`, on which its devices lie.
    ///
    /// Errors: everything that [`problems`](Self::problems) finds.
    pub fn meaning(&self, drives: &[Drive]) -> Result<Meaning, Vec<Problem>> {
        match self {
            Self::Storage(config) => Ok(Meaning::of_storage(config, &derive(config)?, drives)),
        }
    }

    fn setting(&self, key: &str) -> Option<&dyn Setting> {
        match self {
            Self::Storage(config) => config.setting(key),
        }
    }

    fn setting_mut(&mut self, key: &str) -> Option<&mut dyn Setting> {
        match self {
            Self::Storage(config) => config.setting_mut(key),
        }
    }
}
