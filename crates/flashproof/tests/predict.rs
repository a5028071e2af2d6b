//! `flashproof predict`: the rating that it predicts from a baseline of two minutes is the one that `rate` finds.

use crate::support;

use results::baseline::Prediction;
use results::series::Series;
use std::process::Command;
use std::time::Duration;
use support::{Bench, LoopDevice, OUT, Running, Throttled};

const MIB: u64 = 1 << 20;

/// How far the prediction may be from the rating; and where stalls are about as long as a limit allows, so that a hundredth
/// more of their length is several hundredths less of the rating.
const NEAR: f64 = 0.10;
const NEAR_A_LIMIT: f64 = 0.25;

/// More than a baseline or a rating takes on a real device.
const LONG: Duration = Duration::from_secs(3_600);

/// Asks for all that takes minutes.
const ALL: &str = "FLASHPROOF_PREDICT_ALL";

/// The baseline of two minutes that `command` makes, then what is predicted from it.
fn predicted(bench: &Bench, command: impl Fn() -> Command, device: &[&str], sla: &[&str]) -> Prediction {
    let mut baseline = command();
    baseline.args([&["baseline", "--for", "2m", "--out", "baseline", "--quiet"], device].concat());
    Running::start(baseline).end_within(LONG).expect(0);
    let mut predict = command();
    predict.args([&["predict", "baseline", "--quiet"], sla].concat());
    let ended = Running::start(predict).end_within(LONG);
    let series = Series::read(&bench.path("baseline")).unwrap().unwrap();
    let mut predictions: Vec<Prediction> =
        serde_json::from_value(series.conclusion.unwrap().details["prediction"].clone()).unwrap();
    let prediction = predictions.remove(0);
    // A machine that does something else is slow in a way that no drive is.
    println!("{}", ended.expect(if prediction.doubtful { 4 } else { 0 }).stdout);
    assert_eq!(bench.text("baseline/drive.sim"), format!("{}\n", prediction.simulated));
    prediction
}

/// What `rate` finds.
fn rating(bench: &Bench, mut command: Command, options: &[&str]) -> f64 {
    command.args([&["rate", "--out", "rate", "--quiet"], options].concat());
    Running::start(command).end_within(LONG).expect(0);
    Series::read(&bench.path("rate")).unwrap().unwrap().conclusion.unwrap().rating.unwrap()
}

#[test]
fn the_predicted_rating_is_within_ten_percent_of_the_one_that_is_found() {
    let mut drives = vec![
        // Too few channels, and service times that differ.
        ("sim:channels=1+read-us=500+write-us=300+jitter-pct=60", NEAR),
        // A freeze each quarter of a second.
        ("sim:channels=2+read-us=700+write-us=500+stall-ms=4+stall-every-s=0.25", NEAR),
    ];
    if std::env::var_os(ALL).is_some() {
        drives.extend([
            // Too little bandwidth for large writes, which hold up reads.
            ("sim:channels=2+read-us=300+write-us=200+write-mbps=8", NEAR),
            ("sim:channels=8+read-us=90+write-us=30+read-mbps=400+write-mbps=150+jitter-pct=30", NEAR),
            // Operations a second as of a cloud volume.
            ("sim:channels=16+read-us=150+write-us=60+read-iops=8000+write-iops=8000+window-ms=50", NEAR),
            // With an operation before it, a freeze is as long as ACT's limit of 8 ms.
            ("sim:channels=2+read-us=700+write-us=500+stall-ms=7+stall-every-s=0.25", NEAR_A_LIMIT),
        ]);
    }
    for (drive, near) in drives {
        let bench = Bench::new();
        let prediction = predicted(&bench, || bench.prepare::<&str>(&[]), &[drive], &[]);
        assert!(!prediction.doubtful, "{prediction:#?}");
        let found = rating(&bench, bench.prepare::<&str>(&[]), &[drive, "--from", "0.1"]);
        assert_near(drive, &prediction, found, near);
        let page = bench.flashproof(&["report", "baseline"]).expect(0);
        assert!(!page.stdout.is_empty());
    }
}

fn assert_near(drive: &str, prediction: &Prediction, found: f64, near: f64) {
    let Prediction { rating, rating_low, rating_high, .. } = prediction;
    println!("{drive}: predicted {rating:?} ({rating_low:?} to {rating_high:?}), found {found}");
    let rating = rating.unwrap();
    assert!((rating / found - 1.0).abs() <= near, "{drive}: {found} was found\n{prediction:#?}");
    assert!(*rating_low <= Some(rating) && Some(rating) <= *rating_high, "{prediction:#?}");
}

#[test]
fn the_rating_of_a_throttled_device_is_predicted() {
    if std::env::var_os(ALL).is_none() {
        return support::skip(&format!("it takes half an hour: set {ALL} for it")).unwrap_or(());
    }
    // So low that a busy machine does what they allow; how long it takes for that is not looked at.
    let sla = ["--sla", "5%>64ms"];
    let limits: [(&[(&str, u64)], &str); 2] = [
        (&[("read_iops", 1_500), ("write_iops", 1_500)], "0.6"),
        (&[("read_bps", 8_000_000), ("write_bps", 8_000_000)], "1"),
    ];
    for (limits, from) in limits {
        let bench = Bench::new();
        let Some(device) = LoopDevice::new(&bench, 512 * MIB, &[]) else { return };
        let Some(throttled) = Throttled::new(&bench, &device, limits) else { return };
        let options = [device.name.as_str(), "--erase", &device.name, "--no-prep"];
        let prediction = predicted(&bench, || throttled.command(&bench), &options, &sla);
        let short = ["--slice", "60", "--from", from];
        let found = rating(&bench, throttled.command(&bench), &[&options[..], &short, &sla].concat());
        assert_near(&format!("{limits:?}"), &prediction, found, NEAR);
    }
}

#[test]
fn a_signal_ends_it_while_it_fits() {
    let bench = Bench::new();
    bench.flashproof(&["baseline", "sim:channels=4", "--for", "70s", "--out", "b", "--quiet"]).expect(0);
    let before = bench.text("b/series.json");
    let mut running = Running::start(bench.prepare(&["predict", "b"]));
    running.wait_to_hear("fitting a simulated drive");
    running.signal("INT");
    running.end().expect(4);
    assert_eq!(bench.text("b/series.json"), before, "nothing is predicted");
}

#[test]
fn what_is_no_baseline_is_refused() {
    let bench = Bench::new();
    bench.flashproof(&["predict", "nowhere"]).expect_error(2, &["there is no series in nowhere - No such file"]);
    bench.storage("device-names: sim:\ntest-duration-sec: 1\nread-reqs-per-sec: 10\n", &[]).expect(0);
    bench.flashproof(&["predict", OUT]).expect_error(2, &["it is the directory of a single run"]);
    bench.flashproof(&["predict", "/dev/zero"]).expect_error(2, &["it is no directory"]);
    bench.flashproof(&["rate", "sim:", "--up-to", "1", "--slice", "12", "--out", "rate", "--quiet"]).expect(0);
    bench.flashproof(&["predict", "rate"]).expect_error(2, &["it is no baseline"]);
    bench.write("series.json", "{");
    bench.flashproof(&["predict", "."]).expect_error(3, &["series.json"]);
}
