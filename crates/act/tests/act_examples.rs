//! Configurations of ACT 6.6, each with the values that ACT printed, or with the reason why flashproof refuses it
//! (`data/act-storage`, `data/act-index`).

use act::options::Test;
use act::{ActWorkload, Parsed, derive_index, derive_storage, parse};
use load::rate::Rate;
use std::fs;
use std::path::{Path, PathBuf};

fn data(test: Test) -> PathBuf {
    let name = match test {
        Test::Storage => "act-storage",
        Test::Index => "act-index",
    };
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn names(test: Test, extension: &str) -> Vec<String> {
    let files = fs::read_dir(data(test))
        .unwrap()
        .map(|entry| entry.unwrap().path());
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
fn echo_and_derived_values_equal_acts_to_the_character() {
    for (test, count) in [(Test::Storage, 34), (Test::Index, 12)] {
        let names = names(test, "echo");
        assert_eq!(names.len(), count, "every example with an echo is here");
        for name in names {
            let parsed = parse(test, &name, read(test, &name, "conf").as_bytes());
            let mut parsed = parsed.unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(parsed.warnings, [], "{name}");
            if name == "no_threads" {
                // Only this default differs from ACT's: flashproof has service threads per device, ACT per CPU.
                assert_eq!(parsed.config.service_threads_or_default(), 1024);
                parsed.config.service_threads = Some(10);
            }
            let blocks = ActWorkload::from_config(parsed.config).unwrap().blocks();
            let (acts, ours) = blocks.split_at(blocks.find("FLASHPROOF SETTINGS").unwrap());
            assert_eq!(acts, read(test, &name, "echo"), "{name}");
            assert!(ours.contains("\narrival: paced\n"), "{name}");
        }
    }
}

#[test]
fn configurations_that_act_refuses_or_misreads_are_refused_with_a_reason() {
    for (test, count, runs) in [(Test::Storage, 11, 3), (Test::Index, 3, 1)] {
        let refused = names(test, "error");
        assert_eq!(refused.len(), count);
        for name in refused {
            let errors = parse(
                test,
                &format!("{name}.conf"),
                read(test, &name, "conf").as_bytes(),
            )
            .unwrap_err();
            assert_eq!(errors.to_string(), read(test, &name, "error").trim_end());
        }
        let without_echo = names(test, "conf").len() - names(test, "echo").len();
        assert_eq!(
            without_echo,
            count + runs,
            "every example is in one of the tests"
        );
    }
}

fn parsed(test: Test, name: &str) -> Parsed {
    parse(test, "a.conf", read(test, name, "conf").as_bytes()).unwrap()
}

#[test]
fn a_load_of_fewer_operations_per_second_than_threads_is_accepted() {
    let storage = derive_storage(&parsed(Test::Storage, "too_small").config)
        .unwrap()
        .read_rate;
    let index = derive_index(&parsed(Test::Index, "small").config)
        .unwrap()
        .service_read_rate;
    assert_eq!(
        (storage, index),
        (Rate::per_sec(9), Rate::per_sec(6)),
        "fewer than one for each of 10 service threads"
    );
}

#[test]
fn a_record_of_8_mib_that_fills_a_large_block_is_accepted() {
    let derived = derive_storage(&parsed(Test::Storage, "record_8m").config).unwrap();
    assert_eq!(derived.records_per_large_block, 1);
    assert_eq!(derived.record_stored_bytes_max, 8 << 20);
    assert_eq!(derived.large_block_write_rate.per_sec_floor(), 2000);
}

#[test]
fn queue_keys_of_act_4_are_ignored_with_a_warning_if_service_threads_is_given() {
    let Parsed { config, warnings } = parsed(Test::Storage, "old_queues");
    assert_eq!(config.service_threads, Some(10));
    let ignored = |line: u32, key: &str| {
        format!(
            "a.conf:{line}: {key} is a key of ACT 1.0 to 5.3: it is ignored, because service-threads: 10 is given too; if the file \
             is of ACT 5.1 to 5.3, flashproof size config FILE translates it"
        )
    };
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [ignored(6, "num-queues"), ignored(7, "threads-per-queue")]
    );
}
