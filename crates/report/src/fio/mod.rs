//! fio's output at the end of its jobs, from recorded data: normal, JSON, terse.
//!
//! ```text
//! Interval -> Totals (by stream) -> FioReport (jobs with their kinds) -> normal.rs (also terse), json.rs
//! ```
//!
//! Fields with fio's names have fio's meaning; additional fields (`wait`, `lag`) have other names. An operation's clat
//! begins at its submission, so it includes fio's slat; lat is equal to clat.

mod json;
mod normal;

pub use json::json;
pub use normal::{header_text, normal, terse};

use hdrhistogram::Histogram;
use results::cell::Interval;
use results::judge::RunResult;

/// Version of fio whose output formats are printed.
pub const FIO_VERSION: &str = "fio-3.33";

/// Reads, writes, trims, flushes.
pub const KINDS: usize = 4;

const NAMES: [&str; KINDS] = ["read", "write", "trim", "sync"];

/// Results of one report entry: a job, or a group with group_reporting.
#[derive(Debug, Clone)]
pub struct JobReport<'a> {
    pub name: String,
    pub group: usize,
    /// Number of clones.
    pub jobs: usize,
    pub description: String,
    /// Options as given.
    pub options: Vec<(String, String)>,
    /// Maximum number of operations in flight; with a latency target, the depth found for it.
    pub depth: u64,
    pub target: Option<LatencyTargetResult>,
    /// Start of the reported part, nanoseconds since its run began.
    pub begin_ns: u64,
    /// End of the reported part, on the same clock.
    pub end_ns: u64,
    /// Duration of each kind of operation, by which rates are computed, nanoseconds.
    pub kinds_ns: [u64; KINDS],
    pub started_unix_ms: u64,
    /// fio's number for the goal that the job missed, if it missed one.
    pub error: Option<u64>,
    /// Operations by queue depth: 1, 2, 4 ... 64.
    pub levels: [u64; 7],
    /// Recorded data, by kind.
    pub kinds: [Option<&'a KindStats>; KINDS],
    pub verified: Option<VerifyTotals>,
    /// True to print percentiles: of completion latencies, of total latencies.
    pub percentiles_of: [bool; 2],
    pub percentiles: Vec<f64>,
    /// Value of the suffix `k`.
    pub kb_base: u64,
    /// Duration of the job's run with its ramp time, nanoseconds.
    pub elapsed_ns: u64,
    /// The job's share of the run's CPU time.
    pub cpu: Cpu,
    pub steady: Option<SteadyState>,
    /// Latencies by direction and I/O priority, if the operations had several priorities.
    pub priorities: Vec<(usize, u16, RunHistogram)>,
}

#[derive(Debug, Clone, Default)]
pub struct SteadyState {
    /// `iops_slope:1.000000%`.
    pub target: String,
    pub duration_sec: u64,
    pub attained: bool,
    /// Value that was last compared with the limit.
    pub criterion: f64,
    pub deviation: f64,
    pub slope: f64,
    /// Means of the last intervals: operations per second, bytes per second, latency in nanoseconds.
    pub means: [u64; 3],
    pub intervals: Vec<[u64; 3]>,
}

/// The latency target for which a job searched its queue depth.
#[derive(Debug, Clone, Copy)]
pub struct LatencyTargetResult {
    pub latency_ns: u64,
    /// Time per depth, microseconds.
    pub window_us: u64,
    /// Percentage of operations that must meet the target.
    pub percentile: f64,
}

/// Values printed for a job without a target.
const NO_TARGET: LatencyTargetResult = LatencyTargetResult {
    latency_ns: 0,
    window_us: 0,
    percentile: 100.0,
};

#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu {
    pub user_ns: u64,
    pub system_ns: u64,
    pub switches: u64,
    /// Page faults that had to read from a disk.
    pub major_faults: u64,
    /// Page faults served without disk I/O.
    pub minor_faults: u64,
}

