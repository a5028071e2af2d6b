//! A certification: its stages, their criteria and order, and what the result claims.
//!
//! ```text
//! options --stages()--> Vec<Step> --next()--> run --judge_stage()--> Step done ... --conclude()--> Conclusion
//!    |                     ^   |                                                        ^
//!    |                     |   +-- linearity(): devices together against one alone -----+
//!    |                 series.json                                                      |
//!    +---- Claim: certification or screening, and all wording that depends on it -------+
//! ```
//!
//! Decisions and wording depend only on the record ([`crate::series::Series`]). So the same command can resume after
//! any interruption, and a reader of the directory gets the same words years later. The multiples refer to a load of
//! 1x, which the crate `load` defines.
//!
//! A stage that did not end (killed, rebooted, interrupted) or has an invalid outcome is repeated from its beginning,
//! in a new run directory: half a day before and half a day after a reboot are not a day of load.
//!
//! A stage at N times the load has the verdict of its run. A stage at 2N times the load requires less: ACT's README
//! lets it pass "regardless of the error rate", where "error rate" means the share of slow operations. *Failed*
//! operations still fail the stage, and so does a load that was not carried out.
//!
//! A series is called certification or screening. All wording that depends on this comes from this module, so that
//! nothing is called certified wrongly. According to ACT's README, six hours give a good idea, and 24 hours certify. A
//! drive fresh out of the box, a simulated drive, a file and a virtual block device (loop, zram) are never certified.
//!
//! Source: ACT's README, "Process for certifying": test 1 (N times the load for a day, one device), test 2
//! (twice that), tests 3 and 4 (the same on all devices).

mod linearity;

pub use linearity::{Linearity, Ratio, linearity};

use crate::series::{Conclusion, Rule, Series, SeriesStepState, Step};
use results::format::{Grouped, count, span};
use results::judge::{
    DelayOwner, End, Headline, Outcome, ReasonCode, Sla, StreamTotals, Verdict, WorstShare,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[cfg(test)]
pub(crate) mod testing;

/// The conclusion of a finished series.
///
/// The first failed stage decides; otherwise the first stage with an invalid outcome. After a pass, the sentence names
/// the stage whose share of slow operations was nearest to its limit. Edited records are not detected here.
pub fn conclude(series: &Series, claim: &Claim) -> Conclusion {
    let steps = &series.steps;
    let open_step = steps
        .iter()
        .find(|step| step.state != SeriesStepState::Done);
    let (outcome, claimed, decisive) = match (
        done_with(steps, Outcome::Fail),
        done_with(steps, Outcome::Invalid),
        open_step,
    ) {
        (Some(failed), ..) => (Outcome::Fail, claim.failed(), Some(failed)),
        (None, Some(unknown), _) => (Outcome::Invalid, claim.undecided(), Some(unknown)),
        (None, None, Some(open)) => (Outcome::Invalid, claim.undecided(), Some(open)),
        (None, None, None) => (Outcome::Pass, claim.passed(), tightest(steps)),
    };
    let answer = decisive.map(stage_answer);
    let sentence = answer.as_ref().map_or_else(
        || claimed.clone(),
        |answer| format!("{claimed}: {}", answer.sentence),
    );
    let linearity = steps
        .iter()
        .find_map(|step: &Step| StageDetails::from_step(step).linearity);
    let mut remarks = steps_remarks(series, outcome);
    remarks.extend(
        linearity
            .as_ref()
            .map(|linearity| linearity.sentence.clone()),
    );
    remarks.extend(claim.remarks());
    let is_passed_screening = outcome == Outcome::Pass && !claim.is_certification();
    let action = answer.and_then(|answer| answer.action);
    Conclusion {
        outcome,
        sentence,
        action: action.or(is_passed_screening.then(|| CERTIFY.to_owned())),
        remarks,
        rating: None,
        comparable: outcome == Outcome::Pass && claim.is_comparable(),
        details: linearity.map_or(Value::Null, |linearity| json!({ "linearity": linearity })),
    }
}

fn done_with(steps: &[Step], outcome: Outcome) -> Option<&Step> {
    steps
        .iter()
        .find(|step| step.state == SeriesStepState::Done && step.outcome == Some(outcome))
}

/// The next step after a screening that passed.
const CERTIFY: &str =
    "to certify a real drive, run two stages of 24 h on it: flashproof certify DEVICE";

/// Results of a stage, stored in [`Step::details`], so that readers do not need the run directory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StageDetails {
    pub verdict: Option<Outcome>,
    pub decided_by: Option<WorstShare>,
    pub ran_sec: f64,
    pub streams: Vec<StreamTotals>,
    /// Remarks of the run's verdict.
    pub notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headline: Option<Headline>,
    /// Set if the stage tested several devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linearity: Option<Linearity>,
}

