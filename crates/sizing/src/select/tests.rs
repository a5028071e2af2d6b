use super::*;
use results::testing::modified;

const NOW: SizingTerms = SizingTerms {
    scale: 1.0,
    data_scale: 1.0,
    fill: 0.5,
    years: 5.0,
};

fn io(reads: f64, writes: f64, read_kib: f64, kib_written: f64) -> DriveIo {
    DriveIo::from([reads, writes, read_kib, kib_written])
}

/// Two nodes with two drives each; the drives of the second node are busier.
fn demand() -> ClusterDemand {
    let node = |node: &str, part: f64| NodeDemand {
        node: node.to_owned(),
        drives: vec![
            io(
                1000.0 * part,
                100.0 * part,
                20_000.0 * part,
                12_800.0 * part
            );
            2
        ],
        used_bytes: Some(400_000_000_000),
    };
    ClusterDemand {
        nodes: vec![node("A", 1.0), node("B", 1.5)],
        shadows: 0,
    }
}

fn supply(io: DriveIo) -> Supply {
    Supply {
        io,
        capacity_bytes: None,
        rated_bytes: None,
    }
}

#[test]
fn the_largest_ratio_of_demand_to_supply_of_the_busiest_node_is_the_binding_limit() {
    // Node B does 3,000 reads, 300 writes, 60,000 KiB read and 38,400 KiB written.
    for (does, per_node, exact, limit) in [
        (
            io(3000.0, 300.0, 60_000.0, 38_400.0),
            1,
            1.0,
            BindingLimit::Reads,
        ),
        (
            io(2950.0, 300.0, 60_000.0, 38_400.0),
            1,
            3000.0 / 2950.0,
            BindingLimit::Reads,
        ),
        (
            io(2900.0, 300.0, 60_000.0, 38_400.0),
            2,
            3000.0 / 2900.0,
            BindingLimit::Reads,
        ),
        (
            io(9000.0, 100.0, 90_000.0, 90_000.0),
            3,
            3.0,
            BindingLimit::Writes,
        ),
        (
            io(9000.0, 900.0, 24_000.0, 90_000.0),
            3,
            2.5,
            BindingLimit::ReadBandwidth,
        ),
        (
            io(9000.0, 900.0, 90_000.0, 8000.0),
            5,
            4.8,
            BindingLimit::WriteBandwidth,
        ),
    ] {
        let found = need(&demand(), &supply(does), &NOW).unwrap();
        assert_eq!(found.per_node, per_node, "{does:?}");
        assert_eq!(found.in_all, 2 * per_node, "{does:?}");
        assert!((found.exact - exact).abs() < 1e-9, "{found:?}");
        assert!(found.limit == limit || exact == 1.0, "{found:?}");
    }
    let twice = need(
        &demand(),
        &supply(io(3000.0, 300.0, 60_000.0, 38_400.0)),
        &SizingTerms { scale: 2.0, ..NOW },
    )
    .unwrap();
    assert_eq!(twice.per_node, 2);
    let none = need(
        &demand(),
        &supply(io(3000.0, 0.0, 60_000.0, 38_400.0)),
        &NOW,
    );
    assert_eq!(
        none, None,
        "no number of drives suffices if one drive sustains no writes"
    );
}

#[test]
fn capacity_and_wear_are_limits_if_they_are_known() {
    let fast = io(1e9, 1e9, 1e9, 1e9);
    // 400 GB of records, and drives that may be half full: two drives of 480 GB; 2.5 times the data needs five.
    let room = modified(supply(fast), |it| it.capacity_bytes = Some(480e9));
    let found = need(&demand(), &room, &NOW).unwrap();
    assert_eq!((found.per_node, found.limit), (2, BindingLimit::Capacity));
    let per_node = |supply: &Supply, terms| need(&demand(), supply, &terms).unwrap().per_node;
    assert_eq!(per_node(&room, modified(NOW, |it| it.data_scale = 2.5)), 5);
    assert_eq!(
        per_node(&room, SizingTerms { scale: 2.5, ..NOW }),
        2,
        "the load is not the data"
    );
    assert_eq!(per_node(&room, SizingTerms { fill: 1.0, ..NOW }), 1);
    let nearly = modified(supply(fast), |it| it.capacity_bytes = Some(399e9));
    assert_eq!(
        per_node(&nearly, NOW),
        3,
        "data beyond the capacity is never ignored"
    );
    let whole = modified(supply(fast), |it| it.capacity_bytes = Some(400e9));
    assert_eq!(per_node(&whole, NOW), 2);
    // 38,400 KiB a second are 6.2 PB in five years.
    let worn = modified(supply(fast), |it| it.rated_bytes = Some(2e15));
    let found = need(&demand(), &worn, &NOW).unwrap();
    assert_eq!((found.per_node, found.limit), (4, BindingLimit::Wear));
    assert!((found.exact - 38_400.0 * 1024.0 * 86_400.0 * 365.0 * 5.0 / 2e15).abs() < 1e-9);
}

#[test]
fn a_multiple_of_the_load_is_the_same_mix_and_other_sizes_are_not() {
    let mean = io(1250.0, 125.0, 25_000.0, 16_000.0);
    let times = |n: f64| mean.map(|it| it * n);
    for n in [0.1, 1.0, 7.0] {
        assert!(is_same_mix(&demand(), &times(n)));
        let found = times_the_busiest(&demand(), &supply(times(n))).unwrap();
        assert!(
            (found - n / 1.2).abs() < 1e-9,
            "the busiest has 1.2 times the mean: {found}"
        );
    }
    assert!(!is_same_mix(
        &demand(),
        &modified(mean, |it| it.read_kib_per_sec = 20_000.0)
    ));
    assert!(!is_same_mix(
        &demand(),
        &modified(mean, |it| it.writes_per_sec = 0.0)
    ));
    assert!(!is_same_mix(&ClusterDemand::default(), &mean));
}

#[test]
fn a_published_rating_is_converted_to_act_s_records_and_blocks() {
    // 2,000 reads of 1.5 KiB, and 2 x 1,000 / 85 large blocks of 128 KiB each way.
    let blocks = 2000.0 / 85.0;
    let found = published(10.0).numbers();
    let expected = [
        2000.0 + blocks,
        blocks,
        3000.0 + blocks * 128.0,
        blocks * 128.0,
    ];
    let is_near = |(found, expected): (&f64, f64)| (found / expected / 10.0 - 1.0).abs() < 1e-9;
    assert!(found.iter().zip(expected).all(is_near), "{found:?}");
}
