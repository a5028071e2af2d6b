//! Real-time runs on a loop device and on files: with every engine, flashproof and the kernel count each operation.

use crate::support;

use device::observe::trace::{
    BlockTrace, EventKind, EventOp, Pairing, TraceEvent, TraceOptions, sort_by_time,
};
use results::act_log::ActLogReader;
use results::judge::{Outcome, Sla, Verdict};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;
use support::{
    Bench, CONFIG, FLASHPROOF, Killed, LAX, LoopDevice, MIB, Nobody, OUT, Running, skip, tool,
    totals,
};

/// Sectors of a read of 1.5 KiB, a size that no other program reads.
const RECORD_SECTORS: u32 = 3;

fn load(device: &str, seconds: u32, more: &str) -> String {
    format!("device-names: {device}\ntest-duration-sec: {seconds}\n{more}\n")
}

/// A load on a file of 64 MiB that is written and read.
fn on_file(seconds: u32, more: &str) -> String {
    load("file", seconds, &format!("file-size-mbytes: 64\n{more}"))
}

fn ops(verdict: &Verdict, stream: &str) -> u64 {
    verdict
        .streams
        .iter()
        .find(|totals| totals.name == stream)
        .map_or(0, |totals| totals.ops)
}

/// Operations under the name `name` in the last chunk of the run's act.log.
fn in_act_log(bench: &Bench, name: &str) -> u64 {
    let bytes = bench.read("run/act.log");
    let mut reader = ActLogReader::new(&bytes[..]).unwrap();
    let names = reader.header().histogram_names.clone();
    let at = names
        .iter()
        .position(|known| known == name)
        .unwrap_or_else(|| panic!("{name} in {names:?}"));
    let mut total = 0;
    for chunk in reader.by_ref() {
        total = chunk.unwrap().histograms[at].total();
    }
    total
}

/// Runs `config` under a trace; returns the requests of a record's size. `None`, with a message: no trace allowed.
fn traced(bench: &Bench, device: &LoopDevice, config: &str) -> Option<Vec<TraceEvent>> {
    let mut trace = BlockTrace::start(
        &[device.number()],
        TraceOptions {
            buffer_bytes: 4 << 20,
            ..TraceOptions::default()
        },
    );
    bench.storage(config, &LAX).expect(0);
    let trace = match &mut trace {
        Ok(trace) => trace,
        Err(error) => return skip(&error.to_string()),
    };
    let lost = trace.stop().unwrap();
    let mut events = Vec::new();
    trace.read(&mut |event| events.push(event)).unwrap();
    assert!(lost.is_none() && trace.lost().unwrap().is_none());
    events.retain(|event| event.kind == EventKind::Issue && event.sectors == RECORD_SECTORS);
    Some(events)
}

#[test]
fn flashproof_kernel_and_trace_all_count_23_reads() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    for engine in ["uring", "aio", "threads"] {
        // The kernel also counts reads by programs that open the device. The difference of two runs excludes them.
        let reads = |rate: u32| {
            let before = device.counters();
            let config = load(
                &device.name,
                1,
                &format!("read-reqs-per-sec: {rate}\nengine: {engine}"),
            );
            let events = traced(&bench, &device, &config);
            let delta = device.counters().since(&before).unwrap();
            let rate = u64::from(rate);
            assert_eq!(totals(&bench.run(), "reads"), (rate, 0, 0));
            assert_eq!(in_act_log(&bench, "reads"), rate);
            if let Some(events) = events {
                assert_eq!(
                    events
                        .iter()
                        .filter(|event| event.op == EventOp::Read)
                        .count() as u64,
                    rate,
                    "traced"
                );
            }
            assert_eq!(delta.write.completed, 0, "the run only reads");
            fs::remove_dir_all(bench.path(OUT)).unwrap();
            delta.read
        };
        let one = reads(23);
        let two = reads(46);
        assert_eq!(
            two.completed + two.merged - one.completed - one.merged,
            23,
            "{engine}: {one:?} {two:?}"
        );
        assert_eq!(two.sectors - one.sectors, 23 * u64::from(RECORD_SECTORS));
        let probes = one.completed + one.merged - 23;
        assert!(
            probes < 16,
            "{probes} reads in addition to the 23 requested"
        );
    }
}

