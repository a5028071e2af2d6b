//! Computes the verdict from counts. The first rule that applies gives the outcome:
//!
//! 1. **fail**: an I/O error, a device that disappeared, a lost operation, or a stream so late that the run was
//!    stopped. Doubts about this program's timing do not change this.
//! 2. **invalid**: this program's own lag, late issue or late polling would decide the outcome; this program delayed
//!    the load; or there is nothing to judge.
//! 3. **fail**: the device or an in-flight limit delayed the load (see `load`), or a share reached its limit. The share
//!    of a slice that was cut short refers to the operations due in the whole slice, so such a slice fails only if it
//!    could no longer pass.
//! 4. **invalid**: the run was stopped before its end.
//! 5. **pass**, or **measured** without limits.

use super::slices::{GroupCounts, Judge, JudgedWindow, WorkloadJudge};
use super::verdict::{
    DAY_SEC, GapSummary, GroupShares, Insufficient, Outcome, Reason, ReasonCode, SLICE_OPS_MIN,
    SliceShares, StreamTotals, VERDICT_FORMAT_VERSION, Verdict, VerdictClass, WorkloadVerdict,
    WorstShare,
};
use super::{DelayOwner, End};
use crate::buckets::THRESHOLDS_MAX;
use crate::cell::{GRACE_NS, StreamInfo};
use crate::counts::CellCounts;
use crate::format::{self, Grouped, ThresholdText, percent};

/// Messages report the time without a CPU if it is at least this fraction of the runnable time.
const RUN_DELAY_REPORTED_MIN: f64 = 0.05;

/// The verdict has a note if a stream performed its load, but achieved less than this fraction of its offered rate.
const ACHIEVED_MIN: f64 = 0.99;

/// Selects the counts that a share is computed from.
type CountSelector = fn(&CellCounts) -> &[u64; THRESHOLDS_MAX];

impl WorstShare {
    /// The worse share; `self` if both are equal. The exact comparison comes first, so that rounding never decides.
    fn worse(self, other: Self) -> Self {
        let rank = |of: &Self| (of.is_over(), of.share / of.share_max);
        if rank(&other) > rank(&self) {
            other
        } else {
            self
        }
    }

    /// The worse of `self` and a `later` share of the same group and limit. `first_slice` is the first slice of either
    /// share that reached the limit.
    fn joined(self, later: Self) -> Self {
        let first_slice = self.first_slice.into_iter().chain(later.first_slice).min();
        Self {
            first_slice,
            ..self.worse(later)
        }
    }
}

/// Reasons against a pass, by rank.
#[derive(Default)]
struct ReasonLists {
    failures: Vec<Reason>,
    doubts: Vec<Reason>,
    undone: Vec<Reason>,
    /// Silences of devices that are slower than the threshold: the share of slow operations says more.
    slow_silences: Vec<Reason>,
    notes: Vec<Reason>,
}

impl Judge {
    /// The verdict on the data so far, assuming that the run ended with `end`.
    pub fn verdict(&self, end: &End) -> Verdict {
        verdict(self, end, None)
    }

    /// Time in which the issuing threads waited for a CPU, as a fraction of their runnable time; `None` if small.
    pub fn cpu_wait_share(&self) -> Option<f64> {
        let share =
            self.run_delay_ns as f64 / self.run_delay_ns.saturating_add(self.cpu_ns).max(1) as f64;
        Some(share).filter(|share| *share >= RUN_DELAY_REPORTED_MIN)
    }
}

