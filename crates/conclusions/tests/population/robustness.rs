//! Small, mixed, damaged and identical populations, and the blamed causes.

use super::generator::{Plan, Population, Random, When, draw};
use conclusions::population::{
    Examination, LatencyWindow, PopulationLevel, ScoreExtent, SlowGroup, UndecidedReason, examine,
};

/// A short plan: 60 healthy drives in 12 hosts, for six hours.
fn plan() -> Plan {
    Plan {
        drives: 60,
        drives_of_host: 5,
        seconds: 21_600,
        window_s: 30,
        ..Plan::healthy()
    }
}

fn examined(population: &Population) -> Examination {
    examine(
        &population.labels,
        &population
            .windows
            .iter()
            .map(Vec::as_slice)
            .collect::<Vec<_>>(),
        population.labels.len(),
    )
}

fn slow_down(population: &mut Population, drive: usize, factor: f64) {
    for window in &mut population.windows[drive] {
        window.mean_ns *= factor;
        window.p50_ns *= factor;
        window.p99_ns *= factor;
    }
}

fn blamed(examination: &Examination) -> Vec<(PopulationLevel, &str)> {
    examination
        .slow
        .iter()
        .map(|SlowGroup { level, name, .. }| (*level, name.as_str()))
        .collect()
}

#[test]
fn identical_drives_raise_no_alarm_and_a_slow_one_among_them_is_found() {
    let identical = Plan {
        drives: 10,
        drive_spread: 0.0,
        host_spread: 0.0,
        noise: 0.0,
        missing: 0.0,
        ..plan()
    };
    let mut population = draw(&identical, 1);
    let first = population.windows[0].clone();
    population.windows.fill(first);
    assert_eq!(blamed(&examined(&population)), []);
    slow_down(&mut population, 7, 1.3);
    let examination = examined(&population);
    assert_eq!(blamed(&examination), [(PopulationLevel::Drive, "S0007")]);
    let evidence = &examination.slow[0].evidence;
    assert!(
        (evidence.factor - 1.3).abs() < 1e-4 && evidence.lasting && evidence.since_s == 0.0,
        "{evidence:?}"
    );
    assert_eq!((evidence.peers, evidence.outside), (9, 1.0));
}

#[test]
fn a_slow_drive_among_two_or_three_is_undecided_and_the_detectable_factor_is_stated() {
    let mut population = draw(
        &Plan {
            drives: 2,
            ..plan()
        },
        2,
    );
    slow_down(&mut population, 1, 5.0);
    assert_eq!(
        examined(&population).undecided[0].reason,
        UndecidedReason::FewDrives { drives: 2 }
    );

    let mut population = draw(
        &Plan {
            drives: 3,
            drives_of_host: 1,
            ..plan()
        },
        3,
    );
    slow_down(&mut population, 1, 2.0);
    let examination = examined(&population);
    assert_eq!(blamed(&examination), []);
    let UndecidedReason::Insensitive { factor, drives: 3 } = examination.undecided[0].reason else {
        panic!("{examination:?}")
    };
    assert!(factor > 2.0, "{factor}");
    assert_eq!(
        examined(&draw(
            &Plan {
                drives: 0,
                ..plan()
            },
            4
        )),
        Examination::default()
    );
}

#[test]
fn a_drive_is_compared_only_with_drives_of_its_model() {
    let mut population = draw(&plan(), 5);
    for drive in 30..60 {
        population.labels[drive].model = "B".into();
        slow_down(&mut population, drive, 3.0);
    }
    assert_eq!(blamed(&examined(&population)), []);
    slow_down(&mut population, 41, 1.5);
    let examination = examined(&population);
    assert_eq!(blamed(&examination), [(PopulationLevel::Drive, "S0041")]);
    assert_eq!(
        (
            &*examination.slow[0].model,
            examination.slow[0].evidence.peers
        ),
        ("B", 29)
    );
}

