//! The circle: a record engine runs a steady load; `size` and `align` derive a test from the engine's log and from
//! iostat's output; the test runs on the same device. Engine and test must cause the same I/O on the device.

use crate::support::words;
use crate::support::{Bench, Ended, LoopDevice, OUT, Running, serve_as, skip, tool};
use results::run_dir;
use sizing::profile::Profile;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time covered by iostat, seconds, in two reports. `FLASHPROOF_CIRCLE_SEC` overrides this.
const LOOK_SEC: u64 = 6;

/// Length of the resulting test, seconds.
const TEST_SEC: u64 = 3;

/// Maximum relative difference of each of iostat's four numbers.
const WITHIN: f64 = 0.02;

/// Share of transactions over 64 ms above which the machine is too busy for a steady load.
const BUSY: f64 = 0.01;

/// Size of the device: small, so that each block is rewritten about every two seconds.
const DEVICE_BYTES: u64 = 64 << 20;
const KEYS: &str = "1500";

/// Transactions per second, few enough for a busy machine.
const RATE: &str = "1600";

fn config(device: &str) -> String {
    format!(
        "service {{\n service-threads 1\n ticker-interval 1\n log-millis true\n}}\n\
         logging {{\n file aerospike.log {{\n context any info\n context drv_ssd detail\n }}\n}}\n\
         network {{\n service {{\n address 127.0.0.1\n port 0\n }}\n}}\n\
         namespace test {{\n nsup-period 0\n storage-engine device {{\n device {device}\n post-write-queue 0\n \
         enable-benchmarks-storage true\n }}\n}}\n"
    )
}

/// A record engine that serves from a loop device.
struct Engine<'a> {
    bench: &'a Bench,
    device: &'a LoopDevice,
    port: String,
}

struct Attempt {
    /// Share of transactions that took longer than 64 ms, as measured by the client.
    late_share: f64,
    /// The first difference between the I/O of engine and test, or why no test was derived; `None` if there is none.
    miss: Option<String>,
}

impl Engine<'_> {
    fn client(&self, out: &str, more: &[&str]) -> Running {
        let common = [
            "engine",
            "client",
            "-p",
            &self.port,
            "-k",
            KEYS,
            "-o",
            "B:16000",
            "-z",
            "32",
            "-T",
            "20000",
            "--replace",
        ];
        Running::start(
            self.bench
                .prepare(&[&common, &["--quiet", "--out", out][..], more].concat()),
        )
    }

    /// Runs a steady load, samples it for `look_sec`, and derives a profile from the samples into the folder `out`.
    /// Returns how `size profile` ended, and the share of transactions that took longer than 64 ms.
    fn size(&self, out: &str, look_sec: u64) -> (Ended, f64) {
        let load = format!("{out}-load");
        let folder = format!("{out}-seen");
        let half = (look_sec / 2).to_string();
        let mut running = self.client(&load, &["-w", "RU,50", "-g", RATE, "--duration", "3600"]);
        running.wait_until("it runs", || {
            self.bench.exists(&format!("{load}/manifest.json"))
        });
        // iostat's time stamps are whole seconds.
        thread::sleep(Duration::from_secs(1) + until_next_second());
        let mut iostat = self.bench.command("iostat");
        iostat
            .args(["-x", "-t", "-y", &half, "2"])
            .env("LC_ALL", "C")
            .env("S_TIME_FORMAT", "ISO")
            .env("TZ", "UTC");
        let iostat = Running::start(iostat);
        let host = format!("127.0.0.1:{}", self.port);
        let seconds = look_sec.to_string();
        let collect = [
            "size",
            "collect",
            "--host",
            &host,
            "--duration",
            &seconds,
            "--every",
            &seconds,
        ];
        let log = ["--log", "aerospike.log", "--out", &folder];
        self.bench
            .flashproof(&[&collect[..], &log].concat())
            .expect(0);
        let iostat = iostat.end().expect(0).stdout;
        running.signal("INT");
        running.end();
        let late_share = run_dir::read(&self.bench.path(load))
            .unwrap()
            .verdict
            .groups
            .into_iter()
            .flat_map(|group| group.slices);
        let late_share = late_share
            .filter_map(|slice| Some(slice.response_share?[2]))
            .fold(0.0, f64::max);

        let stamps: Vec<jiff::Timestamp> = iostat
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect();
        let [middle, end] = stamps[..] else {
            panic!("two reports: {iostat}")
        };
        self.bench
            .write(format!("{folder}/iostat.txt").as_str(), &iostat);
        let time = |at: jiff::Timestamp| at.strftime("%F %T").to_string();
        let from = time(middle - end.duration_since(middle));
        let to = time(end);
        let size = [
            "size", "profile", &folder, "--from", &from, "--to", &to, "--out", out,
        ];
        let test = [
            "--device",
            &self.device.name,
            "--duration",
            &TEST_SEC.to_string(),
        ];
        (
            self.bench.flashproof(&[&size[..], &test].concat()),
            late_share,
        )
    }
}

fn until_next_second() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Duration::from_nanos(1_000_000_000 - u64::from(now.subsec_nanos()))
}

