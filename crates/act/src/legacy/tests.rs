//! Files of every ACT version, with their expected translations.

use super::*;
use crate::rates::derive_storage;
use load::rate::Rate;
use results::testing::modified;
use results::{assert_any_contains, assert_contains, assert_starts_with};

const ACT2: &str = "device-names: /dev/sdc\nqueue-per-device: no\nnum-queues: 2\nthreads-per-queue: 8\n\
                    test-duration-sec: 86400\nreport-interval-sec: 1\nread-reqs-per-sec: 6000\n\
                    large-block-ops-per-sec: 70\nread-req-num-512-blocks: 3\nlarge-block-op-kbytes: 128\n\
                    use-valloc: no\nnum-write-buffers: 256\nscheduler-mode: noop\n";
/// A file of ACT 3's config helper.
const ACT3: &str = "device-names: /dev/sdb,/dev/sdc\nqueue-per-device: no\nnum-queues: 8\nthreads-per-queue: 8\n\
                    test-duration-sec: 86400\nreport-interval-sec: 1\nlarge-block-op-kbytes: 128\n\
                    record-bytes: 1500\nread-reqs-per-sec: 6000\nwrite-reqs-per-sec: 3000\nuse-valloc: no\n\
                    scheduler-mode: noop\n";
const ACT5: &str = "device-names: /dev/sdb\ntest-duration-sec: 60\nread-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\n\
                    record-bytes: 1500\nservice-threads: 2\nnum-queues: 3\nmax-reqs-queued: 5\n";

/// A file that fits both tests, and that any ACT from 5 on reads.
const BOTH: &str = "device-names: a\ntest-duration-sec: 5\nread-reqs-per-sec: 5\n";

fn translated(text: &str) -> (ActConfig, Translation) {
    read_as(text, &ReadOptions::default())
}

fn read_as(text: &str, reading: &ReadOptions) -> (ActConfig, Translation) {
    let translation =
        read("a.conf", text.as_bytes(), reading).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(translation.config.test, Test::Storage);
    (translation.config.clone(), translation)
}

fn errors(text: &str) -> Vec<String> {
    let errors = read("a.conf", text.as_bytes(), &ReadOptions::default()).unwrap_err();
    errors.0.iter().map(ToString::to_string).collect()
}

fn said(translation: &Translation) -> String {
    translation
        .changes
        .iter()
        .map(|(key, change)| format!("{key}|{change}\n"))
        .collect()
}

fn without(text: &str, keys: &[&str]) -> String {
    let kept = text
        .lines()
        .filter(|line| !keys.iter().any(|key| line.starts_with(key)));
    kept.map(|line| format!("{line}\n")).collect()
}

/// A file of ACT 4's config helper.
fn act4() -> String {
    without(ACT3, &["queue-per", "use-valloc"])
}

#[test]
fn the_large_block_rate_of_an_act_2_file_is_kept_exactly() {
    for (rate, writes, lwm_pct) in [(70, 2975, 50), (24, 1020, 50), (23, 1955, 0), (1, 85, 0)] {
        let text = ACT2.replace("per-sec: 70", &format!("per-sec: {rate}"));
        let (config, translation) = translated(&text);
        assert_eq!(translation.act, 2);
        assert_eq!(config.write_reqs_per_sec, writes);
        assert_eq!(config.defrag_lwm_pct, lwm_pct);
        assert_eq!(config.record_bytes, 1536);
        let derived = derive_storage(&config).unwrap();
        assert_eq!(derived.large_block_read_rate, Rate::per_sec(rate));
        assert_eq!(derived.large_block_write_rate, Rate::per_sec(rate));
        assert_eq!(derived.read_rate, Rate::per_sec(6000));
        assert_eq!(config.service_threads, Some(16));
        assert!(config.disable_odsync);
        assert_eq!(config.compress_pct, 100);
    }
}

