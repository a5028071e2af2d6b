//! Simulated drives with an FTL, `sim:ftl`: commands run on them as on other drives, and show the drives' counters.

use crate::support;
use crate::support::words;

use support::{Bench, OUT, totals};

/// A small drive, full and overwritten at random, with enough dies for a thousandth of an ordinary load.
const DRIVE: &str =
    "sim:ftl+capacity=512MiB+op=20%+channels=2+dies=1+superblock=2MiB+precondition=2";

#[test]
fn storage_and_report_show_the_drives_counters() {
    let bench = Bench::new();
    let load = "test-duration-sec: 20\nread-reqs-per-sec: 2000\nwrite-reqs-per-sec: 2000\nreport-interval-sec: 1\n";
    let config = |seed: u32| format!("device-names: {DRIVE}\n{load}seed: {seed}\n");
    bench.storage(&config(5), &[]).expect(0);
    assert_eq!(totals(&bench.run(), "reads").0, 40_000);
    let telemetry = bench.text("run/telemetry.csv");
    let last: Vec<_> = telemetry.lines().last().unwrap().split(',').collect();
    let value = |column: &str| {
        let name = format!("{DRIVE}.{column}");
        let at = telemetry
            .lines()
            .next()
            .unwrap()
            .split(',')
            .position(|of| of == name);
        last[at.unwrap_or_else(|| panic!("no {name}"))]
            .parse::<u64>()
            .unwrap()
    };
    let hbmw = value("sim.hbmw_bytes");
    let mbmw = value("sim.mbmw_bytes");
    let bytes_written = totals(&bench.run(), "large-block-writes").0 * (128 << 10);
    assert!(
        hbmw.abs_diff(bytes_written) <= 256 << 10 && hbmw >= value("sim.host_write_bytes"),
        "{hbmw}, not {bytes_written}"
    );
    assert!(
        mbmw > hbmw * 3 / 2,
        "{mbmw} of {hbmw}: the drive was full, and moves what is valid"
    );
    // Erased superblocks are free, or were written again.
    let mbe = value("sim.mbe_bytes");
    let free = value("sim.free_superblocks");
    assert!(
        mbe.abs_diff(mbmw) < 10 << 21 && (1..10).contains(&free),
        "{mbe} erased, {mbmw} written, {free} free"
    );
    assert!(value("sim.gc_read_bytes").abs_diff(mbmw - hbmw) < 1 << 20);

    let manifest = bench.json("manifest.json");
    let device = &manifest["device_facts"][0];
    assert_eq!(device["ftl_model"]["precondition_fills"], 2);
    assert_eq!(device["ftl_model"]["spec"]["over_provisioning"], 0.2);
    assert_eq!(device["capacity_bytes"], 512 << 20);
    bench
        .flashproof(&["report", OUT, "--html", "page.html"])
        .expect(0);
    let page = bench.text("page.html");
    let waf = format!("{:.2}", mbmw as f64 / hbmw as f64);
    assert!(
        page.contains("WAF: bytes written to the media") && page.contains(&waf),
        "no {waf} in the report"
    );

    let run = |seed: u32, out: &str| {
        bench
            .start_as(&format!("{seed}.conf"), out, &config(seed), &[])
            .end()
            .expect(0);
        // The start time, and columns of flashproof's own use of real time, may differ.
        let counted = bench.text(&format!("{out}/telemetry.csv"));
        let own = counted
            .lines()
            .skip(1)
            .map(|line| line.splitn(10, ',').last().unwrap_or_default().to_owned());
        let times = bench.text(&format!("{out}/service.hlog"));
        let times = times
            .lines()
            .filter(|line| !line.starts_with("#["))
            .map(str::to_owned);
        [own.collect::<Vec<_>>(), times.collect()]
    };
    let first = run(5, "first");
    let same = run(5, "same");
    let other = run(6, "other");
    assert!(first == same, "telemetry or histograms of the same seed");
    assert!(first[0] != other[0] && first[1] != other[1], "another seed");
}

#[test]
fn one_run_may_use_drives_with_and_without_an_ftl() {
    let bench = Bench::new();
    let config = format!(
        "device-names: {DRIVE},sim:name=b\ntest-duration-sec: 5\nread-reqs-per-sec: 2000\nwrite-reqs-per-sec: 500\n"
    );
    bench.storage(&config, &[]).expect(0);
    assert_eq!(totals(&bench.run(), "reads"), (10_000, 0, 0));
    let header = bench
        .text("run/telemetry.csv")
        .lines()
        .next()
        .unwrap()
        .to_owned();
    assert!(
        header.contains(&format!("{DRIVE}.sim.mbmw_bytes"))
            && !header.contains("sim:name=b.sim.mbmw_bytes")
    );
}

#[test]
fn rate_finds_the_rating_of_an_ftl_drive() {
    let bench = Bench::new();
    // Large blocks occupy the only die and delay reads, so the rating is low and the search is short.
    let drive = "sim:ftl+capacity=256MiB+op=100%+channels=1+dies=1+superblock=1MiB+precondition=2+read-us=400";
    let ended = bench
        .flashproof(&[
            "rate", drive, "--from", "0.1", "--slice", "2m", "--out", "series", "--quiet",
        ])
        .expect(0);
    assert!(ended.stdout.contains("the rating is "), "{}", ended.stdout);
}

#[test]
fn certify_runs_its_stages_on_an_ftl_drive() {
    let bench = Bench::new();
    let arguments = words(
        "certify sim:ftl+capacity=512MiB+op=20%+channels=2+dies=1+superblock=2MiB+precondition=2 --out series --load 0.05 --duration 1m --quiet",
    );
    bench.flashproof(&arguments).expect(0);
}

#[test]
fn invalid_ftl_drives_are_refused_with_valid_values() {
    let bench = Bench::new();
    for (drive, why) in [
        (
            "sim:ftl+op=0",
            "op is \"0\" - give a percentage above 0 such as 7%",
        ),
        (
            "sim:ftl+capacity=1GiB+superblock=64MiB",
            "23 superblocks of 67108864 bytes are needed (17 for data, 4 in reserve, 1 for host writes, 1 for garbage \
             collection), but over-provisioning of 0.07 gives only 17",
        ),
    ] {
        let config = format!("device-names: {drive}\ntest-duration-sec: 5\nread-reqs-per-sec: 1\n");
        let ended = bench.storage(&config, &[]).expect(2);
        assert!(ended.stderr.contains(why), "{drive}: {}", ended.stderr);
    }
}
