//! Each test creates one cause of slowness, which outweighs all others on any machine. The verdict must blame this
//! cause: the tests assert which part of the time is the largest, but not how large.

use crate::support;

use results::blame::{Blame, Cause};
use results::judge::Outcome;
use results::run_dir::{self, Run};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::{Bench, LoopDevice, MIB, OUT, Running, Throttled, Undo, skip, tool};

fn worst(run: &Run) -> &Blame {
    assert_eq!(
        run.remarks
            .iter()
            .find(|remark| remark.contains("trace.csv")),
        None
    );
    run.verdict
        .blame
        .first()
        .unwrap_or_else(|| panic!("nothing is blamed: {:?}", run.verdict.reasons))
}

fn part(blame: &Blame, cause: Cause) -> Option<&str> {
    blame
        .parts
        .iter()
        .find(|part| part.cause == cause)
        .map(|part| part.evidence.as_str())
}

/// Asserts that `cause` has the largest part, in the output of the run and in a later report.
#[track_caller]
fn assert_blamed(bench: &Bench, cause: Cause) -> Blame {
    let run = bench.run();
    let blame = worst(&run).clone();
    assert_eq!(blame.parts[0].cause, cause, "{}", blame.sentence);
    let written = run.written.expect("a verdict");
    assert_eq!(
        written.blame[0].sentence, blame.sentence,
        "the run and the report give the same blame"
    );
    blame
}

#[test]
fn a_stalled_simulated_drive_is_blamed_for_operations_in_the_drive_and_waiting_for_a_slot() {
    let bench = Bench::new();
    let config = "device-names: sim:stall-ms=200+stall-every-s=2\ntest-duration-sec: 10\nread-reqs-per-sec: 1000\n";
    for more in ["", "service-threads: 8\n"] {
        let ended = bench.storage(&format!("{config}{more}"), &[]).expect(1);
        let blame = assert_blamed(&bench, Cause::Device);
        assert!(
            blame.parts[0]
                .evidence
                .contains("a simulated device has no kernel"),
            "{}",
            blame.sentence
        );
        assert!(
            ended
                .stdout
                .contains(&format!("  where the time went: {}\n", blame.sentence)),
            "{}",
            ended.stdout
        );
        fs::remove_dir_all(bench.path(OUT)).unwrap();
    }
}

#[test]
fn too_few_slots_are_blamed_instead_of_a_fast_drive() {
    let bench = Bench::new();
    // Two slots serve 5,000 reads per second; the drive could serve 160,000.
    let config = "device-names: sim:channels=64+read-us=400+jitter-pct=0\ntest-duration-sec: 5\nmax-lag-sec: 0\n\
                  read-reqs-per-sec: 10000\nservice-threads: 2\n";
    bench
        .storage(config, &[])
        .expect_stdout(1, &["\nDo: raise the in-flight limit"]);
    let blame = assert_blamed(&bench, Cause::SlotWait);
    assert!(
        blame.sentence.contains("waiting for a slot ("),
        "{}",
        blame.sentence
    );
    // Without the wait, a ninth of the reads is still over 1 ms: more slots would not help.
    fs::remove_dir_all(bench.path(OUT)).unwrap();
    let config = "device-names: sim:read-us=900+jitter-pct=15\ntest-duration-sec: 20\narrival: poisson\n\
                  read-reqs-per-sec: 2150\nservice-threads: 2\nseed: 1\n";
    bench
        .storage(config, &[])
        .expect_stdout(1, &["\nDo: test another drive: even without the waits"]);
    assert_blamed(&bench, Cause::SlotWait);
}

#[test]
fn a_passed_run_blames_no_cause() {
    let bench = Bench::new();
    let config = "device-names: sim:\ntest-duration-sec: 5\nread-reqs-per-sec: 1000\n";
    let ended = bench.storage(config, &[]).expect(0);
    assert_eq!(
        (bench.run().verdict.outcome, bench.run().verdict.blame),
        (Outcome::Pass, vec![])
    );
    assert!(
        !ended.stdout.contains("where the time went"),
        "{}",
        ended.stdout
    );
}

