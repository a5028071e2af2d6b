//! What must hold of every input of the configuration parser, whatever its bytes are.
//!
//! Shared by the property tests, the fuzz target and its stand-in on stable Rust.

use load::act::parse::{Parsed, parse};
use load::act::problem::ConfigErrors;
use load::act::{self, Configuration, IndexConfig, StorageConfig, echo};
use std::fmt::Debug;

/// Parses `bytes` as the configuration of either test and asserts what must hold of the result.
pub(crate) fn assert_parser_property(bytes: &[u8]) {
    assert_parsed(parse("input.conf", bytes), assert_config_property);
    assert_parsed(parse("input.conf", bytes), assert_index_property);
}

fn assert_parsed<C>(parsed: Result<Parsed<C>, ConfigErrors>, assert_config: impl Fn(&C)) {
    match parsed {
        Ok(parsed) => {
            assert_config(&parsed.config);
            parsed.warnings.iter().for_each(|warning| assert_one_line(&warning.to_string()));
        }
        Err(errors) => {
            assert!(!errors.0.is_empty(), "an error says something");
            errors.0.iter().for_each(|error| assert_one_line(&error.to_string()));
            let lines: Vec<_> = errors.0.iter().map(|error| error.line.unwrap_or(usize::MAX)).collect();
            assert!(lines.is_sorted(), "errors are in the order of the lines");
        }
    }
}

/// Asserts what must hold of every configuration that the parser let through.
pub(crate) fn assert_config_property(config: &StorageConfig) {
    let derived = act::derive(config).unwrap_or_else(|problems| panic!("parsed, yet refused: {problems:?}"));
    assert!(derived.records_per_large_block >= 1);
    for (key, value) in &echo::derived(config, &derived)[1..] {
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "a rate is a number: {key}: {value}");
    }
    assert_reads_back(config);
}

fn assert_index_property(config: &IndexConfig) {
    act::derive_index(config).unwrap_or_else(|problems| panic!("parsed, yet refused: {problems:?}"));
    assert_reads_back(config);
}

fn assert_reads_back<C: Configuration + PartialEq + Debug>(config: &C) {
    let text = echo::to_text(config);
    let again = parse::<C>("written.conf", text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert_eq!(&again.config, config, "{text}");
}

fn assert_one_line(message: &str) {
    assert!(!message.contains(char::is_control), "one line: {message:?}");
    assert!(message.len() < 64 * 1024, "a message can be read: {} bytes", message.len());
}
