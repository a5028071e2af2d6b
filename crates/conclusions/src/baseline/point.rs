//! The measurements of a fio job on a drive.
//!
//! An [`AccessMix`] is a job's pattern, block size and read share, without its queue depth. The points of a mix form a
//! curve.

use super::Watch;
use crate::grouped;
use crate::percentile::{beyond, is_compared, is_resolved};
use results::format;
use results::steady::median;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// Purpose of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Part")]
pub enum JobPurpose {
    /// Write saturation: random writes without a rate limit, until the drive is steady.
    Saturation,
    /// A queue depth, closed loop; several depths show where a larger depth gives no higher rate.
    Depth,
    /// A mix of reads and writes without a rate limit, at the chosen depth.
    Profile,
    /// A fraction of the highest rate, open loop: latency as a function of throughput.
    Rate,
    /// Reads and writes together, each at its own rate, open loop: a cell of the grid.
    Grid,
    /// A long, light load, recorded second by second: stalls and drift.
    Watch,
    /// A round of the IOPS test of SNIA's Performance Test Specification (PTS).
    PtsIops,
    /// A round of SNIA's throughput test.
    PtsThroughput,
    /// A round of SNIA's latency test.
    PtsLatency,
    /// A round of SNIA's write saturation test.
    PtsSaturation,
}

/// A fio job on a drive, and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Purpose of the job.
    pub part: JobPurpose,
    /// fio options of the job, without the device: `--rw=randread --bs=4k --iodepth=32`.
    pub job: String,
    /// True if offsets are random.
    pub random: bool,
    /// Percentage of reads among the operations: set for a mix, computed for a job with rates, otherwise 100 or 0.
    pub read_pct: f64,
    /// Queue depth: maximum number of operations in flight.
    pub depth: u32,
    /// Number of the round, from 0; 0 in parts without rounds.
    pub round: u32,
    /// Measured time, seconds.
    pub seconds: f64,
    /// Reads of the job; `None` if the job does not read.
    pub reads: Option<DirectionResult>,
    /// Writes of the job; `None` if the job does not write.
    pub writes: Option<DirectionResult>,
    /// Mean number of requests that the kernel had in flight on the drive (diskstats, iostat's aqu-sz); `None` without
    /// this counter.
    pub mean_in_flight: Option<f64>,
    /// CPU time of this program per operation, microseconds; `None` in virtual time.
    pub cpu_us: Option<f64>,
    /// True if the rates were steady; `None`: the job was too short.
    pub steady: Option<bool>,
    /// Doubt about the measurement, one sentence: for example, this program was late, or the load ended early.
    pub doubt: Option<String>,
    /// Second-by-second observations of a watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
}

/// All reads, or all writes, of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Done")]
pub struct DirectionResult {
    /// Size of an operation, bytes; for several sizes, the mean.
    pub bytes_each: f64,
    /// Scheduled operations per second; `None`: no rate limit.
    pub offered_iops: Option<f64>,
    /// Number of operations that succeeded.
    pub ops: u64,
    /// Operations per second that succeeded before the end of the run.
    pub iops: f64,
    /// Megabytes (10^6 bytes) per second.
    pub mbps: f64,
    /// Number of failed operations.
    pub errors: u64,
    /// Number of scheduled operations that never completed.
    pub undone: u64,
    /// Service time: from submission to observed completion (fio's slat + clat).
    pub service: LatencyStats,
    /// Wait plus service time: the latency that is charged to the drive. Without a rate limit, equal to `service`.
    pub answer: LatencyStats,
}

/// Distribution of latencies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Latency")]
pub struct LatencyStats {
    /// Mean, microseconds.
    pub mean_us: f64,
    /// Standard deviation, microseconds.
    pub stdev_us: f64,
    /// The shortest, microseconds.
    pub min_us: f64,
    /// The longest, microseconds.
    pub max_us: f64,
    /// Values at fixed percentiles, ascending, microseconds; empty without operations. If some operations never completed,
    /// the list ends before the first percentile that lies among them: such a percentile is longer than `max_us`.
    /// Values near both ends can depend on few operations, or on one.
    pub percentiles_us: Vec<f64>,
}

