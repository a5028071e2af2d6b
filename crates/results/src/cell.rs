//! The data recorded of one stream on one device in one interval, and the interval itself.
//!
//! A single shard fills a [`Cell`] on the hot path: no allocation, no lock, no atomics. At the end of an interval, a
//! shard hands over its whole [`Interval`] and takes a clean one. Another thread merges, writes and clears intervals.

use crate::buckets::{ActBuckets, ActScale, DURATION_MAX_NS, THRESHOLDS_MAX, count_over};
use crate::counts::CellCounts;
use crate::sla::StreamLimits;
use crate::times::Times;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use std::ops::Range;
use std::sync::Arc;

/// Two significant digits: values within 1 %, at 18 KB per histogram. With three digits the logs of a day would be five
/// times as long. The verdict uses exact counts, which are kept separately.
pub const SIGNIFICANT_DIGITS: u8 = 2;

/// A latency histogram, nanoseconds.
pub type Latencies = Histogram<u32>;

/// Indexes of the cells of `stream`: on `device`, or on all devices (`None`). `devices`: number of devices of the run.
pub(crate) fn cells_of(stream: usize, device: Option<usize>, devices: usize) -> Range<usize> {
    let (first, count) = device.map_or((0, devices), |device| (device, 1));
    let first = stream * devices + first;
    first..first + count
}

pub fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, DURATION_MAX_NS, SIGNIFICANT_DIGITS)
        .expect("bounds are constants in range")
}

/// Allocates [`Cell::waited`]. Called once per cell, for the first operation that waits.
#[cold]
fn empty_pair() -> Box<[Latencies; 2]> {
    Box::new([latencies(), latencies()])
}

#[derive(Debug, Clone)]
pub struct Cell {
    /// Service times of the operations that succeeded.
    pub service: Latencies,
    pub wait: Latencies,
    /// Two histograms of the operations that waited: service times (also counted in `service`), and `wait + service`.
    /// With `service`, they give the distribution of `wait + service` of all operations. `None`: no operation waited.
    pub waited: Option<Box<[Latencies; 2]>>,
    /// Lag: delay of the issue by this program.
    pub lag: Latencies,
    /// Service times in ACT's buckets, if the stream is in a log of ACT's format.
    pub act: Option<ActBuckets>,
    pub counts: CellCounts,
    thresholds_ns: Arc<[u64]>,
    tightest_ns: u64,
    late_ns: u64,
}

/// Grace period, nanoseconds. Operations that complete within the grace period after the end of a slice, or of their
/// stream, count as carried out. After the end of a stream, waiting operations are still issued for this long.
pub const GRACE_NS: u64 = 1_000_000_000;

/// A cell's last completion counts as recent if it was less than this many mean inter-completion times ago.
const PERIODS_MAX: u128 = 10;

/// Longest time, nanoseconds, for which a completion may be unseen while the result stays certain: 5 % of the tightest
/// threshold. A longer gap can inflate service times enough to decide a verdict.
pub fn harmless_gap_ns(tightest_threshold_ns: u64) -> u64 {
    tightest_threshold_ns / 20
}

impl Cell {
    /// An empty cell of `stream`. `thresholds_ns` has at most [`THRESHOLDS_MAX`] ascending thresholds.
    pub fn new(stream: &StreamInfo, thresholds_ns: Arc<[u64]>) -> Self {
        assert!(
            thresholds_ns.len() <= THRESHOLDS_MAX,
            "at most {THRESHOLDS_MAX} thresholds"
        );
        assert!(thresholds_ns.is_sorted(), "thresholds ascend");
        let idle = Self::idle(stream, thresholds_ns);
        Self {
            service: latencies(),
            wait: latencies(),
            lag: latencies(),
            ..idle
        }
    }

