//! Arbitrary bytes as a configuration, of today and of every old ACT: no panic, one line for each
//! mistake, and what was read or translated is written and read back equal.

#![no_main]

#[path = "../../crates/load/tests/common/config_property.rs"]
mod config_property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| config_property::assert_parser_property(bytes));
