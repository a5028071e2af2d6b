//! The configuration of a storage test, typed: what was said, nothing derived.

use super::check::storage_conflicts;
use super::configuration::{Configuration, Fields, settings};
use super::options::{OptionSpec, Test};
use super::problem::Problem;
use super::setting::Setting;
use super::sizes::{HistogramSizes, SizeHistogram, SizeWithinBucket};
use super::warning::Warning;
use crate::choice::{Arrival, Engine, Pacing};

/// What an ACT storage test is asked to do.
///
/// One field for each key of the option table, which holds the ranges and says when to change what.
/// The default is ACT's, and like ACT's it is not complete: devices and a duration have to be given.
/// A configuration that a program changed must pass [`check`](super::check()) again, as
/// [`derive`](super::derive()) makes sure.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StorageConfig {
    /// Devices, or files if `file_size_mbytes` is set. 1 to 128, all different.
    pub device_names: Vec<String>,
    /// Size of each file in MiB; `None`: the names are devices.
    pub file_size_mbytes: Option<u32>,
    /// Bound on the record operations in flight over all devices, if one was given.
    pub service_threads: Option<u32>,
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
    /// Size of the smallest record, in bytes, 1 to 8 MiB; 0 if histograms give the sizes.
    pub record_bytes: u32,
    /// Size of the largest record, in bytes; 0: all have `record_bytes`.
    pub record_bytes_range_max: u32,
    /// Size of a large block, in KiB, a power of two up to 8192.
    pub large_block_op_kbytes: u32,
    /// Copies of each record, at least 1.
    pub replication_factor: u32,
    /// Writes that read the record first, in percent, 0 to 100.
    pub update_pct: u32,
    /// Defragmentation threshold, in percent, 0 to 99.
    pub defrag_lwm_pct: u32,
    /// Whether defragmentation does no large-block reads.
    pub no_defrag_reads: bool,
    /// Compressed size of the written data, in percent, 0 to 100.
    pub compress_pct: u32,
    /// Whether devices are opened without `O_DSYNC`.
    pub disable_odsync: bool,
    /// Whether each record is written by itself.
    pub commit_to_device: bool,
    /// Whether each device is read from end to end, over and over.
    pub tomb_raider: bool,
    /// Pause of that reader between two large blocks, in microseconds.
    pub tomb_raider_sleep_usec: u32,
    /// How far a stream may fall behind, in seconds; 0: without limit.
    pub max_lag_sec: u32,
    /// Step of the size and place of commit writes, in bytes: a power of two, or 0 for the device's
    /// minimum.
    pub commit_min_bytes: u32,
    /// Sizes of record reads by powers of two, instead of `record_bytes`.
    pub storage_read_histogram: Option<SizeHistogram>,
    /// Sizes of records written by powers of two, instead of `record_bytes`.
    pub storage_write_histogram: Option<SizeHistogram>,
    /// Large blocks that the database writes, a second; 0: not known. `direct_frees` are a part of it.
    pub total_lbw_per_sec: u32,
    /// Large blocks freed without defragmentation, a second, at most `total_lbw_per_sec`.
    pub direct_frees: u32,
    /// What large-block reads are multiplied by, in percent, 1 to 1000. With histograms only, as the
    /// next ones.
    pub lbr_req_offset: u32,
    /// What large-block writes are multiplied by, in percent, 1 to 1000.
    pub lbw_req_offset: u32,
    /// What sizes read are multiplied by, in percent, 1 to 200.
    pub read_size_offset: u32,
    /// What sizes written are multiplied by, in percent, 1 to 200.
    pub write_size_offset: u32,
    /// Where in its bucket a size lies.
    pub size_within_bucket: SizeWithinBucket,
    /// When operations are intended to start.
    pub arrival: Arrival,
    /// How issuing threads wait.
    pub pacing: Pacing,
    /// What carries operations to the kernel.
    pub engine: Engine,
    /// Seed of all random choices; `None`: to be chosen at the start.
    pub seed: Option<u64>,
    /// Large-block reads, and writes, in flight on each device at most.
    pub large_block_concurrency: u32,
    /// Issuing threads; `None`: as many as seem right.
    pub shards: Option<u32>,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            device_names: Vec::new(),
            file_size_mbytes: None,
            service_threads: None,
            test_duration_sec: 0,
            report_interval_sec: 1,
            microsecond_histograms: false,
            read_reqs_per_sec: 0,
            write_reqs_per_sec: 0,
            record_bytes: 1536,
            record_bytes_range_max: 0,
            large_block_op_kbytes: 128,
            replication_factor: 1,
            update_pct: 0,
            defrag_lwm_pct: 50,
            no_defrag_reads: false,
            compress_pct: 100,
            disable_odsync: false,
            commit_to_device: false,
            tomb_raider: false,
            tomb_raider_sleep_usec: 0,
            max_lag_sec: 10,
            commit_min_bytes: 0,
            storage_read_histogram: None,
            storage_write_histogram: None,
            total_lbw_per_sec: 0,
            direct_frees: 0,
            lbr_req_offset: 100,
            lbw_req_offset: 100,
            read_size_offset: 100,
            write_size_offset: 100,
            size_within_bucket: SizeWithinBucket::default(),
            arrival: Arrival::default(),
            pacing: Pacing::default(),
            engine: Engine::default(),
            seed: None,
            large_block_concurrency: 1,
            shards: None,
        }
    }
}