    /// Records an operation that succeeded. Its completion may have been unseen for up to `unseen_ns`. Most operations
    /// neither wait nor are late: [`Interval::close`] adds zeros for them to the histograms.
    #[inline]
    pub fn record(&mut self, times: &Times, unseen_ns: u64, bytes: u32) {
        let service_ns = times.service_ns();
        self.service.saturating_record(service_ns);
        if times.wait_ns() > 0 {
            self.wait.saturating_record(times.wait_ns());
            let [service, answer] = &mut **self.waited.get_or_insert_with(empty_pair);
            service.saturating_record(service_ns);
            answer.saturating_record(times.judged_ns());
        }
        if times.lag_ns() > 0 {
            self.lag.saturating_record(times.lag_ns());
        }
        if let Some(act) = &mut self.act {
            act.record(service_ns);
        }
        // The response time is the longest duration: below the tightest threshold, no duration is over a threshold.
        if times.response_ns() >= self.tightest_ns {
            self.record_slow(times, unseen_ns);
        }
        if times.judged_ns() > self.late_ns {
            self.counts.late += 1;
            self.counts.late_max_ns = self.counts.late_max_ns.max(times.judged_ns());
        }
        self.counts.ops += 1;
        self.counts.bytes += u64::from(bytes);
    }

    /// Counts a slow operation by threshold, and sums its times. A separate function, because most operations are fast.
    #[cold]
    fn record_slow(&mut self, times: &Times, unseen_ns: u64) {
        let judged_ns = times.judged_ns();
        let counts = &mut self.counts;
        let thresholds_ns = &*self.thresholds_ns;
        let harmless_ns = harmless_gap_ns(self.tightest_ns);
        let before = times.own_delay();
        let own_ns = unseen_ns + before.unseen_ns + before.behind_ns;
        let least_ns = if times.lag_ns() >= self.tightest_ns {
            0
        } else if own_ns > harmless_ns {
            judged_ns.saturating_sub(own_ns)
        } else {
            judged_ns
        };
        for (duration_ns, over_counts) in [
            (judged_ns, &mut counts.judged_over),
            (least_ns, &mut counts.judged_over_lower_bound),
            (times.response_ns(), &mut counts.response_over),
            (times.service_ns(), &mut counts.service_over),
        ] {
            count_over(thresholds_ns, duration_ns, over_counts);
        }
        let is_doubtful = unseen_ns + before.unseen_ns > harmless_ns;
        let unseen_ns = if is_doubtful {
            [unseen_ns, before.unseen_ns]
        } else {
            [0; 2]
        };
        counts.slow.record(thresholds_ns, times, unseen_ns);
    }

    /// Records `errors` failed operations, of which `wrong_data` read wrong data. Failed operations count as over every
    /// threshold, and are in no histogram.
    pub fn record_errors(&mut self, errors: u64, wrong_data: u64) {
        self.counts.errors += errors;
        self.counts.wrong_data += wrong_data;
        self.record_over_all(errors, 0);
    }

    /// Records `n` operations that were never issued; this program delayed `own_delayed` of them.
    pub fn record_unissued(&mut self, n: u64, own_delayed: u64) {
        self.counts.unissued += n;
        self.record_missed(n, own_delayed);
        self.record_over_all(n, own_delayed);
    }

    /// Records an operation that never completed. The last completion of its device was at `last_completion_ns`.
    pub fn record_lost(&mut self, last_completion_ns: u64) {
        self.counts.lost += 1;
        self.counts.last_completion_ns = self.counts.last_completion_ns.max(last_completion_ns);
        self.record_missed(1, 0);
        self.record_over_all(1, 0);
    }

    /// Records `n` operations that did not complete in time. Without delays by this program, `own_delayed` of them
    /// would have completed in time.
    pub fn record_missed(&mut self, n: u64, own_delayed: u64) {
        self.counts.missed += n;
        self.counts.missed_lower_bound += n.saturating_sub(own_delayed);
    }

