//! Devices that fail during a run: errors fail the run, a lost device stops it, and the directory records the cause.

use crate::support;

use results::judge::{End, Outcome};
use std::fs::OpenOptions;
use support::{Bench, LoopDevice, MIB, OUT, totals};

fn reads(device: &str, seconds: u32, rate: u32) -> String {
    format!(
        "device-names: {device}\ntest-duration-sec: {seconds}\nread-reqs-per-sec: {rate}\nseed: 1\n"
    )
}

#[test]
fn errors_fail_a_run_that_runs_to_its_end() {
    let bench = Bench::new();
    let ended = bench
        .storage(&reads("sim:error-rate=0.01", 100, 50), &[])
        .expect(1);
    let run = bench.run();
    let (done, failed, unissued) = totals(&run, "reads");
    assert_eq!((done + failed, unissued), (5000, 0));
    assert!((20..100).contains(&failed), "1 % of 5000: {failed}");
    assert_eq!(
        (run.verdict.outcome, run.verdict.end.clone()),
        (Outcome::Fail, End::Completed)
    );
    assert!(
        ended
            .stdout
            .starts_with(&format!("\nFAIL: {failed} I/O errors (")),
        "{}",
        ended.stdout
    );
    assert!(
        run.verdict.reasons[0].text.contains(&format!("{failed} ")),
        "{:?}",
        run.verdict.reasons
    );
    // The first five errors are printed, and all are in ACT's log.
    let told = ended
        .warnings()
        .into_iter()
        .filter(|line| line.contains(" of sim:error-rate=0.01 failed: "))
        .count();
    assert_eq!(told, 5, "{}", ended.stderr);
    // The verdict records these messages, too, because a terminal may be closed.
    assert_eq!(run.verdict.failures.len(), 5);
    assert!(
        run.verdict
            .failures
            .iter()
            .all(|line| ended.stderr.contains(line) && ended.stdout.contains(line))
    );
    bench
        .flashproof(&["report", OUT, "--json"])
        .expect_stdout(1, &[&run.verdict.failures[4]]);
    assert!(
        bench
            .text("run/act.log")
            .matches("read of 1536 bytes at byte ")
            .count()
            > 5
    );
}

#[test]
fn a_bad_byte_range_fails_exactly_the_operations_in_it() {
    let bench = Bench::new();
    let device = "sim:capacity=1GiB+bad=0-512MiB";
    let ended = bench.storage(&reads(device, 10, 100), &[]).expect(1);
    let (done, failed, _) = totals(&bench.run(), "reads");
    assert_eq!(done + failed, 1000);
    assert!(
        (400..600).contains(&failed),
        "half of the drive is bad: {failed}"
    );
    let warnings = ended.warnings();
    let offsets: Vec<_> = warnings
        .iter()
        .filter_map(|line| line.split(" at byte ").nth(1))
        .collect();
    assert!(!offsets.is_empty(), "{}", ended.stderr);
    for offset in offsets {
        let offset: u64 = offset.split(' ').next().unwrap().parse().unwrap();
        assert!(offset < 512 * MIB, "{}", ended.stderr);
    }
}

#[test]
fn more_errors_than_allowed_stop_the_run() {
    let bench = Bench::new();
    let config = reads("sim:error-rate=0.5", 3600, 100);
    bench.storage(&config, &["--max-errors", "20"]).expect(1);
    let run = bench.run();
    assert!(
        matches!(
            run.verdict.end,
            End::TooManyErrors {
                errors: 21,
                errors_max: 20
            }
        ),
        "{:?}",
        run.verdict.end
    );
    assert!(run.verdict.partial && run.verdict.ran_sec < 60.0);
    assert!(
        run.verdict.reasons[0]
            .text
            .starts_with("stopped after 21 errors (20 are allowed)")
    );
    assert!(
        bench
            .text("run/act.log")
            .contains("stopped after 21 errors")
    );
    // With --max-errors 0, the first error ends the run.
    std::fs::remove_dir_all(bench.path(OUT)).unwrap();
    bench.storage(&config, &["--max-errors", "0"]).expect(1);
    assert_eq!(totals(&bench.run(), "reads").1, 1);
}

#[test]
fn a_lost_device_stops_and_fails_the_run() {
    let bench = Bench::new();
    let device = "sim:gone-at-s=3";
    let config = reads(&format!("{device} sim:name=other"), 3600, 100);
    bench
        .storage(&config, &[])
        .expect_stdout(1, &["sim:gone-at-s=3 is gone"]);
    let run = bench.run();
    assert_eq!(
        run.verdict.end,
        End::DeviceGone {
            device: device.to_owned()
        }
    );
    assert!(
        run.verdict.partial && (3.0..4.0).contains(&run.verdict.ran_sec),
        "{}",
        run.verdict.ran_sec
    );
    assert!(run.is_complete(), "the directory records how the run ended");
    bench.flashproof(&["report", OUT]).expect(1);
}

/// A file is cut short under a loop device with direct I/O: the kernel itself answers EIO beyond the end of the file.
#[test]
fn an_io_error_of_the_kernel_fails_the_run() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &["--direct-io=on"]) else {
        return;
    };
    OpenOptions::new()
        .write(true)
        .open(&device.image)
        .unwrap()
        .set_len(32 * MIB)
        .unwrap();
    let beyond = std::os::unix::fs::FileExt::read_at(
        &std::fs::File::open(&device.name).unwrap(),
        &mut [0; 512],
        48 * MIB,
    );
    if beyond.is_ok() {
        let _: Option<()> =
            support::skip("this kernel's loop device invents what its file has lost");
        return;
    }
    for engine in ["auto", "aio", "threads"] {
        let config = reads(&device.name, 2, 100) + &format!("engine: {engine}\n");
        let ended = bench.storage(&config, &["--sla", "99%>10s"]).expect(1);
        let run = bench.run();
        let (done, failed, unissued) = totals(&run, "reads");
        assert_eq!(
            (done + failed, unissued),
            (200, 0),
            "the run continues to its end"
        );
        assert!(
            (50..150).contains(&failed),
            "half of the device is lost: {failed}"
        );
        assert!(
            ended
                .stderr
                .contains(&format!("of {} failed: ", device.name)),
            "{}",
            ended.stderr
        );
        assert!(
            ended.stderr.contains("Input/output error (os error 5)"),
            "{}",
            ended.stderr
        );
        assert_eq!(run.verdict.end, End::Completed);
        std::fs::remove_dir_all(bench.path(OUT)).unwrap();
    }
    let stopped = bench
        .storage(&reads(&device.name, 30, 100), &["--max-errors", "10"])
        .expect(1);
    assert!(
        stopped.stdout.contains("errors (10 are allowed)"),
        "{}",
        stopped.stdout
    );
}