/// The verdict of a run with this `end`. If another workload ended the run, `other_workload_end` describes why.
fn verdict(judge: &Judge, end: &End, other_workload_end: Option<&str>) -> Verdict {
    let end = &judge.corrected_end(end);
    let (decided_by, worst) = worst_shares(judge, end, |counts| &counts.judged_over);
    let bounds = ShareBounds {
        judged: decided_by.as_ref(),
        lower_bound: worst_shares(judge, end, |counts| &counts.judged_over_lower_bound).0,
        response: worst_shares(judge, end, |counts| &counts.response_over).0,
    };
    let undone = judge.undone(end);
    let mut findings = ReasonLists::default();
    findings.add_failures(judge, end);
    findings.add_doubts(judge, end, &bounds);
    findings.add_undone_loads(judge, end, &undone);
    findings.add_notes(judge, &bounds);
    let (outcome, reasons) = outcome_and_reasons(
        judge,
        end,
        other_workload_end,
        findings,
        decided_by.as_ref(),
    );
    let plan = &judge.plan;
    let ran_sec = judge.ran_ns as f64 / 1e9;
    // A load can finish before its configured duration.
    let full_sec = plan.duration_sec.min(ran_sec.round() as u64);
    // A closed loop hides stalls, so it certifies nothing, whatever its duration.
    let closed = judge.plan.streams.iter().any(StreamInfo::is_judged_loop);
    Verdict {
        format_version: VERDICT_FORMAT_VERSION,
        tested: plan.tested,
        outcome,
        class: if full_sec >= DAY_SEC && !plan.simulated && !closed {
            VerdictClass::CertificationLoad
        } else {
            VerdictClass::Screening
        },
        partial: !end.is_complete(),
        end: end.clone(),
        reasons,
        failures: Vec::new(),
        wrong_data: Vec::new(),
        unmeasured: Vec::new(),
        missed: Vec::new(),
        notes: Vec::new(),
        records_read: None,
        workloads: judge
            .workload_judges
            .iter()
            .map(|part| of_workload(part, end))
            .collect(),
        decided_by,
        worst,
        sla: plan.sla.to_string(),
        thresholds_ns: plan.sla.thresholds_ns().to_vec(),
        slice_sec: plan.slice_sec,
        duration_sec: plan.duration_sec,
        ran_sec,
        groups: judge
            .judged_groups()
            .filter(is_used)
            .map(|group| shares(judge, end, group))
            .collect(),
        undone,
        insufficient: insufficient(judge),
        streams: totals(judge),
        gaps: GapSummary {
            count: judge.gaps,
            limit_ns: judge.gap_limit_ns(),
            over: judge.gaps_over,
            max_ns: judge.gap_max_ns,
        },
        cpu_wait_share: judge.cpu_wait_share(),
        blame: Vec::new(),
    }
}

/// The outcome, and the reasons for it, most important first.
fn outcome_and_reasons(
    judge: &Judge,
    end: &End,
    other_workload_end: Option<&str>,
    findings: ReasonLists,
    worst: Option<&WorstShare>,
) -> (Outcome, Vec<Reason>) {
    let ReasonLists {
        failures,
        mut doubts,
        undone,
        slow_silences,
        mut notes,
    } = findings;
    let too_slow = worst.filter(|worst| worst.is_over());
    let too_slow = too_slow.map(|worst| Reason::new(ReasonCode::OverLimit, worst.to_string()));
    let is_stopped =
        !end.is_complete() && end.failure().is_none() && !end.is_our_lag() && !end.is_suspended();
    let unlimited = judge.plan.has_no_limits();
    let mut outcome = if !failures.is_empty() {
        Outcome::Fail
    } else if !doubts.is_empty() {
        Outcome::Invalid
    } else if too_slow.is_some() || !undone.is_empty() || !slow_silences.is_empty() {
        Outcome::Fail
    } else if is_stopped {
        Outcome::Invalid
    } else if unlimited {
        Outcome::Measured
    } else {
        Outcome::Pass
    };
    match (outcome, judge.too_short()) {
        (Outcome::Measured, Some(text)) => notes.push(Reason::new(ReasonCode::Note, text)),
        (Outcome::Pass, Some(text)) => {
            outcome = Outcome::Invalid;
            doubts.push(Reason::new(ReasonCode::TooShort, text));
        }
        _ => {}
    }
    let stop_reason = is_stopped.then(|| {
        let so_far = match outcome {
            Outcome::Invalid if doubts.is_empty() && is_over_so_far(judge) => {
                "too many operations were slow so far, but the rest of the slice could have made up for them"
            }
            Outcome::Invalid if doubts.is_empty() => "so far the run would pass",
            Outcome::Fail => "the run had already failed",
            _ => "the run so far allows no verdict",
        };
        let ran_sec = judge.ran_ns / 1_000_000_000;
        let duration_sec = judge.plan.duration_sec;
        let (code, sentence) = match other_workload_end {
            Some(elsewhere) => (ReasonCode::StoppedForAnother, format!("the run was stopped because {elsewhere}")),
            None => (ReasonCode::Stopped, end.to_string()),
        };
        Reason::new(code, format!("{sentence} after {} of {} s; {so_far}", Grouped(ran_sec), Grouped(duration_sec)))
    });
    let nearest = match (outcome, worst) {
        (Outcome::Pass, Some(worst)) => Some(Reason::new(ReasonCode::Held, worst.to_string())),
        (Outcome::Measured, _) => {
            let late = judge
                .late_unlimited()
                .map_or_else(String::new, |late| format!(", {late}"));
            let why = "no latency limits were given, so latencies were not judged; all operations completed";
            Some(Reason::new(ReasonCode::NoLimits, format!("{why}{late}")))
        }
        _ => None,
    };
    let reasons = failures
        .into_iter()
        .chain(doubts)
        .chain(undone)
        .chain(too_slow)
        .chain(slow_silences)
        .chain(stop_reason)
        .chain(nearest);
    (outcome, reasons.chain(notes).collect())
}