impl StorageConfig {
    /// Whether sizes come from histograms.
    pub fn has_histograms(&self) -> bool {
        self.storage_read_histogram.is_some() || self.storage_write_histogram.is_some()
    }

    /// Sizes of record reads, if a histogram gives them.
    pub fn read_sizes(&self) -> Option<HistogramSizes> {
        let (within, offset_pct) = (self.size_within_bucket.of_reads(), self.read_size_offset);
        self.storage_read_histogram.map(|histogram| HistogramSizes { histogram, within, offset_pct })
    }

    /// Sizes of records written, if a histogram gives them.
    pub fn write_sizes(&self) -> Option<HistogramSizes> {
        let (within, offset_pct) = (self.size_within_bucket.of_writes(), self.write_size_offset);
        self.storage_write_histogram.map(|histogram| HistogramSizes { histogram, within, offset_pct })
    }

    /// Size of the largest record, in bytes; 0 if histograms give the sizes.
    pub fn record_bytes_max(&self) -> u32 {
        self.record_bytes.max(self.record_bytes_range_max)
    }
}

settings! { StorageConfig,
    "device-names" => device_names,
    "file-size-mbytes" => file_size_mbytes,
    "service-threads" => service_threads,
    "test-duration-sec" => test_duration_sec,
    "report-interval-sec" => report_interval_sec,
    "microsecond-histograms" => microsecond_histograms,
    "read-reqs-per-sec" => read_reqs_per_sec,
    "write-reqs-per-sec" => write_reqs_per_sec,
    "record-bytes" => record_bytes,
    "record-bytes-range-max" => record_bytes_range_max,
    "large-block-op-kbytes" => large_block_op_kbytes,
    "replication-factor" => replication_factor,
    "update-pct" => update_pct,
    "defrag-lwm-pct" => defrag_lwm_pct,
    "no-defrag-reads" => no_defrag_reads,
    "compress-pct" => compress_pct,
    "disable-odsync" => disable_odsync,
    "commit-to-device" => commit_to_device,
    "tomb-raider" => tomb_raider,
    "tomb-raider-sleep-usec" => tomb_raider_sleep_usec,
    "max-lag-sec" => max_lag_sec,
    "commit-min-bytes" => commit_min_bytes,
    "storage-read-histogram" => storage_read_histogram,
    "storage-write-histogram" => storage_write_histogram,
    "total-lbw-per-sec" => total_lbw_per_sec,
    "direct-frees" => direct_frees,
    "lbr-req-offset" => lbr_req_offset,
    "lbw-req-offset" => lbw_req_offset,
    "read-size-offset" => read_size_offset,
    "write-size-offset" => write_size_offset,
    "size-within-bucket" => size_within_bucket,
    "arrival" => arrival,
    "pacing" => pacing,
    "engine" => engine,
    "seed" => seed,
    "large-block-concurrency" => large_block_concurrency,
    "shards" => shards,
}

