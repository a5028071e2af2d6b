//! `flashproof trace`: counts compared with fio's and awk's, instances of killed traces, messages about limitations.

use crate::support;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use support::{Bench, LoopDevice, MIB, Nobody, Running, Undo, skip, tool, words};

/// A second of a server's tracepoints: see the README beside them.
pub(crate) fn captured(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/trace")
        .join(name)
}

/// Counts by type and bytes, by awk: see the README beside the data.
const COUNTS_4_9: &str = "flush 0 392;read 1024 289;read 1536 12;read 2560 286;read 3072 12;read 4608 272;read 5120 29;\
                          read 8704 285;read 9216 13;read 16896 285;read 17408 3;read 33280 301;read 66048 299;\
                          read 66560 2;read 131072 158;write 131072 196;";
const COUNTS_8_0: &str = "flush 0 384;read 1024 285;read 1536 16;read 2560 303;read 4608 300;read 8704 299;\
                          read 16896 301;read 33280 301;read 66048 294;read 131072 227;write 131072 192;";

/// `type bytes count;` of each size, sorted.
fn counts(sums: &Value) -> String {
    let mut counts = Vec::new();
    for kind in sums["kinds"].as_array().unwrap() {
        for size in kind["sizes"].as_array().unwrap() {
            let bytes = size["bytes"].as_u64().unwrap();
            let count = size["count"].as_u64().unwrap();
            counts.push((kind["type"].as_str().unwrap(), bytes, count));
        }
    }
    counts.sort_unstable();
    counts
        .iter()
        .map(|(kind, bytes, count)| format!("{kind} {bytes} {count};"))
        .collect()
}

/// Checks that this kernel allows tracing; prints a message if not.
fn can_trace(bench: &Bench, device: &LoopDevice) -> Option<()> {
    let ended = bench.flashproof(&["trace", &device.name, "--duration", "1"]);
    match ended.code {
        Some(0) => Some(()),
        _ => skip(&ended.stderr.replace('\n', " ")),
    }
}

#[test]
fn a_captured_trace_has_the_counts_that_awk_finds() {
    let bench = Bench::new();
    // The first trace has no request in its last quarter of a second.
    for (name, expected, seconds) in [
        ("ce-4.9.0.37-1s.txt.gz", COUNTS_4_9, 0.757),
        ("ce-8.0.0.15-1s.txt.zst", COUNTS_8_0, 0.961),
    ] {
        let path = captured(name);
        let ended = bench
            .flashproof(&["trace", "--from", path.to_str().unwrap(), "--json"])
            .expect(0);
        assert_eq!(counts(&ended.json()), expected, "{name}");
        let span = ended.json()["seconds"].as_f64().unwrap();
        assert!((span - seconds).abs() < 0.001, "{span}");
    }
}

#[test]
fn a_trace_written_as_lines_reads_back_unchanged() {
    let bench = Bench::new();
    let path = captured("ce-8.0.0.15-1s.txt.zst");
    let from = |name: &str, more: &[&str]| {
        bench
            .flashproof(&[&["trace", "--from", name], more].concat())
            .expect(0)
    };
    let ops = from(path.to_str().unwrap(), &["--ops"]).stdout;
    bench.write("ops.txt", &ops);
    let first = from(path.to_str().unwrap(), &["--json"]).json();
    let second = from("ops.txt", &["--json"]).json();
    assert_eq!(counts(&second), COUNTS_8_0);
    assert_eq!(first["top_processes"], second["top_processes"]);
    assert_eq!(first["not_completed"], second["not_completed"]);
    assert_eq!(
        from("ops.txt", &["--ops"]).stdout,
        ops,
        "to the last microsecond"
    );
}

