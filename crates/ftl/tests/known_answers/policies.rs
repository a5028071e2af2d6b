//! Victim selection by draws and by age, deallocation, and wear levelling.

use crate::anchors::{bisect, greedy};
use crate::{filled, measured, waf};
use ftl::{Append, Ftl, Spec, Victim};
use sys::random::Random;

fn spec(superblocks: u64, victim: Victim, append: Append) -> Spec {
    let superblock_bytes = 64 * 4096;
    Spec {
        victim,
        append,
        superblock_bytes,
        over_provisioning: 0.15,
        ..Spec::with_logical_bytes(superblocks * superblock_bytes)
    }
}

#[test]
fn d_choices_approaches_greedy_with_more_draws() {
    let of = |choices| {
        measured(
            &spec(4000, Victim::Choices(choices), Append::Shared),
            3,
            2,
            Random::below,
        )
    };
    // Random victims, drawn until a victim is not fully valid. A superblock stays fully valid for U / b writes. Then it
    // is collected at a rate of g / U per write, on average after another U / g writes, with v = (b - 1) g / (g + 1)
    // valid units. In these U / b + U / g writes, each of T / b superblocks frees b - v units: a (b - v) = 1 + b / g.
    let valid = |g: f64| 63.0 * g / (g + 1.0);
    let g = bisect(0.0, 1000.0, |g| 1.15 * (64.0 - valid(g)) < 1.0 + 64.0 / g);
    let random = 64.0 / (64.0 - valid(g));
    assert!(
        (of(1) / random - 1.0).abs() < 0.01,
        "{}, {random} wanted",
        of(1)
    );
    let wafs = [1, 2, 4, 8, 32].map(of);
    assert!(wafs.is_sorted_by(|few, more| few > more), "{wafs:?}");
    assert!((wafs[4] / greedy(1.15, 64) - 1.0).abs() < 0.02, "{wafs:?}");
}

#[test]
fn cost_benefit_gains_from_age_where_writes_are_skewed() {
    let of = |victim| {
        measured(
            &spec(500, victim, Append::Separate),
            6,
            4,
            |random: &mut Random, units: u64| {
                let hot = units / 10;
                if random.below(10) < 9 {
                    random.below(hot)
                } else {
                    hot + random.below(units - hot)
                }
            },
        )
    };
    let greedy = of(Victim::Greedy);
    let cost_benefit = of(Victim::CostBenefit);
    assert!(
        cost_benefit < greedy * 0.9,
        "cost-benefit {cost_benefit}, greedy {greedy}"
    );
}

#[test]
fn deallocated_space_acts_as_spare_flash() {
    let mut ftl = filled(&spec(4000, Victim::Greedy, Append::Shared), |_| 0);
    let units = ftl.units();
    let mut random = Random::new(1);
    ftl.deallocate(units / 2, (units - units / 2) as u32);
    assert_eq!(ftl.mapped_units(), units / 2);
    let mut write =
        |ftl: &mut Ftl| (0..2 * units).for_each(|_| ftl.write(random.below(units / 2), 1, 0));
    write(&mut ftl);
    let measured = waf(&mut ftl, write);
    let expected = greedy(2.0 * 1.15, 64);
    assert!(
        (measured / expected - 1.0).abs() < 0.005,
        "{measured}, {expected} wanted"
    );
}

#[test]
fn wear_levelling_moves_cold_data() {
    let of = |wear_gap| {
        let mut ftl = filled(
            &Spec {
                wear_gap,
                ..spec(200, Victim::Greedy, Append::Separate)
            },
            |_| 0,
        );
        let mut random = Random::new(1);
        for _ in 0..100 * ftl.units() {
            ftl.write(random.below(ftl.units() / 10), 1, 0);
        }
        assert_eq!(ftl.check(), Ok(()));
        let least = ftl.erase_histogram().first_key_value();
        let most = ftl.erase_histogram().last_key_value();
        (
            most.unwrap().0 - least.unwrap().0,
            ftl.counters().waf().unwrap(),
        )
    };
    let (worn, waf) = of(None);
    let (levelled, levelled_waf) = of(Some(20));
    // Without wear levelling, data that is never written again stays in place.
    assert!(worn > 200, "{worn}");
    assert!(levelled <= 25, "{levelled}");
    assert!(levelled_waf > waf, "{levelled_waf}, {waf} without");
}
