//! Precision and recall of [`examine`] on populations that it was not developed with.
//!
//! Seeds below 100,000 were used to develop the detector, seeds from 1,000,000 on to evaluate the finished detector.
//! The short evaluation takes seconds and always runs. To run the whole evaluation:
//!
//!     cargo test --release -p flashproof-conclusions --test population -- --ignored --nocapture

use super::generator::{Plan, When, draw};
use conclusions::population::{Labels, PopulationLevel, examine};
use results::format;
use std::time::Instant;

/// Findings compared with the truth, summed over populations.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    populations: u64,
    /// Number of slow drives and hosts.
    slow: u64,
    found: u64,
    /// Number of findings about healthy drives or groups.
    false_alarms: u64,
    /// Number of healthy drives in such findings.
    accused: u64,
    healthy: u64,
}

impl Tally {
    fn from_plan(plan: &Plan, seeds: std::ops::Range<u64>) -> Self {
        let mut tally = Self::default();
        for seed in seeds {
            let population = draw(plan, seed);
            let examination = examine(
                &population.labels,
                &population
                    .windows
                    .iter()
                    .map(Vec::as_slice)
                    .collect::<Vec<_>>(),
                population.labels.len(),
            );
            let in_slow_host = |drive: &usize| {
                population
                    .slow_hosts
                    .contains(&population.labels[*drive].host)
            };
            let is_slow =
                |drive: &usize| population.slow_drives.contains(drive) || in_slow_host(drive);
            tally.populations += 1;
            tally.slow += (population.slow_drives.len() + population.slow_hosts.len()) as u64;
            tally.healthy += (0..population.labels.len())
                .filter(|drive| !is_slow(drive))
                .count() as u64;
            for slow in &examination.slow {
                let is_true = match slow.level {
                    PopulationLevel::Drive => population.slow_drives.contains(&slow.drives[0]),
                    PopulationLevel::Host => population.slow_hosts.contains(&slow.name),
                    _ => false,
                };
                if !is_true {
                    println!("    false alarm, seed {seed}: {slow}");
                }
                tally.found += u64::from(is_true);
                tally.false_alarms += u64::from(!is_true);
                tally.accused += slow.drives.iter().filter(|drive| !is_slow(drive)).count() as u64;
            }
        }
        tally
    }

    fn recall(&self) -> f64 {
        self.found as f64 / self.slow as f64
    }

    fn row(&self, name: &str) {
        let share = |count: u64, of: u64| match of {
            0 => format!("{:>24}", "-"),
            of => {
                let [low, high] = interval(count, of);
                format!("{:>7.4} ({low:.4}-{high:.4})", count as f64 / of as f64)
            }
        };
        let precision = share(self.found, self.found + self.false_alarms);
        println!(
            "{name:<44} {:>5} {:>24} {precision:>24}  {:>3} of {:>7}, below {}",
            self.slow,
            share(self.found, self.slow),
            self.accused,
            self.healthy,
            format::number(interval(self.accused, self.healthy)[1]),
        );
    }
}

/// Clopper and Pearson's 95 % confidence interval of a share.
fn interval(count: u64, of: u64) -> [f64; 2] {
    // P(B <= count), summed term by term.
    let at_most = |count: u64, share: f64| {
        let mut term = of as f64 * (1.0 - share).ln();
        let mut sum = term.exp();
        for k in 0..count {
            term += ((of - k) as f64 / (k + 1) as f64).ln() + share.ln() - (1.0 - share).ln();
            sum += term.exp();
        }
        sum
    };
    let bisect = |is_below: &dyn Fn(f64) -> bool| {
        let mut low = 0.0;
        let mut high = 1.0;
        for _ in 0..50 {
            let middle = (low + high) / 2.0;
            if is_below(middle) {
                low = middle
            } else {
                high = middle
            }
        }
        low
    };
    let low = if count == 0 {
        0.0
    } else {
        bisect(&|share| 1.0 - at_most(count - 1, share) < 0.025)
    };
    let high = if count == of {
        1.0
    } else {
        bisect(&|share| at_most(count, share) > 0.025)
    };
    [low, high]
}

fn heading() {
    println!(
        "{:<44} {:>5} {:>24} {:>24}  healthy drives accused (95 % bound)",
        "population", "slow", "recall (95 %)", "precision (95 %)"
    );
}

/// First seed of the evaluation. For development, set `FLASHPROOF_POPULATION_SEED` to a seed below 100,000.
fn first_seed() -> u64 {
    std::env::var("FLASHPROOF_POPULATION_SEED")
        .map_or(1_000_000, |text| text.parse().expect("a seed"))
}

fn slow(factor: f64, drives: usize, when: When) -> Plan {
    Plan {
        factor,
        slow_drives: drives,
        when,
        ..Plan::healthy()
    }
}