/// The worst share by wait + service, with its lower and upper bound.
struct ShareBounds<'a> {
    judged: Option<&'a WorstShare>,
    /// Without delays that this program may have caused.
    lower_bound: Option<WorstShare>,
    /// The worst share by wait + lag + service: with this program's own lag.
    response: Option<WorstShare>,
}

/// True if no slice is complete, and a share of the operations that ran in the first slice has reached its limit.
fn is_over_so_far(judge: &Judge) -> bool {
    let so_far = || worst_shares(judge, &End::Completed, |counts| &counts.judged_over).0;
    judge.complete_slices == 0 && so_far().is_some_and(|worst| worst.is_over())
}

impl ReasonLists {
    fn note(&mut self, text: String) {
        self.notes.push(Reason::new(ReasonCode::Note, text));
    }

    fn own_lag(&mut self, text: String) {
        self.doubts.push(Reason::new(ReasonCode::OwnLag, text));
    }

    /// Failures that no lower load would avoid; none if all came after a sleep of the machine (the drive may lose
    /// power).
    fn add_failures(&mut self, judge: &Judge, end: &End) {
        if end.excuses_errors() {
            return;
        }
        self.failures
            .extend(wrong_data(judge).map(|text| Reason::new(ReasonCode::WrongData, text)));
        self.failures
            .extend(end.failure().map(|code| Reason::new(code, end.to_string())));
        self.failures
            .extend(failed_operations(judge).map(|text| Reason::new(ReasonCode::IoError, text)));
        self.failures.extend(
            judge
                .lost()
                .into_iter()
                .map(|text| Reason::new(ReasonCode::Lost, text)),
        );
    }

    /// Collects doubts: this program may have caused the result, or there is nothing to judge.
    fn add_doubts(&mut self, judge: &Judge, end: &End, bounds: &ShareBounds<'_>) {
        if end.is_suspended() {
            self.doubts
                .push(Reason::new(ReasonCode::Suspended, end.to_string()));
        }
        if end.is_our_lag() {
            let noun = judge.plan.tested.noun();
            self.own_lag(format!("{end}; this says nothing about the {noun}"));
        }
        match (bounds.judged, &bounds.response) {
            (Some(judged), Some(response)) if judged.is_over() != response.is_over() => self.own_lag(format!(
                "this program's own lag would decide the verdict: with this lag, {response}; without the lag, every share is below its limit; \
                     use a less busy machine or a lower rate"
            )),
            (None, _) if !judge.judged_groups().any(|group| is_used(&group)) => self.doubts.push(Reason::new(
                ReasonCode::NothingJudged,
                "no operation of a judged stream was recorded: nothing to judge",
            )),
            _ => {}
        }
        self.add_timing_doubts(judge, bounds);
    }

