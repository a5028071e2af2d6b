//! Records of a run: counts, times and followers with known answers.

use super::*;
use load::schedule::Poisson;
use load::stream::Updates;

#[test]
fn at_1000_operations_per_second_a_freeze_of_one_second_makes_1000_slow_operations() {
    let ran = even_reads(FREEZE, 1000, (4096, false), settings(10));
    let total = ran.total();
    let cell = &total.cells[0];
    assert_eq!(cell.counts.ops, 10_000);
    let over_1ms = cell.counts.judged_over[0];
    // The 32 channels need another 3 ms for the backlog; a few more operations are late in that time.
    assert!(
        (998..=1004).contains(&over_1ms),
        "{over_1ms} operations over 1 ms"
    );
    // Operations were due evenly during the freeze of a second: the last 64 of them took 64 ms or less.
    assert!(
        (935..=941).contains(&cell.counts.judged_over[2]),
        "{:?}",
        cell.counts.judged_over
    );
}

#[test]
fn a_closed_loop_reports_a_freeze_as_one_slow_operation() {
    let lanes = vec![(
        reads(0, 1),
        Arrival::Closed {
            depth: 1,
            think_ns: MS,
        },
    )];
    let ran = run(&[FREEZE], plan(lanes, 1, true), settings(10), &layout(1, 1));
    assert_eq!(
        ran.total().cells[0].counts.judged_over[0],
        1,
        "during the freeze, a closed loop issues nothing"
    );
}

#[test]
fn a_wait_for_a_slot_is_charged_to_the_device_and_judged() {
    // One slot: the freeze holds one operation in service, and the rest wait.
    let drive = "sim:read-us=10+jitter-pct=0+read-mbps=0+stall-ms=1000+stall-at-s=5.000005";
    let ran = even_reads(drive, 1000, (1, false), settings(10));
    let cell = &ran.total().cells[0];
    assert_eq!(cell.counts.ops, 10_000);
    assert!(
        cell.counts.judged_over[0] >= 998,
        "{:?}",
        cell.counts.judged_over
    );
    let waited = cell.wait.count_between(MS, u64::MAX);
    // The one slot needs 10 ms for the backlog.
    assert!((990..=1011).contains(&waited), "{waited} waited over 1 ms");
    assert_eq!(cell.lag.max(), 0, "nothing is ever late in virtual time");
}

