//! A replay issues exactly the trace, to the nanosecond, for any number of shards.

use super::*;
use crate::factor::Factor;
use crate::plan::Plan;
use crate::testing::{instants, planned, seen_by_a_drive};
use EventOp::*;
use device::discover::DeviceNumber;
use device::observe::trace::{BlockRequest as Traced, EventOp, Flags, TraceText};
use results::testing::modified;
use sys::op::Op;

const MS: u64 = 1_000_000;

fn traced(at_ns: u64, op: EventOp, sector: u64, sectors: u32) -> Traced {
    Traced {
        device: DeviceNumber::new(7, 0),
        op,
        sector,
        sectors,
        issued_ns: Some(at_ns + 100),
        queued_ns: Some(at_ns),
        ..Traced::default()
    }
}

/// A few hundred operations of every kind, in completion order, which differs from the order of their instants.
fn requests() -> Vec<Traced> {
    (0..400)
        .map(|n: u64| {
            let at_ns = 77 * MS + n * n % 1_000 * MS + n;
            match n % 11 {
                0 => traced(at_ns, Write, n * 256, 256),
                1 => traced(at_ns, Flush, 0, 0),
                2 => traced(at_ns, Discard, n * 8, 2_048),
                3 => Traced {
                    flags: Flags {
                        fua: true,
                        ..Flags::default()
                    },
                    ..traced(at_ns, Write, n * 8, 8)
                },
                4 => traced(at_ns, Read, n * 256, 512),
                5 => traced(at_ns, Other, 0, 0),
                _ => traced(at_ns, Read, n * 8 + n % 8, 1 + (n % 17) as u32),
            }
        })
        .collect()
}

fn trace(requests: &[Traced], speed: &str) -> Result<Trace, CannotRun> {
    let mut builder = TraceBuilder::default();
    requests
        .iter()
        .try_for_each(|request| builder.add(request))?;
    builder.build(speed.parse::<Factor>().unwrap())
}

fn replay(speed: &str, laps: u32) -> Replay {
    on_sim(trace(&requests(), speed).unwrap(), laps, false)
}

fn replay_of(requests: &[Traced]) -> Replay {
    on_sim(trace(requests, "1").unwrap(), 1, false)
}

fn on_sim(trace: Trace, laps: u32, fit: bool) -> Replay {
    let devices = trace
        .devices()
        .iter()
        .map(|_| "sim:".parse().unwrap())
        .collect();
    Replay::new(trace, devices, laps, fit).unwrap()
}

fn shape(size_bytes: u64, min_io_bytes: u32) -> DeviceShape {
    DeviceShape::new("sim:", 0, size_bytes, min_io_bytes)
}

fn plan(
    replay: &Replay,
    device: DeviceShape,
    shards_max: u32,
) -> Result<(RunPlan, WorkloadRecord), CannotRun> {
    planned(replay, &[device], shards_max)
}

/// An operation that reached a drive: instant, kind, first byte, bytes, FUA.
type Seen = (u64, &'static str, u64, u32, bool);

fn word(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Read => "read",
        OpKind::Write => "write",
        OpKind::Flush => "flush",
        OpKind::Deallocate => "discard",
        OpKind::FlushFile | OpKind::WriteBack(_) => unreachable!("no trace has these"),
    }
}

/// Expected requests at a drive of 512-byte units, from the trace alone.
fn expected(speed: u64) -> Vec<Seen> {
    let requests = requests();
    let first = requests
        .iter()
        .filter(|request| request.op != Other)
        .filter_map(Traced::requested_ns)
        .min()
        .unwrap();
    let mut seen: Vec<Seen> = requests
        .iter()
        .filter_map(|request| {
            let kind = match request.op {
                Read => "read",
                Write => "write",
                Flush => "flush",
                Discard => "discard",
                Other => return None,
            };
            let at_ns = (request.requested_ns()? - first) / speed;
            Some((
                at_ns,
                kind,
                request.sector * 512,
                request.sectors * 512,
                request.flags.fua,
            ))
        })
        .collect();
    seen.sort_unstable();
    seen
}

