//! Properties of the configuration dialect over arbitrary configurations and arbitrary bytes.

#[path = "common/config_property.rs"]
mod config_property;

use config_property::{assert_config_property, assert_parser_property};
use load::act::{Arrival, Engine, Pacing, StorageConfig, check};
use proptest::prelude::*;

prop_compose! {
    fn devices()(files in any::<bool>(), count in 1_usize..9)(
        names in prop::collection::hash_set("/dev/[a-z0-9/:=+._-]{1,20}", count),
        simulated in prop::collection::hash_set("sim:seed=[0-9]{1,9}", count),
        files in Just(files),
    ) -> Vec<String> {
        (if files { names } else { simulated }).into_iter().collect()
    }
}

prop_compose! {
    fn load()(
        read_reqs_per_sec in any::<u32>(),
        write_reqs_per_sec in any::<u32>(),
        sizes in (1_u32..70_000, 0_u32..70_000),
        large_block_bits in 0_u32..14,
        replication_factor in 1_u32..1_000_000,
        pcts in (0_u32..=100, 0_u32..=99, 0_u32..=100),
        flags in any::<[bool; 5]>(),
    ) -> StorageConfig {
        StorageConfig {
            read_reqs_per_sec,
            write_reqs_per_sec,
            record_bytes: sizes.0,
            record_bytes_range_max: if sizes.1 > sizes.0 { sizes.1 } else { 0 },
            large_block_op_kbytes: 1 << large_block_bits,
            replication_factor,
            update_pct: pcts.0,
            defrag_lwm_pct: pcts.1,
            compress_pct: pcts.2,
            microsecond_histograms: flags[0],
            no_defrag_reads: flags[1],
            disable_odsync: flags[2],
            commit_to_device: flags[3] && !flags[2],
            tomb_raider: flags[4],
            ..StorageConfig::default()
        }
    }
}

prop_compose! {
    fn configs()(
        device_names in devices(),
        load in load(),
        threads in prop::option::of(1_u32..=1 << 20),
        times in (1_u32.., 1_u32.., any::<u32>(), any::<u32>()),
        commit_min_bits in prop::option::of(0_u32..=23),
        arrival in prop::sample::select(vec![Arrival::Paced, Arrival::Poisson, Arrival::Act, Arrival::Closed]),
        pacing in prop::sample::select(vec![Pacing::Sleep, Pacing::Spin]),
        engine in prop::sample::select(vec![Engine::Auto, Engine::Uring, Engine::Threads]),
        seed in any::<Option<u64>>(),
        large_block_concurrency in 1_u32..=1024,
        shards in prop::option::of(1_u32..=1024),
    ) -> StorageConfig {
        StorageConfig {
            file_size_mbytes: threads.filter(|_| device_names[0].starts_with("/dev")),
            device_names,
            service_threads: threads,
            test_duration_sec: times.0,
            report_interval_sec: times.1,
            tomb_raider_sleep_usec: times.2,
            max_lag_sec: times.3,
            commit_min_bytes: commit_min_bits.map_or(0, |bits| 1 << bits),
            arrival,
            pacing,
            engine,
            seed,
            large_block_concurrency,
            shards,
            ..load
        }
    }
}

/// Lines that look like a configuration more often than chance would have it.
fn almost_configs() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        4 => prop::sample::select(vec!["device-names", "test-duration-sec", "read-reqs-per-sec", "record-bytes"]),
        4 => prop::sample::select(vec!["large-block-op-kbytes", "update-pct", "tomb-raider", "seed", "shards"]),
        1 => prop::sample::select(vec!["", "#", "num-queues", "threads-per-queue", "scheduler-mode", "x"]),
    ];
    let value = prop_oneof!["[0-9]{1,12}", "yes|no|y|auto|sim:[a-z=+0-9]{0,9}|/dev/[a-z]{1,3}", ".{0,12}"];
    let line = (key, "[: \t]{0,3}", value).prop_map(|(key, gap, value)| format!("{key}{gap}{value}\n"));
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn what_check_lets_through_is_written_and_read_back(config in configs()) {
        prop_assume!(check(&config).is_empty());
        assert_config_property(&config);
    }

    #[test]
    fn what_check_refuses_cannot_be_read_from_a_file(config in configs()) {
        let text = load::act::echo::to_text(&config);
        prop_assert_eq!(check(&config).is_empty(), load::act::parse_storage("a", text.as_bytes()).is_ok());
    }

    #[test]
    fn no_bytes_break_the_parser(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_parser_property(&bytes);
    }

    #[test]
    fn no_almost_configuration_breaks_the_parser(text in almost_configs()) {
        assert_parser_property(text.as_bytes());
    }
}