    fn record_over_all(&mut self, n: u64, own_delayed: u64) {
        let counts = &mut self.counts;
        for index in 0..self.thresholds_ns.len() {
            counts.judged_over[index] += n;
            counts.judged_over_lower_bound[index] += n.saturating_sub(own_delayed);
            counts.response_over[index] += n;
        }
    }

    /// Like [`Self::new`], but with minimal histograms, which grow if another cell is merged into this cell.
    fn idle(stream: &StreamInfo, thresholds_ns: Arc<[u64]>) -> Self {
        let small = || Histogram::new_with_bounds(1, 2, 0).expect("bounds are constants in range");
        let tightest_ns = thresholds_ns.first().copied().unwrap_or(u64::MAX);
        Self {
            service: small(),
            wait: small(),
            waited: None,
            lag: small(),
            act: stream.act.map(|act| ActBuckets::new(act.scale)),
            counts: CellCounts::default(),
            thresholds_ns,
            tightest_ns,
            late_ns: stream.late_ns.unwrap_or(GRACE_NS),
        }
    }

    /// Subtracts `ops` operations from the lower bounds of slow and missing operations: these operations may have been
    /// slow because this program was late, or because its thread had no CPU.
    pub fn lower_least_bounds(&mut self, ops: u64) {
        let least = self
            .counts
            .judged_over_lower_bound
            .iter_mut()
            .chain([&mut self.counts.missed_lower_bound]);
        least.for_each(|least| *least = least.saturating_sub(ops));
    }

    /// Adds the data of `other`, a cell of the same run.
    pub fn merge(&mut self, other: &Self) {
        // A device is silent only if no shard with operations in flight on the device gets a completion.
        let silent_ns = match (self.is_active(), other.is_active()) {
            (true, true) => self.counts.silent_ns.min(other.counts.silent_ns),
            _ => self.counts.silent_ns + other.counts.silent_ns,
        };
        self.counts.add(&other.counts);
        self.counts.silent_ns = silent_ns;
        self.counts.backlog.add(&other.counts.backlog);
        if other.counts.counted_ops() == 0 {
            return;
        }
        for (mine, others) in [
            (&mut self.service, &other.service),
            (&mut self.wait, &other.wait),
            (&mut self.lag, &other.lag),
        ] {
            if mine.high() < others.high() {
                *mine = latencies();
            }
            add_latencies(mine, others);
        }
        if let Some(other) = &other.waited {
            let mine = self.waited.get_or_insert_with(empty_pair);
            mine.iter_mut()
                .zip(&**other)
                .for_each(|(mine, other)| add_latencies(mine, other));
        }
        if let (Some(act), Some(other)) = (&mut self.act, &other.act) {
            act.merge(other);
        }
    }

    /// True if operations ended in the interval (completed, failed, never issued or lost), or were in flight at its end.
    fn is_active(&self) -> bool {
        self.counts.counted_ops() > 0 || self.counts.backlog.in_flight > 0
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.counts).counted_ops() == 0 {
            return;
        }
        self.service.reset();
        self.wait.reset();
        self.waited
            .iter_mut()
            .flat_map(|pair| pair.iter_mut())
            .for_each(|histogram| histogram.reset());
        self.lag.reset();
        if let Some(act) = &mut self.act {
            act.clear();
        }
    }
}

/// The cells of a run: a cell for each stream and device.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    pub streams: Vec<StreamInfo>,
    /// Device names as the user wrote them.
    pub devices: Vec<String>,
    /// Thresholds of the verdict, ascending.
    pub thresholds_ns: Arc<[u64]>,
}