    /// Collects doubts caused by this program's timing. Times end when a completion is seen, so a long gap between two
    /// polls makes the device look slower than it is, never faster. Operations issued late go out in a burst, which the
    /// device must not be charged for. A pass stands despite such gaps and bursts; a failure caused by them becomes
    /// invalid.
    fn add_timing_doubts(&mut self, judge: &Judge, bounds: &ShareBounds<'_>) {
        let limit_us = judge.gap_limit_ns() / 1000;
        match (bounds.judged, &bounds.lower_bound) {
            (Some(judged), Some(lower_bound)) if judged.is_over() && !lower_bound.is_over() => self.own_lag(format!(
                    "this program may have caused the slow operations: {judged}. Without this program's delays, no share reaches its \
                     limit. These delays are operations issued over {:#} late, waits behind such operations, and completions noticed \
                     over {limit_us} us late{}; use a less busy machine{}",
                    ThresholdText(judge.plan.sla.tightest_ns()),
                    without_cpu(judge),
                    if judge.plan.has_keys { " or \"pacing: spin\"" } else { "" }
                )),
            // With more than 1 % of the gaps over the limit, the p99 of the gaps is over the limit.
            _ if u128::from(judge.gaps_over) * 100 > u128::from(judge.gaps) => self.note(format!(
                    "latencies are overstated: {} of {} completions may have been noticed more than {limit_us} us late (5 % of the \
                     tightest threshold); this does not change the verdict{}",
                    percent(judge.gaps_over as f64 / judge.gaps as f64),
                    Grouped(judge.gaps),
                    if judge.plan.has_keys { "; \"pacing: spin\" polls more often" } else { "" }
                )),
            _ => {}
        }
    }

    /// Collects loads that were not carried out, or carried out too late: the configured load was then not tested.
    fn add_undone_loads(&mut self, judge: &Judge, end: &End, undone: &[super::UnmetLoad]) {
        let noun = judge.plan.tested.noun();
        for undone_load in undone {
            if undone_load.ours {
                self.own_lag(format!(
                    "{undone_load}: this program delayed the load, not the {noun}; use a less busy machine or a lower rate"
                ))
            } else {
                self.undone.push(Reason::new(
                    ReasonCode::NotCarriedOut,
                    undone_load.to_string(),
                ))
            }
        }
        self.undone.extend(
            judge
                .too_late(end)
                .into_iter()
                .map(|text| Reason::new(ReasonCode::Late, text)),
        );
        for silent in judge.silent(end) {
            let sentence = silent.sentence;
            if silent.is_of_host {
                self.own_lag(format!(
                    "{sentence}; the host may be the cause: this program's threads waited for a CPU for a long time, so the \
                     kernel's threads may have waited, too; use a less busy machine"
                ));
            } else if silent.is_too_slow {
                self.slow_silences
                    .push(Reason::new(ReasonCode::Silence, sentence));
            } else {
                self.undone.push(Reason::new(ReasonCode::Silence, sentence));
            }
        }
        for (slow, share) in judge.below_rate(end) {
            if judge.cpu_wait_explains(share) {
                self.own_lag(format!(
                    "{slow}; the low rate may be the host's fault: this program's threads waited too long for a CPU; use a \
                     less busy machine"
                ))
            } else {
                self.undone.push(Reason::new(ReasonCode::BelowRate, slow))
            }
        }
    }

