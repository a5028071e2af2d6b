//! Properties of the configuration parser, and of the translation of old files, for any input bytes.
//!
//! Shared by the property tests and the fuzzer.

use act::legacy::{self, MAJORS, ReadOptions, Translation};
use act::options::Test;
use act::reference::AnnotatedConfig;
use act::{ActConfig, ConfigErrors, Derived, derive, echo, parse};

/// Parses `bytes` as the configuration of each test. Translates them twice: with the ACT version that the keys show,
/// and with a given version. Returns true if the first translation succeeds.
pub(crate) fn assert_parser_property(bytes: &[u8]) -> bool {
    for test in Test::ALL {
        match parse(test, "input.conf", bytes) {
            Ok(parsed) => {
                assert_config_property(&parsed.config);
                parsed
                    .warnings
                    .iter()
                    .for_each(|warning| assert_one_line(&warning.to_string()));
            }
            Err(errors) => assert_errors(&errors),
        }
    }
    // A single version per input, chosen by its length: with all six, the fuzzer would try only a third as many inputs.
    let given = MAJORS.cycle().nth(bytes.len() % MAJORS.count());
    let mut is_valid = false;
    for act in [None, given] {
        // 100,000 CPUs: the maximum that `flashproof size config --cpus` takes.
        let reading = ReadOptions {
            act,
            cpus: act.map(|_| 100_000),
            test: None,
        };
        match legacy::read("input.conf", bytes, &reading) {
            Ok(translation) => {
                is_valid |= act.is_none();
                assert_translation_property(&translation);
            }
            Err(errors) => assert_errors(&errors),
        }
    }
    is_valid
}

/// Every translation is a valid configuration, and each of its remarks fits a line.
fn assert_translation_property(translation: &Translation) {
    translation
        .changes
        .iter()
        .for_each(|(_, change)| assert_one_line(&change.to_string()));
    translation
        .warnings
        .iter()
        .for_each(|warning| assert_one_line(&warning.to_string()));
    let text = AnnotatedConfig::new(translation.config.clone()).to_string();
    let again = legacy::read("written.conf", text.as_bytes(), &ReadOptions::default());
    let again = again.unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert_eq!(again.config, translation.config, "{text}");
}

fn assert_errors(errors: &ConfigErrors) {
    assert!(!errors.0.is_empty(), "an error says something");
    errors
        .0
        .iter()
        .for_each(|error| assert_one_line(&error.to_string()));
    let lines: Vec<_> = errors
        .0
        .iter()
        .map(|error| error.line.unwrap_or(usize::MAX))
        .collect();
    assert!(lines.is_sorted(), "errors are in the order of the lines");
}

pub(crate) fn assert_config_property(config: &ActConfig) {
    let derived =
        derive(config).unwrap_or_else(|problems| panic!("parsed, yet refused: {problems:?}"));
    // The first derived value of a storage test is a range of sizes, not a rate, and is skipped.
    let rates = match &derived {
        Derived::Storage(derived) => {
            assert!(derived.records_per_large_block >= 1);
            1..
        }
        Derived::Index(_) => 0..,
    };
    for (key, value) in &echo::derived(config, &derived)[rates] {
        assert!(
            value.parse::<f64>().is_ok_and(f64::is_finite),
            "a rate is a number: {key}: {value}"
        );
    }
    let text = echo::to_text(config);
    let again = parse(config.test, "written.conf", text.as_bytes())
        .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert_eq!(&again.config, config, "{text}");
}

fn assert_one_line(message: &str) {
    assert!(!message.contains(char::is_control), "one line: {message:?}");
    assert!(
        message.len() < 64 * 1024,
        "a message can be read: {} bytes",
        message.len()
    );
}
