//! From counts to a verdict: the rules, in the order in which they outrank each other.
//!
//! 1. An I/O error, a device that is gone, a device or limit that did not keep up: **fail**. No doubt
//!    about our own timing changes that.
//! 2. Our own lag would decide, or what we issued late or saw late; or we left a part of the load undone; or
//!    there is nothing to judge: **invalid**.
//! 3. A part of the load that the device, or a limit, left undone; a share at or over its limit: **fail**. Of a
//!    slice that was cut short the share is that of what the whole of it would have wanted: only what could
//!    not have passed has failed.
//! 4. A run that stopped before its time without having failed: **invalid**.
//! 5. Else **pass**.

use super::slices::WorkloadJudge;
use super::slices::{GroupCounts, Judge};
use super::text::deciding_sentence;
use super::verdict::{
    Class, DAY_SEC, Deciding, GapSummary, Group, Insufficient, NOT_JUDGED, Outcome, SLICE_OPS_MIN, SliceShares,
    StreamTotals, VERDICT_FORMAT_VERSION, Verdict, WorkloadVerdict,
};
use super::{CellCounts, End, Undone};
use crate::buckets::THRESHOLDS_MAX;
use crate::cell::StreamInfo;
use crate::units::ThresholdText;
use crate::units::{self, Grouped, percent};
use std::ops::Range;

/// A thread that lacked a CPU for this part of the time that it needed one is worth telling.
const RUN_DELAY_TOLD_MIN: f64 = 0.05;

/// Which of the two durations a share is formed of.
type Over = fn(&CellCounts) -> &[u64; THRESHOLDS_MAX];

/// The worst share of all, and whether it is too large.
struct Worst {
    deciding: Deciding,
    exceeded: bool,
}

impl Worst {
    /// How near the limit, or how far over; exact comparison first, so that rounding never decides.
    fn rank(&self) -> (bool, f64) {
        (self.exceeded, self.deciding.share / self.deciding.share_max)
    }
}

/// What speaks against a pass, by rank.
#[derive(Default)]
struct Findings {
    failures: Vec<String>,
    doubts: Vec<String>,
    undone: Vec<String>,
    notes: Vec<String>,
}

impl Judge {
    /// The verdict on what was seen up to now, given that the run ended like `end`.
    pub fn verdict(&self, end: &End) -> Verdict {
        verdict(self, end)
    }
}

fn verdict(judge: &Judge, end: &End) -> Verdict {
    let end = &judge.settled(end);
    let slices = || 0..judge.judged_slices();
    let judged = worst(judge, end, slices(), |counts| &counts.judged_over);
    let bounds = Bounds {
        judged: judged.as_ref(),
        least: worst(judge, end, slices(), |counts| &counts.judged_least_over),
        response: worst(judge, end, slices(), |counts| &counts.response_over),
    };
    let undone = judge.undone(end.is_complete());
    let findings = findings(judge, end, &bounds, &undone);
    let too_slow = judged.as_ref().is_some_and(|worst| worst.exceeded);
    let (outcome, reasons) = weigh(judge, end, findings, judged.as_ref());
    let plan = &judge.plan;
    let ran_sec = judge.ran_ns as f64 / 1e9;
    // A load can be done before its time.
    let full_sec = plan.duration_sec.min(ran_sec.round() as u64);
    debug_assert!(!too_slow || outcome != Outcome::Pass);
    // A closed loop hides stalls, so however long, it certifies nothing.
    let closed = closed_and_judged(judge).next().is_some();
    Verdict {
        format_version: VERDICT_FORMAT_VERSION,
        outcome,
        class: if full_sec >= DAY_SEC && !plan.simulated && !closed {
            Class::CertificationLoad
        } else {
            Class::Screening
        },
        partial: !end.is_complete(),
        end: end.clone(),
        reasons,
        failures: Vec::new(),
        workloads: judge.parts.iter().map(|part| of_workload(part, end)).collect(),
        decided_by: judged.map(|worst| worst.deciding),
        sla: plan.sla.to_string(),
        thresholds_ns: plan.sla.thresholds_ns().to_vec(),
        slice_sec: plan.slice_sec,
        duration_sec: plan.duration_sec,
        ran_sec,
        groups: judge
            .groups
            .iter()
            .filter(|group| is_used(judge, group))
            .map(|group| shares(judge, end, group))
            .collect(),
        undone,
        insufficient: insufficient(judge),
        streams: totals(judge, ran_sec),
        gaps: GapSummary {
            count: judge.gaps,
            limit_ns: judge.gap_limit_ns(),
            over: judge.gaps_over,
            max_ns: judge.gap_max_ns,
        },
        blame: Vec::new(),
    }
}

