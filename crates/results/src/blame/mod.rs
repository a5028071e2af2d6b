//! Breaks down the time of slow operations by cause, for windows over a limit.
//!
//! ```text
//! IntervalCounts (time of slow operations by stage) -----------+
//! telemetry (CPU, interrupts, temperature, diskstats) ---------+--> Blamer --> Blame for each window
//! trace.csv (kernel queue and device, in samples) -------------+      ^
//!                                                              Judge: windows over a limit
//! ```
//!
//! Blame is an estimate of causes, not a measurement. Blame combines the run's times (wait, lag, service), samples of
//! the kernel's tracepoints, and telemetry of host and drive. Blame explains an outcome and never changes it.
//!
//! Causes with a share are measured; causes without a share are circumstances. The run's clock gives the exact share of
//! each stage in the time of the operations over the threshold. Only the split between kernel and device needs a trace
//! or the kernel's disk statistics; without both, the sentence says so. Steal, a full CPU and heat have no share: they
//! explain why the share of another cause is large.

mod accumulate;
mod samples;
mod service;

pub use crate::judge::{Blame, BlamePart, Cause};
pub use accumulate::Blamer;

use crate::buckets::THRESHOLDS_MAX;
use crate::cell::cells_of;
use crate::counts::CellCounts;
use crate::format::{Grouped, ThresholdText, duration, percent, percent_exact, percent_whole};
use crate::judge::{GroupCounts, Judge, JudgePlan, Limit, between_text};
use crate::telemetry::Column;
use accumulate::SlowConditions;
use std::ops::Range;

/// Causes that delay operations before their service, so that the share without the delay is known.
const DELAYS_BEFORE_SERVICE: [Cause; 2] = [Cause::OurLag, Cause::SlotWait];

/// A window of a judged stream in which the share over a threshold reached its limit.
struct BlamedWindow<'a> {
    blamer: &'a Blamer,
    plan: &'a JudgePlan,
    group: &'a GroupCounts,
    /// Index of the slice in which the window begins, from 0.
    slice: usize,
    /// Start of the window, seconds since the run began, if the window begins in the middle of the slice.
    from_sec: Option<u64>,
    steps: Range<usize>,
    counts: CellCounts,
    threshold: usize,
    limit: Limit,
}

