//! Isolation by handles, as visible in the write amplification.

use ftl::{Append, Ftl, Isolation, Spec};
use sys::random::Random;

fn drive() -> Ftl {
    let spec = Spec {
        handles: 3,
        append: Append::PerHandle,
        isolation: Isolation::Persistently,
        over_provisioning: 0.10,
        ..Spec::with_logical_bytes(256 << 20)
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

/// Write amplification of random writes (18 of 20, first handle) mixed with sequential writes of two other handles (1
/// of 20 each). `shared`: all writes use the first handle.
fn hot_and_cold(shared: bool) -> f64 {
    let mut next = [0; 3];
    waf(drive(), 1 << 20, |random, third| {
        let handle = random.below(20).saturating_sub(17);
        let cold = &mut next[handle as usize];
        *cold += 1;
        let unit = if handle == 0 {
            random.below(third)
        } else {
            *cold % third
        };
        (
            handle * third + unit,
            if shared { 0 } else { handle as u16 },
        )
    })
}

fn sequential() -> f64 {
    let mut next = 0;
    waf(drive(), 1 << 18, |_, third| {
        next += 1;
        (next % (2 * third), 0)
    })
}

#[test]
fn separate_handles_for_hot_and_cold_data_reduce_write_amplification() {
    let apart = hot_and_cold(false);
    let together = hot_and_cold(true);
    assert!(together > apart * 1.2, "{together}, with handles {apart}");
}

#[test]
fn sequential_writes_with_one_handle_have_a_write_amplification_of_1() {
    assert_eq!(sequential(), 1.0);
}
