//! Properties of the configuration dialect over arbitrary configurations and arbitrary bytes.

#[path = "common/config_property.rs"]
mod config_property;

use self::config_property::{assert_config_property, assert_parser_property};
use act::options::Test;
use act::reference::AnnotatedConfig;
use act::scale::scale;
use act::sizes::BucketPosition;
use act::sizes::{HistogramSizes, SizeHistogram};
use act::{ActConfig, Arrival, Engine, Pacing, SizeWithinBucket, check, parse};
use engine::DeviceName;
use load::factor::Factor;
use proptest::prelude::*;
use sys::random::Random;

prop_compose! {
    fn devices()(files in any::<bool>(), count in 1_usize..9)(
        names in prop::collection::hash_set("/dev/[a-z0-9/:=+._-]{1,20}", count),
        simulated in prop::collection::hash_set("sim:seed=[0-9]{1,9}", count),
        files in Just(files),
    ) -> Vec<DeviceName> {
        (if files { names } else { simulated }).iter().map(|name| name.parse().unwrap()).collect()
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
    ) -> ActConfig {
        ActConfig {
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
            ..ActConfig::default()
        }
    }
}

prop_compose! {
    /// Any histogram that never rises and ends in 0.
    fn histograms()(mut ppm in prop::collection::vec(0_u32..=1_000_000, 0..27), zeros in 1_usize..3) -> SizeHistogram {
        ppm.sort_unstable_by(|a, b| b.cmp(a));
        ppm.truncate(27 - zeros);
        let values = ppm.into_iter().chain(std::iter::repeat_n(0, zeros));
        let text: Vec<_> = values.map(|ppm| format!("{}.{:04}", ppm / 10_000, ppm % 10_000)).collect();
        SizeHistogram::parse(&text.join(", ")).unwrap()
    }
}

prop_compose! {
    /// A load with size histograms; in most cases, no size exceeds a large block.
    fn histogram_load()(
        load in load(),
        histograms in (histograms(), prop::option::of(histograms())),
        blocks in (any::<u32>(), any::<u32>()),
        offsets in (1_u32..=1000, 1_u32..=1000, 1_u32..=200, 1_u32..=200),
        size_within_bucket in within_bucket(),
    ) -> ActConfig {
        ActConfig {
            record_bytes: 0,
            record_bytes_range_max: 0,
            large_block_op_kbytes: 8192,
            replication_factor: 1,
            update_pct: 0,
            defrag_lwm_pct: 50,
            write_reqs_per_sec: if histograms.1.is_some() { load.write_reqs_per_sec } else { 0 },
            storage_read_histogram: Some(histograms.0),
            storage_write_histogram: histograms.1,
            total_lbw_per_sec: blocks.0.max(blocks.1),
            direct_frees: blocks.0.min(blocks.1),
            lbr_req_offset: offsets.0,
            lbw_req_offset: offsets.1,
            read_size_offset: offsets.2,
            write_size_offset: offsets.3,
            size_within_bucket,
            ..load
        }
    }
}

fn within_bucket() -> impl Strategy<Value = SizeWithinBucket> {
    use SizeWithinBucket::{LogUniform, Lower, Paper, Uniform, Upper};
    prop::sample::select(vec![Paper, Lower, Upper, Uniform, LogUniform])
}

prop_compose! {
    fn configs()(
        device_names in devices(),
        load in prop_oneof![load(), histogram_load()],
        threads in prop::option::of(1_u32..=1 << 20),
        times in (1_u32.., 1_u32.., any::<u32>(), any::<u32>()),
        commit_min_bits in prop::option::of(0_u32..=23),
        arrival in prop::sample::select(vec![Arrival::Paced, Arrival::Poisson, Arrival::Act, Arrival::Closed]),
        pacing in prop::sample::select(vec![Pacing::Sleep, Pacing::Spin]),
        engine in prop::sample::select(vec![Engine::Auto, Engine::Uring, Engine::Aio, Engine::Threads, Engine::Passthrough]),
        seed in any::<Option<u64>>(),
        large_block_concurrency in 1_u32..=1024,
        shards in prop::option::of(1_u32..=1024),
    ) -> ActConfig {
        ActConfig {
            file_size_mbytes: threads.filter(|_| device_names[0].drive().is_none()),
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

/// Lines that often look like a configuration.
fn almost_configs() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        4 => prop::sample::select(vec!["device-names", "test-duration-sec", "read-reqs-per-sec", "record-bytes"]),
        4 => prop::sample::select(vec!["large-block-op-kbytes", "update-pct", "tomb-raider", "seed", "shards"]),
        2 => prop::sample::select(vec!["storage-read-histogram", "storage-write-histogram", "direct-frees"]),
        1 => prop::sample::select(vec!["", "#", "num-queues", "threads-per-queue", "scheduler-mode", "x"]),
    ];
    let value = prop_oneof![
        "[0-9]{1,12}",
        "yes|no|y|auto|sim:[a-z=+0-9]{0,9}|/dev/[a-z]{1,3}",
        "([0-9.]{0,7}, ?){0,30}0?",
        ".{0,12}"
    ];
    let line =
        (key, "[: \t]{0,3}", value).prop_map(|(key, gap, value)| format!("{key}{gap}{value}\n"));
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.concat())
}

