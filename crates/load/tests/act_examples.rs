//! Configurations that ACT 6.6 was given, beside what it printed of them (`data/act-storage`,
//! `data/act-index`).

use load::workload::act::options::Test;
use load::workload::act::{ActWorkload, derive_index, derive_storage, parse};
use std::fs;
use std::path::{Path, PathBuf};

fn data(test: Test) -> PathBuf {
    let name = match test {
        Test::Storage => "act-storage",
        Test::Index => "act-index",
    };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Stems of the files with this extension, sorted.
fn names(test: Test, extension: &str) -> Vec<String> {
    let files = fs::read_dir(data(test)).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn read(test: Test, name: &str, extension: &str) -> String {
    fs::read_to_string(data(test).join(format!("{name}.{extension}"))).unwrap()
}

#[test]
fn what_act_echoed_and_derived_is_echoed_and_derived_to_the_character() {
    for (test, count) in [(Test::Storage, 34), (Test::Index, 12)] {
        let names = names(test, "echo");
        assert_eq!(names.len(), count, "every example with an echo is here");
        for name in names {
            let parsed = parse(test, &name, read(test, &name, "conf").as_bytes());
            let mut parsed = parsed.unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(parsed.warnings, [], "{name}");
            if name == "no_threads" {
                // The one default that differs: ours is for each device, ACT's for each CPU.
                assert_eq!(parsed.config.service_threads_or_default(), 1024);
                parsed.config.service_threads = Some(10);
            }
            let blocks = ActWorkload::of(parsed.config).unwrap().blocks();
            let (acts, ours) = blocks.split_at(blocks.find("FLASHPROOF SETTINGS").unwrap());
            assert_eq!(acts, read(test, &name, "echo"), "{name}");
            assert!(ours.contains("\narrival: paced\n"), "{name}");
        }
    }
}

#[test]
fn what_act_index_refuses_is_refused_with_a_reason() {
    let refused = [
        ("cache0", "cache0.conf:6: cache-threads: 0 is too small - give a whole number from 1 to 1048576"),
        ("lwm100", "lwm100.conf:6: defrag-lwm-pct: 100 is too large - give a whole number from 0 to 99 (%)"),
        (
            "record_bytes_here",
            "record_bytes_here.conf:6: record-bytes: a key of the storage test, which an index test does not have - \
             remove the line, or run \"flashproof storage\"",
        ),
    ];
    for (name, message) in refused {
        let conf = read(Test::Index, name, "conf");
        let errors = parse(Test::Index, &format!("{name}.conf"), conf.as_bytes()).unwrap_err();
        assert_eq!(errors.to_string(), message);
    }
    let small = parse(Test::Index, "small", read(Test::Index, "small", "conf").as_bytes()).unwrap().config;
    let rate = derive_index(&small).unwrap().service_read_rate;
    assert_eq!((rate.ops(), rate.seconds()), (6, 1), "fewer than one for each of the 10 service threads");
    let without_echo = names(Test::Index, "conf").len() - names(Test::Index, "echo").len();
    assert_eq!(without_echo, refused.len() + 1, "every example is in one of the tests");
}

#[test]
fn what_act_refuses_or_mistakes_is_refused_with_a_reason() {
    let refused = [
        (
            "both_zero",
            "both_zero.conf:3: read-reqs-per-sec and write-reqs-per-sec are both 0: there is no load - give at least \
             one of them",
        ),
        (
            "interval0",
            "interval0.conf:6: report-interval-sec: 0 is too small - give a whole number from 1 to 4294967295 (s)",
        ),
        (
            "junk_number",
            "junk_number.conf:3: read-reqs-per-sec: \"20x\" has \"x\" after the number - give a whole number from 0 to \
             4294967295 (requests/s)",
        ),
        (
            "lb_not_pow2",
            "lb_not_pow2.conf:6: large-block-op-kbytes: 100 is no power of two - give a power of two from 1 to 8192 (KiB)",
        ),
        (
            "lb_too_big",
            "lb_too_big.conf:6: large-block-op-kbytes: 16384 is too large - give a power of two from 1 to 8192 (KiB)",
        ),
        ("lwm100", "lwm100.conf:6: defrag-lwm-pct: 100 is too large - give a whole number from 0 to 99 (%)"),
        (
            "neg",
            "neg.conf:3: read-reqs-per-sec: \"-5\" is negative - give a whole number from 0 to 4294967295 (requests/s)",
        ),
        (
            "no_device",
            "no_device.conf: device-names: missing, and it has no default - add a line such as \"device-names: \
             /dev/nvme0n1\"",
        ),
        (
            "odsync_off_commit",
            "odsync_off_commit.conf:6: disable-odsync: yes contradicts commit-to-device: yes, because a commit is a \
             write that is durable when it returns - set one of the two to no",
        ),
        (
            "record0",
            "record0.conf:6: record-bytes: 0 is too small without a histogram - give a whole number from 1 to 8388608 \
             (bytes), or the sizes as storage-read-histogram and storage-write-histogram",
        ),
        ("update101", "update101.conf:6: update-pct: 101 is too large - give a whole number from 0 to 100 (%)"),
    ];
    for (name, message) in refused {
        let errors =
            parse(Test::Storage, &format!("{name}.conf"), read(Test::Storage, name, "conf").as_bytes()).unwrap_err();
        assert_eq!(errors.to_string(), message);
    }
    let runs = ["old_queues", "record_8m", "too_small"];
    let without_echo = names(Test::Storage, "conf").len() - names(Test::Storage, "echo").len();
    assert_eq!(without_echo, refused.len() + runs.len(), "every example is in one of the tests");
}

#[test]
fn a_small_load_runs() {
    let config = parse(Test::Storage, "too_small", read(Test::Storage, "too_small", "conf").as_bytes()).unwrap().config;
    let rate = derive_storage(&config).unwrap().read_rate;
    assert_eq!((rate.ops(), rate.seconds()), (9, 1), "fewer than one for each of the 10 service threads");
}

#[test]
fn the_largest_record_in_the_largest_block_runs() {
    let config = parse(Test::Storage, "record_8m", read(Test::Storage, "record_8m", "conf").as_bytes()).unwrap().config;
    let derived = derive_storage(&config).unwrap();
    assert_eq!((derived.records_per_large_block, derived.record_stored_bytes_max), (1, 8 << 20));
    assert_eq!(derived.large_block_write_rate.per_sec_floor(), 2000);
}

#[test]
fn queues_of_act_4_yield_to_service_threads() {
    let parsed = parse(Test::Storage, "a.conf", read(Test::Storage, "old_queues", "conf").as_bytes()).unwrap();
    assert_eq!(parsed.config.service_threads, Some(10));
    let warnings: Vec<_> = parsed.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "a.conf:6: num-queues is a key of ACT 4: it is ignored, because service-threads: 10 is given too; \
             if the file is of ACT 5.1 to 5.3, flashproof size config FILE translates it",
            "a.conf:7: threads-per-queue is a key of ACT 4: it is ignored, because service-threads: 10 is given too; \
             if the file is of ACT 5.1 to 5.3, flashproof size config FILE translates it",
        ]
    );
}