#[test]
fn a_test_sized_from_the_log_of_a_record_engine_causes_the_same_io_on_the_device() {
    let look_sec =
        std::env::var("FLASHPROOF_CIRCLE_SEC").map_or(LOOK_SEC, |text| text.parse().unwrap());
    // The log and iostat do not cover exactly the same seconds of a random load, so the numbers of quiet runs differ
    // with a standard deviation of 0.5 %, and more on a busy machine. A wrong test misses in all attempts. Three misses
    // fail, unless the load was late in each attempt.
    let mut late_share = f64::INFINITY;
    let mut misses = Vec::new();
    for _ in 0..3 {
        let Some(attempt) = attempt(look_sec) else {
            return;
        };
        let Some(miss) = attempt.miss else { return };
        late_share = late_share.min(attempt.late_share);
        misses.push(miss);
    }
    assert!(late_share > BUSY, "{late_share} {}", misses.join("\n"));
    skip::<()>(&format!(
        "the machine was too busy: {:.1} % of the load was over 64 ms late",
        late_share * 100.0
    ));
}

/// One round: load, profile, aligned test, comparison. `None`, with a message, if a tool or permission is missing.
fn attempt(look_sec: u64) -> Option<Attempt> {
    let bench = Bench::new();
    let device = LoopDevice::new(&bench, DEVICE_BYTES, &[])?;
    tool("iostat", &["-V"])?;
    let (server, address) = serve_as(
        &bench,
        "serve.conf",
        &config(&device.name),
        &["--erase", &device.name],
    )?;
    let engine = Engine {
        bench: &bench,
        device: &device,
        port: address.port().to_string(),
    };
    engine.client("inserted", &["-w", "I"]).end();
    // Warm-up: each block is written once.
    engine
        .client("warm", &["-w", "RU,0", "-g", RATE, "--duration", "2"])
        .end();
    let (ended, late_share) = engine.size("sized", look_sec);
    server.signal("TERM");
    server.end().expect(0);
    if ended.code != Some(0) {
        return Some(Attempt {
            late_share,
            miss: Some(ended.stdout + &ended.stderr),
        });
    }

    let profile: Profile = serde_json::from_slice(&bench.read("sized/profile.json")).unwrap();
    let there = profile.drives[0].iostat.unwrap();
    // Half of the transactions are reads. A few records are still in memory, and their reads cause no I/O.
    assert!(
        (600.0..1000.0).contains(&profile.loads[0].reads_per_sec),
        "{profile:?}"
    );
    let because = "half of the blocks written are defragmentation's";
    let aligned = words(
        "size align sized/test.conf --target sized/profile.json --device sim:min-io=512 --out aligned.conf",
    );
    bench
        .flashproof(&[&aligned[..], &["--because", because]].concat())
        .expect(0);
    let before = device.counters();
    let ended = bench.flashproof(&[
        "storage",
        "aligned.conf",
        "--out",
        OUT,
        "--erase",
        &device.name,
        "--quiet",
    ]);
    let after = device.counters();

    let run = bench.run();
    let done = |what: &str| {
        let streams = run
            .verdict
            .streams
            .iter()
            .filter(|of| of.name.ends_with(what));
        streams.fold((0, 0), |(ops, bytes), of| (ops + of.ops, bytes + of.bytes))
    };
    let (reads, read_bytes) = done("reads");
    let (writes, bytes_written) = done("writes");
    let per_sec = |count: u64| count as f64 / TEST_SEC as f64;
    // Besides these operations, the kernel counts the reads and the few stamps of the guard.
    assert!(
        (writes..writes + 50).contains(&(after.write.completed - before.write.completed)),
        "{before:?} {after:?} {ended:?}"
    );
    assert!(
        (reads..reads + 3000).contains(&(after.read.completed - before.read.completed)),
        "{before:?} {after:?} {ended:?}"
    );
    let pairs = [
        ("r/s", there.reads_per_sec, per_sec(reads)),
        ("w/s", there.writes_per_sec, per_sec(writes)),
        (
            "rkB/s",
            there.read_kib_per_sec,
            per_sec(read_bytes) / 1024.0,
        ),
        (
            "wkB/s",
            there.written_kib_per_sec,
            per_sec(bytes_written) / 1024.0,
        ),
    ];
    let differences = pairs.map(|(name, engine, test)| {
        (
            format!("{name}: engine {engine:.1}, test {test:.1}"),
            test / engine - 1.0,
        )
    });
    for (pair, difference) in &differences {
        println!("{pair}, {:+.2} %", difference * 100.0);
    }
    let miss = differences
        .into_iter()
        .find(|(_, difference)| difference.abs() > WITHIN)
        .map(|(pair, _)| pair);
    // Latencies depend on the machine: they are printed, not compared.
    for what in ["read", "large-block-read", "write"] {
        let histogram = format!("{{test}}-{}-{what}", device.name);
        let engine = [
            "latency",
            "server",
            "-l",
            "aerospike.log",
            "-h",
            &histogram,
            "-n",
            "9",
            "-e",
            "2",
            "-f",
            "head",
            "-t",
            "2",
        ];
        // The exit code is not checked, because on a busy machine no slice may be complete.
        println!("{histogram}\n{}", bench.flashproof(&engine).stdout);
    }
    let test = words("latency -l run -h reads -h large-block-reads -h large-block-writes");
    println!("{}", bench.flashproof(&test).expect(0).stdout);
    Some(Attempt { late_share, miss })
}
