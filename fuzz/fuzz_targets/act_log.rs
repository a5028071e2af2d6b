//! Arbitrary bytes as a log, compressed or not: no panic, and what was read is written and read back
//! equal.

#![no_main]

#[path = "../../crates/results/tests/common/log_property.rs"]
mod log_property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    log_property::assert_log_property(bytes);
});
