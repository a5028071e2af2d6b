//! The index test: its counts, its in-flight limit, its log, and the program name act_index.

use crate::support;

use results::act_log::ActLogReader;
use results::judge::Outcome;
use std::os::unix::fs::symlink;
use support::{Bench, CONFIG, FLASHPROOF, LAX, LoopDevice, MIB, OUT, totals};

fn index(bench: &Bench, config: &str, more: &[&str]) -> support::Ended {
    bench.write(CONFIG, config);
    bench.flashproof(&[&["index", CONFIG, "--out", OUT], more].concat())
}

#[test]
fn each_client_write_reads_a_page_and_updates_two() {
    let bench = Bench::new();
    let config = "device-names: sim:,sim:name=b\ntest-duration-sec: 10\nread-reqs-per-sec: 23\nwrite-reqs-per-sec: 7\n";
    for more in [&[][..], &["--as-act"]] {
        index(&bench, config, more).expect(0);
        let run = bench.run();
        assert_eq!(
            (run.manifest.kind().as_str(), run.verdict.outcome),
            ("index", Outcome::Pass)
        );
        if more.is_empty() {
            assert_eq!(totals(&run, "reads"), (10 * (23 + 7 + 14), 0, 0));
            assert_eq!(totals(&run, "writes"), (10 * 14, 0, 0));
        } else {
            // Each of 8 threads does a bundle of 100 updates at once, then nothing for a minute.
            assert_eq!(totals(&run, "reads"), (10 * (23 + 7) + 800, 0, 0));
            assert_eq!(totals(&run, "writes"), (800, 0, 0));
        }
        std::fs::remove_dir_all(bench.path(OUT)).unwrap();
    }
}

#[test]
fn the_log_has_the_histograms_of_act_index() {
    let bench = Bench::new();
    let config =
        "device-names: sim:\ntest-duration-sec: 2\nread-reqs-per-sec: 20\nwrite-reqs-per-sec: 10\n";
    index(&bench, config, &[]).expect(0);
    let text = bench.text("run/act.log");
    assert!(
        text.contains("\nIndex device IO test\n") && text.contains("\nACT-INDEX CONFIGURATION\n"),
        "{text}"
    );
    assert!(text.contains(
        "\nservice-thread-reads-per-sec: 30\ncache-thread-reads-and-writes-per-sec: 20\n\n"
    ));
    let log = bench.read("run/act.log");
    let mut reader = ActLogReader::new(&log[..]).unwrap();
    assert_eq!(
        reader.header().histogram_names,
        ["reads", "sim:-reads", "writes", "sim:-writes"]
    );
    let Some(Ok(last)) = reader.by_ref().last() else {
        panic!("{text}")
    };
    assert_eq!(
        last.histograms
            .iter()
            .map(|histogram| histogram.total())
            .collect::<Vec<_>>(),
        [100, 100, 40, 40]
    );
}

#[test]
fn a_bottleneck_of_page_updates_is_named() {
    let bench = Bench::new();
    // The drive does one write of 50 ms at a time: 20 per second, but 40 are scheduled.
    let config = "device-names: sim:channels=1+write-us=50000+jitter-pct=0\ntest-duration-sec: 600\n\
                  write-reqs-per-sec: 20\nmax-lag-sec: 10\n";
    index(&bench, config, &[]).expect_stdout(1, &["the bottleneck was the device"]);
    assert!(bench.run().verdict.ran_sec < 120.0);
    // Each thread does one update at a time: the bottleneck is the user's limit, not the drive.
    std::fs::remove_dir_all(bench.path(OUT)).unwrap();
    let config = "device-names: sim:read-us=9000+write-us=1000+jitter-pct=0\ntest-duration-sec: 600\n\
                  write-reqs-per-sec: 100\ncache-threads: 1\nmax-lag-sec: 10\n";
    index(&bench, config, &[]).expect_stdout(
        1,
        &[
            "the bottleneck was the configured in-flight limit",
            "page-updates@",
        ],
    );
}

#[test]
fn a_loop_device_receives_the_requested_operations_from_each_engine() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    for engine in ["uring", "aio", "threads"] {
        let config = format!(
            "device-names: {}\ntest-duration-sec: 1\nread-reqs-per-sec: 20\nwrite-reqs-per-sec: 23\nengine: {engine}\n",
            device.name
        );
        let before = device.counters();
        index(&bench, &config, &LAX).expect(0);
        let run = bench.run();
        assert_eq!(
            (totals(&run, "reads"), totals(&run, "writes")),
            ((43 + 46, 0, 0), (46, 0, 0)),
            "{engine}"
        );
        let delta = device.counters().since(&before).unwrap();
        // The kernel counts the flush after a blocking O_DSYNC write as a write, so sectors are compared instead.
        assert_eq!(delta.write.sectors, 46 * 8, "{engine}");
        std::fs::remove_dir_all(bench.path(OUT)).unwrap();
    }
}

#[test]
fn called_as_act_index_flashproof_prints_the_log_of_act() {
    let bench = Bench::new();
    let name = bench.path("act_index");
    symlink(FLASHPROOF, &name).unwrap();
    bench.write(
        CONFIG,
        "device-names: sim:\ntest-duration-sec: 1\nread-reqs-per-sec: 10\n",
    );
    let ended = bench
        .program(&name, &[CONFIG, "--out", OUT])
        .expect_stdout(0, &["after 1 sec:\nreads (10 total)\n"]);
    assert!(
        ended
            .stdout
            .starts_with("\nACT version 6.6\nIndex device IO test\n"),
        "{}",
        ended.stdout
    );
    bench.write(CONFIG, "device-names: sim:\nrecord-bytes: 1536\n");
    bench.program(&name, &[CONFIG]).expect_stderr(
        255,
        &["test.conf:2: record-bytes: a key of the storage test"],
    );
}
