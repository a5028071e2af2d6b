//! The stages of a certification, their outcomes, and the claims that they allow.
//!
//! The stages at N times the load have their run's own verdict. Those at twice that require less: ACT's README lets
//! them pass "regardless of the error rate", which there means the share of slow operations. *Failed* operations are
//! not slow ones, so they fail the stage here too; so does a load that was not carried out.
//!
//! A series is called certification or screening. All wording that depends on it comes from here, so that nothing is
//! called certified wrongly. ACT's README: six hours give a good idea, 24 hours certify. A drive fresh out of the box
//! is never certified, nor is a simulated one, a file, or a device that is only called one (loop, zram).
//!
//! Source: ACT's README, "Process for certifying": test 1 (N times the load, one device), test 2
//! (twice that), tests 3 and 4 (the same on all devices).

use crate::judge::{Code, End, Outcome, Reason, Sla, Verdict, Whose};
use crate::series::{Rule, Step};
use crate::units::{Grouped, count, span};

/// The result of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Passed, failed, or invalid.
    pub outcome: Outcome,
    /// Why, one sentence with the number that decided.
    pub reason: String,
    /// Notes on the run of a passed stage, each one sentence: a rate that was not held.
    pub notes: Vec<String>,
}

/// Judges a stage by `rule` from the `verdict` on its run.
///
/// [`Rule::Recovers`] judges nothing, so only an end before its time speaks against it.
pub fn judge_stage(rule: Rule, verdict: &Verdict) -> Judged {
    match rule {
        Rule::Limits => by_limits(verdict),
        Rule::Completes | Rule::Recovers => by_completion(verdict),
    }
}

fn by_limits(verdict: &Verdict) -> Judged {
    let decided = verdict.decided_by.as_ref().map(ToString::to_string);
    let mut texts = verdict.reasons.iter().map(|reason| reason.text.clone());
    let first = texts.next();
    let (reason, notes) = match verdict.outcome {
        // The first reason of a pass is the number that decided.
        Outcome::Pass => (decided.or(first), texts.collect()),
        _ => (first.or(decided), Vec::new()),
    };
    Judged { outcome: verdict.outcome, reason: reason.unwrap_or_else(|| verdict.end.to_string()), notes }
}

fn by_completion(verdict: &Verdict) -> Judged {
    let judged = |outcome, reason| Judged { outcome, reason, notes: Vec::new() };
    let after = format!("after {:.0} of {} s", verdict.ran_sec, Grouped(verdict.duration_sec));
    let is_broken =
        |reason: &&Reason| matches!(reason.code, Code::IoError | Code::DeviceGone | Code::Lost | Code::Late);
    match &verdict.end {
        end if let Some(broken) = verdict.reasons.iter().find(is_broken) => judged(
            Outcome::Fail,
            format!(
                "{broken} ({end} {after}): slow operations are allowed in this stage, failed and lost ones are not"
            ),
        ),
        End::LagExceeded { whose: Whose::Ours, .. } => {
            judged(Outcome::Invalid, format!("{} {after}, so nothing is known of the device", verdict.end))
        }
        end @ End::LagExceeded { .. } => judged(Outcome::Fail, format!("{end} {after}: it did not run to completion")),
        End::Completed | End::Enough { .. } => match verdict.undone.first() {
            Some(undone) if undone.ours => judged(Outcome::Invalid, format!("{undone}: this program held it up")),
            Some(undone) => judged(Outcome::Fail, undone.to_string()),
            None => judged(Outcome::Pass, completed(verdict)),
        },
        end => judged(Outcome::Invalid, format!("{end} {after}")),
    }
}

/// The reason of a completed stage, with its numbers.
fn completed(verdict: &Verdict) -> String {
    let worst = verdict.decided_by.as_ref().map(|worst| match verdict.outcome {
        Outcome::Pass => format!("; {worst}"),
        _ => format!("; {worst}, which this stage allows"),
    });
    let behind: u64 = verdict.streams.iter().map(|stream| stream.overtime.saturating_add(stream.unissued)).sum();
    let backlog = match behind {
        0 => String::new(),
        behind => format!("; {} had not come back at its end", count(behind, "operation")),
    };
    format!("ran to completion without an I/O error{}{backlog}", worst.unwrap_or_default())
}

/// Least length of a stage that certifies, seconds. Source: ACT's README, "Process for certifying".
pub const STAGE_SEC: u64 = 86_400;

/// Length of the slices of which the worst decides, seconds. Source: ACT's README: "in any one-hour period".
const SLICE_SEC: u64 = 3_600;

