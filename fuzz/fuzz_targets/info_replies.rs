//! Arbitrary bytes as replies of the info protocol, in a file and on the wire: no panic, and what was read is
//! written and read back equal.

#![no_main]

#[path = "../../crates/sizing/tests/common/info_property.rs"]
mod info_property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    info_property::assert_info_property(bytes);
});
