//! Arbitrary bytes as frames of a client, and as a configuration of the server: no panic, no more than is allowed, and
//! replies that can be read.

#![no_main]

#[path = "../../crates/store/tests/common/wire_property.rs"]
mod wire_property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    wire_property::assert_wire_property(bytes);
    wire_property::assert_configuration_property(bytes);
});
