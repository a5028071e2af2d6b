//! The configuration of an index test, typed, and the rates that follow from it.
//!
//! The primary index lies on the devices, in 4 KiB pages behind a mapping. A client's read or write
//! looks one page up, and waits for it; changed pages, and those that defragmentation touches, are
//! read and written back behind the clients' backs, by the cache threads:
//!
//! ```text
//! client writes = write-reqs-per-sec x replication-factor
//! service reads = read-reqs-per-sec + client writes               one page each
//! page updates  = client writes x 100 / (100 - defrag-lwm-pct)    each one read, then one write
//! ```
//!
//! All rates are exact fractions and totals over the devices. Source of the rules: ACT 6.6,
//! `cfg_index.c`, `derive_configuration`.

use super::check::check;
use super::configuration::{Configuration, Fields, settings};
use super::derive::exact;
use super::options::Test;
use super::problem::Problem;
use super::warning::Warning;
use crate::choice::{Arrival, Engine, Pacing};
use crate::rate::Rate;

/// Size of a page of the index, in bytes. Source: ACT 6.6, `IO_SIZE`.
pub const PAGE_BYTES: u32 = 4096;

/// What an ACT index test is asked to do.
///
/// One field for each key of the option table, which holds the ranges and says when to change what.
/// The default is ACT's, and like ACT's it is not complete: devices and a duration have to be given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IndexConfig {
    /// Devices, or files if `file_size_mbytes` is set. 1 to 128, all different.
    pub device_names: Vec<String>,
    /// Size of each file in MiB; `None`: the names are devices.
    pub file_size_mbytes: Option<u32>,
    /// Bound on the service reads in flight over all devices, if one was given.
    pub service_threads: Option<u32>,
    /// Bound on the page updates in flight over all devices, at least 1.
    pub cache_threads: u32,
    /// Length of the test, in seconds, at least 1.
    pub test_duration_sec: u32,
    /// Time between reports, in seconds, at least 1; may be longer than the test.
    pub report_interval_sec: u32,
    /// Whether the log's histograms count microseconds instead of milliseconds.
    pub microsecond_histograms: bool,
    /// Client reads a second, over all devices.
    pub read_reqs_per_sec: u32,
    /// Client writes a second, over all devices.
    pub write_reqs_per_sec: u32,
    /// Copies of each record, at least 1.
    pub replication_factor: u32,
    /// Defragmentation threshold, in percent, 0 to 99.
    pub defrag_lwm_pct: u32,
    /// Whether devices are opened without `O_DSYNC`.
    pub disable_odsync: bool,
    /// How far a stream may fall behind, in seconds; 0: without limit.
    pub max_lag_sec: u32,
    /// When operations are intended to start.
    pub arrival: Arrival,
    /// How issuing threads wait.
    pub pacing: Pacing,
    /// What carries operations to the kernel.
    pub engine: Engine,
    /// Seed of all random choices; `None`: to be chosen at the start.
    pub seed: Option<u64>,
    /// Issuing threads; `None`: as many as seem right.
    pub shards: Option<u32>,
}

impl Default for IndexConfig {
    fn default() -> Self {
        Self {
            device_names: Vec::new(),
            file_size_mbytes: None,
            service_threads: None,
            cache_threads: 8,
            test_duration_sec: 0,
            report_interval_sec: 1,
            microsecond_histograms: false,
            read_reqs_per_sec: 0,
            write_reqs_per_sec: 0,
            replication_factor: 1,
            defrag_lwm_pct: 50,
            disable_odsync: false,
            max_lag_sec: 10,
            arrival: Arrival::default(),
            pacing: Pacing::default(),
            engine: Engine::default(),
            seed: None,
            shards: None,
        }
    }
}

settings! { IndexConfig,
    "device-names" => device_names,
    "file-size-mbytes" => file_size_mbytes,
    "service-threads" => service_threads,
    "cache-threads" => cache_threads,
    "test-duration-sec" => test_duration_sec,
    "report-interval-sec" => report_interval_sec,
    "microsecond-histograms" => microsecond_histograms,
    "read-reqs-per-sec" => read_reqs_per_sec,
    "write-reqs-per-sec" => write_reqs_per_sec,
    "replication-factor" => replication_factor,
    "defrag-lwm-pct" => defrag_lwm_pct,
    "disable-odsync" => disable_odsync,
    "max-lag-sec" => max_lag_sec,
    "arrival" => arrival,
    "pacing" => pacing,
    "engine" => engine,
    "seed" => seed,
    "shards" => shards,
}

