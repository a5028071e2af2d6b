//! Write amplification whose answer is known.

mod anchors;
mod fadu;
mod hot_cold;
mod policies;
mod uniform;

use ftl::{Append, Ftl, Isolation, Spec, Victim};
use sys::random::Random;

/// Write amplification of single units, where `next` says which is written: the drive is filled, then written `warm` times
/// its size, then so many `passes` that are measured.
fn measured(spec: &Spec, warm: u64, passes: u64, mut next: impl FnMut(&mut Random, u64) -> u64) -> f64 {
    let mut ftl = Ftl::new(spec, 1).unwrap();
    let mut random = Random::new(2);
    let units = ftl.units();
    for unit in 0..units {
        ftl.write(unit, 1, 0);
    }
    let mut write = |ftl: &mut Ftl, writes| {
        for _ in 0..writes {
            ftl.write(next(&mut random, units), 1, 0);
        }
    };
    write(&mut ftl, warm * units);
    let before = ftl.counters();
    write(&mut ftl, passes * units);
    assert_eq!(ftl.check(), Ok(()));
    ftl.counters().since(before).unwrap().waf().unwrap()
}

const POLICIES: [Victim; 4] = [Victim::Greedy, Victim::Fifo, Victim::CostBenefit, Victim::Choices(10)];

#[test]
fn sequential_writes_are_not_amplified() {
    for victim in POLICIES {
        let mut ftl = Ftl::new(&Spec { victim, ..Spec::of(64 << 20) }, 1).unwrap();
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
fn handles_whose_data_lives_equally_long_are_not_amplified() {
    let spec = Spec { handles: 4, append: Append::PerHandle, isolation: Isolation::Persistently, ..Spec::of(64 << 20) };
    let mut ftl = Ftl::new(&spec, 1).unwrap();
    let (chunk, quarter) = (16, ftl.units() / 4);
    // Four sequential streams, each round its own quarter; how often each has its turn is chance.
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