#[test]
fn a_page_in_a_pipe_has_rates_times_processes_and_a_heat_map_without_colours() {
    let bench = Bench::new();
    let path = captured("ce-4.9.0.37-1s.txt.gz");
    let ended = bench
        .flashproof(&[
            "trace",
            "--from",
            path.to_str().unwrap(),
            "--csv",
            "sizes.csv",
        ])
        .expect(0);
    for words in [
        "2,834 requests in 0.757 s",
        "7,2     read   131,072    158   209",
        "asd-4.9.0.37",
        "kworker/1:1H",
        "the process that caused these requests is unknown",
        "Device time over time:",
    ] {
        assert!(ended.stdout.contains(words), "{words}\n{}", ended.stdout);
    }
    assert!(!ended.stdout.contains('\u{1b}'));
    let csv = bench.text("sizes.csv");
    assert_eq!(csv.lines().count(), 1 + 16, "{csv}");
    assert!(
        csv.contains("\n\"7,2\",read,131072,131072,158,20709376,"),
        "{csv}"
    );
    let again = bench.flashproof(&[
        "trace",
        "--from",
        path.to_str().unwrap(),
        "--csv",
        "sizes.csv",
    ]);
    let again = again.expect(2);
    assert!(
        again.stderr.contains("sizes.csv - it is there already") && again.stdout.is_empty(),
        "{}",
        again.stderr
    );
}

