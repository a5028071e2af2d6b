//! Arbitrary bytes as a server's log, iostat's output and asloglatency's tables: no panic, the same in pieces and
//! rotated, times ascend, what counts back is a restart, tables that were printed are read back.

#![no_main]

#[path = "../../crates/sizing/tests/common/server_property.rs"]
mod server_property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    server_property::assert_server_property(bytes);
});
