//! `flashproof rate`: that it finds the truth, that it says what it found, and that it goes on after any
//! end.

use crate::support;

use results::judge::Outcome;
use results::rating::{Details, Move, Seen};
use results::series::{Series, State};
use std::thread;
use support::{Bench, Running};

const SERIES: &str = "series";

fn rate(bench: &Bench, arguments: &[&str]) -> support::Ended {
    bench.flashproof(&[&["rate", "--out", SERIES, "--quiet"], arguments].concat())
}

fn series(bench: &Bench) -> Series {
    Series::read(&bench.path(SERIES)).unwrap().expect("there is a series")
}

/// Whether `drive` holds `multiple` times the load of 1x for two simulated minutes.
fn holds(bench: &Bench, drive: &str, multiple: f64) -> bool {
    let (reads, writes) = ((2000.0 * multiple).round(), (1000.0 * multiple).round());
    let config = format!(
        "device-names: {drive}\ntest-duration-sec: 120\nread-reqs-per-sec: {reads}\nwrite-reqs-per-sec: {writes}\n"
    );
    let name = format!("{multiple:.6}");
    let ended = bench.start_as(&format!("{name}.conf"), &name, &config, &["--slice", "120", "--quiet"]).end();
    ended.code == Some(0)
}

/// The highest of loads 1 % apart below which all are held, from half of `near` to twice of it: every one
/// of them is run.
fn truth(bench: &Bench, drive: &str, near: f64) -> f64 {
    let loads: Vec<f64> = (0..140).map(|step| near / 2.0 * 1.01f64.powi(step)).collect();
    let held = |part: &[f64]| part.iter().map(|load| holds(bench, drive, *load)).collect::<Vec<_>>();
    let (low, high) = loads.split_at(loads.len() / 2);
    let held = thread::scope(|scope| {
        let low = scope.spawn(|| held(low));
        let high = held(high);
        [low.join().unwrap(), high].concat()
    });
    let first_failed = held.iter().position(|held| !held).expect("some load is too much");
    assert!(first_failed > 0, "half of the rating is not held");
    loads[first_failed - 1]
}

#[test]
fn the_rating_is_within_five_percent_of_an_exhaustive_sweep() {
    let drives = [
        // Too few channels: a cliff.
        "sim:channels=1+read-us=500+write-us=300+jitter-pct=60",
        // Too little bandwidth for large blocks, which hold up reads on the same channels.
        "sim:channels=2+read-us=300+write-us=200+write-mbps=8",
        // A freeze each second: the share over 1 ms is there from the start and grows slowly.
        "sim:channels=2+read-us=700+write-us=500+stall-ms=7+stall-every-s=0.25",
    ];
    for drive in drives {
        let bench = Bench::new();
        let ended = rate(&bench, &[drive, "--from", "0.1"]).expect(0);
        let conclusion = series(&bench).conclusion.unwrap();
        let rating = conclusion.rating.unwrap();
        let truth = truth(&bench, drive, rating);
        println!("{drive}: rated {rating}, sweep {truth:.3}, ratio {:.3}", rating / truth);
        assert!((rating / truth - 1.0).abs() <= 0.05, "{drive}: {rating}x, but {truth:.3}x\n{}", ended.stdout);
        assert!(ended.stdout.trim_start().starts_with(&format!("the rating is {rating}x: ")), "{}", ended.stdout);
        assert!(!conclusion.comparable && ended.stdout.contains("flatters a drive"), "{}", ended.stdout);
    }
}

#[test]
fn no_step_goes_further_than_twice_what_was_held_and_failures_are_recovered_from() {
    let bench = Bench::new();
    rate(&bench, &["sim:channels=1+read-us=400", "--from", "0.1"]).expect(0);
    let series = series(&bench);
    let (mut held, mut failed) = (0.0_f64, false);
    for details in series.steps.iter().map(|step| Details::of(step).unwrap()) {
        let multiple = details.moved.multiple().get();
        assert_eq!(failed && held > 0.0, matches!(details.moved, Move::Recover(_)), "{}", details.judged.why);
        assert!(held == 0.0 || multiple <= held * 2.01, "{multiple} after {held}");
        failed = details.judged.seen == Seen::Failed;
        if !failed {
            held = held.max(multiple);
        }
    }
    assert!(series.steps.last().unwrap().name.starts_with("confirmation at "));
    for file in ["report.html", "01-0.1x/verdict.json"] {
        assert!(bench.exists(&format!("{SERIES}/{file}")), "{file}");
    }
}

