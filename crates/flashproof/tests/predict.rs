//! `flashproof rate predict`: the rating predicted from a baseline of two minutes is near the rating that `rate` finds,
//! and runs of an hour confirm its interval. Otherwise, the prediction is declined with a cause.

use crate::support;
use crate::support::words;

use conclusions::baseline::{DeclinedBy, Prediction};
use conclusions::series::Series;
use std::process::Command;
use std::time::Duration;
use support::{Bench, LoopDevice, MIB, OUT, Running, Throttled, in_parallel};

/// Maximum deviation of the prediction from the rating. `NEAR_A_LIMIT` is for stalls that are nearly as long as a limit
/// allows: stalls that are 1 % longer then cost several percent of the rating.
const NEAR: f64 = 0.10;
const NEAR_A_LIMIT: f64 = 0.25;

/// Limits of a drive that is ten times as slow. Its loads are a tenth, so simulated runs take less time.
const SLOWER: [&str; 2] = ["--sla", crate::rate::SLOWER];

/// Timeout, longer than a baseline or a rating on a real device takes.
const LONG: Duration = Duration::from_secs(3_600);

/// Makes a baseline of two minutes by `command`, and returns the prediction from it.
fn predicted(
    bench: &Bench,
    command: impl Fn() -> Command,
    device: &[&str],
    sla: &[&str],
) -> Prediction {
    let mut baseline = command();
    baseline.args(
        [
            &words("baseline --duration 2m --out baseline --quiet"),
            device,
        ]
        .concat(),
    );
    Running::start(baseline).end_within(LONG).expect(0);
    let mut predict = command();
    predict.args([&["rate", "predict", "baseline", "--quiet"], sla].concat());
    let ended = Running::start(predict).end_within(LONG);
    println!("{}{}", ended.stdout, ended.stderr);
    let series = Series::read(&bench.path("baseline")).unwrap().unwrap();
    let mut predictions: Vec<Prediction> =
        serde_json::from_value(series.conclusion.unwrap().details["prediction"].clone()).unwrap();
    let prediction = predictions.remove(0);
    ended.expect(if prediction.rating.is_some() { 0 } else { 4 });
    match &prediction.simulated {
        Some(simulated) => assert_eq!(bench.text("baseline/drive.sim"), format!("{simulated}\n")),
        None => assert!(prediction.declined.is_some() && !bench.exists("baseline/drive.sim")),
    }
    prediction
}

fn rating(bench: &Bench, mut command: Command, options: &[&str]) -> f64 {
    command.args([&["rate", "--out", "rate", "--quiet"], options].concat());
    Running::start(command).end_within(LONG).expect(0);
    Series::read(&bench.path("rate"))
        .unwrap()
        .unwrap()
        .conclusion
        .unwrap()
        .rating
        .unwrap()
}

#[test]
fn the_predicted_rating_is_within_10_percent_of_the_measured_rating() {
    let drives = [
        // Too few channels, and service times that differ.
        (
            "sim:channels=1+read-us=500+write-us=300+jitter-pct=60",
            NEAR,
        ),
        // A freeze each quarter of a second.
        (
            "sim:channels=2+read-us=700+write-us=500+stall-ms=4+stall-every-s=0.25",
            NEAR,
        ),
        // Too little bandwidth for large writes, which hold up reads.
        ("sim:channels=2+read-us=300+write-us=200+write-mbps=8", NEAR),
        (
            "sim:channels=8+read-us=90+write-us=30+read-mbps=400+write-mbps=150+jitter-pct=30",
            NEAR,
        ),
        // A limit of operations per second, as on a cloud volume.
        (
            "sim:channels=16+read-us=150+write-us=60+read-iops=8000+write-iops=8000+window-ms=50",
            NEAR,
        ),
        // A freeze of 7 ms and the operation before the freeze together take about 8 ms, one of ACT's limits.
        (
            "sim:channels=2+read-us=700+write-us=500+stall-ms=7+stall-every-s=0.25",
            NEAR_A_LIMIT,
        ),
    ];
    if support::long() {
        in_parallel(&drives, |&(drive, near)| {
            rating_is_predicted(drive, near, "0.1", &[]);
        });
    } else {
        let drive = "sim:channels=1+read-us=5000+write-us=3000+jitter-pct=60";
        rating_is_predicted(drive, NEAR, "0.01", &SLOWER);
    }
}

