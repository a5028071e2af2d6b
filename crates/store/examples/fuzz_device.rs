//! Mutates what a store left on a device for N seconds on stable Rust: what `fuzz/fuzz_targets/device.rs` does with coverage
//! guidance on nightly.
//!
//! ```text
//! cargo run --release -p store --example fuzz_device -- 60 [SEED]
//! ```

#[path = "../tests/common/device_property.rs"]
mod device_property;
#[path = "../../load/tests/common/mutate.rs"]
mod mutate;

use mutate::{Corpus, fuzz};
use std::error::Error;

/// Magic numbers, the device's id, and numbers at the ends of their ranges.
const DICTIONARY: [&[u8]; 7] = [
    b"\x0c\xb1\xa5\xf1",
    b"\xa5\xf1",
    b"\x09\0\0\0\0\0\0\0",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\x3f",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
];

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = Corpus::of(device_property::examples(), &[], &DICTIONARY);
    fuzz("devices with records", &corpus, device_property::assert_device_property)
}
