//! The accumulator: counts by judged stream, device and slice.
//!
//! A run of several workloads has one verdict on the devices, which fails if any workload fails. A `WorkloadJudge` for
//! each workload shows which workload failed.
//!
//! [`IntervalCounts`], the judge's input, has the exact counts of one interval, from a live [`Interval`] or from a run
//! directory. Both sources must give equal counts.

use super::growth::BacklogGrowth;
use super::{DelayOwner, End, Limit, SLICE_OPS_MIN, Sla};
use crate::cell::{
    EarlierOps, Interval, Latencies, Layout, StreamInfo, cell_name, cells_of, harmless_gap_ns,
};
use crate::counts::CellCounts;
use std::ops::Range;

/// Configuration of the judge, fixed before the first interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JudgePlan {
    /// Limits. The cells count over the same thresholds.
    pub sla: Sla,
    /// The streams, in the order of the cells.
    pub streams: Vec<StreamInfo>,
    /// Names of the workloads; [`StreamInfo::workload`] is an index into this list.
    pub workloads: Vec<String>,
    /// The devices, in the order of the cells.
    pub devices: Vec<String>,
    /// Seconds between two reports, at least 1.
    pub report_interval_sec: u64,
    /// Length of a slice, seconds: a multiple of the report interval, see [`whole_slice_sec`].
    pub slice_sec: u64,
    /// Distance between the starts of judged windows, seconds: a slice, or half of it. The cells count by such steps.
    pub window_step_sec: u64,
    pub duration_sec: u64,
    /// Kind of target; selects the noun of the verdict's sentences.
    pub tested: TestedObject,
    /// True if the devices are simulated: such a run certifies nothing.
    pub simulated: bool,
    /// True if the load comes from a configuration with keys, which advice can name; false for a replay.
    pub has_keys: bool,
}

/// The kind of target that performs the operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TestedObject {
    /// A device: operations are its I/O.
    #[default]
    Device,
    /// A record engine of this process on a device: operations are transactions.
    Store,
    /// A server and the network to it: operations are transactions, and the server's devices are not visible.
    Server,
}

impl TestedObject {
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Device | Self::Store => "device",
            Self::Server => "server",
        }
    }

    pub(super) fn error(self) -> &'static str {
        match self {
            Self::Device => "I/O error",
            Self::Store | Self::Server => "failed transaction",
        }
    }
}

/// Length of a slice, seconds: `requested_sec` rounded up to whole report intervals, as in ACT's analysis. If the run
/// is shorter, as many whole report intervals as fit into the run.
pub fn whole_slice_sec(requested_sec: u64, duration_sec: u64, report_interval_sec: u64) -> u64 {
    let interval_sec = report_interval_sec.max(1);
    let slice_sec = requested_sec
        .max(1)
        .div_ceil(interval_sec)
        .saturating_mul(interval_sec);
    if slice_sec <= duration_sec {
        slice_sec
    } else {
        (duration_sec / interval_sec).max(1) * interval_sec
    }
}

/// Distance between the starts of judged windows, seconds: half of a slice, so that a window contains any freeze of up
/// to half a slice; a slice if its halves are not whole report intervals.
pub fn window_step_sec(slice_sec: u64, report_interval_sec: u64) -> u64 {
    if slice_sec.is_multiple_of(2 * report_interval_sec.max(1)) {
        slice_sec / 2
    } else {
        slice_sec
    }
}

/// A sentence if slices become longer than requested, because they must be whole report intervals; `Err` if they would
/// become more than 10 % longer. `None` if the interval divides the slice, or the run is shorter than a slice.
pub fn stretched_slice(
    requested_sec: u64,
    duration_sec: u64,
    report_interval_sec: u64,
) -> Option<Result<String, String>> {
    let slice_sec = requested_sec
        .max(1)
        .div_ceil(report_interval_sec.max(1))
        .saturating_mul(report_interval_sec.max(1));
    if slice_sec == requested_sec.max(1) || slice_sec > duration_sec {
        return None;
    }
    let slices = format!(
        "a slice of {requested_sec} s is not a whole number of report intervals of {report_interval_sec} s, so slices last {slice_sec} s"
    );
    Some(if slice_sec * 10 <= requested_sec.saturating_mul(11) {
        Ok(slices)
    } else {
        Err(format!(
            "{slices}, over 10 % longer - choose a report interval that divides the slice, or another --slice"
        ))
    })
}