impl Cpu {
    /// CPU usage of `ops` of `total_ops` operations: the total, scaled by ops / total_ops.
    pub fn part(self, ops: u64, total_ops: u64) -> Self {
        Self {
            user_ns: scaled(self.user_ns, ops, total_ops),
            system_ns: scaled(self.system_ns, ops, total_ops),
            switches: scaled(self.switches, ops, total_ops),
            major_faults: scaled(self.major_faults, ops, total_ops),
            minor_faults: scaled(self.minor_faults, ops, total_ops),
        }
    }
}

fn scaled(value: u64, part: u64, whole: u64) -> u64 {
    (u128::from(value) * u128::from(part) / u128::from(whole.max(1))) as u64
}

/// I/O of a disk during all runs.
#[derive(Debug, Clone, Default)]
pub struct DiskIo {
    /// Name in /proc/diskstats.
    pub name: String,
    /// Reads, writes: operations.
    pub ios: [u64; 2],
    /// Reads, writes: sectors of 512 bytes.
    pub sectors: [u64; 2],
    /// Merged reads, merged writes.
    pub merges: [u64; 2],
    /// Reads, writes: time, milliseconds.
    pub ticks: [u64; 2],
    /// Time weighted by the number of requests in flight, milliseconds.
    pub in_queue: u64,
    /// Percent of the time that the disk was busy.
    pub util: f64,
}

#[derive(Debug, Clone)]
pub struct FioReport<'a> {
    pub jobs: Vec<JobReport<'a>>,
    /// Options that hold for all jobs.
    pub global: Vec<(String, String)>,
    pub disks: Vec<DiskIo>,
    /// Time of the report, milliseconds since 1970.
    pub unix_ms: u64,
    pub pid: u32,
    /// Results of the runs that ended.
    pub results: Vec<RunResult>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct VerifyTotals {
    /// Bytes that were read and are as expected.
    pub bytes: u64,
    pub wrong_blocks: u64,
    /// Bytes that were written and not read back.
    pub not_read_bytes: u64,
    /// Bytes whose contents are unknown, so that they were not compared.
    pub unknown_bytes: u64,
}

impl JobReport<'_> {
    /// Duration of the reported part, nanoseconds.
    fn own_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns).max(1)
    }

    /// Time over which the operations of one kind ran, milliseconds; at least 1, as in fio.
    fn kind_ms(&self, at: usize) -> u64 {
        (self.kinds_ns[at] / 1_000_000).max(1)
    }

    /// Sum of the durations of the job's clones, nanoseconds.
    fn all_ns(&self) -> u64 {
        self.own_ns() * self.jobs as u64
    }

    /// `ns` as a percentage of the total time of the job's clones.
    fn percent(&self, ns: u64) -> f64 {
        ns as f64 * 100.0 / self.all_ns().max(1) as f64
    }

    /// fio's error number: EILSEQ for wrong data, EIO for failed operations, or that of the goal that the job missed.
    fn error_number(&self) -> u64 {
        match self.verified {
            Some(VerifyTotals {
                wrong_blocks: 1.., ..
            }) => 84,
            _ if self.errors() > 0 => 5,
            _ => self.error.unwrap_or(0),
        }
    }

    fn errors(&self) -> u64 {
        self.kinds.iter().flatten().map(|kind| kind.errors).sum()
    }

    /// Shares of the latencies of reads, writes and trims below each of fio's bounds, percent.
    fn latency_shares(&self) -> [(&'static str, Vec<(String, f64)>); 3] {
        // Only the last unit has a bound of 2000.
        const BOUNDS: [u64; 11] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000];
        let kinds = || self.kinds[..3].iter().flatten();
        let total: u64 = kinds().map(|kind| kind.clat.len()).sum();
        let mut counted = 0;
        let mut scales = [("ns", 1), ("us", 1_000), ("ms", 1_000_000)].map(|(unit, unit_ns)| {
            let bounds = if unit == "ms" {
                &BOUNDS[..]
            } else {
                &BOUNDS[..10]
            };
            let mut shares = Vec::new();
            for bound in bounds {
                let below_ns = bound * unit_ns - 1;
                let count: u64 = kinds()
                    .map(|kind| kind.clat.count_between(0, below_ns))
                    .sum();
                let share = percent(count.saturating_sub(counted), total);
                shares.push((bound.to_string(), share));
                counted = counted.max(count);
            }
            (unit, shares)
        });
        let above = percent(total.saturating_sub(counted), total);
        scales[2].1.push((">=2000".into(), above));
        scales
    }

    /// Shares of the depths, percent.
    fn level_shares(&self) -> [f64; 7] {
        let total: u64 = self.levels.iter().sum();
        self.levels.map(|level| percent(level, total))
    }

    /// The number that `of` returns for each kind of operation, separated by commas.
    fn kind_counts(&self, of: fn(&KindStats) -> u64) -> String {
        self.kinds
            .map(|kind| kind.map_or(0, of).to_string())
            .join(",")
    }
}

