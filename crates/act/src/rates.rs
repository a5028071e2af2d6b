//! Rates and sizes that follow from a configuration: the load that will run.
//!
//! ```text
//! reads         = client reads + update-pct % of client writes
//! record writes = client writes x replication-factor
//! blocks        = record writes / floor(large block / mean stored record)
//! large writes  = blocks x 100 / (100 - defrag-lwm-pct);   with commit-to-device only defragmentation's share,
//!                 blocks x defrag-lwm-pct / (100 - defrag-lwm-pct)
//! large reads   = blocks x 100 / (100 - defrag-lwm-pct);   0 with no-defrag-reads
//! ```
//!
//! In a histogram load the sizes and rates are those of a live database's device. They already include replication,
//! updates and defragmentation, and blocks need not hold a whole number of records:
//!
//! ```text
//! blocks        = write rate x mean size written / large block
//! large writes  = blocks x lbw-req-offset %;   with commit-to-device half of that, defragmentation's
//!                 share at its default threshold
//! large reads   = blocks x (1 - direct-frees / total-lbw-per-sec) x lbr-req-offset %
//! ```
//!
//! In an index test the primary index lies on the devices, in memory-mapped pages of 4 KiB. A client's read or write
//! looks up one page and waits for this page. In the background, cache threads read and write back the pages that
//! client writes or defragmentation change:
//!
//! ```text
//! client writes = write-reqs-per-sec x replication-factor
//! service reads = read-reqs-per-sec + client writes               one page each
//! page updates  = client writes x 100 / (100 - defrag-lwm-pct)    each one read, then one write
//! ```
//!
//! All rates are exact fractions, and totals over the devices. ACT computes some of them in 32-bit integers, which
//! truncate and wrap, and some in doubles: `echo` reproduces the values that ACT *prints*. Source of the rules: ACT
//! 6.6, `cfg_storage.c` and `cfg_index.c`, `derive_configuration`; for histograms Aerospike's "Advanced Flash Device
//! Sizing".

use super::check::check;
use super::config::ActConfig;
use super::options::Test;
use super::problem::ConfigProblem;
use super::sizes::HistogramSizes;
use load::rate::Rate;
use load::sizes::stored_bytes;

/// Size of a page of the index, in bytes. Source: ACT 6.6, `IO_SIZE`.
pub const PAGE_BYTES: u32 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Derived {
    Storage(StorageDerived),
    Index(IndexDerived),
}

/// Values derived from the configuration of a storage test. Rates are totals over all devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageDerived {
    /// Size of the smallest record as stored, in bytes: a multiple of 16. With histograms: the smallest size in them,
    /// which need not be a multiple of 16.
    pub record_stored_bytes_min: u32,
    /// Size of the largest record as stored, in bytes. With histograms: the largest size in them.
    pub record_stored_bytes_max: u32,
    pub large_block_bytes: u32,
    /// Records of mean size per large block, at least 1: records do not straddle blocks. Histogram loads compute their
    /// rates without this number.
    pub records_per_large_block: u32,
    /// Record reads by clients and by updates.
    pub read_rate: Rate,
    /// Records written individually; zero without `commit-to-device`.
    pub commit_write_rate: Rate,
    pub large_block_read_rate: Rate,
    pub large_block_write_rate: Rate,
}

impl StorageDerived {
    /// Mean and largest size of record I/O, bytes, if a size is rounded up to a multiple of `step_bytes`. `sizes`: the
    /// histogram, if there is one; otherwise sizes are uniformly distributed between the rounded smallest and largest.
    pub fn record_io_bytes(&self, sizes: Option<HistogramSizes>, step_bytes: u32) -> (f64, u32) {
        if let Some(table) = sizes.map(|sizes| sizes.table(step_bytes)) {
            return (table.mean_bytes(), table.bytes_max());
        }
        let smallest = self.record_stored_bytes_min.next_multiple_of(step_bytes);
        let largest = self.record_stored_bytes_max.next_multiple_of(step_bytes);
        (f64::from(smallest).midpoint(largest.into()), largest)
    }
}