#[test]
fn flashproof_kernel_and_trace_all_count_23_commits() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    let before = device.counters();
    let config = load(
        &device.name,
        1,
        "write-reqs-per-sec: 23\ncommit-to-device: yes",
    );
    let events = traced(&bench, &device, &config);
    let delta = device.counters().since(&before).unwrap();
    let run = bench.run();
    assert_eq!(
        (totals(&run, "writes"), in_act_log(&bench, "writes")),
        ((23, 0, 0), 23)
    );
    if let Some(events) = events {
        let written: Vec<u64> = events
            .iter()
            .filter(|event| event.op == EventOp::Write)
            .map(|event| event.sector)
            .collect();
        assert_eq!(written.len(), 23, "traced");
        let places: std::collections::BTreeSet<u64> = written.into_iter().collect();
        assert!(
            places.len() > 15,
            "commits are all over the device: {places:?}"
        );
    }
    let large = ops(&run.verdict, "large-block-writes");
    // Before the first run, the device is only read, so every write belongs to the run.
    assert_eq!(
        delta.write.sectors,
        23 * u64::from(RECORD_SECTORS) + large * 256
    );
}

#[test]
fn the_requested_engine_is_used_and_recorded() {
    let bench = Bench::new();
    for (engine, named) in [
        ("threads", "threads"),
        ("uring", "io_uring"),
        ("aio", "aio"),
    ] {
        let ended = bench.storage(
            &on_file(
                1,
                &format!("read-reqs-per-sec: 50\nwrite-reqs-per-sec: 200\nengine: {engine}"),
            ),
            &LAX,
        );
        if engine != "threads" && ended.code == Some(3) {
            return skip(&ended.stderr).unwrap_or(());
        }
        let ended = ended.expect(0);
        assert_eq!(bench.json("manifest.json")["engine_facts"]["engine"], named);
        assert_eq!(
            bench.json("manifest.json")["engine_facts"]["why"],
            Value::Null,
            "no reason is recorded"
        );
        assert!(
            bench
                .text("run/act.log")
                .contains(&format!("engine: {engine}"))
        );
        assert!(ended.errors().is_empty());
        assert_eq!(totals(&bench.run(), "reads"), (50, 0, 0));
        fs::remove_dir_all(bench.path(OUT)).unwrap();
    }
}