/// Requests of a plan's lanes, in the order of time.
fn scheduled_ops(plan: RunPlan) -> Vec<Seen> {
    let mut seen = Vec::new();
    for mut lane in plan.shards.into_iter().flat_map(|plan: Plan| plan.lanes) {
        for at_ns in instants(&lane) {
            let request = lane.stream.next().expect("an operation for each instant");
            seen.push((
                at_ns,
                word(request.kind),
                request.offset,
                request.len,
                request.sync.is_on(),
            ));
        }
        assert!(
            lane.stream.next().is_none(),
            "an instant for each operation"
        );
    }
    seen.sort_unstable();
    seen
}

fn places(plan: RunPlan) -> Vec<(u64, u32)> {
    scheduled_ops(plan)
        .into_iter()
        .map(|(_, _, offset, len, _)| (offset, len))
        .collect()
}

#[test]
fn any_number_of_shards_together_replays_exactly_the_trace() {
    let (one, record) = plan(&replay("1", 1), shape(1 << 30, 512), 1).unwrap();
    assert_eq!(scheduled_ops(one), expected(1));
    let settings = &record.config.settings;
    let of = |name: &str| {
        settings
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    };
    assert_eq!(of("operations"), Some("364"));
    assert_eq!(of("left-out"), Some("36"));
    assert_eq!(of("rounded@sim:"), Some("0"));
    let half = replay("2", 1);
    assert_eq!(
        scheduled_ops(plan(&half, shape(1 << 30, 512), 1).unwrap().0),
        expected(2)
    );
    // Too dense for one thread.
    let dense = replay("100000", 1);
    let (plan, _) = plan(&dense, shape(1 << 30, 512), 3).unwrap();
    assert_eq!(plan.shards.len(), 3);
    assert_eq!(scheduled_ops(plan), expected(100_000));
    let laps = scheduled_ops(
        self::plan(&replay("1", 3), shape(1 << 30, 512), 1)
            .unwrap()
            .0,
    );
    let lap_ns = replay("1", 1).trace.span_ns;
    let mut thrice: Vec<Seen> = (0..3)
        .flat_map(|lap| {
            expected(1)
                .into_iter()
                .map(move |seen| (seen.0 + lap * lap_ns, seen.1, seen.2, seen.3, seen.4))
        })
        .collect();
    thrice.sort_unstable();
    assert_eq!(laps, thrice);
}

#[test]
fn on_virtual_time_each_operation_reaches_the_drive_at_its_instant() {
    let replay = replay("1", 1);
    let (plan, _) = plan(&replay, shape(1 << 30, 512), 1).unwrap();
    let see = |now_ns, op: &Op| (now_ns, word(op.kind), op.offset, op.len, op.sync.is_on());
    let (layout, counted, mut seen) = seen_by_a_drive(plan, replay.spec().duration_sec, 0, see);
    seen.sort_unstable();
    assert_eq!(seen, expected(1));
    let names: Vec<_> = layout
        .streams
        .iter()
        .map(|stream| (stream.name.as_str(), stream.judged))
        .collect();
    let streams = [
        "reads",
        "writes",
        "large-reads",
        "large-writes",
        "flushes",
        "discards",
    ];
    assert_eq!(names, streams.map(|name| (name, name == "reads")));
    let of = |class: Class| replay.trace.totals(class).0;
    assert_eq!(
        counted,
        replay
            .trace
            .classes()
            .into_iter()
            .map(of)
            .collect::<Vec<_>>()
    );
}