impl BlamedWindow<'_> {
    fn devices(&self) -> Range<usize> {
        cells_of(0, self.group.device, self.plan.devices.len())
    }

    fn blame(&self) -> Blame {
        let blame_parts = parts(self);
        let (stream, device) = self.plan.names_of(self.group);
        Blame {
            stream,
            device,
            slice: self.slice as u64 + 1,
            from_sec: self.from_sec,
            threshold_ns: self.limit.threshold_ns,
            over: self.over(),
            scheduled: self.counts.counted_ops(),
            sentence: blame_sentence(self, &blame_parts),
            parts: blame_parts,
            reached_without: DELAYS_BEFORE_SERVICE
                .into_iter()
                .filter(|cause| self.share_without(*cause).is_some())
                .collect(),
        }
    }

    fn at(&self, values: &[u64; THRESHOLDS_MAX]) -> u64 {
        values[self.threshold]
    }

    /// Operations over the threshold by wait + service, or by response time if only the response times reach the limit.
    /// Failed operations have no times and are not included.
    fn over(&self) -> u64 {
        let judged = self.counts.slow_of(self.at(&self.counts.judged_over));
        if self.limit.is_exceeded(judged, self.counts.counted_ops()) {
            judged
        } else {
            self.counts.slow_of(self.at(&self.counts.response_over))
        }
    }

    /// Operations over the threshold with known times.
    fn with_times(&self) -> u64 {
        self.at(&self.counts.response_over)
            .saturating_sub(self.counts.counted_ops().saturating_sub(self.counts.ops))
    }

    /// Mean time per operation, nanoseconds: `sums`, a field of `SlowTimes`, divided by [`Self::with_times`].
    fn mean_ns(&self, sums: &[u64; THRESHOLDS_MAX]) -> u64 {
        self.at(sums).checked_div(self.with_times()).unwrap_or(0)
    }

    /// [`Self::mean_ns`] as text; `None` if the mean is 0.
    fn mean_text(&self, sums: &[u64; THRESHOLDS_MAX]) -> Option<String> {
        let mean_ns = self.mean_ns(sums);
        (mean_ns > 0).then(|| duration(mean_ns))
    }

    /// Share of operations that would be over the threshold without the delay by `cause`, one of
    /// [`DELAYS_BEFORE_SERVICE`]; `None` if this share is below the limit.
    fn share_without(&self, cause: Cause) -> Option<f64> {
        let over_ops = match cause {
            Cause::OurLag => self
                .counts
                .slow_of(self.at(&self.counts.judged_over_lower_bound)),
            Cause::SlotWait => self.at(&self.counts.service_over),
            _ => return None,
        };
        let scheduled_ops = self.counts.counted_ops();
        self.limit
            .is_exceeded(over_ops, scheduled_ops)
            .then(|| over_ops as f64 / scheduled_ops.max(1) as f64)
    }

    /// Fraction of the operations over the threshold, relative to the limit.
    fn share_of_limit(&self) -> f64 {
        self.over() as f64 / self.counts.counted_ops() as f64 / self.limit.share_max()
    }

    /// Lower bound of the mean service time of the operations whose service alone was over the threshold. Only the sum
    /// for all operations over the threshold is known. The service time of every other operation is below the smallest
    /// threshold that it did not reach; these upper bounds are subtracted from the sum.
    fn served_slowly_ns(&self) -> u64 {
        let service_over = &self.counts.service_over;
        let limits = self.plan.sla.limits();
        let mut faster_ops = self.with_times().saturating_sub(self.at(service_over));
        let mut faster_ops_ns = 0_u64;
        for index in (0..=self.threshold).rev() {
            let in_band = if index == 0 {
                faster_ops
            } else {
                service_over[index - 1]
                    .saturating_sub(service_over[index])
                    .min(faster_ops)
            };
            faster_ops_ns =
                faster_ops_ns.saturating_add(in_band.saturating_mul(limits[index].threshold_ns));
            faster_ops -= in_band;
        }
        let sum_ns = self
            .at(&self.counts.slow.service_ns)
            .saturating_sub(faster_ops_ns);
        sum_ns
            .checked_div(self.at(service_over))
            .map_or(0, |mean_ns| mean_ns.max(self.limit.threshold_ns))
    }
}

/// Time of the operations over the threshold by cause, as fractions of the total.
#[derive(Debug, Clone, Copy, Default)]
struct CauseShares {
    /// Delay by this program: operations issued late, or completions seen late.
    own_delay: f64,
    /// Wait for a slot held by operations that were not slow themselves.
    wait: f64,
    /// Service, and waits for a slot held by operations slow in service.
    service: f64,
    /// Part of `service`: the waits for a slot held by operations slow in service.
    behind_slow_ops: f64,
}

impl CauseShares {
    fn from_window(subject: &BlamedWindow<'_>) -> Self {
        let CellCounts {
            unissued,
            lost,
            slow,
            ..
        } = &subject.counts;
        let slow_ops = subject
            .counts
            .slow_of(subject.at(&subject.counts.response_over))
            .max(1) as f64;
        let wait_ns = subject.at(&slow.wait_ns) as f64;
        let seen_late_ns = subject.at(&slow.unseen_ns) as f64;
        let unseen_before_ns = subject.at(&slow.unseen_before_ns) as f64;
        let ours_ns = subject.at(&slow.lag_ns) as f64 + seen_late_ns + unseen_before_ns;
        let wait_ns = (wait_ns - unseen_before_ns).max(0.0);
        let service_ns = (subject.at(&slow.service_ns) as f64 - seen_late_ns).max(0.0);
        let total_ns = (wait_ns + ours_ns + service_ns).max(1.0);
        let weight = subject.with_times() as f64 / slow_ops / total_ns;
        let never_completed = unissued.saturating_add(*lost) as f64 / slow_ops;
        let mut shares = Self {
            own_delay: ours_ns * weight,
            wait: wait_ns * weight,
            service: service_ns * weight,
            behind_slow_ops: 0.0,
        };
        // Operations that never completed are charged to the larger delay of the other operations: this program's
        // delay, or the wait. Without any delay, such operations were issued and did not complete, so service is
        // charged.
        if ours_ns > wait_ns {
            shares.own_delay += never_completed;
        } else if wait_ns > 0.0 {
            shares.wait += never_completed;
        } else {
            shares.service += never_completed;
        }
        if waited_behind_slow_ones(subject) {
            shares.behind_slow_ops = std::mem::take(&mut shares.wait);
            shares.service += shares.behind_slow_ops;
        }
        shares
    }
}