#[test]
fn a_file_of_act_2_without_random_buffers_becomes_a_load_that_writes_zeros() {
    let texts = [
        (ACT2.replace("buffers: 256", "buffers: 0"), "given"),
        (without(ACT2, &["num-write"]), "the default"),
    ];
    for (text, given) in texts {
        let (config, translation) = translated(&text);
        assert_eq!(config.compress_pct, 0);
        let change =
            format!("replaces num-write-buffers: 0 ({given}), with which ACT 2 wrote zeros");
        assert!(translation.changes.contains(&("compress-pct", change)));
    }
}

#[test]
fn record_sizes_of_act_3_and_4_are_rounded_up_to_multiples_of_128_bytes() {
    let (config, translation) = translated(ACT3);
    assert_eq!((translation.act, config.record_bytes), (3, 1536));
    let derived = derive_storage(&config).unwrap();
    // ACT 3 printed 2 x 3000 / (131072 / 1536) = 70.59.
    assert_eq!(derived.large_block_write_rate, Rate::new(6000, 85).unwrap());
    let ranged = format!("{}record-bytes-range-max: 1530\n", act4());
    let (config, translation) = translated(&ranged);
    assert_eq!(translation.act, 4);
    assert_eq!(config.record_bytes, 1536);
    assert_eq!(config.record_bytes_range_max, 0);
    let (config, _) = translated(&ranged.replace("1530", "1540"));
    assert_eq!(config.record_bytes_range_max, 1664);
}

#[test]
fn threads_of_a_queue_per_device_become_one_limit_for_all_devices() {
    let text = without(ACT3, &["num-queues"]).replace("device: no", "device: yes");
    let (config, translation) = translated(&text);
    assert_eq!(config.service_threads, Some(16));
    assert!(said(&translation).contains(
        "service-threads|was queue-per-device: yes with 8 threads for each of 2 devices"
    ));
}

#[test]
fn service_threads_of_act_5_are_dropped_and_its_queues_become_service_threads() {
    let (config, translation) = translated(ACT5);
    assert_eq!(translation.act, 5);
    assert_eq!(config.service_threads, Some(12), "3 queues of 4 by default");
    assert_eq!((config.record_bytes, config.disable_odsync), (1500, false));
    let said = said(&translation);
    assert!(
        said.contains("service-threads|service-threads: 2 of ACT 5 was dropped"),
        "{said}"
    );
    assert!(
        said.contains("max-lag-sec|ACT 5 stopped when 5 requests were waiting in its queues"),
        "{said}"
    );
}

