//! Known answers for the shape of workloads.

use super::*;
use crate::rates::derive_storage;
use crate::sizes::{SizeHistogram, SizeWithinBucket};
use load::choice::Arrival;
use load::plan::{Fill, Lane, Plan};
use load::testing::{choices, distinct, instants, lanes, plan_on};
use results::assert_contains;
use results::testing::modified;
use std::collections::BTreeSet;
use sys::op::OpKind;

const GIB: u64 = 1 << 30;

fn config() -> ActConfig {
    ActConfig {
        device_names: vec![
            "a".parse().unwrap(),
            "b".parse().unwrap(),
            "c".parse().unwrap(),
        ],
        test_duration_sec: 10,
        read_reqs_per_sec: 7,
        write_reqs_per_sec: 11,
        ..ActConfig::default()
    }
}

fn devices(n: usize) -> Vec<DeviceShape> {
    let device = |n: u16| DeviceShape {
        stamp_key: n.into(),
        ..DeviceShape::new(format!("dev-{n}"), n, GIB + 70_000, 512)
    };
    (0..n as u16).map(device).collect()
}

fn build_on(
    config: &ActConfig,
    devices: &[DeviceShape],
    choices: &BuildContext,
) -> Result<RunPlan, CannotRun> {
    let mut run = plan_on(devices);
    storage(
        config,
        &derive_storage(config).unwrap(),
        devices,
        choices,
        &mut run,
    )?;
    Ok(run)
}

fn build(config: &ActConfig, shards_max: u32) -> Result<RunPlan, CannotRun> {
    build_on(
        config,
        &devices(config.device_names.len()),
        &choices(shards_max),
    )
}

/// Lanes to take operations from, each with the buffers of its shard.
fn streams(shards: &mut [Plan]) -> impl Iterator<Item = (&[BufferClass], &mut Lane)> {
    shards
        .iter_mut()
        .flat_map(|Plan { lanes, buffers, .. }| lanes.iter_mut().map(|lane| (&buffers[..], lane)))
}

fn name<'a>((_, lane): (&'a Plan, &'a Lane)) -> &'a str {
    &lane.name
}

fn count(lane: &Lane, seconds: u64) -> usize {
    instants(lane)
        .take_while(|ns| *ns < seconds * 1_000_000_000)
        .count()
}

#[test]
fn each_device_gets_its_exact_share_of_the_rate_of_every_stream() {
    for (arrival, shards) in [
        (Arrival::Paced, None),
        (Arrival::Paced, Some(2)),
        (Arrival::Act, Some(2)),
    ] {
        let workload = build(
            &ActConfig {
                arrival,
                shards,
                ..config()
            },
            2,
        )
        .unwrap();
        // 11 writes per second in blocks of 85 records, doubled by defragmentation.
        for (stream, iops) in [
            ("reads", 7.0),
            ("large-block-reads", 22.0 / 85.0),
            ("large-block-writes", 22.0 / 85.0),
        ] {
            let mine = |item: &(&Plan, &Lane)| match name(*item) {
                "service-threads" => stream == "reads",
                name => name.starts_with(&format!("{stream}@")),
            };
            let total: usize = lanes(&workload)
                .filter(mine)
                .map(|(_, lane)| count(lane, 8_500))
                .sum();
            let slack = if arrival == Arrival::Act { 10.0 } else { 0.0 };
            assert!(
                (total as f64 - iops * 8_500.0).abs() <= slack,
                "{stream} {arrival} {total}"
            );
        }
    }
}

#[test]
fn first_operations_of_all_streams_and_devices_are_due_at_different_times() {
    let workload = build(&config(), 1).unwrap();
    assert_eq!(
        distinct(lanes(&workload).map(|(_, lane)| instants(lane).next().unwrap())),
        9
    );
}

