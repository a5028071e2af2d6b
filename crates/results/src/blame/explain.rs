//! From sums to parts: which share of the time of slow operations each cause has.
//!
//! ```text
//! operations over the threshold
//!   with times:  lag, and completions that lay unseen    ours, and what they held up behind them on their slots
//!                the rest of the wait                     the limit's, or that of whoever held the slots
//!                the rest of service                      device or kernel, see `service`
//!   failed                                                the device's
//!   never issued, or never back                           as what waited or was late meanwhile
//! ```

use super::accumulate::Blamer;
use super::{Blame, Cause, Part, circumstances, sentence, service};
use crate::buckets::THRESHOLDS_MAX;
use crate::judge::{CellCounts, GroupCounts, Judge, Limit, Plan};

/// A slice of a judged stream that was over a threshold's limit.
pub(super) struct Subject<'a> {
    pub(super) blamer: &'a Blamer,
    pub(super) plan: &'a Plan,
    pub(super) group: &'a GroupCounts,
    /// From 0.
    pub(super) slice: usize,
    pub(super) counts: &'a CellCounts,
    /// Index of the threshold.
    pub(super) threshold: usize,
    pub(super) limit: &'a Limit,
}

impl Subject<'_> {
    /// The devices that it is about.
    pub(super) fn devices(&self) -> std::ops::Range<usize> {
        match self.group.device {
            Some(device) => device..device + 1,
            None => 0..self.plan.devices.len(),
        }
    }

    /// The value at the threshold.
    pub(super) fn at(&self, values: &[u64; THRESHOLDS_MAX]) -> u64 {
        values[self.threshold]
    }

    /// Operations over it: by what the device answers for, or by that and our lag, where only the two
    /// together are too many.
    pub(super) fn over(&self) -> u64 {
        let judged = self.at(&self.counts.judged_over);
        if self.limit.is_exceeded(judged, self.counts.wanted()) { judged } else { self.at(&self.counts.response_over) }
    }

    /// Operations over it of which the times are known.
    pub(super) fn with_times(&self) -> u64 {
        let CellCounts { errors, unissued, .. } = self.counts;
        self.at(&self.counts.response_over).saturating_sub(*errors).saturating_sub(*unissued)
    }

    /// The mean over those of one of their sums, nanoseconds.
    pub(super) fn mean_ns(&self, sums: &[u64; THRESHOLDS_MAX]) -> u64 {
        self.at(sums).checked_div(self.with_times()).unwrap_or(0)
    }

    /// The mean service time of those whose service alone was over the threshold, at least.
    ///
    /// Known is the sum with that of the others, which were served in less than the threshold; how many
    /// of these were over a smaller threshold is known, too.
    pub(super) fn served_slowly_ns(&self) -> u64 {
        let over = &self.counts.service_over;
        let limits = self.plan.sla.limits();
        let mut others = self.with_times().saturating_sub(self.at(over));
        let mut others_ns = 0_u64;
        for index in (0..=self.threshold).rev() {
            let in_band = if index == 0 { others } else { over[index - 1].saturating_sub(over[index]).min(others) };
            others_ns = others_ns.saturating_add(in_band.saturating_mul(limits[index].threshold_ns));
            others -= in_band;
        }
        let sum_ns = self.at(&self.counts.slow.service_ns).saturating_sub(others_ns);
        sum_ns.checked_div(self.at(over)).map_or(0, |mean_ns| mean_ns.max(self.limit.threshold_ns))
    }
}

/// The blame for each judged slice over a limit, the worst first.
pub(super) fn blame(blamer: &Blamer, judge: &Judge) -> Vec<Blame> {
    let mut found = Vec::new();
    for group in &judge.groups {
        for (slice, counts) in group.slices.iter().enumerate().take(judge.judged_slices()) {
            for (threshold, limit) in judge.plan.sla.limits().iter().enumerate() {
                let exceeded = |over: &[u64; THRESHOLDS_MAX]| limit.is_exceeded(over[threshold], counts.wanted());
                if exceeded(&counts.judged_over) || exceeded(&counts.response_over) {
                    let subject = Subject { blamer, plan: &judge.plan, group, slice, counts, threshold, limit };
                    let rank = subject.over() as f64 / counts.wanted() as f64 / limit.share_max();
                    found.push((rank, one(&subject)));
                }
            }
        }
    }
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found.into_iter().map(|(_, blame)| blame).collect()
}

fn one(subject: &Subject<'_>) -> Blame {
    let parts = parts(subject);
    Blame {
        stream: subject.plan.streams[subject.group.stream].name.clone(),
        device: subject.group.device.map(|device| subject.plan.devices[device].clone()),
        slice: subject.slice as u64 + 1,
        threshold_ns: subject.limit.threshold_ns,
        over: subject.over(),
        wanted: subject.counts.wanted(),
        sentence: sentence::whole(subject, &parts),
        parts,
    }
}