impl StageDetails {
    /// Empty if the stage is not done.
    pub fn from_step(step: &Step) -> Self {
        step.details_as().unwrap_or_default()
    }
}

/// The recorded headline of a stage, otherwise its reason.
fn stage_answer(step: &Step) -> Headline {
    let recorded = StageDetails::from_step(step).headline;
    let name = &step.name;
    let reason = &step.reason;
    let sentence = match (&recorded, step.state, step.outcome) {
        (Some(recorded), ..) => format!("{name}: {}", recorded.sentence),
        (None, SeriesStepState::Done, Some(Outcome::Fail)) => format!("{name} failed: {reason}"),
        (None, SeriesStepState::Done, _) => format!("{name}: {reason}"),
        _ => format!("{name} was not run"),
    };
    let action = recorded.and_then(|recorded| recorded.action);
    Headline { sentence, action }
}

/// The stage under [`Rule::Limits`] whose share of slow operations came nearest to its limit.
fn tightest(steps: &[Step]) -> Option<&Step> {
    let judged = steps.iter().filter(|step| step.rule == Rule::Limits);
    // Reversed, so that the first of several equal stages is taken.
    judged.rev().max_by(|one, other| {
        share_of_limit(one)
            .unwrap_or(0.0)
            .total_cmp(&share_of_limit(other).unwrap_or(0.0))
    })
}

/// The share of slow operations that decided a stage, as a fraction of its limit.
fn share_of_limit(step: &Step) -> Option<f64> {
    let decided = StageDetails::from_step(step).decided_by?;
    Some(decided.share / decided.share_max)
}

fn steps_remarks(series: &Series, outcome: Outcome) -> Vec<String> {
    let mut remarks = Vec::new();
    for step in series
        .steps
        .iter()
        .filter(|step| step.rule == Rule::Completes && step.outcome == Some(Outcome::Pass))
    {
        remarks.push(format!(
            "{}, at {} times the load of 1x, {}",
            step.name, step.multiple, step.reason
        ));
    }
    for step in &series.steps {
        let notes = StageDetails::from_step(step).notes;
        remarks.extend(notes.iter().map(|note| format!("{}: {note}", step.name)));
    }
    let skipped: Vec<_> = series
        .steps
        .iter()
        .filter(|step| step.state == SeriesStepState::Planned)
        .map(|step| &*step.name)
        .collect();
    if outcome == Outcome::Fail && !skipped.is_empty() {
        remarks.push(format!(
            "stages skipped because an earlier stage failed: {} (--all-stages runs them)",
            skipped.join(", ")
        ));
    }
    if let (true, Some(first)) = (series.devices.len() > 1, series.steps.first()) {
        let alone = first
            .devices
            .first()
            .and_then(|device| series.devices.get(*device));
        remarks
            .extend(alone.map(|device| {
                format!("in the first two stages, {} was tested alone", device.name)
            }));
    }
    for step in series.steps.iter().filter(|step| step.attempts > 1) {
        remarks.push(format!(
            "{} was begun {} times; the last attempt counts",
            step.name, step.attempts
        ));
    }
    remarks
}

/// The next stage to run; `None` if the series is finished. A failed stage ends the series, except with `all_stages`:
/// later stages cannot compensate for the failure, and twice the load would only wear a drive that did not hold the
/// load.
pub fn next(series: &Series, all_stages: bool) -> Option<usize> {
    let has =
        |step: &Step, outcome| step.state == SeriesStepState::Done && step.outcome == Some(outcome);
    let is_over = |step: &Step| has(step, Outcome::Pass) || has(step, Outcome::Fail) && all_stages;
    let open = series.steps.iter().position(|step| !is_over(step))?;
    (!has(&series.steps[open], Outcome::Fail)).then_some(open)
}

