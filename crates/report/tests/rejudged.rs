//! A series is judged again from its runs. The runs can make the recorded outcome worse, never better.

use crate::support::{SHORT, Shape, write_series};
use conclusions::series::{Series, SeriesPurpose, SeriesStepState};
use report::comparison::{CandidateDir, OperatorData, compare};
use report::document::Document;
use report::status::DirStatus;
use results::judge::Outcome;
use results::run_dir::ProcessState;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Outcome of the series in `dir` by `report`, `status` and `compare`, which must agree.
fn outcome(dir: &Path) -> Outcome {
    let document = Document::read(&[dir]).unwrap();
    let outcome = document.outcome();
    let words = format!("{outcome}: ");
    assert!(document.text().contains(&words), "{}", document.text());
    assert_eq!(
        document.banners().is_empty(),
        outcome == Outcome::Pass,
        "{:?}",
        document.banners()
    );
    let status = DirStatus::read(dir, SystemTime::now(), &|_| ProcessState::Gone).unwrap();
    assert_eq!(status.exit_code(), outcome.exit_code(), "{status}");
    let named = CandidateDir {
        name: None,
        dir: dir.to_owned(),
    };
    let compared = compare(&[named], &OperatorData::default(), &[]).unwrap();
    assert_eq!(
        compared.candidates[0].outcome.value(),
        Some(&outcome),
        "{compared}"
    );
    assert_eq!(
        compared.candidates[0].damaged,
        outcome != Outcome::Pass,
        "{compared}"
    );
    outcome
}

const FAILS: Shape<'_> = Shape {
    slow_every: 3,
    ..SHORT
};

fn series(dir: &Path, purpose: SeriesPurpose, shapes: [Option<Shape<'_>>; 2]) {
    let [one, two] = shapes;
    write_series(
        dir,
        purpose,
        &[
            ("10x", 10.0, Outcome::Pass, one),
            ("20x", 20.0, Outcome::Pass, two),
        ],
    );
}

#[test]
fn a_pass_that_the_runs_support_stays_a_pass() {
    let parent = tempfile::tempdir().unwrap();
    for (name, purpose) in [
        ("certify", SeriesPurpose::Certify),
        ("rate", SeriesPurpose::Rate),
    ] {
        let dir = parent.path().join(name);
        series(&dir, purpose, [Some(SHORT), Some(SHORT)]);
        assert_eq!(outcome(&dir), Outcome::Pass);
    }
}

#[test]
fn a_record_edited_to_a_pass_fails_with_the_stage_whose_run_failed() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("certify");
    series(&dir, SeriesPurpose::Certify, [Some(FAILS), Some(SHORT)]);
    assert_eq!(outcome(&dir), Outcome::Fail);
    let text = Document::read(&[&dir]).unwrap().text();
    assert!(
        text.contains("10x: series.json says PASS, but the run says FAIL: "),
        "{text}"
    );
    assert!(
        text.contains("\nwhere the time went in the worst slices of each step\n  10x: "),
        "{text}"
    );
    assert!(text.contains("series.json said PASS: it passed"), "{text}");
}

#[test]
fn a_series_with_a_missing_or_damaged_run_does_not_pass() {
    let parent = tempfile::tempdir().unwrap();
    for (name, purpose) in [
        ("certify", SeriesPurpose::Certify),
        ("rate", SeriesPurpose::Rate),
    ] {
        let dir = parent.path().join(name);
        series(&dir, purpose, [Some(SHORT), None]);
        assert_eq!(outcome(&dir), Outcome::Invalid);
        fs::remove_dir_all(&dir).unwrap();
        series(&dir, purpose, [Some(SHORT), Some(SHORT)]);
        let table = dir.join("step-0/intervals.csv");
        let text = fs::read_to_string(&table).unwrap();
        fs::write(&table, &text[..text.len() / 2]).unwrap();
        assert_eq!(outcome(&dir), Outcome::Invalid);
    }
}

#[test]
fn a_series_whose_rating_no_step_held_is_invalid() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("rate");
    series(&dir, SeriesPurpose::Rate, [Some(SHORT), Some(SHORT)]);
    let mut record = Series::read(&dir).unwrap().unwrap();
    record.conclusion.as_mut().unwrap().rating = Some(300.0);
    record.write(&dir).unwrap();
    assert_eq!(outcome(&dir), Outcome::Invalid);
    let document = Document::read(&[&dir]).unwrap();
    assert!(
        document.banners()[0].contains("no step held 300x"),
        "{:?}",
        document.banners()
    );
}

#[test]
fn stages_after_a_failed_stage_are_shown_as_not_run_instead_of_planned() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("certify");
    series(&dir, SeriesPurpose::Certify, [Some(FAILS), None]);
    let mut series = Series::read(&dir).unwrap().unwrap();
    series.steps[0].outcome = Some(Outcome::Fail);
    (series.steps[1].state, series.steps[1].outcome) = (SeriesStepState::Planned, None);
    series.conclusion.as_mut().unwrap().outcome = Outcome::Fail;
    series.write(&dir).unwrap();
    let document = Document::read(&[&dir]).unwrap();
    assert_eq!(
        (document.outcome(), document.banners()),
        (Outcome::Fail, Vec::new())
    );
    let status = DirStatus::read(&dir, SystemTime::now(), &|_| ProcessState::Gone)
        .unwrap()
        .to_string();
    assert!(
        status.contains("certification: 1 step done, 1 not run\n"),
        "{status}"
    );
    for form in [document.text(), document.markdown(), status] {
        assert!(
            form.contains("not run") && !form.contains("planned"),
            "{form}"
        );
    }
    assert!(document.html().contains("<td>not run</td>"));
}