/// Description of a stream.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
pub struct StreamInfo {
    /// Name in logs and tables: `reads`, `large-block-writes`...
    pub name: String,
    /// True if the latencies of the stream are judged.
    pub judged: bool,
    /// Scheduled operations per second on all devices together; 0 for a closed loop.
    pub offered_iops: f64,
    /// When the operations of the stream were due.
    #[serde(default, skip_serializing_if = "Arrivals::is_unknown")]
    pub arrivals: Arrivals,
    /// Index of the stream's workload among the workloads of the run.
    pub workload: usize,
    /// True if each operation of the stream is a commit: a write with its sync, which other streams count. Totals leave
    /// the stream out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub commits: bool,
    /// Histograms of the stream in a log of ACT's format; `None`: the stream is in no such log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<ActHistograms>,
    /// Maximum `wait + service`, nanoseconds: the run fails if more than 0.1 % of the operations take longer. Only for
    /// streams in ACT's tests, and only if the stream has no limits. `None`: operations later than [`GRACE_NS`] are
    /// only reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<u64>,
    /// Limits of this stream; `None`: the limits of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<StreamLimits>,
    /// Start of the stream's load, nanoseconds since the run began. The stream is judged from this time on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_ns: u64,
    /// Latest end of the stream's load, nanoseconds since the run began; `None`: the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<u64>,
}

/// When the operations of a stream with a rate are due.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// The stream is a closed loop, or the run was recorded before arrivals were.
    #[default]
    Unknown,
    /// At equal distances.
    Even,
    /// At random instants, independent of each other.
    Random,
    /// At the instants of a trace, or after other operations: their rate is only a mean.
    Given,
}

impl Arrivals {
    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl StreamInfo {
    /// True for a judged closed loop. A closed loop has no rate, so a stall hides the operations that it prevents.
    pub fn is_judged_loop(&self) -> bool {
        self.judged && self.offered_iops == 0.0
    }

    /// Part of the time from `from_ns` to `to_ns` in which the stream's load runs, nanoseconds.
    pub fn own_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        to_ns
            .min(self.until_ns.unwrap_or(u64::MAX))
            .saturating_sub(from_ns.max(self.from_ns))
    }
}

/// Histograms of a stream in a log of ACT's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
pub struct ActHistograms {
    /// Unit of the buckets.
    pub scale: ActScale,
    /// True if each device has a histogram, in addition to the histogram of all devices.
    pub per_device: bool,
}

/// Name of a cell: `reads@/dev/nvme0n1`.
pub(crate) fn cell_name(streams: &[StreamInfo], devices: &[String], cell: usize) -> String {
    format!(
        "{}@{}",
        streams[cell / devices.len()].name,
        devices[cell % devices.len()]
    )
}

impl Layout {
    pub fn cell(&self, stream: usize, device: usize) -> usize {
        stream * self.devices.len() + device
    }

    fn stream_of(&self, cell: usize) -> &StreamInfo {
        &self.streams[cell / self.devices.len()]
    }

    pub fn cell_name(&self, cell: usize) -> String {
        cell_name(&self.streams, &self.devices, cell)
    }

    pub fn cells(&self) -> usize {
        self.streams.len() * self.devices.len()
    }
}

/// Data that a shard (or, merged, all shards) recorded in a report interval.
#[derive(Debug, Clone)]
pub struct Interval {
    /// 0 for the first interval of the run.
    pub index: u64,
    /// End of the interval, nanoseconds since the run began.
    pub end_ns: u64,
    /// A cell for each stream and device, see [`Layout::cell`], or only `recorded_cells`.
    pub cells: Vec<Cell>,
    /// Cells of the layout that a shard records, ascending; `None`: all. Many shards with all cells of many streams and
    /// devices would take a lot of memory.
    pub recorded_cells: Option<Arc<[u32]>>,
    /// For each completion, an upper bound of the time in which it was unseen: the time since the previous poll.
    pub gap: Latencies,
    /// CPU time (user + system) that the issuing threads used, nanoseconds.
    pub cpu_ns: u64,
    /// Time for which the issuing threads were runnable without a CPU, nanoseconds.
    pub run_delay_ns: u64,
    /// Maximum number of operations in flight at once.
    pub in_flight_max: u64,
    /// Counters of the simulated drives since the run began, drive after drive.
    pub counters: Vec<u64>,
    /// Operations in `cells` that were due in earlier steps.
    pub carried: Vec<EarlierOps>,
}