/// Share of the sizes that are at most `bytes` when rounded up to `step_bytes`: without the table, and in doubles.
fn share_up_to(sizes: &HistogramSizes, bytes: u32, step_bytes: u32) -> f64 {
    let scale = f64::from(sizes.offset_pct) / 100.0;
    // Nothing is smaller than a step; a size on the edge of a step is not rounded up.
    let at = if bytes < step_bytes {
        0.0
    } else {
        f64::from(bytes) * (1.0 + 1e-12)
    };
    let below = |lower: f64, upper: f64| match sizes.within {
        _ if lower == upper => f64::from(u8::from(upper <= at)),
        BucketPosition::Lower => f64::from(u8::from(lower <= at)),
        BucketPosition::Upper => f64::from(u8::from(upper <= at)),
        BucketPosition::Uniform => ((at - lower) / (upper - lower)).clamp(0.0, 1.0),
        BucketPosition::LogUniform => (at / lower).log2().clamp(0.0, 1.0),
    };
    let buckets = sizes.histogram.buckets();
    buckets
        .map(|b| {
            let lower = f64::from(b.lower_bytes) * scale;
            let upper = f64::from(b.upper_bytes) * scale;
            let everything_is_one_step = upper <= f64::from(step_bytes);
            let share = if everything_is_one_step {
                f64::from(u8::from(bytes >= step_bytes))
            } else {
                below(lower, upper)
            };
            share * f64::from(b.share_ppm) / 1e6
        })
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn drawn_sizes_converge_to_any_histogram(
        histogram in histograms(),
        within in within_bucket(),
        offset_pct in prop_oneof![Just(100_u32), 1_u32..=200],
        step_bits in 9_u32..=12,
        seed in any::<u64>(),
    ) {
        const DRAWS: usize = 40_000;
        let (sizes, step_bytes) = (HistogramSizes { histogram, within: within.of_reads(), offset_pct }, 1 << step_bits);
        // Larger records are refused, as they do not fit a large block.
        prop_assume!(sizes.bytes_max() <= 8 << 20);
        let table = sizes.table(step_bytes);
        let mut random = Random::new(seed);
        let mut drawn: Vec<_> = (0..DRAWS).map(|_| table.draw(&mut random)).collect();
        prop_assert!(drawn.iter().all(|bytes| *bytes > 0 && bytes % step_bytes == 0 && *bytes <= table.bytes_max()));
        drawn.sort_unstable();
        // Kolmogorov-Smirnov: the largest distance is over 3 / sqrt(n) once in 30 million cases.
        for same in drawn.chunk_by(|a, b| a == b) {
            let up_to = drawn.partition_point(|bytes| *bytes <= same[0]) as f64 / DRAWS as f64;
            let expected = share_up_to(&sizes, same[0], step_bytes);
            prop_assert!((up_to - expected).abs() < 3.0 / (DRAWS as f64).sqrt(), "{}: {up_to}, not {expected}", same[0]);
        }
        let mean = drawn.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / DRAWS as f64;
        let (bytes, of) = sizes.mean_bytes();
        let (exact, slack) = (bytes as f64 / of as f64, 0.04 * f64::from(table.bytes_max()));
        prop_assert!(mean > exact - slack && mean < exact + slack + f64::from(step_bytes), "{mean}, not {exact}");
    }
}

proptest! {
    #[test]
    fn a_configuration_without_problems_is_written_and_read_back_unchanged(config in configs()) {
        prop_assume!(check(&config).is_empty());
        assert_config_property(&config);
    }

    #[test]
    fn a_file_is_refused_exactly_if_its_configuration_has_problems(config in configs()) {
        let text = act::echo::to_text(&config);
        prop_assert_eq!(check(&config).is_empty(), parse(Test::Storage, "a", text.as_bytes()).is_ok());
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

/// Lines that look like a configuration of an old ACT version.
fn almost_old_configs() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        prop::sample::select(
            act::act_keys::KEYS
                .iter()
                .map(|key| key.name)
                .collect::<Vec<_>>()
        ),
        prop::sample::select(vec![
            "device-names",
            "test-duration-sec",
            "read-reqs-per-sec",
            "num-queues",
            "x"
        ]),
    ];
    let value = prop_oneof![4 => "[0-9]{1,5}", 1 => "[0-9]{1,12}", 2 => "yes|no", 1 => "/dev/[a-z]{1,3}", 1 => ".{0,9}"];
    let line = (key, value).prop_map(|(key, value)| format!("{key}: {value}\n"));
    let complete = "device-names: /dev/a\ntest-duration-sec: 9\nread-reqs-per-sec: 9\n";
    let begin = prop_oneof![Just(complete), Just("")];
    (begin, prop::collection::vec(line, 0..14))
        .prop_map(|(begin, lines)| format!("{begin}{}", lines.concat()))
}

proptest! {
    #[test]
    fn a_config_with_arbitrary_comments_parses_back_unchanged(config in configs(), told in ".{0,200}") {
        prop_assume!(check(&config).is_empty());
        let mut document = AnnotatedConfig::new(config.clone());
        document.paragraph(&told);
        document.lines([&told]);
        document.note("record-bytes", &told);
        let again = parse(Test::Storage, "a", document.to_string().as_bytes()).unwrap();
        prop_assert_eq!(again.config, config);
    }

    #[test]
    fn a_scaled_rate_is_the_rounded_product_or_is_refused(config in configs(), factor in "[0-9]{1,4}(\\.[0-9]{1,4})?") {
        let Ok(parsed) = factor.parse::<Factor>() else { return Ok(()) };
        let mut scaled = config.clone();
        match scale(&mut scaled, parsed) {
            Err(_) => prop_assert_eq!(scaled, config),
            Ok(_) => {
                let exact = f64::from(config.read_reqs_per_sec) * factor.parse::<f64>().unwrap();
                let read = scaled.number("read-reqs-per-sec").unwrap() as f64;
                prop_assert!((read - exact).abs() <= 0.5 + exact * 1e-12, "{read} {exact}");
            }
        }
    }

    #[test]
    fn no_old_file_breaks_its_translation(text in almost_old_configs()) {
        assert_parser_property(text.as_bytes());
    }
}
