//! Tenants' requests reach the drive: counts, places and handles, on a drive that records its requests.

use super::*;
use load::testing::{choices, plan_on, seen_by_a_drive};
use proptest::prelude::*;
use results::assert_contains;
use results::testing::modified;
use sys::op::Op;

const TWO: &str = "
operations-per-sec = 30_000
duration-sec = 10
[defaults]
record-bytes = 1_024
[[tenant]]
name = \"a\"
weight = 2
write-block = \"64KiB\"
placement = 1
[[tenant]]
name = \"b\"
mix = \"ycsb-a\"
write-block = \"256KiB\"
placement = 2
defrag-placement = 3
keys = { hot-cold = { keys-pct = 20, traffic-pct = 80 } }
";

type Seen = (u64, OpKind, u64, u32, Option<u16>);

const DRIVE: &str = "sim:ftl+handles=3";

fn loads(text: &str) -> Vec<TenantLoad> {
    on(DRIVE, text)
}

fn on(drive: &str, text: &str) -> Vec<TenantLoad> {
    TenantLoad::all(
        Tenants::parse("t", text).unwrap(),
        Some(&drive.parse().unwrap()),
    )
    .unwrap()
}

fn shape(size_bytes: u64) -> DeviceShape {
    DeviceShape::new(DRIVE, 0, size_bytes, 4_096)
}

fn plan(loads: &[TenantLoad], device: &DeviceShape, shards_max: u32) -> Result<RunPlan, CannotRun> {
    let mut plan = plan_on(std::slice::from_ref(device));
    for (number, load) in loads.iter().enumerate() {
        plan.begin(number, &load.tenant().name);
        let choices = modified(choices(shards_max), |it| it.seed = 7 + number as u64);
        load.build(std::slice::from_ref(device), &choices, &mut plan)?;
    }
    Ok(plan)
}

/// Runs tenants. Returns each stream with the number of its recorded operations, and the requests at the drive.
fn ran(text: &str, size_bytes: u64) -> (Vec<(StreamInfo, u64)>, Vec<Seen>) {
    let loads = loads(text);
    let plan = plan(&loads, &shape(size_bytes), 1).unwrap();
    let (layout, counted, seen) = seen_by_a_drive(
        plan,
        loads[0].spec().duration_sec,
        100_000,
        |now_ns, op: &Op| {
            (
                now_ns,
                op.kind,
                op.offset,
                op.len,
                op.placement.map(|placement| placement.0),
            )
        },
    );
    (layout.streams.into_iter().zip(counted).collect(), seen)
}

#[test]
fn operations_reach_the_drive_with_the_configured_rates_spaces_and_handles() {
    let (streams, seen) = ran(TWO, 4 << 30);
    let names: Vec<_> = streams
        .iter()
        .map(|(info, _)| (info.name.clone(), info.judged, info.workload))
        .collect();
    let of = |(tenant, number)| {
        let names = ["reads", "writes", "defrag-reads", "defrag-writes"];
        names.map(|name| (format!("{tenant}/{name}"), name == "reads", number))
    };
    assert_eq!(names, [("a", 0), ("b", 1)].map(of).concat());
    for (info, count) in &streams {
        let expected = info.offered_iops * 10.0;
        // Counts of client operations are exact; counts of defragmentation depend on the model's random choices.
        let off = if info.name.contains("defrag") {
            (0.05 * expected).max(3.0 * expected.sqrt())
        } else {
            1.0
        };
        assert!(
            (*count as f64 - expected).abs() <= off,
            "{}: {count} of {expected}",
            info.name
        );
    }
    // The tenants have 20,000 and 10,000 operations per second, half of them writes, and 64 and 256 records per block.
    assert!(
        (1_562..=1_563).contains(&streams[1].1) && (195..=196).contains(&streams[5].1),
        "{streams:?}"
    );
    let counts = |stream: usize| streams[stream].1;
    for (tenant, range, block, handles) in [
        (0, 0..2 << 30, 64 << 10, [1, 1]),
        (1, 2 << 30..4 << 30, 256 << 10, [2, 3]),
    ] {
        let own = seen
            .iter()
            .filter(|(_, _, offset, ..)| range.contains(offset));
        let (blocks, records): (Vec<&Seen>, Vec<_>) =
            own.partition(|(_, _, _, len, _)| *len == block);
        assert!(
            blocks
                .iter()
                .all(|(_, _, offset, ..)| (offset - range.start) % u64::from(block) == 0)
        );
        assert!(records.iter().all(|(_, kind, offset, len, _)| {
            *kind == OpKind::Read && *len == 4_096 && offset + 4_096 <= range.end
        }));
        assert_eq!(records.len() as u64, counts(4 * tenant));
        let with = |handle: u16| blocks.iter().filter(|seen| seen.4 == Some(handle)).count() as u64;
        match handles {
            [1, 1] => assert_eq!(with(1), counts(1) + counts(3)),
            [client, defrag] => assert_eq!((with(client), with(defrag)), (counts(5), counts(7))),
        }
        let reads = blocks
            .iter()
            .filter(|(_, kind, .., placement)| *kind == OpKind::Read && placement.is_none());
        assert_eq!(reads.count() as u64, counts(4 * tenant + 2));
    }
    assert_eq!(ran(TWO, 4 << 30).1, seen, "same seed, same operations");
}