/// The setup of a series, as far as wording depends on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The multiple, as the user gave it: `30`.
    pub multiple: String,
    /// Name of the configuration whose load is multiplied; `None` for ACT's own load of 1x.
    pub config: Option<String>,
    pub sla: Sla,
    /// Length of a slice of its runs, seconds: whole report intervals.
    pub slice_sec: u64,
    /// Length of a stage, seconds.
    pub stage_sec: u64,
    /// True if the drives are simulated.
    pub simulated: bool,
    /// True if files are tested instead of devices.
    pub files: bool,
    /// Devices that are no drives, each a phrase: `/dev/loop3 is a loop device, which is a file`.
    pub virtual_kinds: Vec<String>,
    /// Devices tested although they are not recorded as prepared.
    pub unprepared: Vec<String>,
    /// True if operations are issued with ACT's own pacing.
    pub as_act: bool,
}

impl Claim {
    /// Reasons why the series is no certification, each a phrase; empty for a certification.
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
            shortfalls.push(format!("a stage lasts {}, not {}", span(self.stage_sec), span(STAGE_SEC)));
        }
        if !self.unprepared.is_empty() {
            shortfalls.push(format!("NOT PREPARED: {}", self.unprepared.join(", ")));
        }
        shortfalls
    }

    /// True if nothing keeps the series from being a certification.
    pub fn is_certification(&self) -> bool {
        self.shortfalls().is_empty()
    }

    /// `certification` or `screening`.
    pub fn noun(&self) -> &'static str {
        if self.is_certification() { "certification" } else { "screening" }
    }

    /// The load: `30x`, or `30 times my.conf`.
    pub fn load(&self) -> String {
        match &self.config {
            None => format!("{}x", self.multiple),
            Some(config) => format!("{} times {config}", self.multiple),
        }
    }

    /// Load and, where they are not ACT's, limits and slices.
    pub fn subject(&self) -> String {
        let limits = match self.sla == Sla::default() {
            true => String::new(),
            false => format!(" within limits of its own ({})", self.sla),
        };
        // A slice as long as the stage is all that a short stage has.
        let is_usual = self.slice_sec == SLICE_SEC || self.slice_sec.min(SLICE_SEC) >= self.stage_sec;
        let slices = if is_usual { String::new() } else { format!(" in slices of {}", span(self.slice_sec)) };
        format!("{}{limits}{slices}", self.load())
    }

    /// True if limits and slice are ACT's.
    fn is_judged_as_acts(&self) -> bool {
        self.sla == Sla::default() && self.slice_sec == SLICE_SEC
    }

    /// The beginning of the sentence after a pass.
    pub fn passed(&self) -> String {
        match self.is_certification() {
            true => format!("certified for {}", self.subject()),
            false => format!("passed the screening for {}", self.subject()),
        }
    }

    /// The beginning of the sentence after a failure.
    pub fn failed(&self) -> String {
        match self.is_certification() {
            true => format!("not certified for {}", self.subject()),
            false => format!("failed the screening for {}", self.subject()),
        }
    }

    /// The beginning of the sentence for an invalid outcome.
    pub fn undecided(&self) -> String {
        format!("the {} for {} is undecided", self.noun(), self.subject())
    }

    /// True if a pass can be compared with published ratings: those hold for ACT's load, pacing and limits, for a day.
    pub fn is_comparable(&self) -> bool {
        self.is_certification() && self.as_act && self.config.is_none() && self.is_judged_as_acts()
    }

    /// Remarks for the reader, each one sentence.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let shortfalls = self.shortfalls();
        if !shortfalls.is_empty() {
            let day = span(STAGE_SEC);
            remarks.push(format!(
                "this is a screening, because {}; what counts is {day} a stage on real, prepared devices",
                shortfalls.join(", and ")
            ));
        }
        if !self.unprepared.is_empty() {
            remarks.push(format!(
                "NOT PREPARED: nothing on record says that {} was written full before, and an empty drive is faster than \
                 it will be in use",
                self.unprepared.join(", ")
            ));
        }
        if let Some(config) = &self.config {
            remarks.push(format!(
                "the load of 1x is that of {config}, not ACT's of 2,000 reads and 1,000 writes a second"
            ));
        }
        if !self.as_act {
            remarks.push(
                "not comparable with published ratings: operations were paced evenly, ACT starts them in bursts \
                 (--as-act)"
                    .to_owned(),
            );
        }
        remarks
    }
}

/// Parameters that define the stages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outline {
    /// The load to certify, a multiple of 1x.
    pub multiple: f64,
    /// Number of devices, at least 1.
    pub devices: usize,
    /// The device that is tested alone first, its number.
    pub single: usize,
    /// Length of a stage, seconds.
    pub stage_sec: u64,
}

