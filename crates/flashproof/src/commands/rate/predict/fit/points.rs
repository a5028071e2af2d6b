//! The points of a baseline as jobs on simulated drives.

use conclusions::baseline::{DirectionResult, Point};
use load::model_job::{JobResults, ModelJob, PERCENTS};
use std::ops::RangeInclusive;

const NS_PER_SEC: f64 = 1e9;

const DEPTH_MAX: u32 = 4_096;

const SECONDS_MIN: f64 = 0.1;
const SECONDS_MAX: f64 = 1e6;

/// Range of offered rates, operations per second.
const RATES: RangeInclusive<f64> = 1e-2..=1e9;

/// The measured results; `None` if they are unusable.
pub(super) fn measured(done: &DirectionResult) -> Option<JobResults> {
    let times_us = PERCENTS.map(|percent| done.answer_at(percent).us());
    let is_sound = times_us
        .iter()
        .flatten()
        .all(|us| us.is_finite() && *us >= 0.0);
    (is_sound && done.iops.is_finite() && done.iops > 0.0).then_some(JobResults {
        iops: done.iops,
        times_us,
    })
}

/// The job of `point`; `None` if it cannot be compared with a simulation.
pub(super) fn job_of(point: &Point) -> Option<ModelJob> {
    let ways = [point.reads.as_ref(), point.writes.as_ref()];
    let bytes = ways.map(|done| {
        done.map_or(0, |done| {
            done.bytes_each.clamp(0.0, f64::from(u32::MAX)) as u32
        })
    });
    let rates = ways.map(|done| done.and_then(|done| done.offered_iops));
    let offered_iops = match ways
        .iter()
        .zip(rates)
        .filter(|(done, rate)| done.is_some() && rate.is_none())
        .count()
    {
        0 => Some(rates.map(|rate| rate.filter(|rate| RATES.contains(rate)).unwrap_or(0.0))),
        _ if rates == [None; 2] => None,
        // Only one direction has a rate.
        _ => return None,
    };
    let ops = ways.map(|done| done.map_or(0.0, |done| done.ops as f64));
    let sum = ops[0] + ops[1];
    let has_rate = offered_iops.is_none_or(|rates| rates.iter().sum::<f64>() > 0.0);
    let usable = sum > 0.0 && (1..=DEPTH_MAX).contains(&point.depth) && has_rate;
    usable.then(|| ModelJob {
        depth: point.depth,
        read_share: ops[0] / sum,
        bytes,
        offered_iops,
        poisson: point.job.contains("rate_process=poisson"),
        duration_ns: (point.seconds.clamp(SECONDS_MIN, SECONDS_MAX) * NS_PER_SEC) as u64,
    })
}
