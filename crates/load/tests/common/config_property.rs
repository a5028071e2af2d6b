//! What must hold of every input of the configuration parser, whatever its bytes are.
//!
//! Shared by the property tests, the fuzz target and its stand-in on stable Rust.

use load::act::{self, StorageConfig, echo, parse_storage};

/// Parses `bytes` and asserts what must hold of the result.
pub(crate) fn assert_parser_property(bytes: &[u8]) {
    match parse_storage("input.conf", bytes) {
        Ok(parsed) => {
            assert_config_property(&parsed.config);
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

    let text = echo::to_text(config);
    let again = parse_storage("written.conf", text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert_eq!(&again.config, config, "{text}");
}

fn assert_one_line(message: &str) {
    assert!(!message.contains(char::is_control), "one line: {message:?}");
    assert!(message.len() < 64 * 1024, "a message can be read: {} bytes", message.len());
}
