//! Samples of the block layer during a run, and the telemetry of a run.

use crate::support;

use device::observe::trace::{BlockTrace, TraceOptions};
use results::run_dir::{TraceSamples, read_trace};
use results::telemetry::{TraceKind, TraceSize};
use support::{Bench, LAX, LoopDevice, MIB, OUT, skip};

/// Small reads, at a rate at which each sample has some.
fn load(device: &str) -> String {
    format!(
        "device-names: {device}\ntest-duration-sec: 4\nread-reqs-per-sec: 1000\nwrite-reqs-per-sec: 0\n"
    )
}

fn samples(bench: &Bench) -> TraceSamples {
    read_trace(&bench.path(OUT), &bench.run().manifest).unwrap()
}

#[test]
fn a_run_on_a_device_has_samples_of_its_requests_and_columns_of_its_threads() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    if let Err(error) = BlockTrace::start(&[device.number()], TraceOptions::default()) {
        return skip(&error.to_string()).unwrap_or(());
    }
    let ended = bench.storage(&load(&device.name), &LAX).expect(0);
    assert!(!ended.stderr.contains("not measured"), "{}", ended.stderr);
    assert!(bench.run().manifest.unmeasured.is_empty());
    let samples = samples(&bench);
    let reads: Vec<_> = samples
        .lines
        .iter()
        .filter(|line| line.kind == TraceKind::Read)
        .collect();
    assert!(
        !reads.is_empty() && samples.remarks.is_empty(),
        "{samples:?}"
    );
    for line in reads {
        // A sample takes 0.5 s, about 500 reads. The bound is 2 s of reads, because the sampling thread may end late.
        assert_eq!((line.device, line.size), (0, TraceSize::Small), "{line:?}");
        assert!(
            line.at_sec >= 0.5 && (1..=2_000).contains(&line.requests),
            "{line:?}"
        );
        assert!(
            line.queue.p50_ns <= line.queue.max_ns && line.device_time.p50_ns > 0,
            "{line:?}"
        );
        assert_eq!(line.total_over, [0], "nothing takes ten seconds");
    }
    let header = bench
        .text("run/telemetry.csv")
        .lines()
        .next()
        .unwrap()
        .to_owned();
    let name = device.name.trim_start_matches("/dev/");
    for column in [
        &format!("{name}.r_await"),
        "host.psi_io_some_pct",
        "thread.issue-0.cpu_pct",
    ] {
        assert!(
            header.split(',').any(|found| found == column),
            "{column} in {header}"
        );
    }
}

#[test]
fn option_no_trace_disables_samples_of_requests_and_is_recorded() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    let ended = bench
        .storage(&load(&device.name), &[LAX[0], LAX[1], "--no-trace"])
        .expect(0);
    assert!(
        !ended.stderr.contains("not measured"),
        "--no-trace was given"
    );
    assert!(!bench.exists("run/trace.csv"));
    assert_eq!(samples(&bench), TraceSamples::default());
    let unmeasured = bench.run().manifest.unmeasured;
    assert!(
        unmeasured.len() == 1 && unmeasured[0].contains("--no-trace"),
        "{unmeasured:?}"
    );
}

#[test]
fn a_run_on_a_file_warns_that_a_file_cannot_be_traced() {
    let bench = Bench::new();
    let load = format!(
        "{}file-size-mbytes: 64\n",
        load("file").replace("sec: 0", "sec: 10")
    );
    let ended = bench.storage(&load, &LAX).expect(0);
    assert!(
        ended
            .warnings()
            .iter()
            .any(|line| line.contains("file cannot be traced - it is a file")),
        "{ended:?}"
    );
    assert!(!bench.exists("run/trace.csv"));
    assert_eq!(bench.run().manifest.unmeasured.len(), 1);
}

#[test]
fn a_simulated_run_has_no_samples_and_no_warning() {
    let bench = Bench::new();
    let ended = bench.storage(&load("sim:"), &LAX).expect(0);
    assert!(!ended.stderr.contains("not measured") && !bench.exists("run/trace.csv"));
    assert!(bench.run().manifest.unmeasured.is_empty());
}
