//! Evaluation of a run: measured figures, ends of bursts, judged criteria, and the outcome of the run.

use super::criteria::{CheckMetric, Criterion, LimitStatus};
use crate::percentile;
use results::judge::{Limit, Outcome, ReasonCode, Verdict};
use results::steady::{self, ChangePoint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default)]
pub struct Figures {
    pub ops: u64,
    pub bytes: u64,
    /// Duration of the part of the run that is counted, nanoseconds.
    pub ran_ns: u64,
    pub mean_ns: f64,
    /// Percent and latency in nanoseconds, ascending.
    pub percentiles_ns: Vec<(f64, u64)>,
}

impl Figures {
    /// The latency at percentile `percent`, nanoseconds, even if there were few operations.
    pub fn percentile_ns(&self, percent: f64) -> Option<f64> {
        self.percentiles_ns
            .iter()
            .find(|(of, _)| *of == percent)
            .map(|(_, ns)| *ns as f64)
    }

    /// Value of a metric; `None` if there were too few operations.
    pub fn value(&self, metric: CheckMetric) -> Option<f64> {
        let per_sec =
            |count: u64| (self.ran_ns > 0).then(|| count as f64 * 1e9 / self.ran_ns as f64);
        match metric {
            CheckMetric::Percentile(percent) => self
                .percentile_ns(percent)
                .filter(|_| percentile::is_resolved(self.ops, percent)),
            CheckMetric::Mean => (self.ops > 0).then_some(self.mean_ns),
            CheckMetric::Iops => per_sec(self.ops),
            CheckMetric::Bandwidth => per_sec(self.bytes),
        }
    }
}

/// A criterion with its measured value and outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Judged")]
pub struct JudgedCriterion {
    #[serde(flatten)]
    pub criterion: Criterion,
    /// Measured value: nanoseconds, or operations or bytes per second. For a rate with a limit, the rate of the slowest
    /// slice. `None`: too few operations.
    pub figure: Option<f64>,
    pub outcome: Outcome,
    /// True if the rate after the end of a burst was judged.
    #[serde(default)]
    pub behind_burst: bool,
}

/// Highest rate after the end of a burst, as a fraction of the rate before. Other programs cause smaller drops.
const BURST_END: f64 = 2.0 / 3.0;

/// Minimum time from the end of a burst to the end of the run: in seconds, and as a fraction of the run. A fall of the
/// rate later in the run may be a stall.
const BURST_REST_SEC: f64 = 60.0;
const BURST_REST: f64 = 1.0 / 3.0;

/// Change points at which a burst ended: the rate of a stream fell for good. After a stall, the rate rises again.
pub fn burst_ends(points: Vec<ChangePoint>, ran_sec: f64) -> Vec<ChangePoint> {
    let mut ends = Vec::new();
    for point in &points {
        let is_fall = point.metric == steady::RoundMetric::AchievedIops
            && point.after <= point.before * BURST_END
            && ran_sec - point.at_sec as f64 >= BURST_REST_SEC.max(ran_sec * BURST_REST);
        let mut later = points.iter().filter(|later| {
            later.metric == point.metric
                && later.at_sec > point.at_sec
                && later.group == point.group
        });
        if is_fall && !later.any(|later| later.after > point.before * BURST_END) {
            ends.push(point.clone());
        }
    }
    ends
}

