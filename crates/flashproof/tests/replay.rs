//! `flashproof storage --replay`: traced operations reach the device again, with consent, recorded and judged.

use crate::support;
use crate::support::words;
use crate::trace::captured;

use device::observe::trace::{BlockTrace, EventKind, EventOp, TraceOptions};
use std::collections::BTreeMap;
use support::{Bench, LAX, LoopDevice, MIB, OUT, skip, totals};

/// Replays a captured second into [`OUT`].
fn replay<'a>(trace: &'a str, device: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [
        &[
            "storage", "--replay", trace, "--device", device, "--out", OUT, LAX[0], LAX[1],
        ],
        more,
    ]
    .concat()
}

#[test]
fn a_replay_on_a_simulated_drive_is_recorded_as_a_run() {
    let bench = Bench::new();
    let path = captured("ce-8.0.0.15-1s.txt.zst");
    let trace = path.to_str().unwrap();
    let ended = bench
        .flashproof(&replay(trace, "sim:", &["--speed", "0.5", "--repeat", "2"]))
        .expect(0);
    assert!(
        ended
            .stderr
            .contains("replay of 2,902 operations in 1.92 s, 2 times"),
        "{}",
        ended.stderr
    );
    let run = bench.run();
    for (stream, count) in [
        ("reads", 2_099),
        ("large-reads", 227),
        ("large-writes", 192),
        ("flushes", 384),
    ] {
        assert_eq!(totals(&run, stream), (2 * count, 0, 0), "{stream}");
    }
    // A trace of 0.960838 s, replayed twice at half the speed: 4 s.
    assert_eq!(
        (run.manifest.kind().as_str(), run.manifest.duration_sec),
        ("replay", 4)
    );
    assert!(
        run.manifest.workloads[0]
            .config
            .as_written
            .contains("large-reads: 227")
    );
    bench
        .flashproof(&["report", OUT])
        .expect_stdout(0, &["large-writes"]);
    let html = bench
        .flashproof(&["report", OUT, "--html", "page.html"])
        .expect(0);
    assert!(
        bench.text("page.html").contains("large-writes"),
        "{}",
        html.stderr
    );
}

#[test]
fn a_trace_of_a_replay_has_the_sizes_and_counts_of_the_replayed_trace() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 2048 * MIB, &[]) else {
        return;
    };
    // Late operations are issued together. Without nomerges, the kernel would merge adjacent operations.
    let _restored = device.set_queue("nomerges", "2");
    let path = captured("ce-4.9.0.37-1s.txt.gz");
    let mut kernel = match BlockTrace::start(
        &[device.number()],
        TraceOptions {
            complete: false,
            ..TraceOptions::default()
        },
    ) {
        Ok(kernel) => kernel,
        Err(error) => return skip(&error.to_string()).unwrap_or_default(),
    };
    let ended = bench
        .flashproof(&replay(
            path.to_str().unwrap(),
            &device.name,
            &["--speed", "0.25"],
        ))
        .expect(0);
    assert!(ended.stderr.contains("196, 25.7 MB"), "{}", ended.stderr);
    let lost = kernel.stop().unwrap();
    let mut counts: BTreeMap<(EventOp, u32), u64> = BTreeMap::new();
    kernel
        .read(&mut |event| {
            if event.kind == EventKind::Issue {
                *counts.entry((event.op, event.sectors)).or_default() += 1;
            }
        })
        .unwrap();
    assert!(lost.is_none() && kernel.lost().unwrap().is_none());
    // Counts by awk (README beside the data). Programs that open the device read other sizes, such as 4,096 bytes.
    for (bytes, count) in [
        (1_024, 289),
        (1_536, 12),
        (2_560, 286),
        (3_072, 12),
        (4_608, 272),
        (5_120, 29),
        (8_704, 285),
        (9_216, 13),
        (16_896, 285),
        (17_408, 3),
        (33_280, 301),
        (66_048, 299),
        (66_560, 2),
        (131_072, 158),
    ] {
        assert_eq!(
            counts.get(&(EventOp::Read, bytes / 512)),
            Some(&count),
            "{bytes} {counts:?}"
        );
    }
    let writes: Vec<_> = counts
        .iter()
        .filter(|((op, _), _)| *op == EventOp::Write)
        .collect();
    assert_eq!(writes, [(&(EventOp::Write, 256), &196)]);
    // The kernel combines flushes that are issued at the same time.
    let flushes = counts.get(&(EventOp::Flush, 0)).copied().unwrap_or(0);
    assert!((1..=392).contains(&flushes), "{counts:?}");
    for (stream, count) in [
        ("reads", 2_088),
        ("large-reads", 158),
        ("large-writes", 196),
        ("flushes", 392),
    ] {
        assert_eq!(totals(&bench.run(), stream), (count, 0, 0), "{stream}");
    }
}

