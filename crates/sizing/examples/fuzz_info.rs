//! Mutates replies of the info protocol for N seconds on stable Rust: what `fuzz/fuzz_targets/info_replies.rs`
//! does with coverage guidance on nightly.
//!
//! ```text
//! cargo run --release -p sizing --example fuzz_info -- 60 [SEED]
//! ```

#[path = "../tests/common/info_property.rs"]
mod info_property;
#[path = "../../load/tests/common/mutate.rs"]
mod mutate;

use info_property::assert_info_property;
use mutate::{Corpus, fuzz};
use results::act_log::Input;
use std::error::Error;
use std::io::Read;

/// Replies of real servers.
const REPLIES: [&[u8]; 2] = [
    include_bytes!("../tests/data/info/ce-4.9.0.37.info.gz"),
    include_bytes!("../tests/data/info/ce-8.0.0.15.info.gz"),
];

/// Lines that these do not have.
const OWN_LINES: [&str; 7] = [
    "# 20261120T230225.125Z\n",
    "# host [::1]:3000\n",
    "# node BB9\n",
    "# build 8.1.2.0\n",
    "namespace/b\tERROR:4:no such namespace\n",
    "get-config:context=namespace;namespace=b\tstorage-engine.device=/dev/a;storage-engine.device=/dev/b\n",
    "logs\t0:/var/log/aerospike.log;1:stderr\n",
];

/// Pieces that parsers stumble over.
const DICTIONARY: [&[u8]; 19] = [
    b"0",
    b"-1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"storage-engine.device[0].writes=1;",
    b"device[127]",
    b"device[4294967295].shadow=",
    b"[",
    b"]",
    b"[[",
    b",",
    b":",
    b";",
    b"=",
    b"\t",
    b"\r\n",
    b"\n# ",
    b"\0",
    b"\xff",
];

fn main() -> Result<(), Box<dyn Error>> {
    let files = REPLIES.map(|packed| {
        let mut bytes = Vec::new();
        Input::new(packed)?.read_to_end(&mut bytes)?;
        // Two samples of each are enough, and leave time for more inputs.
        let times = bytes.windows(3).enumerate().filter(|(_, bytes)| bytes == b"\n# ").map(|(at, _)| at + 1);
        let end = times.take(3).last().unwrap_or(bytes.len());
        bytes.truncate(end);
        Ok::<_, std::io::Error>(bytes)
    });
    let files = files.into_iter().collect::<Result<Vec<_>, _>>()?;
    fuzz("replies with a sample", &Corpus::of(files, &OWN_LINES, &DICTIONARY), assert_info_property)
}
