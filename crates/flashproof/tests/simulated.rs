//! Simulated drives with known behaviour: the verdict must report this behaviour.

use crate::support;

use results::judge::{Outcome, Verdict};
use support::{Bench, OUT, totals};

/// Judged operations over the first threshold, over all slices and devices.
fn slow(verdict: &Verdict) -> u64 {
    let all = verdict
        .groups
        .iter()
        .find(|group| group.device.is_none())
        .unwrap_or(&verdict.groups[0]);
    all.slices.iter().map(|slice| slice.judged_over[0]).sum()
}

#[test]
fn a_freeze_of_1_s_at_1000_reads_per_s_makes_1000_slow_reads() {
    let bench = Bench::new();
    let config = "device-names: sim:stall-ms=1000+stall-at-s=5\ntest-duration-sec: 10\nread-reqs-per-sec: 1000\n";
    let ended = bench.storage(config, &[]).expect(1);
    let run = bench.run();
    assert_eq!(totals(&run, "reads"), (10_000, 0, 0));
    assert_eq!(run.verdict.outcome, Outcome::Fail);
    // All operations that arrived during the freeze of one second are slow, except those in its last millisecond.
    assert!(
        (990..=1005).contains(&slow(&run.verdict)),
        "{}",
        slow(&run.verdict)
    );
    assert!(
        ended.stdout.contains("FAIL: too slow: "),
        "{}",
        ended.stdout
    );

    // A closed loop has only as many slow operations as it has operations in flight.
    std::fs::remove_dir_all(bench.path(OUT)).unwrap();
    bench
        .storage(
            &format!("{config}arrival: closed\nservice-threads: 4\n"),
            &[],
        )
        .expect(1);
    let run = bench.run();
    assert!(
        run.verdict.reasons[0]
            .text
            .contains(" at a time, in all for 1 s of 10 s"),
        "{}",
        run.verdict
    );
    assert!(
        slow(&run.verdict) <= 4 && totals(&run, "reads").0 > 10_000,
        "{}",
        slow(&run.verdict)
    );
}

#[test]
fn a_freeze_is_also_counted_for_operations_that_wait_for_a_slot() {
    let bench = Bench::new();
    let config = "device-names: sim:stall-ms=1000+stall-at-s=5\ntest-duration-sec: 10\nread-reqs-per-sec: 1000\n\
                  service-threads: 8\n";
    bench.storage(config, &[]).expect(1);
    // Operations that wait for a slot are as slow as operations that wait in the drive.
    assert!(
        (990..=1050).contains(&slow(&bench.run().verdict)),
        "{}",
        slow(&bench.run().verdict)
    );
}

#[test]
fn a_drive_too_slow_for_its_load_stops_the_run_and_is_named() {
    let bench = Bench::new();
    // The drive does 50 of 100 reads per second: after 20 s, the reads are ten seconds late.
    let config = "device-names: sim:channels=1+read-us=20000+jitter-pct=0+read-mbps=0\ntest-duration-sec: 3600\nread-reqs-per-sec: 100\n\
                  max-lag-sec: 10\n";
    bench
        .storage(config, &[])
        .expect_stdout(1, &["(max-lag-sec 10)", "the bottleneck was the device"]);
    let run = bench.run();
    assert!(
        run.verdict.partial && run.verdict.ran_sec < 120.0,
        "{}",
        run.verdict.ran_sec
    );
    let log = bench.text("run/act.log");
    assert!(
        log.contains("drive(s) can't keep up - test stopped"),
        "ACT's scripts look for this"
    );
    // The same drive, behind an in-flight limit that the user set.
    std::fs::remove_dir_all(bench.path(OUT)).unwrap();
    let ended = bench
        .storage(&format!("{config}service-threads: 1\n"), &[])
        .expect(1);
    assert!(
        ended
            .stdout
            .contains("the bottleneck was the configured in-flight limit"),
        "{}",
        ended.stdout
    );
}

#[test]
fn rates_are_exact_over_hours_and_devices() {
    let bench = Bench::new();
    let config = "device-names: sim:name=a sim:name=b sim:name=c\ntest-duration-sec: 10800\nread-reqs-per-sec: 7\n\
                  report-interval-sec: 60\n";
    bench.storage(config, &[]).expect(0);
    let run = bench.run();
    assert_eq!(totals(&run, "reads"), (7 * 10_800, 0, 0));
    assert_eq!(run.verdict.slice_sec, 3600);
    for group in run
        .verdict
        .groups
        .iter()
        .filter(|group| group.device.is_some())
    {
        let expected: Vec<u64> = group.slices.iter().map(|slice| slice.scheduled).collect();
        assert_eq!(
            expected, [8400; 3],
            "a third each hour on {:?}",
            group.device
        );
    }
}

