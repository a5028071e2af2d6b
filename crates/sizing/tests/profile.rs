//! Profiles of the captured servers against values that were recomputed independently, and what is refused.

use jiff::Timestamp;
use jiff::tz::Offset;
use load::factor::Factor;
use serde_json::Value;
use sizing::align::worst;
use sizing::configuration::{Test, configurations};
use sizing::profile::derive::{self, profile};
use sizing::profile::sources::{SizingError, Sources, Wanted};
use sizing::profile::{Profile, counters::mean_bytes};
use sizing::server_log::{self, ServerLog};
use sizing::source::Source;
use sizing::{iostat, pasted};
use std::collections::BTreeMap;
use std::path::PathBuf;

const CAPTURES: [&str; 2] = ["ce-4.9.0.37", "ce-8.0.0.15"];

fn data(capture: &str, file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(capture).join(file)
}

fn log(capture: &str) -> ServerLog {
    let source = Source::open(&data(capture, "aerospike.log.zst"), "a test").unwrap();
    server_log::read(vec![source]).unwrap().remove(0)
}

fn golden(capture: &str) -> Value {
    serde_json::from_slice(&std::fs::read(data(capture, "golden.json")).unwrap()).unwrap()
}

fn wanted() -> Wanted {
    Wanted {
        namespaces: Vec::new(),
        from: None,
        to: None,
        at_least_sec: 180,
        drives: BTreeMap::new(),
        iostat_zone: Offset::UTC,
    }
}

/// The window of the golden values.
fn golden_window(golden: &Value) -> Wanted {
    let at = |n: usize| {
        let text = golden["drv_ssd_window"][n].as_str().unwrap();
        Some(format!("{}Z", text.replace(' ', "T")).parse::<Timestamp>().unwrap())
    };
    // The golden window is of whole seconds, the log's lines have milliseconds.
    Wanted { from: at(0), to: at(1).map(|to| to + jiff::SignedDuration::from_millis(999)), ..wanted() }
}

fn profile_of(log: ServerLog, wanted: &Wanted) -> Result<Profile, SizingError> {
    profile(&Sources { logs: vec![log], ..Sources::default() }, wanted)
}

fn near(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 0.01, "{what}: {found}, not {expected}");
}

#[test]
fn rates_are_those_recomputed_independently_in_the_golden_window_and_in_the_one_that_is_found() {
    for capture in CAPTURES {
        let golden = golden(capture);
        for wanted in [golden_window(&golden), wanted()] {
            let profile = profile_of(log(capture), &wanted).unwrap();
            assert_eq!(profile.doubts(), [""; 0], "{capture}");
            let load = &profile.loads[0];
            assert_eq!(
                (load.namespace.as_str(), load.device.as_str(), load.drive.as_str()),
                ("test", "/dev/loop2", "loop2")
            );
            let rate = |name: &str| golden[name]["ops/s"].as_f64().unwrap();
            near(load.reads_per_sec, rate("{test}-/dev/loop2-read"), "reads");
            near(load.writes_per_sec, rate("{test}-device-write-size"), "writes");
            near(load.large_block_reads_per_sec, rate("{test}-/dev/loop2-large-block-read"), "large-block reads");
            near(load.large_block_writes_per_sec, rate("{test}-/dev/loop2-write"), "large-block writes");
            near(load.client_reads_per_sec.unwrap(), rate("{test}-read"), "clients' reads");
            let kib = load.large_block_bytes as f64 / 1024.0;
            assert_eq!(kib, 128.0);
            let read_kib = load.reads_per_sec * mean_bytes(&load.read_sizes_pct_over).0 / 1024.0
                + load.large_block_reads_per_sec * kib;
            near(profile.drives[0].predicted.read_kib_per_sec, read_kib, "rkB/s");
            if wanted.from.is_some() {
                let over = golden["{test}-device-read-size"]["pct_over_2^i"].as_array().unwrap();
                for (over, found) in over.iter().zip(&load.read_sizes_pct_over) {
                    assert!((over.as_f64().unwrap() - found).abs() < 0.1, "{found} is not {over}");
                }
                let blocks = load.large_block_bytes as f64 / load.write_block_bytes as f64;
                near(load.defrag_writes_per_sec.unwrap() * blocks, golden["dw/s"].as_f64().unwrap(), "defrag writes");
            }
        }
    }
}

#[test]
fn blocks_are_8_mib_and_flushes_smaller_from_7_1_on_and_both_are_the_same_before() {
    let blocks = |capture| {
        let profile = profile_of(log(capture), &wanted()).unwrap();
        (profile.loads[0].write_block_bytes >> 10, profile.loads[0].large_block_bytes >> 10)
    };
    assert_eq!(blocks("ce-4.9.0.37"), (128, 128));
    assert_eq!(blocks("ce-8.0.0.15"), (8192, 128));
}