fn rating_is_predicted(drive: &str, near: f64, from: &str, sla: &[&str]) {
    let bench = Bench::new();
    let prediction = predicted(&bench, || bench.prepare::<&str>(&[]), &[drive], sla);
    assert_eq!(prediction.declined, None, "{prediction:#?}");
    let options = [&[drive, "--from", from], sla].concat();
    let found = rating(&bench, bench.prepare::<&str>(&[]), &options);
    assert_near(drive, &prediction, found, near);
    let page = bench.flashproof(&["report", "baseline"]).expect(0);
    assert!(!page.stdout.is_empty());
}

fn assert_near(drive: &str, prediction: &Prediction, found: f64, near: f64) {
    let Prediction {
        rating,
        rating_low,
        rating_high,
        ..
    } = prediction;
    println!("{drive}: predicted {rating:?} ({rating_low:?} to {rating_high:?}), found {found}");
    let rating = rating.unwrap();
    assert!(
        (rating / found - 1.0).abs() <= near,
        "{drive}: {found} was found\n{prediction:#?}"
    );
    assert!(
        *rating_low <= Some(rating) && Some(rating) <= *rating_high,
        "{prediction:#?}"
    );
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    /// A rating is predicted, and the true rating is in its interval.
    Rating,
    /// The drive holds no load.
    Nothing,
    Declined(DeclinedBy),
}

/// The load that is tried if the prediction says that the drive holds no load.
const LOW: f64 = 0.2;

/// Drives that change over time, the length of runs that check the prediction (seconds), and the expected prediction.
const CHANGING: [(&str, u64, Told); 4] = [
    (
        "sim:channels=2+read-us=300+write-us=200+stall-ms=25+stall-every-s=4",
        400,
        Told::Rating,
    ),
    (
        "sim:channels=2+stall-ms=200+stall-every-s=3",
        300,
        Told::Nothing,
    ),
    (
        "sim:channels=2+read-us=100+write-us=60+slow-after-s=1800+slow-factor=3",
        0,
        Told::Declined(DeclinedBy::Drift),
    ),
    (
        "sim:ftl+capacity=2GiB+precondition=2+channels=4+dies=2+op=28%+suspend-us=off",
        0,
        Told::Declined(DeclinedBy::GarbageCollection),
    ),
];

#[test]
fn predictions_for_changing_drives_hold_or_are_declined() {
    if support::long() {
        in_parallel(&CHANGING, |&(drive, seconds, told)| {
            assert_predicted(drive, seconds, told, &[]);
        });
    } else {
        let drive = "sim:channels=2+read-us=3000+write-us=2000+stall-ms=250+stall-every-s=40";
        assert_predicted(drive, 4_000, Told::Rating, &SLOWER);
    }
}

#[test]
fn a_prediction_names_what_the_baseline_cannot_show() {
    let bench = Bench::new();
    let drive = "sim:channels=2+read-us=3000+write-us=2000+stall-ms=5000+stall-at-s=1800";
    let prediction = predicted(&bench, || bench.prepare::<&str>(&[]), &[drive], &SLOWER);
    // A single stall of 5 s in an hour exceeds the limits. A baseline of two minutes cannot exclude such stalls.
    assert_eq!(
        prediction.declined.map(|declined| declined.cause),
        Some(DeclinedBy::Stalls)
    );
    // The light load of the watch sees a stall from its next operation on.
    let stall = ["1 stall of 4.9", "1 stall of 5"];
    assert!(
        stall.iter().any(|stall| prediction.unknown.contains(stall)),
        "{}",
        prediction.unknown
    );
    for told in [
        "rarer than one in 40 min",
        "after 2 h of load",
        " --duration 3min",
    ] {
        assert!(
            prediction.unknown.contains(told),
            "{told}: {}",
            prediction.unknown
        );
    }
}

fn holds(drive: &str, multiple: f64, seconds: u64, sla: &[&str]) -> bool {
    let bench = Bench::new();
    let reads = (2_000.0 * multiple).round();
    let writes = (1_000.0 * multiple).round();
    let config = format!(
        "device-names: {drive}\ntest-duration-sec: {seconds}\nread-reqs-per-sec: {reads}\nwrite-reqs-per-sec: {writes}\n"
    );
    bench.write("hour.conf", &config);
    let command = [&["storage", "hour.conf", "--quiet", "--out", "hour"], sla].concat();
    let ended = Running::start(bench.prepare(&command)).end_within(LONG);
    assert!(matches!(ended.code, Some(0 | 1)), "{}", ended.stderr);
    ended.code == Some(0)
}