    /// Collects remarks without effect on the outcome.
    fn add_notes(&mut self, judge: &Judge, bounds: &ShareBounds<'_>) {
        let noun = judge.plan.tested.noun();
        for info in judge
            .plan
            .streams
            .iter()
            .filter(|info| info.is_judged_loop() && !judge.plan.has_no_limits())
        {
            self.note(format!(
                    "{} are a closed loop: no operation is issued while the {noun} stalls, so a stall counts as only one slow \
                     operation per slot; a stall that is longer than the largest threshold also counts as silence",
                    info.name
                ));
        }
        if let Some(judged) = bounds.judged.filter(|_| judge.complete_slices == 0) {
            let slice_sec = Grouped(judge.plan.slice_sec);
            let two_shares = if judged.cut {
                "; the deciding share counts all operations due in the whole slice; shares in tables, in charts and in \
                 \"where the time went\" count only the operations that ran before the stop"
            } else {
                ""
            };
            self.note(format!("no slice of {slice_sec} s is complete, so the incomplete slice was judged{two_shares}"));
        }
        for total in totals(judge).iter().filter(|total| total.overtime > 0) {
            if total.achieved_iops < total.offered_iops * ACHIEVED_MIN {
                self.note(format!(
                        "{} achieved {}/s of the offered {}/s during the run, because {} operations completed after its end",
                        total.name,
                        format::number(total.achieved_iops),
                        format::number(total.offered_iops),
                        Grouped(total.overtime)
                    ));
            }
        }
    }
}

impl End {
    /// The failure that follows from the end of the run alone; `None` if there is none.
    fn failure(&self) -> Option<ReasonCode> {
        match self {
            Self::DeviceGone { .. } => Some(ReasonCode::DeviceGone),
            Self::TooManyErrors { .. } => Some(ReasonCode::IoError),
            Self::LagExceeded { whose, .. } if *whose != DelayOwner::Ours => {
                Some(ReasonCode::FellBehind)
            }
            _ => None,
        }
    }

    fn is_suspended(&self) -> bool {
        matches!(self, Self::Suspended { .. })
    }

    /// True if this program's own lag ended the run, so that the run says nothing about the device.
    fn is_our_lag(&self) -> bool {
        matches!(
            self,
            Self::LagExceeded {
                whose: DelayOwner::Ours,
                ..
            }
        )
    }
}

/// Describes the fraction of the issuing threads' runnable time without a CPU; empty if the fraction is small.
fn without_cpu(judge: &Judge) -> String {
    judge.cpu_wait_share().map_or_else(String::new, |share| {
        format!(
            "; this program's threads waited for a CPU during {} of the time in which they could run",
            percent(share)
        )
    })
}

fn failed_operations(judge: &Judge) -> Option<String> {
    let (errors, by_stream) = by_stream(judge, |total| {
        total.errors - total.wrong_data.min(total.errors)
    })?;
    Some(format!(
        "{} ({by_stream}): any error fails the run",
        format::count(errors, judge.plan.tested.error())
    ))
}

fn wrong_data(judge: &Judge) -> Option<String> {
    let (reads, by_stream) = by_stream(judge, |total| total.wrong_data)?;
    Some(format!(
        "{} with wrong data ({by_stream}): wrong data fails the run",
        format::count(reads, "operation")
    ))
}

/// Sum of `count_of` over all streams of operations, and the counts of these streams as text; `None` if the sum is 0.
fn by_stream(judge: &Judge, count_of: fn(&CellCounts) -> u64) -> Option<(u64, String)> {
    let counts = judge
        .plan
        .streams
        .iter()
        .zip(judge.totals.iter().map(count_of));
    let counts = counts.filter(|(info, count)| *count > 0 && !info.commits);
    let texts: Vec<_> = counts
        .clone()
        .map(|(info, count)| format!("{} {}", Grouped(count), info.name))
        .collect();
    let sum = counts.map(|(_, count)| count).sum();
    (sum > 0).then(|| (sum, texts.join(", ")))
}

