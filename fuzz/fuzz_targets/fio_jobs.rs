//! Arbitrary bytes as fio's job file and command line: no panic, one line for each mistake, and operations of what
//! could run lie within their devices and buffers.

#![no_main]

#[path = "../../crates/load/tests/common/fio_property.rs"]
mod fio_property;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fio_property::assert_fio_property(bytes);
});
