//! `flashproof certify`: its stages, its messages, and that it resumes after any interruption.

use crate::support;
use crate::support::words;

use conclusions::series::{Series, SeriesStepState};
use results::judge::Outcome;
use std::fs;
use std::time::SystemTime;
use support::{Bench, LoopDevice, Running, tool};

const SERIES: &str = "series";

fn certify(bench: &Bench, arguments: &[&str]) -> support::Ended {
    bench.flashproof(&[&["certify"], arguments].concat())
}

fn series(bench: &Bench) -> Series {
    Series::read(&bench.path(SERIES))
        .unwrap()
        .expect("there is a series")
}

/// A short series on one simulated drive. Each stage takes some seconds of real time, so that a test can interrupt it.
const SHORT: [&str; 6] = ["--out", SERIES, "--load", "0.3", "--duration", "1h"];

fn written(bench: &Bench, stage: &str) -> SystemTime {
    fs::metadata(bench.path(SERIES).join(stage).join("verdict.json"))
        .unwrap()
        .modified()
        .unwrap()
}

#[test]
fn certify_without_arguments_screens_a_simulated_drive_and_finds_its_results_again() {
    let bench = Bench::new();
    let ended = certify(&bench, &[]).expect(0);
    let first = ended.stdout.lines().find(|line| !line.is_empty()).unwrap();
    assert!(
        first.starts_with("PASS (screening): passed the screening for 1x: stage 1: "),
        "{first}"
    );
    assert!(!ended.stdout.contains("certified"), "{}", ended.stdout);
    ended.shows(&["this is only a screening, because the drives are simulated"]);
    ended.says(&["stage 2 of 2: PASS: ran to completion"]);
    let steps: Vec<_> = ended
        .stderr
        .lines()
        .filter(|line| line.contains("stage "))
        .collect();
    assert!(
        steps.len() == 2 && !ended.stderr.contains("run directory:"),
        "a line for each stage: {}",
        ended.stderr
    );
    for file in [
        "series.json",
        "report.html",
        "stage-1/verdict.json",
        "stage-2/verdict.json",
    ] {
        assert!(
            bench.exists(&format!("flashproof-results/certify-sim-1x/{file}")),
            "{file}"
        );
    }
    let again = certify(&bench, &[]).expect(0);
    again.says(&["is complete, with the result below"]);
    assert_eq!(again.stdout, ended.stdout);
    assert!(!bench.exists("flashproof-results/certify-sim-1x/stage-1.2"));
}

#[test]
fn after_kill_9_certify_resumes_with_the_interrupted_stage() {
    let bench = Bench::new();
    let mut running = Running::start(bench.prepare(&[&["certify"], &SHORT[..]].concat()));
    running.wait_until("stage 2 runs", || {
        bench.exists("series/stage-2/manifest.json")
    });
    assert_eq!(running.end_by("KILL").signal, Some(9));
    let steps = series(&bench).steps;
    assert_eq!(
        [steps[0].state, steps[1].state],
        [SeriesStepState::Done, SeriesStepState::Running]
    );
    let first = written(&bench, "stage-1");

    let ended = certify(&bench, &SHORT).expect(0);
    ended.says(&["stage 2 did not complete (its program was killed"]);
    assert!(!ended.stderr.contains("stage 1 of 2"), "{}", ended.stderr);
    assert_eq!(
        written(&bench, "stage-1"),
        first,
        "a finished stage is not run again"
    );
    let steps = series(&bench).steps;
    assert_eq!(
        (steps[0].attempts, steps[1].attempts, steps[1].dir.as_str()),
        (1, 2, "stage-2.2")
    );
    ended.shows(&["stage 2 was begun 2 times"]);
}