/// The worst share over all windows of a run that ended with `end`, and the worst share for each limit. A window that
/// was cut short is extrapolated to its full length. Failed operations are not slow, so no share includes them.
fn worst_shares(
    judge: &Judge,
    end: &End,
    selector: CountSelector,
) -> (Option<WorstShare>, Vec<WorstShare>) {
    let mut overall_worst: Option<WorstShare> = None;
    let mut by_limit: ByThreshold = Vec::new();
    for group in judge.judged_groups() {
        let windows = judge.share_windows(group, end);
        let shares = windows
            .iter()
            .filter(|window| window.counts.counted_ops() > window.counts.errors);
        let shares = shares.map(|window| shares_of(judge, end, group, window, selector).collect());
        let Some(of_group) =
            shares.reduce(|before, next| combine(before, next, WorstShare::joined))
        else {
            continue;
        };
        // The first slice over any limit, even if the worst share belongs to another limit.
        let first_slice = of_group
            .iter()
            .flatten()
            .filter_map(|worst| worst.first_slice)
            .min();
        let worst = of_group.iter().flatten().cloned().reduce(WorstShare::worse);
        let worst = worst.map(|worst| WorstShare {
            first_slice,
            ..worst
        });
        overall_worst = overall_worst
            .into_iter()
            .chain(worst)
            .reduce(WorstShare::worse);
        by_limit = combine(by_limit, of_group, WorstShare::worse);
    }
    (overall_worst, by_limit.into_iter().flatten().collect())
}

/// An entry per threshold; `None` if the threshold has no limit.
type ByThreshold = Vec<Option<WorstShare>>;

/// Combines the entries of each threshold. An empty `a` has no thresholds yet.
fn combine(
    a: ByThreshold,
    b: ByThreshold,
    with: fn(WorstShare, WorstShare) -> WorstShare,
) -> ByThreshold {
    if a.is_empty() {
        return b;
    }
    a.into_iter()
        .zip(b)
        .map(|(a, b)| a.into_iter().chain(b).reduce(with))
        .collect()
}

/// The shares of a window by threshold; `None` for a threshold without a limit.
fn shares_of(
    judge: &Judge,
    end: &End,
    group: &GroupCounts,
    window: &JudgedWindow,
    selector: CountSelector,
) -> impl Iterator<Item = Option<WorstShare>> {
    let ops_so_far = window.counts.counted_ops();
    let full_slice_ops = if window.cut {
        judge.whole_slice_ops(group, window.first, end)
    } else {
        Some(ops_so_far)
    };
    let scheduled_ops = full_slice_ops.unwrap_or(ops_so_far);
    let counts = selector(&window.counts).map(|over| window.counts.slow_of(over));
    let (stream, device) = judge.plan.names_of(group);
    let from_sec = judge.start_between_sec(window);
    let length_sec = judge.plan.slice_sec;
    judge
        .plan
        .limits_of(group.stream)
        .zip(counts)
        .map(move |(limit, over)| {
            let limit = limit?;
            let exceeded = full_slice_ops.is_some() && limit.is_exceeded(over, scheduled_ops);
            Some(WorstShare {
                stream: stream.clone(),
                device: device.clone(),
                slice: window.first as u64 + 1,
                from_sec,
                length_sec,
                with_rest: window.last > window.first,
                // The last slice is also judged without the remainder. If it fails only with the remainder, the
                // remainder is the first bad slice.
                first_slice: exceeded.then_some(window.last as u64 + 1),
                threshold_ns: limit.threshold_ns,
                over,
                scheduled: scheduled_ops,
                cut: full_slice_ops != Some(ops_so_far),
                share: over as f64 / scheduled_ops as f64,
                share_max: limit.share_max(),
            })
        })
}

fn shares(judge: &Judge, end: &End, group: &GroupCounts) -> GroupShares {
    let thresholds = judge.plan.sla.limits().len();
    let slices = group.slices.iter().enumerate().map(|(slice, counts)| {
        let scheduled_ops = counts.counted_ops();
        let judged = &counts.judged_over[..thresholds];
        let response = &counts.response_over[..thresholds];
        SliceShares {
            slice: slice as u64 + 1,
            complete: (slice as u64) < judge.complete_slices,
            scheduled: scheduled_ops,
            whole: judge.whole_slice_ops(group, slice, end),
            judged_over: judged.to_vec(),
            response_over: response.to_vec(),
            judged_share: fractions(judged, scheduled_ops),
            response_share: fractions(response, scheduled_ops),
        }
    });
    let (stream, device) = judge.plan.names_of(group);
    GroupShares {
        stream,
        device,
        slices: slices.collect(),
    }
}