fn percent(part: u64, total: u64) -> f64 {
    if total == 0 {
        0.0
    } else {
        part as f64 * 100.0 / total as f64
    }
}

impl<'a> FioReport<'a> {
    /// Data of one kind of operation from each job of a group that has such operations, with the time of the kind.
    fn of_group(&self, group: usize, kind: usize) -> Vec<(&'a KindStats, u64)> {
        let jobs = self.jobs.iter().filter(|job| job.group == group);
        jobs.filter_map(|job| {
            Some((
                job.kinds[kind].filter(|kind| kind.ops > 0)?,
                job.kinds_ns[kind],
            ))
        })
        .collect()
    }

    /// Mean bandwidth of `kind` as a percentage of the bandwidth of the whole `group`; `at` is the index of the kind.
    fn bandwidth_percent(&self, kind: &KindStats, group: usize, at: usize) -> f64 {
        let all: f64 = self
            .of_group(group, at)
            .iter()
            .map(|(kind, ns)| kind.bytes as f64 * 1e9 / *ns as f64)
            .sum();
        (kind.bandwidth.mean() * 1024.0 * 100.0 / all.max(1.0)).min(100.0)
    }
}

const LEVELS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];

/// Minimum length of a report interval that gives a sample of bandwidth and IOPS, nanoseconds.
const SAMPLE_NS_MIN: u64 = 500_000_000;

pub type RunHistogram = Histogram<u64>;

/// Statistics of values that are sampled once per report interval.
#[derive(Debug, Clone, Copy, Default)]
pub struct SampleStats {
    pub count: u64,
    pub min: f64,
    pub max: f64,
    sum: f64,
    squares: f64,
}

impl SampleStats {
    fn add(&mut self, value: f64) {
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    /// The mean; 0 without samples.
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum / self.count as f64
        }
    }

    pub fn deviation(&self) -> f64 {
        match self.count {
            0 | 1 => 0.0,
            count => ((self.squares - self.sum * self.mean()).max(0.0) / (count - 1) as f64).sqrt(),
        }
    }
}

/// Recorded data of one kind of operation in one report entry.
#[derive(Debug, Clone)]
pub struct KindStats {
    /// Completion latencies: from submission until the completion is seen.
    pub clat: RunHistogram,
    /// Waiting times of operations with a rate, until fewer than `iodepth` operations were in flight.
    pub wait: RunHistogram,
    /// Latencies of the operations that waited: first without their waits, then with them.
    waited: [RunHistogram; 2],
    /// Lag: how late flashproof issued the operations.
    pub lag: RunHistogram,
    /// Operations that succeeded.
    pub ops: u64,
    /// Part of `ops` that completed after the end of the run.
    pub overtime: u64,
    pub bytes: u64,
    pub errors: u64,
    /// Intended operations that were never issued or never completed.
    pub undone: u64,
    /// Bandwidth, KiB/s.
    pub bandwidth: SampleStats,
    pub iops: SampleStats,
    /// Time of the last completion, nanoseconds since the run began.
    pub last_completion_ns: u64,
}