/// Asserts that the prediction for `drive` is `expected`, and that runs of `seconds` confirm the prediction.
fn assert_predicted(drive: &str, seconds: u64, expected: Told, sla: &[&str]) {
    let bench = Bench::new();
    let prediction = predicted(&bench, || bench.prepare::<&str>(&[]), &[drive], sla);
    let Prediction {
        rating,
        rating_low,
        rating_high,
        declined,
        ..
    } = &prediction;
    let told = match (declined, rating) {
        (Some(declined), _) => Told::Declined(declined.cause),
        (None, Some(_)) => Told::Rating,
        (None, None) => Told::Nothing,
    };
    assert_eq!(told, expected, "{drive}: {prediction:#?}");
    if let Some((low, high)) = rating_low.zip(*rating_high) {
        assert!(
            Some(low) <= *rating && *rating <= Some(high) && high <= 2.0 * low,
            "{prediction:#?}"
        );
        assert!(
            holds(drive, low, seconds, sla),
            "{drive} does not hold {low}x\n{prediction:#?}"
        );
        assert!(
            !holds(drive, high, seconds, sla),
            "{drive} holds {high}x\n{prediction:#?}"
        );
    }
    if told == Told::Nothing {
        assert!(
            !holds(drive, LOW, seconds, sla),
            "{drive} holds {LOW}x\n{prediction:#?}"
        );
    }
}

#[test]
#[ignore = "half an hour: make soak"]
fn the_rating_of_a_throttled_device_is_predicted() {
    // Loads low enough for a busy machine. Their latencies are not checked.
    let sla = ["--sla", "5%>64ms"];
    let limits: [(&[(&str, u64)], &str); 2] = [
        (&[("read_iops", 1_500), ("write_iops", 1_500)], "0.6"),
        (&[("read_bps", 8_000_000), ("write_bps", 8_000_000)], "1"),
    ];
    for (limits, from) in limits {
        let is_predicted = || {
            let bench = Bench::new();
            let device = LoopDevice::new(&bench, 512 * MIB, &[])?;
            let throttled = Throttled::new(&bench, &device, limits)?;
            let options = [device.name.as_str(), "--erase", &device.name, "--no-prep"];
            let prediction = predicted(&bench, || throttled.command(&bench), &options, &sla);
            if prediction.declined.is_some() {
                return Some(false);
            }
            let short = ["--slice", "60", "--from", from];
            let found = rating(
                &bench,
                throttled.command(&bench),
                &[&options[..], &short, &sla].concat(),
            );
            assert_near(&format!("{limits:?}"), &prediction, found, NEAR);
            Some(true)
        };
        // Under other load, a loop device does not behave like a modelled drive, so three baselines are tried.
        let outcome = (0..3)
            .map(|_| is_predicted())
            .find(|outcome| *outcome != Some(false));
        assert!(
            outcome.is_some(),
            "{limits:?}: three baselines, no prediction"
        );
    }
}

#[test]
fn a_signal_ends_rate_predict_during_its_computation() {
    let bench = Bench::new();
    bench
        .flashproof(&words(
            "baseline sim:channels=4 --duration 70s --out b --quiet",
        ))
        .expect(0);
    let before = bench.text("b/series.json");
    let mut running = Running::start(bench.prepare(&["rate", "predict", "b"]));
    running.wait_to_hear("fitting a simulated drive");
    running.end_by("INT").expect(4);
    assert_eq!(bench.text("b/series.json"), before, "nothing is predicted");
}

#[test]
fn directories_that_are_no_baselines_are_refused() {
    let bench = Bench::new();
    bench
        .line("rate predict nowhere")
        .expect_error(2, &["there is no series in nowhere - No such file"]);
    bench
        .storage(
            "device-names: sim:\ntest-duration-sec: 1\nread-reqs-per-sec: 10\n",
            &[],
        )
        .expect(0);
    bench
        .flashproof(&["rate", "predict", OUT])
        .expect_error(2, &["it is the directory of a single run"]);
    bench
        .flashproof(&["rate", "predict", "/dev/zero"])
        .expect_error(2, &["it is not a directory"]);
    bench
        .flashproof(&[
            "rate", "sim:", "--up-to", "1", "--slice", "12", "--out", "rate", "--quiet",
        ])
        .expect(0);
    bench
        .flashproof(&["rate", "predict", "rate"])
        .expect_error(2, &["it is not a baseline"]);
    bench.write("series.json", "{");
    bench
        .flashproof(&["rate", "predict", "."])
        .expect_error(3, &["series.json"]);
}
