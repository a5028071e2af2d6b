//! Judging a log by its buckets: the worst share of any complete slice decides, in whole numbers.
//!
//! An ACT log has service times only, and failed operations are in none of its histograms. So this
//! says less than the verdict of a run directory, which has waits and failures too.

use super::{Choice, Histogram, LatencyError, Log, Slice};
use measure::act_log::Test;
use measure::buckets::ActScale;
use measure::judge::{Deciding, Limit, Outcome, Sla};
use serde::Serialize;
use std::fmt;

/// What was found of one log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// The log.
    pub log: String,
    /// Pass, fail, or invalid when there was nothing to judge.
    pub outcome: Outcome,
    /// The limits.
    pub sla: Sla,
    /// By which durations: `service` from a log's buckets, `wait + service` from a run's own counts.
    pub by: &'static str,
    /// The worst share by its limit.
    pub decided_by: Option<Deciding>,
    /// The number that decided, or why nothing could be judged.
    pub reason: String,
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { log, outcome, sla, by, reason, .. } = self;
        write!(f, "{outcome} {log} (SLA {sla}, by {by}): {reason}")
    }
}

/// The histograms of a log that are judged when none are named: reads and commit writes of a storage
/// test (large-block writes when there is nothing else), reads of an index test; of all devices
/// together and of each.
///
/// Errors: the log has none of these.
pub fn judged_names(log: &str, test: Test, names: &[String]) -> Result<Vec<String>, LatencyError> {
    let of = |streams: &[&str]| -> Vec<String> {
        let fits = |name: &&String| {
            streams.iter().any(|stream| {
                name.as_str() == *stream
                    || name.strip_suffix(stream).is_some_and(|device| device.ends_with('-') && device.contains('/'))
            })
        };
        names.iter().filter(fits).cloned().collect()
    };
    let records: &[&str] = match test {
        Test::Storage => &["reads", "writes", "READS", "WRITES"],
        Test::Index => &["reads", "trans-reads"],
    };
    let judged = Some(of(records)).filter(|judged| !judged.is_empty()).unwrap_or_else(|| of(&["large-block-writes"]));
    if judged.is_empty() {
        return Err(LatencyError::NothingToJudge { log: log.to_owned(), has: names.to_vec() });
    }
    Ok(judged)
}

/// The buckets that the table of `choice` and, if there is one, the SLA need of a log; ascending.
///
/// Errors: a threshold lies between two edges of the log's buckets.
pub fn edges(log: &str, scale: ActScale, choice: &Choice, sla: Option<&Sla>) -> Result<Vec<usize>, LatencyError> {
    let mut edges = choice.buckets();
    for limit in sla.iter().flat_map(|sla| sla.limits()) {
        edges.push(edge(log, scale, limit)?);
    }
    edges.sort_unstable();
    edges.dedup();
    Ok(edges)
}

/// The last bucket below a limit's threshold.
fn edge(log: &str, scale: ActScale, limit: &Limit) -> Result<usize, LatencyError> {
    let unit_ns = scale.unit_ns();
    let units = limit.threshold_ns / unit_ns;
    if limit.threshold_ns.is_multiple_of(unit_ns) && units.is_power_of_two() {
        return Ok(units.ilog2() as usize);
    }
    let unit = super::csv::unit(scale);
    let edges = match units.checked_ilog2() {
        None => format!("1 {unit}"),
        Some(below) => format!("{} and {} {unit}", 1_u64 << below, 2_u64 << below),
    };
    Err(LatencyError::Edge { log: log.to_owned(), limit: limit.to_string(), unit, edges })
}

/// Judges histograms of a log that was read with the [`edges`] of the SLA.
pub fn judge(log: &Log, histograms: &[Histogram], sla: &Sla) -> Judgement {
    let worst = shares(log, histograms, sla)
        .max_by(|a, b| a.rank().partial_cmp(&b.rank()).unwrap_or(std::cmp::Ordering::Equal));
    let outcome = match &worst {
        Some(worst) if worst.exceeded => Outcome::Fail,
        // What could not be read may have been the part that failed.
        Some(_) if log.damage.is_none() && log.missing.is_empty() => Outcome::Pass,
        _ => Outcome::Invalid,
    };
    let reason = match (&worst, outcome) {
        (None, _) => format!("no complete slice of {} s has an operation to judge", log.slice_sec),
        (Some(worst), Outcome::Invalid) => format!("a part of it could not be read; of the rest, {}", worst.deciding),
        (Some(worst), _) => worst.deciding.to_string(),
    };
    let decided_by = worst.map(|worst| worst.deciding);
    Judgement { log: log.name.clone(), outcome, sla: sla.clone(), by: "service", decided_by, reason }
}

struct Share {
    deciding: Deciding,
    exceeded: bool,
}

impl Share {
    /// Exact comparison first, so that rounding never decides.
    fn rank(&self) -> (bool, f64) {
        (self.exceeded, self.deciding.share / self.deciding.share_max)
    }
}

fn shares<'a>(log: &'a Log, histograms: &'a [Histogram], sla: &'a Sla) -> impl Iterator<Item = Share> + 'a {
    histograms.iter().flat_map(move |histogram| {
        let name = histogram.index.and_then(|index| log.names.get(index)).unwrap_or(&histogram.name);
        let (device, stream) = device_and_stream(name);
        log.slices_of(histogram).filter(|(_, slice)| slice.total > 0).flat_map(move |(number, slice)| {
            let (device, stream) = (device.clone(), stream.clone());
            sla.limits().iter().filter_map(move |limit| {
                let edge = edge(&log.name, log.scale, limit).ok().and_then(|bucket| log.edge(bucket))?;
                Some(share(&slice, number, edge, limit, device.clone(), stream.clone()))
            })
        })
    })
}

fn share(slice: &Slice<'_>, number: u64, edge: usize, limit: &Limit, device: Option<String>, stream: String) -> Share {
    let (over, wanted) = (slice.over[edge], slice.total);
    let deciding = Deciding {
        stream,
        device,
        slice: number,
        threshold_ns: limit.threshold_ns,
        over,
        wanted,
        share: over as f64 / wanted as f64,
        share_max: limit.share_max(),
    };
    Share { deciding, exceeded: limit.is_exceeded(over, wanted) }
}

/// `/dev/x-reads` is the reads of /dev/x; a name without a path is of all devices.
fn device_and_stream(name: &str) -> (Option<String>, String) {
    match name.rsplit_once('-') {
        Some((device, stream)) if device.contains('/') => (Some(device.to_owned()), stream.to_owned()),
        _ => (None, name.to_owned()),
    }
}
