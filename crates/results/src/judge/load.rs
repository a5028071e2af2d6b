//! Checks that the whole load was carried out: by each stream, judged or not, on each device, in each judged period.
//!
//! A verdict on latencies ignores operations that never completed, and streams without limits. The following rules
//! cover them. An operation counts in the slice in which it was due, whenever it completed.
//!
//! * lost: issued, but not completed when the drain ended. A single lost operation fails the run.
//! * not carried out, for streams with a rate: more than 0.1 % of the operations, and more than one, had not completed
//!   [`GRACE_NS`] after the end of the judged period, or after the end of the stream if that was earlier. In a short
//!   slice also: the backlog grew through the slice, see `backlog`.
//! * late, for ACT's streams without limits: more than 0.1 % of the operations completed later than `max-lag-sec`.
//! * below its rate, for streams with a minimum rate: fewer operations or bytes per second succeeded.
//! * silent, for judged closed loops, which issue nothing while their device hangs: the device had operations in flight
//!   and completed nothing for longer than the largest threshold. The sum of such times, as a fraction of the period,
//!   must stay below the limit of that threshold.

use super::slices::{GroupCounts, JudgedWindow};
use super::text::{between_text, slices_text};
use super::{End, Judge, UnmetLoad};
use crate::cell::{GRACE_NS, cell_name};
use crate::counts::{Backlog, CellCounts};
use crate::format::{self, Grouped, ThresholdText, count, duration, percent, percent_exact};
use std::fmt;

/// At most one in this many due operations may be missing or late.
const ALLOWED_ONE_IN: u64 = 1_000;

/// True if `count` is more than 0.1 % of `total`. Exact.
fn is_too_many(count: u64, total: u64) -> bool {
    u128::from(count) * u128::from(ALLOWED_ONE_IN) > u128::from(total)
}

fn is_not_carried_out(missed: u64, total: u64) -> bool {
    missed > 1 && is_too_many(missed, total)
}

/// Overdue operations of a stream on a device during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortfall {
    pub scheduled_ops: u64,
    pub overdue_ops: u64,
    pub is_own_delay: bool,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scheduled_ops,
            overdue_ops,
            ..
        } = self;
        let grace = GRACE_NS / 1_000_000_000;
        write!(
            f,
            "{} of {} were due over {grace} s ago and had not completed",
            Grouped(*overdue_ops),
            count(*scheduled_ops, "operation")
        )
    }
}

/// Overdue operations of a stream with `per_sec` operations per second. `scheduled_ops` operations were due in the
/// period that ends now, and `backlog` is outstanding at its end. `None` if the number of overdue operations is
/// allowed. The newest operations (`per_sec` times the grace period) are not overdue yet; older operations are overdue.
pub fn shortfall(scheduled_ops: u64, backlog: &Backlog, per_sec: f64) -> Option<Shortfall> {
    let due_just_now = (per_sec * (GRACE_NS as f64 / 1e9)).ceil() as u64;
    let overdue_ops = backlog.total().saturating_sub(due_just_now);
    let overdue_on_devices = overdue_ops.saturating_sub(backlog.late);
    is_not_carried_out(overdue_ops, scheduled_ops).then(|| Shortfall {
        scheduled_ops,
        overdue_ops,
        is_own_delay: !is_not_carried_out(overdue_on_devices, scheduled_ops),
    })
}

/// A judged closed loop whose device was silent for a too large fraction of a slice.
pub(super) struct SilentLoop {
    pub(super) sentence: String,
    /// True if the lack of CPUs may explain the silence.
    pub(super) is_of_host: bool,
    /// True if the share of operations over the same threshold reached its limit in this slice, too: a device that is
    /// always slower than the threshold, rather than a device that stalls.
    pub(super) is_too_slow: bool,
}

/// A slice in which a stream did not carry out its load on a device.
pub(super) struct UnmetSlice {
    pub(super) slice: usize,
    pub(super) counts: CellCounts,
    /// As in [`UnmetLoad::missed`].
    pub(super) missed: u64,
    /// As in [`UnmetLoad::ours`].
    pub(super) is_ours: bool,
    /// As in [`UnmetLoad::growth_allowed`].
    pub(super) growth_allowed: Option<u64>,
}

