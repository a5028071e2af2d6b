//! Write amplification with known answers.

#![allow(clippy::disallowed_methods, reason = "tests make files of their own")]

mod anchors;
mod fadu;
mod hot_cold;
mod policies;
mod uniform;

use ftl::{Append, Ftl, Isolation, Spec, Victim};
use sys::random::Random;

/// A drive with each unit written once, with the handle that `handle` returns for the unit.
fn filled(spec: &Spec, handle: impl Fn(u64) -> u16) -> Ftl {
    let mut ftl = Ftl::new(spec, 1).unwrap();
    (0..ftl.units()).for_each(|unit| ftl.write(unit, 1, handle(unit)));
    ftl
}

fn waf(ftl: &mut Ftl, write: impl FnOnce(&mut Ftl)) -> f64 {
    let before = ftl.counters();
    write(ftl);
    ftl.counters().since(before).unwrap().waf().unwrap()
}

/// Write amplification of writes of single units, chosen by `next`. The drive is filled, then written with `warm` times
/// its size, then measured over `passes` times its size.
fn measured(
    spec: &Spec,
    warm: u64,
    passes: u64,
    mut next: impl FnMut(&mut Random, u64) -> u64,
) -> f64 {
    let mut ftl = filled(spec, |_| 0);
    let mut random = Random::new(2);
    let units = ftl.units();
    let mut write = |ftl: &mut Ftl, passes: u64| {
        (0..passes * units).for_each(|_| ftl.write(next(&mut random, units), 1, 0))
    };
    write(&mut ftl, warm);
    let waf = waf(&mut ftl, |ftl| write(ftl, passes));
    assert_eq!(ftl.check(), Ok(()));
    waf
}

const POLICIES: [Victim; 4] = [
    Victim::Greedy,
    Victim::Fifo,
    Victim::CostBenefit,
    Victim::Choices(10),
];

#[test]
fn sequential_writes_are_not_amplified() {
    for victim in POLICIES {
        let mut ftl = Ftl::new(
            &Spec {
                victim,
                ..Spec::with_logical_bytes(64 << 20)
            },
            1,
        )
        .unwrap();
        for _ in 0..10 {
            for unit in (0..ftl.units()).step_by(8) {
                ftl.write(unit, 8, 0);
            }
        }
        assert_eq!(ftl.counters().waf(), Some(1.0), "{victim:?}");
        assert_eq!(ftl.check(), Ok(()));
    }
}

#[test]
fn handles_whose_data_has_equal_lifetimes_have_a_write_amplification_of_1() {
    let spec = Spec {
        handles: 4,
        append: Append::PerHandle,
        isolation: Isolation::Persistently,
        ..Spec::with_logical_bytes(64 << 20)
    };
    let mut ftl = Ftl::new(&spec, 1).unwrap();
    let chunk = 16;
    let quarter = ftl.units() / 4;
    // Four sequential streams, each on its own quarter of the drive, in random turns.
    let mut random = Random::new(7);
    let mut next = [0; 4];
    for _ in 0..10 * ftl.units() / chunk {
        let handle = random.below(4);
        let at = &mut next[handle as usize];
        ftl.write(handle * quarter + *at, chunk as u32, handle as u16);
        *at = (*at + chunk) % quarter;
    }
    assert_eq!(ftl.counters().waf(), Some(1.0));
    assert_eq!(ftl.check(), Ok(()));
}