#[test]
fn counts_are_exact_for_7_operations_per_second_over_three_devices() {
    let lanes = (0..3)
        .map(|d| (reads(d, 1), even(7, d.into(), 3)))
        .collect();
    let ran = run(
        &["sim:", "sim:", "sim:"],
        plan(lanes, 64, false),
        settings(3600),
        &layout(1, 3),
    );
    assert_eq!(
        ran.total()
            .cells
            .iter()
            .map(|cell| cell.counts.ops)
            .collect::<Vec<_>>(),
        [8400; 3]
    );
    assert_eq!(ran.intervals.len(), 3600);
    assert!(
        ran.intervals
            .iter()
            .enumerate()
            .all(|(n, interval)| interval.index == n as u64)
    );
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_last_bucket() {
    let drives = ["sim:seed=3+error-rate=0.001", "sim:seed=4"];
    let once = |seed| {
        let poisson = |d: u64| {
            let random = Random::for_part(seed, 100 + d);
            Arrival::Scheduled(Schedule::Poisson(
                Poisson::new(Rate::per_sec(5_000), random).unwrap(),
            ))
        };
        let lanes = (0..2)
            .map(|d| (reads(d, seed), poisson(d.into())))
            .collect();
        let ran = run(&drives, plan(lanes, 64, false), settings(20), &layout(1, 2));
        assert!(ran.failures > 0);
        ran.total()
            .cells
            .iter()
            .map(|c| {
                (
                    c.counts.ops,
                    c.counts.errors,
                    c.service.clone(),
                    c.wait.clone(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(once(9), once(9));
    assert_ne!(once(9), once(10));
}

#[test]
fn failed_operations_are_over_every_threshold_and_do_not_end_the_run() {
    let ran = even_reads("sim:error-rate=0.01", 1000, (64, false), settings(100));
    let cell = &ran.total().cells[0];
    assert_eq!(cell.counts.counted_ops(), 100_000);
    assert!(
        (900..1100).contains(&cell.counts.errors),
        "{} errors",
        cell.counts.errors
    );
    assert_eq!(cell.counts.judged_over[2], cell.counts.errors);
    assert_eq!(cell.service.len(), cell.counts.ops);
    assert_eq!(ran.cause, None);
}

#[test]
fn an_operation_is_followed_by_another_in_the_same_slot_without_a_wait() {
    let lanes = vec![(ReadThenWrite(reads(0, 1)), even(1000, 0, 1))];
    let ran = run(
        &["sim:"],
        plan(lanes, 1, false),
        settings(10),
        &layout(2, 1),
    );
    let total = ran.total();
    assert_eq!(total.cells[0].counts.ops, 10_000);
    assert_eq!(total.cells[1].counts.ops, 10_000);
    let found = total.cells[1].wait.max();
    assert_eq!(found, 0, "a follower is due when the leader completes");
}

#[test]
fn an_update_is_written_as_soon_as_its_read_completes() {
    let extent =
        |kind, cell| Extent::blocks(IoRequest::new(kind, 0, cell, 0), 1 << 30, 4096).unwrap();
    let reads = vec![extent(OpKind::Read, 0)];
    let writes = vec![extent(OpKind::Write, 1)];
    let updates = Updates::new(reads, writes, 1, Random::new(1));
    let lanes = vec![(updates, even(1000, 0, 1))];
    let total = run(
        &["sim:"],
        plan(lanes, 64, false),
        settings(10),
        &layout(2, 1),
    )
    .total();
    assert_eq!(total.cells[0].counts.ops, 10_000);
    assert_eq!(total.cells[1].counts.ops, 10_000);
    assert_eq!(total.cells[1].lag.max(), 0);
    assert_eq!(total.cells[1].wait.max(), 0);
}

#[test]
fn a_closed_lane_keeps_its_depth_in_flight() {
    // Depth 4, 100 us for each operation, 32 channels: 40,000 operations per second.
    let lanes = vec![(reads(0, 1), closed(4))];
    let ran = run(
        &["sim:read-us=100+jitter-pct=0+read-mbps=0"],
        plan(lanes, 4, true),
        settings(5),
        &layout(1, 1),
    );
    assert!(ran.total().cells[0].counts.ops.abs_diff(200_000) <= 4);
    assert_eq!(ran.intervals[2].in_flight_max, 4);
}

#[test]
fn no_operation_is_issued_before_the_start_time_of_the_run() {
    let lanes = vec![(reads(0, 1), closed(4))];
    let drive = engine(&["sim:read-us=100+jitter-pct=0+read-mbps=0"]);
    let (shard, feed) = Shard::new(
        drive,
        plan(lanes, 4, true),
        &what(settings(1), &layout(1, 1)),
        false,
    )
    .unwrap();
    shard.run(5 * MS);
    let Ok(Message::Interval(interval)) = feed.messages.recv() else {
        panic!("no interval")
    };
    // 4 operations every 100 us for a second, and none in the 5 ms before that second.
    assert!(
        (40_000..=40_004).contains(&interval.cells[0].counts.ops),
        "{}",
        interval.cells[0].counts.ops
    );
    assert!(
        interval.cells[0].service.min() >= 99_000,
        "{}",
        interval.cells[0].service.min()
    );
}

#[test]
fn operations_of_the_ramp_are_not_counted() {
    // The drive freezes from 5 to 6 s.
    let slow = |ramp_ns, seconds: u64| {
        let settings = Settings {
            ramp_ns,
            duration_ns: ramp_ns + seconds * SEC,
            ..settings(10)
        };
        let ran = even_reads(FREEZE, 1000, (4096, false), settings);
        let ends: Vec<_> = ran
            .intervals
            .iter()
            .map(|interval| (interval.index, interval.end_ns))
            .collect();
        assert_eq!(
            ends,
            (0..seconds)
                .map(|index| (index, (index + 1) * SEC))
                .collect::<Vec<_>>()
        );
        let cell = &ran.total().cells[0];
        (cell.counts.ops, cell.counts.judged_over[0])
    };
    for ramp_ns in [3 * SEC, SEC / 4] {
        let (ops, over) = slow(ramp_ns, 7);
        assert!(ops == 7_000 && (998..=1004).contains(&over), "{ops} {over}");
    }
    assert_eq!(slow(7 * SEC, 3), (3_000, 0));
}