#[test]
fn eight_drives_share_a_load_evenly_and_the_slow_drive_decides_the_verdict() {
    let bench = Bench::new();
    let drives: Vec<String> = (0..8)
        .map(|n| format!("sim:name=d{n}{}", if n == 5 { "+read-us=1500" } else { "" }))
        .collect();
    let config = format!(
        "device-names: {}\ntest-duration-sec: 60\nread-reqs-per-sec: 8000\nwrite-reqs-per-sec: 4000\n",
        drives.join(",")
    );
    bench.storage(&config, &[]).expect(1);
    let run = bench.run();
    assert_eq!(totals(&run, "reads"), (480_000, 0, 0));
    let decided = run.verdict.decided_by.unwrap();
    assert_eq!(
        (decided.device.as_deref(), decided.scheduled),
        (Some("sim:name=d5+read-us=1500"), 60_000)
    );
    for group in run
        .verdict
        .groups
        .iter()
        .filter(|group| group.device.is_some() && group.stream == "reads")
    {
        assert_eq!(group.slices[0].scheduled, 60_000);
    }
}

#[test]
fn a_drive_that_slows_down_fails_from_the_slice_of_the_slowdown_on() {
    let bench = Bench::new();
    let config = "device-names: sim:slow-after-s=25+slow-factor=20\ntest-duration-sec: 50\nread-reqs-per-sec: 1000\n";
    bench.storage(config, &["--slice", "10"]).expect(1);
    let group = &bench.run().verdict.groups[0];
    let shares: Vec<f64> = group
        .slices
        .iter()
        .map(|slice| slice.judged_share.as_ref().unwrap()[0])
        .collect();
    assert_eq!(shares.len(), 5);
    assert_eq!((shares[0], shares[1], shares[3]), (0.0, 0.0, 1.0));
    assert!((0.49..0.51).contains(&shares[2]), "{shares:?}");
}

#[test]
fn a_simulated_day_passes_with_24_slices_and_is_marked_as_a_screening() {
    let bench = Bench::new();
    let config = "device-names: sim:\ntest-duration-sec: 86400\nread-reqs-per-sec: 20\nreport-interval-sec: 60\n";
    bench
        .storage(config, &[])
        .expect_stdout(0, &["PASS: the load was held: ", "  screening, limits: "]);
    assert_eq!(bench.run().verdict.groups[0].slices.len(), 24);
}

#[test]
fn several_configurations_share_a_drive_and_each_has_its_verdict_log_and_load() {
    let bench = Bench::new();
    let config = |devices: &str, reads: u32| {
        format!(
            "device-names: {devices}\ntest-duration-sec: 10\nread-reqs-per-sec: {reads}\nwrite-reqs-per-sec: 500\n"
        )
    };
    let slow = "sim:name=slow+read-us=1500+jitter-pct=0";
    bench.write("one.conf", config("sim:", 1_000));
    bench.write("two.conf", config(&format!("sim: {slow}"), 2_000));
    bench
        .line("storage one.conf two.conf --out run")
        .expect_stdout(1, &["\n  one: PASS: ", "\n  two: FAIL: "]);
    let run = bench.run();
    let outcomes: Vec<_> = run
        .verdict
        .workloads
        .iter()
        .map(|it| (it.name.as_str(), it.outcome))
        .collect();
    assert_eq!(outcomes, [("one", Outcome::Pass), ("two", Outcome::Fail)]);
    assert_eq!(
        (totals(&run, "one/reads"), totals(&run, "two/reads")),
        ((10_000, 0, 0), (20_000, 0, 0))
    );
    // A report from the directory gives the same verdicts, and each log has ACT's format.
    let again = bench.flashproof(&["report", OUT]).expect(1);
    assert!(
        again.stdout.contains("two: FAIL: ") && !again.stdout.contains("differs"),
        "{}",
        again.stdout
    );
    for (name, reads) in [("one", 10_000), ("two", 20_000)] {
        let log = String::from_utf8(bench.read(&format!("{OUT}/act-{name}.log"))).unwrap();
        assert!(
            log.contains(&format!("\nreads ({reads} total)\n")),
            "{name}"
        );
        bench
            .flashproof(&["latency", "-l", &format!("{OUT}/act-{name}.log"), "-t", "5"])
            .expect(0);
    }
}

