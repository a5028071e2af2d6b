//! First estimates of a drive's parameters, each from a single point, without a simulation.
//!
//! A closed loop of one operation shows service times and their variation; more operations in flight show the number of
//! channels; large blocks show the bandwidth. A parameter with two sources gets two estimates, and the search decides.

use super::{
    CHANNELS, ComparedPoint, JITTER, READ, STALL_EVERY, STALL_MS, Values, WAY, WINDOW, normal,
};
use conclusions::baseline::DirectionResult;

/// Minimum length of a stall: the larger of this multiple of the 98th percentile, and [`STALL_US`].
const STALL_FACTOR: f64 = 4.0;
const STALL_US: f64 = 500.0;
/// Fewer stalls than this do not determine a period.
const STALLS_MIN: f64 = 3.0;
/// Minimum window of a limit: in shorter windows, operations are practically evenly spaced.
const WINDOW_US: f64 = 2_000.0;

/// A value below this fraction of another is clearly lower.
const FEWER: f64 = 0.8;

/// A closed loop of reads alone, or of writes alone.
struct Pure<'a> {
    depth: f64,
    results: &'a DirectionResult,
    met_stall: bool,
}

/// Closed-loop points with reads (0) or writes (1) only.
fn pure<'a>(data: &'a [ComparedPoint<'_>], direction: usize) -> Vec<Pure<'a>> {
    data.iter()
        .filter_map(|datum: &'a ComparedPoint<'_>| {
            let by_direction = [&datum.point.reads, &datum.point.writes];
            let alone =
                by_direction[1 - direction].is_none() && datum.measured[direction].is_some();
            let results = by_direction[direction]
                .as_ref()
                .filter(|done| alone && done.offered_iops.is_none())?;
            Some(Pure {
                depth: f64::from(datum.point.depth),
                results,
                met_stall: datum.met_stall,
            })
        })
        .collect()
}

/// Measurements of one direction.
struct Way {
    /// Latency of a small operation at the lowest depth, microseconds, and the size of this operation. If that depth is
    /// 1, the latency is the median, otherwise the first percentile.
    alone_us: f64,
    bytes: f64,
    /// MB/s from the difference in latency between small and large operations.
    slope_mbps: Option<f64>,
    max_mbps: f64,
    max_iops: f64,
    /// Highest MB/s of small operations, and highest IOPS of large ones; 0 if not measured.
    small_mbps: f64,
    large_iops: f64,
    /// Uniform variation above and below the mean, percent.
    jitter_pct: f64,
    /// Depth, median and wait (us) at the greatest depth at which most operations are fast and the rest wait long.
    window: Option<(f64, f64, f64)>,
}

/// A percentile in microseconds; 0 if there are too few operations for it.
fn at(done: &DirectionResult, percent: f64) -> f64 {
    done.answer_at(percent).us().unwrap_or(0.0)
}

impl Way {
    fn from_points(data: &[ComparedPoint<'_>], direction: usize) -> Option<Self> {
        let points = pure(data, direction);
        let small = points.iter().min_by(|a, b| {
            let by_size = a.results.bytes_each.total_cmp(&b.results.bytes_each);
            a.depth.total_cmp(&b.depth).then(by_size)
        })?;
        let large = points.iter().min_by(|a, b| {
            let by_size = a.results.bytes_each.total_cmp(&b.results.bytes_each);
            a.depth.total_cmp(&b.depth).then(by_size.reverse())
        })?;
        let waits = |pure: &Pure<'_>| (pure.depth, at(pure.results, 50.0), at(pure.results, 99.9));
        let window = points
            .iter()
            .filter(|pure| !pure.met_stall)
            .map(waits)
            .filter(|(_, median_us, wait_us)| *wait_us > WINDOW_US.max(8.0 * median_us));
        let times = small.results;
        let alone_us = at(times, if small.depth > 1.0 { 1.0 } else { 50.0 });
        let more_us = at(large.results, 50.0) - at(times, 50.0);
        let more_bytes = large.results.bytes_each - small.results.bytes_each;
        let min_bytes = points
            .iter()
            .map(|pure| pure.results.bytes_each)
            .fold(f64::INFINITY, f64::min);
        let mut way = Self {
            alone_us,
            bytes: small.results.bytes_each,
            slope_mbps: (small.depth == large.depth && more_bytes > 0.0 && more_us > 1.0)
                .then(|| more_bytes / more_us),
            max_mbps: 0.0,
            max_iops: 0.0,
            small_mbps: 0.0,
            large_iops: 0.0,
            // The 5th to the 95th percentile span nine tenths of the range.
            jitter_pct: (at(times, 95.0) - at(times, 5.0)) / (1.8 * alone_us.max(0.1)) * 100.0,
            window: window.max_by(|one, other| one.0.total_cmp(&other.0)),
        };
        for pure in &points {
            let DirectionResult {
                iops, bytes_each, ..
            } = pure.results;
            let mbps = iops * bytes_each / 1e6;
            way.max_mbps = way.max_mbps.max(mbps);
            way.max_iops = way.max_iops.max(*iops);
            if *bytes_each < 2.0 * min_bytes {
                way.small_mbps = way.small_mbps.max(mbps);
            } else {
                way.large_iops = way.large_iops.max(*iops);
            }
        }
        Some(way)
    }

    /// Candidates for the bandwidth, MB/s.
    fn bandwidths(&self) -> Vec<f64> {
        let slope = self.slope_mbps.filter(|mbps| *mbps > self.max_mbps * 1.05);
        [Some(self.max_mbps), slope, Some(self.max_mbps * 3.0)]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// Length (ms) and period (s) of stalls, from queue depth 1: each stall delays one operation, by its length.
fn stalls(data: &[ComparedPoint<'_>]) -> Option<(f64, f64)> {
    let mut lengths_us = Vec::new();
    let mut stall_squares = Vec::new();
    for direction in [0, 1] {
        for Pure { results, .. } in pure(data, direction)
            .into_iter()
            .filter(|pure| pure.depth == 1.0)
        {
            let times = &results.answer;
            let usual_us = at(results, 50.0);
            let length_us = times.max_us - usual_us;
            if length_us > (STALL_FACTOR * at(results, 98.0)).max(STALL_US) {
                lengths_us.push(length_us);
            }
            // Mean square around the median, minus what the 98 % of normal operations contribute to that mean.
            let mean_square = times.stdev_us.powi(2) + (times.mean_us - usual_us).powi(2);
            let usual_square = ((at(results, 98.0) - at(results, 1.0)) / 2.0).powi(2) / 3.0;
            stall_squares.push((
                results.ops as f64 / results.iops,
                results.ops as f64 * (mean_square - usual_square).max(0.0),
            ));
        }
    }
    lengths_us.sort_unstable_by(f64::total_cmp);
    let length_us = *lengths_us.get(lengths_us.len() / 2)?;
    let seconds: f64 = stall_squares.iter().map(|(seconds, _)| seconds).sum();
    let stalls = stall_squares
        .iter()
        .map(|(_, squares)| squares)
        .sum::<f64>()
        / length_us.powi(2);
    // The period is at least 10 % longer than a stall.
    (stalls >= STALLS_MIN).then(|| {
        (
            length_us / 1e3,
            (seconds / stalls).max(length_us * 1.1 / 1e6),
        )
    })
}

/// Starting points of the search; `stalls_known`: a watch has measured the stalls. Empty if there are no points of
/// reads alone, or none of writes alone.
pub(super) fn starts(data: &[ComparedPoint<'_>], stalls_known: bool) -> Vec<Values> {
    let (Some(reads), Some(writes)) = (Way::from_points(data, 0), Way::from_points(data, 1)) else {
        return Vec::new();
    };
    let ways = [&reads, &writes];
    let stalls = if stalls_known { None } else { stalls(data) };
    let mut starts = Vec::new();
    for read_mbps in reads.bandwidths() {
        for write_mbps in writes.bandwidths() {
            for channel_factor in [1.0, 1.5] {
                let mut values = Values::default();
                for ((way, mbps), indices) in ways.into_iter().zip([read_mbps, write_mbps]).zip(WAY)
                {
                    values[indices.mbps] = mbps;
                    values[indices.us] = (way.alone_us - way.bytes / mbps).max(0.1 * way.alone_us);
                }
                let read_us = values[READ] + reads.bytes / reads.max_mbps.max(1.0);
                let busy_channels = reads.max_iops * read_us / 1e6;
                values[CHANNELS] = busy_channels.max(1.0) * channel_factor;
                values[JITTER] = reads.jitter_pct.clamp(1.0, 100.0);
                if let Some((ms, every_s)) = stalls {
                    let mut with_stalls = values;
                    (with_stalls[STALL_MS], with_stalls[STALL_EVERY]) = (ms, every_s);
                    starts.push(with_stalls);
                }
                starts.push(values);
            }
        }
    }
    // At a windowed limit most operations are fast, and the rest wait for the next window.
    let of_window = |way: &Way| way.window.map(|window| (window, way.alone_us));
    if let Some(((depth, median_us, wait_us), alone_us)) = of_window(&reads).or(of_window(&writes))
    {
        for ops_alone in [false, true] {
            let mut values = Values::default();
            for (way, indices) in ways.into_iter().zip(WAY) {
                values[indices.us] = way.alone_us;
                // IOPS are limited if small operations move fewer bytes per second than large operations; bandwidth is
                // limited if large operations have fewer IOPS than small ones. If no large operations saturate the
                // drive, either may be limited.
                let by_ops = ops_alone || way.small_mbps < FEWER * way.max_mbps;
                let by_bytes = !ops_alone && (!by_ops || way.large_iops < FEWER * way.max_iops);
                values[indices.iops] = if by_ops { way.max_iops } else { 0.0 };
                values[indices.mbps] = if by_bytes { way.max_mbps } else { 0.0 };
            }
            values[WINDOW] = wait_us / 1e3;
            values[JITTER] = reads.jitter_pct.clamp(1.0, 100.0);
            values[CHANNELS] = (depth * alone_us / median_us.max(0.1)).max(1.0);
            starts.push(values);
        }
    }
    starts.iter().map(normal).collect()
}
