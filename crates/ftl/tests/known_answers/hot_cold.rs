//! 80 % of the writes go to 20 % of the data. Hot and cold data are mixed, or in separate pools.

use crate::anchors::{greedy_apart, hot_cold_fifo, separated};
use crate::{filled, measured, waf};
use ftl::{Append, Ftl, Isolation, Spec, Victim};
use sys::random::Random;

const OVER_PROVISIONING: [f64; 4] = [0.07, 0.125, 0.15, 0.28];

/// A drive with `superblocks` superblocks of data, of 64 units each. Garbage collection and host share an append point.
fn spec(superblocks: u64, over_provisioning: f64) -> Spec {
    let superblock_bytes = 64 * 4096;
    let victim = Victim::Fifo;
    let append = Append::Shared;
    Spec {
        superblock_bytes,
        over_provisioning,
        victim,
        append,
        ..Spec::with_logical_bytes(superblocks * superblock_bytes)
    }
}

/// The next unit to write: with 80 % probability in the first 20 % of the drive.
fn hot_cold(random: &mut Random, units: u64) -> u64 {
    let hot_units = units / 5;
    if random.below(10) < 8 {
        random.below(hot_units)
    } else {
        hot_units + random.below(units - hot_units)
    }
}

fn assert_near(what: &str, over_provisioning: f64, measured: f64, expected: f64) {
    let error = measured / expected - 1.0;
    println!(
        "{what}, {over_provisioning}: {measured:.4}, {expected:.4} wanted, {:+.3} %",
        error * 100.0
    );
    assert!(
        error.abs() < 0.005,
        "{what}, {over_provisioning}: {measured}, {expected} wanted"
    );
}

#[test]
fn mixed_hot_and_cold_data_is_amplified_as_the_closed_form_says() {
    for over_provisioning in OVER_PROVISIONING {
        let measured = measured(&spec(8000, over_provisioning), 6, 3, hot_cold);
        assert_near(
            "mixed FIFO",
            over_provisioning,
            measured,
            hot_cold_fifo(1.0 + over_provisioning, 0.2, 0.8),
        );
    }
}

#[test]
fn separated_data_with_the_best_share_of_the_spare_flash_reaches_the_optimum() {
    for over_provisioning in OVER_PROVISIONING {
        let (share, expected) = separated(1.0 + over_provisioning, 0.2, 0.8);
        let pool = |superblocks: u64, spare: f64| {
            let spec = spec(
                superblocks,
                spare * over_provisioning * 10_000.0 / superblocks as f64,
            );
            measured(&spec, 3, 2, Random::below)
        };
        let measured = 0.8 * pool(2000, share) + 0.2 * pool(8000, 1.0 - share);
        assert_near("pools", over_provisioning, measured, expected);
    }
}

#[test]
fn greedy_collection_with_a_handle_for_hot_data_matches_the_closed_form_of_two_pools() {
    for over_provisioning in OVER_PROVISIONING {
        // Compensates for flash that the closed form ignores: the reserve, and open superblocks, half empty on average.
        let beside = (1.0 + 4.0 / 2.0) / 8000.0;
        let spec = Spec {
            handles: 2,
            append: Append::PerHandle,
            isolation: Isolation::Persistently,
            victim: Victim::Greedy,
            ..spec(8000, over_provisioning + beside)
        };
        let units = spec.logical_bytes / u64::from(spec.unit_bytes);
        let handle = |unit: u64| u16::from(unit >= units / 5);
        let mut ftl = filled(&spec, handle);
        let mut random = Random::new(2);
        let mut write = |ftl: &mut Ftl, passes: u64| {
            for _ in 0..passes * units {
                let unit = hot_cold(&mut random, units);
                ftl.write(unit, 1, handle(unit));
            }
        };
        write(&mut ftl, 6);
        let measured = waf(&mut ftl, |ftl| write(ftl, 3));
        let expected = greedy_apart(1.0 + over_provisioning, 64, &[(0.2, 0.8), (0.8, 0.2)]);
        assert_near("handles", over_provisioning, measured, expected);
    }
}