#[test]
fn after_ctrl_c_certify_resumes_with_the_interrupted_stage() {
    let bench = Bench::new();
    let mut running = Running::start(bench.prepare(&[&["certify"], &SHORT[..]].concat()));
    running.wait_until("the run has begun", || {
        bench.exists("series/stage-1/manifest.json")
    });
    running
        .end_by("INT")
        .expect(4)
        .shows(&["INTERRUPTED (screening): stage 1 of 2 was ended by SIGINT"]);
    assert_eq!(series(&bench).steps[0].state, SeriesStepState::Interrupted);
    assert_eq!(series(&bench).conclusion, None);
    certify(&bench, &SHORT).expect(0);
    let steps = series(&bench).steps;
    assert_eq!((steps[0].attempts, steps[1].attempts), (2, 1));
}

#[test]
fn only_one_process_runs_a_series() {
    let bench = Bench::new();
    let day = ["certify", "--out", SERIES, "--duration", "24h"];
    let mut running = Running::start(bench.prepare(&day));
    running.wait_until("stage 1 runs", || bench.exists("series/stage-1"));
    let refused =
        "cannot resume the series in series - another flashproof process runs this series now";
    bench.flashproof(&day).expect_error(3, &[refused]);
    running.end_by("KILL");
}

#[test]
fn a_series_of_another_drive_or_with_other_settings_is_refused() {
    let bench = Bench::new();
    let short = words("sim: --out series --load 0.01 --duration 1m");
    certify(&bench, &short).expect(0);
    let other = words("sim: --out series --load 0.02 --duration 2m --sla 9%>2ms");
    let ended = certify(&bench, &other).expect(2);
    for difference in [
        "load was \"0.01x\", but is \"0.02x\" now",
        "length of a stage was \"60 s\", but is \"2 min\" now",
        "limits was \"5%>1ms,1%>8ms,0.1%>64ms\", but is \"9%>2ms\" now",
    ] {
        assert!(
            ended
                .errors()
                .iter()
                .any(|error| error.contains(difference)),
            "{difference}: {}",
            ended.stderr
        );
    }
    let mut state = series(&bench);
    state.devices[0].serial = Some("S123".into());
    state.write(&bench.path(SERIES)).unwrap();
    let parts = [
        "cannot resume the series in series",
        "serial S123 (",
        "serial sim: (",
        "--fresh",
    ];
    certify(&bench, &short).expect_error(2, &parts);
    assert_eq!(series(&bench), state, "the file is unchanged");
    // --fresh deletes nothing: the new series is created beside the old one, and later commands find the new one.
    certify(&bench, &[&short[..], &["--fresh"]].concat()).expect(0);
    assert_eq!(series(&bench), state);
    assert!(bench.exists("series.2/stage-2/verdict.json"));
    assert!(
        certify(&bench, &short)
            .expect(0)
            .stderr
            .contains("the series in series.2 is complete")
    );
}

