//! Arbitrary bytes as a store's device: no panic, nothing that hangs, and what is written there is found again.

#![no_main]

#[path = "../../crates/store/tests/common/device_property.rs"]
mod device_property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    device_property::assert_device_property(bytes);
});
