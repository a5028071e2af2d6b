//! Verdicts on loads that were not carried out, and on loads that were but look wrong: drives that hang, fail at the
//! end, are slow, or burst. Each case has the expected exit code, and the first reason's code and part of its text.

use crate::support;

use results::judge::{Outcome, ReasonCode};
use support::{Bench, OUT};

/// Exit code, and the code of the first reason.
struct Expected(i32, ReasonCode);

impl Expected {
    /// Runs jobs of 4 KiB random reads. A case is a file name with further options, and a part of the first reason.
    fn fio(self, cases: &[(&str, &str)]) {
        for (line, part) in cases {
            let bench = Bench::new();
            let line = format!("fio --out=run --name=a --rw=randread --bs=4k --filename={line}");
            let ended = bench.line(&line);
            assert_eq!(ended.code, Some(self.0), "{line}\n{}", ended.stderr);
            let verdict = bench.run().verdict;
            assert!(
                verdict.reasons[0].code == self.1 && verdict.reasons[0].text.contains(part),
                "{line}\n{verdict}"
            );
            // Only a verdict without a contrary reason says that all operations completed.
            let says_done = verdict.to_string().contains("all operations completed");
            assert_eq!(
                says_done,
                verdict.outcome == Outcome::Measured,
                "{line}\n{verdict}"
            );
        }
    }

    /// Like [`Self::fio`], for 2,000 reads/s and 1,000 writes/s. A case is devices with more lines, options, and the
    /// part.
    fn storage(self, cases: &[(&str, &[&str], &str)]) {
        for (lines, more, part) in cases {
            let bench = Bench::new();
            let lines = lines.replace("; ", "\n");
            let config = format!(
                "read-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\nseed: 1\ndevice-names: {lines}\n"
            );
            let ended = bench.storage(&config, more);
            assert_eq!(ended.code, Some(self.0), "{config}\n{}", ended.stdout);
            let verdict = bench.run().verdict;
            assert!(
                verdict.reasons[0].code == self.1 && verdict.reasons[0].text.contains(part),
                "{config}\n{verdict}"
            );
        }
    }
}

#[test]
fn a_drive_that_stops_answering_fails_under_every_load() {
    let hang = "sim:stall-at-s=5+stall-ms=1000000 --iodepth=32 --runtime=60 --time_based";
    let lost =
        "sim:stall-at-s=5+stall-ms=1000000 completed nothing after 5 s: 32 a-reads never completed";
    // The drive answers after 90 s: --hang=100 is long enough, the default is not.
    let answers_late = "sim:stall-at-s=5+stall-ms=90000 --iodepth=32 --runtime=30 --time_based";
    Expected(1, ReasonCode::Lost).fio(&[
        (hang, lost),
        (&format!("{hang} --sla 0.1%>64ms"), lost),
        (&format!("{hang} --max_latency=100ms"), lost),
        (
            "sim:stall-at-s=29.95+stall-ms=1000000 --rate_iops=1000 --iodepth=1024 --runtime=30",
            "completed nothing after 29.9 s: 50 a-reads never completed",
        ),
        (
            "sim:stall-at-s=1+stall-ms=100000000+channels=1 --rate_iops=1 --iodepth=8 --runtime=6",
            "completed nothing after",
        ),
        (&format!("sim:name=well:{hang}"), lost),
        (answers_late, "never completed"),
    ]);
    let late = "all operations completed, 32 of them over 1 s late, the latest after 90 s";
    Expected(0, ReasonCode::NoLimits).fio(&[(&format!("{answers_late} --hang=100"), late)]);
    Expected(1, ReasonCode::Lost).storage(&[
        (
            "sim:stall-at-s=597+stall-ms=1000000000; test-duration-sec: 600",
            &[],
            "completed nothing after 597 s: 1,024 reads and 1 large-block-reads and 1 large-block-writes never completed",
        ),
        (
            "sim:channels=4096+write-us=90000000+jitter-pct=0; test-duration-sec: 20; report-interval-sec: 20; \
             large-block-concurrency: 1024",
            &[],
            "large-block-writes never completed",
        ),
    ]);
    let closed = "sim:stall-at-s=3+stall-ms=1000000000; test-duration-sec: 120; arrival: closed";
    Expected(1, ReasonCode::FellBehind).storage(&[(closed, &[], "large-block-writes")]);
}