/// The outcome, and the sentences that give the reasons for it, most important first.
fn weigh(judge: &Judge, end: &End, findings: Findings, worst: Option<&Worst>) -> (Outcome, Vec<String>) {
    let Findings { failures, doubts, undone, notes } = findings;
    let too_slow = worst.filter(|worst| worst.exceeded).map(|worst| deciding_sentence(&worst.deciding));
    let stopped = !end.is_complete() && !end.is_failure() && !end.is_our_lag();
    let outcome = match () {
        () if !failures.is_empty() => Outcome::Fail,
        () if !doubts.is_empty() => Outcome::Invalid,
        () if too_slow.is_some() || !undone.is_empty() => Outcome::Fail,
        () if stopped => Outcome::Invalid,
        () => Outcome::Pass,
    };
    let stopped = stopped.then(|| {
        let so_far = match outcome {
            Outcome::Invalid if doubts.is_empty() && is_over_so_far(judge) => {
                "too much of what it did was slow, but the rest of the slice could have made up for that"
            }
            Outcome::Invalid if doubts.is_empty() => "it would pass so far",
            Outcome::Fail => "it had already failed",
            _ => "nothing can be said of what was seen so far",
        };
        let (ran_sec, duration_sec) = (judge.ran_ns / 1_000_000_000, judge.plan.duration_sec);
        format!("{end} after {} of {} s; {so_far}", Grouped(ran_sec), Grouped(duration_sec))
    });
    let nearest = match (outcome, worst) {
        (Outcome::Pass, Some(worst)) => Some(deciding_sentence(&worst.deciding)),
        _ => None,
    };
    let reasons = failures.into_iter().chain(doubts).chain(undone).chain(too_slow).chain(stopped).chain(nearest);
    let reasons = reasons.chain(notes);
    (outcome, reasons.collect())
}

/// The worst share by what the device answers for, and by the two durations that bound the doubts
/// about it.
struct Bounds<'a> {
    judged: Option<&'a Worst>,
    /// Without what this program may have made itself.
    least: Option<Worst>,
    /// With our own lag.
    response: Option<Worst>,
}

/// Whether a share of the incomplete slice that is judged alone is at its limit as it is.
fn is_over_so_far(judge: &Judge) -> bool {
    let so_far = || worst(judge, &End::Completed, 0..judge.judged_slices(), |counts| &counts.judged_over);
    judge.complete_slices == 0 && so_far().is_some_and(|worst| worst.exceeded)
}

fn findings(judge: &Judge, end: &End, bounds: &Bounds<'_>, undone: &[Undone]) -> Findings {
    let mut findings = Findings::default();
    if end.is_failure() {
        findings.failures.push(end.to_string());
    }
    findings.failures.extend(failed_operations(judge));
    if end.is_our_lag() {
        findings.doubts.push(format!("{end}; this says nothing about the {}", judge.plan.tested.noun()));
    }
    match (bounds.judged, &bounds.response) {
        (Some(judged), Some(response)) if judged.exceeded != response.exceeded => findings.doubts.push(format!(
            "this program's own lag would decide: counted with it, {}; without it, every share is below its limit; \
             use a less busy machine or a lower rate",
            deciding_sentence(&response.deciding)
        )),
        (None, _) => findings.doubts.push("no operation of a judged stream was recorded: nothing to judge".to_owned()),
        _ => {}
    }
    findings.own_making(judge, bounds);
    findings.load(judge.plan.tested.noun(), undone);
    findings.closed_loops(judge);
    findings.tail(judge, end);
    if judge.complete_slices == 0 && bounds.judged.is_some() {
        let slice_sec = Grouped(judge.plan.slice_sec);
        findings.notes.push(format!("no slice of {slice_sec} s is complete: the incomplete one was judged"));
    }
    findings
}

impl Findings {
    /// A judged stream without a rate of its own hides the stalls of what it is on.
    fn closed_loops(&mut self, judge: &Judge) {
        for info in closed_and_judged(judge) {
            self.notes.push(format!(
                "{} are a closed loop: while the {} stalls none are wanted, so a stall counts as one slow operation a \
                 slot",
                info.name,
                judge.plan.tested.noun()
            ));
        }
    }

