//! One fio job on a drive, and its measurements.
//!
//! A [`Mix`] is a job's pattern, block size and read share, without its queue depth: the points of one mix form a
//! curve.

use super::Watch;
use crate::percentile::{beyond, is_compared, is_told};
use results::steady::median;
use results::units;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// Purpose of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Random writes, flat out, until the drive is steady: write saturation.
    Saturation,
    /// A queue depth, closed loop; several of them show where more in flight brings no more.
    Depth,
    /// A profile of reads and writes, flat out at the depth that was chosen.
    Profile,
    /// A part of the highest rate, open loop: latency against throughput.
    Rate,
    /// Reads at a rate beside writes at a rate, open loop: a cell of the grid.
    Grid,
    /// A light load for long, looked at second by second: stalls and drift.
    Watch,
    /// A round of SNIA's Performance Test Specification: IOPS test.
    PtsIops,
    /// The same: throughput test.
    PtsThroughput,
    /// The same: latency test.
    PtsLatency,
    /// The same: write saturation test.
    PtsSaturation,
}

/// A fio job on a drive, and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Purpose of the job.
    pub part: Part,
    /// Its options as fio takes them, without the device: `--rw=randread --bs=4k --iodepth=32`.
    pub job: String,
    /// True if offsets are random.
    pub random: bool,
    /// Percentage of reads among its operations: set for a mix, computed for a job with rates, else 100 or 0.
    pub read_pct: f64,
    /// Operations in flight that it may have.
    pub depth: u32,
    /// Round of its part, from 0; 0 in parts without rounds.
    pub round: u32,
    /// How long it was measured, seconds.
    pub seconds: f64,
    /// Its reads; `None` if it does not read.
    pub reads: Option<Done>,
    /// Its writes; `None` if it does not write.
    pub writes: Option<Done>,
    /// Operations that the kernel had in flight on the drive on average (diskstats, as iostat's aqu-sz); `None` where
    /// there is no such counter.
    pub mean_in_flight: Option<f64>,
    /// CPU time of this program for an operation, microseconds; `None` on virtual time.
    pub cpu_us: Option<f64>,
    /// True if its rates were steady; `None`: too short to tell.
    pub steady: Option<bool>,
    /// Why it says less than it seems to, one sentence: this program was late, the load ended early.
    pub doubt: Option<String>,
    /// Of a watch: what its seconds showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
}

/// All reads, or all writes, of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Done {
    /// Size of an operation, bytes; of several sizes their mean.
    pub bytes_each: f64,
    /// Operations a second that were wanted; `None`: flat out.
    pub offered_iops: Option<f64>,
    /// Operations that were done.
    pub ops: u64,
    /// Operations a second that were done.
    pub iops: f64,
    /// Megabytes (10^6) a second.
    pub mbps: f64,
    /// Operations that failed.
    pub errors: u64,
    /// Operations that were wanted and never done.
    pub undone: u64,
    /// From handing it over until it was seen to be done: fio's clat.
    pub service: Latency,
    /// With the wait for a free place in the queue, of what has a rate: what the drive answers for. Flat out it is `service`.
    pub answer: Latency,
}

/// How long operations took.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Mean, microseconds.
    pub mean_us: f64,
    /// Standard deviation, microseconds.
    pub stdev_us: f64,
    /// The shortest, microseconds.
    pub min_us: f64,
    /// The longest, microseconds.
    pub max_us: f64,
    /// Microseconds that so many percent took at most, at [`Latency::PERCENTILES`]; empty without operations. The list ends
    /// where operations that were never done begin: those took longer than `max_us`. Those at the ends are of few operations, or
    /// of one: [`Done::service_at`] and [`Done::answer_at`] give what is told.
    pub percentiles_us: Vec<f64>,
}

impl Latency {
    /// Percentiles stored of each distribution, percent: fio's list, with the low end and the tail that a fit needs.
    pub const PERCENTILES: [f64; 21] = [
        1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 97.0, 98.0, 99.0, 99.5, 99.9, 99.95,
        99.99, 99.999, 100.0,
    ];