#[test]
fn slow_drives_are_found_and_healthy_ones_are_not() {
    let first = first_seed();
    let short = |plan: Plan| Plan {
        window_s: 120,
        ..plan
    };
    heading();
    let healthy = Tally::from_plan(&short(Plan::healthy()), first..first + 5);
    healthy.row("healthy");
    assert!(healthy.accused <= 1, "at most one in 1,000: {healthy:?}");
    for (factor, least) in [(5.0, 0.99), (2.0, 0.99), (1.3, 0.8)] {
        let tally = Tally::from_plan(
            &short(slow(factor, 5, When::Always)),
            first + 100..first + 104,
        );
        tally.row(&format!("5 drives, {factor} times"));
        assert!(
            tally.recall() >= least && tally.accused <= 1,
            "{factor}: {tally:?}"
        );
    }
    for when in [When::AtTimes, When::FromHour10] {
        let tally = Tally::from_plan(&short(slow(2.0, 5, when)), first + 200..first + 202);
        tally.row(&format!("5 drives, 2 times, {when:?}"));
        assert!(
            tally.recall() >= 0.9 && tally.accused <= 1,
            "{when:?}: {tally:?}"
        );
    }
    let plan = Plan {
        slow_hosts: 1,
        ..short(slow(2.0, 2, When::Always))
    };
    let tally = Tally::from_plan(&plan, first + 300..first + 302);
    tally.row("1 host and 2 drives elsewhere, 2 times");
    assert_eq!((tally.found, tally.false_alarms), (tally.slow, 0));
}

#[test]
#[ignore = "minutes: scripts/soak runs it"]
fn recall_and_false_alarms_over_thousands_of_populations_are_within_their_bounds() {
    let scale: u64 =
        std::env::var("FLASHPROOF_POPULATIONS").map_or(100, |text| text.parse().expect("percent"));
    let first = first_seed();
    let mut seed = first;
    let mut of = |plan: &Plan, populations: u64| {
        let count = (populations * scale / 100).max(1);
        seed += count;
        Tally::from_plan(plan, seed - count..seed)
    };
    heading();
    let healthy = of(&Plan::healthy(), 15);
    healthy.row(&format!("healthy, {} drives", healthy.healthy));
    let many = of(&Plan::healthy(), 300);
    many.row(&format!("healthy, {} more", many.healthy));
    let mut failed = Vec::new();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            failed.push(what.to_owned());
        }
    };
    expect(
        healthy.accused <= healthy.healthy.div_ceil(1_000),
        "one false alarm in 1,000 healthy drives",
    );
    expect(
        interval(many.accused, many.healthy)[1] <= 0.001,
        "bound of the false alarm rate",
    );
    let half_minutes = |plan: Plan| Plan {
        window_s: 30,
        ..plan
    };
    for when in [When::Always, When::AtTimes, When::FromHour10] {
        for (factor, least) in [(1.3, 0.8), (2.0, 0.99), (5.0, 0.99)] {
            for (drives, populations) in [(1, 60), (5, 80)] {
                let tally = of(&half_minutes(slow(factor, drives, when)), populations);
                let name = format!("{drives} of 200, {factor} times, {when:?}");
                tally.row(&name);
                expect(tally.recall() >= least || when != When::Always, &name);
                expect(tally.accused * 1_000 <= tally.healthy, &name);
            }
        }
    }
    for factor in [1.3, 2.0] {
        let plan = half_minutes(Plan {
            slow_hosts: 2,
            ..slow(factor, 3, When::Always)
        });
        of(&plan, 40).row(&format!("2 hosts and 3 drives elsewhere, {factor} times"));
    }
    for spread in [0.05, 0.08] {
        let plan = |factor| {
            half_minutes(Plan {
                drive_spread: spread,
                ..slow(factor, 5, When::Always)
            })
        };
        of(&plan(1.3), 40).row(&format!("5 of 200, 1.3 times, spread {} %", spread * 100.0));
        of(&plan(2.0), 40).row(&format!("5 of 200, 2 times, spread {} %", spread * 100.0));
    }
    let heavy = half_minutes(Plan {
        heavy_tails: true,
        ..Plan::healthy()
    });
    of(&heavy, 60).row("healthy, heavy tails (Student, 5 degrees)");
    for drives in [3, 5, 8, 12, 20, 50] {
        let small = Plan {
            drives,
            drives_of_host: 1,
            ..Plan::healthy()
        };
        let small = Plan {
            window_s: 60,
            ..small
        };
        of(&small, 2_000).row(&format!("healthy, {drives} drives"));
        for factor in [2.0, 5.0] {
            of(
                &Plan {
                    factor,
                    slow_drives: 1,
                    ..small.clone()
                },
                200,
            )
            .row(&format!("1 of {drives}, {factor} times"));
        }
    }
    let small = draw(
        &Plan {
            drives: 20,
            missing: 0.0,
            ..Plan::healthy()
        },
        first,
    );
    let labels: Vec<Labels> = (0..2_000)
        .map(|drive| Labels {
            drive: drive.to_string(),
            ..Labels::default()
        })
        .collect();
    let began = Instant::now();
    let examination = examine(
        &labels,
        &(0..labels.len())
            .map(|drive| &*small.windows[drive % 20])
            .collect::<Vec<_>>(),
        labels.len(),
    );
    println!(
        "2,000 drives with 8,640 windows: {:.1} s",
        began.elapsed().as_secs_f64()
    );
    expect(
        examination.compared[0].drives == 2_000,
        "2,000 drives compared",
    );
    assert!(
        failed.is_empty(),
        "seeds from {first} on, not reached: {failed:#?}"
    );
}