#[test]
fn an_index_test_is_recognised_by_its_keys_and_its_cache_threads_are_renamed() {
    let text = "device-names: a\ntest-duration-sec: 60\nread-reqs-per-sec: 2\nnum-cache-threads: 3\nnum-queues: 2\n";
    let translation = read("a", text.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!(translation.act, 5);
    let config = &translation.config;
    assert_eq!(config.test, Test::Index);
    assert_eq!((config.cache_threads, config.service_threads), (3, Some(8)));
    assert!(
        translation
            .changes
            .contains(&("cache-threads", "was called num-cache-threads".to_owned()))
    );
    // ACT 6.0 to 6.4 read the scheduler in both tests.
    let text = "device-names: a\ntest-duration-sec: 60\nread-reqs-per-sec: 2\ncache-threads: 3\nscheduler-mode: noop\n\
                file-size-mbytes: 9\nservice-threads: 4\ndisable-odsync: no\n";
    for act in [None, Some(6)] {
        let reading = ReadOptions {
            act,
            ..ReadOptions::default()
        };
        let translation = read("a", text.as_bytes(), &reading).unwrap();
        assert_eq!((translation.act, translation.config.test), (6, Test::Index));
        assert_starts_with!(
            translation.warnings[0].to_string(),
            "a:5: scheduler-mode is a key of ACT 1.0 to 6.4: it is ignored"
        );
    }
    let parsed = parse(
        Test::Index,
        "a",
        format!("{BOTH}num-queues: 2\nthreads-per-queue: 3\n").as_bytes(),
    );
    assert_eq!(parsed.unwrap().config.service_threads, Some(6));
    let index = modified(ReadOptions::default(), |it| it.test = Some(Test::Index));
    assert_eq!(
        read("a", BOTH.as_bytes(), &index).unwrap().config.test,
        Test::Index
    );
    assert_eq!(
        read("a", BOTH.as_bytes(), &ReadOptions::default())
            .unwrap()
            .config
            .test,
        Test::Storage
    );
    let mixed = errors(&format!("{BOTH}cache-threads: 1\nupdate-pct: 5\n"));
    assert!(
        mixed.len() == 1 && mixed[0].starts_with("a.conf:4: cache-threads"),
        "{mixed:?}"
    );
}

/// The sizing paper's configuration is in the format of ACT 4, with keys that no release had.
#[test]
fn a_histogram_load_in_act_4_format_keeps_its_histogram_and_its_record_bytes_of_0() {
    let text = "device-names: a\nnum-queues: 8\nthreads-per-queue: 8\ntest-duration-sec: 5\nreport-interval-sec: 1\n\
                large-block-op-kbytes: 128\nrecord-bytes: 0\nread-reqs-per-sec: 12000\nwrite-reqs-per-sec: 0\n\
                microsecond-histograms: no\nscheduler-mode: noop\nstorage-read-histogram: 100.00,100.00, 50,0.00\n";
    let (config, translation) = translated(text);
    assert_eq!(translation.act, 4);
    assert_eq!(config.record_bytes, 0);
    assert!(config.has_histograms());
    assert_eq!(config.service_threads, Some(64));
    assert!(config.disable_odsync);
}

#[test]
fn max_lag_sec_0_of_act_5_becomes_1_and_of_act_6_stays_0() {
    assert_eq!(
        translated(&format!("{ACT5}max-lag-sec: 0\n")).0.max_lag_sec,
        1
    );
    assert_eq!(
        translated(&format!("{BOTH}max-lag-sec: 0\n")).0.max_lag_sec,
        0
    );
}

#[test]
fn the_default_service_threads_per_cpu_are_written_out_if_the_number_of_cpus_is_known() {
    let act5 = without(ACT5, &["num-queues"]);
    for (text, act, threads) in [
        (act5, 5, 64),
        (BOTH.into(), 6, 80),
        (format!("{BOTH}service-threads: 0"), 6, 80),
    ] {
        let (config, translation) = translated(&text);
        assert_eq!((translation.act, config.service_threads), (act, None));
        assert!(
            said(&translation).contains("service-threads|not given: ACT"),
            "{translation:?}"
        );
        let (config, _) = read_as(
            &text,
            &modified(ReadOptions::default(), |it| it.cpus = Some(16)),
        );
        assert_eq!(config.service_threads, Some(threads));
    }
}

#[test]
fn the_act_version_of_a_file_is_recognised_by_its_keys() {
    let paper = act4();
    for (text, act, candidates) in [
        (ACT2.to_owned(), 2, 1..=2),
        (ACT3.to_owned(), 3, 3..=3),
        (paper.clone(), 4, 3..=5),
        (without(&paper, &["num-queues"]), 5, 3..=5),
        (format!("{paper}max-lag-sec: 5\n"), 5, 5..=5),
        (
            format!(
                "{}arrival: poisson\n",
                without(&paper, &["num-q", "threads"])
            ),
            6,
            3..=6,
        ),
    ] {
        let translation = translated(&text).1;
        assert_eq!(translation.act, act, "{text}");
        assert_eq!(translation.candidates, Some(candidates), "{text}");
    }
    let forced = read_as(
        &paper,
        &modified(ReadOptions::default(), |it| it.act = Some(5)),
    );
    assert_eq!(forced.0.record_bytes, 1500);
    assert!(!forced.0.disable_odsync);
    assert_eq!(forced.1.candidates, None);
}

#[test]
fn keys_of_two_versions_of_act_are_refused_unless_the_version_is_given() {
    let both = format!("{ACT2}write-reqs-per-sec: 5\n");
    assert_eq!(
        errors(&both),
        [
            "a.conf: large-block-ops-per-sec was last read by ACT 2, but write-reqs-per-sec first by ACT 3: no ACT reads both keys - \
         give the version of the file with --act; keys that this version did not know are then dropped"
        ]
    );
    let (config, translation) = read_as(
        &both,
        &modified(ReadOptions::default(), |it| it.act = Some(2)),
    );
    assert_eq!(config.write_reqs_per_sec, 2975);
    assert!(said(&translation).contains("|write-reqs-per-sec: 5 was dropped: ACT 2 did not know"));
}

/// For an unknown key, ACT 3 printed nothing and continued. ACT 6 refuses the file.
#[test]
fn keys_that_an_old_act_ignored_are_dropped_and_keys_of_flashproof_stay() {
    let (config, translation) = translated(&format!(
        "{ACT3}foo: 1\nupdate-pc: 20\nfoo: \u{1b}[2J\nseed: 7\n"
    ));
    assert_eq!(translation.act, 3);
    assert_eq!(config.update_pct, 0);
    assert_eq!(config.seed, Some(7));
    let said = said(&translation);
    for line in [
        "|foo: 1 was dropped: ACT 3 did not know that key and ignored it\n",
        "|update-pc: 20 was dropped: ACT 3 did not know that key and ignored it; if update-pct was meant, set that\n",
        "|foo: \\u001b[2J was dropped: ACT 3 did not know",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    let today = errors(&format!("{BOTH}foo: 1\n"));
    assert!(
        today.len() == 1 && today[0].starts_with("a.conf:4: unknown key \"foo\""),
        "{today:?}"
    );
}

#[test]
fn a_misspelt_mandatory_key_is_still_a_mistake() {
    let errors = errors(&ACT3.replace("record-bytes:", "recod-bytes:"));
    assert!(
        errors[0].contains("unknown key \"recod-bytes\" - did you mean record-bytes?"),
        "{errors:?}"
    );
    assert!(errors[1].contains("record-bytes: missing"), "{errors:?}");
}

#[test]
fn a_key_that_is_wrong_is_named_before_a_key_that_is_missing() {
    // A fork of ACT has num-timers in place of num-queues.
    let errors = errors(&ACT3.replace("num-queues:", "num-timers:"));
    assert_contains!(errors[0], "unknown key \"num-timers\"");
    assert!(errors[1].contains("num-queues: missing"), "{errors:?}");
}

#[test]
fn keys_of_the_file_are_distinguished_from_defaults() {
    let given = translated(ACT2).1.given_keys;
    for (key, is_given) in [
        ("record-bytes", true),
        ("compress-pct", false),
        ("disable-odsync", true),
        ("seed", false),
    ] {
        assert_eq!(given.contains(&key), is_given, "{key}");
    }
}

#[test]
fn every_mistake_of_an_old_file_is_named_with_its_line() {
    let text = ACT2
        .replace("queues: 2", "queues: two")
        .replace("test-dur", "test-dru")
        .replace("kbytes: 128", "kbytes: 100");
    let text = format!("{text}num-queues: 4\n");
    let errors = errors(&text);
    assert_eq!(errors.len(), 5, "{errors:#?}");
    assert_starts_with!(errors[0], "a.conf:3: num-queues: \"two\" is not a number");
    assert_contains!(
        errors[1],
        "a.conf:5: unknown key \"test-druation-sec\" - did you mean test-duration-sec?"
    );
    assert_contains!(
        errors[2],
        "a.conf:10: large-block-op-kbytes: 100 is no power of two"
    );
    assert_contains!(errors[3], "a.conf:14: num-queues: already given in line 3");
    assert_contains!(errors[4], "test-duration-sec: missing");
}

#[test]
fn a_record_that_does_not_fit_its_block_is_named_and_nothing_overflows() {
    let large = errors(&ACT2.replace("blocks: 3", "blocks: 257"));
    assert!(
        large.len() == 1 && large[0].contains("a.conf:9: record-bytes: a record of 131584 bytes"),
        "{large:?}"
    );
    let most = ACT2
        .replace("blocks: 3", "blocks: 4294967295")
        .replace("per-sec: 70", "per-sec: 4294967295");
    assert_any_contains!(errors(&most), "record-bytes: 2199023255040 is too large");
    let many = errors(&ACT2.replace("per-sec: 70", "per-sec: 4294967295"));
    assert!(
        many[0].contains("a.conf:8: write-reqs-per-sec: 365072220075 is too large"),
        "{many:?}"
    );
    // The file has 4294967295 blocks/s of 8589934590 records each. Half of these records are client writes.
    let blocks = ACT2
        .replace("blocks: 3", "blocks: 1")
        .replace("per-sec: 70", "per-sec: 4294967295");
    let blocks = errors(&blocks.replace("kbytes: 128", "kbytes: 4294967295"));
    assert_eq!(blocks.len(), 2, "{blocks:?}");
    assert!(
        blocks[0].contains("a.conf:8: write-reqs-per-sec: 18446744065119617025 is too large"),
        "{blocks:?}"
    );
    assert!(
        blocks[1].contains("a.conf:10: large-block-op-kbytes: 4294967295 is too large"),
        "{blocks:?}"
    );
    let threads = errors(&ACT2.replace("queues: 2", "queues: 4294967295"));
    assert_contains!(threads[0], "4294967295 queues x 8 threads is more than");
}

#[test]
fn commits_of_act_4_become_durable_with_a_note() {
    let text = format!("{}commit-to-device: yes\n", act4());
    let (config, translation) = translated(&text);
    assert!(config.commit_to_device && !config.disable_odsync);
    assert!(said(&translation).contains("commit-to-device|ACT 4 opened devices without O_DSYNC"));
}

#[test]
fn too_large_empty_and_binary_files_are_refused() {
    assert_contains!(
        read("a", &vec![b'#'; 2 << 20], &ReadOptions::default()).unwrap_err(),
        "a configuration has at most 1048576"
    );
    assert!(read("a", b"", &ReadOptions::default()).is_err());
    assert!(read("a", b"\xff\xfe\x00", &ReadOptions::default()).is_err());
}

#[test]
fn a_file_of_flashproof_is_not_translated() {
    for (text, own) in [
        (BOTH.to_owned(), false),
        (format!("{BOTH}arrival: act\n"), true),
        (format!("# {WRITTEN_BY} 0.1.0; run it\n{BOTH}"), true),
        (
            format!("{BOTH}arrival: act\nnum-queues: 2\nthreads-per-queue: 4\n"),
            false,
        ),
    ] {
        let translation = read(
            "a.conf",
            text.as_bytes(),
            &modified(ReadOptions::default(), |it| it.cpus = Some(4)),
        )
        .unwrap();
        assert_eq!(translation.is_flashproof_file, own, "{text}");
        assert_eq!(
            translation.changes.is_empty(),
            own,
            "threads for each CPU are a default of ACT's: {text}"
        );
    }
}

#[test]
fn a_file_that_fits_both_tests_is_a_storage_test_by_default() {
    let read = |text: &str, test| {
        read(
            "a.conf",
            text.as_bytes(),
            &modified(ReadOptions::default(), |it| it.test = test),
        )
        .unwrap()
    };
    let translation = read(BOTH, None);
    assert_eq!(translation.config.test, Test::Storage);
    assert!(translation.test_by_default);
    assert!(!read(BOTH, Some(Test::Index)).test_by_default);
    assert!(!read(&format!("{BOTH}record-bytes: 5\n"), None).test_by_default);
    let index = read(&format!("{BOTH}cache-threads: 5\n"), None);
    assert_eq!(index.config.test, Test::Index);
    assert!(!index.test_by_default);
}
