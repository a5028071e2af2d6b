//! Arbitrary bytes as a file of replies of the info protocol: no panic, and what was read is written and read back equal.

#![no_main]

#[path = "../../crates/sizing/tests/common/info_property.rs"]
mod info_property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    info_property::assert_info_property(bytes);
});