#[test]
fn only_the_streams_of_the_configuration_are_recorded() {
    let names = |config: &ActConfig| -> Vec<(String, bool)> {
        let workload = build(config, 1).unwrap();
        workload
            .layout
            .streams
            .into_iter()
            .map(|stream| (stream.name, stream.judged))
            .collect()
    };
    let owned = |names: &[(&str, bool)]| {
        names
            .iter()
            .map(|(name, judged)| ((*name).to_owned(), *judged))
            .collect::<Vec<_>>()
    };
    let usual = [
        ("reads", true),
        ("large-block-reads", false),
        ("large-block-writes", false),
    ];
    assert_eq!(names(&config()), owned(&usual));
    let found = names(&modified(config(), |it| it.write_reqs_per_sec = 0));
    assert_eq!(found, owned(&[("reads", true)]));
    assert_eq!(
        names(&modified(config(), |it| it.read_reqs_per_sec = 0)),
        owned(&[("large-block-reads", false), ("large-block-writes", true)]),
        "nothing else to judge"
    );
    assert_eq!(
        names(&ActConfig {
            commit_to_device: true,
            tomb_raider: true,
            ..config()
        }),
        owned(&[
            usual[0],
            usual[1],
            usual[2],
            ("writes", true),
            ("tomb-raider", false)
        ])
    );
}

#[test]
fn operations_avoid_the_partial_large_block_at_the_end_and_count_for_their_stream() {
    let all = ActConfig {
        commit_to_device: true,
        tomb_raider: true,
        record_bytes_range_max: 5_000,
        ..config()
    };
    let mut workload = build(&all, 1).unwrap();
    for (buffers, lane) in streams(&mut workload.shards) {
        for _ in 0..1_000 {
            let request = lane.stream.next().unwrap();
            let found = workload.layout.cell_name(request.cell as usize);
            assert_eq!(found, lane.name, "cells and names go together");
            assert_eq!(usize::from(request.target), request.cell as usize % 3);
            assert!(
                request.offset + u64::from(request.len) <= GIB,
                "the partial block at the end is unused"
            );
            assert_eq!(request.kind == OpKind::Write, lane.name.contains("writes"));
            let buffers = &buffers[usize::from(request.buffers)];
            assert!(buffers.len_bytes >= request.len as usize);
            let found = matches!(buffers.fill, Fill::Fresh(_));
            assert_eq!(found, request.kind == OpKind::Write);
        }
    }
}

#[test]
fn there_are_at_least_as_many_buffers_as_slots_with_every_arrival() {
    let every = [
        Arrival::Paced,
        Arrival::Poisson,
        Arrival::Act,
        Arrival::Closed,
    ];
    for (arrival, service_threads) in every
        .into_iter()
        .flat_map(|arrival| [(arrival, None), (arrival, Some(7))])
    {
        let commit = ActConfig {
            arrival,
            service_threads,
            commit_to_device: true,
            tomb_raider: true,
            ..config()
        };
        for plan in build(&modified(commit, |it| it.shards = Some(2)), 2)
            .unwrap()
            .shards
        {
            let buffers: u32 = plan.buffers.iter().map(|class| class.count).sum();
            let slots: u32 = plan.limits.iter().map(|limit| limit.slots).sum();
            assert!(
                buffers >= slots && slots > 0,
                "{arrival}: {buffers} for {slots}"
            );
            assert!(
                plan.lanes
                    .iter()
                    .all(|lane| plan.limits[lane.limit as usize].slots > 0)
            );
        }
    }
}

#[test]
fn service_threads_bound_the_record_operations_over_all_shards() {
    let slots = |workload: &RunPlan| -> u32 {
        workload
            .shards
            .iter()
            .map(|plan: &Plan| {
                let records = plan
                    .lanes
                    .iter()
                    .filter(|lane| !lane.name.contains("large"));
                let limits: BTreeSet<_> = records.map(|lane| lane.limit as usize).collect();
                limits
                    .into_iter()
                    .map(|limit| plan.limits[limit].slots)
                    .sum::<u32>()
            })
            .sum()
    };
    for arrival in [Arrival::Paced, Arrival::Act, Arrival::Closed] {
        let named = ActConfig {
            service_threads: Some(7),
            shards: Some(2),
            arrival,
            ..config()
        };
        let workload = build(&named, 2).unwrap();
        assert_eq!(slots(&workload), 7, "{arrival}");
        assert!(workload.shards.iter().all(|plan| plan.limits[0].configured));
    }
    assert_eq!(slots(&build(&config(), 1).unwrap()), 3 * 1024);
    assert_eq!(
        slots(&build(&modified(config(), |it| it.arrival = Arrival::Act), 1).unwrap()),
        10,
        "5 a CPU"
    );
    assert_eq!(
        slots(&build(&modified(config(), |it| it.arrival = Arrival::Closed), 1).unwrap()),
        3 * 32
    );
}