    /// What came after the last complete slice is not judged; if it would fail by itself, that is said.
    fn tail(&mut self, judge: &Judge, end: &End) {
        if judge.complete_slices == 0 {
            return;
        }
        let first = judge.judged_slices();
        if let Some(undone) = judge.undone_in_tail().first().filter(|_| end.is_complete()) {
            self.notes.push(format!("{NOT_JUDGED} after the last complete slice {undone}"));
        }
        let tail = worst(judge, end, first..first.saturating_add(1), |counts| &counts.judged_over);
        if let Some(Worst { deciding, .. }) = tail.filter(|worst| worst.exceeded) {
            self.notes.push(format!(
                "{NOT_JUDGED} after the last complete slice of {} s, {} of {} {} took over {:#}, which is beyond the limit; \
                 take a duration of whole slices, or a shorter --slice",
                Grouped(judge.plan.slice_sec),
                Grouped(deciding.over),
                Grouped(deciding.wanted),
                deciding.stream,
                ThresholdText(deciding.threshold_ns)
            ));
        }
    }

    /// A stream that did not do its load, judged or not: then it was not the one that was asked for.
    fn load(&mut self, noun: &str, undone: &[Undone]) {
        for found in undone {
            match found.ours {
                true => self.doubts.push(format!(
                    "{found}: this program held it up and not the {noun}; use a less busy machine or a lower rate"
                )),
                false => self.undone.push(found.to_string()),
            }
        }
    }

    /// Times are counted up to when a completion was seen, so a long gap between two looks makes the
    /// device look slower than it is, never faster; and what we issue late we issue in a heap, which
    /// no device answers for. A pass stands whatever we did. A failure of our making does not.
    fn own_making(&mut self, judge: &Judge, bounds: &Bounds<'_>) {
        let limit_us = judge.gap_limit_ns() / 1000;
        match (bounds.judged, &bounds.least) {
            (Some(judged), Some(least)) if judged.exceeded && !least.exceeded => self.doubts.push(format!(
                "this program may have made what it measured: {}, but not without the operations that it had kept back \
                 or issued over {:#} late, and the time for which completions may have lain unseen (over {limit_us} us){}; use a less busy \
                 machine{}",
                deciding_sentence(&judged.deciding),
                ThresholdText(judge.plan.sla.tightest_ns()),
                without_cpu(judge),
                if judge.plan.has_keys { " or \"pacing: spin\"" } else { "" }
            )),
            // p99 over the limit is the same as: more than 1 % over the limit.
            _ if u128::from(judge.gaps_over) * 100 > u128::from(judge.gaps) => self.notes.push(format!(
                "times are overstated: {} of {} completions may have lain unseen for over {limit_us} us (5 % of the \
                 tightest threshold), which does not change the verdict{}",
                percent(judge.gaps_over as f64 / judge.gaps as f64),
                Grouped(judge.gaps),
                if judge.plan.has_keys { "; \"pacing: spin\" looks more often" } else { "" }
            )),
            _ => {}
        }
    }
}

/// For how much of the time that they needed one the issuing threads had no CPU, where that is worth telling.
fn without_cpu(judge: &Judge) -> String {
    let share = judge.run_delay_ns as f64 / judge.run_delay_ns.saturating_add(judge.cpu_ns).max(1) as f64;
    match share {
        share if share < RUN_DELAY_TOLD_MIN => String::new(),
        share => format!(", and its threads had no CPU for {} of the time that they needed one", percent(share)),
    }
}

/// The judged streams without a rate of their own.
fn closed_and_judged(judge: &Judge) -> impl Iterator<Item = &StreamInfo> {
    judge.plan.streams.iter().filter(|info| info.judged && info.offered_iops == 0.0)
}

fn failed_operations(judge: &Judge) -> Option<String> {
    let errors: u64 = judge.totals.iter().map(|total| total.errors).sum();
    let named = judge.plan.streams.iter().zip(&judge.totals).filter(|(_, total)| total.errors > 0);
    let by_stream: Vec<_> = named.map(|(info, total)| format!("{} {}", Grouped(total.errors), info.name)).collect();
    let failed = units::count(errors, judge.plan.tested.error());
    (errors > 0).then(|| format!("{failed} ({}): any fails the run", by_stream.join(", ")))
}