#[test]
fn a_missed_rate_fails_however_the_job_ends() {
    let slow = "sim:read-us=100000+channels=1+jitter-pct=0";
    Expected(1, ReasonCode::NotCarriedOut).fio(&[
        ("sim:read-us=300000 --rate_iops=1000 --iodepth=2000 --runtime=1 --time_based", "of 1,000 operations"),
        (
            "sim:read-us=300000 --rate_iops=1000 --iodepth=20000 --runtime=20 --time_based --slice=1",
            "the load was not carried out in 20 slices in all",
        ),
        (&format!("{slow} --rate_iops=100 --number_ios=1000"), "of 1,000 operations"),
        (&format!("{slow} --rate_iops=100 --size=4m"), "of 1,024 operations"),
        (&format!("{slow} --rate_iops=100 --size=16m --io_size=4m"), "of 1,024 operations"),
        (&format!("{slow} --rate_iops=100 --size=2m --loops=2"), "of 1,024 operations"),
        (
            "sim:read-mbps=5 --rw=read --rate=10m --bs=16m --iodepth=64 --runtime=6",
            "had not completed 1 s after the end of the slice",
        ),
        (
            "sim:read-us=80+slow-after-s=3610+slow-factor=10000 --runtime=7100 --rate_iops=100",
            "in slice 2, the worst from slice 1 on",
        ),
    ]);
    Expected(1, ReasonCode::Missed).fio(&[
        (
            &format!("{slow} --rate_iops_min=19 --runtime=20"),
            "reads per second in the",
        ),
        (
            &format!("{slow} --rate_min=1m --runtime=20"),
            "bytes of reads per second",
        ),
    ]);
    let reached = format!("{slow} --rate_iops=9 --rate_iops_min=5 --runtime=20");
    Expected(0, ReasonCode::NoLimits).fio(&[(&reached, "all operations completed")]);
}

#[test]
fn each_job_is_judged_separately_also_within_a_group() {
    let both = "sim:read-us=2100+channels=1 --rate_iops=1000 --iodepth=64 --runtime=10 \
                --name=b --rw=randread --bs=4k --filename=sim: --rate_iops=20000 --runtime=21 --time_based";
    let of_a =
        "the load of a-reads on sim:read-us=2100+channels=1 was not carried out in slice 1: 4,";
    Expected(1, ReasonCode::NotCarriedOut).fio(&[
        (both, of_a),
        (
            &both.replace("--runtime", "--group_reporting --runtime"),
            of_a,
        ),
        // Operations after a job's runtime, while another job continues, do not count for the job's rate.
        (&both.replace("20000", "1"), "of 10,000 operations"),
    ]);
}

#[test]
fn errors_before_the_measured_time_fail_the_run() {
    let bad = "sim:capacity=1GiB+bad=0-1GiB --rate_iops=100 --ramp_time=5 --number_ios=200";
    Expected(1, ReasonCode::IoError).fio(&[(bad, "200 I/O errors")]);
}

#[test]
fn a_stalled_device_fails_a_closed_loop() {
    let silent =
        "sim:stall-at-s=5+stall-ms=50000 --iodepth=32 --runtime=60 --time_based --sla 0.1%>64ms";
    Expected(1, ReasonCode::Silence).fio(&[(
        silent,
        "completed no a-reads for over 64 ms at a time, in all for 50 s of 60 s in slice 1 (83.3 %)",
    )]);
}

#[test]
fn a_drive_slower_than_the_limit_is_too_slow_and_not_silent() {
    let slow = "sim:read-us=300 --runtime=5 --time_based --sla 1%>200us";
    let says = "100 % of a-reads on sim:read-us=300 took over 200 us";
    let at_depth_8 = format!("{slow} --iodepth=8");
    let at_a_rate = format!("{slow} --rate_iops=1000");
    Expected(1, ReasonCode::OverLimit).fio(&[
        (slow, says),
        (&at_depth_8, says),
        (&at_a_rate, says),
    ]);
}

