//! `flashproof engine bench`: a record engine on a drive, row by row.

use crate::support;
use crate::support::words;
use support::{Bench, LoopDevice, OUT, skip, totals};

#[test]
fn rows_on_a_simulated_drive_insert_warm_up_measure_and_find_the_inserted_records() {
    let bench = Bench::new();
    let run = [
        "engine",
        "bench",
        "sim:capacity=1GiB",
        "--rows",
        "1k,4k",
        "-k",
        "3000",
        "--duration",
        "1",
        "--verify",
    ];
    let ended = bench
        .flashproof(
            &[
                &run[..],
                &["--seed", "7", "--out", OUT, "--json", "table.json"],
            ]
            .concat(),
        )
        .expect(0);
    ended.shows(&[
        "published",
        "1,124,875",
        "4k",
        "limited by",
        "transactions/s per core",
    ]);
    let table = bench.json_file("table.json");
    for row in table.as_array().unwrap() {
        assert_eq!(row["keys"], 3000);
        // The bounds: one core at 2 us for each transaction, and 64 reads of about 100 us at once.
        let per_sec = row["transactions_per_sec"].as_f64().unwrap();
        assert!((50_000.0..=500_000.0).contains(&per_sec), "{row}");
        // 95 of 100 transactions read a record from the drive.
        let read = row["read_mb_per_sec"].as_f64().unwrap() * 1e6;
        let bytes = row["record_bytes"].as_f64().unwrap();
        assert!(read > 0.9 * per_sec * bytes, "{row}");
        assert!(row["average_queue"].as_f64().unwrap() > 1.0, "{row}");
        assert!(
            row["transactions_per_cpu"].is_null() && row["cpu_busy_pct"].is_null(),
            "assumed, not measured: {row}"
        );
    }
    for (phase, stream) in [("insert", "writes"), ("measure", "reads")] {
        bench
            .flashproof(&["report", &format!("{OUT}/1k/{phase}"), "--json"])
            .expect_stdout(0, &[stream]);
    }
    let manifest = bench.json_file(&format!("{OUT}/1k/insert/manifest.json"));
    assert_eq!(
        manifest["operations"], 3000,
        "an insertion ends with its last key, not at a time"
    );
    let report = bench
        .flashproof(&["report", &format!("{OUT}/1k/insert")])
        .expect(0);
    assert!(
        !report.stdout.contains("30 days"),
        "nobody gave a limit in time: {}",
        report.stdout
    );
}

#[test]
fn a_warning_common_to_all_rows_is_printed_once() {
    let bench = Bench::new();
    let run = [
        "engine",
        "bench",
        "--rows",
        "1k,2k",
        "--size",
        "64MiB",
        "-k",
        "1000",
        "--duration",
        "1",
        "--out",
        OUT,
    ];
    let ended = bench.flashproof(&run);
    if ended.stderr.contains("cannot make a ring") {
        return skip(&ended.stderr).unwrap_or(());
    }
    let untraced = ended
        .stderr
        .matches("warning: not measured: the split of latencies")
        .count();
    assert_eq!(untraced, 1, "{}", ended.stderr);
    assert!(
        !ended.stderr.contains("were never written"),
        "each row writes first: {}",
        ended.stderr
    );
}

