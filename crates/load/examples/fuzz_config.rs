//! Mutates configurations for N seconds on stable Rust: what `fuzz/fuzz_targets/act_config.rs` does
//! with coverage guidance on nightly.
//!
//! ```text
//! cargo run --release -p load --example fuzz_config -- 60 [SEED]
//! ```
//!
//! Ends with status 0 and the number of inputs, or fails with the input that broke a property. The
//! seed is printed first; the same seed makes the same inputs.

#[path = "../tests/common/config_property.rs"]
mod config_property;
#[path = "../tests/common/mutate.rs"]
mod mutate;

use config_property::assert_parser_property;
use load::workload::act::legacy::{self, Reading};
use mutate::{Corpus, fuzz};
use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = Corpus::of(examples()?, &[&OWN_LINES[..], &OLD_LINES].concat(), &DICTIONARY);
    fuzz("valid configurations of some ACT", &corpus, |input| {
        assert_parser_property(input);
        legacy::read("input", input, &Reading::default()).is_ok()
    })
}

/// The example configurations.
fn examples() -> std::io::Result<Vec<Vec<u8>>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut paths = Vec::new();
    for directory in ["act-storage", "act-index", "act-old", "sizing-paper"] {
        for entry in fs::read_dir(data.join(directory))? {
            paths.push(entry?.path());
        }
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
    // The same seed has to find the same files.
    paths.sort();
    paths.iter().map(fs::read).collect()
}

/// Pieces that parsers stumble over.
const DICTIONARY: [&[u8]; 28] = [
    b"0",
    b"-1",
    b"+",
    b"1",
    b"4294967295",
    b"4294967296",
    b"18446744073709551616",
    b"1e9",
    b"0x10",
    b" ",
    b"\t",
    b"\r\n",
    b"\n",
    b":",
    b"#",
    b",",
    b";",
    b"yes",
    b"no",
    b"y",
    b"auto",
    b"sim:",
    b"sim:seed=1+name=",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\0",
    b"e\xcc\x81",
    b"\xe2\x80\xa8",
];

/// Lines of options that the examples do not have.
const OWN_LINES: [&str; 26] = [
    "commit-min-bytes: 4096\n",
    "num-queues: 8\n",
    "threads-per-queue: 8\n",
    "scheduler-mode: noop\n",
    "arrival: poisson\n",
    "arrival: closed\n",
    "pacing: spin\n",
    "engine: uring\n",
    "seed: 18446744073709551615\n",
    "large-block-concurrency: 4\n",
    "shards: 2\n",
    "file-size-mbytes: 64\n",
    "tomb-raider: yes\n",
    "tomb-raider-sleep-usec: 1000\n",
    "report-interval-sec: 3600\n",
    "storage-read-histogram: 100.00,100.00, 84.00,0.00\n",
    "storage-write-histogram: 100,99.9999,0\n",
    "record-bytes: 0\n",
    "total-lbw-per-sec: 1527\n",
    "direct-frees: 300\n",
    "lbr-req-offset: 090\n",
    "lbw-req-offset: 093\n",
    "read-size-offset: 110\n",
    "write-size-offset: 90\n",
    "size-within-bucket: log-uniform\n",
    "device-names: sim:capacity=1GiB+channels=4 sim:stall-ms=9+stall-at-s=1/2\n",
];

/// Lines of old ACTs that their examples do not have.
const OLD_LINES: [&str; 12] = [
    "queue-per-device: yes\n",
    "large-block-op-kbytes: 4294967295\n",
    "large-block-ops-per-sec: 4294967295\n",
    "read-req-num-512-blocks: 1\n",
    "num-write-buffers: 0\n",
    "num-queues: 4294967295\n",
    "num-cache-threads: 8\n",
    "record-bytes: 4294967295\n",
    "record-bytes-range-max: 4294967290\n",
    "max-lag-sec: 0\n",
    "commit-to-device: yes\n",
    "write-reqs-per-sec: 1000\n",
];
