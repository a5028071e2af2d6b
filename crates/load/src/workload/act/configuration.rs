//! What the configurations of both tests have in common: fields named by the option table, and the
//! terms on which a test is run.

use super::check;
use super::options::{OptionSpec, Test};
use super::problem::Problem;
use super::setting::Setting;
use super::warning::Warning;
use crate::choice::{Arrival, Engine, Pacing};
use crate::workload::RunSpec;
use results::buckets::ActScale;
use results::cell::ActHistograms;

/// The fields of a configuration, by their keys and as terms. `settings!` implements it.
pub trait Fields {
    /// The field that the option `key` sets; `None` for an option without a field of its own.
    fn setting(&self, key: &str) -> Option<&dyn Setting>;

    /// The field that the option `key` sets, to be set.
    fn setting_mut(&mut self, key: &str) -> Option<&mut dyn Setting>;

    /// How the test is run.
    fn terms(&self) -> Terms;

    /// Settles when operations are intended to start.
    fn set_arrival(&mut self, arrival: Arrival);

    /// Settles the bound on the operations in flight that clients wait for.
    fn set_service_threads(&mut self, threads: u32);
}

/// The configuration of a test, as what is generic over the tests sees it.
///
/// Implemented by [`super::StorageConfig`] and [`super::IndexConfig`], whose fields a caller uses.
pub trait Configuration: Fields + Default {
    /// The test that it configures.
    const TEST: Test;

    /// Fills in what follows from a key that a file does not have. `given` tells whether it has a key.
    fn settle(&mut self, _given: &dyn Fn(&str) -> bool) {}

    /// Values that contradict each other, each being in its range.
    fn conflicts(&self) -> Vec<Problem>;

    /// What deserves to be said of a file without mistakes, with the key to point at.
    fn warnings(&self, given: &dyn Fn(&str) -> bool) -> Vec<(&'static str, Warning)>;

    /// Whether an option that ACT 6.6 does not have means anything here, so that it is echoed.
    fn shows(&self, _spec: &OptionSpec) -> bool {
        true
    }
}

/// How a test of either kind is run: on what, for how long, how its operations arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Devices, or files if `file_size_mbytes` is set. 1 to 128, all different.
    pub device_names: Vec<String>,
    /// Size of each file in MiB; `None`: the names are devices.
    pub file_size_mbytes: Option<u32>,
    /// Bound on the operations in flight that clients wait for, if one was given.
    pub service_threads: Option<u32>,
    /// Length of the test, in seconds.
    pub test_duration_sec: u32,
    /// Time between reports, in seconds.
    pub report_interval_sec: u32,
    /// Whether the log's histograms count microseconds instead of milliseconds.
    pub microsecond_histograms: bool,
    /// Client reads a second, over all devices.
    pub read_reqs_per_sec: u32,
    /// Client writes a second, over all devices.
    pub write_reqs_per_sec: u32,
    /// How far a stream may fall behind, in seconds; 0: without limit.
    pub max_lag_sec: u32,
    /// Whether devices are opened without `O_DSYNC`.
    pub disable_odsync: bool,
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

/// Operations in flight on each device when `service-threads` is not given: enough that the drive's
/// queue is the limit, and little memory.
pub const SERVICE_THREADS_PER_DEVICE: u32 = 1024;

impl Terms {
    /// Bound on the operations in flight that clients wait for, over all devices.
    ///
    /// ACT's service threads each do one operation at a time, so their number bounds the queue depth
    /// that a drive can see. When the configuration names no number, 1024 for each device.
    pub fn service_threads_or_default(&self) -> u32 {
        // At most 128 devices, so this saturates only for a configuration that no check let through.
        let devices = u32::try_from(self.device_names.len()).unwrap_or(u32::MAX);
        self.service_threads.unwrap_or_else(|| devices.saturating_mul(SERVICE_THREADS_PER_DEVICE))
    }

    /// The histograms that ACT's log has of a stream.
    pub(super) fn histograms(&self, per_device: bool) -> ActHistograms {
        let scale = match self.microsecond_histograms {
            true => ActScale::Microseconds,
            false => ActScale::Milliseconds,
        };
        ActHistograms { scale, per_device }
    }

    /// The same as what runs it sees it.
    pub fn spec(&self) -> RunSpec {
        RunSpec {
            device_names: self.device_names.clone(),
            file_size_bytes: self.file_size_mbytes.map(|mbytes| u64::from(mbytes) << 20),
            duration_sec: self.test_duration_sec.into(),
            report_interval_sec: self.report_interval_sec.into(),
            max_lag_sec: self.max_lag_sec.into(),
            odsync: !self.disable_odsync,
            engine: self.engine,
            pacing: self.pacing,
            // ACT wakes for each request; gathered, its bursts would be others.
            keeps_instants: self.arrival == Arrival::Act,
            seed: self.seed,
        }
    }

    /// What contradicts each other in any test.
    pub(crate) fn conflicts(&self) -> Vec<Problem> {
        let mut problems: Vec<_> = check::engines(self).into_iter().collect();
        if self.read_reqs_per_sec == 0 && self.write_reqs_per_sec == 0 {
            problems.push(Problem::NoLoad);
        }
        problems
    }

    /// Warnings about any test.
    pub(crate) fn warnings(&self) -> Vec<(&'static str, Warning)> {
        let Self { report_interval_sec, test_duration_sec, .. } = *self;
        let one_report = Warning::OneReportOnly { report_interval_sec, test_duration_sec };
        let too_long = report_interval_sec > test_duration_sec;
        too_long.then_some(("report-interval-sec", one_report)).into_iter().collect()
    }
}

/// Implements [`Fields`] for a struct that has a field for each of [`Terms`] by the same name: names the
/// field of each key, once, for reading and for writing.
macro_rules! settings {
    ($config:ident, $($key:literal => $field:ident,)+) => {
        impl $crate::workload::act::configuration::Fields for $config {
            fn setting(&self, key: &str) -> Option<&dyn $crate::workload::act::setting::Setting> {
                match key {
                    $($key => Some(&self.$field),)+
                    _ => None,
                }
            }

            fn setting_mut(&mut self, key: &str) -> Option<&mut dyn $crate::workload::act::setting::Setting> {
                match key {
                    $($key => Some(&mut self.$field),)+
                    _ => None,
                }
            }

            fn set_arrival(&mut self, arrival: $crate::choice::Arrival) {
                self.arrival = arrival;
            }

            fn set_service_threads(&mut self, threads: u32) {
                self.service_threads = Some(threads);
            }

            fn terms(&self) -> $crate::workload::act::configuration::Terms {
                $crate::workload::act::configuration::Terms {
                    device_names: self.device_names.clone(),
                    file_size_mbytes: self.file_size_mbytes,
                    service_threads: self.service_threads,
                    test_duration_sec: self.test_duration_sec,
                    report_interval_sec: self.report_interval_sec,
                    microsecond_histograms: self.microsecond_histograms,
                    read_reqs_per_sec: self.read_reqs_per_sec,
                    write_reqs_per_sec: self.write_reqs_per_sec,
                    max_lag_sec: self.max_lag_sec,
                    disable_odsync: self.disable_odsync,
                    arrival: self.arrival,
                    pacing: self.pacing,
                    engine: self.engine,
                    seed: self.seed,
                    shards: self.shards,
                }
            }
        }
    };
}

pub(crate) use settings;