/// Operations of a cell that completed, or were given up, in a later step than the step in which they were due. A step
/// is the distance between the starts of two judged windows: half a slice, or a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierOps {
    pub cell: usize,
    /// The step in which the operations were due, from 0.
    pub step: u64,
    /// Counts of the operations; also included in the cell's counts.
    pub counts: CellCounts,
}

/// Adds `more` to the entry in `entries` for the same cell and step.
pub fn add_carried(entries: &mut Vec<EarlierOps>, more: EarlierOps) {
    match entries
        .iter_mut()
        .find(|known| (known.cell, known.step) == (more.cell, more.step))
    {
        Some(known) => known.counts.add(&more.counts),
        None => entries.push(more),
    }
}

/// Silent time of the entry in `entries` for the same cell and step as `earlier`, nanoseconds; 0 without such an entry.
fn silent_ns_of(entries: &[EarlierOps], earlier: &EarlierOps) -> u64 {
    entries
        .iter()
        .find(|known| (known.cell, known.step) == (earlier.cell, earlier.step))
        .map_or(0, |known| known.counts.silent_ns)
}

/// Adds `other` to `sum`, a histogram with equal bounds. Most waits and lags are 0: then only their number is added.
pub fn add_latencies(sum: &mut Latencies, other: &Latencies) {
    if other.max() == 0 {
        fill_with_zeros(sum, sum.len() + other.len());
    } else {
        sum.add(other)
            .expect("histograms of one run have equal bounds");
    }
}

fn fill_with_zeros(histogram: &mut Latencies, ops: u64) {
    let mut left = ops.saturating_sub(histogram.len());
    while left > 0 {
        let count = u32::try_from(left).unwrap_or(u32::MAX);
        histogram.saturating_record_n(0, count);
        left -= u64::from(count);
    }
}

impl Interval {
    pub fn new(layout: &Layout) -> Self {
        Self::of_cells(layout, None)
    }

    /// An empty interval of a shard that records only the cells `recorded_cells`; `None`: all cells.
    pub fn of_cells(layout: &Layout, recorded_cells: Option<Arc<[u32]>>) -> Self {
        let cell = |cell| Cell::new(layout.stream_of(cell), layout.thresholds_ns.clone());
        let cells = match &recorded_cells {
            Some(recorded) => recorded.iter().map(|index| cell(*index as usize)).collect(),
            None => (0..layout.cells()).map(cell).collect(),
        };
        Self::with_cells(cells, recorded_cells)
    }

    /// An interval of all cells, with minimal histograms, into which the intervals of shards are merged.
    pub fn idle(layout: &Layout) -> Self {
        let cell = |cell| Cell::idle(layout.stream_of(cell), layout.thresholds_ns.clone());
        Self::with_cells((0..layout.cells()).map(cell).collect(), None)
    }

    fn with_cells(cells: Vec<Cell>, recorded_cells: Option<Arc<[u32]>>) -> Self {
        Self {
            index: 0,
            end_ns: 0,
            cells,
            recorded_cells,
            gap: latencies(),
            cpu_ns: 0,
            run_delay_ns: 0,
            in_flight_max: 0,
            counters: Vec::new(),
            carried: Vec::new(),
        }
    }

    /// Records the longest time for which a completion may have been unseen. [`Self::close`] adds the zeros.
    #[inline]
    pub fn record_gap(&mut self, unseen_ns: u64) {
        if unseen_ns > 0 {
            self.gap.saturating_record(unseen_ns);
        }
    }

    /// Ends the recording: for each successful operation without a recorded wait, lag or gap, adds a zero.
    pub fn close(&mut self) {
        for cell in &mut self.cells {
            fill_with_zeros(&mut cell.wait, cell.counts.ops);
            fill_with_zeros(&mut cell.lag, cell.counts.ops);
        }
        let ops = self.cells.iter().map(|cell| cell.counts.ops).sum();
        fill_with_zeros(&mut self.gap, ops);
    }