/// Begins an attempt at a stage: sets its state, number and run directory (`stage-1`, then `stage-1.2`).
pub fn begin(step: &mut Step, now_unix_ms: u64) {
    let base_name = step.name.replace(' ', "-");
    step.attempts = step.attempts.saturating_add(1);
    step.dir = if step.attempts > 1 {
        format!("{base_name}.{}", step.attempts)
    } else {
        base_name
    };
    step.state = SeriesStepState::Running;
    step.outcome = None;
    step.reason.clear();
    step.began_unix_ms = Some(now_unix_ms);
    step.ended_unix_ms = None;
    step.details = serde_json::Value::Null;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageResult {
    /// Pass, fail or invalid; or measured, if the stage has no limits.
    pub outcome: Outcome,
    /// Reason, one sentence with the number that decided.
    pub reason: String,
    /// Notes on the run of a passed stage, one sentence each: for example a rate that was not held.
    pub notes: Vec<String>,
    /// The reason in short, and the next step; `None` if the reason is short.
    pub headline: Option<Headline>,
}

/// [`Rule::Completes`] and [`Rule::Recovers`] ignore slow operations, but not failed, lost or missing operations.
pub fn judge_stage(rule: Rule, verdict: &Verdict) -> StageResult {
    match rule {
        Rule::Limits => by_limits(verdict),
        Rule::Completes | Rule::Recovers => by_completion(verdict),
    }
}

fn by_limits(verdict: &Verdict) -> StageResult {
    let decided = verdict.decided_by.as_ref().map(ToString::to_string);
    let mut texts = verdict.reasons.iter().map(|reason| reason.text.clone());
    let first = texts.next();
    let (reason, notes) = match verdict.outcome {
        // The first reason of a pass repeats the number that decided, so it is not among the notes.
        Outcome::Pass => (decided.or(first), texts.collect()),
        _ => (first.or(decided), Vec::new()),
    };
    StageResult {
        outcome: verdict.outcome,
        reason: reason.unwrap_or_else(|| verdict.end.to_string()),
        notes,
        headline: (verdict.outcome != Outcome::Pass).then(|| verdict.headline()),
    }
}

fn by_completion(verdict: &Verdict) -> StageResult {
    let judged = |outcome, reason| StageResult {
        outcome,
        reason,
        notes: Vec::new(),
        headline: None,
    };
    let time_text = format!(
        "after {:.0} of {} s",
        verdict.ran_sec,
        Grouped(verdict.duration_sec)
    );
    let broken = verdict.reasons.iter().find(|reason| {
        matches!(
            reason.code,
            ReasonCode::IoError
                | ReasonCode::WrongData
                | ReasonCode::DeviceGone
                | ReasonCode::Lost
                | ReasonCode::Late
        )
    });
    if let Some(broken) = broken {
        return judged(
            Outcome::Fail,
            format!(
                "{broken} ({} {time_text}): slow operations are allowed in this stage, but failed and lost operations \
                 are not",
                verdict.end
            ),
        );
    }
    match &verdict.end {
        End::LagExceeded {
            whose: DelayOwner::Ours,
            ..
        } => judged(
            Outcome::Invalid,
            format!(
                "{} {time_text}, so nothing is known about the device",
                verdict.end
            ),
        ),
        end @ End::LagExceeded { .. } => judged(
            Outcome::Fail,
            format!("{end} {time_text}: the stage did not run to completion"),
        ),
        End::Completed | End::Enough { .. } => match verdict.undone.first() {
            Some(undone) if undone.ours => judged(
                Outcome::Invalid,
                format!("{undone}: this program delayed the load"),
            ),
            Some(undone) => judged(Outcome::Fail, undone.to_string()),
            None => judged(Outcome::Pass, completed(verdict)),
        },
        end => judged(Outcome::Invalid, format!("{end} {time_text}")),
    }
}

fn completed(verdict: &Verdict) -> String {
    let worst = verdict
        .decided_by
        .as_ref()
        .map(|worst| match verdict.outcome {
            Outcome::Pass => format!("; {worst}"),
            _ => format!("; {worst}, which this stage allows"),
        });
    let unfinished_ops: u64 = verdict
        .streams
        .iter()
        .map(|stream| stream.overtime.saturating_add(stream.unissued))
        .sum();
    let backlog = match unfinished_ops {
        0 => String::new(),
        behind => format!(
            "; {} had not completed at the end of the run",
            count(behind, "operation")
        ),
    };
    format!(
        "ran to completion without an I/O error{}{backlog}",
        worst.unwrap_or_default()
    )
}

/// Minimum length of a stage that certifies, seconds. Source: ACT's README, "Process for certifying".
pub const STAGE_SEC: u64 = 86_400;

/// Length of a slice, seconds. Source: ACT's README: "in any one-hour period".
const SLICE_SEC: u64 = 3_600;

/// The part of a series' setup that decides the wording of its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The multiple, as the user gave it: `30`.
    pub multiple: String,
    /// Name of the configuration that defines the load of 1x; `None` for ACT's load.
    pub config: Option<String>,
    pub sla: Sla,
    /// Length of a slice, seconds: a multiple of the report interval.
    pub slice_sec: u64,
    pub stage_sec: u64,
    pub simulated: bool,
    pub files: bool,
    /// Phrases about devices that are not drives: `/dev/loop3 is a loop device, which is a file`.
    pub virtual_kinds: Vec<String>,
    /// Devices whose record and data do not show a preparation.
    pub unprepared: Vec<String>,
    /// True if operations are issued with ACT's own pacing.
    pub as_act: bool,
}