impl Blamer {
    /// The blame for each judged slice over a limit, and for each window between two slices that is over a limit while
    /// both slices are below it; the worst first. `judge` must have the same intervals.
    pub fn blame(&self, judge: &Judge) -> Vec<Blame> {
        let mut blamed_windows: Vec<_> = judge
            .judged_groups()
            .flat_map(|group| self.blamed(judge, group))
            .collect();
        blamed_windows.sort_by(|a, b| b.share_of_limit().total_cmp(&a.share_of_limit()));
        blamed_windows.iter().map(BlamedWindow::blame).collect()
    }

    fn blamed<'a>(&'a self, judge: &'a Judge, group: &'a GroupCounts) -> Vec<BlamedWindow<'a>> {
        let per_slice = judge.plan.steps_per_slice();
        let slices = group
            .slices
            .iter()
            .enumerate()
            .map(|(slice, counts)| (slice, None, *counts));
        let windows_between = judge.share_windows_between(group).map(|window| {
            (
                window.first,
                judge.start_between_sec(&window),
                window.counts,
            )
        });
        let mut blamed: Vec<BlamedWindow<'_>> = Vec::new();
        for (slice, from_sec, counts) in slices.chain(windows_between) {
            for (threshold, limit) in judge.plan.limits_of(group.stream).enumerate() {
                let Some(limit) = limit else { continue };
                let is_exceeded =
                    |over: u64| limit.is_exceeded(counts.slow_of(over), counts.counted_ops());
                let is_over = is_exceeded(counts.judged_over[threshold])
                    || is_exceeded(counts.response_over[threshold]);
                let is_blamed_as_slice = from_sec.is_some()
                    && blamed.iter().any(|known| {
                        known.threshold == threshold && [slice, slice + 1].contains(&known.slice)
                    });
                if !is_over || is_blamed_as_slice {
                    continue;
                }
                let first_step = slice * per_slice + usize::from(from_sec.is_some());
                let steps = first_step..first_step + per_slice;
                let plan = &judge.plan;
                blamed.push(BlamedWindow {
                    blamer: self,
                    plan,
                    group,
                    slice,
                    from_sec,
                    steps,
                    counts,
                    threshold,
                    limit,
                });
            }
        }
        blamed
    }
}

/// True if operations slow in service held the slots for which other operations waited. There are two signs. The slow
/// operations together had at least half of the slot time, even if they were few: a limit in the kernel delays a few
/// operations and lets the others through in bursts. Or their mean service time was at least the mean wait of all
/// operations over the threshold (a stall that fills the slots). Without a sign, the in-flight limit was too low for a
/// fast device.
fn waited_behind_slow_ones(subject: &BlamedWindow<'_>) -> bool {
    let slowly = subject.at(&subject.counts.service_over);
    let mean_ns = subject.served_slowly_ns();
    let wait_ns = subject.mean_ns(&subject.counts.slow.wait_ns);
    let in_use_ns = slowly.saturating_mul(mean_ns);
    slowly > 0
        && (in_use_ns.saturating_mul(2) >= subject.at(&subject.counts.slow.service_ns)
            || mean_ns >= wait_ns)
}

