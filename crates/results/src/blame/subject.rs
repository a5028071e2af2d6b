//! The subject of an explanation: a judged slice over a limit, its counts, and the shares of its time.

use super::accumulate::Blamer;
use crate::buckets::THRESHOLDS_MAX;
use crate::counts::CellCounts;
use crate::judge::{GroupCounts, JudgePlan, Limit};

/// A slice of a judged stream that was over a threshold's limit.
pub(super) struct Subject<'a> {
    pub(super) blamer: &'a Blamer,
    pub(super) plan: &'a JudgePlan,
    pub(super) group: &'a GroupCounts,
    /// Counted from 0.
    pub(super) slice: usize,
    pub(super) counts: &'a CellCounts,
    /// Index of the threshold.
    pub(super) threshold: usize,
    pub(super) limit: Limit,
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

    /// Operations over the threshold: by wait + service, or by response time if only that reaches the limit.
    pub(super) fn over(&self) -> u64 {
        let judged = self.at(&self.counts.judged_over);
        if self.limit.is_exceeded(judged, self.counts.wanted()) { judged } else { self.at(&self.counts.response_over) }
    }

    /// Operations over the threshold with known times.
    pub(super) fn with_times(&self) -> u64 {
        let CellCounts { ops, .. } = self.counts;
        self.at(&self.counts.response_over).saturating_sub(self.counts.wanted().saturating_sub(*ops))
    }

    /// Mean over those operations of one of their sums, nanoseconds.
    pub(super) fn mean_ns(&self, sums: &[u64; THRESHOLDS_MAX]) -> u64 {
        self.at(sums).checked_div(self.with_times()).unwrap_or(0)
    }

    /// Lower bound of the mean service time of the operations whose service alone was over the threshold.
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

/// Time of the operations over the threshold by cause, as fractions of the total.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shares {
    /// In this program: issued late, or seen late.
    pub(super) ours: f64,
    /// Waiting for a slot held by operations that were not slow themselves.
    pub(super) wait: f64,
    /// In service; or waiting for a slot held by operations slow in service.
    pub(super) service: f64,
    /// The part of `service` that was such a wait.
    pub(super) behind: f64,
    pub(super) failed: f64,
}
