//! The rules for a configuration, from a file or a program.
//!
//! Checks each value against its row of the table, then values against each other. A small load is allowed: ACT's error
//! "load config too small" comes from an integer division that flashproof does not do.

use super::config::ActConfig;
use super::options::{OptionSpec, Test};
use super::problem::ConfigProblem;
use super::sizes::HistogramSizes;
use super::table::options_of;
use results::format::quoted_start;

const READ_HISTOGRAM: &str = "storage-read-histogram";
const WRITE_HISTOGRAM: &str = "storage-write-histogram";
const LARGE_BLOCK: &str = "large-block-op-kbytes";

/// All problems of `config`; empty if `config` can be run.
pub fn check(config: &ActConfig) -> Vec<ConfigProblem> {
    let value_problems = options_of(config.test).filter_map(|spec| {
        let (_, setting) = config.setting(spec.name)?;
        if spec.is_translated() {
            return setting
                .text()
                .map(|_| ConfigProblem::OldKey(quoted_start(spec.name)));
        }
        Some(spec.problem(setting.check(spec).err()?))
    });
    let mut problems: Vec<_> = value_problems.collect();
    // Rules about several values assume that each is in its range.
    if problems.is_empty() {
        problems = conflicts(config);
    }
    problems
}

/// Contradictions between values that are each in their range.
pub(super) fn conflicts(config: &ActConfig) -> Vec<ConfigProblem> {
    let mut collector = Conflicts {
        config,
        problems: Vec::new(),
    };
    collector.check_simulated();
    if config.read_reqs_per_sec == 0 && config.write_reqs_per_sec == 0 {
        let what = "read-reqs-per-sec and write-reqs-per-sec are both 0: there is no load - give at least one of them";
        collector.add(&["read-reqs-per-sec", "write-reqs-per-sec"], what);
    }
    if config.test == Test::Storage {
        collector.check_storage();
    }
    collector.problems
}

struct Conflicts<'a> {
    config: &'a ActConfig,
    problems: Vec<ConfigProblem>,
}