#[test]
fn after_kill_9_it_goes_on_with_the_step_that_was_running() {
    let bench = Bench::new();
    let drive = "sim:channels=8+read-us=400";
    let mut running = Running::start(bench.prepare(&["rate", "--out", SERIES, drive]));
    running.wait_to_hear("3.76x: at most");
    running.signal("KILL");
    assert_eq!(running.end().signal, Some(9));
    let before = series(&bench);
    assert_eq!(before.steps.last().unwrap().state, State::Running);
    rate(&bench, &[drive]).expect(0);
    let after = series(&bench);
    let done = before.steps.len() - 1;
    assert_eq!(after.steps[..done], before.steps[..done], "what was done is not done again");
    assert_eq!(after.steps[done].state, State::Interrupted);
    assert_eq!(after.steps[done + 1].name, "3.76x", "the step that was running is run again");
    assert_eq!(after.conclusion.unwrap().outcome, Outcome::Pass);
}

#[test]
fn other_terms_are_refused_and_a_search_that_ended_shows_its_result_again() {
    let bench = Bench::new();
    let drive = "sim:channels=1+read-us=600";
    let first = rate(&bench, &[drive, "--from", "0.1"]).expect(0);
    let again = rate(&bench, &[drive, "--from", "0.1"]).expect(0);
    assert_eq!(again.stdout, first.stdout);
    let other = rate(&bench, &[drive, "--from", "0.2"]).expect(2);
    assert!(other.stderr.contains("first load was \"0.1x\" then and is \"0.2x\" now"), "{}", other.stderr);
    let drive = rate(&bench, &["sim:channels=2", "--from", "0.1"]).expect(2);
    assert!(
        drive.stderr.contains("cannot go on with the series in series - it is of serial sim:channels=1"),
        "{}",
        drive.stderr
    );
}

#[test]
fn what_is_not_found_is_not_called_a_rating() {
    let bench = Bench::new();
    // Six simulated minutes: not enough to close in.
    let short = rate(&bench, &["sim:channels=1+read-us=400", "--from", "0.1", "--max-hours", "0.1"]).expect(4);
    assert!(short.stdout.contains("the rating was not found in the time given: "), "{}", short.stdout);
    // More time, and the search goes on.
    let longer = rate(&bench, &["sim:channels=1+read-us=400", "--from", "0.1", "--max-hours", "5"]).expect(0);
    assert!(longer.stdout.contains("the rating is "), "{}", longer.stdout);
    let hopeless = Bench::new();
    let none = rate(&hopeless, &["sim:read-us=5000"]).expect(1);
    assert!(none.stdout.contains("there is no rating: not even 0.0157x was held"), "{}", none.stdout);
    let errors = Bench::new();
    let failing = rate(&errors, &["sim:error-rate=0.001", "--from", "0.5"]).expect(1);
    assert!(failing.stdout.contains("there is no rating, because operations failed: "), "{}", failing.stdout);
    assert!(failing.stdout.contains("stopped after 101 errors"), "{}", failing.stdout);
    assert_eq!(series(&errors).steps.len(), 1, "lower loads would not make it better");
}

#[test]
fn nonsense_is_refused_with_what_to_do() {
    let bench = Bench::new();
    for (arguments, expected) in [
        (&["sim:", "--from", "0"][..], "0 times a load is no load"),
        (&["sim:", "--from", "-3"], "there is no negative load"),
        (&["sim:", "--from", "20", "--up-to", "10"], "cannot climb from 20x (--from) to 10x (--up-to)"),
        (&["sim:", "--max-hours", "0"], "no number of hours above 0"),
        (&["sim:", "--resolution", "0.1"], "no percentage from 1 to 50"),
        (&["sim:", "--sla", "5%"], "no \">\" between share and threshold"),
        (&["sim:", "--sla", "1%>1ms,5%>8ms"], "8ms"),
        (&["sim:chanels=1"], "unknown parameter \"chanels\""),
        (&["/dev/nosuch"], "/dev/nosuch"),
        (&[], "required"),
    ] {
        let ended = bench.flashproof(&[&["rate"], arguments].concat());
        assert!(matches!(ended.code, Some(2 | 3)), "{arguments:?}: {:?}", ended.code);
        assert!(ended.stderr.contains(expected), "{arguments:?}: {}", ended.stderr);
    }
}