/// Default maximum length of a round, seconds, so that the five rounds of a steady-state window take five minutes.
const ROUND_SEC_MAX: u64 = 60;
/// Minimum number of rounds in a slice.
const ROUNDS_IN_SLICE: u64 = 12;

/// Length of a round, the interval of the steady-state test, seconds: `requested_sec`. The default is a twelfth of the
/// slice, but at most a minute. Rounded up to whole report intervals.
pub fn round_sec(requested_sec: Option<u64>, slice_sec: u64, report_interval_sec: u64) -> u64 {
    let interval_sec = report_interval_sec.max(1);
    let round_sec = requested_sec.unwrap_or((slice_sec / ROUNDS_IN_SLICE).min(ROUND_SEC_MAX));
    round_sec
        .max(1)
        .div_ceil(interval_sec)
        .saturating_mul(interval_sec)
}

/// Counts by slice: of one stream on one device, or of a judged stream on all devices.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupCounts {
    pub(crate) stream: usize,
    /// Index of the device; `None` for all devices together.
    pub(crate) device: Option<usize>,
    pub(crate) slices: Vec<CellCounts>,
    /// Counts of each half of a slice, oldest first; empty if windows begin only with slices.
    halves: Vec<CellCounts>,
    /// Empty for all devices together.
    pub(super) growth: BacklogGrowth,
}

impl GroupCounts {
    pub(super) fn total(&self) -> CellCounts {
        self.slices
            .iter()
            .fold(CellCounts::default(), |mut sum, slice| {
                sum.add(slice);
                sum
            })
    }

    fn window(&self, first: usize, last: usize, cut: bool) -> JudgedWindow {
        let mut counts = self.slices[first];
        for slice in &self.slices[first + 1..=last] {
            counts.add(slice);
        }
        JudgedWindow {
            first,
            last,
            counts,
            cut,
            between: false,
        }
    }
}

/// A period judged as a whole: a slice, a remainder, the last slice and remainder, two halves of neighbouring slices.
#[derive(Debug, Clone)]
pub(crate) struct JudgedWindow {
    /// Index of the first slice, from 0.
    pub(crate) first: usize,
    /// Index of the last slice, from 0.
    pub(crate) last: usize,
    pub(crate) counts: CellCounts,
    /// True if the run was stopped within this window.
    pub(crate) cut: bool,
    /// True if the window is the second half of slice `first` and the first half of the slice after it.
    pub(crate) between: bool,
}

/// Adds the operations of an interval to `periods`, which are slices or their halves. `period` is the index of the
/// interval's period; `carried` has the operations of the interval that were due in earlier periods.
fn add_to<'a>(
    periods: &mut Vec<CellCounts>,
    period: usize,
    counts: &CellCounts,
    carried: impl Iterator<Item = (usize, &'a CellCounts)>,
) {
    if periods.len() <= period {
        periods.resize(period + 1, CellCounts::default());
    }
    periods[period].add(counts);
    // An edited file can name any period.
    for (earlier, counts) in carried.filter(|(earlier, _)| *earlier < period) {
        periods[period].subtract(counts);
        periods[earlier].add(counts);
    }
}

