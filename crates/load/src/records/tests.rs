use super::*;
use crate::testing::planned;

fn records(mix: Mix) -> RecordWorkload {
    RecordWorkload {
        target: DeviceName::simulated(),
        file_size_bytes: None,
        device_bytes_min: 0,
        keys: 1_000,
        first_key: 500,
        mix,
        next_key: Keys::Uniform,
        record_bytes: 1_024,
        batch_records: 1,
        depth: 7,
        rate: None,
        threads: 3,
        duration_sec: 1,
        seed: Some(1),
    }
}

fn built(records: &RecordWorkload) -> RunPlan {
    let shape = DeviceShape::new("test", 0, 1 << 30, 512);
    planned(records, &[shape], 8).unwrap().0
}

#[test]
fn an_insert_writes_each_key_once_over_all_shards_and_ends() {
    let run = built(&records(Mix::Insert));
    let depths: Vec<_> = run.shards.iter().map(|plan| plan.limits[0].slots).collect();
    assert_eq!(depths, [3, 2, 2], "seven in flight over three threads");
    let mut keys = Vec::new();
    for mut plan in run.shards {
        let stream = &mut plan.lanes[0].stream;
        while let Some(request) = stream.next() {
            assert_eq!((request.kind, request.len), (OpKind::Write, 1_024));
            keys.push(request.offset);
        }
        assert!(stream.next().is_none());
    }
    keys.sort_unstable();
    assert_eq!(keys, (500..1_500).collect::<Vec<_>>());
    assert_eq!(run.layout.streams.len(), 1, "an insert reads nothing");
}

#[test]
fn each_shard_reads_and_updates_only_its_keys_in_the_proportion_of_the_mix() {
    let run = built(&records(Mix::ReadUpdate { read_pct: 95 }));
    let reads = run.layout.cell(0, 0) as u32;
    let shards = run.shards.len() as u64;
    for (shard, mut plan) in (0..).zip(run.shards) {
        let requests: Vec<_> = (0..20_000)
            .filter_map(|_| plan.lanes[0].stream.next())
            .collect();
        let of_reads = requests
            .iter()
            .filter(|request| request.cell == reads)
            .count();
        assert!((18_800..19_200).contains(&of_reads), "{of_reads}");
        assert!(
            requests
                .iter()
                .all(|request| (request.kind == OpKind::Read) == (request.cell == reads))
        );
        assert!(
            requests
                .iter()
                .all(|request| (request.offset - 500) % shards == shard && request.offset < 1_500)
        );
    }
}

#[test]
fn lost_operations_are_divided_by_the_mix_and_each_lost_insert_counts_once() {
    let lost = |mix, arrivals| {
        let mut plan = built(&RecordWorkload {
            threads: 1,
            ..records(mix)
        })
        .shards
        .remove(0);
        let mut lost = [0; 2];
        plan.lanes[0]
            .stream
            .lose(arrivals, &mut |cell, count| lost[cell as usize] += count);
        plan.lanes[0]
            .stream
            .lose(arrivals, &mut |cell, count| lost[cell as usize] += count);
        lost
    };
    let found = lost(Mix::ReadUpdate { read_pct: 75 }, 4_000_000_000);
    assert_eq!(found, [6_000_000_000, 2_000_000_000]);
    assert_eq!(lost(Mix::Insert, 600), [1_000, 0]);
}

#[test]
fn a_mix_is_parsed_and_printed_as_in_aerospikes_benchmark_tools() {
    for (text, mix) in [
        ("I", Mix::Insert),
        ("RU,95", Mix::ReadUpdate { read_pct: 95 }),
        ("RU,100", Mix::ReadUpdate { read_pct: 100 }),
    ] {
        assert_eq!((text.parse(), mix.to_string()), (Ok(mix), text.to_owned()));
    }
    for wrong in ["", "RU,", "RU,101", "RU,-1", "RMU", "I,5", "RU,9.5"] {
        assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
    }
}

#[test]
fn a_batch_has_keys_of_its_shard_and_the_bytes_of_its_records() {
    let records = RecordWorkload {
        batch_records: 4,
        ..records(Mix::ReadUpdate { read_pct: 50 })
    };
    let keys = records.batch_keys(1);
    for shard in 0..3 {
        let mut next = keys(shard, 3);
        let drawn: Vec<_> = (0..1_000).map(|_| next()).collect();
        assert!(
            drawn
                .iter()
                .all(|key| (500..1_500).contains(key) && (key - 500) % 3 == shard as u64)
        );
        assert!(
            drawn
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len()
                > 200,
            "about 316 of 333"
        );
    }
    let mut plan = built(&records).shards.remove(0);
    let requests = (0..100).filter_map(|_| plan.lanes[0].stream.next());
    assert!(requests.into_iter().all(|of| of.len
        == if of.kind == OpKind::Read {
            4_096
        } else {
            1_024
        }));
}
