//! Known answers for the shape of index workloads.

use super::*;
use crate::options::Test;
use crate::rates::derive_index;
use engine::DeviceName;
use load::plan::Lane;
use load::stream::Stream;
use load::testing::{choices, instants, lanes as all_lanes, plan_on};
use results::assert_contains;
use results::testing::modified;
use sys::op::Outcome;

const MIB: u64 = 1 << 20;

fn config() -> ActConfig {
    ActConfig {
        device_names: vec!["a".parse().unwrap(), "b".parse().unwrap()],
        test_duration_sec: 10,
        read_reqs_per_sec: 7,
        write_reqs_per_sec: 3,
        defrag_lwm_pct: 40,
        ..ActConfig::new(Test::Index)
    }
}

fn build_on(
    config: &ActConfig,
    devices: &[DeviceShape],
    shards_max: u32,
) -> Result<RunPlan, CannotRun> {
    let mut run = plan_on(devices);
    index(
        config,
        &derive_index(config).unwrap(),
        devices,
        &choices(shards_max),
        &mut run,
    )?;
    Ok(run)
}

fn build(config: &ActConfig, shards_max: u32) -> RunPlan {
    let device = |n: u16| DeviceShape {
        stamp_key: n.into(),
        ..DeviceShape::new(format!("dev-{n}"), n, MIB, 512)
    };
    let devices: Vec<_> = (0..config.device_names.len() as u16).map(device).collect();
    build_on(config, &devices, shards_max).unwrap()
}

fn lanes<'a>(workload: &'a RunPlan, name: &'a str) -> impl Iterator<Item = (&'a Plan, &'a Lane)> {
    all_lanes(workload).filter(move |(_, lane)| lane.name.starts_with(name))
}

/// Number of operations that the lanes of this name schedule in 8,500 s: arrivals, and operations that follow them.
fn scheduled_ops(workload: &mut RunPlan, name: &str) -> usize {
    let lanes = workload.shards.iter_mut().flat_map(|plan| &mut plan.lanes);
    lanes
        .filter(|lane| lane.name.starts_with(name))
        .map(|lane: &mut Lane| {
            instants(lane)
                .take_while(|ns| *ns < 8_500_000_000_000)
                .count()
                * chain(&mut *lane.stream).len()
        })
        .sum()
}

fn chain(stream: &mut dyn Stream) -> Vec<load::stream::IoRequest> {
    let first = stream.next().unwrap();
    std::iter::successors(Some(first), |request| {
        stream.on_completion(request, Outcome::Done)
    })
    .collect()
}

#[test]
fn rates_are_exact_totals_over_devices_and_shards() {
    for shards in [1, 2, 3] {
        let mut workload = build(&modified(config(), |it| it.shards = Some(shards)), 4);
        assert_eq!(workload.shards.len(), shards as usize);
        let found = scheduled_ops(&mut workload, "reads@");
        assert_eq!(found, 10 * 8_500, "a read for each client read and write");
        assert_eq!(
            scheduled_ops(&mut workload, "page-updates@"),
            2 * 5 * 8_500,
            "3 x 100 / 60 reads, and as many writes"
        );
    }
    let mut act = build(&modified(config(), |it| it.arrival = Arrivals::Act), 1);
    assert_eq!(scheduled_ops(&mut act, "service-threads"), 10 * 8_500);
    // 8 threads in bundles of 200 operations; each thread begins at once.
    assert!(scheduled_ops(&mut act, "cache-threads").abs_diff(2 * 5 * 8_500) <= 8 * 200);
}

#[test]
fn the_write_of_an_update_follows_its_read_on_the_same_device_and_is_counted_there() {
    let mut workload = build(&config(), 1);
    assert_eq!(lanes(&workload, "page-updates@").count(), 2);
    let Plan { lanes, buffers, .. } = &mut workload.shards[0];
    for (n, lane) in lanes
        .iter_mut()
        .filter(|lane| lane.name.starts_with("page-updates@"))
        .enumerate()
    {
        for _ in 0..1000 {
            let [read, write] = chain(&mut *lane.stream)[..] else {
                panic!("one read, one write")
            };
            assert_eq!((read.kind, write.kind), (OpKind::Read, OpKind::Write));
            for (request, cell) in [(read, n), (write, 2 + n)] {
                assert_eq!(usize::from(request.target), n);
                assert_eq!(request.cell as usize, cell);
                assert_eq!((request.len, request.offset % 4096), (4096, 0));
                assert!(request.offset < MIB);
                let buffers = &buffers[usize::from(request.buffers)];
                let found = matches!(buffers.fill, Fill::Fresh(_));
                assert_eq!(found, request.kind == OpKind::Write);
            }
        }
    }
}