#[test]
fn completed_loads_with_late_operations_do_not_fail() {
    Expected(0, ReasonCode::NoLimits).fio(&[
        // Operations that are due at the very end, at 80 % utilisation.
        (
            "sim:read-us=800+channels=1+jitter-pct=0 --rate_iops=1000 --rate_process=poisson --iodepth=1 --runtime=60",
            "all operations completed",
        ),
        // The last operations complete minutes after the end.
        ("sim:read-mbps=5 --rw=read --bs=16m --iodepth=64 --runtime=6 --time_based", "over 1 s late"),
        ("sim:stall-ms=1500+stall-at-s=10 --rate_iops=1000 --iodepth=4096 --runtime=60", "the latest after 1.5 s"),
        ("sim:stall-ms=8000+stall-at-s=0 --rate_iops=1000 --iodepth=16000 --runtime=60", "the latest after 8 s"),
    ]);
    let stalls = "sim:stall-ms=2000+stall-every-s=100 --rate_iops=1000 --iodepth=4096 --runtime=3600 --sla 5%>1ms";
    Expected(0, ReasonCode::Held).fio(&[(stalls, "1.95 % of a-reads")]);
    let bench = Bench::new();
    let line = "fio --out=run --name=a --rw=randread --bs=4k --rate_iops=1000 --iodepth=4096 --runtime=1 \
                --filename=sim:read-us=300000+channels=4096+jitter-pct=0";
    bench.line(line).expect(0);
    let verdict = bench.run().verdict;
    let differs = "a-reads achieved 700/s of the offered 1,000/s during the run, because 300 operations completed after its end";
    assert!(
        verdict.reasons.iter().any(|reason| reason.text == differs),
        "{verdict}"
    );
    // ACT's large-block stream is late once.
    Expected(0, ReasonCode::Held).storage(&[(
        "sim:stall-at-s=20+stall-ms=5000; test-duration-sec: 3600",
        &["--sla", "1%>64ms"],
        "",
    )]);
}

#[test]
fn a_short_last_slice_and_a_job_that_starts_late_are_judged() {
    Expected(1, ReasonCode::OverLimit).storage(&[
        (
            "sim:slow-after-s=601+slow-factor=40; test-duration-sec: 1190",
            &["--slice", "600"],
            "99.8 % of reads on sim:slow-after-s=601+slow-factor=40 took over 1 ms in slice 2",
        ),
        ("sim:slow-after-s=3601+slow-factor=40; test-duration-sec: 7200; report-interval-sec: 3601", &[], "in slice 2"),
    ]);
    let well = "sim:read-us=80; test-duration-sec: 60; report-interval-sec: 7";
    Expected(0, ReasonCode::Held).storage(&[(well, &["--slice", "20"], "slice")]);
    let bench = Bench::new();
    let config = "device-names: sim:\ntest-duration-sec: 60\nreport-interval-sec: 7\nread-reqs-per-sec: 100\n";
    bench
        .storage(config, &["--slice", "8"])
        .expect_error(2, &["slices last 14 s, over 10 % longer"]);
    // A job that starts late is judged from its start.
    let late = "sim:slow-after-s=3+slow-factor=40 --startdelay=5 --rate_iops=1000 --iodepth=64 --runtime=6 --time_based \
                --sla 5%>1ms";
    Expected(1, ReasonCode::OverLimit).fio(&[(late, "100 % of a-reads")]);
}

#[test]
fn a_failed_configuration_does_not_fail_the_others() {
    let bench = Bench::new();
    let config = |drive: &str| {
        format!("device-names: {drive}\ntest-duration-sec: 60\nread-reqs-per-sec: 2000\nseed: 1\n")
    };
    bench.write("well.conf", config("sim:name=well"));
    for (drive, outcome) in [
        // A lost drive or a long stall makes the healthy configuration invalid. A stall near the end does not.
        ("sim:gone-at-s=30", Outcome::Invalid),
        ("sim:stall-at-s=30+stall-ms=1000000", Outcome::Invalid),
        ("sim:stall-at-s=58+stall-ms=1000000", Outcome::Pass),
        ("sim:stall-at-s=30+stall-ms=5000", Outcome::Pass),
    ] {
        bench.write("ill.conf", config(drive));
        bench
            .flashproof(&["storage", "well.conf", "ill.conf", "--out", OUT])
            .expect(1);
        let of = bench
            .run()
            .verdict
            .workloads
            .into_iter()
            .map(|workload| (workload.name, workload.outcome));
        let expected = [
            ("well".to_owned(), outcome),
            ("ill".to_owned(), Outcome::Fail),
        ];
        assert_eq!(of.collect::<Vec<_>>(), expected, "{drive}");
        std::fs::remove_dir_all(bench.path(OUT)).unwrap();
    }
}