impl LatencyStats {
    /// Stored percentiles, percent: fio's list, and additional low and high percentiles for a fit.
    pub const PERCENTILES: [f64; 21] = [
        1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 97.0, 98.0, 99.0,
        99.5, 99.9, 99.95, 99.99, 99.999, 100.0,
    ];

    /// Latency at the percentile `percent`, microseconds. `None` without operations, or if the percentile is not stored
    /// or lies among operations that never completed.
    pub fn at(&self, percent: f64) -> Option<f64> {
        let at = Self::PERCENTILES
            .iter()
            .position(|known| *known == percent)?;
        self.percentiles_us.get(at).copied()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Percentile {
    Us(f64),
    /// The percentile lies among operations that never completed. Value: the longest completed operation, microseconds.
    LongerThan(f64),
    TooFew,
}

impl Percentile {
    fn from_stats(times: &LatencyStats, count: u64, percent: f64) -> Self {
        match times.at(percent) {
            _ if !is_resolved(count, percent) => Self::TooFew,
            Some(us) => Self::Us(us),
            None if times.max_us > 0.0 => Self::LongerThan(times.max_us),
            None => Self::TooFew,
        }
    }

    pub fn us(self) -> Option<f64> {
        if let Self::Us(us) = self {
            Some(us)
        } else {
            None
        }
    }
}

/// `1.2 ms`, `> 587 ms`, or a dash for too few operations.
impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Us(us) => f.write_str(&format::milliseconds(us / 1e3)),
            Self::LongerThan(us) => write!(f, "> {}", format::milliseconds(us / 1e3)),
            Self::TooFew => f.write_str("-"),
        }
    }
}

impl DirectionResult {
    pub fn service_at(&self, percent: f64) -> Percentile {
        Percentile::from_stats(&self.service, self.ops, percent)
    }

    /// Percentile of wait plus service. Operations that never completed count as slower than all others.
    pub fn answer_at(&self, percent: f64) -> Percentile {
        Percentile::from_stats(&self.answer, self.scheduled(), percent)
    }

    pub fn beyond(&self, percent: f64) -> f64 {
        beyond(self.scheduled(), percent)
    }

    /// True if enough operations lie beyond the percentile to compare it with that of another drive.
    pub fn is_compared(&self, percent: f64) -> bool {
        is_compared(self.scheduled(), percent)
    }

    fn scheduled(&self) -> u64 {
        self.ops.saturating_add(self.undone)
    }

    fn whole_bytes(&self) -> u64 {
        self.bytes_each.round() as u64
    }

    /// True if at least 99 % of the offered rate was reached, or no rate was set.
    pub fn is_reached(&self) -> bool {
        self.offered_iops
            .is_none_or(|offered| self.iops >= 0.99 * offered)
    }
}

/// Access pattern, share of reads, and sizes of a job's operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessMix {
    pub random: bool,
    /// Percentage of reads, rounded.
    pub read_pct: u32,
    /// Size of a read, bytes; for several sizes, the mean. 0: no reads.
    pub read_bytes: u64,
    /// Size of a write, bytes; for several sizes, the mean. 0: no writes.
    pub write_bytes: u64,
}

impl AccessMix {
    pub fn from_point(point: &Point) -> Self {
        Self {
            random: point.random,
            read_pct: point.read_pct.round() as u32,
            read_bytes: point.reads.as_ref().map_or(0, DirectionResult::whole_bytes),
            write_bytes: point
                .writes
                .as_ref()
                .map_or(0, DirectionResult::whole_bytes),
        }
    }
}

/// `random reads, 4 KiB`, `random 95 % reads, 128 KiB`.
impl fmt::Display for AccessMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.random {
            "random "
        } else {
            "sequential "
        })?;
        let size = |bytes: u64| format::binary_bytes(bytes as f64);
        match (self.read_bytes, self.write_bytes) {
            (0, 0) => write!(f, "operations"),
            (reads, 0) => write!(f, "reads, {}", size(reads)),
            (0, writes) => write!(f, "writes, {}", size(writes)),
            (reads, writes) if reads == writes => {
                write!(f, "{} % reads, {}", self.read_pct, size(reads))
            }
            (reads, writes) => {
                write!(
                    f,
                    "{} % reads, {} and writes of {}",
                    self.read_pct,
                    size(reads),
                    size(writes)
                )
            }
        }
    }
}