impl Claim {
    /// Phrases: reasons why the series is not a certification; empty for a certification.
    pub fn shortfalls(&self) -> Vec<String> {
        let mut shortfalls = Vec::new();
        if self.simulated {
            shortfalls.push("the drives are simulated".to_owned());
        }
        if self.files {
            shortfalls.push("files are tested, not devices".to_owned());
        }
        shortfalls.extend(self.virtual_kinds.iter().cloned());
        if self.stage_sec < STAGE_SEC {
            shortfalls.push(format!(
                "a stage lasts {}, not {}",
                span(self.stage_sec),
                span(STAGE_SEC)
            ));
        }
        if !self.unprepared.is_empty() {
            shortfalls.push(format!(
                "no preparation was found for {}",
                self.unprepared.join(", ")
            ));
        }
        shortfalls
    }

    pub fn is_certification(&self) -> bool {
        self.shortfalls().is_empty()
    }

    /// `certification` or `screening`.
    pub fn noun(&self) -> &'static str {
        if self.is_certification() {
            "certification"
        } else {
            "screening"
        }
    }

    /// The load: `30x`, or `30 times my.conf`.
    pub fn load(&self) -> String {
        match &self.config {
            None => format!("{}x", self.multiple),
            Some(config) => format!("{} times {config}", self.multiple),
        }
    }

    /// The load, with limits and slices if these differ from ACT's.
    pub fn subject(&self) -> String {
        let limits = if self.sla == Sla::default() {
            String::new()
        } else {
            format!(" within its own limits ({})", self.sla.words())
        };
        // A short stage cannot have slices longer than itself.
        let is_usual =
            self.slice_sec == SLICE_SEC || self.slice_sec.min(SLICE_SEC) >= self.stage_sec;
        let slices = if is_usual {
            String::new()
        } else {
            format!(" in slices of {}", span(self.slice_sec))
        };
        format!("{}{limits}{slices}", self.load())
    }

    pub fn passed(&self) -> String {
        let passed = if self.is_certification() {
            "certified"
        } else {
            "passed the screening"
        };
        format!("{passed} for {}", self.subject())
    }

    pub fn failed(&self) -> String {
        let failed = if self.is_certification() {
            "not certified"
        } else {
            "failed the screening"
        };
        format!("{failed} for {}", self.subject())
    }

    pub fn undecided(&self) -> String {
        format!("the {} for {} is undecided", self.noun(), self.subject())
    }

    /// True if a pass can be compared with published ratings, which require ACT's load, pacing and limits, for a day.
    pub fn is_comparable(&self) -> bool {
        self.is_certification()
            && self.as_act
            && self.config.is_none()
            && self.sla == Sla::default()
            && self.slice_sec == SLICE_SEC
    }

    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let shortfalls = self.shortfalls();
        if !shortfalls.is_empty() {
            let day = span(STAGE_SEC);
            remarks.push(format!(
                "this is only a screening, because {}; the full test takes {day} per stage on real, prepared devices",
                shortfalls.join(", and ")
            ));
        }
        if !self.unprepared.is_empty() {
            remarks.push(format!(
                "NOT PREPARED: record and data do not show that {} was filled before the test, and an empty drive is \
                 faster than a drive in use; prepare the drive first (flashproof prep)",
                self.unprepared.join(", ")
            ));
        }
        if let Some(config) = &self.config {
            remarks
                .push(format!("1x is the load of {config}, not ACT's load of 2,000 reads and 1,000 writes per second"));
        }
        if !self.as_act {
            remarks.push(
                "not comparable with published ratings: this test paced operations evenly, and judged windows that begin at \
                 every half slice; ACT starts operations in bursts, and judges whole slices (--as-act does the same)"
                    .to_owned(),
            );
        }
        remarks
    }
}