    /// Microseconds that `percent` of the operations took at most; `None` if that percentile is not stored or unknown,
    /// or without operations.
    pub fn at(&self, percent: f64) -> Option<f64> {
        let at = Self::PERCENTILES.iter().position(|known| *known == percent)?;
        self.percentiles_us.get(at).copied()
    }
}

/// A percentile of a job's operations, as far as they determine it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Percentile {
    /// Value, microseconds.
    Us(f64),
    /// The percentile lies among operations that never completed: longer than the longest completed one, in
    /// microseconds.
    LongerThan(f64),
    /// Too few operations for the percentile, or none.
    TooFew,
}

impl Percentile {
    fn of(times: &Latency, count: u64, percent: f64) -> Self {
        match times.at(percent) {
            _ if !is_told(count, percent) => Self::TooFew,
            Some(us) => Self::Us(us),
            None if times.max_us > 0.0 => Self::LongerThan(times.max_us),
            None => Self::TooFew,
        }
    }

    /// Microseconds, where these are known.
    pub fn us(self) -> Option<f64> {
        if let Self::Us(us) = self { Some(us) } else { None }
    }
}

/// `1.2 ms`, `> 587 ms`, and a dash where there were too few.
impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Us(us) => f.write_str(&units::milliseconds(us / 1e3)),
            Self::LongerThan(us) => write!(f, "> {}", units::milliseconds(us / 1e3)),
            Self::TooFew => f.write_str("-"),
        }
    }
}

impl Done {
    /// A percentile of its service times.
    pub fn service_at(&self, percent: f64) -> Percentile {
        Percentile::of(&self.service, self.ops, percent)
    }

    /// A percentile of its answers; operations that were never done count as slower than all that were.
    pub fn answer_at(&self, percent: f64) -> Percentile {
        Percentile::of(&self.answer, self.wanted(), percent)
    }

    /// Number of operations beyond a percentile.
    pub fn beyond(&self, percent: f64) -> f64 {
        beyond(self.wanted(), percent)
    }

    /// True if there are enough operations beyond a percentile to compare it with that of another drive.
    pub fn is_compared(&self, percent: f64) -> bool {
        is_compared(self.wanted(), percent)
    }

    fn wanted(&self) -> u64 {
        self.ops.saturating_add(self.undone)
    }

    /// True if at least 99 % of the offered rate was reached, or no rate was set.
    pub fn is_reached(&self) -> bool {
        self.offered_iops.is_none_or(|offered| self.iops >= 0.99 * offered)
    }
}

/// Kind, share of reads and sizes of a job's operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mix {
    /// True if offsets are random.
    pub random: bool,
    /// Reads among its operations, whole percent.
    pub read_pct: u32,
    /// Size of a read, bytes; of several sizes their mean. 0: it does not read.
    pub read_bytes: u64,
    /// Size of a write, bytes; 0: it does not write.
    pub write_bytes: u64,
}

impl Mix {
    pub fn of(point: &Point) -> Self {
        let bytes = |done: &Option<Done>| done.as_ref().map_or(0, |done| done.bytes_each.round() as u64);
        let (read_bytes, write_bytes) = (bytes(&point.reads), bytes(&point.writes));
        Self { random: point.random, read_pct: point.read_pct.round() as u32, read_bytes, write_bytes }
    }
}

/// `random reads, 4 KiB`, `random 95 % reads, 128 KiB`.
impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.random { "random " } else { "sequential " })?;
        let size = |bytes: u64| units::binary_bytes(bytes as f64);
        match (self.read_bytes, self.write_bytes) {
            (0, 0) => write!(f, "operations"),
            (reads, 0) => write!(f, "reads, {}", size(reads)),
            (0, writes) => write!(f, "writes, {}", size(writes)),
            (reads, writes) if reads == writes => write!(f, "{} % reads, {}", self.read_pct, size(reads)),
            (reads, writes) => {
                write!(f, "{} % reads, {} and writes of {}", self.read_pct, size(reads), size(writes))
            }
        }
    }
}

