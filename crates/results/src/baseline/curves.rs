//! A job's pattern, block size and read share, without its queue depth: the points of one mix form a curve.

use super::point::{Done, Part, Point};
use crate::steady::median;
use crate::units;
use std::fmt;

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
    let mut curves: Vec<(Mix, Vec<&Point>)> = Vec::new();
    for point in points.iter().filter(|point| point.part == part) {
        let mix = Mix::of(point);
        let at = curves.iter().position(|(known, _)| *known == mix).unwrap_or_else(|| {
            curves.push((mix, Vec::new()));
            curves.len() - 1
        });
        let curve = &mut curves[at].1;
        let same = |known: &&Point| {
            (known.depth, known.round) == (point.depth, point.round) && known.offered_iops() == point.offered_iops()
        };
        curve.retain(|known| !same(known));
        curve.push(point);
    }
    let place = |point: &Point| (point.round, point.depth, point.offered_iops().unwrap_or(f64::INFINITY));
    for (_, curve) in &mut curves {
        curve.sort_by(|a, b| {
            let ((a_round, a_depth, a_rate), (b_round, b_depth, b_rate)) = (place(a), place(b));
            a_round.cmp(&b_round).then(a_depth.cmp(&b_depth)).then(a_rate.total_cmp(&b_rate))
        });
    }
    curves
}

/// Part of the highest rate at which more depth brings little: the knee.
const KNEE: f64 = 0.9;

/// Highest sustained rate by a depth sweep: the median of the points with at least 90 % of the best rate, which are
/// those from the knee on. The best point alone is biased upwards: 95 % of it can be more than the drive sustains.
pub fn highest(curve: &[&Point]) -> Option<f64> {
    let best = curve.iter().map(|point| point.iops()).reduce(f64::max).filter(|best| *best > 0.0)?;
    let rates: Vec<f64> = curve.iter().map(|point| point.iops()).filter(|iops| *iops >= KNEE * best).collect();
    Some(median(&rates))
}

/// The knee of a curve of depths: the least depth that does nine tenths of the highest rate. Beyond it operations wait longer and
/// few more are done.
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

    /// Operations a second that were done.
    pub fn iops(&self) -> f64 {
        self.directions().map(|done| done.iops).sum()
    }

    /// Megabytes (10^6) a second.
    pub fn mbps(&self) -> f64 {
        self.directions().map(|done| done.mbps).sum()
    }

    /// Offered operations a second; `None` if saturated.
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

impl Done {
    /// True if at least 99 % of the offered rate was reached, or no rate was set.
    pub fn is_reached(&self) -> bool {
        self.offered_iops.is_none_or(|offered| self.iops >= 0.99 * offered)
    }
}
