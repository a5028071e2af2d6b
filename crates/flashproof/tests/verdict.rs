//! Verdicts on loads that were not carried out, and on loads that were carried out but look wrong: drives that hang,
//! fail at the end, are slow, or burst. Each case has the expected exit code, and the code and a part of the text of
//! the first reason.

use crate::support;

use results::judge::{Code, Outcome};
use support::{Bench, OUT};

/// Options of a job of 4 KiB random reads, the exit code, the first reason's code and a part of its text.
type FioCase<'a> = (&'a str, i32, Code, &'a str);

fn fio(cases: &[FioCase<'_>]) {
    for (line, exit, code, part) in cases {
        let bench = Bench::new();
        let line = format!("fio --out=run --name=a --rw=randread --bs=4k {line}");
        let ended = bench.flashproof(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(ended.code, Some(*exit), "{line}\n{}", ended.stderr);
        let verdict = bench.run().verdict;
        assert!(verdict.reasons[0].code == *code && verdict.reasons[0].text.contains(part), "{line}\n{verdict}");
        // The sentence that all operations completed appears only without a reason against it.
        let says_done = verdict.to_string().contains("all operations completed");
        assert_eq!(says_done, verdict.outcome == Outcome::Measured, "{line}\n{verdict}");
    }
}

/// Further lines for a configuration of 2,000 reads and 1,000 writes per second, options, and the expected result.
type StorageCase<'a> = (&'a str, &'a [&'a str], i32, Code, &'a str);

fn storage(cases: &[StorageCase<'_>]) {
    for (lines, more, exit, code, part) in cases {
        let bench = Bench::new();
        let lines = lines.replace("; ", "\n");
        let config = format!("read-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\nseed: 1\ndevice-names: {lines}\n");
        let ended = bench.storage(&config, more);
        assert_eq!(ended.code, Some(*exit), "{config}\n{}", ended.stdout);
        let verdict = bench.run().verdict;
        assert!(verdict.reasons[0].code == *code && verdict.reasons[0].text.contains(part), "{config}\n{verdict}");
    }
}

#[test]
fn a_drive_that_stops_answering_fails_whatever_was_asked_of_it() {
    let hang = "--filename=sim:stall-at-s=5+stall-ms=1000000 --iodepth=32 --runtime=60 --time_based";
    let lost = "sim:stall-at-s=5+stall-ms=1000000 completed nothing after 5 s: 32 a-reads never completed";
    fio(&[
        (hang, 1, Code::Lost, lost),
        (&format!("{hang} --sla 0.1%>64ms"), 1, Code::Lost, lost),
        (&format!("{hang} --max_latency=100ms"), 1, Code::Lost, lost),
        (
            "--filename=sim:stall-at-s=29.95+stall-ms=1000000 --rate_iops=1000 --iodepth=1024 --runtime=30",
            1,
            Code::Lost,
            "completed nothing after 29.9 s: 50 a-reads never completed",
        ),
        (
            "--filename=sim:stall-at-s=1+stall-ms=100000000+channels=1 --rate_iops=1 --iodepth=8 --runtime=6",
            1,
            Code::Lost,
            "completed nothing after",
        ),
        (
            "--filename=sim:name=well:sim:stall-at-s=5+stall-ms=1000000 --iodepth=32 --runtime=60 --time_based",
            1,
            Code::Lost,
            "sim:stall-at-s=5+stall-ms=1000000 completed nothing after 5 s: 32 a-reads never completed",
        ),
        // The drive answers after 90 s: one --hang limit is long enough, the other is not.
        (
            "--filename=sim:stall-at-s=5+stall-ms=90000 --iodepth=32 --runtime=30 --time_based",
            1,
            Code::Lost,
            "never completed",
        ),
        (
            "--hang=100 --filename=sim:stall-at-s=5+stall-ms=90000 --iodepth=32 --runtime=30 --time_based",
            0,
            Code::NoLimits,
            "all operations completed, 32 of them over 1 s late, the latest after 90 s",
        ),
    ]);
    storage(&[
        (
            "sim:stall-at-s=3597+stall-ms=1000000000; test-duration-sec: 3600",
            &[],
            1,
            Code::Lost,
            "completed nothing after 3,597 s: 1,024 reads and 1 large-block-reads and 1 large-block-writes never completed",
        ),
        (
            "sim:channels=4096+write-us=90000000+jitter-pct=0; test-duration-sec: 20; report-interval-sec: 20; \
             large-block-concurrency: 1024",
            &[],
            1,
            Code::Lost,
            "large-block-writes never completed",
        ),
        (
            "sim:stall-at-s=30+stall-ms=1000000000; test-duration-sec: 120; arrival: closed",
            &[],
            1,
            Code::FellBehind,
            "large-block-writes",
        ),
    ]);
}

#[test]
fn a_rate_that_was_not_reached_fails_however_the_job_ends() {
    let slow = "sim:read-us=100000+channels=1+jitter-pct=0";
    fio(&[
        (
            "--filename=sim:read-us=300000 --rate_iops=1000 --iodepth=2000 --runtime=1 --time_based",
            1,
            Code::NotCarriedOut,
            "of 1,000 operations",
        ),
        (
            "--filename=sim:read-us=300000 --rate_iops=1000 --iodepth=20000 --runtime=20 --time_based --slice=1",
            1,
            Code::NotCarriedOut,
            "the load was not carried out in 20 slices in all",
        ),
        (
            &format!("--filename={slow} --rate_iops=100 --number_ios=1000"),
            1,
            Code::NotCarriedOut,
            "of 1,000 operations",
        ),
        (&format!("--filename={slow} --rate_iops=100 --size=4m"), 1, Code::NotCarriedOut, "of 1,024 operations"),
        (
            &format!("--filename={slow} --rate_iops=100 --size=16m --io_size=4m"),
            1,
            Code::NotCarriedOut,
            "of 1,024 operations",
        ),
        (
            &format!("--filename={slow} --rate_iops=100 --size=2m --loops=2"),
            1,
            Code::NotCarriedOut,
            "of 1,024 operations",
        ),
        (
            &format!("--filename={slow} --rate_iops=5 --rate_iops_min=9 --runtime=20"),
            1,
            Code::Missed,
            "reads per second in the",
        ),
        (
            &format!("--filename={slow} --rate_iops=9 --rate_iops_min=5 --runtime=20"),
            0,
            Code::NoLimits,
            "all operations completed",
        ),
        (&format!("--filename={slow} --rate_min=1m --runtime=20"), 1, Code::Missed, "bytes of reads per second"),
        (
            "--filename=sim:read-mbps=5 --rw=read --rate=10m --bs=16m --iodepth=64 --runtime=6",
            1,
            Code::NotCarriedOut,
            "had not completed 1 s after the end of the slice",
        ),
        (
            "--filename=sim:read-us=80+slow-after-s=3610+slow-factor=10000 --runtime=7100 --rate_iops=100",
            1,
            Code::NotCarriedOut,
            "in slice 2, the worst from slice 1 on",
        ),
    ]);
}

#[test]
fn each_job_is_judged_and_groups_are_for_the_table() {
    let both = "--filename=sim:read-us=2100+channels=1 --rate_iops=1000 --iodepth=64 --runtime=10 \
                --name=b --rw=randread --bs=4k --filename=sim: --rate_iops=20000 --runtime=21 --time_based";
    let of_a = "the load of a-reads on sim:read-us=2100+channels=1 was not carried out in slice 1: 4,";
    fio(&[
        (both, 1, Code::NotCarriedOut, of_a),
        (&both.replace("--runtime", "--group_reporting --runtime"), 1, Code::NotCarriedOut, of_a),
        // Operations after a job's runtime, while another job continues, do not count for the job's rate.
        (&both.replace("20000", "1"), 1, Code::NotCarriedOut, "of 10,000 operations"),
    ]);
}

#[test]
fn errors_before_what_counts_fail_the_run() {
    fio(&[(
        "--filename=sim:capacity=1GiB+bad=0-1GiB --rate_iops=100 --ramp_time=5 --number_ios=200",
        1,
        Code::IoError,
        "200 I/O errors",
    )]);
}

#[test]
fn a_device_that_is_silent_has_not_held_a_closed_loop() {
    fio(&[(
        "--filename=sim:stall-at-s=5+stall-ms=50000 --iodepth=32 --runtime=60 --time_based --sla 0.1%>64ms",
        1,
        Code::Silence,
        "completed no a-reads for 50 s of 60 s in slice 1 (83.3 %)",
    )]);
}

#[test]
fn loads_that_were_done_are_not_held_against_a_drive() {
    fio(&[
        // Operations that are due at the very end, at 80 % utilisation.
        (
            "--filename=sim:read-us=800+channels=1+jitter-pct=0 --rate_iops=1000 --rate_process=poisson --iodepth=1 \
             --runtime=60",
            0,
            Code::NoLimits,
            "all operations completed",
        ),
        // The last operations take minutes.
        (
            "--filename=sim:read-mbps=5 --rw=read --bs=16m --iodepth=64 --runtime=6 --time_based",
            0,
            Code::NoLimits,
            "over 1 s late",
        ),
        (
            "--filename=sim:stall-ms=2000+stall-every-s=100 --rate_iops=1000 --iodepth=4096 --runtime=3600 --sla 5%>1ms",
            0,
            Code::Held,
            "1.95 % of a-reads",
        ),
        (
            "--filename=sim:stall-ms=1500+stall-at-s=10 --rate_iops=1000 --iodepth=4096 --runtime=60",
            0,
            Code::NoLimits,
            "the latest after 1.5 s",
        ),
        (
            "--filename=sim:stall-ms=8000+stall-at-s=0 --rate_iops=1000 --iodepth=16000 --runtime=60",
            0,
            Code::NoLimits,
            "the latest after 8 s",
        ),
    ]);
    let bench = Bench::new();
    let line = "fio --out=run --name=a --rw=randread --bs=4k --rate_iops=1000 --iodepth=4096 --runtime=1 \
                --filename=sim:read-us=300000+channels=4096+jitter-pct=0";
    bench.flashproof(&line.split_whitespace().collect::<Vec<_>>()).expect(0);
    let verdict = bench.run().verdict;
    let differs =
        "a-reads achieved 700/s of the offered 1,000/s during the run, because 300 operations completed after its end";
    assert!(verdict.reasons.iter().any(|reason| reason.text == differs), "{verdict}");
    // ACT's large-block stream is late once.
    storage(&[("sim:stall-at-s=20+stall-ms=5000; test-duration-sec: 3600", &["--sla", "1%>64ms"], 0, Code::Held, "")]);
}

#[test]
fn nothing_planned_is_left_unjudged() {
    storage(&[
        (
            "sim:slow-after-s=601+slow-factor=40; test-duration-sec: 1190",
            &["--slice", "600"],
            1,
            Code::OverLimit,
            "99.8 % of reads on sim:slow-after-s=601+slow-factor=40 took over 1 ms in slice 2",
        ),
        (
            "sim:slow-after-s=3601+slow-factor=40; test-duration-sec: 7200; report-interval-sec: 3601",
            &[],
            1,
            Code::OverLimit,
            "in slice 2",
        ),
        ("sim:read-us=80; test-duration-sec: 60; report-interval-sec: 7", &["--slice", "20"], 0, Code::Held, "slice"),
    ]);
    let bench = Bench::new();
    let config = "device-names: sim:\ntest-duration-sec: 60\nreport-interval-sec: 7\nread-reqs-per-sec: 100\n";
    bench.storage(config, &["--slice", "8"]).expect_error(2, &["slices last 14 s, over 10 % longer"]);
    // A job that starts late is judged from its start.
    fio(&[(
        "--filename=sim:slow-after-s=3+slow-factor=40 --startdelay=5 --rate_iops=1000 --iodepth=64 --runtime=6 --time_based \
         --sla 5%>1ms",
        1,
        Code::OverLimit,
        "100 % of a-reads",
    )]);
}

#[test]
fn of_several_configurations_the_others_keep_their_verdict() {
    let bench = Bench::new();
    let config =
        |drive: &str| format!("device-names: {drive}\ntest-duration-sec: 60\nread-reqs-per-sec: 2000\nseed: 1\n");
    bench.write("well.conf", config("sim:name=well"));
    for (drive, outcome) in [
        // A lost drive and a long stall make the run invalid. A stall near the end does not.
        ("sim:gone-at-s=30", Outcome::Invalid),
        ("sim:stall-at-s=30+stall-ms=1000000", Outcome::Invalid),
        ("sim:stall-at-s=58+stall-ms=1000000", Outcome::Pass),
        ("sim:stall-at-s=30+stall-ms=5000", Outcome::Pass),
    ] {
        bench.write("ill.conf", config(drive));
        bench.flashproof(&["storage", "well.conf", "ill.conf", "--out", OUT]).expect(1);
        let of = bench.run().verdict.workloads.into_iter().map(|workload| (workload.name, workload.outcome));
        let wanted = [("well".to_owned(), outcome), ("ill".to_owned(), Outcome::Fail)];
        assert_eq!(of.collect::<Vec<_>>(), wanted, "{drive}");
        std::fs::remove_dir_all(bench.path(OUT)).unwrap();
    }
}

#[test]
fn a_rate_above_one_a_nanosecond_is_refused() {
    let bench = Bench::new();
    for rate in ["45035996273704960", "18446744073709551615"] {
        let rate = format!("--rate_iops={rate}");
        let words = ["fio", "--name=a", "--rw=randread", "--filename=sim:", "--runtime=1", &rate];
        let ended = bench.flashproof(&words).expect(2);
        assert!(ended.errors()[0].contains("more than one per nanosecond"), "{}", ended.stderr);
    }
}

#[test]
fn a_job_cut_short_by_its_runtime_says_so() {
    let bench = Bench::new();
    let line =
        "fio --out=run --name=a --rw=randread --filename=sim:read-us=100000+channels=1 --number_ios=1000 --runtime=5";
    let ended = bench.flashproof(&line.split_whitespace().collect::<Vec<_>>()).expect(0);
    let cut = "job \"a\" was ended by its runtime after 50 of 1,000 operations";
    assert!(ended.stderr.contains(cut), "{}", ended.stderr);
    // The report from the directory says the same.
    let report = bench.flashproof(&["report", OUT]).expect(0);
    assert!(report.stdout.contains(cut), "{}", report.stdout);
}
