//! Mutates job files for N seconds on stable Rust: what `fuzz/fuzz_targets/fio_jobs.rs` does with coverage
//! guidance on nightly.
//!
//! ```text
//! cargo run --release -p load --example fuzz_fio -- 60 [SEED]
//! ```

#[path = "../tests/common/fio_property.rs"]
mod fio_property;
#[path = "../tests/common/mutate.rs"]
mod mutate;

use fio_property::assert_fio_property;
use mutate::{Corpus, fuzz};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let files = vec![include_bytes!("../tests/data/fio/mix.fio").to_vec()];
    fuzz("jobs that could run", &Corpus::of(files, &LINES, &PIECES), assert_fio_property)
}

/// Pieces that parsers stumble over.
const PIECES: [&[u8]; 27] = [
    b"0",
    b"-1",
    b"1",
    b"18446744073709551616",
    b"1e9",
    b"0x10",
    b"k",
    b"p",
    b"%",
    b"(",
    b")",
    b"/",
    b":",
    b",",
    b"-",
    b"\n",
    b"=",
    b"[",
    b"]",
    b";",
    b"${A}",
    b"$ncpus",
    b"\\:",
    b"\xff",
    b"\0",
    b"\xe2\x80\x93",
    b"--name=",
];

/// Lines that the example does not have.
const LINES: [&str; 30] = [
    "include other.fio\n",
    "bs=512-64k,1\n",
    "bsrange=1k-4k,,512-1m\n",
    "blockalign=512\n",
    "rw=randrw\n",
    "rw=randtrim\n",
    "rw=rw\n",
    "rwmixread=100\n",
    "rate_iops=1,2,3\n",
    "rate=1,1p\n",
    "numjobs=16\n",
    "iodepth=32768\n",
    "size=1\n",
    "size=(3*5k)\n",
    "io_size=300%\n",
    "io_size=1p\n",
    "loops=18446744073709551615\n",
    "number_ios=3\n",
    "offset=99%\n",
    "offset_increment=18446744073709551615\n",
    "random_distribution=zoned:50/5:30/15:20/\n",
    "random_distribution=zoned_abs:95/1m:/\n",
    "random_distribution=pareto:0.9\n",
    "thinktime=18446744073\n",
    "filename=a:b:c\n",
    "nrfiles=20\n",
    "kb_base=1000\n",
    "direct=0\n",
    "verify=md5\n",
    "[global]\n",
];