/// The points of `part`, grouped by mix. Mixes are in the order of their first points; points within a mix are sorted
/// by round, depth and offered rate. Of several points with the same round, depth and rate, the last counts.
pub fn curves(points: &[Point], part: JobPurpose) -> Vec<(AccessMix, Vec<&Point>)> {
    let of_part = points.iter().filter(|point| point.part == part);
    let mut curves = grouped(of_part.map(|point| (AccessMix::from_point(point), point)));
    for (_, curve) in &mut curves {
        // Reversed, so that the last of several equal points is kept.
        curve.reverse();
        curve.sort_by(|a, b| {
            a.curve_key()
                .partial_cmp(&b.curve_key())
                .unwrap_or(Ordering::Equal)
        });
        curve.dedup_by_key(|point| point.curve_key());
    }
    curves
}

/// Fraction of the highest rate that defines the knee.
const KNEE: f64 = 0.9;

/// Highest sustained rate in a sweep of depths: the median of the rates that are at least 90 % of the best rate. The
/// best rate alone is biased upwards: a drive may not sustain even 95 % of it.
pub fn highest(curve: &[&Point]) -> Option<f64> {
    let best = curve
        .iter()
        .map(|point| point.iops())
        .reduce(f64::max)
        .filter(|best| *best > 0.0)?;
    let rates: Vec<f64> = curve
        .iter()
        .map(|point| point.iops())
        .filter(|iops| *iops >= KNEE * best)
        .collect();
    Some(median(&rates))
}

/// The smallest depth of a sweep that reaches 90 % of the highest rate. At larger depths, operations take longer,
/// but the rate hardly grows.
pub fn knee<'a>(curve: &[&'a Point]) -> Option<&'a Point> {
    let highest = highest(curve)?;
    curve
        .iter()
        .copied()
        .filter(|point| point.iops() >= KNEE * highest)
        .min_by_key(|point| point.depth)
}

impl Point {
    pub fn directions(&self) -> impl Iterator<Item = &DirectionResult> {
        self.reads.iter().chain(&self.writes)
    }

    pub fn errors(&self) -> u64 {
        self.directions().map(|done| done.errors).sum()
    }

    pub fn iops(&self) -> f64 {
        self.directions().map(|done| done.iops).sum()
    }

    /// Megabytes (10^6 bytes) per second.
    pub fn mbps(&self) -> f64 {
        self.directions().map(|done| done.mbps).sum()
    }

    /// `None` without a rate limit.
    pub fn offered_iops(&self) -> Option<f64> {
        self.directions().map(|done| done.offered_iops).sum()
    }

    /// The direction whose latency represents the point: reads, or writes if there are no reads.
    pub fn main_direction(&self) -> Option<&DirectionResult> {
        self.directions().next()
    }

    /// True if [`DirectionResult::is_reached`] holds for reads and for writes.
    pub fn is_reached(&self) -> bool {
        self.directions().all(DirectionResult::is_reached)
    }

    /// Sort key: round, depth and offered rate. The rate is infinite without a rate limit.
    fn curve_key(&self) -> (u32, u32, f64) {
        (
            self.round,
            self.depth,
            self.offered_iops().unwrap_or(f64::INFINITY),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::point;

    #[test]
    fn a_percentile_of_too_few_operations_is_a_dash() {
        // 10 s at 50 operations per second.
        let mut done = point(
            JobPurpose::Rate,
            1,
            Some((4_096.0, Some(50.0), 50.0, 80.0)),
            None,
        )
        .reads
        .unwrap();
        let told = |done: &DirectionResult| {
            [50.0, 99.0, 99.9].map(|percent| done.answer_at(percent).to_string())
        };
        assert_eq!(done.ops, 500);
        assert_eq!(told(&done), ["80 us", "240 us", "-"]);
        assert_eq!(
            (done.answer_at(99.9).us(), done.service_at(99.9)),
            (None, Percentile::TooFew)
        );
        // 20 operations that never completed count as longer than the longest completed operation.
        done.undone = 20;
        done.answer.percentiles_us.truncate(12);
        assert_eq!(told(&done), ["80 us", "> 320 us", "-"]);
        assert_eq!(
            (done.is_compared(98.0), done.is_compared(99.0)),
            (true, false)
        );
        done.ops = 40;
        assert_eq!(told(&done), ["80 us", "-", "-"]);
    }
}