/// Plans two stages of `stage_sec` seconds on device number `single_device`: at `multiple` times the load of 1x, and at
/// twice that load. With several `devices`, the same two stages follow on all devices.
pub fn stages(multiple: f64, devices: usize, single_device: usize, stage_sec: u64) -> Vec<Step> {
    let all_devices = (devices > 1).then(|| (0..devices).collect::<Vec<_>>());
    let loads = [(1.0, Rule::Limits), (2.0, Rule::Completes)];
    let groups = [vec![single_device]].into_iter().chain(all_devices);
    let of_groups =
        groups.flat_map(|devices| loads.map(|(times, rule)| (devices.clone(), times, rule)));
    let numbered = (1_usize..).zip(of_groups);
    numbered
        .map(|(number, (devices, times, rule))| {
            let name = format!("stage {number}");
            let dir = format!("stage-{number}");
            Step::planned(name, dir, multiple * times, devices, stage_sec, rule)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::testing::{claim, series, verdict};
    use super::*;
    use results::judge::Reason;

    fn done(step: &mut Step, outcome: Outcome, reason: &str) {
        step.state = SeriesStepState::Done;
        step.outcome = Some(outcome);
        step.reason = reason.into();
        step.attempts = 1;
    }

    #[test]
    fn if_all_stages_pass_the_conclusion_is_certified_and_names_the_deciding_number() {
        let mut series = series(1);
        done(&mut series.steps[0], Outcome::Pass, "2.70 % of reads");
        done(&mut series.steps[1], Outcome::Pass, "ran to completion");
        let conclusion = conclude(&series, &claim());
        assert_eq!(conclusion.outcome, Outcome::Pass);
        assert_eq!(
            conclusion.sentence,
            "certified for 30x: stage 1: 2.70 % of reads"
        );
        assert_eq!(
            conclusion.remarks[0],
            "stage 2, at 60 times the load of 1x, ran to completion"
        );
        assert!(!conclusion.comparable);
        assert!(
            conclude(
                &series,
                &Claim {
                    as_act: true,
                    ..claim()
                }
            )
            .comparable
        );
    }

    #[test]
    fn the_sentence_names_the_stage_whose_share_is_nearest_to_its_limit() {
        let mut series = series(2);
        series
            .steps
            .iter_mut()
            .for_each(|step| done(step, Outcome::Pass, "so"));
        let details = |share: f64| {
            json!({"decided_by": {"stream": "reads", "device": null, "slice": 1, "threshold_ns": 1_000_000,
                "over": 1, "wanted": 100, "cut": false, "share": share, "share_max": 0.05}})
        };
        series.steps[0].details = details(0.01);
        series.steps[2].details = details(0.04);
        assert_eq!(
            conclude(&series, &claim()).sentence,
            "certified for 30x: stage 3: so"
        );
        series.steps[0].details = details(0.04);
        assert_eq!(
            conclude(&series, &claim()).sentence,
            "certified for 30x: stage 1: so"
        );
    }

    #[test]
    fn notes_on_a_passed_run_become_remarks_on_its_stage() {
        let mut series = series(1);
        series
            .steps
            .iter_mut()
            .for_each(|step| done(step, Outcome::Pass, "so"));
        series.steps[0].details = json!({"notes": ["reads did not hold its rate"]});
        assert!(
            conclude(&series, &claim())
                .remarks
                .contains(&"stage 1: reads did not hold its rate".to_owned())
        );
    }

    #[test]
    fn a_failed_first_stage_names_what_was_not_run() {
        let mut series = series(1);
        done(&mut series.steps[0], Outcome::Fail, "7.00 % of reads");
        let conclusion = conclude(&series, &claim());
        assert_eq!(conclusion.outcome, Outcome::Fail);
        assert_eq!(
            conclusion.sentence,
            "not certified for 30x: stage 1 failed: 7.00 % of reads"
        );
        assert!(
            conclusion.remarks[0].contains("stage 2 (--all-stages runs them)"),
            "{:?}",
            conclusion.remarks
        );
        let headline =
            json!({"sentence": "too slow: 7 % of reads", "action": "test another drive"});
        series.steps[0].details = json!({ "headline": headline });
        assert_eq!(
            conclude(&series, &claim()).headline().to_string(),
            "not certified for 30x: stage 1: too slow: 7 % of reads\nDo: test another drive"
        );
    }

    #[test]
    fn a_series_with_an_unfinished_or_invalid_stage_does_not_pass() {
        let mut series = series(1);
        assert_eq!(
            conclude(&series, &claim()).outcome,
            Outcome::Invalid,
            "nothing was run"
        );
        done(&mut series.steps[0], Outcome::Pass, "so");
        assert_eq!(
            conclude(&series, &claim()).outcome,
            Outcome::Invalid,
            "stage 2 was not run"
        );
        done(&mut series.steps[1], Outcome::Invalid, "our own lag");
        let conclusion = conclude(&series, &claim());
        assert_eq!(
            conclusion.sentence,
            "the certification for 30x is undecided: stage 2: our own lag"
        );
        done(&mut series.steps[0], Outcome::Fail, "7 %");
        assert_eq!(
            conclude(&series, &claim()).outcome,
            Outcome::Fail,
            "a failure outranks a doubt"
        );
    }

    #[test]
    fn remarks_name_the_device_tested_alone_and_repeated_stages() {
        let mut series = series(2);
        series
            .steps
            .iter_mut()
            .for_each(|step| done(step, Outcome::Pass, "so"));
        series.steps[0].attempts = 2;
        let remarks = conclude(&series, &claim()).remarks.join("\n");
        assert!(
            remarks.contains("in the first two stages, /dev/nvme0n1 was tested alone"),
            "{remarks}"
        );
        assert!(remarks.contains("stage 1 was begun 2 times"), "{remarks}");
    }

    #[test]
    fn stages_run_in_order_and_finished_stages_are_not_repeated() {
        let mut series = series(2);
        assert_eq!(next(&series, false), Some(0));
        done(&mut series.steps[0], Outcome::Pass, "");
        assert_eq!(next(&series, false), Some(1));
        series.steps[1].state = SeriesStepState::Interrupted;
        assert_eq!(next(&series, false), Some(1));
        series.steps[1..]
            .iter_mut()
            .for_each(|step| done(step, Outcome::Pass, ""));
        assert_eq!(next(&series, false), None);
    }

    #[test]
    fn a_failed_stage_ends_the_series_unless_all_stages_are_requested() {
        let mut series = series(1);
        done(&mut series.steps[0], Outcome::Fail, "");
        assert_eq!((next(&series, false), next(&series, true)), (None, Some(1)));
    }

    #[test]
    fn an_invalid_stage_is_run_again() {
        let mut series = series(1);
        done(&mut series.steps[0], Outcome::Invalid, "");
        assert_eq!(next(&series, false), Some(0));
    }

    #[test]
    fn a_killed_stage_is_run_again_in_a_new_directory() {
        let mut series = series(1);
        begin(&mut series.steps[0], 5);
        assert_eq!(
            (series.steps[0].dir.as_str(), series.steps[0].state),
            ("stage-1", SeriesStepState::Running)
        );
        series.interrupt_running_steps();
        assert_eq!(series.steps[0].state, SeriesStepState::Interrupted);
        assert_eq!(next(&series, false), Some(0));
        begin(&mut series.steps[0], 6);
        let step = &series.steps[0];
        assert_eq!(
            (step.dir.as_str(), step.attempts, step.began_unix_ms),
            ("stage-1.2", 2, Some(6))
        );
    }

    fn lag(whose: DelayOwner) -> End {
        End::LagExceeded {
            lane: "reads@x".into(),
            whose,
            lag_ms: 10_200,
            lag_max_ms: 10_000,
            in_flight: 7,
            in_flight_max: 7,
        }
    }

    #[test]
    fn a_stage_with_limits_has_the_verdict_of_its_run_and_the_deciding_number() {
        let judged = judge_stage(Rule::Limits, &verdict(Outcome::Pass, End::Completed, 0.027));
        assert_eq!(judged.outcome, Outcome::Pass);
        assert!(
            judged
                .reason
                .starts_with("2.70 % of reads on x took over 1 ms in slice 9"),
            "{}",
            judged.reason
        );
        let judged = judge_stage(Rule::Limits, &verdict(Outcome::Fail, End::Completed, 0.07));
        assert_eq!(
            (judged.outcome, judged.reason.as_str()),
            (Outcome::Fail, "the first reason")
        );
    }

    #[test]
    fn remarks_of_a_pass_are_kept_as_notes() {
        let mut passed = verdict(Outcome::Pass, End::Completed, 0.027);
        passed
            .reasons
            .push(Reason::new(ReasonCode::Note, "reads are a closed loop"));
        let judged = judge_stage(Rule::Limits, &passed);
        assert_eq!(
            (judged.outcome, judged.notes),
            (Outcome::Pass, vec!["reads are a closed loop".to_owned()])
        );
    }

    #[test]
    fn the_stage_at_twice_the_load_may_be_slow_but_fails_if_the_device_fails_or_stops() {
        let undone = |ours| results::judge::UnmetLoad {
            stream: "large-block-writes".into(),
            device: "x".into(),
            first_slice: None,
            slice: 1,
            slices: 1,
            scheduled: 2_000,
            missed: 1_000,
            ours,
            slots_used_by: None,
            growth_allowed: None,
        };
        let completed = |share| verdict(Outcome::Fail, End::Completed, share);
        let not_done = |ours| Verdict {
            undone: vec![undone(ours)],
            ..completed(0.0)
        };
        let failing = Reason::new(
            ReasonCode::IoError,
            "3 I/O errors (3 reads): any error fails the run",
        );
        let failed = Verdict {
            reasons: vec![failing],
            ..completed(0.0)
        };
        let unknown = |end| (verdict(Outcome::Invalid, end, 0.0), Outcome::Invalid, "");
        for (verdict, outcome, words) in [
            (
                completed(0.6),
                Outcome::Pass,
                "ran to completion without an I/O error; 60.0 % of reads",
            ),
            (
                not_done(false),
                Outcome::Fail,
                "the load of large-block-writes on x was not carried out",
            ),
            (not_done(true), Outcome::Invalid, ""),
            (
                failed,
                Outcome::Fail,
                "3 I/O errors (3 reads): any error fails the run (completed",
            ),
            (
                verdict(Outcome::Fail, lag(DelayOwner::Device), 0.5),
                Outcome::Fail,
                "stopped because reads@x was 10.2 s late",
            ),
            (
                verdict(Outcome::Fail, lag(DelayOwner::Limit), 0.5),
                Outcome::Fail,
                "",
            ),
            (
                verdict(Outcome::Invalid, lag(DelayOwner::Ours), 0.5),
                Outcome::Invalid,
                "",
            ),
            // Other ends say nothing about the device.
            unknown(End::Unrecorded),
            unknown(End::interrupted("SIGINT")),
            unknown(End::EngineFailed { why: "x".into() }),
        ] {
            let judged = judge_stage(Rule::Completes, &verdict);
            assert_eq!(judged.outcome, outcome, "{}", judged.reason);
            assert!(judged.reason.starts_with(words), "{}", judged.reason);
            let is_late =
                outcome == Outcome::Fail && matches!(verdict.end, End::LagExceeded { .. });
            assert_eq!(
                judged.reason.ends_with("did not run to completion"),
                is_late,
                "{}",
                judged.reason
            );
        }
    }

    #[test]
    fn stages_of_a_day_on_prepared_devices_certify() {
        let claim = claim();
        assert!(claim.is_certification());
        assert_eq!(claim.passed(), "certified for 30x");
        assert_eq!(claim.failed(), "not certified for 30x");
    }

    #[test]
    fn a_series_that_falls_short_is_called_a_screening_and_never_certified() {
        for short in [
            Claim {
                stage_sec: STAGE_SEC - 1,
                ..claim()
            },
            Claim {
                simulated: true,
                ..claim()
            },
            Claim {
                files: true,
                ..claim()
            },
            Claim {
                virtual_kinds: vec!["/dev/loop3 is a loop device, which is a file".into()],
                ..claim()
            },
            Claim {
                unprepared: vec!["/dev/x".into()],
                ..claim()
            },
        ] {
            let words = [
                short.passed(),
                short.failed(),
                short.undecided(),
                short.remarks().join(" "),
            ]
            .join(" ");
            assert!(!words.contains("certif"), "{words}");
            assert!(words.contains("passed the screening for 30x"), "{words}");
            assert!(words.contains("this is only a screening"), "{words}");
        }
    }

    #[test]
    fn the_claim_names_a_load_limits_and_slices_that_differ_from_those_of_act() {
        let own = Claim {
            config: Some("my.conf".into()),
            ..claim()
        };
        assert_eq!(own.passed(), "certified for 30 times my.conf");
        let lax = Claim {
            sla: "10%>1ms".parse().unwrap(),
            ..claim()
        };
        assert_eq!(
            lax.passed(),
            "certified for 30x within its own limits (below 10 % over 1 ms)"
        );
        let long = Claim {
            slice_sec: 86_400,
            ..claim()
        };
        assert_eq!(
            long.passed(),
            "certified for 30x in slices of 24 h",
            "an average over a day hides an hour"
        );
        assert_eq!(
            Claim {
                stage_sec: 60,
                ..claim()
            }
            .passed(),
            "passed the screening for 30x"
        );
    }

    #[test]
    fn only_acts_load_pacing_and_limits_for_a_day_are_comparable() {
        assert!(!claim().is_comparable(), "paced evenly");
        assert!(
            Claim {
                as_act: true,
                ..claim()
            }
            .is_comparable()
        );
        assert!(
            !Claim {
                as_act: true,
                config: Some("my.conf".into()),
                ..claim()
            }
            .is_comparable()
        );
        assert!(
            !Claim {
                as_act: true,
                stage_sec: 21_600,
                ..claim()
            }
            .is_comparable()
        );
        assert!(
            !Claim {
                as_act: true,
                slice_sec: 86_400,
                ..claim()
            }
            .is_comparable()
        );
        assert!(
            !Claim {
                as_act: true,
                virtual_kinds: vec!["/dev/zram1 is memory".into()],
                ..claim()
            }
            .is_comparable()
        );
        assert!(
            !Claim {
                as_act: true,
                sla: "6%>1ms".parse().unwrap(),
                ..claim()
            }
            .is_comparable()
        );
    }

    #[test]
    fn stages_test_one_device_at_the_load_and_twice_the_load_and_then_all_devices() {
        let expected = [
            ("stage 1".into(), 30.0, vec![0], Rule::Limits),
            ("stage 2".into(), 60.0, vec![0], Rule::Completes),
        ];
        let one = stages(30.0, 1, 0, 86_400);
        assert!(
            one.iter()
                .all(|step| step.duration_sec == 86_400 && step.state == SeriesStepState::Planned)
        );
        let shape = one
            .into_iter()
            .map(|step| (step.name, step.multiple, step.devices, step.rule));
        assert_eq!(shape.collect::<Vec<_>>(), expected);
        let stages = stages(30.0, 3, 1, 86_400);
        let stages: Vec<_> = stages
            .iter()
            .map(|step| (step.dir.as_str(), step.multiple, &step.devices[..]))
            .collect();
        let all = &[0, 1, 2][..];
        assert_eq!(
            stages,
            [
                ("stage-1", 30.0, &[1][..]),
                ("stage-2", 60.0, &[1]),
                ("stage-3", 30.0, all),
                ("stage-4", 60.0, all)
            ]
        );
    }
}