impl Judge {
    /// The streams whose load was not carried out, on each device. Sorted by three keys: loads delayed by the device
    /// or a limit come before loads delayed by this program; loads that did not wait for another stream come before
    /// loads that did; the largest missing fraction comes first.
    pub(super) fn undone(&self, end: &End) -> Vec<UnmetLoad> {
        let mut undone: Vec<_> = self
            .device_groups()
            .filter_map(|group| self.undone_of(group, end))
            .collect();
        let missing = |of: &UnmetLoad| of.missed as f64 / of.scheduled.max(1) as f64;
        undone.sort_by(|a, b| {
            (a.ours, a.slots_used_by.is_some())
                .cmp(&(b.ours, b.slots_used_by.is_some()))
                .then(missing(b).total_cmp(&missing(a)))
        });
        undone
    }

    fn undone_of(&self, group: &GroupCounts, end: &End) -> Option<UnmetLoad> {
        if self.plan.per_sec(group.stream) == 0.0 {
            return None;
        }
        let is_undone = |window: &JudgedWindow| {
            is_not_carried_out(window.counts.missed, window.counts.counted_ops())
        };
        // Slices that were cut short are ignored: their load might still have caught up.
        let late_windows = self
            .windows(group, end)
            .into_iter()
            .filter(|window| !window.cut && is_undone(window));
        let late_slices = late_windows.map(|window| UnmetSlice {
            slice: window.first,
            missed: window.counts.missed,
            is_ours: !is_not_carried_out(
                window.counts.missed_lower_bound,
                window.counts.counted_ops(),
            ),
            growth_allowed: None,
            counts: window.counts,
        });
        let mut undone_slices: Vec<_> = late_slices.collect();
        if undone_slices.is_empty() {
            undone_slices = self.slices_with_growth(group);
        }
        let worst = undone_slices
            .iter()
            .max_by_key(|slice| (!slice.is_ours, slice.missed))?;
        Some(UnmetLoad {
            stream: self.plan.streams[group.stream].name.clone(),
            device: self.device_name(group).to_owned(),
            slice: worst.slice as u64 + 1,
            first_slice: undone_slices.first().map(|first| first.slice as u64 + 1),
            slices: undone_slices.len() as u64,
            scheduled: worst.counts.counted_ops(),
            missed: worst.missed,
            ours: worst.is_ours,
            slots_used_by: self.holder_name(&worst.counts),
            growth_allowed: worst.growth_allowed,
        })
    }

    /// Stream and device whose operations held the slots for which operations of `counts` waited.
    fn holder_name(&self, counts: &CellCounts) -> Option<String> {
        let holder = usize::try_from(counts.slots_used_by.checked_sub(1)?).ok()?;
        let cells = self.plan.streams.len() * self.plan.devices.len();
        (holder < cells).then(|| cell_name(&self.plan.streams, &self.plan.devices, holder))
    }

    /// True if a run of format 1 does not show whether the load was carried out: format 1 does not record how late
    /// operations completed, and more operations were outstanding at the end than may be missing.
    pub(crate) fn is_undecidable(&self) -> bool {
        self.device_groups()
            .filter(|group| self.plan.per_sec(group.stream) > 0.0)
            .any(|group| {
                let total = group.total();
                is_not_carried_out(
                    total.overtime.saturating_add(total.unissued),
                    total.counted_ops(),
                )
            })
    }

    /// A sentence for each device with lost operations.
    pub(super) fn lost(&self) -> Vec<String> {
        self.plan
            .devices
            .iter()
            .enumerate()
            .filter_map(|(device, name): (usize, &String)| {
            let totals = self
                .device_groups()
                .filter(|group: &&GroupCounts| {
                group.device == Some(device) && !self.plan.streams[group.stream].commits
            })
                .map(|group| (group.stream, group.total()));
            let lost: Vec<_> = totals.filter(|(_, total)| total.lost > 0).collect();
            let last_completion_ns = lost.iter().map(|(_, total)| total.last_completion_ns).max()?;
            let losses = lost.iter().map(|(stream, total)| {
                format!(
                    "{} {}",
                    Grouped(total.lost),
                    self.plan.streams[*stream].name
                )
            });
            let losses_text = losses.collect::<Vec<_>>().join(" and ");
            let when = duration(last_completion_ns);
            Some(if last_completion_ns < self.ran_ns {
                format!("{name} completed nothing after {when}: {losses_text} never completed")
            } else {
                format!(
                    "{losses_text} never completed on {name}, whose last completion was at {when}"
                )
            })
        })
            .collect()
    }

