//! Mutates what servers answer a client for N seconds on stable Rust: what `fuzz/fuzz_targets/replies.rs` does with coverage
//! guidance on nightly.
//!
//! ```text
//! cargo run --release -p store --example fuzz_replies -- 60 [SEED]
//! ```

#[path = "../../load/tests/common/mutate.rs"]
mod mutate;
#[path = "../tests/common/replies_property.rs"]
mod replies_property;

use mutate::{Corpus, fuzz};
use std::error::Error;

/// Pieces that parsers stumble over.
const DICTIONARY: [&[u8]; 8] =
    [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x02\x03\0\0\0\0", b"]],[", b"[[", b",[", b":", b"test:0,1,"];

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = Corpus::of(
        replies_property::examples(),
        &["replicas\ttest:0,1,////\n", "peers-clear-std\t7,3000,[[BB9,,[db2:3200]]]\n"],
        &DICTIONARY,
    );
    fuzz("replies", &corpus, replies_property::assert_replies_property)
}