#[test]
fn without_a_devices_own_histograms_drv_ssd_gives_the_same_rates_once_the_flush_is_told() {
    for capture in CAPTURES {
        let mut log = log(capture);
        log.histograms.retain(|name, _| !name.contains("/dev/"));
        let mut sources = Sources { logs: vec![log], ..Sources::default() };
        if capture == "ce-8.0.0.15" {
            let by_start = profile(&sources, &wanted()).unwrap();
            assert!(by_start.loads[0].origin.large_block.contains("server's start"), "{:?}", by_start.loads[0].origin);
            assert_eq!((by_start.doubts().len(), by_start.loads[0].large_block_bytes), (0, 128 << 10));
            sources.logs[0].configuration.clear();
            let assumed = profile(&sources, &wanted()).unwrap();
            assert!(assumed.doubts()[0].contains("--flush-size"), "{:?}", assumed.doubts());
            let facts = sizing::profile::sources::Facts { flush_bytes: Some(128 << 10), ..Default::default() };
            sources.facts.insert((String::new(), "test".to_owned()), facts);
        }
        let golden = golden(capture);
        let profile = profile(&sources, &golden_window(&golden)).unwrap();
        assert_eq!(profile.doubts(), [""; 0]);
        let load = &profile.loads[0];
        near(load.reads_per_sec, golden["{test}-device-read-size"]["ops/s"].as_f64().unwrap(), "reads");
        let rate = |name: &str| golden[name]["ops/s"].as_f64().unwrap();
        near(load.large_block_reads_per_sec, rate("{test}-/dev/loop2-large-block-read"), "large-block reads");
        near(load.large_block_writes_per_sec, rate("{test}-/dev/loop2-write"), "large-block writes");
    }
}

#[test]
fn counters_that_contradict_each_other_are_a_doubt() {
    let mut log = log("ce-4.9.0.37");
    for line in log.drives.values_mut().flatten() {
        line.writes = line.writes * 11 / 10;
    }
    let doubts = profile_of(log, &wanted()).unwrap().doubts();
    assert!(doubts.iter().any(|doubt| doubt.contains("direct-frees") && doubt.contains("steady")), "{doubts:?}");
    assert!(doubts.iter().any(|doubt| doubt.contains("in I/Os")), "{doubts:?}");
}

#[test]
fn what_cannot_be_sized_is_said() {
    let error = |log: ServerLog, wanted: Wanted| profile_of(log, &wanted).unwrap_err().to_string();
    let mut off = log("ce-8.0.0.15");
    off.histograms.retain(|name, _| !name.contains("device-"));
    let told = error(off, wanted());
    assert!(
        told.contains("enable-benchmarks-storage to true") && told.contains("manage config namespace test"),
        "{told}"
    );
    let told = error(log("ce-8.0.0.15"), Wanted { namespaces: vec!["tset".to_owned()], ..wanted() });
    assert!(told.contains("no namespace tset") && told.contains("there is test"), "{told}");
    let short = |from: &str, to: &str| Wanted { from: from.parse().ok(), to: to.parse().ok(), ..wanted() };
    let told = error(log("ce-8.0.0.15"), short("2026-11-20T23:04:06Z", "2026-11-20T23:04:20Z"));
    assert!(told.contains("window is too short"), "{told}");
    let told = error(log("ce-8.0.0.15"), short("2026-11-21T23:04:06Z", "2026-11-21T23:14:20Z"));
    assert!(told.contains("choose a window within it"), "{told}");
    let told = error(log("ce-8.0.0.15"), Wanted { at_least_sec: 3600, ..wanted() });
    assert!(told.contains("no steady window of at least 1 h") && told.contains("--at-least"), "{told}");
    let mut memory = log("ce-8.0.0.15");
    memory.drives.clear();
    memory.histograms.clear();
    assert!(error(memory, wanted()).contains("drv_ssd"));
    assert!(matches!(profile(&Sources::default(), &wanted()), Err(SizingError::NoLog)));
}

/// The sizing paper's tables, drv_ssd lines and iostat, as somebody pasted them.
#[test]
fn the_papers_example_balances_and_its_configuration_asks_for_what_its_iostat_shows() {
    let example = |name| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/paper").join(name);
    let open = |name| Source::open(&example(name), "a test").unwrap();
    assert!(pasted::is_pasted(&example("cluster.txt")) && !pasted::is_pasted(&example("iostat.txt")));
    let log = pasted::read(vec![open("cluster.txt")]).unwrap();
    let mut sources = Sources { logs: vec![log], ..Sources::default() };
    let node = derive::id(&sources.logs[0]);
    sources.iostats.insert(node.clone(), iostat::read(open("iostat.txt"), None).unwrap());
    let profile = profile(&sources, &wanted()).unwrap();
    assert_eq!(profile.doubts(), [""; 0]);
    let load = &profile.loads[0];
    for (found, papers) in [
        (load.reads_per_sec, 10_427.0),
        (load.writes_per_sec, 5_916.0),
        (load.large_block_reads_per_sec, 1_172.8),
        (load.large_block_writes_per_sec, 1_543.0),
        (load.direct_frees_per_sec.unwrap(), 369.0),
    ] {
        assert!((found / papers - 1.0).abs() < 0.001, "{found}, not {papers}");
    }
    assert_eq!(load.large_block_bytes, 128 << 10, "by its iostat: nothing else says so");
    let test = Test { device: None, duration_sec: 7200, factor: Factor::ONE };
    let configuration = configurations(&profile, &node, &test).unwrap().remove(0);
    let iostat = profile.drives[0].iostat.unwrap();
    assert!(worst(&iostat, &configuration.asks) < 0.02, "{:?} {iostat:?}", configuration.asks);
    // The paper arrives at 90 and 93 by hand.
    for line in ["lbr-req-offset: 92", "lbw-req-offset: 92", "direct-frees: 369", "total-lbw-per-sec: 1543"] {
        assert!(configuration.text.contains(&format!("\n{line}\n")), "{line}\n{}", configuration.text);
    }
}
