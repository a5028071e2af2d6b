//! Mutates server logs, iostat's output and asloglatency's tables for N seconds on stable Rust: what
//! `fuzz/fuzz_targets/server_log.rs` does with coverage guidance on nightly.
//!
//! ```text
//! cargo run --release -p sizing --example fuzz_server -- 60 [SEED]
//! ```

#[path = "../../load/tests/common/mutate.rs"]
mod mutate;
#[path = "../tests/common/server_property.rs"]
mod server_property;

use mutate::{Corpus, fuzz};
use server_property::assert_server_property;
use std::error::Error;
use std::io::Read;

const COMPRESSED: [&[u8]; 4] = [
    include_bytes!("../tests/data/ce-4.9.0.37/aerospike.log.zst"),
    include_bytes!("../tests/data/ce-8.0.0.15/aerospike.log.zst"),
    include_bytes!("../tests/data/ce-8.0.0.15/iostat-x.txt.zst"),
    include_bytes!("../tests/data/ce-8.0.0.15/iostat-x.json.zst"),
];
const PLAIN: [&[u8]; 4] = [
    include_bytes!("../tests/data/formats-old.log"),
    include_bytes!("../tests/data/iostat-paper.txt"),
    include_bytes!("../../../examples/paper/cluster.txt"),
    include_bytes!("../tests/data/ce-8.0.0.15/asloglatency/ns-read.txt"),
];
/// Of longer examples so much is taken.
const EXAMPLE_BYTES: usize = 30_000;

/// Lines that these do not have.
const OWN_LINES: [&str; 9] = [
    "Nov 20 2026 23:12:07 GMT: INFO (as): (as.c:301) <><><><><>  Aerospike Enterprise Edition build 5.7.0.1  <><><><><>\n",
    "July 12 2022 14:39:13.5 GMT+0530: INFO (info): (hist.c::137) histogram dump: {test}-read (3 total)\n",
    "Nov 20 2026 23:12:08 GMT: INFO (info): (hist.c:1)  (00: 0000000001)  (64: 0000000002) \n",
    "Nov 20 2026 23:12:08 GMT: INFO (info): (hist.c:1) histogram dump: {test}-read (18446744073709551615 total) usec\n",
    "Nov 20 2026 23:12:08 GMT: INFO (drv_mem): (drv_mem.c:1) {m} /dev/sdc: used-bytes 5 free-wblocks 4 write (3,0.1) \
     defrag-q 2 defrag-read (1,0.0) defrag-write (0,0.0) shadow-write-q 6\n",
    "Linux 5.4 (host) \t20/11/2026 \t_x86_64_\t(2 CPU)\n",
    "20.11.2026 11:02:35 PM\n",
    "Device r/s w/s rMB/s wMB/s %util\nsda 100,50 50.00 2.00k 1.00M 3.00\n",
    "21:41:42 501 15.51 8.10 8852.5\n",
];

/// Pieces that parsers stumble over.
const DICTIONARY: [&[u8]; 24] = [
    b"0",
    b"-1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"1e308",
    b"NaN",
    b"inf",
    b" ",
    b"\t",
    b"\r\n",
    b"\n",
    b": ",
    b" (",
    b")",
    b" total)",
    b"{",
    b"}-",
    b"[",
    b"\"",
    b" GMT",
    b" GMT-9999",
    b"\0",
    b"\xff",
    b"\xe6\x99\x82",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut examples: Vec<Vec<u8>> = PLAIN.iter().map(|bytes| bytes.to_vec()).collect();
    for bytes in COMPRESSED {
        let mut text = Vec::new();
        results::act_log::Input::new(bytes)?.read_to_end(&mut text)?;
        // The begin of a server's log is its configuration, and behind it are its ticks.
        let begin = text.len().saturating_sub(EXAMPLE_BYTES) / 2;
        examples.push(text[..text.len().min(EXAMPLE_BYTES)].to_vec());
        examples.push(text[begin..text.len().min(begin + EXAMPLE_BYTES)].to_vec());
    }
    let corpus = Corpus::of(examples, &OWN_LINES, &DICTIONARY);
    fuzz("logs or outputs of tools", &corpus, assert_server_property)
}