#[test]
fn requests_are_widened_to_whole_units_of_a_coarser_device_and_counted() {
    let requests = [
        traced(0, Read, 7, 2),
        traced(1, Read, 8, 8),
        traced(2, Read, 17, 17),
    ];
    let (plan, record) = plan(&replay_of(&requests), shape(1 << 20, 4096), 1).unwrap();
    assert_eq!(places(plan), [(0, 8192), (4096, 4096), (8192, 12_288)]);
    assert!(
        record
            .config
            .settings
            .contains(&("rounded@sim:".to_owned(), "2".to_owned())),
        "{record:?}"
    );
}

#[test]
fn requests_beyond_the_end_of_a_smaller_device_are_refused_or_wrapped() {
    let requests = [
        traced(0, Read, 0, 8),
        traced(1, Read, 2_048, 8),
        traced(2, Read, 2_047, 8),
    ];
    let replay = replay_of(&requests);
    let refused = plan(&replay, shape(1 << 20, 512), 1)
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        "cannot replay on sim: - 2 operations of the trace lie beyond the device's 1048576 bytes, up to byte 1052672 - \
         use a larger device, or give --fit to wrap their offsets around to the start of the device"
    );
    let fit = modified(replay, |it| it.fit = true);
    let tiny = plan(&fit, shape(2_048, 512), 1).unwrap_err().to_string();
    assert!(
        tiny.contains("its 2048 bytes do not hold an operation of 4096 bytes"),
        "{tiny}"
    );
    let (plan, _) = plan(&fit, shape(1 << 20, 512), 1).unwrap();
    assert_eq!(places(plan), [(0, 4096), (0, 4096), (2_040 * 512, 4096)]);
}

#[test]
fn a_trace_that_cannot_be_replayed_is_refused_with_the_reason() {
    let why = |requests: &[Traced]| trace(requests, "1").unwrap_err().to_string();
    assert_eq!(why(&[]), "the trace has no read, write, flush or discard");
    assert!(
        why(&[traced(1, Read, 8, 0)]).contains("the trace has no size for 1 of its operations")
    );
    let timeless = Traced {
        issued_ns: None,
        queued_ns: None,
        ..traced(0, Read, 8, 8)
    };
    let at_zero = Traced {
        issued_ns: Some(0),
        ..timeless
    };
    assert!(trace(&[at_zero], "1").is_ok(), "0 is a time");
    assert!(why(&[timeless]).contains("the trace has no start time for 1 of its operations"));
    assert!(why(&[traced(1, Read, u64::MAX, 8)]).contains("beyond the end of any device"));
    assert!(
        why(&[traced(1, Read, 0, 1 << 18)])
            .contains("has 134217728 bytes, more than the maximum of 33554432")
    );
    assert!(why(&[traced(1, Discard, 0, u32::MAX)]).contains("the trace is damaged"));
    let far = trace(
        &[traced(1, Read, 0, 8), traced(u64::MAX / 2, Read, 0, 8)],
        "0.5",
    )
    .unwrap();
    let far = Replay::new(far, vec!["sim:".parse().unwrap()], 1, false)
        .unwrap_err()
        .to_string();
    assert!(far.contains("more than 4294967295 s"), "{far}");
}

#[test]
fn the_sector_of_a_flush_is_ignored() {
    let replay = replay_of(&[traced(0, Flush, u64::MAX, 8)]);
    let (plan, _) = plan(&replay, shape(1 << 20, 4096), 1).unwrap();
    assert_eq!(scheduled_ops(plan), [(0, "flush", 0, 0, false)]);
}

#[test]
fn large_operations_get_fewer_slots_to_bound_their_memory_and_the_record_names_them() {
    for (op, mib, in_flight) in [
        (Read, 1, None),
        (Read, 4, Some("8")),
        (Write, 4, Some("4")),
        (Read, 32, Some("1")),
    ] {
        let replay = replay_of(&[traced(0, op, 0, mib << 11), traced(1, op, 0, 256)]);
        let (plan, record) = plan(&replay, shape(1 << 30, 4096), 1).unwrap();
        let bytes = plan.shards[0].buffer_bytes();
        assert!(
            (8 << 20..=32 << 20).contains(&bytes),
            "{bytes} for {mib} MiB"
        );
        let told = record
            .config
            .settings
            .iter()
            .find(|(name, _)| name.starts_with("in-flight-max@large-"));
        assert_eq!(told.map(|(_, count)| count.as_str()), in_flight);
    }
}

