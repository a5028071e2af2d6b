//! Writes the log of a day on four devices to standard output, 117 MB, without running a test. `scripts/bench` measures
//! how fast such a log is read.
//!
//! ```text
//! cargo run --release -p flashproof-results --example day_log > day.log
//! ```
//!
//! The counts depend only on the second and the bucket, so the file is always the same.

use results::act_log::{LogHeader, write_chunk, write_header};
use results::buckets::{ActBuckets, ActScale};
use std::io::{self, BufWriter, Write};

const DAY_SEC: u64 = 86_400;
const DEVICES: [&str; 4] = [
    "/dev/nvme0n1",
    "/dev/nvme1n1",
    "/dev/nvme2n1",
    "/dev/nvme3n1",
];
/// Number of buckets in use. Each bucket has a third of the operations of the bucket before.
const BUCKETS: usize = 9;

fn main() -> io::Result<()> {
    let mut names = vec!["reads".to_owned()];
    names.extend(DEVICES.iter().map(|device| format!("{device}-reads")));
    names.extend(["large-block-reads", "large-block-writes"].map(str::to_owned));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let header = LogHeader {
        configuration: vec![
            pair("device-names", &DEVICES.join(" ")),
            pair("report-interval-sec", "1"),
            pair("microsecond-histograms", "no"),
        ],
        derived_rates: vec![pair("internal-read-reqs-per-sec", "240000")],
        histogram_names: names.clone(),
        ..LogHeader::default()
    };
    let mut out = BufWriter::new(io::stdout().lock());
    write_header(&mut out, &header)?;
    let mut histograms = vec![ActBuckets::new(ActScale::Milliseconds); names.len()];
    let seconds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(DAY_SEC);
    for second in 1..=seconds {
        for (index, histogram) in histograms.iter_mut().enumerate() {
            let share = if index == 0 { 1 } else { DEVICES.len() as u64 };
            for bucket in 0..BUCKETS {
                // 240,000 reads per second, with a few in the last buckets from the first second on.
                let count = 160_000 / share / 3_u64.pow(bucket as u32);
                histogram.add(bucket, count + (second * 7 + bucket as u64) % 5);
            }
        }
        let named: Vec<_> = names.iter().map(String::as_str).zip(&histograms).collect();
        write_chunk(&mut out, second, &named)?;
    }
    out.flush()
}
