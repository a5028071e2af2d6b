//! Mutates configurations for N seconds on stable Rust: what `fuzz/fuzz_targets/act_config.rs` does
//! with coverage guidance on nightly.
//!
//! ```text
//! cargo run --release -p load --example fuzz_config -- 60 [SEED]
//! ```
//!
//! Ends with status 0 and the number of inputs, or panics with the input that broke a property. The
//! seed is printed first; the same seed makes the same inputs.

#[path = "../tests/common/config_property.rs"]
mod config_property;

use config_property::assert_parser_property;
use device::random::Random;
use load::act::{parse_index, parse_storage};
use std::error::Error;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Inputs between two looks at the clock.
const BATCH: u64 = 256;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().map_or(Ok(60), |text| text.parse())?;
    let clock = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    let seed = args.next().map_or_else(|| Ok(clock()), |text| text.parse())?;
    println!("fuzzing for {seconds} s with seed {seed}");

    let corpus = Corpus::load()?;
    let mut random = Random::new(seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut inputs, mut valid) = (0_u64, 0_u64);
    while Instant::now() < end {
        for _ in 0..BATCH {
            let input = corpus.input(&mut random);
            if catch_unwind(AssertUnwindSafe(|| assert_parser_property(&input))).is_err() {
                let input = String::from_utf8_lossy(&input);
                return Err(format!("input {inputs} of seed {seed} broke a property:\n{input}").into());
            }
            valid += u64::from(parse_storage("input", &input).is_ok() || parse_index("input", &input).is_ok());
        }
        inputs += BATCH;
    }
    println!("{inputs} inputs, {valid} of them valid configurations: no panic, and each valid one reads back");
    Ok(())
}

/// What inputs are made of.
struct Corpus {
    files: Vec<Vec<u8>>,
    lines: Vec<Vec<u8>>,
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

impl Corpus {
    /// The example configurations, and one line for each option.
    fn load() -> Result<Self, Box<dyn Error>> {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let mut paths = Vec::new();
        for directory in ["act-storage", "act-index", "sizing-paper"] {
            for entry in fs::read_dir(data.join(directory))? {
                paths.push(entry?.path());
            }
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
        // The same seed has to find the same files.
        paths.sort();
        let files = paths.iter().map(fs::read).collect::<std::io::Result<Vec<_>>>()?;
        let from_files = files.iter().flat_map(|file| file.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec));
        let own = OWN_LINES.iter().map(|line| line.as_bytes().to_vec());
        Ok(Self { lines: from_files.chain(own).collect(), files })
    }

    /// An example with lines added and up to eight mutations, often none.
    fn input(&self, random: &mut Random) -> Vec<u8> {
        let mut input = pick(&self.files, random).clone();
        for _ in 0..random.below(4) {
            let line = pick(&self.lines, random);
            let at = line_start(&input, random);
            input.splice(at..at, line.iter().copied());
        }
        for _ in 0..random.below(9).saturating_sub(3) {
            self.mutate(&mut input, random);
        }
        input
    }

    fn mutate(&self, input: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(input.len() as u64 + 1) as usize;
        let end = (at + random.below(8) as usize).min(input.len());
        match random.below(6) {
            0 => drop(input.drain(at..end)),
            1 => drop(input.splice(at..end, pick(&DICTIONARY, random).iter().copied())),
            2 => drop(input.splice(at..at, pick(&DICTIONARY, random).iter().copied())),
            3 => input.insert(at, random.next_u64() as u8),
            4 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            _ => {
                let line = line_start(input, random);
                input.truncate(line);
            }
        }
    }
}

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

fn pick<'a, T>(items: &'a [T], random: &mut Random) -> &'a T {
    &items[random.below(items.len() as u64) as usize]
}

/// Where a random line begins.
fn line_start(input: &[u8], random: &mut Random) -> usize {
    let at = random.below(input.len() as u64 + 1) as usize;
    input[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)
}