/// The causes: the largest share first, causes without a share last.
fn parts(subject: &BlamedWindow<'_>) -> Vec<BlamePart> {
    let mut parts = Vec::new();
    let shares = CauseShares::from_window(subject);
    add_part(
        &mut parts,
        Cause::OurLag,
        shares.own_delay,
        own_delay_evidence(subject),
    );
    add_part(
        &mut parts,
        Cause::SlotWait,
        shares.wait,
        slot_wait_evidence(subject),
    );
    for (cause, fraction, evidence) in service::service_causes(subject, &shares) {
        add_part(&mut parts, cause, shares.service * fraction, evidence);
    }
    parts.sort_by(|a, b| b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)));
    if let Some(largest) = parts.first_mut() {
        note_if_over_without_cause(subject, largest);
    }
    let evidence = [
        (Cause::Host, host_evidence(subject)),
        (Cause::Heat, heat_evidence(subject, &shares)),
    ];
    let circumstances = evidence
        .into_iter()
        .filter_map(|(cause, evidence)| Some((cause, evidence?)));
    parts.extend(circumstances.map(|(cause, evidence)| BlamePart {
        cause,
        share: None,
        evidence,
    }));
    if parts.is_empty() {
        let evidence =
            "the cause is unknown, because these operations have no recorded times".to_owned();
        parts.push(BlamePart {
            cause: Cause::Unknown,
            share: None,
            evidence,
        });
    }
    parts
}

/// Adds a share to the part of `cause`. A share of 0 is not listed.
fn add_part(parts: &mut Vec<BlamePart>, cause: Cause, share: f64, evidence: String) {
    if share > 0.0 {
        let share = share.min(1.0);
        match parts.iter_mut().find(|known| known.cause == cause) {
            Some(known) => {
                known.share = known.share.map(|other| other + share);
                known.evidence = format!("{}, {evidence}", known.evidence);
            }
            None => parts.push(BlamePart {
                cause,
                share: Some(share),
                evidence,
            }),
        }
    }
}

/// Adds a note to the evidence of the largest cause if the limit is also reached without this cause. Shares are
/// fractions of time, and a few long operations can have most of the time.
fn note_if_over_without_cause(subject: &BlamedWindow<'_>, largest: &mut BlamePart) {
    if let Some(share) = subject.share_without(largest.cause) {
        largest.evidence = format!(
            "{}; even without this delay, {} of the operations would take over {:#}, which reaches the limit",
            largest.evidence,
            percent(share),
            ThresholdText(subject.limit.threshold_ns)
        );
    }
}

/// Minimum steal time that counts as evidence, percent. With 5 % of the time stolen, every twentieth operation is hit:
/// as many as the default limit allows over its tightest threshold.
const STEAL_PCT_MIN: f64 = 5.0;

/// Minimum run-queue wait that counts as evidence, percent. This wait is the time in which this program's threads were
/// runnable without a CPU. Chosen for the same reason as [`STEAL_PCT_MIN`].
const RUNQUEUE_WAIT_PCT_MIN: f64 = 5.0;

/// From this utilisation on, all CPUs together count as full: a thread that becomes runnable rarely finds an idle one.
const BUSY_PCT_MIN: f64 = 90.0;

/// From this utilisation on, a CPU counts as full: work queued for it waits about twenty times as long as it runs.
const BUSIEST_PCT_MIN: f64 = 95.0;

/// Minimum share of a device's interrupts on one CPU that counts as nearly all, percent.
const IRQ_SHARE_PCT_MIN: f64 = 90.0;

/// Below this rate, interrupts cannot fill a CPU: at 5 us each, 1,000/s take 0.5 % of one CPU.
const IRQS_PER_SEC_MIN: f64 = 1_000.0;

/// Below this temperature no drive throttles itself: warning temperatures of NVMe drives begin about here.
const HOT_CELSIUS: f64 = 70.0;

/// Minimum temperature difference of a drive between slow and fast operations, °C: twice the resolution of most
/// sensors, and more than a load alone causes in minutes.
const HOTTER_CELSIUS: f64 = 3.0;

/// Minimum share of service at which heat counts as a cause: heat slows only the drive.
const SERVICE_SHARE_MIN: f64 = 0.5;