#[test]
fn a_slow_firmware_is_blamed_instead_of_its_drives_and_an_even_slower_drive_as_well() {
    for crossed in [false, true] {
        let mut population = draw(&plan(), 6);
        for drive in 0..60 {
            // The slow firmware is on some drives of each host, or on all drives of half of the hosts.
            if if crossed { drive % 5 < 2 } else { drive < 30 } {
                population.labels[drive].firmware = "2.0".into();
                slow_down(&mut population, drive, 1.5);
            }
        }
        slow_down(&mut population, 11, 2.0);
        let examination = examined(&population);
        assert_eq!(
            blamed(&examination),
            [
                (PopulationLevel::Firmware, "2.0"),
                (PopulationLevel::Drive, "S0011")
            ],
            "crossed: {crossed}"
        );
        let factor = examination.slow[0].evidence.factor;
        assert!((factor / 1.5 - 1.0).abs() < 0.05, "{factor}");
        assert!((examination.slow[1].evidence.factor / 2.0 - 1.0).abs() < 0.15);
    }
}

#[test]
fn a_host_or_a_slot_is_blamed_instead_of_its_drives() {
    let mut population = draw(&plan(), 7);
    (25..30).for_each(|drive| slow_down(&mut population, drive, 1.6));
    let examination = examined(&population);
    assert_eq!(blamed(&examination), [(PopulationLevel::Host, "h05")]);
    assert_eq!(examination.slow[0].drives, [25, 26, 27, 28, 29]);
    // Two of the host's five drives are normal, so the host is not the cause.
    let mut population = draw(&plan(), 8);
    (25..28).for_each(|drive| slow_down(&mut population, drive, 1.6));
    let examination = examined(&population);
    let mut names = blamed(&examination);
    names.sort_by_key(|(_, name)| *name);
    assert_eq!(
        names,
        ["S0025", "S0026", "S0027"].map(|name| (PopulationLevel::Drive, name))
    );

    let mut population = draw(
        &Plan {
            drives: 100,
            drives_of_host: 10,
            ..plan()
        },
        9,
    );
    (3..100)
        .step_by(10)
        .for_each(|drive| slow_down(&mut population, drive, 1.6));
    assert_eq!(
        blamed(&examined(&population)),
        [(PopulationLevel::Slot, "3")]
    );
}

#[test]
fn causes_that_cannot_be_told_apart_are_all_named() {
    let mut population = draw(
        &Plan {
            drives_of_host: 1,
            ..plan()
        },
        10,
    );
    population.labels[20].firmware = "1.1".into();
    slow_down(&mut population, 20, 2.0);
    let examination = examined(&population);
    assert_eq!(blamed(&examination), [(PopulationLevel::Drive, "S0020")]);
    let or: Vec<_> = examination.slow[0]
        .or
        .iter()
        .map(|(level, name)| (*level, name.as_str()))
        .collect();
    assert_eq!(
        or,
        [(PopulationLevel::Firmware, "1.1")],
        "a host says nothing where every drive has its own"
    );
    let text = examination.slow[0].to_string();
    assert!(
        text.contains("or the cause is its firmware \"1.1\""),
        "{text}"
    );
    assert_eq!(
        examination.slow[0].evidence.short(),
        "2.05 times the median latency of 59 peers since the start"
    );
    let factors = &examination.factors;
    let factor = factors[20].unwrap();
    assert!(
        (factor - 2.0).abs() < 0.2 && factors[19].unwrap() < 1.2,
        "{factors:?}"
    );

    let mut population = draw(
        &Plan {
            drives: 20,
            drives_of_host: 10,
            ..plan()
        },
        11,
    );
    (10..20).for_each(|drive| slow_down(&mut population, drive, 2.0));
    let examination = examined(&population);
    assert_eq!(blamed(&examination), []);
    let hosts = examination
        .undecided
        .iter()
        .find(|undecided| undecided.of.is_some())
        .unwrap();
    assert_eq!(hosts.of, Some((PopulationLevel::Host, "h01".to_owned())));
    assert!(
        matches!(hosts.reason, UndecidedReason::FewGroups { factor, groups: 2 } if (factor - 2.0).abs() < 0.2),
        "{hosts}"
    );
}

#[test]
fn drives_that_stop_halfway_and_missing_windows_are_not_blamed_as_slow() {
    let mut population = draw(
        &Plan {
            missing: 0.4,
            ..plan()
        },
        12,
    );
    for drive in [3, 14] {
        population.windows[drive].retain(|window| window.start_s < 10_800.0);
    }
    population.windows[33].truncate(20);
    let few = examined(&population);
    assert_eq!(blamed(&few), []);
    assert_eq!(
        few.undecided[0].of,
        Some((PopulationLevel::Drive, "S0033".to_owned()))
    );
    assert!(
        matches!(
            few.undecided[0].reason,
            UndecidedReason::FewWindows {
                windows: 20,
                invalid: 0,
                ..
            }
        ),
        "{few:?}"
    );
    slow_down(&mut population, 14, 1.4);
    assert_eq!(
        blamed(&examined(&population)),
        [(PopulationLevel::Drive, "S0014")]
    );
}