/// Accumulates the counts of intervals, and can give a verdict at any time.
#[derive(Debug, Clone, Default)]
pub struct Judge {
    pub(crate) plan: JudgePlan,
    pub(crate) groups: Vec<GroupCounts>,
    /// For each stream, judged or not: counts over all devices and the whole run.
    pub(super) totals: Vec<CellCounts>,
    /// Number of slices whose intervals are all complete.
    pub(super) complete_slices: u64,
    pub(super) ran_ns: u64,
    pub(super) gaps: u64,
    pub(super) gaps_over: u64,
    pub(super) gap_max_ns: u64,
    /// CPU time of the issuing threads, and time for which they were runnable without a CPU.
    pub(super) cpu_ns: u64,
    pub(super) run_delay_ns: u64,
    /// Number of complete intervals before the first incomplete or missing interval.
    whole_intervals: u64,
    scratch: IntervalCounts,
    /// The judges of the single workloads; empty for a run with one workload.
    pub(super) workload_judges: Vec<WorkloadJudge>,
}

impl Judge {
    /// A stream has a group for each device. With several devices, a judged stream first has a group for all of them.
    pub fn new(plan: JudgePlan) -> Self {
        let mut groups = Vec::new();
        for (stream, info) in plan.streams.iter().enumerate() {
            if plan.devices.len() > 1 && info.judged {
                groups.push(GroupCounts {
                    stream,
                    ..GroupCounts::default()
                });
            }
            let on_device = |device| GroupCounts {
                stream,
                device: Some(device),
                ..GroupCounts::default()
            };
            groups.extend((0..plan.devices.len()).map(on_device));
        }
        Self {
            groups,
            totals: vec![CellCounts::default(); plan.streams.len()],
            workload_judges: parts(&plan),
            plan,
            ..Self::default()
        }
    }

    pub fn plan(&self) -> &JudgePlan {
        &self.plan
    }

    pub fn errors(&self) -> u64 {
        let of_operations = self
            .plan
            .streams
            .iter()
            .zip(&self.totals)
            .filter(|(stream, _)| !stream.commits);
        of_operations.map(|(_, total)| total.errors).sum()
    }

    pub fn add(&mut self, interval: &Interval) {
        let mut counts = std::mem::take(&mut self.scratch);
        counts.set(interval, self.plan.sla.tightest_ns());
        self.add_counts(&counts);
        self.scratch = counts;
    }

    /// Adds the next interval. Intervals must come in the order of their index.
    pub fn add_counts(&mut self, counts: &IntervalCounts) {
        self.workload_judges
            .iter_mut()
            .for_each(|part| part.add(counts));
        let step = self.plan.step_of(counts.index);
        let steps_per_slice = self.plan.steps_per_slice();
        let slice = step / steps_per_slice;
        let devices = self.plan.devices.len();
        for (stream, total) in self.totals.iter_mut().enumerate() {
            for cell in &counts.cells[cells_of(stream, None, devices)] {
                total.add(cell);
                total.last_completion_ns =
                    total.last_completion_ns.max(cell.back_ns(counts.end_ns));
            }
        }
        let length_ns = counts.end_ns.saturating_sub(self.ran_ns);
        let number = counts.index % self.plan.intervals_per_slice() + 1;
        let intervals = self.plan.intervals_per_slice();
        for group in &mut self.groups {
            let cells = cells_of(group.stream, group.device, devices);
            if group.device.is_some() {
                let cell = &counts.cells[cells.start];
                group
                    .growth
                    .add(slice, number, intervals, &cell.backlog, cell.is_any());
            }
            let mut sum = CellCounts::default();
            for cell in &counts.cells[cells.clone()] {
                sum.add(cell);
                sum.active_ns += if cell.is_any() { length_ns } else { 0 };
                sum.silent_host_ns += counts.host_silence_ns().min(cell.silent_ns);
            }
            let of_group = counts
                .carried
                .iter()
                .filter(|carried| cells.contains(&carried.cell));
            let by_step = of_group.map(|carried| {
                (
                    usize::try_from(carried.step).unwrap_or(usize::MAX),
                    &carried.counts,
                )
            });
            add_to(
                &mut group.slices,
                slice,
                &sum,
                by_step
                    .clone()
                    .map(|(step, counts)| (step / steps_per_slice, counts)),
            );
            if steps_per_slice > 1 {
                add_to(&mut group.halves, step, &sum, by_step);
            }
        }
        self.ran_ns = self.ran_ns.max(counts.end_ns);
        self.gaps = self.gaps.saturating_add(counts.gaps);
        self.gaps_over = self.gaps_over.saturating_add(counts.gaps_over);
        self.gap_max_ns = self.gap_max_ns.max(counts.gap_max_ns);
        self.cpu_ns = self.cpu_ns.saturating_add(counts.cpu_ns);
        self.run_delay_ns = self.run_delay_ns.saturating_add(counts.run_delay_ns);
        let interval_ns = self.plan.report_interval_sec.saturating_mul(1_000_000_000);
        let to_its_end = counts.end_ns >= (counts.index + 1).saturating_mul(interval_ns);
        if to_its_end && counts.index == self.whole_intervals {
            self.whole_intervals += 1;
            self.complete_slices += u64::from(
                self.whole_intervals
                    .is_multiple_of(self.plan.intervals_per_slice()),
            );
        }
    }