#[test]
fn a_tenant_without_reads_is_judged_by_its_writes_and_one_without_writes_needs_no_consent() {
    let text = "[[tenant]]\nname = \"w\"\nwrites-per-sec = 1000\n[[tenant]]\nname = \"r\"\nreads-per-sec = 1000\nplacement = 9\n";
    let loads = loads(text);
    assert_eq!([loads[0].writes(), loads[1].writes()], [true, false]);
    let streams = plan(&loads, &shape(1 << 30), 1).unwrap().layout.streams;
    let judged: Vec<_> = streams
        .iter()
        .filter(|info| info.judged)
        .map(|info| info.name.as_str())
        .collect();
    assert_eq!(judged, ["w/writes", "r/reads"]);
    assert_eq!(streams.len(), 4, "{streams:?}");
}

#[test]
fn missing_placement_handles_and_tenants_without_a_device_are_refused() {
    let refused = |drive: &str| {
        let shape = modified(shape(4 << 30), |it| it.name = drive.to_owned());
        plan(&on(drive, TWO), &shape, 1).unwrap_err().to_string()
    };
    assert_eq!(
        refused("sim:ftl+handles=2"),
        "tenant \"b\": cannot use placement handle 3 of sim:ftl+handles=2 - the drive has 2 - give the drive more \
         (\"sim:ftl+handles=4\"), leave out placement, or let tenants share handles"
    );
    for none in ["sim:", "sim:ftl"] {
        let refused = refused(none);
        assert_contains!(
            refused,
            &format!("cannot use placement handle 1 of {none} - the drive has 0")
        );
    }
    let real = TenantLoad::all(
        Tenants::parse("t", TWO).unwrap(),
        Some(&"/dev/x".parse().unwrap()),
    )
    .unwrap();
    let asked: Vec<_> = real
        .iter()
        .map(|load| load.placements(&load.device))
        .collect();
    assert_eq!(
        asked,
        [
            vec![Some(Placement(1)); 2],
            vec![Some(Placement(2)), Some(Placement(3))]
        ]
    );
    let none = TenantLoad::all(
        Tenants::parse("t", &TWO.replace("placement = 1\n", "")).unwrap(),
        Some(&"/dev/x".parse().unwrap()),
    );
    let found = none.unwrap()[0].placements(&"/dev/x".parse().unwrap());
    assert_eq!(found, [None; 2]);
    let nowhere = TenantLoad::all(Tenants::parse("t", TWO).unwrap(), None)
        .unwrap_err()
        .to_string();
    assert_eq!(
        nowhere,
        "tenant \"a\": it has no device - give --device DEVICE, or \"device\" in the file"
    );
    let small = plan(&loads(TWO), &shape(8 << 20), 1)
        .unwrap_err()
        .to_string();
    assert!(
        small.contains("tenant \"b\": cannot use a space of 16 write blocks of 262144 bytes"),
        "{small}"
    );
}

#[test]
fn several_threads_share_the_reads_and_tenants_take_turns() {
    let text = TWO.replace("30_000", "1_000_000");
    let plan = plan(&loads(&text), &shape(4 << 30), 4).unwrap();
    let lanes: Vec<Vec<_>> = plan
        .shards
        .iter()
        .map(|shard| shard.lanes.iter().map(|lane| lane.name.as_str()).collect())
        .collect();
    assert_eq!(
        lanes[0],
        [
            "a/reads@sim:ftl+handles=3",
            "a/writes@sim:ftl+handles=3",
            "b/reads@sim:ftl+handles=3"
        ]
    );
    assert_eq!(
        lanes[1],
        [
            "a/reads@sim:ftl+handles=3",
            "b/reads@sim:ftl+handles=3",
            "b/writes@sim:ftl+handles=3"
        ]
    );
    assert_eq!(
        lanes[2..],
        [["a/reads@sim:ftl+handles=3", "b/reads@sim:ftl+handles=3"]]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]
    #[test]
    fn no_operation_leaves_the_space_of_its_tenant(
        shift in 0_u32..4, fill in 5_u32..50, lwm in 20_u32..60, keys in 0_usize..4, reuse in 0_usize..3, start in 0_u64..64,
        record in 100_u32..9_000,
    ) {
        let keys = ["\"uniform\"", "\"sequential\"", "{ zipfian = { theta = 0.99 } }",
            "{ hot-cold = { keys-pct = 10, traffic-pct = 90 } }"][keys];
        let reuse = ["fifo", "lowest", "random"][reuse];
        let text = format!(
            "duration-sec = 1\n[[tenant]]\nname = \"a\"\nreads-per-sec = 500\nwrites-per-sec = 20000\nwrite-block = \"{}KiB\"\n\
             fill-pct = {fill}\ndefrag-lwm-pct = {lwm}\nkeys = {keys}\nreuse = \"{reuse}\"\nat = \"{start}MiB\"\nspace = \"64MiB\"\n\
             record-bytes = {record}\n",
            32 << shift
        );
        let loads = loads(&text);
        let device = shape(128 << 20);
        match plan(&loads, &device, 1) {
            Err(error) => prop_assert!(error.to_string().starts_with("tenant \"a\": "), "{}", error),
            Ok(_) => {
                let (_, seen) = ran(&text, 128 << 20);
                prop_assert!(seen.iter().any(|(_, kind, ..)| *kind == OpKind::Write));
                for (_, _, offset, len, _) in seen {
                    prop_assert!(offset >= start << 20 && offset + u64::from(len) <= (start + 64) << 20);
                }
            }
        }
    }
}