#[test]
fn missing_data_in_an_imported_trace_is_reported() {
    let bench = Bench::new();
    let iosnoop =
        "COMM PID TYPE DEV BLOCK BYTES LATms\nasd 7 R 8,0 100 0 0.1\nasd 7 R 8,16 100 4096 0.1\n";
    bench.write("iosnoop.txt", iosnoop);
    let ended = bench
        .flashproof(&["trace", "--from", "iosnoop.txt"])
        .expect(0);
    let warnings = ended.warnings().join("\n");
    for told in [
        "offsets and sizes of 1 request are unknown: on recent kernels, iosnoop prints",
        "the start times of 2 requests are missing",
    ] {
        assert!(warnings.contains(told), "{told}: {warnings}");
    }
    assert!(
        ended.stdout.contains("2 requests of unknown length"),
        "{}",
        ended.stdout
    );
    let one = bench
        .flashproof(&["trace", "--from", "iosnoop.txt", "8:16", "--json"])
        .expect(0);
    assert_eq!(counts(&one.json()), "read 4096 1;");
    bench
        .flashproof(&["trace", "--from", "iosnoop.txt", "9,9"])
        .expect_stderr(2, &["cannot show requests of 9,9"]);

    bench.write(
        "lost.txt",
        " a-1 [000] .... 1.0: block_rq_issue: 8,0 R 4096 () 64 + 8 [a]\nCPU:1 [LOST 532 EVENTS]\n \
         a-1 [000] .... 1.1: block_rq_issue: 8,0 R 4096 () 72 + 8 [a]\n \
         a-1 [000] .... 1.2: block_rq_complete: 8,0 R () 72 + 8 [-5]\n",
    );
    let ended = bench.flashproof(&["trace", "--from", "lost.txt"]).expect(0);
    assert!(
        ended.stdout.contains("INCOMPLETE: 532 events lost"),
        "{}",
        ended.stdout
    );
    assert!(
        ended
            .stdout
            .contains("requests without a completion in the trace: 1"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("1 request failed"),
        "{}",
        ended.stdout
    );
    let ops = bench
        .flashproof(&["trace", "--from", "lost.txt", "--ops"])
        .expect(0)
        .stdout;
    assert!(ops.ends_with("# lost events: 532\n"), "{ops}");
}

#[test]
fn invalid_trace_files_and_devices_are_refused_by_name() {
    let bench = Bench::new();
    bench.write("notes.txt", "buy milk\n");
    bench.write("file", vec![0; 8192]);
    bench.write("sda.blktrace.0", b"\x07tae\x01\0\0\0");
    let fifo = bench.path("fifo");
    tool("mkfifo", &[fifo.to_str().unwrap()]);
    for (arguments, code, words) in [
        (&["trace"][..], 2, "<DEVICE>"),
        (
            &["trace", "--from", "notes.txt"],
            2,
            "no line is a block tracepoint",
        ),
        (
            &["trace", "--from", "sda.blktrace.0"],
            2,
            "use blkparse -i FILE | flashproof trace --from -",
        ),
        (&["trace", "--from", "none.txt"], 2, "check the path"),
        (
            &["trace", "--from", "fifo"],
            2,
            "it is a pipe, and only regular files are read",
        ),
        (
            &["trace", "--from", "/dev/zero"],
            2,
            "it is a character device",
        ),
        (&["trace", "--from", "."], 2, "it is a directory"),
        (
            &["trace", "--from", "notes.txt", "sda"],
            2,
            "it identifies devices by numbers",
        ),
        (
            &["trace", "file"],
            2,
            "give --from FILE to read a recorded trace",
        ),
        (&["trace", "/dev/none"], 3, "there is no such device"),
        (
            &["trace", "/dev/null"],
            3,
            "it is a character device, not a block device",
        ),
    ] {
        let ended = bench.flashproof(arguments).expect(code);
        assert!(
            ended.stderr.contains(words),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
}

fn instances(pid: u32) -> Vec<String> {
    let entries = fs::read_dir("/sys/kernel/tracing/instances")
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with(&format!("flashproof-{pid}-")))
        .collect()
}

/// Starts a trace and waits until it runs.
fn tracing(bench: &Bench, device: &str, more: &[&str]) -> Running {
    let mut running = Running::start(bench.prepare(&[&["trace", device], more].concat()));
    running.wait_to_hear(&format!("tracing {device} until Ctrl-C"));
    running
}

#[test]
fn fio_and_the_trace_count_the_same_operations() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    let Some(()) = can_trace(&bench, &device) else {
        return;
    };
    let Some(_) = tool("fio", &["--version"]) else {
        return;
    };
    let running = tracing(&bench, &device.name, &["--json"]);
    // The numbers of operations are primes. The operations cannot be merged, and each fits in one request.
    for (name, kind, bytes, count) in [
        ("r", "randread", 4096, 997),
        ("w", "randwrite", 32_768, 499),
        ("t", "randtrim", 65_536, 101),
    ] {
        let line = format!(
            "--name={name} --filename={} --rw={kind} --bs={bytes} --number_ios={count} --size=60M --direct=1 \
             --ioengine=psync --norandommap",
            device.name
        );
        let Some(_) = tool("fio", &words(&line)) else {
            return;
        };
    }
    let ended = running.end_by("INT").expect(0);
    let sums = ended.json();
    assert_eq!(sums["lost_events"], 0);
    // When fio closes the device, other programs read it, also in 4 KiB. fio's requests are recognised by process name.
    let of_fio = |count: u64| {
        let tasks = sums["top_processes"].as_array().unwrap();
        tasks
            .iter()
            .any(|task| task["comm"].as_str().unwrap().starts_with("fio") && task["count"] == count)
    };
    assert!([997, 499, 101].into_iter().all(of_fio), "{}", ended.stdout);
    let counts = counts(&sums);
    for expected in ["write 32768 499;", "discard 65536 101;"] {
        assert!(counts.contains(expected), "{counts}");
    }
    let reads = sums["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .find(|kind| kind["type"] == "read")
        .unwrap();
    let times = &reads["sizes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|size| size["bytes"] == 4096)
        .unwrap()["queue"];
    assert!(
        times["count"].as_u64() >= Some(997) && times["p50_ns"].as_u64() > Some(0),
        "{times}"
    );
}

fn instances_unseen() -> bool {
    !Path::new("/sys/kernel/tracing/instances").is_dir()
}

#[test]
fn tracefs_is_restored_however_a_trace_ends() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &[]) else {
        return;
    };
    let Some(()) = can_trace(&bench, &device) else {
        return;
    };
    if instances_unseen() {
        return skip("tracefs is not mounted at /sys/kernel/tracing").unwrap_or_default();
    }
    for signal in ["INT", "TERM", "HUP"] {
        let running = tracing(&bench, &device.name, &[]);
        let pid = running.pid();
        let ended = running.end_by(signal).expect(0);
        assert!(
            ended.stdout.contains("requests in"),
            "what was seen is shown: {}",
            ended.stdout
        );
        assert_eq!(instances(pid), [""; 0], "{signal}");
    }
    let killed = tracing(&bench, &device.name, &[]);
    let killed_pid = killed.pid();
    assert_eq!(killed.end_by("KILL").signal, Some(9));
    // Any later trace removes the instance of a killed trace. A trace of another test may have done so already.
    let other = tracing(&bench, &device.name, &[]);
    assert_eq!(instances(killed_pid), [""; 0]);
    bench
        .flashproof(&["trace", &device.name, "--duration", "1"])
        .expect(0);
    assert_eq!(instances(other.pid()).len(), 1, "an instance in use stays");
    other.end_by("INT").expect(0);
}

#[test]
fn a_removed_device_ends_the_trace_with_the_requests_so_far() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &[]) else {
        return;
    };
    let Some(()) = can_trace(&bench, &device) else {
        return;
    };
    let running = tracing(&bench, &device.name, &[]);
    let name = device.name.clone();
    drop(device);
    running
        .end()
        .expect_stderr(3, &[&format!("tracing {name} ended after")])
        .shows(&["requests in"]);
}

