//! Writes a run of a day for each of several fictitious drives, to measure how fast an export reads runs:
//!
//! ```text
//! cargo run --release -p flashproof-export --example days -- DIR 5
//! flashproof report DIR --parquet OUTDIR
//! ```

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::Path;
use support::{Drive, SHORT, SOUND, Shape};

fn mixed(second: u64, op: u64) -> u64 {
    let mixed = (second << 20 | op)
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Lag of an operation: 2 to 31 us.
fn lag_us(second: u64, op: u64) -> u64 {
    let mixed = mixed(op, second);
    2 + (mixed >> 32) % 4 * (mixed >> 40) % 30
}

/// Service time of an operation: around 100 us with a long tail, and different for each second and operation.
fn service_us(second: u64, op: u64) -> u64 {
    let mixed = mixed(second, op);
    let factor = |part: u32| 60 + (mixed >> (part * 8) & 0xff) * 100 / 256;
    let tail = if mixed >> 56 == 0 {
        mixed >> 24 & 0xfff
    } else {
        0
    };
    90 * factor(0) * factor(1) * factor(2) / 1_000_000 + tail
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(dir), Some(drives)) = (
        arguments.next(),
        arguments.next().and_then(|drives| drives.parse().ok()),
    ) else {
        eprintln!("usage: days DIR DRIVES [SECONDS]");
        std::process::exit(2);
    };
    let seconds = arguments
        .next()
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(86_400);
    for seed in 0..drives {
        let drive = Drive {
            service_us,
            celsius: |second| 45 + second / 600 % 20,
            ..SOUND
        };
        let ops = &[
            ("reads", 2_000),
            ("large-block-reads", 24),
            ("large-block-writes", 24),
        ];
        let day = Shape {
            drives: &[drive],
            intervals: seconds,
            interval_sec: 1,
            slice_sec: 3_600,
            ops,
            lag_us,
            seed,
            ..SHORT
        };
        day.write(&Path::new(&dir).join(format!("drive-{seed}")));
    }
}