#[test]
fn each_stream_on_each_device_has_a_separate_in_flight_limit() {
    let workload = build(&config(), 1).unwrap();
    let found = distinct(lanes(&workload).map(|(_, lane)| lane.limit));
    assert_eq!(found, 9, "one for each stream and device");
}

#[test]
fn an_engines_limit_of_operations_in_flight_is_divided_among_the_devices() {
    let few = modified(choices(1), |it| it.in_flight_max = Some(300));
    let workload = build_on(&config(), &devices(3), &few).unwrap();
    let plan = &workload.shards[0];
    assert_eq!(
        plan.limits[0].slots, 97,
        "a third of 300, less two large blocks and the tomb raider"
    );
    assert!(plan.in_flight_max() <= 300);
}

#[test]
fn operations_in_flight_on_a_device_do_not_exceed_the_requests_in_its_queue() {
    for shards in [1, 2] {
        let mut devices = devices(3);
        devices[1].queue_requests = Some(128);
        let workload = build_on(
            &modified(config(), |it| it.shards = Some(shards)),
            &devices,
            &choices(2),
        )
        .unwrap();
        let on = |device: usize| -> u32 {
            let target = format!("@dev-{device}");
            let mine = lanes(&workload).filter(|item| name(*item).ends_with(&target));
            mine.map(|(plan, lane)| plan.limits[lane.limit as usize].slots)
                .sum()
        };
        // The tomb raider's buffers are counted even if it does not run.
        assert!(
            (127..=128).contains(&on(1)),
            "{} in flight, large blocks included",
            on(1)
        );
        assert!(on(0) > 1_000);
    }
}

#[test]
fn large_records_take_little_memory() {
    let large = ActConfig {
        record_bytes: 8 << 20,
        large_block_op_kbytes: 8192,
        ..config()
    };
    let bytes = build(&large, 1).unwrap().shards[0].buffer_bytes();
    assert!(bytes < 600 << 20, "{bytes}");
}

/// Reads up to 64 KiB and commits up to 128 KiB, at the paper's bucket edges.
fn histograms() -> ActConfig {
    let parse = |text| SizeHistogram::parse(text).ok();
    ActConfig {
        record_bytes: 0,
        storage_read_histogram: parse(
            "100,100,100,100,100,100,100,100,100,100,100,80,60,50,40,30,20,0",
        ),
        storage_write_histogram: parse(
            "100,100,100,100,100,100,100,100,100,60,60,60,60,50,40,30,20,0",
        ),
        ..config()
    }
}

#[test]
fn sizes_drawn_from_a_histogram_are_multiples_of_the_step_and_fit_their_buffers() {
    for (commit_min_bytes, size_within_bucket) in [
        (0, SizeWithinBucket::Paper),
        (4096, SizeWithinBucket::Uniform),
        (0, SizeWithinBucket::LogUniform),
    ] {
        let commit = ActConfig {
            commit_to_device: true,
            commit_min_bytes,
            size_within_bucket,
            ..histograms()
        };
        let mut workload = build(&commit, 1).unwrap();
        for (buffers, lane) in
            streams(&mut workload.shards).filter(|(_, lane)| !lane.name.contains("large"))
        {
            let step_bytes = if lane.name.contains("writes") {
                commit_min_bytes.max(512)
            } else {
                512
            };
            for _ in 0..10_000 {
                let request = lane.stream.next().unwrap();
                assert!(
                    request.len > 0 && request.len % step_bytes == 0,
                    "{}",
                    request.len
                );
                assert!(request.offset % u64::from(step_bytes) == 0);
                assert!(
                    request.offset + u64::from(request.len) <= GIB,
                    "whole large blocks only"
                );
                assert!(buffers[usize::from(request.buffers)].len_bytes >= request.len as usize);
            }
        }
    }
}

#[test]
fn large_sizes_in_a_histogram_take_little_memory() {
    let eight_mib = format!("{}0", "100,".repeat(23));
    let large = ActConfig {
        large_block_op_kbytes: 8192,
        storage_read_histogram: SizeHistogram::parse(&eight_mib).ok(),
        size_within_bucket: SizeWithinBucket::LogUniform,
        ..histograms()
    };
    let workload = build(&large, 1).unwrap();
    let bytes = workload.shards[0].buffer_bytes();
    assert!(bytes < 600 << 20, "{bytes}");
    let usual = build(&histograms(), 1).unwrap().shards[0].buffer_bytes();
    assert!(usual < 70 << 20, "{usual}");
}