/// A zram device of the test's own, removed when dropped.
struct Zram(String);

impl Zram {
    fn new() -> Option<Self> {
        let number = fs::read_to_string("/sys/class/zram-control/hot_add");
        let Ok(number) = number else {
            return skip("no zram here, or no root");
        };
        let zram = Self(number.trim().to_owned());
        fs::write(format!("/sys/block/zram{}/disksize", zram.0), "16M")
            .ok()
            .or_else(|| skip("zram takes no size"))?;
        Some(zram)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = fs::write("/sys/class/zram-control/hot_remove", &self.0);
    }
}

#[test]
fn a_device_without_requests_is_traced_by_bios() {
    let bench = Bench::new();
    let Some(zram) = Zram::new() else { return };
    let name = format!("/dev/zram{}", zram.0);
    if !Path::new(&name).exists() {
        return skip(&format!("nobody makes {name} here")).unwrap_or_default();
    }
    let running = tracing(&bench, &name, &["--json"]);
    // A logical sector of a zram device is a page.
    for block in 0..23 {
        let line = format!(
            "dd if=/dev/zero of={name} bs=8192 count=1 oflag=direct seek={} status=none",
            block * 2
        );
        tool("sh", &["-c", &line]).unwrap_or_else(|| panic!("{line}"));
    }
    let ended = running
        .end_by("INT")
        .expect_stderr(0, &["its driver handles bios and has no requests"]);
    let sums = ended.json();
    assert!(counts(&sums).contains("write 8192 23;"), "{}", ended.stdout);
    assert_eq!(
        (&sums["not_completed"], &sums["lost_events"]),
        (&Value::from(0), &Value::from(0)),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_trace_of_a_partition_excludes_requests_to_the_rest_of_the_disk() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &["--partscan"]) else {
        return;
    };
    let Some(()) = can_trace(&bench, &device) else {
        return;
    };
    let Some(_) = tool("addpart", &[&device.name, "1", "2048", "8192"]) else {
        return;
    };
    let _partition = Undo::with("delpart", &[&device.name, "1"]);
    let partition = format!("{}p1", device.name);
    if !Path::new(&partition).exists() {
        return skip(&format!("nobody makes {partition} here")).unwrap_or_default();
    }
    let running = tracing(&bench, &partition, &["--json"]);
    read_23(&partition);
    read_23(&device.name);
    let ended = running.end_by("INT").expect(0);
    assert!(
        counts(&ended.json()).contains("read 3584 23;"),
        "those before it are not its own: {}",
        ended.stdout
    );
}

/// 23 reads of seven sectors, no two of which can be merged, in the first 750 KiB of a device.
fn read_23(device: &str) {
    for index in 0..23 {
        let skip = index * 64 * 512;
        let line = format!(
            "dd if={device} of=/dev/null bs=3584 count=1 iflag=direct,skip_bytes skip={skip} status=none"
        );
        tool("sh", &["-c", &line]).unwrap_or_else(|| panic!("{line}"));
    }
}

#[test]
fn without_root_the_message_asks_for_root() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &[]) else {
        return;
    };
    let Some(nobody) = Nobody::new(&bench) else {
        return;
    };
    nobody
        .flashproof(&bench, &["trace", &device.name, "--duration", "1"])
        .expect_stderr(3, &["run as root"]);
}