impl Configuration for IndexConfig {
    const TEST: Test = Test::Index;

    fn conflicts(&self) -> Vec<Problem> {
        self.terms().conflicts()
    }

    fn warnings(&self, _: &dyn Fn(&str) -> bool) -> Vec<(&'static str, Warning)> {
        self.terms().warnings()
    }
}

/// What follows from an [`IndexConfig`]. Rates are totals over all devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexDerived {
    /// Reads of one page that a client waits for.
    pub service_read_rate: Rate,
    /// Page updates: one read and one write each.
    pub update_rate: Rate,
}

/// Derives what will run from `config`.
///
/// Errors: everything that [`check`] finds, so that no other configuration can be run.
pub fn derive_index(config: &IndexConfig) -> Result<IndexDerived, Vec<Problem>> {
    let problems = check(config);
    if !problems.is_empty() {
        return Err(problems);
    }
    let writes = client_writes(config);
    Ok(IndexDerived {
        service_read_rate: exact(u128::from(config.read_reqs_per_sec) + u128::from(writes), 1),
        update_rate: exact(u128::from(writes) * 100, u128::from(100 - config.defrag_lwm_pct)),
    })
}

/// Client writes that reach this node, over all devices.
fn client_writes(config: &IndexConfig) -> u64 {
    u64::from(config.write_reqs_per_sec) * u64::from(config.replication_factor)
}

/// Page updates a second as ACT computes and prints them: in doubles, cut to a whole number. Where the
/// exact rate is whole, the last bit of the double decides.
pub(crate) fn updates_as_act_prints(config: &IndexConfig) -> u64 {
    (client_writes(config) as f64 * (100.0 / f64::from(100 - config.defrag_lwm_pct))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::act::options::{self, options_of};

    fn config() -> IndexConfig {
        IndexConfig {
            device_names: vec!["/dev/a".into()],
            test_duration_sec: 1,
            read_reqs_per_sec: 7777,
            write_reqs_per_sec: 3333,
            ..IndexConfig::default()
        }
    }

    #[test]
    fn each_client_write_reads_one_page_and_updates_as_many_as_defragmentation_makes_of_it() {
        let rates = |config: &IndexConfig| {
            let IndexDerived { service_read_rate, update_rate } = derive_index(config).unwrap();
            (service_read_rate, update_rate)
        };
        assert_eq!(rates(&config()), (Rate::per_sec(11_110), Rate::per_sec(6_666)));
        let replicated = IndexConfig { replication_factor: 2, defrag_lwm_pct: 75, ..config() };
        assert_eq!(rates(&replicated), (Rate::per_sec(14_443), Rate::per_sec(26_664)));
        let thirds = IndexConfig { write_reqs_per_sec: 1000, defrag_lwm_pct: 40, ..config() };
        assert_eq!(rates(&thirds).1, Rate::new(5_000, 3).unwrap(), "nothing is truncated");
        assert_eq!(updates_as_act_prints(&thirds), 1666, "but printed as ACT prints it");
        let read_only = IndexConfig { write_reqs_per_sec: 0, ..config() };
        assert_eq!(rates(&read_only), (Rate::per_sec(7777), Rate::ZERO));
    }

    #[test]
    fn the_largest_rates_fit() {
        let most = IndexConfig {
            read_reqs_per_sec: u32::MAX,
            write_reqs_per_sec: u32::MAX,
            replication_factor: 1_000_000,
            defrag_lwm_pct: 99,
            ..config()
        };
        assert_eq!(derive_index(&most).unwrap().update_rate, Rate::per_sec(u64::from(u32::MAX) * 100_000_000));
    }

    #[test]
    fn what_cannot_be_checked_cannot_be_derived() {
        assert!(derive_index(&IndexConfig::default()).is_err());
        let none = IndexConfig { read_reqs_per_sec: 0, write_reqs_per_sec: 0, ..config() };
        assert_eq!(derive_index(&none), Err(vec![Problem::NoLoad]));
    }

    #[test]
    fn every_option_has_a_field_and_its_default() {
        let defaults = IndexConfig::default();
        for spec in options_of(Test::Index) {
            let setting = defaults.setting(spec.name).unwrap_or_else(|| panic!("{}", spec.name));
            match spec.default {
                options::Default::Mandatory(_) => assert!(setting.check(spec).is_err(), "{}", spec.name),
                options::Default::Value(text) => assert_eq!(setting.text().as_deref(), Some(text), "{}", spec.name),
                options::Default::Unset { .. } => assert_eq!(setting.text(), None, "{}", spec.name),
            }
        }
    }
}