#[test]
fn the_wait_in_a_throttling_cgroup_is_blamed_on_the_kernel_and_not_on_the_device() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    let Some(throttled) = Throttled::new(&bench, &device, &[("read_iops", 50)]) else {
        return;
    };
    let config = format!(
        "device-names: {}\ntest-duration-sec: 4\nread-reqs-per-sec: 100\n",
        device.name
    );
    bench.write(support::CONFIG, config);
    let mut command = throttled.command(&bench);
    command.args(["storage", support::CONFIG, "--out", OUT]);
    let ended = Running::start(command).end();
    ended.expect_stdout(1, &["\nDo: look for what holds requests in the kernel"]);
    let blame = assert_blamed(&bench, Cause::KernelQueue);
    assert!(
        blame.sentence.contains("in the kernel before the device ("),
        "{}",
        blame.sentence
    );
}

#[test]
fn a_device_that_is_slow_from_issue_to_completion_is_blamed() {
    let bench = Bench::new();
    let Some(below) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    // A loop device on a loop device: a delay in the lower one counts as device time of the upper one.
    let Some(name) = tool(
        "losetup",
        &["--find", "--show", "--direct-io=on", &below.name],
    ) else {
        return;
    };
    let _detached = Undo::with("losetup", &["--detach", &name]);
    let Some(throttled) = Throttled::new(&bench, &below, &[("read_iops", 400)]) else {
        return;
    };
    // With eight operations in flight and 400 admitted per second, each takes 20 ms on average (8 / 400 s). At its end,
    // a trace sample waits longer than 20 ms for the operations in flight.
    let config =
        "test-duration-sec: 4\nread-reqs-per-sec: 400\narrival: closed\nservice-threads: 8\n";
    bench.write(support::CONFIG, format!("device-names: {name}\n{config}"));
    let mut command = throttled.command(&bench);
    command.args(["storage", support::CONFIG, "--out", OUT, "--sla", "5%>1ms"]);
    Running::start(command).end().expect(1);
    let samples = fs::read_to_string(bench.path("run/trace.csv")).unwrap_or_default();
    if samples.lines().count() < 2 {
        return skip("this kernel does not let us trace").unwrap_or(());
    }
    let blame = assert_blamed(&bench, Cause::Device);
    assert!(
        blame
            .sentence
            .contains("in the device (time from issue to completion: p99 up to "),
        "{}",
        blame.sentence
    );
}