#[test]
fn a_rate_above_one_operation_per_nanosecond_is_refused() {
    let bench = Bench::new();
    for rate in ["45035996273704960", "18446744073709551615"] {
        let line =
            format!("fio --name=a --rw=randread --filename=sim: --runtime=1 --rate_iops={rate}");
        let ended = bench.line(&line).expect(2);
        assert!(
            ended.errors()[0].contains("more than one per nanosecond"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_job_ended_by_its_runtime_before_its_size_is_reported() {
    let bench = Bench::new();
    let line = "fio --out=run --name=a --rw=randread --filename=sim:read-us=100000+channels=1 --number_ios=1000 --runtime=5";
    let cut = "job \"a\" was ended by its runtime after 50 of 1,000 operations";
    bench.line(line).expect_stderr(0, &[cut]);
    bench.flashproof(&["report", OUT]).expect_stdout(0, &[cut]);
}

/// 20 s in slices of 10 s. The drive freezes for 82 ms at the border: 18 or 19 of a slice's 20,000 reads exceed 64 ms.
const FREEZES_AT_A_BORDER: &str = "read-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\nseed: 1\ntest-duration-sec: 20\n\
                                   device-names: sim:stall-at-s=9.991+stall-ms=82\n";

#[test]
fn a_freeze_across_two_slices_is_judged_as_a_whole() {
    let bench = Bench::new();
    bench
        .storage(FREEZES_AT_A_BORDER, &["--slice", "10s"])
        .expect(1);
    let run = bench.run();
    assert!(
        run.verdict.reasons[0]
            .text
            .contains(" over 64 ms in the 10 s from 0:00:05 (37 of "),
        "{}",
        run.verdict
    );
    assert_eq!(
        (
            run.verdict.decided_by.unwrap().from_sec,
            run.verdict.blame[0].from_sec
        ),
        (Some(5), Some(5))
    );
    // ACT judges whole slices.
    std::fs::remove_dir_all(bench.path(OUT)).unwrap();
    bench.storage(FREEZES_AT_A_BORDER, &["--slice", "10s", "--as-act"]);
    assert_eq!(bench.run().manifest.window_step_sec, 10);
}

#[test]
fn a_run_of_format_2_is_judged_by_whole_slices_with_a_remark() {
    let bench = Bench::new();
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/format-2");
    std::fs::create_dir(bench.path(OUT)).unwrap();
    for file in std::fs::read_dir(data).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), bench.path(OUT).join(file.file_name())).unwrap();
    }
    let says = "judged by whole slices, not by windows between them";
    bench
        .flashproof(&["report", OUT])
        .expect_stdout(0, &["PASS", says]);
    let reasons = bench.run().verdict.reasons;
    assert!(
        reasons
            .iter()
            .any(|reason| reason.code == ReasonCode::OldRules && reason.text.contains(says)),
        "{reasons:?}"
    );
}

#[test]
fn with_stop_when_decided_only_a_run_that_must_fail_ends_early() {
    let bench = Bench::new();
    // Three quarters of all reads take over 8 ms: after about 48 s, these are 1 % of the whole hour's reads.
    for (drive, code, ran_sec) in [("sim:read-us=9000", 1, 40..60), ("sim:", 0, 3_600..3_601)] {
        let config =
            format!("device-names: {drive}\ntest-duration-sec: 3600\nread-reqs-per-sec: 100\n");
        let out = format!("run-{code}");
        bench
            .start_as("a.conf", &out, &config, &["--stop-when-decided"])
            .end()
            .expect(code);
        let report = bench
            .line(&format!("report {out} --json"))
            .expect(code)
            .json();
        let verdict = &report["reports"][0]["verdict"];
        let ran = verdict["ran_sec"].as_f64().unwrap() as u64;
        let is_told = verdict["notes"]
            .to_string()
            .contains("could not change the outcome");
        assert!(ran_sec.contains(&ran), "{verdict}");
        assert_eq!(is_told, code == 1, "{verdict}");
    }
}