fn host_evidence(subject: &BlamedWindow<'_>) -> Option<String> {
    let mut meanwhile = SlowConditions::default();
    for device in subject.devices() {
        if let Some(position) = subject.blamer.position(subject.group.stream, device) {
            meanwhile.merge(
                &subject
                    .blamer
                    .meanwhile(&subject.steps, position, subject.threshold),
            );
        }
    }
    let busy = [
        (
            Column::CpuStealPct,
            STEAL_PCT_MIN,
            "the hypervisor stole",
            "of the CPU time",
        ),
        (
            Column::RunqueueWaitPct,
            RUNQUEUE_WAIT_PCT_MIN,
            "this program's threads waited for a CPU during",
            "of the time",
        ),
        (Column::CpuBusyPct, BUSY_PCT_MIN, "all CPUs were", "busy"),
    ];
    let busy = busy.into_iter().filter_map(|(column, min, before, after)| {
        Some(format!(
            "{before} {:.0} % {after}",
            meanwhile.at_least(column, min)?
        ))
    });
    let busiest = meanwhile.at_least(Column::CpuBusiestPct, BUSIEST_PCT_MIN);
    let interrupts = busiest.filter(|_| {
        meanwhile
            .at_least(Column::IrqsPerSec, IRQS_PER_SEC_MIN)
            .is_some()
    });
    let interrupts = interrupts.zip(meanwhile.at_least(Column::IrqCpuSharePct, IRQ_SHARE_PCT_MIN));
    let interrupts = interrupts.map(|(busiest, share)| {
        format!("{share:.0} % of the device's interrupts went to one CPU while the busiest CPU was {busiest:.0} % busy")
    });
    let evidence: Vec<_> = busy.chain(interrupts).collect();
    (!evidence.is_empty()).then(|| format!("while operations were slow, {}", evidence.join(", ")))
}

fn heat_evidence(subject: &BlamedWindow<'_>, shares: &CauseShares) -> Option<String> {
    if shares.service < SERVICE_SHARE_MIN {
        return None;
    }
    let hot_drives = subject.devices().filter_map(|device| {
        let evidence = heat_of(subject, device)?;
        let name = if subject.plan.devices.len() > 1 {
            &subject.plan.devices[device]
        } else {
            "drive"
        };
        Some(format!("{name} {evidence}"))
    });
    let hot_drives: Vec<_> = hot_drives.collect();
    (!hot_drives.is_empty()).then(|| hot_drives.join("; "))
}

/// Evidence for heat on one device: the device throttled itself, and service was slower than before; or the device was
/// hot, and hotter while operations were slow than while they were fast.
fn heat_of(subject: &BlamedWindow<'_>, device: usize) -> Option<String> {
    let BlamedWindow {
        blamer,
        steps,
        threshold,
        counts,
        ..
    } = subject;
    let position = blamer.position(subject.group.stream, device)?;
    let facts = blamer.device(steps, device);
    let celsius = blamer
        .meanwhile(steps, position, *threshold)
        .celsius
        .value();
    let temperature_text = celsius.map_or_else(String::new, |celsius| format!("at {celsius:.0} C"));
    let calm = blamer.calm[position];
    // Cross-multiplied: the fraction of operations slow in service is larger in the window than before the throttling.
    let grew = u128::from(subject.at(&counts.service_over)) * u128::from(calm.ops)
        > u128::from(calm.service_over[*threshold]) * u128::from(counts.ops);
    if facts.throttled > 0.0 || facts.throttled_sec > 0.0 {
        if calm.ops > 0 && !grew {
            return None;
        }
        let mut phrases =
            Vec::from_iter((!temperature_text.is_empty()).then_some(temperature_text));
        if facts.throttled > 0.0 {
            let times = if facts.throttled < 1.5 {
                "time"
            } else {
                "times"
            };
            phrases.push(format!("throttled {:.0} {times}", facts.throttled));
        }
        if facts.throttled_sec > 0.0 {
            phrases.push(format!("throttled for {:.0} s", facts.throttled_sec));
        }
        return Some(phrases.join(", "));
    }
    let celsius = celsius?;
    let fast = blamer.fast_celsius[position][*threshold].value()?;
    (celsius >= HOT_CELSIUS && celsius >= fast + HOTTER_CELSIUS).then(|| {
        format!(
            "{temperature_text} while operations were slow and {fast:.0} C while they were fast"
        )
    })
}

/// Parts with a smaller share are left out of the sentence; the data has all parts.
const SHARE_SHOWN_MIN: f64 = 0.01;

