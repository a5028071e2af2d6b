//! The rules that a configuration must keep, whether a file or a program made it.
//!
//! Each value against its row of the table, then values against each other. A small load is no
//! mistake: ACT's "load config too small" comes from an integer division that is not done here.

use super::configuration::{Configuration, Fields, Terms};
use super::derive::stored_bytes;
use super::options::options_of;
use super::problem::{Problem, Quoted};

use super::sizes;
use super::storage::StorageConfig;
use device::is_simulated;

/// Everything that is wrong with `config`; empty when it can be run.
pub fn check<C: Configuration>(config: &C) -> Vec<Problem> {
    let single = options_of(C::TEST).filter_map(|spec| {
        let found = config.setting(spec.name)?.check(spec).err()?;
        Some(Problem::value(spec, found))
    });
    let mut problems: Vec<_> = single.collect();
    // Rules about several values assume that each is in its range.
    if problems.is_empty() {
        problems = config.conflicts();
    }
    problems
}

/// What contradicts each other in a storage test, taking each value by itself for good.
pub(crate) fn storage_conflicts(config: &StorageConfig) -> Vec<Problem> {
    let large_block_bytes = config.large_block_op_kbytes.saturating_mul(1024);
    let mut problems = config.terms().conflicts();
    if config.record_bytes_range_max != 0 && config.record_bytes_range_max <= config.record_bytes {
        problems.push(Problem::RangeNotAboveRecord {
            range_max_bytes: config.record_bytes_range_max,
            record_bytes: config.record_bytes,
        });
    }
    let key =
        if config.record_bytes_range_max > config.record_bytes { "record-bytes-range-max" } else { "record-bytes" };
    let record_bytes = config.record_bytes_max();
    if stored_bytes(record_bytes) > large_block_bytes {
        problems.push(Problem::RecordLargerThanLargeBlock {
            key,
            record_bytes,
            stored_bytes: stored_bytes(record_bytes),
            large_block_bytes,
        });
    }
    problems.extend(sizes::conflicts(config).into_iter().map(Problem::Sizes));
    if config.disable_odsync && config.commit_to_device {
        problems.push(Problem::CommitWithoutOdsync);
    }
    if config.commit_min_bytes > large_block_bytes {
        problems.push(Problem::CommitMinLargerThanLargeBlock {
            commit_min_bytes: config.commit_min_bytes,
            large_block_bytes,
        });
    }
    problems
}

/// Simulated drives live on virtual time and have their own size.
pub(crate) fn engines(terms: &Terms) -> Option<Problem> {
    let simulated = Quoted::new(terms.device_names.iter().find(|name| is_simulated(name))?);
    if let Some(real) = terms.device_names.iter().find(|name| !is_simulated(name)) {
        return Some(Problem::SimulatedWithReal { simulated, real: Quoted::new(real) });
    }
    terms.file_size_mbytes.map(|mbytes| Problem::SimulatedFile { simulated, mbytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> StorageConfig {
        StorageConfig {
            device_names: vec!["/dev/a".into()],
            test_duration_sec: 1,
            read_reqs_per_sec: 1,
            ..StorageConfig::default()
        }
    }

    #[test]
    fn one_read_a_second_is_a_load() {
        assert_eq!(check(&config()), []);
    }

    #[test]
    fn a_program_is_held_to_the_ranges_of_a_file() {
        let texts = |config: &StorageConfig| check(config).iter().map(Problem::to_string).collect::<Vec<_>>();
        assert_eq!(
            texts(&StorageConfig { update_pct: 101, large_block_op_kbytes: 0, ..config() }),
            [
                "large-block-op-kbytes: 0 is too small - give a power of two from 1 to 8192 (KiB)",
                "update-pct: 101 is too large - give a whole number from 0 to 100 (%)",
            ]
        );
        assert_eq!(
            texts(&StorageConfig { device_names: vec!["/dev/a b".into()], ..config() }).len(),
            1,
            "a name that no file can hold"
        );
    }

    #[test]
    fn a_record_that_fills_its_block_exactly_fits() {
        let full = StorageConfig { record_bytes: 8 << 20, large_block_op_kbytes: 8192, ..config() };
        assert_eq!(check(&full), []);
        let one_more = StorageConfig { record_bytes: 128 * 1024 + 1, ..config() };
        assert!(matches!(
            check(&one_more)[..],
            [Problem::RecordLargerThanLargeBlock { key: "record-bytes", stored_bytes: 131_088, .. }]
        ));
    }
}
