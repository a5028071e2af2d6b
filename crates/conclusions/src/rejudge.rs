//! Judges a finished series again from its runs.
//!
//! `series.json` holds the conclusion from the end of the series; the run directories hold the evidence. Everything
//! that shows a series uses this module, so that nothing shows a pass that the recorded counts contradict. A worse
//! result than the recorded one is adopted, a better result is not. A search is not repeated.

use crate::agreement::{contradiction, difference};
use crate::baseline::judge_job;
use crate::certify::{StageResult, judge_stage};
use crate::rate::{NextRun, StepDetails, StepOutcome};
use crate::series::{
    Conclusion, DriveIdentity, SERIES, Series, SeriesPurpose, SeriesStepState, Step,
};
use results::format;
use results::judge::{Outcome, Verdict};
use results::run_dir::{self, Manifest, Run, RunDirError, VERDICT};
use std::path::{Component, Path, PathBuf};

pub struct StepEvidence<'a> {
    /// The verdict computed from the recorded counts.
    pub verdict: &'a Verdict,
    pub manifest: &'a Manifest,
    pub doubt: Option<String>,
}

impl<'a> StepEvidence<'a> {
    pub fn from_run(run: &'a Run) -> Self {
        Self {
            verdict: &run.verdict,
            manifest: &run.manifest,
            doubt: doubt_of(run),
        }
    }
}

/// Why the run of a finished step cannot be trusted completely; `None` if it can.
pub fn doubt_of(run: &Run) -> Option<String> {
    if let Some(damage) = run.damage.first() {
        return Some(format!("its run is damaged: {damage}"));
    }
    match run.agrees() {
        Some(true) => None,
        Some(false) => Some(format!(
            "the verdict in the {VERDICT} of its run does not follow from the counts"
        )),
        None => Some(format!("its run has no {VERDICT}: the run did not finish")),
    }
}

/// The run directory of `step` of the series in `dir`. Errors: the recorded path leads out of the series.
pub fn run_dir_of(dir: &Path, step: &Step) -> Result<PathBuf, String> {
    let relative_dir = Path::new(&step.dir);
    if step.dir.is_empty()
        || !relative_dir
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
    {
        Err(format!(
            "{SERIES} names {:?}, which is not a directory below the directory of the series",
            step.dir
        ))
    } else {
        Ok(dir.join(relative_dir))
    }
}

pub fn disappeared_error(dir: &Path) -> RunDirError {
    let why = format!("its {SERIES} disappeared");
    let what_to_do = "try again".to_owned();
    RunDirError::NoRun {
        path: dir.to_owned(),
        why,
        what_to_do,
    }
}

/// Applies [`rejudge`] to the series in `dir` and its runs. A series without a conclusion is not changed, because it
/// may be running.
pub fn rejudge_in(dir: &Path, series: &mut Series) -> Vec<String> {
    if series.conclusion.is_none() {
        return Vec::new();
    }
    rejudge_steps_in(dir, series)
}

/// Like [`rejudge_in`], also for a series without a conclusion.
pub fn rejudge_steps_in(dir: &Path, series: &mut Series) -> Vec<String> {
    let runs: Vec<_> = series
        .steps
        .iter()
        .map(|step: &Step| {
            run_dir_of(dir, step)
                .and_then(|at| run_dir::read(&at).map_err(|error| error.to_string()))
        })
        .collect();
    let evidence = runs.iter().map(|run| {
        run.as_ref()
            .map(StepEvidence::from_run)
            .map_err(String::as_str)
    });
    rejudge(series, &evidence.collect::<Vec<_>>())
}