    pub(crate) fn has_several_slices(&self) -> bool {
        self.complete_slices > 1
    }

    /// The windows in which a group is judged, for a run that ended with `end`: each complete slice; the remainder
    /// together with the slice before it, and also alone if it has enough operations. If the run was stopped, or is
    /// shorter than a slice, also the slice in which the run ended.
    pub(super) fn windows(&self, group: &GroupCounts, end: &End) -> Vec<JudgedWindow> {
        self.windows_of(group, end, false)
    }

    /// Like [`Self::windows`]; `with_empty`: also a remainder without due operations, which misses a minimum rate.
    pub(super) fn windows_of(
        &self,
        group: &GroupCounts,
        end: &End,
        with_empty: bool,
    ) -> Vec<JudgedWindow> {
        let complete = usize::try_from(self.complete_slices).unwrap_or(usize::MAX);
        let mut windows: Vec<_> = (0..complete.min(group.slices.len()))
            .map(|slice| group.window(slice, slice, false))
            .collect();
        let is_any =
            |rest: &&CellCounts| with_empty || rest.counted_ops() > 0 || rest.silent_ns > 0;
        let Some(remainder) = group.slices.get(complete).filter(is_any) else {
            return windows;
        };
        if !end.is_complete() {
            windows.push(group.window(complete, complete, true));
            return windows;
        }
        if complete > 0 {
            windows.push(group.window(complete - 1, complete, false));
        }
        if complete == 0 || remainder.counted_ops() >= SLICE_OPS_MIN {
            windows.push(group.window(complete, complete, false));
        }
        windows
    }

    /// The windows in which the shares of a group are judged: those of [`Self::windows`], and the windows between
    /// slices that have enough operations and at least 90 % of the operations of a mean slice.
    pub(super) fn share_windows(&self, group: &GroupCounts, end: &End) -> Vec<JudgedWindow> {
        self.windows(group, end)
            .into_iter()
            .chain(self.share_windows_between(group))
            .collect()
    }

    pub(crate) fn share_windows_between(
        &self,
        group: &GroupCounts,
    ) -> impl Iterator<Item = JudgedWindow> + use<> {
        let windows = self.windows_between(group, CellCounts::counted_ops);
        windows
            .into_iter()
            .filter(|window| window.counts.counted_ops() >= SLICE_OPS_MIN)
    }

    /// The windows from the middle of each complete slice to the middle of the next slice, without windows whose
    /// `size_of` is below 90 % of the mean of all complete slices. Empty if windows begin only with slices.
    pub(super) fn windows_between(
        &self,
        group: &GroupCounts,
        size_of: fn(&CellCounts) -> u64,
    ) -> Vec<JudgedWindow> {
        let slices = &group.slices[..group.slices.len().min(self.complete_slices as usize)];
        let all: u128 = slices.iter().map(|slice| u128::from(size_of(slice))).sum();
        let complete_halves = self.plan.step_of(self.whole_intervals);
        let halves = &group.halves[..group.halves.len().min(complete_halves)];
        let pairs = halves
            .windows(2)
            .enumerate()
            .filter(|(half, _)| half % 2 == 1);
        let windows = pairs.map(|(half, pair)| {
            let mut counts = pair[0];
            counts.add(&pair[1]);
            JudgedWindow {
                first: half / 2,
                last: half / 2,
                counts,
                cut: false,
                between: true,
            }
        });
        windows
            .filter(|window: &JudgedWindow| {
                u128::from(size_of(&window.counts)) * 10 * slices.len() as u128 >= all * 9
            })
            .collect()
    }