impl Configuration for StorageConfig {
    const TEST: Test = Test::Storage;

    fn settle(&mut self, given: &dyn Fn(&str) -> bool) {
        // A histogram gives the sizes, so that a size which nobody named is none.
        if self.has_histograms() && !given("record-bytes") {
            self.record_bytes = 0;
        }
    }

    fn conflicts(&self) -> Vec<Problem> {
        storage_conflicts(self)
    }

    fn warnings(&self, given: &dyn Fn(&str) -> bool) -> Vec<(&'static str, Warning)> {
        let commit_min = match self.commit_to_device {
            true => Warning::CommitMinBytes(self.commit_min_bytes),
            false => Warning::CommitMinBytesUnused,
        };
        let old = [("commit-min-bytes", commit_min), ("scheduler-mode", Warning::SchedulerModeIgnored)];
        let given = old.into_iter().filter(|(key, _)| given(key));
        given.chain(self.terms().warnings()).collect()
    }

    fn shows(&self, spec: &OptionSpec) -> bool {
        self.has_histograms() || !spec.is_of_histograms()
    }
}

/// Keys of ACT 4 that are read and translated, and leave no field of their own behind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Act4Keys {
    pub(crate) num_queues: Option<u32>,
    pub(crate) threads_per_queue: Option<u32>,
    scheduler_mode: String,
}

impl Act4Keys {
    /// The field that `key` sets, to be set.
    pub(crate) fn setting_mut(&mut self, key: &str) -> Option<&mut dyn Setting> {
        match key {
            "num-queues" => Some(&mut self.num_queues),
            "threads-per-queue" => Some(&mut self.threads_per_queue),
            "scheduler-mode" => Some(&mut self.scheduler_mode),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::act::options::{self, Since, options_of};

    #[test]
    fn every_option_has_a_field() {
        for spec in options_of(Test::Storage) {
            let mine = StorageConfig::default().setting(spec.name).is_some();
            let translated = Act4Keys::default().setting_mut(spec.name).is_some();
            assert!(mine != translated, "{}", spec.name);
            assert!(!translated || spec.since == Since::Act4, "{}", spec.name);
        }
    }

    #[test]
    fn the_table_states_the_defaults_that_are_used() {
        let defaults = StorageConfig::default();
        for spec in options_of(Test::Storage) {
            let Some(setting) = defaults.setting(spec.name) else { continue };
            match spec.default {
                options::Default::Mandatory(example) => {
                    assert!(setting.check(spec).is_err(), "{}", spec.name);
                    StorageConfig::default().setting_mut(spec.name).unwrap().set(spec, example).unwrap();
                }
                options::Default::Value(text) => {
                    assert_eq!(setting.text().as_deref(), Some(text), "{}", spec.name);
                    StorageConfig::default().setting_mut(spec.name).unwrap().set(spec, text).unwrap();
                }
                options::Default::Unset { .. } => assert_eq!(setting.text(), None, "{}", spec.name),
            }
        }
    }

    #[test]
    fn service_threads_default_to_1024_for_each_device() {
        let mut config = StorageConfig { device_names: vec!["a".into(), "b".into()], ..Default::default() };
        assert_eq!(config.terms().service_threads_or_default(), 2048);
        config.service_threads = Some(10);
        assert_eq!(config.terms().service_threads_or_default(), 10);
    }
}
