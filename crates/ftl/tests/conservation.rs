//! Property tests: after any commands the map is consistent, all counters add up, and the observer got every operation.

use ftl::{Append, FlashExtent, FlashObserver, Ftl, Isolation, ProgramCause, Spec, Victim};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// An observer that models flash, and fails on operations that real flash cannot do.
#[derive(Default)]
struct Flash {
    superblock_units: u32,
    programmed: BTreeSet<(u32, u32)>,
    host: u64,
    moved: u64,
    read: u64,
    erases: u64,
}

impl FlashObserver for Flash {
    fn program(&mut self, at: FlashExtent, cause: ProgramCause) {
        for unit in at.first_unit..at.first_unit + at.units {
            assert!(unit < self.superblock_units);
            assert!(
                self.programmed.insert((at.superblock, unit)),
                "programmed twice without an erase: {at:?}"
            );
            assert!(
                unit == 0 || self.programmed.contains(&(at.superblock, unit - 1)),
                "out of order: {at:?}"
            );
        }
        match cause {
            ProgramCause::Host => self.host += u64::from(at.units),
            ProgramCause::Collection => self.moved += u64::from(at.units),
        }
    }

    fn read(&mut self, at: FlashExtent) {
        assert!(
            at.units > 0
                && (at.first_unit..at.first_unit + at.units)
                    .all(|unit| self.programmed.contains(&(at.superblock, unit)))
        );
        self.read += u64::from(at.units);
    }

    fn erase(&mut self, superblock: u32) {
        self.erases += 1;
        self.programmed.retain(|&(of, _)| of != superblock);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write { first: u64, units: u32, handle: u16 },
    Deallocate { first: u64, units: u32 },
    Collect { units: u32 },
}

const UNITS: u64 = 2048;

fn step() -> impl Strategy<Value = Step> {
    let range = (0..UNITS, 1..200_u32)
        .prop_map(|(first, units)| (first, units.min((UNITS - first) as u32)));
    prop_oneof![
        6 => (range.clone(), 0..5_u16).prop_map(|((first, units), handle)| Step::Write { first, units, handle }),
        1 => range.prop_map(|(first, units)| Step::Deallocate { first, units }),
        1 => (0..40_u32).prop_map(|units| Step::Collect { units }),
    ]
}

fn spec() -> impl Strategy<Value = Spec> {
    let victim = prop_oneof![
        Just(Victim::Greedy),
        Just(Victim::Fifo),
        Just(Victim::CostBenefit),
        (1..12_u32).prop_map(Victim::Choices)
    ];
    let append = prop_oneof![
        Just(Append::Shared),
        Just(Append::Separate),
        Just(Append::PerHandle)
    ];
    let numbers = (
        2..30_u64,
        1..4_u16,
        1..4_u32,
        proptest::option::of(0..20_u32),
    );
    (victim, append, any::<bool>(), numbers).prop_map(|(victim, append, initially, numbers)| {
        let (superblock_units, handles, reserve_superblocks, wear_gap) = numbers;
        let separate = append == Append::Separate;
        let mut spec = Spec {
            over_provisioning: 0.01,
            superblock_bytes: superblock_units * 4096,
            victim,
            append,
            handles,
            isolation: if initially || separate {
                Isolation::Initially
            } else {
                Isolation::Persistently
            },
            reserve_superblocks,
            wear_gap,
            ..Spec::with_logical_bytes(UNITS * 4096)
        };
        // Uses the minimum over-provisioning, so that garbage collection has the least space.
        while spec.check().is_err() {
            spec.over_provisioning += 0.005;
        }
        spec
    })
}

fn run(spec: &Spec, seed: u64, steps: &[Step], media: &mut impl FlashObserver) -> Ftl {
    let mut ftl = Ftl::new(spec, seed).unwrap();
    for step in steps {
        match *step {
            Step::Write {
                first,
                units,
                handle,
            } => ftl.write_on(first, units, handle, media),
            Step::Deallocate { first, units } => ftl.deallocate(first, units),
            Step::Collect { units } => _ = ftl.collect_on(units, media),
        }
    }
    ftl
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn units_and_counters_are_conserved(spec in spec(), seed: u64, steps in prop::collection::vec(step(), 1..150)) {
        let superblock_units = (spec.superblock_bytes / 4096) as u32;
        let mut flash = Flash { superblock_units, ..Flash::default() };
        let ftl = run(&spec, seed, &steps, &mut flash);
        prop_assert_eq!(ftl.check(), Ok(()));
        let mut mapped = BTreeSet::new();
        let mut host_units = 0;
        for step in &steps {
            match *step {
                Step::Write { first, units, .. } => {
                    mapped.extend(first..first + u64::from(units));
                    host_units += u64::from(units);
                }
                Step::Deallocate { first, units } => mapped.retain(|unit| !(first..first + u64::from(units)).contains(unit)),
                Step::Collect { .. } => (),
            }
        }
        let located: BTreeSet<_> = (0..UNITS).filter(|&unit| ftl.locate(unit).is_some()).collect();
        prop_assert_eq!(&located, &mapped);
        prop_assert_eq!(ftl.mapped_units(), mapped.len() as u64);
        let places: BTreeSet<_> = located.iter().filter_map(|&unit| ftl.locate(unit)).map(|at| (at.superblock, at.first_unit)).collect();
        prop_assert_eq!(places.len(), mapped.len());
        prop_assert!(places.is_subset(&flash.programmed));
        prop_assert_eq!((flash.host, flash.read), (host_units, flash.moved));
        let counters = ftl.counters();
        prop_assert_eq!(counters.host, host_units * 4096);
        prop_assert_eq!(counters.media, (flash.host + flash.moved) * 4096);
        prop_assert_eq!(counters.erased, flash.erases * spec.superblock_bytes);
        let erases = ftl.erase_histogram().iter().map(|(&erases, &superblocks)| u64::from(erases) * u64::from(superblocks));
        prop_assert_eq!(erases.sum::<u64>(), flash.erases);
    }

    #[test]
    fn the_same_seed_gives_the_same_drive(spec in spec(), seed: u64, steps in prop::collection::vec(step(), 1..80)) {
        let flash = &mut Flash { superblock_units: (spec.superblock_bytes / 4096) as u32, ..Flash::default() };
        // Compares the whole state. An observer must not change the state.
        prop_assert!(run(&spec, seed, &steps, &mut ()) == run(&spec, seed, &steps, flash));
    }
}