impl Conflicts<'_> {
    fn add(&mut self, keys: &[&'static str], message: impl Into<String>) {
        self.problems.push(ConfigProblem::conflict(keys, message));
    }

    /// Reports a key that contradicts the histograms, or needs histograms that are missing.
    fn add_beside_sizes(&mut self, key: &'static str, message: impl Into<String>) {
        self.add(&[key, READ_HISTOGRAM, WRITE_HISTOGRAM], message);
    }

    /// Simulated drives run on virtual time and have their own size.
    fn check_simulated(&mut self) {
        let names = &self.config.device_names;
        let (simulated, real): (Vec<_>, Vec<_>) =
            names.iter().partition(|name| name.drive().is_some());
        let Some(simulated) = simulated.first().map(|name| quoted_start(name.as_str())) else {
            return;
        };
        if let Some(real) = real.first() {
            let real = quoted_start(real.as_str());
            let what = format!(
                "device-names: {simulated} is simulated on virtual time, but {real} is not, and a test has only one clock - \
                 test them one after the other"
            );
            self.add(&["device-names"], what);
        } else if let Some(mbytes) = self.config.file_size_mbytes {
            let what = format!(
                "file-size-mbytes: {simulated} is a simulated drive, not a file - drop file-size-mbytes and give the drive's \
                 size as capacity={mbytes}MiB"
            );
            self.add(&["file-size-mbytes", "device-names"], what);
        }
    }

    fn check_storage(&mut self) {
        let config = self.config;
        let large_block_bytes = config.large_block_op_kbytes.saturating_mul(1024);
        let ActConfig {
            record_bytes: min_bytes,
            record_bytes_range_max: max_bytes,
            commit_min_bytes,
            ..
        } = *config;
        if max_bytes != 0 && max_bytes <= min_bytes {
            let what = format!(
                "record-bytes-range-max: {max_bytes} bytes is not larger than record-bytes, which is {min_bytes} - \
                 give more than {min_bytes}, or 0 for records of one size"
            );
            self.add(&["record-bytes-range-max", "record-bytes"], what);
        }
        let key = if max_bytes > min_bytes {
            "record-bytes-range-max"
        } else {
            "record-bytes"
        };
        let record_bytes = config.record_bytes_max();
        let stored_bytes = config.stored_bytes_max();
        if stored_bytes > large_block_bytes {
            let what = format!(
                "{key}: a record of {record_bytes} bytes takes {stored_bytes} bytes as stored, but a large block has only \
                 {large_block_bytes} bytes and records do not straddle blocks - make {key} at most {large_block_bytes} or \
                 raise large-block-op-kbytes (at most 8192)"
            );
            self.add(&[key, LARGE_BLOCK], what);
        }
        if config.has_histograms() {
            self.check_histograms(large_block_bytes)
        } else {
            self.of_missing_histograms()
        }
        if config.disable_odsync && config.commit_to_device {
            let what = "disable-odsync: yes contradicts commit-to-device: yes, because a commit is a write that is durable \
                        when it returns - set one of the two to no";
            self.add(&["disable-odsync", "commit-to-device"], what);
        }
        if commit_min_bytes > large_block_bytes {
            let what = format!(
                "commit-min-bytes: {commit_min_bytes} bytes is more than a large block of {large_block_bytes} bytes - give \
                 at most {large_block_bytes} or raise large-block-op-kbytes (at most 8192)"
            );
            self.add(&["commit-min-bytes", LARGE_BLOCK], what);
        }
    }

    fn of_missing_histograms(&mut self) {
        let standard = ActConfig::default();
        for OptionSpec { name: key, .. } in
            options_of(Test::Storage).filter(|spec| spec.is_of_histograms())
        {
            if self.config.text(key) == standard.text(key) {
                continue;
            }
            let what = format!(
                "{key}: the key only works with storage-read-histogram and storage-write-histogram, and neither is \
                 given - drop the key, or add the histograms"
            );
            self.add_beside_sizes(key, what);
        }
        if self.config.record_bytes == 0 {
            let what = "record-bytes: 0 is too small without a histogram - give a whole number from 1 to 8388608 (bytes), or \
                        the sizes as storage-read-histogram and storage-write-histogram";
            self.add_beside_sizes("record-bytes", what);
        }
    }

    fn check_histograms(&mut self, large_block_bytes: u32) {
        let config = self.config;
        let standard = ActConfig::default();
        let histogram = if config.storage_read_histogram.is_some() {
            READ_HISTOGRAM
        } else {
            WRITE_HISTOGRAM
        };
        for (key, bytes, remedy) in [
            ("record-bytes", config.record_bytes, "set it to 0"),
            (
                "record-bytes-range-max",
                config.record_bytes_range_max,
                "drop it",
            ),
        ] {
            if bytes != 0 {
                let what = format!(
                    "{key}: {bytes} contradicts {histogram}, which gives the sizes already - {remedy}, or drop the histogram"
                );
                self.add_beside_sizes(key, what);
            }
        }
        for (histogram, found, rate_key, rate) in [
            (
                READ_HISTOGRAM,
                config.storage_read_histogram,
                "read-reqs-per-sec",
                config.read_reqs_per_sec,
            ),
            (
                WRITE_HISTOGRAM,
                config.storage_write_histogram,
                "write-reqs-per-sec",
                config.write_reqs_per_sec,
            ),
        ] {
            if found.is_none() && rate != 0 {
                let what = format!(
                    "{histogram}: missing, though {rate_key} is {rate} and the sizes come from histograms - add it, or set \
                     {rate_key} to 0"
                );
                self.add_beside_sizes(rate_key, what);
            }
        }
        // The histograms were counted on the device, so they include the database's own I/O.
        for (key, value, part, default) in [
            (
                "replication-factor",
                config.replication_factor,
                "the replicas",
                standard.replication_factor,
            ),
            (
                "update-pct",
                config.update_pct,
                "the reads of updates",
                standard.update_pct,
            ),
            (
                "defrag-lwm-pct",
                config.defrag_lwm_pct,
                "the writes of defragmentation",
                standard.defrag_lwm_pct,
            ),
        ] {
            if value != default {
                let what = format!(
                    "{key}: {value} would count {part} twice, because the rates and sizes of a live database already include \
                     them - drop it (the default is {default})"
                );
                self.add_beside_sizes(key, what);
            }
        }
        let frees = config.direct_frees;
        let blocks = config.total_lbw_per_sec;
        if frees > blocks {
            let what = format!(
                "direct-frees: {frees} blocks/s is more than total-lbw-per-sec: {blocks} blocks/s, although total-lbw-per-sec \
                 includes direct-frees - take both from the same moment of the database's log"
            );
            self.add(&["direct-frees", "total-lbw-per-sec"], what);
        }
        self.check_sizes(
            READ_HISTOGRAM,
            "read-size-offset",
            config.read_sizes(),
            true,
            large_block_bytes,
        );
        // For writes that are packed into large blocks, only the mean size matters.
        let is_issued = config.commit_to_device;
        self.check_sizes(
            WRITE_HISTOGRAM,
            "write-size-offset",
            config.write_sizes(),
            is_issued,
            large_block_bytes,
        );
    }

    /// Checks that the sizes of a histogram fit a large block. `is_issued`: each record is an operation of its own.
    fn check_sizes(
        &mut self,
        key: &'static str,
        offset_key: &'static str,
        sizes: Option<HistogramSizes>,
        is_issued: bool,
        large_block_bytes: u32,
    ) {
        let Some(sizes) = sizes else { return };
        let over_bytes = sizes.histogram.largest().lower_bytes;
        if over_bytes >= large_block_bytes {
            let what = format!(
                "{key}: the histogram has sizes over {over_bytes} bytes, but a large block has only \
                 {large_block_bytes} bytes and records do not straddle blocks - raise large-block-op-kbytes to the \
                 database's write-block size (at most 8192)"
            );
            self.add(&[key, LARGE_BLOCK], what);
        } else if is_issued && sizes.bytes_max() > large_block_bytes {
            let what = format!(
                "{offset_key}: at {} % the largest records have {} bytes, more than a large block of \
                 {large_block_bytes} bytes - lower this offset, choose another size-within-bucket, or raise \
                 large-block-op-kbytes (at most 8192)",
                sizes.offset_pct,
                sizes.bytes_max()
            );
            self.add(&[offset_key, key, "size-within-bucket", LARGE_BLOCK], what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::act_config;
    use results::assert_starts_with;
    use results::testing::modified;

    fn config() -> ActConfig {
        act_config(Test::Storage, 1, 0)
    }

    #[test]
    fn a_load_of_one_read_per_second_is_accepted() {
        assert_eq!(check(&config()), []);
    }

    #[test]
    fn values_that_a_program_sets_are_checked_against_the_ranges_for_files() {
        let texts = |config: &ActConfig| {
            check(config)
                .iter()
                .map(ConfigProblem::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            texts(&ActConfig {
                update_pct: 101,
                large_block_op_kbytes: 0,
                ..config()
            }),
            [
                "large-block-op-kbytes: 0 is too small - give a power of two from 1 to 8192 (KiB)",
                "update-pct: 101 is too large - give a whole number from 0 to 100 (%)",
            ]
        );
        let spaced = ActConfig {
            device_names: vec!["/dev/a b".parse().unwrap()],
            ..config()
        };
        assert_eq!(texts(&spaced).len(), 1, "a name that no file can hold");
        let untranslated = texts(&modified(config(), |it| it.num_queues = Some(8)));
        assert_starts_with!(untranslated[0], "\"num-queues\" is a key of an older ACT");
    }

    #[test]
    fn a_record_that_fills_its_block_exactly_fits() {
        let full = ActConfig {
            record_bytes: 8 << 20,
            large_block_op_kbytes: 8192,
            ..config()
        };
        assert_eq!(check(&full), []);
        let one_more = modified(config(), |it| it.record_bytes = 128 * 1024 + 1);
        let [problem] = &check(&one_more)[..] else {
            panic!("one problem")
        };
        let said = "record-bytes: a record of 131073 bytes takes 131088 bytes as stored, but";
        assert!(problem.to_string().starts_with(said), "{problem}");
    }
}
