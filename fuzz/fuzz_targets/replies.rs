//! Arbitrary bytes as what servers answer a client: no panic, and what is taken is whole and bounded.

#![no_main]

#[path = "../../crates/store/tests/common/replies_property.rs"]
mod replies_property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    replies_property::assert_replies_property(bytes);
});