    /// A sentence for each stream with more late operations than allowed.
    pub(super) fn too_late(&self, end: &End) -> Vec<String> {
        self.device_groups().filter_map(|group: &GroupCounts| {
            let late_ns = self.plan.streams[group.stream].late_ns?;
            let is_late =
                |window: &JudgedWindow| is_too_many(window.counts.late, window.counts.counted_ops());
            let (JudgedWindow { counts, .. }, slices) =
                self.worst_window(group, end, Vec::new(), is_late, |counts| counts.late)?;
            Some(format!(
                "{} of {} {} on {} completed over {} late {slices}, the latest after {} (max-lag-sec; at most 0.1 % may be late)",
                Grouped(counts.late),
                Grouped(counts.counted_ops()),
                self.plan.streams[group.stream].name,
                self.device_name(group),
                duration(late_ns),
                duration(counts.late_max_ns)
            ))
        }).collect()
    }

    /// Operations of streams without limits that were later than the grace period, and the longest delay, in words.
    pub(super) fn late_unlimited(&self) -> Option<String> {
        let unlimited = self.plan.sla.is_unlimited();
        let groups = self.device_groups().filter(|group| {
            let info = &self.plan.streams[group.stream];
            info.late_ns.is_none() && (unlimited || !info.judged) && !info.commits
        });
        let totals = groups
            .map(GroupCounts::total)
            .filter(|total| total.late > 0);
        let (late_ops, max_ns) = totals.fold((0_u64, 0), |(sum, max), total| {
            (sum + total.late, max.max(total.late_max_ns))
        });
        (late_ops > 0).then(|| {
            let grace = duration(GRACE_NS);
            format!(
                "{} of them over {grace} late, the latest after {}",
                Grouped(late_ops),
                duration(max_ns)
            )
        })
    }

    /// The judged closed loops whose device was silent for a too large fraction of a slice.
    pub(super) fn silent(&self, end: &End) -> Vec<SilentLoop> {
        self.device_groups().filter_map(|group: &GroupCounts| {
            let info = &self.plan.streams[group.stream];
            let limits = self.plan.limits_of(group.stream).enumerate();
            let (threshold, limit) = limits
                .filter_map(|(threshold, limit)| Some((threshold, limit?)))
                .last()
                .filter(|_| info.is_judged_loop())?;
            let between = self.windows_between(group, |counts| counts.active_ns);
            let (JudgedWindow { counts, .. }, slices) =
                self.worst_window(group, end, between, |window: &JudgedWindow| {
                limit.is_exceeded(window.counts.silent_ns, window.counts.active_ns)
            }, |counts| counts.silent_ns)?;
            let device_ns = counts.silent_ns.saturating_sub(counts.silent_host_ns);
            let sentence = format!(
                "{} completed no {} for over {:#} at a time, in all for {} of {} {slices} ({}); this fraction must be below {}",
                self.device_name(group),
                info.name,
                ThresholdText(limit.threshold_ns),
                duration(counts.silent_ns),
                duration(counts.active_ns),
                percent(counts.silent_ns as f64 / counts.active_ns.max(1) as f64),
                percent_exact(limit.share_max())
            );
            let slow_ops = counts.slow_of(counts.judged_over[threshold]);
            Some(SilentLoop {
                sentence,
                is_of_host: !limit.is_exceeded(device_ns, counts.active_ns),
                is_too_slow: limit.is_exceeded(slow_ops, counts.counted_ops()),
            })
        }).collect()
    }

    /// For each stream whose rate on all devices together was below its minimum in a slice: a sentence about the worst
    /// slice, and the rate of that slice as a fraction of the minimum.
    pub(super) fn below_rate(&self, end: &End) -> Vec<(String, f64)> {
        let is_whole =
            |group: &&GroupCounts| group.device.is_none() || self.plan.devices.len() == 1;
        self.judged_groups()
            .filter(is_whole)
            .filter_map(|group: &GroupCounts| {
                let limits = self.plan.streams[group.stream].limits.as_ref()?;
                let below = |least: Option<f64>, of, unit| self.below(group, end, least?, of, unit);
                let ops = below(limits.least_iops, |counts| counts.ops, "operations");
                let bytes = below(limits.least_bytes_per_sec, |counts| counts.bytes, "bytes");
                ops.into_iter()
                    .chain(bytes)
                    .min_by(|(_, a), (_, b)| a.total_cmp(b))
            })
            .collect()
    }

