//! Traces of loop devices with known requests.

use super::*;
use crate::observe::diskstats::{self, Counters};
use crate::observe::test_loop::LoopDevice;
use results::testing::modified;
use std::time::Duration;
use sys::process::monotonic_ns;

fn start(devices: &[DeviceNumber], options: TraceOptions) -> Option<BlockTrace> {
    match BlockTrace::start(devices, options) {
        Ok(trace) => Some(trace),
        Err(
            error @ (TraceError::NotPermitted { .. }
            | TraceError::NoTracefs { .. }
            | TraceError::NoEvent { .. }),
        ) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn drain(trace: &mut BlockTrace) -> Vec<TraceEvent> {
    let mut events = Vec::new();
    while trace.read(&mut |event| events.push(event)).unwrap() > 0 {}
    sort_by_time(&mut events);
    events
}

fn counters(device: &LoopDevice) -> Counters {
    let disks = diskstats::read("/".as_ref()).unwrap();
    disks
        .into_iter()
        .find(|disk| disk.device == device.number())
        .expect("a loop device has statistics")
        .counters
}

/// 23 reads of 512 to 5,632 bytes, at distances that prevent merges.
fn reads_23() -> impl Iterator<Item = (u64, usize)> {
    (0..23).map(|index| (index * 65_536 + 1024, 512 * (1 + index as usize % 11)))
}

#[test]
fn trace_diskstats_and_program_all_count_23_reads() {
    let Some(device) = LoopDevice::make(4 << 20) else {
        return;
    };
    let options = modified(TraceOptions::default(), |it| it.queue = true);
    let Some(mut trace) = start(&[device.number()], options) else {
        return;
    };
    let before = counters(&device);
    let started_ns = monotonic_ns();
    device.read_direct(reads_23());
    let ended_ns = monotonic_ns();
    assert!(trace.stop().unwrap().is_none());
    let events = drain(&mut trace);
    assert!(trace.lost().unwrap().is_none());

    for kind in [EventKind::Queue, EventKind::Issue] {
        let seen: Vec<_> = events.iter().filter(|event| event.kind == kind).collect();
        let places: Vec<_> = seen
            .iter()
            .map(|event| (event.sector * 512, event.sectors as usize * 512))
            .collect();
        assert_eq!(places, reads_23().collect::<Vec<_>>(), "{kind:?}");
        for event in seen {
            assert_eq!(event.op, EventOp::Read);
            assert_eq!(event.device, device.number());
            assert_eq!(event.error, 0);
            assert!(
                (started_ns..=ended_ns).contains(&event.time_ns),
                "another clock: {event:?}"
            );
        }
    }
    let completed: Vec<_> = events
        .iter()
        .filter(|event| event.kind == EventKind::Complete)
        .collect();
    assert_eq!(completed.len(), 23);
    assert!(completed.iter().all(|event| event.error == 0));

    // The kernel wakes the reader before it counts the request, so the last request may be counted late.
    let expected_sectors = reads_23().map(|(_, bytes)| bytes as u64 / 512).sum::<u64>();
    for _ in 0..1_000 {
        if counters(&device).since(&before).unwrap().read.completed >= 23 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let delta = counters(&device).since(&before).unwrap();
    assert_eq!(delta.read.completed, 23);
    assert_eq!(delta.read.sectors, expected_sectors);
    assert_eq!(delta.read.merged, 0);
    assert_eq!(delta.write.completed, 0);
}

#[test]
fn other_devices_are_filtered_out_in_the_kernel() {
    let [Some(watched), Some(also), Some(other)] = [(); 3].map(|()| LoopDevice::make(1 << 20))
    else {
        return;
    };
    let options = modified(TraceOptions::default(), |it| it.complete = false);
    let Some(mut trace) = start(&[watched.number(), also.number()], options) else {
        return;
    };
    other.read_direct([(0, 4096), (8192, 4096)]);
    watched.read_direct([(0, 4096)]);
    also.read_direct([(4096, 4096)]);
    trace.stop().unwrap();
    let seen: Vec<_> = drain(&mut trace)
        .iter()
        .map(|event| (event.device, event.sector))
        .collect();
    assert_eq!(seen, [(watched.number(), 0), (also.number(), 8)]);
}

#[test]
fn events_read_and_events_lost_add_up_to_all_events() {
    let Some(device) = LoopDevice::make(1 << 20) else {
        return;
    };
    // Two cases of too little memory: a small total for all CPUs, and a small limit per CPU.
    for (buffer_bytes, cpu_buffer_bytes) in [(8 << 10, u64::MAX), (64 << 20, 4 << 10)] {
        let options = TraceOptions {
            buffer_bytes,
            cpu_buffer_bytes,
            complete: false,
            ..TraceOptions::default()
        };
        let Some(mut trace) = start(&[device.number()], options) else {
            return;
        };
        let reads = 3_000;
        device.read_direct((0..reads).map(|index| (index % 128 * 8192, 4096)));
        trace.stop().unwrap();
        let read = drain(&mut trace).len() as u64;
        let lost = trace.lost().unwrap();
        assert!(
            read > 0 && lost.events() > 0 && lost.gaps > 0,
            "{read} read, {lost:?}"
        );
        assert_eq!(read + lost.events(), reads, "{lost:?}");
    }
}

#[test]
fn reading_during_the_trace_loses_no_event_and_repeats_none() {
    let Some(device) = LoopDevice::make(1 << 20) else {
        return;
    };
    let Some(mut trace) = start(&[device.number()], TraceOptions::default()) else {
        return;
    };
    let mut issued = Vec::new();
    for round in 0..50 {
        device.read_direct((0..20).map(|index| ((round + index) % 128 * 8192, 4096)));
        trace
            .read(&mut |event| {
                issued.extend((event.kind == EventKind::Issue).then_some(event.sector))
            })
            .unwrap();
    }
    trace.stop().unwrap();
    trace
        .read(&mut |event| issued.extend((event.kind == EventKind::Issue).then_some(event.sector)))
        .unwrap();
    assert_eq!(issued.len(), 1_000);
    assert!(trace.lost().unwrap().is_none());
}

#[test]
fn a_dropped_trace_leaves_no_instance_behind() {
    let Some(trace) = start(&[DeviceNumber::new(7, 0)], TraceOptions::default()) else {
        return;
    };
    let path = trace.instance.path("tracing_on");
    // The instance owns its private mount, so the check after its end needs another mount.
    let elsewhere = Tracefs::find().unwrap();
    let name = path.parent().and_then(Path::file_name).unwrap().to_owned();
    assert!(elsewhere.instances().join(&name).exists());
    drop(trace);
    assert!(!elsewhere.instances().join(&name).exists());
}

#[test]
fn the_trace_instance_of_a_killed_run_is_removed_by_the_next_run() {
    let Ok(tracefs) = Tracefs::find() else {
        return eprintln!("skipped: tracing needs root");
    };
    let mut killed = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let left = tracefs
        .instances()
        .join(format!("flashproof-{}-0", killed.id()));
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("events/block/block_rq_issue/enable"), "1").unwrap();
    drop(start(&[DeviceNumber::new(7, 77)], TraceOptions::default()));
    let spared_while_alive = left.exists();
    killed.kill().unwrap();
    killed.wait().unwrap();
    drop(start(&[DeviceNumber::new(7, 77)], TraceOptions::default()));
    let gone = !left.exists();
    let _ = std::fs::remove_dir(&left);
    assert!(
        spared_while_alive && gone,
        "alive: {spared_while_alive}, gone: {gone}"
    );
}

#[test]
fn a_trace_that_fails_to_start_leaves_no_instance_behind() {
    let Ok(tracefs) = Tracefs::find() else {
        return eprintln!("skipped: tracing needs root");
    };
    let own = format!("flashproof-{}-", std::process::id());
    // A petabyte of buffers cannot be allocated, so the start fails halfway.
    let options = modified(TraceOptions::default(), |it| it.buffer_bytes = 1 << 50);
    let error = BlockTrace::start(&[DeviceNumber::new(7, 77)], options).unwrap_err();
    assert!(
        matches!(
            error,
            TraceError::Io {
                doing: "sizing the trace buffer",
                ..
            }
        ),
        "{error}"
    );
    let TraceError::Io { path, .. } = error else {
        unreachable!()
    };
    let name = path.parent().and_then(Path::file_name).unwrap().to_owned();
    assert!(name.to_string_lossy().starts_with(&own));
    assert!(!tracefs.instances().join(name).exists());
}

#[test]
fn a_trace_without_a_device_is_refused() {
    assert!(matches!(
        BlockTrace::start(&[], TraceOptions::default()),
        Err(TraceError::NoDevice)
    ));
}

#[test]
fn an_error_for_lack_of_permission_says_to_run_as_root() {
    let refusal = io::Error::from_raw_os_error(libc::EACCES);
    let error = TraceError::from_io(
        "making the trace instance",
        "/sys/kernel/tracing".as_ref(),
        refusal,
    );
    let text = error.to_string();
    assert!(matches!(error, TraceError::NotPermitted { .. }));
    assert!(
        text.contains("/sys/kernel/tracing")
            && text.contains("run as root")
            && !text.contains('\n'),
        "{text}"
    );
}

#[test]
fn a_line_of_the_statistics_is_found_only_by_its_whole_name() {
    let text = "entries: 4\noverrun: 17\ncommit overrun: 3\nnow ts: 9.1\ndropped events: 5\n";
    assert_eq!(stat(text, "overrun"), 17);
    assert_eq!(stat(text, "commit overrun"), 3);
    assert_eq!(stat(text, "dropped events"), 5);
    assert_eq!(stat(text, "bytes"), 0);
}

const PAGE: &[u8] = include_bytes!("recorded/page.bin");
const HEADER_PAGE: &str = include_str!("recorded/header_page.txt");
const ISSUE: &str = include_str!("recorded/block_rq_issue_format.txt");
const COMPLETE: &str = include_str!("recorded/block_rq_complete_format.txt");

/// A page and its format descriptions from Linux 6.18 on x86-64, compared with the kernel's `trace` file.
///
/// Recorded on a loop device (7:1) and one CPU: a read of 4,096 bytes at offset 8,192; 0.3 s later (a time extend
/// record) a read of 1,536 bytes at offset 65,536; a write of 512 bytes at offset 512.

#[test]
fn a_recorded_page_gives_the_events_that_the_kernel_printed() {
    if cfg!(target_endian = "big") {
        return eprintln!("skipped: the page was recorded on a little-endian machine");
    }
    let layout = PageLayout::parse(HEADER_PAGE).unwrap();
    let decoder = RecordDecoder::new(&[
        (EventKind::Issue, ISSUE.to_owned()),
        (EventKind::Complete, COMPLETE.to_owned()),
    ])
    .unwrap();
    let mut events = Vec::new();
    let mut decode = |time_ns, record: &[u8]| {
        events.extend(decoder.decode(time_ns, 0, record).expect("a whole record"))
    };
    assert!(!layout.records(PAGE, &mut decode).unwrap(), "no gap");

    // The kernel printed times rounded to microseconds.
    let seen: Vec<_> = events
        .iter()
        .map(|event| {
            (
                (event.time_ns + 500) / 1_000,
                event.kind,
                event.op,
                event.sector,
                event.sectors,
            )
        })
        .collect();
    let expected = [
        (11_406_325_476, EventKind::Issue, EventOp::Read, 16, 8),
        (11_406_325_515, EventKind::Complete, EventOp::Read, 16, 8),
        (11_406_625_770, EventKind::Issue, EventOp::Read, 128, 3),
        (11_406_625_820, EventKind::Complete, EventOp::Read, 128, 3),
        (11_406_625_862, EventKind::Issue, EventOp::Write, 1, 1),
        (11_406_625_895, EventKind::Complete, EventOp::Write, 1, 1),
    ];
    assert_eq!(seen, expected);
    let alike = |event: &TraceEvent| {
        event.device == DeviceNumber::new(7, 1)
            && event.flags.sync
            && !event.flags.fua
            && !event.flags.preflush
    };
    assert!(
        events.iter().all(|event| alike(event) && event.error == 0),
        "{events:?}"
    );
}