    /// Start of a window that begins in the middle of a slice, seconds since the run began; `None` for other windows.
    pub(crate) fn start_between_sec(&self, window: &JudgedWindow) -> Option<u64> {
        let half_sec = self.plan.slice_sec / 2;
        window
            .between
            .then(|| (2 * window.first as u64 + 1).saturating_mul(half_sec))
    }

    /// The groups of single devices, without the groups of all devices together.
    pub(super) fn device_groups(&self) -> impl Iterator<Item = &GroupCounts> {
        self.groups.iter().filter(|group| group.device.is_some())
    }

    /// Shares in the newest slice so far: stream, device (`None`: all devices together), limit, share.
    pub fn newest_shares(&self) -> impl Iterator<Item = (usize, Option<usize>, Limit, f64)> + '_ {
        let groups = self.judged_groups().filter(|_| !self.plan.has_no_limits());
        let newest = groups.filter_map(|group| {
            Some((
                group,
                group
                    .slices
                    .last()
                    .filter(|slice| slice.counted_ops() > 0)?,
            ))
        });
        newest.flat_map(|(group, slice)| {
            let limits = self.plan.limits_of(group.stream).zip(slice.judged_over);
            let share = |over: u64| over as f64 / slice.counted_ops() as f64;
            limits.filter_map(move |(limit, over)| {
                Some((group.stream, group.device, limit?, share(over)))
            })
        })
    }

    pub(crate) fn judged_groups(&self) -> impl Iterator<Item = &GroupCounts> {
        self.groups
            .iter()
            .filter(|group| self.plan.streams[group.stream].judged)
    }

    /// Corrects the recorded cause of the end by the counts. The check that stops a run for lag sees only the slots at
    /// that moment. If this program delayed most of the outstanding operations, this program filled the slots.
    pub(super) fn corrected_end(&self, end: &End) -> End {
        let mut settled = end.clone();
        if let End::LagExceeded { lane, whose, .. } = &mut settled {
            let streams = &self.plan.streams;
            let devices = &self.plan.devices;
            let mut ends = self
                .device_groups()
                .filter(|group: &&GroupCounts| {
                    cell_name(
                        streams,
                        devices,
                        cells_of(group.stream, group.device, devices.len()).start,
                    ) == *lane
                })
                .map(|group| group.growth.last);
            if ends.any(|end| end.late > end.waiting) {
                *whose = DelayOwner::Ours;
            }
        }
        settled
    }

    /// Describes the end of the run if only other workloads caused it; `None` otherwise.
    pub(super) fn is_end_of_another(&self, end: &End) -> Option<String> {
        let of_another = match end {
            End::DeviceGone { device } => self.is_unused(device),
            End::TooManyErrors { .. } => self.errors() == 0,
            End::LagExceeded { lane, .. } => {
                let stream = lane.split('@').next().unwrap_or(lane);
                self.plan.streams.iter().all(|info| info.name != stream)
            }
            _ => false,
        };
        of_another.then(|| match end {
            End::LagExceeded { lane, .. } => format!("{lane} was late"),
            End::TooManyErrors { .. } => "operations of another workload failed".to_owned(),
            end => end.to_string(),
        })
    }

    /// True if no operation ran on the device `name`. False for an unknown device.
    fn is_unused(&self, name: &str) -> bool {
        let device = self.plan.devices.iter().position(|device| device == name);
        device.is_some_and(|device| {
            !self
                .device_groups()
                .any(|group| group.device == Some(device) && group.total().is_any())
        })
    }

    /// Number of operations of a group that are due in the whole slice, for a run that ended with `end`. For a slice
    /// that was cut short, the number is extrapolated by the rate. `None` for a closed loop, which has no rate.
    pub(super) fn whole_slice_ops(
        &self,
        group: &GroupCounts,
        slice: usize,
        end: &End,
    ) -> Option<u64> {
        let scheduled_ops = group.slices.get(slice).map_or(0, CellCounts::counted_ops);
        if (slice as u64) < self.complete_slices || end.is_complete() {
            return Some(scheduled_ops);
        }
        let device_count = if group.device.is_some() {
            1.0
        } else {
            self.plan.devices.len() as f64
        };
        let per_sec = Some(self.plan.per_sec(group.stream) * device_count)
            .filter(|per_sec| *per_sec > 0.0)?;
        let slice_ns = self.plan.slice_sec.saturating_mul(1_000_000_000);
        let began_ns = (slice as u64).saturating_mul(slice_ns);
        let end_ns = began_ns
            .saturating_add(slice_ns)
            .min(self.plan.duration_sec.saturating_mul(1_000_000_000));
        let stream = &self.plan.streams[group.stream];
        let ops_from = |from_ns| (per_sec * stream.own_ns(from_ns, end_ns) as f64 / 1e9) as u64;
        let extrapolated_ops = scheduled_ops.saturating_add(ops_from(self.ran_ns));
        Some(extrapolated_ops.max(ops_from(began_ns)))
    }

    /// Longest harmless gap between two polls of the completion queue, nanoseconds.
    pub(super) fn gap_limit_ns(&self) -> u64 {
        harmless_gap_ns(self.plan.sla.tightest_ns())
    }
}