    /// Sets `last_completion_ns` to 0 (the end of the interval) for cells whose last completion was less than ten mean
    /// inter-completion times before. Keeps the lines of intervals.csv short. `began_ns`: start of the interval.
    pub fn clear_recent_last_completion(&mut self, began_ns: u64) {
        let length_ns = self.end_ns.saturating_sub(began_ns);
        for cell in self
            .cells
            .iter_mut()
            .filter(|cell| cell.counts.lost == 0 && cell.counts.last_completion_ns <= self.end_ns)
        {
            let left_ns = u128::from(self.end_ns - cell.counts.last_completion_ns);
            if left_ns * u128::from(cell.counts.ops) < u128::from(length_ns) * PERIODS_MAX {
                cell.counts.last_completion_ns = 0;
            }
        }
    }

    /// Adds the interval of another shard; `self` has all cells.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.index, other.index);
        debug_assert!(self.recorded_cells.is_none());
        self.merge_carried(other);
        for (slot, theirs) in other.cells.iter().enumerate() {
            let recorded = other.recorded_cells.as_ref();
            let cell = recorded.map_or(slot, |recorded| recorded[slot] as usize);
            self.cells[cell].merge(theirs);
        }
        add_latencies(&mut self.gap, &other.gap);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.cpu_ns += other.cpu_ns;
        self.run_delay_ns += other.run_delay_ns;
        self.in_flight_max += other.in_flight_max;
        let counters = self.counters.len().max(other.counters.len());
        self.counters.resize(counters, 0);
        self.counters
            .iter_mut()
            .zip(&other.counters)
            .for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Adds another shard's operations due in earlier steps. Silence counts only if all shards see it: [`Cell::merge`].
    fn merge_carried(&mut self, other: &Self) {
        let before = self.carried.clone();
        for more in &other.carried {
            add_carried(&mut self.carried, more.clone());
        }
        for carried in &mut self.carried {
            let slot = match &other.recorded_cells {
                Some(recorded) => recorded.binary_search(&(carried.cell as u32)).ok(),
                None => Some(carried.cell),
            };
            let is_active = slot.is_some_and(|slot| other.cells[slot].is_active());
            if is_active && self.cells[carried.cell].is_active() {
                carried.counts.silent_ns =
                    silent_ns_of(&before, carried).min(silent_ns_of(&other.carried, carried));
            }
        }
    }