/// The blame in one sentence: `slice 3: 7.1 % of reads over 1 ms (limit 5 %): 92 % of the time in the device (...),
/// ...; drive at 78 C`.
fn blame_sentence(subject: &BlamedWindow<'_>, parts: &[BlamePart]) -> String {
    let mut text = match subject.from_sec {
        Some(from_sec) => between_text(from_sec, subject.plan.slice_sec),
        None => format!("slice {}", subject.slice + 1),
    };
    if subject.plan.devices.len() > 1 {
        let device = subject
            .group
            .device
            .map(|device| subject.plan.devices[device].as_str());
        text = format!("{text} on {}", device.unwrap_or("all devices together"));
    }
    let over_ops = subject.over();
    let scheduled_ops = subject.counts.counted_ops();
    let lag = if over_ops > subject.at(&subject.counts.judged_over) {
        ", with this program's own lag"
    } else {
        ""
    };
    text = format!(
        "{text}: {} of {} over {:#}{lag} (limit {}): ",
        percent(over_ops as f64 / scheduled_ops.max(1) as f64),
        subject.plan.streams[subject.group.stream].name,
        ThresholdText(subject.limit.threshold_ns),
        percent_exact(subject.limit.share_max())
    );
    let told_share = |part: &BlamePart| part.share.filter(|share| *share >= SHARE_SHOWN_MIN);
    let measured = parts
        .iter()
        .filter_map(|part| Some((told_share(part)?, cause_text(part))))
        .enumerate();
    let measured = measured.map(|(number, (share, cause))| {
        let of_the_time = if number == 0 { " of the time" } else { "" };
        format!("{}{of_the_time} {cause}", percent_whole(share))
    });
    let measured = measured.collect::<Vec<_>>().join(", ");
    let circumstances = parts
        .iter()
        .filter(|part| part.share.is_none())
        .map(|part| part.evidence.clone());
    let measured = (!measured.is_empty()).then_some(measured).into_iter();
    text + &measured.chain(circumstances).collect::<Vec<_>>().join("; ")
}

fn cause_text(part: &BlamePart) -> String {
    let evidence = &part.evidence;
    match part.cause {
        Cause::OurLag => format!("in this program ({evidence})"),
        Cause::SlotWait => format!("waiting for a slot ({evidence})"),
        Cause::KernelQueue => format!("in the kernel before the device ({evidence})"),
        Cause::Device => format!("in the device ({evidence})"),
        Cause::Server => format!("in the server ({evidence})"),
        Cause::Unknown | Cause::Host | Cause::Heat => evidence.clone(),
    }
}

fn own_delay_evidence(subject: &BlamedWindow<'_>) -> String {
    let slow = &subject.counts.slow;
    let delays = [
        subject
            .mean_text(&slow.lag_ns)
            .map(|time| format!("issued {time} late")),
        subject
            .mean_text(&slow.unseen_ns)
            .map(|time| format!("completions may have been noticed {time} late")),
        subject
            .mean_text(&slow.unseen_before_ns)
            .map(|time| format!("slots may have been freed {time} late")),
    ];
    format!(
        "{} on average",
        delays.into_iter().flatten().collect::<Vec<_>>().join(", ")
    )
}

fn slot_wait_evidence(subject: &BlamedWindow<'_>) -> String {
    let slow = &subject.counts.slow;
    let mut text = format!(
        "{} on average under the in-flight limit, while service took {}",
        duration(
            subject
                .mean_ns(&slow.wait_ns)
                .saturating_sub(subject.mean_ns(&slow.unseen_before_ns))
        ),
        duration(subject.mean_ns(&slow.service_ns))
    );
    let holder = subject.blamer.holder(&subject.steps, subject.devices());
    if let Some((stream, part)) = holder.filter(|(stream, _)| *stream != subject.group.stream) {
        let name = &subject.plan.streams[stream].name;
        text = format!(
            "{text}, and {name} held the slots: {} of the operations in flight",
            percent(part)
        );
    }
    if subject.counts.unissued > 0 {
        let were = if subject.counts.unissued == 1 {
            "was"
        } else {
            "were"
        };
        text = format!(
            "{text}, and {} of the operations {were} never issued or never completed",
            Grouped(subject.counts.unissued)
        );
    }
    text
}

#[cfg(test)]
mod tests;