#[test]
fn a_trace_without_small_reads_is_judged_by_its_other_operations() {
    let judged = |requests: &[Traced]| trace(requests, "1").unwrap().judged().map(Class::name);
    let flush = traced(0, Flush, 0, 0);
    let large = traced(1, Write, 0, 256);
    assert_eq!(judged(&[flush, large]), Some("large-writes"));
    assert_eq!(judged(&[flush]), Some("flushes"));
    let found = judged(&[flush, large, traced(2, Write, 0, 255)]);
    assert_eq!(found, Some("writes"));
}

/// Lines of every supported trace format.
const LINES: [&str; 9] = [
    "    asd-17665   [001] .....  10.000001: block_rq_issue: 7,2 RS 8704 () 1293793 + 17 be,0,4 [asd]",
    "    ftl-24883   [001] ..s1.  10.000091: block_rq_complete: 7,2 RS () 1293793 + 17 be,0,4 [0]",
    "    asd-17665   [000] .....  10.000101: block_bio_queue: 7,2 FWFS 64 + 256 [asd]",
    "    asd-17665   [000] .....  10.000102: block_rq_issue: 7,2 WS 131072 () 64 + 256 [asd]",
    "    asd 17665 [001]  10.000201: block:block_rq_issue: 7,2 D 8704 () 0 + 1024 [asd]",
    "CPU:1 [LOST 532 EVENTS]",
    "  7,2    1        3     11.000004000 17665  D  RS 1293793 + 17 [asd]",
    "STARTs COMM PID TYPE DEV BLOCK BYTES QUEms LATms",
    "12.500000 a b 7 R 7,2 8 1048576 0.020 0.400",
];

#[test]
fn every_damaged_text_is_refused_or_can_be_planned() {
    let whole = LINES.join("\n");
    let mut random = Random::new(11);
    let mut read_well = 0;
    for _ in 0..20_000 {
        let mut text = whole.clone().into_bytes();
        for _ in 0..1 + random.below(4) {
            let at = random.below(text.len() as u64) as usize;
            match random.below(4) {
                0 => text[at] = random.below(256) as u8,
                1 => text[at] = b"0123456789+,.:[]()- \n"[random.below(21) as usize],
                2 => drop(text.splice(at..at, b"99999999".iter().copied())),
                _ => drop(text.drain(at..(at + random.below(20) as usize).min(text.len()))),
            }
        }
        let mut builder = TraceBuilder::default();
        let mut added = Ok(());
        let read = TraceText::read(&text[..], &mut |request| {
            if added.is_ok() {
                added = builder.add(&request);
            }
        });
        let Ok(trace) = added.and_then(|()| builder.build(Factor::ONE)) else {
            continue;
        };
        assert!(read.is_ok());
        let devices: Vec<_> = trace
            .devices()
            .iter()
            .map(|_| "sim:".parse().unwrap())
            .collect();
        let Ok(replay) = Replay::new(trace, devices, 2, true) else {
            continue;
        };
        let shapes: Vec<_> = (0..replay.devices.len() as u16)
            .map(|target| modified(shape(1 << 33, 4096), |it| it.target = target))
            .collect();
        for (at_ns, _, offset, len, _) in scheduled_ops(planned(&replay, &shapes, 1).unwrap().0) {
            assert!(
                at_ns < replay.spec().duration_sec * NS_PER_SEC
                    && offset + u64::from(len) <= 1 << 33
            );
        }
        read_well += 1;
    }
    assert!(read_well > 10_000, "{read_well}");
}
