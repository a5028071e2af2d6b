//! Queries on a configuration, and its run parameters.

use super::act_keys;
use super::options::{OptionSpec, Test};
use super::problem::ConfigProblem;
use super::sizes::HistogramSizes;
use super::table::{SERVICE_THREADS_MAX, all, nearest};
use load::choice::Arrival;
use load::workload::RunSpec;
use results::buckets::ActScale;
use results::cell::ActHistograms;
use results::format::quoted_start;

pub use super::table::ActConfig;

/// Operations in flight on each device when `service-threads` is not given: enough that the drive's queue is the limit,
/// and few enough to need little memory.
pub const SERVICE_THREADS_PER_DEVICE: u32 = 1024;

impl ActConfig {
    /// Sets `key` to `value`, as a line of a file does. On an error nothing changes.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigProblem> {
        let test = self.test;
        match self.setting_mut(key) {
            Some((spec, setting)) if !spec.is_translated() => spec.set(setting, value),
            _ => Err(unknown(key, test)),
        }
    }

    /// The value of an option in file format; `None` if it is not set.
    pub fn text(&self, key: &str) -> Option<String> {
        self.setting(key)?.1.text()
    }

    /// The value of `key` as a number; `None` if it is not set, or not a number.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    /// Sets values that depend on which keys were given. `is_given` returns true for a given key.
    pub fn apply_dependent_defaults(&mut self, is_given: &dyn Fn(&str) -> bool) {
        // A histogram gives the sizes, so a default size must not apply.
        if self.has_histograms() && !is_given("record-bytes") {
            self.record_bytes = 0;
        }
    }

    pub fn has_histograms(&self) -> bool {
        self.storage_read_histogram.is_some() || self.storage_write_histogram.is_some()
    }

    pub fn read_sizes(&self) -> Option<HistogramSizes> {
        let within = self.size_within_bucket.of_reads();
        let offset_pct = self.read_size_offset;
        self.storage_read_histogram.map(|histogram| HistogramSizes {
            histogram,
            within,
            offset_pct,
        })
    }

    pub fn write_sizes(&self) -> Option<HistogramSizes> {
        let within = self.size_within_bucket.of_writes();
        let offset_pct = self.write_size_offset;
        self.storage_write_histogram
            .map(|histogram| HistogramSizes {
                histogram,
                within,
                offset_pct,
            })
    }

    /// Size of the largest record, in bytes; 0 if histograms give the sizes.
    pub fn record_bytes_max(&self) -> u32 {
        self.record_bytes.max(self.record_bytes_range_max)
    }

    pub(super) fn stored_bytes_max(&self) -> u32 {
        load::sizes::stored_bytes(self.record_bytes_max())
    }

    /// Client writes per second that reach this node, over all devices.
    pub(super) fn replicated_writes(&self) -> u64 {
        u64::from(self.write_reqs_per_sec) * u64::from(self.replication_factor)
    }

    /// Maximum number of client operations in flight over all devices. Default: 1024 per device.
    ///
    /// ACT's service threads each do one operation at a time, so their number bounds the queue depth that a drive can
    /// see. This is an upper bound: a run uses no more than the device's queue and the memory allow.
    pub fn service_threads_or_default(&self) -> u32 {
        // A test has at most 128 devices, so the product saturates only for a configuration that failed its checks.
        let devices = u32::try_from(self.device_names.len()).unwrap_or(u32::MAX);
        self.service_threads
            .unwrap_or_else(|| devices.saturating_mul(SERVICE_THREADS_PER_DEVICE))
    }

    pub(super) fn histograms(&self, per_device: bool) -> ActHistograms {
        let scale = if self.microsecond_histograms {
            ActScale::Microseconds
        } else {
            ActScale::Milliseconds
        };
        ActHistograms { scale, per_device }
    }

    /// Maximum lateness of operations in streams without limits, nanoseconds: `max-lag-sec`. `None`: no maximum.
    pub(super) fn late_ns(&self) -> Option<u64> {
        (self.max_lag_sec > 0).then(|| u64::from(self.max_lag_sec) * 1_000_000_000)
    }

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
            // ACT's threads wake for each request. Gathering operations into batches would change ACT's bursts.
            keeps_instants: self.arrival == Arrival::Act,
            aligned_slices: self.arrival == Arrival::Act,
            seed: self.seed,
            ..RunSpec::default()
        }
    }
}

/// ACT 4's queues as service threads. Errors: more threads than are allowed.
pub(super) fn threads_of_queues(queues: u32, threads: u32) -> Result<u32, ConfigProblem> {
    let product = queues
        .checked_mul(threads)
        .filter(|product| u64::from(*product) <= SERVICE_THREADS_MAX);
    product.ok_or_else(|| {
        let what = format!(
            "num-queues: {queues} queues x {threads} threads is more than {SERVICE_THREADS_MAX} service-threads - give \
             service-threads instead of num-queues and threads-per-queue"
        );
        ConfigProblem::conflict(["num-queues", "threads-per-queue"], what)
    })
}

pub(super) fn unknown(key: &str, test: Test) -> ConfigProblem {
    match all().find(|spec| spec.name == key && !spec.tests.contains(&test)) {
        Some(OptionSpec {
            tests: [of, ..], ..
        }) => ConfigProblem::Other(format!(
            "{key}: a key of the {} test; {} {} test does not read it - remove the line, or run \"flashproof {}\"",
            of.name(),
            if test == Test::Index { "an" } else { "a" },
            test.name(),
            of.name()
        )),
        _ if act_keys::find(key).is_some() => ConfigProblem::OldKey(quoted_start(key)),
        _ => {
            let suggestion = match nearest(test, key) {
                Some(name) => format!("did you mean {name}?"),
                None => "no known key is similar; docs/options.md lists all keys".to_owned(),
            };
            ConfigProblem::Other(format!("unknown key {} - {suggestion}", quoted_start(key)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_starts_with;

    #[test]
    fn service_threads_default_to_1024_for_each_device() {
        let mut config = ActConfig {
            device_names: vec!["a".parse().unwrap(), "b".parse().unwrap()],
            ..Default::default()
        };
        assert_eq!(config.service_threads_or_default(), 2048);
        config.service_threads = Some(10);
        assert_eq!(config.service_threads_or_default(), 10);
    }

    #[test]
    fn a_key_of_an_older_act_cannot_be_set() {
        let mut config = ActConfig::default();
        let refused = config.set("num-queues", "3").unwrap_err().to_string();
        assert_starts_with!(refused, "\"num-queues\" is a key of an older ACT");
        assert_eq!(config, ActConfig::default());
    }
}