#[test]
fn device_option_replaces_device_names_and_keeps_the_load_per_device() {
    let config = "device-names: /dev/nowhere1,/dev/nowhere2\ntest-duration-sec: 20\nread-reqs-per-sec: 200\n";
    for (devices, reads) in [
        (&["sim:"][..], 100 * 20),
        (&["sim:", "sim:seed=2", "sim:seed=3"], 300 * 20),
    ] {
        let bench = Bench::new();
        let devices: Vec<&str> = devices
            .iter()
            .flat_map(|device| ["--device", device])
            .collect();
        bench.storage(config, &devices).expect(0);
        assert_eq!(totals(&bench.run(), "reads").0, reads);
    }
    let bench = Bench::new();
    bench
        .storage(config, &["--device", "sim"])
        .expect_error(2, &["there is no device sim", "give sim:"]);
    bench
        .storage(config, &["--device", ""])
        .expect_error(2, &["a value is required"]);
}

#[test]
fn configurations_that_cannot_run_together_are_refused() {
    let bench = Bench::new();
    bench.write(
        "a.conf",
        "device-names: sim:\ntest-duration-sec: 10\nread-reqs-per-sec: 1000\n",
    );
    bench.write(
        "b.conf",
        "device-names: sim:\ntest-duration-sec: 20\nread-reqs-per-sec: 1000\n",
    );
    bench.write(
        "c.conf",
        "device-names: /dev/null\ntest-duration-sec: 10\nread-reqs-per-sec: 1000\n",
    );
    bench.write(
        "d.conf",
        "device-names: file\nfile-size-mbytes: 16\ntest-duration-sec: 10\nread-reqs-per-sec: 1000\n",
    );
    let run = |other: &str| bench.flashproof(&["storage", "a.conf", other, "--out", OUT]);
    run("d.conf").expect_error(
        2,
        &["the file size in bytes (0: a device) is 0 in workload 1, but 16777216 in workload 2"],
    );
    run("b.conf").expect_error(
        2,
        &[
            "cannot run these workloads",
            "the duration is 10 in workload 1, but 20 in workload 2",
        ],
    );
    run("c.conf").expect_error(
        2,
        &[
            "cannot run these workloads",
            "either simulated or real drives",
        ],
    );
}

#[test]
fn the_simulated_drives_counters_in_telemetry_agree_with_the_recorded_operations() {
    let bench = Bench::new();
    // The drive's name contains a point, which also separates the parts of a column's name.
    let drives = ["sim:read-us=90", "sim:error-rate=0.001"];
    let config = format!(
        "device-names: {}\ntest-duration-sec: 20\nreport-interval-sec: 5\nread-reqs-per-sec: 1000\n\
         write-reqs-per-sec: 300\nrecord-bytes: 1536\n",
        drives.join(",")
    );
    bench.storage(&config, &["--max-errors", "100000"]);
    let json = bench.flashproof(&["report", OUT, "--json"]).json();
    let changes = json["reports"][0]["counters"].as_array().unwrap();
    let counted = |drive: &str, column: &str| {
        let found = changes
            .iter()
            .find(|it| it["device"] == drive && it["column"] == column);
        let change = found.unwrap_or_else(|| panic!("{column} of {drive}"));
        assert_eq!(change["first"], 0.0, "{change}");
        change["last"].as_f64().unwrap() as u64
    };
    let run = bench.run();
    let sum = |column| {
        drives
            .iter()
            .map(|drive| counted(drive, column))
            .sum::<u64>()
    };
    let done = |stream| totals(&run, stream).0;
    assert_eq!(
        sum("sim.host_reads"),
        done("reads") + done("large-block-reads")
    );
    assert_eq!(sum("sim.host_writes"), done("large-block-writes"));
    assert_eq!(
        sum("sim.host_write_bytes"),
        done("large-block-writes") * 131_072
    );
    let failed =
        ["reads", "large-block-reads", "large-block-writes"].map(|stream| totals(&run, stream).1);
    assert_eq!(sum("sim.failed"), failed.iter().sum::<u64>());
    assert_eq!(counted(drives[0], "sim.failed"), 0);
    assert!(counted(drives[1], "sim.failed") > 0);
}