/// The points of `part`, mix by mix in the order of their first run; within a mix by depth and then by offered rate. If
/// several points have the same place, the last counts.
pub fn curves(points: &[Point], part: Part) -> Vec<(Mix, Vec<&Point>)> {
    let place = |point: &Point| (point.round, point.depth, point.offered_iops().unwrap_or(f64::INFINITY));
    let mut curves: Vec<(Mix, Vec<&Point>)> = Vec::new();
    for point in points.iter().filter(|point| point.part == part) {
        let mix = Mix::of(point);
        let at = curves.iter().position(|(known, _)| *known == mix).unwrap_or_else(|| {
            curves.push((mix, Vec::new()));
            curves.len() - 1
        });
        let curve = &mut curves[at].1;
        curve.retain(|known| place(known) != place(point));
        curve.push(point);
    }
    for (_, curve) in &mut curves {
        curve.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(Ordering::Equal));
    }
    curves
}

/// Fraction of the highest rate that defines the knee: above it, more depth brings little.
const KNEE: f64 = 0.9;

/// Highest sustained rate by a depth sweep: the median of the points with at least 90 % of the best rate, which are
/// those from the knee on. The best point alone is biased upwards: 95 % of it can be more than the drive sustains.
pub fn highest(curve: &[&Point]) -> Option<f64> {
    let best = curve.iter().map(|point| point.iops()).reduce(f64::max).filter(|best| *best > 0.0)?;
    let rates: Vec<f64> = curve.iter().map(|point| point.iops()).filter(|iops| *iops >= KNEE * best).collect();
    Some(median(&rates))
}

/// The knee of a depth sweep: the smallest depth that reaches 90 % of the highest rate. Beyond it operations wait
/// longer and the rate hardly grows.
pub fn knee<'a>(curve: &[&'a Point]) -> Option<&'a Point> {
    let highest = highest(curve)?;
    curve.iter().copied().filter(|point| point.iops() >= KNEE * highest).min_by_key(|point| point.depth)
}

impl Point {
    /// The reads and the writes, as far as the job has them.
    pub fn directions(&self) -> impl Iterator<Item = &Done> {
        self.reads.iter().chain(&self.writes)
    }

    /// Operations that failed.
    pub fn errors(&self) -> u64 {
        self.directions().map(|done| done.errors).sum()
    }

    /// Operations per second that were done.
    pub fn iops(&self) -> f64 {
        self.directions().map(|done| done.iops).sum()
    }

    /// Megabytes (10^6) per second.
    pub fn mbps(&self) -> f64 {
        self.directions().map(|done| done.mbps).sum()
    }

    /// Offered operations per second; `None` if saturated.
    pub fn offered_iops(&self) -> Option<f64> {
        self.directions().map(|done| done.offered_iops).sum()
    }

    /// Reads if there are any, else writes: their latency represents the point.
    pub fn told(&self) -> Option<&Done> {
        self.directions().next()
    }

    /// True if at least 99 % of the offered rate was reached, or no rate was set.
    pub fn is_reached(&self) -> bool {
        self.directions().all(Done::is_reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::point;

    #[test]
    fn a_percentile_that_too_few_operations_tell_is_a_dash() {
        // 10 s of 50 operations a second.
        let mut done = point(Part::Rate, 1, Some((4_096.0, Some(50.0), 50.0, 80.0)), None).reads.unwrap();
        let told = |done: &Done| [50.0, 99.0, 99.9].map(|percent| done.answer_at(percent).to_string());
        assert_eq!(done.ops, 500);
        assert_eq!(told(&done), ["80 us", "240 us", "-"]);
        assert_eq!((done.answer_at(99.9).us(), done.service_at(99.9)), (None, Percentile::TooFew));
        // 20 that were never done took longer than the longest of the others.
        done.undone = 20;
        done.answer.percentiles_us.truncate(12);
        assert_eq!(told(&done), ["80 us", "> 320 us", "-"]);
        assert_eq!((done.is_compared(98.0), done.is_compared(99.0)), (true, false));
        done.ops = 40;
        assert_eq!(told(&done), ["80 us", "-", "-"]);
    }
}