#[test]
fn a_drive_at_another_load_has_no_peers() {
    let mut population = draw(&plan(), 13);
    population.windows[9]
        .iter_mut()
        .for_each(|window| window.load *= 50.0);
    let examination = examined(&population);
    assert_eq!(
        (blamed(&examination), examination.compared[0].drives),
        (vec![], 59)
    );
    let count = population.windows[9].len();
    assert!(
        matches!(examination.undecided[0].reason, UndecidedReason::FewWindows { windows: 0, alone, .. } if alone == count)
    );
}

#[test]
fn lasting_slowness_has_a_start_and_slowness_at_times_is_not_lasting() {
    let day = Plan {
        seconds: 86_400,
        window_s: 60,
        slow_drives: 1,
        factor: 2.0,
        ..plan()
    };
    let examination = examined(&draw(
        &Plan {
            when: When::FromHour10,
            ..day.clone()
        },
        14,
    ));
    let evidence = &examination.slow[0].evidence;
    assert!(
        evidence.lasting && (evidence.since_s - 36_000.0).abs() <= 600.0,
        "{evidence:?}"
    );
    assert!(
        evidence.outside > 0.5 && evidence.outside < 0.75,
        "{evidence:?}"
    );
    let at_times = examined(&draw(
        &Plan {
            when: When::AtTimes,
            ..day
        },
        15,
    ));
    let evidence = &at_times.slow[0].evidence;
    assert!(
        !evidence.lasting && evidence.extent != ScoreExtent::Whole && evidence.outside < 0.4,
        "{evidence:?}"
    );
}

#[test]
fn values_that_cannot_be_measurements_are_ignored() {
    let mut population = draw(&plan(), 16);
    slow_down(&mut population, 40, 1.5);
    let mut random = Random(1);
    let bad = [
        f64::NAN,
        0.0,
        -1.0,
        f64::INFINITY,
        1e300,
        f64::MIN_POSITIVE,
        f64::MAX,
    ];
    for windows in &mut population.windows {
        for window in windows {
            let value = bad[(random.uniform() * bad.len() as f64) as usize];
            let LatencyWindow {
                start_s,
                load,
                mean_ns,
                p50_ns,
                p99_ns,
            } = window;
            let fields = [start_s, load, mean_ns, p50_ns, p99_ns];
            // A tenth of the windows get a bad field.
            if let Some(field) = fields.into_iter().nth((random.uniform() * 50.0) as usize) {
                *field = value;
            }
        }
    }
    population.windows[5]
        .iter_mut()
        .for_each(|window| window.p99_ns = f64::NAN);
    let examination = examined(&population);
    assert_eq!(blamed(&examination), [(PopulationLevel::Drive, "S0040")]);
    assert_eq!(
        examination.undecided[0].of,
        Some((PopulationLevel::Drive, "S0005".to_owned()))
    );
}

#[test]
fn windows_with_arbitrary_float_bits_are_examined_without_a_panic() {
    let mut random = Random(2);
    for _ in 0..200 {
        let mut bits = || match random.uniform() {
            // Some plausible values, so that windows have peers.
            u if u < 0.8 => 1e5 * (1.0 + u),
            u => f64::from_bits((u * 1e18) as u64).powi(if u < 0.9 { -1 } else { 1 }),
        };
        let mut window = || LatencyWindow {
            start_s: bits(),
            load: bits(),
            mean_ns: bits(),
            p50_ns: bits(),
            p99_ns: bits(),
        };
        let mut population = draw(
            &Plan {
                drives: 13,
                drives_of_host: 3,
                seconds: 300,
                ..plan()
            },
            17,
        );
        population.windows = (0..13)
            .map(|drive| (0..drive * 9).map(|_| window()).collect())
            .collect();
        population
            .labels
            .iter_mut()
            .step_by(2)
            .for_each(|labels| labels.firmware.clear());
        for SlowGroup { evidence, .. } in examined(&population).slow {
            assert!(
                (0.0..=1.0).contains(&evidence.p_value) && evidence.factor.is_finite(),
                "{evidence:?}"
            );
        }
    }
}