    pub fn clear(&mut self) {
        self.cells.iter_mut().for_each(Cell::clear);
        self.gap.reset();
        self.counters.clear();
        self.carried.clear();
        (
            self.index,
            self.end_ns,
            self.cpu_ns,
            self.run_delay_ns,
            self.in_flight_max,
        ) = (0, 0, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_with_minimal_histograms_grows_when_another_is_merged_into_it() {
        let stream = StreamInfo {
            name: "reads".into(),
            ..StreamInfo::default()
        };
        let layout = Layout {
            streams: vec![stream],
            devices: vec!["a".into(), "b".into()],
            thresholds_ns: [1_000].into(),
        };
        let mut whole = Interval::idle(&layout);
        for cell in [1, 0] {
            let mut part = Interval::of_cells(&layout, Some([cell].into()));
            part.cells[0].record(&Times::new(0, 0, 0, 5_000_000), 0, 512);
            part.close();
            whole.merge(&part);
            assert_eq!(part.cells.len(), 1);
            assert_eq!(whole.cells[cell as usize].counts.ops, 1);
        }
        let seen: Vec<_> = whole
            .cells
            .iter()
            .map(|cell| (cell.counts.ops, cell.service.max(), cell.wait.len()))
            .collect();
        let mut all = Interval::new(&layout);
        (0..2).for_each(|cell| all.cells[cell].record(&Times::new(0, 0, 0, 5_000_000), 0, 512));
        all.close();
        let expected: Vec<_> = all
            .cells
            .iter()
            .map(|cell| (cell.counts.ops, cell.service.max(), cell.wait.len()))
            .collect();
        assert_eq!(seen, expected);
        whole.merge(&Interval::of_cells(&layout, Some([].into())));
        assert_eq!(whole.cells[1].counts.ops, 1);
    }

    #[test]
    fn zero_durations_are_counted_when_the_interval_is_closed() {
        let layout = Layout {
            streams: vec![],
            devices: vec![],
            thresholds_ns: [1_000_000].into(),
        };
        let mut interval = Interval::new(&layout);
        let reads = crate::testing::layout(&[("reads", true)], 1.0, ["d"])
            .streams
            .remove(0);
        interval.cells = vec![Cell::new(&reads, layout.thresholds_ns.clone()); 2];
        // Four operations due at 0: issued at once; after a wait of 3 us; 5 us late; after both, and seen 7 us late.
        for (cell, eligible_ns, issued_ns, unseen_ns) in [
            (0, 0, 0, 0),
            (0, 3_000, 3_000, 0),
            (1, 0, 5_000, 0),
            (0, 3_000, 8_000, 7_000),
        ] {
            interval.cells[cell].record(
                &Times::new(0, eligible_ns, issued_ns, 90_000),
                unseen_ns,
                512,
            );
            interval.record_gap(unseen_ns);
        }
        interval.close();
        let counts = |histogram: &Latencies| (histogram.count_at(0), histogram.len());
        assert_eq!(
            [0, 1].map(|cell| counts(&interval.cells[cell].wait)),
            [(1, 3), (1, 1)]
        );
        assert_eq!(
            [0, 1].map(|cell| counts(&interval.cells[cell].lag)),
            [(2, 3), (0, 1)]
        );
        assert_eq!(counts(&interval.gap), (3, 4));
        interval.close();
        assert_eq!(counts(&interval.gap), (3, 4), "once is enough");
    }

    #[test]
    fn waits_are_kept_with_the_service_times_that_they_belong_to() {
        let reads = crate::testing::layout(&[("reads", true)], 1.0, ["d"])
            .streams
            .remove(0);
        let cell = || Cell::new(&reads, [1_000_000].into());
        let mut other = cell();
        let mut cell = cell();
        cell.record(&Times::new(0, 0, 0, 90_000), 0, 512);
        assert!(cell.waited.is_none(), "nobody waited");
        other.record(&Times::new(0, 300_000, 300_000, 301_000), 0, 512);
        cell.merge(&other);
        let [service, answer] = cell.waited.as_deref().unwrap();
        let near = |histogram: &Latencies, ns: u64| {
            histogram.len() == 1 && histogram.max().abs_diff(ns) <= ns / 50
        };
        assert!(near(service, 1_000) && near(answer, 301_000));
        cell.clear();
        assert!(
            cell.waited
                .as_deref()
                .unwrap()
                .iter()
                .all(|histogram| histogram.is_empty())
        );
    }

    #[test]
    fn a_device_is_silent_while_no_shard_with_operations_on_it_gets_a_completion() {
        let reads = crate::testing::layout(&[("reads", true)], 1.0, ["d"])
            .streams
            .remove(0);
        let silent = |silent_ns: u64, in_flight: u64| {
            let mut cell = Cell::new(&reads, [1_000_000].into());
            (cell.counts.silent_ns, cell.counts.backlog.in_flight) = (silent_ns, in_flight);
            cell
        };
        for (one, other, both_ns) in [
            (silent(500, 1), silent(300, 2), 300),
            (silent(500, 1), silent(0, 0), 500),
            (silent(0, 3), silent(500, 1), 0),
        ] {
            let mut both = one.clone();
            both.merge(&other);
            assert_eq!(both.counts.silent_ns, both_ns);
        }
    }
}