impl Default for KindStats {
    fn default() -> Self {
        Self {
            clat: durations(),
            wait: durations(),
            waited: [durations(), durations()],
            lag: durations(),
            ops: 0,
            overtime: 0,
            bytes: 0,
            errors: 0,
            undone: 0,
            bandwidth: SampleStats::default(),
            iops: SampleStats::default(),
            last_completion_ns: 0,
        }
    }
}

pub fn durations() -> RunHistogram {
    // The layout of an interval's histogram, with counters that a day cannot overflow.
    let like = results::cell::latencies();
    Histogram::new_with_bounds(like.low(), like.high(), like.sigfig())
        .expect("bounds of another histogram")
}

impl KindStats {
    /// Completion latencies plus the preceding waits for a slot: the whole time spent waiting for the drive.
    pub fn response_times(&self) -> RunHistogram {
        let mut answers = self.clat.clone();
        let [waited, answered] = &self.waited;
        // Cannot fail: the histograms have equal bounds, and `clat` contains all operations that waited.
        let _ = answers.subtract(waited).is_ok() && answers.add(answered).is_ok();
        answers
    }
}

#[derive(Debug, Clone, Default)]
pub struct RunningTotals {
    /// Data of each kind, in the order of the streams.
    pub kinds: Vec<KindStats>,
    pub ran_ns: u64,
    /// Number of streams that each kind sums up.
    streams: Vec<usize>,
}

impl RunningTotals {
    /// Totals by kind. `streams` has, for each kind, the number of consecutive streams that the kind sums up.
    pub fn joined(streams: impl IntoIterator<Item = usize>) -> Self {
        let streams: Vec<_> = streams.into_iter().collect();
        Self {
            kinds: vec![KindStats::default(); streams.len()],
            ran_ns: 0,
            streams,
        }
    }

    pub fn add(&mut self, interval: &Interval, devices: usize) {
        let length_ns = interval.end_ns.saturating_sub(self.ran_ns);
        self.ran_ns = interval.end_ns;
        let mut cells = &interval.cells[..];
        for (kind, streams) in self.kinds.iter_mut().zip(&self.streams) {
            let job_cells;
            (job_cells, cells) = cells.split_at((streams * devices.max(1)).min(cells.len()));
            let mut ops = 0;
            let mut bytes = 0;
            for cell in job_cells {
                add(&mut kind.clat, &cell.service);
                add(&mut kind.wait, &cell.wait);
                add(&mut kind.lag, &cell.lag);
                let waited = cell.waited.iter().flat_map(|pair| pair.iter());
                kind.waited
                    .iter_mut()
                    .zip(waited)
                    .for_each(|(total, part)| add(total, part));
                kind.errors += cell.counts.errors;
                kind.undone += cell.counts.unissued + cell.counts.lost;
                kind.overtime += cell.counts.overtime;
                ops += cell.counts.ops;
                bytes += cell.counts.bytes;
                kind.last_completion_ns = kind
                    .last_completion_ns
                    .max(cell.counts.back_ns(interval.end_ns));
            }
            kind.ops += ops;
            kind.bytes += bytes;
            if length_ns >= SAMPLE_NS_MIN {
                let seconds = length_ns as f64 / 1e9;
                kind.bandwidth.add(bytes as f64 / 1024.0 / seconds);
                kind.iops.add(ops as f64 / seconds);
            }
        }
    }
}

/// Adds 32-bit counts to 64-bit counts. The iterators of a histogram also visit all buckets below its least value, which
/// took a quarter of the CPU time of a baseline of three simulated drives.
pub fn add(total: &mut RunHistogram, part: &results::cell::Latencies) {
    let mut value = 0;
    while value <= part.max() {
        let count = part.count_at(value);
        if count > 0 {
            // Cannot fail: the bounds are equal.
            let _ = total.record_n(value, count.into());
        }
        value = if value == 0 {
            part.min_nz()
        } else {
            part.next_non_equivalent(value)
        };
    }
}

#[cfg(test)]
mod tests;