impl JudgePlan {
    pub(super) fn intervals_per_slice(&self) -> u64 {
        (self.slice_sec / self.report_interval_sec.max(1)).max(1)
    }

    pub(crate) fn intervals_per_step(&self) -> u64 {
        (self.window_step_sec / self.report_interval_sec.max(1))
            .clamp(1, self.intervals_per_slice())
    }

    pub(crate) fn step_of(&self, index: u64) -> usize {
        usize::try_from(index / self.intervals_per_step()).unwrap_or(usize::MAX)
    }

    /// Number of steps in a slice: 1, or 2 if windows also begin in the middle of slices.
    pub(crate) fn steps_per_slice(&self) -> usize {
        usize::try_from(self.intervals_per_slice() / self.intervals_per_step()).unwrap_or(1)
    }

    /// Operations per second of a stream on each device; 0 for a closed loop.
    pub(super) fn per_sec(&self, stream: usize) -> f64 {
        self.streams[stream].offered_iops / self.devices.len().max(1) as f64
    }

    /// Limit of a stream at each threshold of the run; `None` for thresholds at which the stream has no limit.
    pub(crate) fn limits_of(&self, stream: usize) -> impl Iterator<Item = Option<Limit>> + '_ {
        let stream_limits = self.streams[stream].limits.as_ref();
        self.sla
            .limits()
            .iter()
            .map(move |limit| match stream_limits {
                None => Some(*limit),
                Some(own) => {
                    let mut of_stream = own.sla.iter().flat_map(Sla::limits);
                    of_stream
                        .find(|own| own.threshold_ns == limit.threshold_ns)
                        .copied()
                }
            })
    }

    /// True if neither latencies nor rates have limits.
    pub(super) fn has_no_limits(&self) -> bool {
        self.sla.is_unlimited() && self.streams.iter().all(|stream| stream.limits.is_none())
    }

    /// Names of the stream and the device of a group; `None` for all devices together.
    pub(crate) fn names_of(&self, group: &GroupCounts) -> (String, Option<String>) {
        (
            self.streams[group.stream].name.clone(),
            group.device.map(|device| self.devices[device].clone()),
        )
    }

    pub fn new(
        layout: &Layout,
        sla: Sla,
        report_interval_sec: u64,
        slice_sec: u64,
        duration_sec: u64,
    ) -> Self {
        Self {
            sla,
            streams: layout.streams.clone(),
            devices: layout.devices.clone(),
            report_interval_sec,
            slice_sec,
            window_step_sec: slice_sec,
            duration_sec,
            has_keys: true,
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct WorkloadJudge {
    pub(super) name: String,
    pub(super) judge: Judge,
    /// Index range of the workload's cells in the run.
    cells: Range<usize>,
}

fn parts(plan: &JudgePlan) -> Vec<WorkloadJudge> {
    if plan.workloads.len() < 2 {
        return Vec::new();
    }
    plan.workloads
        .iter()
        .enumerate()
        .map(|(number, name): (usize, &String)| {
            let is_own = |place: &usize| plan.streams[*place].workload == number;
            // The streams of a workload are adjacent.
            let first = (0..plan.streams.len()).find(is_own).unwrap_or(0);
            let count = (0..plan.streams.len()).filter(is_own).count();
            let streams = plan.streams[first..first + count].to_vec();
            let devices = plan.devices.len();
            let judge = Judge::new(JudgePlan {
                streams,
                workloads: Vec::new(),
                ..plan.clone()
            });
            WorkloadJudge {
                name: name.clone(),
                judge,
                cells: first * devices..(first + count) * devices,
            }
        })
        .collect()
}

impl WorkloadJudge {
    pub(super) fn add(&mut self, counts: &IntervalCounts) {
        let mut cells = counts
            .cells
            .get(self.cells.clone())
            .unwrap_or_default()
            .to_vec();
        // `slots_used_by` counts cells from 1. Slots are never shared between workloads.
        cells.iter_mut().for_each(|cell| {
            cell.slots_used_by = cell.slots_used_by.saturating_sub(self.cells.start as u64)
        });
        let own = counts
            .carried
            .iter()
            .filter(|carried| self.cells.contains(&carried.cell));
        let carried = own
            .map(|carried| EarlierOps {
                cell: carried.cell - self.cells.start,
                ..carried.clone()
            })
            .collect();
        self.judge.add_counts(&IntervalCounts {
            cells,
            carried,
            ..counts.clone()
        });
    }
}

/// Number of gaps longer than `limit_ns`, accurate to 1 %, the histogram's resolution.
pub(crate) fn gaps_over(gap: &Latencies, limit_ns: u64) -> u64 {
    gap.len() - gap.count_between(0, limit_ns)
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IntervalCounts {
    /// 0 for the first interval of the run.
    pub index: u64,
    /// Nominal seconds since the run began, as in ACT's log.
    pub after_sec: u64,
    /// End, nanoseconds since the run began: before the nominal end only if the run stopped within the interval.
    pub end_ns: u64,
    /// Counts for each stream and device, see [`crate::cell::Layout::cell`].
    pub cells: Vec<CellCounts>,
    /// Operations in `cells` that were due in earlier steps.
    pub carried: Vec<EarlierOps>,
    /// Number of gaps between two polls of the completion queue, one for each completion.
    pub gaps: u64,
    /// Gaps longer than 5 % of the tightest threshold.
    pub gaps_over: u64,
    pub gap_max_ns: u64,
    /// Maximum number of operations in flight at once, on all devices.
    pub in_flight_max: u64,
    /// CPU time of the issuing threads, nanoseconds.
    pub cpu_ns: u64,
    /// Time for which the issuing threads were runnable without a CPU, nanoseconds.
    pub run_delay_ns: u64,
}

impl IntervalCounts {
    /// Longest silence of a device in the interval that the lack of CPUs may explain, nanoseconds. The kernel threads
    /// of loop devices and dm-crypt need a CPU too, and their waits are not recorded: they are assumed to wait as long
    /// as this program's threads. 0 if these threads waited less than they ran: then the CPUs were not saturated.
    pub fn host_silence_ns(&self) -> u64 {
        if self.run_delay_ns > self.cpu_ns {
            self.run_delay_ns
        } else {
            0
        }
    }

    /// Copies `interval`, reusing the memory. `tightest_ns`: the smallest threshold. The caller sets `after_sec`.
    pub fn set(&mut self, interval: &Interval, tightest_ns: u64) {
        self.index = interval.index;
        self.end_ns = interval.end_ns;
        self.cells.clear();
        self.cells
            .extend(interval.cells.iter().map(|cell| cell.counts));
        self.carried.clone_from(&interval.carried);
        self.gaps = interval.gap.len();
        self.gaps_over = gaps_over(&interval.gap, harmless_gap_ns(tightest_ns));
        self.gap_max_ns = interval.gap.max();
        self.in_flight_max = interval.in_flight_max;
        self.cpu_ns = interval.cpu_ns;
        self.run_delay_ns = interval.run_delay_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;
    use crate::assert_contains;
    use crate::times::Times;

    #[test]
    fn rounds_are_a_twelfth_of_the_slice_or_a_minute_rounded_up_to_report_intervals() {
        assert_eq!(round_sec(None, 3600, 1), 60);
        assert_eq!(round_sec(None, 120, 1), 10);
        assert_eq!(round_sec(None, 5, 1), 1);
        assert_eq!(round_sec(None, 3600, 7), 63);
        assert_eq!(round_sec(Some(300), 3600, 1), 300);
        assert_eq!(round_sec(Some(0), 3600, 1), 1);
    }

    #[test]
    fn slices_are_whole_report_intervals_and_fit_into_the_run() {
        assert_eq!(whole_slice_sec(3600, 86_400, 1), 3600);
        assert_eq!(whole_slice_sec(3600, 86_400, 7), 3605);
        assert_eq!(whole_slice_sec(3600, 60, 1), 60);
        assert_eq!(whole_slice_sec(3600, 10, 3), 9);
        assert_eq!(whole_slice_sec(3600, 2, 5), 5);
        assert_eq!(whole_slice_sec(0, 0, 0), 1);
    }

    #[test]
    fn a_workload_over_its_limit_is_named_and_the_other_workload_passes() {
        let mut layout =
            crate::testing::layout(&[("a/reads", true), ("b/reads", true)], 5_000.0, ["x", "y"]);
        layout.streams[1].workload = 1;
        let of_all = JudgePlan::new(&layout, Sla::default(), 1, 1, 1);
        let plan = JudgePlan {
            workloads: vec!["a".into(), "b".into()],
            ..of_all
        };
        let mut judge = Judge::new(plan);
        let mut interval = Interval::new(&layout);
        interval.end_ns = 1_000_000_000;
        for op in 0..5_000 {
            // a runs on x only. b runs on both devices, and one in ten of its operations on y is slow.
            interval.cells[0].record(&Times::new(0, 0, 0, 90_000), 0, 512);
            interval.cells[2].record(&Times::new(0, 0, 0, 90_000), 0, 512);
            let service_ns = if op % 10 == 0 { 100_000_000 } else { 90_000 };
            interval.cells[3].record(&Times::new(0, 0, 0, service_ns), 0, 512);
        }
        interval.close();
        judge.add(&interval);
        let verdict = judge.verdict(&End::Completed);
        let told: Vec<_> = verdict
            .workloads
            .iter()
            .map(|it| (it.name.as_str(), it.outcome))
            .collect();
        assert_eq!(told, [("a", Outcome::Pass), ("b", Outcome::Fail)]);
        assert_eq!(
            verdict.outcome,
            Outcome::Fail,
            "the devices did not hold both workloads"
        );
        assert_contains!(verdict.workloads[1].reasons[0].text, "b/reads on y");
        assert!(
            verdict.insufficient.is_empty(),
            "a was never on y: {:?}",
            verdict.insufficient
        );
        assert_eq!(
            verdict
                .groups
                .iter()
                .filter(|group| group.stream == "a/reads")
                .count(),
            2,
            "all, and x"
        );
    }
}
