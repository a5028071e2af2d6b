//! Mutates logs for N seconds on stable Rust: what `fuzz/fuzz_targets/act_log.rs` does with coverage
//! guidance on nightly. It is here, and not beside the log reader, because random numbers are.
//!
//! ```text
//! cargo run --release -p load --example fuzz_log -- 60 [SEED]
//! ```

#[path = "../../results/tests/common/log_property.rs"]
mod log_property;
#[path = "../tests/common/mutate.rs"]
mod mutate;

use log_property::assert_log_property;
use mutate::{Corpus, fuzz};
use std::error::Error;

/// Logs that ACT wrote, oldest version last.
const LOGS: [&[u8]; 5] = [
    include_bytes!("../../results/tests/data/act-storage-two-devices.log"),
    include_bytes!("../../results/tests/data/act-storage-interval2.log"),
    include_bytes!("../../results/tests/data/act-index-us.log"),
    include_bytes!("../../results/tests/data/act5-storage.log"),
    include_bytes!("../../results/tests/data/act4.log"),
];

/// Lines that these logs do not have.
const OWN_LINES: [&str; 8] = [
    "ERROR: reading /dev/sda: 5 'Input/output error'\n",
    "after 18446744073709551615 sec:\n",
    "after 3 sec:\n",
    "after 4 sec:\n\n",
    "reads (0 total)\n",
    "reads (18446744073709551615 total)\n",
    "FLASHPROOF SETTINGS\n",
    " (00: 9223372036854775807) (64: 9223372036854775808)\n",
];

/// Pieces that parsers stumble over.
const DICTIONARY: [&[u8]; 22] = [
    b"0",
    b"-1",
    b"+1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"1e9",
    b" ",
    b"\t",
    b"\r\n",
    b"\n\n",
    b"\n",
    b": ",
    b" (",
    b")",
    b" total)",
    b"after ",
    b" sec:",
    b"\nafter ",
    b"\0",
    b"\xff",
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
];

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = Corpus::of(LOGS.iter().map(|log| log.to_vec()).collect(), &OWN_LINES, &DICTIONARY);
    fuzz("logs to their end", &corpus, assert_log_property)
}