#[test]
fn invalid_certifications_are_refused_before_any_file_is_created() {
    let bench = Bench::new();
    for (arguments, part) in [
        (&["--load", "0"][..], "0 times a load is no load"),
        (&["--load", "-3"], "no negative load"),
        (&["--load", "lots"], "not a decimal number"),
        (
            &["--load", "999999999"],
            "stage 1 (999999999x): read-reqs-per-sec",
        ),
        (&["--sla", "5>1ms"], "does not end in \"%\""),
        (
            &["--sla", "1%>1ms,5%>8ms"],
            "5%>8ms allows a larger share than 1%>1ms",
        ),
        (&["--duration", "0"], "at least 1 s"),
        (&["--screen", "--duration", "1h"], "cannot be used with"),
        (
            &["sim:", "--single", "/dev/other"],
            "cannot test /dev/other alone",
        ),
        (
            &["--config", "missing.conf"],
            "cannot read the configuration missing.conf",
        ),
    ] {
        let ended = certify(&bench, arguments).expect(2);
        assert!(
            ended.stderr.contains(part),
            "`{part}` is not in `{}`",
            ended.stderr
        );
    }
    certify(&bench, &["/dev/not-there"]).expect_error(3, &["cannot test /dev/not-there"]);
    let left: Vec<_> = fs::read_dir(bench.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(left.is_empty(), "{left:?}");
    bench.write("file", [0; 4096]);
    certify(&bench, &["file"]).expect_error(2, &["cannot test file - it is a file, not a device"]);
}

#[test]
fn after_a_failed_stage_1_stage_2_runs_only_on_request() {
    let bench = Bench::new();
    let slow = words("sim:read-us=1500 --out series --load 0.05 --duration 1m");
    let ended = certify(&bench, &slow).expect(1);
    ended.shows(&[
        "FAIL (screening): failed the screening for 0.05x: stage 1: too slow: 100 % of reads",
    ]);
    ended.shows(&["because an earlier stage failed: stage 2 (--all-stages runs them)"]);
    assert_eq!(series(&bench).steps[1].state, SeriesStepState::Planned);

    let all = certify(&bench, &[&slow[..], &["--all-stages"]].concat()).expect(1);
    let steps = series(&bench).steps;
    assert_eq!(
        [steps[0].outcome, steps[1].outcome],
        [Some(Outcome::Fail), Some(Outcome::Pass)]
    );
    assert_eq!((steps[0].attempts, steps[1].attempts), (1, 1));
    all.shows(&["stage 1: too slow: 100 % of reads"]);
}

#[test]
fn stage_2_may_be_slow_but_has_to_complete() {
    let bench = Bench::new();
    // The drive has one channel, which is 46 % busy at 1x and 92 % busy at 2x.
    let text = "device-names: sim:channels=1+read-us=230+jitter-pct=0+read-mbps=0\ntest-duration-sec: 60\n\
                read-reqs-per-sec: 2000\narrival: poisson\nseed: 1\n";
    bench.write("one.conf", text);
    let options = ["--config", "one.conf", "--out", SERIES, "--duration", "5m"];
    certify(&bench, &options)
        .expect(0)
        .shows(&["passed the screening for 1 times one.conf: stage 1: "]);
    let step = &series(&bench).steps[1];
    assert_eq!(
        (step.outcome, &step.details["verdict"]),
        (Some(Outcome::Pass), &"fail".into())
    );
    assert!(
        step.reason.contains("which this stage allows"),
        "{}",
        step.reason
    );

    // The drive holds 1.5x. At twice this load it falls behind by more than max-lag-sec.
    let more = words("--config one.conf --out more --load 1.5 --duration 5m --sla 99%>1ms");
    let ended = certify(&bench, &more).expect(1);
    ended.shows(&[
        "stage 2 failed: stopped because reads@sim:",
        "the stage did not run to completion",
    ]);
}

#[test]
fn a_configuration_whose_report_interval_lengthens_the_slices_needs_the_option_slice() {
    let bench = Bench::new();
    let text = "device-names: sim:\ntest-duration-sec: 60\nread-reqs-per-sec: 5\nreport-interval-sec: 7200\n";
    bench.write("rare.conf", text);
    let options = ["--config", "rare.conf", "--out", SERIES, "--duration", "4h"];
    certify(&bench, &options)
        .expect(2)
        .says(&["slices last 7200 s, over 10 % longer"]);
    let ended = certify(&bench, &[&options[..], &["--slice", "2h"]].concat()).expect(0);
    ended.shows(&["passed the screening for 1 times rare.conf in slices of 2 h: stage 1"]);
}

#[test]
fn several_devices_are_tested_alone_and_together_and_compared() {
    let bench = Bench::new();
    let options = words("--single sim:name=b --out series --load 0.1 --duration 1m");
    let ended = certify(
        &bench,
        &[&["sim:name=a", "sim:name=b"], &options[..]].concat(),
    )
    .expect(0);
    let steps = series(&bench).steps;
    let devices: Vec<_> = steps.iter().map(|step| step.devices.clone()).collect();
    assert_eq!(devices, [vec![1], vec![1], vec![0, 1], vec![0, 1]]);
    assert!(steps.iter().all(|step| step.outcome == Some(Outcome::Pass)));
    ended.shows(&["linear: with all devices under load, every device stays within the limits"]);
    ended.shows(&["in the first two stages, sim:name=b was tested alone"]);
    let ratios = steps[2].details["linearity"]["ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), 2);
    assert_eq!(ratios[0]["alone"]["device"], "sim:name=b");
}

#[test]
fn a_dry_run_shows_the_stages_and_their_duration_and_creates_nothing() {
    let bench = Bench::new();
    for (line, says) in [
        (
            &["certify"][..],
            &[
                "screening for 1x in 2 stages: 2 h of simulated time",
                "judged in slices of 1 h",
            ][..],
        ),
        (
            &["rate", "sim:", "--slice", "2m"],
            &[
                "rating from 1x up, in rounds of 10 s",
                "under load: from ",
                " to ",
            ],
        ),
        (&["baseline", "sim:"], &["6 h under load"]),
    ] {
        let told = bench
            .flashproof(&[line, &["--dry-run"]].concat())
            .expect(0)
            .stdout;
        let of_all = ["device sim:, 68.7 GB\n", "nothing was written\n"];
        assert!(
            says.iter().chain(&of_all).all(|part| told.contains(part)),
            "{told}"
        );
    }
    let Some(device) = LoopDevice::new(&bench, 64 << 20, &[]) else {
        return;
    };
    device.put(0, &[7; 1 << 20]);
    let line = ["certify", &device.name, "--dry-run"];
    bench
        .flashproof(&line)
        .expect_error(3, &["refusing to write to", "--erase"]);
    let told = bench
        .flashproof(&[&line[..], &["--erase", &device.name]].concat())
        .expect(0)
        .stdout;
    assert!(
        told.contains("67.1 MB, prepared first: 134 MB to write, 1 s at 1 GB/s\n"),
        "{told}"
    );
    assert!(
        device.content()[..1 << 20].iter().all(|byte| *byte == 7),
        "the device was written to"
    );
    assert!(
        !bench.exists("flashproof-results") && !bench.exists("state"),
        "a file was created"
    );
}

#[test]
fn a_device_is_prepared_first_and_only_once() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 << 20, &[]) else {
        return;
    };
    // PASS and FAIL are accepted, because a loop device on a busy machine may be too slow.
    let options = words("--out series --load 0.02 --duration 3s --sla 99%>10s");
    let ended = certify(&bench, &[&[device.name.as_str()], &options[..]].concat()).expect_judged();
    let preparing = format!(
        "not prepared, or discarded after the preparation: {}; preparing first",
        device.name
    );
    ended.says(&[&preparing]);
    ended.shows(&[format!("{}: prepared", device.name)]);
    ended.shows(&["screening for 0.02x within its own limits (below 99 % over 10 s)"]);
    let because = format!(
        "because {} is a loop device, which is a file, and a stage lasts 3 s, not 24 h",
        device.name
    );
    ended.shows(&[format!("this is only a screening, {because}")]);
    let again = certify(
        &bench,
        &[&[device.name.as_str(), "--fresh"], &options[..]].concat(),
    )
    .expect_judged();
    assert!(!again.stderr.contains("preparing"), "{}", again.stderr);

    // After a discard, the record still says that the device is prepared, but the data does not.
    let Some(_) = tool("blkdiscard", &["-f", &device.name]) else {
        return;
    };
    certify(
        &bench,
        &[&[device.name.as_str(), "--fresh"], &options[..]].concat(),
    )
    .expect_judged()
    .says(&[&preparing]);
    tool("blkdiscard", &["-f", &device.name]).unwrap();
    let no_prep = [
        &[device.name.as_str(), "--no-prep", "--out", "other"],
        &options[2..],
    ]
    .concat();
    let not_prepared = format!(
        "NOT PREPARED: record and data do not show that {} was filled",
        device.name
    );
    certify(&bench, &no_prep)
        .expect_judged()
        .shows(&[not_prepared]);
}

#[test]
fn a_certification_without_preparation_is_marked_clearly() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 << 20, &[]) else {
        return;
    };
    let options = words("--no-prep --out series --load 0.02 --duration 3s --sla 99%>10s -q");
    let ended = certify(&bench, &[&[device.name.as_str()], &options[..]].concat()).expect_judged();
    ended.shows(&[format!(
        "NOT PREPARED: record and data do not show that {}",
        device.name
    )]);
}
