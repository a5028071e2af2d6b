//! `flashproof waf`: write amplification of tenants in table, JSON, page and sweep, and refused commands.

use crate::support::{Bench, Ended};
use serde_json::json;
use std::path::Path;

/// A drive that is small enough for a test.
const DRIVE: &str = "sim:ftl+capacity=8GiB+op=14.5%+unit=32KiB+superblock=8MiB+reserve=1+append=per-handle+isolation=persistently";

/// Runs `flashproof waf LINE`, with the tenants of a paper in micron.toml.
fn waf(bench: &Bench, line: &str) -> Ended {
    let tenants =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tenants/micron-2024-op14.toml");
    bench.write("micron.toml", std::fs::read(tenants).unwrap());
    bench.line(&format!("waf {line}"))
}

fn drive(more: &str) -> String {
    format!("{DRIVE}{more}")
}

#[test]
fn table_and_json_of_waf_model_agree_with_each_other_and_with_a_published_result() {
    let bench = Bench::new();
    let drive = drive("+handles=4");
    let ended = waf(
        &bench,
        &format!("model micron.toml --device {drive} --dwpd 1 --no-latency"),
    )
    .expect_stdout(0, &["device WAF", "validated"]);
    assert!(
        !ended.stdout.contains("Latencies of clients"),
        "{}",
        ended.stdout
    );
    let json = waf(
        &bench,
        &format!("model micron.toml --device {drive} --json --html waf.html"),
    )
    .json();
    let page = bench.text("waf.html");
    assert!(
        page.contains("Device WAF over bytes written")
            && page.contains("data-charts-expected=\"1\"")
    );
    assert!(
        page.contains("Latencies of clients, milliseconds")
            && page.contains("d-256k writes, p99.9 in ms")
    );
    let of = |number: usize| json["arrangements"][number]["waf"].as_f64().unwrap();
    let dedicated = of(0);
    let shared = of(1);
    let fdp = of(2);
    assert!(
        (shared - 1.84).abs() < 0.10 && (dedicated - 1.08).abs() < 0.03 && fdp < 1.3,
        "{json:#}"
    );
    for waf in [dedicated, shared, fdp] {
        assert!(
            ended.stdout.contains(&format!("{waf:.2}")),
            "{waf}: {}",
            ended.stdout
        );
    }
    for (number, waf) in [dedicated, shared, fdp].into_iter().enumerate() {
        let timed = &json["arrangements"][number]["timed"];
        assert!(
            (timed["device_waf"].as_f64().unwrap() / waf - 1.0).abs() < 0.05,
            "{timed:#}"
        );
        let latencies = timed["latencies"].as_array().unwrap();
        assert_eq!(
            latencies.len(),
            8,
            "reads and writes of four tenants: {timed:#}"
        );
        for of in latencies {
            let rate = |name: &str| of[name].as_f64().unwrap();
            assert!(
                rate("done_per_sec") > 0.99 * rate("wanted_per_sec"),
                "{of:#}"
            );
            assert!(of["service"]["p50_ns"].as_u64().unwrap() > 0, "{of:#}");
        }
    }
}

#[test]
fn a_sweep_shows_where_waf_rises_and_why_a_point_is_missing() {
    let bench = Bench::new();
    let drive = drive("+handles=4")
        .replace("8GiB", "1GiB")
        .replace("8MiB", "1MiB");
    let sweep = "--arrange shared --json --no-latency --sweep op=7%:28%,fill=50:95,handles=2:4";
    let json = waf(
        &bench,
        &format!("model micron.toml --device {drive} {sweep}"),
    )
    .json();
    let point = |sweep: usize, at: usize| &json["sweeps"][sweep]["waf"][0][1][at];
    assert!(
        point(0, 0)["waf"].as_f64().unwrap() > 1.5 * point(0, 1)["waf"].as_f64().unwrap(),
        "{json:#}"
    );
    assert!(
        point(1, 1)["missing"].as_str().unwrap().contains("fill"),
        "{json:#}"
    );
    assert_eq!(
        (&json["sweeps"][0]["numbers"], &json["sweeps"][0]["unit"]),
        (&json!([7.0, 28.0]), &json!("%"))
    );
    // Only the arrangement fdp has handles. The other arrangement is shown for comparison.
    assert_eq!(
        (point(2, 0), &json["sweeps"][2]["waf"][1][0]),
        (point(2, 1), &json!("fdp"))
    );
    let fdp = |at: usize| json["sweeps"][2]["waf"][1][1][at]["waf"].as_f64().unwrap();
    assert!(
        fdp(0) > fdp(1) && point(2, 0)["waf"].as_f64().unwrap() > fdp(0),
        "{json:#}"
    );
}

#[test]
fn invalid_waf_commands_are_refused_with_advice() {
    let bench = Bench::new();
    let few = drive("+handles=3");
    let coarse = few.replace("unit=32KiB", "unit=64KiB");
    let refused = |line: &str, code: i32, said: &str| {
        let ended = waf(&bench, line);
        assert_eq!(ended.code, Some(code), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{line}: {}", ended.stderr);
    };
    for (line, said) in [
        (
            &*format!("--device {few} --arrange fdp"),
            "needs 4 placement handles - the drive has 3",
        ),
        (
            &format!("--device {coarse} --arrange shared"),
            "is not a multiple of the drive's mapping unit",
        ),
        ("--device sim:", "it has no FTL"),
        ("--device disk.img", "it is a real drive"),
        ("--device sim:ftl+op=0%", "op is"),
        ("--sweep colour", "without values"),
    ] {
        refused(&format!("model micron.toml {line}"), 2, said);
    }
    refused(
        "measure micron.toml --device sim:ftl",
        2,
        "use flashproof waf model --device",
    );
    refused("model /dev/zero", 2, "cannot read");
    bench.write("disk.img", vec![0; 1 << 20]);
    let no_nvme = "it is not an NVMe drive, and other drives do not report media writes";
    refused("measure micron.toml --device disk.img", 3, no_nvme);
    let cannot = "cannot measure write amplification on /dev/nowhere - ";
    refused("measure micron.toml --device /dev/nowhere", 3, cannot);
    // The path of the page is checked before minutes of work.
    refused(
        "model micron.toml --html disk.img",
        2,
        "it is there already",
    );
    let one = drive("+handles=4");
    let ended = waf(
        &bench,
        &format!("model micron.toml --device {one} --arrange shared --max-fills 5"),
    );
    assert_eq!(
        ended.code,
        Some(4),
        "not steady within 5 fills: {}",
        ended.stderr
    );
}