/// Busy loops on one CPU, killed when dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn on(cpu: &str, processes: usize) -> Self {
        let one = || {
            let mut command = Command::new("taskset");
            command.args(["-c", cpu, "sh", "-c", "while :; do :; done"]);
            command
                .stdin(Stdio::null())
                .spawn()
                .expect("taskset was there before")
        };
        Self((0..processes).map(|_| one()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn cpu_contention_is_reported_as_flashproofs_lag_and_blamed_on_the_host() {
    let bench = Bench::new();
    let Some(allowed) = tool("taskset", &["-cp", &std::process::id().to_string()]) else {
        return;
    };
    // Format of `allowed`: `pid 12's current affinity list: 0,1`, or `0-7` at the end.
    let list = allowed.rsplit(' ').next().unwrap_or_default();
    let cpu = list.split([',', '-']).next().unwrap_or("0").to_owned();
    // A loop device completes I/O in a kernel thread, which gets its share of CPU. With a file in memory or a zram
    // device, io_uring's workers would lack CPU as flashproof does, and their delay would not count as lag.
    let Some(device) = LoopDevice::new(&bench, 16 * MIB, &[]) else {
        return;
    };
    let load = "test-duration-sec: 6\nread-reqs-per-sec: 300\nmax-lag-sec: 0\n";
    bench.write(
        support::CONFIG,
        format!("device-names: {}\n{load}", device.name),
    );
    let mut command = bench.command("taskset");
    // With niceness 19 beside two normal processes, flashproof gets 15 of 2,063 parts of the CPU.
    command.args(["-c", &cpu, "nice", "-n", "19", support::FLASHPROOF]);
    command.args(["storage", support::CONFIG, "--out", OUT, "--slice", "1"]);
    let mut running = Running::start(command);
    running.wait_until("it begins", || bench.exists("run/lag.hlog"));
    let busy = Busy::on(&cpu, 2);
    let intervals = || {
        fs::read_to_string(bench.path("run/telemetry.csv")).map_or(0, |text| text.lines().count())
    };
    running.wait_until("it has been held off for a while", || intervals() > 5);
    drop(busy);
    let ended = running.end();
    assert!(
        matches!(ended.code, Some(1 | 4)),
        "{}\n{}",
        ended.stdout,
        ended.stderr
    );
    assert_blamed(&bench, Cause::OurLag);
    if !bench
        .text("run/telemetry.csv")
        .contains("process.runqueue_wait_pct")
    {
        return skip("this kernel does not tell how long threads waited for a CPU").unwrap_or(());
    }
    // The wait for a CPU is counted at its end, which may be in the next slice.
    let blame = bench.run().verdict.blame;
    let off_cpu = |blame: &Blame| {
        part(blame, Cause::Host).is_some_and(|host| host.contains("waited for a CPU"))
    };
    assert!(
        blame.iter().any(off_cpu),
        "{:?}",
        blame
            .iter()
            .map(|blame| &blame.sentence)
            .collect::<Vec<_>>()
    );
}

/// The recorded run of tests/data/blame, with `telemetry` as its telemetry.
fn recorded(bench: &Bench, telemetry: &str) -> Run {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/blame");
    let dir = bench.path("recorded");
    fs::create_dir(&dir).unwrap();
    for (from, to) in [
        ("manifest.json", "manifest.json"),
        ("intervals.csv", "intervals.csv"),
        (telemetry, "telemetry.csv"),
    ] {
        fs::copy(data.join(from), dir.join(to)).unwrap();
    }
    let run = run_dir::read(&dir).unwrap();
    let report = bench.flashproof(&["report", "recorded"]);
    let sentence = &worst(&run).sentence;
    assert!(
        report
            .stdout
            .contains(&format!("  where the time went: {sentence}\n")),
        "{}",
        report.stdout
    );
    run
}

#[test]
fn a_recorded_thermal_throttling_is_blamed() {
    let bench = Bench::new();
    let run = recorded(&bench, "hot.telemetry.csv");
    let blame = worst(&run);
    assert_eq!((blame.slice, part(blame, Cause::Host)), (2, None));
    let heat = part(blame, Cause::Heat).unwrap_or_else(|| panic!("{}", blame.sentence));
    assert_eq!(heat, "drive at 78 C, throttled 12 times, throttled for 2 s");
    assert!(
        blame.sentence.ends_with(&format!("; {heat}")),
        "{}",
        blame.sentence
    );
}

#[test]
fn recorded_cpu_steal_is_blamed_on_the_host() {
    let bench = Bench::new();
    let run = recorded(&bench, "steal.telemetry.csv");
    let blame = worst(&run);
    assert_eq!(
        part(blame, Cause::Host),
        Some("while operations were slow, the hypervisor stole 24 % of the CPU time")
    );
    assert_eq!(part(blame, Cause::Heat), None);
}

#[test]
fn recorded_interrupts_on_one_saturated_cpu_are_blamed() {
    let bench = Bench::new();
    let run = recorded(&bench, "interrupts.telemetry.csv");
    let host = part(worst(&run), Cause::Host);
    let words = "while operations were slow, 100 % of the device's interrupts went to one CPU while the busiest CPU was 100 % busy";
    assert_eq!(host, Some(words));
}
