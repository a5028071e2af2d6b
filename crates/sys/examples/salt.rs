//! `salt [COMPRESS_PCT]` prints the rate at which one core generates random fill (salt) in blocks of 128 KiB, GB/s.
//! `fresh`: new data for every write. `placed`: data that depend on the offset only.

use std::time::{Duration, Instant};
use sys::salt::{PlacedSalt, Salt};

const BLOCK_BYTES: usize = 128 << 10;

fn main() {
    let compress_pct = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(100);
    let mut fresh = Salt::new(1, compress_pct, 42);
    println!("fresh  {:.2}", gb_per_s(|block, _| fresh.fill(block)));
    let placed = PlacedSalt::new(1, 1, 42);
    println!(
        "placed {:.2}",
        gb_per_s(|block, offset| placed.fill(block, offset))
    );
}

fn gb_per_s(mut fill: impl FnMut(&mut [u8], u64)) -> f64 {
    let mut block = vec![0_u8; BLOCK_BYTES];
    let begin = Instant::now();
    let mut bytes = 0;
    while begin.elapsed() < Duration::from_secs(2) {
        for _ in 0..64 {
            fill(std::hint::black_box(&mut block), bytes);
            bytes += BLOCK_BYTES as u64;
        }
    }
    bytes as f64 / begin.elapsed().as_secs_f64() / 1e9
}