/// The worst share in `slices`, as far as they were seen, of what they would have wanted as a whole.
fn worst(judge: &Judge, end: &End, slices: Range<usize>, over: Over) -> Option<Worst> {
    let mut worst: Option<Worst> = None;
    for group in &judge.groups {
        let seen = group.slices.iter().enumerate();
        for (slice, counts) in seen.take(slices.end).skip(slices.start) {
            if counts.wanted() == 0 {
                continue;
            }
            let whole = judge.whole_slice_ops(group, slice, end);
            let wanted = whole.unwrap_or(counts.wanted());
            for (limit, over) in judge.plan.sla.limits().iter().zip(over(counts)) {
                let deciding = Deciding {
                    stream: judge.plan.streams[group.stream].name.clone(),
                    device: group.device.map(|device| judge.plan.devices[device].clone()),
                    slice: slice as u64 + 1,
                    threshold_ns: limit.threshold_ns,
                    over: *over,
                    wanted,
                    cut: whole != Some(counts.wanted()),
                    share: *over as f64 / wanted as f64,
                    share_max: limit.share_max(),
                };
                let candidate = Worst { deciding, exceeded: whole.is_some() && limit.is_exceeded(*over, wanted) };
                if worst.as_ref().is_none_or(|worst| candidate.rank() > worst.rank()) {
                    worst = Some(candidate);
                }
            }
        }
    }
    worst
}

fn shares(judge: &Judge, end: &End, group: &GroupCounts) -> Group {
    let thresholds = judge.plan.sla.limits().len();
    let slices = group.slices.iter().enumerate().map(|(slice, counts)| {
        let wanted = counts.wanted();
        let share = |over: &[u64]| (wanted > 0).then(|| over.iter().map(|over| *over as f64 / wanted as f64).collect());
        let (judged, response) = (&counts.judged_over[..thresholds], &counts.response_over[..thresholds]);
        SliceShares {
            slice: slice as u64 + 1,
            complete: (slice as u64) < judge.complete_slices,
            wanted,
            whole: judge.whole_slice_ops(group, slice, end),
            judged_over: judged.to_vec(),
            response_over: response.to_vec(),
            judged_share: share(judged),
            response_share: share(response),
        }
    });
    Group {
        stream: judge.plan.streams[group.stream].name.clone(),
        device: group.device.map(|device| judge.plan.devices[device].clone()),
        slices: slices.collect(),
    }
}

/// What is said of one of several workloads.
fn of_workload(part: &WorkloadJudge, end: &End) -> WorkloadVerdict {
    let Verdict { outcome, reasons, .. } = verdict(&part.judge, end);
    WorkloadVerdict { name: part.name.clone(), outcome, reasons }
}

/// Whether there is anything in a group. Of several workloads not each is on every device.
fn is_used(judge: &Judge, group: &GroupCounts) -> bool {
    judge.plan.workloads.len() < 2 || group.slices.iter().any(|counts| counts.wanted() > 0)
}

fn insufficient(judge: &Judge) -> Vec<Insufficient> {
    let mut found = Vec::new();
    for group in judge.groups.iter().filter(|group| is_used(judge, group)) {
        let slices = group.slices.iter().enumerate().take(judge.judged_slices());
        for (slice, counts) in slices.filter(|(_, counts)| counts.wanted() < SLICE_OPS_MIN) {
            found.push(Insufficient {
                stream: judge.plan.streams[group.stream].name.clone(),
                device: group.device.map(|device| judge.plan.devices[device].clone()),
                slice: slice as u64 + 1,
                wanted: counts.wanted(),
            });
        }
    }
    found
}

fn totals(judge: &Judge, ran_sec: f64) -> Vec<StreamTotals> {
    let stream = |(info, total): (&StreamInfo, &CellCounts)| StreamTotals {
        name: info.name.clone(),
        judged: info.judged,
        offered_iops: info.offered_iops,
        achieved_iops: if ran_sec > 0.0 { total.ops.saturating_sub(total.overtime) as f64 / ran_sec } else { 0.0 },
        ops: total.ops,
        bytes: total.bytes,
        errors: total.errors,
        overtime: total.overtime,
        unissued: total.unissued,
    };
    judge.plan.streams.iter().zip(&judge.totals).map(stream).collect()
}