fn fractions(counts: &[u64], total: u64) -> Option<Vec<f64>> {
    (total > 0).then(|| {
        counts
            .iter()
            .map(|count| *count as f64 / total as f64)
            .collect()
    })
}

/// Verdict on one of several workloads. If another workload ended the run, the end counts as a stop here.
fn of_workload(workload: &WorkloadJudge, end: &End) -> WorkloadVerdict {
    let elsewhere = workload.judge.is_end_of_another(end);
    let workload_end = if elsewhere.is_some() {
        &End::Unrecorded
    } else {
        end
    };
    let Verdict {
        outcome, reasons, ..
    } = verdict(&workload.judge, workload_end, elsewhere.as_deref());
    WorkloadVerdict {
        name: workload.name.clone(),
        outcome,
        reasons,
    }
}

/// True if the group has operations: a stream need not use every device.
fn is_used(group: &&GroupCounts) -> bool {
    group.slices.iter().any(|counts| counts.counted_ops() > 0)
}

fn insufficient(judge: &Judge) -> Vec<Insufficient> {
    let mut small_slices = Vec::new();
    for group in judge.judged_groups().filter(is_used) {
        // The remainder is judged together with the last complete slice, so it may be short. A load can begin late and
        // end early, so slices before its first and after its last operation are ignored.
        let slices_max = usize::try_from(judge.complete_slices.max(1)).unwrap_or(usize::MAX);
        let is_used = |counts: &CellCounts| counts.counted_ops() > 0;
        let first = group.slices.iter().position(is_used).unwrap_or(0);
        let last = group.slices.iter().rposition(is_used).unwrap_or(usize::MAX);
        let slices = group
            .slices
            .iter()
            .enumerate()
            .take(slices_max)
            .take(last.saturating_add(1))
            .skip(first);
        for (slice, counts) in slices.filter(|(_, counts)| counts.counted_ops() < SLICE_OPS_MIN) {
            let (stream, device) = judge.plan.names_of(group);
            small_slices.push(Insufficient {
                stream,
                device,
                slice: slice as u64 + 1,
                scheduled: counts.counted_ops(),
            });
        }
    }
    small_slices
}

/// Duration of a stream's load, nanoseconds: from its start to its configured end or the end of the run. If the stream
/// finished well before this end, its load ended with its last operation.
fn lasted_ns(info: &StreamInfo, total: &CellCounts, ran_ns: u64) -> u64 {
    let period_ns = if info.offered_iops > 0.0 {
        (1e9 / info.offered_iops) as u64
    } else {
        0
    };
    let done_ns = total.last_completion_ns.saturating_add(period_ns);
    let soon_ns = total
        .last_completion_ns
        .saturating_add(GRACE_NS.max(period_ns.saturating_mul(10)));
    let is_all_back = total.last_completion_ns > 0 && total.counted_ops() == total.ops;
    info.own_ns(
        0,
        if is_all_back && soon_ns < ran_ns {
            done_ns
        } else {
            ran_ns
        },
    )
}

fn totals(judge: &Judge) -> Vec<StreamTotals> {
    let streams = judge.plan.streams.iter().zip(&judge.totals);
    streams
        .map(|(info, total)| {
            let achieved_ops = total.ops.saturating_sub(total.overtime);
            let ran_ns = lasted_ns(info, total, judge.ran_ns);
            StreamTotals {
                name: info.name.clone(),
                judged: info.judged,
                offered_iops: info.offered_iops,
                achieved_iops: if ran_ns > 0 {
                    achieved_ops as f64 * 1e9 / ran_ns as f64
                } else {
                    0.0
                },
                ops: total.ops,
                bytes: total.bytes,
                errors: total.errors,
                overtime: total.overtime,
                unissued: total.unissued,
                lost: total.lost,
            }
        })
        .collect()
}