#[test]
fn if_io_uring_is_forbidden_another_engine_is_used_with_a_warning() {
    let bench = Bench::new();
    let Some(nobody) = Nobody::new(&bench) else {
        return;
    };
    // An unprivileged process without locked memory (RLIMIT_MEMLOCK) gets no io_uring. Other processes still do.
    let Some(_) = tool("prlimit", &["--memlock=0", "true"]) else {
        return;
    };
    fs::create_dir(bench.path("theirs")).unwrap();
    fs::set_permissions(bench.path("theirs"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::File::create(bench.path("file"))
        .unwrap()
        .set_len(16 * MIB)
        .unwrap();
    let run = |engine: &str, out: &str| {
        bench.write(
            CONFIG,
            load(
                "file",
                1,
                &format!("read-reqs-per-sec: 50\nengine: {engine}"),
            ),
        );
        let mut command = bench.command("prlimit");
        command.arg("--memlock=0").args(nobody.command());
        command.args(["storage", CONFIG, "--out", out, LAX[0], LAX[1]]);
        Running::start(command).end()
    };
    let ended = run("auto", "theirs/run").expect(0);
    let facts = bench.json_file("theirs/run/manifest.json");
    if facts["engine_facts"]["engine"] == "io_uring" {
        return skip("this kernel lets everybody have a ring").unwrap_or(());
    }
    // Threads are used if the file system of the test's files supports no Linux AIO without blocking.
    let (engine, name) = match facts["engine_facts"]["engine"].as_str() {
        Some("aio") => ("aio", "Linux AIO"),
        _ => ("threads", "threads"),
    };
    assert_eq!(facts["engine_facts"]["engine"], engine);
    assert!(
        facts["engine_facts"]["why"]
            .as_str()
            .unwrap()
            .contains("see ulimit -l"),
        "{facts}"
    );
    let warning = format!("using {name} instead of io_uring, at a higher CPU cost: ");
    assert!(
        ended
            .warnings()
            .iter()
            .any(|line| line.starts_with(&warning)),
        "{}",
        ended.stderr
    );
    let parts = [
        "cannot use io_uring (engine: uring) - ",
        "see ulimit -l) - allow io_uring, or set engine: auto",
    ];
    run("uring", "theirs/other").expect_error(3, &parts);
    assert!(!bench.exists("theirs/other"));
}

#[test]
fn a_file_is_created_written_and_recognised_by_the_next_run() {
    let bench = Bench::new();
    let config = on_file(2, "read-reqs-per-sec: 100\nwrite-reqs-per-sec: 1000");
    let ended = bench.storage(&config, &LAX).expect(0);
    let unwritten = "file: 67108864 bytes of the file were never written";
    assert!(
        ended
            .warnings()
            .iter()
            .any(|line| line.starts_with(unwritten))
    );
    let run = bench.run();
    assert_eq!(totals(&run, "reads"), (200, 0, 0));
    // 85 records fill a block, and defragmentation doubles the writes.
    assert!(
        (47..=48).contains(&ops(&run.verdict, "large-block-writes")),
        "{:?}",
        run.verdict.streams
    );
    assert_eq!(fs::metadata(bench.path("file")).unwrap().len(), 64 * MIB);
    let facts = &bench.json("manifest.json")["device_facts"][0];
    assert_eq!(
        (&facts["used_bytes"], &facts["writable"]),
        (&Value::from(64 * MIB), &Value::from(true))
    );
    assert!(
        facts["direct"].is_boolean() && facts["odsync"] == true,
        "{facts}"
    );
    assert!(
        bench
            .text("run/telemetry.csv")
            .lines()
            .next()
            .unwrap()
            .contains("host.cpu_busy_pct")
    );
    // flashproof's own data needs no consent, even in a file that has grown. Other data does.
    fs::remove_dir_all(bench.path(OUT)).unwrap();
    bench.storage(&config, &LAX).expect(0);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(bench.path("file"))
        .unwrap();
    file.write_all_at(&[7; 4096], 0).unwrap();
    drop(file);
    fs::remove_dir_all(bench.path(OUT)).unwrap();
    bench
        .storage(&config, &LAX)
        .expect_error(3, &["refusing to write to file - ", "pass `--erase file`"]);
}

#[test]
fn each_setting_of_arrival_gives_the_expected_number_of_reads() {
    let bench = Bench::new();
    for arrival in ["paced", "poisson", "act", "closed"] {
        let config = on_file(
            2,
            &format!(
                "read-reqs-per-sec: 200\nwrite-reqs-per-sec: 400\nservice-threads: 2\narrival: {arrival}"
            ),
        );
        bench.storage(&config, &LAX).expect(0);
        let run = bench.run();
        let (done, failed, unissued) = totals(&run, "reads");
        assert_eq!((failed, unissued), (0, 0), "{arrival}");
        match arrival {
            "paced" | "act" => assert_eq!(done, 400, "{arrival}"),
            // Five standard deviations of the number of arrivals.
            "poisson" => assert!((300..500).contains(&done), "{done}"),
            _ => assert!(done > 400, "flat out: {done}"),
        }
        fs::remove_dir_all(bench.path(OUT)).unwrap();
    }
    let config = on_file(1, "read-reqs-per-sec: 50");
    bench
        .storage(&config, &[&["--as-act"], &LAX[..]].concat())
        .expect(0);
    assert!(bench.text("run/act.log").contains("\narrival: act\n"));
}

#[test]
fn all_streams_of_a_storage_test_run_together_without_errors() {
    let bench = Bench::new();
    let config = on_file(
        2,
        "read-reqs-per-sec: 100\nwrite-reqs-per-sec: 500\ncommit-to-device: yes\ntomb-raider: yes\n\
         tomb-raider-sleep-usec: 10000\nrecord-bytes: 600\nrecord-bytes-range-max: 5000\nreplication-factor: 2\n\
         compress-pct: 40\nmicrosecond-histograms: yes\npacing: spin\nshards: 1",
    );
    bench.storage(&config, &LAX).expect(0);
    let run = bench.run();
    assert_eq!(totals(&run, "reads").0, 200);
    for stream in [
        "writes",
        "large-block-reads",
        "large-block-writes",
        "tomb-raider",
    ] {
        let (done, failed, unissued) = totals(&run, stream);
        assert!(
            done > 0 && failed == 0 && unissued == 0,
            "{stream}: {:?}",
            run.verdict.streams
        );
    }
    let reads = run
        .verdict
        .streams
        .iter()
        .find(|stream| stream.name == "reads")
        .unwrap();
    let mean_bytes = reads.bytes / reads.ops;
    assert!(
        (1024..=5120).contains(&mean_bytes),
        "sizes between 1 and 5 KiB: {mean_bytes}"
    );
}

#[test]
fn the_largest_records_and_blocks_are_accepted() {
    let bench = Bench::new();
    let config = on_file(
        2,
        "read-reqs-per-sec: 4\nwrite-reqs-per-sec: 1\nrecord-bytes: 8388608\nlarge-block-op-kbytes: 8192\nservice-threads: 4",
    );
    bench.storage(&config, &LAX).expect(0);
    let run = bench.run();
    let reads = run
        .verdict
        .streams
        .iter()
        .find(|stream| stream.name == "reads")
        .unwrap();
    assert_eq!((reads.ops, reads.bytes, reads.errors), (8, 64 * MIB, 0));
    // Each record fills a block: one block write for the record, and one for its defragmentation.
    assert_eq!(totals(&run, "large-block-writes"), (4, 0, 0));
}

/// Arguments of `nice` for the processes that compete for the CPU.
const NICE: [&str; 2] = ["-n", "10"];

/// Busy loops, until dropped. Their niceness is [`NICE`], so that the kernel's work for a device has priority. A
/// program that should lack a CPU gets the same niceness.
fn busy(count: usize) -> Vec<Killed> {
    let start = || {
        Command::new("nice")
            .args(NICE)
            .args(["sh", "-c", "while :; do :; done"])
            .spawn()
            .unwrap()
    };
    (0..count).map(|_| Killed(start())).collect()
}

fn telemetry(bench: &Bench, name: &str) -> impl Iterator<Item = f64> {
    let text = bench.text("run/telemetry.csv");
    let column = text
        .lines()
        .next()
        .unwrap()
        .split(',')
        .position(|column| column == name)
        .unwrap();
    let values = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(column).unwrap().parse().unwrap());
    values.collect::<Vec<f64>>().into_iter()
}

#[test]
fn a_device_does_not_fail_because_flashproof_lacks_a_cpu() {
    const SECONDS: u32 = 4;
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    let busy = busy(4 * std::thread::available_parallelism().map_or(1, |cpus| cpus.get()));
    let options = TraceOptions {
        buffer_bytes: 64 << 20,
        queue: true,
        ..TraceOptions::default()
    };
    let mut trace = match BlockTrace::start(&[device.number()], options) {
        Ok(trace) => trace,
        Err(error) => return skip(&error.to_string()).unwrap_or_default(),
    };
    bench.write(
        CONFIG,
        load(
            &device.name,
            SECONDS,
            "read-reqs-per-sec: 20000\nservice-threads: 10",
        ),
    );
    let mut nice = bench.command("nice");
    nice.args(NICE)
        .args([FLASHPROOF, "storage", CONFIG, "--out", OUT]);
    let ended = Running::start(nice).end();
    drop(busy);
    let stopped = trace.stop().unwrap();
    let mut events = Vec::new();
    let mut pairing = Pairing::default();
    trace.read(&mut |event| events.push(event)).unwrap();
    let is_whole = stopped.is_none() && trace.lost().unwrap().is_none();
    sort_by_time(&mut events);
    events.iter().for_each(|event| pairing.add(event));
    let requests = pairing.requests();
    // By the block layer's times, the device has at most half of the slow requests that each limit allows.
    let is_quick = Sla::default().limits().iter().all(|limit| {
        let over = requests.iter().filter(|request| {
            request.queue_ns().unwrap_or(0) + request.device_ns.unwrap_or(0) >= limit.threshold_ns
        });
        !limit.is_exceeded(2 * over.count() as u64, requests.len() as u64)
    });
    let without_cpu = telemetry(&bench, "run_delay_ns").sum::<f64>() / (f64::from(SECONDS) * 1e9);
    let outcome = bench.run().verdict.outcome;
    println!(
        "{} requests, quick: {is_quick}; {:.0} % without a CPU; {outcome}",
        requests.len(),
        without_cpu * 100.0
    );
    if !is_whole || !is_quick || without_cpu < 0.2 {
        return skip("the device was slow as well, or this program had its CPU")
            .unwrap_or_default();
    }
    assert_ne!(outcome, Outcome::Fail, "{ended:?}");
}

#[test]
fn configurations_on_one_device_have_together_no_more_in_flight_than_its_queue_holds() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    let kernel_name = device.name.trim_start_matches("/dev/");
    let queue: f64 = fs::read_to_string(format!("/sys/block/{kernel_name}/queue/nr_requests"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    // The rate exceeds that of any device, so that all slots are in use.
    for name in ["one.conf", "two.conf"] {
        bench.write(
            name,
            load(
                &device.name,
                2,
                "read-reqs-per-sec: 2000000\nmax-lag-sec: 1",
            ),
        );
    }
    bench.flashproof(&["storage", "one.conf", "two.conf", "--out", OUT]);
    let most = telemetry(&bench, "in_flight_max").fold(0.0, f64::max);
    assert!(
        (queue / 2.0..=queue).contains(&most),
        "{most} in flight, and the queue holds {queue}"
    );
}