/// Rates are totals over all devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexDerived {
    /// Page reads that clients wait for.
    pub service_read_rate: Rate,
    /// Page updates: one read and one write each.
    pub update_rate: Rate,
}

/// Errors: everything that [`check`] finds, so that no invalid configuration can run.
pub fn derive(config: &ActConfig) -> Result<Derived, Vec<ConfigProblem>> {
    match config.test {
        Test::Storage => derive_storage(config).map(Derived::Storage),
        Test::Index => derive_index(config).map(Derived::Index),
    }
}

pub fn derive_storage(config: &ActConfig) -> Result<StorageDerived, Vec<ConfigProblem>> {
    checked(config)?;
    Ok(if config.has_histograms() {
        from_histograms(config)
    } else {
        from_records(config)
    })
}

pub fn derive_index(config: &ActConfig) -> Result<IndexDerived, Vec<ConfigProblem>> {
    checked(config)?;
    let writes = u128::from(config.replicated_writes());
    Ok(IndexDerived {
        service_read_rate: exact(u128::from(config.read_reqs_per_sec) + writes, 1),
        update_rate: exact(writes * 100, u128::from(100 - config.defrag_lwm_pct)),
    })
}

fn checked(config: &ActConfig) -> Result<(), Vec<ConfigProblem>> {
    let problems = check(config);
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

fn from_records(config: &ActConfig) -> StorageDerived {
    let record_stored_bytes_min = stored_bytes(config.record_bytes);
    let record_stored_bytes_max = config.stored_bytes_max();
    let large_block_bytes = config.large_block_op_kbytes * 1024;
    // Both ends are multiples of 16, so the mean is whole. No record is larger than a block.
    let record_stored_bytes_mean = (record_stored_bytes_min + record_stored_bytes_max) / 2;
    let records_per_large_block = large_block_bytes / record_stored_bytes_mean;

    let reads = u128::from(config.read_reqs_per_sec);
    let client_writes = u128::from(config.write_reqs_per_sec);
    let record_writes = u128::from(config.replicated_writes());
    let lwm_pct = u128::from(config.defrag_lwm_pct);
    let seconds = u128::from(records_per_large_block) * (100 - lwm_pct);

    let overall_rate = exact(record_writes * 100, seconds);
    let defrag_rate = exact(record_writes * lwm_pct, seconds);
    StorageDerived {
        record_stored_bytes_min,
        record_stored_bytes_max,
        large_block_bytes,
        records_per_large_block,
        read_rate: exact(
            reads * 100 + client_writes * u128::from(config.update_pct),
            100,
        ),
        commit_write_rate: if config.commit_to_device {
            exact(record_writes, 1)
        } else {
            Rate::ZERO
        },
        large_block_read_rate: if config.no_defrag_reads {
            Rate::ZERO
        } else {
            overall_rate
        },
        large_block_write_rate: if config.commit_to_device {
            defrag_rate
        } else {
            overall_rate
        },
    }
}

/// Rates of a load with the sizes of a live database's device.
fn from_histograms(config: &ActConfig) -> StorageDerived {
    let read_sizes = config.read_sizes();
    let write_sizes = config.write_sizes();
    let sizes = || read_sizes.into_iter().chain(write_sizes);
    let large_block_bytes = config.large_block_op_kbytes * 1024;
    // Without a histogram of writes there are no writes.
    let (mean_bytes, mean_of) = write_sizes.map_or((0, 1), |sizes| sizes.mean_bytes());
    let block = mean_of * u128::from(large_block_bytes);
    let blocks_rate = Rate::nearest(u128::from(config.write_reqs_per_sec) * mean_bytes, block);
    // Without total-lbw-per-sec and direct-frees, all blocks are defragmented.
    let total_lbw = u128::from(config.total_lbw_per_sec.max(1));
    let defragmented = total_lbw - u128::from(config.direct_frees);
    let defragmented_rate = Rate::nearest(
        u128::from(blocks_rate.ops()) * defragmented,
        u128::from(blocks_rate.seconds()) * total_lbw,
    );
    let commit = config.commit_to_device;
    let written_pct = if commit { config.defrag_lwm_pct } else { 100 };
    StorageDerived {
        record_stored_bytes_min: sizes().map(|sizes| sizes.bytes_min()).min().unwrap_or(1),
        record_stored_bytes_max: sizes().map(|sizes| sizes.bytes_max()).max().unwrap_or(1),
        large_block_bytes,
        records_per_large_block: u32::try_from(block / mean_bytes.max(1))
            .unwrap_or(u32::MAX)
            .max(1),
        read_rate: Rate::per_sec(config.read_reqs_per_sec.into()),
        commit_write_rate: if commit {
            Rate::per_sec(config.write_reqs_per_sec.into())
        } else {
            Rate::ZERO
        },
        large_block_read_rate: if config.no_defrag_reads {
            Rate::ZERO
        } else {
            defragmented_rate.pct(config.lbr_req_offset)
        },
        large_block_write_rate: blocks_rate.pct(config.lbw_req_offset).pct(written_pct),
    }
}

/// At most 2^32 requests per second, 10^6 replicas and 100 % (the option table), so both parts are below 2^59.
fn exact(ops: u128, seconds: u128) -> Rate {
    Rate::new(ops, seconds).expect("rates of checked options fit 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::act_config;
    use results::assert_contains;
    use results::testing::modified;

    fn config() -> ActConfig {
        act_config(Test::Storage, 2000, 1000)
    }

    fn rate(ops: u128, seconds: u128) -> Rate {
        Rate::new(ops, seconds).unwrap()
    }

    #[test]
    fn the_1x_load_reads_and_writes_400_17ths_of_a_large_block_per_second() {
        let derived = derive_storage(&config()).unwrap();
        assert_eq!(
            derived.records_per_large_block, 85,
            "131072 / 1536 is 85.33, and records do not straddle"
        );
        assert_eq!(derived.large_block_read_rate, rate(400, 17));
        assert_eq!(derived.large_block_write_rate, rate(400, 17));
        assert_eq!(derived.read_rate, Rate::per_sec(2000));
        assert_eq!(derived.commit_write_rate, Rate::ZERO);
    }

    #[test]
    fn updates_add_exactly_update_pct_percent_of_the_writes_to_the_reads() {
        let derived = derive_storage(&ActConfig {
            write_reqs_per_sec: 12_345,
            update_pct: 10,
            read_reqs_per_sec: 0,
            ..config()
        });
        assert_eq!(derived.unwrap().read_rate, rate(2469, 2));
    }

    #[test]
    fn with_commit_to_device_large_blocks_are_written_only_by_defragmentation() {
        let commit = ActConfig {
            commit_to_device: true,
            replication_factor: 3,
            defrag_lwm_pct: 75,
            ..config()
        };
        let derived = derive_storage(&commit).unwrap();
        assert_eq!(derived.commit_write_rate, Rate::per_sec(3000));
        assert_eq!(derived.large_block_read_rate, rate(3000 * 4, 85));
        assert_eq!(derived.large_block_write_rate, rate(3000 * 3, 85));
        let derived = derive_storage(&modified(commit, |it| it.defrag_lwm_pct = 0)).unwrap();
        assert!(
            derived.large_block_write_rate.is_zero(),
            "nothing is defragmented"
        );
        assert_eq!(derived.large_block_read_rate, rate(3000, 85));
    }

    #[test]
    fn no_defrag_reads_removes_large_block_reads_and_keeps_large_block_writes() {
        let derived = derive_storage(&modified(config(), |it| it.no_defrag_reads = true)).unwrap();
        assert!(derived.large_block_read_rate.is_zero());
        assert_eq!(derived.large_block_write_rate, rate(400, 17));
    }

    #[test]
    fn records_per_large_block_follow_from_the_mean_of_a_size_range() {
        let derived = derive_storage(&ActConfig {
            record_bytes: 1537,
            record_bytes_range_max: 9001,
            ..config()
        })
        .unwrap();
        assert_eq!(derived.record_stored_bytes_min, 1552);
        assert_eq!(derived.record_stored_bytes_max, 9008);
        assert_eq!(derived.records_per_large_block, 131_072 / 5280);
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let most = ActConfig {
            read_reqs_per_sec: u32::MAX,
            write_reqs_per_sec: u32::MAX,
            replication_factor: 1_000_000,
            update_pct: 100,
            defrag_lwm_pct: 99,
            record_bytes: 8 << 20,
            large_block_op_kbytes: 8192,
            ..config()
        };
        let derived = derive_storage(&most).unwrap();
        assert_eq!(derived.read_rate, Rate::per_sec(2 * u64::from(u32::MAX)));
        assert_eq!(
            derived.large_block_write_rate,
            Rate::per_sec(u64::from(u32::MAX) * 100_000_000)
        );
        let commit = ActConfig {
            commit_to_device: true,
            record_bytes: 1,
            ..most
        };
        derive_storage(&commit).unwrap();
    }

    #[test]
    fn a_configuration_that_fails_the_check_has_no_rates() {
        assert!(derive_storage(&ActConfig::default()).is_err());
        assert!(derive_storage(&modified(config(), |it| it.record_bytes = 200_000)).is_err());
    }

    fn index_config() -> ActConfig {
        act_config(Test::Index, 7777, 3333)
    }

    #[test]
    fn a_client_write_reads_one_page_and_defragmentation_multiplies_its_page_updates() {
        let rates = |config: &ActConfig| {
            let IndexDerived {
                service_read_rate,
                update_rate,
            } = derive_index(config).unwrap();
            (service_read_rate, update_rate)
        };
        let found = rates(&index_config());
        assert_eq!(found, (Rate::per_sec(11_110), Rate::per_sec(6_666)));
        let replicated = ActConfig {
            replication_factor: 2,
            defrag_lwm_pct: 75,
            ..index_config()
        };
        let found = rates(&replicated);
        assert_eq!(found, (Rate::per_sec(14_443), Rate::per_sec(26_664)));
        let thirds = ActConfig {
            write_reqs_per_sec: 1000,
            defrag_lwm_pct: 40,
            ..index_config()
        };
        assert_eq!(
            rates(&thirds).1,
            Rate::new(5_000, 3).unwrap(),
            "nothing is truncated"
        );
        let read_only = modified(index_config(), |it| it.write_reqs_per_sec = 0);
        assert_eq!(rates(&read_only), (Rate::per_sec(7777), Rate::ZERO));
    }

    #[test]
    fn the_largest_rates_of_an_index_test_fit() {
        let most = ActConfig {
            read_reqs_per_sec: u32::MAX,
            write_reqs_per_sec: u32::MAX,
            replication_factor: 1_000_000,
            defrag_lwm_pct: 99,
            ..index_config()
        };
        assert_eq!(
            derive_index(&most).unwrap().update_rate,
            Rate::per_sec(u64::from(u32::MAX) * 100_000_000)
        );
    }

    #[test]
    fn an_index_test_that_fails_the_check_has_no_rates() {
        assert!(derive_index(&ActConfig::new(Test::Index)).is_err());
        let none = ActConfig {
            read_reqs_per_sec: 0,
            write_reqs_per_sec: 0,
            ..index_config()
        };
        let problems = derive_index(&none).unwrap_err();
        assert_contains!(problems[0], "are both 0: there is no load");
    }
}