    /// A sentence about the complete window of `group` with the lowest rate, and this rate as a fraction of `rate_min`;
    /// `None` if no rate is below `rate_min` per second.
    fn below(
        &self,
        group: &GroupCounts,
        end: &End,
        rate_min: f64,
        count_of: fn(&CellCounts) -> u64,
        unit: &'static str,
    ) -> Option<(String, f64)> {
        let slice_ns = self.plan.slice_sec.saturating_mul(1_000_000_000);
        // A closed loop starts with a burst, as large as the number of operations that complete after the loop ends.
        // The burst is subtracted from the first window.
        let total = group.total();
        let is_closed = self.plan.streams[group.stream].offered_iops == 0.0;
        let burst_fraction = if is_closed {
            total.overtime as f64 / total.ops.max(1) as f64
        } else {
            0.0
        };
        let burst_ops = count_of(&total) as f64 * burst_fraction;
        let mut slow = Vec::new();
        for window in self.windows_of(group, end, true) {
            let from_ns = (window.first as u64).saturating_mul(slice_ns);
            let until_ns = (window.last as u64 + 1)
                .saturating_mul(slice_ns)
                .min(self.ran_ns);
            let own_ns = self.plan.streams[group.stream].own_ns(from_ns, until_ns);
            if window.cut || own_ns == 0 {
                continue;
            }
            let mut done = count_of(&window.counts) as f64;
            if window.first == 0 {
                done -= burst_ops;
            }
            let rate = done * 1e9 / own_ns as f64;
            if rate < rate_min {
                slow.push((window.first, rate));
            }
        }
        let (worst, rate) = slow
            .iter()
            .copied()
            .min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let first = slow.first().map(|(slice, _)| *slice as u64 + 1);
        let sentence = format!(
            "{} did {} {unit}/s {} (the minimum is {}/s)",
            self.plan.streams[group.stream].name,
            format::number(rate),
            slices_text(first, worst as u64 + 1),
            format::number(rate_min)
        );
        Some((sentence, rate / rate_min))
    }

    /// True if a stream that achieved this `share` of its minimum rate could have reached the minimum with enough CPU
    /// time: this program's threads lacked a CPU for long enough.
    pub(super) fn cpu_wait_explains(&self, share: f64) -> bool {
        let delayed = self.run_delay_ns as f64 / self.ran_ns.max(1) as f64;
        !self.plan.simulated && share >= 1.0 - delayed
    }

    /// The bad window (`is_bad`) with the largest `count_of`, among the complete windows of `group` and the windows
    /// `between` slices; with a text that names this window and the first bad slice.
    fn worst_window(
        &self,
        group: &GroupCounts,
        end: &End,
        between: Vec<JudgedWindow>,
        is_bad: impl Fn(&JudgedWindow) -> bool,
        count_of: fn(&CellCounts) -> u64,
    ) -> Option<(JudgedWindow, String)> {
        let windows = self.windows(group, end).into_iter().chain(between);
        let bad_windows: Vec<_> = windows
            .filter(|window| !window.cut && is_bad(window))
            .collect();
        let first = bad_windows
            .iter()
            .map(|window| window.first as u64 + 1)
            .min();
        // Reversed, because `max_by_key` returns the last of equal windows, and the windows between slices are last.
        let worst = bad_windows
            .into_iter()
            .rev()
            .max_by_key(|window| count_of(&window.counts))?;
        let slices = match self.start_between_sec(&worst) {
            Some(from_sec) => between_text(from_sec, self.plan.slice_sec),
            None => slices_text(first, worst.first as u64 + 1),
        };
        Some((worst, slices))
    }

    pub(super) fn device_name(&self, group: &GroupCounts) -> &str {
        group
            .device
            .map_or("all devices together", |device| &self.plan.devices[device])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_operation_or_0_1_percent_of_the_operations_of_a_load_may_be_missing() {
        assert!(!is_not_carried_out(1, 1));
        assert!(is_not_carried_out(2, 1_999));
        assert!(!is_not_carried_out(2, 2_000));
        assert!(!is_not_carried_out(3_600, 3_600_000));
        assert!(is_not_carried_out(3_601, 3_600_000));
    }

    #[test]
    fn operations_due_within_the_grace_period_are_not_overdue() {
        let backlog = |in_flight, waiting, late| Backlog {
            in_flight,
            waiting,
            late,
        };
        assert_eq!(
            shortfall(10_000, &backlog(500, 510, 0), 1_000.0),
            None,
            "ten of ten thousand"
        );
        let found = shortfall(10_000, &backlog(500, 511, 0), 1_000.0).unwrap();
        assert_eq!((found.overdue_ops, found.is_own_delay), (11, false));
        assert!(
            shortfall(10_000, &backlog(500, 0, 600), 1_000.0)
                .unwrap()
                .is_own_delay
        );
    }
}