#[test]
fn insertions_wait_for_a_slow_drive_and_measured_writes_fail_with_device_overload() {
    let bench = Bench::new();
    // Each record takes a block of 128 KiB, so the insertion fills the store's queue (64 MiB) for a drive with 20 MB/s.
    let run = words("engine bench sim:capacity=1GiB+write-mbps=20 --rows 64k -k 2000 --duration 1");
    let held = [
        "-w",
        "RU,50",
        "-g",
        "100",
        "--verify",
        "--sla",
        "99%>10s",
        "--out",
        OUT,
        "--json",
        "table.json",
    ];
    let ended = bench.flashproof(&[&run[..], &held].concat()).expect(0);
    assert!(
        ended
            .stdout
            .contains("inserts had to wait because of device overload (code 18"),
        "{}",
        ended.stdout
    );
    let row = &bench.json_file("table.json")[0];
    let waited = row["inserts_that_waited"].as_u64();
    let per_sec = row["inserted_per_sec"].as_f64().unwrap();
    assert!(
        waited.is_some_and(|waited| (64..2_000).contains(&waited)),
        "{row}"
    );
    assert!((9.5..10.0).contains(&(2_000.0 / per_sec)), "{row}");
    let measured = results::run_dir::read(&bench.path(OUT).join("64k/measure")).unwrap();
    let (reads, errors, _) = totals(&measured, "reads");
    assert!(reads > 0 && errors == 0, "{reads} reads, {errors} failed");
    let flat_out = ["-w", "RU,0", "--out", "flat-out", "--quiet"];
    let ended = bench.flashproof(&[&run[..], &flat_out].concat());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("result code 18: device overload"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_row_that_holds_the_requested_rate_is_limited_by_the_rate_and_otherwise_by_cpu() {
    let bench = Bench::new();
    let run = words("engine bench sim:capacity=1GiB --rows 1k -k 300 --duration 1");
    for (rate, limit) in [
        ("1000", "limited by the requested rate (-g)"),
        ("1000000", "limited by CPU"),
    ] {
        let out = format!("{OUT}-{rate}");
        let ended = bench
            .flashproof(&[&run[..], &["--out", &out, "-g", rate, "--sla", "99%>10s"]].concat());
        assert!(
            ended.stdout.contains(limit),
            "{rate}: {}\n{}",
            ended.stdout,
            ended.stderr
        );
    }
}

#[test]
fn a_simulated_drive_larger_than_memory_is_refused() {
    let bench = Bench::new();
    let run = words("engine bench sim:capacity=64TiB --size 32TiB -k 1 --out run");
    bench
        .flashproof(&run)
        .expect_error(3, &["cannot keep the data", "give a smaller --size"]);
}

#[test]
fn a_file_is_reopened_for_each_run_and_keeps_the_records_of_the_previous_run() {
    let bench = Bench::new();
    let run = words("engine bench --rows 1k --size 64MiB -k 5000 --threads 1 --duration 1");
    let more = words("-z 8 -g 200 --sla 100%>3600s --verify --out run");
    bench
        .flashproof(&[&run[..], &more].concat())
        .expect_stdout(0, &["limited by"]);
    assert!(
        !bench.path(OUT).join("store").exists(),
        "the file was ours alone"
    );
    let measured = results::run_dir::read(&bench.path(OUT).join("1k/measure")).unwrap();
    let (reads, errors, _) = totals(&measured, "reads");
    assert!(reads > 0 && errors == 0, "{reads} reads, {errors} failed");
}

#[test]
fn invalid_options_of_engine_bench_are_refused() {
    let bench = Bench::new();
    bench
        .flashproof(&["engine", "bench", "-w", "I"])
        .expect_error(2, &["each row begins with an insertion"]);
    bench
        .flashproof(&["engine", "bench", "--rows", "2m"])
        .expect_error(2, &["1k,2k,4k"]);
    bench
        .line("engine bench --rows 128k --out run")
        .expect_error(2, &["a write block of 131072"]);
    let small = words("engine bench sim:capacity=1MiB --rows 1k --out small");
    bench
        .flashproof(&small)
        .expect_error(3, &["the device has 1048576 bytes", "8 write blocks"]);
    bench
        .flashproof(&["engine", "bench", "--size", "1MiB", "--out", OUT])
        .expect_error(3, &["store"]);
    std::fs::write(bench.path("there.json"), "mine").unwrap();
    let there = words("engine bench sim: --out unborn --json there.json");
    bench
        .flashproof(&there)
        .expect_error(2, &["there.json", "it is there already", "--force"]);
    assert!(
        !bench.path("unborn").exists() && bench.text("there.json") == "mine",
        "before anything else"
    );
    for (more, said) in [
        (&["--rows", "1k-replicated"][..], "give --loopback"),
        (&["--rows", "1k,2k,1024"], "cannot measure row 1k twice"),
        (&["--loopback", "sim:"], "has simulated time"),
        (
            &["--loopback", "--rows", "1k-replicated", "file"],
            "needs its own device",
        ),
        (
            &["--loopback", "--rows", "1k-replicated", "file", "file"],
            "needs its own device",
        ),
        (
            &["--loopback", "--rows", "1k", "file", "another"],
            "only rows with replication use a second device",
        ),
        (
            &["file", "another"],
            "only rows with replication use a second device",
        ),
    ] {
        bench
            .flashproof(&[&["engine", "bench", "--out", OUT], more].concat())
            .expect_error(2, &[said]);
    }
}

/// Runs rows over loopback. `None`, with a message, without io_uring.
fn over_loopback(bench: &Bench, more: &[&str]) -> Option<serde_json::Value> {
    let run = words("engine bench --loopback --threads 1 -k 500 -z 8 -g 200 --sla 100%>3600s");
    let short = words("--duration 1 --size 64MiB --verify --out run --json table.json");
    let ended = bench.flashproof(&[&run[..], &short, more].concat());
    if ended.stderr.contains("cannot make a ring") {
        return skip(&ended.stderr);
    }
    // Other programs may use all CPUs for a second. Then the result is INVALID for this reason, which the test accepts.
    let busy = ended
        .stdout
        .contains("INVALID; limited by CPU: all CPUs of this machine are busy");
    ended
        .expect(if busy { 4 } else { 0 })
        .shows(&["over loopback"]);
    Some(bench.json_file("table.json"))
}

#[test]
fn rows_over_loopback_use_servers_in_this_process_and_replicated_rows_write_each_record_twice() {
    let bench = Bench::new();
    // With --commit-to-device, the bytes on the device show each acknowledged write. Large records hardly share writes.
    let rows = [
        "--rows",
        "32k,32k-replicated",
        "-w",
        "RU,0",
        "--commit-to-device",
    ];
    let Some(table) = over_loopback(&bench, &rows) else {
        return;
    };
    let written = [0, 1].map(|row| {
        let row = &table[row];
        assert_eq!(row["over_loopback"], true, "{row}");
        let name = row["record_size"].as_str().unwrap();
        let measured = results::run_dir::read(&bench.path(OUT).join(name).join("measure")).unwrap();
        let nodes = measured.manifest.device_facts[0]["nodes"]
            .as_array()
            .unwrap()
            .len() as u64;
        assert_eq!(
            row["copies"].as_u64(),
            Some(nodes),
            "the client sees all nodes"
        );
        let (writes, errors, _) = totals(&measured, "writes");
        assert!(
            writes > 0 && errors == 0,
            "{writes} writes, {errors} failed"
        );
        row["write_mb_per_sec"].as_f64().unwrap() / row["transactions_per_sec"].as_f64().unwrap()
    });
    assert!(
        written[1] > 1.3 * written[0],
        "both servers write each record: {written:?}"
    );
    assert!(!bench.path(OUT).join("store").exists() && !bench.path(OUT).join("store-2").exists());
}

#[test]
fn a_named_block_device_is_erased_and_used_over_loopback() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 << 20, &[]) else {
        return;
    };
    device.put(4096, b"somebody's");
    let refused = [
        "engine",
        "bench",
        &device.name,
        "--rows",
        "1k",
        "--out",
        "refused",
    ];
    bench
        .flashproof(&refused)
        .expect_error(3, &[&device.name, "--erase"]);
    let Some(table) = over_loopback(&bench, &[&device.name, "--erase", &device.name]) else {
        return;
    };
    let rows: Vec<_> = table
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["record_size"].as_str().unwrap())
        .collect();
    assert_eq!(
        rows,
        ["1k", "2k", "4k"],
        "a replicated row needs a second device"
    );
    assert!(
        table
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["read_mb_per_sec"].as_f64().unwrap() > 0.0),
        "{table}"
    );
    let content = device.content();
    // The marks of each core follow the header; the second header ends the cleared bytes.
    let second = (8 << 20) - 4096;
    let is_clear = content[1 << 20..second].iter().all(|byte| *byte == 0);
    assert!(
        [0, second]
            .iter()
            .all(|at| content[*at..].starts_with(b"flashproof store"))
            && is_clear
    );
}
