//! How fast one core makes salt: `salt [COMPRESS_PCT]` prints GB/s for blocks of 128 KiB.

use device::salt::Salt;
use std::time::{Duration, Instant};

fn main() {
    let compress_pct = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let mut salt = Salt::new(1, compress_pct, 42);
    let mut block = vec![0_u8; 128 << 10];
    let (begin, mut bytes) = (Instant::now(), 0_usize);
    while begin.elapsed() < Duration::from_secs(2) {
        (0..64).for_each(|_| salt.fill(std::hint::black_box(&mut block)));
        bytes += 64 * block.len();
    }
    println!("{:.2}", bytes as f64 / begin.elapsed().as_secs_f64() / 1e9);
}