#[test]
fn a_trace_with_writes_needs_consent_and_a_read_only_trace_does_not() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    device.put(0, &b"precious".repeat(1 << 17));
    let before = device.content();
    let line = |at: u32, kind: &str| {
        format!(" a-1 [000] .... 1.{at:06}: block_rq_issue: 8,0 {kind} 4096 () {at} + 8 [a]\n")
    };
    let reads: String = (0..100).map(|n| line(n * 8, "R")).collect();
    bench.write("reads.txt", &reads);
    bench.write("writes.txt", reads.clone() + &line(0, "WS"));
    bench.write("discards.txt", reads + &line(0, "D"));
    for trace in ["writes.txt", "discards.txt"] {
        let refused = bench
            .flashproof(&replay(trace, &device.name, &[]))
            .expect(3);
        assert!(
            refused.stderr.contains(&device.name) && !bench.exists(OUT),
            "{}",
            refused.stderr
        );
        assert!(device.content() == before, "{trace}");
    }
    bench
        .flashproof(&replay("reads.txt", &device.name, &[]))
        .expect(0);
    assert!(device.content() == before);
    assert_eq!(totals(&bench.run(), "reads"), (100, 0, 0));
    let erased = [
        "storage",
        "--replay",
        "discards.txt",
        "--device",
        &device.name,
        "--erase",
        &device.name,
        "--out",
        "run2",
    ];
    bench.flashproof(&[&erased[..], &LAX].concat()).expect(0);
    assert!(
        device.content() != before,
        "with consent, the replay writes"
    );
}

#[test]
fn invalid_replays_are_refused_before_any_device_is_opened() {
    let bench = Bench::new();
    let issue = |device: &str, sector: u64| {
        format!(" a-1 [000] .... 1.5: block_rq_issue: {device} R 4096 () {sector} + 8 [a]\n")
    };
    bench.write("one.txt", issue("8,0", 8));
    bench.write("far.txt", issue("8,0", 8) + &issue("8,0", 1 << 40));
    bench.write(
        "two.txt",
        issue("8,0", 8) + &issue("8,16", 8) + &issue("8,16", 16),
    );
    bench.write(
        "sizeless.txt",
        "COMM PID TYPE DEV BLOCK BYTES LATms\nasd 7 R 8,0 100 0 0.1\n",
    );
    bench.write("test.conf", "device-names: sim:\n");
    for (arguments, words) in [
        (&["storage", "--replay", "one.txt"][..], "--device"),
        (
            &words("storage test.conf --replay one.txt --device sim:"),
            "cannot be used with",
        ),
        (&["storage"], "CONFIG"),
        (&["storage", "test.conf", "--fit"], "--replay"),
        (&["index", "--replay", "one.txt"], "unexpected argument"),
        (
            &["storage", "--replay", "none.txt", "--device", "sim:"],
            "check the path",
        ),
        (
            &["storage", "--replay", "sizeless.txt", "--device", "sim:"],
            "the trace has no size for 1 of its operations",
        ),
        (
            &[
                "storage", "--replay", "one.txt", "--device", "sim:", "--speed", "0",
            ],
            "above 0",
        ),
        (
            &["storage", "--replay", "two.txt", "--device", "sim:"],
            "the trace has 2 devices: 8,0 (1 operation), 8,16 (2 operations); --device names 1 -",
        ),
        (
            &[
                "storage", "--replay", "two.txt", "--device", "sim:", "--device", "sim:",
            ],
            "is given twice",
        ),
        (
            &words("storage --replay far.txt --device sim:capacity=1GiB --out run"),
            "give --fit to wrap their offsets around",
        ),
    ] {
        let ended = bench.flashproof(arguments).expect(2);
        assert!(
            ended.stderr.contains(words),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
    assert!(!bench.exists(OUT));
    let two =
        words("storage --replay two.txt --device sim:capacity=1GiB --device sim:capacity=2GiB");
    bench
        .flashproof(&[&two[..], &["--out", "two"], &LAX].concat())
        .expect(0);
    let run = results::run_dir::read(&bench.path("two")).unwrap();
    let settings = &run.manifest.workloads[0].config.settings;
    assert!(
        settings.contains(&("8,16".to_owned(), "sim:capacity=2GiB".to_owned())),
        "{settings:?}"
    );
    assert_eq!(totals(&run, "reads"), (3, 0, 0));
    let fit = words("storage --replay far.txt --device sim:capacity=1GiB --fit --out run");
    bench.flashproof(&[&fit[..], &LAX].concat()).expect(0);
    assert_eq!(totals(&bench.run(), "reads"), (2, 0, 0));
    let settings = &bench.run().manifest.workloads[0].config.settings;
    assert!(
        settings
            .iter()
            .any(|(name, value)| name.starts_with("moved@") && value == "1"),
        "{settings:?}"
    );
}