/// Judges a criterion by the results of its run. `burst_ends`: ends of bursts; the last one begins the sustained state.
pub fn judge(
    criterion: &Criterion,
    verdict: &Verdict,
    figures: &Figures,
    burst_ends: &[ChangePoint],
) -> JudgedCriterion {
    let judged = |figure, outcome, behind_burst| JudgedCriterion {
        criterion: criterion.clone(),
        figure,
        outcome,
        behind_burst,
    };
    let figure = figures.value(criterion.metric);
    // A limit of a higher tier does not decide, but the rate shown with it is also that of the slowest slice.
    let decides = criterion.deciding_limit().is_some();
    let is_of_tier =
        criterion.is_of_higher_tier && criterion.standing.is_none_or(LimitStatus::decides);
    let limit = criterion
        .limit
        .filter(|_| decides || is_of_tier && !criterion.metric.is_latency());
    let Some(limit) = limit else {
        return judged(figure, Outcome::Measured, false);
    };
    let group = verdict
        .groups
        .iter()
        .find(|group| group.stream == criterion.stream);
    let slices = group.map_or(&[][..], |group| &group.slices);
    let whole_slices: Vec<_> = slices
        .iter()
        .filter(|slice| slice.complete && slice.scheduled > 0)
        .collect();
    let counted_slices = if whole_slices.is_empty() {
        slices.iter().collect()
    } else {
        whole_slices
    };
    // Units of the metric per operation: bytes, or 1.
    let units_per_op = if criterion.metric == CheckMetric::Bandwidth {
        figures.bytes as f64 / figures.ops.max(1) as f64
    } else {
        1.0
    };
    let (figure, is_missed) = match criterion.metric {
        CheckMetric::Percentile(percent) => {
            let of_sla = criterion
                .sla()
                .ok()
                .flatten()
                .and_then(|sla| sla.limits().first().copied());
            // With few operations the percentile is the longest latency, and the limit still applies.
            (
                figures.percentile_ns(percent).filter(|_| figures.ops > 0),
                of_sla.and_then(|limit: Limit| {
                    let at = verdict
                        .thresholds_ns
                        .iter()
                        .position(|known| *known == limit.threshold_ns)?;
                    Some(counted_slices.iter().any(|slice| {
                        slice
                            .judged_over
                            .get(at)
                            .is_none_or(|over| limit.is_exceeded(*over, slice.scheduled))
                    }))
                }),
            )
        }
        // A mean cannot be judged, because it includes this program's delays.
        CheckMetric::Mean => (figure, None),
        CheckMetric::Iops | CheckMetric::Bandwidth => {
            // A closed loop issues a full queue at its start: the first slice has these operations beyond the steady
            // rate. As many complete after the end of the run, so their number is subtracted, as in the verdict.
            let total = verdict
                .streams
                .iter()
                .find(|stream| stream.name == criterion.stream);
            let burst_ops = total
                .filter(|stream| stream.offered_iops == 0.0)
                .map_or(0, |stream| stream.overtime);
            let slowest = counted_slices
                .iter()
                .filter(|slice| slice.complete)
                .map(|slice| {
                    let ahead = if slice.slice == 1 { burst_ops } else { 0 };
                    slice.scheduled.saturating_sub(ahead) as f64 * units_per_op
                        / verdict.slice_sec.max(1) as f64
                })
                .reduce(f64::min);
            let figure = slowest.or(figure);
            (figure, figure.map(|figure| figure < limit))
        }
    };
    let last = burst_ends
        .iter()
        .rev()
        .find(|end| end.group.stream == criterion.stream);
    let after_burst = last
        .filter(|_| !criterion.metric.is_latency())
        .map(|end| end.after * units_per_op);
    let (figure, is_missed) = match after_burst {
        Some(after) if after < limit => (Some(after), Some(true)),
        _ => (figure, is_missed),
    };
    let froze = froze(verdict);
    let is_told = criterion
        .metric
        .percent()
        .is_none_or(|percent| percentile::is_resolved(figures.ops, percent));
    let outcome = match (is_missed, verdict.outcome) {
        _ if !decides => Outcome::Measured,
        (None, _) | (_, Outcome::Invalid) => Outcome::Invalid,
        (Some(true), _) => Outcome::Fail,
        (Some(false), _) if verdict.is_broken() || froze => Outcome::Fail,
        // No operation was too slow, but the operations were too few to determine the percentile.
        (Some(false), _) if !is_told => Outcome::Measured,
        (Some(false), _) => Outcome::Pass,
    };
    judged(figure, outcome, after_burst.is_some())
}

fn froze(verdict: &Verdict) -> bool {
    verdict
        .reasons
        .iter()
        .any(|reason| reason.code == ReasonCode::Silence)
}

/// Outcome of a run with these criteria. If no queue depth met fio's latency_target, or the load was not carried out,
/// the run fails only if a criterion has a limit: without limits, the load is an assumption. On a busy host a run is
/// invalid instead of failed, unless operations failed or were lost, which happens on any host.
pub fn outcome_of_run<'c>(
    verdict: &Verdict,
    mut criteria: impl Iterator<Item = &'c Criterion>,
    is_host_busy: bool,
) -> Outcome {
    let is_goal = verdict.reasons.first().is_some_and(|reason| {
        matches!(reason.code, ReasonCode::Missed | ReasonCode::NotCarriedOut)
    });
    let is_assumption = is_goal
        && !froze(verdict)
        && criteria.all(|criterion| criterion.deciding_limit().is_none());
    if is_assumption {
        Outcome::Measured
    } else if is_host_busy && verdict.outcome == Outcome::Fail && !verdict.is_broken() {
        Outcome::Invalid
    } else {
        verdict.outcome
    }
}
impl JudgedCriterion {
    /// How much of the limit is used: 1 at the limit, above 1 beyond it; 0 without a figure or limit.
    pub fn fraction_of_limit(&self) -> f64 {
        match (self.figure, self.criterion.limit) {
            (Some(figure), Some(limit)) if self.criterion.metric.is_latency() => figure / limit,
            (Some(figure), Some(limit)) => limit / figure.max(f64::MIN_POSITIVE),
            _ => 0.0,
        }
    }

    /// How many times better than the limit the figure is: 1 at the limit, below 1 beyond it.
    pub fn margin(&self) -> f64 {
        1.0 / self.fraction_of_limit()
    }

    pub fn is_beyond_shown_limit(&self) -> bool {
        self.criterion.only_shown_as().is_some() && self.fraction_of_limit() >= 1.0
    }

    pub fn figure_text(&self) -> String {
        self.figure.map_or_else(
            || "too few operations".to_owned(),
            |figure| self.criterion.metric.text(figure),
        )
    }
}