#[test]
fn cache_threads_limit_the_page_updates_in_flight_with_any_number_of_shards() {
    for (threads, shards, arrival) in [
        (8, 1, Arrivals::Paced),
        (3, 2, Arrivals::Paced),
        (2, 4, Arrivals::Poisson),
    ] {
        let config = ActConfig {
            cache_threads: threads,
            shards: Some(shards),
            arrival,
            ..config()
        };
        let mut workload = build(&config, 4);
        let mut slots = 0;
        for plan in &workload.shards {
            let updates = plan
                .lanes
                .iter()
                .find(|lane| lane.name.starts_with("page-updates"));
            slots += updates.map_or(0, |lane| plan.limits[lane.limit as usize].slots);
        }
        assert_eq!(slots, threads);
        // A Poisson schedule has its rate on average only.
        let scheduled_ops = scheduled_ops(&mut workload, "page-updates@");
        let slack = if arrival == Arrivals::Poisson {
            4_000
        } else {
            0
        };
        assert!(scheduled_ops.abs_diff(85_000) <= slack, "{scheduled_ops}");
    }
    let act = build(
        &ActConfig {
            arrival: Arrivals::Act,
            cache_threads: 5,
            ..config()
        },
        1,
    );
    assert!(
        lanes(&act, "cache-threads")
            .all(|(plan, lane)| plan.limits[lane.limit as usize].slots == 1)
    );
    assert_eq!(lanes(&act, "cache-threads").count(), 5);
}

#[test]
fn there_is_a_read_buffer_for_every_slot_and_write_buffers_for_page_updates() {
    for arrival in [Arrivals::Paced, Arrivals::Act, Arrivals::Closed] {
        for plan in build(
            &ActConfig {
                arrival,
                shards: Some(2),
                ..config()
            },
            2,
        )
        .shards
        {
            let slots: u32 = plan.limits.iter().map(|limit| limit.slots).sum();
            assert_eq!(plan.buffers[0].count, slots, "all of them can read");
            let updates = plan
                .limits
                .iter()
                .rev()
                .take_while(|limit| limit.slots < 32)
                .map(|limit| limit.slots);
            let updates: u32 = updates.sum();
            assert!(
                plan.buffers[1..]
                    .iter()
                    .all(|class| class.count >= updates.min(8)),
                "{arrival}"
            );
        }
    }
}

#[test]
fn many_cache_threads_on_many_devices_take_little_memory() {
    let names = (0..16).map(|n| DeviceName::Path(format!("d{n}"))).collect();
    let many = ActConfig {
        device_names: names,
        cache_threads: 65_536,
        ..config()
    };
    let plan = &build(&many, 1).shards[0];
    let writes: usize = plan.buffers[1..]
        .iter()
        .map(|class| class.len_bytes * class.count as usize)
        .sum();
    assert_eq!(writes, 64 << 20);
}

#[test]
fn an_index_test_without_client_writes_has_no_page_updates() {
    let workload = build(&modified(config(), |it| it.write_reqs_per_sec = 0), 1);
    let streams: Vec<_> = workload
        .layout
        .streams
        .iter()
        .map(|stream| (&stream.name[..], stream.judged))
        .collect();
    assert_eq!(streams, [("reads", true)]);
    assert_eq!(lanes(&workload, "page-updates").count(), 0);
    let both = build(&config(), 1).layout.streams;
    assert_eq!((both[0].offered_iops, both[1].offered_iops), (15.0, 5.0));
    assert_eq!(both[1].name.as_str(), "writes");
    assert!(!both[1].judged, "no client waits for them");
}

#[test]
fn a_device_smaller_than_a_page_is_refused_with_its_name_and_size() {
    let device = DeviceShape::new("/dev/x", 0, 4095, 512);
    let error = build_on(&config(), &[device], 1).unwrap_err().to_string();
    assert_contains!(error, "/dev/x", "4095 bytes");
}