impl Outline {
    /// The stages, in their order: two, or four with several devices.
    pub fn stages(&self) -> Vec<Step> {
        let alone = vec![self.single];
        let all: Vec<usize> = (0..self.devices).collect();
        let groups = if self.devices > 1 { vec![alone, all] } else { vec![alone] };
        let loads = [(1.0, Rule::Limits), (2.0, Rule::Completes)];
        let of_groups =
            groups.into_iter().flat_map(|devices| loads.map(|(times, rule)| (devices.clone(), times, rule)));
        of_groups
            .enumerate()
            .map(|(index, (devices, times, rule))| self.stage(index + 1, devices, times, rule))
            .collect()
    }

    fn stage(&self, number: usize, devices: Vec<usize>, times: f64, rule: Rule) -> Step {
        let (name, dir) = (format!("stage {number}"), format!("stage-{number}"));
        Step::planned(name, dir, self.multiple * times, devices, self.stage_sec, rule)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{claim, verdict};
    use super::*;
    use crate::series::State;

    fn lag(whose: Whose) -> End {
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
    fn the_stage_at_the_load_has_the_verdict_of_its_run_with_the_deciding_number() {
        let judged = judge_stage(Rule::Limits, &verdict(Outcome::Pass, End::Completed, 0.027));
        assert_eq!(judged.outcome, Outcome::Pass);
        assert!(judged.reason.starts_with("2.70 % of reads on x took over 1 ms in slice 9"), "{}", judged.reason);
        let judged = judge_stage(Rule::Limits, &verdict(Outcome::Fail, End::Completed, 0.07));
        assert_eq!((judged.outcome, judged.reason.as_str()), (Outcome::Fail, "the first reason"));
    }

    #[test]
    fn remarks_of_a_pass_are_kept_as_notes() {
        let mut passed = verdict(Outcome::Pass, End::Completed, 0.027);
        passed.reasons.push(Reason::new(Code::Note, "reads are a closed loop"));
        let judged = judge_stage(Rule::Limits, &passed);
        assert_eq!((judged.outcome, judged.notes), (Outcome::Pass, vec!["reads are a closed loop".to_owned()]));
    }

    #[test]
    fn the_stage_at_twice_the_load_passes_however_slow_when_it_completes() {
        let judged = judge_stage(Rule::Completes, &verdict(Outcome::Fail, End::Completed, 0.6));
        assert_eq!(judged.outcome, Outcome::Pass);
        assert!(
            judged.reason.starts_with("ran to completion without an I/O error; 60.0 % of reads"),
            "{}",
            judged.reason
        );
    }

    #[test]
    fn the_stage_at_twice_the_load_fails_if_that_was_not_done() {
        let mut undone = verdict(Outcome::Fail, End::Completed, 0.0);
        undone.undone = vec![crate::judge::Undone {
            stream: "large-block-writes".into(),
            device: "x".into(),
            first_slice: None,
            slice: 1,
            slices: 1,
            wanted: 2_000,
            missed: 1_000,
            ours: false,
            held_by: None,
        }];
        let judged = judge_stage(Rule::Completes, &undone);
        assert_eq!(judged.outcome, Outcome::Fail);
        assert!(judged.reason.starts_with("the load of large-block-writes on x was not done"), "{}", judged.reason);
        undone.undone[0].ours = true;
        assert_eq!(judge_stage(Rule::Completes, &undone).outcome, Outcome::Invalid);
    }

    #[test]
    fn an_io_error_fails_it_even_when_it_completes() {
        let mut failing = verdict(Outcome::Fail, End::Completed, 0.0);
        failing.reasons = vec![Reason::new(Code::IoError, "3 I/O errors (3 reads): any fails the run")];
        let judged = judge_stage(Rule::Completes, &failing);
        assert_eq!(judged.outcome, Outcome::Fail);
        assert!(judged.reason.starts_with("3 I/O errors (3 reads): any fails the run (completed"), "{}", judged.reason);
    }

    #[test]
    fn being_stopped_by_the_lag_is_a_failure_of_the_device_but_not_of_ours() {
        let judged = judge_stage(Rule::Completes, &verdict(Outcome::Fail, lag(Whose::Device), 0.5));
        assert_eq!(judged.outcome, Outcome::Fail);
        assert!(judged.reason.contains("10.2 s late") && judged.reason.ends_with("did not run to completion"));
        assert_eq!(
            judge_stage(Rule::Completes, &verdict(Outcome::Fail, lag(Whose::Limit), 0.5)).outcome,
            Outcome::Fail
        );
        let ours = judge_stage(Rule::Completes, &verdict(Outcome::Invalid, lag(Whose::Ours), 0.5));
        assert_eq!(ours.outcome, Outcome::Invalid);
    }

    #[test]
    fn what_ended_for_other_reasons_tells_nothing() {
        for end in
            [End::Unrecorded, End::Interrupted { signal: "SIGINT".into() }, End::EngineFailed { why: "x".into() }]
        {
            let judged = judge_stage(Rule::Completes, &verdict(Outcome::Invalid, end.clone(), 0.0));
            assert_eq!(judged.outcome, Outcome::Invalid, "{end}");
        }
    }

    #[test]
    fn a_day_a_stage_on_prepared_devices_certifies() {
        let claim = claim();
        assert!(claim.is_certification());
        assert_eq!(claim.passed(), "certified for 30x");
        assert_eq!(claim.failed(), "not certified for 30x");
    }

    #[test]
    fn whatever_falls_short_is_named_a_screening_and_never_certified() {
        for short in [
            Claim { stage_sec: STAGE_SEC - 1, ..claim() },
            Claim { simulated: true, ..claim() },
            Claim { files: true, ..claim() },
            Claim { virtual_kinds: vec!["/dev/loop3 is a loop device, which is a file".into()], ..claim() },
            Claim { unprepared: vec!["/dev/x".into()], ..claim() },
        ] {
            let words = [short.passed(), short.failed(), short.undecided(), short.remarks().join(" ")].join(" ");
            assert!(!words.contains("certif"), "{words}");
            assert!(words.contains("passed the screening for 30x") && words.contains("this is a screening"), "{words}");
        }
    }

    #[test]
    fn a_load_and_limits_of_its_own_are_named() {
        let own = Claim { config: Some("my.conf".into()), ..claim() };
        assert_eq!(own.passed(), "certified for 30 times my.conf");
        let lax = Claim { sla: "10%>1ms".parse().unwrap(), ..claim() };
        assert_eq!(lax.passed(), "certified for 30x within limits of its own (10%>1ms)");
        let long = Claim { slice_sec: 86_400, ..claim() };
        assert_eq!(long.passed(), "certified for 30x in slices of 24 h", "an average over a day hides an hour");
        assert_eq!(Claim { stage_sec: 60, ..claim() }.passed(), "passed the screening for 30x");
    }

    #[test]
    fn only_acts_load_pacing_and_limits_for_a_day_are_comparable() {
        assert!(!claim().is_comparable(), "paced evenly");
        assert!(Claim { as_act: true, ..claim() }.is_comparable());
        assert!(!Claim { as_act: true, config: Some("my.conf".into()), ..claim() }.is_comparable());
        assert!(!Claim { as_act: true, stage_sec: 21_600, ..claim() }.is_comparable());
        assert!(!Claim { as_act: true, slice_sec: 86_400, ..claim() }.is_comparable());
        assert!(!Claim { as_act: true, virtual_kinds: vec!["/dev/zram1 is memory".into()], ..claim() }.is_comparable());
        assert!(!Claim { as_act: true, sla: "6%>1ms".parse().unwrap(), ..claim() }.is_comparable());
    }

    const OUTLINE: Outline = Outline { multiple: 30.0, devices: 1, single: 0, stage_sec: 86_400 };

    fn shape(outline: Outline) -> Vec<(String, f64, Vec<usize>, Rule)> {
        outline.stages().into_iter().map(|step| (step.name, step.multiple, step.devices, step.rule)).collect()
    }

    #[test]
    fn one_device_has_two_stages_the_second_at_twice_the_load() {
        let expected =
            [("stage 1".into(), 30.0, vec![0], Rule::Limits), ("stage 2".into(), 60.0, vec![0], Rule::Completes)];
        assert_eq!(shape(OUTLINE), expected);
        assert!(OUTLINE.stages().iter().all(|step| step.duration_sec == 86_400 && step.state == State::Planned));
    }

    #[test]
    fn several_devices_are_tested_together_after_one_of_them_alone() {
        let stages = shape(Outline { devices: 3, single: 1, ..OUTLINE });
        let devices: Vec<_> = stages.iter().map(|(.., devices, _)| devices.clone()).collect();
        assert_eq!(devices, [vec![1], vec![1], vec![0, 1, 2], vec![0, 1, 2]]);
        let multiples: Vec<_> = stages.iter().map(|(_, multiple, ..)| *multiple).collect();
        assert_eq!(multiples, [30.0, 60.0, 30.0, 60.0]);
    }

    #[test]
    fn stages_have_directories_of_their_own() {
        let dirs: Vec<_> = Outline { devices: 2, ..OUTLINE }.stages().into_iter().map(|step| step.dir).collect();
        assert_eq!(dirs, ["stage-1", "stage-2", "stage-3", "stage-4"]);
    }
}