/// Judges a series again. `evidence` has an element for each step: the run, or why there is none. `series` gets the
/// outcomes that the evidence supports. Returns a sentence for each difference from the record, and for each step that
/// cannot be checked; with any such sentence, the outcome of the series is invalid at best.
pub fn rejudge(series: &mut Series, evidence: &[Result<StepEvidence, &str>]) -> Vec<String> {
    let differences: Vec<_> = series
        .steps
        .iter()
        .zip(evidence)
        .map(|(step, evidence): (&Step, &Result<StepEvidence, &str>)| {
            let run = evidence.as_ref().ok()?;
            difference(series, step, run.manifest, run.verdict)
        })
        .collect();
    let purpose = series.purpose;
    let mut doubts = Vec::new();
    for ((step, evidence), difference) in series.steps.iter_mut().zip(evidence).zip(differences) {
        if step.state != SeriesStepState::Done {
            continue;
        }
        let recorded_outcome = step.outcome.unwrap_or(Outcome::Invalid);
        let other_run = difference.map(|why| (Outcome::Invalid, why));
        let rejudged = other_run
            .or_else(|| rejudge_step(purpose, &series.devices, step, recorded_outcome, evidence));
        let Some((outcome, doubt)) = rejudged else {
            continue;
        };
        doubts.push(format!("{}: {doubt}", step.name));
        if outcome != recorded_outcome {
            step.outcome = Some(outcome);
            step.reason = doubt;
        }
    }
    let Some(mut conclusion) = series.conclusion.take() else {
        return doubts;
    };
    if doubts.is_empty() {
        doubts.extend(contradiction(series, &conclusion));
    }
    if let Some(first) = doubts.first() {
        // A failed step of a search does not mean that the search failed.
        let failed = purpose == SeriesPurpose::Certify
            && series
                .steps
                .iter()
                .any(|step| step.outcome == Some(Outcome::Fail));
        let rejudged_outcome = if failed {
            Outcome::Fail
        } else {
            Outcome::Invalid
        };
        if conclusion.outcome != rejudged_outcome {
            let said = format!(
                "{SERIES} said {}: {}",
                conclusion.outcome, conclusion.sentence
            );
            conclusion.remarks.insert(0, said);
            conclusion.sentence = format!("the runs do not support {SERIES}: {first}");
        }
        conclusion = Conclusion {
            outcome: rejudged_outcome,
            action: Some("restore the directory, or begin a new series (--fresh)".to_owned()),
            rating: None,
            comparable: false,
            ..conclusion
        };
    }
    series.conclusion = Some(conclusion);
    doubts
}

/// The outcome that the evidence supports, and why the record or the run is unreliable. `None`: record and run agree.
fn rejudge_step(
    purpose: SeriesPurpose,
    devices: &[DriveIdentity],
    step: &Step,
    recorded_outcome: Outcome,
    evidence: &Result<StepEvidence, &str>,
) -> Option<(Outcome, String)> {
    let run = match evidence {
        Ok(run) => run,
        Err(why) => {
            return Some((
                recorded_outcome.max(Outcome::Invalid),
                format!("there is no run to judge again: {why}"),
            ));
        }
    };
    let of_rule = |judged: StageResult| (judged.outcome, judged.reason);
    let judged = match purpose {
        SeriesPurpose::Certify => of_rule(judge_stage(step.rule, run.verdict)),
        SeriesPurpose::Baseline => {
            let device = step.devices.first().copied().unwrap_or_default();
            let name = devices.get(device).map_or("", |device| &device.name);
            of_rule(judge_job(run.verdict, device, name))
        }
        SeriesPurpose::Rate => rejudge_search_step(step, recorded_outcome, run.verdict),
    };
    if let Some(doubt) = &run.doubt {
        return Some((
            recorded_outcome.max(judged.0).max(Outcome::Invalid),
            doubt.clone(),
        ));
    }
    let (now, why) = judged;
    (now != recorded_outcome).then(|| {
        (
            now,
            format!("{SERIES} says {recorded_outcome}, but the run says {now}: {why}"),
        )
    })
}

/// [`rejudge_step`] for a step of a search. The verdict of the run does not cover the rounds that decided the step, so
/// this verdict can only show that the recorded outcome is too good.
fn rejudge_search_step(
    step: &Step,
    recorded_outcome: Outcome,
    verdict: &Verdict,
) -> (Outcome, String) {
    let details = StepDetails::from_step(step);
    let was_held = details
        .as_ref()
        .map(|details| details.judged.seen == StepOutcome::Held);
    let errors: u64 = verdict.streams.iter().map(|stream| stream.errors).sum();
    let is_confirmation = details
        .as_ref()
        .is_some_and(|details| matches!(details.moved, NextRun::Confirm(_)));
    let decided = verdict
        .decided_by
        .as_ref()
        .filter(|decided| decided.share >= decided.share_max);
    let over_limit = decided
        .filter(|_| verdict.outcome == Outcome::Fail)
        .map(ToString::to_string);
    match recorded_outcome {
        Outcome::Pass if errors > 0 => (Outcome::Fail, format::count(errors, "I/O error")),
        Outcome::Pass if is_confirmation && over_limit.is_some() => {
            (Outcome::Fail, over_limit.unwrap_or_default())
        }
        Outcome::Pass if was_held == Some(false) => (
            Outcome::Invalid,
            details
                .map(|details| details.judged.why)
                .unwrap_or_default(),
        ),
        recorded => (recorded, String::new()),
    }
}
