//! Uniform random writes, compared with the closed forms.

use crate::anchors::{fifo, greedy};
use crate::measured;
use ftl::{Append, Spec, Victim};
use sys::random::Random;

/// Relative error to the closed form after `passes` passes, with `superblocks` superblocks of `pages` units of data.
fn error(victim: Victim, over_provisioning: f64, pages: u64, superblocks: u64, passes: u64) -> f64 {
    let superblock_bytes = pages * 4096;
    let append = Append::Shared;
    let logical_bytes = superblocks * superblock_bytes;
    let spec = Spec {
        victim,
        over_provisioning,
        superblock_bytes,
        append,
        ..Spec::with_logical_bytes(logical_bytes)
    };
    // The closed forms assume no reserve, so the drive gets its reserve in addition to the flash that they assume.
    let a = spec.superblocks() as f64 / superblocks as f64;
    let reserve = f64::from(spec.reserve_superblocks) / superblocks as f64;
    let expected = match victim {
        Victim::Fifo => fifo(a),
        _ => greedy(a, pages as usize),
    };
    let measured = measured(
        &Spec {
            over_provisioning: a - 1.0 + reserve,
            ..spec
        },
        passes,
        2,
        Random::below,
    );
    println!(
        "{victim:?} {over_provisioning} {pages}: {measured:.4}, {expected:.4} wanted, {:+.3} %",
        (measured / expected - 1.0) * 100.0
    );
    (measured / expected - 1.0).abs()
}

/// The largest error of FIFO and greedy, with superblocks of 64, 128 and 256 units.
fn largest_error(units: u64, passes: u64) -> f64 {
    let mut errors = Vec::new();
    for pages in [64, 128, 256] {
        for over_provisioning in [0.07, 0.125, 0.15, 0.28] {
            for victim in [Victim::Greedy, Victim::Fifo] {
                errors.push(error(
                    victim,
                    over_provisioning,
                    pages,
                    units / pages,
                    passes,
                ));
            }
        }
    }
    errors.into_iter().fold(0.0, f64::max)
}

#[test]
fn uniform_writes_are_amplified_as_the_closed_forms_say() {
    assert!(largest_error(1 << 19, 3) < 0.002);
}

/// Larger drives are closer to the closed forms.
#[test]
#[ignore = "takes two minutes: scripts/soak runs it"]
fn uniform_writes_with_ten_times_the_units_are_within_0_1_percent() {
    assert!(largest_error(5 << 20, 4) < 0.001);
}
