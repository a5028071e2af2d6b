//! Isolation by handles, and the firmware options that weaken this isolation, as visible in the write amplification.

use ftl::{Append, Firmware, Ftl, Isolation, Spec};
use sys::random::Random;

fn drive(firmware: Firmware) -> Ftl {
    let spec = Spec {
        handles: 3,
        append: Append::PerHandle,
        isolation: Isolation::Persistently,
        over_provisioning: 0.10,
        firmware,
        ..Spec::of(256 << 20)
    };
    let mut ftl = Ftl::new(&spec, 1).unwrap();
    let third = ftl.units() / 3;
    for handle in 0..3 {
        for unit in handle * third..(handle + 1) * third {
            ftl.write(unit, 1, handle as u16);
        }
    }
    ftl
}

/// Write amplification in the second half of `writes` writes; `next` gives unit and handle of each write.
fn waf(mut ftl: Ftl, writes: u64, mut next: impl FnMut(&mut Random, u64) -> (u64, u16)) -> f64 {
    let mut random = Random::new(3);
    let third = ftl.units() / 3;
    let mut before = ftl.counters();
    for write in 0..writes {
        if write == writes / 2 {
            before = ftl.counters();
        }
        let (unit, handle) = next(&mut random, third);
        ftl.write(unit, 1, handle);
    }
    assert_eq!(ftl.check(), Ok(()));
    ftl.counters().since(before).unwrap().waf().unwrap()
}

/// Random writes with one hot handle; sequential writes with two cold handles, each with a twentieth of the writes.
fn hot_and_cold(firmware: Firmware, shared: bool) -> f64 {
    let mut next = [0; 3];
    waf(drive(firmware), 1 << 20, |random, third| {
        let handle = random.below(20).saturating_sub(17);
        let cold = &mut next[handle as usize];
        *cold += 1;
        let unit = if handle == 0 { random.below(third) } else { *cold % third };
        (handle * third + unit, if shared { 0 } else { handle as u16 })
    })
}

/// As [`hot_and_cold`], with random writes for the cold handles, too, so that garbage collection moves data of all
/// handles.
fn hot_and_cold_at_random(firmware: Firmware) -> f64 {
    waf(drive(firmware), 1 << 20, |random, third| {
        let handle = random.below(20).saturating_sub(17);
        (handle * third + random.below(third), handle as u16)
    })
}

/// Random writes with one handle beside a long sequential stream, half of the writes each.
fn random_beside_sequential(firmware: Firmware) -> f64 {
    let mut next = 0;
    waf(drive(firmware), 1 << 20, |random, third| {
        if random.below(2) == 0 {
            return (random.below(third), 0);
        }
        next += 1;
        (third + next % third, 1)
    })
}

/// A long sequential stream alone.
fn sequential(firmware: Firmware) -> f64 {
    let mut next = 0;
    waf(drive(firmware), 1 << 18, |_, third| {
        next += 1;
        (next % (2 * third), 0)
    })
}

const SOUND: Firmware =
    Firmware { mixes_handles: false, collects_all_handles: false, collects_sequential_early: false };

#[test]
fn handles_keep_hot_and_cold_apart() {
    let (apart, together) = (hot_and_cold(SOUND, false), hot_and_cold(SOUND, true));
    assert!(together > apart * 1.2, "{together}, with handles {apart}");
}

#[test]
fn garbage_collection_that_mixes_handles_shows() {
    let sound = hot_and_cold_at_random(SOUND);
    let mixed = hot_and_cold_at_random(Firmware { mixes_handles: true, ..SOUND });
    assert!(mixed > sound * 1.03, "{mixed}, sound {sound}");
}

#[test]
fn garbage_collection_of_all_handles_at_once_shows() {
    let (sound, all) =
        (hot_and_cold(SOUND, false), hot_and_cold(Firmware { collects_all_handles: true, ..SOUND }, false));
    assert!(all > sound * 1.5, "{all}, sound {sound}");
}

#[test]
fn collecting_what_a_sequential_stream_is_overwriting_shows() {
    let early = Firmware { collects_sequential_early: true, ..SOUND };
    assert_eq!(sequential(SOUND), 1.0);
    assert!(sequential(early) > 1.2);
    assert!(random_beside_sequential(early) > random_beside_sequential(SOUND) * 1.05);
    // Random writes alone are not affected.
    assert!((hot_and_cold(early, true) / hot_and_cold(SOUND, true) - 1.0).abs() < 0.05);
}