/// What the operations over the threshold spent their time on, as fractions of all of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shares {
    /// In this program: issued late, or seen late.
    pub(super) ours: f64,
    /// Waiting for a slot that others held who were not slow themselves.
    pub(super) wait: f64,
    /// In service; or waiting for a slot that others held who were slow in service.
    pub(super) service: f64,
    /// The part of `service` that was such a wait.
    pub(super) behind: f64,
    /// Failed.
    pub(super) failed: f64,
}

impl Shares {
    fn of(subject: &Subject<'_>) -> Self {
        let CellCounts { errors, unissued, slow, .. } = subject.counts;
        let all = subject.at(&subject.counts.response_over).max(1) as f64;
        let wait_ns = subject.at(&slow.wait_ns) as f64;
        let (seen_late_ns, held_ns) = (subject.at(&slow.unseen_ns) as f64, subject.at(&slow.held_ns) as f64);
        let ours_ns = subject.at(&slow.lag_ns) as f64 + seen_late_ns + held_ns;
        let wait_ns = (wait_ns - held_ns).max(0.0);
        let service_ns = (subject.at(&slow.service_ns) as f64 - seen_late_ns).max(0.0);
        let total_ns = (wait_ns + ours_ns + service_ns).max(1.0);
        let weight = subject.with_times() as f64 / all / total_ns;
        let (failed, never) = (*errors as f64 / all, *unissued as f64 / all);
        let mut shares =
            Self { ours: ours_ns * weight, wait: wait_ns * weight, service: service_ns * weight, failed, behind: 0.0 };
        // What never went out was kept back by what kept back the others; without any of that it went
        // out and did not come back.
        if ours_ns > wait_ns {
            shares.ours += never;
        } else if wait_ns > 0.0 {
            shares.wait += never;
        } else {
            shares.service += never;
        }
        if waited_behind_slow_ones(subject) {
            shares.behind = std::mem::take(&mut shares.wait);
            shares.service += shares.behind;
        }
        shares
    }
}

/// Whether the slots that operations waited for were held by operations slow in service: most of the
/// slow ones were so in service alone, or those that were took as long as the others waited (a stall
/// that fills the slots). Else the slots were too few for a device that was quick.
fn waited_behind_slow_ones(subject: &Subject<'_>) -> bool {
    let slowly = subject.at(&subject.counts.service_over);
    let wait_ns = subject.mean_ns(&subject.counts.slow.wait_ns);
    slowly > 0 && (slowly.saturating_mul(2) >= subject.with_times() || subject.served_slowly_ns() >= wait_ns)
}

/// The causes, the largest first, those without a number last.
fn parts(subject: &Subject<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut add = |cause, share: f64, evidence: String| {
        if share > 0.0 {
            parts.push(Part { cause, share: Some(share.min(1.0)), evidence });
        }
    };
    let shares = Shares::of(subject);
    add(Cause::OurLag, shares.ours, sentence::ours(subject));
    add(Cause::SlotWait, shares.wait, sentence::wait(subject));
    for (cause, fraction, evidence) in service::split(subject, &shares) {
        add(cause, shares.service * fraction, evidence);
    }
    add(Cause::Device, shares.failed, sentence::failed(subject));
    merge(&mut parts);
    parts.sort_by(|a, b| b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)));
    if let Some(largest) = parts.first_mut() {
        add_what_is_over_without(subject, largest);
    }
    parts.extend(circumstances::all(subject, &shares));
    if parts.is_empty() {
        let evidence = "not told apart because nothing is recorded of it".to_owned();
        parts.push(Part { cause: Cause::Unknown, share: None, evidence });
    }
    parts
}

/// Says of the largest part when the limit is reached without it, too: shares are of time, and a few
/// long operations can have most of that.
fn add_what_is_over_without(subject: &Subject<'_>, largest: &mut Part) {
    let without = match largest.cause {
        Cause::OurLag => subject.at(&subject.counts.judged_least_over),
        Cause::SlotWait => subject.at(&subject.counts.service_over),
        _ => return,
    };
    if subject.limit.is_exceeded(without, subject.counts.wanted()) {
        largest.evidence = format!("{}; {}", largest.evidence, sentence::over_without(subject, without));
    }
}

/// One part for each cause.
fn merge(parts: &mut Vec<Part>) {
    let mut merged: Vec<Part> = Vec::new();
    for part in parts.drain(..) {
        match merged.iter_mut().find(|known| known.cause == part.cause) {
            Some(known) => {
                known.share = known.share.zip(part.share).map(|(a, b)| a + b);
                known.evidence = format!("{}, {}", known.evidence, part.evidence);
            }
            None => merged.push(part),
        }
    }
    *parts = merged;
}
