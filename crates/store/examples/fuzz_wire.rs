//! Mutates frames of clients, and configurations of the server, for N seconds on stable Rust: what `fuzz/fuzz_targets/wire.rs`
//! does with coverage guidance on nightly.
//!
//! ```text
//! cargo run --release -p store --example fuzz_wire -- 60 [SEED]
//! ```

#[path = "../../load/tests/common/mutate.rs"]
mod mutate;
#[path = "../tests/common/wire_property.rs"]
mod wire_property;

use mutate::{Corpus, fuzz};
use std::error::Error;
use wire_property::{assert_configuration_property, assert_wire_property};

/// What real clients sent.
const MESSAGES: &str = include_str!("../tests/data/messages.txt");
const REQUESTS: &str = include_str!("../tests/data/info-requests.txt");
const CONFIGURATIONS: [&[u8]; 2] =
    [include_bytes!("../tests/data/two-namespaces.conf"), include_bytes!("../../../examples/serve.conf")];

/// Pieces that parsers stumble over.
const DICTIONARY: [&[u8]; 17] = [
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x02\x03\0\0\0\0",
    b"\x02\x01\0\0\0\0\0\x05node\n",
    b"\x02\x04\0\0\0\0\0\0",
    b"\0\0\0\x05\0test",
    b"\0\0\0\x15\x04",
    b"\0\0\0\x01\x29",
    b"\0\0\0\x08\x02\x03\0\x04name",
    b"\x16\x03\0\0\0",
    b"{",
    b"\n}\n",
    b"99999999999999999999G",
    b"namespace test {\n",
    b"\n",
    b"\x1b",
];

fn main() -> Result<(), Box<dyn Error>> {
    let messages = MESSAGES.lines().filter_map(|line| line.split_once(" > ")).map(|(_, hex)| bytes_of(hex));
    let requests = REQUESTS.lines().map(|line| {
        let body = line.replace("\\n", "\n").into_bytes();
        [&[2, 1], &(body.len() as u64).to_be_bytes()[2..], &body].concat()
    });
    let frames: Vec<_> = messages.chain(requests).collect();
    // Configurations begin as no frame does.
    let files = frames.into_iter().chain(CONFIGURATIONS.map(<[u8]>::to_vec)).collect();
    fuzz("messages or configurations", &Corpus::of(files, &["indexes-memory-budget 1G\n"], &DICTIONARY), |bytes| {
        assert_wire_property(bytes) | assert_configuration_property(bytes)
    })
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
    digits.map(|digits| u8::from_str_radix(digits, 16).unwrap_or_default()).collect()
}