#[test]
fn devices_that_do_not_fit_a_load_and_closed_loops_without_reads_are_refused() {
    let on = |config: &ActConfig, size_bytes, min_io_bytes| {
        let device = DeviceShape::new("/dev/x", 0, size_bytes, min_io_bytes);
        build_on(config, &[device], &choices(1))
            .unwrap_err()
            .to_string()
    };
    let small = on(&config(), 131_071, 512);
    assert_contains!(small, "/dev/x", "131071 bytes", "131072 bytes");
    let fine = modified(config(), |it| it.large_block_op_kbytes = 2);
    assert!(on(&fine, GIB, 4096).contains("4096 bytes"));
    let closed = ActConfig {
        arrival: Arrival::Closed,
        read_reqs_per_sec: 0,
        ..config()
    };
    assert!(on(&closed, GIB, 512).contains("arrival: closed"));
}

#[test]
fn commit_writes_are_aligned_to_commit_min_bytes_and_reach_both_ends_of_the_device() {
    let commit = ActConfig {
        commit_to_device: true,
        commit_min_bytes: 4096,
        ..config()
    };
    let mut workload = build(&commit, 1).unwrap();
    let (_, lane) = streams(&mut workload.shards)
        .find(|(_, lane)| lane.name.starts_with("writes@"))
        .unwrap();
    let requests: Vec<_> = (0..4_000).filter_map(|_| lane.stream.next()).collect();
    assert!(
        requests
            .iter()
            .all(|request| request.offset % 4096 == 0 && request.len == 4096)
    );
    assert!(
        requests
            .iter()
            .any(|request| request.offset > GIB - GIB / 100)
    );
    assert!(requests.iter().any(|request| request.offset < GIB / 100));
}

#[test]
fn high_rates_get_several_shards_if_there_are_enough_cpus() {
    let shards = |config: &ActConfig, max| build(config, max).unwrap().shards.len();
    let published = ActConfig {
        read_reqs_per_sec: 550_000,
        write_reqs_per_sec: 275_000,
        ..config()
    };
    assert_eq!(shards(&published, 8), 3);
    assert_eq!(shards(&published, 2), 2);
    assert_eq!(shards(&published, 1), 1);
    assert_eq!(shards(&config(), 8), 1);
    assert_eq!(shards(&modified(config(), |it| it.shards = Some(4)), 8), 4);
    let found = shards(
        &ActConfig {
            shards: Some(4),
            service_threads: Some(2),
            ..config()
        },
        8,
    );
    assert_eq!(found, 2);
}

#[test]
fn two_loads_on_the_same_devices_have_separate_cells_buffers_and_phases() {
    let all = devices(3);
    let mut run = plan_on(&all);
    let on = |names: &[&str]| ActConfig {
        device_names: names.iter().map(|name| name.parse().unwrap()).collect(),
        ..config()
    };
    for (number, (name, config, devices)) in [
        ("a", on(&["a", "b", "c"]), &all[..]),
        ("b", on(&["b", "c"]), &all[1..]),
    ]
    .into_iter()
    .enumerate()
    {
        run.begin(number, name);
        storage(
            &config,
            &derive_storage(&config).unwrap(),
            devices,
            &choices(1),
            &mut run,
        )
        .unwrap();
    }
    let names: Vec<_> = run
        .layout
        .streams
        .iter()
        .map(|stream| (stream.name.as_str(), stream.workload))
        .collect();
    assert_eq!((names[0], names[3]), (("a/reads", 0), ("b/reads", 1)));
    assert_eq!(run.shards[0].lanes.len(), 9 + 6);
    let mut firsts = Vec::new();
    for (buffers, lane) in streams(&mut run.shards) {
        let request = lane.stream.next().unwrap();
        assert_eq!(run.layout.cell_name(request.cell as usize), lane.name);
        assert!(
            lane.name.ends_with(&all[usize::from(request.target)].name),
            "{} {}",
            lane.name,
            request.target
        );
        let buffers = &buffers[usize::from(request.buffers)];
        assert!(
            buffers.count > 0 && buffers.len_bytes >= request.len as usize,
            "{}",
            lane.name
        );
        firsts.push(instants(lane).next().unwrap());
    }
    assert_eq!(distinct(firsts), 15, "none in phase with another");
}
